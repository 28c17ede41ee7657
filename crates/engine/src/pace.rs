//! Arrival times under a rate limit: an open loop, in which a stall does not delay later arrivals.

use fathom_model::plan::{Flow, JobPlan, Rate, RateProcess};
use fathom_model::{Dir, PerDir};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// An I/O that starts more than this after its scheduled time is late.
pub(crate) const LATE_NS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    At(Dir, u64),
    /// An I/O in a direction without a limit.
    Free,
    /// None before this time in nanoseconds.
    NotBefore(u64),
}

pub(crate) struct Pace {
    start_ns: u64,
    arrivals: PerDir<Option<Arrivals>>,
    /// A direction without a limit, if any is in use.
    free: Option<Dir>,
    random: Xoshiro256PlusPlus,
    flow: Option<FlowShare>,
}

struct Arrivals {
    rate: Rate,
    process: RateProcess,
    /// The next scheduled time, in nanoseconds since the start: after months of uptime, the clock's
    /// own values are so large that a float would round each gap.
    next_ns: f64,
    /// Number of I/Os scheduled before that one.
    scheduled: u64,
}

impl Pace {
    pub fn new(job: &JobPlan, start_ns: u64, flow: Option<FlowShare>) -> Self {
        let arrivals = job.rate.map(|dir, rate| {
            rate.filter(|_| job.access.mix.has(dir)).map(|rate| Arrivals {
                rate,
                process: job.rate_process,
                next_ns: 0.0,
                scheduled: 0,
            })
        });
        let free = job.used_dirs().find(|dir| arrivals[*dir].is_none());
        let random = Xoshiro256PlusPlus::seed_from_u64(job.access.seed ^ 0x7061_6365);
        Self { start_ns, arrivals, free, random, flow }
    }

    /// The I/O that may start at `now_ns`, earliest scheduled time first.
    pub fn due(&self, now_ns: u64) -> Due {
        if let Some(wait_ns) = self.flow.as_ref().and_then(FlowShare::wait_ns) {
            return Due::NotBefore(now_ns + wait_ns);
        }
        let earliest = self
            .arrivals
            .iter()
            .filter_map(|(dir, a)| a.as_ref().map(|a| (dir, self.start_ns + a.next_ns as u64)))
            .min_by_key(|(_, next)| *next);
        match earliest {
            Some((dir, next)) if next <= now_ns => Due::At(dir, next),
            _ if self.free.is_some() => Due::Free,
            Some((_, next)) => Due::NotBefore(next),
            None => Due::Free,
        }
    }

    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    pub fn is_free(&self, dir: Dir) -> bool {
        self.arrivals[dir].is_none()
    }

    pub fn free(&self) -> Option<Dir> {
        self.free
    }

    /// Schedules the I/O after one of `len` bytes in direction `dir`.
    pub fn advance(&mut self, dir: Dir, len: u32) {
        if let Some(flow) = &mut self.flow {
            flow.advance();
        }
        let Some(arrivals) = &mut self.arrivals[dir] else { return };
        let mean_ns = match arrivals.rate {
            Rate::Iops(n) => 1e9 / n.max(1) as f64,
            Rate::BytesPerSecond(n) => 1e9 * f64::from(len) / n.max(1) as f64,
        };
        let stretch = match arrivals.process {
            RateProcess::Linear => 1.0,
            // A Poisson process has exponential gaps (inverse transform sampling).
            RateProcess::Poisson => {
                let unit = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                -unit.ln()
            }
        };
        arrivals.scheduled += 1;
        arrivals.next_ns += mean_ns * stretch;
    }

    /// Number of I/Os scheduled up to `end_ns` but not started, estimated from the mean gap so far.
    pub fn unstarted(&self, dir: Dir, end_ns: u64) -> u64 {
        let Some(a) = &self.arrivals[dir] else { return 0 };
        let left_ns = end_ns.saturating_sub(self.start_ns) as f64 - a.next_ns;
        if left_ns <= 0.0 {
            return 0;
        }
        match (a.scheduled, a.rate) {
            (0, Rate::Iops(n)) => (left_ns * n as f64 / 1e9).ceil() as u64,
            // Without a known length, only the first is certainly due.
            (0, Rate::BytesPerSecond(_)) => 1,
            (n, _) => (left_ns * n as f64 / a.next_ns).ceil() as u64,
        }
    }
}

/// Shortest wait of a job that is ahead.
const WAIT_NS: u64 = 5_000;

/// The jobs with one `flow_id`, which share I/Os: as in fio, a job that is ahead of its share waits.
#[derive(Debug, Default)]
pub(crate) struct FlowGroup {
    issued: AtomicU64,
    weight: AtomicU64,
}

pub(crate) fn groups(plans: impl Iterator<Item = Option<Flow>>) -> BTreeMap<u32, Arc<FlowGroup>> {
    plans.flatten().map(|flow| (flow.id, Arc::default())).collect()
}

#[derive(Debug)]
pub(crate) struct FlowShare {
    plan: Flow,
    group: Arc<FlowGroup>,
    issued: u64,
}

impl FlowShare {
    pub fn new(plan: Flow, group: Arc<FlowGroup>) -> Self {
        group.weight.fetch_add(u64::from(plan.weight), Relaxed);
        Self { plan, group, issued: 0 }
    }

    /// How long to wait before the next I/O, in nanoseconds, if the job is ahead of its share.
    pub fn wait_ns(&self) -> Option<u64> {
        // As in fio, one I/O more than were issued: a job that is alone never waits.
        let (issued, weight) =
            (self.group.issued.load(Relaxed) + 1, self.group.weight.load(Relaxed));
        let ahead = u128::from(self.issued) * u128::from(weight)
            > u128::from(issued) * u128::from(self.plan.weight);
        ahead.then_some(self.plan.sleep_ns.max(WAIT_NS))
    }

    pub fn advance(&mut self) {
        self.issued += 1;
        self.group.issued.fetch_add(1, Relaxed);
    }
}

impl Drop for FlowShare {
    fn drop(&mut self) {
        self.group.issued.fetch_sub(self.issued, Relaxed);
        self.group.weight.fetch_sub(u64::from(self.plan.weight), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Engine, Mix, Order};

    fn job(mix: Mix) -> JobPlan {
        JobPlan::new("t", Engine::Null, mix, Order::Sequential { skip: 0 })
    }

    #[test]
    fn arrivals_do_not_depend_on_the_clock() {
        let mut job = job(Mix::Only(Dir::Read));
        job.rate.read = Some(Rate::Iops(1000));
        let mut pace = Pace::new(&job, 5_000_000, None);
        assert_eq!(pace.due(4_999_999), Due::NotBefore(5_000_000));
        for n in 0..100u64 {
            // Two seconds late, the schedule is unchanged.
            assert_eq!(pace.due(2_000_000_000), Due::At(Dir::Read, 5_000_000 + n * 1_000_000));
            pace.advance(Dir::Read, 4096);
        }
        assert_eq!(pace.unstarted(Dir::Read, 205_000_000), 100);
    }

    #[test]
    fn bytes_per_second_follow_the_length() {
        let mut job = job(Mix::Only(Dir::Write));
        job.rate.write = Some(Rate::BytesPerSecond(1_000_000));
        let mut pace = Pace::new(&job, 0, None);
        pace.advance(Dir::Write, 4000);
        pace.advance(Dir::Write, 1000);
        assert_eq!(pace.due(0), Due::NotBefore(5_000_000));
    }

    #[test]
    fn unstarted_ios_are_estimated_from_the_mean_gap() {
        let mut job = job(Mix::Only(Dir::Write));
        job.rate.write = Some(Rate::BytesPerSecond(1_000_000));
        for last in [1000, 9000] {
            let mut pace = Pace::new(&job, 7, None);
            assert_eq!(pace.unstarted(Dir::Write, 1_000_000_007), 1);
            (0..50).for_each(|_| {
                pace.advance(Dir::Write, 10_000 - last);
                pace.advance(Dir::Write, last);
            });
            // 100 in half a second, regardless of the last length.
            assert_eq!(pace.unstarted(Dir::Write, 1_000_000_007), 100);
            assert_eq!(pace.unstarted(Dir::Write, 500_000_007), 0);
            assert_eq!(pace.unstarted(Dir::Read, 1_000_000_007), 0);
        }
        job.rate.write = Some(Rate::Iops(100));
        assert_eq!(Pace::new(&job, 7, None).unstarted(Dir::Write, 1_000_000_007), 100);
    }

    #[test]
    fn gaps_are_exact_after_years_of_uptime() {
        let mut job = job(Mix::Only(Dir::Read));
        // A gap of 1,000,000/3 ns: beyond 2^53 ns a float holds even numbers only.
        job.rate.read = Some(Rate::Iops(3000));
        let start = (1 << 56) + 1;
        let mut pace = Pace::new(&job, start, None);
        (0..30_000).for_each(|_| pace.advance(Dir::Read, 1));
        let Due::NotBefore(next) = pace.due(start) else { panic!("nothing is due yet") };
        assert!((next - start).abs_diff(10_000_000_000) <= 1, "{}", next - start);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let mut job = job(Mix::Only(Dir::Read));
        job.rate.read = Some(Rate::Iops(1_000_000));
        job.rate_process = RateProcess::Poisson;
        let mut pace = Pace::new(&job, 0, None);
        let (mut before, mut gaps) = (0.0, Vec::new());
        for _ in 0..100_000 {
            pace.advance(Dir::Read, 1);
            let next = pace.arrivals.read.as_ref().unwrap().next_ns;
            gaps.push(next - before);
            before = next;
        }
        let mean = before / 1e5;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1000.0).abs() < 15.0 && (variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_direction_without_a_limit_is_free() {
        let mut job = job(Mix::ReadWrite { read_percent: 50 });
        job.rate.write = Some(Rate::Iops(10));
        let mut pace = Pace::new(&job, 0, None);
        assert_eq!(pace.due(0), Due::At(Dir::Write, 0));
        pace.advance(Dir::Write, 1);
        assert_eq!(pace.due(0), Due::Free);
        assert!(pace.is_free(Dir::Read) && !pace.is_free(Dir::Write));
    }

    #[test]
    fn jobs_issue_in_proportion_to_their_weights() {
        let group = Arc::new(FlowGroup::default());
        let share =
            |weight| FlowShare::new(Flow { id: 0, weight, sleep_ns: 0 }, Arc::clone(&group));
        let mut alone = share(3);
        (0..100).for_each(|_| alone.advance());
        assert_eq!(alone.wait_ns(), None);
        drop(alone);
        let (mut one, mut three) = (share(1), share(3));
        for _ in 0..4000 {
            for share in [&mut one, &mut three] {
                if share.wait_ns().is_none() {
                    share.advance();
                }
            }
        }
        let ratio = three.issued as f64 / one.issued as f64;
        assert!((2.9..3.1).contains(&ratio), "{ratio}");
    }
}
