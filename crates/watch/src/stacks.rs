//! Where processors are: call chains of whatever runs there, many times a second
//! (perf_event_open(2)).

mod elf;
mod kallsyms;
mod kernel;
mod lanes;
mod reader;
mod retpoline;
mod table;
mod tasks;
mod tick;
mod user;

use crate::perf::{Record, bindings as perf};
use crate::{Sampler, Scope};
use fathom_model::watch::{MachineSample, Missing, StackCount, StacksSample};
use kernel::KernelNames;
use lanes::{Lanes, Pulse, Source};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use table::{Names, Stacks};
use tasks::Tasks;
use tick::Tick;
use user::{Map, UserNames};

/// What makes samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// The processor's cycles; where it does not count them, a timer.
    #[default]
    Cycles,
    /// A timer of its own on each processor (`cpu-clock`).
    Timer,
    /// The scheduler's tick, which comes on busy processors anyway, as often as it comes at most; where it
    /// cannot be had, a timer. An idle processor has none: what interrupts do there is not seen.
    Tick,
}

/// How processors are sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSettings {
    /// Samples for each second and processor. 99 keeps out of step with what happens 100 times a second.
    pub hz: u32,
    /// Whether user functions are wanted. They are found as far as programs keep frame pointers.
    pub user: bool,
    /// Whose samples are wanted.
    pub scope: Scope,
    /// What makes the samples.
    pub clock: Clock,
    /// For how long samples may wait until a processor is idle for the kernel's functions to be read,
    /// which takes tens of milliseconds. They come later then, at the end at the latest.
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

/// Samples processors.
#[derive(Debug)]
pub struct StackSampler {
    lanes: Lanes,
    found: Found,
    names: Names,
    stacks: Stacks,
    kernel: KernelNames,
    user: Option<UserNames>,
    tasks: Tasks,
    /// Counts and periods by process, thread, name and stack.
    counts: HashMap<(i32, i32, u32, u32), (u32, u64)>,
    sample: StacksSample,
    missing: Vec<Missing>,
}

/// What was in the rings, before it is put in the order of time.
#[derive(Debug, Default)]
struct Found {
    events: Vec<(u64, What)>,
    /// The call chains, one after the other, each with the registers that it needs.
    chains: Vec<u64>,
    /// Whether records were lost meanwhile.
    lost: bool,
}

#[derive(Debug, Clone)]
enum What {
    Sample { pid: i32, tid: i32, period: u64, chain: Range<usize>, registers: Range<usize> },
    Named { pid: i32, tid: i32, comm: String, exec: bool },
    Forked { child: (i32, i32), parent: (i32, i32) },
    Ended { pid: i32, tid: i32 },
    Mapped { pid: i32, map: Map },
    Throttled,
}

/// Addresses of samples that wait for their names, at most: 8 MiB.
const HELD: usize = 1 << 20;

/// How often rings are emptied: the smallest of them lasts as long at some 20 samples of usual length.
const PERIOD: Duration = Duration::from_millis(200);

impl StackSampler {
    /// Begins to sample. Where the kernel refuses to look at processors as a whole, the processes asked
    /// for, or all of the calling user, are sampled thread by thread; where it refuses to look into
    /// itself, user mode only. [`StackSampler::missing`] says what is not seen then.
    ///
    /// # Errors
    /// Where nothing can be sampled: why, and what would allow it.
    pub fn open(
        settings: &StackSettings,
        proc_root: &Path,
        sys_root: &Path,
    ) -> Result<Self, Missing> {
        let mut missing = Vec::new();
        // Before the events: reading takes longer than their rings last.
        let (kernel, hidden) = KernelNames::open(proc_root, settings.patience);
        let lanes = open_lanes(settings, proc_root, sys_root, &mut missing)?;
        if lanes.source.pulse != Pulse::Cycles && settings.clock == Clock::Cycles {
            missing.push(no_cycles());
        }
        let source = lanes.source;
        missing.extend(hidden.filter(|_| source.kernel));
        Ok(Self {
            lanes,
            found: Found::default(),
            names: Names::new(),
            stacks: Stacks::new(),
            kernel,
            user: source.user.then(|| UserNames::new(proc_root)),
            counts: HashMap::new(),
            sample: StacksSample::default(),
            // After the events were opened: whoever is made from now on is told of.
            tasks: Tasks::new(proc_root, &settings.scope).map_err(|error| unlisted(&error))?,
            missing,
        })
    }

    /// What could not be seen so far.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Empties the rings.
    fn drain(&mut self) {
        let lost = self.lanes.drain(|record| self.found.add(record));
        self.sample.lost += lost;
        self.found.lost |= lost > 0;
        let waits = !self.found.chains.is_empty() && self.found.chains.len() < HELD;
        if waits && !self.kernel.is_ready() {
            return;
        }
        if let Some(user) = &mut self.user {
            user.next_round();
        }
        // Each ring has its own order; a name counts from its time on.
        self.found.events.sort_by_key(|(time, _)| *time);
        let mut events = std::mem::take(&mut self.found.events);
        for (_, what) in events.drain(..) {
            self.happened(what);
        }
        self.found.events = events;
        self.found.chains.clear();
        let lost = std::mem::take(&mut self.found.lost);
        self.tasks.forget(lost);
        if let (Some(user), true) = (&mut self.user, lost) {
            user.forget();
        }
    }

    fn happened(&mut self, what: What) {
        match what {
            What::Sample { pid, tid, period, chain, registers } => {
                self.count((pid, tid), period, chain, registers);
            }
            What::Named { pid, tid, comm, exec } => {
                self.tasks.named((pid, tid), &comm, &mut self.names);
                if let (Some(user), true) = (&mut self.user, exec) {
                    user.executed(pid);
                }
            }
            What::Forked { child, parent } => {
                self.tasks.forked(child, parent);
                if let (Some(user), true) = (&mut self.user, child.0 != parent.0) {
                    user.forked(child.0, parent.0);
                }
            }
            What::Ended { pid, tid } => {
                self.tasks.ended(tid);
                if let (Some(user), true) = (&mut self.user, pid == tid) {
                    user.ended(pid);
                }
            }
            What::Mapped { pid, map } => {
                if let Some(user) = &mut self.user {
                    user.mapped(pid, map);
                }
            }
            What::Throttled => self.sample.throttled += 1,
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
        let (kernel, period, idle) = match self.lanes.source.pulse {
            Pulse::Cycles | Pulse::Timer => {
                let registers = &self.found.chains[registers];
                (self.kernel.ids(kernel, registers, &mut self.names), period, 1)
            }
            // An idle processor has ticks for a part of the time only, which tells nothing.
            Pulse::Tick(tick) => {
                let kernel = self.kernel.ids_before_interrupt(kernel, &mut self.names);
                (kernel, period.saturating_mul(tick.ns), 0)
            }
        };
        // The time of an idle processor is that of its interrupts and of nothing, as /proc/stat has it.
        if tid == 0 && !kernel.interrupted {
            self.sample.idle += idle;
            return;
        }
        if !self.tasks.wanted(pid) {
            return;
        }
        let user: Vec<u32> = match &mut self.user {
            Some(names) => {
                let before = |(at, address): (usize, &u64)| address.wrapping_sub(u64::from(at > 0));
                let addresses = user.iter().enumerate().map(before);
                addresses.map(|address| names.id(pid, address, &mut self.names)).collect()
            }
            None => Vec::new(),
        };
        let (stack, cut) = self.stacks.id(kernel.ids, &user, &self.names);
        self.sample.cut += u64::from(cut);
        let comm = self.tasks.comm(pid, tid, &mut self.names);
        let (count, periods) = self.counts.entry((pid, tid, comm, stack)).or_default();
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

    fn look(&mut self) {
        self.drain();
    }

    fn finish(&mut self) {
        self.kernel.finish();
    }

    fn elsewhere_ns(&mut self) -> u64 {
        self.kernel.take_reader_ns()
    }

    fn take(&mut self, sample: &mut MachineSample) {
        self.drain();
        self.missing.extend(self.lanes.follow());
        let names = &self.names;
        let row =
            |((pid, tid, comm, stack), (count, period)): ((i32, i32, u32, u32), (u32, u64))| {
                StackCount { pid, tid, comm: names.name(comm).into(), stack, count, period }
            };
        let mut counts: Vec<StackCount> = self.counts.drain().map(row).collect();
        counts.sort_unstable_by_key(|c| (c.pid, c.tid, c.stack));
        let source = self.lanes.source;
        sample.stacks = Some(StacksSample {
            event: source.event().into(),
            hz: source.hz,
            counts,
            new: self.stacks.take_fresh(),
            ..std::mem::take(&mut self.sample)
        });
    }
}

impl Found {
    /// Takes a record apart: its body, then thread and time, which all but samples have at their end
    /// (perf_event_open(2), "MMAP layout").
    fn add(&mut self, record: Record<'_>) {
        let id = |at| record.u32_at(at).map(|id| id as i32);
        let ids = || Some((id(0)?, id(4)?));
        let end = record.body.len().wrapping_sub(8);
        let found = match record.kind {
            perf::PERF_RECORD_SAMPLE => self.sample(record),
            perf::PERF_RECORD_COMM => ids().and_then(|(pid, tid)| {
                let exec = u32::from(record.misc) & perf::PERF_RECORD_MISC_COMM_EXEC != 0;
                Some(What::Named { pid, tid, comm: record.text_at(8)?.into(), exec })
            }),
            // Process, parent, thread, parent's thread.
            perf::PERF_RECORD_FORK => id(0).and_then(|pid| {
                Some(What::Forked { child: (pid, id(8)?), parent: (id(4)?, id(12)?) })
            }),
            perf::PERF_RECORD_EXIT => id(0).and_then(|pid| Some(What::Ended { pid, tid: id(8)? })),
            perf::PERF_RECORD_MMAP2 => {
                Map::of_record(record).map(|(pid, map)| What::Mapped { pid, map })
            }
            perf::PERF_RECORD_THROTTLE => Some(What::Throttled),
            _ => None,
        };
        let time = if record.kind == perf::PERF_RECORD_SAMPLE { 8 } else { end };
        if let (Some(what), Some(time)) = (found, record.u64_at(time)) {
            self.events.push((time, what));
        }
    }

    /// Process, thread, time, period, and the number of addresses before them; then, if asked for, the ABI of the
    /// registers (0: there are none) and their values.
    fn sample(&mut self, record: Record<'_>) -> Option<What> {
        let (pid, tid) = (record.u32_at(0)? as i32, record.u32_at(4)? as i32);
        let (period, length) = (record.u64_at(16)?, record.u64_at(24)?);
        let words = record.body.get(32..)?.as_chunks::<8>().0;
        let (chain, rest) = words.split_at_checked(usize::try_from(length).ok()?)?;
        let start = self.chains.len();
        self.chains.extend(chain.iter().map(|word| u64::from_ne_bytes(*word)));
        let chain = start..self.chains.len();
        // Needed for a lone kernel address only.
        if split(&self.chains[chain.clone()]).0.len() == 1 {
            let registers = rest.get(1..=retpoline::COUNT).unwrap_or_default();
            self.chains.extend(registers.iter().map(|word| u64::from_ne_bytes(*word)));
        }
        let registers = chain.end..self.chains.len();
        Some(What::Sample { pid, tid, period, chain, registers })
    }
}

/// The kernel's and the user's addresses of a chain, in which marks say whose come next.
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

fn open_lanes(
    settings: &StackSettings,
    proc_root: &Path,
    sys_root: &Path,
    missing: &mut Vec<Missing>,
) -> Result<Lanes, Missing> {
    let hz = settings.hz.clamp(1, fastest(proc_root));
    if hz != settings.hz {
        missing.push(Missing {
            what: format!("{} samples a second", settings.hz),
            why: format!("kernel.perf_event_max_sample_rate is {hz}"),
            allow: "raise it with sysctl, or ask for fewer".into(),
        });
    }
    let pulse = match settings.clock {
        Clock::Cycles => Pulse::Cycles,
        Clock::Timer => Pulse::Timer,
        Clock::Tick => Tick::find(proc_root).map_or(Pulse::Timer, Pulse::Tick),
    };
    let mut source = Source { pulse, kernel: true, hz, user: settings.user, registers: true };
    let opened = Lanes::of_machine(source, sys_root).or_else(|error| match source.pulse {
        Pulse::Tick(_) => {
            source.pulse = Pulse::Timer;
            Lanes::of_machine(source, sys_root)
        }
        _ => Err(error),
    });
    let error = match opened {
        Ok((lanes, refused)) => {
            missing.extend(refused);
            return Ok(lanes);
        }
        Err(error) => error,
    };
    let nothing = |error: &io::Error| lanes::refused("samples of processors", error);
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(nothing(&error));
    }
    if settings.scope == Scope::Machine {
        let what = "samples of the kernel's own threads and of other users' processes";
        missing.push(lanes::refused(what, &error));
    }
    let pids = settings.scope.processes(proc_root).map_err(|error| unlisted(&error))?;
    let tids = lanes::threads(proc_root, &pids);
    Lanes::of_threads(source, sys_root, &tids)
        .or_else(|error| {
            missing.push(lanes::refused("kernel functions", &error));
            Lanes::of_threads(Source { kernel: false, ..source }, sys_root, &tids)
        })
        .map_err(|error| nothing(&error))
}

fn unlisted(error: &io::Error) -> Missing {
    let what = "the processes to sample".into();
    Missing { what, why: error.to_string(), allow: "mount a proc file system there".into() }
}

/// kernel.perf_event_max_sample_rate; no bound where it cannot be read.
fn fastest(proc_root: &Path) -> u32 {
    let text = std::fs::read_to_string(proc_root.join("sys/kernel/perf_event_max_sample_rate"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX).max(1)
}

fn no_cycles() -> Missing {
    Missing {
        what: "samples by the processor's cycles".into(),
        why: "this machine shows no hardware counters: they are made by a clock, which does not look \
              into code that has interrupts switched off but at its end"
            .into(),
        allow: "on a virtual machine, its host must pass the PMU through (QEMU/KVM: -cpu host,pmu=on)"
            .into(),
    }
}

#[cfg(test)]
#[path = "stacks/tests.rs"]
mod tests;
