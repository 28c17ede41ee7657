//! CPU time of the kernel threads that work for the jobs' rings (SQPOLL, io-wq).

use fathom_engine::Running;
use fathom_model::Progress;
use fathom_model::plan::{JobPlan, Plan};
use fathom_model::progress::Phase;
use fathom_model::record::JobRecord;
use fathom_watch::threads::helper_time;
use std::path::{Path, PathBuf};

/// CPU time of one ring's threads, in nanoseconds.
#[derive(Clone, Copy)]
struct CpuTime {
    /// When the measured time began.
    at_start_ns: u64,
    latest_ns: u64,
}

/// Follows the CPU time of the threads of all rings that have such threads.
pub(crate) struct RingThreads {
    proc: PathBuf,
    /// One entry for each job.
    times: Vec<Option<CpuTime>>,
    has_threads: Vec<bool>,
}

impl RingThreads {
    pub fn new(plan: &Plan, proc: &Path) -> Self {
        // Any ring may punt I/Os to io-wq: buffered writes, or more I/Os than the device has tags.
        let has = |job: &JobPlan| job.engine.uring().is_some();
        Self {
            proc: proc.to_path_buf(),
            times: vec![None; plan.jobs.len()],
            has_threads: plan.jobs.iter().map(has).collect(),
        }
    }

    pub fn sample(&mut self, running: &Running, progress: &Progress) {
        if !self.has_threads.contains(&true) {
            return;
        }
        for (index, tid) in running.thread_ids().into_iter().enumerate() {
            let phase = progress.jobs[index].phase;
            let alive = matches!(phase, Phase::Waiting | Phase::Ramp | Phase::Running);
            let (true, true, Some(tid)) = (self.has_threads[index], alive, tid) else { continue };
            if let Ok(time) = helper_time(&self.proc, tid) {
                let now = time.owned_ns;
                let first = CpuTime { at_start_ns: 0, latest_ns: now };
                let times = self.times[index].get_or_insert(first);
                times.latest_ns = times.latest_ns.max(now);
                if phase != Phase::Running {
                    times.at_start_ns = times.latest_ns;
                }
            }
        }
    }

    pub fn note(&self, jobs: &mut [JobRecord]) {
        for (job, times) in jobs.iter_mut().zip(&self.times) {
            if let Some(times) = times {
                job.usage.helper_ns = times.latest_ns - times.at_start_ns;
            }
        }
    }
}
