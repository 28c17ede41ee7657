//! The block device: its tags, its I/O scheduler, other programs' I/O, and the device itself.

use super::{Cause, View};
use crate::derive;
use crate::layers::Layer;
use crate::machine::DiskRates;
use fathom_model::finding::{Confidence, Evidence, Unit};
use fathom_model::units;
use fathom_model::watch::{DeviceBlocks, ProcessUse};

/// Id of [`device`].
pub(super) const ID: &str = "device";

/// Share of all bytes that other programs must have read and written.
const OTHERS_SHARE_MIN: f64 = 0.3;
/// Bytes per second below which other programs' I/O does not matter.
const OTHERS_BYTES_MIN: f64 = 1e6;
/// Busy time of a device, in percent, from which it can hold up anyone.
const UTIL_MIN: f64 = 50.0;
/// Part of the queue's requests that must have been in use on average.
const TAGS_USED_MIN: f64 = 0.75;
/// Mean number of threads that must have waited for a request of the queue.
const TAG_WAITERS_MIN: f64 = 0.2;
/// I/Os that a job must have had in flight for each request of the queue.
const REQUESTED_MIN: f64 = 1.5;
/// Share of CPU time in the I/O scheduler.
const SCHEDULER_CPU_MIN: f64 = 0.15;
/// Share of an I/O's time between entering the queue and its issue to the driver.
const HELD_MIN: f64 = 0.3;
/// Sampled requests needed for that share.
const HELD_SAMPLES_MIN: u64 = 100;
/// Share of their time that threads must have waited for I/O.
const WAIT_MIN: f64 = 0.3;

pub(super) fn other_programs(view: &View) -> Option<Cause> {
    let processes = &view.seen.processes;
    let disk = *view.disks().first()?;
    if !view.is_own || disk.util < UTIL_MIN || processes.elapsed_ns == 0 {
        return None;
    }
    let others: Vec<&ProcessUse> = processes.by_disk_bytes();
    let bytes: u64 = others.iter().map(|uses| uses.disk_bytes()).sum();
    let own = processes.watched.disk_bytes();
    let share = |bytes: u64, all: u64| bytes as f64 / all.max(1) as f64;
    let all = bytes + own;
    if share(bytes, all) < OTHERS_SHARE_MIN || processes.per_second(bytes) < OTHERS_BYTES_MIN {
        return None;
    }
    let most = others.first()?;
    Some(Cause {
        id: "other-programs-io",
        weight: share(bytes, all),
        confidence: Confidence::High,
        summary: format!(
            "{} read and wrote {:.0}% of the bytes on the disks; {} did {:.0}%.",
            view.who,
            share(own, all) * 100.0,
            most.named(),
            share(most.disk_bytes(), all) * 100.0
        ),
        evidence: vec![
            Evidence::number("other programs", processes.per_second(bytes), Unit::BytesPerSecond)
                .with_source("/proc/PID/io"),
            Evidence::number(format!("{} util", disk.name), disk.util / 100.0, Unit::Share)
                .with_source("/proc/diskstats"),
        ],
        next_step: "Stop the other program, or measure when it does not run".into(),
    })
}

/// Mean number of I/Os in flight while there were any: a program that starts slowly does not lower it.
fn busy_queue(disk: &DiskRates) -> f64 {
    disk.queue * 100.0 / disk.util.max(1.0)
}

/// Number of a device's hardware queues.
fn queues(view: &View, disk: &DiskRates) -> f64 {
    let queues = view.device(&disk.name).and_then(|device| device.hardware_queues);
    f64::from(queues.unwrap_or(1).max(1))
}

/// I/Os that the jobs of a run kept in flight.
fn in_flight(view: &View) -> f64 {
    let jobs = view.record.jobs.iter();
    jobs.filter_map(|job| derive::in_flight(job, job.runtime_ns)).sum()
}

pub(super) fn tags(view: &View) -> Option<Cause> {
    let waiting = view.threads(|_, _, wchan| wchan.contains("blk_mq_get_tag"));
    let asked = in_flight(view);
    let full = |disk: &&DiskRates| {
        // With one of several hardware queues in use, its requests are all there are.
        view.device(&disk.name).and_then(|device| device.nr_requests).is_some_and(|requests| {
            let requests = f64::from(requests.max(1));
            busy_queue(disk) / requests >= TAGS_USED_MIN
                && (waiting >= TAG_WAITERS_MIN
                    || asked >= requests * queues(view, disk) * REQUESTED_MIN)
        })
    };
    let disk = view.disks().into_iter().find(full)?;
    let nr_requests = view.device(&disk.name)?.nr_requests?;
    let mut evidence =
        vec![Evidence::number("aqu-sz", disk.queue, Unit::Count).with_source("/proc/diskstats")];
    if waiting > 0.0 {
        let waiting = Evidence::number("threads waiting for a request", waiting, Unit::Count);
        evidence.push(waiting.with_source("wchan blk_mq_get_tag"));
    }
    if asked > 0.0 {
        evidence.push(Evidence::number("in flight at the jobs", asked, Unit::Count));
    }
    Some(Cause {
        id: "queue-requests",
        weight: 0.8,
        confidence: Confidence::High,
        summary: format!(
            "{} takes {nr_requests} requests (nr_requests) for each of its hardware queues, of which it has {}; {:.1} \
             were in flight there while it was busy, and more I/Os waited for one.",
            disk.name,
            queues(view, disk),
            busy_queue(disk)
        ),
        evidence,
        next_step: format!(
            "Raise /sys/block/{}/queue/nr_requests, or lower the queue depth if the device does no more",
            disk.name
        ),
    })
}

pub(super) fn scheduler(view: &View) -> Option<Cause> {
    let disk = *view.disks().first()?;
    let name = view.device(&disk.name)?.scheduler.clone().filter(|name| name != "none")?;
    let cpu = view.layers.share(Layer::IoScheduler);
    let cpu = if view.layers.samples < 200 { 0.0 } else { cpu };
    let blocks = view.seen.last().blocks.as_ref();
    let blocks = blocks.and_then(|all| all.devices.iter().find(|known| known.name == disk.name));
    let held = blocks.and_then(|blocks| held_share(blocks, disk)).unwrap_or(0.0);
    if cpu < SCHEDULER_CPU_MIN && held < HELD_MIN {
        return None;
    }
    let mut evidence = Vec::new();
    if held >= HELD_MIN {
        let held = Evidence::number("time between queue and driver", held, Unit::Share);
        evidence.push(held.with_source("block_rq_insert to block_rq_issue"));
    }
    if cpu > 0.0 {
        let cpu = Evidence::number("CPU time in the scheduler", cpu, Unit::Share);
        evidence.push(cpu.with_source("CPU samples"));
    }
    Some(Cause {
        id: "io-scheduler",
        weight: held.max(cpu),
        confidence: Confidence::Medium,
        summary: format!(
            "The I/O scheduler {name} of {} holds I/Os back: they spent {:.0}% of their time there, and {:.0}% of \
             the CPU time went to it.",
            disk.name,
            held * 100.0,
            cpu * 100.0
        ),
        evidence,
        next_step: format!(
            "Compare with none: echo none >/sys/block/{}/queue/scheduler",
            disk.name
        ),
    })
}

/// The part of the time of I/Os that passed before they were issued to the driver: the mean of sampled requests over
/// await. Completions would do as well, but idle CPUs do not record all of them.
fn held_share(blocks: &DeviceBlocks, disk: &DiskRates) -> Option<f64> {
    let samples = blocks.queue.count();
    let held_ns = blocks.queue.sum_ns() as f64 / samples.max(1) as f64;
    let kinds = [&disk.read, &disk.write, &disk.discard];
    let ios: f64 = kinds.iter().map(|kind| kind.ios).sum();
    let await_ms: f64 = kinds.iter().map(|kind| kind.ios * kind.wait_ms.unwrap_or(0.0)).sum();
    let enough = samples >= HELD_SAMPLES_MIN && await_ms > 0.0;
    enough.then(|| (held_ns / (await_ms / ios * 1e6)).min(1.0))
}

/// Where the threads wait for I/O and a device is busy all the time, with its own figures.
pub(super) fn device(view: &View) -> Option<Cause> {
    use fathom_model::watch::ThreadState as S;
    let disk = *view.disks().first().filter(|disk| disk.util >= UTIL_MIN)?;
    let waiting: f64 = [S::Disk, S::IoUring, S::Aio].into_iter().map(|s| view.state(s)).sum();
    let share = waiting / view.busy_threads().max(1e-9);
    if view.states.is_empty() || share < WAIT_MIN {
        return None;
    }
    let kinds = [("reads", &disk.read), ("writes", &disk.write)];
    let (what, most) = kinds.into_iter().max_by(|a, b| a.1.ios.total_cmp(&b.1.ios))?;
    let wait = most
        .wait_ms
        .map_or(String::new(), |ms| format!(", which took {} each", units::time(ms * 1e6)));
    Some(Cause {
        id: ID,
        weight: share * disk.util / 100.0,
        confidence: Confidence::Medium,
        summary: format!(
            "{} waits for {} {:.0}% of the time: {:.1} I/Os were in flight there on average, {} {what}/s{wait}.",
            view.who,
            disk.name,
            share.min(1.0) * 100.0,
            disk.queue,
            units::count(most.ios)
        ),
        evidence: vec![
            Evidence::number("util", disk.util / 100.0, Unit::Share)
                .with_source("/proc/diskstats"),
        ],
        next_step: "Compare with twice the queue depth: if IOPS stay the same and latency doubles, the device does \
                    no more"
            .into(),
    })
}
