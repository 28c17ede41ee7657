//! CPU time by kernel layer.

use super::TopView;
use crate::doc::{DataColumn, DataTable, Text, share};
use crate::figures::{cell, column};
use crate::render::screen::Listing;
use fathom_analysis::layers::{LayerTime, LayerTimes};
use fathom_analysis::metrics::LAYER;
use fathom_model::watch::StackCount;

pub fn width(screen: u16) -> u16 {
    (screen / 3).clamp(10, 56)
}

pub fn table(view: &TopView<'_>) -> Listing {
    let note = if view.now.stacks.is_some() { "no samples" } else { "stacks are not sampled" };
    let times = times(view, |_| true);
    let mut columns: Vec<DataColumn> = LAYER.iter().map(column).collect();
    columns.insert(1, DataColumn::text("layer").wide(16, 17));
    columns.push(DataColumn::text("top symbol").ranked(2).wide(20, 40));
    let row = |layer: &LayerTime| {
        let figures = LAYER.iter().map(|metric| cell(metric, (metric.value)(&times, layer)));
        let mut row: Vec<Text> = figures.collect();
        row.insert(1, layer.layer.name().into());
        row.push(layer.top.first().map(|(function, _)| function.as_str()).into());
        row
    };
    let keys = times.layers.iter().map(|layer| layer.layer.name().into()).collect();
    Listing::new(columns, times.layers.iter().map(row).collect(), keys, note.into())
}

pub fn times(view: &TopView<'_>, wanted: impl Fn(&StackCount) -> bool) -> LayerTimes {
    LayerTimes::of(&view.now.stacks, view.stacks, wanted)
}

/// The selected layers, each with its most frequent functions and their shares of its samples.
pub fn functions(times: &LayerTimes, wanted: impl Fn(&LayerTime) -> bool) -> DataTable {
    let mut columns: Vec<DataColumn> = vec![DataColumn::text("layer")];
    columns.extend(LAYER.iter().map(|metric| DataColumn::number(metric.title)));
    columns.push(DataColumn::text("function"));
    columns.push(DataColumn::number("share"));
    let mut rows = Vec::new();
    for layer in times.layers.iter().filter(|layer| wanted(layer)) {
        let mut row: Vec<Text> = vec![layer.layer.name().into()];
        row.extend(LAYER.iter().map(|metric| cell(metric, (metric.value)(times, layer))));
        let function = |(name, n): &(String, u64)| -> [Text; 2] {
            [name.as_str().into(), share(*n, layer.samples).into()]
        };
        let mut functions = layer.top.iter().map(function);
        row.extend(functions.next().into_iter().flatten());
        rows.push(row);
        rows.extend(functions.map(|cells| {
            vec![Text::default(); 1 + LAYER.len()].into_iter().chain(cells).collect()
        }));
    }
    DataTable { columns, rows, ..DataTable::default() }
}
