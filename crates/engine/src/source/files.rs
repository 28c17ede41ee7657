//! The file of the next I/O.

use super::distribution::below;
use fathom_model::plan::{FileService, JobPlan};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) enum Service {
    RoundRobin,
    Random,
    Sequential,
    /// Of a few at once, or each for several I/Os, round-robin or at random.
    Window(Box<OpenRegions>),
}

impl Service {
    pub fn new(job: &JobPlan) -> Self {
        let count = job.regions.len();
        let open = job.open_files.map(|open| (open as usize).max(1)).filter(|open| *open < count);
        let run = job.file_service_ios.max(1);
        match (job.file_service, open, run) {
            (FileService::Sequential, ..) => Self::Sequential,
            (FileService::RoundRobin, None, 1) => Self::RoundRobin,
            (FileService::Random, None, 1) => Self::Random,
            (service, open, run) => Self::Window(Box::new(OpenRegions {
                open: (0..open.unwrap_or(count)).collect(),
                at: 0,
                closed: open.unwrap_or(0),
                random: service == FileService::Random,
                run,
                left: run,
            })),
        }
    }
}

/// The regions in use, all or only some of them (`openfiles`).
pub(super) struct OpenRegions {
    /// Never empty.
    open: Vec<usize>,
    /// Index of the current region in `open`.
    at: usize,
    closed: usize,
    random: bool,
    /// I/Os to a region before the next is chosen (`file_service_type=random:N`).
    run: u32,
    left: u32,
}

impl OpenRegions {
    /// Replaces the current region, which was transferred as a whole, by the next of `count`.
    pub fn replace(&mut self, count: usize) {
        if self.open.len() == count {
            return;
        }
        self.left = 1;
        self.open[self.at] = self.closed;
        // With fewer closed regions than open ones, the next may still be in use.
        self.closed = (1..=count)
            .map(|step| (self.closed + step) % count)
            .find(|region| !self.open.contains(region))
            .unwrap_or(self.closed);
    }

    pub fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> usize {
        self.left -= 1;
        if self.left > 0 {
            return self.open[self.at];
        }
        self.left = self.run;
        self.at = match self.random {
            true => below(random, self.open.len() as u64) as usize,
            false => (self.at + 1) % self.open.len(),
        };
        self.open[self.at]
    }
}
