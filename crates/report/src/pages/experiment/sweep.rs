//! A grid of which each cell stands for itself.

use super::{all, charts, figure, metric};
use crate::doc::{
    DataColumn, Document, Quantity, QuantityUnit, Text, bandwidth, percent, text, time,
};
use fathom_analysis::experiment::{ExperimentRecord, MeasuredCondition};
use fathom_model::experiment::{Condition, Metric};

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
    let row = |(condition, found): (&Condition, &MeasuredCondition)| {
        let mut row: Vec<Text> =
            condition.cell.iter().map(|value| Text::from(value.as_str())).collect();
        row.push(metric(experiment.metric, found));
        row.push(Quantity::new(100.0 * found.metric.mean / top, QuantityUnit::PercentBar).into());
        row.push(figure(found, bandwidth(found.bytes_per_second)));
        row.push(latency(found, found.clat_mean_ns));
        row.push(latency(found, found.clat_p50_ns as f64));
        row.push(latency(found, found.clat_p99_ns as f64));
        row.push(found.cpu_ns_per_io.map(|ns| time(ns.iter().sum())).into());
        row.push(point(found));
        row
    };
    body.table(columns, all(record).map(row).collect());
    body.entry("within noise", within_noise(record));
    charts::latency(body, record);
    if experiment.metric == Metric::Iops {
        charts::metric(body, record);
    }
}

/// What a cell is on its curve.
fn point(found: &MeasuredCondition) -> Text {
    let noise = found.to_best.is_some_and(|ratio| ratio.high >= 1.0);
    let share = found.started_share.filter(|share| *share < 0.99);
    let parts = [
        found.is_knee.then(|| "knee".into()),
        found.is_best.then(|| "best".into()),
        noise.then(|| "within noise".into()),
        share.map(|share| text!("only ", percent(share * 100.0), " of the load started")),
    ];
    Text::join(parts.into_iter().flatten(), ", ")
}

fn within_noise(record: &ExperimentRecord) -> Text {
    let found = &record.report.conditions;
    let noise = found.iter().filter(|found| found.to_best.is_some_and(|ratio| ratio.high >= 1.0));
    let count = noise.count();
    let cells = found.len();
    match count {
        0 => Text::default(),
        _ => text!(
            format!("{count} of {cells} cells"),
            " do not differ from the best cell of their curve (95%)"
        ),
    }
}
