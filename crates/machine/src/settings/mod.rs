//! Settings that are changed temporarily, and always restored.
//!
//! The old value is on disk before the new one is written. It is restored when the [`Guard`] is dropped, so on errors
//! and panics too; after SIGKILL or a crash by [`Settings::recover`], which every command calls first. A setting that
//! another program changed meanwhile is left unchanged and reported. Changes of one disk by two processes at a time are
//! refused.

mod cgroup;
mod effects;
mod journal;
mod place;
mod process;
mod restore;

pub use restore::{Restored, RestoredHow};

use effects::Effects;
use fathom_model::setting::{Setting, SettingChange};
use fathom_sys::roots::{Roots, Unread};
use journal::{Journal, JournalEntry, JournalSlot, SlotKind};
use place::SettingFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Called before and after each change of a file, so that tests can end the process there.
pub type StepHook = Arc<dyn Fn() + Send + Sync>;

#[derive(Clone)]
pub struct Settings {
    effects: Effects,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The change, with the kernel's name of the target, and the value read back.
    pub change: SettingChange,
    /// The old value; empty if the setting has none.
    pub old: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub what: String,
    pub old: String,
    pub now: Option<String>,
    pub pid: u32,
    /// Whether it stays changed until `fathom restore` or a reboot.
    pub is_kept: bool,
    pub is_in_use: bool,
}

impl Settings {
    /// The settings of this machine, with the journal below /run, or without root below the user's runtime or state
    /// directory.
    pub fn system() -> Self {
        Self::new(Roots::default(), state_dir())
    }

    pub fn new(roots: Roots, state: PathBuf) -> Self {
        Self { effects: Effects { roots, state, on_step: None } }
    }

    pub fn with_steps(mut self, hook: StepHook) -> Self {
        self.effects.on_step = Some(hook);
        self
    }

    /// Applies `changes` in the order of [`Setting`], and verifies that all are in effect together. They last as
    /// long as the guard.
    /// If one is not possible, all others are restored; if one of them cannot be, that is the error.
    pub fn apply(&self, changes: &[SettingChange]) -> Result<Guard, SettingsError> {
        self.effects.roots.verify()?;
        let mut wanted = Vec::new();
        for change in changes {
            wanted.extend(place::resolve(&self.effects.roots, change)?);
        }
        // What raises the read-ahead comes before it.
        wanted.sort_by_key(|place| (place.setting == Setting::ReadAheadKb, place.setting));
        let mut guard = Guard::hold(&self.effects, &wanted)?;
        let changed = wanted.iter().try_for_each(|place| guard.change(place));
        match changed.and_then(|()| guard.verify(&wanted)) {
            Ok(()) => Ok(guard),
            Err(error) => match guard.restore().into_iter().find(Restored::is_failure) {
                Some(failed) => Err(SettingsError::NotRestored { what: failed.to_string() }),
                None => Err(error),
            },
        }
    }

    /// Checks that this user may make and record `changes`, and changes nothing. What the machine lacks is not an error
    /// here.
    pub fn check(&self, changes: &[SettingChange]) -> Result<(), SettingsError> {
        for change in changes {
            self.effects.roots.verify()?;
            let checked = place::resolve(&self.effects.roots, change)
                .and_then(|places| places.iter().try_for_each(|place| self.check_place(place)));
            match checked {
                Ok(()) | Err(SettingsError::NoSuchTarget { .. }) => {}
                refused => return refused,
            }
        }
        Ok(())
    }

    fn check_place(&self, place: &SettingFile) -> Result<(), SettingsError> {
        match place.setting {
            Setting::Cgroup => cgroup::check(&self.effects, place)?,
            _ => self.effects.check_writable(place)?,
        }
        // Without a place for old values, nothing may be changed.
        place.key.as_ref().map_or(Ok(()), |key| self.effects.lock_patiently(key).map(drop))
    }

    /// Applies `changes` until [`Settings::restore`] or a reboot.
    pub fn keep(&self, changes: &[SettingChange]) -> Result<Vec<Applied>, SettingsError> {
        self.apply(changes)?.keep()
    }

    /// Restores settings left changed by processes that have ended, except those to keep.
    pub fn recover(&self) -> Vec<Restored> {
        // A running process restores its own.
        self.restore_kinds(&[SlotKind::Transient], |key| match self.effects.lock(key) {
            Err(SettingsError::InUse { .. }) => None,
            other => Some(other),
        })
    }

    /// Restores settings left changed by processes that have ended, and those to keep. Settings still in use count as
    /// failures.
    pub fn restore(&self) -> Vec<Restored> {
        let all = [SlotKind::Transient, SlotKind::Kept];
        self.restore_kinds(&all, |key| Some(self.effects.lock_patiently(key)))
    }

    /// The settings currently changed: by running processes, by killed processes, and those to keep.
    pub fn left(&self) -> Result<Vec<Left>, SettingsError> {
        let mut all = Vec::new();
        for key in self.effects.keys()? {
            let held = self.effects.lock(&key);
            for kind in [SlotKind::Transient, SlotKind::Kept] {
                let Some(journal) = self.effects.load(&key, kind)? else { continue };
                let is_in_use = held.is_err() && kind == SlotKind::Transient;
                all.extend(journal.settings().map(|entry| Left {
                    what: entry.changed(),
                    old: entry.old.clone(),
                    now: self.effects.read(entry).ok(),
                    pid: journal.pid,
                    is_kept: kind == SlotKind::Kept,
                    is_in_use,
                }));
            }
        }
        Ok(all)
    }

    /// `lock` returns `None` for a key to be skipped.
    fn restore_kinds(
        &self,
        kinds: &[SlotKind],
        lock: impl Fn(&str) -> Option<Result<JournalSlot, SettingsError>>,
    ) -> Vec<Restored> {
        let failed = |what: String, error: &SettingsError| vec![Restored::failed(what, error)];
        let keys = match self.effects.keys() {
            Ok(keys) => keys,
            Err(error) => return failed("settings".into(), &error),
        };
        let mut all = Vec::new();
        for key in keys {
            let fail = |error: SettingsError| failed(format!("settings of {key}"), &error);
            let Some(slot) = lock(&key) else { continue };
            all.extend(match slot {
                Ok(slot) => kinds.iter().flat_map(|kind| self.restore_slot(&slot, *kind)).collect(),
                Err(error) => fail(error),
            });
        }
        if let Err(error) = self.effects.remove_locks() {
            all.extend(failed("lock files of settings".into(), &error));
        }
        all
    }

    fn restore_slot(&self, slot: &JournalSlot, kind: SlotKind) -> Vec<Restored> {
        let effects = &self.effects;
        let journal = effects.load(&slot.key, kind).and_then(|journal| {
            // Without /sys, no setting can be told from one that is gone.
            journal.iter().try_for_each(|_| effects.roots.verify())?;
            Ok(journal)
        });
        match journal {
            Ok(Some(journal)) => effects.restore(slot, kind, journal),
            Ok(None) => Vec::new(),
            Err(error) => vec![Restored::failed(format!("settings of {}", slot.key), &error)],
        }
    }
}

/// Directory of the journal, and of what else running processes tell each other; empty if there is none. Root trusts only
/// its own.
pub(crate) fn state_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/run/fathom".into();
    }
    let dir = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = || Some(dir("HOME")?.join(".local/state"));
    let dir = dir("XDG_RUNTIME_DIR").or_else(|| dir("XDG_STATE_HOME")).or_else(state);
    dir.map(|dir| dir.join("fathom/settings")).unwrap_or_default()
}

pub struct Guard {
    effects: Effects,
    held: Vec<LockedJournal>,
    applied: Vec<Applied>,
}

/// A key that this process holds, and what it changed there.
struct LockedJournal {
    slot: JournalSlot,
    journal: Journal,
}

impl Guard {
    /// Locks everything that will be changed, and restores what a killed process left changed there.
    fn hold(effects: &Effects, wanted: &[SettingFile]) -> Result<Self, SettingsError> {
        let mut keys: Vec<String> = wanted.iter().filter_map(|place| place.key.clone()).collect();
        keys.sort();
        keys.dedup();
        let mut guard = Self { effects: effects.clone(), held: Vec::new(), applied: Vec::new() };
        for key in keys {
            let slot = effects.lock_patiently(&key)?;
            if let Some(journal) = effects.load(&key, SlotKind::Transient)? {
                let restored = effects.restore(&slot, SlotKind::Transient, journal);
                if let Some(failed) = restored.into_iter().find(Restored::is_failure) {
                    return Err(SettingsError::NotRestored { what: failed.to_string() });
                }
            }
            guard.held.push(LockedJournal { slot, journal: Journal::new(&effects.roots)? });
        }
        Ok(guard)
    }

    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    pub fn restore(mut self) -> Vec<Restored> {
        self.undo()
    }

    fn undo(&mut self) -> Vec<Restored> {
        let mut all = Vec::new();
        for LockedJournal { slot, journal } in std::mem::take(&mut self.held).into_iter().rev() {
            all.extend(self.effects.restore(&slot, SlotKind::Transient, journal));
        }
        all
    }

    fn keep(mut self) -> Result<Vec<Applied>, SettingsError> {
        for held in &self.held {
            let old = self.effects.load(&held.slot.key, SlotKind::Kept)?;
            let kept = old.map_or_else(|| Journal::new(&self.effects.roots), Ok)?;
            self.effects.save(&held.slot, SlotKind::Kept, &kept.merged(&held.journal))?;
            self.effects.remove(&held.slot, SlotKind::Transient)?;
        }
        self.held.clear();
        Ok(std::mem::take(&mut self.applied))
    }

    fn change(&mut self, place: &SettingFile) -> Result<(), SettingsError> {
        let index = self.held.iter().position(|held| Some(&held.slot.key) == place.key.as_ref());
        let Some(held) = index.and_then(|index| self.held.get_mut(index)) else {
            // Nothing to restore.
            self.effects.write_once(place)?;
            self.applied.push(place.applied(String::new()));
            return Ok(());
        };
        if place.setting == Setting::Cgroup {
            cgroup::enter(&self.effects, held, place)?;
            self.applied.push(place.applied(String::new()));
            return Ok(());
        }
        let old = self.effects.read_place(place)?;
        held.journal.note(JournalEntry::of(place, &old));
        for (entry, consequence) in place::consequences(&self.effects.roots, place)? {
            // Some, such as the latency of a queue without throttling, have no value.
            if let Ok(old) = self.effects.read_file(&consequence) {
                held.journal.note(JournalEntry { old, ..entry });
            }
        }
        self.effects.save(&held.slot, SlotKind::Transient, &held.journal)?;
        self.effects.write_place(place)?;
        // The kernel's own representation and side effects are not changes by another program.
        if held.journal.observe(|entry| self.effects.read(entry).ok()) {
            self.effects.save(&held.slot, SlotKind::Transient, &held.journal)?;
        }
        let found = self.effects.read_place(place)?;
        if !place.is_met_by(&found) {
            return Err(SettingsError::NotInEffect { change: place.change(), found });
        }
        self.applied.push(place.applied(old));
        Ok(())
    }

    fn verify(&self, wanted: &[SettingFile]) -> Result<(), SettingsError> {
        for (index, place) in wanted.iter().enumerate().filter(|(_, place)| place.is_readable()) {
            if wanted[index + 1..].iter().any(|later| later.file == place.file) {
                continue;
            }
            let found = self.effects.read_place(place)?;
            if !place.is_met_by(&found) {
                return Err(SettingsError::NotInEffect { change: place.change(), found });
            }
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // What cannot be restored stays in the journal, so that the next command reports it.
        let _ = self.undo();
    }
}

/// The file named in a journal: below `/sys` or `/proc` of `roots`.
pub(crate) fn below(roots: &Roots, file: &str) -> Option<PathBuf> {
    let is_plain = !Path::new(file).components().any(|part| part.as_os_str() == "..");
    let (top, rest) = file.split_once('/').filter(|_| is_plain)?;
    match top {
        "sys" => Some(roots.sys.join(rest)),
        "proc" => Some(roots.proc.join(rest)),
        _ => None,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{change}: {reason}")]
    NoSuchTarget { change: SettingChange, reason: String },
    #[error("{change}: cannot read {file}: {source}")]
    Unreadable { change: SettingChange, file: String, source: io::Error },
    #[error("{change}: cannot write {file}: {source}{hint}")]
    Refused {
        change: SettingChange,
        file: String,
        /// The remedy, after a semicolon; may be empty.
        hint: &'static str,
        source: io::Error,
    },
    #[error(
        "{change} did not take effect: the value is {found}; this kernel or driver does not allow it"
    )]
    NotInEffect { change: SettingChange, found: String },
    #[error("another fathom (PID {pid}) is changing settings of {key}; wait until it ends")]
    InUse { key: String, pid: String },
    #[error("{what}; restore it by hand, then run `fathom restore`")]
    NotRestored { what: String },
    /// There is no directory for the journal, so nothing is changed.
    #[error(
        "cannot change settings: no directory to record them in; set XDG_RUNTIME_DIR, XDG_STATE_HOME or HOME"
    )]
    NoStateDir,
    #[error("cannot change settings: {source}")]
    Unread {
        #[from]
        source: Unread,
    },
    #[error("cannot {doing} {path}, which records the settings to restore: {source}")]
    Journal { path: String, doing: &'static str, source: io::Error },
}
