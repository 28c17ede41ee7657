//! docs/doctor.md holds the documentation of all checks.

use super::{On, all};
use crate::rules::jobs::sentence;
use crate::rules::{Check, Rule};
use fathom_model::finding::Severity;
use std::path::Path;

const BEGIN: &str = "<!-- checks: begin; made by FATHOM_UPDATE_DOCS=1 cargo test -p fathom-analysis the_document -->\n";
const END: &str = "<!-- checks: end -->\n";

/// All checks, each as a section: those of disks, then those of the machine.
fn sections() -> String {
    let mut text = String::new();
    for (title, of_disk) in [("Checks of each disk", true), ("Checks of the machine", false)] {
        text += &format!("\n## {title}\n");
        text.extend(all().filter_map(|rule| section(rule, of_disk)));
    }
    text
}

fn section(rule: &Rule, of_disk: bool) -> Option<String> {
    let [Check::Inspection(check)] = rule.checks else { return None };
    if matches!(check.judge, On::Disk(_)) != of_disk {
        return None;
    }
    let severity = match rule.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let fix = if !check.fix.is_empty() { " (`--fix` does this)" } else { "" };
    let remedy = match rule.remedy {
        "" => String::new(),
        remedy => format!("* Remedy: {}{fix}\n", escaped(remedy)),
    };
    Some(format!(
        "\n### {}\n\n{}: {}. {}\n\n* Read from: {}\n* Recommended: {}\n{remedy}* Reference: {}\n",
        rule.id,
        sentence(severity),
        check.title,
        escaped(rule.meaning),
        escaped(check.reads),
        escaped(&(rule.threshold)()),
        escaped(check.why),
    ))
}

/// As Markdown shows it unchanged.
fn escaped(text: &str) -> String {
    text.replace('*', "\\*").replace('<', "&lt;")
}

/// With `FATHOM_UPDATE_DOCS=1` the document is brought up to date instead.
#[test]
fn the_document_holds_the_checks() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("the marker before the checks");
    let (checks, tail) = rest.split_once(END).expect("the marker behind the checks");
    let current = format!("{}\n", sections());
    if std::env::var_os("FATHOM_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{current}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        checks == current,
        "docs/doctor.md differs from the checks; run\n  \
         FATHOM_UPDATE_DOCS=1 cargo test -p fathom-analysis the_document"
    );
}
