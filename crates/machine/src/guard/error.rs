//! Why a target may not be used.

use fathom_model::shell;
use fathom_model::units::bytes;
use std::io;

/// Why a target may not be used, in words that say what to do. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// Nothing is there, and no size was given to make it.
    #[error("{path} does not exist: check the name, or give a size so that a file is made")]
    Missing {
        /// The path as asked.
        path: String,
    },
    /// The directory of a file that would be made is missing.
    #[error("{path} cannot be made, because its directory does not exist: make that first")]
    NoDirectory {
        /// The path as asked.
        path: String,
    },
    /// A directory.
    #[error("{path} is a directory: name a file in it, or use directory={path} with a size")]
    IsDirectory {
        /// The path as asked.
        path: String,
    },
    /// Neither a file nor a block device.
    #[error("{path} is neither a regular file nor a block device: name one of these")]
    NotUsable {
        /// The path as asked.
        path: String,
    },
    /// Nothing in it.
    #[error("{path} is empty: nothing can be read from or written to within 0 bytes; {hint}")]
    Empty {
        /// The path as asked.
        path: String,
        /// What to do.
        hint: &'static str,
    },
    /// The kernel does not let this user.
    #[error("no permission to {doing} {path} ({source}): run as a user who may, such as root")]
    Permission {
        /// The path as asked.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refuses all writes.
    #[error("{path} is read-only: it can be read but not written")]
    ReadOnly {
        /// The path as asked.
        path: String,
    },
    /// Mounted, swapped to, or with something stacked on it.
    #[error("{path} is in use and is not written, regardless of --erase and --overwrite: {}", users.join("; "))]
    InUse {
        /// The path as asked.
        path: String,
        /// Who uses it, each in words.
        users: Vec<String>,
    },
    /// Another program has locked it.
    #[error(
        "{path} is locked by another program, such as a second fathom that writes to it or to \
         another part of the same disk: wait until that has ended"
    )]
    Locked {
        /// The path as asked.
        path: String,
    },
    /// A device that the user has not given up.
    #[error(
        "{path} is a block device, and writing would destroy what is on it: if that is meant, add \
         {flag}{}", given.as_deref().map(|g| format!(" ({g} does not name it)")).unwrap_or_default()
    )]
    NeedsErase {
        /// The path as asked.
        path: String,
        /// The flag that would permit it.
        flag: String,
        /// What was given and comes near.
        given: Option<String>,
    },
    /// A device with something on it, so that its name alone does not do.
    #[error("{path} holds {}: if all of it may be destroyed, add {flag}", found.join(", "))]
    NeedsConfirmation {
        /// The path as asked.
        path: String,
        /// What was found on it.
        found: Vec<String>,
        /// The flag that would permit it, to be used as it is.
        flag: String,
    },
    /// `--erase` with the serial number or size of something else.
    #[error("{given} is not {path}, which is {flag}: check that it is the device that you mean")]
    WrongDevice {
        /// The path as asked.
        path: String,
        /// The flag that was given.
        given: String,
        /// The flag that would name it.
        flag: String,
    },
    /// A file that fathom did not make.
    #[error(
        "{path} exists and was not made by fathom, or was changed since{}: if its contents may be \
         overwritten, add {flag}",
        links_note(*links)
    )]
    NeedsOverwrite {
        /// The path as asked.
        path: String,
        /// Names that the file has.
        links: u64,
        /// The flag that would permit it.
        flag: String,
    },
    /// Too little room.
    #[error(
        "not enough room on the file system of {path}: {} would be written, {} are free, of which \
         {} stay in reserve; use less, or another place", bytes(*need), bytes(*free), bytes(*reserve)
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
    },
    /// Who uses it cannot be found out.
    #[error(
        "{path} is not written, because /sys does not show it, so that who uses it cannot be known"
    )]
    Unknown {
        /// The path as asked.
        path: String,
    },
    /// A file would appear, or grow, among the devices.
    #[error(
        "{path} would have to be made, and nothing is ever made under /dev: check the device's name, \
         or name a file elsewhere"
    )]
    UnderDev {
        /// The path as asked.
        path: String,
    },
    /// A symbolic link that leads nowhere.
    #[error(
        "{path} is a symbolic link that leads nowhere, and no file is made through one: name the file itself"
    )]
    DanglingLink {
        /// The path as asked.
        path: String,
    },
    /// Outside of the job's directory.
    #[error(
        "{path} leads to {resolved}, which is outside of the job's directory {directory}: name that place itself"
    )]
    Outside {
        /// The path as asked.
        path: String,
        /// Where it leads.
        resolved: String,
        /// The directory that the job named.
        directory: String,
    },
    /// It became something else while fathom looked at it.
    #[error("{path} changed while it was being opened: it is not what it was a moment ago")]
    Changed {
        /// The path as asked.
        path: String,
    },
    /// Another file took the name while this one was being laid out.
    #[error(
        "{path} appeared while the file of that name was being laid out: it is left alone; remove \
         it, or name another file"
    )]
    Appeared {
        /// The path as asked.
        path: String,
    },
    /// Interrupted from outside.
    #[error("interrupted while {path} was being prepared; nothing was changed")]
    Interrupted {
        /// The path as asked.
        path: String,
    },
    /// A leftover that only its name says to be fathom's.
    #[error(
        "{path} has fathom's name for a scratch file but not fathom's mark, which this file system cannot \
         keep or which someone removed: if nobody needs it, remove it yourself: rm -- {}",
        shell::quoted(path)
    )]
    Unmarked {
        /// Where it is.
        path: String,
    },
    /// Something else went wrong.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The path as asked.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl GuardError {
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

fn links_note(links: u64) -> String {
    match links {
        0 | 1 => String::new(),
        _ => {
            format!(" (it has {links} names, so its contents may be someone else's too)")
        }
    }
}
