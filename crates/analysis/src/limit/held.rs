//! What holds I/Os back above the device, by evidence of its own: where both are found, no confirmation test can tell
//! a limit from a device that does no more.

use super::curve::Curve;
use super::thresholds::CORES_SUSPECT;
use super::verdict::percent;
use crate::watch::{IoLimit, REACHED};
use fathom_model::limit::{Cause, QueueFacts};
use fathom_model::window::{Point, Rw, Setting};
use fathom_model::{Dir, units};
use std::ops::RangeInclusive;

/// Share of one CPU's time for which the quota must have kept threads from running.
const THROTTLED_MIN: f64 = 0.05;
/// Part of a queue's requests that must have been in use on average: those that complete are not counted.
const REQUESTS_USED_MIN: f64 = 0.6;
/// Part of the peak that half as many I/Os in flight may reach: a device with room to spare doubles its IOPS.
const HALF_MAX: f64 = 0.75;

/// Part of the I/Os in flight at the device's queue that the I/O scheduler must have kept from the driver.
const HELD_MIN: f64 = 0.5;
/// Part of the requests that the driver takes which may have been in use: a driver that is full lets I/Os wait, too.
const DRIVER_USED_MAX: f64 = 0.5;
/// Time at the driver over that with one I/O in flight, up to which the device does not queue.
const FAST_MAX: f64 = 1.5;
/// With so many at the driver, a device that serves one I/O at a time, as rotational ones do, may be busy all the time.
const ONE_AT_A_TIME: RangeInclusive<f64> = 0.9..=1.5;

/// What holds back the I/Os at `point`, which is on `curve`, and the evidence.
pub(super) fn cause(
    point: &Point,
    rw: Rw,
    queue: Option<&QueueFacts>,
    curve: &Curve,
    cores: u32,
) -> Option<(Cause, String)> {
    queue
        .and_then(|queue| io_limit(point, rw, queue))
        .or_else(|| cpu_quota(point, cores))
        .or_else(|| scheduler(point, queue?, curve))
        .or_else(|| requests(point, queue?, curve))
}

fn io_limit(point: &Point, rw: Rw, queue: &QueueFacts) -> Option<(Cause, String)> {
    let limits = queue.io_limits.iter().flat_map(|entry| IoLimit::parse(entry));
    let reached = |limit: &IoLimit| {
        let (dir, word) = match limit.key.as_str() {
            "riops" | "rbps" => (Dir::Read, "read"),
            _ => (Dir::Write, "write"),
        };
        let (_, percent) = rw.dirs().iter().find(|(of, _)| *of == dir)?;
        let part = f64::from(*percent) / 100.0;
        let is_bytes = limit.key.ends_with("bps");
        let rate = part * if is_bytes { point.bytes_per_second } else { point.iops.mean };
        let show = |rate| if is_bytes { units::bandwidth(rate) } else { units::count(rate) };
        let what = if is_bytes { format!("of {word}s") } else { format!("{word}s/s") };
        REACHED.contains(&(rate / limit.limit)).then(|| {
            format!(
                "The cgroup {} allows {} {what} on {} ({}); the peak is {}",
                limit.cgroup,
                show(limit.limit),
                limit.device,
                limit.key,
                show(rate)
            )
        })
    };
    let text = limits.into_iter().find_map(|limit| reached(&limit))?;
    Some((Cause::CgroupIoLimit, text))
}

fn cpu_quota(point: &Point, cores: u32) -> Option<(Cause, String)> {
    // A single worker is throttled on one of the CPUs only, however many there are.
    let throttled = point.cpu?.throttled * f64::from(cores);
    (throttled >= THROTTLED_MIN).then(|| {
        let text = format!(
            "The CPU quota of the cgroup kept fathom's threads from running: throttled time is {} of one CPU's time",
            percent(throttled)
        );
        (Cause::CpuQuota, text)
    })
}

/// The scheduler keeps I/Os while the driver would take more, the device does not queue them, and there is CPU time to
/// hand them over; by the deepest setting at which it does, as the peak is where nothing has to wait yet.
fn scheduler(point: &Point, queue: &QueueFacts, curve: &Curve) -> Option<(Cause, String)> {
    let name = queue.scheduler.as_deref().filter(|name| *name != "none")?;
    let alone_ns = curve.get(Setting::ONE)?.clat_mean_ns();
    let tags = queue.driver_tags?;
    let held = |at: &Point| {
        let (queued, at_driver) = (at.device_queue?, at.driver_queue?);
        // Workers on one CPU use one of several hardware queues.
        let queues = queue.hardware_queues.unwrap_or(1).max(1).min(at.workers.max(1));
        let room = f64::from(tags) * f64::from(queues);
        let is_held = queued - at_driver >= HELD_MIN * queued.max(1.0);
        let has_room = at_driver <= DRIVER_USED_MAX * room;
        let has_cpu = at.cpu.is_some_and(|cpu| cpu.taken() < CORES_SUSPECT);
        // Little's law: the time at the driver, which grows where the device queues.
        let driver_ns = at_driver * 1e9 / at.iops.mean.max(1e-9);
        let is_serial = queue.rotational != Some(false) && ONE_AT_A_TIME.contains(&at_driver);
        let is_fast = !is_serial && driver_ns <= FAST_MAX * alone_ns;
        (is_held && has_room && has_cpu && is_fast).then_some((queued, at_driver, room))
    };
    let deeper =
        curve.iter().filter(|(setting, _)| setting.in_flight() >= point.setting().in_flight());
    let mut points: Vec<Point> = deeper.map(|(setting, cell)| cell.point(setting, 1)).collect();
    points.sort_by_key(|at| std::cmp::Reverse(at.setting().in_flight()));
    let (at, (queued, at_driver, room)) = points.iter().find_map(|at| Some((at, held(at)?)))?;
    let text = format!(
        "With {}, {queued:.1} I/Os were in flight at the queue of {}, of which {name} had issued only {at_driver:.1} to \
         the driver, which takes {room:.0}",
        at.setting().describe(),
        queue.device
    );
    Some((Cause::IoScheduler, text))
}

/// All requests that the queues have are in use, and IOPS rose in proportion until they were.
fn requests(point: &Point, queue: &QueueFacts, curve: &Curve) -> Option<(Cause, String)> {
    let (requests, queues) = (queue.nr_requests?, queue.hardware_queues.unwrap_or(1).max(1));
    let at_device = point.device_queue?;
    // Workers on one CPU use one of several hardware queues.
    let used = f64::from(requests.max(1)) * f64::from(queues.min(point.workers.max(1)));
    let below_half = curve.iter().filter(|(s, _)| s.in_flight() as f64 <= used / 2.0);
    let half = below_half.map(|(_, cell)| cell.mean()).fold(0.0, f64::max);
    let is_full =
        at_device >= REQUESTS_USED_MIN * used && half > 0.0 && half <= HALF_MAX * point.iops.mean;
    is_full.then(|| {
        let text = format!(
            "{} takes {requests} requests per hardware queue (nr_requests; hardware queues: {queues}). \
             {at_device:.1} I/Os were in flight there, {:.0} at the workers; IOPS rose until all requests were in use",
            queue.device, point.in_flight
        );
        (Cause::QueueRequests, text)
    })
}
