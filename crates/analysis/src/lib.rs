//! What a record means. Pure: no I/O, no system calls, the same result on any machine.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

#[cfg(not(feature = "schema"))]
extern crate fathom_no_schema as schemars;

pub mod account;
pub mod blocks;
pub mod calls;
pub mod ceilings;
pub mod compare;
pub mod derive;
pub mod events;
pub mod experiment;
pub mod hosts;
pub mod layers;
pub mod limit;
pub mod machine;
pub mod metrics;
pub mod predict;
pub mod processes;
pub mod ranks;
pub mod rules;
pub mod stats;
pub mod threads;
pub mod timeline;
pub mod topology;
pub mod watch;
