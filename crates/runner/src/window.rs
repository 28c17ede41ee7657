//! A short, separate run, measured from its first I/O after the ramp, with the machine before and after: CPUs, disks, and
//! the CPU quota of the cgroup.

use crate::targets::OpenTargets;
use fathom_analysis::derive;
use fathom_engine::Running;
use fathom_model::experiment::WindowResult;
use fathom_model::plan::Plan;
use fathom_model::progress::Phase;
use fathom_model::record::{DiskRecord, JobRecord};
use fathom_model::split_mix;
use fathom_model::window::CpuTime;
use fathom_watch::cpus::{CpuSampler, CpuSnapshot};
use fathom_watch::disks::{DiskSnapshot, NamedDisks};
use fathom_watch::system::CgroupSampler;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Time between checks for the start of the measured time.
const TICK: Duration = Duration::from_millis(1);

const STEP: Duration = Duration::from_millis(5);

pub struct MeasuredWindow {
    pub jobs: Vec<JobRecord>,
    /// Snapshots when all workers had started to measure, and at the end.
    pub from: Snapshot,
    pub to: Snapshot,
    /// From the start of the first worker to the end of the last.
    pub took: Duration,
}

/// Runs `plan`, whose jobs all run for `window` after `ramp`; takes a snapshot when all of them have started to measure,
/// and one after `window`. In between calls `observe` every few milliseconds, if given.
pub fn measure(
    targets: &OpenTargets,
    plan: &Plan,
    (ramp, window): (Duration, Duration),
    machine: &MachineSnapshots,
    observe: Option<&mut dyn FnMut()>,
) -> Result<MeasuredWindow, String> {
    let began = Instant::now();
    let running = targets.start(plan)?;
    // One sleep costs less than many checks; the ramp does not end early.
    let _over = running.wait(ramp);
    while !running.is_over() && !running.progress().jobs.iter().all(|job| is_measured(job.phase)) {
        thread::sleep(TICK);
    }
    let from = machine.take();
    match observe {
        Some(observe) => observed(&running, window, observe),
        None => drop(running.wait(window)),
    }
    let to = machine.take();
    let jobs = targets.join(running);
    Ok(MeasuredWindow { jobs, from, to, took: began.elapsed() })
}

/// Waits for `window`, or until all workers have ended.
fn observed(running: &Running, window: Duration, observe: &mut dyn FnMut()) {
    let end = Instant::now() + window;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if running.wait(left.min(STEP)) || left <= STEP {
            return;
        }
        observe();
    }
}

/// The workers of a window, added up; with `is_paced`, an I/O that starts late has waited since it was due.
pub(crate) fn workers(jobs: &[JobRecord], is_paced: bool) -> WindowResult {
    let all = derive::merge_jobs(&jobs.iter().collect::<Vec<_>>());
    let done = derive::merge_dirs(&all.dirs.iter().map(|(_, dir)| (0, dir)).collect::<Vec<_>>());
    // Counts exclude I/Os that failed in the ramp.
    let in_ramp = jobs.iter().filter(|job| job.error.is_some() && is_clean(job)).count() as u64;
    let usage = all.usage;
    WindowResult {
        ios: done.counts.ios,
        bytes: done.counts.bytes,
        errors: done.counts.errors + in_ramp,
        short_ios: done.counts.short_ios,
        first_error: all.error.map(|error| error.message),
        clat: if is_paced { done.response } else { done.clat },
        slat: done.slat,
        flush_lat: all.flushes.lat,
        unstarted: done.unstarted_ios,
        user_ns: usage.user_ns,
        system_ns: usage.system_ns,
        switches: usage.voluntary_switches + usage.involuntary_switches,
        system_calls: all.depth.system_calls,
        run_delay_ns: usage.run_delay_ns.map(|ns| ns / jobs.len().max(1) as u64),
        ..WindowResult::default()
    }
}

/// Adds to `sum` what another machine did in the same window; its time is that of the longest.
pub(crate) fn add_rank(sum: &mut WindowResult, other: WindowResult) {
    sum.elapsed_ns = sum.elapsed_ns.max(other.elapsed_ns);
    sum.took_ns = sum.took_ns.max(other.took_ns);
    sum.add(&other);
    sum.workers.extend(other.workers);
    sum.disk = match (sum.disk.take(), other.disk) {
        (Some(disk), Some(other)) => Some(disk.with(&other)),
        (disk, other) => disk.or(other),
    };
    let queues = sum.driver_queue.into_iter().chain(other.driver_queue);
    sum.driver_queue = queues.reduce(|one, other| one + other);
}

/// Whether no I/O of this worker failed in the measured time.
pub(crate) fn is_clean(job: &JobRecord) -> bool {
    job.dirs.iter().all(|(_, done)| done.counts.errors == 0 && done.counts.short_ios == 0)
}

/// Mean measured time of the workers, in nanoseconds.
pub(crate) fn elapsed_ns(jobs: &[JobRecord]) -> u64 {
    jobs.iter().map(|job| job.runtime_ns).sum::<u64>() / jobs.len().max(1) as u64
}

/// For worker `worker` of window `number`.
pub(crate) fn seed(number: u64, worker: u64) -> u64 {
    split_mix::nth(number << 20, worker)
}

fn is_measured(phase: Phase) -> bool {
    !matches!(phase, Phase::Waiting | Phase::Ramp)
}

/// Takes snapshots of what the windows on some targets may depend on.
pub(crate) struct MachineSnapshots {
    cpus: CpuSampler,
    disks: NamedDisks,
    /// None where no cgroup is mounted.
    cgroup: Option<RefCell<CgroupSampler>>,
}

pub(crate) struct Snapshot {
    pub at: Instant,
    cpus: Option<CpuSnapshot>,
    disks: Option<DiskSnapshot>,
    /// Time for which the CPU quota kept threads from running, summed over CPUs, in microseconds.
    throttled_us: Option<u64>,
    /// CPU time of all threads of this process, those of the kernel that work for its rings included, in nanoseconds.
    pub process_ns: u64,
}

impl MachineSnapshots {
    pub fn new(targets: &OpenTargets) -> Self {
        let cgroup = CgroupSampler::open(Path::new("/proc"), Path::new("/sys")).ok();
        Self {
            cpus: CpuSampler::new(Path::new("/proc"), &targets.facts.host.cpus_allowed),
            disks: targets.disk_sampler(),
            cgroup: cgroup.map(RefCell::new),
        }
    }

    pub fn take(&self) -> Snapshot {
        let cgroup = self.cgroup.as_ref();
        Snapshot {
            cpus: self.cpus.snapshot().ok(),
            disks: self.disks.snapshot().ok(),
            throttled_us: cgroup.and_then(|c| c.borrow_mut().snapshot()?.throttled_us),
            process_ns: process_ns(),
            at: Instant::now(),
        }
    }
}

fn process_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Snapshot {
    pub fn cpu_since(&self, from: &Self) -> Option<CpuTime> {
        let throttled = from.throttled_us.zip(self.throttled_us);
        let throttled_us = throttled.map_or(0, |(from, to)| to.saturating_sub(from));
        let (from, to) = (from.cpus.as_ref()?, self.cpus.as_ref()?);
        let time = derive::cpu_time(&from.cpus, &to.cpus, to.tick_ns);
        Some(CpuTime { throttled_ns: throttled_us.saturating_mul(1_000), ..time })
    }

    /// What the disks below the targets that `holds` accepts did since `from`, as one.
    pub fn disk_since(
        &self,
        from: &Self,
        holds: impl Fn(&DiskRecord) -> bool,
    ) -> Option<DiskRecord> {
        let (from, to) = from.disks.as_ref().zip(self.disks.as_ref())?;
        let elapsed = to.at.saturating_duration_since(from.at);
        let disks = derive::disk_records(&from.disks, &to.disks, elapsed);
        disks.into_iter().filter(holds).reduce(|all, disk| all.with(&disk))
    }
}
