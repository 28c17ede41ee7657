//! Where processor time goes.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use std::collections::BTreeMap;

/// The column sorted by where none was chosen: the share.
pub const SORT: usize = 0;

const COLUMNS: &[Column] = &[
    Column { name: "CPU%", width: 5, wide: 5, rank: 0 },
    Column { name: "kernel function", width: 20, wide: 40, rank: 0 },
];

/// Columns of the screen that the table takes where it stands beside another.
pub fn width(screen: u16) -> u16 {
    (screen / 3).clamp(10, 50)
}

/// The table.
pub fn table(view: &View<'_>) -> Table {
    let Some(sample) = &view.now.stacks else {
        return Table {
            note: "stacks are not watched".into(),
            columns: COLUMNS,
            ..Table::default()
        };
    };
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for count in &sample.counts {
        let stack = view.stacks.get(count.stack as usize);
        let place = stack.and_then(|stack| stack.kernel.last());
        *places.entry(place.map_or("(program)", String::as_str)).or_default() +=
            u64::from(count.count);
    }
    let all = places.values().sum::<u64>().max(1) as f64;
    let rows = places.into_iter().map(|(place, count)| Row {
        key: place.to_string(),
        cells: vec![Cell::fixed(count as f64 * 100.0 / all, 1), Cell::text(place)],
        tone: Tone::Plain,
    });
    Table { note: "no samples".into(), columns: COLUMNS, rows: rows.collect(), ..Table::default() }
}
