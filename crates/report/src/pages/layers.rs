//! CPU time by kernel layer.

use crate::doc::{
    DataColumn, Document, Quantity, Text, count, events, of, percent, share, text, time, whole,
};
use fathom_analysis::layers::{Layer, LayerTime, LayerTimes, Unit};

/// Functions named for a layer, and for samples that belong to none.
const NAMED: usize = 2;
const NAMED_OTHER: usize = 8;

/// The layers with their shares of busy CPU time, the time per I/O where the number of `ios` is known, the part spent
/// on locks, and the functions with most samples. Empty without samples.
#[must_use]
pub fn layers(times: &LayerTimes, ios: Option<u64>) -> Document {
    let mut page = Document::default();
    if times.samples == 0 {
        return page;
    }
    let ios = ios.filter(|ios| *ios > 0);
    let mut columns = vec![DataColumn::text("layer"), DataColumn::number("CPU")];
    columns.extend(ios.map(|_| DataColumn::number("per I/O")));
    columns.extend([DataColumn::number("locks"), DataColumn::text("top functions")]);
    let mut rows: Vec<Vec<Text>> = times.layers.iter().map(|row| cells(times, row, ios)).collect();
    if let Some(ios) = ios {
        let total = per_io(times.unit, times.time(), ios);
        rows.push(vec!["all".into(), percent(100.0).into(), total]);
    }
    page.table(columns, rows);
    let kernel = of(whole(times.kernel_samples), "kernel samples");
    let known = times.classified().map(|known| text!(percent(known * 100.0), " of "));
    page.paragraph(text!(known, kernel, " assigned to a layer"));
    page
}

fn cells(times: &LayerTimes, row: &LayerTime, ios: Option<u64>) -> Vec<Text> {
    let part = |time: u64| -> Quantity { share(time, times.time()) };
    let mut cells = vec![row.layer.name().into(), part(row.time).into()];
    cells.extend(ios.map(|ios| per_io(times.unit, row.time, ios)));
    cells.push((row.lock_time > 0).then(|| part(row.lock_time)).into());
    cells.push(functions(row));
    cells
}

/// CPU time per I/O.
fn per_io(unit: Unit, total: u64, ios: u64) -> Text {
    let each = total as f64 / ios as f64;
    match unit {
        Unit::Nanoseconds => time(each).into(),
        Unit::Cycles => of(count(each), "cycles"),
    }
}

fn functions(row: &LayerTime) -> Text {
    let (shown, counted) = match row.layer {
        Layer::Other => (NAMED_OTHER, true),
        _ => (NAMED, false),
    };
    let name = |(name, n): &(String, u64)| match counted {
        true => crate::doc::named(name, events(*n)),
        false => name.as_str().into(),
    };
    Text::join(row.top.iter().take(shown).map(name), ", ")
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
