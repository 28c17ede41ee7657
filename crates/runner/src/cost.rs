//! What an I/O costs in instructions, cycles and cache misses, from counters read after the measured time.

use crate::cancel::CancelToken;
use crate::counting::{self, WorkerCounts};
use crate::targets::OpenTargets;
use fathom_analysis::derive;
use fathom_model::Plan;
use fathom_model::record::{Cost, JobRecord};

/// Why a worker has no figures on a machine with counters.
const NEVER_FREE: &str = "no hardware counter was free during the run; stop other profilers (perf, or the NMI \
    watchdog: sysctl kernel.nmi_watchdog=0)";

/// Measures the cost per I/O of each of `jobs`, and stores it, or why it is unknown.
pub fn measure(targets: &OpenTargets, plan: &Plan, cancel: &CancelToken, jobs: &mut [JobRecord]) {
    match counting::count(targets, plan, jobs, cancel) {
        Ok(workers) => workers.into_iter().for_each(|worker| note(worker, jobs)),
        Err(reason) => jobs.iter_mut().for_each(|job| job.cost_missing = Some(reason.clone())),
    }
}

fn note(worker: WorkerCounts, jobs: &mut [JobRecord]) {
    let job = &mut jobs[worker.job];
    match cost(&worker) {
        Ok(cost) => job.cost = Some(with_ratio(cost, job)),
        Err(reason) => job.cost_missing = Some(reason),
    }
    job.cost_lacks = worker.lacks;
}

fn cost(worker: &WorkerCounts) -> Result<Cost, String> {
    let counted = worker.counted.as_ref().map_err(Clone::clone)?;
    if worker.ios == 0 {
        return Err("not counted: no I/O completed in the window".into());
    }
    derive::cost(counted, worker.ios, worker.window_ns).ok_or_else(|| NEVER_FREE.into())
}

fn with_ratio(cost: Cost, job: &JobRecord) -> Cost {
    let ios: u64 = job.dirs.iter().map(|(_, d)| d.counts.ios).sum();
    let measured = ios as f64 / job.runtime_ns.max(1) as f64;
    let counted = cost.ios as f64 / cost.window_ns.max(1) as f64;
    Cost { speed_ratio: if measured > 0.0 { counted / measured } else { 0.0 }, ..cost }
}
