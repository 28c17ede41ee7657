//! Adds up the intervals of a record, thread by thread, and divides each thread's time.

use super::{
    Account, AccountFunction, AccountGroup, AccountHolder, AccountPart, AccountShare,
    is_for_others, is_working,
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
type GroupKey = (bool, String, String);

#[derive(Debug, Clone, Default)]
struct GroupSums {
    tids: BTreeSet<i32>,
    pids: BTreeSet<i32>,
    /// The most threads of an interval that are known only together.
    others: u64,
    parts: BTreeMap<ThreadState, PartSums>,
    functions: BTreeMap<(ThreadState, String), (u64, u64)>,
}

#[derive(Debug, Clone, Default)]
struct PartSums {
    ns: u64,
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
    holders: BTreeMap<i32, LockHolder>,
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
            let process = if thread.process.is_empty() { &thread.comm } else { &thread.process };
            let key = (false, process.clone(), name_of(&thread.comm, process));
            let found = known.get(&thread.tid).copied().zip(scale);
            self.others = self.others.max(thread.others);
            if let Some(group) = self.group(key, thread.pid, thread.tid) {
                group.others = group.others.max(thread.others);
                group.add(thread, found, &mut taken);
            }
        }
        for thread in switched.iter().filter(|thread| thread.peer) {
            let main = known.get(&thread.pid).map_or(&thread.comm, |main| &main.comm);
            let key = (true, main.clone(), name_of(&thread.comm, main));
            if let (Some(group), Some(scale)) = (self.group(key, thread.pid, thread.tid), scale) {
                group.add_peer(thread, scale, threads.elapsed_ns);
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
        let account = Account { elapsed_ns, recorded_share, others, idle: all_idle, groups };
        (self.elapsed_ns > 0 && !account.groups.is_empty()).then_some(account)
    }
}

/// The name of a thread, with `*` for digits unless it is its process's.
fn name_of(comm: &str, process: &str) -> String {
    if comm == process { comm.into() } else { fold_digits(comm).into() }
}

/// What a thread waited for; waits in a futex are told apart by their number and their time. `polls_sleep` if samples found
/// its polls to be of no descriptor.
fn state_of(wait: &WaitSum, polls_sleep: bool) -> ThreadState {
    let is_brief = wait.count > 0 && wait.ns / wait.count <= BRIEF_NS;
    match wait.cause {
        ThreadState::Futex if is_brief => ThreadState::FutexBrief,
        ThreadState::Poll if polls_sleep => ThreadState::Timer,
        cause => cause,
    }
}

impl GroupSums {
    fn all_ns(&self) -> u64 {
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
        for (state, part) in &other.parts {
            let sum = self.part(*state);
            sum.ns += part.ns;
            sum.sampled_ns += part.sampled_ns;
            sum.ended_ns += part.ended_ns;
            sum.within_ns += part.within_ns;
            sum.waits += part.waits;
            sum.recorded += part.recorded;
            sum.waited_ns += part.waited_ns;
            sum.add_holders(
                part.holders.values(),
                part.meanwhile.iter().map(|(state, ns)| (*state, *ns)),
            );
        }
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
        let sleeps: Vec<&ThreadTime> = thread.times.iter().filter(is_sleep).collect();
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
        let polls_sleep = of(ThreadState::Timer) > 0 && of(ThreadState::Poll) == 0;
        self.add_waits(switched, scale * fit, polls_sleep);
        // What samples found beyond what was recorded: mostly waits that began before a window.
        let recorded = |state: ThreadState| -> f64 {
            let waits = switched.waits.iter().filter(|wait| state_of(wait, polls_sleep) == state);
            waits.map(|wait| wait.ns as f64).sum::<f64>() * scaled / (waited.max(1) as f64) * fit
        };
        let beyond = |time: &&ThreadTime| (time.ns as f64 - recorded(time.state)).max(0.0);
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
    fn add_peer(&mut self, thread: &SwitchedThread, scale: f64, elapsed_ns: u64) {
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
        self.add_waits(thread, scale * fit, false);
        self.part(ThreadState::Unknown).ns += off - (scaled * fit) as u64;
    }

    fn add_waits(&mut self, thread: &SwitchedThread, scale: f64, polls_sleep: bool) {
        for wait in &thread.waits {
            let state = state_of(wait, polls_sleep);
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

    fn part(&mut self, state: ThreadState) -> &mut PartSums {
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
mod tests {
    use super::*;
    use crate::account::KINDS;

    const S: u64 = 1_000_000_000;

    fn thread(pid: i32, tid: i32, comm: &str, times: &[(ThreadState, u64)]) -> TimesOfThread {
        let times = times.iter().map(|(state, ns)| ThreadTime { state: *state, ns: *ns }).collect();
        TimesOfThread { pid, tid, comm: comm.into(), times, ..TimesOfThread::default() }
    }

    /// Waits, of which processes of the account ended `within`.
    fn wait(cause: ThreadState, count: u64, ns: u64, within: u64) -> WaitSum {
        let function = "f".into();
        WaitSum { cause, function, count, ns, within, holders: Vec::new(), meanwhile: Vec::new() }
    }

    fn account(
        threads: Vec<TimesOfThread>,
        switched: Vec<SwitchedThread>,
        seen_ns: u64,
    ) -> Account {
        let mut totals = AccountTotals::default();
        let sample = ThreadsSample {
            elapsed_ns: S,
            samples: 20,
            by_thread: threads,
            ..ThreadsSample::default()
        };
        let off_cpu = OffCpuSample { seen_ns, threads: switched, ..OffCpuSample::default() };
        let taken = TakenTime::of(&MachineRates::default());
        totals.add(&sample, (seen_ns > 0).then_some(&off_cpu), taken, |_| true);
        totals.account().unwrap()
    }

    fn parts(group: &AccountGroup) -> Vec<(ThreadState, u64)> {
        let ms = |part: &AccountPart| (part.state, (part.mean_threads * 1000.0).round() as u64);
        group.parts.iter().map(ms).collect()
    }

    #[test]
    fn every_state_is_of_one_kind() {
        for state in ThreadState::ALL {
            let kinds = KINDS.iter().filter(|(_, states)| states.contains(&state));
            assert_eq!(kinds.count(), 1, "{state:?}");
        }
    }

    #[test]
    fn context_switches_divide_the_time_that_the_scheduler_leaves() {
        use ThreadState as T;
        // Samples found it asleep in a socket only; a tenth of the time was recorded.
        let times = [(T::OnCpu, 3 * S / 10), (T::Runnable, S / 10), (T::Socket, 6 * S / 10)];
        let switched = SwitchedThread {
            pid: 1,
            tid: 1,
            waits: vec![wait(T::Flush, 100, S / 50, 0), wait(T::Socket, 100, S / 50, 0)],
            ..SwitchedThread::default()
        };
        let account = account(vec![thread(1, 1, "postgres", &times)], vec![switched], S / 10);
        let group = &account.groups[0];
        // The waits that began before a window are those that samples found.
        assert_eq!(
            parts(group),
            [(T::Socket, 400), (T::OnCpu, 300), (T::Flush, 200), (T::Runnable, 100)]
        );
        assert!((group.mean_threads - 1.0).abs() < 1e-6);
        assert_eq!(account.recorded_share, 0.1);
        let flush = group.parts.iter().find(|part| part.state == T::Flush).unwrap();
        assert_eq!(flush.waits_per_s.map(f64::round), Some(1000.0));
        assert_eq!(flush.mean_wait_ns, Some(200_000.0));
    }

    #[test]
    fn samples_do_not_say_why_a_thread_waits_for_a_disk() {
        use ThreadState as T;
        // A program that writes with O_DSYNC: samples find it in write(2). Windows were too short for most waits.
        let times = [(T::OnCpu, 2 * S / 10), (T::Disk, 7 * S / 10), (T::Futex, S / 10)];
        let waits = vec![wait(T::Flush, 20, S / 40, 0), wait(T::Disk, 5, S / 200, 0)];
        let switched = SwitchedThread { pid: 1, tid: 1, waits, ..SwitchedThread::default() };
        let account = account(vec![thread(1, 1, "log", &times)], vec![switched], S / 10);
        let group = &account.groups[0];
        let of = |state| parts(group).into_iter().find(|(known, _)| *known == state).unwrap().1;
        assert_eq!((of(T::OnCpu), of(T::Flush) + of(T::Disk) + of(T::Futex)), (200, 800));
        // Five sixths of the recorded waits are flushes.
        assert!(of(T::Flush).abs_diff(5 * of(T::Disk)) <= 5, "{:?}", parts(group));
    }

    #[test]
    fn more_waits_than_time_are_scaled_and_unknown_time_is_shown() {
        use ThreadState as T;
        let times = [(T::OnCpu, S / 2), (T::Unknown, S / 2)];
        let switched = |ns| SwitchedThread {
            pid: 1,
            tid: 1,
            waits: vec![wait(T::Disk, 10, ns, 0)],
            ..SwitchedThread::default()
        };
        let one = thread(1, 1, "dd", &times);
        let full = account(vec![one.clone()], vec![switched(S * 7 / 10)], S);
        assert_eq!(parts(&full.groups[0]), [(T::OnCpu, 500), (T::Disk, 500)]);
        let some = account(vec![one.clone()], vec![switched(S / 10)], S);
        assert_eq!(parts(&some.groups[0]), [(T::OnCpu, 500), (T::Unknown, 400), (T::Disk, 100)]);
        let none = account(vec![one], Vec::new(), 0);
        assert_eq!(
            (parts(&none.groups[0]), none.recorded_share),
            (vec![(T::OnCpu, 500), (T::Unknown, 500)], 0.0)
        );
    }

    #[test]
    fn time_without_a_wait_is_of_interrupts_or_of_a_quota_as_far_as_these_took_any() {
        use ThreadState as T;
        let sample = ThreadsSample {
            elapsed_ns: S,
            by_thread: vec![thread(1, 1, "perl", &[(T::OnCpu, S / 5), (T::Unknown, 4 * S / 5)])],
            ..ThreadsSample::default()
        };
        // The windows were where it ran.
        let switched =
            SwitchedThread { pid: 1, tid: 1, run_ns: S / 10, ..SwitchedThread::default() };
        let off_cpu =
            OffCpuSample { seen_ns: S / 5, threads: vec![switched], ..OffCpuSample::default() };
        let parts_of = |taken: TakenTime| {
            let mut totals = AccountTotals::default();
            totals.add(&sample, Some(&off_cpu), taken, |_| true);
            parts(&totals.account().unwrap().groups[0])
        };
        let of = |interrupts_ns, throttled_ns| parts_of(TakenTime { interrupts_ns, throttled_ns });
        let s = S as f64;
        assert_eq!(of(f64::INFINITY, 0.0), [(T::OnCpu, 500), (T::Unknown, 500)]);
        assert_eq!(of(0.05 * s, 0.0), [(T::Unknown, 750), (T::OnCpu, 250)]);
        assert_eq!(of(0.0, 0.8 * s), [(T::Throttled, 800), (T::OnCpu, 200)]);
        assert_eq!(
            of(0.05 * s, 0.5 * s),
            [(T::Throttled, 500), (T::OnCpu, 250), (T::Unknown, 250)]
        );
    }

    #[test]
    fn what_a_client_waits_for_is_what_its_server_does() {
        use ThreadState as T;
        let times = [(T::OnCpu, S / 4), (T::Poll, 3 * S / 4)];
        let client = SwitchedThread {
            pid: 1,
            tid: 1,
            waits: vec![wait(T::Poll, 1000, 3 * S / 4, 1000)],
            ..SwitchedThread::default()
        };
        let server = SwitchedThread {
            pid: 9,
            tid: 9,
            comm: "postgres".into(),
            peer: true,
            run_ns: S / 4,
            waits: vec![wait(T::Flush, 1000, S / 2, 0), wait(T::Poll, 1000, S / 4, 1000)],
            ..SwitchedThread::default()
        };
        let idle = thread(1, 2, "pool", &[(T::Futex, S)]);
        let client_thread = thread(1, 1, "pgbench", &times);
        let account = account(vec![client_thread, idle], vec![client, server], S);
        assert!((account.wall() - 1.0).abs() < 1e-6, "{account:?}");
        let states: Vec<(T, u64)> = account
            .states()
            .iter()
            .map(|(state, mean)| (*state, (mean * 100.0).round() as u64))
            .collect();
        assert_eq!(states[..2], [(T::OnCpu, 50), (T::Flush, 50)]);
        assert_eq!(account.most_in(T::Flush).unwrap().name(), "postgres");
        let idle = account.groups.iter().find(|group| group.comm == "pool").unwrap();
        assert!(!idle.matters);
    }

    #[test]
    fn who_waits_in_io_uring_waits_for_its_workers() {
        use ThreadState as T;
        let waiter = thread(1, 1, "fio", &[(T::IoUring, 9 * S / 10), (T::OnCpu, S / 10)]);
        let times = [(T::Flush, S / 2), (T::Runnable, S / 5), (T::KernelThread, 3 * S / 10)];
        let worker = thread(1, 2, "iou-wrk-1", &times);
        let of = |threads: Vec<TimesOfThread>| {
            let states = account(threads, Vec::new(), 0).states().into_iter();
            let rounded = states.map(|(state, mean)| (state, (mean * 100.0).round() as u64));
            rounded.collect::<BTreeMap<T, u64>>()
        };
        assert_eq!(of(vec![waiter.clone()])[&T::IoUring], 90);
        let states = of(vec![waiter, worker]);
        assert_eq!([T::IoUring, T::Flush, T::Runnable].map(|one| states[&one]), [20, 50, 20]);
    }

    #[test]
    fn polls_that_samples_found_to_be_sleeps_are_sleeps() {
        use ThreadState as T;
        let switched = SwitchedThread {
            pid: 1,
            tid: 1,
            waits: vec![wait(T::Poll, 1, S / 2, 0)],
            ..SwitchedThread::default()
        };
        let parts_of = |sampled: T| {
            let account =
                account(vec![thread(1, 1, "perl", &[(sampled, S)])], vec![switched.clone()], S);
            parts(&account.groups[0])
        };
        assert_eq!(parts_of(T::Timer), [(T::Timer, 1000)]);
        assert_eq!(parts_of(T::Poll), [(T::Poll, 1000)]);
    }

    #[test]
    fn polls_of_unknown_end_ended_as_the_others_did() {
        use ThreadState as T;
        let switched = |poll: WaitSum, timer: WaitSum| SwitchedThread {
            pid: 1,
            tid: 1,
            waits: vec![poll, timer],
            ..SwitchedThread::default()
        };
        let parts_of = |ended: WaitSum| {
            let polls = thread(1, 1, "httpd", &[(T::Poll, S)]);
            let timer = wait(T::Timer, 3, 3 * S / 10, 0);
            let account = account(vec![polls], vec![switched(ended, timer)], S);
            parts(&account.groups[0])
        };
        // One that lasts longer than what was recorded has no end.
        assert_eq!(parts_of(wait(T::Poll, 0, S / 10, 0)), [(T::Timer, 1000)]);
        assert_eq!(parts_of(wait(T::Poll, 1, S / 10, 0)), [(T::Timer, 750), (T::Poll, 250)]);
    }

    #[test]
    fn a_program_that_sleeps_has_an_account_of_its_sleep() {
        let account =
            account(vec![thread(1, 1, "sleep", &[(ThreadState::Timer, S)])], Vec::new(), 0);
        assert_eq!((account.wall(), account.states()), (1.0, vec![(ThreadState::Timer, 1.0)]));
        assert!(AccountTotals::default().account().is_none());
    }
}
