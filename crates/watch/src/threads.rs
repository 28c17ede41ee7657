//! Thread sampling: state, system call, wait channel and more.

mod access;
mod activity;
mod all;
mod files;
mod helpers;
mod members;
mod off_cpu;
mod parse;
mod running;
mod syscalls;
mod task;
#[cfg(test)]
mod tests;

pub use helpers::{HelperTime, helper_time, library_time};
pub use task::SampleParts;

use crate::{Sampler, Scope, own_pid, priority};
use access::ThreadAccess;
use activity::{Activity, ActivityCount, SleepPlace, TextId, TextTable};
use all::AllThreads;
pub(crate) use all::OUTERMOST;
use fathom_model::watch::{
    MachineSample, ThreadCount, ThreadState, ThreadTime, ThreadsSample, TimesOfThread, Unavailable,
};
use files::Proc;
use members::{ProcessDetails, ProcessSet, SampledProcess};
pub(crate) use parse::Sched;
use running::{ON_CPU, RUNNABLE, StateTimes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
pub(crate) use syscalls::Syscalls;
use task::{ReadContext, ThreadReading};

/// Default sampling rate, in Hz.
pub const HZ: u32 = 20;
pub const HZ_MAX: u32 = 100;

/// Sampling a thread through its /proc files costs this many times its share of a BPF iteration.
const ALL_COSTS: usize = 8;
/// Minimum number of threads for which BPF is worthwhile.
const ALL_FROM: usize = 32;

#[derive(Debug, Clone)]
pub struct ThreadOptions {
    pub proc_root: PathBuf,
    /// The file with user names: `/etc/passwd`.
    pub passwd: PathBuf,
    pub scope: Scope,
    /// Sampling rate in Hz, from 1 to [`HZ_MAX`].
    pub hz: u32,
    /// Include threads in all states, not only those that are on-CPU, runnable, waiting for I/O or
    /// in uninterruptible sleep.
    pub all_states: bool,
    pub parts: SampleParts,
    /// Read /proc files even if BPF is available.
    pub one_by_one: bool,
    /// Sample at real-time priority with exact timers, at the cost of one interrupt per sample.
    /// Otherwise a sample may be some milliseconds late, coalesced with another interrupt.
    pub urgent: bool,
}

impl Default for ThreadOptions {
    fn default() -> Self {
        Self {
            proc_root: "/proc".into(),
            passwd: "/etc/passwd".into(),
            scope: Scope::default(),
            hz: HZ,
            all_states: false,
            parts: SampleParts::default(),
            one_by_one: false,
            urgent: true,
        }
    }
}

#[derive(Debug)]
pub struct ThreadSampler {
    period: Duration,
    urgent: bool,
    opened: Instant,
    proc_root: PathBuf,
    all: All,
    context: ReadContext,
    members: ProcessSet,
    users: BTreeMap<u32, String>,
    missing: Vec<Unavailable>,
    /// Distinct activities in this interval, and their indices in `counts`.
    counts: Vec<(Activity, ActivityCount)>,
    indices: HashMap<Activity, usize>,
    times: StateSums,
    /// By thread ID, of the watched processes.
    by_thread: HashMap<i32, ThreadSums>,
    /// When the previous interval ended, like [`ReadContext::now_ns`].
    taken_ns: u64,
    samples: u32,
    sampled: u64,
    torn: u64,
    /// The sampling thread, which is always running when it samples.
    own: Option<i32>,
    /// Thread IDs found, allocated once.
    found: Vec<i32>,
}

/// Multiples of it leave the most even fractions: phases of a period that no part of it is missed by.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;
/// Maximum number of threads whose times are reported one by one.
const BY_THREAD_MAX: usize = 1000;

/// Time by state, in nanoseconds.
type StateSums = [u64; ThreadState::ALL.len()];

/// Process, names of the thread and its process, time by state.
type ThreadSums = (i32, [TextId; 2], StateSums);

/// The time that a thread ran, wanted to, or was in uninterruptible sleep.
fn active_ns(sums: &StateSums) -> u64 {
    use ThreadState as S;
    let active = [S::OnCpu, S::Runnable, S::Disk, S::Flush, S::PageFault, S::KernelLock];
    active.into_iter().map(|state| sums[state as usize]).sum()
}

#[derive(Debug)]
enum All {
    Untried,
    Possible(AllThreads),
    Impossible,
}

impl ThreadSampler {
    /// Opens the files of all existing threads and takes one sample, which is discarded.
    pub fn open(options: ThreadOptions) -> io::Result<Self> {
        let ThreadOptions { proc_root, passwd, scope, hz, all_states, parts, one_by_one, urgent } =
            options;
        if !(1..=HZ_MAX).contains(&hz) {
            let why = format!("sampling rate {hz} Hz is out of range (1 to {HZ_MAX})");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let proc = Proc::open(&proc_root)?;
        let access = ThreadAccess::of(&proc, &proc_root, parts);
        let context = ReadContext {
            proc,
            names: TextTable::default(),
            calls: Syscalls::new(),
            parts,
            all_states,
            has_schedstat: access.has_schedstat,
            is_root: rustix::process::geteuid().is_root(),
            now_ns: 0,
            period_ns: 1_000_000_000 / u64::from(hz),
            sample_number: 0,
            buffer: vec![0; 16 << 10].into(),
            folded: Vec::new(),
            resolved: HashMap::new(),
        };
        let users = if parts.user { users(&passwd) } else { BTreeMap::new() };
        let mut sampler = Self {
            period: Duration::from_secs(1) / hz,
            urgent,
            opened: Instant::now(),
            proc_root,
            all: if one_by_one { All::Impossible } else { All::Untried },
            context,
            members: ProcessSet::new(scope),
            users,
            missing: access.missing,
            counts: Vec::new(),
            indices: HashMap::new(),
            times: [0; ThreadState::ALL.len()],
            by_thread: HashMap::new(),
            taken_ns: 0,
            samples: 0,
            sampled: 0,
            torn: 0,
            own: None,
            found: Vec::new(),
        };
        sampler.sample();
        let Self { members, context, proc_root, .. } = &sampler;
        let refused = access::refused(members, &context.proc, proc_root);
        sampler.missing.extend(refused);
        sampler.missing.extend(urgent.then(priority::refused).flatten());
        sampler.take(&mut MachineSample::default());
        sampler.own = None;
        Ok(sampler)
    }

    pub fn missing(&self) -> &[Unavailable] {
        &self.missing
    }

    /// Whether all threads are sampled at once through BPF, instead of through their /proc files.
    pub fn is_at_once(&self) -> bool {
        matches!(self.all, All::Possible(_)) && self.wants_all()
    }

    /// Changes the sampling rate, in Hz, clamped to 1 to [`HZ_MAX`].
    pub fn set_hz(&mut self, hz: u32) {
        self.period = Duration::from_secs(1) / hz.clamp(1, HZ_MAX);
        self.context.period_ns = self.period.as_nanos() as u64;
    }

    pub fn processes(&self) -> usize {
        self.members.processes.len()
    }

    pub fn threads(&self) -> usize {
        self.members.processes.iter().map(|process| process.tasks.len()).sum()
    }

    fn sample_by_files(&mut self) {
        self.members.refresh(&mut self.context.proc, &mut self.context.buffer);
        let mut processes = std::mem::take(&mut self.members.processes);
        processes.iter_mut().for_each(|process| self.sample_process(process));
        processes.retain(|process| !process.tasks.is_empty());
        self.members.processes = processes;
    }

    fn sample_process(&mut self, process: &mut SampledProcess) {
        // Once more for new threads.
        for _ in 0..2 {
            if self.sample_known(process) {
                return;
            }
            process.list(&mut self.context.proc, &mut self.found);
        }
        self.sample_known(process);
    }

    /// Samples the known threads not sampled yet in this round; returns whether these are all.
    fn sample_known(&mut self, process: &mut SampledProcess) -> bool {
        let known = process.tasks.len();
        let mut is_complete = known != 0;
        let mut ended = false;
        for index in 0..known {
            let task = &mut process.tasks[index];
            let is_due =
                task.sample_number != self.context.sample_number && Some(task.tid) != self.own;
            if !is_due {
                continue;
            }
            task.sample_number = self.context.sample_number;
            match task.sample(process.pid, &mut self.context) {
                Ok(reading) => {
                    is_complete &= reading.threads as usize == known;
                    self.sampled += 1;
                    self.count(process, index, reading);
                }
                Err(_) => {
                    task.ended = true;
                    ended = true;
                }
            }
        }
        if ended {
            process.drop_ended(&mut self.context.proc);
        }
        is_complete && !ended
    }

    /// A snapshot of all threads by BPF, if worthwhile and possible.
    fn all_threads(&mut self) -> Option<AllThreads> {
        if !self.wants_all() {
            return None;
        }
        let mut all = match std::mem::replace(&mut self.all, All::Impossible) {
            All::Possible(all) => all,
            All::Untried => AllThreads::open(&self.proc_root, self.context.parts.kstack).ok()?,
            All::Impossible => return None,
        };
        all.sample().ok()?;
        Some(all)
    }

    /// Whether sampling all threads by BPF is cheaper than the selected ones through /proc.
    fn wants_all(&self) -> bool {
        let wanted = self.threads();
        self.members.is_of_all() || wanted >= ALL_FROM && wanted * ALL_COSTS >= self.members.tasks
    }

    fn sample_all(&mut self, all: &AllThreads) {
        self.members.refresh_by(all.numbers(), &mut self.context.proc, &mut self.context.buffer);
        let mut processes = std::mem::take(&mut self.members.processes);
        for process in &mut processes {
            self.found.clear();
            self.found.extend(all.of(process.pid).map(|record| record.tid()));
            process.take_found(&mut self.context.proc, &self.found);
            for (index, record) in all.of(process.pid).enumerate() {
                let task = process.tasks.get_mut(index);
                let Some(task) = task.filter(|task| Some(task.tid) != self.own) else { continue };
                // A thread that has exited is absent from the next snapshot.
                if let Ok(reading) = task.sample_record(process.pid, record, &mut self.context) {
                    self.sampled += 1;
                    self.count(process, index, reading);
                }
            }
        }
        self.members.processes = processes;
    }

    fn count(&mut self, process: &mut SampledProcess, index: usize, reading: ThreadReading) {
        if reading.renamed && !reading.in_kernel_only {
            process.about = None;
        }
        let Some(task) = process.tasks.get_mut(index) else { return };
        let is_asleep = reading.state != b'R' && !reading.torn;
        self.torn += u64::from(reading.torn);
        let StateTimes { run_ns, wait_ns, .. } = reading.spent;
        let attributed = task.off_cpu.add(reading.spent, reading.cause);
        let asleep = attributed.and_then(|(cause, ns)| task.place(cause, ns));
        let slept = attributed.map(|(cause, ns)| match cause {
            ThreadState::Futex if run_ns > 0 => (ThreadState::FutexBrief, ns),
            cause => (cause, ns),
        });
        let (tid, comm) = (task.tid, task.comm);
        let awake = [(ThreadState::OnCpu, run_ns), (ThreadState::Runnable, wait_ns)];
        for (state, ns) in awake.into_iter().chain(slept) {
            self.spend(process, (tid, comm), state, ns);
        }

        let awake = SleepPlace::default();
        let is_running = reading.state == b'R';
        let is_on_cpu = is_running && run_ns >= wait_ns;
        let is_runnable = is_running && run_ns < wait_ns;
        let mut parts = [
            (ON_CPU, awake, ActivityCount { count: u32::from(is_on_cpu), ns: run_ns }),
            (RUNNABLE, awake, ActivityCount { count: u32::from(is_runnable), ns: wait_ns }),
            (0, awake, ActivityCount::default()),
        ];
        if let Some((sleep, ns)) = asleep.filter(|(s, _)| s.is_active() || self.context.all_states)
        {
            parts[2] = (sleep.state, sleep, ActivityCount { count: u32::from(is_asleep), ns });
        }
        for (part, (state, sleep, tally)) in parts.into_iter().enumerate() {
            if (tally.count, tally.ns) != (0, 0) {
                self.add(process, (index, part), state, sleep, reading.cpu, tally);
            }
        }
    }

    fn spend(
        &mut self,
        process: &SampledProcess,
        (tid, comm): (i32, TextId),
        state: ThreadState,
        ns: u64,
    ) {
        self.times[state as usize] += ns;
        // Of the whole machine, none, except those of a run, which is not sampled at real-time priority.
        let is_of_run = !self.urgent && process.pid == own_pid();
        if self.members.is_of_all() && !is_of_run || ns == 0 {
            return;
        }
        let names = [comm, process.name()];
        let of = self.by_thread.entry(tid);
        let (_, known, sums) = of.or_insert((process.pid, names, StateSums::default()));
        *known = names;
        sums[state as usize] += ns;
    }

    /// The time off-CPU whose cause no sample has found, of each thread.
    fn spend_pending(&mut self) {
        let mut processes = std::mem::take(&mut self.members.processes);
        for process in &mut processes {
            for index in 0..process.tasks.len() {
                let task = &mut process.tasks[index];
                let (thread, pending) = ((task.tid, task.comm), task.off_cpu.take_pending());
                self.spend(process, thread, ThreadState::Unknown, pending);
            }
        }
        self.members.processes = processes;
    }

    /// Takes the times of all threads; of many, those of the less active ones by process name.
    fn take_by_thread(&mut self) -> Vec<TimesOfThread> {
        let names = &self.context.names;
        let one = |(tid, (pid, [comm, process], sums)): (i32, ThreadSums)| TimesOfThread {
            pid,
            tid,
            comm: names.text(comm),
            process: if process == comm { String::new() } else { names.text(process) },
            others: 0,
            times: by_state(sums),
        };
        let mut all: Vec<(i32, ThreadSums)> = self.by_thread.drain().collect();
        let mut rest: BTreeMap<TextId, (u64, StateSums)> = BTreeMap::new();
        if all.len() > BY_THREAD_MAX {
            all.sort_unstable_by_key(|(tid, (_, _, sums))| (Reverse(active_ns(sums)), *tid));
            for (_, (_, [_, process], sums)) in all.drain(BY_THREAD_MAX..) {
                let (threads, sum) = rest.entry(process).or_default();
                *threads += 1;
                sum.iter_mut().zip(sums).for_each(|(sum, ns)| *sum += ns);
            }
        }
        let mut threads: Vec<TimesOfThread> = all.into_iter().map(one).collect();
        threads.sort_unstable_by_key(|thread| (thread.pid, thread.tid));
        threads.extend(rest.into_iter().map(|(process, (others, sums))| TimesOfThread {
            comm: names.text(process),
            others,
            times: by_state(sums),
            ..TimesOfThread::default()
        }));
        threads
    }

    /// Adds what a thread did; `part` is its index among [`task::SampledThread::counted_at`].
    fn add(
        &mut self,
        process: &mut SampledProcess,
        (index, part): (usize, usize),
        state: u8,
        sleep: SleepPlace,
        cpu: Option<u32>,
        tally: ActivityCount,
    ) {
        let about = self.about(process);
        let owner = process.owner(index);
        let name = process.name();
        let Some(task) = process.tasks.get_mut(index) else { return };
        let activity = Activity {
            pid: process.pid,
            tid: task.tid,
            comm: task.comm,
            process: name,
            state,
            syscall: sleep.syscall,
            wchan: sleep.wchan,
            kstack: sleep.kstack,
            filename: sleep.filename,
            cmdline: about.cmdline,
            user: about.user,
            cpu,
            works_for: owner,
        };
        // Most threads do the same as in the last sample.
        let counted_at = &mut task.counted_at[part];
        if self.counts.get(*counted_at).is_none_or(|(counted, _)| *counted != activity) {
            *counted_at = *self.indices.entry(activity).or_insert_with(|| {
                self.counts.push((activity, ActivityCount::default()));
                self.counts.len() - 1
            });
        }
        let sum = &mut self.counts[*counted_at].1;
        (sum.count, sum.ns) = (sum.count + tally.count, sum.ns + tally.ns);
    }

    fn forget_counts(&mut self) {
        self.counts.clear();
        self.indices.clear();
    }

    fn about(&mut self, process: &mut SampledProcess) -> ProcessDetails {
        let SampleParts { cmdline, user, .. } = self.context.parts;
        if !cmdline && !user {
            return ProcessDetails::NOTHING;
        }
        if let Some(about) = process.about {
            return about;
        }
        let ReadContext { proc, names, buffer, .. } = &mut self.context;
        let mut about = ProcessDetails::NOTHING;
        if cmdline {
            about.cmdline = names.intern(members::arguments(process.pid, proc, buffer));
        }
        if user && let Some(uid) = members::user(process.pid, proc, buffer) {
            let known = self.users.get(&uid).cloned();
            about.user = names.intern(known.unwrap_or_else(|| uid.to_string()).as_bytes());
        }
        *process.about.insert(about)
    }

    fn forget_names(&mut self) {
        self.context.names = TextTable::default();
        self.context.resolved.clear();
        for process in &mut self.members.processes {
            process.about = None;
            process.tasks.iter_mut().for_each(task::SampledThread::forget_names);
        }
    }
}

impl Sampler for ThreadSampler {
    fn name(&self) -> &'static str {
        "threads"
    }

    /// From 0.6 to 1.6 times the mean: what a program does periodically is found in all of its phases.
    fn period(&self) -> Option<Duration> {
        let sample = self.context.sample_number as f64;
        let phase = |sample: f64| (sample * GOLDEN_RATIO).fract();
        Some(self.period.mul_f64(1.0 + phase(sample + 1.0) - phase(sample)))
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }

    fn sample(&mut self) {
        self.context.sample_number += 1;
        self.context.now_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.own.is_none() {
            self.own = Some(self.context.proc.own_thread(&mut self.context.buffer).unwrap_or(0));
        }
        if let Some(all) = self.all_threads() {
            self.sample_all(&all);
            self.all = All::Possible(all);
        } else {
            self.sample_by_files();
        }
        self.samples += 1;
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let mut active: Vec<ThreadCount> = self
            .counts
            .iter()
            .map(|(activity, tally)| activity.text(*tally, &self.context.names))
            .collect();
        self.forget_counts();
        self.spend_pending();
        let times = std::mem::take(&mut self.times);
        let from_ns = std::mem::replace(&mut self.taken_ns, self.context.now_ns);
        active.sort_unstable();
        sample.threads = Some(ThreadsSample {
            samples: std::mem::take(&mut self.samples),
            seen: std::mem::take(&mut self.sampled),
            elapsed_ns: self.taken_ns - from_ns,
            torn: std::mem::take(&mut self.torn),
            times: by_state(times),
            by_thread: self.take_by_thread(),
            at_once: self.is_at_once(),
            active,
        });
        if self.context.names.is_full() {
            self.forget_names();
        }
    }
}

fn by_state(sums: StateSums) -> Vec<ThreadTime> {
    let times = ThreadState::ALL.into_iter().zip(sums).filter(|(_, ns)| *ns > 0);
    times.map(|(state, ns)| ThreadTime { state, ns }).collect()
}

fn users(passwd: &Path) -> BTreeMap<u32, String> {
    let text = std::fs::read(passwd).unwrap_or_default();
    let user = |line: &str| {
        // name:password:number:...
        let mut fields = line.split(':');
        let name = fields.next()?.to_string();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    // Of several names for an ID, the first counts.
    String::from_utf8_lossy(&text).lines().rev().filter_map(user).collect()
}
