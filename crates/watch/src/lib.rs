//! Samplers that observe the machine while the engine works.
//!
//! Each sampler is one type. The roots of /proc and /sys are parameters, so that tests can use synthetic trees: `proc_root`
//! and `sys_root`, which are `/proc` and `/sys`.
#![allow(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

pub mod blocks;
mod bpf;
mod calls;
pub mod counters;
pub mod cpus;
pub mod disks;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod off_cpu;
mod perf;
mod pids;
pub mod placement;
mod plain;
mod priority;
mod proc_file;
mod processes;
pub mod rings;
mod sampler;
mod scope;
mod stacks;
pub mod system;
pub mod threads;
mod watcher;

pub use calls::CallSampler;
pub use off_cpu::OffCpuSampler;
pub use perf::TraceCoverage;
pub use pids::{Pattern, Process};
pub use plain::PLAIN_SAMPLERS;
pub use processes::ProcessSampler;
pub use sampler::Sampler;
pub use scope::Scope;
use scope::own_pid;
pub use stacks::{Clock, StackSampler, StackSettings, timer_interrupt_ns};
pub use watcher::{TimedSample, Watcher};
