//! The engine against the real kernel. `allocations` counts those of its own process.

#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod data;
#[cfg(test)]
mod names;
#[cfg(test)]
mod other_engines;
