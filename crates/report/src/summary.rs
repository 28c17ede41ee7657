//! The summary of a run that a person reads in ten seconds: bad news, then figures, then cost.

mod cost;
mod figures;
mod table;

use fathom_analysis::derive::{self, Group};
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::{BlockSizes, JobPlan, Mix, Order};
use fathom_model::record::{DiskRecord, RunRecord};
use fathom_model::{Dir, escape, units};
use table::Style as _;
pub(crate) use table::table;

/// Groups of this many jobs at most are shown job by job as well.
const JOBS_SHOWN: usize = 8;

/// How the text is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colours.
    pub color: bool,
    /// Columns that a line may have; longer sentences are wrapped.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 100 }
    }
}

/// Renders `record` as a summary, in lines that end with a line break.
#[must_use]
pub fn render(record: &RunRecord, style: Style) -> String {
    let mut out = String::new();
    for finding in &record.findings {
        news(&mut out, finding, style);
    }
    if !record.findings.is_empty() {
        out.push('\n');
    }
    let groups = shown_groups(record);
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let disks = if groups.len() == 1 { record.disks.as_slice() } else { &[] };
        section(&mut out, record, group, disks, style);
    }
    together(&mut out, record, &groups, style);
    if groups.len() > 1 && !record.disks.is_empty() {
        out.push('\n');
    }
    cost::disks(&mut out, record, style);
    out
}

/// What groups that worked at the same time did in all.
fn together(out: &mut String, record: &RunRecord, groups: &[Group], style: Style) {
    let mut waves: Vec<u32> = groups.iter().map(|group| group.plan.wave).collect();
    waves.dedup();
    for wave in waves {
        let members: Vec<&Group> = groups.iter().filter(|g| g.plan.wave == wave).collect();
        let [first, _, ..] = members.as_slice() else { continue };
        let jobs = members.iter().flat_map(|group| group.jobs.clone()).collect();
        let all = derive::group(record, first.plan, jobs).record;
        let iops = derive::per_second(derive::ios(&all), all.runtime_ns);
        let bytes = derive::per_second(derive::bytes(&all), all.runtime_ns);
        let names: Vec<&str> = members.iter().map(|group| group.plan.name.as_str()).collect();
        let text = format!(
            "{} IOPS, {} ({})",
            units::count(iops),
            figures::bandwidth(bytes, &first.plan.show),
            escape::text(&names.join(" + "))
        );
        out.push_str(&format!("\n{}  {text}\n", style.bold("together")));
    }
}

/// One finding: what it says, the figures, and what to do.
fn news(out: &mut String, finding: &Finding, style: Style) {
    let word = match finding.severity {
        Severity::Error => style.red("ERROR   "),
        Severity::Warning => style.yellow("WARNING "),
        Severity::Info => style.dim("note    "),
    };
    let mut text = finding.summary.clone();
    if !finding.evidence.is_empty() && finding.severity != Severity::Info {
        text.push_str(&format!(" ({})", finding.evidence.join("; ")));
    }
    if let Some(next) = &finding.next_step {
        text.push_str(&format!(" → {next}"));
    }
    for (index, line) in wrap(&text, style.width.saturating_sub(8)).iter().enumerate() {
        let lead = if index == 0 { word.as_str() } else { "        " };
        out.push_str(&format!("{lead}{line}\n"));
    }
}

/// `text` in lines of at most `width` letters, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(escape::text) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word.into_owned()),
        }
    }
    lines
}

/// What is shown as one: the clones of a section, or what `group_reporting` puts together.
fn shown_groups(record: &RunRecord) -> Vec<Group<'_>> {
    let mut shown: Vec<Group> = Vec::new();
    for group in derive::groups(record) {
        let (plan, jobs) = (group.plan, &group.jobs);
        match shown.last_mut() {
            Some(last)
                if last.plan.name == plan.name && plan.clone > 0 && !plan.group_reporting =>
            {
                last.jobs.extend(jobs);
            }
            _ => shown.push(group),
        }
    }
    // Merged once: to do so for each clone takes time that grows with the square of their number.
    shown.into_iter().map(|group| derive::group(record, group.plan, group.jobs)).collect()
}

/// All about one group.
fn section(
    out: &mut String,
    record: &RunRecord,
    group: &Group,
    disks: &[DiskRecord],
    style: Style,
) {
    out.push_str(&heading(record, group, style));
    if let Some(description) = &group.plan.description {
        out.push_str(&format!("{}\n", style.dim(description)));
    }
    if group.record.runtime_ns == 0 {
        return;
    }
    figures::figures(out, group, style);
    if figures::differ(record, group) {
        match group.jobs.len() {
            0..=JOBS_SHOWN => figures::each_job(out, record, group, style),
            _ => figures::extremes(out, record, group),
        }
    }
    cost::cost(out, record, group, disks, style);
}

/// `a  randread 4 KiB · io_uring depth 32 · 3 jobs · direct · /dev/nvme0n1 · 10 s`
fn heading(record: &RunRecord, group: &Group, style: Style) -> String {
    let plan = group.plan;
    let jobs = group.jobs.len();
    let engine = plan.engine.name();
    let mut parts = vec![
        format!("{} {}", work(plan), sizes(plan)),
        match plan.engine.is_synchronous() {
            true => engine.to_string(),
            false => format!("{engine}, depth {}", plan.depth),
        },
        if jobs == 1 { "1 job".to_string() } else { format!("{jobs} jobs") },
        if plan.direct { "direct" } else { "buffered" }.to_string(),
    ];
    parts.extend(targets(record, group));
    parts.push(match group.record.runtime_ns {
        _ if plan.until.ios == Some(0) => "laid out, no I/O was asked".to_string(),
        0 => style.red("did not start"),
        ns => units::time(ns as f64),
    });
    format!("{}  {}\n", style.bold(&plan.name), parts.join(" · "))
}

fn work(plan: &JobPlan) -> String {
    let order = match plan.access.order {
        Order::Random { .. } => "random",
        Order::Sequential { .. } => "sequential",
    };
    match plan.access.mix {
        Mix::Only(dir) => format!("{order} {dir}"),
        Mix::ReadWrite { read_percent } => format!("{order} read/write {read_percent}%"),
    }
}

fn sizes(plan: &JobPlan) -> String {
    let text = |dir: Dir| match &plan.access.block_sizes[dir] {
        BlockSizes::Fixed(size) => units::bytes(*size),
        other => format!("{} to {}", units::bytes(other.min()), units::bytes(other.max())),
    };
    let mut all: Vec<String> = plan.used_dirs().map(text).collect();
    all.dedup();
    all.join(" / ")
}

/// The targets, shortly; none for engines without.
fn targets(record: &RunRecord, group: &Group) -> Option<String> {
    let plans = group.jobs.iter().filter_map(|index| record.plan.jobs.get(*index));
    let mut targets: Vec<usize> = plans.flat_map(|p| &p.regions).map(|r| r.target).collect();
    targets.sort_unstable();
    targets.dedup();
    let first = escape::text(&record.plan.targets.get(*targets.first()?)?.path);
    Some(match targets.len() {
        1 => first.into_owned(),
        n => format!("{first} and {} more", n - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible", 4), ["incomprehensible"]);
        assert!(wrap("", 10).is_empty());
    }
}
