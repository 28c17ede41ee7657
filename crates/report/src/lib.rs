//! Renders records, findings and progress for users and programs. Returns text; prints nothing.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

#[cfg(not(feature = "schema"))]
extern crate fathom_no_schema as schemars;

pub mod calendar;
pub mod doc;
mod figures;
mod fio;
pub mod fio_json;
pub mod fio_logs;
pub mod fio_text;
pub mod json;
pub mod junit;
pub mod live;
mod machine_file;
pub mod pages;
pub mod render;
pub mod stacks;
pub mod terse;
pub mod threads;
pub mod top;
mod topo_svg;

pub use machine_file::machine_file;
