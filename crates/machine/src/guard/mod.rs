//! The guard of the user's data: every target of a run is opened here, and nowhere else.
//!
//! First all targets are looked at, then each is proven usable on the descriptor that is then
//! used, then the room on their file systems is checked, and only then is anything made. Where one
//! of them may not be used, nothing has changed.

mod claim;
mod error;
pub(crate) mod make;
mod open;
mod permission;
mod prove;
pub(crate) mod space;
pub(crate) mod subject;

pub(crate) use make::Made;
pub(crate) use open::{Entry, Held};

pub use error::GuardError;
pub use open::{Extent, OpenTarget, WorkerOpen};
pub use permission::Permissions;

use crate::roots::Roots;
use crate::target::Lookup;
use claim::Claims;
use fathom_model::plan::Plan;
use prove::Prover;
use std::cell::OnceCell;
use std::sync::Arc;

/// Opens all targets of a plan, proves that each may be used as the plan wants, holds and locks
/// those that are written to, and makes the files that are missing or too short. The result has
/// one entry for each of [`Plan::targets`], in that order; targets that lead to the same file or
/// device share what is held. What was made is removed again, and what was made longer is cut, when
/// the targets are dropped before [`OpenTarget::keep`]. Once `stop` says so nothing more is done.
///
/// # Errors
/// When one of them may not be used, or `stop` said to end. All that was made is removed again then.
pub fn open_all(
    roots: &Roots,
    plan: &Plan,
    permissions: &Permissions,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<OpenTarget>, GuardError> {
    let lookup = Lookup::new(roots);
    let mut subjects = subject::gather(&lookup, plan)?;
    let mut prover =
        Prover { roots, permissions, claims: Claims::default(), stack: OnceCell::new() };
    let mut proofs = Vec::with_capacity(subjects.len());
    for subject in &mut subjects {
        go_on(subject.path(), stop)?;
        proofs.push(prover.prove(subject)?);
    }
    space::check(&lookup, &prover, subjects.iter().zip(&proofs))?;

    let mut entries = Vec::with_capacity(subjects.len());
    for (subject, proof) in subjects.into_iter().zip(proofs) {
        go_on(subject.path(), stop)?;
        let members = subject.members.clone();
        let (entry, facts) = Entry::new(subject, proof, stop)?;
        entries.push((Arc::new(entry), facts, members));
    }
    let mut targets: Vec<(usize, OpenTarget)> = Vec::with_capacity(plan.targets.len());
    for (entry, facts, members) in &entries {
        for index in members {
            let facts = entry.facts(&lookup, &plan.targets[*index].path, facts);
            targets.push((*index, OpenTarget { facts, entry: Arc::clone(entry) }));
        }
    }
    targets.sort_by_key(|(index, _)| *index);
    let targets: Vec<OpenTarget> = targets.into_iter().map(|(_, target)| target).collect();
    for target in targets.iter().filter(|target| target.is_to_invalidate()) {
        target.invalidate().map_err(|error| {
            GuardError::io(&target.facts.path, "drop the cached pages of", error)
        })?;
    }
    Ok(targets)
}

fn go_on(path: &str, stop: &dyn Fn() -> bool) -> Result<(), GuardError> {
    if stop() { Err(GuardError::Interrupted { path: path.to_string() }) } else { Ok(()) }
}
