//! Reads and writes of the kernel's files.

use super::SettingsError;
use super::journal::JournalEntry;
use super::place::{self, SettingFile};
use super::process::{KeyedLine, ProcessAffinity};
use super::{StepHook, below};
use fathom_model::setting::Setting;
use fathom_sys::roots::{self, Roots};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Directories of setting files. A journal must not name others.
const PLACES: [&str; 6] =
    ["sys/block/", "sys/devices/", "sys/kernel/mm/", "sys/fs/cgroup/", "proc/irq/", "proc/sys/vm/"];

#[derive(Clone)]
pub(super) struct Effects {
    pub roots: Roots,
    pub state: PathBuf,
    pub on_step: Option<StepHook>,
}

/// Whether this user may write `path`, as far as permissions and mounts decide.
pub(super) fn may_write(path: &Path) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

impl Effects {
    pub fn step(&self) {
        if let Some(hook) = &self.on_step {
            hook();
        }
    }

    pub fn read(&self, entry: &JournalEntry) -> io::Result<String> {
        Ok(place::value(entry.setting, &self.read_file(&entry.file)?))
    }

    /// The contents of a file, without white space around them. The error is `NotFound` only if the file is known not to
    /// exist.
    pub fn read_file(&self, file: &str) -> io::Result<String> {
        if let Some(process) = ProcessAffinity::parse(file) {
            return process.read(&self.roots);
        }
        if let Some(line) = KeyedLine::parse(file) {
            return Ok(line.value(&self.read_file(line.file)?));
        }
        let bytes = roots::bytes(&self.resolve(file)?).map_err(io::Error::other)?;
        let bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        Ok(String::from_utf8(bytes).map_err(io::Error::other)?.trim().to_string())
    }

    pub fn write(&self, file: &str, value: &str) -> io::Result<()> {
        if let Some(process) = ProcessAffinity::parse(file) {
            self.step();
            process.write(&self.roots, value)?;
            self.step();
            return Ok(());
        }
        if let Some(line) = KeyedLine::parse(file) {
            return self.write(line.file, &line.line(value));
        }
        let path = self.resolve(file)?;
        match roots::exists(&path).map_err(io::Error::other)? {
            true => self.write_path(&path, value),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub fn write_path(&self, path: &Path, value: &str) -> io::Result<()> {
        self.step();
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        // The kernel takes a value in one write.
        file.write_all(value.as_bytes())?;
        self.step();
        Ok(())
    }

    pub fn read_place(&self, place: &SettingFile) -> Result<String, SettingsError> {
        let text = self.read_file(&place.file).map_err(|source| SettingsError::Unreadable {
            change: place.change(),
            file: format!("/{}", place.file),
            source,
        })?;
        Ok(place::value(Some(place.setting), &text))
    }

    pub fn write_place(&self, place: &SettingFile) -> Result<(), SettingsError> {
        self.write(&place.file, &place.value).map_err(|error| place.refused(error))
    }

    pub fn check_writable(&self, place: &SettingFile) -> Result<(), SettingsError> {
        if place.setting == Setting::CpuAffinity {
            // The kernel refuses only the change itself.
            return Ok(());
        }
        let file = KeyedLine::parse(&place.file).map_or(place.file.as_str(), |line| line.file);
        let writable = self.resolve(file).and_then(|path| may_write(&path));
        writable.map_err(|error| place.refused(error))
    }

    pub fn write_once(&self, place: &SettingFile) -> Result<(), SettingsError> {
        if place.setting == Setting::DropCaches {
            // Dirty pages cannot be dropped.
            rustix::fs::sync();
        }
        self.write_place(place)
    }

    fn resolve(&self, file: &str) -> io::Result<PathBuf> {
        let is_setting = PLACES.iter().any(|place| file.starts_with(place));
        below(&self.roots, file)
            .filter(|_| is_setting)
            .ok_or_else(|| io::Error::other(format!("{file} is not a kernel file")))
    }
}
