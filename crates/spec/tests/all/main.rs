//! What this crate promises, seen from outside.

#[cfg(test)]
mod accepted;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod common;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod round_trip;
