//! Rates and latencies of a group and of its jobs.

use crate::calendar::{date_and_time, local_zone};
use crate::doc::{
    DataColumn, Document, Lead, Quantity, QuantityUnit, Text, count, events, of, plural, text, time,
};
use crate::figures::cell;
use crate::fio::priority_parts;
use fathom_analysis::derive::{self, JobGroup};
use fathom_analysis::metrics::{FigureUnit, JOB, JobFigures, JobMetric};
use fathom_model::histogram::Histogram;
use fathom_model::plan::{Engine, JobPlan, Show, Unified};
use fathom_model::record::{DirRecord, JobRecord, RunRecord, WrongBlock};
use fathom_model::{Dir, escape, units};

const IOPS: usize = 1;
const BANDWIDTH: usize = 2;
/// Groups whose figures HTML begins with, and the number of these figures.
const HEADLINES: usize = 3;
const HEADLINE_FIGURES: usize = 5;
/// Jobs whose IOPS are this far from their mean differ.
const DIFFERENCE: f64 = 0.1;

/// The table of a group: a row for each direction and for each kind of latency that counts.
pub(super) fn figures(body: &mut Document, group: &JobGroup) {
    let done = &group.record;
    let show = &group.plan.show;
    let mut columns = columns("", group.plan);
    let errors: fn(&DirRecord) -> u64 = |dir| dir.counts.errors;
    let mut counted = vec![("errors", errors), ("short", |dir| dir.counts.short_ios)];
    counted.retain(|(_, of)| done.dirs.iter().any(|(_, dir)| of(dir) > 0));
    columns.extend(counted.iter().map(|(name, _)| DataColumn::number(name)));
    let mut rows = Vec::new();
    let runtime_ns = done.runtime_ns;
    let mut direction = |name: &str, dir: &DirRecord| {
        let latency = if dir.lat.is_empty() { &dir.clat } else { &dir.lat };
        let (ios, bytes) = (dir.counts.ios, Some(dir.counts.bytes));
        let mut row = row(name, show, &JobFigures::new(ios, bytes, runtime_ns, latency));
        row.extend(counted.iter().map(|(_, of)| Text::from(events(of(dir)))));
        rows.push(row);
        if !dir.response.is_empty() {
            let latency = &dir.response;
            let figures = JobFigures::new(ios, None, runtime_ns, latency);
            let mut row = self::row(&format!("{name} response"), show, &figures);
            row[IOPS] = Text::default();
            rows.push(row);
        }
        // As in fio, a single priority is not listed.
        for one in dir.priorities.iter().filter(|_| dir.priorities.len() > 1) {
            let [class, level, hint] = priority_parts(one.priority);
            let name = format!("{name} prio {class}/{level}/{hint}");
            let (ios, latency) = (one.lat.count(), &one.lat);
            let figures = JobFigures::new(ios, None, runtime_ns, latency);
            rows.push(self::row(&name, show, &figures));
        }
    };
    if show.unified != Unified::Mixed {
        for dir in derive::shown_dirs(group.plan, done) {
            direction(dir.name(), &done.dirs[dir]);
        }
    }
    let used = derive::shown_dirs(group.plan, done).count();
    if show.unified == Unified::Mixed || (show.unified == Unified::Both && used > 1) {
        let parts: Vec<_> = done.dirs.iter().map(|(_, dir)| (0, dir)).collect();
        direction("mixed", &derive::merge_dirs(&parts));
    }
    if done.flushes.count > 0 {
        let (ios, latency) = (done.flushes.count, &done.flushes.lat);
        rows.push(row("flush", show, &JobFigures::new(ios, None, runtime_ns, latency)));
    }
    if let Some(verify) = done.verify.as_ref().filter(|verify| verify.reads.counts.ios > 0) {
        let (counts, latency) = (verify.reads.counts, &verify.reads.lat);
        let time = if verify.runtime_ns > 0 { verify.runtime_ns } else { runtime_ns };
        let figures = JobFigures::new(counts.ios, Some(counts.bytes), time, latency);
        let mut row = row("read back", show, &figures);
        row.extend(counted.iter().map(|(_, of)| Text::from(events(of(&verify.reads)))));
        rows.push(row);
    }
    table(body, group.plan, columns, rows);
    target(body, group);
    steady(body, group);
    verified(body, group);
    if group.record.zone_resets > 0 {
        let zones = plural(group.record.zone_resets, "zone");
        body.paragraph(text!("Reset ", zones, " to write to them again."));
    }
    behind(body, group);
}

/// The queue depth that meets the latency target.
fn target(body: &mut Document, group: &JobGroup) {
    let (Some(target), Some(found)) = (&group.plan.latency_target, &group.record.target) else {
        return;
    };
    let latency = Text::from(time(target.target_ns as f64));
    let share = match target.percentile {
        percent if percent < 100.0 => format!("{percent}% of I/Os within "),
        _ => "all I/Os within ".to_string(),
    };
    let (depth, most) = (format!("QD\u{a0}{}", found.depth), group.plan.depth);
    let (begin, end) = match (found.met, found.depth == most) {
        (true, true) => (" met,", format!(", up to the highest depth: {depth}.")),
        (true, false) => (":", format!(" up to {depth} of {most}.")),
        (false, _) => (" missed:", format!(", at {depth}.")),
    };
    body.paragraph(text!("Latency target", begin, " ", share, latency, end));
}

/// Whether the job ended at steady state.
fn steady(body: &mut Document, group: &JobGroup) {
    let (Some(until), Some(found)) = (&group.plan.until_steady, &group.record.steady) else {
        return;
    };
    let percent = if until.percent { "%" } else { "" };
    let what = until.name().replace('_', " ");
    let value = format!("{:.3}{percent}", found.criterion.abs());
    let limit = format!("{}{percent}", until.limit);
    let text = match (found.attained, found.is_judged) {
        (true, _) => {
            let after = Text::from(time(found.after_ns as f64));
            text!("Steady after ", after, ": ", what, " ", value, ", below ", limit, ".")
        }
        (false, true) => text!("Not steady: ", what, " ", value, ", not below ", limit, "."),
        (false, false) => {
            let needs = Text::from(time((until.ramp_ns + until.duration_ns) as f64));
            text!("Not steady: the job ended before the ", needs, " that it takes to tell.")
        }
    };
    body.paragraph(text);
}

/// What was verified, and what was wrong.
fn verified(body: &mut Document, group: &JobGroup) {
    let (Some(verify), Some(plan)) = (&group.record.verify, &group.plan.verify) else { return };
    let (method, bytes) = (plan.method.name(), units::bytes(verify.bytes));
    let blocks = plural(verify.blocks, "block");
    let text = match (verify.blocks, verify.wrong) {
        (0, _) => text!("Nothing was verified."),
        (_, 0) if verify.unread_bytes > 0 => {
            text!("Verified by ", method, ": ", blocks, " (", bytes, "), none of these wrong.")
        }
        (_, 0) => text!("Verified by ", method, ": ", blocks, " (", bytes, "), all right."),
        (_, wrong) => {
            let wrong = format!("{wrong} wrong");
            text!("Verified by ", method, ": ", blocks, " (", bytes, "), ", wrong, ".")
        }
    };
    body.paragraph(text);
    if verify.unread_bytes > 0 {
        let left = units::bytes(verify.unread_bytes);
        body.paragraph(format!(
            "Not verified: {left} of what was written, since the job ended before."
        ));
    }
    verify.first.iter().for_each(|wrong| wrong_block(body, wrong, ""));
    if verify.wrong > verify.first.len() as u64 {
        body.paragraph(format!("and {} more", verify.wrong - verify.first.len() as u64));
    }
}

/// Where a block is, what it holds, and what else is known.
pub(in crate::pages) fn wrong_block(body: &mut Document, wrong: &WrongBlock, more: &str) {
    let place = format!("{}, offset {}, {} bytes", wrong.file, wrong.offset, wrong.len);
    let written = wrong.header.map(|header| header.seconds).filter(|s| *s > YEAR_2001);
    let written = written.map(|s| date_and_time(u64::from(s) * 1_000_000_000, local_zone()));
    let written = written.map(|date| format!(", written {date}")).unwrap_or_default();
    let bytes = match (wrong.expected.as_str(), wrong.found.as_str()) {
        (_, "") => String::new(),
        ("", found) => format!("; it begins with {found}"),
        (expected, found) => format!("; expected {expected}, found {found}"),
    };
    let files = match wrong.dumped.as_slice() {
        [] => String::new(),
        files => format!("; written to {}", files.join(" and ")),
    };
    let text = format!("{}{written}{more}{bytes}{files}", wrong.text());
    body.paragraph(format!("{}: {}", escape::text(&place), escape::text(&text)));
}

/// Seconds since 1970, above which a time is no time since the boot.
const YEAR_2001: u32 = 1_000_000_000;

/// The figures that HTML begins with: those of the first groups in each direction.
pub(super) fn headline(page: &mut Document, groups: &[JobGroup]) {
    let mut all = Document::default();
    for group in groups.iter().filter(|g| g.record.runtime_ns > 0).take(HEADLINES) {
        let (done, show) = (&group.record, &group.plan.show);
        for dir in derive::shown_dirs(group.plan, done) {
            let one = &done.dirs[dir];
            let latency = if one.lat.is_empty() { &one.clat } else { &one.lat };
            let (ios, bytes) = (one.counts.ios, Some(one.counts.bytes));
            let row = row("", show, &JobFigures::new(ios, bytes, done.runtime_ns, latency));
            let mut body = Document::default();
            let cells = columns("", group.plan).into_iter().zip(row).skip(1);
            cells.take(HEADLINE_FIGURES).for_each(|(column, cell)| body.entry(&column.name, cell));
            let name = if groups.len() > 1 { group.plan.name.as_str() } else { "" };
            all.section(format!("{name} {dir}").trim(), Text::default(), body);
        }
    }
    let mut part = Document::default();
    part.lead(Lead::Figures, "Figures", Text::default(), all);
    page.html_only(part);
}

/// What the I/Os of a job per second are called: those on names are operations.
pub(in crate::pages) fn rate_unit(plan: &JobPlan) -> &'static str {
    if is_on_names(plan) { "ops/s" } else { "IOPS" }
}

pub(super) fn is_on_names(plan: &JobPlan) -> bool {
    matches!(plan.engine, Engine::Names(_))
}

/// Adds a table, without the bandwidth of jobs that transfer nothing.
fn table(body: &mut Document, plan: &JobPlan, columns: Vec<DataColumn>, rows: Vec<Vec<Text>>) {
    let (mut columns, mut rows) = (columns, rows);
    if is_on_names(plan) {
        columns.remove(BANDWIDTH);
        rows.iter_mut().for_each(|row| drop(row.remove(BANDWIDTH)));
    }
    body.table(columns, rows);
}

fn columns(first: &str, plan: &JobPlan) -> Vec<DataColumn> {
    let name = |metric: &JobMetric| match metric.unit {
        FigureUnit::Rate => rate_unit(plan),
        _ => metric.title,
    };
    let column = |metric| DataColumn::number(name(metric)).ranked(metric.rank);
    std::iter::once(DataColumn::text(first)).chain(shown().map(column)).collect()
}

fn shown() -> impl Iterator<Item = &'static JobMetric> {
    JOB.iter().filter(|metric| metric.is_main())
}

fn row(name: &str, show: &Show, figures: &JobFigures<'_>) -> Vec<Text> {
    let cell = |metric: &JobMetric| match (metric.unit, (metric.value)(figures)) {
        (FigureUnit::BytesPerSecond, bytes) => bytes.map(|bytes| bandwidth(bytes, show)).into(),
        (_, value) => cell(metric, value),
    };
    std::iter::once(name.into()).chain(shown().map(cell)).collect()
}

/// Bytes per second in the unit that the job requests: `kb_base` and `unit_base`.
pub(in crate::pages) fn bandwidth(bytes: f64, show: &Show) -> Quantity {
    match (show.kb_base, show.unit_base) {
        (1000, 1) => Quantity::new(bytes * 8.0, QuantityUnit::DecimalBitsPerSecond),
        (1000, _) => Quantity::new(bytes, QuantityUnit::DecimalBytesPerSecond),
        (_, 1) => Quantity::new(bytes * 8.0, QuantityUnit::BitsPerSecond),
        _ => Quantity::new(bytes, QuantityUnit::BytesPerSecond),
    }
}

fn behind(body: &mut Document, group: &JobGroup) {
    for (dir, done) in group.record.dirs.iter() {
        let due = done.counts.ios + done.unstarted_ios;
        if done.late_ios + done.unstarted_ios > 0 {
            let late = text!(events(done.late_ios), " of ", of(events(due), "I/Os"), " late, ");
            let what = if group.plan.replay.is_some() { "schedule" } else { "rate" };
            let key = format!("{dir} {what}");
            body.entry(&key, text!(late, of(events(done.unstarted_ios), "never started")));
        }
    }
}

/// Whether the jobs of a group differ so much that their sum alone would mislead.
pub(super) fn differ(record: &RunRecord, group: &JobGroup) -> bool {
    let rates: Vec<f64> = members(record, group).map(|(_, done)| rate(done)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    rates.len() > 1 && rates.iter().any(|rate| (rate - mean).abs() > mean * DIFFERENCE)
}

fn rate(done: &JobRecord) -> f64 {
    derive::per_second(derive::ios(done), done.runtime_ns)
}

fn members<'a>(
    record: &'a RunRecord,
    group: &'a JobGroup,
) -> impl Iterator<Item = (&'a JobPlan, &'a JobRecord)> {
    let pick = |index: &usize| Some((record.plan.jobs.get(*index)?, record.jobs.get(*index)?));
    group.jobs.iter().filter_map(pick)
}

fn name(plan: &JobPlan) -> String {
    format!("{}.{}", plan.name, plan.clone)
}

pub(super) fn extremes(body: &mut Document, record: &RunRecord, group: &JobGroup) {
    let mut rates: Vec<(f64, String)> =
        members(record, group).map(|(plan, done)| (rate(done), name(plan))).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
        let unit = rate_unit(group.plan);
        let figure = |job: &(f64, String)| text!(of(count(job.0), unit), " (", job.1.as_str(), ")");
        body.entry("jobs", text!("slowest ", figure(least), ", fastest ", figure(most)));
    }
}

pub(super) fn each_job(body: &mut Document, record: &RunRecord, group: &JobGroup) {
    let mut columns = columns("job", group.plan);
    if members(record, group).any(|(_, done)| done.error.is_some()) {
        columns.push(DataColumn::text("error"));
    }
    let job = |(plan, done): (&JobPlan, &JobRecord)| {
        let mut lat = Histogram::default();
        for dir in Dir::ALL {
            lat.merge(&done.dirs[dir].lat);
        }
        let (ios, bytes) = (derive::ios(done), Some(derive::bytes(done)));
        let figures = JobFigures::new(ios, bytes, done.runtime_ns, &lat);
        let mut row = row(&name(plan), &plan.show, &figures);
        row.push(done.error.as_ref().map(|error| error.message.as_str()).into());
        row
    };
    let mut rows: Vec<Vec<Text>> = members(record, group).map(job).collect();
    rows.iter_mut().for_each(|row| row.truncate(columns.len()));
    table(body, group.plan, columns, rows);
}
