//! Mean number of active threads by name, state, system call and wait channel.

use super::TopView;
use super::ui::{Grouping, Ui};
use crate::doc::{DataColumn, Text};
use crate::figures::{cell, column};
use crate::render::screen::Listing;
use fathom_analysis::metrics::{THREADS, ThreadMetric};
use fathom_analysis::threads::{Column as By, DEFAULT, ThreadGroup, ThreadGroups};

/// The table: the mean number of active threads, what groups have in common, and other figures.
pub fn table(view: &TopView<'_>, ui: &Ui) -> Listing {
    let mut columns: Vec<DataColumn> = figures().map(column).collect();
    let names = [
        DataColumn::text("comm").wide(15, 15),
        DataColumn::text("st").ranked(1).wide(2, 2),
        DataColumn::text("syscall").ranked(2).wide(12, 20),
        DataColumn::text("wchan").ranked(3).wide(12, 40),
    ];
    columns.splice(1..1, names);
    let Some(groups) = groups(view, ui.grouping) else {
        return Listing::new(columns, Vec::new(), Vec::new(), "threads are not sampled".into());
    };
    let all = groups.largest_first();
    let keys = all.iter().map(|group| key(&group.values)).collect();
    let rows = all.iter().map(|group| row(groups.columns(), group)).collect();
    let note = format!("no active threads (of {:.0})", groups.threads());
    Listing::new(columns, rows, keys, note)
}

fn figures() -> impl Iterator<Item = &'static ThreadMetric> {
    THREADS.iter().filter(|metric| !metric.label.is_empty())
}

/// Groups of threads; `None` where threads are not sampled.
pub fn groups(view: &TopView<'_>, grouping: Grouping) -> Option<ThreadGroups> {
    let mut groups = ThreadGroups::new(grouped_by(grouping));
    groups.add(view.now.threads.as_ref()?);
    Some(groups)
}

pub fn grouped_by(grouping: Grouping) -> &'static [By] {
    match grouping {
        Grouping::Activity => &DEFAULT,
        Grouping::State => &[By::Comm, By::State],
        Grouping::Name => &[By::Comm],
        Grouping::Thread => &[By::Tid, By::Comm2],
    }
}

pub fn key(values: &[String]) -> String {
    values.join("\t")
}

fn row(columns: &[By], group: &ThreadGroup) -> Vec<Text> {
    let value = |by: By| {
        let place = columns.iter().position(|column| *column == by);
        place.and_then(|place| group.values.get(place)).filter(|value| !value.is_empty())
    };
    let text = |by| Text::from(value(by).map_or("-", String::as_str));
    let name = match (value(By::Tid), value(By::Comm2)) {
        (Some(tid), Some(comm)) => format!("{tid} {comm}").into(),
        _ => text(By::Comm),
    };
    let mut row: Vec<Text> = figures().map(|metric| cell(metric, (metric.value)(group))).collect();
    row.splice(1..1, [name, text(By::State), text(By::Syscall), text(By::Wchan)]);
    row
}
