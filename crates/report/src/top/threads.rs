//! Mean number of active threads by name, state, system call and wait channel.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use super::ui::{Grouping, Ui};
use fathom_analysis::threads::{Column as By, DEFAULT, ThreadGroup, ThreadGroups};

/// The default sort column: the mean number of active threads.
pub const SORT: usize = 0;

const COLUMNS: &[Column] = &[
    Column { name: "ACTIVE", width: 6, wide: 6, rank: 0, number: true },
    Column { name: "comm", width: 15, wide: 15, rank: 0, number: false },
    Column { name: "st", width: 2, wide: 2, rank: 1, number: false },
    Column { name: "syscall", width: 12, wide: 20, rank: 2, number: false },
    Column { name: "wchan", width: 12, wide: 40, rank: 3, number: false },
    Column { name: "threads", width: 7, wide: 7, rank: 4, number: true },
];

/// The table.
pub fn table(view: &View<'_>, ui: &Ui) -> Table {
    let Some(groups) = groups(view, ui.grouping) else {
        return Table {
            note: "threads are not sampled".into(),
            columns: COLUMNS,
            ..Table::default()
        };
    };
    let rows = groups.largest_first().iter().map(|group| row(groups.columns(), group)).collect();
    let note = format!("no active threads (of {:.0})", groups.threads());
    Table { note, columns: COLUMNS, rows, ..Table::default() }
}

/// ThreadGroups of threads; `None` where threads are not sampled.
pub fn groups(view: &View<'_>, grouping: Grouping) -> Option<ThreadGroups> {
    let mut groups = ThreadGroups::new(grouped_by(grouping));
    groups.add(view.now.threads.as_ref()?);
    Some(groups)
}

/// The columns of a grouping.
pub fn grouped_by(grouping: Grouping) -> &'static [By] {
    match grouping {
        Grouping::Activity => &DEFAULT,
        Grouping::State => &[By::Comm, By::State],
        Grouping::Name => &[By::Comm],
        Grouping::Thread => &[By::Tid, By::Comm2],
    }
}

/// The key of a group's row.
pub fn key(values: &[String]) -> String {
    values.join("\t")
}

fn row(columns: &[By], group: &ThreadGroup) -> Row {
    let value = |by: By| {
        let place = columns.iter().position(|column| *column == by);
        place.and_then(|place| group.values.get(place)).filter(|value| !value.is_empty())
    };
    let text = |by| Cell::text(value(by).map_or("-", String::as_str));
    let name = match (value(By::Tid), value(By::Comm2)) {
        (Some(tid), Some(comm)) => Cell::text(format!("{tid} {comm}")),
        _ => text(By::Comm),
    };
    let cells = vec![
        Cell::fixed(group.average, 2),
        name,
        text(By::State),
        text(By::Syscall),
        text(By::Wchan),
        Cell::count(group.threads as f64),
    ];
    Row { key: key(&group.values), cells, tone: Tone::Plain }
}
