//! The checks of `fathom doctor`: each reads one property of the machine or of a disk and states the recommended value,
//! the workloads it matters to, the effect of other values, and the remedy. docs/doctor.md is generated from them.

mod hints;
mod problems;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

use super::jobs::sentence;
use super::{Check, Claim, Rule};
use fathom_model::facts::{DeviceFacts, Facts, Host};
use fathom_model::finding::{Evidence, Finding, Severity, Subject};
use fathom_model::inspection::{
    DiskInspection, Inspection, MountedFileSystem, NvmeNamespace, NvmeReport, NvmeSmart, Readings,
};
use fathom_model::list;
use fathom_model::setting::{Setting, SettingChange, SettingScope};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

const DISKS: &str = "/sys/block";
/// Where it lists NUMA nodes, and mounts.
const NODES: &str = "/sys/devices/system/node/online";
const MOUNTS: &str = "/proc/self/mountinfo";
/// Where this process's CPUs and capabilities come from.
const STATUS: &str = "/proc/self/status";
/// I/Os of this size should not be split.
const LARGE_KB: u64 = 1024;
/// The control groups of this process.
const CGROUP: &str = "cgroup";

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
    /// The setting through which fathom may change it, if any.
    pub fix: &'static [Setting],
    /// What it judges.
    pub judge: On,
}

#[derive(Clone, Copy)]
pub(super) enum On {
    Machine(fn(&Machine) -> Answer),
    Disk(fn(&Disk) -> Answer),
}

#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    host: &'a Host,
    files: &'a Readings,
    daemons: &'a [String],
}

pub(super) struct Disk<'a> {
    machine: Machine<'a>,
    seen: &'a DiskInspection,
    files: &'a Readings,
}

pub(super) type Answer = Result<CheckResult, Skip>;

pub(super) struct CheckResult {
    found: String,
    /// The recommended value; `None` if it has it.
    wanted: Option<String>,
    severity: Option<Severity>,
}

/// Why a check was not made.
pub(super) enum Skip {
    NotApplicable,
    Unread(String),
}

impl<T: Into<String>> From<T> for Skip {
    fn from(reason: T) -> Self {
        Self::Unread(reason.into())
    }
}

/// The CPUs or nodes of a list; none if it cannot be parsed.
fn cpus(list: &str) -> Vec<u32> {
    fathom_model::cpus::parse(list).unwrap_or_default()
}

/// A property that has a recommended value.
fn good(found: impl ToString) -> Answer {
    Ok(CheckResult { found: found.to_string(), wanted: None, severity: None })
}

/// A property for which `wanted` is recommended.
fn bad(found: impl ToString, wanted: impl ToString) -> Answer {
    Ok(CheckResult { found: found.to_string(), wanted: Some(wanted.to_string()), severity: None })
}

/// The same with another severity than the rule's.
fn bad_as(severity: Severity, found: impl ToString, wanted: impl ToString) -> Answer {
    Ok(CheckResult { severity: Some(severity), ..bad(found, wanted)? })
}

/// [`bad`] if `is_bad`, [`good`] otherwise.
fn verdict(is_bad: bool, found: impl ToString, wanted: impl ToString) -> Answer {
    if is_bad { bad(found, wanted) } else { good(found) }
}

/// The same for two values: the one that is bad, and the other.
fn either(is_bad: bool, values: [&str; 2], wanted: &str) -> Answer {
    verdict(is_bad, values[usize::from(!is_bad)], wanted)
}

/// A number that should be at least `least`.
fn below(found: u64, least: u64, wanted: impl ToString) -> Answer {
    verdict(found < least, found, wanted)
}

/// A number that should be at most `most`.
fn above(found: u64, most: u64, wanted: &str) -> Answer {
    verdict(found > most, found, wanted)
}

fn text(files: &Readings, path: &str, is_bad: fn(&str) -> bool, wanted: &str) -> Answer {
    let found = files.text(path)?;
    verdict(is_bad(found), found, wanted)
}

/// The same for a file that not every machine or disk has.
fn optional(files: &Readings, path: &str, is_bad: fn(&str) -> bool, wanted: &str) -> Answer {
    maybe(files, path)?;
    text(files, path, is_bad, wanted)
}

/// The text of such a file.
fn maybe<'a>(files: &'a Readings, path: &str) -> Result<&'a str, Skip> {
    files.text(path).map_err(|_| Skip::NotApplicable)
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> &str {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or(text, |(word, _)| word)
}

/// The mounts of a disk; reports the first bad one.
fn mounted(disk: &Disk, is_bad: fn(&MountedFileSystem) -> bool, wanted: &str) -> Answer {
    disk.machine.read(MOUNTS)?;
    let mounts = &disk.seen.mounts;
    match mounts.iter().find(|mount| is_bad(mount)) {
        _ if mounts.is_empty() => Err(Skip::NotApplicable),
        Some(mount) => bad(&mount.point, wanted),
        None => good(wanted),
    }
}

fn has(mount: &MountedFileSystem, option: &str) -> bool {
    mount.options.split(',').any(|have| have == option)
}

impl Machine<'_> {
    /// That a source of values was read, even if it held none.
    fn read(&self, source: &str) -> Result<(), Skip> {
        match self.files.missing.get(source) {
            Some(reason) if reason.starts_with(source) => Err(reason.clone().into()),
            Some(reason) => Err(format!("{source}: {reason}").into()),
            None => Ok(()),
        }
    }

    /// Whether this process has root's capabilities.
    fn is_privileged(&self) -> Result<bool, Skip> {
        self.read(STATUS).map(|()| self.host.privileged)
    }

    /// Limits in files of control groups, of which there should be none.
    fn limits(&self, files: &[&str]) -> Answer {
        let limits: Vec<&str> =
            files.iter().filter_map(|file| self.files.text(file).ok()).collect();
        if !limits.is_empty() {
            return bad(limits.join("; "), "none");
        }
        self.read(CGROUP).and_then(|()| good("none"))
    }

    fn has_nodes(&self) -> bool {
        self.files.text(NODES).is_ok_and(|nodes| cpus(nodes).len() > 1)
    }
}

impl<'a> Disk<'a> {
    /// Whether it has a request queue, to which most settings in `queue/` apply; not so for zram, md, most dm and heads of
    /// NVMe multipath, which pass I/Os on as they are.
    fn has_requests(&self) -> bool {
        self.seen.device.hardware_queues.is_some() || self.files.text("mq/0/nr_tags").is_ok()
    }

    /// Its files, if it has a request queue.
    fn queue(&self) -> Result<&'a Readings, Skip> {
        self.has_requests().then_some(self.files).ok_or(Skip::NotApplicable)
    }

    /// Its files, if the machine has several NUMA nodes.
    fn in_node(&self) -> Result<&'a Readings, Skip> {
        self.machine.has_nodes().then_some(self.files).ok_or(Skip::NotApplicable)
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

    fn nvme(&self) -> Result<&'a NvmeReport, Skip> {
        let reason = || self.seen.nvme_missing.clone().map_or(Skip::NotApplicable, Skip::Unread);
        self.seen.nvme.as_ref().ok_or_else(reason)
    }

    fn smart(&self) -> Result<&'a NvmeSmart, Skip> {
        Ok(self.nvme()?.smart.as_ref().ok_or("the controller has no health log")?)
    }

    fn namespace(&self) -> Result<&'a NvmeNamespace, Skip> {
        Ok(self.nvme()?.namespace.as_ref().ok_or("the namespace was not identified")?)
    }
}

/// Checks as rules. `case` is a machine on which one holds, `near_miss` one on which it does not.
macro_rules! checks {
    ($($on:ident $severity:ident $id:literal, $title:literal, $reads:literal {
        says: $says:literal, good: $good:literal, cost: $cost:literal, why: $why:literal,
        change: $change:literal, $(fix: $fix:ident,)?
        judge: $judge:expr, case: $case:expr, near_miss: $near_miss:expr,
    })*) => { &[$(Rule {
        id: $id,
        limits: "",
        class: fathom_model::finding::Class::Advice,
        severity: Severity::$severity,
        meaning: $cost,
        threshold: || $good.to_string(),
        remedy: $change,
        supersedes: &[],
        confirmation: None,
        checks: &[Check::Inspection(Inspected {
            title: $title,
            reads: $reads,
            says: $says,
            why: $why,
            fix: &[$(Setting::$fix)?],
            judge: On::$on($judge),
        })],
        #[cfg(test)]
        cases: &[crate::rules::testing::Case::Inspection { holds: $case, near_miss: $near_miss }],
    }),*] };
}
use checks;

/// All checks. Findings of equal severity are in this order.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    problems::PROBLEMS.iter().chain(hints::HINTS)
}

/// What `fathom doctor` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The machine.
    pub host: Host,
    /// The disks.
    pub disks: Vec<DeviceFacts>,
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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
    pub fn has_problems(&self) -> bool {
        let is_problem = |finding: &Finding| finding.severity >= Severity::Warning;
        self.problems().next().is_some() || self.topology.iter().any(is_problem)
    }

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
            Err(Skip::NotApplicable) => {}
            Ok(CheckResult { found, wanted: None, .. }) => {
                self.good.push(Passed { check: id, title, subject, found });
            }
            Ok(CheckResult { found, wanted: Some(wanted), severity }) => {
                let severity = severity.unwrap_or(rule.severity);
                let clause = check.says.replace("FOUND", &found).replace("WANTED", &wanted);
                let finding = finding(rule, check, disk, &clause, [&found, &wanted]);
                let finding = Finding { severity, ..finding };
                let change = check.fix.first().map(|setting| change(*setting, &subject, &wanted));
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
            Err(Skip::Unread(reason)) => {
                self.not_checked.push(NotChecked { check: id, title, subject, reason })
            }
        }
    }
}

/// Judges a machine and the disks that were inspected.
pub fn diagnose(host: &Host, inspection: &Inspection) -> Diagnosis {
    let files = &inspection.host;
    let machine = Machine { host, files, daemons: &inspection.daemons };
    let disks = inspection.disks.iter().map(|disk| disk.device.clone()).collect();
    let mut diagnosis = Diagnosis { host: host.clone(), disks, ..Diagnosis::default() };
    if let Err(Skip::Unread(reason)) = machine.read(DISKS) {
        let (check, title, subject) = ("disks", "disks", String::new());
        diagnosis.not_checked.push(NotChecked { check, title, subject, reason });
    }
    for rule in all() {
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
pub fn relevant_checks(facts: &Facts) -> Vec<String> {
    let Some(inspection) = &facts.inspection else { return Vec::new() };
    let diagnosis = diagnose(&facts.host, inspection);
    list::distinct(diagnosis.problems().map(|found| found.finding.rule.clone()))
}

/// The change that gives a setting the recommended value.
fn change(setting: Setting, disk: &str, wanted: &str) -> SettingChange {
    let target = if setting.scope() == SettingScope::Disk { disk } else { "" };
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
