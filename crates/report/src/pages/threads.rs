//! What threads were doing.

use super::not_measured;
use crate::doc::{
    DataColumn, Document, Quantity, QuantityUnit, Text, named, number, of, percent, plural, share,
    text, time, whole,
};
use crate::figures::cell;
use crate::threads::Report;
use fathom_analysis::metrics::{THREADS, ThreadMetric};
use fathom_analysis::threads::{Column, SMALL, ThreadGroup, ThreadGroups};
use fathom_model::watch::ThreadState;

/// States with a smaller mean number of threads are omitted.
const STATE_MIN: f64 = 0.005;

/// The groups, the largest first, with the average number of threads in each; in the report of a whole run also the
/// sampling overhead and what could not be measured.
pub fn threads(report: &Report) -> Document {
    let groups = report.groups();
    let mut page = Document::default();
    let shown = if report.all_states { "shown" } else { "active" };
    page.paragraph(Text::join(
        [
            time(report.seconds() * 1e9).into(),
            of(whole(groups.samples), "samples"),
            plural(groups.threads().round() as u64, "thread"),
            named(&format!("mean {shown} threads"), number(groups.active())),
        ],
        ", ",
    ));
    let all = groups.shown();
    let large = all.iter().take_while(|group| group.share >= SMALL).count();
    let (first, rest) = all.split_at(large.min(report.rows));
    let mut rows: Vec<Vec<Text>> = first.iter().map(|group| row(report, group)).collect();
    // Without a short name, only this page shows it.
    let mut columns = figure_columns(|metric| metric.is_main() || metric.label.is_empty());
    columns.push(DataColumn::text("").ranked(1));
    rows.extend(other_groups(rest, columns.len()));
    columns.extend(groups.columns().iter().map(|column| DataColumn::text(column.name())));
    page.table(columns, rows);
    thread_states(&mut page, groups);
    if report.header.is_some() {
        footer(&mut page, report);
    }
    page
}

pub(super) fn figure_columns(wanted: impl Fn(&&ThreadMetric) -> bool) -> Vec<DataColumn> {
    THREADS.iter().filter(wanted).map(|metric| DataColumn::number(metric.title)).collect()
}

pub(super) fn figure_cells(
    group: &ThreadGroup,
    wanted: impl Fn(&&ThreadMetric) -> bool,
) -> Vec<Text> {
    THREADS.iter().filter(wanted).map(|metric| cell(metric, (metric.value)(group))).collect()
}

/// A row for the groups that are not shown, unless their sum rounds to 0. Their name follows `columns` of figures, the
/// first of which is the sum.
pub(super) fn other_groups(rest: &[ThreadGroup], columns: usize) -> Option<Vec<Text>> {
    let mean: f64 = rest.iter().map(|group| group.average).sum();
    let mut row = vec![Text::default(); columns];
    *row.first_mut()? = number(mean).into();
    row.push(plural(rest.len() as u64, "other group"));
    (mean >= 0.005).then_some(row)
}

/// The mean number of threads in each state; sleeping ones, too, by what they wait for.
pub(super) fn thread_states(page: &mut Document, groups: &ThreadGroups) {
    let states = groups.states();
    if states.is_empty() {
        return;
    }
    let part = |(state, mean): (ThreadState, f64)| of(number(mean), state.name());
    let shown = states.into_iter().filter(|(_, mean)| *mean >= STATE_MIN).map(part);
    page.entry("mean threads by state", Text::join(shown, ", "));
}

fn footer(page: &mut Document, report: &Report) {
    let (groups, cost) = (report.groups(), report.cost());
    let each = time(report.us_per_thread_sample() * 1000.0);
    let cpu = percent(report.cost_share() * 100.0);
    let overhead = text!(each, " of CPU time per thread sample, ", cpu, " of one CPU");
    page.entry("sampling overhead", overhead);
    if cost.missed > 0 {
        let all = of(whole(cost.samples + cost.missed), "samples");
        page.entry("late", text!(whole(cost.missed), " of ", all, " were late and skipped"));
    }
    if groups.torn > 0 {
        let torn = share(groups.torn, groups.seen);
        page.entry(
            "inconsistent samples",
            text!(torn, " (the thread ran while it was being sampled)"),
        );
    }
    not_measured(page, report.missing, report.verbose);
}

fn row(report: &Report, group: &ThreadGroup) -> Vec<Text> {
    let mut row = figure_cells(group, |metric| metric.is_main() || metric.label.is_empty());
    row.push(Quantity::new(group.share * 100.0, QuantityUnit::PercentBar).into());
    let columns = report.groups().columns();
    row.extend(group.values.iter().zip(columns).map(|(value, column)| match column {
        _ if value.is_empty() => "-".into(),
        Column::State => named(value, state(value, report.all_states)),
        _ => value.as_str().into(),
    }));
    row
}

fn state(letter: &str, all_states: bool) -> &'static str {
    match letter {
        "R" => "on CPU",
        "Q" => "runnable",
        "D" => "uninterruptible",
        "S" if all_states => "sleeping",
        "S" => "waiting for I/O",
        "I" => "idle",
        "T" => "stopped",
        "t" => "traced",
        "P" => "parked",
        "Z" => "zombie",
        _ => "",
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
