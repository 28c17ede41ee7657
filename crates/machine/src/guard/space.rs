//! Room on the file systems that are written to.

use super::error::GuardError;
use super::prove::Proof;
use super::subject::{Place, Subject};
use crate::device::Node;
use crate::roots::Roots;
use fathom_model::facts::TargetKind;
use fathom_model::plan::Fallocate;
use rustix::fs::{StatVfs, fstatvfs};
use std::collections::HashMap;

/// At most this much stays free on purpose.
const RESERVE_MAX: u64 = 1 << 30;

/// What all targets together need on one file system.
struct Need {
    path: String,
    bytes: u64,
    fs: StatVfs,
}

/// Refuses a plan whose writes would not leave a reserve on each file system: a twentieth of it, or
/// 1 GiB, whichever is less.
pub(crate) fn check<'a>(
    roots: &Roots,
    all: impl Iterator<Item = (&'a Subject, &'a Proof)>,
) -> Result<(), GuardError> {
    let mut needs: HashMap<u64, Need> = HashMap::new();
    for (subject, proof) in all {
        let Some((device, need)) = need(roots, subject, proof)? else { continue };
        match needs.get_mut(&device) {
            Some(sum) => sum.bytes = sum.bytes.saturating_add(need.bytes),
            None => {
                needs.insert(device, need);
            }
        }
    }
    needs.values().try_for_each(|need| fits(&need.path, need.bytes, &need.fs))
}

/// Whether `need` more bytes leave the reserve.
pub(crate) fn fits(path: &str, need: u64, fs: &StatVfs) -> Result<(), GuardError> {
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let reserve = RESERVE_MAX.min(fs.f_blocks.saturating_mul(fs.f_frsize) / 20);
    if need == 0 || need.saturating_add(reserve) <= free {
        return Ok(());
    }
    Err(GuardError::NoSpace { path: path.to_string(), need, free, reserve })
}

/// The file system, by its device number, and what one target needs of it.
fn need(
    roots: &Roots,
    subject: &Subject,
    proof: &Proof,
) -> Result<Option<(u64, Need)>, GuardError> {
    let path = subject.path();
    let io = |error| GuardError::io(path, "look at the file system of", error);
    let (fd, bytes) = match &subject.place {
        Place::New(spot) => (&spot.dir, new_bytes(subject, 0)),
        Place::There(fd) if subject.facts.kind == TargetKind::File => {
            (fd, existing_bytes(subject, proof))
        }
        Place::There(_) => return Ok(behind_loop(roots, subject, proof)),
    };
    let fs = fstatvfs(fd).map_err(io)?;
    let stat = rustix::fs::fstat(fd).map_err(io)?;
    Ok(Some((stat.st_dev, Need { path: path.to_string(), bytes, fs })))
}

/// What making a file, or the part of it from `from` on, takes.
fn new_bytes(subject: &Subject, from: u64) -> u64 {
    let want = &subject.want;
    let is_reserved = !matches!(want.fallocate, Fallocate::None | Fallocate::Truncate);
    if !(is_reserved || want.fill || want.written) {
        return 0;
    }
    want.create_size.unwrap_or(0).saturating_sub(from)
}

/// What writing to all of an existing file takes: its holes are filled.
fn existing_bytes(subject: &Subject, proof: &Proof) -> u64 {
    let facts = &subject.facts;
    if proof.may_write || proof.fill_from.is_some() {
        let size = proof.grow_to.unwrap_or(facts.size_bytes);
        return size.saturating_sub(facts.allocated_bytes);
    }
    proof.grow_to.map_or(0, |_| new_bytes(subject, facts.size_bytes))
}

/// Writing to a loop device fills the holes of the file behind it.
fn behind_loop(roots: &Roots, subject: &Subject, proof: &Proof) -> Option<(u64, Need)> {
    let node = Node::by_number(roots, subject.facts.device_number).filter(|_| proof.may_write)?;
    let backing = node.backing_file()?;
    let stat = rustix::fs::stat(backing.as_str()).ok()?;
    let fs = rustix::fs::statvfs(backing.as_str()).ok()?;
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let bytes = u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(allocated);
    Some((stat.st_dev, Need { path: backing, bytes, fs }))
}
