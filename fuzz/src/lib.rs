//! What must hold for any input of a parser.

pub mod files;
pub mod jobs;
