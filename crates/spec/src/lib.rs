//! Parses fio job files and command lines into a [`Spec`], and resolves a [`Spec`] with the
//! [`Facts`](fathom_model::Facts) about a machine into a [`Plan`](fathom_model::Plan).
//!
//! This crate does no I/O: files and environment are accessed through [`Sources`].
//!
//! Each key is one entry of a table ([`keys`]), from which the parser, the help, the
//! documentation and the suggestions for misspelled keys are derived.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

mod args;
mod error;
pub mod experiment;
mod help;
mod ini;
mod job;
mod keys;
mod machine;
mod names;
mod output;
mod plan;
mod sources;
mod spec;
mod suggest;
mod trace;
mod value;

pub use error::{Place, Problems, SpecError};
pub use help::{RUN_USAGE, engine_help, key_help, run_help_short, run_manual};
pub use job::{Given, Job, Nodes, PriorityShare, Size};
pub use keys::{Action, Key, KeyGroup, Takes, find as find_key, keys};
pub use machine::machine;
pub use names::TargetQuery;
pub use output::{Eta, Format, Help, Output, RunOption, Share, run_options};
pub use plan::{check, check_memory, plan};
pub use sources::{INCLUDE_DEPTH_MAX, JOB_FILE_BYTES_MAX, MachineNumbers, Sources};
pub use spec::{JOBS_MAX, Spec, parse, parse_as_fio};
pub use suggest::nearest;
pub use value::escape_path;
