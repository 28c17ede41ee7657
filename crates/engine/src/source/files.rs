//! The file of the next I/O.

use super::distribution::below;
use fathom_model::plan::{FileService, JobPlan};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How to choose the next region.
pub(super) enum Service {
    RoundRobin,
    Random,
    Sequential,
    /// From a few open at once, round-robin or at random.
    Window(Box<Window>),
}

impl Service {
    pub fn new(job: &JobPlan) -> Self {
        let count = job.regions.len();
        let open = job.open_files.map(|open| (open as usize).max(1)).filter(|open| *open < count);
        match (job.file_service, open) {
            (FileService::Sequential, _) => Self::Sequential,
            (FileService::RoundRobin, None) => Self::RoundRobin,
            (FileService::Random, None) => Self::Random,
            (service, Some(open)) => Self::Window(Box::new(Window {
                open: (0..open).collect(),
                at: 0,
                closed: open,
                random: service == FileService::Random,
            })),
        }
    }
}

/// The regions in use, if not all of them (`openfiles`).
pub(super) struct Window {
    /// Never empty.
    open: Vec<usize>,
    /// Index of the current region in `open`.
    at: usize,
    /// The next region to use.
    closed: usize,
    random: bool,
}

impl Window {
    /// Replaces the current region, which was transferred as a whole, by the next of `count`.
    pub fn replace(&mut self, count: usize) {
        self.open[self.at] = self.closed;
        // With fewer closed regions than open ones, the next may still be in use.
        self.closed = (1..=count)
            .map(|step| (self.closed + step) % count)
            .find(|region| !self.open.contains(region))
            .unwrap_or(self.closed);
    }

    /// The region of the next I/O.
    pub fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> usize {
        self.at = match self.random {
            true => below(random, self.open.len() as u64) as usize,
            false => (self.at + 1) % self.open.len(),
        };
        self.open[self.at]
    }
}
