//! The list of recorded runs.

use crate::doc::{DataColumn, Document, Text, bandwidth, bytes, count, of, plural, text, time};
use fathom_analysis::derive;
use fathom_analysis::experiment::{Claim, ExperimentRecord};
use fathom_analysis::limit::LimitRecord;
use fathom_model::outcome::Outcome;
use fathom_model::record::RunRecord;

/// One run of the list.
#[derive(Debug, Clone, Default)]
pub struct RunRow {
    /// Its name, by which `fathom show` finds it.
    pub name: String,
    /// When it started, as local time.
    pub started: String,
    /// What it was: the command line.
    pub command: String,
    /// Its main figure.
    pub result: Text,
    /// Size of its directory in bytes.
    pub size_bytes: u64,
}

/// Newest last, with the total size.
#[must_use]
pub fn runs(rows: &[RunRow]) -> Document {
    let mut page = Document::default();
    if rows.is_empty() {
        page.paragraph("no runs are recorded");
        return page;
    }
    let columns = vec![
        DataColumn::text("name"),
        DataColumn::text("started").ranked(3),
        DataColumn::text("result"),
        DataColumn::number("size").ranked(2),
        DataColumn::cut("command").ranked(1),
    ];
    let cells = |row: &RunRow| {
        let size = bytes(row.size_bytes);
        let words = [row.name.as_str().into(), row.started.as_str().into(), row.result.clone()];
        words.into_iter().chain([size.into(), row.command.as_str().into()]).collect()
    };
    page.table(columns, rows.iter().map(cells).collect());
    let total = rows.iter().map(|row| row.size_bytes).sum();
    page.paragraph(text!(plural(rows.len() as u64, "run"), ", ", bytes(total)));
    page
}

/// The main figure of a run: IOPS and bandwidth of all jobs.
#[must_use]
pub fn run_result(record: &RunRecord) -> Text {
    if record.jobs.is_empty() {
        let command = record.watch.as_ref().and_then(|watch| watch.command.as_ref());
        let elapsed_ns = command.map_or(record.elapsed_ns, |command| command.elapsed_ns);
        return early(&record.outcome, text!("sampled for ", time(elapsed_ns as f64)));
    }
    let rate = |part: fn(&fathom_model::progress::Counts) -> u64| {
        let of_job = |job: &fathom_model::record::JobRecord| {
            let sum: u64 = job.dirs.iter().map(|(_, dir)| part(&dir.counts)).sum();
            sum as f64 * 1e9 / job.runtime_ns.max(1) as f64
        };
        record.jobs.iter().map(of_job).sum::<f64>()
    };
    if record.jobs.iter().all(|job| derive::ios(job) == 0) {
        return early(&record.outcome, "no I/O".into());
    }
    let figures = text!(of(count(rate(|c| c.ios)), "IOPS"), ", ", bandwidth(rate(|c| c.bytes)));
    early(&record.outcome, figures)
}

/// The main figure of a search: the peak with the first block size of the first target.
#[must_use]
pub fn limit_result(record: &LimitRecord) -> Text {
    let block = record.report.targets.first().and_then(|target| target.blocks.first());
    let peak = block.and_then(|block| Some((block.name(), block.peak.as_ref()?)));
    let peak = peak.map_or("no result".into(), |(name, peak)| {
        text!(name, " peak ", of(count(peak.iops.mean), "IOPS"))
    });
    early(&record.outcome, peak)
}

/// The main figure of an experiment: how many of its effects are known.
#[must_use]
pub fn experiment_result(record: &ExperimentRecord) -> Text {
    let name = &record.request.experiment.name;
    let effects = record.report.conditions.iter().filter_map(|found| found.effect.as_ref());
    let changed = effects.clone().filter(|effect| effect.claim == Claim::Changed).count();
    let found = match (effects.count(), record.report.conditions.len()) {
        (0, cells) => text!(name.as_str(), ", ", plural(cells as u64, "cell")),
        (all, _) => text!(name.as_str(), format!(", {changed} of "), plural(all as u64, "effect")),
    };
    early(&record.outcome, found)
}

fn early(outcome: &Outcome, figures: Text) -> Text {
    match outcome {
        Outcome::Finished => figures,
        Outcome::Interrupted { .. } => text!(figures, " (interrupted)"),
        Outcome::Refused { .. } => "refused".into(),
        Outcome::Failed { .. } => text!(figures, " (incomplete)"),
    }
}
