//! The three directions of storage I/O, and one value for each of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A direction of I/O.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Dir {
    /// From the device to memory.
    Read = 0,
    /// From memory to the device.
    Write = 1,
    /// Discard: tells the device that the blocks are no longer needed.
    Trim = 2,
}

impl Dir {
    /// All directions, in the order in which fio lists them.
    pub const ALL: [Dir; 3] = [Dir::Read, Dir::Write, Dir::Trim];

    /// The name as fio prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Dir::Read => "read",
            Dir::Write => "write",
            Dir::Trim => "trim",
        }
    }

    /// Whether this direction changes the target.
    #[must_use]
    pub const fn modifies(self) -> bool {
        !matches!(self, Dir::Read)
    }
}

impl std::fmt::Display for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One value for each direction: fio's `r,w,t` triples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PerDir<T> {
    /// The value for reads.
    pub read: T,
    /// The value for writes.
    pub write: T,
    /// The value for trims.
    pub trim: T,
}

impl<T> PerDir<T> {
    /// Makes each value from its direction.
    pub fn from_fn(mut f: impl FnMut(Dir) -> T) -> Self {
        Self { read: f(Dir::Read), write: f(Dir::Write), trim: f(Dir::Trim) }
    }

    /// Each direction with its value, in the order of [`Dir::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Dir, &T)> {
        Dir::ALL.into_iter().map(|dir| (dir, &self[dir]))
    }

    /// Makes another set of values from this one.
    pub fn map<U>(&self, mut f: impl FnMut(Dir, &T) -> U) -> PerDir<U> {
        PerDir::from_fn(|dir| f(dir, &self[dir]))
    }
}

impl<T: Clone> PerDir<T> {
    /// The same value for every direction.
    pub fn splat(value: T) -> Self {
        Self { read: value.clone(), write: value.clone(), trim: value }
    }
}

impl<T> std::ops::Index<Dir> for PerDir<T> {
    type Output = T;
    fn index(&self, dir: Dir) -> &T {
        match dir {
            Dir::Read => &self.read,
            Dir::Write => &self.write,
            Dir::Trim => &self.trim,
        }
    }
}

impl<T> std::ops::IndexMut<Dir> for PerDir<T> {
    fn index_mut(&mut self, dir: Dir) -> &mut T {
        match dir {
            Dir::Read => &mut self.read,
            Dir::Write => &mut self.write,
            Dir::Trim => &mut self.trim,
        }
    }
}
