//! Facts about the machine, and protection of the user's data.
//!
//! [`host()`] and [`Lookup`] only read facts. [`guard::open_all`] is the only way to get a writable
//! descriptor: it verifies, on the descriptor itself, that the target may be written. The rules are
//! in `docs/safety.md`.
//!
//! `/proc` and `/sys` are read below [`Roots`], so that tests can use synthetic trees.
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

pub mod guard;
mod holders;
mod host;
pub mod inspect;
#[allow(unsafe_code)]
mod ioctl;
pub mod leftover;
mod mark;
pub mod scratch;
pub mod settings;
pub mod signature;
mod stack;
mod target;
pub mod topology;

pub use fathom_sys::{Roots, Unread, device};
pub use host::{boot_id, host};
pub use target::Lookup;
