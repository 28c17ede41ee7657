//! Rounds of `fathom run`: the same jobs once or several times, tagged, compared with earlier runs, and held to requirements.

use crate::compare::{self, Side};
use crate::page;
use crate::stdio;
use fathom_analysis::compare::{Comparison, Measured, Threshold, rounds};
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
    tag: Option<String>,
    baseline: Option<(String, Side)>,
    fail_if: Vec<Threshold>,
    /// The header of the first.
    header: Option<Header>,
    results: Vec<Measured>,
    dirs: Vec<PathBuf>,
    judged: OnceCell<Result<Judged, String>>,
    /// What a file holds of the results so far.
    pub printed: String,
}

impl Rounds {
    /// What the options ask for.
    ///
    /// # Errors
    /// For users, before anything is measured: a tag, a condition or an earlier run that is none.
    pub fn of(output: &Output) -> Result<Self, String> {
        output.tag.as_deref().map_or(Ok(()), check_tag).map_err(|e| format!("--tag: {e}"))?;
        let fail_if = output.fail_if.iter().map(|text| {
            let parsed = Threshold::parse(text).map_err(|e| format!("--fail-if '{text}': {e}"))?;
            match parsed.is_change() && output.compare.is_none() {
                true => Err(format!(
                    "--fail-if '{text}' is about a change; name what to compare with: --compare=RUN"
                )),
                false => Ok(parsed),
            }
        });
        let baseline = output.compare.as_ref().map(|name| {
            let side = compare::open(&[PathBuf::from(name)]);
            side.map(|side| (name.clone(), side)).map_err(|e| format!("--compare: {e}"))
        });
        Ok(Self {
            count: output.repeat.max(1),
            tag: output.tag.clone(),
            fail_if: fail_if.collect::<Result<_, _>>()?,
            baseline: baseline.transpose()?,
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
            false => Measured::of_run(&name, record, observed),
        });
        self.dirs.extend(dir.map(Path::to_path_buf));
        self.header.get_or_insert_with(|| record.header.clone());
        if self.is_several() {
            let result = render::line(&pages::run_result(record));
            stdio::info(&format!("fathom: round {number} of {}: {result}", self.count));
        }
        Ok(())
    }

    /// Whether what they are compared with is fio's JSON.
    fn is_beside_fio(&self) -> bool {
        let side = self.baseline.iter().flat_map(|(_, side)| side);
        side.map(|(_, stored)| stored).any(|stored| stored.dir().is_none())
    }

    /// Tags the round that was added last, once its record is complete.
    pub fn tag_last(&self) -> Result<(), String> {
        match (&self.tag, self.dirs.last()) {
            (Some(tag), Some(dir)) if self.dirs.len() == self.results.len() => {
                set_tag(dir, tag, true).map(drop)
            }
            (Some(tag), _) => Err(format!("the run was not recorded and cannot be tagged '{tag}'")),
            (None, _) => Ok(()),
        }
    }

    /// The rounds so far by themselves and, with `--compare`, compared with earlier runs.
    pub fn judged(&self) -> Result<&Judged, String> {
        self.judged.get_or_init(|| self.judge()).as_ref().map_err(Clone::clone)
    }

    fn judge(&self) -> Result<Judged, String> {
        let Some((name, side)) = &self.baseline else {
            let comparison = rounds(&self.results, &self.fail_if)?;
            return Ok(Judged { comparison, with: None });
        };
        let before = compare::measured(side, self.is_beside_fio())?;
        let recorded = side.iter().filter_map(|(_, stored)| stored.dir().cloned());
        let dirs: Vec<PathBuf> = recorded.chain(self.dirs.iter().cloned()).collect();
        let comparison = compare::compare_sides(&before, &self.results, &dirs, &self.fail_if)?;
        Ok(Judged { comparison, with: Some(name.clone()) })
    }

    /// The page of several rounds, with what was `judged` of them.
    pub fn page(&self, judged: &Judged) -> Result<Document, String> {
        let alone = rounds(&self.results, if judged.with.is_none() { &self.fail_if } else { &[] })?;
        let header = self.header.clone().unwrap_or_default();
        let mut page = pages::rounds(&alone, &header, page::zone());
        if judged.with.is_some() {
            page.blocks.extend(judged.section().blocks);
        }
        Ok(page)
    }
}

/// What is known of all rounds.
pub struct Judged {
    comparison: Comparison,
    /// The name of what they were compared with.
    with: Option<String>,
}

impl Judged {
    pub fn status(&self) -> ExitCode {
        compare::status(&self.comparison)
    }

    /// The comparison, or the requirements, as a part of the page of a run.
    pub fn section(&self) -> Document {
        let mut page = Document::default();
        match &self.with {
            Some(name) => {
                let body = pages::compared(&self.comparison, page::zone());
                page.section("comparison", format!("with {name}"), body);
            }
            None => pages::requirements(&mut page, &self.comparison),
        }
        page
    }
}
