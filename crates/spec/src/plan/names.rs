//! Jobs whose I/Os are operations on the names of files and directories.

use crate::job::{Job, Size};
use crate::names;
use crate::spec::Spec;
use fathom_model::Dir;
use fathom_model::plan::{Mix, NameOp, Names, Paths, Until};

pub(super) fn resolve(job: &Job, op: NameOp, clone: u32, spec: &Spec) -> Result<Names, String> {
    let paths = names::paths(job, clone).map_err(|error| error.message)?;
    let within = names::directory(job, clone).map(super::without_slash);
    let count = paths.len() as u64;
    let size_bytes = match (job.filesize, job.size) {
        (Some((_, most)), _) => most,
        (None, Some(Size::Bytes(size))) => size / count.max(1),
        _ => 0,
    };
    Ok(Names {
        op,
        stat: job.stat_type,
        paths: Paths::new(paths),
        within,
        size_bytes,
        create: job.allow_file_create && !spec.output.readonly,
        unlink: job.target.unlink,
    })
}

/// As in fio, operations count as reads, or as writes if the job does not read.
pub(super) fn mix(job: &Job) -> Mix {
    match job.access.mix {
        Mix::Only(dir) => Mix::Only(dir),
        Mix::ReadWrite { .. } | Mix::TrimThenWrite | Mix::Traced(_) => Mix::Only(Dir::Read),
    }
}

/// When the clone ends: once each name was used, in each loop.
pub(super) fn until(job: &Job, names: &Names) -> Until {
    let passes = names.paths.count() as u64 * u64::from(job.loops);
    let all = (!job.time_based).then_some(passes);
    let ios = match job.create_only {
        true => Some(0),
        false => all.into_iter().chain(job.until.ios).min(),
    };
    Until { ios, ..job.until }
}
