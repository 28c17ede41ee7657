//! CPU time by kernel layer.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use fathom_analysis::layers::{LayerTime, LayerTimes};
use fathom_model::watch::StackCount;

/// The default sort column: CPU time.
pub const SORT: usize = 0;

const COLUMNS: &[Column] = &[
    Column { name: "CPU%", width: 5, wide: 5, rank: 0, number: true },
    Column { name: "layer", width: 16, wide: 17, rank: 0, number: false },
    Column { name: "locks%", width: 6, wide: 6, rank: 1, number: true },
    Column { name: "top symbol", width: 20, wide: 40, rank: 2, number: false },
];

/// Width of the table beside another.
pub fn width(screen: u16) -> u16 {
    (screen / 3).clamp(10, 56)
}

/// The table.
pub fn table(view: &View<'_>) -> Table {
    let note = if view.now.stacks.is_some() { "no samples" } else { "stacks are not sampled" };
    let times = times(view, |_| true);
    let rows = times.layers.iter().map(|layer| {
        let cells = vec![
            Cell::fixed(share(layer.time, &times), 1),
            Cell::text(layer.layer.name()),
            Cell::fixed(share(layer.lock_time, &times), 1),
            Cell::text(layer.top.first().map_or("", |(function, _)| function)),
        ];
        Row { key: layer.layer.name().into(), cells, tone: Tone::Plain }
    });
    Table { note: note.into(), columns: COLUMNS, rows: rows.collect(), ..Table::default() }
}

/// CPU time in the interval by layer.
pub fn times(view: &View<'_>, wanted: impl Fn(&StackCount) -> bool) -> LayerTimes {
    LayerTimes::of(&view.now.stacks, view.stacks, wanted)
}

/// The selected layers, each with its most frequent functions.
pub fn lines(times: &LayerTimes, wanted: impl Fn(&LayerTime) -> bool) -> Vec<(Tone, String)> {
    let mut lines = Vec::new();
    for layer in times.layers.iter().filter(|layer| wanted(layer)) {
        let (busy, locks) = (share(layer.time, times), share(layer.lock_time, times));
        let name = layer.layer.name();
        lines.push((
            Tone::Plain,
            format!("  {name:17} {busy:5.1}%   in lock functions {locks:.1}%"),
        ));
        for (function, samples) in &layer.top {
            let part = *samples as f64 * 100.0 / layer.samples.max(1) as f64;
            lines.push((Tone::Faint, format!("    {part:5.1}%  {function}")));
        }
    }
    lines
}

/// In percent of all CPU time.
fn share(time: u64, times: &LayerTimes) -> f64 {
    time as f64 * 100.0 / times.time().max(1) as f64
}
