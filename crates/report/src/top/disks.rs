//! Block devices, as `iostat -x` shows them.

use super::TopView;
use super::ui::Ui;
use crate::doc::{DataColumn, Text};
use crate::figures::{cell, column};
use crate::render::screen::Listing;
use fathom_analysis::machine::DiskRates;
use fathom_analysis::metrics::{DISK, DiskMetric};
use fathom_model::watch::DiskKind;

const SORT: &str = "util_pct";

fn figures() -> impl Iterator<Item = &'static DiskMetric> {
    DISK.iter().filter(|metric| !metric.label.is_empty())
}

pub fn table(view: &TopView<'_>, ui: &Ui) -> Listing {
    let wanted = |disk: &&DiskRates| {
        (ui.partitions || disk.kind != DiskKind::Partition) && (ui.idle || is_active(disk))
    };
    let shown: Vec<&DiskRates> = view.rates.disks.iter().filter(wanted).collect();
    let note = match view.rates.disks.len() {
        0 => "no block devices".into(),
        n => format!("all {n} block devices are idle (i: show them)"),
    };
    let mut columns = vec![DataColumn::text("DISK").wide(10, 20)];
    columns.extend(figures().map(column));
    columns.push(DataColumn::text("backing").ranked(8).wide(16, 60));
    let row = |disk: &&DiskRates| {
        let figures = figures().map(|metric| cell(metric, (metric.value)(disk)));
        std::iter::once(label(disk)).chain(figures).chain([origin(disk).into()]).collect()
    };
    let keys = shown.iter().map(|disk| disk.name.clone()).collect();
    Listing::new(columns, shown.iter().map(row).collect(), keys, note)
}

pub fn sort() -> usize {
    1 + figures().position(|metric| metric.id == SORT).unwrap_or(0)
}

fn is_active(disk: &DiskRates) -> bool {
    let ios = [disk.read, disk.write, disk.discard, disk.flush].map(|io| io.ios);
    disk.in_flight > 0 || ios.iter().any(|ios| *ios > 0.0)
}

pub fn origin(disk: &DiskRates) -> String {
    let below = disk.below.join("+");
    match (disk.alias.is_empty(), below.is_empty()) {
        (true, _) => below,
        (false, true) => disk.alias.clone(),
        (false, false) => format!("{below} ({})", disk.alias),
    }
}

/// The name, with a mark before those of partitions.
fn label(disk: &DiskRates) -> Text {
    let mark = if disk.kind == DiskKind::Partition { "└" } else { "" };
    format!("{mark}{}", disk.name).into()
}
