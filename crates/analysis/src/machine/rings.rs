//! io_uring between two samples.

use crate::derive::per_second;
use fathom_model::watch::{RingEvents, RingSample, RingsSample};
use serde::Serialize;

/// io_uring between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RingsRates {
    /// Each ring that is there at the end.
    pub rings: Vec<RingRates>,
    /// Worker threads of io-wq at the end, of all processes that have rings.
    pub workers: u32,
    /// Events, where they were counted.
    pub events: Option<RingEventRates>,
}

/// One ring. Figures that are not in both samples are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RingRates {
    /// The ring as it was at the end.
    pub ring: RingSample,
    /// Requests taken by the kernel per second.
    pub submitted: Option<f64>,
    /// Completions posted per second.
    pub completed: Option<f64>,
    /// Requests in the kernel at the end: taken less completed. A request without a completion
    /// (IOSQE_CQE_SKIP_SUCCESS) counts as if in the kernel for ever, one with several (multishot) may make
    /// it negative.
    pub in_kernel: Option<i32>,
    /// Share of its CPU time in which the SQPOLL thread had work.
    pub sq_busy: Option<f64>,
    /// CPUs used by the SQPOLL thread, polling included.
    pub sq_cpu: Option<f64>,
    /// Worker threads of io-wq at the end, of its process.
    pub io_workers: u32,
}

/// Events of all processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RingEventRates {
    /// Requests handed to io-wq per second.
    pub punted: Option<f64>,
    /// Completions per second that found no place.
    pub overflows: Option<f64>,
    /// Runs of task work: (requests at least, runs per second), ascending; those that occurred.
    pub task_work: Vec<(u32, f64)>,
}

/// What happened from `earlier` to `later`, `elapsed_ns` nanoseconds after it.
pub fn ring_rates(earlier: &RingsSample, later: &RingsSample, elapsed_ns: u64) -> RingsRates {
    let of = |now: &RingSample| {
        let same =
            |then: &&RingSample| (then.pid, then.fd, then.inode) == (now.pid, now.fd, now.inode);
        let workers = later.workers.iter().find(|workers| workers.pid == now.pid);
        let io_workers = workers.map_or(0, |workers| workers.threads);
        let then = earlier.rings.iter().find(same);
        RingRates { io_workers, ..ring(then, now, elapsed_ns) }
    };
    let events = earlier.events.as_ref().zip(later.events.as_ref());
    RingsRates {
        rings: later.rings.iter().map(of).collect(),
        workers: later.workers.iter().map(|of| of.threads).sum(),
        events: events.map(|(then, now)| event_rates(then, now, elapsed_ns)),
    }
}

fn ring(then: Option<&RingSample>, now: &RingSample, elapsed_ns: u64) -> RingRates {
    let queues = then.and_then(|then| then.queues).zip(now.queues);
    let rate = |then: u32, now: u32| per_second(now.wrapping_sub(then).into(), elapsed_ns);
    // The counters were zero when the thread began, and start anew where the ring has another one.
    let thread = then.and_then(|then| then.sq_poll).zip(now.sq_poll);
    let thread = thread.filter(|(then, now)| then.thread == now.thread);
    let times = thread.and_then(|(then, now)| {
        let total = now.total_us?.checked_sub(then.total_us?)?;
        Some((total, now.work_us?.checked_sub(then.work_us?)?))
    });
    RingRates {
        ring: now.clone(),
        submitted: queues.map(|(then, now)| rate(then.submitted, now.submitted)),
        completed: queues.map(|(then, now)| rate(then.completed, now.completed)),
        in_kernel: now.queues.map(|now| now.submitted.wrapping_sub(now.completed) as i32),
        sq_busy: times
            .filter(|(total, _)| *total > 0)
            .map(|(total, work)| (work as f64 / total as f64).min(1.0)),
        sq_cpu: times
            .filter(|_| elapsed_ns > 0)
            .map(|(total, _)| total as f64 * 1000.0 / elapsed_ns as f64),
        io_workers: 0,
    }
}

fn event_rates(then: &RingEvents, now: &RingEvents, elapsed_ns: u64) -> RingEventRates {
    let rate = |then: Option<u64>, now: Option<u64>| {
        then.zip(now).map(|(then, now)| per_second(now.saturating_sub(then), elapsed_ns))
    };
    let counted_ns = match (then.task_work_ns, now.task_work_ns) {
        (then, Some(now)) => now.saturating_sub(then.unwrap_or(0)),
        (_, None) => elapsed_ns,
    };
    let before = |least: u32| then.task_work.iter().find(|(at, _)| *at == least).map(|(_, n)| *n);
    let runs = now.task_work.iter().filter_map(|(least, n)| {
        let runs = n.saturating_sub(before(*least)?);
        Some((*least, per_second(runs, counted_ns))).filter(|(_, rate)| *rate > 0.0)
    });
    RingEventRates {
        punted: rate(then.punted, now.punted),
        overflows: rate(then.overflows, now.overflows),
        task_work: runs.collect(),
    }
}

/// Names of the flags that a ring was set up with (include/uapi/linux/io_uring.h, IORING_SETUP_*); an
/// unknown one by its number.
pub fn setup_flag_names(flags: u32) -> Vec<String> {
    const NAMES: [&str; 21] = [
        "IOPOLL",
        "SQPOLL",
        "SQ_AFF",
        "CQSIZE",
        "CLAMP",
        "ATTACH_WQ",
        "R_DISABLED",
        "SUBMIT_ALL",
        "COOP_TASKRUN",
        "TASKRUN_FLAG",
        "SQE128",
        "CQE32",
        "SINGLE_ISSUER",
        "DEFER_TASKRUN",
        "NO_MMAP",
        "REGISTERED_FD_ONLY",
        "NO_SQARRAY",
        "HYBRID_IOPOLL",
        "CQE_MIXED",
        "SQE_MIXED",
        "SQ_REWIND",
    ];
    let set = (0..u32::BITS).filter(|bit| flags & 1 << bit != 0);
    let name = |bit: u32| {
        NAMES.get(bit as usize).map_or_else(|| format!("bit {bit}"), ToString::to_string)
    };
    set.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{RingQueues, RingWorkers, SqPollThread};

    fn ring(submitted: u32, completed: u32, times: Option<(u64, u64)>) -> RingSample {
        let thread = |(total, work)| SqPollThread {
            thread: 9,
            cpu: None,
            total_us: Some(total),
            work_us: Some(work),
        };
        RingSample {
            pid: 1,
            fd: 3,
            queues: Some(RingQueues { submitted, completed, ..RingQueues::default() }),
            sq_poll: times.map(thread),
            ..RingSample::default()
        }
    }

    fn sample(rings: Vec<RingSample>, events: Option<RingEvents>) -> RingsSample {
        RingsSample { rings, workers: vec![RingWorkers { pid: 1, threads: 3 }], events }
    }

    #[test]
    fn rates_of_a_ring() {
        let then = sample(vec![ring(u32::MAX, u32::MAX - 4, Some((1_000_000, 500_000)))], None);
        let now = sample(vec![ring(99, 90, Some((2_000_000, 750_000)))], None);
        let rates = ring_rates(&then, &now, 2_000_000_000);
        let ring = &rates.rings[0];
        assert_eq!((ring.submitted, ring.completed), (Some(50.0), Some(47.5)));
        assert_eq!((ring.in_kernel, ring.sq_busy, ring.sq_cpu), (Some(9), Some(0.25), Some(0.5)));
        assert_eq!(rates.workers, 3);
    }

    #[test]
    fn what_was_not_seen_has_no_rate() {
        let new = ring_rates(&sample(vec![], None), &sample(vec![ring(5, 4, None)], None), 1);
        assert_eq!((new.rings[0].submitted, new.rings[0].in_kernel), (None, Some(1)));
        let then = sample(vec![ring(5, 4, Some((7, 7)))], None);
        let locked = RingSample { queues: None, ..ring(0, 0, Some((7, 7))) };
        let rates = ring_rates(&then, &sample(vec![locked], None), 1_000);
        let ring = &rates.rings[0];
        // A thread that used no time was neither busy nor idle.
        assert_eq!((ring.submitted, ring.in_kernel, ring.sq_busy), (None, None, None));
        assert_eq!(ring.sq_cpu, Some(0.0));
    }

    #[test]
    fn rates_of_events() {
        let events = |punted, runs: [u64; 2]| RingEvents {
            punted: Some(punted),
            task_work: vec![(1, runs[0]), (8, runs[1])],
            ..RingEvents::default()
        };
        let then = sample(vec![], Some(events(10, [5, 7])));
        let now = sample(vec![], Some(events(20, [9, 7])));
        let rates = ring_rates(&then, &now, 500_000_000).events.unwrap();
        assert_eq!((rates.punted, rates.overflows), (Some(20.0), None));
        assert_eq!(rates.task_work, [(1, 8.0)]);
        let partly = |ns, runs| {
            let events = RingEvents { task_work_ns: Some(ns), ..events(0, runs) };
            sample(vec![], Some(events))
        };
        let (then, now) = (partly(1_000_000, [5, 7]), partly(3_000_000, [9, 7]));
        let rates = ring_rates(&then, &now, 500_000_000).events.unwrap();
        assert_eq!(rates.task_work, [(1, 2000.0)]);
    }

    #[test]
    fn flags_by_name() {
        assert_eq!(setup_flag_names(0x3002), ["SQPOLL", "SINGLE_ISSUER", "DEFER_TASKRUN"]);
        assert_eq!(setup_flag_names(1 << 31), ["bit 31"]);
    }
}
