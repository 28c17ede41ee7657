//! The whole of a diagnosis.

use super::testing::{TestMachine, first_disk, healthy, nvme, set, smart, without_requests};
use super::{On, all, diagnose, relevant_checks};
use crate::rules::Check;
use fathom_model::facts::Facts;
use fathom_model::finding::Severity;
use fathom_model::setting::{Setting, SettingChange, SettingScope};

#[test]
fn a_healthy_machine_has_no_findings() {
    let machine = healthy();
    let diagnosis = diagnose(&machine.facts, &machine);
    assert_eq!(diagnosis.findings, []);
    assert_eq!(diagnosis.not_checked, []);
    assert!(diagnosis.good.len() > 50, "{}", diagnosis.good.len());
}

#[test]
fn there_are_many_checks_and_each_says_everything() {
    assert!(all().count() >= 70, "{}", all().count());
    for rule in all() {
        let [Check::Inspection(check)] = rule.checks else { panic!("{}", rule.id) };
        for text in [rule.meaning, check.title, check.reads, check.why] {
            assert!(!text.is_empty() && !text.contains("  "), "{}: {text}", rule.id);
        }
        assert!(rule.meaning.ends_with('.'), "{}", rule.id);
        if let [setting] = check.fix {
            assert!(rule.remedy.contains("WANTED"), "{}", rule.id);
            assert_eq!(setting.scope() == SettingScope::Disk, matches!(check.judge, On::Disk(_)));
        }
    }
}

#[test]
fn the_worst_comes_first_with_its_command_and_change() {
    let mut machine = healthy();
    set(&mut machine, "queue/nomerges", "0");
    set(&mut machine, "queue/scheduler", "none [bfq]");
    smart(&mut machine).critical_warning = 2;
    let diagnosis = diagnose(&machine.facts, &machine);
    let ids: Vec<&str> =
        diagnosis.findings.iter().map(|found| found.finding.rule.as_str()).collect();
    assert_eq!(ids, ["nvme-critical-warning", "scheduler", "nomerges"]);
    let found = &diagnosis.findings[1];
    assert_eq!(
        (found.subject.as_str(), found.found.as_str(), found.wanted.as_str()),
        ("nvme0n1", "bfq", "none")
    );
    assert_eq!(
        found.finding.next_step.as_deref(),
        Some("echo none >/sys/block/nvme0n1/queue/scheduler")
    );
    assert_eq!(found.finding.evidence[0].source, "/sys/block/nvme0n1/queue/scheduler");
    assert_eq!(diagnosis.changes(), [SettingChange::parse("scheduler=none", "nvme0n1").unwrap()]);
    assert_eq!(diagnosis.problems().count(), 2);
}

#[test]
fn what_cannot_be_checked_says_why() {
    let mut machine = healthy();
    first_disk(&mut machine).nvme = None;
    first_disk(&mut machine).nvme_missing = Some("/dev/nvme0: needs root".into());
    let diagnosis = diagnose(&machine.facts, &machine);
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.not_checked.len() > 10);
    for missing in &diagnosis.not_checked {
        assert_eq!(
            (missing.subject.as_str(), missing.reason.as_str()),
            ("nvme0n1", "/dev/nvme0: needs root")
        );
    }
}

#[test]
fn another_kind_of_disk_is_not_asked_what_only_nvme_knows() {
    let mut machine = healthy();
    let disk = first_disk(&mut machine);
    (disk.nvme, disk.device.name) = (None, "sda".into());
    set(&mut machine, "queue/nomerges", "0");
    let diagnosis = diagnose(&machine.facts, &machine);
    assert_eq!((diagnosis.findings, diagnosis.not_checked), (Vec::new(), Vec::new()));
}

#[test]
fn heat_and_wear_are_hints_before_they_are_problems() {
    let severity = |change: fn(&mut super::testing::TestMachine)| {
        let mut machine = healthy();
        change(&mut machine);
        diagnose(&machine.facts, &machine).findings[0].finding.severity
    };
    assert_eq!(severity(|i| smart(i).used_percent = 80), Severity::Info);
    assert_eq!(severity(|i| smart(i).celsius = 75), Severity::Info);
    assert_eq!(severity(|i| nvme(i).warning_celsius = Some(30)), Severity::Warning);
}

#[test]
fn a_run_names_the_problems_that_matter() {
    let mut machine = healthy();
    set(&mut machine, "queue/nomerges", "0");
    set(&mut machine, "queue/scheduler", "none [bfq]");
    let facts = Facts {
        host: machine.facts.clone(),
        inspection: Some((*machine).clone()),
        ..Facts::default()
    };
    assert_eq!(relevant_checks(&facts), ["scheduler"]);
    assert!(relevant_checks(&Facts::default()).is_empty());
}

/// A kind of disk, by what distinguishes it from an NVMe drive, and which of its settings `doctor --fix` may change.
type Kind = (&'static str, fn(&mut TestMachine), &'static [Setting]);

/// Of a disk with a queue of requests.
const OF_REQUESTS: &[Setting] =
    &[Setting::NrRequests, Setting::Iostats, Setting::RqAffinity, Setting::ReadAheadKb];

const ALL: &[Setting] = &[
    Setting::Scheduler,
    Setting::NrRequests,
    Setting::Iostats,
    Setting::RqAffinity,
    Setting::ReadAheadKb,
];

fn is_called(machine: &mut TestMachine, name: &str) {
    let disk = first_disk(machine);
    (disk.nvme, disk.device.name) = (None, name.into());
    disk.device.hardware_queues = Some(1);
}

const KINDS: &[Kind] = &[
    ("NVMe drive", |_| {}, ALL),
    ("zoned NVMe drive", |i| set(i, "queue/zoned", "host-managed"), OF_REQUESTS),
    ("SATA solid-state disk", |i| is_called(i, "sda"), ALL),
    (
        "hard disk",
        |i| {
            is_called(i, "sda");
            set(i, "queue/rotational", "1");
        },
        OF_REQUESTS,
    ),
    (
        "shingled hard disk",
        |i| {
            is_called(i, "sda");
            set(i, "queue/rotational", "1");
            set(i, "queue/zoned", "host-aware");
        },
        OF_REQUESTS,
    ),
    (
        "virtual disk that claims to rotate",
        |i| {
            is_called(i, "vda");
            set(i, "queue/rotational", "1");
        },
        OF_REQUESTS,
    ),
    (
        "disk of unknown kind",
        |i| {
            is_called(i, "sda");
            first_disk(i).files.texts.remove("queue/rotational");
        },
        OF_REQUESTS,
    ),
    (
        "device mapper, md, zram",
        |i| {
            is_called(i, "dm-0");
            without_requests(i);
        },
        &[Setting::ReadAheadKb],
    ),
];

/// A value that is not the recommended one, and the change that mends it.
const MENDED: &[(&str, &str, &str)] = &[
    ("queue/scheduler", "none [mq-deadline] kyber bfq", "scheduler=none"),
    ("queue/scheduler", "none mq-deadline [bfq]", "scheduler=none"),
    ("queue/nr_requests", "4", "nr_requests=128"),
    ("queue/iostats", "0", "iostats=1"),
    ("queue/rq_affinity", "0", "rq_affinity=1"),
    ("queue/read_ahead_kb", "0", "read_ahead_kb=128"),
    // Whether a drive's cache may lose data is for its owner to say.
    ("queue/write_cache", "write back", ""),
    ("queue/nomerges", "0", ""),
    ("queue/max_sectors_kb", "4", ""),
];

#[test]
fn what_is_changed_is_safe_on_every_kind_of_disk() {
    for (kind, make, may_change) in KINDS {
        for (file, text, change) in MENDED {
            let mut machine = healthy();
            make(&mut machine);
            set(&mut machine, file, text);
            let name = first_disk(&mut machine).device.name.clone();
            let change = SettingChange::parse(change, &name).ok();
            let wanted: Vec<SettingChange> =
                change.into_iter().filter(|change| may_change.contains(&change.setting)).collect();
            let diagnosis = diagnose(&machine.facts, &machine);
            assert_eq!(diagnosis.changes(), wanted, "{kind}: {file} is {text}");
        }
    }
}
