//! Space that runs are going to use, as other runs see it.
//!
//! Free space is checked before a run and used during it: of two runs that begin together, each would find room for itself. So
//! each records what it has not allocated yet, in the name of a file that it keeps locked, and counts what others record.

use crate::scratch;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, renameat, unlinkat};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
pub(crate) struct Promises(Arc<Mutex<Vec<Promise>>>);

/// Bytes of one file system. Its file is removed on drop; that of a killed run by the next run, since it is not locked.
struct Promise {
    dir: Arc<OwnedFd>,
    name: String,
    device: u64,
    bytes: u64,
    _lock: OwnedFd,
}

/// The promises of all runs of this user, locked: until dropped, no other run can add one.
pub(crate) struct Ledger {
    dir: Arc<OwnedFd>,
    by_others: HashMap<u64, u64>,
}

impl Ledger {
    /// Reads the promises recorded in `dir`. Waits for other runs that do so.
    /// Without the directory, runs do not know of each other.
    pub fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = Arc::new(rustix::fs::open(dir, flags, Mode::empty())?);
        while let Err(error) = flock(&dir, FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let mut by_others = HashMap::new();
        for entry in rustix::fs::Dir::read_from(&dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Some((device, bytes)) = parse(name) else { continue };
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(&dir, name, flags, Mode::empty()) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Of a run that was killed.
                let _ = unlinkat(&dir, name, AtFlags::empty());
            } else {
                let sum: &mut u64 = by_others.entry(device).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        Ok(Self { dir, by_others })
    }

    /// Bytes that other runs are going to use on a file system.
    pub fn by_others(&self, device: u64) -> u64 {
        self.by_others.get(&device).copied().unwrap_or(0)
    }

    /// Records what this run is going to use, by file system.
    pub fn promise(self, needs: impl Iterator<Item = (u64, u64)>) -> io::Result<Promises> {
        let mut promises = Vec::new();
        for (device, bytes) in needs.filter(|(_, bytes)| *bytes > 0) {
            let name = name(device, bytes);
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.dir, &name, flags, Mode::from_raw_mode(0o600))?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            let dir = Arc::clone(&self.dir);
            promises.push(Promise { dir, name, device, bytes, _lock: file });
        }
        // The promises keep the directory open.
        flock(&self.dir, FlockOperation::Unlock)?;
        Ok(Promises(Arc::new(Mutex::new(promises))))
    }
}

impl Promises {
    /// Reduces the promises by what has been allocated by now, by file system.
    pub fn allocated(&self, allocated: &HashMap<u64, u64>) {
        let mut promises = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for promise in promises.iter_mut() {
            let done = allocated.get(&promise.device).copied().unwrap_or(0);
            let new = name(promise.device, promise.bytes.saturating_sub(done));
            if renameat(&promise.dir, &promise.name, &promise.dir, &new).is_ok() {
                promise.name = new;
            }
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let _ = unlinkat(&self.dir, &self.name, AtFlags::empty());
    }
}

fn name(device: u64, bytes: u64) -> String {
    format!("{device}-{bytes}-{}", scratch::unique())
}

fn parse(name: &str) -> Option<(u64, u64)> {
    let mut parts = name.splitn(3, '-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
