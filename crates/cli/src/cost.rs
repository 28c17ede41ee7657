//! Instructions and cycles per I/O, counted in a short window of its own after the measured time:
//! on some virtual machines counting alone makes I/O several times slower.

use crate::session::Session;
use crate::signals::Signals;
use fathom_engine::Running;
use fathom_model::plan::{Engine, JobPlan, Plan, Until};
use fathom_model::progress::{Counts, Phase};
use fathom_model::record::{Cost, JobRecord};
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
    Counters::open(0).map_err(|e| e.to_string())?;
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
        let costs = count(session, &window, signals)?;
        for (index, cost) in indices.into_iter().zip(costs) {
            jobs[index].cost = cost.map(|cost| with_ratio(cost, &jobs[index]));
        }
    }
    Ok(())
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

fn count(session: &Session, plan: &Plan, signals: &Signals) -> Result<Vec<Option<Cost>>, String> {
    let running = session.start(plan)?;
    let result = wait_and_count(&running, plan, signals);
    running.stop();
    let records = running.join();
    let costs = result?;
    // What failed cost nothing that is worth a figure.
    Ok(costs
        .into_iter()
        .zip(records)
        .map(|(cost, record)| cost.filter(|_| record.error.is_none()))
        .collect())
}

fn wait_and_count(
    running: &Running,
    plan: &Plan,
    signals: &Signals,
) -> Result<Vec<Option<Cost>>, String> {
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
    let open = |tid: Option<i32>| {
        Counters::open(tid.ok_or("a worker ended early")?).map_err(|e| e.to_string())
    };
    let counters: Vec<Counters> =
        running.thread_ids().into_iter().map(open).collect::<Result<_, _>>()?;
    let before = running.progress();
    counters.iter().try_for_each(|c| c.enable().map_err(|e| e.to_string()))?;
    let began = Instant::now();
    while began.elapsed() < WINDOW && !half_done(plan, &running.progress()) {
        pause(signals)?;
    }
    counters.iter().try_for_each(|c| c.disable().map_err(|e| e.to_string()))?;
    let after = running.progress();
    if !all_run(&after) {
        return Err(TOO_SOON.into());
    }
    Ok((0..counters.len()).map(|index| cost(&counters[index], &before, &after, index)).collect())
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

fn cost(counters: &Counters, before: &Progress, after: &Progress, index: usize) -> Option<Cost> {
    let values = counters.read().ok()?;
    let ios = |p: &Progress| Dir::ALL.iter().map(|d| p.jobs[index].dirs[*d].ios).sum::<u64>();
    let ios = ios(after) - ios(before);
    let each = |n: u64| n as f64 / ios as f64;
    (ios > 0).then(|| Cost {
        ios,
        window_ns: after.elapsed_ns - before.elapsed_ns,
        user_instructions: each(values.user_instructions),
        kernel_instructions: values.kernel_instructions.map(each),
        user_cycles: each(values.user_cycles),
        kernel_cycles: values.kernel_cycles.map(each),
        speed_ratio: 0.0,
    })
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
