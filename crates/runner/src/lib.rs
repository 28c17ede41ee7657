//! Runs a plan: opens its targets, starts workers and samplers, feeds the record and the caller's view, and stops.
//!
//! A [`Session`] holds the record and the samples of everything that measures or observes. [`Runner`] is the only run
//! loop. [`limit::Limit`] finds the limits of targets, in windows; [`cost::measure`]
//! measures the cost per I/O; [`experiment::ExperimentRunner`] compares conditions. Nothing here prints, exits or handles
//! signals: callers pass [`Hooks`] and a [`CancelToken`].
//!
//! ```
//! # fn main() -> Result<(), String> {
//! # let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
//! # let record = dir.path().join("record").display().to_string();
//! # let file = dir.path().join("file").display().to_string();
//! use fathom_machine::{Lookup, Roots, host};
//! use fathom_runner::{RecordTo, RunOptions, Runner, System};
//!
//! let options = ["--name=read", "--rw=randread", "--size=1m"].map(String::from);
//! let spec = fathom_spec::parse(&[&options[..], &[format!("--filename={file}")]].concat(), &System::default())
//!     .map_err(|e| e.to_string())?;
//! let roots = Roots::default();
//! let target = Lookup::new(&roots).target(&file).map_err(|e| e.to_string())?;
//! let facts = fathom_model::Facts { host: host(&roots), targets: vec![target], ..fathom_model::Facts::default() };
//! let plan = fathom_spec::plan(&spec, &facts).map_err(|e| e.to_string())?;
//!
//! let options = RunOptions { record: RecordTo::Required(Some(record)), ..RunOptions::default() };
//! let mut runner = Runner::open(&plan, facts, options, &mut ())?;
//! let mut record = runner.run(&plan, &mut ())?;
//! assert_eq!(record.jobs[0].dirs.read.counts.bytes, 1 << 20);
//! runner.finish(&mut record, |record| &mut record.header, &mut ())?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

mod cancel;
pub mod cost;
mod design;
mod dump;
pub mod experiment;
pub mod journal;
pub mod limit;
mod memory;
pub mod ranks;
mod ring;
mod ring_threads;
mod run;
mod sampling;
mod session;
mod shrink;
mod sources;
mod targets;
mod window;
mod wording;

pub use cancel::CancelToken;
pub use ring::RingRecorder;
pub use run::{Hooks, RunOptions, Runner};
pub use sampling::{SamplingOptions, Sources};
pub use session::{Measuring, RecordTo, Session, command, new_header, stored};
pub use sources::System;
pub use targets::OpenTargets;
