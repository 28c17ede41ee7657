//! Entries of single I/Os, as fio writes them without `log_avg_msec`.

use fathom_model::Dir;
use fathom_model::io_entry::{IoEntry, IoEvent};
use fathom_model::plan::{LogKind, Logs};
use std::fmt::Write;

/// Appends the line of `entry` in the log `kind`, if it has one there.
pub fn append_entry(text: &mut String, plan: &Logs, kind: LogKind, entry: &IoEntry) {
    if let Some(value) = value(kind, entry) {
        // As in fio, single I/Os have no maximum.
        let value = (value, (plan.average && plan.maximum).then_some(0));
        append(text, plan, entry, value);
    }
}

/// As fio has it: bandwidth in KB/s from the completion latency, and 1 for IOPS.
fn value(kind: LogKind, entry: &IoEntry) -> Option<u64> {
    match (kind, entry.event) {
        (LogKind::Slat, IoEvent::Submitted { slat_ns }) => Some(slat_ns),
        (LogKind::Clat, IoEvent::Completed { clat_ns, .. }) => Some(clat_ns),
        (LogKind::Lat, IoEvent::Completed { lat_ns, .. }) => Some(lat_ns),
        (LogKind::Bandwidth, IoEvent::Completed { clat_ns, .. }) => {
            Some((u64::from(entry.len) * 1_000_000).checked_div(clat_ns).unwrap_or(0))
        }
        (LogKind::Iops, IoEvent::Completed { .. }) => Some(1),
        _ => None,
    }
}

/// Appends a line with the time, block size, offset and priority of `entry`.
pub(super) fn append(
    text: &mut String,
    plan: &Logs,
    entry: &IoEntry,
    (value, maximum): (u64, Option<u64>),
) {
    let IoEntry { time_ms, dir, len, offset, priority, .. } = *entry;
    // Writing to a string cannot fail.
    let _ = write!(text, "{time_ms}, {value}");
    if let Some(maximum) = maximum {
        let _ = write!(text, ", {maximum}");
    }
    let _ = write!(text, ", {}, {len}", dir as u8);
    if plan.offset {
        let _ = write!(text, ", {offset}");
    }
    let _ = match plan.priority {
        true => writeln!(text, ", 0x{priority:04x}"),
        false => writeln!(text, ", {}", u8::from(priority >> 13 == 1)),
    };
}

/// What averages have in place of a single I/O.
pub(super) fn no_io(time_ms: u64, dir: Dir) -> IoEntry {
    let event = IoEvent::Submitted { slat_ns: 0 };
    IoEntry { time_ms, event, offset: 0, len: 0, priority: 0, dir }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [LogKind; 5] =
        [LogKind::Slat, LogKind::Clat, LogKind::Lat, LogKind::Bandwidth, LogKind::Iops];

    fn lines(plan: &Logs, event: IoEvent) -> Vec<String> {
        let dir = Dir::Write;
        let entry = IoEntry { time_ms: 7, event, offset: 81_920, len: 4096, priority: 0x2003, dir };
        let line = |kind| {
            let mut text = String::new();
            append_entry(&mut text, plan, kind, &entry);
            text
        };
        KINDS.map(line).to_vec()
    }

    #[test]
    fn each_log_has_its_value() {
        let plan = Logs { average: true, ..Logs::default() };
        let submitted = lines(&plan, IoEvent::Submitted { slat_ns: 500 });
        assert_eq!(submitted, ["7, 500, 1, 4096, 1\n", "", "", "", ""]);
        let completed = lines(&plan, IoEvent::Completed { clat_ns: 10_000, lat_ns: 11_000 });
        let expected = ["", "7, 10000, ", "7, 11000, ", "7, 409600, ", "7, 1, "];
        let expected = expected.map(|start| match start {
            "" => String::new(),
            start => format!("{start}1, 4096, 1\n"),
        });
        assert_eq!(completed, expected);
        assert_eq!(
            lines(&plan, IoEvent::Completed { clat_ns: 0, lat_ns: 0 })[3],
            "7, 0, 1, 4096, 1\n"
        );
    }

    #[test]
    fn further_columns_are_those_of_fio() {
        let all =
            Logs { average: true, maximum: true, offset: true, priority: true, ..Logs::default() };
        let submitted = &lines(&all, IoEvent::Submitted { slat_ns: 500 })[0];
        assert_eq!(submitted, "7, 500, 0, 1, 4096, 81920, 0x2003\n");
        let mut text = String::new();
        append(&mut text, &all, &no_io(500, Dir::Read), (3, Some(4)));
        assert_eq!(text, "500, 3, 4, 0, 0, 0, 0x0000\n");
    }
}
