//! A grid of which each cell stands for itself.

use super::{all, charts, figure, metric};
use crate::doc::{
    DataColumn, Document, Quantity, QuantityUnit, Text, bandwidth, percent, text, time,
};
use fathom_analysis::experiment::curves;
use fathom_model::experiment::{Condition, ExperimentRecord, MeasuredCondition, Metric};

/// The table of all cells, and the curves.
pub(super) fn sweep(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let top = record.report.conditions.iter().map(|found| found.metric.mean).fold(1.0, f64::max);
    let mut columns: Vec<DataColumn> =
        experiment.axes.iter().map(|axis| DataColumn::number(axis)).collect();
    columns.push(DataColumn::number(&format!("{} (95% CI)", experiment.metric.title())));
    columns.push(DataColumn::text("").ranked(5));
    columns.extend(
        [("bandwidth", 3), ("mean", 2), ("p50", 6), ("p99", 1), ("CPU per I/O", 4)]
            .map(|(name, rank)| DataColumn::number(name).ranked(rank)),
    );
    columns.push(DataColumn::text("point"));
    let latency = |found: &MeasuredCondition, ns: f64| {
        if ns > 0.0 { figure(found, time(ns)) } else { Text::default() }
    };
    let rising = without_knee(record);
    let row = |(index, (condition, found)): (usize, (&Condition, &MeasuredCondition))| {
        let mut row: Vec<Text> =
            condition.cell.iter().map(|value| Text::from(value.as_str())).collect();
        row.push(metric(experiment.metric, found));
        row.push(Quantity::new(100.0 * found.metric.mean / top, QuantityUnit::PercentBar).into());
        row.push(figure(found, bandwidth(found.bytes_per_second)));
        row.push(latency(found, found.clat_mean_ns));
        row.push(latency(found, found.clat_p50_ns as f64));
        row.push(latency(found, found.clat_p99_ns as f64));
        row.push(found.cpu_ns_per_io.map(|ns| time(ns.iter().sum())).into());
        row.push(point(found, rising.contains(&index)));
        row
    };
    body.table(columns, all(record).enumerate().map(row).collect());
    body.entry("ties", ties(record));
    charts::latency(body, record);
    if experiment.metric == Metric::Iops {
        charts::metric(body, record);
    }
}

/// The last cells of curves that have no knee: they may still rise there.
fn without_knee(record: &ExperimentRecord) -> Vec<usize> {
    let is_knee = |index: &usize| record.report.conditions.get(*index).is_some_and(|c| c.is_knee);
    let curves = curves(&record.request.experiment).into_iter();
    let open = curves.filter(|curve| curve.len() > 2 && !curve.iter().any(is_knee));
    open.filter_map(|curve| curve.last().copied()).collect()
}

/// What a cell is on its curve.
fn point(found: &MeasuredCondition, is_rising: bool) -> Text {
    let noise = found.to_best.is_some_and(|ratio| ratio.high >= 1.0);
    let share = found.started_share.filter(|share| *share < 0.99);
    let parts = [
        found.is_knee.then(|| "knee".into()),
        found.is_best.then(|| "best".into()),
        (is_rising && found.windows > 0).then(|| "knee not reached".into()),
        noise.then(|| "tied with the best".into()),
        is_noisy(found).then(|| "noisy".into()),
        share.map(|share| text!("only ", percent(share * 100.0), " of the load started")),
    ];
    Text::join(parts.into_iter().flatten(), ", ")
}

/// Whether the windows of a cell disagree so much that its figures are not to be relied on.
fn is_noisy(found: &MeasuredCondition) -> bool {
    found.metric.relative().is_some_and(|part| part > 0.5)
}

fn ties(record: &ExperimentRecord) -> Text {
    let found = &record.report.conditions;
    let noise = found.iter().filter(|found| found.to_best.is_some_and(|ratio| ratio.high >= 1.0));
    let count = noise.count();
    let cells = found.len();
    match count {
        0 => Text::default(),
        _ => text!(
            format!("{count} of {cells} points"),
            " are statistically tied with the best of their curve"
        ),
    }
}
