//! Records, findings and progress as people and programs read them. Returns text; prints nothing.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod calendar;
mod counters;
mod fio;
pub mod fio_json;
pub mod layers;
pub mod limit;
pub mod live;
pub mod rings;
pub mod stacks;
pub mod summary;
pub mod terse;
pub mod threads;
pub mod top;
pub mod watch;
