//! The checks of `fathom doctor`: each reads one property of the machine or of a disk and states the recommended value,
//! the workloads it matters to, the effect of other values, and the remedy. docs/doctor.md is generated from
//! [`CHECKS`].

mod attached;
mod cpu;
mod device;
mod health;
mod kernel;
mod limits;
mod mounts;
mod nvme;
mod queue;
#[cfg(test)]
mod table;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

use super::jobs::sentence;
use super::{Check, Claim, Rule};
use fathom_model::facts::{Facts, Host};
use fathom_model::finding::{Evidence, Finding, Severity, Subject};
use fathom_model::inspection::{DiskInspection, Inspection, Readings};
use fathom_model::setting::{Scope, Setting, SettingChange};
use serde::Serialize;
use std::cmp::Reverse;

/// Where the kernel lists disks.
const DISKS: &str = "/sys/block";

/// What a check needs besides its rule.
#[derive(Clone, Copy)]
pub(super) struct Inspected {
    /// The property, as in the page's table.
    pub title: &'static str,
    /// Where it is read.
    pub reads: &'static str,
    /// What is found, as a clause, with `FOUND` and `WANTED` for the values.
    pub says: &'static str,
    /// The mechanism, with its source.
    pub why: &'static str,
    /// The setting through which fathom may change it.
    pub fix: Option<Setting>,
    /// What it judges.
    pub judge: On,
}

/// What a check judges.
#[derive(Clone, Copy)]
pub(super) enum On {
    /// The machine, once.
    Machine(fn(&Machine) -> Answer),
    /// Each disk.
    Disk(fn(&Disk) -> Answer),
}

/// The machine as a check sees it.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    host: &'a Host,
    files: &'a Readings,
    daemons: &'a [String],
}

/// A disk as a check sees it.
pub(super) struct Disk<'a> {
    machine: Machine<'a>,
    seen: &'a DiskInspection,
    files: &'a Readings,
}

/// The result of a check, if it applies; the error is the reason why it could not be made.
pub(super) type Answer = Result<Option<Judged>, String>;

/// A property that was judged.
pub(super) struct Judged {
    found: String,
    /// The recommended value; `None` if it has it.
    wanted: Option<String>,
    severity: Option<Severity>,
}

/// The CPUs or nodes of a list; none if it cannot be parsed.
fn cpus(list: &str) -> Vec<u32> {
    fathom_model::cpus::parse(list).unwrap_or_default()
}

/// A property that has a recommended value.
fn good(found: impl Into<String>) -> Answer {
    Ok(Some(Judged { found: found.into(), wanted: None, severity: None }))
}

/// A property for which `wanted` is recommended.
fn bad(found: impl Into<String>, wanted: impl Into<String>) -> Answer {
    Ok(Some(Judged { found: found.into(), wanted: Some(wanted.into()), severity: None }))
}

/// The same with another severity than the rule's.
fn bad_as(severity: Severity, found: impl Into<String>, wanted: impl Into<String>) -> Answer {
    let wanted = Some(wanted.into());
    Ok(Some(Judged { found: found.into(), wanted, severity: Some(severity) }))
}

/// [`bad`] if `is_bad`, [`good`] otherwise.
fn judged(is_bad: bool, found: impl Into<String>, wanted: &str) -> Answer {
    if is_bad { bad(found, wanted) } else { good(found) }
}

impl Machine<'_> {
    /// That a source of values was read, even if it held none.
    ///
    /// # Errors
    /// Why not.
    fn read(&self, source: &str) -> Result<(), String> {
        match self.files.missing.get(source) {
            Some(reason) => Err(format!("{source}: {reason}")),
            None => Ok(()),
        }
    }
}

impl Disk<'_> {
    /// Whether it has a request queue, to which most settings in `queue/` apply; not so for zram, md, most dm and heads of
    /// NVMe multipath, which pass I/Os on as they are.
    fn has_requests(&self) -> bool {
        self.seen.device.hardware_queues.is_some() || self.files.text("mq/0/nr_tags").is_ok()
    }

    /// Whether it has zones, in which writes must be in order.
    fn is_zoned(&self) -> bool {
        self.files.text("queue/zoned").is_ok_and(|kind| kind != "none")
    }

    fn is_nvme(&self) -> bool {
        self.seen.device.name.starts_with("nvme")
    }

    /// Whether it has no moving parts. Virtual disks often claim otherwise.
    fn is_solid(&self) -> bool {
        self.is_nvme() || self.files.text("queue/rotational") == Ok("0")
    }
}

/// A check, as a static [`Rule`].
macro_rules! check {
    ($name:ident: $on:ident, $severity:ident {
        id: $id:literal, title: $title:literal, reads: $reads:literal, says: $says:literal, good: $good:literal,
        cost: $cost:literal,
        why: $why:literal, change: $change:literal, fix: $fix:expr, judge: $judge:expr,
        case: $case:expr, near_miss: $near_miss:expr $(,)?
    }) => {
        pub(super) static $name: $crate::rules::Rule = $crate::rules::Rule {
            id: $id,
            class: fathom_model::finding::Class::Advice,
            severity: fathom_model::finding::Severity::$severity,
            meaning: $cost,
            threshold: || $good.to_string(),
            remedy: $change,
            supersedes: &[],
            checks: &[$crate::rules::Check::Inspection($crate::rules::doctor::Inspected {
                title: $title,
                reads: $reads,
                says: $says,
                why: $why,
                fix: $fix,
                judge: $crate::rules::doctor::On::$on($judge),
            })],
            #[cfg(test)]
            cases: &[$crate::rules::testing::Case::Inspection {
                holds: $case,
                near_miss: $near_miss,
            }],
        };
    };
}
use check;

/// All checks. Findings of equal severity are in this order.
pub(super) static CHECKS: &[&Rule] = &[
    &health::CRITICAL_WARNING,
    &health::SPARE,
    &health::MEDIA_ERRORS,
    &health::WEAR,
    &health::TEMPERATURE,
    &health::THROTTLING,
    &device::CACHE_MISMATCH,
    &device::STATE,
    &queue::SCHEDULER,
    &queue::NR_REQUESTS,
    &queue::IOSTATS,
    &queue::RQ_AFFINITY,
    &queue::MAX_SECTORS,
    &queue::READ_AHEAD,
    &limits::IO_LIMITS,
    &limits::CPU_LIMIT,
    &cpu::GOVERNOR,
    &cpu::FREQUENCY_CAP,
    &cpu::TURBO,
    &attached::IRQ_SPREAD,
    &attached::NUMA_UNKNOWN,
    &attached::NUMA_REMOTE,
    &kernel::IO_URING,
    &kernel::CLOCK,
    &kernel::DEBUG,
    &kernel::LOAD,
    &device::IN_FLIGHT,
    &device::RESYNC,
    &device::SWAP,
    &device::ALIGNMENT,
    &device::PARTITIONS,
    &device::LOOP_BUFFERED,
    &mounts::SYNC,
    &mounts::FULL,
    &nvme::POWER_STATE,
    &nvme::WRITE_PROTECTED,
    &nvme::UNWRITTEN,
    &nvme::FORMAT,
    &nvme::MULTIPATH,
    &nvme::FIRMWARE,
    &queue::POLL_QUEUES,
    &queue::NOMERGES,
    &queue::WRITEBACK_THROTTLING,
    &queue::MAX_SEGMENTS,
    &queue::ADD_RANDOM,
    &device::DISCARD,
    &device::READ_ONLY,
    &device::QUEUE_DEPTH,
    &device::CHUNKS,
    &mounts::DISCARD,
    &mounts::ATIME,
    &nvme::AUTONOMOUS_POWER,
    &nvme::LATENCY_TOLERANCE,
    &nvme::TRANSFER_MAX,
    &nvme::PROTECTION,
    &attached::IOMMU,
    &attached::ASPM,
    &attached::RUNTIME_POWER,
    &cpu::ENERGY,
    &cpu::IDLE_STATES,
    &cpu::OFFLINE,
    &cpu::AFFINITY,
    &cpu::DAEMONS,
    &cpu::NUMA_BALANCING,
    &kernel::WATCHDOG,
    &limits::MEMORY_LIMIT,
    &limits::LOCKED_MEMORY,
    &limits::AVAILABLE_MEMORY,
    &kernel::TRANSPARENT_HUGEPAGE,
    &kernel::PERF,
    &kernel::SYMBOLS,
    &kernel::TRACEPOINTS,
    &kernel::LOCKDOWN,
    &kernel::ZONE_RECLAIM,
    &kernel::VIRTUAL,
];

/// What `fathom doctor` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Properties without a recommended value, worst first.
    pub findings: Vec<Diagnosed>,
    /// Findings about how the disks are attached, as in `fathom topo`.
    pub topology: Vec<Finding>,
    /// Properties with a recommended value.
    pub good: Vec<Passed>,
    /// Checks that could not be made.
    pub not_checked: Vec<NotChecked>,
}

/// A property without a recommended value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosed {
    /// The property, such as `I/O scheduler`.
    pub title: String,
    /// The disk; empty for the machine.
    pub subject: String,
    /// Its value.
    pub found: String,
    /// The recommended value.
    pub wanted: String,
    /// What is found, as a clause that begins with the disk.
    #[serde(skip)]
    pub clause: String,
    /// The effect, as a sentence.
    #[serde(skip)]
    pub effect: &'static str,
    /// The mechanism, with its source.
    pub why: String,
    /// The change that fathom may make.
    pub change: Option<SettingChange>,
    /// The result as a finding.
    pub finding: Finding,
}

/// A property that has a recommended value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Id of the check.
    pub check: &'static str,
    /// The property.
    pub title: &'static str,
    /// The disk; empty for the machine.
    pub subject: String,
    /// Its value.
    pub found: String,
}

/// A property that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotChecked {
    /// Id of the check.
    pub check: &'static str,
    /// The property.
    pub title: &'static str,
    /// The disk; empty for the machine.
    pub subject: String,
    /// Why.
    pub reason: String,
}

impl Diagnosis {
    /// Findings above the severity of a hint.
    pub fn problems(&self) -> impl Iterator<Item = &Diagnosed> {
        self.findings.iter().filter(|found| found.finding.severity >= Severity::Warning)
    }

    /// Whether there is a warning or an error.
    #[must_use]
    pub fn has_problems(&self) -> bool {
        let is_problem = |finding: &Finding| finding.severity >= Severity::Warning;
        self.problems().next().is_some() || self.topology.iter().any(is_problem)
    }

    /// The changes that fathom may make.
    #[must_use]
    pub fn changes(&self) -> Vec<SettingChange> {
        self.findings.iter().filter_map(|found| found.change.clone()).collect()
    }

    fn add(
        &mut self,
        rule: &Rule,
        check: &Inspected,
        disk: Option<&DiskInspection>,
        answer: Answer,
    ) {
        let (id, title) = (rule.id, check.title);
        let subject = disk.map_or(String::new(), |disk| disk.device.name.clone());
        match answer {
            Ok(None) => {}
            Ok(Some(Judged { found, wanted: None, .. })) => {
                self.good.push(Passed { check: id, title, subject, found });
            }
            Ok(Some(Judged { found, wanted: Some(wanted), severity })) => {
                let severity = severity.unwrap_or(rule.severity);
                let clause = check.says.replace("FOUND", &found).replace("WANTED", &wanted);
                let finding = finding(rule, check, disk, &clause, [&found, &wanted]);
                let finding = Finding { severity, ..finding };
                let change = check.fix.map(|setting| change(setting, &subject, &wanted));
                let (title, why) = (title.to_string(), check.why.to_string());
                self.findings.push(Diagnosed {
                    title,
                    subject,
                    found,
                    wanted,
                    clause,
                    effect: rule.meaning,
                    why,
                    change,
                    finding,
                });
            }
            Err(reason) => self.not_checked.push(NotChecked { check: id, title, subject, reason }),
        }
    }
}

/// Judges a machine and the disks that were inspected.
#[must_use]
pub fn diagnose(host: &Host, inspection: &Inspection) -> Diagnosis {
    let files = &inspection.host;
    let machine = Machine { host, files, daemons: &inspection.daemons };
    let mut diagnosis = Diagnosis::default();
    if let Some(reason) = files.missing.get(DISKS) {
        diagnosis.not_checked.push(NotChecked {
            check: "disks",
            title: "disks",
            subject: String::new(),
            reason: format!("{DISKS}: {reason}"),
        });
    }
    for rule in CHECKS {
        for check in rule.checks {
            let Check::Inspection(check) = check else { continue };
            match check.judge {
                On::Machine(judge) => diagnosis.add(rule, check, None, judge(&machine)),
                On::Disk(judge) => {
                    for seen in &inspection.disks {
                        let answer = judge(&Disk { machine, seen, files: &seen.files });
                        diagnosis.add(rule, check, Some(seen), answer);
                    }
                }
            }
        }
    }
    diagnosis.findings.sort_by_key(|found| Reverse(found.finding.severity));
    diagnosis
}

/// Ids of the checks with problems that matter to a run with these facts.
#[must_use]
pub fn that_matter(facts: &Facts) -> Vec<String> {
    let Some(inspection) = &facts.inspection else { return Vec::new() };
    let mut ids: Vec<String> = Vec::new();
    for found in diagnose(&facts.host, inspection).problems() {
        if !ids.contains(&found.finding.rule) {
            ids.push(found.finding.rule.clone());
        }
    }
    ids
}

/// The change that gives a setting the recommended value.
fn change(setting: Setting, disk: &str, wanted: &str) -> SettingChange {
    let target = if setting.scope() == Scope::Disk { disk } else { "" };
    SettingChange { setting, target: target.to_string(), value: wanted.to_string() }
}

fn finding(
    rule: &Rule,
    check: &Inspected,
    disk: Option<&DiskInspection>,
    clause: &str,
    [found, wanted]: [&str; 2],
) -> Finding {
    let name = disk.map_or("", |disk| disk.device.name.as_str());
    let path = match check.reads.strip_prefix("queue/") {
        Some(file) => format!("/sys/block/{}/queue/{file}", name.replace('/', "!")),
        None => check.reads.to_string(),
    };
    let controller = disk.and_then(|disk| disk.nvme.as_ref()).map_or("", |nvme| &nvme.controller);
    let command = rule.remedy.replace("DISK", name).replace("CONTROLLER", controller);
    let command = command.replace("WANTED", wanted).replace("FOUND", found);
    let clause = if name.is_empty() { sentence(clause) } else { format!("{name}: {clause}") };
    let evidence =
        vec![Evidence::text("found", found).with_source(&path), Evidence::text("wanted", wanted)];
    let claim = Claim::new(format!("{clause}. {}", rule.meaning), evidence).remedy(command);
    let subject = if name.is_empty() { Subject::Machine } else { Subject::device(name) };
    rule.finding(claim.about(subject))
}
