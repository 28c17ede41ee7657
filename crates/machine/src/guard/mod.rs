//! Protection of the user's data: all targets of a run are opened here, and only here.
//!
//! Checks all targets, each on the descriptor that the run will use, then the free space of their
//! file systems, and only then creates files. If any target is refused, nothing was changed.

mod claim;
mod error;
mod history;
pub(crate) mod make;
mod names;
mod open;
mod permission;
mod promise;
mod prove;
mod remove;
pub(crate) mod space;
pub(crate) mod subject;

pub(crate) use history::OpenDescriptor;
pub(crate) use make::Made;
use make::NewDirs;
pub(crate) use open::TargetEntry;
pub(crate) use promise::Promises;

pub use error::GuardError;
pub use fathom_model::plan::Permissions;
pub use history::{LogVersion, is_own_log};
pub use names::{NamedTarget, NamedTargets, check_names};
pub use open::{Extent, OpenTarget, WorkerOpen, Writing};
pub use remove::{Identity, remove};

use crate::target::Lookup;
use claim::TargetLocks;
use fathom_model::plan::Plan;
use fathom_sys::roots::Roots;
use prove::{Proof, Prover};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use subject::{GuardSubject, Location};

/// Opens all targets of a plan, verifies that each may be used as the plan requires, locks those that
/// are written, and creates or extends files. Returns one entry per target of [`Plan::targets`], in
/// order; targets that refer to the same file or device share descriptors and locks. New files are
/// removed, and extended files truncated, if the targets are dropped before [`OpenTarget::keep`].
/// Stops as soon as `stop` returns true.
pub fn open_all(
    roots: &Roots,
    plan: &Plan,
    permissions: &Permissions,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<OpenTarget>, GuardError> {
    GuardError::needs_proc()?;
    let lookup = Lookup::new(roots);
    let mut subjects = subject::gather(&lookup, plan)?;
    let mut prover =
        Prover { roots, permissions, claims: TargetLocks::default(), stack: OnceCell::new() };
    let mut proofs = Vec::with_capacity(subjects.len());
    for subject in &mut subjects {
        check_stop(subject.path(), stop)?;
        proofs.push(prover.prove(subject)?);
    }
    let promises = space::check(&lookup, &prover, subjects.iter().zip(&proofs))?;

    let dirs = Arc::new(NewDirs::default());
    let mut entries = Vec::with_capacity(subjects.len());
    let mut proven: Vec<(GuardSubject, Proof)> = subjects.into_iter().zip(proofs).collect();
    // New files first: those can be removed again, while a file that was copied up in an overlay stays.
    proven.sort_by_key(|(subject, _)| matches!(subject.place, Location::Existing(_)));
    for (subject, proof) in proven {
        check_stop(subject.path(), stop)?;
        let members = subject.members.clone();
        let (entry, facts) = TargetEntry::new(subject, proof, &dirs, stop)?;
        entries.push((Arc::new(entry), facts, members));
    }
    let mut targets: Vec<(usize, OpenTarget)> = Vec::with_capacity(plan.targets.len());
    for (entry, facts, members) in &entries {
        for index in members {
            let facts = entry.facts(&lookup, &plan.targets[*index].path, facts);
            let (entry, promises) = (Arc::clone(entry), promises.clone());
            targets.push((*index, OpenTarget { facts, entry, promises }));
        }
    }
    targets.sort_by_key(|(index, _)| *index);
    let targets: Vec<OpenTarget> = targets.into_iter().map(|(_, target)| target).collect();
    note_allocated(&targets);
    invalidate(plan, &targets)?;
    Ok(targets)
}

/// Reduces the space that other runs leave to this one by what its new files have allocated by now.
pub fn note_allocated(targets: &[OpenTarget]) {
    let Some(first) = targets.first() else { return };
    let mut allocated = HashMap::new();
    let mut seen = HashSet::new();
    for target in targets.iter().filter(|target| seen.insert(Arc::as_ptr(&target.entry))) {
        if let Some((device, bytes)) = target.entry.newly_allocated() {
            let sum: &mut u64 = allocated.entry(device).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    first.promises.allocated(&allocated);
}

/// Invalidates the page cache of the parts of `targets` that the jobs of `plan` use, as in fio; of all that no job of
/// the plan uses, since its jobs come later.
fn invalidate(plan: &Plan, targets: &[OpenTarget]) -> Result<(), GuardError> {
    let mut whole: BTreeSet<usize> = (0..targets.len()).collect();
    // Clones often use the same part of a file.
    let mut parts = BTreeSet::new();
    for job in &plan.jobs {
        for region in &job.regions {
            whole.remove(&region.target);
            parts.extend(job.invalidate.then_some((region.target, region.start, region.len)));
        }
    }
    parts.extend(whole.into_iter().map(|index| (index, 0, 0)));
    for (index, start, len) in parts {
        let target = &targets[index];
        if target.is_to_invalidate() {
            target.invalidate_part(start, len).map_err(|error| {
                GuardError::io(&target.facts.path, "invalidate the page cache of", error)
            })?;
        }
    }
    Ok(())
}

fn check_stop(path: &str, stop: &dyn Fn() -> bool) -> Result<(), GuardError> {
    if stop() { Err(GuardError::Interrupted { path: path.to_string() }) } else { Ok(()) }
}
