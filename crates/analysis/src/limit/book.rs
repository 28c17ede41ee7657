//! What a search knows so far.

use super::counter::Counted;
use super::curve::Curve;
use super::outcome::{
    BlockLimit, KneePoint, LimitReport, OwnCeiling, Problem, TargetLimit, Together,
};
use super::probe::{CpuShares, LoadMeasure, Setting};
use super::verdict::{self, Evidence};
use super::{BLOCKS, Config, DEPTHS_MAX};
use crate::stats::{Estimate, Ratio};

/// After this many windows with errors a target is left alone.
const BAD_WINDOWS_MAX: u32 = 3;

/// Everything that the stages of a search share.
#[derive(Debug)]
pub(super) struct Book {
    pub config: Config,
    pub idle: Option<CpuShares>,
    /// Operations per second of the NOP ring: one worker, all cores.
    pub own: [Vec<f64>; 2],
    /// By target, then by index into [`BLOCKS`].
    pub targets: Vec<[BlockBook; 2]>,
    pub together: Vec<Together>,
}

/// Which target and which of [`BLOCKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub target: usize,
    pub block: usize,
}

/// One target at one block size.
#[derive(Debug, Default)]
pub(super) struct BlockBook {
    pub curve: Curve,
    pub peak: Option<Setting>,
    pub at_peak: Option<Counted>,
    pub at_one_worker: Option<Counted>,
    pub knee_refined: bool,
    pub knee: Option<Setting>,
    pub problems: Vec<Problem>,
    bad_windows: u32,
    /// Settings with this many in flight, or more, could not be had.
    refused_in_flight: Option<u64>,
}

impl Book {
    pub fn new(config: Config) -> Self {
        let targets = config.targets.iter().map(|_| Default::default()).collect();
        Self { config, idle: None, own: Default::default(), targets, together: Vec::new() }
    }

    pub fn block(&self, at: At) -> &BlockBook {
        &self.targets[at.target][at.block]
    }

    pub fn block_mut(&mut self, at: At) -> &mut BlockBook {
        &mut self.targets[at.target][at.block]
    }

    /// The most I/Os of that size that may be in flight.
    pub fn in_flight_max(&self, at: At) -> u64 {
        let memory = (self.config.buffers_bytes_max / BLOCKS[at.block]).max(1);
        self.block(at).refused_in_flight.map_or(memory, |r| memory.min(r.saturating_sub(1)).max(1))
    }

    /// Whether the search may ask for `setting`: a counter-experiment may go to twice the depth
    /// that the climb goes to.
    pub fn allows(&self, at: At, setting: Setting) -> bool {
        setting.depth <= DEPTHS_MAX[at.block].saturating_mul(2)
            && setting.in_flight() <= self.in_flight_max(at)
    }

    /// The report of all that is known.
    pub fn report(&self) -> LimitReport {
        let own = |i: usize| (!self.own[i].is_empty()).then(|| Estimate::of(&self.own[i]));
        let targets = self.config.targets.iter().zip(&self.targets);
        LimitReport {
            cores: self.config.cores,
            idle: self.idle,
            own: OwnCeiling { one_worker: own(0), all_cores: own(1) },
            targets: targets
                .map(|(name, blocks)| TargetLimit {
                    name: name.clone(),
                    blocks: (0..BLOCKS.len()).map(|b| self.block_limit(&blocks[b], b)).collect(),
                })
                .collect(),
            together: self.together.clone(),
            ..LimitReport::default()
        }
    }

    fn block_limit(&self, book: &BlockBook, block: usize) -> BlockLimit {
        let cores = self.config.cores;
        let point = |s: Setting| book.curve.get(s).map(|cell| cell.point(s, cores));
        let verdict = |counted: &Option<Counted>| {
            counted.as_ref().map(|counted| {
                let depth_max = DEPTHS_MAX[block];
                verdict::decide(&Evidence { counted, idle: self.idle, cores, depth_max })
            })
        };
        BlockLimit {
            block_bytes: BLOCKS[block],
            points: book.curve.iter().map(|(s, cell)| cell.point(s, cores)).collect(),
            latency: point(Setting::ONE),
            peak: book.peak.and_then(point),
            knee: book.knee.and_then(|s| {
                let peak = book.curve.get(book.peak?)?;
                Some(KneePoint {
                    point: point(s)?,
                    of_peak: Ratio::welch(&book.curve.get(s)?.iops, &peak.iops),
                    refined: book.knee_refined,
                })
            }),
            verdict: verdict(&book.at_peak),
            one_worker: verdict(&book.at_one_worker),
            problems: book.problems.clone(),
        }
    }
}

impl BlockBook {
    /// Errors, or no way to do any I/O: nothing more is tried here.
    pub fn is_broken(&self) -> bool {
        self.bad_windows >= BAD_WINDOWS_MAX || self.refused_in_flight.is_some_and(|r| r <= 1)
    }

    /// A window with errors or short transfers: it is reported and does not count.
    pub fn bad_window(&mut self, setting: Setting, load: &LoadMeasure) {
        self.bad_windows += 1;
        let message = match &load.first_error {
            Some(message) => message.clone(),
            None if load.errors > 0 => "I/O errors".to_string(),
            None => "I/Os moved fewer bytes than asked".to_string(),
        };
        let (errors, short_ios) = (load.errors, load.short_ios);
        self.note(Problem { setting, errors, short_ios, message });
    }

    /// A setting that could not be had. Nothing with as many in flight is tried again, unless it
    /// was had before: then it is the target that has changed.
    pub fn refuse(&mut self, setting: Setting, message: String) {
        let was_had = self.curve.windows(setting) > 0;
        if was_had {
            self.bad_windows += 1;
        } else {
            let in_flight = setting.in_flight();
            self.refused_in_flight =
                Some(self.refused_in_flight.map_or(in_flight, |r| r.min(in_flight)));
        }
        self.note(Problem { setting, errors: u64::from(was_had), short_ios: 0, message });
    }

    /// One problem for each setting, with the message of the first.
    fn note(&mut self, problem: Problem) {
        if let Some(known) = self.problems.iter_mut().find(|p| p.setting == problem.setting) {
            known.errors = known.errors.saturating_add(problem.errors);
            known.short_ios = known.short_ios.saturating_add(problem.short_ios);
        } else {
            self.problems.push(problem);
        }
    }

    /// Makes `to` the peak, with what was found at that setting: what was found at another is not
    /// said of this one.
    pub fn move_peak(&mut self, to: Setting, cores: u32) {
        self.peak = Some(to);
        if self.at_one_worker.as_ref().is_some_and(|counted| counted.base.setting() == to) {
            self.at_peak = self.at_one_worker.take();
        } else if let (Some(counted), Some(cell)) = (&mut self.at_peak, self.curve.get(to)) {
            *counted =
                Counted { base: cell.point(to, cores), experiments: Vec::new(), moved: None };
        }
    }

    /// The best that a single worker did.
    pub fn best_of_one_worker(&self) -> Option<Setting> {
        self.curve.cheapest_best(|s, _| s.workers == 1)
    }
}
