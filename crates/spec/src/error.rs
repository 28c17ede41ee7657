//! The error types of this crate.

use crate::spec::Spec;
use std::fmt;

/// Maximum number of problems found: beyond it, the input is not a job file.
const PROBLEMS_MAX: usize = 1000;
/// Maximum number of problems and notes reported.
const REPORTED_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As given; `-` is standard input.
    pub file: String,
    pub line: usize,
}

/// An error in a request, with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    pub place: Option<Place>,
    pub message: String,
}

impl SpecError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into() }
    }

    pub(crate) fn at(mut self, place: Option<&Place>) -> Self {
        if self.place.is_none() {
            self.place = place.cloned();
        }
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for SpecError {}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Problems {
    pub errors: Vec<SpecError>,
    /// What was understood of the request: where results go, and targets that were named.
    pub request: Box<Spec>,
    /// Notes on lines read before they were part of the request.
    pub(crate) notes: Vec<String>,
}

impl Problems {
    /// Errors found in a request that could be parsed.
    pub fn of(errors: Vec<SpecError>, request: Spec) -> Self {
        Self { errors, request: Box::new(request), notes: Vec::new() }
    }

    /// Adds a problem unless it is known already, as when two sections include one file.
    pub(crate) fn add(&mut self, error: SpecError) {
        if !self.is_full() && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Adds a note, unless there are more than anybody reads.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < REPORTED_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The value of `result`; its error is added.
    pub(crate) fn ok<T>(&mut self, result: Result<T, SpecError>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= PROBLEMS_MAX
    }

    /// `value` of a request without problems; the last of many problems says how many others there are.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Self> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        let others = self.errors.len().saturating_sub(REPORTED_MAX);
        if others > 0 {
            let at_least = if self.is_full() { "at least " } else { "" };
            let plural = if others == 1 { "" } else { "s" };
            self.errors.truncate(REPORTED_MAX);
            self.errors.push(SpecError::new(format!("and {at_least}{others} other{plural}")));
        }
        Err(self)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
