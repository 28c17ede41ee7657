//! Figures of [`fathom_analysis::metrics`] as parts of documents.

use crate::doc::{DataColumn, Quantity, QuantityUnit, Text, named, of, text, time};
use fathom_analysis::metrics::{self, FigureGroup, FigureUnit, Interval, METRICS, MetricRow};

/// The shortest time printed, in nanoseconds.
const TIME_MIN: f64 = 1000.0;

pub(crate) fn quantity<F>(metric: &MetricRow<F>, value: f64) -> Quantity {
    in_unit(metric.unit, value)
}

pub(crate) fn in_unit(unit: FigureUnit, value: f64) -> Quantity {
    let of = |unit| Quantity::new(value, unit);
    match unit {
        FigureUnit::Count | FigureUnit::Rate => of(QuantityUnit::Count),
        FigureUnit::Number => of(QuantityUnit::Number),
        FigureUnit::Percent => of(QuantityUnit::Percent),
        FigureUnit::Bytes => of(QuantityUnit::Bytes),
        FigureUnit::BytesPerSecond => of(QuantityUnit::BytesPerSecond),
        FigureUnit::Milliseconds => Quantity::new(value * 1e6, QuantityUnit::Nanoseconds),
    }
}

/// The figure with its name, as in a sentence: `await 1 ms`, `100 IOPS`.
pub(crate) fn phrase<F>(metric: &MetricRow<F>, value: Quantity) -> Text {
    match (metric.unit, metric.group) {
        (FigureUnit::Rate, FigureGroup::Flush) => text!(value, "/s"),
        (FigureUnit::Rate, _)
        | (_, FigureGroup::Process)
        | (FigureUnit::Count, FigureGroup::Ring | FigureGroup::Other(_)) => of(value, metric.title),
        (
            FigureUnit::BytesPerSecond,
            FigureGroup::Read | FigureGroup::Write | FigureGroup::Discard,
        ) => value.into(),
        _ => named(metric.title, value),
    }
}

/// A table's cell; a dash where the figure is not available.
pub(crate) fn cell<F>(metric: &MetricRow<F>, value: Option<f64>) -> Text {
    value.map_or_else(|| "-".into(), |value| quantity(metric, value).into())
}

pub(crate) fn column<F>(metric: &MetricRow<F>) -> DataColumn {
    let (least, most) = match metric.unit {
        FigureUnit::Rate => (5, 6),
        FigureUnit::BytesPerSecond => (6, 6),
        _ => (5, 5),
    };
    let name = metric.label.chars().count() as u16;
    let column = DataColumn::number(metric.label).ranked(metric.rank);
    column.wide(least.max(name), most.max(name))
}

/// The figures of a group that pages show and `wanted` selects, each with its name.
pub(crate) fn group(
    interval: &Interval<'_>,
    group: FigureGroup,
    wanted: impl Fn(f64) -> bool,
) -> Vec<Text> {
    let all = METRICS.iter().filter(|metric| metric.group == group && metric.is_main());
    let value = |metric: &MetricRow| (metric.value)(interval).filter(|value| wanted(*value));
    all.filter_map(|metric| Some(phrase(metric, quantity(metric, value(metric)?)))).collect()
}

/// A figure of the machine with its name; empty where it is not available.
pub(crate) fn machine(interval: &Interval<'_>, id: &str) -> Text {
    let metric = metrics::machine(id);
    metric.and_then(|of| Some(phrase(of, quantity(of, (of.value)(interval)?)))).into()
}

pub(crate) fn number(interval: &Interval<'_>, id: &str) -> Option<Quantity> {
    let metric = metrics::machine(id)?;
    Some(quantity(metric, (metric.value)(interval)?))
}

/// The mean time of `ios` I/Os. The kernel reports their sum in whole milliseconds: 0 means less than one.
pub(crate) fn wait(ms: f64, ios: f64) -> Quantity {
    let most = (1e6 / ios.max(1.0)).max(TIME_MIN);
    match ms * 1e6 {
        ns if ns < TIME_MIN => time(0.0).within(0.0, if ms == 0.0 { most } else { TIME_MIN }),
        ns => time(ns),
    }
}
