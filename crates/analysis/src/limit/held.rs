//! What holds I/Os back above the device, by evidence of its own: where both are found, no counter-experiment can tell
//! a limit from a device that does no more.

use super::config::QueueFacts;
use super::curve::Curve;
use super::outcome::Cause;
use super::verdict::percent;
use crate::experiment::{Point, Rw};
use crate::watch::{IoLimit, REACHED};
use fathom_model::{Dir, units};

/// Share of the CPUs' time for which the quota must have kept threads from running.
const THROTTLED_MIN: f64 = 0.05;
/// Part of a queue's requests that must have been in use on average: those that complete are not counted.
const REQUESTS_USED_MIN: f64 = 0.6;
/// Part of the peak that half as many I/Os in flight may reach: a device with room to spare doubles its IOPS.
const HALF_MAX: f64 = 0.75;

/// What holds back the I/Os at `point`, which is on `curve`, and the evidence.
pub(super) fn cause(
    point: &Point,
    rw: Rw,
    queue: Option<&QueueFacts>,
    curve: &Curve,
) -> Option<(Cause, String)> {
    queue
        .and_then(|queue| io_limit(point, rw, queue))
        .or_else(|| cpu_quota(point))
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

fn cpu_quota(point: &Point) -> Option<(Cause, String)> {
    let throttled = point.cpu?.throttled;
    (throttled >= THROTTLED_MIN).then(|| {
        let text = format!(
            "The CPU quota of the cgroup kept fathom's threads from running for {} of the CPUs' time",
            percent(throttled)
        );
        (Cause::CpuQuota, text)
    })
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
            "{} takes {requests} requests (nr_requests) for each of its hardware queues, of which it has {queues}. \
             {at_device:.1} I/Os were in flight there, {:.0} at the workers; IOPS rose until all requests were in use",
            queue.device, point.in_flight
        );
        (Cause::QueueRequests, text)
    })
}
