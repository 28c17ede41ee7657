//! Where the CPU time of each condition goes, and how the block layer and io_uring process its I/Os.

use super::all;
use crate::doc::{DataColumn, Document, Text, count, number, of, percent, text, time, whole};
use crate::pages::layers::SAMPLES_MIN;
use fathom_model::experiment::{Condition, ExperimentRecord, MeasuredCondition};

/// Maximum number of conditions whose layers are shown, unless all are requested.
const COLUMNS_MAX: usize = 6;
/// A layer with a smaller share everywhere is left out.
const SHARE_MIN: f64 = 0.01;

pub(super) fn details(body: &mut Document, record: &ExperimentRecord, verbose: bool) {
    mechanics(body, record);
    layers(body, record, if verbose { usize::MAX } else { COLUMNS_MAX });
}

/// Batches, kernel threads and submission of each condition, where any of it was measured.
fn mechanics(body: &mut Document, record: &ExperimentRecord) {
    if record.request.is_sweep {
        return;
    }
    let axes = &record.request.experiment.axes;
    let columns = [
        "requests per plug flush",
        "io-wq workers",
        "I/Os per syscall",
        "device I/Os per I/O",
        "submit latency",
    ];
    let mut head = vec![DataColumn::text("I/O processing")];
    head.extend(columns.into_iter().map(DataColumn::number));
    let row = |(condition, found): (&Condition, &MeasuredCondition)| {
        let detail = found.detail.as_ref();
        let cells: [Text; 5] = [
            detail.and_then(|detail| detail.unplug_mean()).map(number).into(),
            detail.map(|detail| whole(detail.io_wq_workers)).into(),
            found.ios_per_call.map(number).into(),
            found.disk_requests_per_io.map(number).into(),
            (found.slat_mean_ns > 0.0).then(|| time(found.slat_mean_ns)).into(),
        ];
        let is_known = cells.iter().any(|cell| !cell.is_empty());
        let name = Text::from(condition.label(axes));
        (is_known && condition.repeats.is_none()).then(|| [vec![name], cells.to_vec()].concat())
    };
    body.table(head, all(record).filter_map(row).collect());
    let machine = all(record).filter_map(|(_, found)| found.machine_busy).fold(0.0, f64::max);
    if machine > 0.0 {
        body.entry("CPU usage", text!("up to ", percent(machine * 100.0)));
    }
}

/// CPU time per I/O by kernel layer: a column for each condition.
fn layers(body: &mut Document, record: &ExperimentRecord, columns_max: usize) {
    let axes = &record.request.experiment.axes;
    let sampled = all(record).filter_map(|(condition, found)| {
        let detail = found.detail.as_ref().filter(|detail| detail.samples >= SAMPLES_MIN)?;
        let per_io: f64 = found.cpu_ns_per_io?.iter().sum();
        Some((condition.label(axes), per_io, detail))
    });
    let sampled: Vec<_> = sampled.take(columns_max).collect();
    if sampled.is_empty() {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, _, detail) in &sampled {
        let large = detail.layers.iter().filter(|row| row.share >= SHARE_MIN);
        for row in large.filter(|row| !names.contains(&row.layer.as_str())).collect::<Vec<_>>() {
            names.push(&row.layer);
        }
    }
    let mut columns = vec![DataColumn::text("CPU per I/O by layer")];
    columns.extend(sampled.iter().map(|(label, ..)| DataColumn::number(label)));
    let row = |name: &&str| {
        let mut row: Vec<Text> = vec![(*name).into()];
        row.extend(sampled.iter().map(|(_, per_io, detail)| {
            let share = detail.layers.iter().find(|row| row.layer == **name).map(|row| row.share);
            Text::from(share.map(|share| time(share * per_io)))
        }));
        row
    };
    let mut rows: Vec<Vec<Text>> = names.iter().map(row).collect();
    let mut all: Vec<Text> = vec!["all".into()];
    all.extend(sampled.iter().map(|(_, per_io, _)| Text::from(time(*per_io))));
    rows.push(all);
    body.table(columns, rows);
    let samples = sampled.iter().map(|(_, _, detail)| detail.samples).min().unwrap_or(0);
    let samples = of(count(samples as f64), "CPU samples per variant, from separate windows");
    let samples = text!("at least ", samples);
    body.entry("layers", samples);
}
