//! The fathom program.
fn main() {}
