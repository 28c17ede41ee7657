//! Sampling of the machine during a run.

use crate::sampling::{Sampling, SamplingOptions};
use fathom_model::advice::thread_not_created;
use fathom_model::progress::Sample;
use fathom_model::watch::{Level, SamplingRecord};
use fathom_watch::Scope;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);
/// Runs shorter than this are not sampled: opening the samplers would take longer.
const DELAY: Duration = Duration::from_millis(250);

/// Samplers that are running, or will once they are open; none by default.
#[derive(Default)]
pub struct BackgroundSampling {
    options: SamplingOptions,
    /// When to start, until then.
    start_at: Option<Instant>,
    /// Samplers being opened in a separate thread, so that the run does not wait.
    opening: Option<Receiver<Result<Sampling, String>>>,
    pub running: Option<Sampling>,
    /// Why there is no sampling, until it is reported.
    error: Option<String>,
}

pub(crate) fn during_run(level: Level, devices: Vec<String>) -> SamplingOptions {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let scope = match level {
        Level::Full => Scope::Machine,
        _ => Scope::Only(vec![own]),
    };
    SamplingOptions {
        level,
        scope,
        devices,
        interval: INTERVAL,
        during_run: true,
        ..SamplingOptions::default()
    }
}

impl BackgroundSampling {
    pub fn start(options: &SamplingOptions) -> Result<Self, String> {
        Ok(Self { running: Some(Sampling::start(options)?), ..Self::default() })
    }

    /// By default starts after a delay and covers only this process and `devices`; with `full`, starts immediately and
    /// covers the whole machine.
    pub fn beside_load(level: Level, devices: Vec<String>) -> Self {
        let start_at = match level {
            Level::Off => None,
            Level::Default => Some(Instant::now() + DELAY),
            Level::Full => Some(Instant::now()),
        };
        let options = during_run(level, devices);
        let mut this = Self { options, start_at, ..Self::default() };
        this.start_if_due();
        this
    }

    fn start_if_due(&mut self) {
        if self.start_at.take_if(|at| *at <= Instant::now()).is_none() {
            return;
        }
        let options = self.options.clone();
        let (opened, opening) = mpsc::channel();
        let open = move || {
            // The run may have ended meanwhile.
            let _ = opened.send(Sampling::start(&options));
        };
        match thread::Builder::new().name("fathom-open".into()).spawn(open) {
            Ok(_) => self.opening = Some(opening),
            Err(error) => self.error = Some(thread_not_created(&error)),
        }
    }

    fn take_opened(&mut self) {
        let Some(opened) = self.opening.as_ref().and_then(|opening| opening.try_recv().ok()) else {
            return;
        };
        self.opening = None;
        match opened {
            Ok(sampling) => self.running = Some(sampling),
            Err(error) => self.error = Some(error),
        }
    }

    /// Why the machine is not sampled; returned once.
    pub fn take_error(&mut self) -> Option<String> {
        self.error.take()
    }

    /// The next sample, if there is one within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Sample> {
        self.start_if_due();
        self.take_opened();
        self.running.as_mut()?.next(patience)
    }

    /// Stops sampling; returns the remaining samples, and how the machine was sampled.
    pub fn stop(&mut self) -> (Vec<Sample>, Option<SamplingRecord>) {
        let stopped = std::mem::take(self).running.map(Sampling::stop);
        stopped.map_or_else(Default::default, |(samples, record)| (samples, Some(record)))
    }
}
