//! Growth of the kernel's counters between two readings: the only place where they are differenced.

use fathom_model::PerDir;
use fathom_model::record::DiskRecord;
use fathom_model::watch::{CpuSample, DiskCounters, IoCounters};
use fathom_model::window::CpuTime;
use std::time::Duration;

/// Growth of the counters of a block device between two readings, or of several devices in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskDelta {
    pub read: IoDelta,
    pub write: IoDelta,
    pub discard: IoDelta,
    pub flush: IoDelta,
    /// Time with at least one I/O in flight, in milliseconds.
    pub busy_ms: u64,
    /// Time weighted by I/Os in flight, in milliseconds.
    pub weighted_ms: u64,
}

/// I/Os in one direction between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoDelta {
    pub ios: u64,
    pub merges: u64,
    /// 512-byte sectors.
    pub sectors: u64,
    /// Time of I/Os added up, in milliseconds.
    pub ticks_ms: u64,
}

impl DiskDelta {
    /// The growth from `then` to `now`; `None` where counters restarted, as a count that does not wrap in
    /// practice went back: the device was replaced under its name.
    pub fn between(then: &DiskCounters, now: &DiskCounters) -> Option<Self> {
        Some(Self {
            read: IoDelta::between(&then.read, &now.read)?,
            write: IoDelta::between(&then.write, &now.write)?,
            discard: IoDelta::between(&then.discard, &now.discard)?,
            flush: IoDelta::between(&then.flush, &now.flush)?,
            busy_ms: wrapped(then.busy_ms, now.busy_ms),
            weighted_ms: wrapped(then.weighted_ms, now.weighted_ms),
        })
    }

    pub fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.discard.add(&other.discard);
        self.flush.add(&other.flush);
        self.busy_ms += other.busy_ms;
        self.weighted_ms += other.weighted_ms;
    }
}

impl IoDelta {
    fn between(then: &IoCounters, now: &IoCounters) -> Option<Self> {
        Some(Self {
            ios: now.ios.checked_sub(then.ios)?,
            merges: now.merges.checked_sub(then.merges)?,
            sectors: now.sectors.checked_sub(then.sectors)?,
            ticks_ms: wrapped(then.ticks_ms, now.ticks_ms),
        })
    }

    fn add(&mut self, other: &Self) {
        self.ios += other.ios;
        self.merges += other.merges;
        self.sectors += other.sectors;
        self.ticks_ms += other.ticks_ms;
    }
}

/// The kernel prints times modulo 2^32 milliseconds.
fn wrapped(then: u32, now: u32) -> u64 {
    now.wrapping_sub(then).into()
}

/// The growth of each device that is in both readings, `elapsed` apart, in the order of `later`; 0 for a device
/// whose counters restarted.
pub fn disk_records(
    earlier: &[DiskCounters],
    later: &[DiskCounters],
    elapsed: Duration,
) -> Vec<DiskRecord> {
    let record = |now: &DiskCounters| {
        let then = earlier.iter().find(|then| then.name == now.name)?;
        let DiskDelta { read, write, discard, busy_ms, weighted_ms, .. } =
            DiskDelta::between(then, now).unwrap_or_default();
        let io = PerDir { read, write, trim: discard };
        Some(DiskRecord {
            name: now.name.clone(),
            ios: io.map(|_, io| io.ios),
            merges: io.map(|_, io| io.merges),
            sectors: io.map(|_, io| io.sectors),
            ticks_ms: io.map(|_, io| io.ticks_ms),
            busy_ms,
            weighted_ms,
            elapsed_ms: elapsed.as_millis() as u64,
        })
    };
    later.iter().filter_map(record).collect()
}

/// The ticks that each CPU in both readings spent between them, in the order of `later`. Idle and iowait
/// can run backwards: their growth is then 0.
pub fn cpu_ticks<'a>(
    earlier: &'a [CpuSample],
    later: &'a [CpuSample],
) -> impl Iterator<Item = CpuSample> + 'a {
    later.iter().filter_map(|now| {
        let then = earlier.iter().find(|then| then.cpu == now.cpu)?;
        let ticks = combine(now, then, u64::saturating_sub);
        Some(CpuSample { khz: now.khz, ..ticks })
    })
}

pub fn add_ticks(a: &CpuSample, b: &CpuSample) -> CpuSample {
    combine(a, b, u64::saturating_add)
}

/// How all CPUs of two readings together spent the time between them; a tick lasts `tick_ns` nanoseconds.
pub fn cpu_time(earlier: &[CpuSample], later: &[CpuSample], tick_ns: u64) -> CpuTime {
    let sum =
        cpu_ticks(earlier, later).fold(CpuSample::default(), |sum, ticks| add_ticks(&sum, &ticks));
    let ns = |parts: &[u64]| {
        parts.iter().fold(0_u64, |sum, ticks| sum.saturating_add(ticks.saturating_mul(tick_ns)))
    };
    CpuTime {
        busy_ns: ns(&[sum.user, sum.nice, sum.system, sum.irq, sum.softirq]),
        steal_ns: ns(&[sum.steal]),
        idle_ns: ns(&[sum.idle, sum.iowait]),
        throttled_ns: 0,
    }
}

fn combine(a: &CpuSample, b: &CpuSample, with: fn(u64, u64) -> u64) -> CpuSample {
    CpuSample {
        cpu: a.cpu,
        user: with(a.user, b.user),
        nice: with(a.nice, b.nice),
        system: with(a.system, b.system),
        idle: with(a.idle, b.idle),
        iowait: with(a.iowait, b.iowait),
        irq: with(a.irq, b.irq),
        softirq: with(a.softirq, b.softirq),
        steal: with(a.steal, b.steal),
        khz: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(ios: u64, merges: u64, sectors: u64, ticks_ms: u32) -> IoCounters {
        IoCounters { ios, merges, sectors, ticks_ms }
    }

    fn disk(name: &str, read: IoCounters, busy_ms: u32, weighted_ms: u32) -> DiskCounters {
        DiskCounters { name: name.into(), read, busy_ms, weighted_ms, ..DiskCounters::default() }
    }

    const STEP: Duration = Duration::from_millis(250);

    #[test]
    fn records_are_differences_by_direction() {
        let mut then = disk("vda", io(100, 10, 800, 50), 70, 80);
        let mut now = disk("vda", io(350, 15, 2800, 150), 170, 381);
        (then.write, now.write) = (io(20, 2, 160, 30), io(21, 2, 168, 31));
        (then.discard, now.discard) = (io(5, 1, 40, 3), io(7, 1, 56, 4));
        assert_eq!(
            disk_records(&[then], &[now], STEP),
            [DiskRecord {
                name: "vda".into(),
                ios: PerDir { read: 250, write: 1, trim: 2 },
                merges: PerDir { read: 5, write: 0, trim: 0 },
                sectors: PerDir { read: 2000, write: 8, trim: 16 },
                ticks_ms: PerDir { read: 100, write: 1, trim: 1 },
                busy_ms: 100,
                weighted_ms: 301,
                elapsed_ms: 250,
            }]
        );
    }

    #[test]
    fn times_wrap_at_32_bits() {
        let then = disk("nvme0n1", io(1, 0, 8, u32::MAX - 5), u32::MAX, 7);
        let now = disk("nvme0n1", io(2, 0, 16, 4), 1, 17);
        let growth = DiskDelta::between(&then, &now).unwrap();
        assert_eq!((growth.read.ticks_ms, growth.busy_ms, growth.weighted_ms), (10, 2, 10));
    }

    #[test]
    fn a_device_whose_counters_restarted_did_nothing() {
        let then = disk("vda", io(350, 15, 2800, 150), 170, 381);
        let now = disk("vda", io(1, 0, 8, 1), 1, 1);
        assert_eq!(DiskDelta::between(&then, &now), None);
        let nothing = DiskRecord { name: "vda".into(), elapsed_ms: 250, ..DiskRecord::default() };
        assert_eq!(disk_records(&[then], &[now], STEP), [nothing]);
    }

    #[test]
    fn a_device_in_one_reading_only_is_left_out() {
        let one = [disk("vda", io(1, 0, 8, 1), 1, 1)];
        assert_eq!(disk_records(&one, &[], STEP), []);
        assert_eq!(disk_records(&[], &one, STEP), []);
    }

    #[test]
    fn cpu_time_is_of_cpus_in_both_readings() {
        let cpu = |cpu, scale| CpuSample {
            cpu,
            user: scale,
            nice: 2 * scale,
            system: 3 * scale,
            idle: 4 * scale,
            iowait: 5 * scale,
            irq: 6 * scale,
            softirq: 7 * scale,
            steal: 8 * scale,
            khz: None,
        };
        let tick_ns = 10_000_000;
        // (1 + 2 + 3 + 6 + 7) ticks of 10 ms; CPU 1 came online in between.
        let time = cpu_time(&[cpu(0, 1)], &[cpu(0, 2), cpu(1, 9)], tick_ns);
        assert_eq!(
            time,
            CpuTime {
                busy_ns: 190_000_000,
                steal_ns: 80_000_000,
                idle_ns: 90_000_000,
                throttled_ns: 0
            }
        );
        let backwards = cpu_time(&[cpu(0, 2)], &[cpu(0, 1)], tick_ns);
        assert_eq!(backwards, CpuTime::default());
    }
}
