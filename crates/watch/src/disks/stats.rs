//! Lines of /proc/diskstats.

use crate::proc_file::unexpected_line;
use fathom_model::watch::{DiskCounters, IoCounters};
use std::io;
use std::path::Path;

pub(super) fn parse(text: &str, path: &Path) -> io::Result<Vec<DiskCounters>> {
    let unexpected = |text: &str| unexpected_line(path, "11 or more counters after the name", text);
    text.lines().map(|text| line(text).ok_or_else(|| unexpected(text))).collect()
}

/// Major, minor, name; four counters each for reads and writes; in flight, busy, weighted; since
/// Linux 4.18 four for discards, since 5.5 two for flushes.
fn line(line: &str) -> Option<DiskCounters> {
    let mut words = line.split_ascii_whitespace();
    let name = words.nth(2)?;
    let mut n = [0_u64; 17];
    let mut known = 0;
    for (field, word) in n.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        known += 1;
    }
    // Times are 32-bit milliseconds, which wrap after 49 days.
    let io = |at: usize| IoCounters {
        ios: n[at],
        merges: n[at + 1],
        sectors: n[at + 2],
        ticks_ms: n[at + 3] as u32,
    };
    (known >= 11).then(|| DiskCounters {
        name: name.to_string(),
        read: io(0),
        write: io(4),
        in_flight: n[8],
        busy_ms: n[9] as u32,
        weighted_ms: n[10] as u32,
        discard: io(11),
        flush: IoCounters { ios: n[15], ticks_ms: n[16] as u32, ..IoCounters::default() },
        ..DiskCounters::default()
    })
}

pub(super) fn did_any(disk: &DiskCounters) -> bool {
    let ios = [&disk.read, &disk.write, &disk.discard, &disk.flush].map(|io| io.ios);
    disk.in_flight > 0 || ios.iter().any(|ios| *ios > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> DiskCounters {
        parse(text, Path::new("/proc/diskstats")).unwrap().remove(0)
    }

    #[test]
    fn a_line_of_a_current_kernel() {
        let disk = first(" 254       0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
        let io = |ios, merges, sectors, ticks_ms| IoCounters { ios, merges, sectors, ticks_ms };
        assert_eq!((disk.read, disk.write), (io(1, 2, 3, 4), io(5, 6, 7, 8)));
        assert_eq!((disk.discard, disk.flush), (io(12, 13, 14, 15), io(16, 0, 0, 17)));
        assert_eq!((disk.in_flight, disk.busy_ms, disk.weighted_ms), (9, 10, 11));
    }

    #[test]
    fn lines_of_old_kernels() {
        let disk = first("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n");
        assert_eq!((disk.write.ios, disk.weighted_ms, disk.discard.ios), (5, 11, 0));
        let disk = first("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n");
        assert_eq!((disk.discard.ticks_ms, disk.flush.ios), (15, 0));
    }

    #[test]
    fn times_are_kept_modulo_two_to_the_32() {
        let disk = first("8 0 sda 1 2 3 4294967295 5 6 7 8 9 4294967297 11\n");
        assert_eq!((disk.read.ticks_ms, disk.busy_ms), (u32::MAX, 1));
    }

    #[test]
    fn unexpected_lines_are_errors_that_name_the_file() {
        for text in ["8 0 sda 1 2 3\n", "8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n", "8 0\n", "\n"] {
            let error = parse(text, Path::new("/proc/diskstats")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("/proc/diskstats"), "{error}");
        }
    }

    #[test]
    fn idle_devices() {
        assert!(!did_any(&first("7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n")));
        assert!(did_any(&first("7 0 loop0 0 0 0 0 0 0 0 0 1 0 0\n")));
        assert!(did_any(&first("7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 0\n")));
    }
}
