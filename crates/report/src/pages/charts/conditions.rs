//! Charts of conditions.

use crate::doc::{Axis, Chart, ChartPoint, ChartSeries, Document, QuantityUnit};
use crate::pages::experiment::all;
use fathom_analysis::experiment::curves;
use fathom_model::experiment::{Condition, ExperimentRecord, MeasuredCondition, Metric};
use fathom_model::list;

/// The metric by condition: bars, or with a grid a line for each variant.
pub(in crate::pages) fn metric(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let unit = unit(experiment.metric);
    let title = experiment.metric.title();
    if let Some(axis) = experiment.axes.last().filter(|_| is_numeric(record)) {
        let name = |condition: &Condition| series_name(condition, &experiment.axes);
        let point = |condition: &Condition, found: &MeasuredCondition| ChartPoint {
            x: condition.cell.last().and_then(|value| numeric(value)).unwrap_or(0.0),
            ..point(condition.cell.last().map_or("", String::as_str), found)
        };
        let series = lines(record, name, point);
        let of = if has_sizes(record) { QuantityUnit::Bytes } else { QuantityUnit::Count };
        let axes = (Axis::log(axis, of), Axis::linear(title, unit));
        body.chart(Chart::lines(format!("{title} by {axis}"), axes, series));
        return;
    }
    let bars =
        all(record).filter(|(condition, found)| condition.repeats.is_none() && found.windows > 0);
    let bars = bars.map(|(condition, found)| point(&condition.label(&experiment.axes), found));
    body.chart(Chart::bars(title, Axis::linear(title, unit), bars.collect()));
}

/// Latency over throughput, a line for each curve, with its knee.
pub(in crate::pages) fn latency(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let axis = experiment.axes.last().map_or("", String::as_str);
    let name = |condition: &Condition| series_name(condition, &experiment.axes);
    let point = |condition: &Condition, found: &MeasuredCondition| ChartPoint {
        label: condition.cell.last().map_or_else(String::new, |value| format!("{axis}={value}")),
        x: found.iops,
        y: found.clat_mean_ns,
        mark: found.is_knee.then(|| "knee".to_string()),
        ..ChartPoint::default()
    };
    let mut series = lines(record, name, point);
    series.iter_mut().for_each(|series| series.points.retain(|point| point.y > 0.0));
    series.retain(|series| series.points.len() > 1);
    let xs: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|point| point.x).collect();
    let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
    // Curves of large and small blocks are far apart.
    let is_wide = xs.iter().any(|x| *x > 8.0 * least);
    let x = Axis { log: is_wide, ..Axis::linear("IOPS", QuantityUnit::Count) };
    let axes = (x, Axis::log("mean latency", QuantityUnit::Nanoseconds));
    body.chart(Chart::lines("latency vs. throughput", axes, series));
}

fn lines(
    record: &ExperimentRecord,
    name: impl Fn(&Condition) -> String,
    point: impl Fn(&Condition, &MeasuredCondition) -> ChartPoint,
) -> Vec<ChartSeries> {
    let experiment = &record.request.experiment;
    let curve = |members: Vec<usize>| {
        let pairs = members.iter().filter_map(|index| {
            Some((experiment.conditions.get(*index)?, record.report.conditions.get(*index)?))
        });
        let pairs: Vec<_> = pairs.filter(|(_, found)| found.windows > 0).collect();
        let name = pairs.first().map_or_else(String::new, |(condition, _)| name(condition));
        let points = pairs.into_iter().map(|(condition, found)| point(condition, found));
        ChartSeries::new(name, points.collect())
    };
    let series = curves(experiment).into_iter().map(curve);
    series.filter(|series| !series.points.is_empty()).collect()
}

/// The name of a curve: the variant and its place along all axes but the last.
fn series_name(condition: &Condition, axes: &[String]) -> String {
    let along = axes.len().saturating_sub(1);
    let cell = condition.cell.iter().take(along).cloned().collect();
    Condition { cell, ..condition.clone() }.label(&axes[..along])
}

fn point(label: &str, found: &MeasuredCondition) -> ChartPoint {
    ChartPoint {
        label: label.to_string(),
        y: found.metric.mean,
        interval: found.metric.low.zip(found.metric.high).map(|(low, high)| (low.max(0.0), high)),
        ..ChartPoint::default()
    }
}

pub(in crate::pages) fn unit(metric: Metric) -> QuantityUnit {
    match metric {
        Metric::Iops => QuantityUnit::Count,
        Metric::Bandwidth => QuantityUnit::BytesPerSecond,
        Metric::Latency | Metric::Cpu | Metric::Time => QuantityUnit::Nanoseconds,
    }
}

fn is_numeric(record: &ExperimentRecord) -> bool {
    let conditions = record.request.experiment.conditions.iter();
    let values = list::distinct(conditions.filter_map(|condition| condition.cell.last()));
    values.len() > 1 && values.iter().all(|value| numeric(value).is_some_and(|n| n > 0.0))
}

/// Whether values of the last axis are sizes, such as `4k`.
fn has_sizes(record: &ExperimentRecord) -> bool {
    let ends = |value: &String| value.ends_with(['k', 'm', 'g', 'K', 'M', 'G']);
    record.request.experiment.conditions.iter().filter_map(|c| c.cell.last()).any(ends)
}

fn numeric(value: &str) -> Option<f64> {
    let value = value.trim_end_matches('%');
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let factor = match value[digits..].to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1_048_576.0,
        "g" => 1_073_741_824.0,
        _ => return None,
    };
    Some(value[..digits].parse::<f64>().ok()? * factor)
}
