//! Why a target may not be used.

use fathom_model::shell;
use fathom_model::units::bytes;
use fathom_sys::roots::{Unread, verify_descriptors};
use std::io;

/// Why a target may not be used, and what to do. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("{path} does not exist; check the name, or set a size to create a file")]
    Missing { path: String },
    #[error("cannot create {path}: its directory does not exist; create that first")]
    NoDirectory { path: String },
    #[error("{path} is a directory; name a file in it, or set directory={path} and a size")]
    IsDirectory { path: String },
    #[error("{path} is neither a regular file nor a block device; name one of those")]
    NotUsable { path: String },
    #[error("{path} is empty, with no bytes to read or overwrite; {hint}")]
    Empty { path: String, hint: &'static str },
    #[error(
        "no permission to {doing} {path} ({source}); run as a user with permission, such as root"
    )]
    Permission { path: String, doing: &'static str, source: io::Error },
    #[error("{path} is read-only; use it for reads only")]
    ReadOnly { path: String },
    #[error("{path} is in use, and fathom never writes to a target in use, even with --erase or --overwrite: {}", users.join("; "))]
    InUse { path: String, users: Vec<String> },
    #[error(
        "{path} is locked by another program, such as another fathom writing to it or to another \
         part of the same disk; wait until that ends"
    )]
    Locked { path: String },
    #[error(
        "{path} is a block device, and writing destroys its contents; if that is intended, add \
         {flag}{}", given.as_deref().map(|g| format!(" ({g} does not name it)")).unwrap_or_default()
    )]
    NeedsErase { path: String, flag: String, given: Option<String> },
    #[error("{path} holds {}; if all of it may be destroyed, add {flag}", found.join(", "))]
    NeedsConfirmation { path: String, found: Vec<String>, flag: String },
    #[error(
        "{given} does not match {path}, which is {flag}; check that this is the intended device"
    )]
    WrongDevice { path: String, given: String, flag: String },
    #[error(
        "{path} exists and was not created by fathom, or was changed since{}; if its contents may be \
         overwritten, add {flag}",
        links_note(*links)
    )]
    NeedsOverwrite { path: String, links: u64, flag: String },
    #[error(
        "a scratch file of {} in {dir} would take more than a tenth of the free space, {}; use a size of at most {}m, or \
         another directory", bytes(*need), bytes(*free), most >> 20
    )]
    LargeScratch { dir: String, need: u64, free: u64, most: u64 },
    #[error(
        "not enough space on the file system of {path}: the run writes {}, but {} are free, and fathom \
         leaves {} free{}; use a smaller size, or another file system", bytes(*need), bytes(*free), bytes(*reserve),
        promised_note(*promised)
    )]
    NoSpace {
        path: String,
        need: u64,
        free: u64,
        /// Bytes that fathom leaves free.
        reserve: u64,
        /// Bytes that other runs of fathom are going to use.
        promised: u64,
    },
    #[error(
        "{path} is missing from /sys, so its users cannot be determined, and fathom does not write to it; use another target"
    )]
    Unknown { path: String },
    #[error(
        "cannot check what uses {path}: {source}; fathom only writes to what it knows to be unused"
    )]
    Unread { path: String, source: Unread },
    #[error("fathom needs /proc to open its targets: {source}")]
    NeedsProc { source: Unread },
    #[error(
        "{path} does not exist, and fathom creates no files under /dev; check the device's name, \
         or name a file elsewhere"
    )]
    UnderDev { path: String },
    #[error(
        "{path} is a dangling symbolic link, and fathom creates no file through a link; name the file itself"
    )]
    DanglingLink { path: String },
    #[error(
        "{path} resolves to {resolved}, outside the job's directory {directory}; name that path itself"
    )]
    Outside { path: String, resolved: String, directory: String },
    #[error("{path} was replaced while it was being opened; try again")]
    Changed { path: String },
    /// Another file took the name while this one was being laid out.
    #[error(
        "{path} was created by another program while fathom laid out a file of that name; fathom left it unchanged: remove \
         it, or name another file"
    )]
    Appeared { path: String },
    #[error(
        "{path} exists, and {engine} works only on what it creates itself; remove it, or use other names{}",
        if *unlink { " (with unlink=1, a run removes what it created)" } else { "" }
    )]
    Exists { path: String, engine: &'static str, unlink: bool },
    #[error("{path} is used by two jobs, and {engine} needs names of its own; use other names")]
    SharedName { path: String, engine: &'static str },
    /// A name does not exist, and may not be created.
    #[error(
        "{path} does not exist, and allow_file_create=0 or --readonly prevents its creation; create it, or remove that key"
    )]
    NotCreated { path: String },
    #[error("{path} is not a directory; name one, or use ioengine=filestat")]
    NotDirectory { path: String },
    #[error("interrupted while {path} was being prepared; nothing was changed")]
    Interrupted { path: String },
    #[error(
        "{path} is named like a scratch file, but lacks fathom's mark: the file system cannot store it, or it was \
         removed; if nobody needs the file, remove it yourself: rm -- {}",
        shell::quoted(path)
    )]
    Unmarked { path: String },
    #[error(
        "{path} was created by a run that was killed, but may have been changed since; if nobody needs it, \
         remove it yourself: rm -- {}",
        shell::quoted(path)
    )]
    Unfinished { path: String },
    #[error("cannot {doing} {path}: {source}")]
    Io { path: String, doing: &'static str, source: io::Error },
}

impl GuardError {
    /// Verifies what all targets need: that their descriptors can be reopened.
    pub(crate) fn needs_proc() -> Result<(), Self> {
        verify_descriptors().map_err(|source| Self::NeedsProc { source })
    }

    pub(crate) fn io(path: &str, doing: &'static str, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_string(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { path, doing, source },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Io { path, doing, source },
        }
    }
}

fn promised_note(promised: u64) -> String {
    match promised {
        0 => String::new(),
        _ => format!(", and other runs of fathom are going to use {}", bytes(promised)),
    }
}

fn links_note(links: u64) -> String {
    match links {
        0 | 1 => String::new(),
        _ => {
            format!(" (it has {links} hard links, so another program may use its contents)")
        }
    }
}
