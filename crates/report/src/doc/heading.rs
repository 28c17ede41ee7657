//! How a page begins: which command measured which machine, and when.

use super::Text;
use crate::calendar::{self, TimeZone};

/// The command, the host and the date, then the machine, its devices and the command line. What is empty is left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Heading {
    pub title: String,
    pub host: String,
    /// When the command started, in nanoseconds since 1970 (UTC); 0 if unknown.
    pub started_unix_ns: u64,
    pub machine: Text,
    pub devices: Text,
    pub command: String,
    pub zone: TimeZone,
}

impl Heading {
    /// `fathom run · build-7 · 2026-11-21 20:53:12 +01:00`
    pub fn line(&self) -> String {
        let started = self.started_unix_ns;
        let date = (started > 0).then(|| calendar::date_and_time(started, &self.zone));
        let parts = [&self.title, &self.host, date.as_ref().unwrap_or(&String::new())]
            .map(|part| part.replace(' ', "\u{a0}"));
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        parts.join("\u{a0}· ")
    }
}
