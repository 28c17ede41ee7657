//! The threads of the machine, followed from one context switch to the next.
//!
//! Some kernels record no events on CPUs that are idle: neither that an interrupt woke a thread there, nor that the CPU went
//! to it. A thread that is found running all the same has run since it was woken or, if that was not recorded, has only
//! just been woken.

use crate::processes::Peers;
use crate::stacks::NameTable;
use crate::threads::Sched;
use fathom_model::watch::{LockHolder, SwitchedThread, ThreadState, ThreadTime, WaitSum};
use foldhash::HashMap;
use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// Bits of a task's state other than runnable and preempted: `TASK_REPORT` in include/linux/sched.h.
pub(super) const RUNNABLE_MASK: u64 = 0xff;
pub(super) const STOPPED_MASK: u64 = 0x04 | 0x08;
/// States of a task that exits.
const ENDED_MASK: u64 = 0x10 | 0x20;
/// A wakeup this long before the thread leaves the CPU found it still on its way to sleep.
const WAKES_SLEEPER_NS: u64 = 20_000;
/// A wait for input that times out after this time or more has a timeout in case that none comes; shorter ones are a pace.
const FALLBACK_MIN_NS: u64 = 400_000_000;
/// A wait in futex(2) that times out after less than this is still one for a lock.
const SLEEP_MIN_NS: u64 = 20_000_000;
/// Maximum number of processes counted as wakers of the same wait.
const WAKERS_MAX: usize = 64;
/// Processes that ended a smaller part of the waits for a peer than this are no peers.
const PEER_PART: u64 = 100;
/// Maximum number of threads taken of an interval.
const TAKEN_MAX: usize = 1000;
/// Periods of a thread that are remembered.
const RECENT_MAX: usize = 24;
/// Maximum number of threads behind each other that wait for the lock that the next one holds.
const CHAIN_MAX: u32 = 4;
/// Maximum number of threads reported of those that ended the waits for a lock.
const HOLDERS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Switches {
    threads: HashMap<i32, TracedThread>,
    peers: Peers,
    follows_peers: bool,
    /// Peers so far, which matter also while none of their answers comes.
    followed: HashSet<i32>,
    /// When the previous interval ended, and the time of the last event or pause.
    taken_ns: u64,
    now_ns: u64,
}

#[derive(Debug, Default)]
struct TracedThread {
    /// 0 until it has left a CPU.
    pid: i32,
    comm: Comm,
    /// When it started in this interval, and when it ended.
    started_ns: Option<u64>,
    ended_ns: Option<u64>,
    now: Activity,
    /// When it began that, and since when its time is not counted yet.
    began_ns: u64,
    since_ns: u64,
    /// When it was woken while it was on a CPU.
    woken_ns: Option<u64>,
    /// How long its last wait took whose end was not recorded.
    silent_ns: u64,
    run_ns: u64,
    runnable_ns: u64,
    /// Of a peer: the scheduler's statistics, and when they were read.
    statistics: Option<(Sched, Instant)>,
    waits: HashMap<Wait, Waits>,
    recent: VecDeque<Period>,
}

/// What a thread did for some time.
#[derive(Debug, Clone)]
struct Period {
    state: ThreadState,
    time: Range<u64>,
    /// The thread that ended it, if it was a wait that one ended; otherwise 0.
    ended_by: i32,
}

/// Cause and function.
type Wait = (ThreadState, u32);

#[derive(Debug, Default)]
struct Waits {
    count: u64,
    ns: u64,
    wakers: Vec<(Waker, u64)>,
    /// Of waits for a lock: threads that ended them (how many, and the time that passed with what these did), and what they
    /// did meanwhile, in nanoseconds.
    holders: HashMap<i32, (u64, u64)>,
    meanwhile: HashMap<ThreadState, u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Unknown,
    Running,
    Runnable,
    Waiting(Wait),
}

impl Activity {
    fn state(self) -> Option<ThreadState> {
        match self {
            Self::Unknown => None,
            Self::Running => Some(ThreadState::OnCpu),
            Self::Runnable => Some(ThreadState::Runnable),
            Self::Waiting((cause, _)) => Some(cause),
        }
    }

    /// Whether it waits for a lock, or for what another thread does.
    fn is_for_lock(self) -> bool {
        matches!(self, Self::Waiting((ThreadState::Futex | ThreadState::KernelLock, _)))
    }
}

/// A thread's name, as the kernel keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Comm([u8; 16]);

impl Comm {
    pub fn of(text: &[u8]) -> Self {
        let mut comm = [0; 16];
        comm.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        Self(comm)
    }

    fn text(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        fathom_model::escape::bytes(&self.0[..end])
    }
}

/// Who ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waker {
    /// What came with an interrupt: the time, or a completed I/O.
    Event(ThreadState),
    /// Another interrupt.
    Interrupt,
    /// Deferred work of an interrupt or of the network, which may not be on behalf of this process.
    Softirq(i32),
    Process(i32),
    Unknown,
}

impl TracedThread {
    /// Time on a CPU, time runnable, and since when, by the scheduler's statistics since they were last read.
    fn statistics(&mut self, proc_root: &Path, tid: i32) -> Option<(u64, u64, u64)> {
        let path = proc_root.join(format!("{}/task/{tid}/schedstat", self.pid));
        let now = (Sched::parse(&std::fs::read(path).ok()?)?, Instant::now());
        let (before, then) = self.statistics.replace(now)?;
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let elapsed_ns = now.1.duration_since(then).as_nanos() as u64;
        Some((since(now.0.run_ns, before.run_ns), since(now.0.wait_ns, before.wait_ns), elapsed_ns))
    }

    /// How much of the time from `taken_ns` to `now_ns` it existed; 0 for all of it.
    fn lived_ns(&self, taken_ns: u64, now_ns: u64) -> u64 {
        if self.started_ns.is_none() && self.ended_ns.is_none() {
            return 0;
        }
        let from = self.started_ns.unwrap_or(0).max(taken_ns);
        self.ended_ns.unwrap_or(now_ns).saturating_sub(from).max(1)
    }

    /// Ends what it did until now, at `now_ns`.
    fn elapse(&mut self, now_ns: u64) {
        let ns = now_ns.saturating_sub(self.since_ns);
        if ns == 0 {
            return;
        }
        match self.now {
            Activity::Unknown => {}
            Activity::Running => self.run_ns += ns,
            Activity::Runnable => self.runnable_ns += ns,
            Activity::Waiting(wait) => self.waits.entry(wait).or_default().ns += ns,
        }
        if let Some(state) = self.now.state() {
            self.remember(state, now_ns);
        }
        self.since_ns = now_ns;
    }

    fn remember(&mut self, state: ThreadState, now_ns: u64) {
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Period { state, time: self.since_ns..now_ns, ended_by: 0 });
    }

    /// What it did within `time`, as far as that is remembered, the last first.
    fn did(&self, time: Range<u64>) -> impl Iterator<Item = Period> {
        let now = self.now.state();
        let now = now.map(|state| Period { state, time: self.since_ns..time.end, ended_by: 0 });
        let all = self.recent.iter().cloned().chain(now).rev();
        let all = all.skip_while(move |period| period.time.start >= time.end);
        all.take_while(move |period| period.time.end > time.start).map(move |period| Period {
            time: period.time.start.max(time.start)..period.time.end.min(time.end),
            ..period
        })
    }

    /// It is on a CPU, as an event of its own shows.
    fn runs(&mut self, now_ns: u64) {
        match self.now {
            Activity::Running => {}
            // The CPU was idle: it did not wait for it.
            Activity::Runnable => self.now = Activity::Running,
            Activity::Waiting(_) => {
                // An interrupt: a timeout, if the wait before took as long.
                let ns = now_ns.saturating_sub(self.since_ns);
                let before = std::mem::replace(&mut self.silent_ns, ns);
                let is_timeout = ns.abs_diff(before) <= ns / 10;
                let time = Waker::Event(ThreadState::Timer);
                self.woken(now_ns, if is_timeout { time } else { Waker::Unknown });
                self.now = Activity::Running;
            }
            Activity::Unknown => self.becomes(Activity::Running, now_ns),
        }
    }

    fn becomes(&mut self, now: Activity, now_ns: u64) {
        self.elapse(now_ns);
        (self.now, self.began_ns) = (now, now_ns);
    }

    fn woken(&mut self, now_ns: u64, by: Waker) {
        let Activity::Waiting((cause, function)) = self.now else {
            if self.now == Activity::Running {
                self.woken_ns = Some(now_ns);
            }
            return;
        };
        let ns = now_ns.saturating_sub(self.since_ns);
        let waited_for = match (cause, by) {
            (ThreadState::Poll | ThreadState::Socket, Waker::Event(ThreadState::Timer)) => {
                let is_pace = now_ns.saturating_sub(self.began_ns) < FALLBACK_MIN_NS;
                is_pace.then_some(ThreadState::Timer)
            }
            (ThreadState::Poll, Waker::Event(came)) => Some(came),
            // Who waits for a lock may look at it now and then, as Python's interpreter does.
            (ThreadState::Futex, Waker::Event(ThreadState::Timer)) if ns >= SLEEP_MIN_NS => {
                Some(ThreadState::Timer)
            }
            _ => None,
        };
        if let Some(state) = waited_for {
            let waits = self.waits.entry((state, function)).or_default();
            (waits.count, waits.ns) = (waits.count + 1, waits.ns + ns);
            self.remember(state, now_ns);
            (self.now, self.since_ns) = (Activity::Runnable, now_ns);
            return;
        }
        self.becomes(Activity::Runnable, now_ns);
        let waits = self.waits.entry((cause, function)).or_default();
        waits.count += 1;
        let known = waits.wakers.iter().position(|(known, _)| *known == by);
        match known {
            Some(at) => waits.wakers[at].1 += 1,
            None if waits.wakers.len() < WAKERS_MAX => waits.wakers.push((by, 1)),
            None => {}
        }
    }

    /// `holder` ended its wait for a lock; these threads did this meanwhile.
    fn was_held_up(&mut self, holder: i32, did: &[(i32, ThreadState, u64)]) {
        let Activity::Waiting(wait) = self.now else { return };
        let waits = self.waits.entry(wait).or_default();
        if let Some((count, _)) = waits.holder(holder) {
            *count += 1;
        }
        for (tid, state, ns) in did {
            if let Some((_, sum)) = waits.holder(*tid) {
                *sum += ns;
            }
            *waits.meanwhile.entry(*state).or_default() += ns;
        }
    }
}

impl Switches {
    pub fn new(follows_peers: bool) -> Self {
        Self { follows_peers, ..Self::default() }
    }

    /// A CPU went from one thread to another. `wait` is what the first one waits for, unless it stays runnable.
    pub fn switched(
        &mut self,
        now_ns: u64,
        ((pid, tid), comm): ((i32, i32), Comm),
        state: u64,
        wait: Option<Wait>,
        to: i32,
    ) {
        if tid > 0 && state & ENDED_MASK != 0 {
            let thread = self.threads.entry(tid).or_default();
            thread.becomes(Activity::Unknown, now_ns);
            thread.ended_ns = Some(now_ns);
        } else if tid > 0 {
            let thread = self.threads.entry(tid).or_default();
            (thread.pid, thread.comm) = (pid, comm);
            thread.runs(now_ns);
            let woken_ns = thread.woken_ns.take();
            let was_woken = woken_ns.is_some_and(|ns| now_ns.saturating_sub(ns) < WAKES_SLEEPER_NS);
            thread.becomes(
                match wait {
                    Some(wait) if !was_woken => Activity::Waiting(wait),
                    _ => Activity::Runnable,
                },
                now_ns,
            );
        }
        if to > 0 {
            let thread = self.threads.entry(to).or_default();
            match thread.now {
                // Its wakeup was not recorded.
                Activity::Waiting(_) => thread.runs(now_ns),
                _ => thread.becomes(Activity::Running, now_ns),
            }
        }
    }

    /// A thread was woken, while the thread `current` was on the CPU.
    pub fn woken(&mut self, now_ns: u64, tid: i32, by: Waker, current: i32) {
        if current > 0 {
            self.threads.entry(current).or_default().runs(now_ns);
        }
        let waits = self.threads.get(&tid).filter(|thread| thread.now.is_for_lock());
        let is_by_thread = matches!(by, Waker::Process(_));
        if let Some((waits, holder)) =
            waits.zip(self.threads.get(&current)).filter(|_| is_by_thread)
        {
            let mut did = Vec::new();
            self.held(current, holder.did(waits.since_ns..now_ns), CHAIN_MAX, &mut did);
            self.threads.entry(tid).or_default().was_held_up(current, &did);
        }
        let thread = self.threads.entry(tid).or_default();
        thread.woken(now_ns, by);
        let ended = thread.recent.back_mut().filter(|last| last.time.end == now_ns);
        if let (Some(wait), Waker::Process(_)) = (ended, by) {
            wait.ended_by = current;
        }
    }

    /// What the thread `tid` did in `periods`; where it waited for a lock itself, what the thread did that held that.
    fn held(
        &self,
        tid: i32,
        periods: impl Iterator<Item = Period>,
        chain: u32,
        did: &mut Vec<(i32, ThreadState, u64)>,
    ) {
        for Period { state, time, ended_by } in periods {
            if !matches!(state, ThreadState::Futex | ThreadState::KernelLock) {
                did.push((tid, state, time.end.saturating_sub(time.start)));
            } else if let (1.., Some(holder)) = (chain, self.threads.get(&ended_by)) {
                // Boxed, since each step of the chain has an iterator of its own.
                let periods: Box<dyn Iterator<Item = Period>> = Box::new(holder.did(time));
                self.held(ended_by, periods, chain - 1, did);
            }
        }
    }

    /// Whether a thread is in a wait that may end without what it waits for.
    pub fn may_time_out(&self, tid: i32) -> bool {
        let now = self.threads.get(&tid).map(|thread| thread.now);
        matches!(
            now,
            Some(Activity::Waiting((
                ThreadState::Poll | ThreadState::Socket | ThreadState::Futex,
                _
            )))
        )
    }

    /// A thread was created.
    pub fn started(&mut self, tid: i32, now_ns: u64) {
        self.threads.entry(tid).or_default().started_ns = Some(now_ns);
    }

    /// A thread has exited, which may be reported before its last events.
    pub fn ended(&mut self, tid: i32, now_ns: u64) {
        self.threads.entry(tid).or_default().ended_ns = Some(now_ns);
    }

    /// What threads do is counted up to `now_ns`, and goes on.
    pub fn pause(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.threads.values_mut().for_each(|thread| thread.elapse(now_ns));
    }

    /// What threads do after `now_ns` is unknown.
    pub fn end_window(&mut self, now_ns: u64) {
        self.threads.values_mut().for_each(|thread| thread.becomes(Activity::Unknown, now_ns));
    }

    /// Takes what the threads of the watched processes did, and those of their peers; and how many less active ones were left
    /// out.
    pub fn take(
        &mut self,
        proc_root: &Path,
        is_member: impl Fn(i32) -> bool,
        names: &NameTable,
    ) -> (Vec<SwitchedThread>, u64) {
        if self.follows_peers {
            let found = self.find_peers(proc_root, &is_member);
            self.followed.extend(found);
        }
        let peers = &self.followed;
        let comm_of = |tid: i32, threads: &HashMap<i32, TracedThread>| {
            threads.get(&tid).map(|thread| thread.comm.text()).unwrap_or_default()
        };
        let held = self.threads.values().flat_map(|thread| thread.waits.values());
        let holders: HashSet<i32> = held.flat_map(|waits| waits.holders.keys().copied()).collect();
        let holders: HashMap<i32, String> =
            holders.into_iter().map(|tid| (tid, comm_of(tid, &self.threads))).collect();
        let mut taken = Vec::new();
        // Threads that have exited, or that nothing was seen of in this interval.
        let was_seen = |thread: &TracedThread| {
            let spent = thread.run_ns + thread.runnable_ns > 0 || !thread.waits.is_empty();
            thread.now != Activity::Unknown || spent || thread.started_ns.is_some()
        };
        self.threads.retain(|_, thread| was_seen(thread));
        for (tid, thread) in &mut self.threads {
            let (is_watched, is_peer) = (is_member(thread.pid), peers.contains(&thread.pid));
            let waits = std::mem::take(&mut thread.waits);
            let (run_ns, runnable_ns) =
                (std::mem::take(&mut thread.run_ns), std::mem::take(&mut thread.runnable_ns));
            let is_wanted = thread.pid > 0 && (is_watched || is_peer);
            if !is_wanted || waits.is_empty() && run_ns + runnable_ns == 0 {
                continue;
            }
            let statistics = is_peer.then(|| thread.statistics(proc_root, *tid)).flatten();
            let (run_ns, runnable_ns, interval_ns) = statistics.unwrap_or((run_ns, runnable_ns, 0));
            let sum = |((cause, function), waits): (Wait, Waits)| WaitSum {
                cause,
                function: names.name(function).into(),
                count: waits.count,
                ns: waits.ns,
                within: waits.ended_by(&|pid| is_member(pid) || peers.contains(&pid)),
                holders: waits.holders(&holders),
                meanwhile: waits.meanwhile(),
            };
            let mut waits: Vec<WaitSum> = waits.into_iter().map(sum).collect();
            waits.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
            taken.push(SwitchedThread {
                pid: thread.pid,
                tid: *tid,
                comm: thread.comm.text(),
                peer: is_peer,
                lived_ns: thread.lived_ns(self.taken_ns, self.now_ns),
                interval_ns,
                run_ns,
                runnable_ns,
                waits,
            });
        }
        let ended = |(tid, thread): (&i32, &TracedThread)| thread.ended_ns.map(|_| *tid);
        for tid in self.threads.iter().filter_map(ended) {
            self.followed.remove(&tid);
        }
        self.threads.retain(|_, thread| thread.ended_ns.is_none());
        self.threads.values_mut().for_each(|thread| thread.started_ns = None);
        self.taken_ns = self.now_ns;
        let left_out = taken.len().saturating_sub(TAKEN_MAX);
        if left_out > 0 {
            taken.sort_unstable_by_key(|thread| (Reverse(active_ns(thread)), thread.tid));
            taken.truncate(TAKEN_MAX);
        }
        taken.sort_unstable_by_key(|thread| (thread.pid, thread.tid));
        (taken, left_out as u64)
    }

    /// The processes that are not watched and ended the watched ones' waits for a peer.
    fn find_peers(&mut self, proc_root: &Path, is_member: &impl Fn(i32) -> bool) -> HashSet<i32> {
        let (mut direct, mut indirect) = (HashMap::default(), HashMap::default());
        let (mut all, mut members) = (0, HashSet::new());
        for thread in self.threads.values().filter(|thread| is_member(thread.pid)) {
            members.insert(thread.pid);
            for ((cause, _), waits) in &thread.waits {
                if !is_for_peer(*cause) {
                    continue;
                }
                all += waits.count;
                for (waker, count) in &waits.wakers {
                    match waker {
                        Waker::Process(pid) if !is_member(*pid) => {
                            *direct.entry(*pid).or_default() += count;
                        }
                        Waker::Softirq(pid) if !is_member(*pid) => {
                            *indirect.entry(*pid).or_default() += count;
                        }
                        _ => {}
                    }
                }
            }
        }
        let matters = |(_, count): &(i32, u64)| count * PEER_PART >= all;
        let indirect: Vec<(i32, u64)> = indirect.into_iter().filter(matters).collect();
        let members: Vec<i32> = members.into_iter().collect();
        self.peers.refresh(proc_root, &members, indirect.iter().map(|(pid, _)| (*pid, 0)));
        let connected = indirect.into_iter().filter(|(pid, _)| self.peers.contains(*pid, 0));
        let direct =
            direct.into_iter().filter(matters).filter(|(pid, _)| is_program(proc_root, *pid));
        direct.chain(connected).map(|(pid, _)| pid).collect()
    }
}

/// The time that a thread ran, wanted to, or waited for an I/O or a lock of the kernel.
fn active_ns(thread: &SwitchedThread) -> u64 {
    use ThreadState as S;
    let is_active =
        |wait: &&WaitSum| matches!(wait.cause, S::Disk | S::Flush | S::PageFault | S::KernelLock);
    let waits = thread.waits.iter().filter(is_active).map(|wait| wait.ns);
    thread.run_ns + thread.runnable_ns + waits.sum::<u64>()
}

/// Whether it is not a thread of the kernel, which does what others ask for.
fn is_program(proc_root: &Path, pid: i32) -> bool {
    let arguments = std::fs::read(proc_root.join(format!("{pid}/cmdline")));
    arguments.is_ok_and(|arguments| !arguments.is_empty())
}

/// Whether another process ends such waits.
fn is_for_peer(cause: ThreadState) -> bool {
    matches!(cause, ThreadState::Socket | ThreadState::Poll | ThreadState::Pipe)
}

impl Waits {
    /// Of the threads that held up others, this one, unless there are too many.
    fn holder(&mut self, tid: i32) -> Option<&mut (u64, u64)> {
        let has_room = self.holders.len() < WAKERS_MAX || self.holders.contains_key(&tid);
        has_room.then(|| self.holders.entry(tid).or_default())
    }

    /// The threads that ended most of them, or that those waited for.
    fn holders(&self, names: &HashMap<i32, String>) -> Vec<LockHolder> {
        let holder = |(tid, (count, ns)): (&i32, &(u64, u64))| {
            let comm = names.get(tid).cloned().unwrap_or_default();
            LockHolder { tid: *tid, comm, count: *count, ns: *ns }
        };
        let mut holders: Vec<LockHolder> = self.holders.iter().map(holder).collect();
        holders.sort_by_key(|holder| (Reverse(holder.ns), Reverse(holder.count), holder.tid));
        holders.truncate(HOLDERS_MAX);
        holders
    }

    fn meanwhile(&self) -> Vec<ThreadTime> {
        let time = |(state, ns): (&ThreadState, &u64)| ThreadTime { state: *state, ns: *ns };
        let mut times: Vec<ThreadTime> = self.meanwhile.iter().map(time).collect();
        times.sort_by_key(|time| (Reverse(time.ns), time.state));
        times
    }

    /// How many of them these processes ended.
    fn ended_by(&self, is_of_interest: &impl Fn(i32) -> bool) -> u64 {
        let of = |(waker, count): &(Waker, u64)| match *waker {
            Waker::Process(pid) | Waker::Softirq(pid) if is_of_interest(pid) => *count,
            _ => 0,
        };
        self.wakers.iter().map(of).sum()
    }
}
