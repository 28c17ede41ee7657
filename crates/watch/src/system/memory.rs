//! /proc/meminfo, /proc/vmstat and /proc/pressure.

use fathom_model::watch::{MemorySample, PagingSample, Pressure};

/// Parses /proc/meminfo, whose unit is KiB.
pub(crate) fn memory(text: &str) -> MemorySample {
    let mut memory = MemorySample::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let field = match words.next() {
            Some("MemTotal:") => &mut memory.total,
            Some("MemFree:") => &mut memory.free,
            Some("MemAvailable:") => &mut memory.available,
            Some("Buffers:") => &mut memory.buffers,
            Some("Cached:") => &mut memory.cached,
            Some("SReclaimable:") => &mut memory.slab_reclaimable,
            Some("Shmem:") => &mut memory.shared,
            Some("Dirty:") => &mut memory.dirty,
            Some("Writeback:") => &mut memory.writeback,
            Some("SwapTotal:") => &mut memory.swap_total,
            Some("SwapFree:") => &mut memory.swap_free,
            _ => continue,
        };
        *field = number(words.next()).saturating_mul(1024);
    }
    memory
}

pub(crate) fn paging(text: &str) -> PagingSample {
    let mut paging = PagingSample::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let field = match name {
            "pgpgin" => &mut paging.in_kib,
            "pgpgout" => &mut paging.out_kib,
            "pswpin" => &mut paging.swap_in,
            "pswpout" => &mut paging.swap_out,
            "pgfault" => &mut paging.faults,
            "pgmajfault" => &mut paging.major_faults,
            "pgscan_kswapd" => &mut paging.scan_kswapd,
            "pgscan_direct" => &mut paging.scan_direct,
            "pgsteal_kswapd" => &mut paging.steal_kswapd,
            "pgsteal_direct" => &mut paging.steal_direct,
            "pgscan_file" => &mut paging.scan_file,
            "pgsteal_file" => &mut paging.steal_file,
            // Before Linux 5.9, files and anonymous memory share a counter.
            "workingset_refault_file" | "workingset_refault" => &mut paging.refault_file,
            "nr_dirtied" => &mut paging.dirtied,
            "nr_written" => &mut paging.written,
            "oom_kill" => &mut paging.oom_kills,
            // One per zone.
            _ if name.starts_with("allocstall") => &mut paging.direct_stalls,
            _ => continue,
        };
        *field = field.saturating_add(number(Some(value)));
    }
    paging
}

pub(crate) fn pressure(text: &str) -> Pressure {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind));
        number(line.and_then(|line| line.split_once("total=")).map(|(_, total)| total))
    };
    Pressure { some_us: total("some "), full_us: total("full ") }
}

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.trim_ascii().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_bytes() {
        let text = "MemTotal:       24684096 kB\nMemFree:         7819352 kB\nCached: 10 kB\n\
            SwapCached: 5 kB\nDirty: x kB\nHugePages_Total:       4\nBuffers:\n";
        let memory = memory(text);
        assert_eq!((memory.total, memory.free), (24_684_096 << 10, 7_819_352 << 10));
        assert_eq!((memory.cached, memory.dirty, memory.buffers), (10 << 10, 0, 0));
    }

    #[test]
    fn paging_of_new_and_old_kernels() {
        let text = "pgpgin 7\npgscan_kswapd 1\npgscan_direct 2\npgscan_direct_throttle 9\n\
            allocstall_normal 3\nallocstall_movable 4\nworkingset_refault_anon 9\n\
            workingset_refault_file 6\npgscan_file 8\noom_kill 1\n";
        let new = paging(text);
        assert_eq!((new.in_kib, new.scan_kswapd, new.scan_direct, new.scan_file), (7, 1, 2, 8));
        assert_eq!((new.direct_stalls, new.refault_file, new.oom_kills), (7, 6, 1));
        let old = paging("allocstall 5\nworkingset_refault 2\n");
        assert_eq!((old.direct_stalls, old.refault_file), (5, 2));
    }

    #[test]
    fn pressure_totals() {
        let text = "some avg10=0.22 avg60=1.39 avg300=1.68 total=6451318155\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n";
        assert_eq!(pressure(text), Pressure { some_us: 6_451_318_155, full_us: 12 });
        assert_eq!(pressure("full avg10=0.00 total=12\n"), Pressure { some_us: 0, full_us: 12 });
        assert_eq!(pressure(""), Pressure::default());
    }

    #[test]
    fn the_running_kernel() {
        let read = |name: &str| std::fs::read_to_string(name).unwrap();
        let memory = memory(&read("/proc/meminfo"));
        assert!(memory.total > memory.free && memory.available > 0, "{memory:?}");
        assert!(paging(&read("/proc/vmstat")).faults > 0);
    }
}
