//! What `fathom limit` prints: a table for the eye, what stopped it with the figures, and a
//! paragraph to forward.

mod paragraph;
mod progress;
mod table;

pub use paragraph::paragraph;
pub use progress::{line, phase};

use crate::counters;
use fathom_analysis::limit::{
    BlockLimit, Cause, Experiment, ExperimentKind, LimitRecord, Together, TogetherCause, Verdict,
    percent, times,
};
use fathom_analysis::stats::Estimate;
use fathom_model::facts::{Host, TargetFacts};
use fathom_model::finding::Severity;
use fathom_model::{escape, units};
use std::fmt::Write;
use table::Table;

/// Width that running text is broken at.
const WIDTH: usize = 100;

/// The whole result as text.
#[must_use]
pub fn render(record: &LimitRecord) -> String {
    let mut out = String::new();
    header(&mut out, record);
    for target in &record.report.targets {
        let _ = write!(out, "\n{}\n{}", escape::text(&target.name), figures(&target.blocks));
        for block in &target.blocks {
            stopped(&mut out, block);
        }
    }
    counted(&mut out, record);
    for together in &record.report.together {
        several(&mut out, record, together);
    }
    findings(&mut out, record);
    for index in 0..record.report.targets.len() {
        let _ = write!(out, "\n{}", wrap(&paragraph(record, index), ""));
    }
    out
}

/// The result as JSON: a [`LimitRecord`].
///
/// # Errors
/// When a value cannot be written as JSON, which the types rule out.
pub fn json(record: &LimitRecord) -> serde_json::Result<String> {
    serde_json::to_string_pretty(record).map(|text| text + "\n")
}

fn header(out: &mut String, record: &LimitRecord) {
    if let Some(signal) = &record.interrupted {
        let _ = writeln!(out, "INTERRUPTED by {signal}: what follows is what was known by then\n");
    }
    let report = &record.report;
    let _ = writeln!(
        out,
        "fathom {} · {} · {:.0} s, {} windows",
        record.fathom_version,
        machine(&record.facts.host, report.cores),
        report.seconds_used,
        report.windows
    );
    let targets = record.facts.targets.iter().zip(&record.conditions);
    for ((facts, conditions), name) in targets.zip(&record.config.targets) {
        let how = if conditions.direct { "O_DIRECT" } else { "through the page cache" };
        let line = format!("{name}: {}, read with {how}", description(facts));
        let _ = writeln!(out, "{}", escape::text(&line));
    }
    let own = [("one worker", report.own.one_worker), ("all cores", report.own.all_cores)];
    let own: Vec<String> =
        own.iter().filter_map(|(name, e)| Some(format!("{name} {}", rate(&(*e)?)))).collect();
    if !own.is_empty() {
        let _ = writeln!(
            out,
            "The tool's own ceiling here (operations that do nothing, per second): {}",
            own.join(", ")
        );
    }
}

fn machine(host: &Host, cores: u32) -> String {
    let cores = if cores == 1 { "1 processor".to_string() } else { format!("{cores} processors") };
    let model = if host.cpu_model.is_empty() { "" } else { " of " };
    format!("Linux {} · {cores}{model}{}", host.kernel, host.cpu_model)
}

/// What a target is: kind, size, disk.
pub(crate) fn description(facts: &TargetFacts) -> String {
    let mut text = units::bytes(facts.size_bytes);
    if let Some(file_system) = &facts.file_system {
        let _ = write!(text, " on {file_system}");
    }
    if let Some(device) = &facts.device {
        let _ = write!(text, ", disk {}", device.name);
        let known = [&device.model, &device.serial].map(|s| s.as_deref().unwrap_or("").trim());
        let known: Vec<&str> = known.into_iter().filter(|s| !s.is_empty()).collect();
        if !known.is_empty() {
            let _ = write!(text, " ({})", known.join(", "));
        }
    }
    text
}

/// I/Os per second with the half-width of their interval.
pub(crate) fn rate(estimate: &Estimate) -> String {
    match estimate.relative() {
        Some(r) if r < 0.001 => format!("{} ±<0.1%", units::count(estimate.mean)),
        Some(r) if r > 1.0 => format!("{} ±>100%", units::count(estimate.mean)),
        Some(r) => format!("{} ±{:.1}%", units::count(estimate.mean), r * 100.0),
        None => units::count(estimate.mean),
    }
}

fn figures(blocks: &[BlockLimit]) -> String {
    let mut table = Table::new(&[
        "",
        "",
        "workers × depth",
        "I/Os per s",
        "bandwidth",
        "p50",
        "p99",
        "CPU per I/O",
        "one core stops at",
    ]);
    for block in blocks {
        let rows = [
            ("depth 1", block.latency.as_ref()),
            ("knee", block.knee.as_ref().map(|k| &k.point)),
            ("peak", block.peak.as_ref()),
        ];
        for (name, point) in rows {
            let size =
                if name == "depth 1" { units::bytes(block.block_bytes) } else { String::new() };
            let Some(p) = point else {
                table.row(vec![size, name.into(), "not measured".into()]);
                continue;
            };
            table.row(vec![
                size,
                name.into(),
                p.setting().to_string(),
                rate(&p.iops),
                units::bandwidth(p.bytes_per_second),
                units::time(p.clat_p50_ns as f64),
                units::time(p.clat_p99_ns as f64),
                units::time(p.cpu_ns_per_io()),
                p.one_core_iops().map_or_else(|| "-".into(), units::count),
            ]);
        }
    }
    table.render()
}

fn stopped(out: &mut String, block: &BlockLimit) {
    let size = units::bytes(block.block_bytes);
    if let Some(verdict) = &block.one_worker {
        let _ = writeln!(
            out,
            "\n{size}, one worker ({}) is stopped by: {}",
            verdict.at,
            cause(verdict.cause)
        );
        evidence(out, verdict);
    }
    match &block.verdict {
        Some(verdict) => {
            let _ = writeln!(
                out,
                "\n{size}, peak ({}) is stopped by: {}",
                verdict.at,
                cause(verdict.cause)
            );
            evidence(out, verdict);
        }
        None => {
            let _ = writeln!(out, "\n{size}: no verdict, as no counter-experiment was made");
        }
    }
    for problem in &block.problems {
        let _ = writeln!(out, "  at {}: {}", problem.setting, escape::text(&problem.message));
    }
}

fn evidence(out: &mut String, verdict: &Verdict) {
    out.push_str(&wrap(&format!("{}.", verdict.reason), "  "));
    for experiment in &verdict.experiments {
        let _ = writeln!(out, "  · {}", figures_of(experiment));
    }
}

fn figures_of(e: &Experiment) -> String {
    let what = match e.kind {
        ExperimentKind::Deeper => format!("twice the depth ({})", e.setting),
        ExperimentKind::MoreWorkers => format!("more workers ({})", e.setting),
        ExperimentKind::FewerCores => format!("on {} of the processors ({})", e.cores, e.setting),
    };
    match (&e.gain, &e.refused) {
        (Some(gain), _) => {
            let latency =
                e.latency_ratio.map_or_else(String::new, |l| format!(", latency {l:.2} times"));
            format!(
                "{what}: {} → {} I/Os per s in {} pairs, {}{latency}",
                units::count(e.base_iops.mean),
                units::count(e.changed_iops.mean),
                e.changed_iops.windows,
                times(gain)
            )
        }
        (None, Some(why)) => format!("{what}: not possible, {}", escape::text(why)),
        (None, None) => format!("{what}: no time left"),
    }
}

/// A cause in words.
pub(crate) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::SubmittingCore => "the submitting core",
        Cause::AllCores => "all cores of this machine",
        Cause::Device => "the device, or what is below it",
        Cause::Depth => "the depth that was asked",
        Cause::Undecided => "undecided",
    }
}

/// What an I/O costs at each peak, or why that is unknown.
fn counted(out: &mut String, record: &LimitRecord) {
    for peak in &record.costs {
        let name = record.report.targets.get(peak.target).map_or("?", |t| t.name.as_str());
        let size = units::bytes(peak.block_bytes);
        let cost = counters::per_io_of_worker(&peak.cost, &peak.lacks);
        let _ = write!(
            out,
            "\n{}",
            wrap(&format!("Counted at the peak of {name}, {size}: {cost}."), "")
        );
    }
    if let Some(why) = &record.costs_missing {
        let _ =
            write!(out, "\n{}", wrap(&format!("Counted at peaks: no instructions: {why}."), ""));
    }
}

fn several(out: &mut String, record: &LimitRecord, together: &Together) {
    let answer = match together.cause {
        TogetherCause::Independent => "they do not slow each other down",
        TogetherCause::Cores => "they slow each other down: this machine's cores are full",
        TogetherCause::SharedBelow => "they slow each other down: they share something below",
        TogetherCause::Undecided => "undecided whether they slow each other down",
    };
    let _ = writeln!(out, "\nAll together, {}: {answer}", units::bytes(together.block_bytes));
    out.push_str(&wrap(&format!("{}.", together.reason), "  "));
    let mut table = Table::new(&["", "workers × depth", "alone", "together", "ratio"]);
    for t in &together.targets {
        let name = record.report.targets.get(t.target).map_or("?", |t| t.name.as_str());
        table.row(vec![
            name.into(),
            format!("{} × {}", t.workers, t.depth),
            rate(&t.alone_iops),
            rate(&t.together_iops),
            t.ratio.map_or_else(|| "-".into(), |r| format!("{:.2}", r.value)),
        ]);
    }
    table.row(vec![
        "sum".into(),
        String::new(),
        rate(&together.alone_iops),
        rate(&together.together_iops),
        together.ratio.map_or_else(|| "-".into(), |r| format!("{:.2}", r.value)),
    ]);
    out.push_str(&table.render());
    if let Some(cpu) = together.cpu {
        let _ = writeln!(out, "  processors {} busy while all worked", percent(cpu.busy));
    }
}

fn findings(out: &mut String, record: &LimitRecord) {
    if record.findings.is_empty() {
        return;
    }
    out.push('\n');
    for finding in &record.findings {
        let label = match finding.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Info => "Note",
        };
        let next = finding.next_step.as_ref().map_or_else(String::new, |n| format!("; {n}"));
        out.push_str(&wrap(&format!("{label}: {}{next}.", finding.summary), ""));
    }
}

/// Breaks `text` into lines, each led by `indent`.
fn wrap(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut line = String::from(indent);
    for word in text.split_whitespace().map(escape::text) {
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += line.trim_end();
            out.push('\n');
            line = String::from(indent);
        } else if !is_first {
            line.push(' ');
        }
        line += &word;
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests;
