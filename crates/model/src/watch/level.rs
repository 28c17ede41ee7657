//! How much of a machine is watched.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much is watched. `docs/watch.md` says what that costs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing.
    Off,
    /// What costs the work next to nothing.
    #[default]
    Default,
    /// All that can be seen.
    Full,
}

impl Level {
    /// All levels with their names.
    pub const NAMES: [(&str, Self); 3] =
        [("off", Self::Off), ("default", Self::Default), ("full", Self::Full)];
}
