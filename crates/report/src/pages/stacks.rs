//! Where CPUs spent their time: functions, processes, layers.

use super::layers;
use crate::doc::{DataColumn, Document, Text, of, plural, share, text, time, whole};
use crate::stacks::{Sampled, comm, process_name};
use fathom_analysis::layers::LayerTimes;
use std::collections::BTreeMap;

/// Maximum number of processes listed.
const PROCESSES: usize = 10;

/// Samples of one process.
#[derive(Default)]
struct Process<'a> {
    comm: &'a str,
    user: u64,
    kernel: u64,
}

/// The number of samples, then the `rows` functions, the processes and the layers with the most samples.
pub fn stacks(sampled: &Sampled, rows: usize) -> Document {
    let mut page = Document::default();
    let busy: u64 = sampled.counts().map(|count| u64::from(count.count)).sum();
    header(&mut page, sampled, busy);
    if busy > 0 {
        functions(&mut page, sampled, busy, rows);
        processes(&mut page, sampled, busy);
        let samples = sampled.intervals.iter().map(|(_, sample)| sample);
        let times = LayerTimes::of(samples, &sampled.stacks, |_| true);
        page.blocks.extend(layers(&times, None).blocks);
    }
    page
}

fn header(page: &mut Document, sampled: &Sampled, busy: u64) {
    let sum = |get: fn(&fathom_model::watch::StacksSample) -> u64| -> u64 {
        sampled.intervals.iter().map(|(_, sample)| get(sample)).sum()
    };
    let (idle, own) = (sum(|s| s.idle), sum(|s| s.own));
    let ns = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64);
    let sample = sampled.intervals.last().map(|(_, sample)| sample);
    let (event, hz) = sample.map_or(("", 0), |sample| (sample.event.as_str(), sample.hz));
    let all = busy + idle + own;
    let parts = [(busy, "on busy CPUs"), (idle, "on idle CPUs"), (own, "of fathom")];
    let part = |(n, name): (u64, &str)| text!(of(whole(n), name), " (", share(n, all), ")");
    let parts = match parts.iter().find(|(n, _)| *n == all) {
        _ if all == 0 => Text::default(),
        Some((_, name)) => format!(", all {name}").into(),
        None => text!(": ", Text::join(parts.into_iter().filter(|(n, _)| *n > 0).map(part), ", ")),
    };
    let samples = plural(all, "sample");
    let about = text!(event, " at ", of(whole(hz), "Hz"), " for ", time(ns));
    page.paragraph(text!(samples, parts, " · ", about));
    let notes = [
        (sum(|s| s.lost), "records lost: buffers were full"),
        (sum(|s| s.throttled), "times the kernel throttled sampling"),
        (
            sum(|s| s.cut),
            "samples reduced to the function that was running: too many distinct stacks",
        ),
    ];
    for (count, what) in notes.iter().filter(|(count, _)| *count > 0) {
        page.paragraph(of(whole(*count), what));
    }
}

/// Functions that were running, most samples first; those in user mode by thread name.
fn functions(page: &mut Document, sampled: &Sampled, busy: u64, rows: usize) {
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
    let cells = |((name, mode), count): &((String, &str), u64)| -> Vec<Text> {
        vec![name.as_str().into(), share(*count, busy).into(), whole(*count).into(), (*mode).into()]
    };
    let columns = vec![
        DataColumn::text("function (self)"),
        DataColumn::number("share"),
        DataColumn::number("samples"),
        DataColumn::text("mode"),
    ];
    page.table(columns, sums.iter().take(rows).map(cells).collect());
}

fn processes(page: &mut Document, sampled: &Sampled, busy: u64) {
    let mut sums: BTreeMap<i32, Process<'_>> = BTreeMap::new();
    for count in sampled.counts() {
        let process = sums.entry(count.pid).or_default();
        // Older records have only threads' names: the main thread's is the process's.
        let is_known = count.pid == count.tid || !count.process.is_empty();
        if process.comm.is_empty() || is_known {
            process.comm = process_name(count);
        }
        let in_kernel = sampled.frames(count.stack).last().is_some_and(|leaf| leaf.kernel);
        let part = if in_kernel { &mut process.kernel } else { &mut process.user };
        *part += u64::from(count.count);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, process)| std::cmp::Reverse(process.user + process.kernel));
    let cells = |(pid, process): &(i32, Process<'_>)| -> Vec<Text> {
        let parts = [process.user + process.kernel, process.user, process.kernel];
        let shares = parts.map(|part| Text::from(share(part, busy)));
        [process.comm.into(), pid.to_string().into()].into_iter().chain(shares).collect()
    };
    let numbers = ["PID", "share", "user", "kernel"].map(DataColumn::number);
    let columns = [DataColumn::text("process")].into_iter().chain(numbers).collect();
    page.table(columns, sums.iter().take(PROCESSES).map(cells).collect());
}
