//! Where processors were, in a page.

use super::{Sampled, comm};
use crate::layers;
use crate::summary::{Style, table};
use fathom_analysis::layers::LayerTimes;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Rows that are shown.
const FUNCTIONS: usize = 20;
const PROCESSES: usize = 10;

/// Samples of one process.
#[derive(Default)]
struct Process<'a> {
    comm: &'a str,
    user: u64,
    kernel: u64,
}

/// What the samples are, then the functions in which most were, the processes, the layers.
#[must_use]
pub fn text(sampled: &Sampled, style: Style) -> String {
    let busy: u64 = sampled.counts().map(|count| u64::from(count.count)).sum();
    let mut out = header(sampled, busy);
    if busy == 0 {
        return out;
    }
    out.push('\n');
    out.push_str(&table(&functions(sampled, busy), style));
    out.push('\n');
    out.push_str(&table(&processes(sampled, busy), style));
    let samples = sampled.intervals.iter().map(|(_, sample)| sample);
    out.push('\n');
    let times = LayerTimes::of(samples, &sampled.stacks, |_| true);
    out.push_str(&layers::render(&times, None, style));
    out
}

fn header(sampled: &Sampled, busy: u64) -> String {
    let sum = |get: fn(&fathom_model::watch::StacksSample) -> u64| -> u64 {
        sampled.intervals.iter().map(|(_, sample)| get(sample)).sum()
    };
    let (idle, own) = (sum(|s| s.idle), sum(|s| s.own));
    let seconds = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64 / 1e9);
    let sample = sampled.intervals.last().map(|(_, sample)| sample);
    let (event, hz) = sample.map_or(("", 0), |sample| (sample.event.as_str(), sample.hz));
    let all = (busy + idle + own).max(1) as f64;
    let mut out = format!(
        "{seconds:.1} s, {event} at {hz} Hz: {busy} samples of busy processors, {idle} of idle ones \
         ({:.1}%), {own} of watching itself ({:.2}%)\n",
        idle as f64 / all * 100.0,
        own as f64 / all * 100.0,
    );
    let notes = [
        (sum(|s| s.lost), "records lost: buffers were full"),
        (sum(|s| s.throttled), "times the kernel paused sampling because it cost too much"),
        (sum(|s| s.cut), "samples with their innermost function only: too many distinct stacks"),
    ];
    for (count, what) in notes.iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(out, "  {count} {what}");
    }
    out
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1}%", part as f64 / all as f64 * 100.0)
}

/// Innermost functions, most samples first; those of user mode by thread.
fn functions(sampled: &Sampled, busy: u64) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for count in sampled.counts() {
        let Some(leaf) = sampled.frames(count.stack).last() else { continue };
        let key = match leaf.kernel {
            true => (leaf.name.to_string(), "kernel"),
            false => (format!("{} {}", comm(count), leaf.name), "user"),
        };
        *sums.entry(key).or_default() += u64::from(count.count);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let cells = |((name, mode), count): &((String, &str), u64)| {
        row([name, &share(*count, busy), &count.to_string(), mode])
    };
    let header = row(["innermost function", "busy", "samples", "mode"]);
    std::iter::once(header).chain(sums.iter().take(FUNCTIONS).map(cells)).collect()
}

fn processes(sampled: &Sampled, busy: u64) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<i32, Process<'_>> = BTreeMap::new();
    for count in sampled.counts() {
        let process = sums.entry(count.pid).or_default();
        // The main thread's name is the process's.
        if process.comm.is_empty() || count.pid == count.tid {
            process.comm = comm(count);
        }
        let in_kernel = sampled.frames(count.stack).last().is_some_and(|leaf| leaf.kernel);
        let part = if in_kernel { &mut process.kernel } else { &mut process.user };
        *part += u64::from(count.count);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, process)| std::cmp::Reverse(process.user + process.kernel));
    let cells = |(pid, process): &(i32, Process<'_>)| {
        let share = |part| share(part, busy);
        let all = share(process.user + process.kernel);
        row([process.comm, &pid.to_string(), &all, &share(process.user), &share(process.kernel)])
    };
    let header = row(["process", "pid", "busy", "user", "kernel"]);
    std::iter::once(header).chain(sums.iter().take(PROCESSES).map(cells)).collect()
}
