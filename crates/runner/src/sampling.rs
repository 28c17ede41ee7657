//! The machine's samplers: which ones run, on which processes, how often, and the thread that runs them.

use fathom_machine::Roots;
use fathom_model::advice::thread_not_created;
use fathom_model::facts::DeviceFacts;
use fathom_model::plan::JobPlan;
use fathom_model::progress::Sample;
use fathom_model::watch::{
    DeviceWiring, Level, MachineProbes, SampledView, SamplingRecord, Unavailable,
};
use fathom_store::{load_probes, save_probes};
use fathom_watch::blocks::{self, BlockSampler, BlocksError, BlocksOptions, Devices};
use fathom_watch::counters::CounterSampler;
use fathom_watch::disks::DiskSampler;
use fathom_watch::placement::PlacementSampler;
use fathom_watch::rings::RingSampler;
use fathom_watch::system::SystemSampler;
use fathom_watch::threads::{self, ThreadOptions, ThreadSampler};
use fathom_watch::{
    CallSampler, Clock, OffCpuSampler, PLAIN_SAMPLERS, ProcessSampler, Sampler, Scope,
    StackSampler, StackSettings, TimedSample, TraceCoverage, Watcher, timer_interrupt_ns,
};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const NEEDS_PROC: &str =
    "fathom needs /proc to observe anything; mount it: mount -t proc proc /proc";
/// Sampling all threads may use one part in this many of the machine's CPU time.
const PART_DEFAULT: u64 = 200;
const PART_FULL: u64 = 50;
/// Upper bounds of the CPU time that a sample of one thread takes: through its files, and through the BPF iterator over
/// all threads.
const THREAD_NS: u64 = 12_000;
const AT_ONCE_NS: u64 = 3_000;
/// Timer interrupts may take one part in this many of a busy CPU's time: beside a run, whose workers they delay, and
/// otherwise.
const INTERRUPTS_PART_BESIDE: f64 = 100.0;
const INTERRUPTS_PART: f64 = 50.0;
/// Stack samples per second and busy CPU where interrupts are cheap; beside other work at 100 Hz, 99 is not in lockstep.
const STACKS_HZ: u32 = 99;
/// How long the symbols of stacks may wait while a run uses all CPUs.
const SYMBOLS_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub struct SamplingOptions {
    pub level: Level,
    /// Whose threads, stacks and rings; CPUs, disks and the block layer are always the whole machine's.
    pub scope: Scope,
    /// Kernel names of the block devices to trace first, before the busiest others.
    pub devices: Vec<String>,
    pub interval: Duration,
    /// Thread samples per second; the default depends on the level and the machine.
    pub threads_hz: Option<u32>,
    /// Stack samples per second and CPU; the default depends on the level.
    pub stacks_hz: Option<u32>,
    /// Whether fathom's own workers run, which must not be slowed: hardware counters are then read in a separate window,
    /// and symbols are resolved while CPUs are idle.
    pub during_run: bool,
    /// Whether they pause between I/Os: samples that were late, with an interrupt of theirs, would always find them at work.
    pub is_paced: bool,
    /// Whether `full` traces every I/O instead of part of the time.
    pub each_io: bool,
    /// Whether processes at the other end of the watched ones' pipes and sockets have no account.
    pub ignores_peers: bool,
    pub sources: Sources,
    /// The view for which they run, if it is not that of `fathom watch`.
    pub view: Option<SampledView>,
}

#[derive(Debug, Clone, Default)]
pub enum Sources {
    /// All that the level includes and the machine has.
    #[default]
    All,
    Threads(ThreadOptions),
    Stacks(StackSettings),
    /// Also the disks' counters.
    Blocks(BlocksOptions),
}

impl SamplingOptions {
    fn pids(&self) -> &[i32] {
        match &self.scope {
            Scope::Trees(pids) | Scope::Only(pids) => pids,
            Scope::Machine | Scope::Matching { .. } => &[],
        }
    }
}

pub struct Sampling {
    watcher: Watcher,
    began: Instant,
    record: SamplingRecord,
}

impl Sampling {
    pub fn start(options: &SamplingOptions) -> Result<Self, String> {
        // A run that cannot be sampled is a run all the same; without one, every figure would be 0.
        let is_observable = options.during_run || Roots::default().proc.join("self/stat").exists();
        if !is_observable && options.level != Level::Off {
            return Err(NEEDS_PROC.into());
        }
        let Opened { samplers, missing } = match &options.sources {
            Sources::All => open(options),
            one => Opened::one(one)?,
        };
        let record = SamplingRecord {
            interval_ns: options.interval.as_nanos() as u64,
            level: options.level,
            pids: options.pids().to_vec(),
            missing,
            wiring: wiring(options),
            devices: devices(options),
            view: options.view.clone(),
            ..SamplingRecord::default()
        };
        let began = Instant::now();
        let watcher = Watcher::start(samplers, options.interval)
            .map_err(|error| thread_not_created(&error))?;
        Ok(Self { watcher, began, record })
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    pub fn record(&self) -> &SamplingRecord {
        &self.record
    }

    /// Whether a sampler panicked, so that no more samples arrive.
    pub fn has_panicked(&self) -> bool {
        self.watcher.has_panicked()
    }

    /// The next sample, if one arrives within `patience`.
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

    /// Ends sampling; returns the remaining samples, and how the machine was sampled.
    pub fn stop(mut self) -> (Vec<Sample>, SamplingRecord) {
        if self.watcher.has_panicked() {
            self.record.missing.push(Unavailable {
                source: "everything after this".into(),
                reason: "the sampling thread panicked, which is a bug in fathom".into(),
                remedy: "please report it with the message it printed".into(),
            });
        }
        let rest = self.watcher.stop();
        let mut samples = Vec::new();
        for watched in rest {
            self.record.cost.clone_from(&watched.machine.cost);
            self.record.intervals_merged = watched.machine.intervals_merged;
            samples.push(sample(watched, self.began));
        }
        (samples, self.record)
    }
}

fn sample(watched: TimedSample, began: Instant) -> Sample {
    let since = watched.at.elapsed().as_nanos() as u64;
    Sample {
        elapsed_ns: watched.at.saturating_duration_since(began).as_nanos() as u64,
        unix_ns: fathom_engine::clock::unix_ns().saturating_sub(since),
        jobs: Vec::new(),
        machine: watched.machine,
    }
}

/// Ticks per second on most kernels (`CONFIG_HZ`); where there are more, some are left out.
const TICK_HZ: u32 = 250;

/// A run has the topology of its own disks among its facts.
fn wiring(options: &SamplingOptions) -> Vec<DeviceWiring> {
    match options.level {
        Level::Off => Vec::new(),
        Level::Default if options.during_run || !matches!(options.sources, Sources::All) => {
            Vec::new()
        }
        Level::Default | Level::Full => fathom_machine::topology::wiring(&Roots::default(), &[]),
    }
}

fn devices(options: &SamplingOptions) -> Vec<DeviceFacts> {
    match &options.sources {
        Sources::All if options.level == Level::Off => Vec::new(),
        Sources::All | Sources::Blocks(_) => fathom_machine::device::disks(&Roots::default()),
        Sources::Threads(_) | Sources::Stacks(_) => Vec::new(),
    }
}

#[derive(Default)]
struct Opened {
    samplers: Vec<Box<dyn Sampler>>,
    missing: Vec<Unavailable>,
}

fn open(options: &SamplingOptions) -> Opened {
    let (roots, mut opened) = (Roots::default(), Opened::default());
    if options.level == Level::Off {
        return opened;
    }
    let stored = load_probes(&fathom_machine::boot_id(&roots).unwrap_or_default());
    let mut probes = stored.clone();
    let (proc, sys) = (&roots.proc, &roots.sys);
    let full = options.level == Level::Full;
    let pid = options.pids().first().copied();
    let system = SystemSampler::open(proc, sys, pid).map_err(missing("CPUs and memory"));
    opened.add(system, SystemSampler::missing);
    for (what, open) in PLAIN_SAMPLERS {
        match open(proc, sys) {
            Ok(sampler) => opened.samplers.push(sampler),
            Err(error) => opened.missing.push(missing(what)(error)),
        }
    }
    let thread_options = ThreadOptions {
        proc_root: proc.clone(),
        scope: options.scope.clone(),
        hz: options.threads_hz.unwrap_or(threads::HZ),
        urgent: !options.during_run || options.is_paced,
        ..ThreadOptions::default()
    };
    let threads = ThreadSampler::open(thread_options).map(|mut threads| {
        if options.threads_hz.is_none() && options.scope == Scope::Machine {
            threads.set_hz(affordable_hz(&threads, full));
        }
        threads
    });
    opened.add(threads.map_err(missing("threads")), ThreadSampler::missing);
    // During a run, all other programs compete with this one.
    let own = || Scope::Only(vec![i32::try_from(std::process::id()).unwrap_or(i32::MAX)]);
    let watched = if options.during_run { own() } else { options.scope.clone() };
    let processes = ProcessSampler::open(proc, watched).map(|processes| match options.during_run {
        true => processes.without_files(),
        false => processes,
    });
    opened.add(processes.map_err(missing("processes")), |_| &[]);
    let stacks = StackSampler::open(&stack_settings(options, &mut probes), proc, sys);
    opened.add(stacks, StackSampler::missing);
    let each_io = match (full, options.each_io) {
        (false, _) => TraceCoverage::Off,
        (true, false) => TraceCoverage::DutyCycle,
        (true, true) => TraceCoverage::Full,
    };
    let block_options = BlocksOptions {
        devices: Devices::Busiest { first: options.devices.clone() },
        one_in: blocks::ONE_IN,
        each_io,
    };
    let blocks = BlockSampler::open(proc, sys, &block_options).map_err(|error| match error {
        BlocksError::Unavailable(missing) => missing,
        error => missing("block layer events")(error),
    });
    opened.add(blocks, BlockSampler::missing);
    if full {
        // Beside a run, only its own calls are of interest.
        let whose = if options.during_run { own() } else { options.scope.clone() };
        opened.add(CallSampler::open(proc, sys, &whose), |_| &[]);
        // Beside a run, whose every I/O may be a context switch, samples have to do.
        if whose != Scope::Machine && !options.during_run {
            opened.add(OffCpuSampler::open(proc, sys, &whose, !options.ignores_peers), |_| &[]);
        }
    }
    let rings = RingSampler::open(proc, options.scope.clone());
    let rings = rings.map(|rings| rings.with_events(sys, each_io)).map_err(missing("io_uring"));
    opened.add(rings, RingSampler::missing);
    if full || !options.during_run {
        opened.add(counters(options, &roots, &mut probes), CounterSampler::missing);
    }
    if each_io != TraceCoverage::Off {
        opened.add(PlacementSampler::open(proc, sys, &[], each_io), |_| &[]);
    }
    if probes != stored && !probes.boot_id.is_empty() {
        // Otherwise they are measured again.
        let _ = save_probes(&probes);
    }
    opened
}

/// Timer interrupts slow the workers, and so do enabled cycle counters on some virtual machines. A run's own threads
/// are sampled on scheduler ticks, which need neither; the whole machine as often as the measured cost of
/// an interrupt permits.
fn stack_settings(options: &SamplingOptions, probes: &mut MachineProbes) -> StackSettings {
    let own_run = options.during_run && options.scope != Scope::Machine;
    let hz = match options.stacks_hz {
        Some(hz) => hz,
        None if own_run => TICK_HZ,
        None => {
            // Where timers are not permitted, there are no samples either.
            let cost_ns = probes.timer_interrupt_ns.or_else(|| timer_interrupt_ns().ok());
            probes.timer_interrupt_ns = cost_ns;
            stacks_hz(cost_ns.unwrap_or(0.0), options.during_run)
        }
    };
    StackSettings {
        hz,
        scope: options.scope.clone(),
        clock: if own_run { Clock::Tick } else { Clock::Timer },
        patience: if options.during_run { SYMBOLS_DELAY } else { Duration::ZERO },
        ..StackSettings::default()
    }
}

/// Per-process events are switched at every context switch, which costs time; per-CPU events are not.
fn counters(
    options: &SamplingOptions,
    roots: &Roots,
    probes: &mut MachineProbes,
) -> Result<CounterSampler, Unavailable> {
    let whom = if options.level == Level::Full { &options.scope } else { &Scope::Machine };
    CounterSampler::open(&roots.proc, &roots.sys, whom, !options.during_run, probes)
}

/// Samples per second of a busy CPU whose timer interrupts take `cost_ns` each.
fn stacks_hz(cost_ns: f64, during_run: bool) -> u32 {
    let part = if during_run { INTERRUPTS_PART_BESIDE } else { INTERRUPTS_PART };
    let hz = 1e9 / part / cost_ns.max(1.0);
    (hz as u32).clamp(1, STACKS_HZ)
}

impl Opened {
    fn one(source: &Sources) -> Result<Self, String> {
        let (Roots { proc, sys, .. }, mut opened) = (Roots::default(), Self::default());
        match source {
            Sources::All => {}
            Sources::Threads(options) => {
                let sampler = ThreadSampler::open(options.clone());
                let sampler = sampler.map_err(|e| format!("cannot sample threads: {e}"))?;
                if sampler.processes() == 0 && options.scope != Scope::Machine {
                    return Err("no such process, or it is not visible to this user".into());
                }
                opened.add(Ok(sampler), ThreadSampler::missing);
            }
            Sources::Stacks(settings) => {
                let sampler = StackSampler::open(settings, &proc, &sys);
                opened.add(Ok(sampler.map_err(|e| e.to_string())?), StackSampler::missing);
            }
            Sources::Blocks(options) => {
                let sampler = BlockSampler::open(&proc, &sys, options);
                opened.add(Ok(sampler.map_err(|e| e.to_string())?), BlockSampler::missing);
                let disks = DiskSampler::open(&proc, &sys);
                opened.add(disks.map_err(missing("await of all requests")), |_| &[]);
            }
        }
        Ok(opened)
    }

    fn add<S: Sampler + 'static>(
        &mut self,
        sampler: Result<S, Unavailable>,
        missing: impl Fn(&S) -> &[Unavailable],
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

fn missing<E: std::error::Error>(what: &str) -> impl Fn(E) -> Unavailable {
    move |error| Unavailable {
        source: what.into(),
        reason: error.to_string(),
        remedy: String::new(),
    }
}

/// The rate at which all threads of the machine can be sampled within the budget of CPU time.
fn affordable_hz(threads: &ThreadSampler, full: bool) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let each_ns = if threads.is_at_once() { AT_ONCE_NS } else { THREAD_NS };
    let part = if full { PART_FULL } else { PART_DEFAULT };
    affordable(threads.threads() as u64 * each_ns, cpus, part)
}

/// Samples per second that cost `sample_ns` each, in one part in `part` of the time of `cpus` CPUs.
fn affordable(sample_ns: u64, cpus: u64, part: u64) -> u32 {
    let hz = cpus * 1_000_000_000 / part / sample_ns.max(1);
    u32::try_from(hz).unwrap_or(u32::MAX).clamp(1, threads::HZ)
}

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

pub(crate) fn during_run(level: Level, jobs: &[JobPlan], devices: Vec<String>) -> SamplingOptions {
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
        is_paced: jobs.iter().any(|job| job.is_paced() || job.think.is_some()),
        ..SamplingOptions::default()
    }
}

impl BackgroundSampling {
    pub fn start(options: &SamplingOptions) -> Result<Self, String> {
        Ok(Self { running: Some(Sampling::start(options)?), ..Self::default() })
    }

    /// By default starts after a delay and covers only this process and `devices`; with `full`, starts immediately and
    /// covers the whole machine.
    pub fn beside_load(level: Level, jobs: &[JobPlan], devices: Vec<String>) -> Self {
        let start_at = match level {
            Level::Off => None,
            Level::Default => Some(Instant::now() + DELAY),
            Level::Full => Some(Instant::now()),
        };
        let options = during_run(level, jobs, devices);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_large_machines_are_sampled_less_often() {
        let hz = |threads: u64, cpus| affordable(threads * THREAD_NS, cpus, PART_DEFAULT);
        assert_eq!(hz(20, 2), threads::HZ);
        assert_eq!((hz(200, 2), hz(400, 2), hz(100_000, 2)), (4, 2, 1));
        assert_eq!(hz(2000, 64), 13);
        assert_eq!(affordable(0, 1, PART_DEFAULT), threads::HZ);
    }

    #[test]
    fn expensive_interrupts_are_taken_less_often() {
        assert_eq!([0.0, 5_000.0, 100_000.0].map(|ns| stacks_hz(ns, true)), [99, 99, 99]);
        assert_eq!([200_000.0, 400_000.0].map(|ns| stacks_hz(ns, true)), [50, 25]);
        assert_eq!(stacks_hz(400_000.0, false), 50);
        assert_eq!(stacks_hz(1e12, true), 1);
    }

    #[test]
    fn every_sampler_runs_or_says_why_not() {
        let watch = |level| SamplingOptions {
            level,
            interval: Duration::from_secs(1),
            ..SamplingOptions::default()
        };
        let full = open(&watch(Level::Full));
        let names: Vec<&str> = full.samplers.iter().map(|sampler| sampler.name()).collect();
        for name in ["system", "disks", "threads", "processes"] {
            assert!(names.contains(&name), "{name}: {names:?} {:?}", full.missing);
        }
        assert!(names.len() >= 10 || !full.missing.is_empty(), "{names:?}");
        assert!(full.missing.iter().all(|missing| !missing.reason.is_empty()));
        assert!(open(&watch(Level::Off)).samplers.is_empty());
    }
}
