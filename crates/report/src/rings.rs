//! Rings and placement as text.

use fathom_analysis::machine::{CpuCount, Placement, RingRates, RingsRates, setup_flag_names};
use fathom_model::{escape, units};
use std::fmt::Write as _;

/// Processors that are named of each device; the rest is added up.
const CPUS_MAX: usize = 4;

/// A line for each ring, then one for the events and workers; empty where there are no rings.
#[must_use]
pub fn rings(rates: &RingsRates) -> String {
    let mut text = String::new();
    for ring in &rates.rings {
        let _ = writeln!(text, "{}", line(ring));
    }
    let events = rates.events.iter().flat_map(|events| {
        let rate =
            |value: Option<f64>, what: &str| Some(format!("{}/s {what}", units::count(value?)));
        [rate(events.punted, "handed to io-wq"), rate(events.overflows, "found no place")]
    });
    let workers = format!("{} io-wq workers", rates.workers);
    let all: Vec<String> = std::iter::once(workers).chain(events.flatten()).collect();
    if !rates.rings.is_empty() {
        let _ = writeln!(text, "all rings: {}", all.join(" · "));
    }
    let runs = rates.events.iter().flat_map(|events| &events.task_work);
    let runs: Vec<String> =
        runs.map(|(least, rate)| format!("{least}+: {}/s", units::count(*rate))).collect();
    if !runs.is_empty() {
        let _ = writeln!(text, "runs of task work by requests: {}", runs.join(" · "));
    }
    text
}

fn line(rates: &RingRates) -> String {
    let ring = &rates.ring;
    let mut parts = vec![format!("{} {} fd {}", escape::text(&ring.comm), ring.pid, ring.fd)];
    if ring.processes > 1 {
        parts.push(format!("shared by {} processes", ring.processes));
    }
    match &ring.queues {
        Some(queues) => {
            parts.push(format!("{}/{} entries", queues.sq_entries, queues.cq_entries));
            parts.extend(rates.submitted.map(|rate| format!("{}/s submitted", units::count(rate))));
            parts.extend(rates.in_kernel.map(|count| format!("{count} in the kernel")));
            parts.push(format!("{} to submit", queues.sq_ready));
            parts.push(format!("{} to reap", queues.cq_ready));
            if queues.overflowed > 0 {
                parts.push(format!("{} overflowed", queues.overflowed));
            }
        }
        None => parts.push("in use whenever looked at".into()),
    }
    if let Some(thread) = &ring.sq_poll {
        let busy = match (rates.sq_busy, rates.sq_cpu) {
            (Some(busy), Some(cpu)) => {
                format!(" at work {:.0}% of its {cpu:.2} cores", busy * 100.0)
            }
            (None, Some(_)) => " asleep".into(),
            _ => String::new(),
        };
        parts.push(format!("SQPOLL thread {}{busy}", thread.thread));
    }
    parts.extend(ring.setup_flags.map(|flags| setup_flag_names(flags).join(" ")));
    parts.join(" · ")
}

/// A line for each device.
#[must_use]
pub fn placement(all: &[Placement]) -> String {
    let mut text = String::new();
    let together = all.iter().any(|at| at.device.is_empty());
    for at in all {
        let name = if at.device.is_empty() { "all devices" } else { &at.device };
        let name = escape::text(name);
        let mut parts = vec![format!("interrupts {}", processors(&at.interrupts))];
        // Counted of all devices together, they are not known of each.
        if !together || at.device.is_empty() {
            // Perhaps of a part of the time: shares are told, numbers are not.
            let shares =
                if at.submitted.is_empty() { "none".into() } else { shares(&at.submitted) };
            parts.push(format!("submitted {shares}"));
        }
        parts.extend(at.common.map(|common| format!("{:.0}% in common", common * 100.0)));
        let _ = writeln!(text, "{name}: {}", parts.join(" · "));
    }
    text
}

/// `9.01k: cpu 1 52%, cpu 0 48%`.
fn processors(counts: &[CpuCount]) -> String {
    let all: u64 = counts.iter().map(|at| at.count).sum();
    if all == 0 {
        return "none".into();
    }
    format!("{}: {}", units::count(all as f64), shares(counts))
}

/// `cpu 1 52%, cpu 0 48%`.
fn shares(counts: &[CpuCount]) -> String {
    let share = |share: f64| format!("{:.0}%", share * 100.0);
    let named =
        counts.iter().take(CPUS_MAX).map(|at| format!("cpu {} {}", at.cpu, share(at.share)));
    let rest = counts.get(CPUS_MAX..).unwrap_or_default();
    let others = (!rest.is_empty())
        .then(|| format!("{} others {}", rest.len(), share(rest.iter().map(|at| at.share).sum())));
    let parts: Vec<String> = named.chain(others).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::machine::RingEventRates;
    use fathom_model::watch::{RingQueues, RingSample, SqPoll};

    fn ring() -> RingSample {
        RingSample {
            pid: 4711,
            comm: "fathom".into(),
            fd: 9,
            processes: 1,
            queues: Some(RingQueues {
                sq_entries: 32,
                cq_entries: 64,
                cq_ready: 3,
                overflowed: 2,
                ..RingQueues::default()
            }),
            ..RingSample::default()
        }
    }

    #[test]
    fn a_ring_in_a_line() {
        let busy = RingRates {
            ring: RingSample { setup_flags: Some(0x3000), ..ring() },
            submitted: Some(223_000.0),
            in_kernel: Some(29),
            ..RingRates::default()
        };
        let thread = SqPoll { thread: 1973, ..SqPoll::default() };
        let polled = RingRates {
            ring: RingSample { sq_poll: Some(thread), queues: None, processes: 2, ..ring() },
            sq_busy: Some(0.42),
            sq_cpu: Some(1.0),
            ..RingRates::default()
        };
        let events = RingEventRates {
            punted: Some(10.0),
            overflows: None,
            task_work: vec![(1, 2000.0), (32, 1.0)],
        };
        let rates = RingsRates { rings: vec![busy, polled], workers: 4, events: Some(events) };
        assert_eq!(
            rings(&rates),
            "fathom 4711 fd 9 · 32/64 entries · 223k/s submitted · 29 in the kernel · 0 to submit · \
             3 to reap · 2 overflowed · SINGLE_ISSUER DEFER_TASKRUN\n\
             fathom 4711 fd 9 · shared by 2 processes · in use whenever looked at · \
             SQPOLL thread 1973 at work 42% of its 1.00 cores\n\
             all rings: 4 io-wq workers · 10/s handed to io-wq\n\
             runs of task work by requests: 1+: 2k/s · 32+: 1/s\n"
        );
        assert_eq!(rings(&RingsRates::default()), "");
    }

    #[test]
    fn a_device_in_a_line() {
        let counts = |of: &[(u32, u64)]| -> Vec<CpuCount> {
            let all: u64 = of.iter().map(|(_, count)| count).sum();
            let share = |count: u64| count as f64 / all as f64;
            of.iter()
                .map(|(cpu, count)| CpuCount { cpu: *cpu, count: *count, share: share(*count) })
                .collect()
        };
        let wide = Placement {
            device: "nvme0n1".into(),
            interrupts: counts(&[(0, 50), (1, 20), (2, 10), (3, 10), (4, 5), (5, 5)]),
            submitted: counts(&[(0, 9000)]),
            common: Some(0.5),
        };
        let polled = Placement { submitted: counts(&[(7, 12)]), ..Placement::default() };
        let interrupts =
            "nvme0n1: interrupts 100: cpu 0 50%, cpu 1 20%, cpu 2 10%, cpu 3 10%, 2 others 10%";
        assert_eq!(
            placement(std::slice::from_ref(&wide)),
            format!("{interrupts} · submitted cpu 0 100% · 50% in common\n")
        );
        let unknown = Placement { submitted: Vec::new(), common: None, ..wide };
        assert_eq!(
            placement(&[polled, unknown]),
            format!("all devices: interrupts none · submitted cpu 7 100%\n{interrupts}\n")
        );
    }
}
