//! What this crate promises, seen from outside.

#[cfg(test)]
mod figures;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod support;
#[cfg(test)]
mod top;
