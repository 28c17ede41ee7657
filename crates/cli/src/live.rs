//! How a run stands, on standard error: one line on a terminal, plain lines elsewhere.

use crate::stdio;
use fathom_model::{Plan, Progress};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two states of the line on a terminal.
const REDRAW: Duration = Duration::from_millis(500);
/// Between two plain lines.
const PLAIN: Duration = Duration::from_secs(5);

/// The live line.
pub struct Live {
    terminal: bool,
    interval: Duration,
    next: Instant,
    before: Progress,
    drawn: bool,
}

impl Live {
    /// A live line; plain lines come every `interval`, where given.
    #[must_use]
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

    /// Shows `progress`, where it is time to.
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

    /// Leaves the line free for what comes next.
    pub fn clear(&mut self) {
        if self.terminal && self.drawn {
            stdio::clear_status();
        }
    }
}

/// Columns of the terminal at standard error.
#[must_use]
pub fn width() -> u16 {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        // 0 where nobody has set a size, as over a serial line.
        Ok(size) if size.ws_col > 0 => size.ws_col.max(20),
        _ => 80,
    }
}
