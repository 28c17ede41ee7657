//! The only place where I/O is issued: workers, each with a thread and a queue of its own.
//!
//! [`start`] takes a [`fathom_model::Plan`] and open files and returns a [`Running`] that can be
//! looked at, stopped and joined. Everything before a worker's first I/O may fail with a message;
//! between its first and its last I/O a worker allocates nothing, locks nothing and prints nothing.

mod buffers;
pub mod clock;
pub mod closed;
mod depth;
mod files;
mod job;
mod layout;
mod libaio;
mod null;
mod overdue;
mod pace;
mod placement;
mod psync;
mod queue;
mod refusal;
mod rouse;
mod run;
#[cfg(test)]
mod sim;
mod source;
mod stats;
mod token;
mod uring;
mod usage;
mod wake;
mod worker;

pub use files::{FileKind, OpenFile};
pub use layout::fill;
pub use run::{Running, StartError, start};
