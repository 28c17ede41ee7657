//! How a search stands, on standard error: one line on a terminal, plain lines elsewhere.

use crate::live;
use fathom_analysis::limit::{Config, Phase, Probe};
use fathom_report::limit::line;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two states of the line on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// Between two plain lines; a new phase is told at once.
const PLAIN: Duration = Duration::from_secs(5);

/// The live line of a search.
pub struct View {
    terminal: bool,
    targets: Vec<String>,
    seconds: f64,
    shown: Option<(Instant, Phase)>,
}

impl View {
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let (targets, seconds) = (config.targets.clone(), config.seconds);
        Self { terminal, targets, seconds, shown: None }
    }

    /// Shows what is measured now, where it is time to; `done` is the share of the time that is used.
    pub fn show(&mut self, probe: &Probe, done: f64) {
        let interval = if self.terminal { REDRAW } else { PLAIN };
        let same = |p: Phase| self.terminal || p == probe.phase;
        if self.shown.is_some_and(|(at, phase)| same(phase) && at.elapsed() < interval) {
            return;
        }
        self.shown = Some((Instant::now(), probe.phase));
        let text = line(probe, &self.targets, done, self.seconds);
        if self.terminal {
            let fits: String = text.chars().take(usize::from(live::width()) - 1).collect();
            write(&format!("\r{fits}\x1b[K"));
        } else {
            write(&format!("{text}\n"));
        }
    }

    /// Leaves the line free for what comes next.
    pub fn clear(&self) {
        if self.terminal && self.shown.is_some() {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A view that cannot be shown must not end the work that it shows.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
