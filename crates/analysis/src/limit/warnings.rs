//! What to mind when reading a result: rules that look at the record alone.

use super::outcome::{BlockLimit, Point};
use super::record::{Conditions, LimitRecord};
use super::verdict::percent;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::finding::{Finding, Severity};
use fathom_model::units;

/// A file with less than this share allocated is sparse.
const ALLOCATED_MIN: f64 = 0.95;
/// With less than this share of the bytes coming from the disk, something else answered.
const FROM_DISK_MIN: f64 = 0.5;
/// With less than this share of the depth in flight, the depth was not reached.
const IN_FLIGHT_MIN: f64 = 0.5;
/// Other programs, or a hypervisor, that take this share of the processors.
const FOREIGN: f64 = 0.10;
const STEAL: f64 = 0.05;
/// Above this share of the tool's own ceiling the tool is a part of what was measured.
const OWN_PART: f64 = 0.5;
/// A peak that is not known better than this is noisy.
const NOISY: f64 = 0.05;
/// Smaller than this may fit into a device's own cache.
const SMALL_BYTES: u64 = 1 << 30;

/// All findings about a search, worst first.
#[must_use]
pub fn findings(record: &LimitRecord) -> Vec<Finding> {
    let mut found = Vec::new();
    let targets = record.facts.targets.iter().zip(&record.conditions).zip(&record.report.targets);
    for ((facts, conditions), limit) in targets {
        found.extend(about_target(&limit.name, facts, conditions));
        for block in &limit.blocks {
            found.extend(about_errors(&limit.name, block));
            if let Some(peak) = &block.peak {
                found.extend(about_peak(facts, &limit.name, block, peak));
            }
        }
    }
    found.extend(shared_disk(&record.facts.targets));
    found.extend(about_machine(record));
    found.sort_by_key(|f| std::cmp::Reverse(f.severity));
    found
}

fn finding(rule: &str, severity: Severity, summary: String, next: Option<&str>) -> Finding {
    Finding {
        rule: rule.to_string(),
        severity,
        summary,
        evidence: Vec::new(),
        next_step: next.map(str::to_string),
    }
}

fn is_sparse(facts: &TargetFacts) -> bool {
    facts.kind == TargetKind::File
        && (facts.allocated_bytes as f64) < ALLOCATED_MIN * facts.size_bytes as f64
}

fn about_target(path: &str, facts: &TargetFacts, conditions: &Conditions) -> Vec<Finding> {
    let mut found = Vec::new();
    if is_sparse(facts) {
        found.push(finding(
            "sparse-target",
            Severity::Warning,
            format!(
                "{path} is sparse ({} of {} allocated): reads of its holes never reach a disk, so its ceilings \
                 are the kernel's",
                units::bytes(facts.allocated_bytes),
                units::bytes(facts.size_bytes)
            ),
            Some("name a file that is filled with data, or a block device"),
        ));
    }
    if !conditions.direct {
        found.push(finding(
            "buffered",
            Severity::Warning,
            format!("{path} was read through the page cache: much of this is the speed of memory"),
            Some("use a file system that supports O_DIRECT"),
        ));
    }
    if facts.size_bytes < SMALL_BYTES {
        found.push(finding(
            "small-target",
            Severity::Info,
            format!(
                "{path} is only {}: a device's own cache may hold all of it",
                units::bytes(facts.size_bytes)
            ),
            conditions.scratch.then_some("give a greater --size"),
        ));
    }
    found.extend(virtual_disk(path, facts));
    found
}

fn virtual_disk(path: &str, facts: &TargetFacts) -> Option<Finding> {
    let device = facts.device.as_ref()?;
    let model = device.model.clone().unwrap_or_default();
    let hypervisors = ["QEMU", "VMware", "Virtual", "VBOX", "Amazon", "Google", "Msft"];
    let is_virtual = device.name.starts_with("vd")
        || device.name.starts_with("xvd")
        || hypervisors.iter().any(|h| model.contains(h));
    is_virtual.then(|| {
        finding(
            "virtual-disk",
            Severity::Info,
            format!(
                "{} is on {}, a virtual disk: its limit may be a quota, and others may share what is below it",
                path, device.name
            ),
            None,
        )
    })
}

fn about_errors(name: &str, block: &BlockLimit) -> Option<Finding> {
    let bad: Vec<_> = block.problems.iter().filter(|p| p.errors > 0 || p.short_ios > 0).collect();
    let first = bad.first()?;
    let errors: u64 = bad.iter().map(|p| p.errors).fold(0, u64::saturating_add);
    let short: u64 = bad.iter().map(|p| p.short_ios).fold(0, u64::saturating_add);
    let mut found = finding(
        "io-errors",
        Severity::Error,
        format!(
            "{name}: {errors} I/Os of {} failed and {short} were short ({}); windows with them do not count",
            units::bytes(block.block_bytes),
            first.message
        ),
        Some("look into the kernel's log (dmesg)"),
    );
    found.evidence = bad.iter().map(|p| format!("{}: {} failed", p.setting, p.errors)).collect();
    Some(found)
}

fn about_peak(facts: &TargetFacts, name: &str, block: &BlockLimit, peak: &Point) -> Vec<Finding> {
    let mut found = Vec::new();
    let what = format!("{name}, {} reads", units::bytes(block.block_bytes));
    if let Some(share) = peak.from_disk.filter(|s| *s < FROM_DISK_MIN && !is_sparse(facts)) {
        found.push(finding(
            "not-from-disk",
            Severity::Warning,
            format!(
                "{what}: only {} of the bytes came from the disk; a cache or a layer above it gave the rest",
                percent(share)
            ),
            None,
        ));
    }
    let asked = peak.setting().in_flight() as f64;
    if peak.in_flight < IN_FLIGHT_MIN * asked && peak.iops.mean > 0.0 {
        found.push(finding(
            "depth-not-reached",
            Severity::Warning,
            format!(
                "{what}: {asked} in flight were asked for, but only {:.1} were",
                peak.in_flight
            ),
            None,
        ));
    }
    if let Some(spread) = peak.iops.relative().filter(|r| *r > NOISY) {
        found.push(finding(
            "noisy",
            Severity::Warning,
            format!("{what}: the peak is known to ±{} only", percent(spread)),
            Some("make the machine quiet, or give more --time"),
        ));
    }
    if let Some(cpu) = peak.cpu.filter(|c| c.steal >= STEAL) {
        found.push(finding(
            "steal",
            Severity::Warning,
            format!("{what}: the hypervisor took {} of the processors", percent(cpu.steal)),
            None,
        ));
    }
    found
}

/// Targets on the same block device.
fn shared_disk(targets: &[TargetFacts]) -> Vec<Finding> {
    let name = |t: &TargetFacts| t.device.as_ref().map(|d| d.name.clone());
    let mut found = Vec::new();
    for (n, second) in targets.iter().enumerate() {
        let Some(disk) = name(second) else { continue };
        if let Some(first) = targets[..n].iter().find(|t| name(t).as_ref() == Some(&disk)) {
            let text = format!("{} and {} are both on {disk}", first.path, second.path);
            found.push(finding("shared-disk", Severity::Warning, text, None));
        }
    }
    found
}

fn about_machine(record: &LimitRecord) -> Vec<Finding> {
    let report = &record.report;
    let mut found = Vec::new();
    if let Some(idle) = report.idle.filter(|i| i.busy >= FOREIGN) {
        found.push(finding(
            "other-load",
            Severity::Warning,
            format!(
                "other programs used {} of the processors before this search",
                percent(idle.busy)
            ),
            Some("stop them and repeat"),
        ));
    }
    let peaks = report.targets.iter().flat_map(|t| &t.blocks).filter_map(|b| b.peak.as_ref());
    let best = peaks.map(|p| p.iops.mean).fold(0.0, f64::max);
    if let Some(own) =
        report.own.all_cores.filter(|own| own.mean > 0.0 && best >= OWN_PART * own.mean)
    {
        found.push(finding(
            "own-ceiling",
            Severity::Warning,
            format!(
                "the peak of {} is near what the tool itself can do here ({}): a part of the limit is its own",
                units::count(best),
                units::count(own.mean)
            ),
            None,
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::sim::Sim;
    use crate::limit::{Config, Problem, Setting};
    use fathom_model::Facts;
    use fathom_model::facts::DeviceFacts;

    fn record(sim: &mut Sim) -> LimitRecord {
        let config: Config = sim.config(1, 15.0);
        let facts = TargetFacts {
            path: "disk0".into(),
            kind: TargetKind::File,
            size_bytes: 8 << 30,
            allocated_bytes: 8 << 30,
            device: Some(DeviceFacts { name: "nvme0n1".into(), ..DeviceFacts::default() }),
            ..TargetFacts::default()
        };
        LimitRecord {
            record_version: 1,
            fathom_version: String::new(),
            command: Vec::new(),
            started_unix_ns: 0,
            facts: Facts { targets: vec![facts], ..Facts::default() },
            config,
            conditions: vec![Conditions { direct: true, scratch: false }],
            interrupted: None,
            report: sim.run(1, 15.0).0,
            costs: Vec::new(),
            costs_missing: None,
            findings: Vec::new(),
        }
    }

    fn rules(record: &LimitRecord) -> Vec<String> {
        findings(record).into_iter().map(|f| f.rule).collect()
    }

    #[test]
    fn a_good_disk_on_a_quiet_machine_has_no_findings() {
        let record = record(&mut Sim::default());
        assert_eq!(rules(&record), Vec::<String>::new());
        assert!(record.is_complete());
    }

    #[test]
    fn what_is_not_a_disk_is_said() {
        let mut r = record(&mut Sim::default());
        r.facts.targets[0].allocated_bytes = 4096;
        r.conditions[0].direct = false;
        assert_eq!(rules(&r), ["sparse-target", "buffered"]);
        r.facts.targets[0].allocated_bytes = r.facts.targets[0].size_bytes;
        r.conditions[0].direct = true;
        for block in &mut r.report.targets[0].blocks {
            block.peak.as_mut().unwrap().from_disk = Some(0.01);
        }
        assert_eq!(rules(&r), ["not-from-disk", "not-from-disk"]);
    }

    #[test]
    fn small_and_virtual_disks_are_named() {
        let mut r = record(&mut Sim::default());
        (r.facts.targets[0].size_bytes, r.facts.targets[0].allocated_bytes) = (1 << 20, 1 << 20);
        r.facts.targets[0].device.as_mut().unwrap().name = "vda".into();
        assert_eq!(rules(&r), ["small-target", "virtual-disk"]);
    }

    #[test]
    fn errors_come_first_and_make_it_incomplete() {
        let mut r = record(&mut Sim { background: 0.2, ..Sim::default() });
        let problem =
            Problem { setting: Setting::ONE, errors: 3, short_ios: 0, message: "EIO".into() };
        r.report.targets[0].blocks[0].problems.push(problem);
        assert_eq!(rules(&r), ["io-errors", "other-load"]);
        assert!(!r.is_complete());
    }

    #[test]
    fn noise_and_the_tools_own_part_are_said() {
        let mut sim = Sim { device_iops: 6e7, cpu_ns: 100.0, noise: 0.3, ..Sim::default() };
        sim.device_bandwidth = 1e13;
        let found = rules(&record(&mut sim));
        assert!(found.contains(&"own-ceiling".to_string()), "{found:?}");
        assert!(found.contains(&"noisy".to_string()), "{found:?}");
    }

    #[test]
    fn two_targets_on_one_disk_are_said() {
        let mut r = record(&mut Sim::default());
        let mut second = r.facts.targets[0].clone();
        second.path = "disk1".into();
        r.facts.targets.push(second);
        assert_eq!(rules(&r), ["shared-disk"]);
    }
}
