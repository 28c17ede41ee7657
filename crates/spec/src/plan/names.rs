//! Jobs whose I/Os are operations on the names of files and directories.

use super::checks::KeyProblem;
use crate::job::{EngineName, JobSpec, Size};
use crate::names;
use crate::spec::Spec;
use fathom_model::Dir;
use fathom_model::plan::{Mix, NameOp, Names, Paths, Until};

pub(super) fn operation(job: &JobSpec) -> Option<NameOp> {
    match job.engine.name {
        EngineName::Names(op) => Some(op),
        _ => None,
    }
}

pub(super) fn resolve(job: &JobSpec, op: NameOp, clone: u32, spec: &Spec) -> Result<Names, String> {
    let paths = names::paths(job, clone).map_err(|error| error.message)?;
    let within = names::directory(job, clone).map(super::without_slash);
    let count = paths.len() as u64;
    let size_bytes = match (job.files.file_size, job.files.size) {
        (Some((_, most)), _) => most,
        (None, Some(Size::Bytes(size))) => size / count.max(1),
        _ => 0,
    };
    Ok(Names {
        op,
        stat: job.engine.stat,
        paths: Paths::new(paths),
        within,
        size_bytes,
        create: job.files.allow_create && !spec.output.readonly,
        unlink: job.files.unlink,
    })
}

/// As in fio, operations count as reads, or as writes if the job does not read.
pub(super) fn mix(job: &JobSpec) -> Mix {
    match job.mix() {
        Mix::Only(dir) => Mix::Only(dir),
        Mix::ReadWrite { .. } | Mix::TrimThenWrite => Mix::Only(Dir::Read),
    }
}

/// When the clone ends: once each name was used, in each loop.
pub(super) fn until(job: &JobSpec, names: &Names) -> Until {
    let schedule = &job.schedule;
    let passes = names.paths.count() as u64 * u64::from(schedule.loops);
    let all = (!schedule.time_based).then_some(passes);
    let ios = match job.files.create_only {
        true => Some(0),
        false => all.into_iter().chain(schedule.ios).min(),
    };
    Until { ios, ..job.plan.until }
}

pub(super) fn problems(job: &JobSpec, readonly: bool) -> Vec<KeyProblem> {
    let Some(op) = operation(job) else { return Vec::new() };
    let engine = op.name();
    let schedule = &job.schedule;
    let repeats = schedule.time_based || schedule.loops > 1 || job.plan.until.ramp_ns > 0;
    let mut problems = Vec::new();
    if repeats && !op.is_stat() {
        let keys = ["time_based", "loops", "ramp_time"];
        let key = keys.into_iter().find(|key| job.has(key)).unwrap_or("loops");
        let why = format!("{engine} uses each name once; remove {key}, and raise nrfiles");
        problems.push((key, why));
    }
    let each = job.files.filename.len().max(job.files.count as usize);
    if each.saturating_mul(job.numjobs as usize) > names::PATHS_MAX {
        let why = "the job has more than a million files; lower nrfiles or numjobs";
        problems.push(("nrfiles", why.to_string()));
    }
    if job.mix().has(Dir::Trim) {
        problems.push(("rw", format!("{engine} does not trim; use rw=read or rw=write")));
    }
    if readonly && !op.is_stat() {
        let why = format!("{engine} changes the file system; remove --readonly");
        problems.push(("ioengine", why));
    }
    problems
}
