//! What this crate promises, seen from outside.

#[cfg(test)]
mod figures;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod readers;
#[cfg(all(test, feature = "schema"))]
mod schema;
#[cfg(test)]
mod support;
#[cfg(test)]
mod top;
