//! How a run ended, and what identifies it.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What a record is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Jobs (`fathom run`).
    #[default]
    Run,
    /// A search for a target's limits (`fathom limit`).
    Limit,
    /// Conditions compared with each other (`fathom try`, `fathom sweep`).
    Experiment,
    /// The machine, without a load of fathom's own (`fathom watch`, `fathom record`, `fathom top`).
    Watch,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It ran to its end. Whether all of it succeeded is in jobs and findings.
    #[default]
    Finished,
    /// A signal or the caller ended it early; the results are valid up to there.
    Interrupted {
        /// `SIGINT`, `SIGTERM`, `SIGHUP` or `the caller`.
        by: String,
    },
    /// It was not started.
    Refused {
        /// For users: what is wrong and what to do.
        because: String,
    },
    /// It, or its record, broke off.
    Failed {
        /// For users.
        because: String,
    },
}

impl Outcome {
    /// Ended early by `by`.
    pub fn interrupted(by: &str) -> Self {
        Self::Interrupted { by: by.to_string() }
    }

    /// The outcome recorded until a run ends, which stays true after a SIGKILL.
    pub fn unfinished() -> Self {
        let because = "it was still running when fathom was killed or the machine stopped";
        Self::Failed { because: because.to_string() }
    }

    /// Whether it ran to its end.
    pub fn is_finished(&self) -> bool {
        *self == Self::Finished
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::Interrupted { by } => write!(f, "interrupted by {by}"),
            Self::Refused { because } => write!(f, "refused: {because}"),
            Self::Failed { because } => write!(f, "failed: {because}"),
        }
    }
}

/// Reads an outcome, or the field `interrupted` of version 1, which held a signal, an error or nothing.
pub fn of_any_version<'de, D: Deserializer<'de>>(from: D) -> Result<Outcome, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Current(Outcome),
        V1(Option<String>),
    }
    Ok(match Either::deserialize(from)? {
        Either::Current(outcome) => outcome,
        Either::V1(None) => Outcome::Finished,
        Either::V1(Some(text)) if text.starts_with("SIG") => Outcome::interrupted(&text),
        Either::V1(Some(because)) => Outcome::Failed { because },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Record {
        #[serde(alias = "interrupted", deserialize_with = "of_any_version")]
        outcome: Outcome,
    }

    fn read(json: &str) -> Outcome {
        serde_json::from_str::<Record>(json).unwrap().outcome
    }

    #[test]
    fn outcomes_survive_being_stored() {
        for outcome in [
            Outcome::Finished,
            Outcome::interrupted("SIGINT"),
            Outcome::Refused { because: "no such file".into() },
            Outcome::unfinished(),
        ] {
            let json = serde_json::to_string(&outcome).unwrap();
            assert_eq!(read(&format!("{{\"outcome\":{json}}}")), outcome);
        }
    }

    #[test]
    fn version_1_had_four_meanings_in_one_string() {
        assert_eq!(read(r#"{"interrupted":null}"#), Outcome::Finished);
        assert_eq!(read(r#"{"interrupted":"SIGTERM"}"#), Outcome::interrupted("SIGTERM"));
        let because = "the run did not end: it was killed, or the machine stopped".to_string();
        let json = format!(r#"{{"interrupted":"{because}"}}"#);
        assert_eq!(read(&json), Outcome::Failed { because });
    }
}
