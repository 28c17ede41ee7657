//! Free space on the file systems that are written.

use super::error::GuardError;
use super::promise::{Ledger, Promises};
use super::prove::{Proof, Prover};
use super::subject::{GuardSubject, Location};
use crate::ioctl;
use crate::mark::descriptor_path;
use crate::settings::state_dir;
use crate::stack::FileIdentity;
use crate::target::{self, Lookup};
use fathom_model::facts::TargetKind;
use fathom_model::plan::Fallocate;
use rustix::fs::{Mode, OFlags, StatVfs, fstatvfs};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Maximum space to leave free, in bytes.
const RESERVE_MAX: u64 = 1 << 30;

/// Space that all targets together need on one file system.
struct Need {
    path: String,
    bytes: u64,
    fs: StatVfs,
}

/// Refuses a plan whose writes, and those of other runs, would not leave 5% or 1 GiB of each file system free, whichever is
/// less. Other runs count those of this one as long as the result exists.
pub(crate) fn check<'a>(
    lookup: &Lookup,
    prover: &Prover,
    all: impl Iterator<Item = (&'a GuardSubject, &'a Proof)>,
) -> Result<Promises, GuardError> {
    // Before free space is read, which other runs then reduce only by what they promised.
    let ledger = Ledger::open(&state_dir().join("space"));
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
    for (device, need) in &needs {
        let promised = ledger.as_ref().map_or(0, |ledger| ledger.by_others(*device));
        fits(&need.path, need.bytes, promised, &need.fs)?;
    }
    let promised = needs.iter().map(|(device, need)| (*device, need.bytes));
    // Without a place to record them, runs do not know of each other.
    Ok(ledger.and_then(|ledger| ledger.promise(promised)).unwrap_or_default())
}

/// Whether `need` more bytes leave the reserve, if other runs use the `promised` bytes.
pub(crate) fn fits(path: &str, need: u64, promised: u64, fs: &StatVfs) -> Result<(), GuardError> {
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let reserve = RESERVE_MAX.min(fs.f_blocks.saturating_mul(fs.f_frsize) / 20);
    if need == 0 || need.saturating_add(promised).saturating_add(reserve) <= free {
        return Ok(());
    }
    Err(GuardError::NoSpace { path: path.to_string(), need, free, reserve, promised })
}

/// The file systems, by device number, on which a target needs space.
fn all_needs(
    lookup: &Lookup,
    prover: &Prover,
    subject: &GuardSubject,
    proof: &Proof,
) -> Result<Vec<(u64, Need)>, GuardError> {
    let path = subject.path();
    let io = |error| GuardError::io(path, "read the file system status of", error);
    let (fd, bytes) = match &subject.place {
        Location::New(spot) => (&spot.dir, new_bytes(subject, 0)),
        Location::Existing(fd) if subject.facts.kind == TargetKind::File => {
            (fd, existing_bytes(lookup, subject, proof, fd))
        }
        Location::Existing(_) => {
            let below = proof.files_below.iter();
            return below
                .filter_map(|(file, path)| below_device(lookup, file, path).transpose())
                .collect();
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
        for (file, path) in &files {
            let below = below_device(lookup, file, path)?;
            needs.extend(
                below.map(|(fs, need)| (fs, Need { bytes: need.bytes.min(bytes), ..need })),
            );
        }
    }
    Ok(needs)
}

/// Space for creating a file, or the part from `from`.
fn new_bytes(subject: &GuardSubject, from: u64) -> u64 {
    let want = &subject.want;
    let is_reserved = !matches!(want.fallocate, Fallocate::None | Fallocate::Truncate);
    if !(is_reserved || want.fill || want.written) {
        return 0;
    }
    want.create_size.unwrap_or(0).saturating_sub(from)
}

/// Space for writing all of an existing file, which fills its holes, and copies what it shares with others: extents, or, on
/// an overlay, all of a lower file.
fn existing_bytes(lookup: &Lookup, subject: &GuardSubject, proof: &Proof, fd: &OwnedFd) -> u64 {
    let facts = &subject.facts;
    let writes = proof.may_write || subject.want.fill && proof.grow_to.is_some();
    let size = proof.grow_to.unwrap_or(facts.size_bytes);
    // What fathom created through the overlay is in the upper layer.
    if proof.opens_for_writing && !proof.own && is_below_overlay(lookup, subject, fd) {
        return size;
    }
    if writes {
        let shared =
            proof.claims.first().map_or(0, |file| shared_bytes(file, facts.allocated_bytes));
        return size.saturating_sub(facts.allocated_bytes).saturating_add(shared);
    }
    proof.grow_to.map_or(0, |_| new_bytes(subject, facts.size_bytes))
}

/// Whether opening a file for writing copies it to the upper layer of an overlay.
fn is_below_overlay(lookup: &Lookup, subject: &GuardSubject, fd: &OwnedFd) -> bool {
    let Ok(stat) = target::stat(fd) else { return true };
    let Some(mount) = lookup.mount_of(&stat).filter(|mount| mount.file_system == "overlay") else {
        return false;
    };
    let upper = mount.super_options.split(',').find_map(|option| option.strip_prefix("upperdir="));
    let within = Path::new(&subject.facts.resolved).strip_prefix(&mount.point);
    let (Some(upper), Ok(within)) = (upper, within) else { return true };
    let path = Path::new(upper).join(mount.root.trim_start_matches('/')).join(within);
    let found = rustix::fs::lstat(&path);
    !found.is_ok_and(|found| {
        u64::try_from(found.st_size) == Ok(stat.stx_size)
            && (found.st_mtime, found.st_mtime_nsec as u32)
                == (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec)
    })
}

/// Bytes of an open file that it shares with other files, such as snapshots; all `allocated` ones if that cannot be read.
fn shared_bytes(file: &OwnedFd, allocated: u64) -> u64 {
    match ioctl::shared_bytes(file) {
        Ok(shared) => shared,
        // File systems that have no list of extents, such as tmpfs.
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => 0,
        Err(_) => allocated,
    }
}

/// Space for writing a device, which fills the holes of its backing file and copies what that shares. A backing file that
/// cannot be found by path counts as entirely unallocated; `None` where its file system is not mounted here.
fn below_device(
    lookup: &Lookup,
    file: &FileIdentity,
    path: &Path,
) -> Result<Option<(u64, Need)>, GuardError> {
    let number = |device| (rustix::fs::major(device), rustix::fs::minor(device));
    let io = |error| {
        GuardError::io(&path.display().to_string(), "read the file system status of", error)
    };
    let named = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
    let named = named.and_then(|fd| Some((rustix::fs::fstat(&fd).ok()?, fd)));
    let named = named.filter(|(s, _)| (number(s.st_dev), s.st_ino) == (file.device, file.inode));
    let (fs, bytes) = match named {
        Some((stat, fd)) => {
            let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let shared = rustix::fs::open(descriptor_path(&fd), flags, Mode::empty())
                .map_or(allocated, |file| shared_bytes(&file, allocated));
            let bytes = size.saturating_sub(allocated).saturating_add(shared);
            (fstatvfs(&fd).map_err(io)?, bytes)
        }
        None => {
            let Some(mount) = lookup.mount_point(file.device) else { return Ok(None) };
            (rustix::fs::statvfs(mount).map_err(io)?, *file.sizes.start())
        }
    };
    let device = rustix::fs::makedev(file.device.0, file.device.1);
    Ok(Some((device, Need { path: path.display().to_string(), bytes, fs })))
}
