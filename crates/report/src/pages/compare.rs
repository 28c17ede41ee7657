//! The result of `fathom compare`: the answer, the figures of both sides, the conditions, and everything that differs.

use super::header::Origin;
use super::parts;
use crate::calendar::{self, TimeZone};
use crate::doc::{
    Block, DataColumn, Document, Heading, Quantity, QuantityUnit, Text, number, percent, plural,
    text,
};
use crate::figures;
use fathom_analysis::compare::{
    ComparedFigure, ComparedPart, ComparedRun, ComparedSide, Comparison, Difference, FigureVerdict,
    RunConditions, Steadiness,
};
use fathom_analysis::metrics::FigureUnit;
use fathom_model::finding::Finding;
use fathom_model::list;
use fathom_model::record::Header;

/// Runs of a side that are named.
const RUNS_NAMED: usize = 4;
/// With more parts, only the main figure of each is in the table.
const PARTS_WHOLE: usize = 8;
/// What the names of figures of a layer begin with, which their part says already.
const IN_LAYER: &str = "CPU per I/O in ";
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
        note: Text::default(),
        zone: zone.clone(),
    };
    let mut page = Document::headed(Some(heading));
    page.blocks.extend(compared(comparison, zone).blocks);
    page
}

/// The same without what the page of a command begins with.
pub fn compared(comparison: &Comparison, zone: &TimeZone) -> Document {
    let mut page = Document::default();
    let answer = comparison.findings.iter().find(|finding| finding.is_verdict());
    answer.iter().for_each(|finding| answered(&mut page, finding));
    plans(&mut page, &comparison.plan);
    requirements(&mut page, comparison);
    // The answer says whether the main figures may be relied on, so they may precede the warnings.
    let parts = &comparison.parts;
    let main = if parts.len() > PARTS_WHOLE { parts.len() } else { parts.len().min(1) };
    let (main, others) = parts.split_at(main);
    figure_tables(&mut page, main);
    page.findings(&comparison.findings);
    figure_tables(&mut page, others);
    side(&mut page, "before", &comparison.before, zone);
    side(&mut page, "after", &comparison.after, zone);
    if !comparison.earlier.is_empty() {
        let names = list::few(&comparison.earlier, RUNS_NAMED);
        page.entry(
            "variation",
            text!("from ", plural(comparison.earlier.len() as u64, "run"), ": ", names),
        );
    }
    conditions(&mut page, &[("before", &comparison.before), ("after", &comparison.after)]);
    differences(&mut page, comparison);
    page
}

/// Runs of one plan by themselves: the mean of each figure with its interval between runs, and their range. `header` is
/// that of the first, with the findings of all; `steady` is whether they are steady, and what was done to the targets before,
/// where that was asked for.
pub fn rounds(
    rounds: &Comparison,
    header: &Header,
    steady: Option<(&Steadiness, &[String])>,
    zone: &TimeZone,
) -> Document {
    let mut page = Document::headed(Origin::of("run", header).heading());
    let runs = &rounds.after.runs;
    let main = |part: &ComparedPart| {
        let figure = part.figures.first()?;
        let mean = estimate(figure);
        let name = if rounds.parts.len() > 1 { format!("{} ", part.name) } else { String::new() };
        Some(text!(format!("{name}{} ", figure.title), mean))
    };
    let first = rounds.parts.first();
    let counted = first.and_then(|part| part.figures.first()).map_or(0, |of| of.after_runs.len());
    page.paragraph(text!(plural(counted as u64, "round"), ": ", Text::from(first.and_then(main))));
    if let Some((steadiness, prepared)) = steady {
        super::steadiness::outcome(&mut page, steadiness, prepared);
    }
    page.findings(&header.findings);
    let left_out = if counted < runs.len() { " and not counted" } else { "" };
    for (run, why) in runs.iter().filter_map(|run| Some((run, run.incomplete.as_ref()?))) {
        page.paragraph(format!("{} is incomplete{left_out}: {why}", run.name));
    }
    if !rounds.after.limited_by.is_empty() {
        page.entry("limited by", rounds.after.limited_by.join(", "));
    }
    requirements(&mut page, rounds);
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    page.entry("rounds", list::few(&names, RUNS_NAMED));
    for part in &rounds.parts {
        let columns = vec![
            DataColumn::text(""),
            DataColumn::number("mean (95% CI between rounds)"),
            DataColumn::number("least"),
            DataColumn::number("greatest"),
        ];
        let row = |figure: &ComparedFigure| {
            let value = |value: f64| Text::from(shown(figure.figure_unit(), value));
            let runs = &figure.after_runs;
            vec![
                title(figure).into(),
                estimate(figure).into(),
                value(runs.iter().copied().fold(f64::INFINITY, f64::min)),
                value(runs.iter().copied().fold(0.0, f64::max)),
            ]
        };
        let mut table = Document::default();
        table.table(columns, part.figures.iter().map(row).collect());
        page.named(&part.name, Text::default(), table);
    }
    steady.iter().for_each(|(steadiness, _)| super::steadiness::rounds(&mut page, steadiness));
    let unlimited = ComparedSide { limited_by: Vec::new(), ..rounds.after.clone() };
    conditions(&mut page, &[("range", &unlimited)]);
    page.in_zone(zone)
}

/// The mean of a figure with its interval, which does not go below 0.
fn estimate(figure: &ComparedFigure) -> Quantity {
    let (found, unit) = (figure.estimate(), figure.figure_unit());
    let mean = shown(unit, found.mean);
    match found.low.zip(found.high) {
        Some((low, high)) => mean.within(shown(unit, low.max(0.0)).value, shown(unit, high).value),
        None => mean,
    }
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

pub fn requirements(page: &mut Document, comparison: &Comparison) {
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
            DataColumn::text("verdict"),
        ]
    };
    if all.len() > PARTS_WHOLE {
        let main = |part: &ComparedPart| {
            let figure = part.figures.first()?;
            Some(row(&format!("{} {}", part.name, figure.title), figure))
        };
        let table = table(columns(""), all.iter().filter_map(main).collect());
        page.section("figures", "the main figure of each part; --json has all", table);
        return;
    }
    for part in all {
        let name = |figure: &ComparedFigure| {
            let title = title(figure);
            let layer =
                title.strip_prefix(IN_LAYER).filter(|_| part.name.starts_with("CPU per I/O"));
            layer.map_or_else(|| title.clone(), String::from)
        };
        let rows = part.figures.iter().map(|figure| row(&name(figure), figure));
        page.named(&part.name, Text::default(), table(columns(""), rows.collect()));
    }
}

/// A table, without its last column if that is empty.
fn table(mut columns: Vec<DataColumn>, mut rows: Vec<Vec<Text>>) -> Document {
    if rows.iter().all(|row| row.last().is_none_or(Text::is_empty)) {
        columns.pop();
        rows.iter_mut().for_each(|row| row.truncate(columns.len()));
    }
    let mut table = Document::default();
    table.table(columns, rows);
    table
}

/// A device has figures of reads and of writes with one title.
fn title(figure: &ComparedFigure) -> String {
    let directions = ["read", "write", "flush", "discard"];
    let direction = directions.into_iter().find(|dir| figure.id.starts_with(dir));
    direction.map_or_else(|| figure.title.clone(), |dir| format!("{dir} {}", figure.title))
}

fn row(name: &str, figure: &ComparedFigure) -> Vec<Text> {
    let value = |value: f64| shown(figure.figure_unit(), value);
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let changed = figure.ratio.map_or(Text::from(figure.zero()), |ratio| {
        let quantity = Quantity::new(change(ratio), QuantityUnit::Change);
        match figure.interval {
            Some((low, high)) => quantity.within(change(low), change(high)),
            None => quantity,
        }
        .into()
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
        changed,
        verdict.into(),
    ]
}

/// A figure; the mean of whole numbers, such as I/Os in flight, is none itself.
fn shown(unit: FigureUnit, value: f64) -> Quantity {
    match unit {
        FigureUnit::Number => number(value),
        _ => figures::in_unit(unit, value),
    }
}

/// The runs' conditions, and what limited them.
fn conditions(page: &mut Document, sides: &[(&str, &ComparedSide)]) {
    let all: [Condition; 6] = [
        ("CPUs of other programs", |of| of.other_cpus, number),
        ("CPUs busy besides the load", |of| of.unaccounted_cpus, number),
        ("disk bytes of other programs", |of| of.other_disk_share, |share| percent(share * 100.0)),
        ("withheld by the hypervisor", |of| of.steal, |share| percent(share * 100.0)),
        ("CPUs withheld by the cgroup", |of| of.throttled_cpus, number),
        ("bytes read from disks", |of| of.read_from_disk, |share| percent(share * 100.0)),
    ];
    let mut rows: Vec<Vec<Text>> = Vec::new();
    let mut row = |name: &str, cells: Vec<Text>| {
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push(std::iter::once(Text::from(name)).chain(cells).collect());
        }
    };
    let limits = sides.iter().map(|(_, side)| Text::from(side.limited_by.join(", ")));
    row("limited by", limits.collect());
    for (name, of, show) in all {
        row(name, sides.iter().map(|(_, side)| range(side, of, show)).collect());
    }
    let mut body = Document::default();
    let titles = sides.iter().map(|(title, _)| DataColumn::text(title));
    body.table(std::iter::once(DataColumn::text("")).chain(titles).collect(), rows);
    page.section_if_any("conditions", Text::default(), body);
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
    let row = |of: &Difference| {
        let value = |value: &str| Text::from(if value.is_empty() { "-" } else { value });
        let matters = Text::from(of.matters.as_str());
        vec![of.name.as_str().into(), value(&of.before), value(&of.after), matters]
    };
    let rows: Vec<Vec<Text>> =
        comparison.plan.iter().chain(&comparison.settings).map(row).collect();
    let mut body = Document::default();
    match rows.is_empty() {
        true => body.paragraph("nothing that is recorded"),
        false => {
            let columns = ["", "before", "after", "known to affect"].map(DataColumn::text);
            body = table(columns.to_vec(), rows);
        }
    }
    page.section("what differs", Text::default(), body);
}
