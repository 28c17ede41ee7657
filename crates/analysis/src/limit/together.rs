//! Several targets: all at once in turn with each alone.

use super::BLOCKS;
use super::book::{At, Book};
use super::counter::NARROW;
use super::curve::{Cell, iops};
use super::outcome::{Together, TogetherCause, TogetherTarget};
use super::probe::{CpuShares, Load, Phase, Setting};
use super::stage::{Ask, Heard};
use super::verdict::{CORES_FULL, percent, times};
use crate::stats::{Estimate, Ratio};

const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 8;
/// Less than this share of the sum is a slow-down.
const SLOWER: f64 = 0.95;
/// An interval that ends above this share rules out a slow-down worth the name.
const NOT_SLOWER: f64 = 0.90;

/// The stage for one block size.
#[derive(Debug)]
pub(super) struct TogetherStage {
    block: usize,
    targets: usize,
    loads: Vec<Load>,
    started: bool,
    /// 0 is all at once, n the n-th load alone.
    turn: usize,
    round: Round,
    /// Complete rounds only.
    rounds: Vec<Round>,
    cell: Cell,
    refused: Option<String>,
}

/// I/Os per second of each load, beside the others and alone.
#[derive(Debug, Clone, Default)]
struct Round {
    together: Vec<f64>,
    alone: Vec<f64>,
}

impl TogetherStage {
    pub fn new(block: usize, targets: usize) -> Self {
        Self {
            block,
            targets,
            loads: Vec::new(),
            started: false,
            turn: 0,
            round: Round::default(),
            rounds: Vec::new(),
            cell: Cell::default(),
            refused: None,
        }
    }

    pub fn weight(&self) -> f64 {
        4.0 * (self.targets as f64 + 1.0)
    }

    pub fn next(&mut self, book: &Book) -> Option<Ask> {
        if !self.started {
            self.started = true;
            self.loads = loads(book, self.block);
        }
        if self.loads.len() < 2 || self.refused.is_some() {
            return None;
        }
        if self.turn > self.loads.len() {
            self.turn = 0;
            self.rounds.push(std::mem::take(&mut self.round));
            if self.is_settled() {
                return None;
            }
        }
        let loads = match self.turn.checked_sub(1) {
            None => self.loads.clone(),
            Some(alone) => vec![self.loads[alone]],
        };
        Some(Ask { phase: Phase::Together, loads, block: self.block, cores: None })
    }

    pub fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Bad(why) => self.refused = Some((*why).to_string()),
            Heard::Clean(window) => {
                let rates = window.loads.iter().map(|l| iops(l, window.elapsed_ns));
                if self.turn == 0 {
                    self.round.together = rates.collect();
                    if let Some(first) = window.loads.first() {
                        self.cell.add(window, first);
                    }
                } else {
                    self.round.alone.extend(rates);
                }
                self.turn += 1;
            }
        }
    }

    pub fn close(self, book: &mut Book) {
        if self.loads.len() < 2 {
            return;
        }
        let cpu = self.cell.cpu();
        let ratio = self.ratio();
        let (cause, reason) = match &self.refused {
            Some(why) => (TogetherCause::Undecided, format!("a window could not be used: {why}")),
            None => decide(ratio, cpu),
        };
        let sums = |f: fn(&Round) -> &Vec<f64>| {
            Estimate::of(&self.rounds.iter().map(|r| f(r).iter().sum()).collect::<Vec<f64>>())
        };
        book.together.push(Together {
            block_bytes: BLOCKS[self.block],
            targets: (0..self.loads.len()).filter_map(|i| self.target(i)).collect(),
            alone_iops: sums(|r| &r.alone),
            together_iops: sums(|r| &r.together),
            ratio,
            cpu,
            cause,
            reason,
        });
    }

    fn target(&self, index: usize) -> Option<TogetherTarget> {
        let load = self.loads.get(index)?;
        let pairs: Vec<(f64, f64)> = self
            .rounds
            .iter()
            .filter_map(|r| Some((*r.together.get(index)?, *r.alone.get(index)?)))
            .collect();
        let (together, alone): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Some(TogetherTarget {
            target: load.target?,
            workers: load.setting.workers,
            depth: load.setting.depth,
            alone_iops: Estimate::of(&alone),
            together_iops: Estimate::of(&together),
            ratio: Ratio::paired(&pairs),
        })
    }

    fn ratio(&self) -> Option<Ratio> {
        let sums = |r: &Round| (r.together.iter().sum(), r.alone.iter().sum());
        Ratio::paired(&self.rounds.iter().map(sums).collect::<Vec<_>>())
    }

    fn is_settled(&self) -> bool {
        let n = self.rounds.len();
        n >= ROUNDS_MAX || (n >= ROUNDS_MIN && self.ratio().is_some_and(|r| r.spread() <= NARROW))
    }
}

/// Each usable target at its peak's setting; shallower where memory for all would not do.
fn loads(book: &Book, block: usize) -> Vec<Load> {
    let peaks: Vec<(usize, Setting)> = (0..book.targets.len())
        .filter(|target| !book.block(At { target: *target, block }).is_broken())
        .filter_map(|target| Some((target, book.block(At { target, block }).peak?)))
        .collect();
    let wanted: u64 = peaks.iter().map(|(_, s)| s.in_flight()).sum();
    let room = book.config.buffers_bytes_max / BLOCKS[block];
    let scale = (room as f64 / wanted.max(1) as f64).min(1.0);
    let fit = |s: Setting| Setting { depth: ((f64::from(s.depth) * scale) as u32).max(1), ..s };
    peaks.into_iter().map(|(t, s)| Load { target: Some(t), setting: fit(s) }).collect()
}

fn decide(ratio: Option<Ratio>, cpu: Option<CpuShares>) -> (TogetherCause, String) {
    let Some(r) = ratio else {
        return (TogetherCause::Undecided, "the time was up before two rounds were done".into());
    };
    let full = cpu.map(CpuShares::taken);
    let busy = full.map_or_else(
        || "how busy the processors were is not known".to_string(),
        |f| format!("the processors were {} busy", percent(f)),
    );
    let did = format!("together they did {} of what each did alone", times(&r));
    if r.low >= SLOWER || (r.low >= NOT_SLOWER && r.value >= 0.97) {
        return (TogetherCause::Independent, did);
    }
    if r.high >= 1.0 || r.value >= SLOWER {
        return (TogetherCause::Undecided, format!("{did}: too noisy to say"));
    }
    match full {
        Some(f) if f >= CORES_FULL => (TogetherCause::Cores, format!("{did}, and {busy}")),
        Some(f) if f < super::counter::CORES_SUSPECT => {
            (TogetherCause::SharedBelow, format!("{did}, though {busy}"))
        }
        _ => (TogetherCause::Undecided, format!("{did}, but {busy}: what they share is not clear")),
    }
}
