//! Counter-experiments: the setting in question in turn with one thing changed.

use super::book::{At, Book};
use super::climb::GAIN_MIN;
use super::curve::Cell;
use super::outcome::{Experiment, ExperimentKind, Point};
use super::probe::{Measurement, Phase, Setting};
use super::stage::{Ask, Heard};
use super::{DEPTHS_MAX, KNEE_SHARE};
use crate::stats::{Estimate, Ratio};

/// Rounds of base and changes: at least; in one turn at most.
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 12;
/// An interval of ±3% is narrow enough.
pub(super) const NARROW: f64 = 0.03;
/// With the processors this full it is worth asking what fewer of them do.
pub(super) const CORES_SUSPECT: f64 = 0.85;

/// One change.
#[derive(Debug)]
struct Arm {
    kind: ExperimentKind,
    setting: Setting,
    cores: Option<u32>,
    cell: Cell,
    base: Vec<f64>,
    refused: Option<String>,
}

/// What the experiments at one setting gave.
#[derive(Debug)]
pub(super) struct Counted {
    pub base: Point,
    pub experiments: Vec<Experiment>,
    /// The setting that was left for this one, and how many times as much this one did.
    pub moved: Option<(Setting, Ratio)>,
}

impl Counted {
    /// Whether any experiment was made, or could not be for a reason worth telling.
    pub fn says_something(&self) -> bool {
        self.experiments.iter().any(|e| e.gain.is_some() || e.refused.is_some())
    }
}

/// The experiments at the peak, or where one worker is at its best.
#[derive(Debug)]
pub(super) struct Counter {
    at: At,
    phase: Phase,
    base: Option<Setting>,
    cell: Cell,
    arms: Vec<Arm>,
    /// 0 is the base, n the n-th arm.
    turn: usize,
    /// Rounds in this turn.
    rounds: usize,
    moved: Option<(Setting, Ratio)>,
    /// I/Os per second of this round's base; `None` when that window was bad.
    round_base: Option<f64>,
}

impl Counter {
    pub fn at_peak(at: At) -> Self {
        Self::new(at, Phase::Counter)
    }

    pub fn at_one_worker(at: At) -> Self {
        Self::new(at, Phase::CounterOne)
    }

    fn new(at: At, phase: Phase) -> Self {
        Self {
            at,
            phase,
            base: None,
            cell: Cell::default(),
            arms: Vec::new(),
            turn: 0,
            rounds: 0,
            moved: None,
            round_base: None,
        }
    }

    pub fn weight(&self) -> f64 {
        if self.phase == Phase::Counter { 15.0 } else { 9.0 }
    }

    pub fn next(&mut self, book: &mut Book) -> Option<Ask> {
        if book.block(self.at).is_broken() {
            return None;
        }
        if self.base.is_none() || self.is_elsewhere(book) {
            let base = self.question(book)?;
            self.moved = None;
            self.start(book, base);
        }
        loop {
            if self.turn > self.arms.len() {
                self.turn = 0;
                self.rounds += 1;
                self.suspect_cores(book);
            }
            if self.turn == 0 && self.cell.windows() >= ROUNDS_MIN {
                let settled = self.is_settled();
                let better = if settled { helps } else { surely_helps };
                if !self.moves_up(book, better) && settled {
                    return None;
                }
            }
            let base = self.base?;
            if self.turn == 0 {
                return Some(Ask::one(self.phase, self.at, base));
            }
            let arm = &self.arms[self.turn - 1];
            if arm.refused.is_none() {
                let ask = Ask::one(self.phase, self.at, arm.setting);
                return Some(Ask { cores: arm.cores, ..ask });
            }
            self.turn += 1;
        }
    }

    pub fn hear(&mut self, heard: &Heard) {
        let window = match heard {
            Heard::Clean(window) => Some(*window),
            Heard::Bad(_) => None,
        };
        match self.turn.checked_sub(1) {
            None => {
                self.round_base = window.and_then(|w| add(&mut self.cell, w));
            }
            Some(arm) => {
                let arm = &mut self.arms[arm];
                match (window, self.round_base) {
                    (Some(window), Some(base)) => {
                        if add(&mut arm.cell, window).is_some() {
                            arm.base.push(base);
                        }
                    }
                    (Some(_), None) => {}
                    (None, _) => {
                        if let Heard::Bad(why) = heard {
                            arm.refused = Some((*why).to_string());
                        }
                    }
                }
            }
        }
        self.turn += 1;
    }

    pub fn close(&mut self, book: &mut Book) {
        if self.is_elsewhere(book) {
            return;
        }
        // What is surely better is the peak also where no time is left to look further from there.
        self.moves_up(book, helps);
        // A round that was broken off begins anew.
        (self.turn, self.rounds, self.round_base) = (0, 0, None);
        let Some(base) = self.base.filter(|_| self.cell.windows() > 0) else { return };
        let cores = book.config.cores;
        let counted = Counted {
            base: self.cell.point(base, cores),
            experiments: self.arms.iter().map(|arm| arm.experiment(&self.cell, cores)).collect(),
            moved: self.moved,
        };
        let block = book.block_mut(self.at);
        if self.phase == Phase::Counter {
            block.at_peak = Some(counted);
        } else {
            block.at_one_worker = Some(counted);
        }
    }

    /// Whether the peak is no longer where these experiments were made.
    fn is_elsewhere(&self, book: &Book) -> bool {
        self.phase == Phase::Counter && self.base != book.block(self.at).peak
    }

    /// The setting to ask about, if there is a question.
    fn question(&self, book: &Book) -> Option<Setting> {
        let block = book.block(self.at);
        let peak = block.peak?;
        if self.phase == Phase::Counter {
            return Some(peak);
        }
        let one = block.best_of_one_worker().filter(|_| peak.workers > 1)?;
        (block.curve.mean(one) < KNEE_SHARE * block.curve.mean(peak)).then_some(one)
    }

    fn start(&mut self, book: &Book, base: Setting) {
        let deeper = Setting { depth: base.depth.saturating_mul(2), ..base };
        let more = Setting { workers: base.workers + (base.workers / 2).max(1), ..base };
        self.base = Some(base);
        self.cell = Cell::default();
        self.arms = vec![
            Arm::new(book, self.at, ExperimentKind::Deeper, deeper, None),
            Arm::new(book, self.at, ExperimentKind::MoreWorkers, more, None),
        ];
        (self.turn, self.rounds) = (0, 0);
    }

    /// Adds the experiment with fewer processors once they look full.
    fn suspect_cores(&mut self, book: &Book) {
        let known = self.arms.iter().any(|arm| arm.kind == ExperimentKind::FewerCores);
        let full = self.cell.cpu().is_some_and(|c| c.taken() >= CORES_SUSPECT);
        let half = book.config.cores / 2;
        if let (true, Some(base)) = (full && !known && half > 0, self.base) {
            self.arms.push(Arm::new(book, self.at, ExperimentKind::FewerCores, base, Some(half)));
        }
    }

    fn is_settled(&self) -> bool {
        let narrow = Estimate::of(&self.cell.iops).relative().is_some_and(|r| r <= NARROW);
        let enough = |arm: &Arm| arm.refused.is_some() || arm.is_clear();
        self.rounds >= ROUNDS_MAX || (narrow && self.arms.iter().all(enough))
    }

    /// A change that is better, and that the climb could have come to, becomes the peak, and the
    /// experiments begin anew there.
    fn moves_up(&mut self, book: &mut Book, is_better: fn(&Ratio) -> bool) -> bool {
        let Some(base) = self.base.filter(|_| self.phase == Phase::Counter) else { return false };
        let (cores, depth_max) = (book.config.cores, DEPTHS_MAX[self.at.block]);
        let better = self
            .arms
            .iter()
            .filter(|arm| arm.cores.is_none())
            .filter(|arm| arm.setting.workers <= cores && arm.setting.depth <= depth_max)
            .filter_map(|arm| Some((arm.gain().filter(is_better)?, arm)))
            .max_by(|a, b| a.0.value.total_cmp(&b.0.value));
        let Some((gain, arm)) = better else { return false };
        self.moved = Some((base, gain));
        let (setting, base) = (arm.setting, arm.cell.point(arm.setting, cores));
        let block = book.block_mut(self.at);
        block.peak = Some(setting);
        block.at_peak = Some(Counted { base, experiments: Vec::new(), moved: self.moved });
        self.start(book, setting);
        true
    }
}

/// Whether a change surely brings something worth having.
pub(super) fn helps(gain: &Ratio) -> bool {
    gain.low > 1.0 && gain.value >= GAIN_MIN
}

/// Whether it does even if one looks again and again until it seems so.
fn surely_helps(gain: &Ratio) -> bool {
    gain.low >= GAIN_MIN
}

impl Arm {
    fn new(
        book: &Book,
        at: At,
        kind: ExperimentKind,
        setting: Setting,
        cores: Option<u32>,
    ) -> Self {
        let refused = (!book.allows(at, setting)).then(|| {
            format!(
                "{} I/Os in flight are more than memory or the kernel allow",
                setting.in_flight()
            )
        });
        Self { kind, setting, cores, cell: Cell::default(), base: Vec::new(), refused }
    }

    fn gain(&self) -> Option<Ratio> {
        let pairs: Vec<_> = self.cell.iops.iter().copied().zip(self.base.iter().copied()).collect();
        Ratio::paired(&pairs)
    }

    /// Narrow, or so far from 1 that a narrower interval would change nothing.
    fn is_clear(&self) -> bool {
        self.gain().is_some_and(|g| g.spread() <= NARROW || g.low > 1.25 || g.high < 0.8)
    }

    fn experiment(&self, base: &Cell, all_cores: u32) -> Experiment {
        let (changed_ns, base_ns) = (self.cell.clat_mean_ns(), base.clat_mean_ns());
        Experiment {
            kind: self.kind,
            setting: self.setting,
            cores: self.cores.unwrap_or(all_cores),
            base_iops: Estimate::of(&self.base),
            changed_iops: Estimate::of(&self.cell.iops),
            gain: self.gain(),
            latency_ratio: (changed_ns > 0.0 && base_ns > 0.0).then(|| changed_ns / base_ns),
            refused: self.refused.clone(),
        }
    }
}

/// Adds a window with a single load; gives its I/Os per second.
fn add(cell: &mut Cell, window: &Measurement) -> Option<f64> {
    cell.add(window, window.loads.first()?);
    cell.iops.last().copied()
}
