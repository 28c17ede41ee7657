//! Made-up records that nothing is wrong with, and the cases that rules are tested with.

use super::doctor::testing::{TestMachine, healthy};
use super::limiters::testing::Scene;
use super::{Input, Rule, Target as LimitTarget, judge, judge_experiment, judge_limit};
use crate::compare::{ComparedRun, ComparedSide, Comparison, RunConditions};
use crate::topology::analyze;
use crate::watch::Observed;
use fathom_model::experiment::{
    Condition, Experiment, ExperimentRecord, ExperimentReport, MeasuredCondition, Request,
};
use fathom_model::facts::{DeviceFacts, Host, TargetFacts, TargetKind};
use fathom_model::finding::Finding;
use fathom_model::limit::{
    BlockLimit, BlockSpec, Config, Confirmation, ExperimentKind, LimitRecord, LimitReport,
    OwnCeiling, QueueFacts, TargetLimit,
};
use fathom_model::outcome::RecordKind;
use fathom_model::plan::{
    Distribution, Engine, Fallocate, JobPlan, Mix, Order, Region, Target, Uring,
};
use fathom_model::record::{DiskRecord, Header, JobRecord, RunRecord};
use fathom_model::topology::{
    CpuPackage, Hop, HopKind, Irq, Link, LinkMode, LinkStandard, NumaNode, Topology,
};
use fathom_model::window::{Conditions, CpuShares, Estimate, Point, Ratio, Setting};
use fathom_model::{Dir, Facts};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const GIB: u64 = 1 << 30;
/// I/Os in ten seconds.
pub(super) const IOS: u64 = 1_000_000;

/// Changes that make a rule hold, and changes that nearly do.
pub(super) enum Case {
    Run {
        holds: fn(&mut RunRecord),
        near_miss: fn(&mut RunRecord),
    },
    Limit {
        holds: fn(&mut LimitRecord),
        near_miss: fn(&mut LimitRecord),
    },
    /// Changes two variants that do the same.
    Experiment {
        holds: fn(&mut ExperimentRecord),
        near_miss: fn(&mut ExperimentRecord),
    },
    Topology {
        holds: fn(&mut Topology),
        near_miss: fn(&mut Topology),
    },
    /// Changes ten seconds of random reads; with the summary that follows.
    View {
        holds: fn(&mut Scene),
        near_miss: fn(&mut Scene),
        summary: &'static str,
    },
    /// Another near miss of the case before.
    NearMiss(fn(&mut Scene)),
    /// Changes a search whose peak neither a deeper queue nor more workers raise; with the summary that follows.
    Setting {
        holds: fn(&mut LimitRecord),
        near_miss: fn(&mut LimitRecord),
        summary: &'static str,
    },
    /// Changes a machine that nothing is wrong with.
    Inspection {
        holds: fn(&mut TestMachine),
        near_miss: fn(&mut TestMachine),
    },
    /// Changes a comparison of two runs on an idle machine, without figures.
    Comparison {
        holds: fn(&mut Comparison),
        near_miss: fn(&mut Comparison),
    },
}

impl Case {
    /// What `rule` finds in the unchanged record, where it should hold, and in the near miss.
    pub fn findings(&self, rule: &Rule) -> [Vec<Finding>; 3] {
        match self {
            Self::Run { holds, near_miss } => {
                [|_: &mut RunRecord| {}, *holds, *near_miss].map(|change: fn(&mut RunRecord)| {
                    rule.check(&Input::Run(&changed(run(), change))).into_iter().collect()
                })
            }
            Self::Limit { holds, near_miss } => [|_: &mut LimitRecord| {}, *holds, *near_miss]
                .map(|change: fn(&mut LimitRecord)| in_limit(rule, &changed(limit(), change))),
            Self::Inspection { holds, near_miss } => [|_: &mut TestMachine| {}, *holds, *near_miss]
                .map(|change: fn(&mut TestMachine)| changed(healthy(), change).findings(rule)),
            Self::View { holds, near_miss, .. } => {
                let scenes = [
                    Scene::idle(),
                    changed(Scene::reads(), holds),
                    changed(Scene::reads(), near_miss),
                ];
                scenes.map(|scene| in_scene(rule, &scene))
            }
            Self::NearMiss(near_miss) => {
                let near = in_scene(rule, &changed(Scene::reads(), near_miss));
                [Vec::new(), Vec::new(), near]
            }
            Self::Experiment { holds, near_miss } => {
                let changes = [|_: &mut ExperimentRecord| {}, *holds, *near_miss];
                changes.map(|change: fn(&mut ExperimentRecord)| {
                    let all = judge_experiment(&changed(experiment(), change)).into_iter();
                    all.filter(|finding| finding.rule == rule.id).collect()
                })
            }
            Self::Setting { holds, near_miss, summary } => {
                let found = |change: fn(&mut LimitRecord)| {
                    let mut record = limit();
                    gains(&mut record, [0.98, 1.02], [0.98, 1.02]);
                    change(&mut record);
                    let all = judge_limit(&record).into_iter();
                    all.filter(|finding| finding.rule == rule.id).collect::<Vec<_>>()
                };
                let [holds, near_miss] = [*holds, *near_miss].map(found);
                let summaries: Vec<&str> = holds.iter().map(|f| f.summary.as_str()).collect();
                assert_eq!(summaries, [*summary], "{}", rule.id);
                [Vec::new(), holds, near_miss]
            }
            Self::Comparison { holds, near_miss } => [|_: &mut Comparison| {}, *holds, *near_miss]
                .map(|change: fn(&mut Comparison)| {
                    let changed = changed(comparison(), change);
                    rule.check(&Input::Comparison(&changed)).into_iter().collect()
                }),
            Self::Topology { holds, near_miss } => {
                [|_: &mut Topology| {}, *holds, *near_miss].map(|change: fn(&mut Topology)| {
                    let report = analyze(changed(topology(), change));
                    rule.check(&Input::Topology(&report)).into_iter().collect()
                })
            }
        }
    }
}

pub(super) fn changed<T>(mut record: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut record);
    record
}

fn in_scene(rule: &Rule, scene: &Scene) -> Vec<Finding> {
    scene.with_view(|view| rule.check(&Input::View(view))).into_iter().collect()
}

/// What a rule alone finds in the record of a search.
fn in_limit(rule: &Rule, record: &LimitRecord) -> Vec<Finding> {
    let targets =
        record.header.facts.targets.iter().zip(&record.conditions).zip(&record.report.targets);
    let targets = targets.filter_map(|((facts, conditions), limit)| {
        rule.check(&Input::Target(LimitTarget { facts, conditions, limit }))
    });
    targets.chain(rule.check(&Input::Limit(record))).collect()
}

/// Two runs on an idle machine.
fn comparison() -> Comparison {
    let conditions = RunConditions {
        cpus: 8,
        other_cpus: Some(0.02),
        other_program: Some("cron (pid 7)".into()),
        other_disk_share: Some(0.0),
        steal: Some(0.0),
        throttled_cpus: Some(0.0),
        read_from_disk: Some(1.0),
        ..RunConditions::default()
    };
    let side = |name: &str| {
        let (name, conditions) = (name.into(), conditions.clone());
        let run = ComparedRun { name, conditions, ..ComparedRun::default() };
        ComparedSide { runs: vec![run], ..ComparedSide::default() }
    };
    Comparison { before: side("a"), after: side("b"), ..Comparison::default() }
}

/// The finding of a rule that must hold after `change` and must not before.
pub(super) fn fires(rule: &Rule, change: impl FnOnce(&mut RunRecord)) -> Finding {
    assert_eq!(rule.check(&Input::Run(&run())), None, "holds without a reason");
    let found = rule.check(&Input::Run(&changed(run(), change)));
    found.expect("the rule does not hold")
}

/// Checks that a rule does not hold after `change`.
pub(super) fn silent(rule: &Rule, change: impl FnOnce(&mut RunRecord)) {
    assert_eq!(rule.check(&Input::Run(&changed(run(), change))), None);
}

/// The evidence as rendered.
pub(super) fn phrases(finding: &Finding) -> Vec<String> {
    finding.evidence.iter().map(ToString::to_string).collect()
}

/// Ids of the rules that hold for a run.
pub(super) fn rule_names(record: &RunRecord) -> Vec<String> {
    judge(record, &Observed::default()).into_iter().map(|finding| finding.rule).collect()
}

/// Ids of the rules that hold for a search after `change`.
pub(super) fn limit_rules(change: impl FnOnce(&mut LimitRecord)) -> Vec<String> {
    judge_limit(&changed(limit(), change)).into_iter().map(|finding| finding.rule).collect()
}

/// Ten seconds of direct 4 KiB random reads at depth 32 on a file of 4 GiB on a disk.
pub(super) fn run() -> RunRecord {
    let mut record = RunRecord::default();
    record.header.elapsed_ns = 10 * SECOND;
    let host = &mut record.header.facts.host;
    (host.cpus_online, host.load_1min, host.memory_bytes) = (8, 0.1, 16 * GIB);
    (host.arch, host.clocksource) = ("x86_64".into(), "tsc".into());
    record.header.facts.targets = vec![facts("/data/file")];
    record.plan.targets = vec![target("/data/file")];
    record.plan.jobs = vec![plan("a")];
    record.jobs = vec![done()];
    let mut disk = DiskRecord { name: "vda".into(), ..DiskRecord::default() };
    (disk.ios.read, disk.sectors.read) = (IOS, IOS * 8);
    (disk.elapsed_ms, disk.weighted_ms, disk.busy_ms) = (10_000, 310_000, 10_000);
    record.disks = vec![disk];
    record
}

fn plan(name: &str) -> JobPlan {
    let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let mut job =
        JobPlan::new(name, Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), order);
    (job.depth, job.direct) = (32, true);
    job.regions = vec![Region { target: 0, start: 0, len: 4 * GIB }];
    job.until.runtime_ns = Some(10 * SECOND);
    job.options.insert("direct".into(), "1".into());
    job
}

fn done() -> JobRecord {
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

/// Makes the run go through the page cache, as requested.
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

fn facts(path: &str) -> TargetFacts {
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

pub(super) fn target(path: &str) -> Target {
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

/// A search on one NVMe drive that does 100k IOPS at 4 KiB and 2k at 1 MiB.
pub(super) fn limit() -> LimitRecord {
    let mut facts = facts("disk0");
    facts.device = Some(DeviceFacts { name: "nvme0n1".into(), ..DeviceFacts::default() });
    let blocks = vec![block(4096, 100_000.0), block(1 << 20, 2_000.0)];
    LimitRecord {
        header: Header {
            kind: RecordKind::Limit,
            facts: Facts { targets: vec![facts], ..Facts::default() },
            ..Header::default()
        },
        config: Config {
            targets: vec!["disk0".into()],
            seconds: 15.0,
            cores: 8,
            buffers_bytes_max: GIB,
            blocks: BlockSpec::defaults(),
            target: None,
            suite: Vec::new(),
            queues: Vec::new(),
            cpu_limit: None,
            spec: None,
        },
        conditions: vec![Conditions { direct: true, scratch: false }],
        competitors: Vec::new(),
        report: LimitReport {
            idle: Some(CpuShares { busy: 0.01, steal: 0.0, throttled: 0.0 }),
            own: OwnCeiling { one_worker: None, all_cores: Some(known(1e7, 0.01)) },
            targets: vec![TargetLimit { name: "disk0".into(), blocks }],
            ..LimitReport::default()
        },
        costs: Vec::new(),
        costs_missing: None,
        ranks: Vec::new(),
    }
}

/// Two variants, measured alike, on one drive.
pub(super) fn experiment() -> ExperimentRecord {
    let variant = |name: &str, against: &[usize]| Condition {
        name: name.into(),
        against: against.to_vec(),
        ..Condition::default()
    };
    let conditions = vec![variant("a", &[]), variant("b", &[0])];
    let host = Host { cpus_online: 8, ..Host::default() };
    let facts = Facts { host, targets: vec![facts("disk0")], ..Facts::default() };
    let found = MeasuredCondition { windows: 10, iops: 100_000.0, ..MeasuredCondition::default() };
    ExperimentRecord {
        header: Header { kind: RecordKind::Experiment, facts, ..Header::default() },
        request: Request {
            experiment: Experiment { conditions, ..Experiment::default() },
            ..Request::default()
        },
        conditions: vec![Conditions { direct: true, scratch: false }],
        report: ExperimentReport { conditions: vec![found; 2], ..ExperimentReport::default() },
        ranks: Vec::new(),
    }
}

fn block(block_bytes: u64, iops: f64) -> BlockLimit {
    let peak = Point {
        workers: 1,
        depth: 32,
        iops: known(iops, 0.01),
        in_flight: 31.5,
        from_disk: Some(1.0),
        cpu: Some(CpuShares { busy: 0.2, steal: 0.01, throttled: 0.0 }),
        ..Point::default()
    };
    BlockLimit { block_bytes, peak: Some(peak), ..BlockLimit::default() }
}

/// A mean of five windows with the given relative half-width of its interval.
pub(super) fn known(mean: f64, relative: f64) -> Estimate {
    let half = mean * relative;
    Estimate { mean, low: Some(mean - half), high: Some(mean + half), windows: 5 }
}

/// The first kind of I/O of a search.
pub(super) fn tested(record: &mut LimitRecord) -> &mut BlockLimit {
    &mut record.report.targets[0].blocks[0]
}

/// What its confirmation tests change.
pub(super) fn base(record: &mut LimitRecord) -> &mut Point {
    let tests = tested(record).confirmation.as_mut().expect("the peak was tested");
    tests.base.as_mut().expect("the tests have a base")
}

pub(super) fn cpu(record: &mut LimitRecord) -> &mut CpuShares {
    base(record).cpu.get_or_insert_default()
}

/// The queue of the device, which is named vda.
pub(super) fn queue(record: &mut LimitRecord) -> &mut QueueFacts {
    let queue = QueueFacts { device: "vda".into(), ..QueueFacts::default() };
    record.config.queues = vec![queue];
    &mut record.config.queues[0]
}

/// Confirmation tests in which a deeper queue and more workers yield ratios within these intervals.
pub(super) fn gains(record: &mut LimitRecord, deeper: [f64; 2], more: [f64; 2]) {
    record.report.cores = record.config.cores;
    let block = tested(record);
    let base = block.peak.clone();
    let at = base.as_ref().expect("the record has peaks").setting();
    block.confirmation = Some(Confirmation {
        at,
        base,
        higher: None,
        experiments: Vec::new(),
        cause: None,
        reason: None,
    });
    add_test(record, ExperimentKind::Deeper, deeper);
    add_test(record, ExperimentKind::MoreWorkers, more);
}

pub(super) fn add_test(record: &mut LimitRecord, kind: ExperimentKind, [low, high]: [f64; 2]) {
    let cores = record.config.cores;
    let tests = tested(record).confirmation.as_mut().expect("the peak was tested");
    let more = tests.at.workers + u32::from(kind == ExperimentKind::MoreWorkers);
    tests.experiments.push(fathom_model::limit::Experiment {
        kind,
        setting: Setting { workers: more, depth: tests.at.depth },
        cores,
        base_iops: known(100_000.0, 0.01),
        changed_iops: known(100_000.0, 0.01),
        gain: Some(Ratio { value: f64::midpoint(low, high), low, high }),
        latency_ratio: (kind == ExperimentKind::Deeper).then_some(2.0),
        refused: None,
    });
}

/// The first peak of a search.
pub(super) fn peak(record: &mut LimitRecord) -> &mut Point {
    record.report.targets[0].blocks[0].peak.as_mut().expect("the record has peaks")
}

/// Two root complexes, one on each of two NUMA nodes, with one NVMe disk each, on a link of 16 GT/s ×4.
pub(super) fn topology() -> Topology {
    Topology {
        packages: vec![CpuPackage { id: 0, cpus: vec![0, 1, 2, 3], ..CpuPackage::default() }],
        numa_nodes: vec![
            NumaNode { id: 0, cpus: vec![0, 1], memory_bytes: GIB },
            NumaNode { id: 1, cpus: vec![2, 3], memory_bytes: GIB },
        ],
        cpus_allowed: vec![0, 1, 2, 3],
        roots: (0..2).map(|number| complex(number, vec![port(number * 16)])).collect(),
        volumes: Vec::new(),
    }
}

pub(super) fn complex(number: u32, children: Vec<Hop>) -> Hop {
    let (name, kind) = (format!("pci0000:{number}0"), HopKind::RootComplex);
    Hop { name, kind, numa_node: Some(number), children, ..Hop::default() }
}

/// A root port with a disk of this number, at a link of its own.
pub(super) fn port(number: u32) -> Hop {
    let mode = LinkMode { speed_mts: 16_000, lanes: 4 };
    let link = Some(Link { standard: LinkStandard::Pcie, current: mode, best: mode });
    let irq = |queue: u32| Irq {
        number: number * 2 + queue,
        name: format!("nvme{number}q{queue}"),
        cpus: vec![queue],
    };
    let disk = Hop {
        name: format!("disk{number}"),
        kind: HopKind::Function,
        numa_node: Some(number / 16),
        irqs: (0..3).map(irq).collect(),
        disks: vec![format!("nvme{number}n1")],
        link,
        payload_max_bytes: Some(256),
        ..Hop::default()
    };
    Hop {
        name: format!("port{number}"),
        kind: HopKind::RootPort,
        payload_max_bytes: Some(256),
        children: vec![disk],
        link,
        ..Hop::default()
    }
}
