//! The block layer above a device: its requests, I/O scheduler, writeback throttling and splits.

use super::cgroup::{HELD_THREADS_MIN, throttles_writeback};
use super::device::DEVICE;
use super::setting::Effect;
#[cfg(test)]
use super::testing::held;
use super::threads::READ_CALLS;
use super::view::{CPU_SAMPLES_MIN, UTIL_MIN, WAIT_MIN, share_text};
use super::{SettingView, View};
use crate::blocks::{GapReason, await_gaps};
use crate::derive;
use crate::layers::Layer;
use crate::limit::thresholds::CORES_SUSPECT;
use crate::machine::DiskRates;
#[cfg(test)]
use crate::rules::testing::{Case, gains, known, queue, tested};
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
use fathom_model::Histogram;
use fathom_model::facts::DeviceFacts;
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
#[cfg(test)]
use fathom_model::limit::LimitRecord;
use fathom_model::limit::{ExperimentKind, QueueFacts};
use fathom_model::watch::{SplitSamples, ThreadState};
use fathom_model::window::{Point, Setting};
use std::ops::RangeInclusive;

/// Part of the requests that must have been in use on average for none to be left: those that complete are not counted.
const REQUESTS_USED_MIN: f64 = 0.6;
/// Part of the peak that half as many I/Os in flight may reach: a device with room to spare doubles its IOPS.
const HALF_MAX: f64 = 0.75;
/// Time at the driver over that with one I/O in flight, up to which the device does not queue.
const FAST_MAX: f64 = 1.5;
/// With so many at the driver, a device that serves one I/O at a time, as rotational ones do, may be busy all the time.
const ONE_AT_A_TIME: RangeInclusive<f64> = 0.9..=1.5;
/// Doubling the queue depth must surely yield this ratio to show that the queue depth is the limit.
const DEPTH_GAIN_MIN: f64 = 1.25;
/// Mean number of threads that must have waited for a request of the queue.
const REQUEST_WAITERS_MIN: f64 = 0.2;
/// I/Os that a job must have had in flight for each request of the queue.
const REQUESTED_MIN: f64 = 1.5;
/// Share of CPU time in the I/O scheduler.
const SCHEDULER_CPU_MIN: f64 = 0.15;
/// Share of an I/O's time between entering the queue and its issue to the driver, which is by Little's law the part of the
/// I/Os in flight that is there.
const HELD_MIN: f64 = 0.3;
/// Part of the I/Os in flight at the workers that are in the queue where its scheduler holds them.
const HELD_AT_QUEUE_MIN: f64 = 0.5;
/// Sampled requests needed for that share, and to find that it is enough by the confidence intervals of the medians.
const SHARE_SAMPLES_MIN: u64 = 100;
const HELD_SAMPLES_MIN: u64 = 10;
/// The median of n samples lies within this number of percentiles, divided by √n, of their median (95%: 1.96 × 50).
const MEDIAN_SPREAD: f64 = 98.0;
/// Schedulers that hold I/Os back by themselves. Others pass on what the driver takes: their I/Os wait because it is full,
/// which a virtio ring is before its requests are used up, as each needs several entries.
pub(super) const HOLDING: [&str; 2] = ["bfq", "kyber"];
/// Requests per I/O from which splits matter.
const PIECES_MIN: f64 = 2.0;
/// Splits per second from which they matter.
const SPLITS_MIN: f64 = 10.0;
/// Share of a device's bytes that must be the program's.
const OWN_SHARE_MIN: f64 = 0.5;
/// Data whose transfer takes as long as what each request costs at most, in bytes: with reads of 1 MiB of a loop device, 40 to
/// 44 KiB.
const REQUEST_COST: f64 = 65_536.0;

pub(in crate::rules) static REQUESTS: Rule = Rule {
    id: "queue-requests",
    limits: "the number of requests in the device's queues",
    meaning: "The queue had too few requests (nr_requests): I/Os waited for one before they were queued.",
    threshold: || {
        format!(
            "{:.0}% of a queue's requests were in use on average while the device was busy, which was {UTIL_MIN:.0}% of \
             the time or more, and {REQUEST_WAITERS_MIN} threads or more waited for one (blk_mq_get_tag), or the jobs had \
             {REQUESTED_MIN} times as many I/Os in flight. In a search, a deeper queue yields no gain, and half as many I/Os \
             reached at most {:.0}% of the IOPS.",
            REQUESTS_USED_MIN * 100.0,
            HALF_MAX * 100.0
        )
    },
    remedy: "Raise /sys/block/DEVICE/queue/nr_requests, or lower the queue depth if the device is saturated",
    supersedes: &[&DEVICE],
    confirmation: Some(Confirmation::gain(Change::Requests)),
    checks: &[
        Check::View(requests),
        Check::Setting("the number of requests in the device's queues", requests_at_setting),
    ],
    #[cfg(test)]
    cases: &[
        Case::Setting {
            holds: |r| full_queue(r, 50_000.0),
            // The device did not do more before they were all in use.
            near_miss: |r| full_queue(r, 90_000.0),
            summary: "vda takes 32 requests per hardware queue (nr_requests; hardware queues: 1). 31.0 I/Os were in flight \
                      there, 32 at the workers; IOPS rose until all requests were in use.",
        },
        Case::View {
            holds: |s| s.tags(3.9, 99.0, 0.6),
            // The queue is full, but nobody waits for it.
            near_miss: |s| s.tags(3.9, 99.0, 0.0),
            summary: "vda has 4 requests per hardware queue (nr_requests; hardware queues: 1); 3.9 were in use \
                      while it was busy, and more I/Os waited for one.",
        },
        // It is full for moments only.
        Case::NearMiss(|s| s.tags(0.16, 4.0, 0.6)),
    ],
    ..Rule::LIMITER
};

/// Mean number of I/Os in flight while there were any: a program that starts slowly does not lower it.
fn busy_queue(disk: &DiskRates) -> f64 {
    disk.queue * 100.0 / disk.util.max(1.0)
}

fn queues(device: &DeviceFacts) -> f64 {
    f64::from(device.hardware_queues.unwrap_or(1).max(1))
}

fn requests(view: &View) -> Option<Claim> {
    let waiting = view.threads(|_, _, wchan| wchan.contains("blk_mq_get_tag"));
    let asked = view.own_in_flight().filter(|_| view.is_run()).unwrap_or(0.0);
    let (disk, device) = view.disks().into_iter().find_map(|disk| {
        let device = view.device(&disk.name).filter(|_| disk.util >= UTIL_MIN)?;
        let requests = f64::from(device.nr_requests?.max(1));
        // With one of several hardware queues in use, its requests are all there are.
        let is_used = busy_queue(disk) / requests >= REQUESTS_USED_MIN;
        let is_short =
            waiting >= REQUEST_WAITERS_MIN || asked >= requests * queues(device) * REQUESTED_MIN;
        (is_used && is_short).then_some((disk, device))
    })?;
    let name = &disk.name;
    let summary = format!(
        "{name} has {} requests per hardware queue (nr_requests; hardware queues: {}); {:.1} were in use while it was \
         busy, and more I/Os waited for one.",
        device.nr_requests?,
        queues(device),
        busy_queue(disk)
    );
    let mut evidence =
        vec![Evidence::number("aqu-sz", disk.queue, Unit::Count).with_source("/proc/diskstats")];
    if waiting > 0.0 {
        let waiting = Evidence::number("threads waiting for a request", waiting, Unit::Count);
        evidence.push(waiting.with_source("wchan blk_mq_get_tag"));
    }
    if asked > 0.0 {
        evidence.push(Evidence::number("in flight at the jobs", asked, Unit::Count));
    }
    // All I/Os wait longer, in the queue or for a request of it.
    let weight = view.io_wait().unwrap_or(1.0);
    let nobody = Evidence::number("threads waiting for a request", 0.0, Unit::Count);
    let nobody = (waiting == 0.0).then(|| nobody.with_source("wchan blk_mq_get_tag"));
    let claim = Claim::new(summary, evidence).about(Subject::device(name)).despite(nobody);
    let claim = claim.weight(weight).confidence(Confidence::High).remedy(format!(
        "Raise /sys/block/{name}/queue/nr_requests, or lower the queue depth if the device is saturated"
    ));
    let twice = twice(device.nr_requests?, device.scheduler.as_deref(), device.driver_tags);
    Some(Claim { command: twice.map(|twice| set_requests(name, twice)), ..claim })
}

/// Twice the requests, where the queue may have so many: without a scheduler, no more than tags.
pub(in crate::rules) fn twice(
    requests: u32,
    scheduler: Option<&str>,
    tags: Option<u32>,
) -> Option<u32> {
    let twice = requests.saturating_mul(2);
    let is_scheduled = scheduler.is_some_and(|name| name != "none");
    (is_scheduled || tags.is_some_and(|tags| tags >= twice)).then_some(twice)
}

fn set_requests(name: &str, requests: u32) -> String {
    format!("echo {requests} >/sys/block/{name}/queue/nr_requests")
}

/// All requests that the queues have are in use, and IOPS rose in proportion until they were.
fn requests_at_setting(view: &SettingView) -> Option<Claim> {
    let queue = view.queue.filter(|_| view.may_be_held())?;
    let (requests, queues) = (queue.nr_requests?, queue.hardware_queues.unwrap_or(1).max(1));
    let (base, at_device) = (view.base, view.base.device_queue?);
    let used = f64::from(requests.max(1)) * f64::from(used_queues(queue, base));
    let few = view.points.iter().filter(|point| point.setting().in_flight() as f64 <= used / 2.0);
    let half = few.map(|point| point.iops.mean).fold(0.0, f64::max);
    let rises = half > 0.0 && half <= HALF_MAX * base.iops.mean;
    if at_device < REQUESTS_USED_MIN * used || !rises {
        return None;
    }
    let name = &queue.device;
    let text = format!(
        "{name} takes {requests} requests per hardware queue (nr_requests; hardware queues: {queues}). {at_device:.1} I/Os \
         were in flight there, {:.0} at the workers; IOPS rose until all requests were in use",
        base.in_flight
    );
    let at_device = Evidence::number("aqu-sz", at_device, Unit::Count);
    let claim = view.claim(text, [at_device.with_source("/proc/diskstats")]);
    let twice = twice(requests, queue.scheduler.as_deref(), queue.driver_tags);
    Some(
        Claim { command: twice.map(|twice| set_requests(name, twice)), ..claim }
            .remedy(format!("Raise /sys/block/{name}/queue/nr_requests")),
    )
}

/// Hardware queues in use: workers on one CPU use one of several.
fn used_queues(queue: &QueueFacts, point: &Point) -> u32 {
    queue.hardware_queues.unwrap_or(1).max(1).min(point.workers.max(1))
}

#[cfg(test)]
fn full_queue(record: &mut LimitRecord, half_iops: f64) {
    let facts = queue(record);
    (facts.nr_requests, facts.hardware_queues) = (Some(32), Some(1));
    let block = tested(record);
    let base = block.confirmation.as_mut().and_then(|tests| tests.base.as_mut()).unwrap();
    (base.device_queue, base.in_flight) = (Some(31.0), 31.5);
    let half = Point { workers: 1, depth: 16, iops: known(half_iops, 0.01), ..Point::default() };
    block.points.push(half);
}

pub(in crate::rules) static SCHEDULER: Rule = Rule {
    id: "io-scheduler",
    limits: "the I/O scheduler",
    meaning: "The I/O scheduler held I/Os back although the device could have accepted more, or it used a lot of CPU time.",
    threshold: || {
        format!(
            "A device with the scheduler bfq or kyber was busy {UTIL_MIN:.0}% of the time or more; the median time of sampled I/Os between \
             insertion and issue was {:.0}% or more of the sum of that and their median time from issue to completion (of the mean time of all I/Os, where the kernel \
             did not report most completions), also by the 95% confidence intervals of both medians where there are fewer than {SHARE_SAMPLES_MIN} samples, of {HELD_SAMPLES_MIN} at least, while fewer than {:.0}% of the requests that the driver accepts were in use and \
             threads waited for I/O {} of the time or more; or {:.0}% of the CPU time went to any scheduler. In a search, a deeper queue yields no gain, and at \
             the setting or a deeper one that part of the I/Os in flight was held, most of those in flight at the workers were in \
             the queue, and the driver was not full and took at most {FAST_MAX} times as long as with one I/O in flight.",
            HELD_MIN * 100.0,
            REQUESTS_USED_MIN * 100.0,
            share_text(WAIT_MIN),
            SCHEDULER_CPU_MIN * 100.0
        )
    },
    remedy: "Compare with none: echo none >/sys/block/DEVICE/queue/scheduler",
    supersedes: &[&DEVICE],
    confirmation: Some(Confirmation::gain(Change::NoScheduler)),
    checks: &[Check::View(scheduler), Check::Setting("the I/O scheduler", scheduler_at_setting)],
    #[cfg(test)]
    cases: &[
        Case::Setting {
            holds: |r| held_at_driver(r, 2.0),
            // The driver gets all that it takes.
            near_miss: |r| held_at_driver(r, 31.0),
            summary: "With 1 worker, QD32, 32.0 I/Os were in flight at the queue of vda, of which bfq had issued only 2.0 to the \
                      driver, which takes 64.",
        },
        Case::View {
            holds: |s| s.scheduler("bfq", 600),
            near_miss: |s| s.scheduler("none", 600),
            summary: "The I/O scheduler bfq of vda held I/Os back: they spent 60% of their time there.",
        },
        Case::View {
            holds: |s| s.scheduler("kyber", 400),
            near_miss: |s| s.scheduler("kyber", 100),
            summary: "The I/O scheduler kyber of vda held I/Os back: they spent 40% of their time there.",
        },
        // It holds nothing back by itself: the driver takes no more.
        Case::NearMiss(|s| s.scheduler("mq-deadline", 400)),
        // The machine is CPU-bound, and its few I/Os wait for a CPU on their way to the driver.
        Case::NearMiss(|s| {
            s.whole_machine();
            s.hog(1.9, 1.9, 1.0);
            s.busy(98);
            s.scheduler("kyber", 400);
            s.disk("vda", 50, 0.05, 4.7);
        }),
        Case::View {
            holds: |s| s.scheduler("kyber", 600),
            // The device's own queue is full.
            near_miss: |s| {
                s.device().queue_depth = Some(4);
                s.scheduler("kyber", 600);
            },
            summary: "The I/O scheduler kyber of vda held I/Os back: they spent 60% of their time there.",
        },
        Case::View {
            holds: |s| {
                s.scheduler("bfq", 0);
                s.computes(0.6);
                s.cpu_samples(&["blk_mq_submit_bio", "bfq_insert_requests"], 200);
            },
            near_miss: |s| {
                s.scheduler("bfq", 0);
                s.computes(0.6);
                s.cpu_samples(&["blk_mq_submit_bio", "bfq_insert_requests"], 199);
            },
            summary: "The I/O scheduler bfq of vda used 100% of the CPU time.",
        },
    ],
    ..Rule::LIMITER
};

fn scheduler(view: &View) -> Option<Claim> {
    let disk = view.busy_disk()?;
    let name = view.device(&disk.name)?.scheduler.clone().filter(|name| name != "none")?;
    let waits = view.held_by_io();
    let held = held_in_scheduler(view, disk);
    let held = held.filter(|_| waits.is_some() && HOLDING.contains(&name.as_str()));
    let enough = view.layers.samples >= CPU_SAMPLES_MIN;
    let cpu = if enough { view.layers.share(Layer::IoScheduler) } else { 0.0 };
    let cpu = Some(cpu).filter(|share| *share >= SCHEDULER_CPU_MIN);
    let of = format!("The I/O scheduler {name} of {}", disk.name);
    let effect = match (held, cpu) {
        (Some(held), Some(cpu)) => format!(
            "held I/Os back: they spent {:.0}% of their time there, and {:.0}% of the CPU time went to it",
            held * 100.0,
            cpu * 100.0
        ),
        (Some(held), None) => {
            format!("held I/Os back: they spent {:.0}% of their time there", held * 100.0)
        }
        (None, Some(cpu)) => format!("used {:.0}% of the CPU time", cpu * 100.0),
        (None, None) => return None,
    };
    let held_share = held.map(|held| {
        Evidence::number("time between queue and driver", held, Unit::Share)
            .with_source("block_rq_insert to block_rq_issue")
    });
    let cpu_share = cpu.map(|cpu| {
        Evidence::number("CPU time in the scheduler", cpu, Unit::Share).with_source("CPU samples")
    });
    let evidence = held_share.into_iter().chain(cpu_share).collect();
    let on_cpu = view.share(view.state(ThreadState::OnCpu));
    let on_cpu = on_cpu.max(view.cpus_busy().unwrap_or(0.0) / 100.0);
    // It is spent under a lock of the device, for which other CPUs wait meanwhile: it counts twice.
    let by_cpu = cpu.unwrap_or(0.0) * on_cpu * 2.0;
    let weight = (held.unwrap_or(0.0) * waits.unwrap_or(0.0)).max(by_cpu);
    let claim = Claim::new(format!("{of} {effect}."), evidence).weight(weight);
    Some(without_scheduler(claim.about(Subject::device(&disk.name)), &disk.name))
}

fn without_scheduler(claim: Claim, device: &str) -> Claim {
    let command = format!("echo none >/sys/block/{device}/queue/scheduler");
    let claim = claim.confidence(Confidence::Medium);
    claim.remedy(format!("Compare with none: {command}")).command(command)
}

/// The scheduler keeps I/Os while the driver would take more, the device does not queue them, and there is CPU time to
/// hand them over; by the deepest setting at which it does, as the peak is where nothing has to wait yet.
fn scheduler_at_setting(view: &SettingView) -> Option<Claim> {
    let queue = view.queue.filter(|_| view.may_be_held())?;
    let name = queue.scheduler.as_deref().filter(|name| *name != "none")?;
    let (alone_ns, tags) = (view.point(Setting::ONE)?.clat_mean_ns, queue.driver_tags?);
    let held = |at: &Point| {
        let (queued, at_driver) = (at.device_queue?, at.driver_queue?);
        let room = f64::from(tags) * f64::from(used_queues(queue, at));
        // Where most I/Os wait above the queue, as for a cgroup's limit, it has hardly any to hold.
        let has_most = queued >= HELD_AT_QUEUE_MIN * at.setting().in_flight() as f64;
        let is_held = has_most && queued - at_driver >= HELD_MIN * queued.max(1.0);
        let has_room = at_driver < REQUESTS_USED_MIN * room;
        let has_cpu = at.cpu.is_some_and(|cpu| cpu.taken() < CORES_SUSPECT);
        // Little's law: the time at the driver, which grows where the device queues.
        let driver_ns = at_driver * 1e9 / at.iops.mean.max(1e-9);
        let is_serial = queue.rotational != Some(false) && ONE_AT_A_TIME.contains(&at_driver);
        let is_fast = !is_serial && driver_ns <= FAST_MAX * alone_ns;
        (is_held && has_room && has_cpu && is_fast).then_some((queued, at_driver, room))
    };
    let least = view.base.setting().in_flight();
    let deeper = view.points.iter().filter(|point| point.setting().in_flight() >= least);
    let mut deeper: Vec<&Point> = deeper.collect();
    deeper.sort_by_key(|at| std::cmp::Reverse(at.setting().in_flight()));
    let (at, (queued, at_driver, room)) = deeper.iter().find_map(|at| Some((at, held(at)?)))?;
    let text = format!(
        "With {}, {queued:.1} I/Os were in flight at the queue of {}, of which {name} had issued only {at_driver:.1} to the \
         driver, which takes {room:.0}",
        at.setting().describe(),
        queue.device
    );
    let share =
        Evidence::number("I/Os held by the scheduler", 1.0 - at_driver / queued, Unit::Share);
    let claim = view.claim(text, [share.with_source("/proc/diskstats, inflight")]);
    Some(without_scheduler(claim, &queue.device))
}

#[cfg(test)]
fn held_at_driver(record: &mut LimitRecord, at_driver: f64) {
    let facts = queue(record);
    (facts.scheduler, facts.driver_tags) = (Some("bfq".into()), Some(64));
    let block = tested(record);
    let mut point = block.peak.clone().unwrap();
    (point.device_queue, point.driver_queue) = (Some(32.0), Some(at_driver));
    let clat_mean_ns = 1e5;
    block.points = vec![point, Point { workers: 1, depth: 1, clat_mean_ns, ..Point::default() }];
}

pub(in crate::rules) static DEPTH: Rule = Rule {
    id: "queue-depth",
    limits: "the queue depth",
    meaning: "A deeper queue yields more than the deepest one that the search allows.",
    threshold: || {
        format!(
            "Doubling the queue depth yields at least {DEPTH_GAIN_MIN}× the IOPS with 95% confidence."
        )
    },
    remedy: "Raise the queue depth or the number of workers, or rerun with a longer --duration",
    checks: &[Check::Setting("the queue depth", deeper_helps)],
    #[cfg(test)]
    cases: &[Case::Setting {
        holds: |r| gains(r, [1.9, 2.0], [1.9, 2.0]),
        near_miss: |r| gains(r, [1.2, 2.0], [1.9, 2.0]),
        summary: "Doubling the queue depth yields 1.95× the IOPS (95% CI 1.90–2.00) at 2.00× the latency. To search deeper, \
                  rerun with --duration 30s.",
    }],
    ..Rule::LIMITER
};

fn deeper_helps(view: &SettingView) -> Option<Claim> {
    let (Effect::Gain, _) = view.effects()? else { return None };
    view.gain(ExperimentKind::Deeper).filter(|gain| gain.low >= DEPTH_GAIN_MIN)?;
    let depth_max = view.spec.depth_max;
    let end = if view.base.depth >= depth_max {
        format!("The search does not exceed QD{depth_max} per worker")
    } else {
        format!("To search deeper, rerun with --duration {}", view.longer())
    };
    let latency = view.latency_of_deeper();
    let latency = latency.map_or_else(String::new, |l| format!(" at {l:.2}× the latency"));
    let yields = view.yields(ExperimentKind::Deeper, "Doubling the queue depth yields");
    Some(view.claim(format!("{yields}{latency}. {end}"), []))
}

/// The part of the time of I/Os that passed before they were issued to the driver, where the driver could have taken
/// more.
pub(super) fn held_in_scheduler(view: &View, disk: &DiskRates) -> Option<f64> {
    let [held, least] = times_in_scheduler(view, disk)?;
    let held = Some(held).filter(|_| least >= HELD_MIN)?;
    let device = view.device(&disk.name)?;
    let tags = device.driver_tags.map(|tags| f64::from(tags) * queues(device));
    let taken = device.queue_depth.map(f64::from).into_iter().chain(tags).reduce(f64::min);
    let at_driver = busy_queue(disk) * (1.0 - held);
    (!taken.is_some_and(|taken| at_driver >= taken * REQUESTS_USED_MIN)).then_some(held)
}

/// The part of the time of I/Os that passed before they were issued to the driver, by the medians of the same sampled
/// requests; `None` where these do not represent all requests.
pub(super) fn time_in_scheduler(view: &View, disk: &DiskRates) -> Option<f64> {
    let blocks = view.blocks(&disk.name)?;
    let samples = blocks.queue.count().min(blocks.driver.count());
    let [median, _] = times_in_scheduler(view, disk)?;
    Some(median).filter(|_| samples >= SHARE_SAMPLES_MIN)
}

/// The same, and at least how much it is, as medians of few samples are not exact.
pub(super) fn times_in_scheduler(view: &View, disk: &DiskRates) -> Option<[f64; 2]> {
    let blocks = view.blocks(&disk.name)?;
    let gaps = await_gaps(blocks, disk, view.seen.elapsed_ns);
    let are_ends_seen = blocks.ends_unseen().is_none();
    if are_ends_seen && gaps.iter().any(|gap| gap.reason == GapReason::Samples) {
        return None;
    }
    let median = |times: &Histogram, side: f64| {
        let spread = match times.count() {
            SHARE_SAMPLES_MIN.. => 0.0,
            count => MEDIAN_SPREAD / (count as f64).sqrt(),
        };
        let at = times.percentile(50.0 + side * spread)?;
        Some(at as f64).filter(|_| times.count() >= HELD_SAMPLES_MIN)
    };
    let ios = disk.read.ios + disk.write.ios + disk.discard.ios;
    let part = |side: f64| {
        let held = median(&blocks.queue, -side)?;
        let all = match are_ends_seen {
            true => held + median(&blocks.driver, side)?,
            // Little's law: the mean of all requests, which slow ones only raise.
            false => disk.queue * 1e9 / ios,
        };
        Some(held / all.max(1.0))
    };
    let (share, least) = (part(0.0)?, part(1.0)?);
    // Of more than all of the time, slower requests than most were sampled.
    (least <= 1.0).then_some([share.min(1.0), least])
}

pub(in crate::rules) static WRITEBACK_THROTTLING: Rule = Rule {
    id: "writeback-throttling",
    limits: "writeback throttling",
    meaning: "Writeback throttling limited the buffered writes in flight, to keep read latency low.",
    threshold: || {
        format!(
            "wbt_lat_usec is not 0, the device wrote, and {:.0}% or more of the busy threads waited in rq_qos_wait or \
             wbt_wait, except in reads.",
            HELD_THREADS_MIN * 100.0
        )
    },
    remedy: "Compare with it off: echo 0 >/sys/block/DEVICE/queue/wbt_lat_usec",
    // Threads are throttled in fsync(2), which writes back.
    supersedes: &[&super::threads::FSYNC],
    checks: &[Check::View(writeback_throttling)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| {
                s.device().wbt_lat_usec = Some(2000);
                s.writes("vda", 1000, 8.0, 99.0);
                held(s, "rq_qos_wait", 0.7);
            },
            near_miss: |s| {
                s.device().wbt_lat_usec = Some(2000);
                s.writes("vda", 1000, 8.0, 99.0);
                held(s, "rq_qos_wait", 0.1);
            },
            summary: "fio waited for writeback throttling on vda (wbt_lat_usec 2000) 70% of the time; 8.1 writes were in \
                      flight while it was busy.",
        },
        Case::View {
            holds: |s| {
                s.device().wbt_lat_usec = Some(2000);
                s.writes("vda", 1000, 8.0, 99.0);
                held(s, "wbt_wait", 0.7);
            },
            // Threads wait there for a cgroup's latency target as well.
            near_miss: |s| {
                s.device().wbt_lat_usec = Some(0);
                s.writes("vda", 1000, 8.0, 99.0);
                held(s, "rq_qos_wait", 0.7);
            },
            summary: "fio waited for writeback throttling on vda (wbt_lat_usec 2000) 70% of the time; 8.1 writes were in \
                      flight while it was busy.",
        },
        Case::View {
            // It is throttled above the disk that writes.
            holds: |s| {
                s.throttled_loop();
                held(s, "rq_qos_wait", 0.7);
            },
            near_miss: |s| {
                s.throttled_loop();
                held(s, "folio_wait_bit_common", 0.7);
            },
            summary: "fio waited for writeback throttling on loop0 (wbt_lat_usec 1) 70% of the time; 16.2 writes were in \
                      flight while it was busy.",
        },
    ],
    ..Rule::LIMITER
};

fn writeback_throttling(view: &View) -> Option<Claim> {
    let disk = throttles_writeback(view)?;
    let waits = |_: &str, call: &str, wchan: &str| {
        (wchan.contains("rq_qos_wait") || wchan.contains("wbt_wait")) && !READ_CALLS.contains(&call)
    };
    let waiting = view.threads(waits);
    let share = view.share(waiting);
    if share < HELD_THREADS_MIN {
        return None;
    }
    let name = &disk.name;
    let writing = disk.write.ios * disk.write.wait_ms.unwrap_or(0.0) / 1e3;
    let summary = format!(
        "{} waited for writeback throttling on {name} (wbt_lat_usec {}) {:.0}% of the time; {:.1} writes were in flight \
         while it was busy.",
        view.subject(),
        view.device(name)?.wbt_lat_usec?,
        share * 100.0,
        writing * 100.0 / disk.util.max(1.0)
    );
    let waiting = Evidence::number("threads throttled", waiting, Unit::Count);
    let claim = Claim::new(summary, vec![waiting.with_source("wchan rq_qos_wait")]);
    let command = format!("echo 0 >/sys/block/{name}/queue/wbt_lat_usec");
    let claim = claim.about(Subject::device(name)).weight(share).confidence(Confidence::Medium);
    Some(claim.remedy(format!("Compare with it off: {command}")).command(command))
}

pub(in crate::rules) static SPLITS: Rule = Rule {
    id: "splits",
    limits: "splits of I/Os",
    meaning: "I/Os were larger than a limit of the queue and were split, which costs CPU time and latency.",
    threshold: || {
        format!(
            "Each I/O became {PIECES_MIN:.0} requests or more on average, {SPLITS_MIN:.0} or more were split per second, \
             the device, or one below it, was busy {UTIL_MIN:.0}% of the time or more, and threads waited for I/O {} of the time or more. \
             For a program: it moved {:.0}% or more of the device's bytes. Of that time it explains the part of the further requests, \
             if each costs as much as {:.0} KiB of data.",
            share_text(WAIT_MIN),
            OWN_SHARE_MIN * 100.0,
            REQUEST_COST / 1024.0
        )
    },
    remedy: "Raise the limit, or use I/Os that fit in it",
    supersedes: &[&DEVICE, &REQUESTS],
    checks: &[Check::View(splits)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.splits("max_sectors_kb", 8750),
            near_miss: |s| s.splits("max_sectors_kb", 1250),
            summary: "I/Os on vda were split at 128 KiB by max_sectors_kb: each became 8.0 requests.",
        },
        Case::View {
            holds: |s| s.splits("max_segments", 8750),
            near_miss: |s| {
                s.splits("max_segments", 8750);
                s.computes(0.95);
            },
            summary: "I/Os on vda were split at 128 KiB by max_segments: each became 8.0 requests.",
        },
        // Another program's.
        Case::NearMiss(|s| {
            s.splits("max_segments", 8750);
            s.own().disk_read /= 3;
        }),
        Case::View {
            // By the device above the one where the requests are.
            holds: |s| {
                s.stacked("loop0", 16.0, 15.0);
                s.splits_on("loop0", "max_sectors_kb", 8750);
            },
            near_miss: |s| {
                s.stacked("loop0", 16.0, 15.0);
                s.splits_on("loop0", "max_sectors_kb", 1250);
            },
            summary: "I/Os on loop0 were split at 128 KiB by max_sectors_kb: each became 8.0 requests.",
        },
    ],
    ..Rule::LIMITER
};

fn splits(view: &View) -> Option<Claim> {
    let waits = view.held_by_io()?;
    // A device that passes I/Os on may split them first.
    let split = |disk: &&DiskRates| view.blocks(&disk.name).map_or(0, |blocks| blocks.split);
    let busy = view.disks().into_iter().filter(|disk| disk.util >= UTIL_MIN);
    let disk = busy.max_by_key(split)?;
    let blocks = view.blocks(&disk.name)?;
    let splits = derive::per_second(blocks.split, view.seen.elapsed_ns);
    let requests = disk.read.ios + disk.write.ios + disk.discard.ios;
    let pieces = requests / (requests - splits).max(1.0);
    let [own, _] = view.disk_traffic();
    let own = view.seen.processes.per_second(own.disk_bytes());
    if view.is_own && own < (disk.read.bytes + disk.write.bytes) * OWN_SHARE_MIN {
        return None;
    }
    if splits < SPLITS_MIN || splits >= requests || pieces < PIECES_MIN {
        return None;
    }
    let most: &SplitSamples =
        blocks.splits.iter().filter(|s| !s.limit.is_empty()).max_by_key(|s| s.samples)?;
    let SplitSamples { limit, bytes, .. } = most;
    let summary = format!(
        "I/Os on {} were split at {} by {limit}: each became {pieces:.1} requests.",
        disk.name,
        fathom_model::units::bytes(*bytes)
    );
    let splits = Evidence::number("splits per second", splits, Unit::Count);
    let claim = Claim::new(summary, vec![splits.with_source("block_split")]);
    let each = (disk.read.bytes + disk.write.bytes) / requests;
    let weight = waits * (1.0 - 1.0 / pieces) * REQUEST_COST / (REQUEST_COST + each);
    let claim = claim.about(Subject::device(&disk.name)).weight(weight).confidence(Confidence::Low);
    let claim = claim.remedy(to_avoid_splits(view, disk, limit));
    let most = view.device(&disk.name).and_then(|device| device.max_hw_sectors_kb);
    Some(match most.filter(|_| limit == "max_sectors_kb") {
        Some(most) => {
            claim.command(format!("echo {most} >/sys/block/{}/queue/max_sectors_kb", disk.name))
        }
        None => claim,
    })
}

fn to_avoid_splits(view: &View, disk: &DiskRates, limit: &str) -> String {
    let device = view.device(&disk.name);
    let most =
        device.and_then(|device| device.max_hw_sectors_kb).map(|kb| format!(" (at most {kb})"));
    match limit {
        "max_sectors_kb" => format!(
            "Compare with a smaller block size, or raise /sys/block/{}/queue/max_sectors_kb{}",
            disk.name,
            most.unwrap_or_default()
        ),
        "max_segments" => {
            "Compare with a smaller block size, or with buffers in huge pages, which need fewer \
                           segments (mem=mmaphuge)"
                .into()
        }
        _ => "Compare with a smaller, aligned block size".into(),
    }
}
