//! Instructions, cycles and cache misses per I/O, counted in a short window of its own after the measured time:
//! on some virtual machines counting alone makes I/O several times slower.

use crate::session::Session;
use crate::signals::Signals;
use fathom_analysis::derive;
use fathom_engine::Running;
use fathom_model::plan::{Engine, JobPlan, Plan, Until};
use fathom_model::progress::{Counts, Phase};
use fathom_model::record::{Cost, JobRecord};
use fathom_model::watch::Missing;
use fathom_model::{Dir, Progress};
use fathom_watch::counters::Counters;
use std::thread;
use std::time::{Duration, Instant};

/// Length of the window.
const WINDOW: Duration = Duration::from_millis(200);
/// How long workers may take to get going.
const PATIENCE: Duration = Duration::from_secs(2);
/// Why a job of few I/Os has no figures.
const TOO_SOON: &str = "not counted, as a job is over too soon";
/// Why a worker has no figures although the machine has counters.
const NEVER_FREE: &str = "no hardware counter was free while the work ran; stop other profilers (perf, \
    or the NMI watchdog: sysctl kernel.nmi_watchdog=0)";
/// Between two looks at the workers.
const TICK: Duration = Duration::from_millis(2);

/// Runs the jobs of `plan` once more for a moment and notes what an I/O costs, or why that is unknown.
pub fn measure(session: &Session, plan: &Plan, signals: &Signals, jobs: &mut [JobRecord]) {
    if let Err(reason) = try_measure(session, plan, signals, jobs) {
        jobs.iter_mut()
            .filter(|j| j.cost.is_none())
            .for_each(|j| j.cost_missing = Some(reason.clone()));
    }
}

fn try_measure(
    session: &Session,
    plan: &Plan,
    signals: &Signals,
    jobs: &mut [JobRecord],
) -> Result<(), String> {
    // Whether there are counters at all, before any more I/O is done.
    Counters::open(0).map_err(reason)?;
    if jobs.iter().any(|job| job.error.is_some()) {
        return Err("not counted, as a job failed".into());
    }
    if plan.jobs.iter().any(|job| job.used_dirs().any(Dir::modifies)) {
        return Err("not counted, as the window would write more than was asked".into());
    }
    if plan.jobs.iter().any(JobPlan::is_paced) {
        return Err("not counted under a rate".into());
    }
    if plan.jobs.iter().any(is_cached) {
        return Err("not counted, as the window would read what the run just cached".into());
    }
    let mut waves: Vec<u32> = plan.jobs.iter().map(|j| j.wave).collect();
    waves.sort_unstable();
    waves.dedup();
    for wave in waves {
        let indices: Vec<usize> =
            (0..plan.jobs.len()).filter(|i| plan.jobs[*i].wave == wave).collect();
        let window =
            Plan { jobs: indices.iter().map(|i| brief(&plan.jobs[*i])).collect(), ..plan.clone() };
        let counts = count(session, &window, signals)?;
        for (index, counted) in indices.into_iter().zip(counts) {
            let job = &mut jobs[index];
            match counted.cost {
                Ok(cost) => job.cost = Some(with_ratio(cost, job)),
                Err(reason) => job.cost_missing = Some(reason),
            }
            job.cost_lacks = counted.lacks;
        }
    }
    Ok(())
}

/// What was counted of a worker.
struct Counted {
    /// What an I/O cost, or why that is unknown.
    cost: Result<Cost, String>,
    /// What could not be counted of it.
    lacks: Vec<Missing>,
}

/// Why something is missing and what would allow it, where it is known what it is.
fn reason(missing: Missing) -> String {
    let Missing { why, allow, .. } = missing;
    if allow.is_empty() { why } else { format!("{why}; {allow}") }
}

/// Whether a job goes through the page cache.
fn is_cached(job: &JobPlan) -> bool {
    !job.direct && !matches!(job.engine, Engine::Nop(_) | Engine::Null | Engine::IoUringCmd(_))
}

/// The same job for a moment, as fast as it goes, and never more of it than was asked.
fn brief(job: &JobPlan) -> JobPlan {
    let longest = 2 * (PATIENCE + WINDOW).as_nanos() as u64;
    let until = Until { runtime_ns: Some(longest), ramp_ns: 0, ..job.until };
    JobPlan { until, start_delay_ns: 0, exitall: false, think: None, ..job.clone() }
}

fn count(session: &Session, plan: &Plan, signals: &Signals) -> Result<Vec<Counted>, String> {
    let running = session.start(plan)?;
    let result = wait_and_count(&running, plan, signals);
    running.stop();
    let records = running.join();
    let mut counts = result?;
    for (counted, record) in counts.iter_mut().zip(records) {
        if let Some(error) = record.error {
            // What failed cost nothing that is worth a figure.
            counted.cost = Err(format!("not counted, as a job failed: {}", error.message));
        }
    }
    Ok(counts)
}

fn wait_and_count(
    running: &Running,
    plan: &Plan,
    signals: &Signals,
) -> Result<Vec<Counted>, String> {
    let began = Instant::now();
    while !all_run(&running.progress()) {
        if began.elapsed() > PATIENCE {
            return Err("not counted, as the workers did not start in time".into());
        }
        if running.progress().jobs.iter().any(|job| job.phase == Phase::Done) {
            return Err(TOO_SOON.into());
        }
        pause(signals)?;
    }
    let open =
        |tid: Option<i32>| Counters::open(tid.ok_or("a worker ended early")?).map_err(reason);
    let counters: Vec<Counters> =
        running.thread_ids().into_iter().map(open).collect::<Result<_, _>>()?;
    let before = running.progress();
    counters.iter().try_for_each(|c| c.enable().map_err(reason))?;
    let began = Instant::now();
    while began.elapsed() < WINDOW && !half_done(plan, &running.progress()) {
        pause(signals)?;
    }
    counters.iter().try_for_each(|c| c.disable().map_err(reason))?;
    let after = running.progress();
    if !all_run(&after) {
        return Err(TOO_SOON.into());
    }
    let counted = |(index, counters): (usize, &Counters)| Counted {
        cost: cost(counters, &before, &after, index),
        lacks: counters.lacks().to_vec(),
    };
    Ok(counters.iter().enumerate().map(counted).collect())
}

fn all_run(progress: &Progress) -> bool {
    progress.jobs.iter().all(|job| job.phase == Phase::Running)
}

/// Whether a job has done half of what it may: time to stop, so that its end is not counted.
fn half_done(plan: &Plan, progress: &Progress) -> bool {
    plan.jobs.iter().zip(&progress.jobs).any(|(job, now)| {
        let sum = |part: fn(&Counts) -> u64| now.dirs.iter().map(|(_, c)| part(c)).sum::<u64>();
        let reached = |limit: Option<u64>, done: u64| limit.is_some_and(|limit| done >= limit / 2);
        reached(job.until.ios, sum(|c| c.ios)) || reached(job.until.bytes, sum(|c| c.bytes))
    })
}

fn pause(signals: &Signals) -> Result<(), String> {
    thread::sleep(TICK);
    signals.caught().map_or(Ok(()), |signal| Err(format!("not counted, as {signal} came")))
}

fn cost(
    counters: &Counters,
    before: &Progress,
    after: &Progress,
    index: usize,
) -> Result<Cost, String> {
    let counted = counters.read().map_err(reason)?;
    let ios = |p: &Progress| Dir::ALL.iter().map(|d| p.jobs[index].dirs[*d].ios).sum::<u64>();
    let ios = ios(after) - ios(before);
    if ios == 0 {
        return Err("not counted, as no I/O ended in the window".into());
    }
    let window_ns = after.elapsed_ns - before.elapsed_ns;
    derive::cost(&counted, ios, window_ns).ok_or_else(|| NEVER_FREE.into())
}

fn with_ratio(cost: Cost, job: &JobRecord) -> Cost {
    let ios: u64 = job.dirs.iter().map(|(_, d)| d.counts.ios).sum();
    let measured = ios as f64 / job.runtime_ns.max(1) as f64;
    let counted = cost.ios as f64 / cost.window_ns.max(1) as f64;
    Cost { speed_ratio: if measured > 0.0 { counted / measured } else { 0.0 }, ..cost }
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
    fn what_the_page_cache_holds_is_not_counted() {
        let mut cached = job(Engine::IoUring(Uring::default()));
        assert!(is_cached(&cached));
        cached.direct = true;
        assert!(!is_cached(&cached));
        assert!(!is_cached(&job(Engine::Null)));
        assert!(!is_cached(&job(Engine::IoUringCmd(Uring::default()))));
    }

    #[test]
    fn the_window_does_no_more_than_was_asked() {
        let mut asked = job(Engine::Null);
        asked.until = Until { ios: Some(100), ramp_ns: 9, ..Until::default() };
        let brief = brief(&asked);
        assert_eq!((brief.until.ios, brief.until.bytes, brief.until.ramp_ns), (Some(100), None, 0));
        assert!(brief.until.runtime_ns.is_some());
        let half = |until: Until, ios: u64| {
            let job = JobPlan { until, ..asked.clone() };
            let mut now = JobProgress::default();
            (now.dirs.read.ios, now.dirs.read.bytes) = (ios, ios * 4096);
            let progress = Progress { jobs: vec![now], ..Progress::default() };
            half_done(&Plan { jobs: vec![job], ..Plan::default() }, &progress)
        };
        assert!(!half(asked.until, 49) && half(asked.until, 50));
        let bytes = Until { bytes: Some(8 * 4096), ..Until::default() };
        assert!(!half(bytes, 3) && half(bytes, 4));
        assert!(!half(Until::default(), 1 << 40));
    }
}
