//! What the tests of other crates share with builders' tools.
#![forbid(unsafe_code)]

pub mod steps;
