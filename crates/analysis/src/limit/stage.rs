//! The stages of a search, in the order in which they follow each other.

use super::book::{At, Book};
use super::climb::Climb;
use super::counter::Counter;
use super::curve;
use super::knee::Knee;
use super::probe::{Load, Measurement, Phase, Setting};
use super::together::TogetherStage;

/// Depth of the NOP ring.
const OWN_DEPTH: u32 = 128;
/// Windows of each of the two NOP settings, and of latency at depth 1.
const WINDOWS: usize = 3;

/// What a stage wants measured next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub phase: Phase,
    pub loads: Vec<Load>,
    /// Index into [`super::BLOCKS`].
    pub block: usize,
    pub cores: Option<u32>,
}

impl Ask {
    /// One target at one setting.
    pub fn one(phase: Phase, at: At, setting: Setting) -> Self {
        let loads = vec![Load { target: Some(at.target), setting }];
        Self { phase, loads, block: at.block, cores: None }
    }
}

/// What came of what a stage asked.
#[derive(Debug)]
pub(super) enum Heard<'a> {
    /// A window without errors. It is in the curve already, where the ask was for one target on all cores.
    Clean(&'a Measurement),
    /// A window with errors, or none at all. The book has it already.
    Bad(&'a str),
}

/// One stage.
#[derive(Debug)]
pub(super) enum Stage {
    Idle { done: bool },
    Own { done: usize },
    Latency { at: At, done: usize },
    Climb(Climb),
    Counter(Counter),
    Knee(Knee),
    Together(TogetherStage),
}

impl Stage {
    /// All stages for `targets` targets, but those with several at once.
    pub fn all(targets: usize) -> Vec<Self> {
        let mut stages = vec![Stage::Idle { done: false }, Stage::Own { done: 0 }];
        for target in 0..targets {
            for block in 0..super::BLOCKS.len() {
                let at = At { target, block };
                stages.extend([
                    Stage::Latency { at, done: 0 },
                    Stage::Climb(Climb::new(at)),
                    Stage::Counter(Counter::at_peak(at)),
                    Stage::Counter(Counter::at_one_worker(at)),
                    Stage::Knee(Knee::new(at)),
                ]);
            }
        }
        stages
    }

    /// The stages with several targets at once.
    pub fn together(targets: usize) -> Vec<Self> {
        let blocks = if targets > 1 { 0..super::BLOCKS.len() } else { 0..0 };
        blocks.map(|block| Stage::Together(TogetherStage::new(block, targets))).collect()
    }

    /// Its part of the time, in windows that it would like to have.
    pub fn weight(&self) -> f64 {
        match self {
            Stage::Idle { .. } => 3.0,
            Stage::Own { .. } => 2.0 * WINDOWS as f64,
            Stage::Latency { .. } => WINDOWS as f64,
            Stage::Climb(_) => 21.0,
            Stage::Counter(counter) => counter.weight(),
            Stage::Knee(_) => 12.0,
            Stage::Together(together) => together.weight(),
        }
    }

    /// Whether it gets the time that it wants whatever the others need: it is short, and the rest
    /// is read against it.
    pub fn comes_first(&self) -> bool {
        matches!(self, Stage::Idle { .. } | Stage::Own { .. } | Stage::Latency { .. })
    }

    /// Whether it may have more to ask after it had what it needed: the peak may have moved, and what was too
    /// noisy may get clear.
    pub fn may_reopen(&self) -> bool {
        matches!(self, Stage::Counter(_) | Stage::Knee(_))
    }

    /// What to measure next; `None` when the stage has what it needs.
    pub fn next(&mut self, book: &mut Book) -> Option<Ask> {
        match self {
            Stage::Idle { done } => (!*done).then(|| Ask {
                phase: Phase::Idle,
                loads: Vec::new(),
                block: 0,
                cores: None,
            }),
            Stage::Own { done } => (*done < 2 * WINDOWS).then(|| own(*done, book.config.cores)),
            Stage::Latency { at, done } => (*done < WINDOWS && !book.block(*at).is_broken())
                .then(|| Ask::one(Phase::Latency, *at, Setting::ONE)),
            Stage::Climb(climb) => climb.next(book),
            Stage::Counter(counter) => counter.next(book),
            Stage::Knee(knee) => knee.next(book),
            Stage::Together(together) => together.next(book),
        }
    }

    /// What came of the last ask.
    pub fn hear(&mut self, book: &mut Book, heard: &Heard) {
        match self {
            Stage::Idle { done } => {
                *done = true;
                if let Heard::Clean(window) = heard {
                    book.idle = window.cpu.and_then(super::CpuTime::shares);
                }
            }
            Stage::Own { done } => {
                if let Heard::Clean(window) = heard {
                    let rates = window.loads.iter().map(|l| curve::iops(l, window.elapsed_ns));
                    book.own[*done % 2].push(rates.sum());
                }
                *done += 1;
            }
            Stage::Latency { done, .. } => *done += 1,
            Stage::Climb(climb) => climb.hear(heard),
            Stage::Counter(counter) => counter.hear(heard),
            Stage::Knee(knee) => knee.hear(heard),
            Stage::Together(together) => together.hear(heard),
        }
    }

    /// Writes what the stage found into the book, at its end or when its time is up.
    pub fn close(&mut self, book: &mut Book) {
        match self {
            Stage::Idle { .. } | Stage::Own { .. } | Stage::Latency { .. } => {}
            Stage::Climb(climb) => climb.close(book),
            Stage::Counter(counter) => counter.close(book),
            Stage::Knee(knee) => knee.close(book),
            Stage::Together(together) => together.close(book),
        }
    }
}

/// One worker and all cores in turn.
fn own(turn: usize, cores: u32) -> Ask {
    let workers = if turn.is_multiple_of(2) { 1 } else { cores };
    let loads = vec![Load { target: None, setting: Setting { workers, depth: OWN_DEPTH } }];
    Ask { phase: Phase::Own, loads, block: 0, cores: None }
}
