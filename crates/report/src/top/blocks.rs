//! Block layer events of one device.

use super::View;
use super::paint::Tone;
use fathom_analysis::derive::per_second;
use fathom_model::watch::{BlocksSample, DeviceBlocks, SizeSamples, SplitSamples};
use fathom_model::{Histogram, units};

/// Counts and latencies of a device's I/Os; empty where block events are not sampled.
pub fn lines(view: &View<'_>, name: &str) -> Vec<(Tone, String)> {
    let find = |sample: &'_ Option<BlocksSample>| {
        let devices = sample.as_ref().map_or(&[][..], |sample| &sample.devices);
        devices.iter().find(|device| device.name == name).cloned()
    };
    let Some(now) = find(&view.now.blocks) else { return Vec::new() };
    let then = find(&view.before.blocks).unwrap_or_default();
    let rate = |of: fn(&DeviceBlocks) -> u64| {
        units::count(per_second(of(&now).saturating_sub(of(&then)), view.elapsed_ns).round())
    };
    // Per-I/O events are sampled, not counted, unless `each_io` is set.
    let counts = view.now.blocks.as_ref().is_some_and(|blocks| blocks.each_io);
    let each = |of: fn(&DeviceBlocks) -> u64| {
        if counts { rate(of) } else { "not counted".to_string() }
    };
    let removed = if now.removed { " (device removed)" } else { "" };
    let mut lines = vec![(Tone::Key, format!("block layer, per second{removed}"))];
    lines.push((
        Tone::Plain,
        format!(
            "  queued {}   split {}   merged {}   issued {}   requeued {}",
            each(|d| d.queued),
            rate(|d| d.split),
            each(|d| d.merged),
            each(|d| d.issued),
            rate(|d| d.requeued),
        ),
    ));
    lines.push((
        Tone::Plain,
        format!("  completed {}   errors {}", each(|d| d.completed), rate(|d| d.errors)),
    ));
    let from = if now.bio_based { "queue to completion" } else { "issue to completion" };
    lines.extend(waits("queue to issue", &now.queue.since(&then.queue)));
    lines.extend(match now.ends_unseen() {
        None => waits(from, &now.driver.since(&then.driver)),
        Some(unseen) => {
            let all = now.queue.count();
            let text = format!(
                "  {from}: not available (no completion event for {unseen} of {all} requests)"
            );
            Some((Tone::Plain, text))
        }
    });
    lines.extend(sizes(&then.sizes, &now.sizes));
    lines.extend(splits(&then.splits, &now.splits));
    lines
}

fn waits(name: &str, times: &Histogram) -> Option<(Tone, String)> {
    let at = |percent| times.percentile(percent).map(|ns| units::time(ns as f64));
    let text = format!(
        "  {name}: p50 {}   p99 {}   max {}   ({} samples)",
        at(50.0)?,
        at(99.0)?,
        units::time(times.max_ns() as f64),
        times.count()
    );
    Some((Tone::Plain, text))
}

/// Distribution of request sizes at issue.
fn sizes(then: &[SizeSamples], now: &[SizeSamples]) -> Option<(Tone, String)> {
    let grown = now.iter().map(|size| {
        let same = |then: &&SizeSamples| (then.op, then.bytes_min) == (size.op, size.bytes_min);
        (size, size.samples.saturating_sub(then.iter().find(same).map_or(0, |then| then.samples)))
    });
    let grown: Vec<_> = grown.filter(|(_, samples)| *samples > 0).collect();
    let all: u64 = grown.iter().map(|(_, samples)| samples).sum();
    let part = |(size, samples): &(&SizeSamples, u64)| {
        let op = format!("{:?}", size.op).to_lowercase();
        let bytes = units::bytes(size.bytes_min).replace(' ', "");
        format!("{op} {bytes} {:.0}%", *samples as f64 * 100.0 / all as f64)
    };
    let parts: Vec<String> = grown.iter().map(part).collect();
    (all > 0).then(|| (Tone::Plain, format!("  request size ≥: {}", parts.join(", "))))
}

/// The limits that caused splits.
fn splits(then: &[SplitSamples], now: &[SplitSamples]) -> Option<(Tone, String)> {
    let new = now.iter().filter(|split| {
        let same = |then: &&SplitSamples| (&then.limit, then.bytes) == (&split.limit, split.bytes);
        split.samples > then.iter().find(same).map_or(0, |then| then.samples)
    });
    let text = |split: &SplitSamples| {
        let limit = if split.limit.is_empty() { "unknown limit" } else { &split.limit };
        format!("{limit} ({})", units::bytes(split.bytes))
    };
    let texts: Vec<String> = new.map(text).collect();
    (!texts.is_empty()).then(|| (Tone::Plain, format!("  split by limit: {}", texts.join(", "))))
}
