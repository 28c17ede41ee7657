//! The details of one table row.

use super::ui::{Grouping, Panel, Ui};
use super::{TopView, disks, layers, rings, threads};
use crate::doc::{
    Block, DataColumn, DataTable, Document, Text, events, named, number, of, plural, text,
};
use crate::figures::{self, cell, phrase, quantity, wait};
use crate::pages;
use fathom_analysis::blocks;
use fathom_analysis::machine::{DiskRates, placement};
use fathom_analysis::metrics::{ALL_RINGS, DISK, FigureGroup, FigureUnit};
use fathom_model::list;
use fathom_model::watch::{BlocksSample, ThreadCount};
use std::collections::BTreeSet;

pub fn page(view: &TopView<'_>, ui: &Ui, panel: Panel, key: &str) -> Document {
    let page = match panel {
        Panel::Disks => disk(view, key),
        Panel::Threads => group(view, ui.grouping, key),
        Panel::Layers => layer(view, key),
        Panel::Rings => ring(view, key),
    };
    page.unwrap_or_else(|| {
        let mut page = Document::default();
        page.paragraph(format!("{}: not present in this interval", key.replace('\t', " ")));
        page
    })
}

fn section(title: &str, about: impl Into<Text>, body: Document) -> Document {
    let mut page = Document::default();
    page.section(title, about, body);
    page
}

fn disk(view: &TopView<'_>, name: &str) -> Option<Document> {
    let disk = view.rates.disks.iter().find(|disk| disk.name == name)?;
    let kind = serde_json::to_value(disk.kind).ok()?;
    let mut body = Document::default();
    body.entry("backing", disks::origin(disk));
    let above = view.rates.disks.iter().filter(|other| other.below.iter().any(|n| n == name));
    let above: Vec<&str> = above.map(|other| other.name.as_str()).collect();
    body.entry("used by", above.join(", "));
    body.blocks.push(Block::Table(directions(disk, view.elapsed_ns)));
    let device = DISK
        .iter()
        .filter(|metric| metric.group == FigureGroup::Device)
        .filter_map(|metric| Some(phrase(metric, quantity(metric, (metric.value)(disk)?))));
    body.entry("device", Text::join(device, ", "));
    body.paragraph("A device that serves I/Os in parallel is not saturated at 100% util.");
    // The CPUs that take the device's interrupts, and those that submit to it.
    let mut places = placement(view.wiring, view.before, view.now);
    places.retain(|place| place.device == name);
    body.blocks.extend(pages::placement(&places).blocks);
    let mut page = section(name, kind.as_str().unwrap_or_default(), body);
    page.blocks.extend(block_layer(view, name));
    Some(page)
}

fn directions(disk: &DiskRates, elapsed_ns: u64) -> DataTable {
    let groups = [FigureGroup::Read, FigureGroup::Write, FigureGroup::Discard, FigureGroup::Flush];
    let shown = DISK.iter().filter(|metric| groups.contains(&metric.group));
    let titles = list::distinct(shown.map(|metric| metric.title));
    let row = |group: FigureGroup| -> Vec<Text> {
        let figures: Vec<_> = DISK.iter().filter(|metric| metric.group == group).collect();
        let rate = figures.iter().find(|metric| metric.unit == FigureUnit::Rate);
        let rate = rate.and_then(|metric| (metric.value)(disk)).unwrap_or(0.0);
        let of = |title: &&str| {
            let metric = figures.iter().find(|metric| metric.title == *title)?;
            let value = (metric.value)(disk);
            Some(match value.filter(|_| metric.unit == FigureUnit::Milliseconds) {
                Some(ms) => wait(ms, rate * elapsed_ns as f64 / 1e9).into(),
                None => cell(metric, value),
            })
        };
        let figures = titles.iter().map(|title| of(title).into());
        std::iter::once(group.title().into()).chain(figures).collect()
    };
    let rows = groups.into_iter().map(row).collect();
    let mut columns = vec![DataColumn::text("")];
    columns.extend(titles.iter().map(|title| DataColumn::number(title)));
    DataTable { columns, rows, ..DataTable::default() }
}

/// What the block layer did with the device's I/Os in this interval.
fn block_layer(view: &TopView<'_>, name: &str) -> Option<Block> {
    let none = BlocksSample::default();
    let growth =
        blocks::since(view.now.blocks.as_ref()?, view.before.blocks.as_ref().unwrap_or(&none));
    let device = growth.devices.iter().find(|device| device.name == name)?;
    let body = pages::device_blocks(device, &growth, &view.rates.disks, view.elapsed_ns);
    section("block layer", device.removed.then_some("device removed"), body).blocks.pop()
}

fn group(view: &TopView<'_>, grouping: Grouping, key: &str) -> Option<Document> {
    let sample = view.now.threads.as_ref()?;
    let columns = threads::grouped_by(grouping);
    let values = |count: &ThreadCount| -> Vec<String> {
        columns.iter().map(|column| column.of(count).into_owned()).collect()
    };
    let mut counts: Vec<&ThreadCount> =
        sample.active.iter().filter(|count| threads::key(&values(count)) == key).collect();
    let title = values(counts.first()?).join(" ");
    let active: f64 = counts.iter().map(|count| sample.average(count)).sum();
    let tids: BTreeSet<i32> = counts.iter().map(|count| count.tid).collect();
    counts.sort_by(|a, b| sample.average(b).total_cmp(&sample.average(a)).then(a.tid.cmp(&b.tid)));
    let row = |count: &&ThreadCount| -> Vec<Text> {
        let dash = |text: &str| Text::from(if text.is_empty() { "-" } else { text });
        let owner = count.works_for.map(|owner| format!("for thread {owner}").into());
        let torn = count.torn.then(|| "inconsistent: ran while being sampled".into());
        let [pid, tid, state] =
            [count.pid.to_string(), count.tid.to_string(), count.state.to_string()];
        let names = [pid.into(), tid.into(), dash(&count.comm), state.into()];
        let waits = [dash(&count.syscall), dash(&count.wchan)];
        let note = Text::join([owner, torn].into_iter().flatten(), "; ");
        let all = names.into_iter().chain(waits).chain([note]);
        std::iter::once(number(sample.average(count)).into()).chain(all).collect()
    };
    let numbers = ["active", "pid", "tid"].map(DataColumn::number).into_iter();
    let texts = ["comm", "st", "syscall", "wchan", ""].map(DataColumn::text);
    let mut body = Document::default();
    body.table(numbers.chain(texts).collect(), counts.iter().map(row).collect());
    let about = named("mean active threads", number(active));
    let about = text!(about, ", ", plural(sample.samples.into(), "sample"));
    let mut page = section(&title, about, body);
    let times = layers::times(view, |count| tids.contains(&count.tid));
    if times.samples > 0 {
        let mut body = Document::default();
        body.blocks.push(Block::Table(layers::functions(&times, |_| true)));
        page.section("CPU time by layer", plural(times.samples, "sample"), body);
    }
    Some(page)
}

fn layer(view: &TopView<'_>, name: &str) -> Option<Document> {
    let times = layers::times(view, |_| true);
    let event = view.now.stacks.as_ref().map_or("", |stacks| &stacks.event);
    let functions = layers::functions(&times, |layer| layer.layer.name() == name);
    let mut body = Document::default();
    body.table(functions.columns, functions.rows);
    let about = of(events(times.samples), &format!("samples of {event}"));
    (!body.blocks.is_empty()).then(|| section(name, about, body))
}

fn ring(view: &TopView<'_>, key: &str) -> Option<Document> {
    let interval = view.interval();
    let mut rates = interval.rings()?;
    rates.rings.retain(|ring| rings::key(&ring.ring) == key);
    let name = rates.rings.first().map(|ring| format!("{} {key}", ring.ring.comm))?;
    let mut page = Document::default();
    pages::rings(&mut page, &rates);
    let all = figures::group(&interval, ALL_RINGS, |_| true);
    page.entry(ALL_RINGS.title(), Text::join(all, " · "));
    Some(section(&name, Text::default(), page))
}
