//! The result of `fathom limit`: the answer, the evidence for what limits each target, and the figures of the points that
//! matter.

mod ranks;

use super::header::{Origin, incomplete};
use super::limited_by::next_step;
use super::{ceilings, charts, counters, doctor_line, not_measured};
use crate::doc::{
    DataColumn, Document, Quantity, QuantityUnit, Text, bandwidth, bytes, count, of, percent,
    plural, text, time,
};
use fathom_analysis::ceilings::{Ceiling, CeilingKind, CeilingUnit, PeakCeilings, of_limit};
use fathom_model::facts::TargetFacts;
use fathom_model::finding::Part;
use fathom_model::limit::{
    BlockLimit, Combined, CombinedCause, Confirmation, Experiment, ExperimentKind, KneePoint,
    LimitRecord, SuiteTest, TargetLimit, TargetResult, is_large,
};
use fathom_model::watch::Unavailable;
use fathom_model::window::{Estimate, Point, Ratio, Setting};
use fathom_model::{Finding, units};

/// A load generator this many times faster than the peak does not limit it.
const OVERHEAD_SHOWN: f64 = 10.0;

/// With `verbose`, also all settings, the confirmation tests, and why something was not measured.
pub fn limit(record: &LimitRecord, verbose: bool) -> Document {
    let mut page = Document::headed(Origin::of("limit", &record.header).heading());
    if let Some(why) = incomplete(&record.header.outcome) {
        page.paragraph(why);
    }
    let peaks = of_limit(record);
    specified(&mut page, record, &peaks);
    answers(&mut page, record);
    charts::peaks(&mut page, &record.report.targets);
    page.findings(&record.header.findings);
    spent(&mut page, record);
    for (index, target) in record.report.targets.iter().enumerate() {
        let about = record.header.facts.targets.get(index).map(description);
        let direct = record.conditions.get(index).map(|c| how(c.direct));
        let about = Text::join([Text::from(about), Text::from(direct)], ", ");
        let peaks = peaks.iter().filter(|peak| peak.target == index).collect::<Vec<_>>();
        page.named(&target.name, about, of_target(record, index, target, &peaks, verbose));
    }
    for combined in &record.report.combined {
        several(&mut page, record, combined);
    }
    ranks::ranks(&mut page, record);
    let mut rest = Document::default();
    overhead(&mut rest, record, verbose);
    doctor_line(&mut rest, &record.header.facts);
    not_measured(&mut rest, &missing(record), verbose);
    page.blocks.append(&mut rest.blocks);
    page
}

/// How much more than the highest peak the load generator does without a device; only where that is in question.
fn overhead(page: &mut Document, record: &LimitRecord, verbose: bool) {
    let own = &record.report.own;
    let all = own.one_worker.iter().chain(&own.all_cores);
    let Some(own) = all.max_by(|a, b| a.mean.total_cmp(&b.mean)) else { return };
    let blocks = record.report.targets.iter().flat_map(|target| &target.blocks);
    let peaks = blocks.filter_map(|block| block.peak.as_ref()).map(|peak| peak.iops.mean);
    let peak = peaks.fold(0.0, f64::max);
    let ratio = (peak > 0.0).then(|| own.mean / peak);
    let share = ratio.map(|ratio| text!(" (", times(ratio), " the highest peak)"));
    let noisy =
        own.relative().is_some_and(|part| part > 0.5).then(|| text!(", noisy: ", estimate(own)));
    if verbose || ratio.is_none_or(|ratio| ratio < OVERHEAD_SHOWN) {
        let rate =
            text!("up to ", count(own.mean), " no-ops/s", Text::from(share), Text::from(noisy));
        page.entry("load-generator overhead", rate);
    }
}

fn missing(record: &LimitRecord) -> Vec<Unavailable> {
    let counters = record.costs_missing.iter().map(|why| Unavailable {
        source: "hardware counters".into(),
        reason: why.clone(),
        remedy: String::new(),
    });
    let hidden = record.header.facts.targets.iter().filter_map(TargetFacts::hidden_disk);
    let lacks = record.costs.iter().flat_map(|peak| peak.lacks.iter().cloned());
    hidden.chain(counters).chain(lacks).collect()
}

fn spent(page: &mut Document, record: &LimitRecord) {
    let report = &record.report;
    let spent = text!(
        "measured for ",
        time(report.seconds_used * 1e9),
        " in ",
        plural(report.windows.into(), "window")
    );
    // A record of a killed search does not say how long it took.
    if report.seconds_used > 0.0 || record.header.outcome.is_finished() {
        page.paragraph(spent);
    }
}

fn description(facts: &TargetFacts) -> Text {
    let on = facts.file_system.as_ref().map(|file_system| format!(" on {file_system}"));
    let device = facts.device.as_ref().map(|device| {
        let known = [&device.model, &device.serial].map(|s| s.as_deref().unwrap_or("").trim());
        let known: Vec<&str> = known.into_iter().filter(|s| !s.is_empty()).collect();
        let known =
            if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        format!(", {}{known}", device.name)
    });
    text!(bytes(facts.size_bytes), on, device)
}

fn how(direct: bool) -> &'static str {
    if direct { "O_DIRECT" } else { "through the page cache" }
}

/// A rate with its interval.
fn estimate(estimate: &Estimate) -> Quantity {
    count(estimate.mean).estimated(estimate, 1.0)
}

fn ratio(ratio: &Ratio) -> Quantity {
    times(ratio.value).within(ratio.low, ratio.high)
}

fn times(value: f64) -> Quantity {
    Quantity::new(value, QuantityUnit::Ratio)
}

fn of_target(
    record: &LimitRecord,
    index: usize,
    target: &TargetLimit,
    peaks: &[&PeakCeilings],
    verbose: bool,
) -> Document {
    let mut body = Document::default();
    if record.config.suite.is_empty() {
        verdicts(&mut body, record, index, &target.blocks);
        for peak in peaks {
            let name = target.blocks.get(peak.block).map_or_else(String::new, BlockLimit::name);
            ceilings(&mut body, &format!("{name} ceilings"), &peak.ceilings);
        }
        for (spec, block) in record.config.blocks.iter().zip(&target.blocks) {
            let in_range = |setting| spec.is_in_range(setting, record.report.cores);
            curve(&mut body, block, in_range, verbose);
        }
        target.blocks.iter().for_each(|block| at_peak(&mut body, block));
        target.blocks.iter().for_each(|block| rated(&mut body, block));
    } else {
        suite(&mut body, &record.config.suite, &target.blocks);
    }
    for block in &target.blocks {
        for problem in &block.problems {
            let what = text!(setting(problem.setting), ": ", problem.message.as_str());
            body.entry("problem", what);
        }
    }
    for peak in record.costs.iter().filter(|peak| peak.target == index) {
        let key = format!("{} {} peak counters", units::bytes(peak.block_bytes), peak.rw);
        body.entry(&key, counters::per_io_of_worker(&peak.cost));
    }
    if verbose {
        experiments(&mut body, &target.blocks);
    }
    body
}

/// `2 workers, QD32`.
fn setting(setting: Setting) -> Text {
    let depth = format!("QD{}", setting.depth);
    text!(plural(setting.workers.into(), "worker"), ", ", depth)
}

/// What was measured with a kind of I/O: a row for each setting, and the settings that matter.
fn curve(
    body: &mut Document,
    block: &BlockLimit,
    in_range: impl Fn(Setting) -> bool,
    verbose: bool,
) {
    charts::latency(body, block);
    let columns = vec![
        DataColumn::number(&format!("{}, workers × QD", block.name())),
        DataColumn::number("IOPS (95% CI)"),
        DataColumn::text("").ranked(1),
        DataColumn::number("p50"),
        DataColumn::number("p99"),
        DataColumn::number("CPU per I/O").ranked(2),
        DataColumn::text("point"),
    ];
    let top = block.points.iter().map(|point| point.iops.mean).fold(1.0, f64::max);
    let row = |p: &Point| {
        vec![
            p.setting().to_string().into(),
            estimate(&p.iops).into(),
            Quantity::new(100.0 * p.iops.mean / top, QuantityUnit::PercentBar).into(),
            time(p.clat_p50_ns as f64).into(),
            time(p.clat_p99_ns as f64).into(),
            time(p.cpu_ns_per_io()).into(),
            marks(block, p, in_range(p.setting())),
        ]
    };
    let shown: Vec<&Point> =
        block.points.iter().filter(|p| verbose || is_shown(block, p)).collect();
    let (count, all) = (shown.len(), block.points.len());
    body.table(columns, shown.into_iter().map(row).collect());
    if count < all {
        let rows = format!("{count} of {all} settings; all with --verbose");
        body.entry(&format!("{} table", block.name()), rows);
    }
}

/// Whether a row belongs to the short table: what the answer and the verdict rest on, the shape of the curve below the
/// peak with one worker, and the next setting beyond it.
fn is_shown(block: &BlockLimit, point: &Point) -> bool {
    let (setting, peak) = (point.setting(), block.peak.as_ref().map(Point::setting));
    let top = peak.map_or(u64::MAX, Setting::in_flight);
    let of_curve = setting.workers == 1
        && setting.in_flight() < top
        && setting.depth.is_power_of_two()
        && setting.depth.ilog2().is_multiple_of(2);
    let is_next = peak.is_some_and(|peak| setting == Setting { depth: 2 * peak.depth, ..peak });
    of_curve || is_next || !marks(block, point, true).is_empty()
}

/// Which of the points that matter `point` is, and what to know of its figures.
fn marks(block: &BlockLimit, point: &Point, in_range: bool) -> Text {
    let setting = point.setting();
    let is = |point: Option<&Point>| point.is_some_and(|point| point.setting() == setting);
    let knee = block.knee.as_ref().filter(|knee| is(Some(&knee.point))).map(|knee| {
        match knee.depths.filter(|(low, high)| low != high) {
            Some((low, high)) => format!("knee (QD{low}–{high})"),
            None => "knee".to_string(),
        }
    });
    let peak = is(block.peak.as_ref()).then(|| "peak".to_string());
    let tested = block.confirmation.as_ref().is_some_and(|tests| tests.at == setting);
    let tested = (tested && peak.is_none()).then(|| "tested".to_string());
    let noisy = point.noisy.then(|| "noisy".to_string());
    let beyond = (!in_range).then(|| "beyond the search".to_string());
    let all = [knee, peak, tested, noisy, beyond];
    Text::join(all.into_iter().flatten().map(Text::from), ", ")
}

fn at_peak(body: &mut Document, block: &BlockLimit) {
    let Some(peak) = &block.peak else { return };
    let limit = peak.one_core_iops().map(|iops| text!(" (max ", count(iops), " IOPS per core)"));
    let cpu = text!("CPU per I/O ", time(peak.cpu_ns_per_io()), Text::from(limit));
    let all = [bandwidth(peak.bytes_per_second).into(), cpu];
    body.entry(&format!("{} peak", block.name()), Text::join(all, ", "));
}

fn rated(body: &mut Document, block: &BlockLimit) {
    let Some(result) = &block.target else { return };
    let TargetResult { target, best, tried } = result;
    let percentile = format!("p{}", target.percentile);
    let found = match best {
        Some(best) => {
            let peak = block.peak.as_ref().map_or(0.0, |peak| peak.iops.mean);
            let share = (peak > 0.0)
                .then(|| text!(", ", percent(best.iops * 100.0 / peak), " of the peak"));
            let latency = text!(percentile.as_str(), " ", time(best.latency_ns as f64));
            text!("up to ", count(best.iops), " IOPS (", latency, Text::from(share), ")")
        }
        None if tried.iter().any(|t| t.meets) => {
            let met = tried.iter().filter(|t| t.meets).map(|t| t.iops).fold(0.0, f64::max);
            text!("met only at ", count(met), " IOPS (unconfirmed)")
        }
        None => {
            let least = tried.iter().min_by(|a, b| a.iops.total_cmp(&b.iops));
            let least = least.map(|t| {
                text!(
                    ": ",
                    percentile.as_str(),
                    " is ",
                    time(t.latency_ns as f64),
                    " at ",
                    count(t.iops),
                    " IOPS"
                )
            });
            let open = block.meets_target().is_none();
            let open = open.then_some("; the time was up before lower rates were tried");
            text!("not met at any rate tried", Text::from(least), open)
        }
    };
    body.entry(&format!("{}, {target}", block.name()), found);
}

fn suite(body: &mut Document, tests: &[SuiteTest], blocks: &[BlockLimit]) {
    let columns = vec![
        DataColumn::text("suite"),
        DataColumn::text("rw"),
        DataColumn::number("bandwidth (95% CI)"),
        DataColumn::number("IOPS"),
        DataColumn::number("mean latency"),
        DataColumn::number("p99").ranked(1),
    ];
    let row = |(test, block): (&SuiteTest, &BlockLimit)| {
        let mut row: Vec<Text> = vec![test.name.as_str().into(), block.rw.name().into()];
        row.extend(block.peak.as_ref().map_or_else(
            || vec!["not measured".into()],
            |point| {
                let unit = QuantityUnit::DecimalBytesPerSecond;
                let rate = Quantity::new(point.bytes_per_second, unit);
                vec![
                    rate.estimated(&point.iops, block.block_bytes as f64).into(),
                    count(point.iops.mean).into(),
                    time(point.clat_mean_ns).into(),
                    time(point.clat_p99_ns as f64).into(),
                ]
            },
        ));
        row
    };
    body.table(columns, tests.iter().zip(blocks).map(row).collect());
}

fn verdict(record: &LimitRecord, part: Part) -> Option<&Finding> {
    let mut findings = record.header.findings.iter();
    findings.find(|finding| finding.is_verdict() && finding.part == Some(part))
}

/// What the confirmation tests showed, and what to do next; the cause at the peak is in the answer.
fn verdicts(body: &mut Document, record: &LimitRecord, target: usize, blocks: &[BlockLimit]) {
    let mut steps: Vec<&Finding> = Vec::new();
    for (block, limit) in blocks.iter().enumerate() {
        let size = limit.name();
        let mut show = |tests: Option<&Confirmation>, part: Part, has_limit: bool| {
            let (tests, verdict) = tests.zip(verdict(record, part))?;
            let limit = has_limit.then(|| match &verdict.limited_by {
                Some(name) => format!("limited by {name}. "),
                None => "what limits it is inconclusive. ".to_string(),
            });
            let at = tests.at.in_words();
            let summary = verdict.summary.as_str();
            body.paragraph(text!(size.as_str(), ", ", at, ": ", Text::from(limit), summary));
            Some(verdict)
        };
        show(limit.one_worker.as_ref(), Part::OneWorker { target, block }, true);
        match show(limit.confirmation.as_ref(), Part::Peak { target, block }, false) {
            Some(verdict) if !steps.iter().any(|known| known.next_step == verdict.next_step) => {
                steps.push(verdict);
            }
            Some(_) => {}
            None => body.paragraph(text!(size, ": no verdict, no confirmation test was run")),
        }
    }
    steps.into_iter().for_each(|verdict| next_step(body, "next", verdict));
}

fn experiments(body: &mut Document, blocks: &[BlockLimit]) {
    let names = ["block", "confirmation test"].map(DataColumn::text);
    let numbers = ["IOPS before", "after", "paired ratio (95% CI)", "latency", "pairs"];
    let numbers = numbers.into_iter().zip([2, 2, 0, 1, 3]);
    let numbers = numbers.map(|(name, rank)| DataColumn::number(name).ranked(rank));
    let mut rows = Vec::new();
    for block in blocks {
        for e in block.one_worker.iter().chain(&block.confirmation).flat_map(|v| &v.experiments) {
            let mut row = vec![Text::from(block.name()), experiment(e)];
            row.extend(e.gain.iter().flat_map(|gain| {
                [
                    count(e.base_iops.mean).into(),
                    count(e.changed_iops.mean).into(),
                    ratio(gain).into(),
                    e.latency_ratio.map(times).into(),
                    count(f64::from(e.changed_iops.windows)).into(),
                ]
            }));
            rows.push(row);
        }
    }
    body.table(names.into_iter().chain(numbers).collect(), rows);
}

fn experiment(e: &Experiment) -> Text {
    let what = match e.kind {
        ExperimentKind::Deeper => "twice the queue depth",
        ExperimentKind::MoreWorkers => "more workers",
        ExperimentKind::FewerCores => "half of the CPUs",
    };
    let outcome = match (&e.gain, &e.refused) {
        (Some(_), _) => String::new(),
        (None, Some(why)) => format!(": not possible, {why}"),
        (None, None) => ": not run, not enough time".into(),
    };
    text!(what, " (", setting(e.setting), ")", outcome)
}

fn several(page: &mut Document, record: &LimitRecord, combined: &Combined) {
    let answer = match combined.cause {
        CombinedCause::Independent => "the targets do not slow each other down",
        CombinedCause::Cores => "the targets slow each other down: the CPUs are saturated",
        CombinedCause::SharedBelow => {
            "the targets slow each other down: they share a resource below the block layer"
        }
        CombinedCause::Inconclusive => "inconclusive whether the targets slow each other down",
    };
    let mut body = Document::default();
    body.paragraph(format!("{}.", combined.reason));
    let columns = vec![
        DataColumn::text("target"),
        DataColumn::number("workers × QD"),
        DataColumn::number("IOPS alone (95% CI)").ranked(1),
        DataColumn::number("concurrent (95% CI)"),
        DataColumn::number("paired ratio (95% CI)"),
    ];
    let share = |r: &Option<Ratio>| r.as_ref().map_or_else(|| "-".into(), |r| Text::from(ratio(r)));
    let mut rows: Vec<Vec<Text>> = Vec::new();
    for t in &combined.targets {
        let name = record.report.targets.get(t.target).map_or("?", |t| t.name.as_str());
        rows.push(vec![
            name.into(),
            format!("{} × {}", t.workers, t.depth).into(),
            estimate(&t.alone_iops).into(),
            estimate(&t.combined_iops).into(),
            share(&t.ratio),
        ]);
    }
    let (alone, at_once) = (estimate(&combined.alone_iops), estimate(&combined.combined_iops));
    rows.push(vec![
        "sum".into(),
        Text::default(),
        alone.into(),
        at_once.into(),
        share(&combined.ratio),
    ]);
    body.table(columns, rows);
    body.entry(
        "CPU",
        combined.cpu.map(|cpu| of(percent(cpu.busy * 100.0), "busy, all targets concurrently")),
    );
    page.section(&format!("all targets, {}", combined.name()), answer, body);
}

/// What share of its specification each target reached: `87% of the 1M IOPS specified for 4 KiB random reads`.
fn specified(page: &mut Document, record: &LimitRecord, peaks: &[PeakCeilings]) {
    let several = record.report.targets.len() > 1;
    for peak in peaks {
        let of = |ceiling: &&Ceiling| ceiling.kind == CeilingKind::Specification;
        let Some(found) = peak.ceilings.iter().find(of) else { continue };
        let Some(target) = record.report.targets.get(peak.target) else { continue };
        let Some(block) = target.blocks.get(peak.block) else { continue };
        let name = several.then(|| format!("{}: ", target.name));
        let figure = match found.unit {
            CeilingUnit::Iops => text!(count(found.most), " IOPS"),
            // As in data sheets.
            CeilingUnit::BytesPerSecond => {
                Quantity::new(found.most, QuantityUnit::DecimalBytesPerSecond).into()
            }
            CeilingUnit::Celsius => continue,
        };
        let known = record.config.spec.is_none().then(|| format!(" ({})", found.source));
        let of = format!(
            " specified for {} {}{}.",
            units::bytes(block.block_bytes),
            block.rw.in_words(),
            known.unwrap_or_default()
        );
        page.paragraph(text!(
            Text::from(name),
            percent(found.share() * 100.0),
            " of the ",
            figure,
            of
        ));
    }
}

/// A paragraph for each kind of I/O of each target that was searched.
fn answers(page: &mut Document, record: &LimitRecord) {
    if !record.config.suite.is_empty() {
        return;
    }
    let several = record.report.targets.len() > 1;
    for (index, target) in record.report.targets.iter().enumerate() {
        for (number, block) in target.blocks.iter().enumerate() {
            let limit = verdict(record, Part::Peak { target: index, block: number });
            let name = several.then(|| format!("{}, ", target.name));
            let what = format!("{} {}: ", units::bytes(block.block_bytes), block.rw.in_words());
            page.paragraph(text!(Text::from(name), what, answer(block, limit), "."));
        }
    }
}

fn answer(block: &BlockLimit, limit: Option<&Finding>) -> Text {
    let Some(peak) = &block.peak else {
        let why = block.problems.first().map(|problem| problem.message.clone());
        return text!("no result", Text::from(why.map(|why| format!(" ({why})"))));
    };
    let sure = if peak.iops.windows > 1 && !peak.noisy { "" } else { " (unconfirmed)" };
    let highest = text!(rates(block, peak), ", ", latency(peak), sure);
    let knee = block.knee.as_ref().filter(|knee| knee.point.setting() != peak.setting());
    let knee = knee.map(|knee| {
        let point = &knee.point;
        let share = of_peak(knee, peak);
        text!("knee at ", rate(block, point), ", ", share, " of the peak, ", latency(point))
    });
    let limit = limit.map(|verdict| match &verdict.limited_by {
        Some(limit) => format!("limited by {limit}"),
        None => "what limits it is inconclusive".to_string(),
    });
    let parts = [Some(highest), knee, within(block.target.as_ref()), limit.map(Text::from)];
    Text::join(parts.into_iter().flatten(), "; ")
}

/// The share of the peak that the knee reaches.
fn of_peak(knee: &KneePoint, peak: &Point) -> Quantity {
    let share = percent(100.0 * knee.point.iops.mean / peak.iops.mean.max(f64::MIN_POSITIVE));
    match knee.of_peak {
        Some(ratio) => share.within(100.0 * ratio.low, 100.0 * ratio.high),
        None => share,
    }
}

fn within(result: Option<&TargetResult>) -> Option<Text> {
    let TargetResult { target, best, .. } = result?;
    let best = best.as_ref()?;
    Some(text!("up to ", count(best.iops), " IOPS within ", target.to_string()))
}

fn rate(block: &BlockLimit, point: &Point) -> Text {
    match is_large(block.block_bytes as f64) {
        true => bandwidth(point.bytes_per_second).into(),
        false => text!(count(point.iops.mean), " IOPS"),
    }
}

fn rates(block: &BlockLimit, point: &Point) -> Text {
    let other = match is_large(block.block_bytes as f64) {
        true => text!(count(point.iops.mean), " IOPS"),
        false => bandwidth(point.bytes_per_second).into(),
    };
    text!(rate(block, point), " (", other, ")")
}

fn latency(point: &Point) -> Text {
    let at = match point.workers {
        1 => format!(" at QD{}", point.depth),
        workers => format!(" with {workers} workers at QD{}", point.depth),
    };
    text!("p99 ", time(point.clat_p99_ns as f64), at)
}

#[cfg(test)]
mod tests;
