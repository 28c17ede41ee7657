//! What the machine is, and what protects the user's data.
//!
//! [`host()`] and [`Lookup`] read facts and change nothing. [`guard::open_all`] is the only way
//! by which fathom comes to a descriptor that it may write to: it proves, on the descriptor that is
//! then used, that this may be done. `docs/safety.md` says the same rules to users.
//!
//! All that is read from `/proc` and `/sys` is read below [`Roots`], so that tests can hand in
//! made-up trees.
#![deny(unsafe_code)]

mod cgroup;
pub mod device;
pub mod guard;
mod host;
#[allow(unsafe_code)]
mod ioctl;
pub mod leftover;
mod mark;
mod mounts;
mod roots;
pub mod scratch;
pub mod signature;
mod stack;
mod target;

pub use host::host;
pub use roots::Roots;
pub use target::Lookup;
