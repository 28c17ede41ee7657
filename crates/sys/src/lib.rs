//! Readers of /proc and /sys that more than one crate needs: block devices and what they are stacked on, mounts, cgroup
//! hierarchies, interrupts.
//!
//! All are read below [`Roots`], so that tests can use synthetic trees. Readers for decisions return a `Result`, as what
//! cannot be read is not absent; those for facts leave it out.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

pub mod cgroup;
pub mod device;
pub mod interrupts;
pub mod mounts;
pub mod roots;

pub use device::{Node, Number};
pub use mounts::Mount;
pub use roots::{Roots, Unread};
