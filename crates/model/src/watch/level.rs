//! How much is sampled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much is sampled. `docs/watch.md` describes the overhead.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing.
    Off,
    /// Samplers with negligible overhead.
    #[default]
    Default,
    /// All samplers, in full detail.
    Full,
}

impl Level {
    /// All levels with their names.
    pub const NAMES: [(&str, Self); 3] =
        [("off", Self::Off), ("default", Self::Default), ("full", Self::Full)];
}
