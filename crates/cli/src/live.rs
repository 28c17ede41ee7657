//! How a run stands, on standard error: one line on a terminal, plain lines elsewhere.

use fathom_model::{Plan, Progress};
use std::io::{IsTerminal, Write};
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
        let text = if self.terminal {
            format!(
                "\r{}\x1b[K",
                fathom_report::live::line(progress, &self.before, plan, Some(width()))
            )
        } else {
            format!("{}\n", fathom_report::live::line(progress, &self.before, plan, None))
        };
        self.before.clone_from(progress);
        self.drawn = true;
        write(&text);
    }

    /// Leaves the line free for what comes next.
    pub fn clear(&mut self) {
        if self.terminal && self.drawn {
            write("\r\x1b[K");
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

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A view that cannot be shown must not end the work that it shows.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
