//! The one error of this crate.

use std::fmt;

/// Where in a job file something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named; `-` is standard input.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
}

/// What is wrong with a request: it names the thing, what was expected and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The place in a job file, where it comes from one.
    pub place: Option<Place>,
    /// The message, without the place.
    pub message: String,
}

impl SpecError {
    /// An error that no line of a file stands for.
    pub fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into() }
    }

    /// The same error, at `place` where it had none.
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
