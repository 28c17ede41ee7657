//! io_uring rings, and on which CPUs devices are served.

use super::{parts, range};
use crate::doc::{Document, Text, count, events, named, number, of, percent, text, whole};
use crate::figures::{phrase, quantity};
use fathom_analysis::machine::{
    CpuCount, RingRates, RingsRates, SubmitPlacement, setup_flag_names,
};
use fathom_analysis::metrics::RING;

/// CPUs that are named for each device; the rest is added up.
const CPUS_MAX: usize = 4;

/// Figures of a ring that other parts of its entry say.
const ELSEWHERE: [&str; 3] = ["completed_per_s", "io_workers", "sqpoll_busy_pct"];

/// An entry for each ring, and one for the sizes of task work runs.
pub fn rings(page: &mut Document, rates: &RingsRates) {
    rates.rings.iter().for_each(|ring| page.entry("ring", line(ring)));
    let runs: &[_] = rates.events.as_ref().map_or(&[], |events| &events.task_work);
    let runs = parts(runs.iter().enumerate().map(|(index, (_, rate))| {
        named(&format!("{}:", range(runs, index)), text!(count(*rate), "/s"))
    }));
    if !runs.is_empty() {
        page.entry("task work", text!("completions per run ", runs));
    }
}

fn line(rates: &RingRates) -> Text {
    let ring = &rates.ring;
    let mut all = vec![text!(ring.comm.as_str(), format!(" {} fd\u{a0}{}", ring.pid, ring.fd))];
    if ring.processes > 1 {
        all.push(format!("shared by {} processes", ring.processes).into());
    }
    match &ring.queues {
        Some(queues) => {
            let sizes = text!(whole(queues.sq_entries), "/", whole(queues.cq_entries));
            all.push(text!("SQ/CQ ", of(sizes, "entries")));
            let figures = RING.iter().filter(|metric| metric.is_main());
            let figures = figures.filter(|metric| !ELSEWHERE.contains(&metric.id));
            all.extend(figures.filter_map(|metric| {
                let value = (metric.value)(rates)?;
                let is_silent = metric.rank > 2 && value == 0.0;
                (!is_silent).then(|| phrase(metric, quantity(metric, value)))
            }));
        }
        None => all.push("queues not available (locked at every sample)".into()),
    }
    if let Some(thread) = &ring.sq_poll {
        let busy = match (rates.sq_busy, rates.sq_cpu) {
            (Some(busy), Some(cpu)) => {
                text!(" busy ", percent(busy * 100.0), " of ", of(number(cpu), "CPUs"))
            }
            (None, Some(_)) => " asleep".into(),
            _ => Text::default(),
        };
        all.push(text!(format!("SQPOLL thread {}", thread.thread), busy));
    }
    all.extend(ring.setup_flags.map(|flags| setup_flag_names(flags).join(" ").into()));
    parts(all)
}

pub fn placement(all: &[SubmitPlacement]) -> Document {
    let mut page = Document::default();
    let is_shared = all.iter().any(|at| at.device.is_empty());
    for at in all {
        let name = if at.device.is_empty() { "all devices" } else { &at.device };
        let mut about = vec![text!("interrupts ", cpus(&at.interrupts))];
        // Submissions counted over all devices are not known per device.
        if !is_shared || at.device.is_empty() {
            // Shares only: they may have been counted during a part of the time.
            let none = at.submitted.is_empty();
            // If no event was counted, nothing is known about the I/Os.
            let shares = if none { "not counted".into() } else { shares(&at.submitted) };
            about.push(text!("submitted ", shares));
        }
        about.extend(at.common.map(|common| of(percent(common * 100.0), "on the same CPU")));
        page.entry(name, parts(about));
    }
    page
}

/// `9.01k: CPU 1 52.0%, CPU 0 48.0%`.
fn cpus(counts: &[CpuCount]) -> Text {
    let all: u64 = counts.iter().map(|at| at.count).sum();
    if all == 0 { "none".into() } else { text!(events(all), ": ", shares(counts)) }
}

/// `CPU 1 52.0%, CPU 0 48.0%`.
fn shares(counts: &[CpuCount]) -> Text {
    let share = |name: String, share: f64| named(&name, percent(share * 100.0));
    let shown = counts.iter().take(CPUS_MAX);
    let shown = shown.map(|at| share(format!("CPU\u{a0}{}", at.cpu), at.share));
    let rest = counts.get(CPUS_MAX..).unwrap_or_default();
    let others = (!rest.is_empty()).then(|| {
        share(format!("{}\u{a0}others", rest.len()), rest.iter().map(|at| at.share).sum())
    });
    Text::join(shown.chain(others), ", ")
}

#[cfg(test)]
#[path = "rings_tests.rs"]
mod tests;
