//! Why a setting was not changed.

use fathom_model::setting::SettingChange;
use fathom_sys::roots::Unread;
use std::io;

/// Why a setting was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The target has no disk, interrupt or CPU with this setting.
    #[error("{change}: {reason}")]
    NoSuchTarget {
        /// What was requested.
        change: SettingChange,
        /// The missing file or device.
        reason: String,
    },
    /// The setting cannot be read.
    #[error("{change}: cannot read {file}: {source}")]
    Unreadable {
        /// What was requested.
        change: SettingChange,
        /// The kernel's file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel refused the value.
    #[error("{change}: cannot write {file}: {source}{hint}")]
    Refused {
        /// What was requested.
        change: SettingChange,
        /// The kernel's file.
        file: String,
        /// The remedy, after a semicolon; may be empty.
        hint: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel accepted the value without using it.
    #[error(
        "{change} did not take effect: the value is {found}; this kernel or driver does not allow it"
    )]
    NotInEffect {
        /// What was requested.
        change: SettingChange,
        /// The value in effect instead.
        found: String,
    },
    /// Another process has settings of the same disk changed.
    #[error("another fathom (PID {pid}) is changing settings of {key}; wait until it ends")]
    InUse {
        /// The disk, or what else the settings belong to.
        key: String,
        /// The process, as far as it is known.
        pid: String,
    },
    /// What this process changed, or a killed process left, cannot be restored.
    #[error("{what}; restore it by hand, then run `fathom restore`")]
    NotRestored {
        /// The setting, and why.
        what: String,
    },
    /// There is no directory for the journal, so nothing is changed.
    #[error(
        "cannot change settings: no directory to record them in; set XDG_RUNTIME_DIR, XDG_STATE_HOME or HOME"
    )]
    NoStateDir,
    /// The kernel's settings are out of reach.
    #[error("cannot change settings: {source}")]
    Unread {
        /// What cannot be read.
        #[from]
        source: Unread,
    },
    /// The journal cannot be kept, so nothing is changed.
    #[error("cannot {doing} {path}, which records the settings to restore: {source}")]
    Journal {
        /// The file or directory.
        path: String,
        /// What failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
