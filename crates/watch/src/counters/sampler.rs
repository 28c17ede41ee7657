//! Performance counters of CPUs or processes over a whole recording.

use super::events::{
    CpuMode, EventCode, EventPairs, EventScope, HardwareEvents, open_event, refused,
};
use super::overhead;
use crate::perf::{EventTarget, PerfEvent, bindings as perf, online_cpus};
use crate::proc_file::numbers;
use crate::{Sampler, Scope};
use fathom_model::watch::{
    Counted, CountersSample, CountingCost, MachineProbes, MachineSample, Unavailable,
};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Length of a counting window, if hardware events are counted in windows.
const WINDOW: Duration = Duration::from_millis(20);
/// One window in this many is counted: a load that counting slows down four times loses 4%.
const ONE_IN: u32 = 20;
/// Acceptable overhead per context switch, in nanoseconds, for per-CPU events: 1% at 20,000 context
/// switches per second.
const CPU_MOST_NS: f64 = 500.0;
/// Acceptable overhead of per-process events, which are switched with the thread: a share of the time.
const PROCESS_SHARE_MAX: f64 = 0.01;

/// Counts instructions, cycles, cache misses, context switches and page faults of each CPU or of
/// processes. If the measured overhead per context switch is too high, CPUs are counted in short windows, and
/// processes only until their context switches have made it so: what was counted by then is extrapolated.
#[derive(Debug)]
pub struct CounterSampler {
    groups: Vec<CounterGroup>,
    windows: Option<CounterWindows>,
    processes: Option<ProcessCost>,
    missing: Vec<Unavailable>,
}

#[derive(Debug, Default)]
struct CounterWindows {
    samples: u32,
}

/// What counting processes has cost.
#[derive(Debug)]
struct ProcessCost {
    added_ns: f64,
    began: Instant,
    at: Instant,
    switches: u64,
    /// How long was counted, once that has ended.
    counted: Option<Duration>,
}

#[derive(Debug)]
struct CounterGroup {
    cpu: Option<u32>,
    pid: Option<i32>,
    software: SoftwareEvents,
    hardware: Option<HardwareEvents>,
}

impl CounterSampler {
    /// Counts each CPU for [`Scope::Machine`]; otherwise the processes that are in the scope now,
    /// with all threads and processes that they create later. `hardware`: whether to use the CPU's
    /// counters at all; `probes`: what they cost on this machine, measured here if unknown.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        hardware: bool,
        probes: &mut MachineProbes,
    ) -> Result<Self, Unavailable> {
        let kinds = hardware.then_some(&EventPairs::HARDWARE);
        Self::open_with(proc_root, sys_root, scope, kinds, probes)
    }

    fn open_with(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        kinds: Option<&EventPairs>,
        probes: &mut MachineProbes,
    ) -> Result<Self, Unavailable> {
        let mut this = Self::of(proc_root, sys_root, scope, kinds)?;
        let (by_cpu, hardware) = (*scope == Scope::Machine, this.has_hardware());
        if by_cpu && !hardware {
            // Software events of a CPU add nothing to a context switch.
            return Ok(this);
        }
        let known = if by_cpu { &mut probes.cpu_counting } else { &mut probes.process_counting };
        let cost = match *known {
            Some(known) if hardware => Ok(known),
            _ => overhead::measure(by_cpu, |of| attach(of, kinds)),
        };
        // Software events alone cost less.
        if hardware {
            *known = cost.as_ref().ok().copied();
        }
        if !by_cpu {
            let added_ns = cost.map_or(0.0, |cost| cost.added_ns);
            this.processes = Some(ProcessCost::new(added_ns));
        } else if let Some(why) = too_expensive(&cost) {
            this.windows = Some(CounterWindows::default());
            this.missing.push(fallback(&why));
        }
        if this.windows.is_none() {
            this.enable_hardware(true);
        }
        Ok(this)
    }

    fn of(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        kinds: Option<&EventPairs>,
    ) -> Result<Self, Unavailable> {
        let targets = targets(proc_root, sys_root, scope).map_err(|error| Unavailable {
            source: WHAT.into(),
            reason: error.to_string(),
            remedy: String::new(),
        })?;
        let (mut groups, mut missing) = (Vec::with_capacity(targets.len()), Vec::new());
        for target in targets {
            groups.extend(CounterGroup::open(target, kinds, &mut missing)?);
        }
        Ok(Self { groups, windows: None, processes: None, missing })
    }

    pub fn missing(&self) -> &[Unavailable] {
        &self.missing
    }

    fn has_hardware(&self) -> bool {
        self.groups.iter().any(|group| group.hardware.is_some())
    }

    fn enable_hardware(&self, on: bool) {
        for hardware in self.groups.iter().filter_map(|group| group.hardware.as_ref()) {
            // On failure nothing is counted, which shows in `running_ns`.
            let _ = if on { hardware.enable() } else { hardware.disable() };
        }
    }
}

impl Sampler for CounterSampler {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn period(&self) -> Option<Duration> {
        self.windows.is_some().then_some(WINDOW)
    }

    fn sample(&mut self) {
        let Some(windows) = &mut self.windows else { return };
        let position = windows.samples % ONE_IN;
        windows.samples = windows.samples.wrapping_add(1);
        if position < 2 {
            self.enable_hardware(position == 0);
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let mut counters = CountersSample::default();
        let factor = self.processes.as_ref().and_then(ProcessCost::factor);
        for group in &self.groups {
            // Unreadable counters are omitted.
            let Ok(mut counted) = group.read(self.windows.is_some()) else { continue };
            if let Some(factor) = factor {
                extrapolate(&mut counted, factor);
            }
            match counters
                .of
                .last_mut()
                .filter(|last| last.pid.is_some() && last.pid == counted.pid)
            {
                Some(last) => *last = last.combine(&counted, u64::saturating_add),
                None => counters.of.push(counted),
            }
        }
        if let Some(cost) = &mut self.processes
            && cost.is_too_high(&counters)
        {
            let hardware = self.has_hardware();
            self.groups.iter().for_each(CounterGroup::stop);
            if !hardware {
                // What software counts alone, others have as well.
                self.groups.clear();
            }
        }
        sample.counters = (!self.groups.is_empty()).then_some(counters);
    }
}

impl ProcessCost {
    fn new(added_ns: f64) -> Self {
        let now = Instant::now();
        Self { added_ns, began: now, at: now, switches: 0, counted: None }
    }

    /// By what to multiply what was counted; `None` while all is.
    fn factor(&self) -> Option<f64> {
        Some(self.began.elapsed().as_secs_f64() / self.counted?.as_secs_f64())
    }

    /// Whether the context switches since the last call have made it too high, which ends the counting.
    fn is_too_high(&mut self, counters: &CountersSample) -> bool {
        let sum = |of: fn(&Counted) -> Option<u64>| counters.of.iter().filter_map(of).sum::<u64>();
        let switches = sum(|counted| counted.context_switches);
        let spent = switches.saturating_sub(self.switches) as f64 * self.added_ns;
        let elapsed = self.at.elapsed();
        (self.switches, self.at) = (switches, Instant::now());
        let is_too_high = self.counted.is_none()
            && spent > PROCESS_SHARE_MAX * elapsed.as_nanos() as f64
            && !elapsed.is_zero();
        if is_too_high {
            self.counted = Some(self.began.elapsed());
        }
        is_too_high
    }
}

/// Multiplies what counting found, as an estimate for a time of which only a part was counted.
fn extrapolate(counted: &mut Counted, factor: f64) {
    let scaled = |value: u64| (value as f64 * factor) as u64;
    let software =
        [&mut counted.task_clock_ns, &mut counted.context_switches, &mut counted.page_faults];
    software.into_iter().flatten().for_each(|value| *value = scaled(*value));
    for executed in counted.user.iter_mut().chain(&mut counted.kernel) {
        executed.enabled_ns = scaled(executed.enabled_ns);
    }
    counted.cache.iter_mut().for_each(|cache| cache.enabled_ns = scaled(cache.enabled_ns));
}

/// Why the events of a CPU are too expensive to be counted as measured; `None` if they are not.
fn too_expensive(trial: &io::Result<CountingCost>) -> Option<String> {
    match trial {
        Ok(trial) if trial.added_ns <= CPU_MOST_NS => None,
        Ok(trial) => Some(trial.to_string()),
        Err(error) => Some(format!("the overhead of counting cannot be measured: {error}")),
    }
}

/// What is counted instead.
fn fallback(why: &str) -> Unavailable {
    let cycle = WINDOW * ONE_IN;
    Unavailable {
        source: "instructions and cycles without interruption".into(),
        reason: format!("{why}; counted for {WINDOW:?} of every {cycle:?}"),
        remedy: String::new(),
    }
}

/// Opens and enables events as the sampler would, to measure their overhead.
fn attach(of: EventTarget, kinds: Option<&EventPairs>) -> io::Result<Option<CounterGroup>> {
    let group = CounterGroup::open(CounterTarget { of, pid: None }, kinds, &mut Vec::new())
        .map_err(|missing| io::Error::other(missing.to_string()))?;
    if let Some(hardware) = group.as_ref().and_then(|group| group.hardware.as_ref()) {
        hardware.enable()?;
    }
    Ok(group)
}

const WHAT: &str = "instructions, cycles, context switches";

#[derive(Debug, Clone, Copy)]
struct CounterTarget {
    of: EventTarget,
    pid: Option<i32>,
}

fn targets(proc_root: &Path, sys_root: &Path, scope: &Scope) -> io::Result<Vec<CounterTarget>> {
    if *scope == Scope::Machine {
        let cpus = online_cpus(sys_root)?;
        return Ok(cpus
            .into_iter()
            .map(|cpu| CounterTarget { of: EventTarget::Cpu(cpu), pid: None })
            .collect());
    }
    let mut targets = Vec::new();
    for pid in scope.processes(proc_root)? {
        // The process may have exited.
        let Ok(tids) = numbers(&proc_root.join(format!("{pid}/task"))) else { continue };
        let target = |tid| CounterTarget { of: EventTarget::Thread(tid), pid: Some(pid) };
        targets.extend(tids.into_iter().map(target));
    }
    Ok(targets)
}

impl CounterGroup {
    /// `None` if the thread has exited or the CPU is offline.
    fn open(
        target: CounterTarget,
        kinds: Option<&EventPairs>,
        missing: &mut Vec<Unavailable>,
    ) -> Result<Option<Self>, Unavailable> {
        let cpu = if let EventTarget::Cpu(cpu) = target.of { Some(cpu) } else { None };
        let scope = EventScope { of: target.of, inherit: cpu.is_none() };
        let mut note = |lack: Unavailable| {
            // Reports each problem once.
            if !missing.iter().any(|known| known.source == lack.source) {
                missing.push(lack);
            }
        };
        let software = match SoftwareEvents::open(scope, &mut note) {
            // The CPU went offline or the thread exited.
            Err(Errno::SRCH | Errno::NODEV | Errno::NXIO) => return Ok(None),
            software => software.map_err(|errno| refused(WHAT, target.of, errno))?,
        };
        let hardware = kinds.and_then(|kinds| match HardwareEvents::open(scope, kinds) {
            Ok((hardware, lacks)) => {
                lacks.into_iter().for_each(&mut note);
                Some(hardware)
            }
            Err(lack) => {
                note(lack);
                None
            }
        });
        Ok(Some(Self { cpu, pid: target.pid, software, hardware }))
    }

    /// What it has counted can still be read.
    fn stop(&self) {
        // On failure it goes on, and costs what it did.
        let _ = self.software.clock.disable();
        let _ = self.hardware.as_ref().map(HardwareEvents::disable);
    }

    fn read(&self, windowed: bool) -> io::Result<Counted> {
        let mut counted = Counted { cpu: self.cpu, pid: self.pid, ..Counted::default() };
        let wanted_ns = self.software.read(&mut counted)?;
        if let Some(hardware) = &self.hardware {
            hardware.read(&mut counted)?;
        }
        if windowed {
            // Requested all the time, but enabled in windows only.
            let executed = counted.user.iter_mut().chain(&mut counted.kernel);
            executed.for_each(|executed| executed.enabled_ns = wanted_ns);
            counted.cache.iter_mut().for_each(|cache| cache.enabled_ns = wanted_ns);
        }
        Ok(counted)
    }
}

#[derive(Debug)]
struct SoftwareEvents {
    clock: PerfEvent,
    faults: PerfEvent,
    /// Context switches happen in the kernel, which may not be counted without privileges.
    switches: Option<PerfEvent>,
}

const CLOCK: EventCode = software(perf::PERF_COUNT_SW_TASK_CLOCK);
const FAULTS: EventCode = software(perf::PERF_COUNT_SW_PAGE_FAULTS);
const SWITCHES: EventCode = software(perf::PERF_COUNT_SW_CONTEXT_SWITCHES);

const fn software(number: u32) -> EventCode {
    (perf::PERF_TYPE_SOFTWARE, number as u64)
}

impl SoftwareEvents {
    fn open(scope: EventScope, mut note: impl FnMut(Unavailable)) -> Result<Self, Errno> {
        let open = |mode| {
            let clock = open_event(CLOCK, scope, mode, None)?;
            let faults = open_event(FAULTS, scope, mode, Some(&clock))?;
            Ok((clock, faults))
        };
        let (mode, opened) = match open(CpuMode::Both) {
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                let opened = open(CpuMode::User).map_err(|_| errno)?;
                note(refused("context switches and page faults in the kernel", scope.of, errno));
                (CpuMode::User, opened)
            }
            opened => (CpuMode::Both, opened?),
        };
        let (clock, faults) = opened;
        let switches = match mode {
            CpuMode::Both => Some(open_event(SWITCHES, scope, mode, Some(&clock))?),
            _ => None,
        };
        clock.enable().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Self { clock, faults, switches })
    }

    /// Stores the values in `counted`; returns the time for which they were enabled, in
    /// nanoseconds.
    fn read(&self, counted: &mut Counted) -> io::Result<u64> {
        let clock = self.clock.read()?;
        // For a CPU this would be wall-clock time.
        counted.task_clock_ns = counted.cpu.is_none().then_some(clock.value);
        counted.page_faults = Some(self.faults.read()?.value);
        counted.context_switches =
            self.switches.as_ref().map(PerfEvent::read).transpose()?.map(|reading| reading.value);
        Ok(clock.enabled_ns)
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
