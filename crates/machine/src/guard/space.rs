//! Free space on the file systems that are written.

use super::error::GuardError;
use super::prove::{Proof, Prover};
use super::subject::{Place, Subject};
use crate::stack::FileIdentity;
use crate::target::Lookup;
use fathom_model::facts::TargetKind;
use fathom_model::plan::Fallocate;
use rustix::fs::{StatVfs, fstatvfs};
use std::collections::HashMap;
use std::path::Path;

/// Maximum space to leave free, in bytes.
const RESERVE_MAX: u64 = 1 << 30;

/// Space that all targets together need on one file system.
struct Need {
    path: String,
    bytes: u64,
    fs: StatVfs,
}

/// Refuses a plan whose writes would not leave 5% or 1 GiB of each file system free, whichever is
/// less.
pub(crate) fn check<'a>(
    lookup: &Lookup,
    prover: &Prover,
    all: impl Iterator<Item = (&'a Subject, &'a Proof)>,
) -> Result<(), GuardError> {
    let mut needs: HashMap<u64, Need> = HashMap::new();
    for (subject, proof) in all {
        for (device, need) in all_needs(lookup, prover, subject, proof)? {
            match needs.get_mut(&device) {
                Some(sum) => sum.bytes = sum.bytes.saturating_add(need.bytes),
                None => {
                    needs.insert(device, need);
                }
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

/// The file systems, by device number, on which a target needs space.
fn all_needs(
    lookup: &Lookup,
    prover: &Prover,
    subject: &Subject,
    proof: &Proof,
) -> Result<Vec<(u64, Need)>, GuardError> {
    let path = subject.path();
    let io = |error| GuardError::io(path, "read the file system status of", error);
    let (fd, bytes) = match &subject.place {
        Place::New(spot) => (&spot.dir, new_bytes(subject, 0)),
        Place::Existing(fd) if subject.facts.kind == TargetKind::File => {
            (fd, existing_bytes(subject, proof))
        }
        Place::Existing(_) => {
            let below = proof.files_below.iter();
            return Ok(below.filter_map(|(file, path)| below_device(lookup, file, path)).collect());
        }
    };
    let fs = fstatvfs(fd).map_err(io)?;
    let stat = rustix::fs::fstat(fd).map_err(io)?;
    let mut needs = vec![(stat.st_dev, Need { path: path.to_string(), bytes, fs })];
    // Other devices have no backing file.
    let device = subject.facts.device.as_ref().map_or("", |device| &device.name);
    if bytes > 0 && ["loop", "dm-", "md"].iter().any(|kind| device.starts_with(kind)) {
        let files = prover.files_below(subject.facts.device_number);
        let files = files.map_err(|source| GuardError::Unread { path: path.into(), source })?;
        let below = files.iter().filter_map(|(file, path)| below_device(lookup, file, path));
        needs.extend(below.map(|(fs, need)| (fs, Need { bytes: need.bytes.min(bytes), ..need })));
    }
    Ok(needs)
}

/// Space for creating a file, or the part from `from`.
fn new_bytes(subject: &Subject, from: u64) -> u64 {
    let want = &subject.want;
    let is_reserved = !matches!(want.fallocate, Fallocate::None | Fallocate::Truncate);
    if !(is_reserved || want.fill || want.written) {
        return 0;
    }
    want.create_size.unwrap_or(0).saturating_sub(from)
}

/// Space for writing all of an existing file, which fills its holes.
fn existing_bytes(subject: &Subject, proof: &Proof) -> u64 {
    let facts = &subject.facts;
    if proof.may_write || subject.want.fill && proof.grow_to.is_some() {
        let size = proof.grow_to.unwrap_or(facts.size_bytes);
        return size.saturating_sub(facts.allocated_bytes);
    }
    proof.grow_to.map_or(0, |_| new_bytes(subject, facts.size_bytes))
}

/// Space for writing a device, which fills the holes of its backing file. A backing file that cannot
/// be found by path counts as entirely unallocated.
fn below_device(lookup: &Lookup, file: &FileIdentity, path: &Path) -> Option<(u64, Need)> {
    let number = |device| (rustix::fs::major(device), rustix::fs::minor(device));
    let found = rustix::fs::stat(path).ok();
    let found = found.filter(|s| (number(s.st_dev), s.st_ino) == (file.device, file.inode));
    let (fs, bytes) = match found {
        Some(stat) => {
            let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            (rustix::fs::statvfs(path).ok()?, size.saturating_sub(allocated))
        }
        None => (rustix::fs::statvfs(lookup.mount_point(file.device)?).ok()?, *file.sizes.start()),
    };
    let device = rustix::fs::makedev(file.device.0, file.device.1);
    Some((device, Need { path: path.display().to_string(), bytes, fs }))
}
