//! CPU profiling: call chains sampled at a fixed frequency (perf_event_open(2)).

mod elf;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod kallsyms;
mod kernel;
mod per_cpu;
mod retpoline;
mod table;
mod tasks;
mod tick;
mod user;

pub use tick::timer_interrupt_ns;

use crate::perf::{PerfRecord, bindings as perf};
use crate::{Sampler, Scope};
use fathom_model::watch::{MachineSample, StackCount, StacksSample, Unavailable};
pub(crate) use kernel::KernelNames;
use per_cpu::{PerCpuRings, SampleSource, Trigger};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
pub(crate) use table::NameTable;
use table::StackTable;
use tasks::TaskTable;
use tick::Tick;
use user::{Mapping, UserNames};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// CPU cycles; a timer if the CPU cannot count them.
    #[default]
    Cycles,
    /// A timer on each CPU (`cpu-clock`).
    Timer,
    /// The scheduler tick, which busy CPUs have anyway; limits the frequency to the tick's. Falls
    /// back to a timer. Idle CPUs have no tick, so their interrupts are not sampled.
    Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSettings {
    /// Samples per second and CPU. 99 avoids lockstep with activity at 100 Hz.
    pub hz: u32,
    /// Whether to resolve user functions. Requires programs with frame pointers.
    pub user: bool,
    pub scope: Scope,
    pub clock: Clock,
    /// How long samples may be deferred until /proc/kallsyms has been read on an idle CPU, which
    /// takes tens of milliseconds; at the latest they are reported at the end.
    pub patience: Duration,
}

impl Default for StackSettings {
    fn default() -> Self {
        Self {
            hz: 99,
            user: false,
            scope: Scope::Machine,
            clock: Clock::default(),
            patience: Duration::ZERO,
        }
    }
}

#[derive(Debug)]
pub struct StackSampler {
    per_cpu: PerCpuRings,
    found: RecordBatch,
    names: NameTable,
    stacks: StackTable,
    kernel: KernelNames,
    user: Option<UserNames>,
    tasks: TaskTable,
    /// Samples and periods.
    counts: HashMap<StackKey, (u32, u64)>,
    sample: StacksSample,
    missing: Vec<Unavailable>,
}

/// Process, thread, their names, stack.
type StackKey = (i32, i32, [u32; 2], u32);

/// Contents of the ring buffers, before sorting by time.
#[derive(Debug, Default)]
struct RecordBatch {
    events: Vec<(u64, StackRecord)>,
    /// Concatenated call chains, each followed by the registers it needs.
    chains: Vec<u64>,
    lost: bool,
}

#[derive(Debug, Clone)]
enum StackRecord {
    Sample { pid: i32, tid: i32, period: u64, chain: Range<usize>, registers: Range<usize> },
    Named { pid: i32, tid: i32, comm: String, exec: bool },
    Forked { child: (i32, i32), parent: (i32, i32) },
    Ended { pid: i32, tid: i32 },
    Mapped { pid: i32, map: Mapping },
    Throttled,
}

/// Maximum number of addresses deferred: 8 MiB.
const DEFERRED_MAX: usize = 1 << 20;

/// Interval between reads of the ring buffers: the smallest holds some 20 samples of typical
/// length.
const PERIOD: Duration = Duration::from_millis(200);

impl StackSampler {
    /// Starts sampling. If per-CPU events are not permitted, the requested processes, or all of the
    /// calling user, are sampled thread by thread; if kernel mode is not permitted, user mode only.
    /// [`StackSampler::missing`] then reports what is not available.
    pub fn open(
        settings: &StackSettings,
        proc_root: &Path,
        sys_root: &Path,
    ) -> Result<Self, Unavailable> {
        let mut missing = Vec::new();
        // Before opening the events, as reading takes longer than their ring buffers last.
        let (kernel, hidden) = KernelNames::open(proc_root, settings.patience);
        let per_cpu = open_rings(settings, proc_root, sys_root, &mut missing)?;
        if per_cpu.source.trigger != Trigger::Cycles && settings.clock == Clock::Cycles {
            missing.push(no_cycles());
        }
        let source = per_cpu.source;
        missing.extend(hidden.filter(|_| source.kernel));
        Ok(Self {
            per_cpu,
            found: RecordBatch::default(),
            names: NameTable::new(),
            stacks: StackTable::new(),
            kernel,
            user: source.user.then(|| UserNames::new(proc_root)),
            counts: HashMap::new(),
            sample: StacksSample::default(),
            // After opening the events, which report every later fork.
            tasks: TaskTable::new(proc_root, &settings.scope).map_err(|error| unlisted(&error))?,
            missing,
        })
    }

    pub fn missing(&self) -> &[Unavailable] {
        &self.missing
    }

    fn drain(&mut self) {
        let lost = self.per_cpu.drain(|record| self.found.add(record));
        self.sample.lost += lost;
        self.found.lost |= lost > 0;
        let may_defer = !self.found.chains.is_empty() && self.found.chains.len() < DEFERRED_MAX;
        if may_defer && !self.kernel.is_ready() {
            return;
        }
        if let Some(user) = &mut self.user {
            user.next_round();
        }
        // Each ring is sorted; the merged records must be, too, as names apply from their time on.
        self.found.events.sort_by_key(|(time, _)| *time);
        let mut events = std::mem::take(&mut self.found.events);
        for (_, what) in events.drain(..) {
            self.apply(what);
        }
        self.found.events = events;
        self.found.chains.clear();
        let lost = std::mem::take(&mut self.found.lost);
        self.tasks.forget(lost);
        if let (Some(user), true) = (&mut self.user, lost) {
            user.forget();
        }
    }

    fn apply(&mut self, what: StackRecord) {
        match what {
            StackRecord::Sample { pid, tid, period, chain, registers } => {
                self.count((pid, tid), period, chain, registers);
            }
            StackRecord::Named { pid, tid, comm, exec } => {
                self.tasks.named((pid, tid), &comm, &mut self.names);
                if let (Some(user), true) = (&mut self.user, exec) {
                    user.executed(pid);
                }
            }
            StackRecord::Forked { child, parent } => {
                self.tasks.forked(child, parent);
                if let (Some(user), true) = (&mut self.user, child.0 != parent.0) {
                    user.forked(child.0, parent.0);
                }
            }
            StackRecord::Ended { pid, tid } => {
                self.tasks.ended(tid);
                if let (Some(user), true) = (&mut self.user, pid == tid) {
                    user.ended(pid);
                }
            }
            StackRecord::Mapped { pid, map } => {
                if let Some(user) = &mut self.user {
                    user.mapped(pid, map);
                }
            }
            StackRecord::Throttled => self.sample.throttled += 1,
        }
    }

    fn count(
        &mut self,
        (pid, tid): (i32, i32),
        period: u64,
        chain: Range<usize>,
        registers: Range<usize>,
    ) {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        if tid != 0 && (tid == own || self.kernel.is_reader(tid)) {
            self.sample.own += 1;
            return;
        }
        let (kernel, user) = split(&self.found.chains[chain]);
        let (kernel, period, idle) = match self.per_cpu.source.trigger {
            Trigger::Cycles | Trigger::Timer => {
                let registers = &self.found.chains[registers];
                (self.kernel.ids(kernel, registers, &mut self.names), period, 1)
            }
            // An idle CPU has ticks only part of the time, so their number means nothing.
            Trigger::Tick(tick) => {
                let kernel = self.kernel.ids_before_interrupt(kernel, &mut self.names);
                (kernel, period.saturating_mul(tick.ns), 0)
            }
        };
        // Idle CPU time is split between interrupts and idle, as in /proc/stat.
        if tid == 0 && !kernel.interrupted {
            self.sample.idle += idle;
            return;
        }
        if !self.tasks.wanted(pid) {
            return;
        }
        let user: Vec<u32> = match &mut self.user {
            Some(names) => names.chain(pid, user, &mut self.names),
            None => Vec::new(),
        };
        let (stack, cut) = self.stacks.id(kernel.ids, &user, &self.names);
        self.sample.cut += u64::from(cut);
        // The process's first: its main thread may never run.
        let names = [pid, tid].map(|task| self.tasks.comm(pid, task, &mut self.names));
        let (count, periods) = self.counts.entry((pid, tid, names, stack)).or_default();
        *count += 1;
        *periods = periods.saturating_add(period);
    }
}

impl Sampler for StackSampler {
    fn name(&self) -> &'static str {
        "stacks"
    }

    fn period(&self) -> Option<Duration> {
        Some(PERIOD)
    }

    fn sample(&mut self) {
        self.drain();
    }

    fn finish(&mut self) {
        self.kernel.finish();
    }

    fn helper_cpu_ns(&mut self) -> u64 {
        self.kernel.take_reader_ns()
    }

    fn take(&mut self, sample: &mut MachineSample) {
        self.drain();
        self.missing.extend(self.per_cpu.follow());
        let names = &self.names;
        let rows = self.counts.drain().map(|((pid, tid, [process, comm], stack), sum)| {
            let process = if process == comm { "" } else { names.name(process) };
            let (comm, process) = (names.name(comm).into(), process.into());
            StackCount { pid, tid, comm, process, stack, count: sum.0, period: sum.1 }
        });
        let mut counts: Vec<StackCount> = rows.collect();
        counts.sort_unstable_by_key(|c| (c.pid, c.tid, c.stack));
        let source = self.per_cpu.source;
        sample.stacks = Some(StacksSample {
            event: source.event().into(),
            hz: source.hz,
            counts,
            new: self.stacks.take_fresh(),
            ..std::mem::take(&mut self.sample)
        });
    }
}

impl RecordBatch {
    /// Parses a record: its body, then the sample_id with thread and time, which all records but
    /// samples have at their end (perf_event_open(2), "MMAP layout").
    fn add(&mut self, record: PerfRecord<'_>) {
        let id = |at| record.u32_at(at).map(|id| id as i32);
        let ids = || Some((id(0)?, id(4)?));
        let end = record.body.len().wrapping_sub(8);
        let found = match record.kind {
            perf::PERF_RECORD_SAMPLE => self.sample(record),
            perf::PERF_RECORD_COMM => ids().and_then(|(pid, tid)| {
                let exec = u32::from(record.misc) & perf::PERF_RECORD_MISC_COMM_EXEC != 0;
                Some(StackRecord::Named { pid, tid, comm: record.text_at(8)?.into(), exec })
            }),
            // Process, parent, thread, parent thread.
            perf::PERF_RECORD_FORK => id(0).and_then(|pid| {
                Some(StackRecord::Forked { child: (pid, id(8)?), parent: (id(4)?, id(12)?) })
            }),
            perf::PERF_RECORD_EXIT => {
                id(0).and_then(|pid| Some(StackRecord::Ended { pid, tid: id(8)? }))
            }
            perf::PERF_RECORD_MMAP2 => {
                Mapping::of_record(record).map(|(pid, map)| StackRecord::Mapped { pid, map })
            }
            perf::PERF_RECORD_THROTTLE => Some(StackRecord::Throttled),
            _ => None,
        };
        let time = if record.kind == perf::PERF_RECORD_SAMPLE { 8 } else { end };
        if let (Some(what), Some(time)) = (found, record.u64_at(time)) {
            self.events.push((time, what));
        }
    }

    /// Process, thread, time, period, number of addresses, addresses; then, if requested, the
    /// register ABI (0: none) and the registers.
    fn sample(&mut self, record: PerfRecord<'_>) -> Option<StackRecord> {
        let (pid, tid) = (record.u32_at(0)? as i32, record.u32_at(4)? as i32);
        let (period, length) = (record.u64_at(16)?, record.u64_at(24)?);
        let words = record.body.get(32..)?.as_chunks::<8>().0;
        let (chain, rest) = words.split_at_checked(usize::try_from(length).ok()?)?;
        let start = self.chains.len();
        self.chains.extend(chain.iter().map(|word| u64::from_ne_bytes(*word)));
        let chain = start..self.chains.len();
        // Only needed for a single kernel address.
        if split(&self.chains[chain.clone()]).0.len() == 1 {
            let registers = rest.get(1..=retpoline::COUNT).unwrap_or_default();
            self.chains.extend(registers.iter().map(|word| u64::from_ne_bytes(*word)));
        }
        let registers = chain.end..self.chains.len();
        Some(StackRecord::Sample { pid, tid, period, chain, registers })
    }
}

/// The kernel and user addresses of a chain, which context markers separate.
fn split(chain: &[u64]) -> (&[u64], &[u64]) {
    let (mut kernel, mut user): (&[u64], &[u64]) = (&[], &[]);
    let is_mark = |address: &u64| *address >= perf::PERF_CONTEXT_MAX;
    let starts = chain.iter().enumerate().filter(|(_, address)| is_mark(address));
    for (at, mark) in starts {
        let part = chain[at + 1..].split(is_mark).next().unwrap_or_default();
        match *mark {
            perf::PERF_CONTEXT_KERNEL => kernel = part,
            perf::PERF_CONTEXT_USER => user = part,
            _ => {}
        }
    }
    (kernel, user)
}

fn open_rings(
    settings: &StackSettings,
    proc_root: &Path,
    sys_root: &Path,
    missing: &mut Vec<Unavailable>,
) -> Result<PerCpuRings, Unavailable> {
    let hz = settings.hz.clamp(1, fastest(proc_root));
    if hz != settings.hz {
        missing.push(Unavailable {
            source: format!("{} samples per second", settings.hz),
            reason: format!("kernel.perf_event_max_sample_rate is {hz}"),
            remedy: "raise it with sysctl, or choose a lower --frequency".into(),
        });
    }
    let trigger = match settings.clock {
        Clock::Cycles => Trigger::Cycles,
        Clock::Timer => Trigger::Timer,
        Clock::Tick => Tick::find(proc_root).map_or(Trigger::Timer, Trigger::Tick),
    };
    let mut source =
        SampleSource { trigger, kernel: true, hz, user: settings.user, registers: true };
    let opened = PerCpuRings::of_machine(source, sys_root).or_else(|error| match source.trigger {
        Trigger::Tick(_) => {
            source.trigger = Trigger::Timer;
            PerCpuRings::of_machine(source, sys_root)
        }
        _ => Err(error),
    });
    let error = match opened {
        Ok((per_cpu, refused)) => {
            missing.extend(refused);
            return Ok(per_cpu);
        }
        Err(error) => error,
    };
    let nothing = |error: &io::Error| per_cpu::refused("CPU samples", error);
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(nothing(&error));
    }
    if settings.scope == Scope::Machine {
        let what = "samples of kernel threads and of other users' processes";
        missing.push(per_cpu::refused(what, &error));
    }
    let pids = settings.scope.processes(proc_root).map_err(|error| unlisted(&error))?;
    let tids = per_cpu::own_threads(proc_root, &pids);
    PerCpuRings::of_threads(source, sys_root, &tids)
        .or_else(|error| {
            missing.push(per_cpu::refused("kernel functions", &error));
            PerCpuRings::of_threads(SampleSource { kernel: false, ..source }, sys_root, &tids)
        })
        .map_err(|error| nothing(&error))
}

fn unlisted(error: &io::Error) -> Unavailable {
    let what = "processes to sample".into();
    Unavailable { source: what, reason: error.to_string(), remedy: "mount procfs there".into() }
}

/// kernel.perf_event_max_sample_rate; unlimited if it cannot be read.
fn fastest(proc_root: &Path) -> u32 {
    let text = std::fs::read_to_string(proc_root.join("sys/kernel/perf_event_max_sample_rate"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX).max(1)
}

fn no_cycles() -> Unavailable {
    Unavailable {
        source: "CPU cycles (sampling on cpu-clock)".into(),
        reason:
            "hardware counters are not available; the timer used instead attributes code that runs \
              with interrupts disabled to the point where they are enabled"
                .into(),
        remedy: "on a virtual machine, the host must expose a PMU (QEMU/KVM: -cpu host,pmu=on)"
            .into(),
    }
}

#[cfg(test)]
#[path = "stacks/tests.rs"]
mod tests;
