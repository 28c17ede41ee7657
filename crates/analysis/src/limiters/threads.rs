//! What the workload's own threads wait for.

use super::{Cause, View};
use crate::derive;
use fathom_model::finding::{Confidence, Evidence, Unit};
use fathom_model::units;
use fathom_model::watch::ThreadState;

/// Share of their time that threads must have spent in fsync and the like, or for the journal.
const SYNC_MIN: f64 = 0.3;
/// Mean number of threads that must have waited for a lock, and their share.
const LOCK_THREADS_MIN: f64 = 1.5;
const LOCK_SHARE_MIN: f64 = 0.4;
/// Mean number of threads that must have got on meanwhile.
const HOLDERS_MIN: f64 = 0.5;
/// Mean number of io_uring's worker threads that must have been active.
const WORKERS_MIN: f64 = 0.3;
/// Share of the time for which one read must have been in progress, and I/Os in flight at most.
const READ_SHARE_MIN: f64 = 0.4;
const ONE_IN_FLIGHT: f64 = 1.3;
/// Mean number of I/Os that the device must have had in flight: below, reads hit the page cache.
const QUEUE_MIN: f64 = 0.3;

const SYNC_CALLS: [&str; 6] = ["fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync"];
const READ_CALLS: [&str; 5] = ["read", "pread64", "readv", "preadv", "preadv2"];
/// Functions in which threads wait for a journal: of ext4 (jbd2), XFS and btrfs.
const JOURNAL: [&str; 4] = ["jbd2", "wait_transaction", "xlog", "btrfs_sync_log"];

pub(super) fn syncs(view: &View) -> Option<Cause> {
    let is_sync = |_: &str, call: &str, wchan: &str| {
        SYNC_CALLS.contains(&call) || JOURNAL.iter().any(|part| wchan.contains(part))
    };
    let (jobs, runtime_ns) =
        (view.record.jobs.iter(), view.record.jobs.iter().map(|j| j.runtime_ns));
    let flush_ns: u64 = jobs.clone().map(|job| job.flushes.lat.sum_ns()).sum();
    let by_jobs = flush_ns as f64 / runtime_ns.sum::<u64>().max(1) as f64;
    let by_threads = view.threads(is_sync) / view.busy_threads().max(1e-9);
    let share = if view.is_run() { by_jobs } else { by_threads };
    if share < SYNC_MIN {
        return None;
    }
    let journal = view.threads(|_, _, wchan| JOURNAL.iter().any(|part| wchan.contains(part)));
    let disk = view.disks().into_iter().find(|disk| disk.flush.ios > 0.0);
    let flushes = disk.map(|disk| {
        let name = format!("flushes/s on {}", disk.name);
        Evidence::number(name, disk.flush.ios, Unit::Count).with_source("/proc/diskstats")
    });
    let took = disk.and_then(|disk| disk.flush.wait_ms).map(|ms| {
        Evidence::number("f_await", ms * 1e6, Unit::Nanoseconds).with_source("/proc/diskstats")
    });
    let journal = (journal > 0.05).then(|| {
        Evidence::number("threads waiting for the journal", journal, Unit::Count)
            .with_source("wchan")
    });
    Some(Cause {
        id: "fsync",
        weight: share.min(1.0),
        confidence: Confidence::High,
        summary: format!(
            "{} waits for fsync and the journal {:.0}% of the time.",
            view.who,
            share.min(1.0) * 100.0
        ),
        evidence: flushes.into_iter().chain(took).chain(journal).collect(),
        next_step: "Sync less often or several writes at once (group commit), or use a disk with a protected write \
                    cache"
            .into(),
    })
}

pub(super) fn lock(view: &View) -> Option<Cause> {
    let waiting = view.state(ThreadState::FutexBrief);
    let busy = view.busy_threads();
    let share = waiting / busy.max(1e-9);
    // A run's workers share no locks: the thread that waits for them does.
    if !view.is_own || view.is_run() || waiting < LOCK_THREADS_MIN || share < LOCK_SHARE_MIN {
        return None;
    }
    let ran = view.state(ThreadState::OnCpu);
    // Without one that gets on, they wait for something else, such as work.
    if ran + view.state(ThreadState::Disk) + view.state(ThreadState::Runnable) < HOLDERS_MIN {
        return None;
    }
    Some(Cause {
        id: "lock",
        weight: share,
        confidence: Confidence::Medium,
        summary: format!(
            "Threads of {} wait for each other: {waiting:.1} of {busy:.1} were in futex(2) on average, each for a \
             short time, while {ran:.1} ran.",
            view.who
        ),
        evidence: vec![
            Evidence::number("threads in brief futex waits", waiting, Unit::Count)
                .with_source("/proc/PID/task/TID/schedstat and syscall"),
        ],
        next_step: "Find the lock: fathom stacks, or perf trace -s -e futex".into(),
    })
}

pub(super) fn io_workers(view: &View) -> Option<Cause> {
    let workers = view.threads(|comm, _, _| comm.starts_with("iou-wrk"));
    if workers < WORKERS_MIN {
        return None;
    }
    let share = workers / (workers + view.state(ThreadState::OnCpu)).max(workers);
    Some(Cause {
        id: "io-wq",
        weight: share.min(0.75),
        confidence: Confidence::Medium,
        summary: format!(
            "io_uring hands I/Os of {} to worker threads (io-wq): {workers:.1} of them were active on average. Each \
             I/O there costs thread switches.",
            view.who
        ),
        evidence: vec![
            Evidence::number("active iou-wrk threads", workers, Unit::Count)
                .with_source("/proc/PID/task"),
        ],
        next_step: "Use O_DIRECT (direct=1) on a file that is fully written: buffered writes and file systems without \
                    nowait support need worker threads"
            .into(),
    })
}

pub(super) fn one_read_at_a_time(view: &View) -> Option<Cause> {
    let disk = *view.disks().first()?;
    let reads =
        view.threads(|comm, call, _| READ_CALLS.contains(&call) && !comm.starts_with("iou-"));
    let jobs: f64 =
        view.record.jobs.iter().filter_map(|job| derive::in_flight(job, job.runtime_ns)).sum();
    let is_one = |mean: f64| (READ_SHARE_MIN..=ONE_IN_FLIGHT).contains(&mean);
    let mean = if view.is_run() { jobs } else { reads };
    // Other programs' writes do not count.
    let reading = disk.read.ios * disk.read.wait_ms.unwrap_or(0.0) / 1e3;
    if !view.is_own || !is_one(mean) || !(QUEUE_MIN..=ONE_IN_FLIGHT).contains(&reading) {
        return None;
    }
    let took = disk.read.wait_ms.map(|ms| {
        Evidence::number("r_await", ms * 1e6, Unit::Nanoseconds).with_source("/proc/diskstats")
    });
    let queue = Evidence::number(format!("reads in flight at {}", disk.name), reading, Unit::Count);
    Some(Cause {
        id: "one-at-a-time",
        weight: mean.min(1.0) * 0.9,
        confidence: Confidence::High,
        summary: format!(
            "{} does one read at a time: {mean:.1} I/Os were in flight on average, {} reads/s on {}. Latency, not \
             throughput, limits it.",
            view.who,
            units::count(disk.read.ios),
            disk.name
        ),
        evidence: [queue.with_source("/proc/diskstats")].into_iter().chain(took).collect(),
        next_step:
            "Keep more I/Os in flight: a higher iodepth with io_uring, more threads, or readahead"
                .into(),
    })
}
