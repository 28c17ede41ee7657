//! Progress on standard error: one line that is redrawn on a terminal, successive lines elsewhere.

use crate::stdio;
use fathom_model::limit::{Config, Phase};
use fathom_model::window::Probe;
use fathom_model::{Plan, Progress, escape, units};
use fathom_report::live;
use fathom_runner::Hooks;
use fathom_runner::experiment::RoundProgress;
use fathom_runner::ranks::Status;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Intervals on a terminal and elsewhere: of runs, searches and experiments.
const RUN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];
const SEARCH: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
const EXPERIMENT: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];
/// While a file is laid out. The first text comes after the shorter one also where there is no terminal.
const LAYOUT: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];

struct Line {
    terminal: bool,
    interval: Duration,
    next: Instant,
    is_shown: bool,
}

impl Line {
    /// One whose first text is due after `delay`.
    fn new(terminal: bool, interval: Duration, delay: Duration) -> Self {
        Self { terminal, interval, next: Instant::now() + delay, is_shown: false }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            // A pause is not made up for.
            self.next = (self.next + self.interval).max(now);
        }
        is_due
    }

    fn show(&mut self, text: &str) {
        self.is_shown = true;
        stdio::status(text, self.terminal);
    }

    fn clear(&self) {
        if self.terminal && self.is_shown {
            stdio::clear_status();
        }
    }
}

pub struct Live {
    line: Line,
    before: Progress,
    /// I/Os and bytes of all ranks in the last line, and when that was.
    of_ranks: (u64, u64, Instant),
}

impl Live {
    /// With `interval`, successive lines at that interval.
    pub fn new(interval: Option<Duration>) -> Self {
        let terminal = std::io::stderr().is_terminal() && interval.is_none();
        let interval = interval.unwrap_or(RUN[usize::from(!terminal)]);
        let of_ranks = (0, 0, Instant::now());
        Self {
            line: Line::new(terminal, interval, interval),
            before: Progress::default(),
            of_ranks,
        }
    }

    /// What several ranks do together, where that is known for a later moment than that of the last line.
    pub fn show_ranks(&mut self, all: &[Status]) {
        let (ios, bytes) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.ios, sum.1 + one.bytes));
        let (ios_before, bytes_before, at) = self.of_ranks;
        if ios == ios_before || !self.line.is_due() {
            return;
        }
        let per_second =
            |now: u64, before: u64| now.saturating_sub(before) as f64 / at.elapsed().as_secs_f64();
        let iops = units::count(per_second(ios, ios_before));
        let rate = units::bandwidth(per_second(bytes, bytes_before));
        self.line.show(&format!("{} ranks: {iops} IOPS, {rate}", all.len()));
        self.of_ranks = (ios, bytes, Instant::now());
    }

    pub fn show(&mut self, progress: &Progress, plan: &Plan) {
        if self.line.is_due() {
            let width = self.line.terminal.then(width);
            self.line.show(&live::line(progress, &self.before, plan, width));
            self.before.clone_from(progress);
        }
    }

    pub fn clear(&self) {
        self.line.clear();
    }
}

pub struct LayoutProgress {
    quiet: bool,
    line: Line,
    /// The file of the last line.
    shown: String,
}

impl LayoutProgress {
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let interval = LAYOUT[usize::from(!terminal)];
        Self { quiet, line: Line::new(terminal, interval, LAYOUT[0]), shown: String::new() }
    }

    pub fn show(&mut self, path: &str, done: u64, total: u64) {
        let is_done = done >= total;
        // Of many small files, not each has a line.
        let ends = is_done && self.shown == path;
        if self.quiet || !self.line.is_due() && !ends {
            return;
        }
        match self.line.terminal && is_done {
            true => stdio::clear_status(),
            false => {
                self.shown = path.to_string();
                self.line.show(&format!("laying out {path}: {}%", done * 100 / total.max(1)));
            }
        }
    }
}

/// The progress of a search or an experiment.
pub struct MeasureView {
    line: Line,
    layout: LayoutProgress,
    phase: Option<Phase>,
}

impl MeasureView {
    pub fn of_search() -> Self {
        Self::new(SEARCH)
    }

    pub fn of_experiment() -> Self {
        Self::new(EXPERIMENT)
    }

    fn new(intervals: [Duration; 2]) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let line = Line::new(terminal, intervals[usize::from(!terminal)], Duration::ZERO);
        Self { line, layout: LayoutProgress::new(false), phase: None }
    }

    pub fn clear(&self) {
        self.line.clear();
    }

    fn show(&mut self, text: &str) {
        let width = if self.line.terminal { usize::from(width()) - 1 } else { usize::MAX };
        let fits: String = escape::text(text).chars().take(width).collect();
        self.line.show(&fits);
    }
}

impl Hooks for MeasureView {
    fn laying_out(&mut self, path: &str, done: u64, total: u64) {
        self.layout.show(path, done, total);
    }

    fn notice(&mut self, text: &str) {
        stdio::info(&format!("fathom: {text}"));
    }

    fn remark(&mut self, text: &str) {
        stdio::info(&format!("fathom: {text}"));
    }

    fn probing(&mut self, config: &Config, probe: &Probe, done: f64) {
        // Elsewhere than on a terminal, a new phase is reported at once.
        let is_new = self.phase.replace(probe.phase) != Some(probe.phase) && !self.line.terminal;
        if self.line.is_due() || is_new {
            self.show(&live::search_line(probe, &config.targets, done, config.seconds));
        }
    }

    fn trying(&mut self, now: &RoundProgress) {
        if self.line.is_due() {
            self.show(&live::experiment_line(&now.label, now.rounds, now.done, now.seconds));
        }
    }
}

/// Columns of the terminal at standard error.
fn width() -> u16 {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        // 0 if no size is set, as on a serial line.
        Ok(size) if size.ws_col > 0 => size.ws_col.max(20),
        _ => 80,
    }
}
