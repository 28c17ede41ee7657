//! The list of recorded runs.

use super::header::command_line;
use super::limited_by::verdict;
use crate::calendar::{self, TimeZone};
use crate::doc::{DataColumn, Document, Text, bandwidth, bytes, count, of, plural, text, time};
use crate::render;
use fathom_analysis::derive;
use fathom_analysis::rules::missing_verdict;
use fathom_analysis::watch::Observed;
use fathom_model::Finding;
use fathom_model::experiment::{Claim, ExperimentRecord};
use fathom_model::finding::Part;
use fathom_model::limit::LimitRecord;
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::record::{Record, RunRecord};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// One run of the list.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct RunRow {
    /// Its name, by which `fathom show` finds it.
    pub name: String,
    /// The user's names for it and other runs.
    pub tags: Vec<String>,
    /// When it started, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Whether it is still being recorded.
    pub in_progress: bool,
    /// Size of its directory in bytes.
    pub size_bytes: u64,
    /// What its record says; the main figure is why it cannot be read where it cannot.
    #[serde(flatten)]
    pub summary: RunSummary,
}

/// A record in a line.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Kind of record.
    pub kind: Option<RecordKind>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The command line.
    pub command: Vec<String>,
    /// The main figure.
    #[serde(serialize_with = "as_line")]
    #[schemars(with = "String")]
    pub headline: Text,
    /// What limited it, or what was found, in sentences, without refuted causes; null where nothing is known.
    pub verdict: Option<String>,
    /// The same by the ids of rules.
    pub limited_by: Vec<String>,
    /// The same in a few words each.
    #[serde(skip)]
    pub limits: Vec<String>,
}

fn as_line<S: Serializer>(text: &Text, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&render::line(text))
}

/// Newest last, with the total size.
pub fn runs(rows: &[RunRow], zone: &TimeZone) -> Document {
    let mut page = Document::default();
    if rows.is_empty() {
        page.paragraph("no runs are recorded");
        return page;
    }
    let mut columns = vec![
        DataColumn::text("name"),
        DataColumn::text("started").ranked(3),
        DataColumn::text("result"),
        DataColumn::text("limited by"),
        DataColumn::number("size").ranked(2),
        DataColumn::cut("command").ranked(1),
    ];
    let has_tags = rows.iter().any(|row| !row.tags.is_empty());
    if has_tags {
        columns.insert(1, DataColumn::text("tags"));
    }
    let cells = |row: &RunRow| -> Vec<Text> {
        let RunSummary { command, headline, limits, .. } = &row.summary;
        let result = if row.in_progress { "in progress".into() } else { headline.clone() };
        let mut cells = vec![
            row.name.as_str().into(),
            calendar::date_and_time(row.started_unix_ns, zone).into(),
            result,
            limits.join(", ").into(),
            bytes(row.size_bytes).into(),
            command_line(command.get(1..).unwrap_or_default()).into(),
        ];
        if has_tags {
            cells.insert(1, row.tags.join(", ").into());
        }
        cells
    };
    page.table(columns, rows.iter().map(cells).collect());
    let total = rows.iter().map(|row| row.size_bytes).sum();
    page.paragraph(text!(plural(rows.len() as u64, "run"), ", ", bytes(total)));
    page
}

pub fn run_summary(record: &Record) -> RunSummary {
    let header = record.header();
    let found: Vec<&Finding> = header.findings.iter().filter(|f| f.is_verdict()).collect();
    let not_refuted = |finding: &&&Finding| !finding.is_refuted();
    let sentences: Vec<&str> =
        found.iter().filter(not_refuted).map(|f| f.summary.as_str()).collect();
    let missing = missing_verdict(record, &Observed::default());
    let (headline, sentences, limiters) = match record {
        Record::Run(record) => (run_result(record), sentences.join(" "), found),
        Record::Limit(record) => {
            let (sentence, limiters) = limit_verdict(record, &missing);
            (limit_result(record), sentence, limiters.into_iter().collect())
        }
        Record::Experiment(record) => {
            let effects = super::experiment::effects(header.findings.iter().chain(&missing));
            (experiment_result(record), effects.join(" "), Vec::new())
        }
    };
    RunSummary {
        headline,
        verdict: (!sentences.is_empty()).then_some(sentences),
        limited_by: limiters.iter().filter(not_refuted).map(|f| f.rule.clone()).collect(),
        limits: limiters.iter().map(|finding| limit(finding)).collect(),
        kind: Some(header.kind),
        outcome: Some(header.outcome.clone()),
        command: header.command.clone(),
    }
}

/// A limiter in a few words, and what an experiment showed about it.
fn limit(finding: &Finding) -> String {
    let name = finding.limiter();
    match &finding.confirmed {
        Some(found) if found.ratio.is_some() => format!("{name}: {}", verdict(found.verdict)),
        _ => name.to_string(),
    }
}

/// What limits the first kind of I/O of the first target.
fn limit_verdict<'a>(
    record: &'a LimitRecord,
    missing: &'a [Finding],
) -> (String, Option<&'a Finding>) {
    let part = Some(Part::Peak { target: 0, block: 0 });
    let mut all = record.header.findings.iter().chain(missing);
    let block = record.report.targets.first().and_then(|target| target.blocks.first());
    let verdict = all.find(|found| found.is_verdict() && found.part == part);
    let Some((block, verdict)) = block.zip(verdict) else {
        return (String::new(), None);
    };
    let sentence = match &verdict.limited_by {
        Some(limit) => format!("{} peak is limited by {limit}: {}", block.name(), verdict.summary),
        None => format!(
            "It is inconclusive what limits {} peak. {}",
            block.name().to_lowercase(),
            verdict.summary
        ),
    };
    (render::line(&sentence.into()), Some(verdict))
}

/// The main figure of a run: IOPS and bandwidth of all jobs.
pub fn run_result(record: &RunRecord) -> Text {
    if record.jobs.is_empty() {
        let command = record.header.sampling.as_ref().and_then(|watch| watch.command.as_ref());
        let elapsed_ns = command.map_or(record.header.elapsed_ns, |command| command.elapsed_ns);
        let sampled = match elapsed_ns {
            0 => "no result".into(),
            _ => text!("sampled for ", time(elapsed_ns as f64)),
        };
        return early(&record.header.outcome, sampled);
    }
    let rate = |part: fn(&fathom_model::progress::Counts) -> u64| {
        let of_job = |job: &fathom_model::record::JobRecord| {
            let sum: u64 = job.dirs.iter().map(|(_, dir)| part(&dir.counts)).sum();
            sum as f64 * 1e9 / job.runtime_ns.max(1) as f64
        };
        record.jobs.iter().map(of_job).sum::<f64>()
    };
    if record.jobs.iter().all(|job| derive::ios(job) == 0) {
        return early(&record.header.outcome, "no I/O".into());
    }
    let figures = text!(of(count(rate(|c| c.ios)), "IOPS"), ", ", bandwidth(rate(|c| c.bytes)));
    early(&record.header.outcome, figures)
}

/// The main figure of a search: the peak with the first block size of the first target.
fn limit_result(record: &LimitRecord) -> Text {
    let block = record.report.targets.first().and_then(|target| target.blocks.first());
    let peak = block.and_then(|block| Some((block.name(), block.peak.as_ref()?)));
    let peak = peak.map_or("no result".into(), |(name, peak)| {
        text!(name, " peak ", of(count(peak.iops.mean), "IOPS"))
    });
    early(&record.header.outcome, peak)
}

/// The main figure of an experiment: how many of its effects are known.
fn experiment_result(record: &ExperimentRecord) -> Text {
    let name = &record.request.experiment.name;
    let effects = record.report.conditions.iter().filter_map(|found| found.effect.as_ref());
    let changed = effects.clone().filter(|effect| effect.claim == Claim::Changed).count();
    let found = match (effects.count(), record.report.conditions.len()) {
        (0, cells) => text!(name.as_str(), ", ", plural(cells as u64, "cell")),
        (all, _) => text!(name.as_str(), format!(", {changed} of "), plural(all as u64, "effect")),
    };
    early(&record.header.outcome, found)
}

fn early(outcome: &Outcome, figures: Text) -> Text {
    match outcome {
        Outcome::Finished => figures,
        Outcome::Interrupted { .. } => text!(figures, " (interrupted)"),
        Outcome::Refused { .. } => "refused".into(),
        Outcome::Failed { .. } => text!(figures, " (incomplete)"),
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct LeftoverRow {
    pub path: String,
    pub what: &'static str,
    pub bytes: u64,
    pub removed: bool,
}

pub fn leftovers(rows: &[LeftoverRow]) -> Document {
    let mut page = Document::default();
    if rows.is_empty() {
        page.paragraph("no files left by killed runs");
        return page;
    }
    let columns = vec![DataColumn::text("file"), DataColumn::number("size"), DataColumn::text("")];
    let cells = |row: &LeftoverRow| -> Vec<Text> {
        let what = if row.removed { format!("{}, removed", row.what) } else { row.what.into() };
        vec![row.path.as_str().into(), bytes(row.bytes).into(), what.into()]
    };
    page.table(columns, rows.iter().map(cells).collect());
    page
}
