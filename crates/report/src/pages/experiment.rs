//! The result of `fathom try` and `fathom sweep`.

use super::charts::conditions as charts;
use super::header::{Origin, incomplete};
use crate::doc::{
    DataColumn, Document, Quantity, QuantityUnit, Text, bandwidth, count, number, of, percent,
    plural, text, time, whole,
};
use crate::pages::run::ranks::{kernels, selected};
use fathom_analysis::experiment::{RUN_DELAY_MIN, curves, higher_is_better};
use fathom_analysis::layers::SAMPLES_MIN;
use fathom_analysis::limit::KNEE_SHARE;
use fathom_model::experiment::{
    Claim, Condition, Direction, Effect, Experiment, ExperimentRank, ExperimentRecord,
    MeasuredCondition, Metric,
};
use fathom_model::window::{Estimate, Ratio};
use fathom_model::{Finding, escape};
use serde::Serialize;

/// Of more variants, the table of ranks has only one.
const RANK_COLUMNS: usize = 4;
/// Knees above the table.
const KNEES_MAX: usize = 4;
/// The column of flushes (fsync and the like), as `run` has a row of them.
const FLUSH_P99: &str = "flush p99";
/// More effects than this are in the table only.
const SENTENCES_MAX: usize = 8;

#[derive(Debug, Serialize)]
pub struct ShippedExperiment {
    pub experiment: &'static str,
    pub question: String,
}

pub fn experiments(all: &[ShippedExperiment]) -> Document {
    let mut page = Document::default();
    let row = |one: &ShippedExperiment| vec![one.experiment.into(), one.question.as_str().into()];
    let columns = vec![DataColumn::text("experiment"), DataColumn::text("question")];
    page.table(columns, all.iter().map(row).collect());
    page
}

pub fn experiment(record: &ExperimentRecord, verbose: bool) -> Document {
    let name = if record.request.is_sweep { "sweep" } else { "try" };
    let mut page = Document::headed(Origin::of(name, &record.header).heading());
    if !record.request.is_sweep {
        effects(record.header.findings.iter()).into_iter().for_each(|one| page.paragraph(one));
    }
    if page.blocks.is_empty() {
        best(&mut page, record);
    }
    header(&mut page, record);
    page.findings(&record.header.findings);
    let experiment = &record.request.experiment;
    let mut body = Document::default();
    if record.request.is_sweep {
        sweep(&mut body, record);
    } else {
        waiting(&mut body, record);
        conditions(&mut body, record);
        controls(&mut body, record);
        published(&mut body, record);
        charts::metric(&mut body, record);
    }
    details(&mut body, record, verbose);
    not_measured(&mut body, record);
    page.section(&experiment.name, experiment.question.as_str(), body);
    ranks(&mut page, record);
    page
}

/// What each of several machines did in each variant; of a grid, and of more variants than fit, in the one with most I/Os.
fn ranks(page: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let measured: Vec<(usize, &Condition, &MeasuredCondition)> = all(record)
        .enumerate()
        .map(|(index, (condition, found))| (index, condition, found))
        .filter(|(_, condition, found)| condition.repeats.is_none() && found.windows > 0)
        .collect();
    let best = measured.iter().max_by(|(_, _, a), (_, _, b)| a.iops.total_cmp(&b.iops));
    let shown = match (record.request.is_sweep || measured.len() > RANK_COLUMNS, best) {
        (true, Some(best)) => vec![*best],
        _ => measured,
    };
    if record.ranks.is_empty() || shown.is_empty() {
        return;
    }
    let mut columns = vec![DataColumn::text("host"), DataColumn::number("rank")];
    let labels = shown.iter().map(|(_, condition, _)| condition.label(&experiment.axes));
    let title = experiment.metric.title();
    columns.extend(labels.map(|label| DataColumn::number(&format!("{title}, {label}"))));
    let value = |rank: &ExperimentRank, index: usize| rank.metrics.get(index).copied().flatten();
    let row =
        |name: String, (number, rank): &(usize, &ExperimentRank)| {
            let mut row: Vec<Text> = vec![name.into(), whole(*number as u64).into()];
            row.extend(shown.iter().map(|(index, _, _)| {
                let mean = value(rank, *index);
                Text::from(mean.map(|mean| {
                    estimate(experiment.metric, &Estimate { mean, ..Estimate::default() })
                }))
            }));
            row
        };
    let slowest = |one: &(usize, &ExperimentRank)| {
        let value = shown.first().and_then(|(index, _, _)| value(one.1, *index)).unwrap_or(0.0);
        if higher_is_better(experiment.metric) { value } else { -value }
    };
    let host = |one: &(usize, &ExperimentRank)| escape::text(&one.1.hostname).into_owned();
    let mut body = Document::default();
    // Those that only waited are not the slowest.
    let did = |(_, rank): &(usize, &ExperimentRank)| {
        shown.iter().any(|(index, _, _)| value(rank, *index).is_some())
    };
    let members: Vec<_> = record.ranks.iter().enumerate().filter(did).collect();
    // Of an experiment that did not end, one rank does not know what the others did.
    let is_whole = !members.is_empty();
    if is_whole {
        body.table(columns, selected(members, slowest, host, row));
    }
    kernels(
        &mut body,
        record.ranks.iter().map(|rank| (rank.kernel.as_str(), rank.hostname.as_str())),
    );
    let about = text!(
        plural(record.ranks.len() as u64, "rank"),
        " measured each window together",
        if is_whole { "; IOPS and bandwidth are sums, percentiles those of all I/Os" } else { "" }
    );
    page.section("ranks", about, body);
}

/// The best of all variants or cells, and the knees of the first curves.
fn best(page: &mut Document, record: &ExperimentRecord) {
    let Experiment { metric, axes, .. } = &record.request.experiment;
    let measured = || all(record).filter(|(of, found)| of.repeats.is_none() && found.windows > 0);
    let rank = |(_, found): &(&Condition, &MeasuredCondition)| match higher_is_better(*metric) {
        true => found.metric.mean,
        false => -found.metric.mean,
    };
    let point = |what: &str, (of, found): (&Condition, &MeasuredCondition)| {
        let latency = |name: &str, ns: u64| {
            Text::from((ns > 0).then(|| text!(", ", name, " ", time(ns as f64))))
        };
        let p99 = latency("p99", found.clat_p99_ns);
        let flush = latency(FLUSH_P99, found.flush_p99_ns);
        let value = text!(metric.title(), " ", estimate(*metric, &found.metric));
        let noisy = is_noisy(found).then_some(", noisy");
        text!(what, ": ", of.label(axes), ", ", value, p99, flush, Text::from(noisy), ".")
    };
    let best = measured().max_by(|a, b| rank(a).total_cmp(&rank(b)));
    best.into_iter().for_each(|best| page.paragraph(point("Best", best)));
    let knees = measured().filter(|(_, found)| found.is_knee).take(KNEES_MAX);
    knees.for_each(|knee| page.paragraph(point("Knee", knee)));
}

fn header(page: &mut Document, record: &ExperimentRecord) {
    if let Some(why) = incomplete(&record.header.outcome) {
        page.paragraph(why);
    }
    let report = &record.report;
    let rounds = plural(report.rounds.into(), "round");
    let windows = plural(report.windows.into(), "window");
    let spent = text!(time(report.seconds_used * 1e9), " in ", rounds, ", ", windows);
    // A record of a killed run does not say how long it took.
    if report.seconds_used > 0.0 {
        page.entry("measured", spent);
    }
    for (at, target) in record.header.facts.targets.iter().enumerate() {
        let condition = record.conditions.get(at);
        let name = match condition.is_some_and(|c| c.scratch) {
            true => "scratch file",
            false => target.path.as_str(),
        };
        let device = target.device.as_ref().map(|device| {
            let model = device.model.as_deref().unwrap_or("").trim();
            format!(", {}{}{model}", device.name, if model.is_empty() { "" } else { " " })
        });
        let on = target.file_system.as_ref().map(|file_system| format!(" on {file_system}"));
        page.entry(name, text!(crate::doc::bytes(target.size_bytes), on, device));
    }
}

pub(super) fn all(
    record: &ExperimentRecord,
) -> impl Iterator<Item = (&Condition, &MeasuredCondition)> {
    record.request.experiment.conditions.iter().zip(&record.report.conditions)
}

fn metric(metric: Metric, found: &MeasuredCondition) -> Text {
    if found.windows == 0 {
        return "not measured".into();
    }
    estimate(metric, &found.metric)
}

fn estimate(metric: Metric, found: &Estimate) -> Text {
    Quantity::new(found.mean, charts::unit(metric)).estimated(found, 1.0).into()
}

fn change(ratio: &Ratio) -> Quantity {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let value = Quantity::new(percent(ratio.value), QuantityUnit::Change);
    value.within(percent(ratio.low), percent(ratio.high))
}

/// The change with the interval that decides, which is the one at 99% where it is known.
fn decisive(effect: &Effect, ratio: &Ratio) -> Quantity {
    let Some(sure) = &effect.ratio_99 else { return change(ratio) };
    Quantity { confidence: 99, ..change(&Ratio { value: ratio.value, ..*sure }) }
}

fn verdict(effect: &Effect) -> Text {
    match (&effect.claim, &effect.ratio) {
        (Claim::Changed, Some(ratio)) => decisive(effect, ratio).into(),
        (Claim::NoneAbove(share), _) => text!("no effect above ", percent(share * 100.0)),
        (_, Some(ratio)) => text!("inconclusive, ", decisive(effect, ratio)),
        (_, None) => "inconclusive".into(),
    }
}

/// The verdicts on variants, in sentences; none where these are too many.
pub(super) fn effects<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<&'a str> {
    let verdicts = findings.filter(|finding| finding.is_verdict());
    let all: Vec<&str> = verdicts.map(|finding| finding.summary.as_str()).collect();
    if all.len() > SENTENCES_MAX { Vec::new() } else { all }
}

/// For how long workers waited for a CPU, where that matters, and what follows from it.
fn waiting(body: &mut Document, record: &ExperimentRecord) {
    let of = |found: &MeasuredCondition| found.run_delay.filter(|share| *share > RUN_DELAY_MIN);
    let Some(worst) = all(record).filter_map(|(_, found)| of(found)).reduce(f64::max) else {
        return;
    };
    let share = percent(worst * 100.0);
    let inconclusive = |found: &MeasuredCondition| {
        found.effect.as_ref().is_some_and(|e| matches!(e.claim, Claim::Inconclusive(_)))
    };
    if all(record).any(|(_, found)| found.corrected.is_some()) {
        body.paragraph(text!(
            "Other programs kept workers waiting for a CPU for up to ",
            share,
            " of the time. Effects therefore compare corrected ",
            record.request.experiment.metric.title(),
            ", which leaves that time out."
        ));
    }
    if all(record).any(|(_, found)| inconclusive(found)) {
        body.paragraph(text!(
            "Workers waited for a CPU for up to ",
            share,
            " of the time. If other programs use the CPUs, rerun on an idle machine, or give all variants nice=-20 (as \
             root)."
        ));
    }
}

fn conditions(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let mut columns = vec![DataColumn::text("variant")];
    columns.extend(experiment.axes.iter().map(|axis| DataColumn::number(axis)));
    columns.push(DataColumn::number(&format!("{} (95% CI)", experiment.metric.title())));
    let is_corrected = all(record).any(|(_, found)| found.corrected.is_some());
    if is_corrected {
        let title = format!("corrected {}", experiment.metric.title());
        columns.push(DataColumn::number(&title));
    }
    columns.push(DataColumn::text("effect (paired by round)"));
    let rest = [
        ("IOPS", 2),
        ("bandwidth", 3),
        ("p50", 4),
        ("p99", 0),
        (FLUSH_P99, 0),
        ("CPUs", 5),
        ("CPU per I/O", 1),
        ("switches per I/O", 6),
    ];
    let hides_iops = experiment.metric == Metric::Iops;
    let flushes = flushes(record);
    let rest = rest.into_iter().skip(usize::from(hides_iops));
    let rest = rest.filter(|(name, _)| flushes || *name != FLUSH_P99);
    columns.extend(rest.map(|(name, rank)| DataColumn::number(name).ranked(rank)));
    let row = |(condition, found): (&Condition, &MeasuredCondition)| {
        let mut row: Vec<Text> = vec![condition.name.as_str().into()];
        row.extend(condition.cell.iter().map(|value| Text::from(value.as_str())));
        let noisy = is_noisy(found).then(|| text!("noisy"));
        row.push(Text::join([metric(experiment.metric, found), Text::from(noisy)], ", "));
        if is_corrected {
            let corrected = found.corrected.as_ref().filter(|_| found.windows > 0);
            row.push(corrected.map(|found| estimate(experiment.metric, found)).into());
        }
        row.push(found.effect.as_ref().or(found.control.as_ref()).map(verdict).into());
        row.extend((!hides_iops).then(|| figure(found, count(found.iops))));
        row.push(figure(found, bandwidth(found.bytes_per_second)));
        row.extend(
            [found.clat_p50_ns, found.clat_p99_ns]
                .map(|ns| Text::from((ns > 0).then(|| time(ns as f64)))),
        );
        row.extend(flushes.then(|| flush_p99(found)));
        row.push(figure(found, number(found.cores)));
        row.push(found.cpu_ns_per_io.map(|ns| time(ns.iter().sum())).into());
        row.push(found.switches_per_io.filter(|n| *n > 0.0).map(number).into());
        row
    };
    body.table(columns, all(record).map(row).collect());
}

/// Whether any condition flushes: completion latencies leave that time out.
fn flushes(record: &ExperimentRecord) -> bool {
    record.report.conditions.iter().any(|found| found.flush_p99_ns > 0)
}

fn flush_p99(found: &MeasuredCondition) -> Text {
    let ns = found.flush_p99_ns;
    if ns > 0 { time(ns as f64).into() } else { "-".into() }
}

fn figure(found: &MeasuredCondition, quantity: Quantity) -> Text {
    (found.windows > 0).then_some(quantity).into()
}

fn controls(body: &mut Document, record: &ExperimentRecord) {
    let controls = all(record).filter_map(|(_, found)| found.control.as_ref());
    let controls: Vec<(&Effect, &Ratio)> =
        controls.filter_map(|control| Some((control, control.ratio.as_ref()?))).collect();
    let off = |(_, ratio): &(&Effect, &Ratio)| ratio.value.ln().abs();
    if let Some((control, worst)) = controls.iter().max_by(|a, b| off(a).total_cmp(&off(b))) {
        let what = if controls.len() > 1 { "at most " } else { "" };
        body.entry(
            "A/A control",
            text!("the two baseline measurements differ by ", what, decisive(control, worst)),
        );
    }
}

fn published(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let mut page = Document::default();
    let columns = vec![
        DataColumn::text("variant"),
        DataColumn::text("published"),
        DataColumn::text("here"),
        DataColumn::text("direction"),
    ];
    let row = |(condition, found): (&Condition, &MeasuredCondition)| {
        let known = condition.published.as_ref()?;
        let here = match &found.effect {
            Some(effect) if found.windows > 0 => verdict(effect),
            _ => metric(experiment.metric, found),
        };
        Some(vec![
            condition.label(&experiment.axes).into(),
            known.text.as_str().into(),
            here,
            known.direction.map(|there| agreement(there, found)).into(),
        ])
    };
    page.table(columns, all(record).filter_map(row).collect());
    if !page.blocks.is_empty() {
        body.section("published", experiment.source.as_str(), page);
    } else if !experiment.source.is_empty() {
        body.entry("published", experiment.source.as_str());
    }
}

fn agreement(there: Direction, found: &MeasuredCondition) -> &'static str {
    let Some(effect) = found.effect.as_ref().filter(|_| found.windows > 0) else {
        return "not measured";
    };
    match (&effect.claim, &effect.ratio, there) {
        (Claim::Changed, Some(here), Direction::Higher) if here.value > 1.0 => "agrees",
        (Claim::Changed, Some(here), Direction::Lower) if here.value < 1.0 => "agrees",
        (Claim::NoneAbove(_), _, Direction::Same) => "agrees",
        (Claim::Inconclusive(_), ..) => "inconclusive",
        _ => "differs",
    }
}

fn not_measured(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let mut first = true;
    for (condition, found) in all(record) {
        let why = found.rejected.as_ref().or(found.first_error.as_ref());
        let Some(why) = why.filter(|_| found.rejected.is_some() || found.errors > 0) else {
            continue;
        };
        let key = if std::mem::take(&mut first) { "problem" } else { "" };
        let errors = (found.errors > 0).then(|| text!(plural(found.errors, "error"), ", "));
        body.entry(
            key,
            text!(condition.label(&experiment.axes), ": ", Text::from(errors), why.as_str()),
        );
    }
}

fn sweep(body: &mut Document, record: &ExperimentRecord) {
    let experiment = &record.request.experiment;
    let top = record.report.conditions.iter().map(|found| found.metric.mean).fold(1.0, f64::max);
    let mut columns: Vec<DataColumn> =
        experiment.axes.iter().map(|axis| DataColumn::number(axis)).collect();
    columns.push(DataColumn::number(&format!("{} (95% CI)", experiment.metric.title())));
    columns.push(DataColumn::text("").ranked(5));
    let flushes = flushes(record);
    let rest =
        [("bandwidth", 3), ("mean", 2), ("p50", 6), ("p99", 1), (FLUSH_P99, 1), ("CPU per I/O", 4)];
    let rest = rest.into_iter().filter(|(name, _)| flushes || *name != FLUSH_P99);
    columns.extend(rest.map(|(name, rank)| DataColumn::number(name).ranked(rank)));
    columns.push(DataColumn::text("point"));
    let latency = |found: &MeasuredCondition, ns: f64| {
        if ns > 0.0 { figure(found, time(ns)) } else { Text::default() }
    };
    let rising = without_knee(record);
    let row = |(index, (condition, found)): (usize, (&Condition, &MeasuredCondition))| {
        let mut row: Vec<Text> =
            condition.cell.iter().map(|value| Text::from(value.as_str())).collect();
        row.push(metric(experiment.metric, found));
        row.push(Quantity::new(100.0 * found.metric.mean / top, QuantityUnit::PercentBar).into());
        row.push(figure(found, bandwidth(found.bytes_per_second)));
        row.push(latency(found, found.clat_mean_ns));
        row.push(latency(found, found.clat_p50_ns as f64));
        row.push(latency(found, found.clat_p99_ns as f64));
        row.extend(flushes.then(|| flush_p99(found)));
        row.push(found.cpu_ns_per_io.map(|ns| time(ns.iter().sum())).into());
        row.push(point(found, rising.contains(&index)));
        row
    };
    body.table(columns, all(record).enumerate().map(row).collect());
    body.entry("ties", ties(record));
    charts::latency(body, record);
    if experiment.metric == Metric::Iops {
        charts::metric(body, record);
    }
}

/// The last cells of curves that have no knee: they may still rise there.
fn without_knee(record: &ExperimentRecord) -> Vec<usize> {
    let is_knee = |index: &usize| record.report.conditions.get(*index).is_some_and(|c| c.is_knee);
    let curves = curves(&record.request.experiment).into_iter();
    let open = curves.filter(|curve| curve.len() > 2 && !curve.iter().any(is_knee));
    open.filter_map(|curve| curve.last().copied()).collect()
}

fn point(found: &MeasuredCondition, is_rising: bool) -> Text {
    let share = found.started_share.filter(|share| *share < 0.99);
    let parts = [
        found.is_knee.then(|| "knee".into()),
        found.is_best.then(|| "best".into()),
        (is_rising && found.windows > 0).then(|| "knee not reached".into()),
        near_best(found).map(|ratio| match is_tied(ratio) {
            true => "tied with the best".into(),
            false => text!("not distinguishable from the best: ", times(ratio)),
        }),
        is_noisy(found).then(|| "noisy".into()),
        share.map(|share| text!("only ", percent(share * 100.0), " of the load started")),
    ];
    Text::join(parts.into_iter().flatten(), ", ")
}

/// Whether the windows of a cell disagree so much that its figures are not to be relied on.
fn is_noisy(found: &MeasuredCondition) -> bool {
    found.metric.relative().is_some_and(|part| part > 0.5)
}

/// The ratio of a point to the best of its curve, if that may be 1.
fn near_best(found: &MeasuredCondition) -> Option<Ratio> {
    found.to_best.filter(|ratio| ratio.high >= 1.0)
}

/// Whether a point is surely about as good as the best of its curve.
fn is_tied(ratio: Ratio) -> bool {
    ratio.low >= KNEE_SHARE
}

fn times(ratio: Ratio) -> Quantity {
    Quantity::new(ratio.value, QuantityUnit::Ratio).within(ratio.low, ratio.high)
}

fn ties(record: &ExperimentRecord) -> Text {
    let found = &record.report.conditions;
    let near: Vec<Ratio> = found.iter().filter_map(near_best).collect();
    let tied = near.iter().filter(|ratio| is_tied(**ratio)).count();
    let of = |count: usize| format!("{count} of {} points", found.len());
    let sure = (tied > 0).then(|| {
        text!(
            of(tied),
            " are statistically tied with the best of their curve (95% CI within 5% of it)"
        )
    });
    let open = (near.len() > tied).then(|| {
        let rounds = plural(record.report.rounds.into(), "round");
        let what = " cannot be told apart from the best of their curve with ";
        text!(of(near.len() - tied), what, rounds, "; a longer --duration narrows their intervals")
    });
    Text::join([sure, open].into_iter().flatten(), "; ")
}

/// Maximum number of conditions whose layers are shown, unless all are requested.
const COLUMNS_MAX: usize = 6;
/// A layer with a smaller share everywhere is left out.
const SHARE_MIN: f64 = 0.01;

fn details(body: &mut Document, record: &ExperimentRecord, verbose: bool) {
    mechanics(body, record);
    layers(body, record, if verbose { usize::MAX } else { COLUMNS_MAX });
}

fn mechanics(body: &mut Document, record: &ExperimentRecord) {
    if record.request.is_sweep {
        return;
    }
    let axes = &record.request.experiment.axes;
    let columns = [
        "requests per plug flush",
        "io-wq workers",
        "I/Os per syscall",
        "device I/Os per I/O",
        "submit latency",
    ];
    let mut head = vec![DataColumn::text("I/O processing")];
    head.extend(columns.into_iter().map(DataColumn::number));
    let row = |(condition, found): (&Condition, &MeasuredCondition)| {
        let detail = found.detail.as_ref();
        let cells: [Text; 5] = [
            detail.and_then(|detail| detail.unplug_mean()).map(number).into(),
            detail.map(|detail| whole(detail.io_wq_workers)).into(),
            found.ios_per_call.map(number).into(),
            found.disk_requests_per_io.map(number).into(),
            (found.slat_mean_ns > 0.0).then(|| time(found.slat_mean_ns)).into(),
        ];
        let is_known = cells.iter().any(|cell| !cell.is_empty());
        let name = Text::from(condition.label(axes));
        (is_known && condition.repeats.is_none()).then(|| [vec![name], cells.to_vec()].concat())
    };
    body.table(head, all(record).filter_map(row).collect());
    let machine = all(record).filter_map(|(_, found)| found.machine_busy).fold(0.0, f64::max);
    if machine > 0.0 {
        body.entry("CPU usage", text!("up to ", percent(machine * 100.0)));
    }
}

fn layers(body: &mut Document, record: &ExperimentRecord, columns_max: usize) {
    let axes = &record.request.experiment.axes;
    let sampled = all(record).filter_map(|(condition, found)| {
        let detail = found.detail.as_ref().filter(|detail| detail.samples >= SAMPLES_MIN)?;
        let per_io: f64 = found.cpu_ns_per_io?.iter().sum();
        Some((condition.label(axes), per_io, detail))
    });
    let sampled: Vec<_> = sampled.take(columns_max).collect();
    if sampled.is_empty() {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, _, detail) in &sampled {
        let large = detail.layers.iter().filter(|row| row.share >= SHARE_MIN);
        for row in large.filter(|row| !names.contains(&row.layer.as_str())).collect::<Vec<_>>() {
            names.push(&row.layer);
        }
    }
    let mut columns = vec![DataColumn::text("CPU per I/O by layer")];
    columns.extend(sampled.iter().map(|(label, ..)| DataColumn::number(label)));
    let row = |name: &&str| {
        let mut row: Vec<Text> = vec![(*name).into()];
        row.extend(sampled.iter().map(|(_, per_io, detail)| {
            let share = detail.layers.iter().find(|row| row.layer == **name).map(|row| row.share);
            Text::from(share.map(|share| time(share * per_io)))
        }));
        row
    };
    let mut rows: Vec<Vec<Text>> = names.iter().map(row).collect();
    let mut all: Vec<Text> = vec!["all".into()];
    all.extend(sampled.iter().map(|(_, per_io, _)| Text::from(time(*per_io))));
    rows.push(all);
    body.table(columns, rows);
    let samples = sampled.iter().map(|(_, _, detail)| detail.samples).min().unwrap_or(0);
    let samples = of(count(samples as f64), "CPU samples per variant, from separate windows");
    let samples = text!("at least ", samples);
    body.entry("layers", samples);
}

#[cfg(test)]
mod tests;
