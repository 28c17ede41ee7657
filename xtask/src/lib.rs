//! Functions shared by the developer tools and the tests of other crates.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod steps;
