//! Threads that take turns: each waits until another one is done, as for a lock, however long that takes.

use super::totals::{GroupKey, GroupSums};
use super::{AccountShare, AccountTurns, is_working};
use fathom_model::watch::ThreadState;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// The part of its time that a thread must wait for others, and the part that is known to be that or what it does between.
const WAITS_MIN: f64 = 0.1;
const KNOWN_MIN: f64 = 0.8;
/// One of them gets on at a time: how many do on average, where it is known who ended the waits, and where it is not.
const GET_ON: RangeInclusive<f64> = 0.7..=1.3;
const GET_ON_UNKNOWN: RangeInclusive<f64> = 0.9..=1.1;
/// Of what they get on in sum: at most this part is one thread's, and those that do less than this of a fair share are idle.
const OF_ONE_MAX: f64 = 0.8;
const FAIR_MIN: f64 = 0.1;
/// The part of the waits that they must end for each other.
const MUTUAL_MIN: f64 = 0.5;

type Thread = (GroupKey, i32);

/// Time that a thread waits for others, and that it gets on, by state.
struct Turn {
    thread: Thread,
    waits_ns: u64,
    does: Vec<(ThreadState, u64)>,
}

impl Turn {
    fn of(thread: &Thread, sums: &GroupSums) -> Option<Self> {
        let waits_ns = waits(sums).map(|part| part.ns).sum::<u64>();
        // A futex wait that timed out is no sleep.
        let timed = sums.functions.iter().filter(|((state, function), _)| {
            *state == ThreadState::Timer && function.contains("futex")
        });
        let timed_out: u64 = timed.map(|(_, (_, ns))| *ns).sum();
        let does = sums.parts.iter().filter_map(|(state, part)| match state {
            ThreadState::FutexBrief => None,
            ThreadState::Timer => Some((*state, part.ns.saturating_sub(timed_out))),
            state => is_working(*state).then_some((*state, part.ns)),
        });
        let turn = Self { thread: thread.clone(), waits_ns, does: does.collect() };
        let all = sums.all_ns() as f64;
        let waits = waits_ns as f64;
        let takes_part = waits >= WAITS_MIN * all && waits + turn.gets_on() >= KNOWN_MIN * all;
        takes_part.then_some(turn)
    }

    fn gets_on(&self) -> f64 {
        self.does.iter().map(|(_, ns)| *ns as f64).sum()
    }
}

fn waits(sums: &GroupSums) -> impl Iterator<Item = &super::totals::PartSums> {
    let is_wait = |state| matches!(state, ThreadState::Futex | ThreadState::FutexBrief);
    sums.parts.iter().filter(move |(state, _)| is_wait(**state)).map(|(_, part)| part)
}

/// The threads that take turns, of the program where most do; their waits become those for a lock.
pub(super) fn find(threads: &mut BTreeMap<Thread, GroupSums>) -> Option<AccountTurns> {
    // Processes share semaphores.
    let mut programs: BTreeMap<i32, Vec<Turn>> = BTreeMap::new();
    for (thread, sums) in threads.iter().filter(|((_, tid), _)| *tid > 0) {
        let is_semaphore = sums.functions.keys().any(|(state, function)| {
            matches!(state, ThreadState::Futex | ThreadState::FutexBrief)
                && function.contains("sem")
        });
        let program = if is_semaphore { Some(0) } else { sums.pids.first().copied() };
        if let Some((program, turn)) = program.zip(Turn::of(thread, sums)) {
            programs.entry(program).or_default().push(turn);
        }
    }
    let taken = programs.into_values().filter_map(|turns| takers(turns, threads));
    let most = taken.max_by_key(Vec::len)?;
    let mut does: BTreeMap<ThreadState, u64> = BTreeMap::new();
    let (mut waits_ns, mut all_ns) = (0, 0);
    for turn in &most {
        let sums = threads.get_mut(&turn.thread)?;
        all_ns += sums.all_ns();
        waits_ns += turn.waits_ns;
        turn.does.iter().for_each(|(state, ns)| *does.entry(*state).or_default() += ns);
        sums.waits_for_lock();
    }
    let all = does.values().sum::<u64>().max(1) as f64;
    let share = |(state, ns): (ThreadState, u64)| AccountShare { state, share: ns as f64 / all };
    let mut meanwhile: Vec<AccountShare> = does.into_iter().map(share).collect();
    meanwhile.sort_by(|a, b| b.share.total_cmp(&a.share));
    let waiting = waits_ns as f64 / all_ns.max(1) as f64 * most.len() as f64;
    Some(AccountTurns { threads: most.len(), waiting, meanwhile })
}

/// Those of these threads of a program that take turns, if there are any.
fn takers(mut turns: Vec<Turn>, threads: &BTreeMap<Thread, GroupSums>) -> Option<Vec<Turn>> {
    let sum = |turns: &[Turn]| turns.iter().map(Turn::gets_on).sum::<f64>();
    let fair = sum(&turns) / turns.len().max(1) as f64;
    turns.retain(|turn| turn.gets_on() >= FAIR_MIN * fair);
    let get_on = sum(&turns);
    let most = turns.iter().map(Turn::gets_on).fold(0.0, f64::max);
    if turns.len() < 2 || most > OF_ONE_MAX * get_on {
        return None;
    }
    let tids: HashSet<i32> = turns.iter().map(|turn| turn.thread.1).collect();
    let (mut mutual, mut known) = (0, 0);
    for turn in &turns {
        let parts = || threads.get(&turn.thread).into_iter().flat_map(waits);
        for holder in parts().flat_map(|part| part.holders.values()) {
            known += holder.count;
            mutual += if tids.contains(&holder.tid) { holder.count } else { 0 };
        }
    }
    let all: u64 =
        turns.iter().filter_map(|turn| threads.get(&turn.thread)).map(GroupSums::all_ns).sum();
    let at_a_time = get_on / (all as f64 / turns.len() as f64).max(1.0);
    let expected = if known > 0 { GET_ON } else { GET_ON_UNKNOWN };
    let is_mutual = mutual as f64 >= MUTUAL_MIN * known as f64;
    (is_mutual && expected.contains(&at_a_time)).then_some(turns)
}
