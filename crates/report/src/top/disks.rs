//! Block devices, as `iostat -x` shows them.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use super::ui::Ui;
use fathom_analysis::machine::{DiskRates, IoRates};
use fathom_model::watch::DiskKind;

/// The default sort column: `%util`.
pub const SORT: usize = 10;

/// Bytes per MiB.
pub const MIB: f64 = 1_048_576.0;

const COLUMNS: &[Column] = &[
    Column { name: "DISK", width: 10, wide: 20, rank: 0, number: false },
    Column { name: "r/s", width: 5, wide: 6, rank: 1, number: true },
    Column { name: "rMiB/s", width: 6, wide: 6, rank: 1, number: true },
    Column { name: "r_await", width: 7, wide: 7, rank: 2, number: true },
    Column { name: "w/s", width: 5, wide: 6, rank: 1, number: true },
    Column { name: "wMiB/s", width: 6, wide: 6, rank: 1, number: true },
    Column { name: "w_await", width: 7, wide: 7, rank: 2, number: true },
    Column { name: "f/s", width: 5, wide: 6, rank: 2, number: true },
    Column { name: "f_await", width: 7, wide: 7, rank: 2, number: true },
    Column { name: "aqu-sz", width: 6, wide: 6, rank: 2, number: true },
    Column { name: "%util", width: 5, wide: 5, rank: 1, number: true },
    Column { name: "inflt", width: 5, wide: 5, rank: 3, number: true },
    Column { name: "rareq-KiB", width: 9, wide: 9, rank: 4, number: true },
    Column { name: "wareq-KiB", width: 9, wide: 9, rank: 4, number: true },
    Column { name: "rrqm/s", width: 6, wide: 6, rank: 5, number: true },
    Column { name: "wrqm/s", width: 6, wide: 6, rank: 5, number: true },
    Column { name: "d/s", width: 6, wide: 6, rank: 6, number: true },
    Column { name: "backing", width: 16, wide: 60, rank: 8, number: false },
];

/// The table: whole devices, and partitions on request.
pub fn table(view: &View<'_>, ui: &Ui) -> Table {
    let wanted = |disk: &&DiskRates| {
        (ui.partitions || disk.kind != DiskKind::Partition) && (ui.idle || is_active(disk))
    };
    let rows: Vec<Row> = view.rates.disks.iter().filter(wanted).map(row).collect();
    let note = match view.rates.disks.len() {
        0 => "no block devices".into(),
        n => format!("all {n} block devices are idle (i: show them)"),
    };
    Table { note, columns: COLUMNS, rows, ..Table::default() }
}

/// Whether it did I/O or has some in flight.
pub fn is_active(disk: &DiskRates) -> bool {
    let ios = [disk.read, disk.write, disk.discard, disk.flush].map(|io| io.ios);
    disk.in_flight > 0 || ios.iter().any(|ios| *ios > 0.0)
}

fn row(disk: &DiskRates) -> Row {
    let mebibytes = |io: &IoRates| {
        let value = io.bytes / MIB;
        Cell::fixed(value, decimals(value).min(2))
    };
    let wait = |io: &IoRates| Cell::optional(io.wait_ms, |ms| Cell::fixed(ms, decimals(ms)));
    let size = |io: &IoRates| Cell::optional(io.size, |bytes| Cell::fixed(bytes / 1024.0, 1));
    let cells = vec![
        Cell::text(label(disk)),
        Cell::count(disk.read.ios),
        mebibytes(&disk.read),
        wait(&disk.read),
        Cell::count(disk.write.ios),
        mebibytes(&disk.write),
        wait(&disk.write),
        Cell::count(disk.flush.ios),
        wait(&disk.flush),
        Cell::fixed(disk.queue, decimals(disk.queue)),
        Cell::fixed(disk.util, 1),
        Cell::count(disk.in_flight as f64),
        size(&disk.read),
        size(&disk.write),
        Cell::count(disk.read.merges),
        Cell::count(disk.write.merges),
        Cell::count(disk.discard.ios),
        Cell::text(origin(disk)),
    ];
    let tone = if is_active(disk) { Tone::Plain } else { Tone::Faint };
    Row { key: disk.name.clone(), cells, tone }
}

/// The devices below it, and its device-mapper or md name.
pub fn origin(disk: &DiskRates) -> String {
    let below = disk.below.join("+");
    match (disk.alias.is_empty(), below.is_empty()) {
        (true, _) => below,
        (false, true) => disk.alias.clone(),
        (false, false) => format!("{below} ({})", disk.alias),
    }
}

/// The name, with a mark before those of partitions.
fn label(disk: &DiskRates) -> String {
    let mark = if disk.kind == DiskKind::Partition { "└" } else { "" };
    format!("{mark}{}", disk.name)
}

/// Decimals for three significant digits.
fn decimals(value: f64) -> usize {
    match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    }
}
