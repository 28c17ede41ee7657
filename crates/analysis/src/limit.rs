//! The search for what a target can do on this machine. What limits it is for [`crate::rules`] to say.
//!
//! [`Search`] is a [`Design`] that makes a report of what it knows at any time ([`Search::finish`]). The same windows always give
//! the same report, so that a stored search can be repeated ([`replay`]).
//!
//! Its stages (`climb`, `counter`, `knee`, `rated`, `combined`, and those of `stage` that only repeat windows) request
//! windows and enter what they find in `state`; their order, their shares of the time and the length of windows are here.
//!
//! `docs/limit.md` describes the method, the terms and the sources.

mod climb;
mod combined;
mod counter;
mod knee;
mod rated;
mod saturation;
mod stage;
mod state;
pub(crate) mod thresholds;

#[cfg(test)]
mod tests;

use crate::experiment::{self, Budget, Design, Planned, Schedule};
use climb::{Climb, Confirm};
use combined::CombinedStage;
use counter::Counter;
use fathom_model::limit::{Config, LimitReport, Phase};
use fathom_model::window::{Measurement, Probe, Ratio, Rw, Window};
use knee::Knee;
use rated::Rated;
use stage::{Repeated, SUITE_ROUNDS, Stage, WINDOWS, WindowRequest};
use state::{At, SearchState};
pub use thresholds::KNEE_SHARE;

/// A window with its ramp takes this fraction of the time of one target and kind of I/O, within the bounds below.
const SLOTS: f64 = 75.0;
const SLOT_MIN_NS: f64 = 0.1e9;
const SLOT_MAX_NS: f64 = 1.0e9;
/// Rows of the suite take longer: there are few windows.
const SUITE_MAX_NS: f64 = 5.0e9;
/// The kernel accounts for CPU time in steps of 10 ms.
const IDLE_MIN_NS: f64 = 0.25e9;
/// The ramp's share of a slot.
const RAMP_SHARE: f64 = 0.2;
/// A slow target gets longer windows, so that each has about this many I/Os.
const IOS_WANTED: f64 = 100.0;
const STRETCH_MAX: f64 = 2.5;

#[derive(Debug)]
pub struct Search {
    state: SearchState,
    schedule: Schedule<Box<dyn Stage>>,
    budget: Budget,
    /// The current stage, and the time at which it must end.
    current: Option<(Planned<Box<dyn Stage>>, f64)>,
    pending: Option<(WindowRequest, Probe)>,
}

impl Search {
    /// A search without any measurement. Times that are not positive numbers count as 0, no CPU and blocks of 0
    /// bytes as 1.
    pub fn new(mut config: Config) -> Self {
        config.cores = config.cores.max(1);
        if !(config.seconds.is_finite() && config.seconds > 0.0) {
            config.seconds = 0.0;
        }
        config.blocks.iter_mut().for_each(|spec| spec.block_bytes = spec.block_bytes.max(1));
        Self {
            schedule: schedule(&config),
            budget: budget(&config),
            state: SearchState::new(config),
            current: None,
            pending: None,
        }
    }

    /// Takes the measurement of the window that was asked for; without one it is ignored. Windows with
    /// errors or short transfers are recorded as problems and do not count.
    fn observe(&mut self, window: &Measurement) {
        let Some((request, probe)) = self.pending.take() else { return };
        self.budget.charge_window(requested_ns(&probe), window.took_ns as f64);
        let error = self.add_bad_window(&request, window);
        if let (None, Some((at, setting))) = (&error, request.curve_point()) {
            let curve = &mut self.state.block_mut(at).curve;
            window.results().for_each(|load| curve.add(setting, &load));
        }
        self.pass_on(error.as_deref().map_or(Ok(window), Err));
    }

    /// The window that was asked for could not be measured, for this reason.
    fn refuse(&mut self, message: &str) {
        let Some((request, _)) = self.pending.take() else { return };
        // Refusals must take time, or a search that only gets refusals would not end.
        self.budget.charge(SLOT_MIN_NS / 100.0);
        if let Some((at, setting)) = request.curve_point() {
            self.state.refuse(at, setting, message.to_string());
        }
        self.pass_on(Err(message));
    }

    pub fn config(&self) -> &Config {
        &self.state.config
    }

    pub fn finish(mut self) -> LimitReport {
        // Without a further request, only what did not fit into the time is missing.
        let finished = self.pending.is_none() && self.next().is_none();
        let seconds_planned = self.budget.planned_ns() / 1e9;
        // All stages report what they have, as when the time is up.
        self.budget.close();
        self.pending = None;
        while self.next().is_some() {}
        LimitReport {
            seconds_planned,
            seconds_used: self.budget.used_ns() / 1e9,
            windows: self.budget.windows(),
            finished,
            ..state::report(&self.state)
        }
    }

    fn pass_on(&mut self, outcome: Result<&Measurement, &str>) {
        if let Some((planned, _)) = &mut self.current {
            planned.stage.observe(&mut self.state, outcome);
        }
    }

    /// Records errors and short transfers; returns a message if there are any.
    fn add_bad_window(&mut self, request: &WindowRequest, window: &Measurement) -> Option<String> {
        if window.loads.len() != request.loads.len() {
            return Some("the window lacks some of the requested loads".to_string());
        }
        let mut error = None;
        for (load, measured) in request.loads.iter().zip(&window.loads) {
            if measured.errors == 0 && measured.short_ios == 0 {
                continue;
            }
            let counts =
                format!("{} I/Os failed, {} were short", measured.errors, measured.short_ios);
            error = Some(measured.first_error.clone().unwrap_or(counts));
            if let Some(target) = load.target {
                let at = At { target, block: request.block };
                self.state.add_bad_window(at, load.setting, measured);
            }
        }
        error
    }
}

impl Design for Search {
    type Asked = Probe;
    type Window = Window;

    fn next(&mut self) -> Option<Probe> {
        if let Some((_, probe)) = &self.pending {
            return Some(probe.clone());
        }
        loop {
            let current = self.current.take();
            let (mut planned, until_ns) = current.or_else(|| self.schedule.begin(&self.budget))?;
            let request = planned.stage.next(&mut self.state);
            let open = request.is_some();
            if let Some(request) = request {
                let probe = probe(&request, &self.state);
                if self.budget.fits(requested_ns(&probe), until_ns) {
                    self.current = Some((planned, until_ns));
                    self.pending = Some((request, probe.clone()));
                    return Some(probe);
                }
            }
            planned.stage.close(&mut self.state);
            self.schedule.end(planned, open);
        }
    }

    /// Without a window that was asked for, it is ignored. One with errors or short transfers is recorded as a problem and
    /// does not count.
    fn take(&mut self, window: &Window) {
        match &window.outcome {
            Ok(measured) => self.observe(measured),
            Err(message) => self.refuse(message),
        }
    }

    fn done(&self) -> f64 {
        self.budget.done()
    }
}

fn requested_ns(probe: &Probe) -> f64 {
    (probe.ramp_ns + probe.window_ns) as f64
}

/// Replays a search from its windows. These do not show whether the search was interrupted: `finished` may differ.
pub fn replay(config: Config, windows: &[Window]) -> Result<LimitReport, String> {
    let mut search = Search::new(config);
    experiment::replay(&mut search, windows)
        .map_err(|index| format!("window {index} is not what this version requests"))?;
    Ok(search.finish())
}

/// Time of a window with its ramp, in nanoseconds, unless stretched.
fn slot_ns(config: &Config) -> f64 {
    if !config.suite.is_empty() {
        let windows = SUITE_ROUNDS * config.suite.len() * config.targets.len().max(1);
        // The rest is for beginning and ending them.
        return (0.9 * config.seconds * 1e9 / windows as f64).clamp(SLOT_MIN_NS, SUITE_MAX_NS);
    }
    let searches = config.targets.len().max(1) * config.blocks.len().max(1);
    let slot = config.seconds * 1e9 / SLOTS / searches as f64;
    slot.clamp(SLOT_MIN_NS, SLOT_MAX_NS)
}

fn budget(config: &Config) -> Budget {
    Budget::new(config.seconds * 1e9, STRETCH_MAX * slot_ns(config))
}

/// All stages in order. Those with several targets start once all targets have had a first round.
fn schedule(config: &Config) -> Schedule<Box<dyn Stage>> {
    fn planned(stage: impl Stage + 'static, weight: f64) -> Planned<Box<dyn Stage>> {
        let stage = Box::new(stage);
        Planned { stage, weight, reserved_ns: None, may_reopen: false, open: true }
    }
    // Short, and the rest is relative to it. Twice the slot leaves time for setup.
    let repeated = |phase, at, windows: usize| Planned {
        reserved_ns: (phase != Phase::Suite).then_some(2.0 * slot_ns(config)),
        ..planned(Repeated { phase, at, turn: 0 }, windows as f64)
    };
    // The peak may move, and what was too noisy may become clear.
    let reopening = |planned| Planned { may_reopen: true, ..planned };
    let mut first = vec![repeated(Phase::Idle, At { target: 0, block: 0 }, 3)];
    let targets = 0..config.targets.len();
    if !config.suite.is_empty() {
        let windows = SUITE_ROUNDS * config.suite.len();
        first
            .extend(targets.map(|target| repeated(Phase::Suite, At { target, block: 0 }, windows)));
        return Schedule::new(first, Vec::new());
    }
    first.push(repeated(Phase::Own, At { target: 0, block: 0 }, 2 * WINDOWS));
    for target in targets {
        for block in 0..config.blocks.len() {
            let at = At { target, block };
            first.extend([
                repeated(Phase::Latency, at, WINDOWS),
                planned(Climb::new(at), 20.0),
                reopening(planned(Confirm::new(at), 3.0)),
                reopening(planned(Counter::new(at, Phase::Counter), 15.0)),
                reopening(planned(Counter::new(at, Phase::CounterOne), 9.0)),
                reopening(planned(Knee::new(at), 20.0)),
            ]);
            first.extend(config.target.map(|wanted| planned(Rated::new(at, wanted), 20.0)));
        }
    }
    let several = (0..config.blocks.len()).filter(|_| config.targets.len() > 1);
    let weight = 4.0 * (config.targets.len() as f64 + 1.0);
    let combined = several.map(|block| planned(CombinedStage::new(block), weight));
    Schedule::new(first, combined.collect())
}

fn probe(request: &WindowRequest, state: &SearchState) -> Probe {
    let (ramp_ns, window_ns) = lengths(request, state);
    let spec = state.config.blocks.get(request.block);
    Probe {
        phase: request.phase,
        loads: request.loads.clone(),
        block_bytes: spec.map_or(1, |spec| spec.block_bytes),
        rw: spec.filter(|_| request.phase != Phase::Own).map_or(Rw::default(), |spec| spec.rw),
        cores: request.cores,
        ramp_ns: ramp_ns as u64,
        window_ns: window_ns as u64,
    }
}

/// Ramp and window in nanoseconds: longer where the target is so slow that a window would have few I/Os, or would
/// begin before the first ones complete.
fn lengths(request: &WindowRequest, state: &SearchState) -> (f64, f64) {
    let slot_ns = slot_ns(&state.config);
    let (ramp, window) = (slot_ns * RAMP_SHARE, slot_ns * (1.0 - RAMP_SHARE));
    if request.phase == Phase::Idle {
        return (0.0, window.max(IDLE_MIN_NS));
    }
    let mut stretched = (ramp, window);
    for load in &request.loads {
        let Some(target) = load.target else { continue };
        let curve = &state.block(At { target, block: request.block }).curve;
        let known = curve.mean(load.setting);
        let rate = if known > 0.0 { known } else { curve.best_mean() };
        let rate = load.iops.map_or(rate, |iops| iops as f64);
        if rate > 0.0 {
            let latency_ns = load.setting.in_flight() as f64 * 1e9 / rate;
            stretched.0 = stretched.0.max(2.0 * latency_ns);
            stretched.1 = stretched.1.max(IOS_WANTED * 1e9 / rate);
        }
    }
    (stretched.0.min(STRETCH_MAX * window), stretched.1.min(STRETCH_MAX * window))
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

pub(crate) fn times(ratio: &Ratio) -> String {
    format!("{:.2}× ({})", ratio.value, ratio.interval())
}
