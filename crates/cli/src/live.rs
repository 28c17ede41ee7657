//! The progress of a run on standard error: one line on a terminal, successive lines elsewhere.

use crate::stdio;
use fathom_model::{Plan, Progress};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between updates on a terminal.
const REDRAW: Duration = Duration::from_millis(500);
/// Time between successive lines.
const PLAIN: Duration = Duration::from_secs(5);

/// The progress line.
pub struct Live {
    terminal: bool,
    interval: Duration,
    next: Instant,
    before: Progress,
    drawn: bool,
}

impl Live {
    /// A progress line; with `interval`, successive lines at that interval.
    pub fn new(interval: Option<Duration>) -> Self {
        let terminal = std::io::stderr().is_terminal() && interval.is_none();
        let interval = interval.unwrap_or(if terminal { REDRAW } else { PLAIN });
        Self {
            terminal,
            interval,
            next: Instant::now() + interval,
            before: Progress::default(),
            drawn: false,
        }
    }

    /// Prints `progress` if an update is due.
    pub fn show(&mut self, progress: &Progress, plan: &Plan) {
        if Instant::now() < self.next {
            return;
        }
        self.next += self.interval;
        let width = self.terminal.then(width);
        let text = fathom_report::live::line(progress, &self.before, plan, width);
        self.before.clone_from(progress);
        self.drawn = true;
        stdio::status(&text, self.terminal);
    }

    /// Clears the line.
    pub fn clear(&mut self) {
        if self.terminal && self.drawn {
            stdio::clear_status();
        }
    }
}

/// Columns of the terminal at standard error.
pub fn width() -> u16 {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        // 0 if no size is set, as on a serial line.
        Ok(size) if size.ws_col > 0 => size.ws_col.max(20),
        _ => 80,
    }
}
