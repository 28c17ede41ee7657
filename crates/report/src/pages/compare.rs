//! The result of `fathom compare`: the answer, the figures of both sides, the conditions, and everything that differs.

use super::parts;
use crate::calendar::{self, TimeZone};
use crate::doc::{
    Block, DataColumn, Document, Heading, Quantity, QuantityUnit, Text, number, percent, plural,
    text,
};
use crate::figures;
use fathom_analysis::compare::{
    ComparedFigure, ComparedPart, ComparedRun, ComparedSide, Comparison, Difference, FigureVerdict,
    RunConditions,
};
use fathom_analysis::metrics::{FigureUnit, MetricRow};
use fathom_model::finding::Finding;
use fathom_model::list;

/// Runs of a side that are named.
const RUNS_NAMED: usize = 4;
/// With more parts, only the main figure of each is in the table.
const PARTS_WHOLE: usize = 8;
/// Differences of plans in the first sentence.
const PLAN_NAMED: usize = 4;
/// A condition: its name, its value, and how that is shown.
type Condition = (&'static str, fn(&RunConditions) -> Option<f64>, fn(f64) -> Quantity);

pub fn compare(comparison: &Comparison, command: &[String], zone: &TimeZone) -> Document {
    let heading = Heading {
        title: "fathom compare".into(),
        host: String::new(),
        started_unix_ns: 0,
        machine: Text::default(),
        devices: Text::default(),
        command: super::header::command_line(command),
        zone: zone.clone(),
    };
    let mut page = Document::headed(Some(heading));
    plans(&mut page, &comparison.plan);
    let answer = comparison.findings.iter().find(|finding| finding.is_verdict());
    answer.iter().for_each(|finding| answered(&mut page, finding));
    page.findings(&comparison.findings);
    requirements(&mut page, comparison);
    side(&mut page, "before", &comparison.before, zone);
    side(&mut page, "after", &comparison.after, zone);
    if !comparison.earlier.is_empty() {
        let names = list::few(&comparison.earlier, RUNS_NAMED);
        page.entry(
            "variation",
            text!("from ", plural(comparison.earlier.len() as u64, "earlier run"), ": ", names),
        );
    }
    figure_tables(&mut page, &comparison.parts);
    conditions(&mut page, comparison);
    differences(&mut page, comparison);
    page
}

/// What differs in what was asked for, which comes before any figure.
fn plans(page: &mut Document, plan: &[Difference]) {
    if plan.is_empty() {
        return;
    }
    let value =
        |value: &str| if value.is_empty() { "not set".to_string() } else { value.to_string() };
    let one =
        |of: &Difference| format!("{}: {} → {}", of.name, value(&of.before), value(&of.after));
    let all: Vec<String> = plan.iter().map(one).collect();
    page.paragraph(format!("The plans differ ({}).", list::few(&all, PLAN_NAMED)));
}

fn answered(page: &mut Document, answer: &Finding) {
    page.paragraph(answer.summary.as_str());
    let step = answer.next_step.as_ref().map(|step| format!("{step}."));
    page.blocks.extend(step.map(|step| Block::Paragraph(step.into())));
}

fn requirements(page: &mut Document, comparison: &Comparison) {
    for one in &comparison.requirements {
        let outcome = format!("{}: {}", one.outcome.name(), one.reason);
        page.entry(&format!("fail if {}", one.condition), outcome);
    }
}

fn side(page: &mut Document, name: &str, side: &ComparedSide, zone: &TimeZone) {
    let shown = |run: &ComparedRun| match run.started_unix_ns {
        0 => run.name.clone(),
        started => format!("{} ({})", run.name, calendar::date_and_time(started, zone)),
    };
    let runs: Vec<String> = side.runs.iter().map(shown).collect();
    let count = (runs.len() > 1).then(|| plural(runs.len() as u64, "run"));
    page.entry(name, parts([count.into(), list::few(&runs, RUNS_NAMED).into()]));
}

fn figure_tables(page: &mut Document, all: &[ComparedPart]) {
    let columns = |first: &str| {
        vec![
            DataColumn::text(first),
            DataColumn::number("before"),
            DataColumn::number("after"),
            DataColumn::number("change (95% CI)"),
            DataColumn::text(""),
        ]
    };
    if all.len() > PARTS_WHOLE {
        let main = |part: &ComparedPart| {
            let figure = part.figures.first()?;
            Some(row(&format!("{} {}", part.name, figure.title), figure))
        };
        let mut table = Document::default();
        table.table(columns(""), all.iter().filter_map(main).collect());
        page.section("figures", "the main figure of each part; --json has all", table);
        return;
    }
    for part in all {
        let mut table = Document::default();
        let rows = part.figures.iter().map(|figure| row(&title(figure), figure));
        table.table(columns(""), rows.collect());
        page.section(&part.name, Text::default(), table);
    }
}

/// A device has figures of reads and of writes with one title.
fn title(figure: &ComparedFigure) -> String {
    let direction = ["read", "write"].into_iter().find(|dir| figure.id.starts_with(dir));
    direction.map_or_else(|| figure.title.to_string(), |dir| format!("{dir} {}", figure.title))
}

fn row(name: &str, figure: &ComparedFigure) -> Vec<Text> {
    let value = |value: f64| figure.row().map(|row| shown(&row, value));
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let changed = figure.ratio.map(|ratio| {
        let quantity = Quantity::new(change(ratio), QuantityUnit::Change);
        match figure.interval {
            Some((low, high)) => quantity.within(change(low), change(high)),
            None => quantity,
        }
    });
    let verdict = match (figure.verdict, figure.is_better()) {
        (FigureVerdict::Changed, Some(true)) => "better",
        (FigureVerdict::Changed, Some(false)) => "worse",
        (FigureVerdict::Unknown, _) => "",
        (verdict, _) => verdict.name(),
    };
    vec![
        name.into(),
        value(figure.before).into(),
        value(figure.after).into(),
        changed.into(),
        verdict.into(),
    ]
}

/// A figure; the mean of whole numbers, such as I/Os in flight, is none itself.
fn shown(row: &MetricRow<()>, value: f64) -> Quantity {
    match row.unit {
        FigureUnit::Number => number(value),
        _ => figures::quantity(row, value),
    }
}

/// The runs' conditions, and what limited them.
fn conditions(page: &mut Document, comparison: &Comparison) {
    let all: [Condition; 6] = [
        ("CPUs of other programs", |of| of.other_cpus, number),
        ("CPUs busy besides the load", |of| of.unaccounted_cpus, number),
        ("disk bytes of other programs", |of| of.other_disk_share, |share| percent(share * 100.0)),
        ("withheld by the hypervisor", |of| of.steal, |share| percent(share * 100.0)),
        ("CPUs withheld by the cgroup", |of| of.throttled_cpus, number),
        ("bytes read from disks", |of| of.read_from_disk, |share| percent(share * 100.0)),
    ];
    let sides = [&comparison.before, &comparison.after];
    let mut rows: Vec<Vec<Text>> = Vec::new();
    if sides.iter().any(|side| !side.limited_by.is_empty()) {
        let limits = sides.map(|side| Text::from(side.limited_by.join(", ")));
        rows.push(std::iter::once(Text::from("limited by")).chain(limits).collect());
    }
    for (name, of, show) in all {
        let ranges = sides.map(|side| range(side, of, show));
        if ranges.iter().any(|range| !range.is_empty()) {
            rows.push(std::iter::once(Text::from(name)).chain(ranges).collect());
        }
    }
    let mut body = Document::default();
    let columns = vec![DataColumn::text(""), DataColumn::text("before"), DataColumn::text("after")];
    body.table(columns, rows);
    if !body.blocks.is_empty() {
        page.section("conditions", Text::default(), body);
    }
}

/// The value of a side, or the least and the greatest of its runs.
fn range(
    side: &ComparedSide,
    of: fn(&RunConditions) -> Option<f64>,
    show: fn(f64) -> Quantity,
) -> Text {
    let mut values: Vec<f64> = side.runs.iter().filter_map(|run| of(&run.conditions)).collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => Text::default(),
        [one] => show(*one).into(),
        [least, .., most] if least == most => show(*least).into(),
        [least, .., most] => text!(show(*least), "–", show(*most)),
    }
}

fn differences(page: &mut Document, comparison: &Comparison) {
    let mut body = Document::default();
    let row = |of: &Difference| {
        let value = |value: &str| Text::from(if value.is_empty() { "-" } else { value });
        vec![of.name.as_str().into(), value(&of.before), value(&of.after)]
    };
    let rows: Vec<Vec<Text>> =
        comparison.plan.iter().chain(&comparison.settings).map(row).collect();
    if rows.is_empty() {
        body.paragraph("nothing that is recorded");
    }
    let columns = vec![DataColumn::text(""), DataColumn::text("before"), DataColumn::text("after")];
    body.table(columns, rows);
    page.section("what differs", Text::default(), body);
}
