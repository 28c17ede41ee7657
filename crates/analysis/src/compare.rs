//! Stored results compared with each other: how much each figure changed, whether that is more than runs differ by
//! themselves, and what else differs between them.
//!
//! A change is claimed only if its interval excludes "no difference" and nothing makes the runs incomparable. The interval
//! rests on the variation between runs: that of both sets of repetitions, or of earlier runs of the same plan on the same
//! machine. Variation within a run says nothing about the next run.

mod differences;
mod fio;
mod measured;
mod named;
mod steady;
#[cfg(test)]
mod tests;
mod threshold;

pub use fio::is_fio;
pub use measured::{Measured, MeasuredPart};
pub use named::Published;
pub use steady::{JobSteadiness, STEADY_RANGE_MAX, STEADY_ROUNDS, STEADY_SLOPE_MAX, Steadiness};
pub use threshold::{Threshold, ThresholdOutcome, ThresholdResult};

use crate::metrics::{self, FigureUnit};
use crate::rules;
use crate::stats;
use differences::{differences, matters};
use fathom_model::finding::Finding;
use fathom_model::histogram::SUB_BUCKETS;
use fathom_model::window::{Estimate, Ratio};
use fathom_model::{Histogram, list};
use measured::{COMPARED, LAYER, LAYERS};
use named::Named;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Runs on each side from which their own variation is known, and earlier runs from which that of single ones is.
pub const SET_MIN: usize = 3;
/// The probability that any interval of a comparison misses the true change.
const OUTSIDE: f64 = 0.05;
/// The figure that is most asked for.
const MAIN: &str = "iops";
/// A layer with a smaller part of the CPU time on both sides is left out.
const LAYER_SHARE: f64 = 0.01;
/// Two values of a percentile in the same bucket of a histogram may differ by this share.
const PERCENTILE_STEP: f64 = 1.0 / SUB_BUCKETS as f64;

fathom_model::named! {
    /// What was measured.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum ComparedKind {
        /// Jobs (`fathom run`).
        #[default]
        Run = "run",
        /// A program, or the machine (`fathom watch`).
        Watch = "watch",
        /// A search (`fathom limit`).
        Limit = "limit",
        /// A grid (`fathom sweep`).
        Sweep = "sweep",
        /// Variants (`fathom try`).
        Try = "try",
        /// fio's JSON.
        Fio = "fio",
    }
}

/// Two sets of results and how they differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// What was measured.
    pub kind: ComparedKind,
    /// The base.
    pub before: ComparedSide,
    /// What is compared with it.
    pub after: ComparedSide,
    /// Earlier runs of the same plan on the same machine, or those of the larger side, that show how much runs differ; empty
    /// where both sides do.
    pub earlier: Vec<String>,
    /// Jobs, kinds of I/O, variants and devices with their figures.
    pub parts: Vec<ComparedPart>,
    /// What of the plans differs.
    pub plan: Vec<Difference>,
    /// What else differs, what is known to matter for the figures that changed first.
    pub settings: Vec<Difference>,
    /// The requirements (`--fail-if`).
    pub requirements: Vec<ThresholdResult>,
    /// What makes the runs incomparable, worst first, and last the answer.
    pub findings: Vec<Finding>,
}

/// One side of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedSide {
    /// Its runs.
    pub runs: Vec<ComparedRun>,
    /// What limited them, in a few words, or by the ids of rules: most frequent first, with the number of runs unless it is
    /// all of them.
    pub limited_by: Vec<String>,
}

/// A run of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedRun {
    /// As named on the command line, or the name of a run with the tag that is named there.
    pub name: String,
    /// When it started, in nanoseconds since 1970 (UTC); 0 if unknown.
    pub started_unix_ns: u64,
    /// Why it is not complete, if so.
    pub incomplete: Option<String>,
    /// What besides the load could change its figures.
    pub conditions: RunConditions,
}

/// What besides the load could change the figures of a run; null where it was not sampled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RunConditions {
    /// CPUs that it could use; 0 if unknown.
    pub cpus: u32,
    /// CPUs that other programs kept busy.
    pub other_cpus: Option<f64>,
    /// The other program that used most.
    pub other_program: Option<String>,
    /// CPUs busy that were not the load's, interrupts included; of experiments, in place of `other_cpus`.
    pub unaccounted_cpus: Option<f64>,
    /// The part of the disks' bytes that was not the load's, from 0 to 1.
    pub other_disk_share: Option<f64>,
    /// CPU time withheld by the hypervisor, as a share.
    pub steal: Option<f64>,
    /// Time for which the CPU quota of the cgroup kept threads from running, in CPUs.
    pub throttled_cpus: Option<f64>,
    /// Drives at or above their warning temperature at the start, with the temperature in °C.
    pub hot_drives: Vec<(String, i32)>,
    /// Bytes that came from disks per byte read, at most 1: low where a cache served the reads.
    pub read_from_disk: Option<f64>,
    /// Whether the whole machine was watched, so that no program is another one.
    pub whole_machine: bool,
}

/// A part of the results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedPart {
    /// A job, a kind of I/O, a variant or a device.
    pub name: String,
    /// Its figures on both sides.
    pub figures: Vec<ComparedFigure>,
}

/// A figure on both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedFigure {
    /// Its name in docs/figures.md, or its keys in the JSON of the result, with dots between them.
    pub id: String,
    /// Its name in text.
    pub title: String,
    /// Its unit.
    pub unit: &'static str,
    /// The mean of the runs; a percentile is that of all their I/Os.
    pub before: f64,
    /// The same.
    pub after: f64,
    /// The value of each run.
    pub before_runs: Vec<f64>,
    /// The same.
    pub after_runs: Vec<f64>,
    /// `after` over `before`; null where one is 0.
    pub ratio: Option<f64>,
    /// The interval of the ratio, lower and upper end: all intervals of a comparison hold at once with 95% confidence. Of a
    /// percentile, that of the runs' percentiles, and wide enough to hold the ratio. Null where the variation between runs is not known.
    pub interval: Option<(f64, f64)>,
    /// What can be said about it.
    pub verdict: FigureVerdict,
    /// Whether more is worse, where a condition says so.
    #[serde(skip)]
    pub more_is_worse: Option<bool>,
}

fathom_model::named! {
    /// What can be said about a change.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum FigureVerdict {
        /// The figure changed.
        Changed = "changed",
        /// The interval includes "no difference".
        NotShown = "not shown",
        /// The interval excludes "no difference", but something else may be the cause.
        NotComparable = "not comparable",
        /// The variation between runs is not known.
        #[default]
        Unknown = "unknown",
    }
}

/// A setting or a fact that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// What it is.
    pub name: String,
    /// Its value, or the different ones; empty where it is not set or not known.
    pub before: String,
    /// The same.
    pub after: String,
    /// Which of the figures that changed it is known to affect, and how; empty if none. Where nothing changed, the main figure.
    pub matters: String,
}

impl ComparedFigure {
    pub fn figure_unit(&self) -> FigureUnit {
        named::unit(&self.id).0
    }

    pub fn interval(&self) -> Option<Ratio> {
        let (value, (low, high)) = self.ratio.zip(self.interval)?;
        Some(Ratio { value, low, high })
    }

    /// What is said of a change without a ratio.
    pub fn zero(&self) -> &'static str {
        match (self.before == 0.0, self.after == 0.0) {
            (true, false) => "from 0",
            (false, true) => "to 0",
            _ => "",
        }
    }

    /// Whether the change is for the better, where a figure has a better side.
    pub fn is_better(&self) -> Option<bool> {
        let rises = self.ratio? > 1.0;
        match (self.more_is_worse, self.figure_unit()) {
            (Some(is_worse), _) => Some(rises != is_worse),
            (None, FigureUnit::Rate | FigureUnit::BytesPerSecond) => Some(rises),
            (None, FigureUnit::Milliseconds) => Some(!rises),
            _ => None,
        }
    }

    /// The mean of the runs after, with the interval that their variation gives it.
    pub fn estimate(&self) -> Estimate {
        stats::mean(&self.after_runs)
    }

    fn is_outside(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

impl ComparedSide {
    fn of(runs: &[Measured]) -> Self {
        let run = |run: &Measured| ComparedRun {
            name: run.name.clone(),
            started_unix_ns: run.started_unix_ns,
            incomplete: run.incomplete.clone(),
            conditions: run.conditions.clone(),
        };
        Self { runs: runs.iter().map(run).collect(), limited_by: limited_by(runs) }
    }
}

/// What limited `runs`, most frequent first, then by rank, with the number of runs unless it is all of them.
fn limited_by(runs: &[Measured]) -> Vec<String> {
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for run in runs {
        for (rank, name) in list::distinct(&run.limited_by).into_iter().enumerate() {
            let (count, ranks) = found.entry(name).or_default();
            *count += 1;
            *ranks += rank;
        }
    }
    let mut found: Vec<(&str, (usize, usize))> = found.into_iter().collect();
    // Compares mean ranks; names in alphabetical order where these are equal.
    found.sort_by(|(_, (a, of_a)), (_, (b, of_b))| b.cmp(a).then((of_a * b).cmp(&(of_b * a))));
    let all = runs.len();
    let shown = |(name, (count, _)): (&str, (usize, usize))| match count == all {
        true => name.to_string(),
        false => format!("{name} ({count} of {all})"),
    };
    found.into_iter().map(shown).collect()
}

impl Comparison {
    /// Each figure with its name in sentences, which has that of its part where there are several.
    pub fn figures(&self) -> impl Iterator<Item = (String, &ComparedFigure)> {
        let has_parts = self.parts.len() > 1;
        self.parts.iter().flat_map(move |part| {
            let name = move |figure: &ComparedFigure| match has_parts && part.name != LAYERS {
                true => format!("{} {}", part.name, figure.title),
                false => figure.title.clone(),
            };
            part.figures.iter().map(move |figure| (name(figure), figure))
        })
    }
}

/// `after` compared with `before`, and whether it meets the requirements that `thresholds` state. Where one side has fewer
/// than [`SET_MIN`] runs, `earlier` ones show how much runs differ, if there are as many.
/// Fails for results of different kinds, or without a common part.
pub fn compare(
    before: &[Measured],
    after: &[Measured],
    earlier: &[Measured],
    thresholds: &[Threshold],
) -> Result<Comparison, String> {
    let kind = one_kind(before.iter().chain(after))?;
    let earlier = match before.len().min(after.len()) >= SET_MIN || earlier.len() < SET_MIN {
        true => &[],
        false => earlier,
    };
    let [before, after, earlier] = [before, after, earlier].map(|runs| asked(runs, thresholds));
    let all = || before.iter().chain(&after);
    let is_mixed = all().any(|run| run.is_fio) && all().any(|run| !run.is_fio);
    let mut comparison = Comparison {
        kind,
        before: ComparedSide::of(&before),
        after: ComparedSide::of(&after),
        earlier: earlier.iter().map(|run| run.name.clone()).collect(),
        parts: parts(&before, &after, thresholds),
        plan: differences(&before, &after, |run| &run.plan, is_mixed),
        settings: differences(&before, &after, |run| &run.settings, is_mixed),
        ..Comparison::default()
    };
    if comparison.parts.is_empty() {
        let names = |runs: &[Measured]| {
            let names = runs.iter().flat_map(|run| &run.parts).map(|part| part.name.as_str());
            let names: Vec<&str> = names.collect();
            if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
        };
        return Err(format!(
            "nothing is in both: {} has {}, {} has {}; compare results of the same jobs",
            before[0].name,
            names(&before),
            after[0].name,
            names(&after)
        ));
    }
    intervals(&mut comparison.parts, &earlier);
    rules::judge_comparison(&mut comparison);
    matters(&mut comparison);
    comparison.requirements = thresholds.iter().map(|one| one.check(&comparison)).collect();
    Ok(comparison)
}

/// Runs of one plan by themselves, as the side after of a comparison without another, and whether they meet the
/// requirements, which are values. Figures are the means of those that are complete, if there are any.
/// Fails for results of different kinds.
pub fn rounds(runs: &[Measured], thresholds: &[Threshold]) -> Result<Comparison, String> {
    let complete: Vec<Measured> =
        runs.iter().filter(|run| run.incomplete.is_none()).cloned().collect();
    let counted = asked(if complete.is_empty() { runs } else { &complete }, thresholds);
    let mut rounds = Comparison {
        kind: one_kind(runs.iter())?,
        after: ComparedSide::of(runs),
        parts: parts(&counted, &counted, thresholds),
        ..Comparison::default()
    };
    for figure in rounds.parts.iter_mut().flat_map(|part| &mut part.figures) {
        figure.after = figure.estimate().mean;
        figure.title = title(&figure.id);
    }
    rounds.requirements = thresholds.iter().map(|one| one.check(&rounds)).collect();
    Ok(rounds)
}

fn one_kind<'a>(mut runs: impl Iterator<Item = &'a Measured>) -> Result<ComparedKind, String> {
    let first = runs.next().ok_or("name results to compare")?;
    match runs.find(|run| run.kind != first.kind) {
        None => Ok(first.kind),
        Some(other) => Err(format!(
            "{} is a result of `{}`, {} one of `{}`; compare results of the same command",
            first.name,
            first.kind.name(),
            other.name,
            other.kind.name()
        )),
    }
}

/// The runs with the figures that `thresholds` ask for.
fn asked(runs: &[Measured], thresholds: &[Threshold]) -> Vec<Measured> {
    let wanted: Vec<&Named> = thresholds.iter().map(|threshold| &threshold.figure).collect();
    let with = |run: &Measured| {
        let parts = named::asked(&run.parts, &run.published, &wanted);
        Measured { parts, ..run.clone() }
    };
    runs.iter().map(with).collect()
}

/// The parts that all runs have.
fn parts(before: &[Measured], after: &[Measured], thresholds: &[Threshold]) -> Vec<ComparedPart> {
    let Some(first) = before.first() else { return Vec::new() };
    let part = |found: &MeasuredPart| {
        let sides = [before, after].map(|runs| parts_named(runs, &found.name));
        let is_whole = sides[0].len() == before.len() && sides[1].len() == after.len();
        let others = found.figures.keys().map(String::as_str).filter(|id| !COMPARED.contains(id));
        let ids = COMPARED.iter().copied().chain(others);
        let mut figures: Vec<ComparedFigure> =
            ids.filter_map(|id| figure(id, &sides, thresholds)).collect();
        without_small_layers(&mut figures);
        is_whole.then(|| ComparedPart { name: found.name.clone(), figures })
    };
    let all = first.parts.iter().filter_map(part);
    all.filter(|part| !part.figures.is_empty()).collect()
}

fn without_small_layers(figures: &mut Vec<ComparedFigure>) {
    let is_layer = |figure: &ComparedFigure| figure.id.starts_with(LAYER);
    let sums = figures.iter().filter(|figure| is_layer(figure));
    let sums = sums.fold([0.0, 0.0], |[a, b], of| [a + of.before, b + of.after]);
    let is_large = |of: &ComparedFigure| {
        of.before >= LAYER_SHARE * sums[0] || of.after >= LAYER_SHARE * sums[1]
    };
    figures.retain(|figure| !is_layer(figure) || is_large(figure));
}

fn parts_named<'a>(runs: &'a [Measured], name: &str) -> Vec<&'a MeasuredPart> {
    runs.iter().filter_map(|run| run.parts.iter().find(|part| part.name == *name)).collect()
}

fn values(parts: &[&MeasuredPart], id: &str) -> Vec<f64> {
    parts.iter().filter_map(|part| part.figures.get(id).copied()).collect()
}

/// A figure that all runs have, of those that are always compared and those that `thresholds` ask for.
fn figure(
    id: &str,
    sides: &[Vec<&MeasuredPart>; 2],
    thresholds: &[Threshold],
) -> Option<ComparedFigure> {
    let threshold = thresholds.iter().find(|one| one.figure.is(id));
    let is_shown = COMPARED.contains(&id) || id.starts_with(LAYER) || threshold.is_some();
    let [before_runs, after_runs] = [0, 1].map(|side| values(&sides[side], id));
    let is_whole = |runs: &[f64], side: usize| runs.len() == sides[side].len();
    if !is_shown || !is_whole(&before_runs, 0) || !is_whole(&after_runs, 1) {
        return None;
    }
    let mean = |runs: &[f64]| runs.iter().sum::<f64>() / runs.len() as f64;
    if mean(&before_runs) == 0.0 && mean(&after_runs) == 0.0 && threshold.is_none() {
        return None;
    }
    let shown = |runs: &[f64], side: usize| merged(id, &sides[side]).unwrap_or_else(|| mean(runs));
    let (before, after) = (shown(&before_runs, 0), shown(&after_runs, 1));
    let ratio = after / before;
    // Each run has one of its own, too.
    let is_of_all = sides.iter().any(|side| side.len() > 1 && merged(id, side).is_some());
    let title = if is_of_all { format!("{} of all I/Os", title(id)) } else { title(id) };
    let (unit, _) = named::unit(id);
    let is_known =
        matches!(unit, FigureUnit::Rate | FigureUnit::BytesPerSecond | FigureUnit::Milliseconds);
    Some(ComparedFigure {
        id: id.to_string(),
        title,
        unit: unit.name(),
        before,
        after,
        ratio: Some(ratio).filter(|ratio| *ratio > 0.0 && ratio.is_finite()),
        before_runs,
        after_runs,
        more_is_worse: threshold.filter(|_| !is_known).map(|one| one.is_above),
        ..ComparedFigure::default()
    })
}

/// The name of a figure in text.
fn title(id: &str) -> String {
    match (metrics::named(id), id.strip_prefix(LAYER), named::percent_of(id)) {
        // In sentences, its value comes before: `2.1 MiB/s of I/O`.
        (Some(row), ..) => row.title.strip_prefix("of ").unwrap_or(row.title).to_string(),
        (None, Some(layer), _) => format!("CPU per I/O in {layer}"),
        (None, None, Some(percent)) => format!("p{percent}"),
        (None, None, None) => id.to_string(),
    }
}

/// A percentile of the I/Os of all runs.
fn merged(id: &str, parts: &[&MeasuredPart]) -> Option<f64> {
    let percent = named::percent_of(id)?;
    let mut all = Histogram::default();
    parts.iter().for_each(|part| all.merge(&part.latency));
    all.percentile(percent).map(|ns| ns as f64 / 1e6)
}

fn intervals(parts: &mut [ComparedPart], earlier: &[Measured]) {
    let known = |figure: &&mut ComparedFigure| figure.ratio.is_some();
    let is_main = |figure: &ComparedFigure| figure.id == MAIN;
    let figures = parts.iter_mut().flat_map(|part| &mut part.figures).filter(known);
    let (main, others): (Vec<_>, Vec<_>) = figures.partition(|figure| is_main(figure));
    // Bonferroni, with the same weight for the main figure as for all others: all intervals hold at once.
    let outside = |count: usize| match main.is_empty() || others.is_empty() {
        true => OUTSIDE / count.max(1) as f64,
        false => OUTSIDE / 2.0 / count.max(1) as f64,
    };
    let (of_main, of_others) = (outside(main.len()), outside(others.len()));
    for part in parts {
        let others = parts_named(earlier, &part.name);
        for figure in part.figures.iter_mut().filter(known) {
            let (changed, base) = (&figure.after_runs, &figure.before_runs);
            let outside = if is_main(figure) { of_main } else { of_others };
            let interval = match changed.len().min(base.len()) {
                SET_MIN.. => stats::welch_at(changed, base, outside),
                _ => Some(values(&others, &figure.id))
                    .filter(|others| others.len() >= SET_MIN)
                    .and_then(|others| stats::ratio_beside(changed, base, &others, outside)),
            };
            let is_percentile =
                named::percent_of(&figure.id).is_some() || figure.id.contains("percentile.");
            let step = if is_percentile { 1.0 + PERCENTILE_STEP } else { 1.0 };
            // A percentile of all I/Os is not the mean of the runs' percentiles.
            let ratio = figure.ratio.unwrap_or(1.0);
            let holding =
                |found: Ratio| ((found.low / step).min(ratio), (found.high * step).max(ratio));
            figure.interval = interval.map(holding);
        }
    }
}

/// What can be said about each change, if the runs are comparable or not.
pub(crate) fn judge_figures(comparison: &mut Comparison, is_comparable: bool) {
    for figure in comparison.parts.iter_mut().flat_map(|part| &mut part.figures) {
        figure.verdict = match (figure.interval, figure.is_outside()) {
            (None, _) => FigureVerdict::Unknown,
            (Some(_), false) => FigureVerdict::NotShown,
            (Some(_), true) if is_comparable => FigureVerdict::Changed,
            (Some(_), true) => FigureVerdict::NotComparable,
        };
    }
}
