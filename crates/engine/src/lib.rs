//! The only crate that issues measured I/O: workers, each with its own thread and queue.
//!
//! [`start`] takes a [`fathom_model::Plan`] and open files and returns a [`Running`], which reports
//! progress and can be stopped and joined. Everything before a worker's first I/O may fail with a message;
//! between its first and its last I/O a worker allocates nothing, locks nothing and prints nothing.
#![allow(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

mod buffers;
pub mod clock;
pub mod closed;
mod cpu;
mod depth_search;
mod entries;
mod error;
mod files;
mod hints;
mod job;
mod libaio;
mod mmap;
mod move_extents;
mod names;
mod nvme;
mod observer;
mod pace;
mod posixaio;
mod psync;
mod queue;
mod rate_floor;
mod run;
mod sg;
#[cfg(test)]
mod sim_tests;
mod source;
mod splice;
mod stall;
mod stats;
mod sync_queue;
mod thread;
mod token;
mod until_steady;
mod uring;
mod verify;
mod vsync;
mod worker;
mod zones;

pub use entries::{EntryReceiver, EntrySender, entries};
pub use error::{BlockDump, EngineError, Hint, JobResult, Operation, ScsiError};
pub use files::{FileKind, OpenFile, fill};
pub use names::{Identity, Name, WorkerNames};
pub use run::{JobInput, Running, start, start_with};
pub use verify::{JournalFile, PromisedFile, check_promises};
