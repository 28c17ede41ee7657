//! The search: gets the next measurement from the current stage, and applies the stages' results to the state.

use super::protocol::{self, SLOT_MIN_NS};
use super::report::report;
use super::request::{Step, WindowRequest};
use super::stage::Stage;
use super::state::{At, SearchState};
use crate::experiment::{Budget, Planned, Schedule};
use fathom_model::limit::{Config, LimitReport};
use fathom_model::window::{Measurement, Probe, Window};

/// The search for the limits of some targets.
#[derive(Debug)]
pub struct Search {
    state: SearchState,
    schedule: Schedule<Stage>,
    budget: Budget,
    /// The current stage, and the time at which it must end.
    current: Option<(Planned<Stage>, f64)>,
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
            schedule: protocol::schedule(&config),
            budget: protocol::budget(&config),
            state: SearchState::new(config),
            current: None,
            pending: None,
        }
    }

    /// The next window to measure; `None` at the end of the search. Returns the same window until its result is given.
    pub fn next_probe(&mut self) -> Option<Probe> {
        if let Some((_, probe)) = &self.pending {
            return Some(probe.clone());
        }
        loop {
            let (mut planned, until_ns) = match self.current.take() {
                Some(current) => current,
                None => self.schedule.begin(&self.budget)?,
            };
            let open = match planned.stage.next(&self.state) {
                Step::Measure(request) => {
                    let probe = protocol::probe(&request, &self.state);
                    if self.budget.fits(requested_ns(&probe), until_ns) {
                        self.current = Some((planned, until_ns));
                        self.pending = Some((request, probe.clone()));
                        return Some(probe);
                    }
                    true
                }
                Step::Report(event) => {
                    self.state.apply(*event);
                    self.current = Some((planned, until_ns));
                    continue;
                }
                Step::Done => false,
            };
            if let Some(event) = planned.stage.close(&self.state) {
                self.state.apply(event);
            }
            self.schedule.end(planned, open);
        }
    }

    /// Takes the measurement of the window from [`Self::next_probe`]; without one it is ignored. Windows with
    /// errors or short transfers are recorded as problems and do not count.
    pub fn observe(&mut self, window: &Measurement) {
        let Some((request, probe)) = self.pending.take() else { return };
        self.budget.charge_window(requested_ns(&probe), window.took_ns as f64);
        let error = self.add_bad_window(&request, window);
        if let (None, Some((at, setting)), [load]) =
            (&error, request.curve_point(), window.loads.as_slice())
        {
            self.state.add_window(at, setting, window, load);
        }
        self.pass_on(error.as_deref().map_or(Ok(window), Err));
    }

    /// The window from [`Self::next_probe`] could not be measured, for this reason.
    pub fn refuse(&mut self, message: &str) {
        let Some((request, _)) = self.pending.take() else { return };
        // Refusals must take time, or a search that only gets refusals would not end.
        self.budget.charge(SLOT_MIN_NS / 100.0);
        if let Some((at, setting)) = request.curve_point() {
            self.state.refuse(at, setting, message.to_string());
        }
        self.pass_on(Err(message));
    }

    /// The used share of the planned time, from 0 to 1.
    pub fn done(&self) -> f64 {
        self.budget.done()
    }

    /// Ends the search and reports what it found so far.
    pub fn finish(mut self) -> LimitReport {
        // Without a further request, only what did not fit into the time is missing.
        let finished = self.pending.is_none() && self.next_probe().is_none();
        let seconds_planned = self.budget.planned_ns() / 1e9;
        // All stages report what they have, as when the time is up.
        self.budget.close();
        self.pending = None;
        while self.next_probe().is_some() {}
        LimitReport {
            seconds_planned,
            seconds_used: self.budget.used_ns() / 1e9,
            windows: self.budget.windows(),
            finished,
            ..report(&self.state)
        }
    }

    fn pass_on(&mut self, outcome: Result<&Measurement, &str>) {
        if let Some((planned, _)) = &mut self.current
            && let Some(event) = planned.stage.observe(outcome)
        {
            self.state.apply(event);
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

fn requested_ns(probe: &Probe) -> f64 {
    (probe.ramp_ns + probe.window_ns) as f64
}

/// Replays a search from its windows. These do not show whether the search was interrupted: `finished` may differ.
pub fn replay(config: Config, windows: &[Window]) -> Result<LimitReport, String> {
    let mut search = Search::new(config);
    for (n, window) in windows.iter().enumerate() {
        match search.next_probe() {
            Some(probe) if probe == window.probe => {}
            _ => return Err(format!("window {n} is not what this version requests")),
        }
        match &window.outcome {
            Ok(measured) => search.observe(measured),
            Err(message) => search.refuse(message),
        }
    }
    Ok(search.finish())
}
