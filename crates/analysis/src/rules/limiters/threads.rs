//! What the workload's own threads wait for.

use super::View;
use super::cpu::{OWN_TIME, own_wait};
use super::device::DEVICE;
use super::memory::NOT_ON_DISK;
#[cfg(test)]
use super::testing::Scene;
use super::view::{AGAINST_MIN, CPU_SAMPLES_MIN, NAMED_MIN, meanwhile, number_text, share_text};
use crate::derive;
use crate::layers::Layer;
use crate::machine::{DiskRates, IoRates};
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
use fathom_model::Dir;
use fathom_model::finding::{Confidence, Evidence, Unit};
use fathom_model::plan::{JobPlan, SyncIo};
use fathom_model::record::JobRecord;
use fathom_model::units;
use fathom_model::watch::{DiskKind, LOCK_CALLERS, ThreadState};

/// Share of their time that threads must have spent in fsync and the like, or for the journal.
const SYNC_MIN: f64 = 0.3;
/// The part of a device's writes that must be a program's, and of these that must be flushed, for the flushes to be its own.
const FLUSHED_MIN: f64 = 0.5;
/// Mean number of threads that must have waited for a lock, and their share.
const LOCK_THREADS_MIN: f64 = 1.5;
const LOCK_SHARE_MIN: f64 = 0.4;
/// Mean number of threads that must have got on meanwhile.
const HOLDERS_MIN: f64 = 0.5;
/// The share of the time from which a lock that its holders keep while they are on a CPU bounds the CPU time.
const HELD_ON_CPU_MIN: f64 = 0.8;
/// Threads that must have waited, and their share, for a lock of the kernel, whose holder may be any thread.
const KERNEL_LOCK_THREADS_MIN: f64 = 0.5;
const KERNEL_LOCK_SHARE_MIN: f64 = 0.3;
/// Mean number of io_uring's worker threads that must have been active, and their share.
const WORKERS_MIN: f64 = 0.3;
const WORKERS_SHARE_MIN: f64 = 0.2;
/// Share of the time for which one I/O must have been in progress, and I/Os in flight at most.
const ONE_SHARE_MIN: f64 = 0.3;
const ONE_IN_FLIGHT: f64 = 1.3;
/// Mean number of I/Os that the device must have had in flight: below, reads hit the page cache.
const QUEUE_MIN: f64 = 0.3;

const SYNC_CALLS: [&str; 6] = ["fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync"];
pub(super) const READ_CALLS: [&str; 5] = ["read", "pread64", "readv", "preadv", "preadv2"];
const WRITE_CALLS: [&str; 5] = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];
/// Calls in which a thread waits for any number of I/Os: only the device shows that it is one.
const ASYNC_WAITS: [&str; 3] = ["io_uring_enter", "io_getevents", "io_pgetevents"];
/// Fewer flushes of a device than this in all are those of one sync, and of the journal.
const FLUSHES_OF_ONE_SYNC: f64 = 4.5;
/// What helps where one sync waits for all that was written before.
const SYNCS_ONCE: &str = "One sync waits for all data written before it: start writeback earlier (sync_file_range), write \
                          directly (O_DIRECT), or use a disk with more write bandwidth";
/// Functions in which threads wait for a journal: of ext4 (jbd2), XFS and btrfs.
const JOURNAL: [&str; 4] = ["jbd2", "wait_transaction", "xlog", "btrfs_sync_log"];

/// Functions in which threads wait for a lock of flock(2) or fcntl(2): fs/locks.c.
const FILE_LOCKS: [&str; 4] =
    ["locks_lock_inode_wait", "flock_lock_inode_wait", "posix_lock_inode_wait", "fcntl_setlk"];

pub(in crate::rules) static FSYNC: Rule = Rule {
    id: "fsync",
    limits: "flushes (fsync)",
    meaning: "The workload waited for fsync(2) and the like, for synchronous writes, or for the file system's journal.",
    threshold: || {
        format!(
            "{} or more of the busy threads' time, or of a job's. In a run, the time in writes with O_SYNC or O_DSYNC counts: \
             all that its threads waited in buffered ones; of direct ones, the part that flushes have in the time of the \
             device's writes and flushes. For a program, that part of its waits in aio and io_uring counts, or of one I/O at a time what its \
             write took beyond the device's time, if it writes most, and has files open with O_SYNC or O_DSYNC, or the device was flushed for \
             {} of its own writes or more, which were as much of the device's.",
            share_text(SYNC_MIN),
            format_args!("{:.0}%", FLUSHED_MIN * 100.0)
        )
    },
    remedy: "Sync less often, or once for several writes (group commit), or use a disk with power-loss protection",
    supersedes: &[&DEVICE],
    confirmation: Some(Confirmation::gain(Change::NoFlushes)),
    checks: &[Check::View(fsync)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.syncs(0.7),
            near_miss: |s| s.syncs(0.2),
            summary: "fio waited for fsync and the journal 70% of the time.",
        },
        Case::View {
            holds: |s| s.writes_of_its_own(SyncIo::Dsync, false),
            near_miss: |s| s.writes_of_its_own(SyncIo::None, false),
            summary: "fathom waited for its synchronous writes to be on stable storage (O_SYNC, O_DSYNC) 60% of the time.",
        },
        // A third of the time at the device is that of flushes.
        Case::View {
            holds: |s| {
                s.writes_of_its_own(SyncIo::Dsync, true);
                s.flushes("vda", 5000, 1000);
            },
            // It has no volatile cache.
            near_miss: |s| s.writes_of_its_own(SyncIo::Dsync, true),
            summary: "fathom waited for its synchronous writes to be on stable storage (O_SYNC, O_DSYNC) 20% of the time.",
        },
        // The kernel flushes for it, while it waits in aio.
        Case::View {
            holds: |s| s.writes_asynchronously(500, true),
            near_miss: |s| s.writes_asynchronously(10, false),
            summary: "fio waited for its synchronous writes to be on stable storage (O_SYNC, O_DSYNC) 63% of the time.",
        },
        Case::View {
            holds: |s| s.writes_asynchronously(500, false),
            // Another program's.
            near_miss: |s| {
                s.writes_asynchronously(500, false);
                s.own().disk_write /= 10;
            },
            summary: "fio waited for fsync and the journal 63% of the time.",
        },
    ],
    ..Rule::LIMITER
};

#[cfg(test)]
#[test]
fn who_does_direct_io_is_not_advised_to() {
    let mut scene = Scene::reads();
    scene.workers(4.0);
    let step = |scene: &Scene| {
        let causes = scene.causes();
        let cause = causes.iter().find(|cause| cause.rule == IO_WORKERS.id).unwrap();
        cause.next_step.clone().unwrap()
    };
    assert!(step(&scene).contains("direct=1"));
    scene.file(1 << 30, 1 << 30, false);
    scene.last.processes.as_mut().unwrap().files[0].direct = true;
    assert!(step(&scene).contains("ioengine=libaio"));
}

#[cfg(test)]
#[test]
fn the_device_that_was_flushed_is_cited() {
    let mut scene = Scene::reads();
    scene.syncs(0.7);
    // Another program reads from a busier disk, which is flushed now and then.
    scene.disk("vdb", 10_000, 16.0, 99.0);
    scene.last.disks.iter_mut().for_each(|disk| disk.flush.ios = disk.flush.ios.max(5));
    let cause = scene.causes().into_iter().find(|cause| cause.rule == FSYNC.id).unwrap();
    assert!(cause.evidence.iter().any(|evidence| evidence.name == "flushes/s on vda"), "{cause:?}");
}

/// The share of its time that a run waited for the flushes of writes with O_SYNC or O_DSYNC, of which it has no call of their
/// own. A buffered write waits for nothing else; of a direct one, the part is that of flushes in the time of its device.
fn sync_writes(view: &View) -> f64 {
    let flushes = flushed(view).map_or(0.0, |disk| {
        disk.flush.in_flight() / (disk.flush.in_flight() + disk.write.in_flight()).max(1e-9)
    });
    let of_flushes = |(plan, job): (&JobPlan, &JobRecord)| {
        let part = if plan.direct { flushes } else { 1.0 };
        let writes = &job.dirs.write;
        let is_synced = plan.sync_io != SyncIo::None;
        let ns = writes.clat.sum_ns().max(writes.lat.sum_ns()) as f64;
        if is_synced { ns * part } else { 0.0 }
    };
    let synced: f64 = derive::jobs(view.record).map(of_flushes).sum();
    let all: u64 = view.record.jobs.iter().map(derive::latency_sum_ns).sum();
    view.io_wait().unwrap_or(1.0) * synced / all.max(1) as f64
}

/// The share of its time that a program waited in aio or io_uring for flushes, in which none of its threads are: those of
/// writes with O_DSYNC, or as many as its writes to a device that others hardly write to. And whether it is the former.
fn async_flushes(view: &View) -> Option<(f64, bool)> {
    let waiting = view.states(&[ThreadState::Aio, ThreadState::IoUring]);
    let (processes, disk) = (&view.seen.processes, flushed(view)?);
    let (own, written) = (&processes.watched, disk.write.bytes);
    let rate = processes.per_second(own.disk_write) / (written / disk.write.ios.max(1e-9)).max(1.0);
    let is_sync = processes.files.values().any(|file| file.sync);
    // In fsync(2) it would be in its threads' time, with io_uring in a worker's.
    let are_its_own = view.state(ThreadState::Aio) > view.state(ThreadState::IoUring)
        && view.share(view.state(ThreadState::Flush)) < AGAINST_MIN
        && processes.per_second(own.disk_write) >= FLUSHED_MIN * written
        && disk.flush.ios >= FLUSHED_MIN * rate;
    if view.is_run() || view.account.is_none() || own.disk_write <= own.disk_read {
        return None;
    }
    let (flushes, writes) = (disk.flush.in_flight(), disk.write.in_flight());
    // One at a time, what is not the write itself; otherwise, as much as of the device's time.
    let of_one = 1.0 - rate * disk.write.wait_ms? / 1e3 / waiting.max(1e-9);
    let part = (flushes / (flushes + writes).max(1e-9)).max(of_one).min(1.0);
    (is_sync || are_its_own).then(|| (view.share(waiting) * part, is_sync))
}

fn fsync(view: &View) -> Option<Claim> {
    let of_journal = |wchan: &str| JOURNAL.iter().any(|part| wchan.contains(part));
    let jobs = view.record.jobs.iter();
    let flush_ns: u64 = jobs.clone().map(|job| job.flushes.lat.sum_ns()).sum();
    let runtime_ns: u64 = jobs.map(|job| job.runtime_ns).sum();
    let calls = flush_ns as f64 / runtime_ns.max(1) as f64;
    let (asynchronous, is_sync) = async_flushes(view).unwrap_or_default();
    let writes = if view.is_run() { sync_writes(view) } else { 0.0 };
    let share = match view.is_run() {
        true => (calls + writes).min(1.0),
        false if view.account.is_some() => {
            view.share(view.state(ThreadState::Flush)) + asynchronous
        }
        false => view
            .share(view.threads(|_, call, wchan| SYNC_CALLS.contains(&call) || of_journal(wchan))),
    };
    if share < view.share_min(SYNC_MIN) {
        return None;
    }
    let spent = Evidence::number("time in syncs", share, Unit::Share);
    let source = match view.waits_in(ThreadState::Flush) {
        _ if view.is_run() => "",
        _ if asynchronous > 0.0 => "times of its writes and of the device's",
        Some(_) => "context switches",
        None => "system call and wchan of the threads",
    };
    let of_threads = !view.is_run() && asynchronous == 0.0;
    let each = view.waits_in(ThreadState::Flush).filter(|_| of_threads);
    let each =
        each.map(|(rate, ns)| format!(" ({} waits/s of {})", units::count(rate), units::time(ns)));
    let disk = flushed(view);
    let flushes = disk.map(|disk| {
        let name = format!("flushes/s on {}", disk.name);
        Evidence::number(name, disk.flush.ios, Unit::Count).with_source("/proc/diskstats")
    });
    // Below the resolution of the kernel's counters, 1 ms in all, nothing is known.
    let took = disk.and_then(|disk| disk.flush.wait_ms).filter(|ms| *ms > 0.0).map(|ms| {
        Evidence::number("f_await", ms * 1e6, Unit::Nanoseconds).with_source("/proc/diskstats")
    });
    let waiting = view.threads(|_, _, wchan| of_journal(wchan));
    let journal = (waiting > 0.05).then(|| {
        Evidence::number("threads waiting for the journal", waiting, Unit::Count)
            .with_source("wchan")
    });
    let what = match writes > calls || is_sync && asynchronous > 0.0 {
        true => "its synchronous writes to be on stable storage (O_SYNC, O_DSYNC)",
        false => "fsync and the journal",
    };
    let summary = format!(
        "{} waited for {what} {:.0}% of the time{}.",
        view.who_in(ThreadState::Flush),
        share * 100.0,
        each.unwrap_or_default()
    );
    let evidence =
        [spent.with_source(source)].into_iter().chain(flushes).chain(took).chain(journal);
    let who = view.program_in(ThreadState::Flush);
    let claim = Claim::new(summary, evidence.collect()).about(who);
    let claim = match syncs_once(view) && writes == 0.0 && asynchronous == 0.0 {
        true => claim.remedy(SYNCS_ONCE),
        false => claim,
    };
    Some(claim.weight(share).confidence(Confidence::High))
}

/// Whether each job of a run, or the program, syncs once at most: there is nothing to do less often.
fn syncs_once(view: &View) -> bool {
    if view.is_run() {
        return view.record.jobs.iter().all(|job| job.flushes.lat.count() <= 1);
    }
    let recorded = view.seen.last().calls.as_ref().map(|calls| {
        let syncs = calls.calls.iter().filter(|of| SYNC_CALLS.contains(&of.call.as_str()));
        let count = calls.unfinished + syncs.map(|of| of.latency.count()).sum::<u64>();
        let all_ns = 0.95 * view.seen.elapsed_ns as f64;
        (count <= 1, calls.lost == 0 && calls.seen_ns as f64 >= all_ns)
    });
    match recorded {
        Some((false, _)) => false,
        Some((true, true)) => true,
        // A journal commits every few seconds by itself.
        _ => flushed(view).is_some_and(|disk| {
            disk.flush.ios * view.seen.elapsed_ns as f64 / 1e9 < FLUSHES_OF_ONE_SYNC
        }),
    }
}

/// The device that was flushed: one that holds a run's files, or the one with most flushes.
fn flushed<'a>(view: &'a View) -> Option<&'a DiskRates> {
    let mut disks = view.rates.disks.iter().filter(|disk| disk.flush.ios > 0.0).collect::<Vec<_>>();
    disks.retain(|disk| disk.kind != DiskKind::Partition);
    let targets =
        view.record.header.facts.targets.iter().filter_map(|target| target.device.as_ref());
    let targets: Vec<&str> = targets.map(|device| device.name.as_str()).collect();
    let is_target = |disk: &&&DiskRates| targets.contains(&disk.name.as_str());
    let most = |a: &&DiskRates, b: &&DiskRates| a.flush.ios.total_cmp(&b.flush.ios);
    let of_targets = disks.iter().filter(is_target).copied().max_by(most);
    of_targets.or_else(|| disks.into_iter().max_by(most))
}

pub(in crate::rules) static LOCK: Rule = Rule {
    id: "lock",
    limits: "a lock in the program",
    meaning: "The program's threads waited for each other.",
    threshold: || {
        format!(
            "{LOCK_THREADS_MIN} threads or more, and {:.0}% of these and the busy ones, were in a futex wait that began \
             since the previous sample, while {HOLDERS_MIN} or more ran, were runnable, or waited for I/O. Or threads took turns, and \
             waited for each other {:.0}% of the time or more, however long each time: one of them got on at a time, no one thread \
             all the time, and they ended each other's waits as far as that was recorded.",
            LOCK_SHARE_MIN * 100.0,
            NAMED_MIN * 100.0
        )
    },
    remedy: "Find the lock (fathom stacks, or perf trace -s -e futex) and hold it for less time: more threads do not help",
    supersedes: &[&OWN_TIME, &super::cpu::OTHER_PROGRAMS, &super::waits::TIMER],
    checks: &[Check::View(lock)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.lock(6.5, 1.0),
            // Threads that wait for work.
            near_miss: |s| s.lock(6.5, 0.1),
            summary: "Threads of fio waited for each other: 6.5 of 7.5 were in futex(2) on average, while 1.0 ran.",
        },
        Case::View {
            holds: |s| s.takes_turns(4, ThreadState::OnCpu),
            near_miss: |s| s.takes_turns(1, ThreadState::OnCpu),
            summary: "Threads of fio waited for each other: 3.0 of 4.0 were in futex(2) on average, while 1.0 ran. Its holders, one after the other, were meanwhile: on CPU 100%. One of them gets on at a time: \
                      what they do with the lock uses 1.0 CPU at most, whatever else runs.",
        },
        Case::View {
            holds: |s| s.takes_turns(4, ThreadState::Disk),
            near_miss: |s| s.takes_turns(1, ThreadState::Disk),
            summary: "Threads of fio waited for each other: 3.0 of 4.0 were in futex(2) on average, while \
                      0.0 ran. Its holders, one after the other, were meanwhile: disk I/O 100%. One of them gets on at a time.",
        },
        Case::View {
            holds: |s| s.takes_turns(2, ThreadState::Timer),
            // They wait for a dispatcher.
            near_miss: |s| {
                s.takes_turns(2, ThreadState::Timer);
                s.ends_their_waits(99);
            },
            summary: "Threads of fio waited for each other: 1.0 of 2.0 were in futex(2) on average, while 0.0 ran. Its holders, one \
                      after the other, were meanwhile: timer 100%. One of them gets on at a time.",
        },
        Case::View {
            holds: |s| s.is_served(4, ThreadState::Futex, "futex_wait_queue", 0.75),
            near_miss: |s| s.is_served(1, ThreadState::Futex, "futex_wait_queue", 0.75),
            summary: "Threads of server, for which fio waited 100% of its time, waited for each other: 3.0 of 4.0 were in futex(2) \
                      on average, while 1.0 ran. Those that did not were meanwhile: on CPU 100%. One of them gets on at a \
                      time: what they do with the lock uses 1.0 CPU at most, whatever else runs.",
        },
        Case::View {
            holds: |s| s.waits_for("compaction", ThreadState::FutexBrief, 0.9),
            near_miss: |s| s.waits_for("compaction", ThreadState::FutexBrief, 0.3),
            summary: "Threads of fio waited for each other: 3.0 of 3.9 were in futex(2) on average, while \
                      0.9 ran (compaction 90% of the time).",
        },
    ],
    ..Rule::LIMITER
};

fn lock(view: &View) -> Option<Claim> {
    let waiting = view.state(ThreadState::FutexBrief);
    let turns = view.account.as_ref().and_then(|account| account.turns.as_ref());
    let turns = turns.filter(|turns| view.share(turns.waiting) >= NAMED_MIN);
    let slept = turns.map_or(0.0, |_| view.state(ThreadState::Timer));
    let all = view.busy_threads() + waiting + slept;
    let share = waiting / all.max(1e-9);
    let ran = view.state(ThreadState::OnCpu);
    // Without one that gets on, they wait for something else, such as work.
    let is_lock = waiting >= LOCK_THREADS_MIN
        && share >= LOCK_SHARE_MIN
        && view.busy_threads() >= HOLDERS_MIN;
    // A run's workers share no locks: the thread that waits for them does.
    if !view.is_own || view.is_run() || !is_lock && turns.is_none() {
        return None;
    }
    let holders = view.holders(ThreadState::FutexBrief);
    let holders = holders
        .or_else(|| turns.map(|turns| meanwhile(" Those that did not were", &turns.meanwhile)));
    let holders = holders.map(|(holders, on_cpu)| {
        let ceiling = match on_cpu >= HELD_ON_CPU_MIN {
            true => ": what they do with the lock uses 1.0 CPU at most, whatever else runs",
            false => "",
        };
        format!("{holders} One of them gets on at a time{ceiling}.")
    });
    let semaphores = view.part_in(ThreadState::FutexBrief, "sem").unwrap_or(0.0);
    let peer = view.peer_in(ThreadState::FutexBrief);
    let worker = view.worker().filter(|_| peer.is_none());
    let worker =
        worker.map(|(comm, on_cpu)| format!(" ({comm} {:.0}% of the time)", on_cpu * 100.0));
    let summary = format!(
        "Threads of {} waited for each other: {waiting:.1} of {all:.1} were in {} on average, while {ran:.1} ran{}.{}",
        view.who_in(ThreadState::FutexBrief),
        if semaphores >= 0.5 { "semop(2)" } else { "futex(2)" },
        worker.unwrap_or_default(),
        holders.unwrap_or_default()
    );
    let share = if view.account.is_some() { view.share(waiting) } else { share };
    let waiting = Evidence::number("threads waiting for each other", waiting, Unit::Count);
    let waiting = waiting.with_source("/proc/PID/task/TID/schedstat and syscall");
    let who = peer.map_or(&view.who, |peer| &peer.process);
    let claim = Claim::new(summary, vec![waiting]).about(view.threads_in(who, "futex"));
    let claim = claim.command(view.stacks_command(ThreadState::FutexBrief)).weight(share);
    Some(claim.confidence(Confidence::Medium))
}

pub(in crate::rules) static KERNEL_LOCK: Rule = Rule {
    id: "kernel-lock",
    limits: "a lock in the kernel",
    meaning: "The workload's threads waited for a kernel lock, such as that of a file they write to.",
    threshold: || {
        format!(
            "{} threads or more, and {} of the busy ones, were on average in uninterruptible sleep in a \
             function that takes a lock and leaves waiting for I/O to others: its name contains {}.",
            number_text(KERNEL_LOCK_THREADS_MIN),
            share_text(KERNEL_LOCK_SHARE_MIN),
            LOCK_CALLERS.map(|part| format!("`{part}`")).join(", ")
        )
    },
    remedy: "Find who holds it: fathom stacks, or perf lock contention",
    checks: &[Check::View(kernel_lock)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.kernel_lock(6.5, 1.0),
            near_miss: |s| s.kernel_lock(0.4, 1.0),
            summary: "6.5 of 7.5 busy threads of fio waited for a kernel lock on average, most of them in \
                      ext4_buffered_write_iter (pwrite64).",
        },
        Case::View {
            holds: |s| s.is_served(1, ThreadState::KernelLock, "ext4_buffered_write_iter", 0.8),
            near_miss: |s| {
                s.is_served(1, ThreadState::KernelLock, "ext4_buffered_write_iter", 0.05)
            },
            summary: "0.8 of 1.0 busy threads of server, for which fio waited 100% of its time, waited for a kernel lock on average, \
                      most of them in ext4_buffered_write_iter.",
        },
        Case::View {
            holds: |s| s.sleeps(ThreadState::KernelLock, "flock", "locks_lock_inode_wait", 0.9),
            near_miss: |s| {
                s.sleeps(ThreadState::KernelLock, "flock", "locks_lock_inode_wait", 0.05)
            },
            summary: "fio waited for a file lock (flock(2), fcntl(2)) 90% of the time.",
        },
    ],
    ..Rule::LIMITER
};

fn kernel_lock(view: &View) -> Option<Claim> {
    let waiting = view.state(ThreadState::KernelLock);
    let share = view.share(waiting);
    if waiting < view.share_min(KERNEL_LOCK_THREADS_MIN)
        || share < view.share_min(KERNEL_LOCK_SHARE_MIN)
    {
        return None;
    }
    let is_lock = |wchan: &str| {
        FILE_LOCKS.contains(&wchan)
            || ThreadState::uninterruptible(wchan) == ThreadState::KernelLock
    };
    let peer = view.peer_in(ThreadState::KernelLock);
    // Threads of peers are not sampled.
    let sampled = view.groups(|_, _, wchan| is_lock(wchan)).next().filter(|_| peer.is_none());
    let most = match (&view.account, sampled) {
        (_, Some(group)) => group.values.clone(),
        (Some(account), None) => {
            let group = account.most_in(ThreadState::KernelLock)?;
            let function =
                group.functions.iter().find(|one| one.state == ThreadState::KernelLock)?;
            vec![group.comm.clone(), String::new(), String::new(), function.function.clone()]
        }
        (None, None) => return None,
    };
    let [comm, _, call, wchan] = most.as_slice() else { return None };
    let call_shown = if call.is_empty() { String::new() } else { format!(" ({call})") };
    if FILE_LOCKS.contains(&wchan.as_str()) {
        return Some(file_lock_claim(view, comm, wchan, share));
    }
    let summary = format!(
        "{waiting:.1} of {:.1} busy threads of {} waited for a kernel lock on average, most of them in {wchan}{call_shown}.{}",
        view.busy_threads(),
        view.who_in(ThreadState::KernelLock),
        view.holders(ThreadState::KernelLock).map_or_else(String::new, |(holders, _)| holders)
    );
    let waiting = Evidence::number("threads waiting for a kernel lock", waiting, Unit::Count);
    let claim = Claim::new(summary, vec![waiting.with_source("wchan")]);
    let claim = claim.about(view.threads_in(comm, wchan));
    let claim = claim.command(view.stacks_command(ThreadState::KernelLock));
    let claim = claim.weight(share).confidence(Confidence::High);
    Some(match WRITE_CALLS.contains(&call.as_str()) {
        true => Claim {
            command: None,
            ..claim.remedy("Use one file per job: writes to the same file serialize on its lock")
        },
        false => claim,
    })
}

fn file_lock_claim(view: &View, comm: &str, wchan: &str, share: f64) -> Claim {
    let who = view.who_in(ThreadState::KernelLock);
    let shown = share * 100.0;
    let summary =
        format!("{who} waited for a file lock (flock(2), fcntl(2)) {shown:.0}% of the time.");
    let waiting = Evidence::number("time waiting for a file lock", share, Unit::Share);
    let claim = Claim::new(summary, vec![waiting.with_source("wchan")]).weight(share);
    let claim = claim.about(view.threads_in(comm, wchan)).confidence(Confidence::High);
    claim.remedy("Look for who holds it, and what that program does").command("lslocks")
}

pub(in crate::rules) static IO_WORKERS: Rule = Rule {
    id: "io-wq",
    limits: "io_uring's worker threads",
    meaning: "io_uring could not submit I/Os without blocking and punted them to worker threads (io-wq).",
    threshold: || {
        format!(
            "{WORKERS_MIN} iou-wrk threads or more, and {:.0}% of the busy threads, were active on average. By {CPU_SAMPLES_MIN} CPU samples or \
             more, io_uring, io-wq and the scheduler took {:.0}% of the time or more on a CPU, and it explains no more than that: \
             the rest is the work itself, such as copying.",
            WORKERS_SHARE_MIN * 100.0,
            NAMED_MIN * 100.0
        )
    },
    remedy: "Use O_DIRECT (direct=1) on a file that is fully written: buffered writes and file systems without nowait \
             support need worker threads",
    supersedes: &[&NOT_ON_DISK, &OWN_TIME],
    confirmation: Some(Confirmation::gain(Change::Direct)),
    checks: &[Check::View(io_workers)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.workers(4.0),
            near_miss: |s| s.workers(0.1),
            summary: "io_uring punted I/Os of fio to worker threads (io-wq), 4.0 of which were active on average. \
                      Each such I/O costs context switches.",
        },
        Case::View {
            // A run that samples the whole machine.
            holds: |s| {
                s.workers(4.0);
                s.run_of_its_own(101);
            },
            // The workers of another program.
            near_miss: |s| {
                s.workers(4.0);
                s.run_of_its_own(102);
            },
            summary: "io_uring punted I/Os of fathom to worker threads (io-wq), 4.0 of which were active on average. \
                      Each such I/O costs context switches.",
        },
        Case::View {
            // They hand over small I/Os.
            holds: |s| s.works_in_io_wq(&["io_wq_submit_work", "io_worker_handle_work"]),
            // They copy.
            near_miss: |s| {
                s.works_in_io_wq(&["ext4_file_read_iter", "filemap_read", "_copy_to_iter"])
            },
            summary: "io_uring punted I/Os of fio to worker threads (io-wq), 0.9 of which were active on average: 100% of the \
                      CPU time went to handing I/Os over.",
        },
    ],
    ..Rule::LIMITER
};

fn io_workers(view: &View) -> Option<Claim> {
    let workers = view.threads(|comm, _, _| comm.starts_with("iou-wrk"));
    let share = view.share(workers);
    if workers < WORKERS_MIN || share < WORKERS_SHARE_MIN {
        return None;
    }
    let is_sampled = view.layers.samples >= CPU_SAMPLES_MIN;
    let layers = [Layer::Uring, Layer::IoWq, Layer::Scheduler];
    let handing_over: f64 = layers.into_iter().map(|layer| view.layers.share(layer)).sum();
    // The rest of the workers' time is that of the work itself, on a CPU or at the device.
    let weight = match is_sampled {
        true => {
            // Who waits behind its own threads waits for what these do.
            let on_cpu = view.state(ThreadState::OnCpu) + own_wait(view);
            share.min(handing_over * view.share(on_cpu))
        }
        false => share.min(0.75),
    };
    if weight < NAMED_MIN {
        return None;
    }
    let cost = match is_sampled {
        true => format!(": {:.0}% of the CPU time went to handing I/Os over", handing_over * 100.0),
        false => ". Each such I/O costs context switches".to_string(),
    };
    let summary = format!(
        "io_uring punted I/Os of {} to worker threads (io-wq), {workers:.1} of which were active on average{cost}.",
        view.who
    );
    let workers = Evidence::number("active iou-wrk threads", workers, Unit::Count);
    let cost =
        Evidence::number("CPU time in io_uring, io-wq and scheduler", handing_over, Unit::Share);
    let cost = is_sampled.then(|| cost.with_source("CPU samples"));
    let evidence = [workers.with_source("/proc/PID/task")].into_iter().chain(cost);
    let claim = Claim::new(summary, evidence.collect()).about(view.threads_in("iou-wrk-*", ""));
    let claim = claim.weight(weight).confidence(Confidence::Medium);
    let (jobs, files) = (&view.record.plan.jobs, &view.seen.processes.files);
    let is_direct = match view.is_run() {
        true => !jobs.is_empty() && jobs.iter().all(|job| job.direct),
        false => !files.is_empty() && files.values().all(|file| file.direct),
    };
    Some(match is_direct {
        true => claim.remedy(
            "Compare with ioengine=libaio, or with more jobs: the device or file system does not support nowait",
        ),
        false => claim,
    })
}

pub(in crate::rules) static ONE_AT_A_TIME: Rule = Rule {
    id: "one-at-a-time",
    limits: "latency (one I/O at a time)",
    meaning: "The workload issued one I/O at a time: the device's latency limited it, not its throughput.",
    threshold: || {
        format!(
            "On average {} to {ONE_IN_FLIGHT} threads waited in read(2), write(2) and the like, in io_uring or aio, or the jobs \
             had as many I/Os in flight, {} to {ONE_IN_FLIGHT} reads or writes were in flight at the device, and that was {} or more of \
             the busy threads' time.",
            number_text(ONE_SHARE_MIN),
            number_text(QUEUE_MIN),
            share_text(ONE_SHARE_MIN)
        )
    },
    remedy: "Keep more I/Os in flight: a higher iodepth with io_uring, more threads, or readahead",
    supersedes: &[&DEVICE],
    confirmation: Some(Confirmation::gain(Change::InFlight)),
    checks: &[Check::View(one_at_a_time)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.sync_reads(0.8),
            near_miss: |s| s.sync_reads(1.8),
            summary: "fio issued one read at a time: 0.8 I/Os were in flight on average, 10k reads/s on vda. Latency, not \
                      throughput, limits it.",
        },
        Case::View {
            holds: |s| s.sync_reads(0.5),
            // Reads that hit the page cache.
            near_miss: |s| {
                s.sync_reads(0.5);
                s.disk("vda", 100, 0.02, 2.0);
            },
            summary: "fio issued one read at a time: 0.5 I/Os were in flight on average, 10k reads/s on vda. Latency, not \
                      throughput, limits it.",
        },
        Case::View {
            holds: |s| {
                s.is_served(1, ThreadState::Disk, "folio_wait_bit_common", 0.8);
                s.disk("vda", 10_000, 0.8, 80.0);
            },
            near_miss: |s| {
                s.is_served(3, ThreadState::Disk, "folio_wait_bit_common", 0.8);
                s.disk("vda", 10_000, 2.4, 80.0);
            },
            summary: "server, for which fio waited 100% of its time, issued one read at a time: 0.8 I/Os were in flight on average, \
                      10k reads/s on vda. Latency, not throughput, limits it.",
        },
        // Three other threads compute.
        Case::NearMiss(|s| {
            s.sync_reads(0.8);
            s.state(ThreadState::OnCpu, 3.0);
        }),
        Case::View {
            holds: |s| {
                s.no_threads();
                s.threads("fio", ThreadState::Disk, "pwrite64", "submit_bio_wait", 0.9);
                s.writes("vda", 5000, 0.9, 95.0);
            },
            // Those of a deeper queue.
            near_miss: |s| {
                s.no_threads();
                s.threads("fio", ThreadState::Disk, "pwrite64", "submit_bio_wait", 0.9);
                s.writes("vda", 5000, 2.0, 95.0);
            },
            summary: "fio issued one write at a time: 0.9 I/Os were in flight on average, 5k writes/s on vda. Latency, not \
                      throughput, limits it.",
        },
        Case::View {
            holds: |s| {
                s.sync_reads(0.8);
                s.job_of_its_own(Dir::Read, 0.8);
            },
            // It writes to memory, while another program reads from the disk.
            near_miss: |s| {
                s.sync_reads(0.8);
                s.job_of_its_own(Dir::Write, 0.8);
            },
            summary: "fathom issued one read at a time: 0.8 I/Os were in flight on average, 10k reads/s on vda. Latency, \
                      not throughput, limits it.",
        },
        // It copies from memory.
        Case::NearMiss(|s| {
            s.sync_reads(0.8);
            s.no_threads();
            s.threads("worker-0", ThreadState::OnCpu, "", "", 0.9);
            s.job_of_its_own(Dir::Read, 0.8);
        }),
        Case::View {
            holds: |s| {
                s.no_threads();
                s.threads("fio", ThreadState::Aio, "io_getevents", "read_events", 0.9);
                s.disk("vda", 5000, 0.9, 95.0);
            },
            // One thread may have any number of I/Os in flight.
            near_miss: |s| {
                s.no_threads();
                s.threads("fio", ThreadState::Aio, "io_getevents", "read_events", 0.9);
                s.disk("vda", 5000, 4.0, 95.0);
            },
            summary: "fio issued one read at a time: 0.9 I/Os were in flight on average, 5k reads/s on vda. Latency, not \
                      throughput, limits it.",
        },
    ],
    ..Rule::LIMITER
};

fn one_at_a_time(view: &View) -> Option<Claim> {
    let disk = view.disk()?;
    // Other programs' I/Os in the other direction do not count.
    let in_flight = IoRates::in_flight;
    let directions = [
        (Dir::Read, "read", &disk.read, READ_CALLS),
        (Dir::Write, "write", &disk.write, WRITE_CALLS),
    ];
    // A program's own, where they are known: the disk may be busy for others in the other direction.
    let state = view.waits_for_io();
    let own = view.uses_in(state).filter(|own| view.account.is_some() && own.disk_bytes() > 0);
    let moves = |dir: Dir| match (own, dir) {
        (Some(own), Dir::Read) => own.disk_read >= own.disk_write,
        (Some(own), _) => own.disk_write > own.disk_read,
        (None, _) => true,
    };
    let did = |dir: Dir| view.record.jobs.iter().any(|job| job.dirs[dir].counts.ios > 0);
    let (_, what, io, calls) = directions
        .into_iter()
        .filter(|(dir, ..)| if view.is_run() { did(*dir) } else { moves(*dir) })
        .max_by(|a, b| in_flight(a.2).total_cmp(&in_flight(b.2)))?;
    let waits = |comm: &str, call: &str, _: &str| {
        !comm.starts_with("iou-") && (calls.contains(&call) || ASYNC_WAITS.contains(&call))
    };
    let waiting = view.threads(waits);
    let (mean, share) = match view.own_in_flight().filter(|_| view.is_run()) {
        // An I/O that is copied from memory is in flight, too.
        Some(jobs) => (jobs, jobs.min(view.io_wait().unwrap_or(1.0) - sync_writes(view))),
        None if view.account.is_some() => {
            let waiting = view.states(&[ThreadState::Disk, ThreadState::IoUring, ThreadState::Aio]);
            let flushes = async_flushes(view).map_or(0.0, |(share, _)| share);
            (waiting, view.share(waiting) - flushes)
        }
        None => (waiting, view.share(waiting)),
    };
    let least = view.share_min(ONE_SHARE_MIN);
    let is_one = (least..=ONE_IN_FLIGHT).contains(&mean) && share >= least;
    let queue_min = view.share_min(QUEUE_MIN);
    if !view.is_own || !is_one || !(queue_min..=ONE_IN_FLIGHT).contains(&in_flight(io)) {
        return None;
    }
    let queue = format!("{what}s in flight at {}", disk.name);
    let queue = Evidence::number(queue, in_flight(io), Unit::Count).with_source("/proc/diskstats");
    let took = io.wait_ms.map(|ms| {
        let name = if what == "read" { "r_await" } else { "w_await" };
        Evidence::number(name, ms * 1e6, Unit::Nanoseconds).with_source("/proc/diskstats")
    });
    let summary = format!(
        "{} issued one {what} at a time: {mean:.1} I/Os were in flight on average, {} {what}s/s on {}. Latency, not \
         throughput, limits it.",
        view.who_in(state),
        units::count(io.ios),
        disk.name
    );
    let claim = Claim::new(summary, [queue].into_iter().chain(took).collect());
    // Where only busy time is known, a part of it may be others'.
    let weight = if view.account.is_some() { share } else { share * 0.9 };
    Some(claim.about(view.program_in(state)).weight(weight).confidence(Confidence::High))
}
