//! The machine beside a run of fathom's own: what samplers see goes into the run's folder, and what it
//! comes to is told at the end.

use super::Session;
use super::watching::{Watch, Watching};
use crate::stdio::note;
use fathom_analysis::watch::Seen;
use fathom_model::advice::thread_not_created;
use fathom_model::progress::Sample;
use fathom_model::watch::{Level, Stack, WatchRecord};
use fathom_watch::Scope;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// A run that is over before this is not watched: opening the samplers would take longer than it.
const PATIENCE: Duration = Duration::from_millis(250);

/// Watching that goes on beside a run, or none.
pub struct Beside {
    level: Level,
    /// The run's block devices, by kernel name.
    devices: Vec<String>,
    /// When to begin, where that is still to come.
    start_at: Option<Instant>,
    /// Samplers that are being opened, in a thread of their own: the run is not to wait for that.
    opening: Option<Receiver<Result<Watching, String>>>,
    watching: Option<Watching>,
    seen: Seen,
    stacks: Vec<Stack>,
}

fn not_watched(error: &str) {
    note!("the machine is not watched: {error}");
}

/// What a run's end tells of the machine.
pub struct Told {
    /// How it was watched.
    pub record: WatchRecord,
    /// What was seen.
    pub seen: Seen,
    /// The stacks that samples name.
    pub stacks: Vec<Stack>,
}

impl Beside {
    /// Watches by default, after a moment, this process only and the machine's devices; with `full` at
    /// once, and the whole machine. Where that is not possible, the run goes on without.
    #[must_use]
    pub fn new(level: Level, session: &Session) -> Self {
        let start_at = match level {
            Level::Off => None,
            Level::Default => Some(Instant::now() + PATIENCE),
            Level::Full => Some(Instant::now()),
        };
        let mut this = Self {
            level,
            devices: session.devices(),
            start_at,
            opening: None,
            watching: None,
            seen: Seen::default(),
            stacks: Vec::new(),
        };
        this.start_if_due();
        this
    }

    fn start_if_due(&mut self) {
        if self.start_at.take_if(|at| *at <= Instant::now()).is_none() {
            return;
        }
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let scope = match self.level {
            Level::Full => Scope::Machine,
            _ => Scope::Only(vec![own]),
        };
        let watch = Watch {
            level: self.level,
            scope,
            devices: self.devices.clone(),
            interval: INTERVAL,
            beside_run: true,
            ..Watch::default()
        };
        let (opened, opening) = mpsc::channel();
        let open = move || {
            // A run that is over by now wants none.
            let _ = opened.send(Watching::start(&watch));
        };
        match thread::Builder::new().name("fathom-open".into()).spawn(open) {
            Ok(_) => self.opening = Some(opening),
            Err(error) => not_watched(&thread_not_created(&error)),
        }
    }

    fn take_up(&mut self) {
        let Some(opened) = self.opening.as_ref().and_then(|opening| opening.try_recv().ok()) else {
            return;
        };
        self.opening = None;
        self.watching = opened.map_err(|error| not_watched(&error)).ok();
    }

    /// Whether samples come.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.watching.is_some()
    }

    /// The instant from which samples count their time, where they come.
    #[must_use]
    pub fn began(&self) -> Option<Instant> {
        self.watching.as_ref().map(Watching::began)
    }

    /// A sample that is there and was not taken yet.
    pub fn next(&mut self) -> Option<Sample> {
        self.start_if_due();
        self.take_up();
        let sample = self.watching.as_mut()?.next(Duration::ZERO)?;
        self.note(&sample);
        Some(sample)
    }

    /// Ends it; gives the samples that were not taken yet, and all that is known.
    #[must_use]
    pub fn stop(mut self) -> (Vec<Sample>, Option<Told>) {
        let Some(watching) = self.watching.take() else { return (Vec::new(), None) };
        let (samples, record) = watching.stop();
        samples.iter().for_each(|sample| self.note(sample));
        (samples, Some(Told { record, seen: self.seen, stacks: self.stacks }))
    }

    fn note(&mut self, sample: &Sample) {
        self.seen.add(sample);
        self.stacks.extend(sample.machine.stacks.iter().flat_map(|stacks| stacks.new.clone()));
    }
}
