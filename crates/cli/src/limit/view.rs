//! The progress of `fathom limit` on standard error: one line on a terminal, successive lines elsewhere.

use crate::run::LayoutProgress;
use crate::{live, stdio};
use fathom_model::escape;
use fathom_model::limit::{Config, Phase};
use fathom_model::window::Probe;
use fathom_report::live::search_line;
use fathom_runner::Hooks;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between updates on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// Time between successive lines; a new phase is reported immediately.
const PLAIN: Duration = Duration::from_secs(5);

/// The progress line of a search.
pub struct LimitView {
    terminal: bool,
    layout: LayoutProgress,
    shown: Option<(Instant, Phase)>,
}

impl LimitView {
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, layout: LayoutProgress::new(false), shown: None }
    }

    /// Clears the line.
    pub fn clear(&self) {
        if self.terminal && self.shown.is_some() {
            stdio::clear_status();
        }
    }
}

impl Hooks for LimitView {
    fn laying_out(&mut self, path: &str, done: u64, total: u64) {
        self.layout.show(path, done, total);
    }

    fn notice(&mut self, text: &str) {
        stdio::remark(&format!("fathom: {text}"));
    }

    fn remark(&mut self, text: &str) {
        stdio::remark(&format!("fathom: {text}"));
    }

    fn probing(&mut self, config: &Config, probe: &Probe, done: f64) {
        let interval = if self.terminal { REDRAW } else { PLAIN };
        let same = |p: Phase| self.terminal || p == probe.phase;
        if self.shown.is_some_and(|(at, phase)| same(phase) && at.elapsed() < interval) {
            return;
        }
        self.shown = Some((Instant::now(), probe.phase));
        let text = search_line(probe, &config.targets, done, config.seconds);
        let width = if self.terminal { usize::from(live::width()) - 1 } else { usize::MAX };
        let fits: String = escape::text(&text).chars().take(width).collect();
        stdio::status(&fits, self.terminal);
    }
}
