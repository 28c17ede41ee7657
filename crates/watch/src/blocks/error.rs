//! Why block layer events cannot be traced.

use fathom_model::watch::Missing;
use std::io;
use std::path::PathBuf;

/// Why no device can be traced.
#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    /// No such device.
    #[error("unknown block device {name}; known devices: {known}")]
    NoDevice {
        /// Name as given.
        name: String,
        /// All known devices.
        known: String,
    },
    /// The path is not a block device.
    #[error("{path}: {why}; give a device such as nvme0n1 or /dev/nvme0n1")]
    NotADevice {
        /// Path as given.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The devices cannot be listed.
    #[error("{path}: {source}")]
    Unreadable {
        /// The unreadable path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Block layer events are not available.
    #[error("{0}")]
    Missing(Missing),
}
