//! What only builders run.
fn main() {}
