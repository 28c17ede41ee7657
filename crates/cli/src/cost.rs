//! Instructions and cycles per I/O, counted in a short window of its own after the measured time:
//! on some virtual machines counting alone makes I/O several times slower.

use crate::session::Session;
use fathom_engine::Running;
use fathom_model::plan::{JobPlan, Plan, Until};
use fathom_model::progress::Phase;
use fathom_model::record::{Cost, JobRecord};
use fathom_model::{Dir, Progress};
use fathom_watch::counters::Counters;
use std::thread;
use std::time::{Duration, Instant};

/// Length of the window.
const WINDOW: Duration = Duration::from_millis(200);
/// How long workers may take to get going.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the jobs of `plan` once more for a moment and notes what an I/O costs, or why that is unknown.
pub fn measure(session: &Session, plan: &Plan, jobs: &mut [JobRecord]) {
    if let Err(reason) = try_measure(session, plan, jobs) {
        jobs.iter_mut()
            .filter(|j| j.cost.is_none())
            .for_each(|j| j.cost_missing = Some(reason.clone()));
    }
}

fn try_measure(session: &Session, plan: &Plan, jobs: &mut [JobRecord]) -> Result<(), String> {
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
    let mut waves: Vec<u32> = plan.jobs.iter().map(|j| j.wave).collect();
    waves.sort_unstable();
    waves.dedup();
    for wave in waves {
        let indices: Vec<usize> =
            (0..plan.jobs.len()).filter(|i| plan.jobs[*i].wave == wave).collect();
        let window =
            Plan { jobs: indices.iter().map(|i| brief(&plan.jobs[*i])).collect(), ..plan.clone() };
        let costs = count(session, &window)?;
        for (index, cost) in indices.into_iter().zip(costs) {
            jobs[index].cost = cost.map(|cost| with_ratio(cost, &jobs[index]));
        }
    }
    Ok(())
}

/// The same job for a moment, as fast as it goes.
fn brief(job: &JobPlan) -> JobPlan {
    let until =
        Until { runtime_ns: Some(2 * (PATIENCE + WINDOW).as_nanos() as u64), ..Until::default() };
    JobPlan { until, start_delay_ns: 0, exitall: false, think: None, ..job.clone() }
}

fn count(session: &Session, plan: &Plan) -> Result<Vec<Option<Cost>>, String> {
    let running = session.start(plan)?;
    let result = wait_and_count(&running);
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

fn wait_and_count(running: &Running) -> Result<Vec<Option<Cost>>, String> {
    let began = Instant::now();
    while !running.progress().jobs.iter().all(|j| j.phase == Phase::Running) {
        if began.elapsed() > PATIENCE || running.is_over() {
            return Err("not counted, as the workers did not start in time".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let open = |tid: Option<i32>| {
        Counters::open(tid.ok_or("a worker ended early")?).map_err(|e| e.to_string())
    };
    let counters: Vec<Counters> =
        running.thread_ids().into_iter().map(open).collect::<Result<_, _>>()?;
    let before = running.progress();
    counters.iter().try_for_each(|c| c.enable().map_err(|e| e.to_string()))?;
    thread::sleep(WINDOW);
    counters.iter().try_for_each(|c| c.disable().map_err(|e| e.to_string()))?;
    let after = running.progress();
    Ok((0..counters.len()).map(|index| cost(&counters[index], &before, &after, index)).collect())
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
