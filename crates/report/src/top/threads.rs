//! What threads do: how many do the same thing at a time, on average.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use super::ui::{Grouping, Ui};
use fathom_model::watch::ThreadCount;
use std::collections::{BTreeMap, BTreeSet};

/// The column sorted by where none was chosen: the average number of active threads.
pub const SORT: usize = 0;

const COLUMNS: &[Column] = &[
    Column { name: "ACTIVE", width: 6, wide: 6, rank: 0, number: true },
    Column { name: "comm", width: 15, wide: 15, rank: 0, number: false },
    Column { name: "st", width: 2, wide: 2, rank: 1, number: false },
    Column { name: "syscall", width: 12, wide: 20, rank: 2, number: false },
    Column { name: "wchan", width: 12, wide: 40, rank: 3, number: false },
    Column { name: "threads", width: 7, wide: 7, rank: 4, number: true },
];

/// Threads that do the same.
#[derive(Debug, Default)]
pub struct Group<'a> {
    /// One of them.
    pub like: Option<&'a ThreadCount>,
    /// Times that one of them was seen.
    pub count: u64,
    /// Their numbers.
    pub tids: BTreeSet<i32>,
    /// Some were seen while they went on.
    pub torn: bool,
}

/// The table.
pub fn table(view: &View<'_>, ui: &Ui) -> Table {
    let Some(sample) = &view.now.threads else {
        return Table {
            note: "threads are not watched".into(),
            columns: COLUMNS,
            ..Table::default()
        };
    };
    let looks = f64::from(sample.looks.max(1));
    let rows = groups(view, ui.grouping)
        .into_iter()
        .map(|(key, group)| row(key, &group, looks, ui.grouping))
        .collect();
    let seen = sample.seen as f64 / looks;
    let note = format!("none of {seen:.0} threads did anything or waited for I/O");
    Table { note, columns: COLUMNS, rows, ..Table::default() }
}

/// The groups by their keys.
pub fn groups<'a>(view: &View<'a>, grouping: Grouping) -> BTreeMap<String, Group<'a>> {
    let mut groups: BTreeMap<String, Group<'a>> = BTreeMap::new();
    for count in view.now.threads.iter().flat_map(|sample| &sample.active) {
        let group = groups.entry(key(count, grouping)).or_default();
        group.like.get_or_insert(count);
        group.count += u64::from(count.count);
        group.tids.insert(count.tid);
        group.torn |= count.torn;
    }
    groups
}

/// What threads of one group have in common.
pub fn key(count: &ThreadCount, grouping: Grouping) -> String {
    let ThreadCount { comm, state, syscall, wchan, tid, .. } = count;
    match grouping {
        Grouping::Doing => {
            [comm, &state.to_string(), syscall, wchan].map(String::as_str).join("\t")
        }
        Grouping::State => format!("{comm}\t{state}"),
        Grouping::Name => comm.clone(),
        Grouping::Thread => format!("{comm}\t{tid}"),
    }
}

fn row(key: String, group: &Group<'_>, looks: f64, grouping: Grouping) -> Row {
    let of = |want: &[Grouping], text: fn(&ThreadCount) -> String| {
        let text = group.like.filter(|_| want.contains(&grouping)).map(text);
        Cell::text(text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".into()))
    };
    let name = |count: &ThreadCount| match grouping {
        Grouping::Thread => format!("{} {}", count.tid, count.comm),
        _ => count.comm.clone(),
    };
    let cells = vec![
        Cell::fixed(group.count as f64 / looks, 2),
        Cell::text(group.like.map(name).unwrap_or_default()),
        of(&[Grouping::Doing, Grouping::State], |count| count.state.to_string()),
        of(&[Grouping::Doing], |count| count.syscall.clone()),
        of(&[Grouping::Doing], |count| count.wchan.clone()),
        Cell::count(group.tids.len() as f64),
    ];
    Row { key, cells, tone: Tone::Plain }
}
