//! The search for the knee: the fewest workers, and with those the least depth, that reach 95% of
//! the peak. It halves the gap between a depth that fails and one that passes.

use super::book::{At, BlockBook, Book};
use super::counter::Counted;
use super::curve::Curve;
use super::probe::{Phase, Setting};
use super::stage::{Ask, Heard};
use super::{DEPTHS_MAX, KNEE_SHARE};
use crate::stats::Ratio;

/// After so many windows at a setting its mean decides, sure or not.
const WINDOWS_MAX: usize = 4;
/// A single window this far from the threshold decides.
const FAR: f64 = 0.15;
/// The gap is narrow enough at this part of the depth.
const GAP_PART: u32 = 8;
/// A bound for noise that makes settings pass and fail in turn.
const ASKS_MAX: u32 = 60;

/// The search for one target's knee.
#[derive(Debug)]
pub(super) struct Knee {
    at: At,
    /// Where the peak was when the search began.
    peak: Option<Setting>,
    asks: u32,
    failed: bool,
    refined: bool,
}

/// The cheapest setting that passes, and what is measured below it, which fails.
struct Bracket {
    pass: Setting,
    /// The next lower depth with as many workers.
    fail: Option<Setting>,
    /// The best with the next fewer workers.
    fewer_workers: Option<Setting>,
}

impl Knee {
    pub fn new(at: At) -> Self {
        Self { at, peak: None, asks: 0, failed: false, refined: false }
    }

    pub fn next(&mut self, book: &Book) -> Option<Ask> {
        let block = book.block(self.at);
        let peak = block.peak?;
        if self.peak != Some(peak) {
            *self = Self { peak: Some(peak), ..Self::new(self.at) };
        }
        if self.failed || self.refined || self.asks >= ASKS_MAX || block.is_broken() {
            return None;
        }
        let curve = &block.curve;
        let bracket = Bracket::of(curve, peak)?;
        let open = |s: &Setting| *s != peak && !is_decided(curve, *s, peak);
        let next = Some(bracket.pass)
            .filter(open)
            .or_else(|| bracket.fewer_workers.filter(open))
            .or_else(|| bracket.between_workers(peak, DEPTHS_MAX[self.at.block]))
            .or_else(|| bracket.fail.filter(open))
            .or_else(|| bracket.between_depths());
        self.refined = next.is_none();
        self.asks += 1;
        next.map(|setting| Ask::one(Phase::Knee, self.at, setting))
    }

    pub fn hear(&mut self, heard: &Heard) {
        self.failed = matches!(heard, Heard::Bad(_));
    }

    pub fn close(&mut self, book: &mut Book) {
        let cores = book.config.cores;
        let block = book.block_mut(self.at);
        let Some(peak) = block.peak else { return };
        let knee = Bracket::of(&block.curve, peak).map(|b| b.pass);
        if let Some(knee) = knee.filter(|knee| is_the_peak(block, *knee, peak)) {
            block.move_peak(knee, cores);
        }
        // One worker that reaches the knee is not what stops anything.
        block.at_one_worker.take_if(|_| knee.is_some_and(|knee| knee.workers == 1));
        block.knee = knee;
        block.knee_refined = self.refined;
    }
}

impl Bracket {
    fn of(curve: &Curve, peak: Setting) -> Option<Self> {
        let least = KNEE_SHARE * curve.mean(peak);
        // Settings are ordered by workers, then by depth.
        let pass = curve
            .iter()
            .find(|(s, c)| s.in_flight() <= peak.in_flight() && c.mean() >= least && c.mean() > 0.0)
            .map(|(s, _)| s)?;
        let same_workers = curve.iter().map(|(s, _)| s).filter(|s| s.workers == pass.workers);
        let fail = same_workers.filter(|s| s.depth < pass.depth).last();
        let below = |s: &Setting| s.workers < pass.workers && s.in_flight() <= peak.in_flight();
        let fewer_workers = curve
            .iter()
            .filter(|(s, _)| below(s))
            .max_by(|a, b| a.0.workers.cmp(&b.0.workers).then(a.1.mean().total_cmp(&b.1.mean())))
            .map(|(s, _)| s);
        Some(Self { pass, fail, fewer_workers })
    }

    /// Workers between the two, with as many in flight as at the peak.
    fn between_workers(&self, peak: Setting, depth_max: u32) -> Option<Setting> {
        let fewer = self.fewer_workers?.workers;
        let workers = halfway(fewer, self.pass.workers)?;
        let depth = u32::try_from(peak.in_flight() / u64::from(workers)).ok()?;
        Some(Setting { workers, depth: depth.clamp(1, depth_max) })
    }

    /// A depth between the two.
    fn between_depths(&self) -> Option<Setting> {
        let depth = halfway(self.fail.map_or(0, |s| s.depth), self.pass.depth)?;
        Some(Setting { depth, ..self.pass })
    }
}

/// Whether a knee with more I/Os per second than the peak takes its place. Where both are one
/// plateau, and chance puts the knee above, the peak stays where its counter-experiments were made.
fn is_the_peak(block: &BlockBook, knee: Setting, peak: Setting) -> bool {
    let (knee, peak) = (block.curve.mean(knee), block.curve.mean(peak));
    let is_examined = block.at_peak.as_ref().is_some_and(Counted::says_something);
    knee > if is_examined { peak / KNEE_SHARE } else { peak }
}

/// The middle of a gap, while it is worth halving.
fn halfway(fail: u32, pass: u32) -> Option<u32> {
    let gap = pass.saturating_sub(fail);
    (gap > 1 && gap > pass / GAP_PART).then(|| fail + gap / 2)
}

/// Whether it is known well enough on which side of 95% of the peak `setting` is.
fn is_decided(curve: &Curve, setting: Setting, peak: Setting) -> bool {
    let (Some(cell), Some(top)) = (curve.get(setting), curve.get(peak)) else { return false };
    let share = cell.mean() / top.mean();
    let sure = || {
        Ratio::welch(&cell.iops, &top.iops)
            .is_some_and(|r| r.low >= KNEE_SHARE || r.high < KNEE_SHARE)
    };
    cell.windows() >= WINDOWS_MAX || (share - KNEE_SHARE).abs() > FAR || sure()
}
