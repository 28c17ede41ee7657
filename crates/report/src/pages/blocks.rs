//! The block layer's events: a row for each device and interval, and a summary.

use super::{not_measured, parts, percentile};
use crate::doc::{
    Block, DataColumn, DataTable, Document, TableExtent, Text, bytes, count, events, named, of,
    plural, share, text, time,
};
use fathom_analysis::blocks::{AwaitGap, GapReason, await_gaps};
use fathom_analysis::machine::DiskRates;
use fathom_model::watch::{
    BlockOp, BlocksSample, DeviceBlocks, SizeSamples, SplitSamples, Unavailable,
};
use fathom_model::{Histogram, list};

/// Kinds of request, causes of splits and tasks that are named; the rest is added up.
const NAMED: usize = 5;

/// A row for each device: rates within `elapsed_ns`, latencies of sampled requests, and the most frequent size of
/// unplugs. With column names if `is_first`.
pub fn block_rates(growth: &BlocksSample, elapsed_ns: u64, is_first: bool) -> Document {
    let rates = ["split/s", "merge/s", "issue/s", "requeue/s"].map(DataColumn::number);
    let rates = rates.into_iter().zip([4, 4, 0, 4]).map(|(column, rank)| column.ranked(rank));
    let mut columns = vec![DataColumn::text("device"), DataColumn::number("queue/s")];
    columns.extend(rates);
    columns.extend(["done/s", "errors"].map(DataColumn::number));
    let times = ["queue p50", "p99", "driver p50", "p99"].map(DataColumn::number);
    columns.extend(times.into_iter().zip([1, 3, 1, 3]).map(|(column, rank)| column.ranked(rank)));
    columns.push(DataColumn::text("plug flushes").ranked(2));
    let rows = growth.devices.iter().map(|device| rates_of(device, growth, elapsed_ns)).collect();
    let extent = if is_first { TableExtent::First } else { TableExtent::Further };
    let blocks = vec![Block::Table(DataTable { columns, rows, extent })];
    Document { blocks, ..Document::default() }
}

fn rates_of(device: &DeviceBlocks, growth: &BlocksSample, elapsed_ns: u64) -> Vec<Text> {
    if device.removed && device.queued + device.issued + device.completed == 0 {
        return vec![device.name.as_str().into(), "removed".into()];
    }
    let none = || Text::from("-");
    let rate = |n: u64| Text::from(count(rounded(n as f64 * 1e9 / elapsed_ns.max(1) as f64)));
    let of_requests = |n: u64| if device.bio_based { none() } else { rate(n) };
    let at = |histogram: &Histogram, percent: f64| {
        percentile(histogram, percent).map_or_else(none, |ns| time(ns).into())
    };
    let at_driver = |percent: f64| match device.ends_unseen() {
        Some(_) => none(),
        None => at(&device.driver, percent),
    };
    vec![
        device.name.as_str().into(),
        rate(device.queued),
        rate(device.split),
        of_requests(device.merged),
        of_requests(device.issued),
        of_requests(device.requeued),
        rate(device.completed),
        events(device.errors).into(),
        at(&device.queue, 50.0),
        at(&device.queue, 99.0),
        at_driver(50.0),
        at_driver(99.0),
        most_unplugs(growth),
    ]
}

/// Whole numbers but for small rates: 0.3 stays 0.3.
fn rounded(rate: f64) -> f64 {
    if rate >= 10.0 { rate.round() } else { rate }
}

/// The most frequent size of unplugs with its share: `32: 98.0%`.
fn most_unplugs(growth: &BlocksSample) -> Text {
    let all: u64 = growth.unplugs.iter().map(|(_, n)| n).sum();
    let most = growth.unplugs.iter().enumerate().max_by_key(|(_, (_, n))| *n);
    match most {
        Some((index, (_, n))) if all > 0 => {
            named(&format!("{}:", range(&growth.unplugs, index)), share(*n, all))
        }
        _ => "-".into(),
    }
}

/// The numbers of requests that the counts at `index` are of: `5–8`.
pub(super) fn range<N>(counts: &[(u32, N)], index: usize) -> String {
    let first = counts.get(index).map_or(0, |count| count.0);
    match counts.get(index + 1) {
        None => format!("{first}+"),
        Some((next, _)) if *next <= first + 1 => first.to_string(),
        Some((next, _)) => format!("{first}–{}", next - 1),
    }
}

/// Everything that happened within `elapsed_ns`, and what could not be measured; `verbose` gives the reasons. `disks` are
/// the kernel's own figures of the same time.
pub fn blocks(
    growth: &BlocksSample,
    disks: &[DiskRates],
    elapsed_ns: u64,
    missing: &[Unavailable],
    verbose: bool,
) -> Document {
    let mut page = Document::default();
    let (idle, active): (Vec<_>, Vec<_>) =
        growth.devices.iter().partition(|device| !device.removed && is_idle(device));
    for device in active {
        let removed = if device.removed { ", removed" } else { "" };
        let about = text!(time(elapsed_ns as f64), removed);
        page.named(&device.name, about, device_blocks(device, growth, disks, elapsed_ns));
    }
    let idle: Vec<&str> = idle.iter().map(|device| device.name.as_str()).collect();
    page.entry("no I/O", list::few(&idle, NAMED));
    unplugs(&mut page, growth);
    let one_in = growth.one_in;
    let tasks = growth.tasks.iter().map(|task| (task.comm.clone().into(), task.queued));
    page.entry(&format!("I/Os by task (1 in {one_in})"), ranked(tasks.collect()));
    if growth.lost > 0 {
        let lost =
            of(events(growth.lost), "sampled events, buffers were full; raise --sample-every");
        page.entry("lost", lost);
    }
    not_measured(&mut page, missing, verbose);
    page
}

fn is_idle(device: &DeviceBlocks) -> bool {
    let DeviceBlocks { queued, split, merged, issued, requeued, completed, errors, .. } = device;
    [queued, split, merged, issued, requeued, completed, errors].into_iter().all(|n| *n == 0)
}

/// What happened on one device of `growth` within `elapsed_ns`; events of single I/Os are left out where not all were
/// counted.
pub(crate) fn device_blocks(
    device: &DeviceBlocks,
    growth: &BlocksSample,
    disks: &[DiskRates],
    elapsed_ns: u64,
) -> Document {
    let gaps = gaps(device, disks, elapsed_ns);
    let mut body = of_device(device, growth, &gaps);
    gaps.iter().for_each(|gap| body.paragraph(sentence(gap)));
    body
}

fn of_device(device: &DeviceBlocks, growth: &BlocksSample, gaps: &[AwaitGap]) -> Document {
    let n = |n: u64, name: &str| of(events(n), name);
    let each = |count, name| if growth.each_io { n(count, name) } else { Text::default() };
    let one_in = growth.one_in;
    let mut body = Document::default();
    let ios =
        [each(device.queued, "queued"), n(device.split, "split"), each(device.merged, "merged")];
    let errors = plural(device.errors, "error");
    if device.bio_based {
        let [queued, split, _] = ios;
        body.entry("I/Os", parts([queued, split, each(device.completed, "completed"), errors]));
    } else {
        body.entry("I/Os", parts(ios));
        let (issued, requeued) = (each(device.issued, "issued"), n(device.requeued, "requeued"));
        let completed = each(device.completed, "completed");
        body.entry("requests", parts([issued, requeued, completed, errors]));
    }
    let codes = device.error_codes.iter();
    let codes = codes.map(|(code, errors)| named(&format!("errno {code}:"), events(*errors)));
    body.entry("errors", Text::join(codes, ", "));
    let sizes = device.sizes.iter().map(|size| (kind(size), size.samples)).collect();
    body.entry(&format!("sizes (1 in {one_in})"), ranked(sizes));
    let splits = device.splits.iter().map(|split| (limit(split), split.samples)).collect();
    body.entry("splits", ranked(splits));
    times(&mut body, device, gaps);
    body
}

fn times(body: &mut Document, device: &DeviceBlocks, gaps: &[AwaitGap]) {
    let row = |name: &str, histogram: &Histogram| -> Vec<Text> {
        let percentiles = [50.0, 90.0, 99.0, 99.9].map(|percent| percentile(histogram, percent));
        let all = [Some(histogram.mean_ns())].into_iter().chain(percentiles);
        let all = all.chain([Some(histogram.max_ns() as f64)]);
        let times = all.map(|ns| ns.map_or_else(|| Text::from("-"), |ns| time(ns).into()));
        let timed = events(histogram.count()).into();
        [name.into()].into_iter().chain(times).chain([timed]).collect()
    };
    let driver = if device.bio_based { "queue to completion" } else { "issue to completion" };
    let mut all = vec![("queue to issue".to_string(), &device.queue)];
    match device.ops.as_slice() {
        _ if device.ends_unseen().is_some() => {}
        // Older records.
        [] => all.push((driver.to_string(), &device.driver)),
        ops => {
            let ops = ops.iter().filter(|of| !is_biased(gaps, of.op));
            all.extend(ops.map(|of| (format!("{driver}, {}", of.op.name()), &of.driver)));
        }
    }
    let rows = all.into_iter().filter(|(_, times)| !times.is_empty());
    let names = ["mean", "p50", "p90", "p99", "p99.9", "max", "samples"];
    let ranks = [2, 0, 3, 0, 3, 0, 1];
    let names = names.into_iter().zip(ranks);
    let numbers = names.map(|(name, rank)| DataColumn::number(name).ranked(rank));
    let columns = [DataColumn::text("latency")].into_iter().chain(numbers).collect();
    body.table(columns, rows.map(|(name, times)| row(&name, times)).collect());
    if let Some(unseen) = device.ends_unseen() {
        body.paragraph(text!(
            "issue-to-completion latency omitted: no completion event for ",
            of(events(unseen), "of "),
            of(events(device.queue.count()), "requests"),
            ", as happens on idle CPUs. `await` in `fathom top` is the mean of all."
        ));
    }
}

pub(super) fn gaps(device: &DeviceBlocks, disks: &[DiskRates], elapsed_ns: u64) -> Vec<AwaitGap> {
    let disk = disks.iter().find(|disk| disk.name == device.name);
    // Without the completions, latencies are not printed.
    let disk = disk.filter(|_| device.ends_unseen().is_none());
    disk.map_or_else(Vec::new, |disk| await_gaps(device, disk, elapsed_ns))
}

/// Whether the samples of an operation are known not to represent all requests.
pub(super) fn is_biased(gaps: &[AwaitGap], op: BlockOp) -> bool {
    gaps.iter().any(|gap| gap.op == op && gap.reason == GapReason::Samples)
}

pub(super) fn sentence(gap: &AwaitGap) -> Text {
    let op = gap.op.name();
    let both = || {
        let (p50, mean) = (named("p50", time(gap.p50_ns)), named("await", time(gap.await_ns)));
        text!(op, ": sampled ", p50, ", ", mean, " of all requests: ")
    };
    match gap.reason {
        GapReason::Spread if gap.p50_ns < gap.await_ns => {
            text!(both(), "the mean is pulled up by a few slow requests")
        }
        GapReason::Spread => text!(both(), "the mean is pulled down by many fast requests"),
        GapReason::Queue => {
            text!(
                both(),
                "await includes the time before issue, ",
                time(gap.queue_ns),
                " on average"
            )
        }
        GapReason::Samples => text!(
            op,
            ": sample of ",
            plural(gap.samples, "request"),
            " is biased; percentiles omitted (",
            named("await", time(gap.await_ns)),
            ")"
        ),
    }
}

fn kind(size: &SizeSamples) -> Text {
    let op = size.op.name();
    match size.bytes_min {
        0 => op.into(),
        min => named(op, bytes(min)),
    }
}

fn limit(split: &SplitSamples) -> Text {
    let limit = if split.limit.is_empty() { "driver's own limit" } else { &split.limit };
    text!("at ", bytes(split.bytes), " (", limit, ")")
}

/// The most frequent of `all` with their shares, and the rest.
fn ranked(mut all: Vec<(Text, u64)>) -> Text {
    let total: u64 = all.iter().map(|part| part.1).sum();
    all.retain(|part| part.1 > 0);
    all.sort_by_key(|part| std::cmp::Reverse(part.1));
    let (first, rest) = all.split_at(all.len().min(NAMED));
    let shown = first.iter().map(|(name, n)| text!(name.clone(), "\u{a0}", share(*n, total)));
    let others: u64 = rest.iter().map(|part| part.1).sum();
    let others = (others > 0).then(|| named("others", share(others, total)));
    Text::join(shown.chain(others), ", ")
}

fn unplugs(page: &mut Document, growth: &BlocksSample) {
    let all: u64 = growth.unplugs.iter().map(|(_, n)| n).sum();
    let used = growth.unplugs.iter().enumerate().filter(|(_, (_, n))| *n > 0);
    let row = |(index, (_, n)): (usize, &(u32, u64))| -> Vec<Text> {
        vec![range(&growth.unplugs, index).into(), events(*n).into(), share(*n, all).into()]
    };
    let mut body = Document::default();
    let columns = ["requests", "plug flushes", "share"].map(DataColumn::number);
    body.table(columns.into(), used.map(row).collect());
    let about = if all > 0 { "all devices" } else { "none" };
    page.section("plug flushes", about, body);
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
