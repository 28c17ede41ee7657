//! CPU time of the threads that work for the jobs: kernel threads of rings (SQPOLL, io-wq), and those of the C library.

use fathom_engine::Running;
use fathom_model::Progress;
use fathom_model::plan::{Engine, JobPlan, Plan};
use fathom_model::progress::Phase;
use fathom_model::record::JobRecord;
use fathom_watch::threads::{helper_time, library_time};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy)]
struct JobCpuTime {
    /// When the measured time began.
    at_start_ns: u64,
    latest_ns: u64,
}

/// Follows the CPU time of the threads of all jobs that have such threads.
pub(crate) struct RingThreads {
    proc: PathBuf,
    times: Vec<Option<JobCpuTime>>,
    threads: Vec<Threads>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    None,
    Ring,
    Library,
}

impl Threads {
    fn of(job: &JobPlan) -> Self {
        match &job.engine {
            // Any ring may punt I/Os to io-wq: buffered writes, or more I/Os than the device has tags.
            engine if engine.uring().is_some() => Self::Ring,
            Engine::Posixaio => Self::Library,
            _ => Self::None,
        }
    }
}

impl RingThreads {
    pub fn new(plan: &Plan, proc: &Path) -> Self {
        Self {
            proc: proc.to_path_buf(),
            times: vec![None; plan.jobs.len()],
            threads: plan.jobs.iter().map(Threads::of).collect(),
        }
    }

    pub fn sample(&mut self, running: &Running, progress: &Progress) {
        if self.threads.iter().all(|threads| *threads == Threads::None) {
            return;
        }
        for (index, tid) in running.thread_ids().into_iter().enumerate() {
            let phase = progress.jobs[index].phase;
            let alive = matches!(phase, Phase::Waiting | Phase::Ramp | Phase::Running);
            let (true, Some(tid)) = (alive, tid) else { continue };
            let time = match self.threads[index] {
                Threads::None => continue,
                Threads::Ring => helper_time(&self.proc, tid).map(|time| time.owned_ns),
                Threads::Library => library_time(&self.proc, tid),
            };
            if let Ok(now) = time {
                let first = JobCpuTime { at_start_ns: 0, latest_ns: now };
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
