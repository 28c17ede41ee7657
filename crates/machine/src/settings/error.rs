//! Why a setting was not changed.

use fathom_model::setting::SettingChange;
use fathom_sys::roots::Unread;
use std::io;

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
        hint: String,
        source: io::Error,
    },
    #[error(
        "{change} did not take effect: the value is {found}; this kernel or driver does not allow it"
    )]
    NotInEffect {
        change: SettingChange,
        /// The value in effect instead.
        found: String,
    },
    #[error("another fathom (PID {pid}) is changing settings of {key}; wait until it ends")]
    InUse { key: String, pid: String },
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
    #[error("cannot change settings: {source}")]
    Unread {
        #[from]
        source: Unread,
    },
    #[error("cannot {doing} {path}, which records the settings to restore: {source}")]
    Journal { path: String, doing: &'static str, source: io::Error },
}
