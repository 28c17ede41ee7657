//! Rounds of `fathom run`: the same jobs once or several times, tagged, compared with earlier runs, and held to requirements.

use crate::stdio::{self, error};
use crate::{compare, page};
use fathom_analysis::compare::{
    ComparedKind, Comparison, Measured, Published, STEADY_ROUNDS, Steadiness, Threshold,
    ThresholdOutcome, rounds,
};
use fathom_analysis::watch::Observed;
use fathom_model::record::{Header, RunRecord};
use fathom_report::doc::Document;
use fathom_report::{fio_json, pages, render};
use fathom_spec::Output;
use fathom_store::{check_tag, set_tag};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is asked of the rounds together, and the results so far.
pub struct Rounds {
    count: u32,
    as_fio: bool,
    /// Whether they end when they are steady: what was done to the targets before.
    steady: Option<Vec<String>>,
    tag: Option<String>,
    baseline: Option<Baseline>,
    fail_if: Vec<Threshold>,
    /// The header of the first, with what was found in any of them about the validity of figures.
    header: Option<Header>,
    results: Vec<Measured>,
    dirs: Vec<PathBuf>,
    judged: OnceCell<Result<Judged, String>>,
    /// What a file holds of the results so far.
    pub printed: String,
}

struct Baseline {
    name: String,
    results: Vec<Measured>,
    dirs: Vec<PathBuf>,
}

impl Baseline {
    fn open(name: &str, fail_if: &[Threshold]) -> Result<Self, String> {
        let side = compare::open(&[PathBuf::from(name)])?;
        let dirs = side.iter().filter_map(|(_, stored)| stored.dir().cloned()).collect();
        let results = compare::measured(&side, false, fail_if)?;
        let is_of_jobs =
            |one: &&Measured| matches!(one.kind, ComparedKind::Run | ComparedKind::Fio);
        match results.iter().find(|one| !is_of_jobs(one)) {
            Some(other) => Err(format!(
                "{} is a result of `{}`; name one of `run`, or fio's JSON",
                other.name,
                other.kind.name()
            )),
            None => Ok(Self { name: name.to_string(), results, dirs }),
        }
    }
}

/// What errors of conditions begin with.
pub const CONDITION: &str = "--fail-if '";

/// Parts of the JSON of a run that only some runs have.
const SOMETIMES: [&str; 5] = ["fathom", "mixed", "prios", "steadystate", "cpu_idleness"];

/// Refuses conditions on figures that no run has, before anything is measured.
fn check_figures(fail_if: &[Threshold], baseline: Option<&Baseline>) -> Result<(), String> {
    let percentiles: Vec<f64> = fail_if.iter().filter_map(Threshold::percent).collect();
    let published = Published::of(&fio_json::template(&percentiles));
    let any = [Measured { published, ..Measured::default() }];
    let results = any.iter().chain(baseline.iter().flat_map(|baseline| &baseline.results));
    let is_certain =
        |one: &&Threshold| !one.text.split(['.', ':', ' ']).any(|key| SOMETIMES.contains(&key));
    let certain: Vec<Threshold> = fail_if.iter().filter(is_certain).cloned().collect();
    match compare::unknown_figures(&certain, results).as_slice() {
        [] => Ok(()),
        errors => Err(errors.join("\n")),
    }
}

impl Rounds {
    /// What the options ask for.
    /// Fails before anything is measured: for an invalid tag or condition, or an unknown run.
    pub fn of(output: &Output) -> Result<Self, String> {
        output.tag.as_deref().map_or(Ok(()), check_tag).map_err(|e| format!("--tag: {e}"))?;
        let fail_if = output.fail_if.iter().map(|text| {
            let parsed = Threshold::parse(text).map_err(|e| format!("{CONDITION}{text}': {e}"))?;
            match parsed.is_change() && output.compare.is_none() {
                true => Err(format!(
                    "{CONDITION}{text}' is about a change; name what to compare with: --compare=RUN"
                )),
                false => Ok(parsed),
            }
        });
        let fail_if = fail_if.collect::<Result<Vec<Threshold>, String>>()?;
        let baseline = output.compare.as_deref().map(|name| Baseline::open(name, &fail_if));
        let baseline = baseline.transpose().map_err(|e| format!("--compare: {e}"))?;
        check_figures(&fail_if, baseline.as_ref())?;
        Ok(Self {
            count: output.rounds_max(),
            steady: output.steady_state.then(Vec::new),
            as_fio: output.as_fio,
            tag: output.tag.clone(),
            fail_if,
            baseline,
            header: None,
            results: Vec::new(),
            dirs: Vec::new(),
            judged: OnceCell::new(),
            printed: String::new(),
        })
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether the rounds are one result for people, in place of one for each.
    pub fn is_several(&self) -> bool {
        self.count > 1
    }

    /// Notes what was done before the first round.
    pub fn prepared(&mut self, lines: Vec<String>) {
        self.steady.iter_mut().for_each(|prepared| prepared.extend(lines.iter().cloned()));
    }

    /// Of the rounds so far, if they are to be steady.
    fn steadiness(&self) -> Option<Steadiness> {
        self.steady.as_ref().map(|_| Steadiness::of(&self.results))
    }

    pub fn is_steady(&self) -> bool {
        self.steadiness().is_some_and(|steadiness| steadiness.is_attained())
    }

    /// Why they are not steady, if that was the purpose.
    pub fn why_not_steady(&self) -> Option<String> {
        let steadiness = self.steadiness().filter(|steadiness| !steadiness.is_attained())?;
        Some(pages::not_steady(&steadiness))
    }

    /// Those that the results are taken from: the last ones, where they are to be steady.
    fn counted(&self) -> &[Measured] {
        match self.steady {
            Some(_) => &self.results[self.results.len().saturating_sub(STEADY_ROUNDS)..],
            None => &self.results,
        }
    }

    /// Adds a result, recorded in `dir`.
    pub fn add(
        &mut self,
        record: &RunRecord,
        observed: &Observed,
        dir: Option<&Path>,
    ) -> Result<(), String> {
        self.judged.take();
        let number = self.results.len() + 1;
        let recorded =
            dir.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = recorded.unwrap_or_else(|| format!("round {number}"));
        self.results.push(match self.is_beside_fio() {
            true => Measured::of_fio(&name, &fio_json::value(record))?,
            false => {
                let published = compare::published_by_run(record, observed, &self.fail_if);
                Measured { published, ..Measured::of_run(&name, record, observed) }
            }
        });
        self.dirs.extend(dir.map(Path::to_path_buf));
        let empty = || Header { findings: Vec::new(), ..record.header.clone() };
        let all = &mut self.header.get_or_insert_with(empty).findings;
        for found in record.header.findings.iter().filter(|found| !found.is_verdict()) {
            if !all.iter().any(|have| have.rule == found.rule) {
                all.push(found.clone());
            }
        }
        if self.is_several() && !self.as_fio {
            let result = render::line(&pages::run_result(record));
            stdio::info(&format!("fathom: round {number} of {}: {result}", self.count));
        }
        Ok(())
    }

    /// Whether what they are compared with is fio's JSON.
    fn is_beside_fio(&self) -> bool {
        self.baseline.iter().flat_map(|baseline| &baseline.results).any(|one| one.is_fio)
    }

    /// Tags a complete round, once its record in `dir` is.
    pub fn tag(&self, record: &RunRecord, dir: Option<&Path>) -> Result<(), String> {
        match (&self.tag, dir) {
            (None, _) => Ok(()),
            (Some(tag), Some(dir)) if record.is_complete() => set_tag(dir, tag, true).map(drop),
            (Some(tag), Some(_)) => Err(format!("the run is not tagged '{tag}': it is incomplete")),
            (Some(tag), None) => Err(format!("the run is not tagged '{tag}': it was not recorded")),
        }
    }

    /// The rounds so far by themselves and, with `--compare`, compared with earlier runs.
    pub fn judged(&self) -> Result<&Judged, String> {
        self.judged.get_or_init(|| self.judge()).as_ref().map_err(Clone::clone)
    }

    fn judge(&self) -> Result<Judged, String> {
        let Some(baseline) = &self.baseline else {
            let comparison = rounds(self.counted(), &self.fail_if)?;
            return Ok(Judged { comparison, baseline: None });
        };
        let dirs = [&baseline.dirs[..], &self.dirs[..]].concat();
        let (before, after) = (&baseline.results, self.counted());
        let comparison = compare::compare_sides(before, after, &dirs, &self.fail_if)?;
        Ok(Judged { comparison, baseline: Some(baseline.name.clone()) })
    }

    /// The page of several rounds; they are printed even where they cannot be compared.
    pub fn page(&self) -> Result<Document, String> {
        let fail_if = if self.baseline.is_none() { &self.fail_if[..] } else { &[] };
        let header = self.header.clone().unwrap_or_default();
        let steadiness = self.steadiness();
        let steady = steadiness.as_ref().zip(self.steady.as_deref());
        let counted = rounds(self.counted(), fail_if)?;
        let mut page = pages::rounds(&counted, &header, steady, page::zone());
        if let (Some(_), Ok(judged)) = (&self.baseline, self.judged()) {
            page.blocks.extend(judged.section().blocks);
        }
        Ok(page)
    }
}

/// The rounds compared with the baseline, or by themselves, with the requirements.
pub struct Judged {
    comparison: Comparison,
    baseline: Option<String>,
}

impl Judged {
    pub fn status(&self) -> ExitCode {
        compare::status(&self.comparison)
    }

    /// Reports requirements that are missed or inconclusive on standard error, where no page for users has them.
    pub fn report(&self) {
        let all = self.comparison.requirements.iter();
        for one in all.filter(|one| one.outcome != ThresholdOutcome::DoesNotHold) {
            error!("fail if {}: {}: {}", one.condition, one.outcome.name(), one.reason);
        }
    }

    /// The comparison, or the requirements, as a part of the page of a run.
    pub fn section(&self) -> Document {
        let mut page = Document::default();
        match &self.baseline {
            Some(name) => {
                let body = pages::compared(&self.comparison, page::zone());
                page.section("comparison", format!("with {name}"), body);
            }
            None => pages::requirements(&mut page, &self.comparison),
        }
        page
    }
}
