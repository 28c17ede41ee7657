//! `--status-interval` in formats that programs read: the results so far, as part of the output.

use crate::output::{self, Destination};
use crate::stdio::Kind;
use fathom_model::RunRecord;
use fathom_spec::Output;
use std::time::{Duration, Instant};

/// Prints the results so far at an interval.
pub struct Interim<'a> {
    output: &'a Output,
    to: Option<&'a Destination>,
    interval: Duration,
    next: Instant,
    /// What a file holds so far.
    kept: String,
}

impl<'a> Interim<'a> {
    /// For `output` to `to`, if it has interim results.
    pub fn new(output: &'a Output, to: Option<&'a Destination>) -> Option<Self> {
        let interval = Duration::from_nanos(output.status_interval_ns?);
        let next = Instant::now() + interval;
        let interim = Self { output, to, interval, next, kept: String::new() };
        output::has_interim(output).then_some(interim)
    }

    /// Prints the record that `make` makes, if it is time.
    pub fn show(&mut self, make: &dyn Fn() -> RunRecord) -> Result<(), String> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        // A pause is not made up for.
        self.next = (self.next + self.interval).max(now);
        let text = output::interim(&make(), self.output);
        if !self.to.is_some_and(Destination::is_replaced) {
            return output::emit(&text, Kind::Lines, self.to);
        }
        self.kept.push_str(&text);
        output::emit(&self.kept, Kind::Lines, self.to)
    }

    /// What the output's file holds, which the final results must not replace.
    pub fn kept(&self) -> &str {
        &self.kept
    }
}
