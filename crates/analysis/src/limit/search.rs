//! The search as a whole: which stage is on, how long a window is, and when the time is up.

use super::book::{At, Book};
use super::outcome::LimitReport;
use super::probe::{Measurement, Phase, Probe};
use super::stage::{Ask, Heard, Stage};
use super::{BLOCKS, Config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A window with its ramp takes this part of the time of one target, within the bounds below.
const SLOTS: f64 = 120.0;
const SLOT_MIN_NS: f64 = 0.1e9;
const SLOT_MAX_NS: f64 = 1.0e9;
/// The kernel counts processor time in steps of 10 ms.
const IDLE_MIN_NS: f64 = 0.25e9;
/// The part of a slot that is the ramp.
const RAMP_PART: f64 = 0.2;
/// A slow target gets longer windows, so that about this many I/Os are in each.
const IOS_WANTED: f64 = 100.0;
/// But at most so many times as long.
const STRETCH_MAX: f64 = 2.5;

/// A window that was asked for and what came of it: a line of `samples.ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// What was asked.
    pub probe: Probe,
    /// What was measured, or why nothing could be.
    pub outcome: Result<Measurement, String>,
}

/// A stage that waits for its turn.
#[derive(Debug)]
struct Queued {
    stage: Stage,
    /// It has more to ask, as far as is known: time is kept for it.
    open: bool,
}

/// The search for the limits of some targets.
#[derive(Debug)]
pub struct Search {
    book: Book,
    /// What is still to come in this round over the stages.
    stages: VecDeque<Queued>,
    /// Those whose turn is over, for the next round with the time that is left.
    again: VecDeque<Queued>,
    /// Several targets at once: not before all of them have had their first round.
    together: VecDeque<Queued>,
    /// The stage that is on, and the time at which it must end.
    current: Option<(Stage, f64)>,
    /// What was used when this round began.
    round_began_ns: f64,
    pending: Option<(Ask, Probe)>,
    planned_ns: f64,
    used_ns: f64,
    /// What a window took beyond what was asked, lately.
    overhead_ns: f64,
    slot_ns: f64,
    windows: u32,
}

impl Search {
    /// A search that has not measured anything. Times that are not positive numbers count as 0, no
    /// processor as one.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        config.cores = config.cores.max(1);
        if !(config.seconds.is_finite() && config.seconds > 0.0) {
            config.seconds = 0.0;
        }
        let targets = config.targets.len();
        let planned_ns = config.seconds * 1e9;
        let slot = planned_ns / SLOTS / targets.max(1) as f64;
        Self {
            stages: queued(Stage::all(targets)),
            again: VecDeque::new(),
            together: queued(Stage::together(targets)),
            round_began_ns: 0.0,
            book: Book::new(config),
            current: None,
            pending: None,
            planned_ns,
            used_ns: 0.0,
            overhead_ns: 0.0,
            slot_ns: slot.clamp(SLOT_MIN_NS, SLOT_MAX_NS),
            windows: 0,
        }
    }

    /// The next window to measure; `None` when the search is at its end. Asked again before the
    /// answer was given, it says the same.
    pub fn next_probe(&mut self) -> Option<Probe> {
        if let Some((_, probe)) = &self.pending {
            return Some(probe.clone());
        }
        loop {
            let (mut stage, until_ns) = match self.current.take() {
                Some(current) => current,
                None => self.begin_stage()?,
            };
            let Some(ask) = stage.next(&mut self.book) else {
                self.end_stage(stage, false);
                continue;
            };
            let probe = self.probe(&ask);
            let end_ns = self.used_ns + (probe.ramp_ns + probe.window_ns) as f64 + self.overhead_ns;
            if end_ns > until_ns.min(self.planned_ns) {
                self.end_stage(stage, true);
                continue;
            }
            self.current = Some((stage, until_ns));
            self.pending = Some((ask, probe.clone()));
            return Some(probe);
        }
    }

    /// Takes what came of the window that [`Self::next_probe`] asked for. Without such a question
    /// it is ignored. Windows with errors or short transfers are kept as problems and do not count.
    pub fn observe(&mut self, window: &Measurement) {
        let Some((ask, probe)) = self.pending.take() else { return };
        let asked_ns = (probe.ramp_ns + probe.window_ns) as f64;
        let took_ns = (window.took_ns as f64).max(asked_ns);
        self.used_ns += took_ns;
        // Bounded, so that one window that hung does not keep all later ones from being tried.
        self.overhead_ns =
            ((self.overhead_ns + (took_ns - asked_ns)) / 2.0).min(STRETCH_MAX * self.slot_ns);
        self.windows += 1;
        let trouble = self.note_trouble(&ask, window);
        if trouble.is_none() {
            self.note_clean(&ask, window);
        }
        if let Some((stage, _)) = &mut self.current {
            let heard = trouble.as_deref().map_or(Heard::Clean(window), Heard::Bad);
            stage.hear(&mut self.book, &heard);
        }
    }

    /// The window that [`Self::next_probe`] asked for could not be had, for this reason.
    pub fn refuse(&mut self, message: &str) {
        let Some((ask, _)) = self.pending.take() else { return };
        // Refusals that take no time would let a search go on forever if it never gave up.
        self.used_ns += SLOT_MIN_NS / 100.0;
        if let ([load], None) = (ask.loads.as_slice(), ask.cores)
            && let Some(target) = load.target
        {
            let at = At { target, block: ask.block };
            self.book.block_mut(at).refuse(load.setting, message.to_string());
        }
        if let Some((stage, _)) = &mut self.current {
            stage.hear(&mut self.book, &Heard::Bad(message));
        }
    }

    /// How much of the planned time is used, from 0 to 1.
    #[must_use]
    pub fn done(&self) -> f64 {
        if self.planned_ns > 0.0 { (self.used_ns / self.planned_ns).min(1.0) } else { 1.0 }
    }

    /// Ends the search, where it stands, and says what it found.
    #[must_use]
    pub fn finish(mut self) -> LimitReport {
        // Without a question left, only what did not fit into the time is missing.
        let finished = self.pending.is_none() && self.next_probe().is_none();
        let seconds_planned = self.planned_ns / 1e9;
        // All stages enter what they have, as when the time is up.
        (self.planned_ns, self.pending) = (0.0, None);
        while self.next_probe().is_some() {}
        LimitReport {
            seconds_planned,
            seconds_used: self.used_ns / 1e9,
            windows: self.windows,
            finished,
            ..self.book.report()
        }
    }

    /// Enters what a stage found. It has its turn again once all others have had theirs.
    fn end_stage(&mut self, mut stage: Stage, open: bool) {
        stage.close(&mut self.book);
        if open || stage.may_reopen() {
            self.again.push_back(Queued { stage, open });
        }
    }

    /// The next stage, with its part of the time that is left; `None` when none of them needs or can use
    /// what is left.
    fn begin_stage(&mut self) -> Option<(Stage, f64)> {
        if self.stages.is_empty() {
            if self.used_ns <= self.round_began_ns {
                return None;
            }
            self.round_began_ns = self.used_ns;
            self.stages.append(&mut self.again);
            self.stages.append(&mut self.together);
        }
        let Queued { stage, .. } = self.stages.pop_front()?;
        let others = self.stages.iter().chain(&self.together).filter(|queued| queued.open);
        let weights = stage.weight() + others.map(|queued| queued.stage.weight()).sum::<f64>();
        let left_ns = (self.planned_ns - self.used_ns).max(0.0);
        let share_ns = left_ns * stage.weight() / weights;
        let wanted_ns = if stage.comes_first() {
            // Twice, for set-up; what is not needed goes on to the next.
            stage.weight() * (2.0 * self.slot_ns + self.overhead_ns)
        } else {
            0.0
        };
        Some((stage, self.used_ns + share_ns.max(wanted_ns)))
    }

    fn probe(&self, ask: &Ask) -> Probe {
        let (ramp_ns, window_ns) = self.times(ask);
        Probe {
            phase: ask.phase,
            loads: ask.loads.clone(),
            block_bytes: BLOCKS[ask.block],
            cores: ask.cores,
            ramp_ns: ramp_ns as u64,
            window_ns: window_ns as u64,
        }
    }

    /// Ramp and window in nanoseconds: longer where the target is so slow that a window would hold few
    /// I/Os, or that the first I/Os would not be back before it begins.
    fn times(&self, ask: &Ask) -> (f64, f64) {
        let (ramp, window) = (self.slot_ns * RAMP_PART, self.slot_ns * (1.0 - RAMP_PART));
        if ask.phase == Phase::Idle {
            return (0.0, window.max(IDLE_MIN_NS));
        }
        let mut stretched = (ramp, window);
        for load in &ask.loads {
            let Some(target) = load.target else { continue };
            let curve = &self.book.block(At { target, block: ask.block }).curve;
            let known = curve.mean(load.setting);
            let best = curve.iter().map(|(_, c)| c.mean()).fold(0.0, f64::max);
            let rate = if known > 0.0 { known } else { best };
            if rate > 0.0 {
                let turn_ns = load.setting.in_flight() as f64 * 1e9 / rate;
                stretched.0 = stretched.0.max(2.0 * turn_ns);
                stretched.1 = stretched.1.max(IOS_WANTED * 1e9 / rate);
            }
        }
        (stretched.0.min(STRETCH_MAX * window), stretched.1.min(STRETCH_MAX * window))
    }

    /// Enters a window into the curve of its target, where it is about one on all processors.
    fn note_clean(&mut self, ask: &Ask, window: &Measurement) {
        if let ([load], [measured], None) =
            (ask.loads.as_slice(), window.loads.as_slice(), ask.cores)
            && let Some(target) = load.target
        {
            let block = self.book.block_mut(At { target, block: ask.block });
            block.curve.add(load.setting, window, measured);
        }
    }

    /// Enters errors and short transfers; says what was wrong if anything was.
    fn note_trouble(&mut self, ask: &Ask, window: &Measurement) -> Option<String> {
        if window.loads.len() != ask.loads.len() {
            return Some("the window does not cover what was asked".to_string());
        }
        let mut trouble = None;
        for (load, measured) in ask.loads.iter().zip(&window.loads) {
            if measured.errors == 0 && measured.short_ios == 0 {
                continue;
            }
            let what =
                format!("{} I/Os failed and {} were short", measured.errors, measured.short_ios);
            trouble = Some(measured.first_error.clone().unwrap_or(what));
            if let Some(target) = load.target {
                let block = self.book.block_mut(At { target, block: ask.block });
                block.bad_window(load.setting, measured);
            }
        }
        trouble
    }
}

fn queued(stages: Vec<Stage>) -> VecDeque<Queued> {
    stages.into_iter().map(|stage| Queued { stage, open: true }).collect()
}

/// Redoes a search from its windows. `finished` is not known from these alone where a search was
/// interrupted.
///
/// # Errors
/// When the windows are not those that this version of the search would have asked for.
pub fn replay(config: Config, windows: &[Window]) -> Result<LimitReport, String> {
    let mut search = Search::new(config);
    for (n, window) in windows.iter().enumerate() {
        match search.next_probe() {
            Some(probe) if probe == window.probe => {}
            _ => return Err(format!("window {n} is not what this version would have asked for")),
        }
        match &window.outcome {
            Ok(measured) => search.observe(measured),
            Err(message) => search.refuse(message),
        }
    }
    Ok(search.finish())
}
