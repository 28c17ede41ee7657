//! Several targets: all at once in turn with each alone.

use super::BLOCKS;
use super::book::{At, Book};
use super::counter::{CORES_SUSPECT, NARROW};
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
/// An interval that begins above this share rules out a slow-down worth the name; a single target whose
/// interval ends below it is slowed down. It is less than [`SLOWER`], as one of many targets may be low by chance.
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
        }
        if self.turn == 0 && self.is_settled() {
            return None;
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

    pub fn close(&mut self, book: &mut Book) {
        if self.loads.len() < 2 {
            return;
        }
        // A round that was broken off begins anew.
        (self.turn, self.round) = (0, Round::default());
        let cpu = self.cell.cpu();
        let ratio = self.ratio();
        let (cause, reason) = match &self.refused {
            Some(why) => (TogetherCause::Undecided, format!("a window could not be used: {why}")),
            None => decide(ratio, self.worst(), cpu),
        };
        let sums = |f: fn(&Round) -> &Vec<f64>| {
            Estimate::of(&self.rounds.iter().map(|r| f(r).iter().sum()).collect::<Vec<f64>>())
        };
        book.together.retain(|known| known.block_bytes != BLOCKS[self.block]);
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

    /// The target that suffers most: a fast one must not hide it in the sum.
    fn worst(&self) -> Option<Ratio> {
        let ratios = (0..self.loads.len()).filter_map(|i| self.target(i)?.ratio);
        ratios.min_by(|a, b| a.value.total_cmp(&b.value))
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

fn decide(
    ratio: Option<Ratio>,
    worst: Option<Ratio>,
    cpu: Option<CpuShares>,
) -> (TogetherCause, String) {
    let (Some(sum), Some(worst)) = (ratio, worst) else {
        return (TogetherCause::Undecided, "the time was up before two rounds were done".into());
    };
    let full = cpu.map(CpuShares::taken);
    let busy = full.map_or_else(
        || "how busy the processors were is not known".to_string(),
        |f| format!("the processors were {} busy", percent(f)),
    );
    let did = format!(
        "together they did {} of what each did alone, the one that suffers most {}",
        times(&sum),
        times(&worst)
    );
    let sum_slower = sum.high < 1.0 && sum.value < SLOWER;
    if !sum_slower && worst.high >= NOT_SLOWER {
        let sum_same = sum.low >= SLOWER || (sum.low >= NOT_SLOWER && sum.value >= 0.97);
        return if sum_same && worst.value >= NOT_SLOWER {
            (TogetherCause::Independent, did)
        } else {
            (TogetherCause::Undecided, format!("{did}: too noisy to say"))
        };
    }
    match full {
        Some(f) if f >= CORES_FULL => (TogetherCause::Cores, format!("{did}, and {busy}")),
        Some(f) if f < CORES_SUSPECT => {
            (TogetherCause::SharedBelow, format!("{did}, though {busy}"))
        }
        _ => (TogetherCause::Undecided, format!("{did}, but {busy}: what they share is not clear")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, value: f64, high: f64) -> Option<Ratio> {
        Some(Ratio { value, low, high })
    }

    fn cause(sum: Option<Ratio>, worst: Option<Ratio>, busy: f64) -> TogetherCause {
        decide(sum, worst, Some(CpuShares { busy, steal: 0.0 })).0
    }

    #[test]
    fn a_fast_target_does_not_hide_a_slow_one() {
        let same = ratio(0.98, 1.0, 1.02);
        assert_eq!(cause(same, same, 0.1), TogetherCause::Independent);
        assert_eq!(cause(same, ratio(0.4, 0.5, 0.6), 0.1), TogetherCause::SharedBelow);
        assert_eq!(cause(same, ratio(0.6, 0.8, 1.1), 0.1), TogetherCause::Undecided);
    }

    #[test]
    fn the_processors_say_what_is_shared() {
        let slow = ratio(0.55, 0.6, 0.65);
        assert_eq!(cause(slow, slow, 0.97), TogetherCause::Cores);
        assert_eq!(cause(slow, slow, 0.90), TogetherCause::Undecided);
        assert_eq!(cause(slow, slow, 0.50), TogetherCause::SharedBelow);
        assert_eq!(decide(slow, slow, None).0, TogetherCause::Undecided);
    }

    #[test]
    fn noise_and_too_few_rounds_decide_nothing() {
        let noisy = ratio(0.6, 0.9, 1.3);
        assert_eq!(cause(noisy, noisy, 0.1), TogetherCause::Undecided);
        assert_eq!(cause(None, noisy, 0.1), TogetherCause::Undecided);
    }
}
