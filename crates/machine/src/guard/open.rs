//! Targets that were proven usable, and are held.

use super::error::GuardError;
use super::make::{self, Draft, Grown, Made};
use super::prove::Proof;
use super::subject::{self, Place, Spot, Subject, Want};
use crate::mark::{self, Mark, descriptor_path};
use crate::target::Lookup;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::plan::SyncIo;
use rustix::fs::{Advice, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How a worker opens its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerOpen {
    /// O_DIRECT.
    pub direct: bool,
    /// For reading and writing; otherwise for reading only.
    pub write: bool,
    /// O_SYNC or O_DSYNC.
    pub sync_io: SyncIo,
}

/// The size of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Up to its end.
    pub bytes: u64,
    /// Of these, what the file system has allocated.
    pub allocated: u64,
}

/// A target that was proven usable. It stays held, and locked where it is written to, until the
/// last target of the run that leads to the same thing is dropped.
pub struct OpenTarget {
    /// What it is, after it was made or made longer.
    pub facts: TargetFacts,
    pub(crate) entry: Arc<Entry>,
}

/// A file or device that is held, whatever its paths.
pub(crate) struct Entry {
    path: String,
    kind: TargetKind,
    want: Want,
    may_write: bool,
    held: OnceLock<Held>,
    /// Where a file is to be made by the first worker that opens it.
    late: Mutex<Option<Spot>>,
    /// What of it has to be filled.
    fill: Mutex<Option<Fill>>,
    /// Once it is there: what this run has made, to be removed or kept.
    made: OnceLock<Made>,
    grown: Option<Grown>,
    /// fathom made the file, and nobody else has changed it: its mark is renewed in the end.
    own: bool,
    /// Its size once it is made longer.
    size_bytes: u64,
    /// What was made is undone only where the plan asks for it.
    kept: AtomicBool,
    /// Someone else has changed it since.
    disowned: AtomicBool,
    /// Being open is what these are for.
    _claims: Vec<Arc<OwnedFd>>,
}

/// A part of a file that has to be filled.
struct Fill {
    from: u64,
    len: u64,
    /// A new file, which gets its name then.
    draft: Option<Draft>,
}

/// An open descriptor of it, and how it was then.
pub(crate) struct Held {
    fd: Arc<OwnedFd>,
    stat: Stat,
}

impl Held {
    pub(crate) fn new(path: &str, fd: Arc<OwnedFd>) -> Result<Self, GuardError> {
        let stat =
            rustix::fs::fstat(&fd).map_err(|error| GuardError::io(path, "look at", error))?;
        Ok(Self { fd, stat })
    }
}

impl Entry {
    /// Makes what is to be made. It is all undone when the entry is dropped before [`Entry::keep`].
    pub fn new(
        subject: Subject,
        proof: Proof,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Self, TargetFacts), GuardError> {
        let Subject { want, mut facts, place, .. } = subject;
        facts.size_bytes = facts.size_bytes.max(proof.grow_to.unwrap_or(0));
        let mut entry = Self {
            path: facts.path.clone(),
            kind: facts.kind,
            want,
            may_write: proof.may_write,
            held: OnceLock::new(),
            late: Mutex::new(None),
            fill: Mutex::new(None),
            made: OnceLock::new(),
            grown: None,
            own: proof.own,
            size_bytes: facts.size_bytes,
            kept: AtomicBool::new(false),
            disowned: AtomicBool::new(false),
            _claims: proof.claims,
        };
        match (place, proof.file) {
            (Place::New(spot), _) => entry.new_file(spot, &mut facts, stop)?,
            (Place::There(_), Some(file)) => {
                if let Some(to) = proof.grow_to {
                    entry.grow(&file, to, stop)?;
                }
                entry.hold(Held::new(&entry.path, file)?);
            }
            (Place::There(fd), None) => entry.hold(Held::new(&entry.path, Arc::new(fd))?),
        }
        Ok((entry, facts))
    }

    /// An entry for a scratch file of this size, all of which has to be filled.
    pub fn scratch(path: String, held: Held, made: Option<Made>, size: u64) -> Self {
        let entry = Self {
            path,
            kind: TargetKind::File,
            want: Want { invalidate: true, unlink: true, ..Want::default() },
            may_write: false,
            held: OnceLock::new(),
            late: Mutex::new(None),
            fill: Mutex::new(Some(Fill { from: 0, len: size, draft: None })),
            made: made.map_or_else(OnceLock::new, OnceLock::from),
            grown: None,
            own: false,
            size_bytes: size,
            kept: AtomicBool::new(false),
            disowned: AtomicBool::new(false),
            _claims: vec![Arc::clone(&held.fd)],
        };
        entry.hold(held);
        entry
    }

    fn hold(&self, held: Held) {
        // A second one is never made: both callers have just made the entry, or hold its lock.
        let _ = self.held.set(held);
    }

    fn new_file(
        &mut self,
        spot: Spot,
        facts: &mut TargetFacts,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), GuardError> {
        let size = self.want.create_size.unwrap_or(0);
        (self.kind, facts.kind) = (TargetKind::File, TargetKind::File);
        (self.own, self.size_bytes, facts.size_bytes) = (true, size, size);
        if self.want.late {
            *lock(&self.late) = Some(spot);
            return Ok(());
        }
        if self.want.fill {
            let (fd, draft) = Draft::new(&self.path, spot, &self.want, stop)?;
            self.fill = Mutex::new(Some(Fill { from: 0, len: size, draft: Some(draft) }));
            self.hold(Held::new(&self.path, fd)?);
            return Ok(());
        }
        let (fd, made) = make::create(&self.path, spot, &self.want, stop)?;
        self.made = OnceLock::from(made);
        self.hold(Held::new(&self.path, fd)?);
        Ok(())
    }

    /// Makes an existing file longer and notes what of it has to be filled.
    fn grow(
        &mut self,
        file: &Arc<OwnedFd>,
        to: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), GuardError> {
        let stat = subject::stat(&self.path, file)?;
        let from = u64::try_from(stat.st_size).unwrap_or(0);
        let grown = Grown::new(&self.path, file, (from, to), self.own, &self.want, stop)?;
        self.grown = Some(grown);
        if self.want.fill {
            let len = to.saturating_sub(from);
            self.fill = Mutex::new(Some(Fill { from, len, draft: None }));
        }
        Ok(())
    }

    /// The facts anew, now that it has been made.
    pub fn facts(&self, lookup: &Lookup, asked: &str, before: &TargetFacts) -> TargetFacts {
        let now = self.held.get().and_then(|held| lookup.open_target(asked, &held.fd).ok());
        let mut facts = now.unwrap_or_else(|| before.clone());
        facts.path = asked.to_string();
        facts.size_bytes = before.size_bytes;
        if lock(&self.fill).as_ref().is_some_and(|fill| fill.draft.is_some()) {
            // It will be there, and fathom's own, when it is complete.
            facts.resolved.clone_from(&before.resolved);
            facts.made_by_fathom = true;
        }
        facts
    }

    fn held(&self) -> io::Result<&Held> {
        let mut late = lock(&self.late);
        if let Some(spot) = late.take() {
            let (fd, made) =
                make::create(&self.path, spot, &self.want, &|| false).map_err(io::Error::other)?;
            let _ = self.made.set(made);
            self.hold(Held::new(&self.path, fd).map_err(io::Error::other)?);
        }
        self.held.get().ok_or_else(|| io::Error::other(format!("{} could not be made", self.path)))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            self.grown.iter().for_each(Grown::keep);
            self.made.get().filter(|_| !self.want.unlink).into_iter().for_each(Made::keep);
        }
        let own = self.own && self.may_write && !*self.disowned.get_mut();
        let Some(held) = self.held.get().filter(|_| own) else { return };
        let size = rustix::fs::fstat(&held.fd).map(|stat| stat.st_size);
        // Of another size it was changed by someone else too, and the mark stays void.
        if size.is_ok_and(|size| u64::try_from(size) == Ok(self.size_bytes)) {
            let _ = mark::write(&held.fd, Mark::Target);
        }
    }
}

impl OpenTarget {
    /// A new open file description of the very file or device that was proven usable, whatever its
    /// path leads to by now.
    ///
    /// # Errors
    /// When the kernel refuses, with what to do; and when it is asked to write to what is only
    /// read in this run.
    pub fn open_worker(&self, how: WorkerOpen) -> io::Result<OwnedFd> {
        let path = &self.facts.path;
        if how.write && !self.entry.may_write && self.fill_range().is_none() {
            let text = format!("{path} is only read in this run, so it is not opened for writing");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let mut flags = if how.write { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
        // Passthrough commands bypass the page cache anyway, and their device knows no O_DIRECT.
        let direct = how.direct && self.entry.kind != TargetKind::NvmeGeneric;
        flags.set(OFlags::DIRECT, direct);
        match how.sync_io {
            SyncIo::None => {}
            SyncIo::Dsync => flags |= OFlags::DSYNC,
            SyncIo::Sync => flags |= OFlags::SYNC,
        }
        let named = descriptor_path(&self.entry.held()?.fd);
        // Noting the time of each read costs some percent of it, and only the owner may leave it out.
        let opened = match rustix::fs::open(&named, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => rustix::fs::open(&named, flags, Mode::empty()),
            other => other,
        };
        opened.map_err(|error| {
            let purpose = if how.write { "writing" } else { "reading" };
            let text = match error {
                Errno::INVAL if direct => format!(
                    "{path}: its file system ({}) does not support direct I/O: use direct=0, or \
                     another place",
                    self.facts.file_system.as_deref().unwrap_or("unknown")
                ),
                _ => format!("cannot open {path} for {purpose}: {error}"),
            };
            io::Error::new(io::Error::from(error).kind(), text)
        })
    }

    /// First byte and length of the part that this run has newly made and that must be filled with
    /// data, through [`OpenTarget::open_worker`], before it is read. `None` once
    /// [`OpenTarget::filled`] was called, here or on another target that leads to the same file.
    #[must_use]
    pub fn fill_range(&self) -> Option<(u64, u64)> {
        lock(&self.entry.fill).as_ref().map(|fill| (fill.from, fill.len))
    }

    /// Says that all of [`OpenTarget::fill_range`] has been filled: gives a new file its name, marks
    /// it, and drops the pages from the page cache where the plan asks for that.
    ///
    /// # Errors
    /// When the file cannot be named or marked, or another has its name by now.
    pub fn filled(&self) -> io::Result<()> {
        let entry = &self.entry;
        let Some(fill) = lock(&entry.fill).take() else { return Ok(()) };
        if let Some(draft) = fill.draft {
            let made = draft.publish().map_err(io::Error::other)?;
            let _ = entry.made.set(made);
        } else if entry.own {
            mark::write(&entry.held()?.fd, Mark::Target)?;
        }
        if entry.want.invalidate { self.invalidate() } else { Ok(()) }
    }

    /// Someone else has changed the file meanwhile: it does not count as fathom's own any more.
    pub fn disown(&self) {
        self.entry.disowned.store(true, Ordering::Relaxed);
    }

    /// From now on what was made stays when the target is dropped, unless the plan asks for its
    /// removal. To be called when nothing can refuse the run any more.
    pub fn keep(&self) {
        self.entry.kept.store(true, Ordering::Relaxed);
    }

    /// Drops the target's pages from the page cache, after writing back those that are dirty.
    ///
    /// # Errors
    /// When it cannot be opened for reading.
    pub fn invalidate(&self) -> io::Result<()> {
        if self.entry.kind == TargetKind::NvmeGeneric || lock(&self.entry.late).is_some() {
            return Ok(());
        }
        let how = WorkerOpen { direct: false, write: false, sync_io: SyncIo::None };
        let fd = self.open_worker(how)?;
        // Dirty pages cannot be dropped. A failure shows in the run itself.
        let _ = rustix::fs::fdatasync(&fd);
        Ok(rustix::fs::fadvise(&fd, 0, None, Advice::DontNeed)?)
    }

    /// Whether the plan asks to drop the target from the page cache, and it can be done now.
    pub(crate) fn is_to_invalidate(&self) -> bool {
        self.entry.want.invalidate && self.fill_range().is_none()
    }

    /// In words, what has happened to the target since it was opened: deleted, made shorter, its
    /// name given to another file, the device gone. Call it on all targets of a run before
    /// [`OpenTarget::finish`] on any, as two of them may be the same file.
    #[must_use]
    pub fn changed(&self) -> Option<String> {
        let held = self.entry.held.get()?;
        match self.entry.kind {
            TargetKind::File => self.file_changed(held),
            TargetKind::BlockDevice => self.device_changed(held),
            _ => None,
        }
    }

    /// How large a file is now; `None` for what is no file, or not made yet.
    #[must_use]
    pub fn extent(&self) -> Option<Extent> {
        let held = self.entry.held.get().filter(|_| self.entry.kind == TargetKind::File)?;
        let now = rustix::fs::fstat(&held.fd).ok()?;
        let bytes = u64::try_from(now.st_size).ok()?;
        let blocks = u64::try_from(now.st_blocks).ok()?;
        // Some file systems allocate beyond the end, and take it back.
        Some(Extent { bytes, allocated: blocks.saturating_mul(512).min(bytes) })
    }

    fn file_changed(&self, held: &Held) -> Option<String> {
        let path = &self.facts.path;
        let now = rustix::fs::fstat(&held.fd).ok()?;
        if held.stat.st_nlink == 0 && self.entry.made.get().is_none() {
            // It never had a name.
            return None;
        }
        if now.st_nlink == 0 {
            return Some(format!("{path} was deleted"));
        }
        let (size, before) = (u64::try_from(now.st_size).ok()?, self.facts.size_bytes);
        if size < before {
            return Some(format!("{path} was truncated from {before} to {size} bytes"));
        }
        let named = rustix::fs::stat(path.as_str());
        let identity = (now.st_dev, now.st_ino);
        match named {
            Ok(other) if (other.st_dev, other.st_ino) == identity => None,
            Ok(_) => Some(format!("{path} is another file now than the one that is worked on")),
            Err(error) => Some(format!("{path} no longer leads to the file ({error})")),
        }
    }

    fn device_changed(&self, held: &Held) -> Option<String> {
        let path = &self.facts.path;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let size = rustix::fs::open(descriptor_path(&held.fd), flags, Mode::empty())
            .and_then(|fd| rustix::fs::seek(&fd, SeekFrom::End(0)));
        let before = self.facts.size_bytes;
        match size {
            Ok(size) if size >= before => None,
            Ok(size) => Some(format!("{path} shrank from {before} to {size} bytes")),
            Err(error) => Some(format!("{path} can no longer be opened ({error})")),
        }
    }

    /// Ends the use of the target: removes the file where the plan asks for it and this run made it.
    ///
    /// # Errors
    /// When it cannot be removed, or its name leads to another file by now.
    pub fn finish(self) -> io::Result<()> {
        match self.entry.made.get().filter(|_| self.entry.want.unlink) {
            Some(made) => made.remove(),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing that is done under these locks leaves a value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
