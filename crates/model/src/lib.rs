//! Plain data that two or more of fathom's crates share.
//!
//! Nothing here performs I/O or decides anything: a [`plan::Plan`] says what is to be done,
//! [`facts::Facts`] what the machine is, [`progress::Progress`] how a run stands,
//! [`record::RunRecord`] what came of it, and [`finding::Finding`] what it means.
#![forbid(unsafe_code)]

pub mod advice;
pub mod escape;
pub mod facts;
pub mod finding;
pub mod histogram;
pub mod per_dir;
pub mod plan;
pub mod progress;
pub mod record;
pub mod shell;
pub mod units;
pub mod watch;

pub use facts::Facts;
pub use finding::Finding;
pub use histogram::Histogram;
pub use per_dir::{Dir, PerDir};
pub use plan::{JobPlan, Plan};
pub use progress::Progress;
pub use record::RunRecord;
