//! The error type of this crate.

use std::fmt;

/// A position in a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File name as given; `-` is standard input.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
}

/// An error in a request: what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The position in the job file, if the error is in one.
    pub place: Option<Place>,
    /// The message, without the position.
    pub message: String,
}

impl SpecError {
    /// An error without a position in a job file.
    pub fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into() }
    }

    /// Sets the position to `place` unless already set.
    #[must_use]
    pub(crate) fn at(mut self, place: Option<&Place>) -> Self {
        if self.place.is_none() {
            self.place = place.cloned();
        }
        self
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}:{}: {}", place.file, place.line, self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for SpecError {}
