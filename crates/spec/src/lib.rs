//! fio's job files and command lines, read into a [`Spec`]; and a [`Spec`] and the
//! [`Facts`](fathom_model::Facts) about a machine, resolved into a [`Plan`](fathom_model::Plan).
//!
//! Nothing here touches the system: files and environment come through [`Sources`].
//!
//! Every key is one entry of one table ([`keys`]), from which the parser, the help, the
//! documentation and the suggestions for misspelt keys derive.
#![forbid(unsafe_code)]

mod args;
mod error;
mod expand;
mod help;
mod ini;
mod job;
mod keys;
mod names;
mod output;
mod plan;
mod show;
mod sources;
mod spec;
mod suggest;
mod value;

pub use error::{Place, SpecError};
pub use help::{compat_table, key_help, run_help};
pub use job::{
    EngineName, EngineSpec, Files, Given, JobSpec, PlacementSpec, RateSpec, Rw, RwKind, Schedule,
    Size, Work,
};
pub use keys::{Action, Group, Key, Takes, find as find_key, keys};
pub use names::TargetQuery;
pub use output::{Eta, Format, Help, Output, Permissions, RunOption, run_options};
pub use plan::plan;
pub use sources::{INCLUDE_DEPTH_MAX, JOB_FILE_BYTES_MAX, MachineNumbers, Sources};
pub use spec::{JOBS_MAX, Spec, parse};
