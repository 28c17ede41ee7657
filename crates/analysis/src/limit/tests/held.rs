//! What holds I/Os back above the device.

use super::*;
use fathom_model::limit::QueueFacts;

/// The cause at the peak of small blocks, on a device whose queue has these facts.
fn held_back(sim: &mut Sim, queue: QueueFacts) -> String {
    sim.queue = QueueFacts { device: "vda".into(), ..queue };
    let (report, _) = sim.run(1, 60.0);
    cause(sim, &report)
}

#[test]
fn an_io_limit_of_the_cgroup_is_named_and_not_the_device() {
    for (limit, wanted) in [(100_000, "cgroup-io-limit"), (150_000, "device")] {
        let io_limits = vec![format!("/db vda riops={limit} wiops=100000")];
        let queue = QueueFacts { io_limits, ..QueueFacts::default() };
        assert_eq!(held_back(&mut Sim::default(), queue), wanted, "{limit}");
    }
    let io_limits = vec!["/db vda rbps=409600000".into()];
    let queue = QueueFacts { io_limits, ..QueueFacts::default() };
    assert_eq!(held_back(&mut Sim::default(), queue), "cgroup-io-limit");
}

#[test]
fn a_cpu_quota_is_named_and_not_the_device() {
    // On 8 CPUs, one worker that is throttled for 30% of the time is 3.75% of the CPUs' time.
    for (throttled, wanted) in [(0.3 / 8.0, "cgroup-cpu-quota"), (0.04 / 8.0, "device")] {
        let mut sim = Sim { throttled, ..Sim::default() };
        assert_eq!(held_back(&mut sim, QueueFacts::default()), wanted, "{throttled}");
    }
}

#[test]
fn the_requests_of_a_queue_are_named_and_not_the_device() {
    // 4 requests at 100 µs are 40k of the 100k that the device does; 64 are more than it needs.
    for (requests, wanted) in [(4, "queue-requests"), (64, "device")] {
        let mut sim = Sim { requests: Some(requests), ..Sim::default() };
        let (nr_requests, hardware_queues) = (Some(requests), Some(1));
        let queue = QueueFacts { nr_requests, hardware_queues, ..QueueFacts::default() };
        assert_eq!(held_back(&mut sim, queue), wanted, "{requests}");
    }
}

#[test]
fn an_io_scheduler_is_named_where_it_holds_ios_that_the_device_would_take() {
    // 2 at 100 µs are 20k I/Os per second.
    for (scheduler, issued, tags, device_iops, wanted) in [
        ("bfq", 2, 64, 100_000.0, "io-scheduler"),
        // The driver takes no more.
        ("bfq", 2, 2, 100_000.0, "device"),
        // The device does no more: what it has got waits there.
        ("bfq", 8, 64, 20_000.0, "device"),
        // The driver gets all of them.
        ("mq-deadline", 4096, 64, 100_000.0, "device"),
        ("none", 2, 64, 100_000.0, "device"),
        // The device may be busy with one at a time, unless it is not rotational.
        ("bfq", 1, 64, 100_000.0, "device"),
        ("bfq of ssd", 1, 64, 100_000.0, "io-scheduler"),
    ] {
        let mut sim = Sim { issued: Some(issued), device_iops, ..Sim::default() };
        let queue = QueueFacts {
            scheduler: Some(scheduler.to_string()),
            driver_tags: Some(tags),
            rotational: Some(!scheduler.ends_with("ssd")),
            ..QueueFacts::default()
        };
        assert_eq!(held_back(&mut sim, queue), wanted, "{scheduler}, issued {issued}, tags {tags}");
    }
}

#[test]
fn a_device_that_is_out_of_sight_is_not_named() {
    assert_eq!(held_back(&mut Sim::default(), QueueFacts::default()), "device");
    let queue = QueueFacts { hidden: true, ..QueueFacts::default() };
    assert_ne!(held_back(&mut Sim::default(), queue), "device");
}
