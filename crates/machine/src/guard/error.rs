//! Why a target may not be used.

use fathom_model::shell;
use fathom_model::units::bytes;
use fathom_sys::roots::{Unread, verify_descriptors};
use std::io;

/// Why a target may not be used, and what to do. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The target does not exist, and no size was given to create it.
    #[error("{path} does not exist; check the name, or set a size to create a file")]
    Missing {
        /// The path as given.
        path: String,
    },
    /// The directory of a file to be created is missing.
    #[error("cannot create {path}: its directory does not exist; create that first")]
    NoDirectory {
        /// The path as given.
        path: String,
    },
    #[error("{path} is a directory; name a file in it, or set directory={path} and a size")]
    IsDirectory {
        /// The path as given.
        path: String,
    },
    /// Neither a file nor a block device.
    #[error("{path} is neither a regular file nor a block device; name one of those")]
    NotUsable {
        /// The path as given.
        path: String,
    },
    /// It has no bytes.
    #[error("{path} is empty, with no bytes to read or overwrite; {hint}")]
    Empty {
        /// The path as given.
        path: String,
        /// What to do.
        hint: &'static str,
    },
    /// This user has no permission.
    #[error(
        "no permission to {doing} {path} ({source}); run as a user with permission, such as root"
    )]
    Permission {
        /// The path as given.
        path: String,
        /// The attempted operation.
        doing: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
    /// The target is read-only.
    #[error("{path} is read-only; use it for reads only")]
    ReadOnly {
        /// The path as given.
        path: String,
    },
    /// Mounted, swapped to, or with something stacked on it.
    #[error("{path} is in use, and fathom never writes to a target in use, even with --erase or --overwrite: {}", users.join("; "))]
    InUse {
        /// The path as given.
        path: String,
        /// Descriptions of its users.
        users: Vec<String>,
    },
    /// Another program has locked it.
    #[error(
        "{path} is locked by another program, such as another fathom writing to it or to another \
         part of the same disk; wait until that ends"
    )]
    Locked {
        /// The path as given.
        path: String,
    },
    /// A device that the user has not allowed to be erased.
    #[error(
        "{path} is a block device, and writing destroys its contents; if that is intended, add \
         {flag}{}", given.as_deref().map(|g| format!(" ({g} does not name it)")).unwrap_or_default()
    )]
    NeedsErase {
        /// The path as given.
        path: String,
        /// The flag that would permit it.
        flag: String,
        /// A similar flag that was given.
        given: Option<String>,
    },
    /// A device with contents: its name alone is not enough.
    #[error("{path} holds {}; if all of it may be destroyed, add {flag}", found.join(", "))]
    NeedsConfirmation {
        /// The path as given.
        path: String,
        /// What was found on it.
        found: Vec<String>,
        /// The complete flag that would permit it.
        flag: String,
    },
    /// `--erase` with the serial number or size of something else.
    #[error(
        "{given} does not match {path}, which is {flag}; check that this is the intended device"
    )]
    WrongDevice {
        /// The path as given.
        path: String,
        /// The flag that was given.
        given: String,
        /// The flag that would name it.
        flag: String,
    },
    /// A file that fathom did not create.
    #[error(
        "{path} exists and was not created by fathom, or was changed since{}; if its contents may be \
         overwritten, add {flag}",
        links_note(*links)
    )]
    NeedsOverwrite {
        /// The path as given.
        path: String,
        /// Hard links to the file.
        links: u64,
        /// The flag that would permit it.
        flag: String,
    },
    /// Not enough free space.
    #[error(
        "not enough space on the file system of {path}: the run writes {}, but {} are free, of which \
         {} are reserved{}; use a smaller size, or another file system", bytes(*need), bytes(*free), bytes(*reserve),
        promised_note(*promised)
    )]
    NoSpace {
        /// A path on that file system.
        path: String,
        /// Bytes that all targets there need.
        need: u64,
        /// Bytes free for unprivileged users.
        free: u64,
        /// Bytes that fathom leaves free.
        reserve: u64,
        /// Bytes that other runs of fathom are going to use.
        promised: u64,
    },
    /// Its users cannot be determined.
    #[error(
        "{path} is missing from /sys, so its users cannot be determined, and fathom does not write to it; use another target"
    )]
    Unknown {
        /// The path as given.
        path: String,
    },
    /// What uses it is unknown, because the kernel's list cannot be read.
    #[error(
        "cannot check what uses {path}: {source}; fathom only writes to what it knows to be unused"
    )]
    Unread {
        /// The path as given.
        path: String,
        /// What cannot be read.
        source: Unread,
    },
    /// Descriptors cannot be reopened.
    #[error("fathom needs /proc to open its targets: {source}")]
    NeedsProc {
        /// What is wrong with it.
        source: Unread,
    },
    /// A file would be created or extended under /dev.
    #[error(
        "{path} does not exist, and fathom creates no files under /dev; check the device's name, \
         or name a file elsewhere"
    )]
    UnderDev {
        /// The path as given.
        path: String,
    },
    /// A dangling symbolic link.
    #[error(
        "{path} is a dangling symbolic link, and fathom creates no file through a link; name the file itself"
    )]
    DanglingLink {
        /// The path as given.
        path: String,
    },
    /// Outside the job's directory.
    #[error(
        "{path} resolves to {resolved}, outside the job's directory {directory}; name that path itself"
    )]
    Outside {
        /// The path as given.
        path: String,
        /// The path it resolves to.
        resolved: String,
        /// The directory that the job named.
        directory: String,
    },
    /// It was replaced while fathom checked it.
    #[error("{path} was replaced while it was being opened; try again")]
    Changed {
        /// The path as given.
        path: String,
    },
    /// Another file took the name while this one was being laid out.
    #[error(
        "{path} was created by another program while fathom laid out a file of that name; fathom left it unchanged: remove \
         it, or name another file"
    )]
    Appeared {
        /// The path as given.
        path: String,
    },
    /// A name that a job is to create, or lay out and remove, exists.
    #[error(
        "{path} exists, and {engine} works only on what it creates itself; remove it, or use other names{}",
        if *unlink { " (with unlink=1, a run removes what it created)" } else { "" }
    )]
    Exists {
        /// The path as given.
        path: String,
        /// The engine's name.
        engine: &'static str,
        /// Whether `unlink` prevents this.
        unlink: bool,
    },
    /// A name that a job creates or removes is used by another one as well.
    #[error("{path} is used by two jobs, and {engine} needs names of its own; use other names")]
    SharedName {
        /// The path as given.
        path: String,
        /// The engine's name.
        engine: &'static str,
    },
    /// A name does not exist, and may not be created.
    #[error(
        "{path} does not exist, and allow_file_create=0 or --readonly prevents its creation; create it, or remove that key"
    )]
    NotCreated {
        /// The path as given.
        path: String,
    },
    /// Something that should be a directory.
    #[error("{path} is not a directory; name one, or use ioengine=filestat")]
    NotDirectory {
        /// The path as given.
        path: String,
    },
    /// Interrupted from outside.
    #[error("interrupted while {path} was being prepared; nothing was changed")]
    Interrupted {
        /// The path as given.
        path: String,
    },
    /// A leftover that has the name of a scratch file, but no mark.
    #[error(
        "{path} is named like a scratch file, but lacks fathom's mark: the file system cannot store it, or it was \
         removed; if nobody needs the file, remove it yourself: rm -- {}",
        shell::quoted(path)
    )]
    Unmarked { path: String },
    /// A target left by a killed run, which `fathom clean` does not remove.
    #[error(
        "{path} was created by a run that was killed, but may have been changed since; if nobody needs it, \
         remove it yourself: rm -- {}",
        shell::quoted(path)
    )]
    Unfinished { path: String },
    /// Something else went wrong.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The path as given.
        path: String,
        /// The attempted operation.
        doing: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

impl GuardError {
    /// Verifies what all targets need: that their descriptors can be reopened.
    pub(crate) fn needs_proc() -> Result<(), Self> {
        verify_descriptors().map_err(|source| Self::NeedsProc { source })
    }

    /// The error for a failed system call.
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
