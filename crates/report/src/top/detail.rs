//! The details of one table row.

use super::paint::Tone;
use super::ui::{Grouping, Panel, Ui};
use super::{View, blocks, disks, layers, rings, threads};
use crate::doc::Document;
use crate::pages;
use crate::render::{self, Style};
use fathom_analysis::machine::{DiskRates, IoRates, placement};
use fathom_model::units;
use fathom_model::watch::ThreadCount;
use std::collections::BTreeSet;

type Lines = Vec<(Tone, String)>;

/// The details of the row with this key.
pub fn text(view: &View<'_>, ui: &Ui, panel: Panel, key: &str) -> Lines {
    let lines = match panel {
        Panel::Disks => disk(view, key),
        Panel::Threads => group(view, ui.grouping, key),
        Panel::Layers => layer(view, key),
        Panel::Rings => ring(view, key),
    };
    lines.unwrap_or_else(|| {
        let name = key.replace('\t', " ");
        vec![(Tone::Warning, format!("{name}: not present in this interval"))]
    })
}

fn disk(view: &View<'_>, name: &str) -> Option<Lines> {
    let disk = view.rates.disks.iter().find(|disk| disk.name == name)?;
    let kind = serde_json::to_value(disk.kind).ok()?;
    let mut lines = vec![(Tone::Key, format!("{name}: {}", kind.as_str().unwrap_or_default()))];
    let origin = disks::origin(disk);
    if !origin.is_empty() {
        lines.push((Tone::Plain, format!("  backing: {origin}")));
    }
    let above = view.rates.disks.iter().filter(|other| other.below.iter().any(|n| n == name));
    let above: Vec<&str> = above.map(|other| other.name.as_str()).collect();
    if !above.is_empty() {
        lines.push((Tone::Plain, format!("  used by: {}", above.join(", "))));
    }
    directions(disk, &mut lines);
    lines.push((
        Tone::Plain,
        format!(
            "  aqu-sz {:.2} (mean I/Os in flight)   inflt {} (now)",
            disk.queue, disk.in_flight
        ),
    ));
    let meaning = "a device that serves I/Os in parallel is not saturated at 100";
    let text = format!("  %util {:.1} (time with I/O in flight; {meaning})", disk.util);
    lines.push((Tone::Plain, text));
    lines.extend(places(view, name));
    lines.extend(blocks::lines(view, name));
    Some(lines)
}

fn directions(disk: &DiskRates, lines: &mut Lines) {
    let title = format!(
        "  {:7} {:>7} {:>8} {:>8} {:>8} {:>6} {:>6}",
        "", "IOPS", "MiB/s", "await ms", "areq-KiB", "rqm/s", "%rqm"
    );
    lines.push((Tone::Faint, title));
    let all = [
        ("read", &disk.read),
        ("write", &disk.write),
        ("discard", &disk.discard),
        ("flush", &disk.flush),
    ];
    for (name, io) in all {
        let known = |value: Option<f64>, decimals: usize| {
            value.map_or("-".into(), |value| format!("{value:.decimals$}"))
        };
        let IoRates { ios, bytes, merges, merged, wait_ms, size } = *io;
        lines.push((
            Tone::Plain,
            format!(
                "  {name:7} {:>7} {:>8.2} {:>8} {:>8} {:>6} {merged:>5.1}%",
                units::count(ios),
                bytes / disks::MIB,
                known(wait_ms, 3),
                known(size.map(|bytes| bytes / 1024.0), 1),
                units::count(merges),
            ),
        ));
    }
}

/// The CPUs that take the device's interrupts, and those that submit to it.
fn places(view: &View<'_>, name: &str) -> Lines {
    let mut all = placement(view.wiring, view.before, view.now);
    all.retain(|place| place.device == name);
    page(&pages::placement(&all))
}

/// A page as lines; the caller wraps them.
fn page(document: &Document) -> Lines {
    let text = render::text(document, Style { color: false, width: usize::from(u16::MAX) });
    text.lines().map(|line| (Tone::Plain, format!("  {line}"))).collect()
}

/// The threads of a group, each with its activity.
fn group(view: &View<'_>, grouping: Grouping, key: &str) -> Option<Lines> {
    let sample = view.now.threads.as_ref()?;
    let columns = threads::grouped_by(grouping);
    let values = |count: &ThreadCount| -> Vec<String> {
        columns.iter().map(|column| column.of(count).into_owned()).collect()
    };
    let mut counts: Vec<&ThreadCount> =
        sample.active.iter().filter(|count| threads::key(&values(count)) == key).collect();
    let first = counts.first()?;
    let active: f64 = counts.iter().map(|count| sample.average(count)).sum();
    let title = format!(
        "{}: {active:.2} threads on average ({} samples)",
        values(first).join(" "),
        sample.samples
    );
    let names = format!(
        "  {:>6} {:>8} {:>8} {:15} {:2} {:16} {}",
        "active", "pid", "tid", "comm", "st", "syscall", "wchan"
    );
    let mut lines = vec![(Tone::Key, title), (Tone::Faint, names)];
    let tids: BTreeSet<i32> = counts.iter().map(|count| count.tid).collect();
    counts.sort_by(|a, b| sample.average(b).total_cmp(&sample.average(a)).then(a.tid.cmp(&b.tid)));
    for count in counts {
        let mut notes = String::new();
        if let Some(owner) = count.works_for {
            notes += &format!("  for thread {owner}");
        }
        if count.torn {
            notes += "  inconsistent: ran while being sampled";
        }
        let dash = |text: &str| if text.is_empty() { "-".to_string() } else { text.to_string() };
        let ThreadCount { pid, tid, comm, state, .. } = count;
        lines.push((
            Tone::Plain,
            format!(
                "  {:>6.2} {pid:>8} {tid:>8} {comm:15} {state:2} {:16} {}{notes}",
                sample.average(count),
                dash(&count.syscall),
                dash(&count.wchan),
            ),
        ));
    }
    let times = layers::times(view, |count| tids.contains(&count.tid));
    if times.samples > 0 {
        let title =
            format!("CPU time of these threads by kernel layer ({} samples)", times.samples);
        lines.push((Tone::Key, title));
        lines.extend(layers::lines(&times, |_| true));
    }
    Some(lines)
}

fn layer(view: &View<'_>, name: &str) -> Option<Lines> {
    let times = layers::times(view, |_| true);
    let found = times.layers.iter().any(|layer| layer.layer.name() == name);
    let event = view.now.stacks.as_ref().map_or("", |stacks| &stacks.event);
    let title = format!("{name}: share of {} samples of {event}", times.samples);
    let lines = layers::lines(&times, |layer| layer.layer.name() == name);
    found.then(|| std::iter::once((Tone::Key, title)).chain(lines).collect())
}

/// One ring, with the totals of all rings.
fn ring(view: &View<'_>, key: &str) -> Option<Lines> {
    let mut rates = rings::rates(view)?;
    rates.rings.retain(|ring| rings::key(&ring.ring) == key);
    let name = rates.rings.first().map(|ring| format!("{} {key}", ring.ring.comm))?;
    let lines = page(&pages::rings(&rates));
    Some(std::iter::once((Tone::Key, name)).chain(lines).collect())
}
