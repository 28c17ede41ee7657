//! Plain data shared by two or more of fathom's crates.
//!
//! Nothing here performs I/O or decides anything: a [`plan::Plan`] states what to do,
//! [`facts::Facts`] describe the machine, [`progress::Progress`] is the current state of a run,
//! [`record::RunRecord`] its result, and [`finding::Finding`]s interpret it.
#![forbid(unsafe_code)]
// Schemas quote them.
#![deny(missing_docs)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

#[cfg(not(feature = "schema"))]
extern crate fathom_no_schema as schemars;

pub mod advice;
pub mod cpus;
pub mod escape;
pub mod experiment;
pub mod facts;
pub mod finding;
pub mod histogram;
pub mod inspection;
pub mod io_entry;
pub mod limit;
pub mod list;
pub mod named;
pub mod outcome;
pub mod per_dir;
pub mod plan;
pub mod prediction;
pub mod progress;
pub mod record;
pub mod setting;
pub mod shell;
pub mod split_mix;
pub mod topology;
pub mod units;
pub mod watch;
pub mod window;
pub mod write_pattern;

pub use facts::Facts;
pub use finding::{Evidence, Finding};
pub use histogram::Histogram;
pub use outcome::Outcome;
pub use per_dir::{Dir, PerDir};
pub use plan::{JobPlan, Plan};
pub use progress::Progress;
pub use record::{Record, RunRecord};
