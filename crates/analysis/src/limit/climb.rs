//! The search for the peak: deeper with one worker, then more workers, then around the best, and
//! at last the best few once more.

use super::DEPTHS_MAX;
use super::book::{At, Book};
use super::probe::{Phase, Setting};
use super::stage::{Ask, Heard};

/// A step up must bring at least this much, or it is flat.
pub(super) const GAIN_MIN: f64 = 1.05;
/// So many flat steps end a direction: one may be chance.
const FLAT_STEPS: u32 = 2;
/// Settings within this share of the best are measured again.
const NEAR_BEST: f64 = 0.95;
/// At most so many settings are measured again, so often.
const AGAIN_SETTINGS: usize = 3;
const AGAIN_ROUNDS: usize = 2;

#[derive(Debug)]
enum Step {
    /// One worker, this depth.
    Deepen(u32),
    /// This many workers.
    Spread(u32),
    /// Deeper or shallower than the best with several workers.
    Around {
        top: Setting,
        deeper: bool,
    },
    /// The best few, in turn.
    Again {
        left: Vec<Setting>,
    },
    Done,
}

/// The climb of one target at one block size.
#[derive(Debug)]
pub(super) struct Climb {
    at: At,
    step: Step,
    best: f64,
    flat: u32,
    /// Depth per worker while the workers grow.
    depth: u32,
    /// The last ask gave nothing.
    failed: bool,
}

impl Climb {
    pub fn new(at: At) -> Self {
        Self { at, step: Step::Deepen(1), best: 0.0, flat: 0, depth: 1, failed: false }
    }

    pub fn next(&mut self, book: &Book) -> Option<Ask> {
        while !book.block(self.at).is_broken() {
            if let Step::Again { left } = &mut self.step {
                let again = if self.failed { None } else { left.pop() };
                return again.map(|setting| Ask::one(Phase::Climb, self.at, setting));
            }
            let setting = self.setting()?;
            if !self.failed
                && book.block(self.at).curve.windows(setting) == 0
                && book.allows(self.at, setting)
            {
                return Some(Ask::one(Phase::Climb, self.at, setting));
            }
            self.advance(book, setting);
            self.failed = false;
        }
        None
    }

    pub fn hear(&mut self, heard: &Heard) {
        self.failed = matches!(heard, Heard::Bad(_));
    }

    /// The peak so far: preferably of the settings that were measured more than once. One that is there
    /// already, from an earlier turn, stays where nothing is clearly better.
    pub fn close(&mut self, book: &mut Book) {
        let cores = book.config.cores;
        let block = book.block_mut(self.at);
        let curve = &block.curve;
        let best = curve
            .cheapest_best(|_, c| c.windows() > 1)
            .into_iter()
            .chain(curve.cheapest_best(|_, _| true))
            .reduce(|again, any| {
                // Without time for the second look, a single window that is far better is the better guess.
                if curve.mean(any) > GAIN_MIN * curve.mean(again) { any } else { again }
            });
        let known = block.peak.map_or(0.0, |peak| curve.mean(peak));
        if let Some(best) = best.filter(|s| curve.mean(*s) > GAIN_MIN * known) {
            block.move_peak(best, cores);
        }
    }

    fn setting(&self) -> Option<Setting> {
        match self.step {
            Step::Deepen(depth) => Some(Setting { workers: 1, depth }),
            Step::Spread(workers) => Some(Setting { workers, depth: self.depth }),
            Step::Around { top, deeper } => {
                let depth = if deeper { top.depth.saturating_mul(2) } else { top.depth / 2 };
                Some(Setting { depth: depth.max(1), ..top })
            }
            Step::Again { .. } | Step::Done => None,
        }
    }

    /// Goes on from `setting`, which has been measured or cannot be.
    fn advance(&mut self, book: &Book, setting: Setting) {
        let curve = &book.block(self.at).curve;
        let measured = curve.windows(setting) > 0;
        match self.step {
            Step::Deepen(depth) => {
                let deepest = depth.saturating_mul(2) > DEPTHS_MAX[self.at.block];
                if !measured || self.is_flat(curve.mean(setting)) || deepest {
                    self.start_spread(book);
                } else {
                    self.step = Step::Deepen(depth * 2);
                }
            }
            Step::Spread(workers) => {
                let cores = book.config.cores;
                if !measured || self.is_flat(curve.mean(setting)) || workers >= cores {
                    self.start_around(book);
                } else {
                    self.spread_to(book, workers.saturating_mul(2).min(cores));
                }
            }
            Step::Around { top, deeper } => {
                let better = curve.mean(setting) >= GAIN_MIN * curve.mean(top) && setting != top;
                let room = setting.depth < DEPTHS_MAX[self.at.block];
                match (better, deeper) {
                    (true, _) if room => self.step = Step::Around { top: setting, deeper },
                    (false, true) => self.step = Step::Around { top, deeper: false },
                    _ => self.start_again(book),
                }
            }
            Step::Again { .. } | Step::Done => {}
        }
    }

    /// Whether the direction has ended: the last steps brought nothing.
    fn is_flat(&mut self, mean: f64) -> bool {
        self.flat = if mean >= GAIN_MIN * self.best && mean > 0.0 { 0 } else { self.flat + 1 };
        self.best = self.best.max(mean);
        self.flat >= FLAT_STEPS
    }

    fn start_spread(&mut self, book: &Book) {
        match book.block(self.at).best_of_one_worker() {
            None => self.step = Step::Done,
            Some(one) => {
                self.flat = 0;
                self.depth = one.depth;
                if book.config.cores > 1 { self.spread_to(book, 2) } else { self.start_again(book) }
            }
        }
    }

    fn spread_to(&mut self, book: &Book, workers: u32) {
        let depth_max = book.in_flight_max(self.at) / u64::from(workers.max(1));
        self.depth = self.depth.min(u32::try_from(depth_max).unwrap_or(u32::MAX)).max(1);
        self.step = Step::Spread(workers);
    }

    fn start_around(&mut self, book: &Book) {
        match book.block(self.at).curve.cheapest_best(|_, _| true) {
            Some(top) if top.workers > 1 => {
                let deeper = top.depth < DEPTHS_MAX[self.at.block];
                self.step = Step::Around { top, deeper };
            }
            Some(_) => self.start_again(book),
            None => self.step = Step::Done,
        }
    }

    fn start_again(&mut self, book: &Book) {
        let curve = &book.block(self.at).curve;
        let best = curve.iter().map(|(_, c)| c.mean()).fold(0.0, f64::max);
        let mut near: Vec<_> = curve.iter().filter(|(_, c)| c.mean() >= NEAR_BEST * best).collect();
        near.sort_by(|a, b| b.1.mean().total_cmp(&a.1.mean()));
        near.truncate(AGAIN_SETTINGS);
        let mut left: Vec<Setting> = near.iter().map(|(s, _)| *s).collect();
        if let Some(cheapest) = curve.cheapest_best(|_, _| true).filter(|s| !left.contains(s)) {
            left.push(cheapest);
        }
        self.step = Step::Again { left: left.repeat(AGAIN_ROUNDS) };
    }
}
