//! The block layer's events as text: a line for each device and interval, and a summary.

use crate::summary::{Style, table};
use fathom_model::watch::{
    BlockOp, BlocksSample, DeviceBlocks, Missing, SizeSamples, SplitSamples,
};
use fathom_model::{Histogram, escape, units};
use std::fmt::Write;

/// Kinds of request, causes of splits and tasks that are named; the rest is one figure.
const NAMED: usize = 5;

/// What the lines of [`lines`] hold: rates per second, times of sampled requests, and how large
/// most unplugs were.
#[must_use]
pub fn header() -> String {
    format!(
        "{:<10}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}{:>11}{:>9}{:>11}{:>9}  {}\n",
        "device",
        "in/s",
        "split/s",
        "merge/s",
        "issue/s",
        "back/s",
        "done/s",
        "errors",
        "queue p50",
        "p99",
        "driver p50",
        "p99",
        "unplugs",
    )
}

/// A line for each device, of what came within `elapsed_ns`.
#[must_use]
pub fn lines(came: &BlocksSample, elapsed_ns: u64) -> String {
    let rate = |n: u64| units::count(round(n as f64 * 1e9 / elapsed_ns.max(1) as f64));
    let time = |histogram: &Histogram, percent: f64| {
        histogram.percentile(percent).map_or("-".into(), |ns| units::time(ns as f64))
    };
    let line = |device: &DeviceBlocks| {
        if device.removed && device.queued + device.issued + device.completed == 0 {
            return format!("{:<10} removed\n", escape::text(&device.name));
        }
        let of_requests = |n: u64| if device.bio_based { "-".into() } else { rate(n) };
        let at_driver = |percent: f64| match device.ends_unseen() {
            Some(_) => "-".into(),
            None => time(&device.driver, percent),
        };
        format!(
            "{:<10}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}{:>11}{:>9}{:>11}{:>9}  {}\n",
            escape::text(&device.name),
            rate(device.queued),
            rate(device.split),
            of_requests(device.merged),
            of_requests(device.issued),
            of_requests(device.requeued),
            rate(device.completed),
            device.errors,
            time(&device.queue, 50.0),
            time(&device.queue, 99.0),
            at_driver(50.0),
            at_driver(99.0),
            most_unplugs(came),
        )
    };
    came.devices.iter().map(line).collect()
}

/// Whole numbers: a rate of 0.3 is told as 0.3, one of 12.345k as that.
fn round(rate: f64) -> f64 {
    if rate >= 10.0 { rate.round() } else { rate }
}

/// The most frequent size of unplugs with its share: `32: 98%`.
fn most_unplugs(came: &BlocksSample) -> String {
    let all: u64 = came.unplugs.iter().map(|(_, n)| n).sum();
    let most = came.unplugs.iter().enumerate().max_by_key(|(_, (_, n))| *n);
    match most {
        Some((index, (_, n))) if all > 0 => {
            format!("{}: {}", range(&came.unplugs, index), percent(*n, all))
        }
        _ => "-".into(),
    }
}

/// The requests that the counts at `index` are of: `5-8`.
fn range(unplugs: &[(u32, u64)], index: usize) -> String {
    let first = unplugs.get(index).map_or(0, |unplug| unplug.0);
    match unplugs.get(index + 1) {
        None => format!("{first}+"),
        Some((next, _)) if *next <= first + 1 => first.to_string(),
        Some((next, _)) => format!("{first}-{}", next - 1),
    }
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1}%", part as f64 / all.max(1) as f64 * 100.0)
}

/// All that came within `elapsed_ns`, and what could not be seen.
#[must_use]
pub fn summary(came: &BlocksSample, elapsed_ns: u64, missing: &[Missing], style: Style) -> String {
    let mut out = String::new();
    for device in &came.devices {
        out += &of_device(device, came.one_in, elapsed_ns, style);
    }
    out += &unplugs(came, style);
    if let Some(tasks) = tasks(came) {
        out += &tasks;
    }
    // Writing to a string cannot fail.
    if came.lost > 0 {
        let _ = writeln!(
            out,
            "{} sampled events came faster than they were read: sample fewer (--one-in)",
            units::count(came.lost as f64),
        );
    }
    for missing in missing {
        let _ = writeln!(out, "not seen: {missing}");
    }
    out
}

fn of_device(device: &DeviceBlocks, one_in: u32, elapsed_ns: u64, style: Style) -> String {
    let n = |n: u64| units::count(n as f64);
    let removed = if device.removed { ", removed meanwhile" } else { "" };
    let mut out =
        format!("{} in {}{removed}\n", escape::text(&device.name), units::time(elapsed_ns as f64));
    // Writing to a string cannot fail.
    let _ = write!(out, "  {} I/Os entered, {} splits", n(device.queued), n(device.split));
    let _ = if device.bio_based {
        writeln!(out, ", {} I/Os done, {} errors", n(device.completed), n(device.errors))
    } else {
        writeln!(
            out,
            ", {} merged; {} requests issued, {} put back by the driver, {} done, {} errors",
            n(device.merged),
            n(device.issued),
            n(device.requeued),
            n(device.completed),
            n(device.errors),
        )
    };
    for (code, errors) in &device.error_codes {
        let _ = writeln!(out, "  errno {code}: {errors}");
    }
    out += &times(device, style);
    if !device.sizes.is_empty() {
        let _ = writeln!(out, "  sizes, one in {one_in}: {}", sizes(&device.sizes));
    }
    if !device.splits.is_empty() {
        let _ = writeln!(out, "  split by: {}", splits(&device.splits));
    }
    out
}

fn times(device: &DeviceBlocks, style: Style) -> String {
    let row = |name: &str, histogram: &Histogram| {
        let time = |ns: f64| units::time(ns);
        let at = |percent: f64| histogram.percentile(percent).map_or(0.0, |ns| ns as f64);
        let mut row = vec![name.to_string(), time(histogram.mean_ns())];
        row.extend([50.0, 90.0, 99.0, 99.9].map(|percent| time(at(percent))));
        row.extend([time(histogram.max_ns() as f64), units::count(histogram.count() as f64)]);
        row
    };
    let names = ["", "mean", "p50", "p90", "p99", "p99.9", "max", "timed"];
    let mut rows = vec![names.map(String::from).to_vec()];
    if !device.queue.is_empty() {
        rows.push(row("queue to driver", &device.queue));
    }
    if !device.driver.is_empty() {
        let name = if device.bio_based { "entered to done" } else { "driver to done" };
        rows.push(row(name, &device.driver));
    }
    let mut out = if rows.len() > 1 { table(&rows, style) } else { String::new() };
    if let Some(unseen) = device.ends_unseen() {
        let (unseen, all) =
            (units::count(unseen as f64), units::count(device.queue.count() as f64));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "  Of {unseen} of {all} the end was not seen, as on processors that were idle: times at the driver are \
             those of the others and may be far from the usual; `await` of `fathom top` has the mean of all"
        );
    }
    out
}

fn sizes(sizes: &[SizeSamples]) -> String {
    let all: u64 = sizes.iter().map(|size| size.samples).sum();
    let mut sorted: Vec<&SizeSamples> = sizes.iter().collect();
    sorted.sort_by_key(|size| (std::cmp::Reverse(size.samples), size.bytes_min));
    let parts = sorted.iter().map(|size| {
        let op = match size.op {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Discard => "discard",
            BlockOp::Flush => "flush",
            BlockOp::Other => "other",
        };
        let bytes = match size.bytes_min {
            0 => String::new(),
            bytes => format!(" {}", units::bytes(bytes)),
        };
        (format!("{op}{bytes}"), size.samples)
    });
    named(parts, all)
}

fn splits(splits: &[SplitSamples]) -> String {
    let all: u64 = splits.iter().map(|split| split.samples).sum();
    let mut sorted: Vec<&SplitSamples> = splits.iter().collect();
    sorted.sort_by_key(|split| (std::cmp::Reverse(split.samples), split.bytes));
    let parts = sorted.iter().map(|split| {
        let limit =
            if split.limit.is_empty() { "a rule of the driver" } else { split.limit.as_str() };
        (format!("{limit} after {}", units::bytes(split.bytes)), split.samples)
    });
    named(parts, all)
}

/// The first parts with their shares of `all`, and the rest.
fn named(parts: impl Iterator<Item = (String, u64)>, all: u64) -> String {
    let parts: Vec<(String, u64)> = parts.collect();
    let (first, rest) = parts.split_at(parts.len().min(NAMED));
    let mut texts: Vec<String> = first
        .iter()
        .map(|(name, n)| format!("{} {}", escape::text(name), percent(*n, all)))
        .collect();
    if !rest.is_empty() {
        texts.push(format!("others {}", percent(rest.iter().map(|part| part.1).sum(), all)));
    }
    texts.join(", ")
}

fn unplugs(came: &BlocksSample, style: Style) -> String {
    let all: u64 = came.unplugs.iter().map(|(_, n)| n).sum();
    if all == 0 {
        return "no unplugs on any device\n".into();
    }
    let mut head = vec!["requests".to_string()];
    let mut counts = vec!["unplugs".to_string()];
    let mut shares = vec!["share".to_string()];
    for (index, (_, n)) in came.unplugs.iter().enumerate().filter(|(_, (_, n))| *n > 0) {
        head.push(range(&came.unplugs, index));
        counts.push(units::count(*n as f64));
        shares.push(percent(*n, all));
    }
    let table = table(&[head, counts, shares], style);
    format!(
        "unplugs on all devices (the kernel does not say of which), by how many requests they let go\n{table}"
    )
}

fn tasks(came: &BlocksSample) -> Option<String> {
    let all: u64 = came.tasks.iter().map(|task| task.queued).sum();
    let mut tasks: Vec<_> = came.tasks.iter().filter(|task| task.queued > 0).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.queued));
    let parts = tasks.iter().map(|task| (task.comm.clone(), task.queued));
    let one_in = came.one_in;
    (all > 0).then(|| format!("I/Os by task, one in {one_in}: {}\n", named(parts, all)))
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
