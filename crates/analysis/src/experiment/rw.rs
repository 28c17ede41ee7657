//! Kinds of access.

use fathom_model::Dir;
use fathom_model::plan::Mix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Kind of access, as in fio's `rw`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    #[default]
    Randread,
    /// Random writes.
    Randwrite,
    /// Sequential reads and writes, 70:30.
    Rw,
    /// Random reads and writes, 70:30.
    Randrw,
}

impl Rw {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Randread, Self::Randwrite, Self::Rw, Self::Randrw];
    /// Percentage of reads in a mix.
    pub const READ_PERCENT: u32 = 70;

    /// Its name in fio.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Randread => "randread",
            Self::Randwrite => "randwrite",
            Self::Rw => "rw",
            Self::Randrw => "randrw",
        }
    }

    /// In words, of many I/Os.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Read => "sequential reads",
            Self::Write => "sequential writes",
            Self::Randread => "random reads",
            Self::Randwrite => "random writes",
            Self::Rw => "sequential reads and writes (70:30)",
            Self::Randrw => "random reads and writes (70:30)",
        }
    }

    /// Directions and their percentage of the I/Os.
    pub const fn dirs(self) -> &'static [(Dir, u32)] {
        match self {
            Self::Read | Self::Randread => &[(Dir::Read, 100)],
            Self::Write | Self::Randwrite => &[(Dir::Write, 100)],
            Self::Rw | Self::Randrw => {
                &[(Dir::Read, Self::READ_PERCENT), (Dir::Write, 100 - Self::READ_PERCENT)]
            }
        }
    }

    /// The mix of directions.
    pub const fn mix(self) -> Mix {
        match self.dirs() {
            [(dir, _)] => Mix::Only(*dir),
            _ => Mix::ReadWrite { read_percent: Self::READ_PERCENT },
        }
    }

    /// Whether offsets are random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite | Self::Randrw)
    }

    /// Whether it changes the target.
    pub fn modifies(self) -> bool {
        self.dirs().iter().any(|(dir, _)| dir.modifies())
    }
}

impl std::fmt::Display for Rw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rw {
    type Err = String;

    /// Takes fio's names, also `readwrite` for `rw`.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = if text == "readwrite" { "rw" } else { text };
        let known = Self::ALL.into_iter().find(|rw| rw.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        known.ok_or_else(|| format!("expected one of {}", names()))
    }
}
