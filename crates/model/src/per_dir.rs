//! Directions of storage I/O, and values per direction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Direction of I/O.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Dir {
    /// Device to memory.
    Read = 0,
    /// Memory to device.
    Write = 1,
    /// Discard: the blocks are no longer needed.
    Trim = 2,
}

impl Dir {
    /// All directions, in fio's order.
    pub const ALL: [Dir; 3] = [Dir::Read, Dir::Write, Dir::Trim];

    /// Its name in fio's output.
    pub const fn name(self) -> &'static str {
        match self {
            Dir::Read => "read",
            Dir::Write => "write",
            Dir::Trim => "trim",
        }
    }

    /// Whether this direction modifies the target.
    pub const fn modifies(self) -> bool {
        !matches!(self, Dir::Read)
    }
}

impl std::fmt::Display for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One value per direction: fio's `r,w,t` triples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PerDir<T> {
    /// Value for reads.
    pub read: T,
    /// Value for writes.
    pub write: T,
    /// Value for trims.
    pub trim: T,
}

impl<T> PerDir<T> {
    /// Computes each value from its direction.
    pub fn from_fn(mut f: impl FnMut(Dir) -> T) -> Self {
        Self { read: f(Dir::Read), write: f(Dir::Write), trim: f(Dir::Trim) }
    }

    /// Each direction with its value, in the order of [`Dir::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Dir, &T)> {
        Dir::ALL.into_iter().map(|dir| (dir, &self[dir]))
    }

    /// Maps each value.
    pub fn map<U>(&self, mut f: impl FnMut(Dir, &T) -> U) -> PerDir<U> {
        PerDir::from_fn(|dir| f(dir, &self[dir]))
    }
}

impl<T> PerDir<Vec<T>> {
    /// Whether all values are empty.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|(_, list)| list.is_empty())
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
