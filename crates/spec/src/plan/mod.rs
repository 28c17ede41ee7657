//! Resolves a [`Spec`] on the machine that [`Facts`] describe into a [`Plan`]: every decision about a job.

mod checks;
mod engine;
mod jobs;
mod limits;
mod names;
mod regions;
mod waves;
mod zones;

use crate::error::{Problems, SpecError};
use crate::job::Job;
use crate::names as paths;
use crate::spec::{JOBS_MAX, Spec, job_error};
use fathom_model::Dir;
use fathom_model::facts::{Facts, Host, TargetFacts, TargetKind};
use fathom_model::plan::{Donor, Engine, Fallocate, Mix, Plan, Target};
use std::collections::HashMap;

/// Resolves `spec` on the machine that `facts` describe; `facts.targets` holds what is known of
/// each path of [`Spec::target_paths`].
pub fn plan(spec: &Spec, facts: &Facts) -> Result<Plan, Problems> {
    let mut problems = Problems::default();
    let by_path = facts.targets.iter().map(|target| (target.path.as_str(), target)).collect();
    let host = &facts.host;
    let mut planner = Planner { spec, host, by_path, plan: Plan::default(), index: HashMap::new() };
    planner.plan.notes.clone_from(&spec.notes);
    for given in &spec.global {
        planner.plan.global_options.insert(given.key.to_string(), given.value.clone());
    }
    let starts = settings(spec, facts, &mut problems);
    for (job, start) in spec.jobs.iter().zip(starts) {
        // Clones of a job have the same problems: those of the first will do.
        let errors = (0..job.numjobs).find_map(|clone| planner.clone(job, clone, start).err());
        errors.into_iter().flatten().for_each(|error| problems.add(error));
    }
    let Planner { mut plan, .. } = planner;
    plan.notes.extend(contested(&plan));
    plan.idleness = spec.output.idleness;
    problems.ok(zones::agree(&plan).map_err(SpecError::new));
    if problems.errors.is_empty() {
        problems.ok(check_memory(&plan, facts));
        problems.ok(limits::open_files(&plan, facts).map_err(SpecError::new));
        problems.ok(limits::space(&plan, facts).map_err(SpecError::new));
    }
    plan.notes.dedup();
    problems.or(plan)
}

/// A note on jobs that may overwrite what others are to verify.
fn contested(plan: &Plan) -> Option<String> {
    let reads_back = |job: usize| plan.jobs[job].verify.as_ref().is_some_and(|v| v.read_back);
    if !(0..plan.jobs.len()).any(reads_back) {
        return None;
    }
    let written = plan.jobs.iter().enumerate().flat_map(|(index, job)| {
        let modifies = job.used_dirs().any(|dir| job.modifies(dir));
        let regions = job.regions.iter().filter(move |_| modifies);
        regions.map(move |region| (job.wave, region.target, region.start, region.len, index))
    });
    let mut written: Vec<_> = written.collect();
    written.sort_unstable();
    let pairs = written.windows(2).filter(|pair| {
        let (one, other) = (pair[0], pair[1]);
        (one.0, one.1) == (other.0, other.1) && other.2 < one.2 + one.3 && one.4 != other.4
    });
    let mut pairs = pairs.map(|pair| (pair[0].4, pair[1].4));
    let (one, other) = pairs.find(|(one, other)| reads_back(*one) || reads_back(*other))?;
    let (one, other) = (&plan.jobs[one].name, &plan.jobs[other].name);
    Some(format!(
        "jobs '{one}' and '{other}' write the same blocks, and verification reports what the other wrote as wrong; \
         give each its own file, or offset_increment"
    ))
}

/// Checks what can be checked of `spec` without a machine and targets.
pub fn check(spec: &Spec) -> Result<(), Problems> {
    let mut problems = Problems::default();
    settings(spec, &Facts::default(), &mut problems);
    problems.ok(spec.target_paths());
    problems.or(())
}

/// Checks the keys of all jobs against each other; returns when the jobs start.
fn settings(spec: &Spec, facts: &Facts, problems: &mut Problems) -> Vec<waves::Start> {
    let clones: u64 = spec.jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    if clones > u64::from(JOBS_MAX) {
        let message = format!(
            "{clones} jobs including clones, but at most {JOBS_MAX} can run; lower numjobs"
        );
        problems.add(SpecError::new(message));
        return Vec::new();
    }
    let mut waves = waves::Waves::default();
    let mut starts = Vec::new();
    for job in &spec.jobs {
        for (key, why) in checks::settings(job, facts, spec.output.readonly) {
            problems.add(key_error(job, key, &why));
        }
        let start = waves.next(job).map_err(|why| key_error(job, "wait_for", &why));
        starts.push(problems.ok(start).unwrap_or_default());
    }
    starts
}

fn key_error(job: &Job, key: &str, why: &str) -> SpecError {
    let place = job.place_of(key).cloned();
    SpecError { place, ..job_error(job, why) }
}

/// Checks that this process may use the memory that the workers of `plan` need.
pub fn check_memory(plan: &Plan, facts: &Facts) -> Result<(), SpecError> {
    limits::memory(plan, facts).map_err(SpecError::new)
}

struct Planner<'a> {
    spec: &'a Spec,
    host: &'a Host,
    by_path: HashMap<&'a str, &'a TargetFacts>,
    plan: Plan,
    index: HashMap<String, usize>,
}

struct File<'a> {
    path: String,
    /// The directory that it must not leave.
    within: Option<String>,
    facts: &'a TargetFacts,
    /// Its size when the clone is set up: with what earlier ones add, in bytes.
    end: u64,
}

impl<'a> Planner<'a> {
    /// Adds clone number `clone` of `job` to the plan.
    fn clone(
        &mut self,
        job: &'a Job,
        clone: u32,
        start: waves::Start,
    ) -> Result<(), Vec<SpecError>> {
        let fail = |why: String| job_error(job, &why);
        let files = self.files(job, clone).map_err(|error| vec![error])?;
        let job = &*zones::in_bytes(job, &files).map_err(|why| vec![fail(why)])?;
        let donor = self.donor(job, clone).map_err(|error| vec![error])?;
        let check = |file| checks::target(job, file, self.spec);
        let checked =
            files.iter().chain(&donor).filter_map(|file| Some((file, check(file).err()?)));
        let checked = checked.map(|(file, why)| checks::with_colon_hint(job, file, why));
        let problems: Vec<SpecError> = checked.map(fail).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        self.resolved(job, clone, start, &files, donor).map_err(|why| vec![fail(why)])
    }

    fn resolved(
        &mut self,
        job: &Job,
        clone: u32,
        start: waves::Start,
        files: &[File<'_>],
        donor: Option<File<'_>>,
    ) -> Result<(), String> {
        let mut parts =
            if job.uses_files() { regions::regions(job, clone, files)? } else { Vec::new() };
        let mut virtual_parts = regions::virtual_parts(job, clone)?;
        let once = zones::fit(job, files, &mut parts)?;
        let once = once.filter(|_| !parts.is_empty()).or(zones::fit(job, &[], &mut virtual_parts)?);
        let number = self.plan.jobs.len();
        let mut plan = jobs::resolve(job, clone, number, start, self.spec.entropy);
        let note = engine::resolve(job, &mut plan, files, self.host);
        plan.access.zoning = zones::zoning(job, &plan, files, self.host)?;
        plan.replay =
            job.trace(clone).map(|trace| trace.plan((!job.time_based).then_some(job.loops)));
        let drawn = parts.iter().chain(&virtual_parts).filter(|_| plan.replay.is_none());
        if let Some(room) = drawn.map(|part| part.len).min() {
            plan.access.block_sizes =
                job.access.block_sizes.map(|_, sizes| regions::fitting(sizes, room));
            if clone == 0 && plan.access.block_sizes != job.access.block_sizes {
                let (name, room) = (&job.name, fathom_model::units::bytes(room));
                self.plan.notes.push(format!(
                    "job '{name}': as in fio, block sizes above the {room} that it uses are never drawn"
                ));
            }
        }
        for (index, (file, part)) in files.iter().zip(&parts).enumerate() {
            checks::region(job, file, part, self.spec)?;
            if let Some(trace) = job.trace(clone) {
                checks::replayed(job, file, trace, index)?;
            }
            let mix = match job.trace(clone) {
                Some(trace) => Mix::Traced(trace.files[index].used),
                None => job.access.mix,
            };
            let target = self.target(job, file, part, mix)?;
            if part.len > 0 {
                plan.regions.push(part.at(target));
            }
        }
        if let Some(donor) = donor {
            let part = regions::donated(&donor, &parts);
            checks::region(job, &donor, &part, self.spec)?;
            let index = self.target(job, &donor, &part, job.access.mix)?;
            if job.donor.in_place {
                // Its blocks are allocated with each I/O, and freed.
                let target = &mut self.plan.targets[index];
                (target.fallocate, target.trimmed) = (Fallocate::Truncate, true);
            }
            plan.engine = Engine::MoveExtents(Donor { path: donor.path, ..job.donor.clone() });
        }
        let numbered = virtual_parts.iter().enumerate();
        plan.virtual_regions = numbered.map(|(file, part)| part.at(file)).collect();
        plan.placement.cpus = jobs::cpus(job, clone, self.host)?;
        if let Engine::Names(new) = &job.engine {
            let names = names::resolve(job, new.op, clone, self.spec)?;
            plan.access.mix = names::mix(job);
            plan.until = names::until(job, &names);
            plan.engine = Engine::Names(names);
        } else {
            let pass = once.or_else(|| regions::skipping_pass(job, files, &parts));
            plan.until = jobs::until(job, &plan, pass)?;
        }
        if let Some(verify) = &mut plan.verify {
            let output = &self.spec.output;
            // As fio does it.
            let by_default = output.as_fio && job.verify_state_save.is_none() && job.modifies();
            verify.save_state |= by_default;
            verify.state_optional = output.as_fio && verify.save_state;
            verify.dump.iter_mut().for_each(|directory| directory.clone_from(&output.aux_path));
            if verify.save_state || verify.load_state {
                verify.state_file = jobs::state_file(&output.aux_path, &job.name, number);
            }
        }
        plan.buffers.dedupe = jobs::dedupe(job, &plan);
        if clone == 0 {
            self.plan.notes.extend(note.into_iter().chain(jobs::notes(job)));
        }
        self.plan.jobs.push(plan);
        Ok(())
    }

    fn files(&self, job: &Job, clone: u32) -> Result<Vec<File<'a>>, SpecError> {
        if !job.uses_files() {
            return Ok(Vec::new());
        }
        paths::paths(job, clone)?.into_iter().map(|path| self.file(job, clone, path)).collect()
    }

    fn donor(&self, job: &Job, clone: u32) -> Result<Option<File<'a>>, SpecError> {
        paths::donor(job, clone)?.map(|path| self.file(job, clone, path)).transpose()
    }

    fn file(&self, job: &Job, clone: u32, path: String) -> Result<File<'a>, SpecError> {
        let facts = self.by_path.get(path.as_str()).ok_or_else(|| {
            let why = format!("no facts about {path}; this is a bug in fathom, please report it");
            job_error(job, &why)
        })?;
        let end = self.end(&path).max(facts.size_bytes);
        let within = paths::directory(job, clone).map(without_slash);
        Ok(File { facts, path, within, end })
    }

    /// The size that the plan gives a file before its jobs start, where fio's layout does so, too.
    fn end(&self, path: &str) -> u64 {
        let target = self.index.get(path).map(|index| &self.plan.targets[*index]);
        let sized = |target: &&Target| match target.fallocate {
            _ if target.create_on_open => false,
            Fallocate::None | Fallocate::Keep => target.fill,
            Fallocate::Native | Fallocate::Posix | Fallocate::Truncate => true,
        };
        target.filter(sized).and_then(|target| target.create_size).unwrap_or(0)
    }

    /// The plan's target for `file`, with this job's requirements merged in, which uses it in the directions of `mix`.
    fn target(
        &mut self,
        job: &Job,
        file: &File<'_>,
        part: &regions::Part,
        mix: Mix,
    ) -> Result<usize, String> {
        let only_verifies = job.verify.as_ref().is_some_and(|verify| verify.only);
        let is_missing = file.facts.kind == TargetKind::Missing;
        if only_verifies && is_missing && !self.index.contains_key(&file.path) {
            // No job before this one writes it.
            return Err(format!(
                "{} does not exist, and verify_only verifies what was written before; check the name",
                file.path
            ));
        }
        let index = *self.index.entry(file.path.clone()).or_insert_with(|| {
            let (path, within) = (file.path.clone(), file.within.clone());
            self.plan.targets.push(Target { path, within, ..job.target.clone() });
            self.plan.targets.len() - 1
        });
        let target = &mut self.plan.targets[index];
        target.within = merge_containment(target.within.take(), file)?;
        // A trace may read one file and write another.
        let is_used = |dir| job.traces.is_empty() || mix.has(dir);
        target.join(&Target {
            create_size: part.create_size,
            fill: mix.has(Dir::Read) || job.target.fill,
            invalidate: job.invalidate,
            written: job.plan.modifies(Dir::Write) && is_used(Dir::Write),
            trimmed: job.plan.modifies(Dir::Trim) && is_used(Dir::Trim),
            ..job.target.clone()
        });
        Ok(index)
    }
}

fn without_slash(directory: &str) -> String {
    match directory.trim_end_matches('/') {
        "" => "/".to_string(),
        trimmed => trimmed.to_string(),
    }
}

/// The directory that a file must not leave, if one job names `before` and another `file`.
fn merge_containment(before: Option<String>, file: &File<'_>) -> Result<Option<String>, String> {
    match (before, &file.within) {
        (Some(one), Some(other)) if one != *other => Err(format!(
            "{} has directory={one} in one job and directory={other} in another; use the same in both",
            file.path
        )),
        (before, within) => Ok(before.or_else(|| within.clone())),
    }
}
