//! Latencies of reads, writes and flushes, from the tracepoints `raw_syscalls:sys_enter` and `sys_exit`.
//!
//! Enabled tracepoints delay every system call of the machine, by about 0.6 µs. They therefore stay enabled
//! only while the machine makes few system calls; otherwise they are enabled for one window of 50 ms in 16
//! ([`CallBudget`]): at most 0.5% of the CPU time in the first case, and a sixteenth of the delay in the second. Flushes have
//! ring buffers of their own, so that many reads do not displace them.

mod files;
mod pairs;

use crate::perf::{
    EventField, GroupLeaders, PerCpuEvents, PerfRecord, PerfRing, TaskEvent, TraceBudget, Tracefs,
    Tracepoint, WindowSchedule, bindings as perf, monotonic_ns, online_cpus, record_raw, refused,
    task_events,
};
use crate::scope::ScopeMembers;
use crate::threads::Syscalls;
use crate::{Sampler, Scope, own_pid};
use fathom_model::watch::{CallsSample, MachineSample, Unavailable};
use files::FileTable;
use pairs::{CallEvent, CallEventKind, CallNames, CallPairs};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

const WHAT: &str = "latencies of system calls";
/// Size of each CPU's ring buffer for reads and writes, and of that for flushes, in bytes: some 2,800 and 700 calls.
const RING_BYTES: usize = 512 << 10;
const FLUSH_RING_BYTES: usize = 128 << 10;
/// Calls recorded, with whether their first argument is a descriptor.
const TRANSFERS: [&str; 10] = [
    "read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64", "writev", "pwritev",
    "pwritev2",
];
const FLUSHES: [(&str, bool); 5] = [
    ("fsync", true),
    ("fdatasync", true),
    ("sync_file_range", true),
    ("syncfs", true),
    ("msync", false),
];

#[derive(Debug)]
pub struct CallSampler {
    rings: Vec<PerfRing>,
    /// Whether a record is of an entry, by event ID.
    is_entry: HashMap<u64, bool>,
    entry: CallLayout,
    exit: CallLayout,
    entries: GroupLeaders,
    returns: GroupLeaders,
    /// All system calls of the machine while entries are recorded.
    counted: PerCpuEvents,
    count: u64,
    advanced: Instant,
    has_started: bool,
    budget: CallBudget,
    /// Read, but earlier events may still follow from another CPU.
    pending: Vec<CallEvent>,
    pairs: CallPairs,
    files: FileTable,
    members: ScopeMembers,
    /// The program's own calls are left out, unless they were requested.
    own: Option<i32>,
    lost: u64,
    /// Closing these ends the recording.
    _events: Vec<PerCpuEvents>,
}

/// Fields of a tracepoint; `value` is the array of arguments, or the result.
#[derive(Debug)]
struct CallLayout {
    number: EventField,
    value: EventField,
}

impl CallLayout {
    fn of(point: &Tracepoint, value: &str) -> Result<Self, Unavailable> {
        Ok(Self { number: point.required("id", WHAT)?, value: point.required(value, WHAT)? })
    }
}

struct Opening {
    cpus: Vec<u32>,
    enter: Tracepoint,
    exit: Tracepoint,
    entries: GroupLeaders,
    returns: GroupLeaders,
}

impl CallSampler {
    /// Opens the tracepoints; the first [`Sampler::take`] starts recording.
    pub fn open(proc_root: &Path, sys_root: &Path, scope: &Scope) -> Result<Self, Unavailable> {
        let fail = |error: io::Error| refused(WHAT, &error);
        let (names, [transfers, flushes]) = wanted()?;
        let tracefs = Tracefs::find(proc_root, WHAT)?;
        let cpus = online_cpus(sys_root).map_err(fail)?;
        let open = Opening {
            enter: tracefs.tracepoint("raw_syscalls", "sys_enter")?,
            exit: tracefs.tracepoint("raw_syscalls", "sys_exit")?,
            entries: GroupLeaders::open(&cpus).map_err(fail)?,
            returns: GroupLeaders::open(&cpus).map_err(fail)?,
            cpus,
        };
        let (entry, exit) =
            (CallLayout::of(&open.enter, "args")?, CallLayout::of(&open.exit, "ret")?);
        // Before the events, which report every later fork.
        let tasks = task_events(&open.cpus).map_err(fail)?;
        let members = ScopeMembers::new(proc_root, scope).map_err(fail)?;
        let mut rings = tasks.map_rings(RING_BYTES).map_err(fail)?;
        let [entered, returned] = open.pair(&transfers, Some(&tasks)).map_err(fail)?;
        let [flush, flushed] = open.pair(&flushes, None).map_err(fail)?;
        rings.extend(flush.map_rings(FLUSH_RING_BYTES).map_err(fail)?);
        flushed.send_to(&flush).map_err(fail)?;
        let counted =
            open.enter.count_grouped(&open.cpus, None, Some(&open.entries)).map_err(fail)?;
        let mut is_entry = HashMap::new();
        for (events, entry) in
            [(&entered, true), (&returned, false), (&flush, true), (&flushed, false)]
        {
            for event in events.events() {
                is_entry.insert(event.id().map_err(fail)?, entry);
            }
        }
        let budget = CallBudget::new(open.cpus.len());
        let is_own = scope.named().contains(&own_pid());
        Ok(Self {
            rings,
            is_entry,
            entry,
            exit,
            entries: open.entries,
            returns: open.returns,
            counted,
            count: 0,
            advanced: Instant::now(),
            has_started: false,
            budget,
            pending: Vec::new(),
            pairs: CallPairs::new(names),
            files: FileTable::new(proc_root, sys_root),
            members,
            own: (!is_own).then(own_pid),
            lost: 0,
            _events: vec![tasks, entered, returned, flush, flushed],
        })
    }

    /// Begins recording, at its first call. Before that, what this program reads to open other samplers would fill the
    /// ring buffers.
    fn start(&mut self) {
        if !self.has_started {
            self.has_started = true;
            self.advance();
        }
    }

    fn drain(&mut self) {
        // Every event before this instant is in some CPU's ring buffer by now.
        let now_ns = monotonic_ns();
        let mut tasks: Vec<(u64, TaskEvent)> = Vec::new();
        let mut lost = 0;
        for ring in &mut self.rings {
            let (is_entry, layouts) = (&self.is_entry, (&self.entry, &self.exit));
            let pending = &mut self.pending;
            ring.drain(|record| match record.kind {
                perf::PERF_RECORD_SAMPLE => pending.extend(decode(record, is_entry, layouts)),
                _ => tasks.extend(TaskEvent::decode(record)),
            });
            lost += ring.take_lost();
        }
        tasks.sort_by_key(|(time, _)| *time);
        tasks.iter().for_each(|(_, event)| self.members.apply(event));
        let ended = tasks.iter().filter_map(|(_, event)| event.ended());
        self.pending.sort_by_key(|event| event.time_ns);
        let ordered = self.pending.partition_point(|event| event.time_ns < now_ns);
        self.files.forget();
        for event in self.pending.drain(..ordered) {
            if Some(event.pid) != self.own && self.members.contains(event.pid) {
                self.pairs.add(&event, &mut self.files);
            }
        }
        ended.for_each(|tid| self.pairs.ended(tid));
        if lost > 0 {
            // A return may be missing, and that of the thread's next call would be taken for it.
            self.pairs.forget();
            self.lost += lost;
        }
    }

    /// Selects the events to record until the next call. Call [`CallSampler::drain`] first.
    fn advance(&mut self) {
        let (before, now) = (self.count, Instant::now());
        self.count = self.counted.read().unwrap_or(before);
        let elapsed = now.duration_since(self.advanced).max(PERIOD);
        self.advanced = now;
        let calls = self.count.saturating_sub(before);
        let next = self.budget.next(calls, elapsed, self.pairs.in_flight());
        self.returns.set_enabled(next.returns);
        self.entries.set_enabled(next.entries);
        if !next.returns {
            self.pairs.stop_waiting();
        }
    }
}

impl Sampler for CallSampler {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn period(&self) -> Option<Duration> {
        Some(PERIOD)
    }

    fn sample(&mut self) {
        self.drain();
        self.advance();
    }

    fn take(&mut self, sample: &mut MachineSample) {
        self.drain();
        self.start();
        let mut calls = CallsSample {
            seen_ns: self.entries.enabled_ns(),
            lost: self.lost,
            ..CallsSample::default()
        };
        self.pairs.put(&mut calls);
        sample.calls = Some(calls);
    }
}

fn wanted() -> Result<(CallNames, [String; 2]), Unavailable> {
    let syscalls = Syscalls::new();
    let transfers = TRANSFERS.map(|name| (name, true));
    let mut names = CallNames::new();
    let mut filter = |calls: &[(&'static str, bool)]| {
        let mut parts = Vec::new();
        for (name, has_file) in calls {
            // Some architectures lack some.
            let Some(number) = syscalls.number(name) else { continue };
            names.insert(number, (name, *has_file));
            parts.push(format!("id == {number}"));
        }
        parts.join(" || ")
    };
    let filters = [filter(&transfers), filter(&FLUSHES)];
    if filters.iter().any(String::is_empty) {
        let why = "the numbers of system calls on this architecture are unknown".into();
        return Err(Unavailable { source: WHAT.into(), reason: why, remedy: String::new() });
    }
    Ok((names, filters))
}

impl Opening {
    /// Entries and returns of the calls that match `filter`, in the ring buffers of `owner` if given.
    fn pair(&self, filter: &str, owner: Option<&PerCpuEvents>) -> io::Result<[PerCpuEvents; 2]> {
        let open = |point: &Tracepoint, leaders: &GroupLeaders| {
            let mut attr = point.attr();
            attr.__bindgen_anon_1.sample_period = 1;
            record_raw(&mut attr);
            let events = point.open(attr, &self.cpus, Some(filter), Some(leaders))?;
            owner.map_or(Ok(()), |owner| events.send_to(owner))?;
            Ok::<_, io::Error>(events)
        };
        Ok([open(&self.enter, &self.entries)?, open(&self.exit, &self.returns)?])
    }
}

/// A sample: event ID, process, thread, time, length of the data, data (perf_event_open(2)).
fn decode(
    record: PerfRecord<'_>,
    is_entry: &HashMap<u64, bool>,
    (entry, exit): (&CallLayout, &CallLayout),
) -> Option<CallEvent> {
    let is_entry = *is_entry.get(&record.u64_at(0)?)?;
    let (pid, tid) = (record.u32_at(8)? as i32, record.u32_at(12)? as i32);
    let raw = record.body.get(28..)?.get(..record.u32_at(24)? as usize)?;
    let layout = if is_entry { entry } else { exit };
    let number = u32::try_from(layout.number.number(raw)?).ok()?;
    let what = if is_entry {
        CallEventKind::Entry { first: layout.value.first(raw)? }
    } else {
        CallEventKind::Return { result: layout.value.number(raw)? as i64 }
    };
    Some(CallEvent { time_ns: record.u64_at(16)?, pid, tid, number, what })
}

/// Time between two decisions; the length of a window.
const PERIOD: Duration = WindowSchedule::PERIOD;
/// System calls per second and CPU up to which all of them are recorded: at 0.6 µs each, with its return, 0.5% of the CPU time.
const RATE_MAX: u64 = 8_000;
/// Maximum number of periods for which returns are recorded after a window: one second.
const RETURN_PERIODS_MAX: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    pub entries: bool,
    pub returns: bool,
}

#[derive(Debug)]
struct CallBudget {
    entries: TraceBudget,
    waited: u32,
}

impl CallBudget {
    /// For a machine with `cpus` CPUs; starts with a window.
    pub fn new(cpus: usize) -> Self {
        Self { entries: TraceBudget::new(cpus, RATE_MAX), waited: 0 }
    }

    /// What to record in the next period, after one with `calls` system calls on the machine in `elapsed`, of which
    /// `in_flight` have not returned.
    pub fn next(&mut self, calls: u64, elapsed: Duration, in_flight: usize) -> Recorded {
        let entries = self.entries.next(calls, elapsed);
        self.waited = if entries { 0 } else { self.waited.saturating_add(1) };
        // In the first period after a window, calls may still have begun since the records were read.
        let awaited = in_flight > 0 || self.waited < 2;
        Recorded { entries, returns: entries || awaited && self.waited <= RETURN_PERIODS_MAX }
    }
}

#[cfg(test)]
mod budget_tests {
    use super::*;

    /// What is recorded in each of `periods`, at `rate` system calls per second and CPU.
    fn recorded(
        budget: &mut CallBudget,
        rate: u64,
        periods: usize,
        in_flight: usize,
    ) -> Vec<Recorded> {
        let calls = rate * 2 / 20;
        (0..periods).map(|_| budget.next(calls, PERIOD, in_flight)).collect()
    }

    #[test]
    fn few_system_calls_are_all_recorded_and_many_in_windows() {
        let mut budget = CallBudget::new(2);
        let first = recorded(&mut budget, 3_000, 40, 0);
        assert!(first.iter().all(|now| now.entries && now.returns));
        let many = recorded(&mut budget, 500_000, 161, 0);
        let windows = many.iter().filter(|now| now.entries).count();
        assert!((9..=12).contains(&windows), "{windows}");
        // Between the two limits nothing changes.
        let some = recorded(&mut budget, 6_000, 160, 0);
        assert!(some.iter().filter(|now| now.entries).count() <= 11);
        assert!(recorded(&mut budget, 3_000, 17, 0).iter().any(|now| now.entries));
        assert!(recorded(&mut budget, 6_000, 40, 0).iter().all(|now| now.entries));
    }

    #[test]
    fn returns_are_recorded_for_as_long_as_calls_last() {
        let mut budget = CallBudget::new(1);
        assert!(budget.next(0, PERIOD, 0).entries);
        let after = recorded(&mut budget, 1_000_000, 10, 1);
        assert!(after.iter().all(|now| now.returns));
        let after = recorded(&mut budget, 1_000_000, 10, 0);
        assert!(after.iter().any(|now| !now.returns));
    }
}

#[cfg(test)]
#[path = "calls/tests.rs"]
mod tests;
