//! Finds the highest queue depth at which a job meets its latency target (`latency_target`), in the steps of fio (io_u.c,
//! `lat_target_success` and `__lat_target_failed`): doubled until a window misses it, then halved between the two. Unlike in fio,
//! a miss at `iodepth` itself counts as any other.

use crate::stats::Stats;
use crate::worker::{AnyWorker, SpanEnd};
use fathom_model::Histogram;
use fathom_model::plan::LatencyTarget;
use fathom_model::record::TargetRecord;

/// As in fio, a depth just below one that missed may be raised after so many windows that met the target.
const STABLE_WINDOWS: u32 = 3;

pub(crate) struct DepthSearch {
    plan: LatencyTarget,
    max: u32,
    depth: u32,
    /// The highest depth that met the target.
    low: u32,
    /// One that missed it.
    high: Option<u32>,
    stable: u32,
    met: bool,
}

impl DepthSearch {
    pub fn new(plan: LatencyTarget, max: u32) -> Self {
        Self { plan, max, depth: 1, low: 1, high: None, stable: 0, met: false }
    }

    /// Chooses the depth after a window that met the target or not; returns whether it is the same.
    fn judge(&mut self, met: bool) -> bool {
        let before = self.depth;
        self.met = met;
        if !met {
            if self.depth == 1 {
                return true;
            }
            self.high = Some(self.depth);
            self.low = self.low.min(self.depth - 1);
            self.depth = (self.depth + self.low).div_euclid(2).max(1);
            self.stable = 0;
            return false;
        }
        self.low = self.depth;
        if self.high == Some(self.depth + 1) {
            self.stable += 1;
            if self.stable >= STABLE_WINDOWS {
                (self.high, self.stable) = (Some(self.depth + 2), 0);
            }
        }
        let next = match self.high {
            None => self.depth.saturating_mul(2),
            Some(high) => self.depth.midpoint(high),
        };
        self.depth = next.min(self.max);
        self.depth == before
    }

    /// Works for one window; returns whether the depth is found, or why the job is over.
    fn window<'a>(
        &mut self,
        worker: &mut (dyn AnyWorker<'a> + 'a),
        stats: &'a Stats,
        until_ns: u64,
        (ios, bytes): (Option<u64>, Option<u64>),
    ) -> Result<bool, SpanEnd> {
        worker.core().limit_depth(self.depth);
        let before = latencies(stats);
        let end_ns = worker.core().now_ns.saturating_add(self.plan.window_ns);
        let end = worker.span(stats, end_ns.min(until_ns), ios, bytes);
        if end != SpanEnd::TimeOver || worker.core().now_ns >= until_ns {
            return Err(end);
        }
        let new = latencies(stats).since(&before);
        let Some(latency_ns) = new.percentile(self.plan.percentile) else { return Ok(false) };
        let depth = self.depth;
        let found = self.judge(latency_ns <= self.plan.target_ns);
        if self.depth < depth {
            // As in fio: what was submitted at the higher depth is not to miss the target at the lower one.
            worker.drain();
        }
        Ok(found)
    }

    /// Works until the depth is found, or until `until_ns`.
    pub fn find<'a>(
        &mut self,
        worker: &mut (dyn AnyWorker<'a> + 'a),
        stats: &'a Stats,
        until_ns: u64,
    ) -> SpanEnd {
        loop {
            match self.window(worker, stats, until_ns, (None, None)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(SpanEnd::TimeOver) => break,
                Err(end) => return end,
            }
        }
        worker.core().limit_depth(self.depth);
        worker.drain();
        SpanEnd::TimeOver
    }

    /// Works at the depth that the target permits until the job is over (`latency_run`); `left` are the I/Os and bytes to do.
    pub fn follow<'a>(
        &mut self,
        worker: &mut (dyn AnyWorker<'a> + 'a),
        stats: &'a Stats,
        until_ns: u64,
        left: impl Fn() -> (Option<u64>, Option<u64>),
    ) -> SpanEnd {
        loop {
            if let Err(end) = self.window(worker, stats, until_ns, left()) {
                return end;
            }
        }
    }

    pub fn record(&self) -> TargetRecord {
        TargetRecord { depth: self.depth, met: self.met }
    }
}

fn latencies(stats: &Stats) -> Histogram {
    let mut all = Histogram::default();
    stats.dirs.iter().for_each(|(_, dir)| all.merge(&dir.lat.snapshot()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The depth found where windows up to `limit` meet the target, and how many windows that took.
    fn found(limit: u32, max: u32) -> (u32, bool, u32) {
        let mut search = DepthSearch::new(LatencyTarget::default(), max);
        for window in 1..200 {
            if search.judge(search.depth <= limit) {
                return (search.depth, search.met, window);
            }
        }
        panic!("no depth found for {limit} of {max}");
    }

    #[test]
    fn the_highest_depth_that_meets_the_target_is_found() {
        for max in [1, 2, 3, 7, 64, 1000, 4096] {
            for limit in [1, 2, 3, 5, 31, 32, 33, 63, 64, 999, 1000, 5000] {
                let (depth, met, windows) = found(limit, max);
                assert_eq!((depth, met), (limit.min(max), true), "limit {limit} of {max}");
                assert!(windows <= 30, "limit {limit} of {max}: {windows} windows");
            }
        }
        assert_eq!(found(0, 64), (1, false, 1));
    }
}
