//! What an I/O costs in instructions, cycles and cache misses: hardware counters of the workers, read in a separate short
//! window after the measured time, because on some virtual machines counting makes I/O several times slower.

use crate::cancel::CancelToken;
use crate::targets::OpenTargets;
use fathom_analysis::derive;
use fathom_engine::Running;
use fathom_model::plan::{Engine, JobPlan, Plan, Until};
use fathom_model::progress::{Counts, Phase};
use fathom_model::record::{Cost, JobRecord};
use fathom_model::watch::Unavailable;
use fathom_model::{Dir, Progress, list};
use fathom_watch::counters::Counters;
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(2);
const WINDOW: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(2);
const TOO_SOON: &str = "not counted: a job ended too soon";

/// Why a worker has no figures on a machine with counters.
const NEVER_FREE: &str = "no hardware counter was free during the run; stop other profilers (perf, or the NMI \
    watchdog: sysctl kernel.nmi_watchdog=0)";

struct WorkerCost {
    job: usize,
    cost: Result<Cost, String>,
    /// What could not be counted: the kernel's part, or cache misses.
    lacks: Vec<Unavailable>,
}

/// Briefly runs the jobs of `plan` again, wave by wave, with counters, and stores the cost per I/O in `jobs`, their results,
/// or why it is unknown.
pub fn measure(targets: &OpenTargets, plan: &Plan, cancel: &CancelToken, jobs: &mut [JobRecord]) {
    let workers = match count(targets, plan, jobs, cancel) {
        Ok(workers) => workers,
        Err(why) => return jobs.iter_mut().for_each(|job| job.cost_missing = Some(why.clone())),
    };
    for WorkerCost { job, cost, lacks } in workers {
        let job = &mut jobs[job];
        match cost {
            Ok(cost) => job.cost = Some(with_ratio(cost, job)),
            Err(why) => job.cost_missing = Some(why),
        }
        job.cost_lacks = lacks;
    }
}

fn with_ratio(cost: Cost, job: &JobRecord) -> Cost {
    let ios: u64 = job.dirs.iter().map(|(_, d)| d.counts.ios).sum();
    let measured = ios as f64 / job.runtime_ns.max(1) as f64;
    let counted = cost.ios as f64 / cost.window_ns.max(1) as f64;
    Cost { speed_ratio: if measured > 0.0 { counted / measured } else { 0.0 }, ..cost }
}

fn count(
    targets: &OpenTargets,
    plan: &Plan,
    jobs: &[JobRecord],
    cancel: &CancelToken,
) -> Result<Vec<WorkerCost>, String> {
    // Checks for counters before any more I/O.
    Counters::open(0).map_err(reason)?;
    check(plan, jobs)?;
    let mut all = Vec::new();
    for wave in list::ascending(plan.jobs.iter().map(|job| job.wave)) {
        let indices: Vec<usize> =
            (0..plan.jobs.len()).filter(|i| plan.jobs[*i].wave == wave).collect();
        let jobs = indices.iter().map(|i| shortened(&plan.jobs[*i])).collect();
        let costs = count_wave(targets, &Plan { jobs, ..plan.clone() }, cancel)?;
        all.extend(costs.into_iter().map(|c| WorkerCost { job: indices[c.job], ..c }));
    }
    Ok(all)
}

fn check(plan: &Plan, jobs: &[JobRecord]) -> Result<(), String> {
    let plans = || plan.jobs.iter();
    let why = if jobs.iter().any(|job| job.error.is_some()) {
        "a job failed"
    } else if plans().any(|job| job.used_dirs().any(Dir::modifies)) {
        "the window would write more than was requested"
    } else if plans().any(|job| matches!(job.engine, Engine::Names(_))) {
        "operations on names are not repeated"
    } else if plans().any(JobPlan::is_held_back) {
        "the job runs at a set rate"
    } else if plans().any(is_cached) {
        "the window would read what the run has just cached"
    } else {
        return Ok(());
    };
    Err(format!("not counted: {why}"))
}

/// Why something is not available, and what would make it available if known.
fn reason(missing: Unavailable) -> String {
    let Unavailable { reason: why, remedy: allow, .. } = missing;
    if allow.is_empty() { why } else { format!("{why}; {allow}") }
}

fn is_cached(job: &JobPlan) -> bool {
    !job.direct
        && !job.engine.is_passthrough()
        && !matches!(job.engine, Engine::Nop(_) | Engine::Null)
}

/// The same job for a short time, without pauses, and with at most the requested I/O.
fn shortened(job: &JobPlan) -> JobPlan {
    let longest = 2 * (PATIENCE + WINDOW).as_nanos() as u64;
    let until = Until { runtime_ns: Some(longest), ramp_ns: 0, ..job.until };
    JobPlan { until, start_delay_ns: 0, exitall: false, think: None, ..job.clone() }
}

fn count_wave(
    targets: &OpenTargets,
    plan: &Plan,
    cancel: &CancelToken,
) -> Result<Vec<WorkerCost>, String> {
    let running = targets.start(plan)?;
    let result = wait_and_count(&running, plan, cancel);
    running.stop();
    let records = targets.join(running);
    let mut workers = result?;
    for (worker, record) in workers.iter_mut().zip(records) {
        if let Some(error) = record.error {
            worker.cost = Err(format!("not counted: a job failed: {}", error.message));
        }
    }
    Ok(workers)
}

fn wait_and_count(
    running: &Running,
    plan: &Plan,
    cancel: &CancelToken,
) -> Result<Vec<WorkerCost>, String> {
    wait_until_measured(running, cancel)?;
    let open =
        |tid: Option<i32>| Counters::open(tid.ok_or("a worker ended early")?).map_err(reason);
    let counters: Vec<Counters> =
        running.thread_ids().into_iter().map(open).collect::<Result<_, _>>()?;
    let before = running.progress();
    counters.iter().try_for_each(|c| c.enable().map_err(reason))?;
    let began = Instant::now();
    while began.elapsed() < WINDOW && !is_half_done(plan, &running.progress()) {
        pause(cancel)?;
    }
    counters.iter().try_for_each(|c| c.disable().map_err(reason))?;
    let after = running.progress();
    if !all_run(&after) {
        return Err(TOO_SOON.into());
    }
    let of_worker = |(job, counters): (usize, &Counters)| {
        let ios = |p: &Progress| Dir::ALL.iter().map(|d| p.jobs[job].dirs[*d].ios).sum::<u64>();
        let window_ns = after.elapsed_ns - before.elapsed_ns;
        let cost =
            counters.read().map_err(reason).and_then(|counted| match ios(&after) - ios(&before) {
                0 => Err("not counted: no I/O completed in the window".into()),
                ios => derive::cost(&counted, ios, window_ns).ok_or_else(|| NEVER_FREE.into()),
            });
        WorkerCost { job, cost, lacks: counters.lacks().to_vec() }
    };
    Ok(counters.iter().enumerate().map(of_worker).collect())
}

fn wait_until_measured(running: &Running, cancel: &CancelToken) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let progress = running.progress();
        if all_run(&progress) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err("not counted: the workers did not start in time".into());
        }
        if progress.jobs.iter().any(|job| job.phase == Phase::Done) {
            return Err(TOO_SOON.into());
        }
        pause(cancel)?;
    }
}

fn all_run(progress: &Progress) -> bool {
    progress.jobs.iter().all(|job| job.phase == Phase::Running)
}

fn pause(cancel: &CancelToken) -> Result<(), String> {
    thread::sleep(TICK);
    cancel.reason().map_or(Ok(()), |reason| Err(format!("not counted: interrupted by {reason}")))
}

/// Whether a job has done half of its I/O: time to stop, so that its end is not counted.
fn is_half_done(plan: &Plan, progress: &Progress) -> bool {
    plan.jobs.iter().zip(&progress.jobs).any(|(job, now)| {
        let sum = |part: fn(&Counts) -> u64| now.dirs.iter().map(|(_, c)| part(c)).sum::<u64>();
        let reached = |limit: Option<u64>, done: u64| limit.is_some_and(|limit| done >= limit / 2);
        reached(job.until.ios, sum(|c| c.ios)) || reached(job.until.bytes, sum(|c| c.bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Mix, Order, Uring};
    use fathom_model::progress::JobProgress;

    fn job(engine: Engine) -> JobPlan {
        JobPlan::new("job", engine, Mix::Only(Dir::Read), Order::Sequential { skip: 0 })
    }

    #[test]
    fn page_cache_hits_are_not_counted() {
        let mut cached = job(Engine::IoUring(Uring::default()));
        assert!(is_cached(&cached));
        cached.direct = true;
        assert!(!is_cached(&cached));
        assert!(!is_cached(&job(Engine::Null)));
        assert!(!is_cached(&job(Engine::IoUringCmd(Uring::default()))));
    }

    #[test]
    fn the_window_does_no_more_than_was_requested() {
        let mut requested = job(Engine::Null);
        requested.until = Until { ios: Some(100), ramp_ns: 9, ..Until::default() };
        let until = shortened(&requested).until;
        assert_eq!((until.ios, until.bytes, until.ramp_ns), (Some(100), None, 0));
        assert!(until.runtime_ns.is_some());
        let half = |until: Until, ios: u64| {
            let job = JobPlan { until, ..requested.clone() };
            let mut now = JobProgress::default();
            (now.dirs.read.ios, now.dirs.read.bytes) = (ios, ios * 4096);
            let progress = Progress { jobs: vec![now], ..Progress::default() };
            is_half_done(&Plan { jobs: vec![job], ..Plan::default() }, &progress)
        };
        assert!(!half(requested.until, 49) && half(requested.until, 50));
        let bytes = Until { bytes: Some(8 * 4096), ..Until::default() };
        assert!(!half(bytes, 3) && half(bytes, 4));
        assert!(!half(Until::default(), 1 << 40));
    }
}
