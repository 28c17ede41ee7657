//! The diagnosis of a machine, worst first, and the line about it in the results of runs.

use crate::doc::{DataColumn, Document, Text, of, plural, text, whole};
use fathom_analysis::rules::{Diagnosed, Diagnosis, NotChecked, relevant_checks};
use fathom_model::finding::Severity;
use fathom_model::{Facts, list};

const DISKS_NAMED: usize = 4;

/// Findings, worst first, each with its value, the recommended value and the command that sets it; then checks that
/// could not be made. With `verbose`, also the mechanisms and the checks that passed.
pub fn doctor(diagnosis: &Diagnosis, verbose: bool) -> Document {
    let mut page = Document::default();
    let levels = [
        (Severity::Error, "errors", "data is at risk, or the device is not working"),
        (Severity::Warning, "warnings", "reduce performance or make figures misleading"),
        (Severity::Info, "hints", "depend on your workload"),
    ];
    for (severity, title, about) in levels {
        let mut body = Document::default();
        let found = diagnosis.findings.iter().filter(|one| one.finding.severity == severity);
        for group in alike(found) {
            entry(&mut body, &group, verbose);
        }
        page.section_if_any(title, about, body);
    }
    let mut topology = Document::default();
    topology.findings(&diagnosis.topology);
    page.section_if_any("topology", "`fathom topo` shows the location", topology);
    not_checked(&mut page, &diagnosis.not_checked);
    passed(&mut page, diagnosis, verbose);
    page
}

fn alike<'a>(findings: impl Iterator<Item = &'a Diagnosed>) -> Vec<Vec<&'a Diagnosed>> {
    let mut groups: Vec<Vec<&Diagnosed>> = Vec::new();
    let key = |one: &Diagnosed| (one.finding.rule.clone(), one.found.clone(), one.wanted.clone());
    for found in findings {
        match groups.iter_mut().find(|group| key(group[0]) == key(found)) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    groups
}

fn entry(body: &mut Document, group: &[&Diagnosed], verbose: bool) {
    let Some(first) = group.first() else { return };
    let disks: Vec<&str> = group.iter().map(|one| one.subject.as_str()).collect();
    let of = match first.subject.as_str() {
        "" => String::new(),
        _ => format!("{}: ", list::few(&disks, DISKS_NAMED)),
    };
    let Diagnosed { clause, effect, finding, .. } = first;
    body.entry(&finding.rule, format!("{of}{clause}"));
    if verbose || finding.severity > Severity::Info {
        body.entry("", *effect);
    }
    if let Some(command) = &finding.next_step {
        let likewise = if group.len() > 1 { " (likewise for the other disks)" } else { "" };
        body.entry("", format!("{command}{likewise}"));
    }
    if verbose {
        body.entry("", format!("why: {}", first.why));
    }
}

fn not_checked(page: &mut Document, missing: &[NotChecked]) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in missing {
        match reasons.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, checks)) if checks.contains(&one.check) => {}
            Some((_, checks)) => checks.push(one.check),
            None => reasons.push((&one.reason, vec![one.check])),
        }
    }
    let mut body = Document::default();
    for (reason, checks) in reasons {
        body.entry("", format!("{reason} ({})", checks.join(", ")));
    }
    page.section_if_any("not checked", Text::default(), body);
}

fn passed(page: &mut Document, diagnosis: &Diagnosis, verbose: bool) {
    if verbose {
        let columns =
            vec![DataColumn::text("passed"), DataColumn::text("disk"), DataColumn::text("value")];
        let row = |one: &fathom_analysis::rules::Passed| -> Vec<Text> {
            vec![one.check.into(), one.subject.as_str().into(), one.found.as_str().into()]
        };
        page.table(columns, diagnosis.good.iter().map(row).collect());
    }
    let findings = diagnosis.findings.len() + diagnosis.topology.len();
    let findings = plural(findings as u64, "finding");
    let checks = plural(diagnosis.good.len() as u64, "check");
    let mut parts = vec![findings, text!(checks, " passed")];
    if !diagnosis.not_checked.is_empty() {
        parts.push(of(whole(diagnosis.not_checked.len() as u64), "not checked"));
    }
    page.paragraph(Text::join(parts, ", "));
}

/// The checks with warnings or errors that matter to a run with these facts.
pub(super) fn doctor_line(page: &mut Document, facts: &Facts) {
    let ids = relevant_checks(facts);
    if ids.is_empty() {
        return;
    }
    let disks = facts.inspection.iter().flat_map(|inspection| &inspection.disks);
    let names: Vec<&str> = disks.map(|disk| disk.device.name.as_str()).collect();
    // A command names all disks or none.
    let names =
        if names.len() > DISKS_NAMED { String::new() } else { format!(" {}", names.join(" ")) };
    page.entry(
        "doctor",
        text!("found ", ids.join(", "), " (details: `fathom doctor", names.trim_end(), "`)"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{self, Style};
    use fathom_analysis::rules::diagnose;
    use fathom_model::facts::{DeviceFacts, Host};
    use fathom_model::inspection::{DiskInspection, Inspection};

    fn facts(disks: &[&str]) -> Facts {
        let disk = |name: &&str| {
            let (name, hardware_queues) = ((*name).into(), Some(1));
            let device = DeviceFacts { name, hardware_queues, ..DeviceFacts::default() };
            let mut disk = DiskInspection { device, ..DiskInspection::default() };
            disk.files.set("queue/scheduler", "none [bfq]");
            disk.files.set("queue/rotational", "0");
            disk.nvme_missing = Some("/dev/nvme0: needs root".into());
            disk
        };
        let disks = disks.iter().map(disk).collect();
        Facts {
            host: Host { load_1min: 3.0, cpus_online: 2, ..Host::default() },
            inspection: Some(Inspection { disks, ..Inspection::default() }),
            ..Facts::default()
        }
    }

    fn page(facts: &Facts, verbose: bool) -> String {
        let diagnosis = diagnose(&facts.host, facts.inspection.as_ref().unwrap());
        render::text(&doctor(&diagnosis, verbose), Style::default())
    }

    #[test]
    fn findings_have_value_wanted_and_command() {
        let text = page(&facts(&["nvme0n1", "nvme1n1"]), false);
        assert!(
            text.contains("nvme0n1, nvme1n1: the I/O scheduler is bfq; none has less overhead"),
            "{text}"
        );
        assert!(text.contains("echo none >/sys/block/nvme0n1/queue/scheduler (likewise"), "{text}");
        assert!(text.contains("load average 3.0 on 2 CPUs: other programs are running"), "{text}");
        assert!(
            text.contains("/dev/nvme0: needs root (nvme-critical-warning, nvme-spare"),
            "{text}"
        );
        assert!(!text.contains("blk_mq_flush_plug_list"), "{text}");
        let verbose = page(&facts(&["nvme0n1"]), true);
        assert!(verbose.contains("blk_mq_flush_plug_list"), "{verbose}");
    }

    #[test]
    fn runs_name_the_checks_and_the_disks() {
        let line = |facts: &Facts| {
            let mut page = Document::default();
            doctor_line(&mut page, facts);
            render::text(&page, Style::default())
        };
        let text = line(&facts(&["nvme0n1"]));
        assert!(text.contains("found scheduler, load (details: fathom doctor nvme0n1)"), "{text}");
        assert!(line(&facts(&["a", "b", "c", "d", "e"])).contains("(details: fathom doctor)\n"));
        assert_eq!(line(&Facts::default()), "");
    }
}
