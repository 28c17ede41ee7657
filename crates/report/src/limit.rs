//! The progress line of `fathom limit`.

mod progress;

pub use progress::{line, phase};
