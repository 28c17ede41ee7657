//! Open targets that passed all checks.

use super::error::GuardError;
use super::history::{History, OpenDescriptor};
use super::make::NewDirs;
use super::make::{self, Draft, Grown, Made};
use super::promise::Promises;
use super::prove::{self, Proof};
use super::subject::{self, GuardSubject, Location, Spot};
use crate::mark::{self, Mark, descriptor_path};
use crate::target::Lookup;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::plan::{SyncIo, Target};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerOpen {
    pub direct: bool,
    pub write: bool,
    pub sync_io: SyncIo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub bytes: u64,
    /// Bytes allocated by the file system, at most `bytes`.
    pub allocated: u64,
}

/// A target that passed all checks. Stays open, and locked if written, until all targets of the run
/// that refer to the same file or device are dropped.
pub struct OpenTarget {
    /// Facts, after creating or extending it.
    pub facts: TargetFacts,
    pub(crate) entry: Arc<TargetEntry>,
    pub(crate) promises: Promises,
}

pub(crate) struct TargetEntry {
    path: String,
    kind: TargetKind,
    want: Target,
    may_write: bool,
    held: OnceLock<OpenDescriptor>,
    late: Mutex<Option<Spot>>,
    fill: Mutex<Option<FillPart>>,
    is_new: bool,
    made: OnceLock<Made>,
    grown: Option<Grown>,
    /// Whether fathom created the file and no one else changed it: its mark is renewed at the end.
    own: bool,
    size_bytes: u64,
    /// Whether to keep created files unless the plan removes them.
    kept: AtomicBool,
    history: History,
    /// What trims of a block device go through: only the descriptor that holds it may drop its dirty pages.
    trims: Option<Arc<OwnedFd>>,
    /// Held open for their locks.
    _claims: Vec<Arc<OwnedFd>>,
    /// The directories that the run creates; dropped last, when they are empty.
    dirs: Arc<NewDirs>,
}

struct FillPart {
    from: u64,
    len: u64,
    /// A new file, which gets its name when filled.
    draft: Option<Draft>,
}

impl TargetEntry {
    /// Creates or extends the file as required; undone on drop unless [`OpenTarget::keep`] was called.
    pub fn new(
        subject: GuardSubject,
        proof: Proof,
        dirs: &Arc<NewDirs>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Self, TargetFacts), GuardError> {
        let GuardSubject { want, mut facts, place, .. } = subject;
        facts.size_bytes = facts.size_bytes.max(proof.grow_to.unwrap_or(0));
        let mut entry = Self {
            path: facts.path.clone(),
            kind: facts.kind,
            want,
            may_write: proof.may_write,
            held: OnceLock::new(),
            late: Mutex::new(None),
            fill: Mutex::new(None),
            is_new: matches!(place, Location::New(_)),
            made: OnceLock::new(),
            grown: None,
            own: proof.own,
            size_bytes: facts.size_bytes,
            kept: AtomicBool::new(false),
            history: History::default(),
            trims: proof.trims,
            _claims: proof.claims,
            dirs: Arc::clone(dirs),
        };
        match place {
            Location::New(spot) => entry.new_file(spot, &mut facts, stop)?,
            Location::Existing(fd) if proof.opens_for_writing => {
                let file = Arc::new(prove::open_for_writing(&entry.path, &fd, entry.own)?);
                if let Some(to) = proof.grow_to {
                    entry.grow(&file, to, stop)?;
                }
                entry.hold(OpenDescriptor::new(&entry.path, file)?);
            }
            Location::Existing(fd) => entry.hold(OpenDescriptor::new(&entry.path, Arc::new(fd))?),
        }
        Ok((entry, facts))
    }

    /// An entry for a scratch file of this size, all of it to be filled; it may be written then.
    pub fn scratch(path: String, held: OpenDescriptor, made: Option<Made>, size: u64) -> Self {
        let entry = Self {
            path,
            kind: TargetKind::File,
            want: Target { invalidate: true, unlink: true, ..Target::default() },
            may_write: true,
            held: OnceLock::new(),
            late: Mutex::new(None),
            fill: Mutex::new(Some(FillPart { from: 0, len: size, draft: None })),
            is_new: true,
            made: made.map_or_else(OnceLock::new, OnceLock::from),
            grown: None,
            own: false,
            size_bytes: size,
            kept: AtomicBool::new(false),
            history: History::default(),
            trims: None,
            _claims: vec![Arc::clone(&held.fd)],
            dirs: Arc::default(),
        };
        entry.hold(held);
        entry
    }

    fn hold(&self, held: OpenDescriptor) {
        self.history.left(&held.fd);
        // Never set twice: callers have just created the entry, or hold its lock.
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
        if self.want.create_on_open {
            *lock(&self.late) = Some(spot);
            return Ok(());
        }
        let spot = self.dirs.make(&self.path, spot)?;
        if self.want.fill {
            let (fd, draft) = Draft::new(&self.path, spot, &self.want, stop)?;
            self.fill = Mutex::new(Some(FillPart { from: 0, len: size, draft: Some(draft) }));
            self.hold(OpenDescriptor::new(&self.path, fd)?);
            return Ok(());
        }
        let (fd, made) = make::create(&self.path, spot, &self.want, stop)?;
        self.made = OnceLock::from(made);
        self.hold(OpenDescriptor::new(&self.path, fd)?);
        Ok(())
    }

    /// Extends an existing file and records the part to be filled.
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
            self.fill = Mutex::new(Some(FillPart { from, len, draft: None }));
        }
        Ok(())
    }

    pub fn facts(&self, lookup: &Lookup, asked: &str, before: &TargetFacts) -> TargetFacts {
        let now = self.held.get().and_then(|held| lookup.open_target(asked, &held.fd).ok());
        let mut facts = now.unwrap_or_else(|| before.clone());
        facts.path = asked.to_string();
        facts.size_bytes = before.size_bytes;
        if lock(&self.fill).as_ref().is_some_and(|fill| fill.draft.is_some()) {
            // The file gets its name when complete.
            facts.resolved.clone_from(&before.resolved);
        }
        // The mark of a new file is valid only after the run.
        facts.made_by_fathom |= self.own && self.held.get().is_some();
        facts
    }

    /// The file system of a new file, by device number, and what it has allocated there, in bytes.
    pub fn newly_allocated(&self) -> Option<(u64, u64)> {
        let held = self.held.get().filter(|_| self.is_new)?;
        let stat = rustix::fs::fstat(&held.fd).ok()?;
        Some((stat.st_dev, u64::try_from(stat.st_blocks).ok()?.saturating_mul(512)))
    }

    fn held(&self) -> io::Result<&OpenDescriptor> {
        let mut late = lock(&self.late);
        if let Some(spot) = late.take() {
            let create = |spot| make::create(&self.path, spot, &self.want, &|| false);
            let spot = self.dirs.make(&self.path, spot);
            let (fd, made) = spot.and_then(create).map_err(io::Error::other)?;
            let _ = self.made.set(made);
            self.hold(OpenDescriptor::new(&self.path, fd).map_err(io::Error::other)?);
        }
        self.held.get().ok_or_else(|| {
            io::Error::other(format!("{} could not be created; see the first error", self.path))
        })
    }
}

impl Drop for TargetEntry {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            self.grown.iter().for_each(Grown::keep);
            self.made.get().filter(|_| !self.want.unlink).into_iter().for_each(Made::keep);
        }
        let renew = self.own && (self.may_write || self.grown.is_some());
        let Some(held) = self.held.get().filter(|_| renew) else { return };
        let left = self.history.current(&held.fd);
        // As long as the new part is not filled, the file has its old size.
        let fill = self.fill.get_mut().unwrap_or_else(PoisonError::into_inner);
        let size =
            fill.as_ref().filter(|_| self.grown.is_some()).map_or(self.size_bytes, |f| f.from);
        // A different size means that another program changed it while fathom wrote.
        match left.filter(|left| left.size() == size) {
            Some(left) => drop(mark::write_version(&held.fd, Mark::Target, &left)),
            None => {
                self.grown.iter_mut().for_each(Grown::disown);
                mark::clear(&held.fd);
            }
        }
    }
}

#[derive(Clone)]
pub struct Writing(Weak<TargetEntry>);

impl Writing {
    pub fn begin(&self) {
        self.with(|entry, fd| entry.history.begin(fd));
    }

    pub fn end(&self) {
        self.with(|entry, fd| entry.history.end(fd));
    }

    fn with(&self, act: impl FnOnce(&TargetEntry, &OwnedFd)) {
        let entry = self.0.upgrade();
        let entry = entry.as_ref().filter(|entry| entry.kind == TargetKind::File);
        if let Some((entry, held)) = entry.and_then(|entry| Some((entry, entry.held.get()?))) {
            act(entry, &held.fd);
        }
    }
}

impl OpenTarget {
    /// Whether the plan permits writes to it.
    pub fn is_writable(&self) -> bool {
        self.entry.may_write
    }

    /// A new open file description of the file or device that was checked, even if its path now refers
    /// to another.
    pub fn open_worker(&self, how: WorkerOpen) -> io::Result<OwnedFd> {
        let path = &self.facts.path;
        if how.write && !self.entry.may_write && self.fill_range().is_none() {
            let text = format!("{path} is read-only in this plan; cannot open it for writing");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let mut flags = if how.write { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
        // Passthrough always bypasses the page cache, and its device does not support O_DIRECT.
        let direct = how.direct && !self.entry.kind.is_generic();
        flags.set(OFlags::DIRECT, direct);
        match how.sync_io {
            SyncIo::None => {}
            SyncIo::Dsync => flags |= OFlags::DSYNC,
            SyncIo::Sync => flags |= OFlags::SYNC,
        }
        let named = descriptor_path(&self.entry.held()?.fd);
        // Updating atime costs some percent of each read; O_NOATIME is for the owner only.
        let opened = match rustix::fs::open(&named, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => rustix::fs::open(&named, flags, Mode::empty()),
            other => other,
        };
        opened.map_err(|error| {
            let purpose = if how.write { "writing" } else { "reading" };
            let text = match error {
                Errno::INVAL if direct => format!(
                    "{path}: its file system ({}) does not support direct I/O; use direct=0, or \
                     another file system",
                    self.facts.file_system.as_deref().unwrap_or("unknown")
                ),
                _ => format!("cannot open {path} for {purpose}: {error}"),
            };
            io::Error::new(io::Error::from(error).kind(), text)
        })
    }

    /// What trims of a block device must go through, if this run holds it for them: a descriptor of the open file
    /// description that claims the device. Through any other, the kernel refuses to trim dirty pages (EBUSY).
    pub fn open_for_trims(&self) -> io::Result<Option<OwnedFd>> {
        self.entry.trims.as_ref().map(|fd| fd.try_clone()).transpose()
    }

    /// A worker's writes to the target. Without it, the mark of a file that was written is void.
    pub fn writing(&self) -> Writing {
        Writing(Arc::downgrade(&self.entry))
    }

    /// Offset and length in bytes of the new part that must be filled through
    /// [`OpenTarget::open_worker`] before it is read. `None` after [`OpenTarget::filled`], on this or
    /// another target of the same file.
    pub fn fill_range(&self) -> Option<(u64, u64)> {
        lock(&self.entry.fill).as_ref().map(|fill| (fill.from, fill.len))
    }

    /// Called after filling [`OpenTarget::fill_range`]: links a new file to its name, marks it, and
    /// invalidates the page cache if the plan requires it.
    pub fn filled(&self) -> io::Result<()> {
        let entry = &self.entry;
        let Some(fill) = lock(&entry.fill).take() else { return Ok(()) };
        if let Some(draft) = fill.draft {
            let stays = !entry.may_write && !entry.want.unlink;
            let made = draft.publish(stays).map_err(io::Error::other)?;
            let _ = entry.made.set(made);
        } else if entry.own {
            mark::write(&entry.held()?.fd, Mark::Target)?;
        }
        entry.history.left(&entry.held()?.fd);
        if entry.want.invalidate { self.invalidate() } else { Ok(()) }
    }

    /// Records that another program changed the file, which is no longer treated as created by fathom.
    pub fn disown(&self) {
        self.entry.history.disown();
    }

    /// Keeps created and extended files on drop, unless the plan removes them. Called once nothing can
    /// refuse the run any more.
    pub fn keep(&self) {
        self.entry.kept.store(true, Ordering::Relaxed);
        self.entry.dirs.keep();
    }

    /// Invalidates the target's page cache, after writing back dirty pages.
    pub fn invalidate(&self) -> io::Result<()> {
        self.invalidate_part(0, 0)
    }

    /// The same for the `len` bytes from `start`; 0 bytes are all up to the end.
    pub(crate) fn invalidate_part(&self, start: u64, len: u64) -> io::Result<()> {
        if self.entry.kind.is_generic() || lock(&self.entry.late).is_some() {
            return Ok(());
        }
        let how = WorkerOpen { direct: false, write: false, sync_io: SyncIo::None };
        let fd = self.open_worker(how)?;
        // Dirty pages cannot be dropped. A write-back error recurs in the run itself.
        let _ = rustix::fs::fdatasync(&fd);
        Ok(rustix::fs::fadvise(&fd, start, NonZeroU64::new(len), Advice::DontNeed)?)
    }

    pub fn is_created(&self) -> bool {
        self.entry.made.get().is_some()
    }

    /// Whether the plan requires invalidating the page cache, and this is possible now.
    pub(crate) fn is_to_invalidate(&self) -> bool {
        self.entry.want.invalidate && self.fill_range().is_none()
    }

    /// Describes a change of the target since it was opened: deleted, truncated, replaced, or a lost
    /// device. Call this on all targets of a run before [`OpenTarget::finish`] on any, since two may
    /// be the same file.
    pub fn changed(&self) -> Option<String> {
        let held = self.entry.held.get()?;
        match self.entry.kind {
            TargetKind::File => self.file_changed(held),
            TargetKind::BlockDevice => self.device_changed(held),
            _ => None,
        }
    }

    pub fn extent(&self) -> Option<Extent> {
        let held = self.entry.held.get().filter(|_| self.entry.kind == TargetKind::File)?;
        let now = rustix::fs::fstat(&held.fd).ok()?;
        let bytes = u64::try_from(now.st_size).ok()?;
        let blocks = u64::try_from(now.st_blocks).ok()?;
        // Some file systems temporarily allocate beyond the end.
        Some(Extent { bytes, allocated: blocks.saturating_mul(512).min(bytes) })
    }

    fn file_changed(&self, held: &OpenDescriptor) -> Option<String> {
        let path = &self.facts.path;
        let now = rustix::fs::fstat(&held.fd).ok()?;
        if held.stat.st_nlink == 0 && self.entry.made.get().is_none() {
            // An unnamed file.
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
            Ok(_) => Some(format!("{path} was replaced by another file")),
            Err(error) => Some(format!("{path} no longer refers to the file ({error})")),
        }
    }

    fn device_changed(&self, held: &OpenDescriptor) -> Option<String> {
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

    /// Ends the use of the target: removes the file if this run created it and the plan requires it.
    pub fn finish(self) -> io::Result<()> {
        match self.entry.made.get().filter(|_| self.entry.want.unlink) {
            Some(made) => made.remove(),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No panic under these locks leaves a value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
