//! Records made by hand, the same each time.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod json;

use fathom_analysis::watch::Observed;
use fathom_model::facts::{DeviceFacts, Host, TargetFacts, TargetKind};
use fathom_model::plan::*;
use fathom_model::record::*;
use fathom_model::watch::CacheEvent;
use fathom_model::{Dir, Histogram};
use std::path::PathBuf;

pub const SECOND: u64 = 1_000_000_000;

/// Two clones that read and write, shown as one, then one job of synchronous writes with flushes.
pub fn two_groups() -> RunRecord {
    let mut record = base();
    record.plan.global_options = options(&[("direct", "1"), ("ioengine", "io_uring")]);
    let mut mixed = plan("mixed", Mix::ReadWrite { read_percent: 70 });
    mixed.group_reporting = true;
    mixed.options = options(&[("rw", "randrw"), ("bs", "4k"), ("iodepth", "16"), ("numjobs", "2")]);
    mixed.depth = 16;
    let second = JobPlan { clone: 1, ..mixed.clone() };
    let mut log = plan("log", Mix::Only(Dir::Write));
    log.engine = Engine::Psync(Psync::Plain);
    log.depth = 1;
    log.access.order = Order::Sequential { skip: 0 };
    (log.group, log.wave, log.description) = (1, 1, Some("a database's log".into()));
    log.show.lat_percentiles = true;
    record.plan.jobs = vec![mixed, second, log];
    record.jobs = vec![ring_job(1), ring_job(2), log_job()];
    record.disks = vec![disk()];
    record
}

/// Reads under a rate that was not kept, with errors, cut short; a second job never started.
pub fn troubled() -> RunRecord {
    let mut record = base();
    let mut paced = plan("paced", Mix::Only(Dir::Read));
    paced.rate.read = Some(Rate::Iops(60_000));
    paced.on_error.keep_going.read = true;
    let mut never = plan("never", Mix::Only(Dir::Trim));
    (never.wave, never.group) = (1, 1);
    record.plan.jobs = vec![paced, never];
    let mut job = ring_job(1);
    job.dirs.write = DirRecord::default();
    job.flushes = FlushRecord::default();
    let read = &mut job.dirs.read;
    (read.counts.errors, read.counts.short_ios, read.errnos) = (40, 2, vec![(5, 38), (61, 2)]);
    (read.late_ios, read.unstarted_ios) = (12_000, 3_000);
    read.response = Histogram::default();
    read.response.record_n(400_000, 98_000);
    read.response.record_n(1_900 * 1_000_000, 2_000);
    let never = JobRecord {
        error: Some(JobError {
            errno: 0,
            message: "no room for \"buffers\"; lower iodepth".into(),
        }),
        ..JobRecord::default()
    };
    record.jobs = vec![job, never];
    record.header.outcome = fathom_model::Outcome::interrupted("SIGINT");
    record.header.findings = fathom_analysis::rules::judge(&record, &Observed::default());
    record
}

/// Three clones that did differently well, each shown for itself.
pub fn uneven() -> RunRecord {
    let mut record = base();
    let first = plan("read", Mix::Only(Dir::Read));
    record.plan.jobs = (0..3).map(|clone| JobPlan { clone, ..first.clone() }).collect();
    record.jobs = (1..=3)
        .map(|scale| {
            let mut job = ring_job(scale);
            job.dirs.write = DirRecord::default();
            job.flushes = FlushRecord::default();
            job
        })
        .collect();
    record.disks = vec![disk()];
    record
}

fn base() -> RunRecord {
    let header = Header {
        record_version: RECORD_VERSION,
        fathom_version: "0.0.0-test".into(),
        command: vec!["fathom".into(), "run".into(), "job.fio".into()],
        started_unix_ns: 1_795_290_792_943_000_000,
        elapsed_ns: 2_001_000_000,
        facts: fathom_model::Facts {
            host: Host {
                hostname: "build-7".into(),
                kernel: "6.12.30".into(),
                cpu_model: "AMD EPYC 9354P".into(),
                cpus_online: 16,
                cpus_allowed: vec![2, 3],
                memory_bytes: 8 << 30,
                clocksource: "tsc".into(),
                ..Host::default()
            },
            targets: vec![TargetFacts {
                path: "/data/file".into(),
                kind: TargetKind::File,
                size_bytes: 64 << 30,
                allocated_bytes: 64 << 30,
                file_system: Some("xfs".into()),
                device: Some(DeviceFacts {
                    name: "nvme0n1".into(),
                    model: Some("SAMSUNG MZQL23T8HCLS ".into()),
                    size_bytes: 3_840_755_982_336,
                    ..DeviceFacts::default()
                }),
                ..TargetFacts::default()
            }],
            ..fathom_model::Facts::default()
        },
        ..Header::default()
    };
    RunRecord {
        header,
        plan: Plan {
            targets: vec![Target {
                path: "/data/file".into(),
                within: None,
                create_size: None,
                fallocate: Fallocate::Native,
                fill: false,
                create_on_open: false,
                unlink: false,
                invalidate: true,
                written: true,
                trimmed: false,
            }],
            ..Plan::default()
        },
        ..RunRecord::default()
    }
}

fn plan(name: &str, mix: Mix) -> JobPlan {
    let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let mut job = JobPlan::new(name, Engine::IoUring(Uring::default()), mix, order);
    (job.direct, job.depth) = (true, 32);
    job.regions = vec![Region { target: 0, start: 0, len: 64 << 30 }];
    job.until.runtime_ns = Some(2 * SECOND);
    job.options = options(&[("direct", "1")]);
    job
}

fn options(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

/// Two seconds of a ring; `scale` times 50,000 reads and 20,000 writes a second.
fn ring_job(scale: u64) -> JobRecord {
    let mut job = JobRecord {
        started_ns: 1_000_000,
        started_unix_ns: 1_795_290_792_944_000_000,
        runtime_ns: 2 * SECOND,
        dirs: fathom_model::PerDir {
            read: direction(100_000 * scale, 90_000),
            write: direction(40_000 * scale, 30_000),
            trim: DirRecord::default(),
        },
        ..JobRecord::default()
    };
    job.flushes.count = 10 * scale;
    job.flushes.lat.record_n(250_000, 10 * scale);
    job.usage = Usage {
        user_ns: 40_000_000 * scale,
        system_ns: 240_000_000 * scale,
        voluntary_switches: 30_000 * scale,
        involuntary_switches: 12,
        minor_faults: 25,
        ..Usage::default()
    };
    job.depth = DepthRecord {
        level: vec![(1, 2), (8, 100 * scale), (16, 139_898 * scale)],
        submit: vec![(1, 100_000 * scale), (8, 5_000 * scale)],
        complete: vec![(0, 10), (1, 100_000 * scale), (8, 5_000 * scale)],
        system_calls: 105_010 * scale,
        in_flight_max: 16,
    };
    job.granted = InEffect {
        setup_flags: vec!["SINGLE_ISSUER".into(), "DEFER_TASKRUN".into()],
        fixed_buffers: true,
        registered_files: true,
        registered_ring: true,
        direct: true,
        ..InEffect::default()
    };
    job.cost = Some(Cost {
        ios: 10_000,
        window_ns: 100_000_000,
        user_instructions: 98.2,
        kernel_instructions: Some(2_310.0),
        user_cycles: 71.0,
        kernel_cycles: Some(1_890.4),
        cache: Some(CacheCost { event: CacheEvent::LlcLoads, references: 3.25, misses: 0.42 }),
        enabled_ns: 90_000_000,
        running_ns: 90_000_000,
        speed_ratio: 0.97,
    });
    job
}

/// Synchronous writes with an fsync after each.
fn log_job() -> JobRecord {
    let mut job = JobRecord {
        started_ns: 2_100_000_000,
        started_unix_ns: 1_795_290_795_043_000_000,
        runtime_ns: SECOND,
        ..JobRecord::default()
    };
    job.dirs.write = direction(1_000, 20_000);
    job.flushes.count = 1_000;
    job.flushes.lat.record_n(700_000, 990);
    job.flushes.lat.record_n(5_000_000, 10);
    job.usage = Usage { user_ns: 3_000_000, system_ns: 30_000_000, ..Usage::default() };
    job.depth.level = vec![(1, 1_000)];
    job.depth.in_flight_max = 1;
    job.granted.direct = true;
    job.cost_missing = Some("kernel.perf_event_paranoid is 3".into());
    job
}

/// `ios` of 4 KiB in two seconds, most of them done within `ns`.
fn direction(ios: u64, ns: u64) -> DirRecord {
    let mut dir = DirRecord::default();
    (dir.counts.ios, dir.counts.bytes) = (ios, ios * 4096);
    let tail = ios / 100;
    for (n, ns) in [(ios - 2 * tail, ns), (tail, ns * 3), (tail, ns * 40)] {
        dir.slat.record_n(1_500, n);
        dir.clat.record_n(ns, n);
        dir.lat.record_n(ns + 1_500, n);
    }
    let quarter = SECOND / 2;
    dir.intervals = (1..=4).map(|i| (i * quarter, i * ios / 4, i * ios / 4 * 4096)).collect();
    dir
}

fn disk() -> DiskRecord {
    let mut disk = DiskRecord { name: "nvme0n1".into(), ..DiskRecord::default() };
    (disk.ios.read, disk.ios.write) = (300_000, 121_000);
    (disk.sectors.read, disk.sectors.write) = (2_400_000, 968_000);
    (disk.merges.write, disk.ticks_ms.read, disk.ticks_ms.write) = (3, 26_000, 4_000);
    (disk.busy_ms, disk.weighted_ms, disk.elapsed_ms) = (2_900, 30_000, 3_100);
    disk
}

/// Checks `text` against the file `name` in `tests/golden`; with `FATHOM_BLESS=1` writes it.
pub fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    same_as_file(&path, text);
}

/// Checks `text` against a file; with `FATHOM_BLESS=1` writes the file.
pub fn same_as_file(path: &std::path::Path, text: &str) {
    if std::env::var_os("FATHOM_BLESS").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        wanted == text,
        "{} differs from what the code makes. If the change is meant, run:\n  \
         FATHOM_BLESS=1 cargo test -p fathom-report --features schema\nand look at the difference.\nMade:\n{text}",
        path.display()
    );
}
