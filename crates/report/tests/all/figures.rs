//! The tables of docs/figures.md are those of the code.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::same_as_file;
use fathom_analysis::metrics::{
    DISK, FigureGroup, JOB, LAYER, METRICS, MetricRow, PROCESS, RING, THREADS,
};
use std::path::PathBuf;

const MARK: &str = "<!-- figures: ";

fn row<F>(metric: &MetricRow<F>) -> (FigureGroup, String) {
    let MetricRow { id, label, group, unit, source, .. } = metric;
    let title = match group {
        FigureGroup::Other(name) => format!("{name}: {}", metric.title),
        _ => metric.title.to_string(),
    };
    let label = if label.is_empty() { String::new() } else { format!("`{label}`") };
    (*group, format!("| {title} | {label} | `{id}` | {} | {source} |\n", unit.name()))
}

#[test]
fn documented_figures_are_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let machine = METRICS.iter().map(row).chain(DISK.iter().map(row));
    let others = RING.iter().map(row).chain(LAYER.iter().map(row)).chain(THREADS.iter().map(row));
    let all: Vec<_> =
        machine.chain(others).chain(PROCESS.iter().map(row)).chain(JOB.iter().map(row)).collect();
    let is_marked = |group: FigureGroup| text.contains(&format!("{MARK}{} -->", group.title()));
    let table = |name: &str| {
        let wanted = |group: FigureGroup| match name {
            "others" => !is_marked(group),
            name => group.title() == name,
        };
        let rows: String =
            all.iter().filter(|(of, _)| wanted(*of)).map(|(_, row)| &**row).collect();
        let head =
            "| figure | in `top` | name | unit | definition and source |\n|---|---|---|---|---|\n";
        if rows.is_empty() { String::new() } else { format!("{head}{rows}") }
    };
    let mut parts = text.split(MARK);
    let mut made = parts.next().unwrap().to_string();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").unwrap();
        let old = rest.lines().take_while(|line| line.starts_with('|')).map(|line| line.len() + 1);
        made += &format!("{MARK}{name} -->\n{}{}", table(name), &rest[old.sum::<usize>()..]);
    }
    same_as_file(&path, &made);
}
