use super::*;
use fathom_model::watch::{
    CgroupSample, CpuSample, DiskCounters, DiskKind, InterruptSample, IoCounters, MemorySample,
    Pressure, PressureSample,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn cpu(cpu: u32, ticks: [u64; 8]) -> CpuSample {
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    CpuSample { cpu, user, nice, system, idle, iowait, irq, softirq, steal, khz: None }
}

fn cpus(cpus: Vec<CpuSample>) -> MachineSample {
    let system = SystemSample { cpus, ..SystemSample::default() };
    MachineSample { system: Some(system), ..MachineSample::default() }
}

fn io(ios: u64, merges: u64, sectors: u64, ticks_ms: u32) -> IoCounters {
    IoCounters { ios, merges, sectors, ticks_ms }
}

fn disk(name: &str, kind: DiskKind, read: IoCounters) -> DiskCounters {
    DiskCounters { name: name.into(), kind, read, ..DiskCounters::default() }
}

fn disks(disks: Vec<DiskCounters>) -> MachineSample {
    MachineSample { disks, ..MachineSample::default() }
}

#[test]
fn shares_of_each_processor_and_of_all() {
    let then = cpus(vec![cpu(0, [10; 8]), cpu(1, [0; 8])]);
    let now =
        cpus(vec![cpu(0, [60, 10, 30, 20, 30, 10, 10, 10]), cpu(1, [0, 0, 0, 0, 0, 0, 0, 100])]);
    let system = rates(&then, &now, SECOND).system.unwrap();
    let shares = system.cpus[0].shares;
    assert_eq!((shares.user, shares.system, shares.idle, shares.iowait), (50.0, 20.0, 10.0, 20.0));
    assert_eq!(shares.busy(), 70.0);
    assert_eq!(system.cpus[1].shares.steal, 100.0);
    assert_eq!((system.cpu.user, system.cpu.steal), (25.0, 50.0));
}

#[test]
fn cpus_that_appeared_or_stood_still_are_left_out() {
    let then = cpus(vec![cpu(0, [5; 8]), cpu(3, [7; 8])]);
    let now = cpus(vec![cpu(0, [6; 8]), cpu(2, [90; 8]), cpu(3, [7; 8])]);
    let system = rates(&then, &now, SECOND).system.unwrap();
    assert_eq!(system.cpus.iter().map(|c| c.cpu).collect::<Vec<_>>(), [0]);
    assert_eq!(system.cpu.idle, 12.5);
    let still = rates(&now, &now, SECOND).system.unwrap();
    assert_eq!((still.cpu, still.cpus.len()), (CpuPercent::default(), 0));
}

#[test]
fn the_thread_that_looks_is_not_in_the_run_queue() {
    let mut now = cpus(vec![]);
    let system = now.system.as_mut().unwrap();
    (system.running, system.blocked, system.context_switches) = (4, 2, 900);
    let mut then = now.clone();
    then.system.as_mut().unwrap().context_switches = 400;
    let system = rates(&then, &now, SECOND / 2).system.unwrap();
    assert_eq!((system.ready, system.blocked, system.context_switches), (3, 2, 1000.0));
}

#[test]
fn iostats_formulas() {
    let mut then = disk("vda", DiskKind::Disk, io(100, 50, 1000, 30));
    let mut now = disk("vda", DiskKind::Disk, io(300, 150, 9000, 830));
    (then.busy_ms, then.weighted_ms, then.flush) = (5, 5, io(0, 0, 0, 0));
    (now.busy_ms, now.weighted_ms, now.flush) = (505, 4005, io(4, 0, 0, 10));
    now.in_flight = 7;
    let vda = rates(&disks(vec![then]), &disks(vec![now]), 2 * SECOND).disks.remove(0);
    assert_eq!((vda.read.ios, vda.read.merges), (100.0, 50.0));
    assert_eq!(vda.read.bytes, 8000.0 * 512.0 / 2.0);
    assert_eq!(vda.read.merged, 100.0 * 100.0 / 300.0);
    assert_eq!((vda.read.wait_ms, vda.read.size), (Some(4.0), Some(20480.0)));
    assert_eq!((vda.flush.ios, vda.flush.wait_ms), (2.0, Some(2.5)));
    assert_eq!((vda.queue, vda.util, vda.in_flight), (2.0, 25.0, 7));
    assert_eq!((vda.write.wait_ms, vda.write.size, vda.write.merged), (None, None, 0.0));
}

#[test]
fn totals_count_nothing_twice() {
    let kinds = [
        ("sda", DiskKind::Disk),
        ("sda1", DiskKind::Partition),
        ("dm-0", DiskKind::Stacked),
        ("zram0", DiskKind::Memory),
        ("sdb", DiskKind::Disk),
    ];
    let look = |n: u64| {
        let mut all: Vec<DiskCounters> =
            kinds.iter().map(|(name, kind)| disk(name, *kind, io(n, 0, 8 * n, 0))).collect();
        all[0].busy_ms = n as u32;
        disks(all)
    };
    let rates = rates(&look(0), &look(1000), SECOND);
    assert_eq!(rates.disks.len(), 5);
    assert_eq!(rates.disks_total.read.ios, 2000.0);
    assert_eq!(rates.disks_total.read.size, Some(4096.0));
    // One of the two was busy all the time.
    assert_eq!(rates.disks_total.util, 50.0);
}

#[test]
fn times_wrap_and_replaced_disks_are_left_out() {
    let then = disks(vec![
        disk("a", DiskKind::Disk, io(1, 0, 0, u32::MAX - 4)),
        disk("b", DiskKind::Disk, io(9, 0, 0, 0)),
    ]);
    let now = disks(vec![
        disk("a", DiskKind::Disk, io(11, 0, 0, 5)),
        disk("b", DiskKind::Disk, io(3, 0, 0, 0)),
        disk("new", DiskKind::Disk, io(3, 0, 0, 0)),
    ]);
    let rates = rates(&then, &now, SECOND);
    let names: Vec<&str> = rates.disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["a", "new"]);
    assert_eq!(rates.disks[0].read.wait_ms, Some(1.0));
    assert_eq!(rates.disks_total.read.ios, 13.0);
}

#[test]
fn without_a_look_before_there_are_no_rates() {
    let now = disks(vec![disk("a", DiskKind::Disk, io(11, 0, 0, 5))]);
    let rates = rates(&MachineSample::default(), &now, SECOND);
    assert_eq!((rates.disks.len(), rates.disks_total), (0, DiskRates::default()));
}

#[test]
fn no_time_gives_no_rates() {
    let then = disks(vec![disk("a", DiskKind::Disk, io(1, 0, 0, 0))]);
    let now = disks(vec![disk("a", DiskKind::Disk, io(11, 0, 8, 5))]);
    let a = rates(&then, &now, 0).disks.remove(0);
    assert_eq!((a.read.ios, a.util, a.queue), (0.0, 0.0, 0.0));
}

fn source(irq: &str, source: &str, counts: &[(u32, u32)]) -> InterruptSample {
    InterruptSample { irq: irq.into(), source: source.into(), counts: counts.to_vec() }
}

#[test]
fn interrupts_by_source_and_processor() {
    let look = |interrupts_by| {
        let system = SystemSample { interrupts_by, ..SystemSample::default() };
        MachineSample { system: Some(system), ..MachineSample::default() }
    };
    let then = look(vec![
        source("24", "nvme0q1", &[(0, u32::MAX)]),
        source("25", "eth0", &[(1, 50)]),
        source("26", "gone", &[(1, 50)]),
        source("27", "old", &[(1, 50)]),
    ]);
    let now = look(vec![
        source("24", "nvme0q1", &[(0, 9), (1, 30)]),
        source("25", "eth0", &[(1, 40)]),
        source("27", "new", &[(1, 50)]),
        source("LOC", "Local timer interrupts", &[(1, 5)]),
    ]);
    let by = rates(&then, &now, SECOND / 2).system.unwrap().interrupts_by;
    let seen: Vec<(&str, f64)> = by.iter().map(|i| (i.source.as_str(), i.total)).collect();
    assert_eq!(seen, [("nvme0q1", 80.0), ("new", 100.0), ("Local timer interrupts", 10.0)]);
    assert_eq!(by[0].cpus, [(0, 20.0), (1, 60.0)]);
}

#[test]
fn memory_sums_to_its_total() {
    let sample = MemorySample {
        total: 1000,
        free: 300,
        buffers: 50,
        cached: 200,
        slab_reclaimable: 100,
        swap_total: 80,
        swap_free: 30,
        ..MemorySample::default()
    };
    let memory = MemoryUse::of(&sample);
    assert_eq!(memory.used + memory.free + memory.buffers + memory.cache, memory.total);
    assert_eq!((memory.used, memory.swap_used), (350, 50));
}

#[test]
fn stalls_and_limits() {
    let look = |us: u64| {
        let cpu = Pressure { some_us: 2 * us, full_us: us };
        let pressure = PressureSample { cpu, ..PressureSample::default() };
        let cgroup = CgroupSample {
            throttled_us: Some(us),
            throttled_periods: Some(us / 100_000),
            memory_used: Some(us),
            memory_limit: Some(1_000_000),
            ..CgroupSample::default()
        };
        let system = SystemSample {
            pressure: Some(pressure),
            cgroup: Some(cgroup),
            ..SystemSample::default()
        };
        MachineSample { system: Some(system), ..MachineSample::default() }
    };
    let system = rates(&look(0), &look(500_000), 2 * SECOND).system.unwrap();
    let pressure = system.pressure.unwrap();
    assert_eq!((pressure.cpu.some, pressure.cpu.full, pressure.irq), (50.0, 25.0, None));
    let cgroup = system.cgroup.unwrap();
    assert_eq!((cgroup.throttled, cgroup.throttled_periods), (Some(25.0), Some(2.5)));
    assert_eq!((cgroup.memory_used, cgroup.memory_hits), (Some(50.0), None));
}

proptest! {
    #[test]
    fn shares_sum_to_a_hundred_whatever_the_counters_do(
        then in prop::array::uniform8(0_u64..1 << 40), now in prop::array::uniform8(0_u64..1 << 40),
    ) {
        let system = rates(&cpus(vec![cpu(0, then)]), &cpus(vec![cpu(0, now)]), SECOND).system.unwrap();
        for CpuRates { shares: s, .. } in &system.cpus {
            let all = [s.user, s.nice, s.system, s.iowait, s.irq, s.softirq, s.steal, s.idle];
            prop_assert!((all.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{s:?}");
            prop_assert!(all.iter().all(|share| (0.0..=100.0).contains(share)), "{s:?}");
        }
    }
}
