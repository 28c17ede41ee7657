//! From a record to what it means. Pure: no I/O, no system calls, the same on any machine.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod derive;
pub mod layers;
pub mod limit;
pub mod machine;
pub mod run;
pub mod stats;
pub mod threads;
pub mod watch;
