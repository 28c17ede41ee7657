//! What the tests of other crates share with builders' tools.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod steps;
