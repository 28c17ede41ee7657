//! Adds up the intervals of a record, thread by thread, and divides each thread's time.

use super::{
    Account, AccountFunction, AccountGroup, AccountHolder, AccountPart, AccountShare,
    is_for_others, is_working, turns,
};
use crate::machine::{CpuRates, MachineRates};
use crate::threads::fold_digits;
use fathom_model::watch::{
    LockHolder, OffCpuSample, SwitchedThread, ThreadState, ThreadTime, ThreadsSample,
    TimesOfThread, WaitSum,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Recorded time of an interval, in nanoseconds, from which it says something.
const SEEN_MIN_NS: u64 = 5_000_000;
/// Mean time of waits in futex(2) up to which they are for a lock rather than for work or for another thread's end.
const BRIEF_NS: u64 = 20_000_000;
/// A group of threads matters if they work, or wait for what is not another thread, for this part of what the most active
/// group does, and for this share of a thread's time; and of its threads those that do so for this part of what the most
/// active one does.
const MATTERS_SHARE: f64 = 0.03;
const MATTERS_PART: f64 = 0.25;
/// Mean time of waits from which a thread that samples always find in a wait for a lock waits for one: others of that length are
/// hardly ever found so soon after it ran. The share of such samples.
const LONG_NS: u64 = 100_000_000;
const LOCK_SAMPLES_MIN: f64 = 0.8;
/// The function in which threads wait for a System V semaphore.
const SEMAPHORE: &str = "semtimedop";
/// Maximum number of threads kept apart; further ones are kept by name. Of names, functions of each and thread IDs.
const THREADS_MAX: usize = 1000;
const NAMES_MAX: usize = 2000;
const FUNCTIONS_MAX: usize = 16;
const TIDS_MAX: usize = 1000;
/// Maximum number of threads kept, and shown, of those that held a lock.
const HOLDERS_MAX: usize = 64;
const HOLDERS_SHOWN: usize = 4;

/// What the machine's counters say of an interval in which threads were neither running nor waiting, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct TakenTime {
    /// Of interrupts, and taken by the hypervisor, on all CPUs.
    interrupts_ns: f64,
    /// In which the program's cgroup had used up its CPU quota.
    throttled_ns: f64,
}

impl TakenTime {
    /// From rates of an interval; where they are not known, interrupts may have taken any time.
    pub fn of(rates: &MachineRates) -> Self {
        let Some(system) = &rates.system else {
            return Self { interrupts_ns: f64::INFINITY, throttled_ns: 0.0 };
        };
        let ns = |percent: f64| percent / 100.0 * rates.elapsed_ns as f64;
        let interrupts = |cpu: &CpuRates| cpu.shares.irq + cpu.shares.softirq + cpu.shares.steal;
        let throttled = system.cgroup.and_then(|cgroup| cgroup.throttled);
        Self {
            interrupts_ns: ns(system.cpus.iter().map(interrupts).sum()),
            throttled_ns: ns(throttled.unwrap_or(0.0)),
        }
    }
}

/// The intervals of a record, added up.
#[derive(Debug, Clone, Default)]
pub struct AccountTotals {
    elapsed_ns: u64,
    seen_ns: u64,
    /// The most threads of an interval that are known only together.
    others: u64,
    /// By thread, or by name only (thread 0).
    threads: BTreeMap<(GroupKey, i32), GroupSums>,
}

/// Whether it is a peer's, name of the process, name of its threads.
pub(super) type GroupKey = (bool, String, String);

#[derive(Debug, Clone, Default)]
pub(super) struct GroupSums {
    tids: BTreeSet<i32>,
    pub(super) pids: BTreeSet<i32>,
    /// The most threads of an interval that are known only together.
    others: u64,
    pub(super) parts: BTreeMap<ThreadState, PartSums>,
    pub(super) functions: BTreeMap<(ThreadState, String), (u64, u64)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct PartSums {
    pub(super) ns: u64,
    /// The part of `ns` that is known from samples alone.
    sampled_ns: u64,
    /// Of waits whose end was recorded, and of those of them that a process of the account ended.
    ended_ns: u64,
    within_ns: u64,
    /// Waits of the whole interval, as far as the recorded ones stand for the others; and those recorded with their time.
    waits: f64,
    recorded: u64,
    waited_ns: u64,
    /// Of waits for a lock: the threads that held it, and what these did meanwhile, in nanoseconds.
    pub(super) holders: BTreeMap<i32, LockHolder>,
    meanwhile: BTreeMap<ThreadState, u64>,
}

impl AccountTotals {
    /// Adds an interval, of the threads that `is_wanted` selects by name.
    pub fn add(
        &mut self,
        threads: &ThreadsSample,
        off_cpu: Option<&OffCpuSample>,
        mut taken: TakenTime,
        is_wanted: impl Fn(&str) -> bool,
    ) {
        let off_cpu = off_cpu.filter(|sample| sample.seen_ns >= SEEN_MIN_NS);
        self.elapsed_ns += threads.elapsed_ns;
        self.seen_ns += off_cpu.map_or(0, |sample| sample.seen_ns.min(threads.elapsed_ns));
        let scale = off_cpu.map(|sample| threads.elapsed_ns as f64 / sample.seen_ns as f64);
        let switched = off_cpu.map_or(&[][..], |sample| &sample.threads);
        let known: HashMap<i32, &SwitchedThread> =
            switched.iter().map(|thread| (thread.tid, thread)).collect();
        for thread in threads.by_thread.iter().filter(|one| is_wanted(&one.comm)) {
            let key = key_of(thread);
            let found = known.get(&thread.tid).copied().zip(scale);
            self.others = self.others.max(thread.others);
            if let Some(group) = self.group(key, thread.pid, thread.tid) {
                group.others = group.others.max(thread.others);
                group.add(thread, found, &mut taken);
            }
        }
        self.move_throttled(threads, taken, &is_wanted);
        for thread in switched.iter().filter(|thread| thread.peer) {
            let main = known.get(&thread.pid).map_or(&thread.comm, |main| &main.comm);
            let key = (true, main.clone(), name_of(&thread.comm, main));
            if let (Some(group), Some(scale)) = (self.group(key, thread.pid, thread.tid), scale) {
                group.add_peer(thread, scale, threads.elapsed_ns);
            }
        }
    }

    /// The scheduler calls a throttled thread runnable: what is left of the throttled time is a part of each one's time runnable.
    fn move_throttled(
        &mut self,
        threads: &ThreadsSample,
        taken: TakenTime,
        is_wanted: &impl Fn(&str) -> bool,
    ) {
        let runnable = |thread: &TimesOfThread| -> u64 {
            let times = thread.times.iter().filter(|time| time.state == ThreadState::Runnable);
            times.map(|time| time.ns).sum()
        };
        let wanted = || threads.by_thread.iter().filter(|one| is_wanted(&one.comm));
        let all: u64 = wanted().map(runnable).sum();
        if taken.throttled_ns < 1.0 || all == 0 {
            return;
        }
        let part = (taken.throttled_ns / all as f64).min(1.0);
        for thread in wanted() {
            let ns = (runnable(thread) as f64 * part) as u64;
            if let Some(group) = self.group(key_of(thread), thread.pid, thread.tid) {
                group.part(ThreadState::Runnable).ns -= ns;
                group.part(ThreadState::Throttled).ns += ns;
            }
        }
    }

    fn group(&mut self, name: GroupKey, pid: i32, tid: i32) -> Option<&mut GroupSums> {
        let (thread, others) = ((name.clone(), tid), (name, 0));
        let is_known = self.threads.contains_key(&thread);
        let key = if is_known || self.threads.len() < THREADS_MAX { thread } else { others };
        if self.threads.len() >= NAMES_MAX && !self.threads.contains_key(&key) {
            return None;
        }
        let group = self.threads.entry(key).or_default();
        if tid > 0 && group.tids.len() < TIDS_MAX {
            group.tids.insert(tid);
            group.pids.insert(pid);
        }
        Some(group)
    }

    /// The account; `None` where the times of single threads are not known.
    pub fn account(&self) -> Option<Account> {
        let mut threads = self.threads.clone();
        threads.values_mut().for_each(GroupSums::resolve_samples);
        let turns = turns::find(&mut threads);
        // Of each name: working time in sum, and of its most active thread.
        let mut works: BTreeMap<&GroupKey, (u64, u64)> = BTreeMap::new();
        for ((name, tid), sums) in &threads {
            let (all, most) = works.entry(name).or_default();
            let working = sums.working_ns();
            *all += working;
            *most = if *tid == 0 { *most } else { working.max(*most) };
        }
        let most = works.values().map(|(all, _)| *all).max().unwrap_or(0) as f64;
        let mut groups: BTreeMap<(bool, &GroupKey), GroupSums> = BTreeMap::new();
        for ((name, _), sums) in &threads {
            let (of_group, of_one) = works.get(name).copied().unwrap_or_default();
            let (of_group, of_one) = (of_group as f64, of_one as f64);
            let (working, all) = (sums.working_ns() as f64, sums.all_ns() as f64);
            // Of a group of many that each do little, all matter.
            let does_its_part = working >= MATTERS_PART * of_one;
            let is_idle = of_group < MATTERS_SHARE * all;
            let matters = of_group >= MATTERS_PART * most && does_its_part && !is_idle;
            groups.entry((matters, name)).or_default().merge(sums);
        }
        groups.values_mut().for_each(GroupSums::resolve_polls);
        let all_idle = !groups.keys().any(|(matters, _)| *matters);
        let group = |((matters, name), sums): (&(bool, &GroupKey), &GroupSums)| {
            sums.group(name, *matters || all_idle, self.elapsed_ns)
        };
        let mut groups: Vec<AccountGroup> = groups.iter().map(group).collect();
        groups.sort_by(|a, b| b.working().total_cmp(&a.working()));
        let recorded_share = self.seen_ns as f64 / self.elapsed_ns.max(1) as f64;
        let (elapsed_ns, others) = (self.elapsed_ns, self.others);
        let all = sum_of(&groups);
        let idle = all_idle;
        let account = Account { elapsed_ns, recorded_share, others, idle, all, turns, groups };
        (self.elapsed_ns > 0 && !account.groups.is_empty()).then_some(account)
    }
}

fn key_of(thread: &TimesOfThread) -> GroupKey {
    let process = if thread.process.is_empty() { &thread.comm } else { &thread.process };
    (false, process.clone(), name_of(&thread.comm, process))
}

/// The time of all groups by state.
fn sum_of(groups: &[AccountGroup]) -> Vec<AccountPart> {
    let all: f64 = groups.iter().map(|group| group.mean_threads).sum();
    let parts = ThreadState::ALL.into_iter().map(|state| {
        let of = || groups.iter().flat_map(|group| &group.parts).filter(|one| one.state == state);
        let mean_threads: f64 = of().map(|part| part.mean_threads).sum();
        AccountPart {
            state,
            mean_threads,
            share: mean_threads / all.max(1e-9),
            within: of().map(|part| part.within).sum(),
            waits_per_s: None,
            mean_wait_ns: None,
            holders: Vec::new(),
            meanwhile: Vec::new(),
        }
    });
    let mut parts: Vec<AccountPart> = parts.filter(|part| part.mean_threads > 0.0).collect();
    parts.sort_by(|a, b| b.mean_threads.total_cmp(&a.mean_threads));
    parts
}

/// The name of a thread, with `*` for digits unless it is its process's.
fn name_of(comm: &str, process: &str) -> String {
    if comm == process { comm.into() } else { fold_digits(comm).into() }
}

/// What samples say of a thread's waits.
#[derive(Debug, Clone, Copy, Default)]
struct Sampled {
    /// Its polls are of no descriptor.
    polls_sleep: bool,
    /// What it waits for in a futex, however long, is a lock.
    locks: bool,
}

/// What a thread waited for; waits in a futex are told apart by their number and their time.
fn state_of(wait: &WaitSum, sampled: Sampled) -> ThreadState {
    let is_brief = wait.count > 0 && wait.ns / wait.count <= BRIEF_NS;
    match wait.cause {
        ThreadState::Pipe if is_own_semaphore(wait) && is_brief => ThreadState::FutexBrief,
        ThreadState::Pipe if is_own_semaphore(wait) => ThreadState::Futex,
        ThreadState::Futex if is_brief => ThreadState::FutexBrief,
        ThreadState::Futex
            if sampled.locks && (wait.count == 0 || wait.ns / wait.count >= LONG_NS) =>
        {
            ThreadState::FutexBrief
        }
        ThreadState::Poll if sampled.polls_sleep => ThreadState::Timer,
        cause => cause,
    }
}

/// Whether it is a wait for a semaphore by which threads of the account share something: for a lock.
fn is_own_semaphore(wait: &WaitSum) -> bool {
    wait.function.contains(SEMAPHORE) && (wait.count == 0 || 2 * wait.within >= wait.count)
}

impl GroupSums {
    pub(super) fn all_ns(&self) -> u64 {
        self.parts.values().map(|part| part.ns).sum()
    }

    fn working_ns(&self) -> u64 {
        let working = self.parts.iter().filter(|(state, _)| is_working(**state));
        working.map(|(_, part)| part.ns).sum()
    }

    fn merge(&mut self, other: &Self) {
        self.tids.extend(&other.tids);
        self.pids.extend(&other.pids);
        self.others = self.others.max(other.others);
        other.parts.iter().for_each(|(state, part)| self.part(*state).add(part));
        for (key, (count, ns)) in &other.functions {
            let (counts, sum) = self.functions.entry(key.clone()).or_default();
            (*counts, *sum) = (*counts + count, *sum + ns);
        }
    }

    /// A watched thread, with its context switches and the factor from the recorded time to the interval.
    fn add(
        &mut self,
        thread: &TimesOfThread,
        switched: Option<(&SwitchedThread, f64)>,
        taken: &mut TakenTime,
    ) {
        let of = |state: ThreadState| {
            thread.times.iter().filter(|time| time.state == state).map(|time| time.ns).sum::<u64>()
        };
        let total: u64 = thread.times.iter().map(|time| time.ns).sum();
        let (run, runnable) = (of(ThreadState::OnCpu), of(ThreadState::Runnable));
        let off = total - run - runnable;
        self.part(ThreadState::OnCpu).ns += run;
        self.part(ThreadState::Runnable).ns += runnable;
        let is_sleep = |time: &&ThreadTime| {
            !matches!(time.state, ThreadState::OnCpu | ThreadState::Runnable | ThreadState::Unknown)
        };
        let has_semaphore = switched.is_some_and(|(one, _)| one.waits.iter().any(is_own_semaphore));
        let semaphore = |time: &ThreadTime| match time.state {
            ThreadState::Pipe if has_semaphore => ThreadTime { state: ThreadState::Futex, ..*time },
            _ => *time,
        };
        let sleeps: Vec<ThreadTime> = thread.times.iter().filter(is_sleep).map(semaphore).collect();
        let Some((switched, scale)) = switched else {
            sleeps.iter().for_each(|time| self.part(time.state).add_sampled(time.ns));
            let slept: u64 = sleeps.iter().map(|time| time.ns).sum();
            self.part(ThreadState::Unknown).ns += off - slept;
            return;
        };
        let waited: u64 = switched.waits.iter().map(|wait| wait.ns).sum();
        let scaled = waited as f64 * scale;
        // Rounding, and statistics that lag, must not make it more than there was.
        let fit = if scaled > off as f64 { off as f64 / scaled } else { 1.0 };
        let (lock, event) = (of(ThreadState::FutexBrief), of(ThreadState::Futex));
        let sampled = Sampled {
            polls_sleep: of(ThreadState::Timer) > 0 && of(ThreadState::Poll) == 0,
            locks: lock > 0 && lock as f64 >= LOCK_SAMPLES_MIN * (lock + event) as f64,
        };
        self.add_waits(switched, scale * fit, sampled);
        // What samples found beyond what was recorded: mostly waits that began before a window.
        let recorded = |state: ThreadState| -> f64 {
            let waits = switched.waits.iter().filter(|wait| state_of(wait, sampled) == state);
            waits.map(|wait| wait.ns as f64).sum::<f64>() * scaled / (waited.max(1) as f64) * fit
        };
        let beyond = |time: &ThreadTime| (time.ns as f64 - recorded(time.state)).max(0.0);
        let more: f64 = sleeps.iter().map(beyond).sum();
        let rest = (off as f64 - scaled * fit).max(0.0);
        // A thread whose cgroup may not run is off its CPU without a wait.
        let throttled = (rest - more).clamp(0.0, taken.throttled_ns);
        self.part(ThreadState::Throttled).ns += throttled as u64;
        taken.throttled_ns -= throttled;
        let rest = rest - throttled;
        // On a CPU by the clock, but not by the scheduler's: interrupts, and time that the hypervisor took.
        let by_clock = switched.run_ns as f64 * scale;
        let interrupted = (by_clock - run as f64).clamp(0.0, rest).min(taken.interrupts_ns);
        self.part(ThreadState::OnCpu).ns += interrupted as u64;
        taken.interrupts_ns -= interrupted;
        let rest = rest - interrupted;
        if more <= 0.0 {
            self.part(ThreadState::Unknown).ns += rest as u64;
            return;
        }
        for time in &sleeps {
            self.part(time.state).add_sampled((rest * beyond(time) / more) as u64);
        }
    }

    /// A thread of a peer, of which only context switches are known.
    fn add_peer(&mut self, thread: &SwitchedThread, scale: f64, interval_ns: u64) {
        let elapsed_ns = match thread.lived_ns {
            0 => interval_ns,
            lived_ns => lived_ns.min(interval_ns),
        };
        let part = match thread.interval_ns {
            0 => scale,
            interval_ns => elapsed_ns as f64 / interval_ns as f64,
        };
        let run = ((thread.run_ns as f64 * part) as u64).min(elapsed_ns);
        let runnable = ((thread.runnable_ns as f64 * part) as u64).min(elapsed_ns - run);
        let off = elapsed_ns - run - runnable;
        let scaled = thread.waits.iter().map(|wait| wait.ns).sum::<u64>() as f64 * scale;
        let fit = if scaled > off as f64 { off as f64 / scaled } else { 1.0 };
        self.part(ThreadState::OnCpu).ns += run;
        self.part(ThreadState::Runnable).ns += runnable;
        self.add_waits(thread, scale * fit, Sampled::default());
        self.part(ThreadState::Unknown).ns += off - (scaled * fit) as u64;
    }

    fn add_waits(&mut self, thread: &SwitchedThread, scale: f64, sampled: Sampled) {
        for wait in &thread.waits {
            let state = state_of(wait, sampled);
            let ns = (wait.ns as f64 * scale) as u64;
            let within = wait.within.min(wait.count) as f64 / wait.count.max(1) as f64;
            let part = self.part(state);
            part.ns += ns;
            part.waits += wait.count as f64 * scale;
            part.recorded += wait.count;
            part.waited_ns += wait.ns;
            part.add_holders(
                wait.holders.iter(),
                wait.meanwhile.iter().map(|time| (time.state, time.ns)),
            );
            if wait.count > 0 {
                part.ended_ns += ns;
                part.within_ns += (ns as f64 * within) as u64;
            }
            let key = (state, wait.function.clone());
            if self.functions.len() < FUNCTIONS_MAX || self.functions.contains_key(&key) {
                let (count, sum) = self.functions.entry(key).or_default();
                (*count, *sum) = (*count + wait.count, *sum + ns);
            }
        }
    }

    /// Divides what samples alone show of waits for a disk as the recorded ones are divided: samples have no kernel stack, which
    /// says whether a write waits for a flush.
    fn resolve_samples(&mut self) {
        let is_alike =
            |state: &ThreadState| matches!(state, ThreadState::Disk | ThreadState::Flush);
        let parts = || self.parts.iter().filter(|(state, _)| is_alike(state));
        let sampled: u64 = parts().map(|(_, part)| part.sampled_ns).sum();
        let recorded: u64 = parts().map(|(_, part)| part.ns - part.sampled_ns).sum();
        if sampled == 0 || recorded == 0 {
            return;
        }
        let share = sampled as f64 / recorded as f64;
        for (_, part) in self.parts.iter_mut().filter(|(state, _)| is_alike(state)) {
            let recorded = part.ns - std::mem::take(&mut part.sampled_ns);
            part.ns = recorded + (recorded as f64 * share) as u64;
        }
    }

    /// Its waits for other threads are for a lock.
    pub(super) fn waits_for_lock(&mut self) {
        let Some(long) = self.parts.remove(&ThreadState::Futex) else { return };
        let part = self.part(ThreadState::FutexBrief);
        part.add(&long);
        let functions = std::mem::take(&mut self.functions);
        for ((state, function), (count, ns)) in functions {
            let is_long = state == ThreadState::Futex;
            let state = if is_long { ThreadState::FutexBrief } else { state };
            let (counts, sum) = self.functions.entry((state, function)).or_default();
            (*counts, *sum) = (*counts + count, *sum + ns);
        }
    }

    /// Of polls whose end was not recorded, a timeout ended as many as of the others.
    fn resolve_polls(&mut self) {
        use ThreadState as S;
        let of = |state: S| self.functions.iter().filter(move |((found, _), _)| *found == state);
        let polls: Vec<String> = of(S::Poll).map(|((_, function), _)| function.clone()).collect();
        let timed = of(S::Timer).filter(|((_, function), _)| polls.contains(function));
        let timed_ns: u64 = timed.map(|(_, (_, ns))| *ns).sum();
        let part = self.part(S::Poll);
        let (ended_ns, not_ended_ns) = (part.ended_ns, part.ns.saturating_sub(part.ended_ns));
        let share = timed_ns as f64 / (timed_ns + ended_ns).max(1) as f64;
        let moved_ns = (not_ended_ns as f64 * share) as u64;
        part.ns -= moved_ns;
        let stays = part.ns as f64 / (part.ns + moved_ns).max(1) as f64;
        self.part(S::Timer).ns += moved_ns;
        for function in polls {
            let Some((_, ns)) = self.functions.get_mut(&(S::Poll, function.clone())) else {
                continue;
            };
            let moved = *ns - (*ns as f64 * stays) as u64;
            *ns -= moved;
            self.functions.entry((S::Timer, function)).or_default().1 += moved;
        }
    }

    pub(super) fn part(&mut self, state: ThreadState) -> &mut PartSums {
        self.parts.entry(state).or_default()
    }

    fn group(
        &self,
        (peer, process, comm): &GroupKey,
        matters: bool,
        elapsed_ns: u64,
    ) -> AccountGroup {
        let mean = |ns: u64| ns as f64 / elapsed_ns.max(1) as f64;
        let all: f64 = self.parts.values().map(|part| mean(part.ns)).sum();
        let part = |(state, sums): (&ThreadState, &PartSums)| {
            let is_recorded = sums.recorded > 0;
            let (holders, meanwhile) = sums.holders();
            AccountPart {
                state: *state,
                mean_threads: mean(sums.ns),
                share: mean(sums.ns) / all.max(1e-9),
                // Of the waits that have not ended, as many as of the others.
                within: match is_for_others(*state) && sums.ended_ns > 0 {
                    true => mean(sums.ns) * sums.within_ns as f64 / sums.ended_ns as f64,
                    false => 0.0,
                },
                waits_per_s: is_recorded.then(|| sums.waits * 1e9 / elapsed_ns.max(1) as f64),
                mean_wait_ns: is_recorded.then(|| sums.waited_ns as f64 / sums.recorded as f64),
                holders,
                meanwhile,
            }
        };
        let mut parts: Vec<AccountPart> =
            self.parts.iter().map(part).filter(|part| part.mean_threads > 0.0).collect();
        parts.sort_by(|a, b| b.mean_threads.total_cmp(&a.mean_threads));
        let function = |((state, function), (_, ns)): (&(ThreadState, String), &(u64, u64))| {
            let function = function.clone();
            AccountFunction { state: *state, function, mean_threads: mean(*ns) }
        };
        let mut functions: Vec<AccountFunction> =
            self.functions.iter().map(function).filter(|one| one.mean_threads > 0.0).collect();
        functions.sort_by(|a, b| b.mean_threads.total_cmp(&a.mean_threads));
        AccountGroup {
            process: process.clone(),
            comm: comm.clone(),
            peer: *peer,
            processes: self.pids.len(),
            pid: self.pids.first().copied().unwrap_or(0),
            threads: self.tids.len() + self.others as usize,
            mean_threads: all,
            matters,
            parts,
            functions,
        }
    }
}

impl PartSums {
    fn add(&mut self, other: &Self) {
        self.ns += other.ns;
        self.sampled_ns += other.sampled_ns;
        self.ended_ns += other.ended_ns;
        self.within_ns += other.within_ns;
        self.waits += other.waits;
        self.recorded += other.recorded;
        self.waited_ns += other.waited_ns;
        let meanwhile = other.meanwhile.iter().map(|(state, ns)| (*state, *ns));
        self.add_holders(other.holders.values(), meanwhile);
    }

    fn add_sampled(&mut self, ns: u64) {
        self.ns += ns;
        self.sampled_ns += ns;
    }

    fn add_holders<'a>(
        &mut self,
        holders: impl Iterator<Item = &'a LockHolder>,
        meanwhile: impl Iterator<Item = (ThreadState, u64)>,
    ) {
        for LockHolder { tid, comm, count, ns } in holders {
            if self.holders.len() < HOLDERS_MAX || self.holders.contains_key(tid) {
                let new = || LockHolder { tid: *tid, comm: comm.clone(), count: 0, ns: 0 };
                let holder = self.holders.entry(*tid).or_insert_with(new);
                (holder.count, holder.ns) = (holder.count + count, holder.ns + ns);
            }
        }
        for (state, ns) in meanwhile {
            *self.meanwhile.entry(state).or_default() += ns;
        }
    }

    /// The threads that held what was waited for, and what they did meanwhile.
    fn holders(&self) -> (Vec<AccountHolder>, Vec<AccountShare>) {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        // Earlier versions recorded how many waits each thread ended only.
        let is_timed = self.holders.values().any(|holder| holder.ns > 0);
        let holder = |holder: &LockHolder| AccountHolder {
            tid: holder.tid,
            comm: holder.comm.clone(),
            share: match is_timed {
                true => share(holder.ns, self.meanwhile.values().sum()),
                false => share(holder.count, self.recorded).min(1.0),
            },
        };
        let mut holders: Vec<AccountHolder> = self.holders.values().map(holder).collect();
        holders.sort_by(|a, b| b.share.total_cmp(&a.share));
        holders.truncate(HOLDERS_SHOWN);
        let all: u64 = self.meanwhile.values().sum();
        let of = |(state, ns): (&ThreadState, &u64)| AccountShare {
            state: *state,
            share: share(*ns, all),
        };
        let mut meanwhile: Vec<AccountShare> = self.meanwhile.iter().map(of).collect();
        meanwhile.sort_by(|a, b| b.share.total_cmp(&a.share));
        (holders, meanwhile)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
