//! Which samplers look, whom they look at, and the thread in which they do.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use fathom_machine::Roots;
use fathom_model::advice::thread_not_created;
use fathom_model::progress::Sample;
use fathom_model::watch::{DeviceWiring, Level, Missing, WatchRecord};
use fathom_watch::blocks::{self, BlockSampler, BlocksError, BlocksOptions, Devices};
use fathom_watch::counters::CounterSampler;
use fathom_watch::disks::DiskSampler;
use fathom_watch::placement::{self, PlacementSampler};
use fathom_watch::rings::RingSampler;
use fathom_watch::system::SystemSampler;
use fathom_watch::threads::{self, ThreadOptions, ThreadSampler};
use fathom_watch::{Clock, EachIo, Sampler, Scope, StackSampler, StackSettings, Watched, Watcher};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

/// One part in so many of the machine's processor time may go into looking at all its threads.
const PART_DEFAULT: u64 = 200;
const PART_FULL: u64 = 50;
/// What a look at a thread is allowed to take, which is more than it was seen to; and where the kernel
/// tells of all at once.
const THREAD_NS: u64 = 12_000;
const AT_ONCE_NS: u64 = 3_000;
/// For how long the names of stacks may wait while a run has all processors.
const NAMES: Duration = Duration::from_secs(10);

/// Reads a level on the command line.
#[must_use]
pub fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::NAMES.map(|(name, _)| name)).map(|given| {
        let named = Level::NAMES.iter().find(|(name, _)| *name == given);
        named.map_or_else(Level::default, |(_, level)| *level)
    })
}

/// What is to be watched, and how.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// How much.
    pub level: Level,
    /// Whose threads, stacks and rings; processors, disks and the block layer are always the machine's.
    pub scope: Scope,
    /// Kernel names of the block devices that matter most; those with the most I/Os come after them.
    pub devices: Vec<String>,
    /// Between two samples.
    pub interval: Duration,
    /// Looks at threads per second; what suits level and machine if absent.
    pub threads_hz: Option<u32>,
    /// Samples of stacks per second and processor; what suits the level if absent.
    pub stacks_hz: Option<u32>,
    /// It goes on beside a run of fathom's own, which counts instructions in a window of its own, and which
    /// the names of stacks are to wait for.
    pub beside_run: bool,
    /// Whether `full` sees what comes with each I/O all the time, not for a part of it.
    pub each_io: bool,
}

impl Watch {
    /// The processes at the roots of what is watched; none for the machine.
    fn pids(&self) -> &[i32] {
        match &self.scope {
            Scope::Trees(pids) | Scope::Only(pids) => pids,
            Scope::Machine | Scope::Matching { .. } => &[],
        }
    }
}

/// Samplers that look.
pub struct Watching {
    watcher: Watcher,
    began: Instant,
    record: WatchRecord,
}

impl Watching {
    /// Starts to watch.
    ///
    /// # Errors
    /// When no thread can be made. What cannot be seen is no error: it is in the record.
    pub fn start(watch: &Watch) -> Result<Self, String> {
        let Opened { samplers, missing } = open(watch);
        let record = WatchRecord {
            interval_ns: watch.interval.as_nanos() as u64,
            level: watch.level,
            pids: watch.pids().to_vec(),
            missing,
            wiring: wiring(watch.level),
            ..WatchRecord::default()
        };
        let began = Instant::now();
        let watcher =
            Watcher::start(samplers, watch.interval).map_err(|error| thread_not_created(&error))?;
        Ok(Self { watcher, began, record })
    }

    /// The instant from which samples count their time.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// How it is watched, as far as is known.
    #[must_use]
    pub fn record(&self) -> &WatchRecord {
        &self.record
    }

    /// Whether no more samples come, as a sampler panicked.
    #[must_use]
    pub fn has_broken(&self) -> bool {
        self.watcher.has_broken()
    }

    /// The next sample that is not taken yet, where one comes within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Sample> {
        match self.watcher.samples.recv_timeout(patience) {
            Ok(watched) => Some(sample(watched, self.began)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(patience);
                None
            }
        }
    }

    /// Ends watching; gives the samples that were not taken yet, and what it cost.
    #[must_use]
    pub fn stop(mut self) -> (Vec<Sample>, WatchRecord) {
        if self.watcher.has_broken() {
            self.record.missing.push(Missing {
                what: "all that came later".into(),
                why: "the thread that watches has panicked, which is a fault of fathom".into(),
                allow: "please report it with what it printed".into(),
            });
        }
        let rest = self.watcher.stop();
        let mut samples = Vec::new();
        for watched in rest {
            self.record.cost.clone_from(&watched.machine.cost);
            self.record.intervals_joined = watched.machine.intervals_joined;
            samples.push(sample(watched, self.began));
        }
        (samples, self.record)
    }
}

fn sample(watched: Watched, began: Instant) -> Sample {
    let since = watched.at.elapsed().as_nanos() as u64;
    Sample {
        elapsed_ns: watched.at.saturating_duration_since(began).as_nanos() as u64,
        unix_ns: fathom_engine::clock::unix_ns().saturating_sub(since),
        jobs: Vec::new(),
        machine: watched.machine,
    }
}

/// Which processors and interrupts serve the devices.
fn wiring(level: Level) -> Vec<DeviceWiring> {
    if level == Level::Full { placement::wiring(&Roots::default().sys, &[]) } else { Vec::new() }
}

/// Samplers, and what none of them can see.
#[derive(Default)]
struct Opened {
    samplers: Vec<Box<dyn Sampler>>,
    missing: Vec<Missing>,
}

fn open(watch: &Watch) -> Opened {
    let (roots, mut opened) = (Roots::default(), Opened::default());
    if watch.level == Level::Off {
        return opened;
    }
    let (proc, sys) = (&roots.proc, &roots.sys);
    let full = watch.level == Level::Full;
    let pid = watch.pids().first().copied();
    let system = SystemSampler::open(proc, sys, pid).map_err(missing("processors and memory"));
    opened.add(system, SystemSampler::missing);
    opened.add(DiskSampler::open(proc, sys).map_err(missing("disks")), |_| &[]);
    let options = ThreadOptions {
        proc_root: proc.clone(),
        scope: watch.scope.clone(),
        hz: watch.threads_hz.unwrap_or(threads::HZ),
        urgent: !watch.beside_run,
        ..ThreadOptions::default()
    };
    let threads = ThreadSampler::open(options).map(|mut threads| {
        if watch.threads_hz.is_none() && watch.scope == Scope::Machine {
            threads.set_hz(affordable_hz(&threads, full));
        }
        threads
    });
    opened.add(threads.map_err(missing("threads")), ThreadSampler::missing);
    let stacks = StackSampler::open(&stack_settings(watch), proc, sys);
    opened.add(stacks, StackSampler::missing);
    let each_io = match (full, watch.each_io) {
        (false, _) => EachIo::Never,
        (true, false) => EachIo::Partly,
        (true, true) => EachIo::Always,
    };
    let options = BlocksOptions {
        devices: Devices::Busiest { first: watch.devices.clone() },
        one_in: blocks::ONE_IN,
        each_io,
    };
    let blocks = BlockSampler::open(proc, sys, &options).map_err(|error| match error {
        BlocksError::Missing(missing) => missing,
        error => missing("the block layer's events")(error),
    });
    opened.add(blocks, BlockSampler::missing);
    let rings = RingSampler::open(proc, watch.scope.clone());
    let rings = rings.map(|rings| rings.with_events(sys, each_io)).map_err(missing("io_uring"));
    opened.add(rings, RingSampler::missing);
    if full || !watch.beside_run {
        opened.add(counters(watch, &roots), CounterSampler::missing);
    }
    if each_io != EachIo::Never {
        opened.add(PlacementSampler::open(proc, sys, &[], each_io), |_| &[]);
    }
    opened
}

/// A timer's interrupt slows what runs, and cycle counters that are on do on some virtual machines. A run's own
/// threads can do without both, by ticks; the whole machine has less of them beside a run.
fn stack_settings(watch: &Watch) -> StackSettings {
    let own_run = watch.beside_run && watch.scope != Scope::Machine;
    let hz = match (watch.level, watch.beside_run) {
        (Level::Full, false) => 99,
        (Level::Full, true) => 29,
        _ => 49,
    };
    StackSettings {
        hz: watch.stacks_hz.unwrap_or(hz),
        scope: watch.scope.clone(),
        clock: if own_run { Clock::Tick } else { Clock::Timer },
        patience: if watch.beside_run { NAMES } else { Duration::ZERO },
        ..StackSettings::default()
    }
}

/// Events of processes are switched with their threads, those of processors cost them nothing.
fn counters(watch: &Watch, roots: &Roots) -> Result<CounterSampler, Missing> {
    let whom = if watch.level == Level::Full { &watch.scope } else { &Scope::Machine };
    CounterSampler::open(&roots.proc, &roots.sys, whom, !watch.beside_run)
}

impl Opened {
    fn add<S: Sampler + 'static>(
        &mut self,
        sampler: Result<S, Missing>,
        missing: impl Fn(&S) -> &[Missing],
    ) {
        match sampler {
            Ok(sampler) => {
                self.missing.extend_from_slice(missing(&sampler));
                self.samplers.push(Box::new(sampler));
            }
            Err(missing) => self.missing.push(missing),
        }
    }
}

fn missing<E: std::error::Error>(what: &str) -> impl Fn(E) -> Missing {
    move |error| Missing { what: what.into(), why: error.to_string(), allow: String::new() }
}

/// How often the threads of a whole machine are looked at: as often as the part of its processor time
/// allows that is meant for it.
fn affordable_hz(threads: &ThreadSampler, full: bool) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let each_ns = if threads.is_at_once() { AT_ONCE_NS } else { THREAD_NS };
    let part = if full { PART_FULL } else { PART_DEFAULT };
    affordable(threads.threads() as u64 * each_ns, cpus, part)
}

/// Looks per second that cost `look_ns` each, in one part in `part` of the time of `cpus` processors.
fn affordable(look_ns: u64, cpus: u64, part: u64) -> u32 {
    let hz = cpus * 1_000_000_000 / part / look_ns.max(1);
    u32::try_from(hz).unwrap_or(u32::MAX).clamp(1, threads::HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_large_machines_are_looked_at_less_often() {
        let hz = |threads: u64, cpus| affordable(threads * THREAD_NS, cpus, PART_DEFAULT);
        assert_eq!(hz(20, 2), threads::HZ);
        assert_eq!((hz(200, 2), hz(400, 2), hz(100_000, 2)), (4, 2, 1));
        assert_eq!(hz(2000, 64), 13);
        assert_eq!(affordable(0, 1, PART_DEFAULT), threads::HZ);
    }

    #[test]
    fn every_sampler_looks_or_says_why_not() {
        let watch = |level| Watch { level, interval: Duration::from_secs(1), ..Watch::default() };
        let full = open(&watch(Level::Full));
        let names: Vec<&str> = full.samplers.iter().map(|sampler| sampler.name()).collect();
        for name in ["system", "disks", "threads"] {
            assert!(names.contains(&name), "{name}: {names:?} {:?}", full.missing);
        }
        assert!(names.len() == 8 || !full.missing.is_empty(), "{names:?}");
        assert!(full.missing.iter().all(|missing| !missing.why.is_empty()));
        assert!(open(&watch(Level::Off)).samplers.is_empty());
    }
}
