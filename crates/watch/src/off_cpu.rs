//! Where threads wait: the time from every context switch (`sched:sched_switch`, with the kernel's call chain) to the
//! next wakeup (`sched:sched_waking`), and who woke the thread.
//!
//! Exact where sampling is not: waits that are too short to be sampled asleep. The events cost some microseconds per
//! context switch. They are recorded all of the time while the machine switches rarely, and otherwise in windows
//! ([`TraceBudget`]). Waits that began before a window are unknown to it: samples find those, as they are long.

mod causes;
mod switches;
#[cfg(test)]
mod tests;

use crate::perf::{
    EventField, GroupLeaders, PerCpuEvents, PerfRecord, PerfRing, TaskEvent, TraceBudget, Tracefs,
    Tracepoint, WindowSchedule, bindings as perf, monotonic_ns, online_cpus, record_raw, refused,
    task_events,
};
use crate::scope::ScopeMembers;
use crate::stacks::{KernelNames, NameTable};
use crate::threads::OUTERMOST;
use crate::{Sampler, Scope};
use fathom_model::watch::{MachineSample, OffCpuSample, ThreadState, Unavailable};
use foldhash::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use switches::{Comm, Switches, Waker};

const WHAT: &str = "context switches";
/// Size of each CPU's ring buffer in bytes: some 1,500 context switches.
const RING_BYTES: usize = 512 << 10;
/// Context switches per second and CPU up to which all of them are recorded: at 3 µs each, 1% of the CPU time.
const RATE_MAX: u64 = 3_500;
/// Context switches per second read over all CPUs, and as many wakeups: at 1.5 µs each without full optimization, 6% of one CPU.
const TOTAL_MAX: u64 = 40_000;
/// Functions recorded of each chain: deeper ones are those through which the kernel was entered.
const CHAIN_MAX: u16 = 48;
/// Maximum number of distinct chains cached.
const CHAINS_MAX: usize = 8192;
/// `common_flags` of an event in an interrupt, and in a softirq (include/linux/trace_events.h).
const INTERRUPT: &str = "common_flags & 8";
const NO_INTERRUPT: &str = "!(common_flags & 8)";
const IN_SOFTIRQ: u64 = 0x10;

#[derive(Debug)]
pub struct OffCpuSampler {
    rings: Vec<PerfRing>,
    /// Time of the last event of each.
    last_ns: Vec<u64>,
    /// What a record is of, by event ID.
    sources: HashMap<u64, Source>,
    layout: Layout,
    leaders: GroupLeaders,
    budget: TraceBudget,
    /// Context switches since the last decision, if all CPUs had as many as the busiest, and when that was.
    recorded: u64,
    advanced: Instant,
    has_started: bool,
    /// From when on the current window has been recorded.
    window_from: Option<u64>,
    seen_ns: u64,
    lost: u64,
    found: Batch,
    switches: Switches,
    members: ScopeMembers,
    proc_root: PathBuf,
    chains: ChainCauses,
    /// Closing these ends the recording.
    _events: Vec<PerCpuEvents>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A context switch of a thread, with its call chain.
    Thread,
    /// One of an idle CPU.
    Idle,
    /// A wakeup by a thread or a softirq.
    Waking,
    /// One by an interrupt, with its call chain.
    Interrupt,
}

impl Source {
    fn has_chain(self) -> bool {
        matches!(self, Self::Thread | Self::Interrupt)
    }
}

/// Fields of the tracepoints.
#[derive(Debug)]
struct Layout {
    prev_comm: EventField,
    prev_state: EventField,
    next_tid: EventField,
    woken_tid: EventField,
    flags: EventField,
}

/// Contents of the ring buffers, before sorting by time.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<(u64, Event)>,
    /// Concatenated kernel addresses of call chains.
    addresses: Vec<u64>,
    tasks: Vec<(u64, TaskEvent)>,
}

#[derive(Debug, Clone)]
enum Event {
    Switch {
        from: (i32, i32),
        comm: Comm,
        state: u64,
        chain: Range<usize>,
        to: i32,
    },
    /// The chain is that of an interrupt.
    Waking {
        tid: i32,
        by: Waker,
        current: i32,
        chain: Range<usize>,
    },
}

impl Event {
    fn chain_mut(&mut self) -> &mut Range<usize> {
        let (Self::Switch { chain, .. } | Self::Waking { chain, .. }) = self;
        chain
    }
}

impl OffCpuSampler {
    /// Opens the tracepoints; the first [`Sampler::take`] starts recording. `proc_root` and `sys_root` are the mount points
    /// of procfs and sysfs: `/proc` and `/sys`. `follows_peers`: whether samples hold the threads of the scope's peers as well.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        follows_peers: bool,
    ) -> Result<Self, Unavailable> {
        let fail = |error: io::Error| refused(WHAT, &error);
        let namespace = std::fs::read_link(proc_root.join("self/ns/pid")).map_err(fail)?;
        if namespace.as_os_str() != OUTERMOST {
            return Err(Unavailable {
                source: WHAT.into(),
                reason:
                    "they hold process IDs of the initial namespace, and this process is in another"
                        .into(),
                remedy: "run fathom outside the container".into(),
            });
        }
        let tracefs = Tracefs::find(proc_root, WHAT)?;
        let (switch, waking) = (
            tracefs.tracepoint("sched", "sched_switch")?,
            tracefs.tracepoint("sched", "sched_waking")?,
        );
        let layout = Layout::of(&switch, &waking)?;
        let cpus = online_cpus(sys_root).map_err(fail)?;
        let leaders = GroupLeaders::open(&cpus).map_err(fail)?;
        // Before the events, which report every later fork.
        let tasks = task_events(&cpus).map_err(fail)?;
        let members = ScopeMembers::new(proc_root, scope).map_err(fail)?;
        let rings = tasks.map_rings(RING_BYTES).map_err(fail)?;
        let mut sources = HashMap::default();
        let mut events = Vec::new();
        for (source, point, filter) in [
            (Source::Thread, &switch, Some("prev_pid != 0")),
            (Source::Idle, &switch, Some("prev_pid == 0")),
            (Source::Waking, &waking, Some(NO_INTERRUPT)),
            (Source::Interrupt, &waking, Some(INTERRUPT)),
        ] {
            let mut attr = point.attr();
            attr.__bindgen_anon_1.sample_period = 1;
            record_raw(&mut attr);
            if source.has_chain() {
                attr.sample_type |= u64::from(perf::PERF_SAMPLE_CALLCHAIN);
                attr.set_exclude_callchain_user(1);
                attr.sample_max_stack = CHAIN_MAX;
            }
            let opened = point.open(attr, &cpus, filter, Some(&leaders)).map_err(fail)?;
            opened.send_to(&tasks).map_err(fail)?;
            for event in opened.events() {
                sources.insert(event.id().map_err(fail)?, source);
            }
            events.push(opened);
        }
        events.push(tasks);
        Ok(Self {
            last_ns: vec![0; rings.len()],
            rings,
            sources,
            layout,
            leaders,
            budget: TraceBudget::new(cpus.len(), RATE_MAX),
            recorded: 0,
            advanced: Instant::now(),
            has_started: false,
            window_from: None,
            seen_ns: 0,
            lost: 0,
            found: Batch::default(),
            switches: Switches::new(follows_peers),
            members,
            proc_root: proc_root.into(),
            chains: ChainCauses::new(proc_root)?,
            _events: events,
        })
    }

    fn drain(&mut self) {
        // Every event before this instant is in some CPU's ring buffer by now.
        let now_ns = monotonic_ns();
        let (found, mut gap) = (&mut self.found, None::<(u64, u64)>);
        let (mut most, mut read) = (0, 0);
        for (ring, last_ns) in self.rings.iter_mut().zip(&mut self.last_ns) {
            let mut records = 0;
            let mut lose = |from: u64, to: u64| {
                gap = Some(gap.map_or((from, to), |(first, last)| (first.min(from), last.max(to))));
            };
            ring.drain_all(|record| {
                if record.is_lost() {
                    // It is written before the first record that fits again, and has its time.
                    let time = record.body.len().checked_sub(16).and_then(|at| record.u64_at(at));
                    lose(*last_ns, time.unwrap_or(now_ns));
                } else if let Some(time_ns) = found.add(record, &self.sources, &self.layout) {
                    *last_ns = time_ns;
                    records += 1;
                }
            });
            if ring.was_full() {
                lose(*last_ns, now_ns);
            }
            let lost = ring.take_lost();
            self.lost += lost;
            most = most.max(records + lost);
            read += records;
        }
        // A busy CPU is not to be slowed because others are idle. Each switch comes with a wakeup.
        self.recorded += most / 2 * self.rings.len() as u64;
        self.budget.read(read / 2, TOTAL_MAX);
        found.tasks.sort_by_key(|(time, _)| *time);
        for (time, event) in found.tasks.drain(..) {
            self.members.apply(&event);
            match event {
                TaskEvent::Forked { tid, .. } => self.switches.started(tid, time),
                TaskEvent::Ended { tid } => self.switches.ended(tid, time),
                TaskEvent::Named { .. } => {}
            }
        }
        let Some(from) = self.window_from else {
            found.clear();
            return;
        };
        let mut events = std::mem::take(&mut found.events);
        events.sort_by_key(|(time, _)| *time);
        let mut events = events.into_iter().peekable();
        if let Some((lost_from, lost_to)) = gap {
            let end = lost_from.max(from);
            while let Some((time, event)) = events.next_if(|(time, _)| *time < end) {
                self.apply(time, event);
            }
            // What the threads did in the gap is unknown.
            self.switches.end_window(end);
            self.seen_ns += end - from;
            let resumed = lost_to.max(end).min(now_ns);
            while events.next_if(|(time, _)| *time < resumed).is_some() {}
            self.window_from = Some(resumed);
        }
        // Later ones may still be preceded by an event of another CPU.
        while let Some((time, event)) = events.next_if(|(time, _)| *time < now_ns) {
            self.apply(time, event);
        }
        let from = self.window_from.unwrap_or(now_ns);
        self.seen_ns += now_ns.saturating_sub(from);
        self.window_from = Some(now_ns.max(from));
        self.found.keep(events.collect());
    }

    fn apply(&mut self, time: u64, event: Event) {
        match event {
            Event::Switch { from, comm, state, chain, to } => {
                let wait = (state & switches::RUNNABLE_MASK != 0)
                    .then(|| self.chains.cause(state, &self.found.addresses[chain]));
                self.switches.switched(time, (from, comm), state, wait, to);
            }
            Event::Waking { tid, mut by, current, chain } => {
                if by == Waker::Interrupt && self.switches.may_time_out(tid) {
                    by = self.chains.interrupt(&self.found.addresses[chain]);
                }
                self.switches.woken(time, tid, by, current);
            }
        }
    }

    /// Decides whether to record until the next call. Call [`Self::drain`] first.
    fn advance(&mut self) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.advanced).max(WindowSchedule::PERIOD);
        self.advanced = now;
        let records = self.budget.next(std::mem::take(&mut self.recorded), elapsed);
        match (self.window_from, records) {
            (None, true) => {
                self.leaders.set_enabled(true);
                self.window_from = Some(monotonic_ns());
            }
            (Some(_), false) => {
                self.leaders.set_enabled(false);
                self.drain();
                if let Some(end) = self.window_from.take() {
                    self.switches.end_window(end);
                }
                self.found.clear();
            }
            _ => {}
        }
    }
}

impl Sampler for OffCpuSampler {
    fn name(&self) -> &'static str {
        "off-CPU"
    }

    fn period(&self) -> Option<Duration> {
        Some(WindowSchedule::PERIOD)
    }

    fn sample(&mut self) {
        self.drain();
        self.advance();
    }

    fn take(&mut self, sample: &mut MachineSample) {
        self.drain();
        if !self.has_started {
            self.has_started = true;
            self.advance();
        }
        self.switches.pause(self.window_from.unwrap_or_else(monotonic_ns));
        let members = &self.members;
        let is_member = |pid: i32| members.contains(pid);
        let (threads, left_out) =
            self.switches.take(&self.proc_root, is_member, &self.chains.names);
        sample.off_cpu = Some(OffCpuSample {
            seen_ns: std::mem::take(&mut self.seen_ns),
            lost: std::mem::take(&mut self.lost),
            threads,
            left_out,
        });
    }
}

impl Layout {
    fn of(switch: &Tracepoint, waking: &Tracepoint) -> Result<Self, Unavailable> {
        Ok(Self {
            prev_comm: switch.required("prev_comm", WHAT)?,
            prev_state: switch.required("prev_state", WHAT)?,
            next_tid: switch.required("next_pid", WHAT)?,
            woken_tid: waking.required("pid", WHAT)?,
            flags: waking.required("common_flags", WHAT)?,
        })
    }
}

impl Batch {
    /// Adds a record and returns its time, if it is of an event.
    fn add(
        &mut self,
        record: PerfRecord<'_>,
        sources: &HashMap<u64, Source>,
        layout: &Layout,
    ) -> Option<u64> {
        if record.kind != perf::PERF_RECORD_SAMPLE {
            self.tasks.extend(TaskEvent::decode(record));
            return None;
        }
        let (time, event) = self.decode(record, sources, layout)?;
        self.events.push((time, event));
        Some(time)
    }

    /// A sample: event ID, process, thread, time; of a thread's switch, the length of the chain and its addresses; then the
    /// length of the data, and the data (perf_event_open(2)).
    fn decode(
        &mut self,
        record: PerfRecord<'_>,
        sources: &HashMap<u64, Source>,
        layout: &Layout,
    ) -> Option<(u64, Event)> {
        let source = *sources.get(&record.u64_at(0)?)?;
        let task = (record.u32_at(8)? as i32, record.u32_at(12)? as i32);
        let (time, mut at) = (record.u64_at(16)?, 24);
        let start = self.addresses.len();
        if source.has_chain() {
            let length = usize::try_from(record.u64_at(at)?).ok()?;
            let bytes = record.body.get(at + 8..)?.get(..length.checked_mul(8)?)?;
            let addresses = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
            self.addresses.extend(addresses.filter(|address| *address < perf::PERF_CONTEXT_MAX));
            at += 8 + bytes.len();
        }
        let raw = record.body.get(at + 4..)?.get(..record.u32_at(at)? as usize)?;
        let tid = |field: &EventField| Some(field.number(raw)? as i32);
        let event = match source {
            Source::Thread | Source::Idle => Event::Switch {
                from: task,
                comm: Comm::of(layout.prev_comm.text(raw)?),
                state: layout.prev_state.number(raw)?,
                chain: start..self.addresses.len(),
                to: tid(&layout.next_tid)?,
            },
            Source::Waking | Source::Interrupt => {
                let flags = layout.flags.number(raw)?;
                let by = match task {
                    _ if source == Source::Interrupt => Waker::Interrupt,
                    (0, _) => Waker::Unknown,
                    (pid, _) if flags & IN_SOFTIRQ != 0 => Waker::Softirq(pid),
                    (pid, _) => Waker::Process(pid),
                };
                let chain = start..self.addresses.len();
                Event::Waking { tid: tid(&layout.woken_tid)?, by, current: task.1, chain }
            }
        };
        Some((time, event))
    }

    fn clear(&mut self) {
        self.events.clear();
        self.addresses.clear();
    }

    /// Keeps these events for the next round, and the chains that they refer to.
    fn keep(&mut self, mut events: Vec<(u64, Event)>) {
        let mut addresses = Vec::new();
        for (_, event) in &mut events {
            let (chain, start) = (event.chain_mut(), addresses.len());
            addresses.extend_from_slice(&self.addresses[chain.clone()]);
            *chain = start..addresses.len();
        }
        (self.events, self.addresses) = (events, addresses);
    }
}

/// What call chains mean.
#[derive(Debug)]
struct ChainCauses {
    kernel: KernelNames,
    names: NameTable,
    known: HashMap<Box<[u64]>, (ThreadState, u32)>,
    /// The same of interrupts that woke a thread.
    interrupts: HashMap<Box<[u64]>, Waker>,
}

impl ChainCauses {
    /// Without names, causes are unknown.
    fn new(proc_root: &Path) -> Result<Self, Unavailable> {
        match KernelNames::open(proc_root, Duration::ZERO) {
            (_, Some(hidden)) => Err(hidden),
            (kernel, None) => Ok(Self {
                kernel,
                names: NameTable::new(),
                known: HashMap::default(),
                interrupts: HashMap::default(),
            }),
        }
    }

    /// What an interrupt that woke a thread was for.
    fn interrupt(&mut self, chain: &[u64]) -> Waker {
        if let Some(known) = self.interrupts.get(chain) {
            return *known;
        }
        let ids = self.kernel.ids(chain, &[], &mut self.names).ids;
        let functions: Vec<&str> = ids.iter().map(|id| self.names.name(*id)).collect();
        let found = causes::interrupt(&functions).map_or(Waker::Interrupt, Waker::Event);
        if self.interrupts.len() >= CHAINS_MAX {
            self.interrupts.clear();
        }
        self.interrupts.insert(chain.into(), found);
        found
    }

    /// The cause of a wait, and the ID of the function that tells it.
    fn cause(&mut self, state: u64, chain: &[u64]) -> (ThreadState, u32) {
        // Of these, the state decides.
        let stopped = state & switches::STOPPED_MASK != 0 || chain.is_empty();
        if let Some(known) = self.known.get(chain).filter(|_| !stopped) {
            return *known;
        }
        let ids = self.kernel.ids(chain, &[], &mut self.names).ids;
        let functions: Vec<&str> = ids.iter().map(|id| self.names.name(*id)).collect();
        let (cause, function) = causes::cause(state, &functions);
        let function = function.to_string();
        let found = (cause, self.names.id(&function));
        if self.known.len() >= CHAINS_MAX {
            self.known.clear();
        }
        if !stopped {
            self.known.insert(chain.into(), found);
        }
        found
    }
}
