use super::*;
use crate::topology::analyze;
use crate::watch::Observed;
use fathom_model::facts::{DeviceFacts, Host, TargetFacts};
use fathom_model::limit::{
    BlockLimit, BlockSpec, Config, LimitRecord, LimitReport, OwnCeiling, QueueFacts, TargetLimit,
};
use fathom_model::plan::{Distribution, Engine, JobPlan, Mix, Order, Plan, Rate, Region};
use fathom_model::progress::Sample;
use fathom_model::record::{
    Cost, DeviceLimit, DiskRecord, DriveHeat, Header, JobRecord, RunRecord,
};
use fathom_model::topology::{
    Hop, HopKind, Link, LinkMode, LinkStandard, Topology, Volume, VolumeKind,
};
use fathom_model::watch::{
    CgroupSample, CpuSample, DiskCounters, IoCounters, MachineSample, ProcessUse, ProcessesSample,
    Stack, StackCount, StacksSample, SystemSample,
};
use fathom_model::window::{Estimate, Point};
use fathom_model::{Dir, Facts, PerDir};

const SECOND: u64 = 1_000_000_000;

/// A job of 10 s that did `iops` reads of `bytes` with `cpu_ns` of CPU time each and `depth` in flight at `latency_ns`.
fn job(
    iops: u64,
    bytes: u64,
    cpu_ns: f64,
    (depth, latency_ns): (u32, u64),
) -> (JobPlan, JobRecord) {
    let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let plan = JobPlan::new("a", Engine::Null, Mix::Only(Dir::Read), order);
    let mut job = JobRecord { runtime_ns: 10 * SECOND, ..JobRecord::default() };
    let ios = iops * 10;
    job.dirs.read.counts.ios = ios;
    job.dirs.read.counts.bytes = ios * bytes;
    job.dirs.read.clat.record_n(latency_ns, ios);
    let cpu = (ios as f64 * cpu_ns) as u64;
    (job.usage.user_ns, job.usage.system_ns) = (cpu / 4, cpu - cpu / 4);
    (JobPlan { depth, ..plan }, job)
}

fn run(jobs: Vec<(JobPlan, JobRecord)>) -> RunRecord {
    let (plans, jobs) = jobs.into_iter().unzip();
    let host = Host { cpus_allowed: (0..16).collect(), ..Host::default() };
    let facts = Facts { host, ..Facts::default() };
    RunRecord {
        header: Header { facts, outcome: fathom_model::Outcome::Finished, ..Header::default() },
        plan: Plan { jobs: plans, ..Plan::default() },
        jobs,
        ..RunRecord::default()
    }
}

/// The same on nvme0n1, to which all reads go, with `in_flight` there.
fn on_disk(mut record: RunRecord, in_flight: u64) -> RunRecord {
    let device = DeviceFacts {
        name: "nvme0n1".into(),
        nr_requests: Some(1023),
        hardware_queues: Some(4),
        ..DeviceFacts::default()
    };
    let target = TargetFacts { device: Some(device), ..TargetFacts::default() };
    record.header.facts.targets = vec![target];
    let read: u64 = record.jobs.iter().map(|job| job.dirs.read.counts.bytes).sum();
    let ios: u64 = record.jobs.iter().map(|job| job.dirs.read.counts.ios).sum();
    let only_read = |read| PerDir { read, write: 0, trim: 0 };
    record.disks = vec![DiskRecord {
        name: "nvme0n1".into(),
        ios: only_read(ios),
        sectors: only_read(read / 512),
        elapsed_ms: 10_000,
        weighted_ms: in_flight * 10_000,
        ..DiskRecord::default()
    }];
    record
}

/// nvme0n1 on a PCIe link of 16 GT/s ×4 below a root port, its payload known.
fn topology() -> Topology {
    let mode = LinkMode { speed_mts: 16_000, lanes: 4 };
    let link = Some(Link { standard: LinkStandard::Pcie, current: mode, best: mode });
    let payload_max_bytes = Some(512);
    let hop = |name: &str, kind| Hop { name: name.into(), kind, ..Hop::default() };
    let disk = Hop {
        link,
        payload_max_bytes,
        disks: vec!["nvme0n1".into()],
        ..hop("0000:41:00.0", HopKind::Function)
    };
    let children = vec![disk];
    let port = Hop { link, payload_max_bytes, children, ..hop("0000:40:01.1", HopKind::RootPort) };
    let complex = Hop { children: vec![port], ..hop("pci0000:40", HopKind::RootComplex) };
    let volume = |name: &str, kind, members: &[&str]| Volume {
        name: name.into(),
        kind,
        members: members.iter().map(ToString::to_string).collect(),
        ..Volume::default()
    };
    let volumes = vec![
        volume("nvme0n1", VolumeKind::Disk, &[]),
        volume("nvme1n1", VolumeKind::Disk, &[]),
        volume("nvme0n1p1", VolumeKind::Partition, &["nvme0n1"]),
        volume("md0", VolumeKind::Raid, &["nvme0n1", "nvme1n1"]),
    ];
    Topology { roots: vec![complex], volumes, ..Topology::default() }
}

/// Samples with these limits of a cgroup.
fn limited(cpu_limit: Option<f64>, io_limits: &[&str]) -> Observed {
    let io_limits = io_limits.iter().map(ToString::to_string).collect();
    let cgroup = CgroupSample { cpu_limit, io_limits, ..CgroupSample::default() };
    let system = SystemSample { cgroup: Some(cgroup), ..SystemSample::default() };
    let machine = MachineSample { system: Some(system), ..MachineSample::default() };
    let mut observed = Observed::default();
    observed.add(&Sample { machine, ..Sample::default() });
    observed
}

fn of(all: &[Ceiling], kind: CeilingKind) -> Option<(f64, f64)> {
    let mut found = all.iter().filter(|ceiling| ceiling.kind == kind);
    let first = found.next().map(|ceiling| (ceiling.most.round(), ceiling.used.round()));
    assert_eq!(found.next(), None);
    first
}

fn kinds(all: &[Ceiling]) -> Vec<CeilingKind> {
    all.iter().map(|ceiling| ceiling.kind).collect()
}

#[test]
fn published_figures_follow_from_clock_cycles_and_latencies() {
    // 450k IOPS per core: 8,666 cycles per I/O at 3.9 GHz.
    let one = run(vec![job(400_000, 4096, 8_666.0 / 3.9, (128, 320_000))]);
    let all = of_run(&one, None);
    let (most, used) = of(&all, CeilingKind::Core).unwrap();
    assert!((most / 450_000.0 - 1.0).abs() < 1e-3 && used == 400_000.0, "{most}");
    // 11M IOPS with 16 cores busy.
    let each = 16.0 / 11e6 * 1e9;
    let mut sixteen = run(vec![job(1_100_000, 4096, each / 1.6, (128, 100_000)); 10]);
    // Ten of them do the I/O, kernel threads use the others.
    sixteen.jobs.iter_mut().for_each(|job| job.usage.helper_ns = 6 * SECOND);
    let (most, used) = of(&of_run(&sixteen, None), CeilingKind::Cpus).unwrap();
    assert!((most / 11e6 - 1.0).abs() < 1e-3 && used == 11e6, "{most}");
    // 2.58M, 2.06M and 290k IOPS at queue depths of 128, 16 and 1.
    for (depth, latency_ns, iops) in [(128, 49_612, 2.58e6), (16, 7_767, 2.06e6), (1, 3_448, 290e3)]
    {
        let mut polled = run(vec![job(200_000, 512, 380.0, (depth, latency_ns))]);
        // Without a rate, the depth would be in use whatever limits the job.
        assert_eq!(of(&of_run(&polled, None), CeilingKind::QueueDepth), None);
        polled.plan.jobs[0].rate.read = Some(Rate::Iops(200_000));
        let (most, _) = of(&of_run(&polled, None), CeilingKind::QueueDepth).unwrap();
        assert!((most / iops - 1.0).abs() < 1e-2, "{depth}: {most}");
    }
}

#[test]
fn without_cpu_times_latencies_and_facts_there_is_no_ceiling() {
    let mut record = run(vec![job(1000, 4096, 0.0, (1, 1000))]);
    record.plan.jobs[0].rate.read = Some(Rate::Iops(1000));
    assert_eq!(kinds(&of_run(&record, None)), [CeilingKind::Rate, CeilingKind::QueueDepth]);
    record.plan.jobs[0].rate.read = None;
    record.jobs[0].dirs.read.clat = fathom_model::Histogram::default();
    assert_eq!(of_run(&record, None), []);
    // Nor for a moment, for jobs one after the other, or for a run that failed.
    let mut jobs = run(vec![job(1000, 4096, 1000.0, (1, 1000)); 2]);
    assert_eq!(of_run(&jobs, None).len(), 3);
    let mut brief = jobs.clone();
    brief.jobs[1].runtime_ns = SECOND / 4;
    assert_eq!(of_run(&brief, None), []);
    let failed = fathom_model::Outcome::Failed { because: "x".into() };
    let mut broken = jobs.clone();
    broken.header.outcome = failed;
    assert_eq!(of_run(&broken, None), []);
    jobs.plan.jobs[1].wave = 1;
    assert_eq!(of_run(&jobs, None), []);
    assert_eq!(of_run(&RunRecord::default(), None), []);
}

#[test]
fn cpus_are_those_that_the_workers_may_use() {
    let mut record = run(vec![job(1000, 4096, 10_000.0, (1, 1000)); 2]);
    assert_eq!(of(&of_run(&record, None), CeilingKind::Cpus), Some((1_600_000.0, 2000.0)));
    record.plan.jobs.iter_mut().for_each(|job| job.placement.cpus = vec![3, 4]);
    assert_eq!(of(&of_run(&record, None), CeilingKind::Cpus), Some((200_000.0, 2000.0)));
    record.plan.jobs.iter_mut().for_each(|job| job.placement.cpus = vec![3]);
    assert_eq!(of(&of_run(&record, None), CeilingKind::Cpus), None);
    // The quota is half a CPU.
    let all = of_run(&record, Some(&limited(Some(0.5), &[])));
    assert_eq!(of(&all, CeilingKind::CpuQuota), Some((50_000.0, 2000.0)));
    let third = of_run(&record, Some(&limited(Some(1.0 / 3.0), &[])));
    assert!(third.iter().any(|ceiling| ceiling.part == "CPU quota, 0.33 CPUs"), "{third:?}");
    assert_eq!(of(&of_run(&record, Some(&limited(None, &[]))), CeilingKind::CpuQuota), None);
}

#[test]
fn rates_count_if_all_jobs_request_one() {
    let mut record = run(vec![job(900, 8192, 1000.0, (1, 1000)); 2]);
    record.plan.jobs[0].rate.read = Some(Rate::Iops(1000));
    assert_eq!(of(&of_run(&record, None), CeilingKind::Rate), None);
    record.plan.jobs[1].rate.read = Some(Rate::BytesPerSecond(8_192_000));
    assert_eq!(of(&of_run(&record, None), CeilingKind::Rate), Some((2000.0, 1800.0)));
}

#[test]
fn requests_of_a_device_by_its_time_per_request() {
    let record = on_disk(run(vec![job(100_000, 4096, 1000.0, (64, 640_000))]), 62);
    // 4092 requests, of which 62 do 100k IOPS.
    assert_eq!(of(&of_run(&record, None), CeilingKind::Requests), Some((6_600_000.0, 100_000.0)));
    let with = |change: fn(&mut DeviceFacts)| {
        let mut record = record.clone();
        record.header.facts.targets[0].device.iter_mut().for_each(change);
        of(&of_run(&record, None), CeilingKind::Requests)
    };
    assert_eq!(with(|device| device.queue_depth = Some(124)), Some((200_000.0, 100_000.0)));
    assert_eq!(with(|device| device.nr_requests = None), None);
    assert_eq!(with(|device| device.hardware_queues = None), None);
    assert_eq!(with(|device| device.name = "vda".into()), None);
}

#[test]
fn a_device_sustains_what_a_search_found() {
    let mut record = on_disk(run(vec![job(100_000, 4096, 1000.0, (64, 640_000))]), 62);
    let limit = |device: &str| DeviceLimit {
        device: device.into(),
        bytes_per_second: 125_000.0 * 4096.0,
        run_name: "20261102-120000-1".into(),
    };
    record.device_limits = vec![limit("nvme0n1"), limit("nvme1n1")];
    assert_eq!(of(&of_run(&record, None), CeilingKind::Device), Some((125_000.0, 100_000.0)));
    record.device_limits.remove(0);
    assert_eq!(of(&of_run(&record, None), CeilingKind::Device), None);
}

#[test]
fn memory_carries_what_devices_transfer_and_what_is_copied() {
    // 1 GB/s of direct reads, where CPUs copy 5 GB/s: a tenth of what memory reads and writes.
    let mut record = on_disk(run(vec![job(1000, 1_000_000, 1000.0, (1, 1000))]), 1);
    record.plan.jobs[0].direct = true;
    let region = Region { target: 0, start: 0, len: 1 << 30 };
    record.plan.jobs[0].regions = vec![region];
    assert_eq!(of(&of_run(&record, None), CeilingKind::Memory), None);
    record.header.facts.host.memory_copy_bytes_per_second = Some(5e9);
    let most = |record: &RunRecord| of(&of_run(record, None), CeilingKind::Memory).unwrap().0 / 1e9;
    assert!((most(&record) - 10.0).abs() < 0.01, "{}", most(&record));
    // From the page cache, each byte is copied; those that come from the disk go there first.
    record.plan.jobs[0].direct = false;
    assert!((most(&record) - 10.0 / 3.0).abs() < 0.01, "{}", most(&record));
    record.disks.clear();
    assert!((most(&record) - 5.0).abs() < 0.01, "{}", most(&record));
}

#[test]
fn interrupts_are_those_of_the_cpu_that_has_most() {
    let record = run(vec![job(100_000, 4096, 1000.0, (64, 640_000))]);
    let mut observed = Observed::default();
    for second in [0, 1] {
        let cpu = |cpu, softirq, idle| CpuSample {
            cpu,
            softirq: softirq * second,
            idle: idle * second,
            ..CpuSample::default()
        };
        let cpus = vec![cpu(0, 10, 90), cpu(1, 50, 50)];
        let system = SystemSample { cpus, ..SystemSample::default() };
        let machine = MachineSample { system: Some(system), ..MachineSample::default() };
        observed.add(&Sample { elapsed_ns: second * SECOND, machine, ..Sample::default() });
    }
    let all = of_run(&record, Some(&observed));
    assert_eq!(of(&all, CeilingKind::InterruptCpu), Some((200_000.0, 100_000.0)));
    assert!(all.iter().any(|one| one.part == "interrupts on CPU 1"), "{all:?}");
}

#[test]
fn a_core_has_its_clock_and_cycles_where_they_are_counted() {
    let mut record = run(vec![job(400_000, 4096, 8_666.0 / 3.9, (128, 320_000))]);
    let source = |record: &RunRecord| of_run(record, None)[0].source.clone();
    assert_eq!(source(&record), "CPU time per I/O, 2.22 µs");
    let cost = Cost { user_cycles: 666.0, kernel_cycles: Some(8_000.0), ios: 1, ..Cost::default() };
    record.jobs[0].cost = Some(cost);
    assert_eq!(source(&record), "CPU time per I/O, 2.22 µs: 8666 cycles at 3.9 GHz");
    record.jobs[0].cost = Some(Cost { kernel_cycles: None, ..cost });
    assert_eq!(source(&record), "CPU time per I/O, 2.22 µs");
}

#[test]
fn limits_of_a_cgroup_are_those_on_the_device() {
    let record = on_disk(run(vec![job(990, 4096, 1000.0, (1, 1000))]), 1);
    let with =
        |limit: &str| of(&of_run(&record, Some(&limited(None, &[limit]))), CeilingKind::CgroupIo);
    assert_eq!(with("/db nvme0n1 riops=1000"), Some((1000.0, 990.0)));
    assert_eq!(with("/db nvme0n1 rbps=8110080"), Some((1980.0, 990.0)));
    // Nothing is written, and another device is not used.
    assert_eq!(with("/db nvme0n1 wiops=1000"), None);
    assert_eq!(with("/db nvme1n1 riops=1000"), None);
}

#[test]
fn links_carry_blocks() {
    let mut record = on_disk(run(vec![job(6_600, 1 << 20, 1000.0, (64, 640_000))]), 62);
    assert_eq!(of(&of_run(&record, None), CeilingKind::Link), None);
    record.header.facts.topology = Some(topology());
    let all = of_run(&record, None);
    let link = all.iter().find(|ceiling| ceiling.kind == CeilingKind::Link).unwrap();
    // 1 MiB at 6.8 GiB/s are published for such a link, whose packets have 512 bytes.
    let carries = analyze(topology()).load("0000:41:00.0").carries_bytes_per_s.unwrap();
    assert!((link.most / carries - 1.0).abs() < 1e-9 && link.unit == CeilingUnit::BytesPerSecond);
    assert!((6.8..7.1).contains(&(carries / f64::from(1 << 30))), "{carries}");
    assert_eq!(link.used.round(), 6_600.0 * 1_048_576.0);
    assert_eq!(link.part, "PCIe link of nvme0n1 (0000:41:00.0), 16 GT/s ×4");
    assert_eq!(link.source, "7.01 GiB/s usable");
    // Root complexes carry what a search found.
    let limit = DeviceLimit {
        device: "pci0000:40".into(),
        bytes_per_second: 2.0 * link.used,
        run_name: "20261102-120000-1".into(),
    };
    record.device_limits = vec![limit];
    let (most, used) = of(&of_run(&record, None), CeilingKind::RootComplex).unwrap();
    assert_eq!((most, used), (2.0 * link.used.round(), link.used.round()));
    // Of a partition, the disk is known; how an array divides its I/Os is not.
    let mut on = |name: &str| {
        record.disks[0].name = name.into();
        of(&of_run(&record, None), CeilingKind::Link).is_some()
    };
    assert_eq!(["nvme0n1p1", "md0", "nvme1n1", "zram0"].map(&mut on), [true, false, false, false]);
}

/// The jobs of process 7 with so many CPU samples in a scheduler, as many waiting for its lock, and twice as many in user mode.
fn sampled(count: u32) -> Observed {
    let stack = |kernel: &[&str]| Stack {
        kernel: kernel.iter().map(ToString::to_string).collect(),
        ..Stack::default()
    };
    let mut observed = Observed::default();
    observed.known_stacks = vec![
        stack(&["dd_insert_requests"]),
        stack(&["dd_insert_requests", "_raw_spin_lock"]),
        stack(&[]),
    ];
    for second in [0, 1] {
        let counted = |(stack, count): (u32, u32)| {
            let period = u64::from(count) * 1000;
            StackCount { pid: 7, stack, count, period, ..StackCount::default() }
        };
        let counts = [(0, count), (1, count), (2, 2 * count)].map(counted).into();
        let watched = ProcessUse { comm: "fathom".into(), pid: 7, ..ProcessUse::default() };
        let machine = MachineSample {
            stacks: Some(StacksSample { counts, ..StacksSample::default() }),
            processes: Some(ProcessesSample { watched, ..ProcessesSample::default() }),
            ..MachineSample::default()
        };
        observed.add(&Sample { elapsed_ns: second * SECOND, machine, ..Sample::default() });
    }
    observed
}

#[test]
fn a_scheduler_with_one_lock_serves_one_cpu_at_a_time() {
    let of_scheduler = |scheduler: &str, count: u32| {
        let mut record = on_disk(run(vec![job(100_000, 4096, 4000.0, (64, 640_000)); 2]), 62);
        let device = record.header.facts.targets[0].device.as_mut().unwrap();
        device.scheduler = Some(scheduler.into());
        of(&of_run(&record, Some(&sampled(count))), CeilingKind::Scheduler)
    };
    // A quarter of 4 µs, without as much for the lock.
    assert_eq!(of_scheduler("mq-deadline", 50), Some((1_000_000.0, 200_000.0)));
    assert_eq!(of_scheduler("bfq", 50), Some((1_000_000.0, 200_000.0)));
    assert_eq!(of_scheduler("bfq", 49), None, "too few samples");
    assert_eq!(of_scheduler("kyber", 50), None, "its queues have locks of their own");
    assert_eq!(of_scheduler("none", 50), None);
}

#[test]
fn a_stacked_device_sustains_what_its_fullest_disk_does() {
    let mut record = on_disk(run(vec![job(100_000, 4096, 1000.0, (64, 640_000))]), 62);
    record.disks[0].name = "md0".into();
    record.header.facts.targets[0].device.as_mut().unwrap().name = "md0".into();
    record.header.facts.topology = Some(topology());
    // 60,000 and 40,000 of the reads.
    let below = |members: &[(&str, u64)]| {
        let mut observed = Observed::default();
        for second in [0, 1] {
            let disk = |name: &str, ios: u64, below: &[&str]| DiskCounters {
                name: name.into(),
                below: below.iter().map(ToString::to_string).collect(),
                read: IoCounters {
                    ios: ios * second,
                    sectors: ios * second * 8,
                    ..Default::default()
                },
                ..DiskCounters::default()
            };
            let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
            let mut disks = vec![disk("md0", 100_000, &names)];
            disks.extend(members.iter().map(|(name, ios)| disk(name, *ios, &[])));
            let machine = MachineSample { disks, ..MachineSample::default() };
            observed.add(&Sample { elapsed_ns: second * SECOND, machine, ..Sample::default() });
        }
        observed
    };
    let two = below(&[("nvme0n1", 60_000), ("nvme1n1", 40_000)]);
    let limit = |device: &str| DeviceLimit {
        device: device.into(),
        bytes_per_second: 80_000.0 * 4096.0,
        run_name: "20261102-120000-1".into(),
    };
    record.device_limits = vec![limit("nvme0n1")];
    assert_eq!(of(&of_run(&record, Some(&two)), CeilingKind::Members), None);
    record.device_limits.push(limit("nvme1n1"));
    let all = of_run(&record, Some(&two));
    // nvme0n1 does 75% of what it can.
    assert_eq!(of(&all, CeilingKind::Members), Some((133_333.0, 100_000.0)));
    assert!(all.iter().any(|one| one.part == "2 disks of md0" && one.basis == Basis::Measured));
    // The link of each disk is known by what that disk did.
    assert_eq!(of(&all, CeilingKind::Link).map(|(_, used)| used), Some(60_000.0));
    let one = below(&[("nvme0n1", 100_000)]);
    assert_eq!(of(&of_run(&record, Some(&one)), CeilingKind::Members), None);
}

#[test]
fn requests_of_split_ios_say_so() {
    let mut record = on_disk(run(vec![job(1000, 1 << 20, 1000.0, (64, 640_000))]), 62);
    let source = |record: &RunRecord| {
        let all = of_run(record, None);
        all.into_iter().find(|one| one.kind == CeilingKind::Requests).unwrap().source
    };
    assert!(!source(&record).contains("per I/O"));
    record.disks[0].ios.read *= 2;
    assert!(source(&record).ends_with("62.0 in use, 2.0 requests per I/O"), "{}", source(&record));
}

#[test]
fn fathom_itself_is_what_the_fullest_worker_spends_in_user_mode() {
    // A quarter of 1 µs, and of 2 µs.
    let record =
        run(vec![job(100_000, 4096, 1000.0, (1, 1000)), job(200_000, 4096, 2000.0, (1, 1000))]);
    let all = of_run(&record, None);
    assert_eq!(of(&all, CeilingKind::LoadGenerator), Some((3_000_000.0, 300_000.0)));
    assert!(all.iter().any(|one| one.source == "CPU time per I/O in user mode, 500 ns"), "{all:?}");
}

#[test]
fn tags_of_a_driver_are_in_use_below_its_scheduler() {
    use fathom_model::watch::{BlocksSample, DeviceBlocks};
    let tags = |scheduler: &str, tags: u32, seen: Option<&Observed>| {
        let mut record = on_disk(run(vec![job(100_000, 4096, 1000.0, (64, 640_000))]), 62);
        let device = record.header.facts.targets[0].device.as_mut().unwrap();
        (device.scheduler, device.driver_tags) = (Some(scheduler.into()), Some(tags));
        let all = of_run(&record, seen);
        (of(&all, CeilingKind::Requests), of(&all, CeilingKind::Tags))
    };
    let of_62 = |requests: f64| Some((100_000.0 * requests * 4.0 / 62.0, 100_000.0));
    let rounded = |found: Option<(f64, f64)>| found.map(|(most, used)| (most.round(), used));
    // The same requests, of which the fewer are shown.
    assert_eq!(tags("none", 1023, None), (None, rounded(of_62(1023.0))));
    assert_eq!(tags("none", 2046, None), (rounded(of_62(1023.0)), None));
    assert_eq!(tags("mq-deadline", 62, None), (rounded(of_62(1023.0)), None));
    // 100k requests per second, 310 µs each.
    let sampled = |count: u64| {
        let mut device = DeviceBlocks { name: "nvme0n1".into(), ..DeviceBlocks::default() };
        device.driver.record_n(310_000, count);
        let blocks = BlocksSample { devices: vec![device], ..BlocksSample::default() };
        let machine = MachineSample { blocks: Some(blocks), ..MachineSample::default() };
        let mut observed = Observed::default();
        observed.add(&Sample { machine, ..Sample::default() });
        observed
    };
    let (_, found) = tags("mq-deadline", 62, Some(&sampled(200)));
    let (most, _) = found.unwrap();
    assert!((most / 800_000.0 - 1.0).abs() < 0.02, "{most}");
    assert_eq!(tags("mq-deadline", 62, Some(&sampled(199))).1, None);
}

#[test]
fn the_page_cache_takes_time_of_buffered_jobs() {
    let mut record = run(vec![job(100_000, 4096, 4000.0, (1, 10_000)); 2]);
    let found = |record: &RunRecord, count: u32| {
        let mut seen = sampled(count);
        seen.known_stacks[0].kernel = vec!["filemap_read".into()];
        seen.known_stacks[1].kernel = vec!["shrink_folio_list".into()];
        let all = of_run(record, Some(&seen));
        all.into_iter().find(|one| one.kind == CeilingKind::PageCache)
    };
    // A job without files has no use of it.
    assert_eq!(found(&record, 50), None);
    let region = Region { target: 0, start: 0, len: 1 << 30 };
    record.plan.jobs.iter_mut().for_each(|job| job.regions = vec![region]);
    let one = found(&record, 50).unwrap();
    // Half of 4 µs, on two CPUs.
    assert_eq!((one.most.round(), one.used.round()), (1_000_000.0, 200_000.0));
    assert_eq!(one.source, "CPU time in them per I/O, 2 µs, of which reclaim 1 µs");
    assert_eq!(found(&record, 49), None, "too few samples");
    record.plan.jobs[1].direct = true;
    assert_eq!(found(&record, 50), None);
}

#[test]
fn drives_of_a_known_model_have_a_specification_and_those_with_sensors_a_temperature() {
    let mut record = on_disk(run(vec![job(500_000, 4096, 1000.0, (64, 640_000))]), 62);
    record.plan.jobs[0].direct = true;
    let device = record.header.facts.targets[0].device.as_mut().unwrap();
    device.model = Some("Samsung SSD 980 PRO 2TB".into());
    let all = of_run(&record, None);
    assert_eq!(of(&all, CeilingKind::Specification), Some((1_000_000.0, 500_000.0)));
    let drive = |throttled_seconds| DriveHeat {
        device: "nvme0n1".into(),
        celsius: 63.0,
        warning_celsius: 84.0,
        throttled_seconds,
    };
    let last = |record: &RunRecord| of_run(record, None).pop().unwrap();
    record.header.heat = vec![drive(Some(0))];
    assert_eq!(last(&record).source, "63 °C at the end");
    record.header.heat = vec![drive(Some(12))];
    let heat = last(&record);
    assert_eq!(
        (heat.kind, heat.unit, heat.share()),
        (CeilingKind::Heat, CeilingUnit::Celsius, 0.75)
    );
    assert_eq!(heat.source, "63 °C at the end, throttled itself for 12 s meanwhile");
    // A search takes what the user gives instead.
    let mut search = search();
    let device = search.header.facts.targets[0].device.as_mut().unwrap();
    device.model = Some("Samsung SSD 980 PRO 2TB".into());
    search.config.spec = Some("iops=800k".parse().unwrap());
    let most = |record: &LimitRecord| of(&of_limit(record)[0].ceilings, CeilingKind::Specification);
    assert_eq!(most(&search), Some((800_000.0, 400_000.0)));
    search.config.spec = None;
    assert_eq!(most(&search), Some((1_000_000.0, 400_000.0)));
}

fn search() -> LimitRecord {
    let estimate = |mean| Estimate { mean, ..Estimate::default() };
    let point = |workers, depth, iops| Point {
        workers,
        depth,
        iops: estimate(iops),
        user_ns_per_io: 500.0,
        system_ns_per_io: 1500.0,
        clat_mean_ns: 80_000.0,
        from_disk: Some(1.0),
        device_queue: Some(60.0),
        ..Point::default()
    };
    let block = |block_bytes, iops| BlockLimit {
        block_bytes,
        peak: Some(point(2, 32, iops)),
        latency: Some(point(1, 1, 12_500.0)),
        ..BlockLimit::default()
    };
    let device = DeviceFacts { name: "nvme0n1".into(), ..DeviceFacts::default() };
    let targets = vec![TargetFacts { device: Some(device), ..TargetFacts::default() }];
    let topology = Some(topology());
    LimitRecord {
        header: Header {
            facts: Facts { targets, topology, ..Facts::default() },
            ..Header::default()
        },
        config: Config {
            targets: vec!["/dev/nvme0n1".into()],
            seconds: 15.0,
            cores: 8,
            buffers_bytes_max: 1 << 30,
            blocks: BlockSpec::defaults(),
            target: None,
            suite: Vec::new(),
            queues: vec![QueueFacts {
                device: "nvme0n1".into(),
                nr_requests: Some(1023),
                driver_tags: Some(1023),
                hardware_queues: Some(8),
                ..QueueFacts::default()
            }],
            cpu_limit: None,
            spec: Some("iops=1000k,bw=7000M".parse().unwrap()),
        },
        conditions: Vec::new(),
        competitors: Vec::new(),
        report: LimitReport {
            cores: 8,
            own: OwnCeiling { one_worker: Some(estimate(5e6)), all_cores: Some(estimate(2e7)) },
            targets: vec![TargetLimit {
                name: "/dev/nvme0n1".into(),
                blocks: vec![block(4096, 400_000.0), block(1 << 20, 6_000.0)],
            }],
            ..LimitReport::default()
        },
        costs: Vec::new(),
        costs_missing: None,
        ranks: Vec::new(),
    }
}

#[test]
fn ceilings_at_a_peak() {
    use CeilingKind as K;
    let record = search();
    let peaks = of_limit(&record);
    assert_eq!(
        peaks.iter().map(|peak| (peak.target, peak.block)).collect::<Vec<_>>(),
        [(0, 0), (0, 1)]
    );
    let small = &peaks[0].ceilings;
    let tightest_first =
        [K::QueueDepth, K::Core, K::Specification, K::Link, K::Cpus, K::LoadGenerator, K::Requests];
    assert_eq!(kinds(small), tightest_first);
    let at = |kind| of(small, kind).unwrap();
    // 64 I/Os at 80 µs; 2 µs of CPU time; 2 workers; 8 × 1023 requests, of which 60 are in use.
    assert_eq!(at(K::QueueDepth), (800_000.0, 400_000.0));
    assert_eq!(at(K::Core), (500_000.0, 200_000.0));
    assert_eq!(at(K::Specification), (1_000_000.0, 400_000.0));
    assert_eq!(at(K::Cpus), (4_000_000.0, 400_000.0));
    assert_eq!(at(K::LoadGenerator), (20_000_000.0, 400_000.0));
    assert_eq!(at(K::Requests), (54_560_000.0, 400_000.0));
    let carries = analyze(topology()).load("0000:41:00.0").carries_bytes_per_s.unwrap();
    assert_eq!(at(K::Link), ((carries / 4096.0).round(), 400_000.0));
    // QD1 was measured at a bad moment.
    let mut noisy = record.clone();
    let block = &mut noisy.report.targets[0].blocks[0];
    block.latency.as_mut().unwrap().clat_mean_ns = 900_000.0;
    block.peak.as_mut().unwrap().clat_mean_ns = 160_000.0;
    let all = &of_limit(&noisy)[0].ceilings;
    assert_eq!(of(all, K::QueueDepth), Some((400_000.0, 400_000.0)));
    // Large blocks in bytes per second.
    let large = &peaks[1].ceilings;
    assert_eq!(of(large, K::Specification), Some((7e9, 6000.0 * 1_048_576.0)));
    assert!(large.iter().all(|ceiling| ceiling.unit == CeilingUnit::BytesPerSecond));
}

#[test]
fn what_a_search_does_not_know_has_no_ceiling() {
    use CeilingKind as K;
    let mut record = search();
    (record.config.spec, record.report.own) = (None, OwnCeiling::default());
    let block = &mut record.report.targets[0].blocks[0];
    block.latency = None;
    let peak = block.peak.as_mut().unwrap();
    // Read from a cache, or not known from where.
    peak.from_disk = None;
    assert_eq!(kinds(&of_limit(&record)[0].ceilings), [K::Core, K::Cpus]);
    let peak = record.report.targets[0].blocks[0].peak.as_mut().unwrap();
    (peak.from_disk, peak.device_queue, peak.driver_queue) = (Some(1.0), None, Some(30.0));
    (record.header.facts.topology, record.config.cpu_limit) = (None, Some(1.5));
    record.config.queues[0].io_limits = vec!["/db nvme0n1 riops=500000".into()];
    let all = &of_limit(&record)[0].ceilings;
    assert_eq!(kinds(all), [K::CgroupIo, K::CpuQuota, K::Core, K::Cpus, K::Tags]);
    assert_eq!(of(all, K::CpuQuota), Some((750_000.0, 400_000.0)));
    assert_eq!(of(all, K::Tags), Some((109_120_000.0, 400_000.0)));
    record.report.targets[0].blocks[0].peak = None;
    assert_eq!(of_limit(&record).len(), 1);
}
