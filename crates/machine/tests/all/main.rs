//! What this crate promises, seen from outside, on synthetic trees, files and devices that the tests create.

#[cfg(test)]
mod devices;
#[cfg(test)]
mod dirs;
#[cfg(test)]
mod facts;
#[cfg(test)]
mod files;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod making;
#[cfg(test)]
mod names;
#[cfg(test)]
mod races;
#[cfg(test)]
mod scratch;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod space;
#[cfg(test)]
mod stacks;
#[cfg(test)]
mod support;
