//! Rates, means and groups, derived from the raw counters of a record.

mod counted;
mod growth;
mod merge;
mod partial;

pub use counted::{Ipc, cost, estimated, ipc};
pub use growth::{DiskDelta, IoDelta, add_ticks, cpu_ticks, cpu_time, disk_records};
pub use merge::{merge_costs, merge_dirs, merge_jobs};
pub use partial::{PartialRun, complete_experiment, complete_limit};

use fathom_model::plan::JobPlan;
use fathom_model::record::{DirRecord, JobRecord, RunRecord};
use fathom_model::{Dir, Histogram, units};

/// Jobs reported as one: those of a reporting group, or a single job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobGroup<'a> {
    /// The plan of its first job, whose name and display settings apply to all.
    pub plan: &'a JobPlan,
    /// Indices of its jobs in the record.
    pub jobs: Vec<usize>,
    pub record: JobRecord,
    /// Measured times of its jobs added up, in nanoseconds.
    pub worker_ns: u64,
}

/// The record's jobs as reported, in the order of the plan.
///
/// As in fio, adjacent jobs of one group are merged where they set `group_reporting`; every other job is
/// reported separately. Jobs with `stats=0` are not.
pub fn groups(record: &RunRecord) -> Vec<JobGroup<'_>> {
    let mut sets: Vec<(&JobPlan, Vec<usize>)> = Vec::new();
    for (index, (plan, _)) in jobs(record).enumerate().filter(|(_, (plan, _))| plan.show.stats) {
        match sets.last_mut() {
            Some((first, members)) if plan.group_reporting && first.group == plan.group => {
                members.push(index);
            }
            _ => sets.push((plan, vec![index])),
        }
    }
    sets.into_iter().map(|(plan, members)| group(record, plan, members)).collect()
}

/// Jobs shown as one: the clones of a section, or the jobs merged by `group_reporting`.
pub fn sections(record: &RunRecord) -> Vec<JobGroup<'_>> {
    let mut shown: Vec<JobGroup> = Vec::new();
    for group in groups(record) {
        let (plan, jobs) = (group.plan, &group.jobs);
        match shown.last_mut() {
            Some(last)
                if last.plan.name == plan.name && plan.clone > 0 && !plan.group_reporting =>
            {
                last.jobs.extend(jobs);
            }
            _ => shown.push(group),
        }
    }
    // Merged once: merging for each clone would take time that grows with the square of their number.
    shown.into_iter().map(|one| group(record, one.plan, one.jobs)).collect()
}

/// The group of the given jobs, shown under the name of `plan`.
pub fn group<'a>(record: &RunRecord, plan: &'a JobPlan, jobs: Vec<usize>) -> JobGroup<'a> {
    let members: Vec<&JobRecord> = jobs.iter().filter_map(|i| record.jobs.get(*i)).collect();
    let worker_ns = members.iter().map(|job| job.runtime_ns).sum();
    let record = merge_jobs(&members);
    JobGroup { plan, jobs, record, worker_ns }
}

pub fn jobs(record: &RunRecord) -> impl Iterator<Item = (&JobPlan, &JobRecord)> {
    record.plan.jobs.iter().zip(&record.jobs)
}

/// How many workers the section of job `index` has (`numjobs`).
pub fn clones(plans: &[JobPlan], index: usize) -> usize {
    let Some(job) = plans.get(index) else { return 0 };
    let first = index.saturating_sub(job.clone as usize);
    let same =
        |(offset, plan): (usize, &JobPlan)| plan.name == job.name && plan.clone as usize == offset;
    plans[first..].iter().enumerate().take_while(|entry| same(*entry)).count().max(1)
}

/// `n` events in `ns` nanoseconds, per second; 0 where no time passed.
pub fn per_second(n: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { n as f64 * 1e9 / ns as f64 }
}

pub fn ios(job: &JobRecord) -> u64 {
    job.dirs.iter().map(|(_, dir)| dir.counts.ios).sum()
}

pub fn bytes(job: &JobRecord) -> u64 {
    job.dirs.iter().map(|(_, dir)| dir.counts.bytes).sum()
}

/// CPU time per I/O in nanoseconds, including the kernel's helper threads.
pub fn cpu_per_io_ns(job: &JobRecord) -> Option<f64> {
    let usage = &job.usage;
    let total = usage.user_ns as f64 + usage.system_ns as f64 + usage.helper_ns as f64;
    let ios = ios(job);
    (ios > 0 && total > 0.0).then(|| total / ios as f64)
}

/// I/Os per second of all jobs; `None` unless they ran at the same time, or none did any.
pub fn iops_at_once(record: &RunRecord) -> Option<f64> {
    let mut waves = record.plan.jobs.iter().map(|job| job.wave);
    let first = waves.next()?;
    let iops: f64 = record.jobs.iter().map(|job| per_second(ios(job), job.runtime_ns)).sum();
    (waves.all(|wave| wave == first) && iops > 0.0).then_some(iops)
}

/// Max IOPS per core: one second divided by the CPU time per I/O.
pub fn one_core_iops(job: &JobRecord) -> Option<f64> {
    cpu_per_io_ns(job).map(|ns| 1e9 / ns)
}

/// Mean number of I/Os that a worker had in flight in `worker_ns` nanoseconds: by Little's law the sum of
/// latencies over the time. A job without latencies gives the mean depth after submissions, which is lower.
pub fn in_flight(job: &JobRecord, worker_ns: u64) -> Option<f64> {
    let latency_ns = latency_sum_ns(job);
    if latency_ns > 0 && worker_ns > 0 {
        return Some(latency_ns as f64 / worker_ns as f64);
    }
    let ios: u64 = job.depth.level.iter().map(|(_, ios)| ios).sum();
    let weighted: f64 = job.depth.level.iter().map(|(d, ios)| f64::from(*d) * *ios as f64).sum();
    (ios > 0).then(|| weighted / ios as f64)
}

/// Sum of the latencies of a job's I/Os in nanoseconds; 0 if they were not measured.
pub fn latency_sum_ns(job: &JobRecord) -> u64 {
    let sum = |hist: fn(&DirRecord) -> &Histogram| -> u64 {
        job.dirs.iter().map(|(_, dir)| hist(dir).sum_ns()).sum()
    };
    sum(|dir| &dir.clat).max(sum(|dir| &dir.lat))
}

/// The directions of a job that were requested or did I/O.
pub fn shown_dirs<'a>(plan: &'a JobPlan, job: &'a JobRecord) -> impl Iterator<Item = Dir> + 'a {
    Dir::ALL.into_iter().filter(|dir| {
        let counts = job.dirs[*dir].counts;
        plan.access.mix.has(*dir) || counts.ios + counts.errors + counts.short_ios > 0
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalRate {
    pub iops: f64,
    pub bytes_per_second: f64,
}

/// The rates of each complete interval. A last one shorter than half the usual length is omitted: too
/// short to be meaningful.
pub fn interval_rates(dir: &DirRecord) -> Vec<IntervalRate> {
    let usual = dir.intervals.last().map_or(0, |last| last.0 / dir.intervals.len() as u64);
    let mut before = (0, 0, 0);
    let mut rates = Vec::with_capacity(dir.intervals.len());
    for now in &dir.intervals {
        let ns = now.0.saturating_sub(before.0);
        if ns > 0 && ns >= usual / 2 {
            rates.push(IntervalRate {
                iops: per_second(now.1.saturating_sub(before.1), ns),
                bytes_per_second: per_second(now.2.saturating_sub(before.2), ns),
            });
        }
        before = *now;
    }
    rates
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// The sample standard deviation (n - 1).
    pub stddev: f64,
    pub samples: u64,
}

impl Spread {
    /// How `values` spread; all zero when there are none.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean,
            stddev: if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
            samples: values.len() as u64,
        }
    }

    /// Coefficient of variation: standard deviation over mean; 0 where the mean is 0.
    pub fn variation(&self) -> f64 {
        if self.mean > 0.0 { self.stddev / self.mean } else { 0.0 }
    }
}

/// A share of `part` in `whole` in percent with the digits that it needs: `0.03%`, `12%`.
pub fn percent(part: f64, whole: f64) -> String {
    let value = if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
    format!("{}%", units::count((value * 100.0).round() / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Distribution, Engine, Mix, Order, Plan};

    fn plan(name: &str, group: u32, group_reporting: bool, clone: u32) -> JobPlan {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let job = JobPlan::new(name, Engine::Null, Mix::Only(Dir::Read), order);
        JobPlan { group, group_reporting, clone, ..job }
    }

    fn record(plans: Vec<JobPlan>) -> RunRecord {
        let jobs = vec![JobRecord::default(); plans.len()];
        RunRecord { jobs, plan: Plan { jobs: plans, ..Plan::default() }, ..RunRecord::default() }
    }

    #[test]
    fn groups_are_those_of_fio() {
        let record = record(vec![
            plan("a", 0, true, 0),
            plan("a", 0, true, 1),
            plan("b", 1, true, 0),
            plan("c", 1, false, 0),
            plan("d", 1, true, 0),
        ]);
        let members: Vec<_> = groups(&record).into_iter().map(|g| g.jobs).collect();
        // d sets group_reporting and merges with the adjacent job, as in fio.
        assert_eq!(members, [vec![0, 1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn jobs_without_stats_are_in_no_group() {
        let mut plans = vec![plan("a", 0, true, 0), plan("b", 0, true, 0), plan("c", 0, true, 0)];
        plans[1].show.stats = false;
        let members = |record: &RunRecord| groups(record).into_iter().map(|g| g.jobs).collect();
        let shown: Vec<Vec<usize>> = members(&record(plans.clone()));
        assert_eq!(shown, [vec![0, 2]]);
        plans[0].show.stats = false;
        let shown: Vec<Vec<usize>> = members(&record(plans));
        assert_eq!(shown, [vec![2]]);
    }

    #[test]
    fn clones_of_a_section_are_counted() {
        let plans = [
            plan("a", 0, false, 0),
            plan("a", 0, false, 1),
            plan("a", 0, false, 0),
            plan("b", 0, false, 0),
        ];
        let counts: Vec<_> = (0..5).map(|i| clones(&plans, i)).collect();
        assert_eq!(counts, [2, 2, 1, 1, 0]);
    }

    #[test]
    fn processor_time_counts_helpers() {
        let mut job = JobRecord::default();
        assert_eq!(cpu_per_io_ns(&job), None);
        job.dirs.read.counts.ios = 1000;
        job.usage.user_ns = 300_000;
        job.usage.system_ns = 500_000;
        job.usage.helper_ns = 200_000;
        assert_eq!(cpu_per_io_ns(&job), Some(1000.0));
        assert_eq!(one_core_iops(&job), Some(1_000_000.0));
    }

    #[test]
    fn a_short_last_interval_is_left_out() {
        let dir = DirRecord {
            intervals: vec![(500, 50, 500), (1000, 150, 1500), (1010, 151, 1510)],
            ..DirRecord::default()
        };
        let rates: Vec<_> = interval_rates(&dir).iter().map(|r| r.iops / 1e8).collect();
        assert_eq!(rates, [1.0, 2.0]);
        assert_eq!(Spread::of(&rates).stddev, 0.5f64.sqrt());
        assert_eq!(Spread::of(&[]).variation(), 0.0);
    }

    #[test]
    fn depth_is_weighted_by_ios() {
        let mut job = JobRecord::default();
        assert_eq!(in_flight(&job, 10), None);
        job.depth.level = vec![(1, 100), (32, 300)];
        assert_eq!(in_flight(&job, 10), Some(24.25));
        job.dirs.read.clat.record_n(1000, 30);
        assert_eq!(in_flight(&job, 10_000), Some(3.0));
    }

    #[test]
    fn percentages_keep_two_digits() {
        assert_eq!(percent(1.0, 3.0), "33.3%");
        assert_eq!(percent(1.0, 0.0), "0%");
        assert_eq!(percent(3.0, 10_000.0), "0.03%");
    }
}
