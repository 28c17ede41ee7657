//! A [`Spec`] held against the [`Facts`] about a machine: what is to be done, in full.

mod checks;
mod engine;
mod jobs;
mod regions;
mod waves;

use crate::error::SpecError;
use crate::job::JobSpec;
use crate::names;
use crate::spec::{JOBS_MAX, Spec, job_error};
use fathom_model::facts::{Facts, TargetFacts};
use fathom_model::plan::{Plan, Target};
use std::collections::{BTreeMap, HashMap};

/// Resolves `spec` on the machine that `facts` describe; `facts.targets` holds what is known of
/// each path of [`Spec::target_paths`].
///
/// # Errors
/// What cannot be done here, why, and what could.
pub fn plan(spec: &Spec, facts: &Facts) -> Result<Plan, SpecError> {
    let by_path = facts.targets.iter().map(|target| (target.path.as_str(), target)).collect();
    let mut planner = Planner { spec, by_path, plan: Plan::default(), index: HashMap::new() };
    planner.plan.notes.clone_from(&spec.notes);
    for given in &spec.global {
        planner.plan.global_options.insert(given.key.to_string(), given.value.clone());
    }
    let clones: u64 = spec.jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    if clones > u64::from(JOBS_MAX) {
        let message = format!("{clones} jobs with all clones; at most {JOBS_MAX} can run");
        return Err(SpecError::new(message));
    }
    let mut starts = waves::Waves::default();
    for job in &spec.jobs {
        let start = starts.next(job).map_err(|why| job_error(job, &why))?;
        checks::settings(job, facts).map_err(|why| job_error(job, &why))?;
        planner.job(job, start)?;
    }
    checks::memory(&planner.plan, facts).map_err(SpecError::new)?;
    checks::open_files(&planner.plan, facts).map_err(SpecError::new)?;
    checks::space(&planner.plan, facts).map_err(SpecError::new)?;
    planner.plan.notes.dedup();
    Ok(planner.plan)
}

struct Planner<'a> {
    spec: &'a Spec,
    by_path: HashMap<&'a str, &'a TargetFacts>,
    plan: Plan,
    /// Where each path stands in the plan's targets.
    index: HashMap<String, usize>,
}

/// A file or device of one clone, and what is known of it.
struct File<'a> {
    path: String,
    /// The directory that it must stay within.
    within: Option<String>,
    facts: &'a TargetFacts,
}

impl<'a> Planner<'a> {
    fn job(&mut self, job: &'a JobSpec, start: waves::Start) -> Result<(), SpecError> {
        let fail = |why: String| job_error(job, &why);
        for clone in 0..job.numjobs {
            let files = self.files(job, clone)?;
            for file in &files {
                checks::target(job, file, self.spec).map_err(fail)?;
            }
            let parts = if job.uses_files() {
                regions::regions(job, clone, &files).map_err(fail)?
            } else {
                Vec::new()
            };
            let number = self.plan.jobs.len();
            let mut plan = jobs::resolve(job, clone, number, start, self.spec.entropy);
            for (file, part) in files.iter().zip(&parts) {
                checks::region(job, file, part, self.spec).map_err(fail)?;
                let target = self.target(job, file, part).map_err(fail)?;
                if part.len > 0 {
                    plan.regions.push(part.at(target));
                }
            }
            plan.until = jobs::until(job, &plan).map_err(fail)?;
            self.plan.notes.extend(jobs::notes(job, clone));
            self.plan.jobs.push(plan);
        }
        Ok(())
    }

    fn files(&self, job: &JobSpec, clone: u32) -> Result<Vec<File<'a>>, SpecError> {
        if !job.uses_files() {
            return Ok(Vec::new());
        }
        let within = names::directory(job, clone).map(without_slash);
        names::paths(job, clone)?
            .into_iter()
            .map(|path| match self.by_path.get(path.as_str()) {
                Some(facts) => Ok(File { facts, path, within: within.clone() }),
                None => Err(job_error(job, &format!("nothing is known of {path}"))),
            })
            .collect()
    }

    /// The plan's target for `file`, with the wishes of this job added to those of others.
    fn target(
        &mut self,
        job: &JobSpec,
        file: &File<'_>,
        part: &regions::Part,
    ) -> Result<usize, String> {
        let index = *self.index.entry(file.path.clone()).or_insert_with(|| {
            self.plan.targets.push(Target {
                path: file.path.clone(),
                within: file.within.clone(),
                create_size: None,
                fallocate: job.files.fallocate,
                fill: false,
                create_on_open: job.files.create_on_open,
                unlink: false,
                invalidate: false,
                written: false,
                trimmed: false,
            });
            self.plan.targets.len() - 1
        });
        let mix = jobs::mix(job);
        let target = &mut self.plan.targets[index];
        target.within = stricter(target.within.take(), file)?;
        target.create_size = target.create_size.max(part.create_size);
        target.fill |= mix.has(fathom_model::Dir::Read) || job.files.overwrite;
        // One job that needs the file at once outweighs others that could wait.
        target.create_on_open &= job.files.create_on_open;
        target.unlink |= job.files.unlink;
        target.invalidate |= job.files.invalidate;
        target.written |= mix.has(fathom_model::Dir::Write);
        target.trimmed |= mix.has(fathom_model::Dir::Trim);
        Ok(index)
    }
}

/// A directory named in one way only.
fn without_slash(directory: &str) -> String {
    match directory.trim_end_matches('/') {
        "" => "/".to_string(),
        trimmed => trimmed.to_string(),
    }
}

/// The directory that a file must stay within when one job names `before` and another `file`.
fn stricter(before: Option<String>, file: &File<'_>) -> Result<Option<String>, String> {
    match (before, &file.within) {
        (Some(one), Some(other)) if one != *other => Err(format!(
            "{} is named with directory={one} and with directory={other}; give it the same in both",
            file.path
        )),
        (before, within) => Ok(before.or_else(|| within.clone())),
    }
}

/// The keys of a job as output shows them.
fn own_options(job: &JobSpec) -> BTreeMap<String, String> {
    let own = job.given.iter().filter(|given| !given.global);
    let mut map: BTreeMap<String, String> =
        own.map(|given| (given.key.to_string(), given.value.clone())).collect();
    map.insert("name".to_string(), job.name.clone());
    map
}
