//! Samplers that look at the machine while the engine works.
//!
//! Each sampler is one file and one type. A sampler that reads /proc takes its root as a
//! parameter, so that tests hand it a made-up tree.

pub mod blocks;
mod bpf;
pub mod counters;
pub mod cpus;
pub mod disks;
mod kept;
mod pattern;
mod perf;
pub mod placement;
mod priority;
pub mod rings;
mod sampler;
mod scope;
mod stacks;
pub mod system;
pub mod threads;
mod watcher;

pub use pattern::Pattern;
pub use perf::EachIo;
pub use sampler::Sampler;
pub use scope::Scope;
use scope::own_pid;
pub use stacks::{Clock, StackSampler, StackSettings};
pub use watcher::{Watched, Watcher};
