//! A made-up run that nothing is wrong with, for rules to be tried on.

use super::findings;
use fathom_model::Dir;
use fathom_model::facts::{DeviceFacts, TargetFacts, TargetKind};
use fathom_model::finding::Finding;
use fathom_model::plan::{
    Distribution, Engine, Fallocate, JobPlan, Mix, Order, Region, Target, Uring,
};
use fathom_model::record::{DiskRecord, JobRecord, RunRecord};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const GIB: u64 = 1 << 30;
/// I/Os in ten seconds.
pub(super) const IOS: u64 = 1_000_000;

/// Ten seconds of direct 4 KiB random reads at depth 32 on a file of 4 GiB on a disk.
pub(super) fn run() -> RunRecord {
    let mut record = RunRecord { elapsed_ns: 10 * SECOND, ..RunRecord::default() };
    let host = &mut record.facts.host;
    (host.cpus_online, host.load_1min, host.memory_bytes) = (8, 0.1, 16 * GIB);
    (host.arch, host.clocksource) = ("x86_64".into(), "tsc".into());
    record.facts.targets = vec![facts("/data/file")];
    record.plan.targets = vec![target("/data/file")];
    record.plan.jobs = vec![plan("a")];
    record.jobs = vec![done()];
    let mut disk = DiskRecord { name: "vda".into(), ..DiskRecord::default() };
    (disk.ios.read, disk.sectors.read) = (IOS, IOS * 8);
    (disk.elapsed_ms, disk.weighted_ms, disk.busy_ms) = (10_000, 310_000, 10_000);
    record.disks = vec![disk];
    record
}

pub(super) fn plan(name: &str) -> JobPlan {
    let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let mut job =
        JobPlan::new(name, Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), order);
    (job.depth, job.direct) = (32, true);
    job.regions = vec![Region { target: 0, start: 0, len: 4 * GIB }];
    job.until.runtime_ns = Some(10 * SECOND);
    job.options.insert("direct".into(), "1".into());
    job
}

pub(super) fn done() -> JobRecord {
    let mut job = JobRecord { runtime_ns: 10 * SECOND, ..JobRecord::default() };
    let read = &mut job.dirs.read;
    (read.counts.ios, read.counts.bytes) = (IOS, IOS * 4096);
    read.intervals =
        (1..=20).map(|i| (i * SECOND / 2, i * IOS / 20, i * IOS / 20 * 4096)).collect();
    read.clat.record_n(300_000, IOS);
    job.depth.level = vec![(31, IOS / 10), (32, IOS / 10 * 9)];
    job.depth.in_flight_max = 32;
    let granted = &mut job.granted;
    (granted.direct, granted.fixed_buffers, granted.registered_files) = (true, true, true);
    job
}

/// Makes the run go through the page cache, as asked.
pub(super) fn make_buffered(record: &mut RunRecord) {
    record.plan.jobs[0].direct = false;
    record.plan.jobs[0].options.insert("direct".into(), "0".into());
    record.jobs[0].granted.direct = false;
}

/// Makes the run one of writes.
pub(super) fn make_writing(record: &mut RunRecord) {
    record.plan.jobs[0].access.mix = Mix::Only(Dir::Write);
    let dirs = &mut record.jobs[0].dirs;
    dirs.write = std::mem::take(&mut dirs.read);
    let disk = &mut record.disks[0];
    (disk.ios.write, disk.sectors.write) = (disk.ios.read, disk.sectors.read);
    (disk.ios.read, disk.sectors.read) = (0, 0);
}

pub(super) fn facts(path: &str) -> TargetFacts {
    TargetFacts {
        path: path.into(),
        resolved: path.into(),
        kind: TargetKind::File,
        size_bytes: 4 * GIB,
        allocated_bytes: 4 * GIB,
        file_system: Some("ext4".into()),
        device: Some(DeviceFacts { name: "vda".into(), ..DeviceFacts::default() }),
        ..TargetFacts::default()
    }
}

fn target(path: &str) -> Target {
    Target {
        path: path.into(),
        within: None,
        create_size: None,
        fallocate: Fallocate::Native,
        fill: false,
        create_on_open: false,
        unlink: false,
        invalidate: true,
        written: false,
        trimmed: false,
    }
}

/// Names of the rules that fire.
pub(super) fn rule_names(record: &RunRecord) -> Vec<String> {
    findings(record).into_iter().map(|finding| finding.rule).collect()
}

/// The finding of a rule that must fire after `change` and must not before.
pub(super) fn fires(
    rule: fn(&RunRecord) -> Option<Finding>,
    change: impl FnOnce(&mut RunRecord),
) -> Finding {
    let mut record = run();
    assert_eq!(rule(&record), None, "fires without a reason");
    change(&mut record);
    let finding = rule(&record).expect("the rule does not fire");
    assert!(finding.summary.ends_with('.') && !finding.evidence.is_empty(), "{finding:?}");
    finding
}

/// Checks that a rule does not fire after `change`.
pub(super) fn silent(rule: fn(&RunRecord) -> Option<Finding>, change: impl FnOnce(&mut RunRecord)) {
    let mut record = run();
    change(&mut record);
    assert_eq!(rule(&record), None);
}
