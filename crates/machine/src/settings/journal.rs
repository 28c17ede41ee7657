//! The settings to restore, on disk. One file for each disk, or other key, with changed settings; a lock file next
//! to it shows that its process is still running.

use super::SettingsError;
use super::effects::Effects;
use super::place::{self, SettingFile};
use crate::host::boot_id;
use fathom_model::setting::{Setting, setting_of};
use fathom_sys::roots::{self, Roots, Unread};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Links in the directory are not followed, and no other process is waited for.
const PLAIN: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// Restored as soon as its process is gone.
    Transient,
    Kept,
}

impl SlotKind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Transient => ".json",
            Self::Kept => ".kept",
        }
    }
}

/// The lock of a key; the kernel releases it when the process ends, however it ends. Its file is removed with it.
pub(super) struct JournalSlot {
    pub key: String,
    path: PathBuf,
    _lock: File,
}

/// Opens one of fathom's own files. Anything but a regular file is refused: opening a device can have side effects, and
/// that of a FIFO, or reading it, waits for another process.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let plain = |kind: std::fs::FileType| match kind.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file; remove it")),
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) => plain(found.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = options.custom_flags(PLAIN).open(path)?;
    plain(file.metadata()?.file_type())?;
    Ok(file)
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let both = file.metadata().and_then(|own| Ok((own, std::fs::symlink_metadata(path)?)));
    both.is_ok_and(|(own, there)| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

impl Drop for JournalSlot {
    fn drop(&mut self) {
        // Still locked: whoever has opened this file finds that it is gone, and opens a new one.
        // A killed process may have left a journal that it had not finished.
        let _ = std::fs::remove_file(self.path.with_extension("new"));
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The boot in which it was changed: a reboot restores everything.
    pub boot_id: String,
    pub pid: u32,
    /// Whether restoring has begun, so that values can be any of those in between.
    pub restoring: bool,
    pub entries: Vec<JournalEntry>,
    pub group: Option<RunCgroup>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalEntry {
    /// The setting; `None` for others that a change of the scheduler resets.
    pub setting: Option<Setting>,
    pub target: String,
    /// The file, such as `sys/block/sda/queue/scheduler`.
    pub file: String,
    pub old: String,
    /// Values set by this process; if none are known, any value counts as set by it.
    pub ours: Vec<String>,
    pub is_requested: bool,
    /// Whether it also changes as a side effect of another setting.
    pub is_consequence: bool,
    /// Whether the kernel's value after the change is not recorded yet, so that any value may be this process's.
    #[serde(default)]
    pub is_pending: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunCgroup {
    pub dirs: Vec<PathBuf>,
    /// Where the process was before, for each directory.
    pub back: Vec<PathBuf>,
}

impl JournalEntry {
    pub fn is_reset_by_scheduler(&self) -> bool {
        self.is_consequence && self.setting != Some(Setting::ReadAheadKb)
    }

    pub fn of(place: &SettingFile, old: &str) -> Self {
        Self {
            setting: Some(place.setting),
            target: place.target.clone(),
            file: place.file.clone(),
            old: old.to_string(),
            ours: vec![place.value.clone()],
            is_requested: true,
            is_consequence: false,
            is_pending: true,
        }
    }

    pub fn what(&self) -> String {
        match self.setting {
            Some(setting) => setting_of(setting, &self.target),
            None => format!("/{}", self.file),
        }
    }

    pub fn changed(&self) -> String {
        match self.ours.last() {
            Some(value) => format!("{}={value}", self.what()),
            None => self.what(),
        }
    }

    pub fn is_old(&self, value: &str) -> bool {
        place::same(self.setting, &self.old, value)
    }

    pub fn is_ours(&self, value: &str) -> bool {
        self.ours.is_empty() || self.is_pending || self.is_known(value)
    }

    fn is_known(&self, value: &str) -> bool {
        self.is_old(value) || self.ours.iter().any(|own| place::same(self.setting, own, value))
    }
}

impl Journal {
    pub fn new(roots: &Roots) -> Result<Self, Unread> {
        Ok(Self {
            boot_id: boot_id(roots)?,
            pid: std::process::id(),
            restoring: false,
            entries: Vec::new(),
            group: None,
        })
    }

    /// Adds an entry, or the value to the entry of the same file.
    pub fn note(&mut self, entry: JournalEntry) {
        match self.entries.iter_mut().find(|known| known.file == entry.file) {
            Some(known) => {
                known.ours.extend(entry.ours);
                known.is_requested |= entry.is_requested;
                known.is_consequence |= entry.is_consequence;
                known.is_pending |= entry.is_pending;
            }
            None => self.entries.push(entry),
        }
    }

    /// Adds the current values, which this process caused. Returns whether the journal must be saved.
    pub fn observe(&mut self, read: impl Fn(&JournalEntry) -> Option<String>) -> bool {
        let mut is_new = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.setting.is_some()) {
            let Some(value) = read(entry) else { continue };
            is_new |= std::mem::take(&mut entry.is_pending);
            if entry.ours.is_empty() || !entry.is_known(&value) {
                entry.ours.push(value);
                is_new = true;
            }
        }
        is_new
    }

    pub fn settings(&self) -> impl Iterator<Item = &JournalEntry> {
        self.entries.iter().filter(|entry| entry.is_requested)
    }

    pub fn merged(mut self, later: &Self) -> Self {
        later.entries.iter().cloned().for_each(|entry| self.note(entry));
        self.pid = later.pid;
        self
    }
}

impl Effects {
    fn path(&self, key: &str, kind: SlotKind) -> PathBuf {
        self.state.join(format!("{key}{}", kind.suffix()))
    }

    pub fn keys(&self) -> Result<Vec<String>, SettingsError> {
        self.names(&[SlotKind::Transient.suffix(), SlotKind::Kept.suffix()])
    }

    /// Removes the lock files of killed processes that have no journal. Those of running processes stay.
    pub fn remove_locks(&self) -> Result<(), SettingsError> {
        let keys = self.keys()?;
        for key in self.names(&[".lock"])?.into_iter().filter(|key| !keys.contains(key)) {
            match self.lock(&key) {
                // Removed with the slot.
                Ok(_) | Err(SettingsError::InUse { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn names(&self, suffixes: &[&str]) -> Result<Vec<String>, SettingsError> {
        if self.state.as_os_str().is_empty() {
            return Ok(Vec::new());
        }
        // There is no directory before the first change.
        let names = match roots::list(&self.state) {
            // Who may not read the directory has not changed settings through it.
            Err(unread) if unread.is(&[Errno::ACCESS]) => return Ok(Vec::new()),
            other => other?.unwrap_or_default(),
        };
        let key = |name: &String| {
            suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).map(ToString::to_string)
        };
        let mut keys: Vec<String> = names.iter().filter_map(key).collect();
        keys.dedup();
        Ok(keys)
    }

    pub fn lock(&self, key: &str) -> Result<JournalSlot, SettingsError> {
        if self.state.as_os_str().is_empty() {
            return Err(SettingsError::NoStateDir);
        }
        let fail = |doing, source| self.failed(&self.state, doing, source);
        let mut dir = std::fs::DirBuilder::new();
        dir.recursive(true).mode(0o755).create(&self.state).map_err(|e| fail("create", e))?;
        let path = self.state.join(format!("{key}.lock"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut file = open_own(&mut options, &path).map_err(|e| self.failed(&path, "open", e))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // The name is only for the message.
                let _ = file.take(16).read_to_string(&mut pid);
                return Err(SettingsError::InUse { key: key.into(), pid: pid.trim().into() });
            }
            Err(error) => return Err(self.failed(&path, "lock", error.into())),
        }
        if !is_file_at(&file, &path) {
            // Its process ended after this one had opened it.
            return Err(SettingsError::InUse { key: key.into(), pid: String::new() });
        }
        let named = file.set_len(0).and_then(|()| file.rewind());
        let named = named.and_then(|()| writeln!(file, "{}", std::process::id()));
        named.map_err(|e| self.failed(&path, "write", e))?;
        Ok(JournalSlot { key: key.to_string(), path, _lock: file })
    }

    /// As [`Effects::lock`], but waits for processes that only check whether something has to be restored.
    pub fn lock_patiently(&self, key: &str) -> Result<JournalSlot, SettingsError> {
        for _ in 0..TRIES {
            match self.lock(key) {
                Err(SettingsError::InUse { .. }) => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
        self.lock(key)
    }

    pub fn load(&self, key: &str, kind: SlotKind) -> Result<Option<Journal>, SettingsError> {
        let path = self.path(key, kind);
        let mut bytes = Vec::new();
        let opened = open_own(OpenOptions::new().read(true), &path);
        match opened.and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&path, "read", error)),
        }
        let journal: Journal = serde_json::from_slice(&bytes)
            .map_err(|error| self.failed(&path, "read", io::Error::other(error)))?;
        if journal.boot_id == boot_id(&self.roots)? {
            return Ok(Some(journal));
        }
        std::fs::remove_file(&path).map_err(|e| self.failed(&path, "remove", e))?;
        Ok(None)
    }

    pub fn save(
        &self,
        slot: &JournalSlot,
        kind: SlotKind,
        journal: &Journal,
    ) -> Result<(), SettingsError> {
        let path = self.path(&slot.key, kind);
        let new = self.state.join(format!("{}.new", slot.key));
        let fail = |doing, source| self.failed(&path, doing, source);
        let bytes = serde_json::to_vec(journal).map_err(|e| fail("write", io::Error::other(e)))?;
        self.step();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut file = open_own(&mut options, &new).map_err(|e| fail("write", e))?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(|e| fail("write", e))?;
        self.step();
        std::fs::rename(&new, &path).map_err(|e| fail("replace", e))?;
        self.sync_dir()
    }

    pub fn remove(&self, slot: &JournalSlot, kind: SlotKind) -> Result<(), SettingsError> {
        let path = self.path(&slot.key, kind);
        self.step();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed(&path, "remove", error));
            }
            _ => {}
        }
        self.sync_dir()
    }

    fn sync_dir(&self) -> Result<(), SettingsError> {
        let synced = File::open(&self.state).and_then(|dir| dir.sync_all());
        synced.map_err(|e| self.failed(&self.state, "sync", e))?;
        self.step();
        Ok(())
    }

    fn failed(&self, path: &Path, doing: &'static str, source: io::Error) -> SettingsError {
        SettingsError::Journal { path: path.display().to_string(), doing, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_is_ours_until_it_is_observed() {
        let text = r#"{"setting":null,"target":"sda","file":"f","old":"a","ours":["b"],
            "is_requested":true,"is_consequence":false}"#;
        let mut entry: JournalEntry = serde_json::from_str(text).unwrap();
        assert!(!entry.is_ours("c"), "journals of earlier versions have no pending entries");
        (entry.setting, entry.is_pending) = (Some(Setting::Nomerges), true);
        assert!(entry.is_ours("c"));
        let group = None;
        let (boot_id, entries) = (String::new(), vec![entry]);
        let mut journal = Journal { boot_id, pid: 1, restoring: false, entries, group };
        assert!(journal.observe(|_| Some("c".into())));
        assert!(!journal.observe(|_| Some("c".into())));
        let entry = &journal.entries[0];
        assert!(entry.is_ours("b") && entry.is_ours("c") && !entry.is_ours("d"));
    }
}
