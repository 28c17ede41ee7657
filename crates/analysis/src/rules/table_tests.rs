//! docs/rules.md holds the documentation of all rules.

use super::{Check, Confirmation, RULES, Rule};
use fathom_model::finding::{Class, Severity};
use std::path::Path;

/// All rules as Markdown tables, one for each class.
fn table() -> String {
    let classes = [
        (Class::Validity, "Class `validity`: can the figures be trusted?"),
        (Class::Limiter, "Class `limiter`: what limited throughput"),
        (Class::Advice, "Class `advice`: what could be set up better"),
    ];
    let mut text = String::new();
    for (class, title) in classes {
        let (more, rule) = match class {
            Class::Limiter => (" confirmation test |", "---|"),
            _ => ("", ""),
        };
        text += &format!(
            "\n## {title}\n\n| id | severity | applies to | meaning | threshold | remedy |{more}\n\
             |---|---|---|---|---|---|{rule}\n"
        );
        RULES.iter().filter(|rule| rule.class == class).for_each(|rule| text += &row(rule));
    }
    text
}

fn row(rule: &Rule) -> String {
    let severity = match rule.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let all = rule.checks.iter().flat_map(|check| command(check).split(", "));
    let is_inconclusive = rule.id == super::limiters::INCONCLUSIVE.id;
    let first: &[&str] = if is_inconclusive { &["run", "watch"] } else { &[] };
    let mut commands: Vec<&str> = Vec::new();
    for command in first.iter().copied().chain(all) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    let mut cells = vec![
        format!("`{}`", rule.id),
        severity.into(),
        commands.join(", "),
        rule.meaning.into(),
        (rule.threshold)(),
        rule.remedy.into(),
    ];
    if rule.class == Class::Limiter {
        cells.push(Confirmation::of(rule).map_or_else(String::new, Confirmation::documented));
    }
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn command(check: &Check) -> &'static str {
    match check {
        Check::Run(_) => "run",
        Check::Target(_) | Check::Limit(_) | Check::Setting(..) => "limit",
        Check::Inspection(_) => "doctor",
        Check::Experiment(_) | Check::Variant(_) => "try, sweep",
        Check::View(_) => "run, watch",
        Check::Topology(_) => "topo",
        Check::Comparison(_) => "compare",
    }
}

const BEGIN: &str = "<!-- rules: begin; made by FATHOM_UPDATE_DOCS=1 cargo test -p fathom-analysis the_document -->\n";
const END: &str = "<!-- rules: end -->\n";

/// With `FATHOM_UPDATE_DOCS=1` the document is brought up to date instead.
#[test]
fn the_document_holds_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("the marker before the rules");
    let (rules, tail) = rest.split_once(END).expect("the marker behind the rules");
    let current = format!("{}\n", table());
    if std::env::var_os("FATHOM_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{current}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        rules == current,
        "docs/rules.md differs from the registry; run\n  \
         FATHOM_UPDATE_DOCS=1 cargo test -p fathom-analysis the_document"
    );
}
