//! Finds out when jobs have reached a steady state (`steadystate`), by fio's criteria (steadystate.c).

use crate::stats::Shared;
use fathom_model::plan::{JobPlan, SteadyFigure, UntilSteady};
use fathom_model::progress::Phase;
use fathom_model::record::SteadyRecord;
use std::collections::VecDeque;

/// I/Os and bytes, and the sum and number of latencies.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    ios: u64,
    bytes: u64,
    lat_ns: u64,
}

/// Of one job, or of a group that is reported as one.
#[derive(Debug)]
pub(crate) struct SteadyCheck {
    /// The jobs, of which the last keeps the record.
    pub jobs: Vec<usize>,
    plan: UntilSteady,
    /// When the next figure is due, by the jobs' measured time.
    next_ns: u64,
    before: Option<(u64, Totals)>,
    figures: VecDeque<[u64; 3]>,
    pub record: SteadyRecord,
}

pub(crate) fn checks(jobs: &[JobPlan], members: &[usize]) -> Vec<SteadyCheck> {
    let mut checks: Vec<SteadyCheck> = Vec::new();
    for index in members.iter().copied() {
        let Some(plan) = jobs[index].until_steady else { continue };
        let group = |check: &&mut SteadyCheck| {
            let first = &jobs[check.jobs[0]];
            first.group_reporting && jobs[index].group_reporting && first.group == jobs[index].group
        };
        match checks.iter_mut().find(group) {
            Some(check) => check.jobs.push(index),
            None => checks.push(SteadyCheck::new(plan, index)),
        }
    }
    checks
}

impl SteadyCheck {
    fn new(plan: UntilSteady, index: usize) -> Self {
        Self {
            jobs: vec![index],
            plan,
            next_ns: plan.ramp_ns,
            before: None,
            figures: VecDeque::new(),
            record: SteadyRecord::default(),
        }
    }

    /// Takes a figure if one is due; returns whether the jobs have just become steady. `shared` are all workers.
    pub fn check<'a>(&mut self, shared: impl Fn(usize) -> &'a Shared) -> bool {
        let running = self.jobs.iter().map(|job| shared(*job));
        let running = running.filter(|shared| shared.phase() == Phase::Running);
        let Some(now_ns) = running.map(Shared::measured_ns).max() else { return false };
        if self.record.attained || now_ns < self.next_ns {
            return false;
        }
        let mut totals = Totals::default();
        for dir in self.jobs.iter().flat_map(|job| shared(*job).stats.dirs.iter()) {
            totals.ios += dir.1.ios.get();
            totals.bytes += dir.1.bytes.get();
            totals.lat_ns += dir.1.clat.sum_ns();
        }
        self.take(now_ns, totals)
    }

    fn take(&mut self, now_ns: u64, now: Totals) -> bool {
        self.next_ns = self.next_ns.max(now_ns.saturating_sub(self.plan.interval_ns));
        self.next_ns += self.plan.interval_ns;
        let Some((before_ns, before)) = self.before.replace((now_ns, now)) else { return false };
        let ns = u128::from((now_ns - before_ns).max(1));
        let per_second = |more: u64| (u128::from(more) * 1_000_000_000 / ns) as u64;
        let ios = now.ios - before.ios;
        let lat_ns = (now.lat_ns - before.lat_ns).checked_div(ios).unwrap_or(0);
        self.figures.push_back([per_second(ios), per_second(now.bytes - before.bytes), lat_ns]);
        let count = self.plan.count();
        if self.figures.len() > count {
            self.figures.pop_front();
        }
        let of = |at: usize| self.figures.iter().map(|figures| figures[at]).collect::<Vec<u64>>();
        (self.record.iops, self.record.bytes_per_second, self.record.lat_ns) =
            (of(0), of(1), of(2));
        if self.figures.len() == count {
            self.judge();
        }
        self.record.attained.then(|| self.record.after_ns = now_ns).is_some()
    }

    /// The figures are as many as must be steady.
    fn judge(&mut self) {
        let record = &mut self.record;
        let figures = match self.plan.figure {
            SteadyFigure::Iops => &record.iops,
            SteadyFigure::Bandwidth => &record.bytes_per_second,
            SteadyFigure::Latency => &record.lat_ns,
        };
        let n = figures.len() as f64;
        let mean = figures.iter().map(|figure| *figure as f64).sum::<f64>() / n;
        let middle = (n - 1.0) / 2.0;
        let (mut products, mut squares, mut deviation) = (0.0, 0.0, 0.0_f64);
        for (at, figure) in figures.iter().enumerate() {
            let (x, y) = (at as f64 - middle, *figure as f64 - mean);
            products += x * y;
            squares += x * x;
            deviation = deviation.max(y.abs());
        }
        record.slope = if squares > 0.0 { products / squares } else { 0.0 };
        record.deviation = deviation;
        let value = if self.plan.slope { record.slope } else { deviation };
        record.criterion = match self.plan.percent {
            true if mean > 0.0 => 100.0 * value / mean,
            true => 0.0,
            false => value,
        };
        record.is_judged = true;
        record.attained = record.criterion.abs() < self.plan.limit && mean > 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn check(figure: SteadyFigure, slope: bool, limit: f64, percent: bool) -> SteadyCheck {
        let times =
            UntilSteady { duration_ns: 4 * SECOND, interval_ns: SECOND, ..Default::default() };
        let plan = UntilSteady { figure, slope, limit, percent, ramp_ns: 2 * SECOND, ..times };
        SteadyCheck::new(plan, 0)
    }

    /// After how many seconds it is steady, if I/Os of 4 KiB and 1 µs are done at these rates.
    fn steady_after(mut check: SteadyCheck, rates: &[u64]) -> Option<u64> {
        let mut totals = Totals::default();
        for (second, rate) in (0..).zip(rates) {
            let now_ns = second * SECOND;
            if now_ns >= check.next_ns && check.take(now_ns, totals) {
                assert_eq!(check.record.after_ns, now_ns);
                return Some(second);
            }
            totals.ios += rate;
            totals.bytes += rate * 4096;
            totals.lat_ns += rate * 1000;
        }
        None
    }

    #[test]
    fn the_slope_of_as_many_figures_as_asked() {
        let falling = [9000, 9000, 900, 800, 700, 600, 500, 500, 500, 500, 500, 500];
        // Figures from second 2 on: the first four without slope are those of seconds 6 to 9.
        let slope = |limit, percent| check(SteadyFigure::Iops, true, limit, percent);
        assert_eq!(steady_after(slope(0.1, true), &falling), Some(10));
        // 600, 500, 500, 500: a slope of 30 per interval.
        assert_eq!(steady_after(slope(31.0, false), &falling), Some(9));
        assert_eq!(steady_after(slope(0.1, true), &falling[..9]), None);
    }

    #[test]
    fn the_largest_deviation_from_the_mean() {
        let rates = [1000, 1000, 1000, 1200, 1000, 1000, 1040, 1000, 1000, 1000];
        let of = |figure, limit| check(figure, false, limit, true);
        assert_eq!(steady_after(of(SteadyFigure::Bandwidth, 5.0), &rates), Some(8));
        assert_eq!(steady_after(of(SteadyFigure::Iops, 1.0), &rates), None);
        // All latencies are the same.
        assert_eq!(steady_after(of(SteadyFigure::Latency, 1.0), &rates), Some(6));
    }

    #[test]
    fn nothing_done_is_not_steady() {
        assert_eq!(steady_after(check(SteadyFigure::Iops, true, 5.0, true), &[0; 20]), None);
    }
}
