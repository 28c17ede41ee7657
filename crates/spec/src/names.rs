//! Paths of the targets of a job.

use crate::error::SpecError;
use crate::job::Job;
use crate::spec::{Spec, job_error};
use crate::trace::Trace;
use std::collections::HashMap;

pub(crate) const PATHS_MAX: usize = 1 << 20;
/// fio's names of files that are not named.
const GENERATED: &str = "$jobname.$jobnum.$filenum";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetQuery {
    pub path: String,
    pub modified: bool,
}

impl Spec {
    /// The paths of all targets, without duplicates, in order of first use.
    pub fn target_paths(&self) -> Result<Vec<TargetQuery>, SpecError> {
        let mut queries: Vec<TargetQuery> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        for job in self.jobs.iter().filter(|job| job.uses_files()) {
            for clone in 0..job.numjobs {
                for path in paths(job, clone)?.into_iter().chain(donor(job, clone)?) {
                    let at = *index.entry(path).or_insert_with_key(|path| {
                        queries.push(TargetQuery { path: path.clone(), modified: false });
                        queries.len() - 1
                    });
                    queries[at].modified |= job.modifies();
                }
                if queries.len() > PATHS_MAX {
                    return Err(job_error(
                        job,
                        "the run has more than a million files; lower nrfiles or numjobs",
                    ));
                }
            }
        }
        Ok(queries)
    }

    /// Gives one of several ranks files of its own: their names end with its number. `is_special` says of a path whether it is
    /// something else than a file. Names in traces stay as they are.
    pub fn own_files(&mut self, rank: u32, is_special: &dyn Fn(&str) -> bool) -> Vec<SpecError> {
        let mut problems = Vec::new();
        for job in self.jobs.iter_mut().filter(|job| job.uses_files() && job.traces.is_empty()) {
            let named = (0..job.numjobs).map(|clone| paths(job, clone));
            let named: Vec<String> = named.flatten().flatten().collect();
            if let Some(path) = named.iter().find(|path| is_special(path)) {
                let why =
                    format!("--share=own gives each rank files of its own, and {path} is none");
                problems.push(job_error(job, &format!("{why}; use --share=split or same")));
                continue;
            }
            job.filename.iter_mut().for_each(|name| name.push_str(&format!(".{rank}")));
            if !job.donor.path.is_empty() {
                job.donor.path.push_str(&format!(".{rank}"));
            }
            if job.filename.is_empty() {
                let format = Some(job.filename_format.as_str()).filter(|format| !format.is_empty());
                job.filename_format = format!("{}.{rank}", format.unwrap_or(GENERATED));
            }
        }
        problems
    }
}

pub(crate) fn paths(job: &Job, clone: u32) -> Result<Vec<String>, SpecError> {
    let directory = directory(job, clone);
    if let Some(trace) = job.trace(clone) {
        return traced(job, clone, trace);
    }
    let names: Vec<String> = if job.filename.is_empty() {
        // As in fio, a job named like a device uses that device.
        if job.filename_format.is_empty() && job.nrfiles == 1 && job.name.starts_with("/dev/") {
            return Ok(vec![job.name.clone()]);
        }
        (0..job.nrfiles).map(|number| generated(job, clone, number)).collect()
    } else {
        job.filename.clone()
    };
    names.into_iter().map(|name| place(job, directory, name)).collect()
}

/// The file whose blocks the job exchanges with those of its own.
pub(crate) fn donor(job: &Job, clone: u32) -> Result<Option<String>, SpecError> {
    let given = job.engine.donor().map(|_| job.donor.path.clone());
    let given = given.filter(|name| !name.is_empty());
    given.map(|name| place(job, directory(job, clone), name)).transpose()
}

/// The files of a trace; one without names is of the job's first file.
fn traced(job: &Job, clone: u32, trace: &Trace) -> Result<Vec<String>, SpecError> {
    let own = || job.filename.first().cloned().unwrap_or_else(|| generated(job, clone, 0));
    let names = trace.files.iter().map(|file| match file.name.is_empty() {
        true => own(),
        false => file.name.clone(),
    });
    names.map(|name| place(job, directory(job, clone), name)).collect()
}

/// The directory that clone `clone` must stay within, if set.
pub(crate) fn directory(job: &Job, clone: u32) -> Option<&str> {
    match job.directory.len() {
        0 => None,
        n => Some(&job.directory[clone as usize % n]),
    }
}

fn generated(job: &Job, clone: u32, number: u32) -> String {
    let format = match job.filename_format.as_str() {
        "" => GENERATED,
        format => format,
    };
    let mut name = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('$') {
        name.push_str(&rest[..at]);
        rest = &rest[at..];
        // The words are ASCII, so a match ends at a character boundary.
        let starts = |word: &str| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let (length, text) = if starts("$jobname") {
            (8, job.name.clone())
        } else if starts("$jobnum") {
            (7, clone.to_string())
        } else if starts("$filenum") {
            (8, number.to_string())
        } else {
            (1, "$".to_string())
        };
        name.push_str(&text);
        rest = &rest[length..];
    }
    name.push_str(rest);
    name
}

/// `name` within `directory`, which it must not leave; as in fio, also if it is absolute. Without `directory`, a generated
/// name may be absolute, but not lead upwards.
fn place(job: &Job, directory: Option<&str>, name: String) -> Result<String, SpecError> {
    let is_upwards = name.split('/').any(|part| part == "..");
    match directory {
        Some(within) if is_upwards => Err(job_error(
            job,
            &format!("'{name}' is outside {within}; set filename without directory"),
        )),
        None if is_upwards && !job.traces.is_empty() => Err(job_error(
            job,
            &format!(
                "the trace names '{name}', which leads upwards; name a target with replay_redirect"
            ),
        )),
        None if is_upwards && job.filename.is_empty() => Err(job_error(
            job,
            &format!("'{name}' leads out of its directory; use another job name, or set filename"),
        )),
        Some(directory) => {
            Ok(format!("{}/{}", directory.trim_end_matches('/'), name.trim_start_matches('/')))
        }
        None => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Job {
        let mut job = Job::new();
        job.name = name.into();
        job
    }

    #[test]
    fn generated_names() {
        let mut j = job("a");
        j.nrfiles = 2;
        j.directory = vec!["/x".into(), "/y/".into()];
        assert_eq!(paths(&j, 0).unwrap(), ["/x/a.0.0", "/x/a.0.1"]);
        assert_eq!(paths(&j, 1).unwrap(), ["/y/a.1.0", "/y/a.1.1"]);
        j.filename_format = "f.$jobnum.$FILENUM.$x".into();
        assert_eq!(paths(&j, 1).unwrap()[1], "/y/f.1.1.$x");
    }

    #[test]
    fn a_rank_has_files_of_its_own() {
        let (mut named, mut formatted) = (job("a"), job("b"));
        named.filename = vec!["/x/data".into(), "/dev/shm/data".into()];
        formatted.filename_format = "f.$jobnum".into();
        let jobs = vec![named, formatted, job("c")];
        let mut spec = Spec { jobs, ..Spec::default() };
        let refused = spec.clone().own_files(3, &|path| path.starts_with("/dev/"));
        assert!(refused[0].message.contains("/dev/shm/data is none"), "{refused:?}");
        assert!(spec.own_files(3, &|_| false).is_empty());
        let all = spec.target_paths().unwrap();
        let all: Vec<&str> = all.iter().map(|query| query.path.as_str()).collect();
        assert_eq!(all, ["/x/data.3", "/dev/shm/data.3", "f.0.3", "c.0.0.3"]);
    }

    #[test]
    fn names_stay_within_their_directory() {
        let of = |name: &str, directory: &[&str]| {
            let mut j = job("a");
            j.filename = vec![name.into()];
            j.directory = directory.iter().map(ToString::to_string).collect();
            paths(&j, 0)
        };
        assert_eq!(of("/safe/x", &["/safe"]).unwrap(), ["/safe/safe/x"], "as in fio");
        assert_eq!(of("//x", &["/"]).unwrap(), ["/x"]);
        for name in ["../x", "/../etc/passwd", "a/../../b", ".."] {
            assert!(of(name, &[]).is_ok(), "without directory any path is fine");
            let error = of(name, &["/safe"]).unwrap_err().to_string();
            assert!(error.contains("is outside /safe"), "{error}");
        }
        assert!(paths(&job("../a"), 0).is_err());
        assert_eq!(paths(&job("/data/a"), 0).unwrap(), ["/data/a.0.0"]);
        assert_eq!(paths(&job("/dev/vda"), 0).unwrap(), ["/dev/vda"]);
    }

    #[test]
    fn paths_have_no_duplicates() {
        let mut a = job("a");
        a.filename = vec!["/dev/x".into(), "/dev/y".into()];
        a.numjobs = 3;
        let mut b = a.clone();
        b.access.mix = fathom_model::plan::Mix::Only(fathom_model::Dir::Write);
        b.filename.pop();
        let spec = Spec { jobs: vec![a, b], ..Spec::default() };
        let queries = spec.target_paths().unwrap();
        assert_eq!(queries.len(), 2);
        assert!(queries[0].modified && !queries[1].modified);
    }
}
