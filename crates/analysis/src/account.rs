//! Where the wall-clock time of a program's threads went: an account that adds up.
//!
//! For each thread, time on a CPU and time runnable are the scheduler's. The rest is divided by what context switches showed,
//! where these were recorded, as they include the shortest waits; and otherwise by what samples found. What neither knows is
//! `unknown`. The processes that the program waits for, at the other end of its pipes and sockets, have accounts as well: what
//! one of these waits for another of them is time `within`, as the other one is accounted for meanwhile.

mod totals;
mod turns;

pub use totals::{AccountTotals, TakenTime};

use fathom_model::watch::ThreadState;
use schemars::JsonSchema;
use serde::Serialize;

/// Share of the time of threads that matter which must not be idle for the idle part to be left out.
const COUNTED_MIN: f64 = 0.1;

/// What threads do, as pages name it, and its states.
pub const KINDS: [(&str, &[ThreadState]); 15] = [
    ("on CPU", &[ThreadState::OnCpu]),
    ("runnable", &[ThreadState::Runnable]),
    ("throttled", &[ThreadState::Throttled]),
    ("device", &[ThreadState::Disk, ThreadState::IoUring, ThreadState::Aio]),
    ("flush", &[ThreadState::Flush]),
    ("page fault", &[ThreadState::PageFault]),
    ("kernel lock", &[ThreadState::KernelLock]),
    ("futex", &[ThreadState::Futex, ThreadState::FutexBrief]),
    ("peer", &[ThreadState::Socket, ThreadState::Poll, ThreadState::Pipe]),
    ("terminal", &[ThreadState::Terminal]),
    ("timer", &[ThreadState::Timer]),
    ("child", &[ThreadState::Child]),
    ("stopped", &[ThreadState::Stopped]),
    ("other", &[ThreadState::Signal, ThreadState::KernelThread, ThreadState::Other]),
    ("unknown", &[ThreadState::Unknown]),
];

/// How a program and its peers spent their time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// Time covered, in nanoseconds.
    pub elapsed_ns: u64,
    /// Share of it for which context switches were recorded; 0 where only samples are known.
    pub recorded_share: f64,
    /// The most threads of an interval whose times are known only by the name of their process, from samples.
    pub others: u64,
    /// Whether no thread does anything: then all matter.
    pub idle: bool,
    /// Time by state, of all groups in sum, the largest first.
    pub all: Vec<AccountPart>,
    /// Threads that wait for each other while one of them gets on, of the program where most do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<AccountTurns>,
    /// Groups of threads, those with most time that is not idle first.
    pub groups: Vec<AccountGroup>,
}

/// Threads that take turns, as for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AccountTurns {
    /// How many.
    pub threads: usize,
    /// Mean number of them that waited for the others.
    pub waiting: f64,
    /// What the others did meanwhile, the longest first.
    pub meanwhile: Vec<AccountShare>,
}

/// Threads with the same name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AccountGroup {
    /// Name of their process.
    pub process: String,
    /// Their name, with `*` for digits if it is not that of their process.
    pub comm: String,
    /// Whether the watched program waited for their process, which is not part of it.
    pub peer: bool,
    /// Distinct processes.
    pub processes: usize,
    /// One of these processes; 0 if none is known.
    pub pid: i32,
    /// Distinct threads.
    pub threads: usize,
    /// Mean number of threads that existed; the sum of `parts`.
    pub mean_threads: f64,
    /// Whether they do enough to matter, beside those that do most.
    pub matters: bool,
    /// Their time by state, the largest first.
    pub parts: Vec<AccountPart>,
    /// Kernel functions in which they waited, the longest in sum first.
    pub functions: Vec<AccountFunction>,
}

/// The time of a group in one state.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AccountPart {
    /// The state.
    pub state: ThreadState,
    /// Mean number of threads in it.
    pub mean_threads: f64,
    /// Their share of the group's time, 0 to 1.
    pub share: f64,
    /// The part of `mean_threads` that waited for threads of this account.
    pub within: f64,
    /// Waits per second, where context switches were recorded.
    pub waits_per_s: Option<f64>,
    /// Mean time of a wait, in nanoseconds.
    pub mean_wait_ns: Option<f64>,
    /// Of waits for a lock: the threads that held it for most of their time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<AccountHolder>,
    /// What the threads that ended such waits did meanwhile, the longest first; not their own waits for locks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<AccountShare>,
}

/// A thread that held a lock.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AccountHolder {
    /// Thread ID.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// The share of the time of the waits in which it held the lock, or kept its holder waiting, 0 to 1; in records of earlier
    /// versions, of the waits that it ended.
    pub share: f64,
}

/// The share of some time that was spent in a state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AccountShare {
    /// The state.
    pub state: ThreadState,
    /// 0 to 1.
    pub share: f64,
}

/// Waits in one kernel function.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AccountFunction {
    /// What they wait for there.
    pub state: ThreadState,
    /// Its name.
    pub function: String,
    /// Mean number of threads in it.
    pub mean_threads: f64,
}

/// Whether another thread ends such waits.
fn is_for_others(state: ThreadState) -> bool {
    use ThreadState as S;
    matches!(state, S::Socket | S::Poll | S::Pipe | S::Child | S::Signal)
}

/// Whether a thread in this state has no work, or waits for another thread of its program.
fn is_idle(state: ThreadState) -> bool {
    use ThreadState as S;
    matches!(state, S::Futex | S::Child | S::Signal | S::KernelThread)
}

/// Whether a thread in this state works, or waits for something that is not another thread or a moment of its choice.
fn is_working(state: ThreadState) -> bool {
    use ThreadState as S;
    matches!(
        state,
        S::OnCpu
            | S::Runnable
            | S::Disk
            | S::Flush
            | S::PageFault
            | S::KernelLock
            | S::IoUring
            | S::Aio
            | S::FutexBrief
            | S::Throttled
    )
}

impl AccountGroup {
    /// Mean number of its threads that work.
    fn working(&self) -> f64 {
        let working = self.parts.iter().filter(|part| is_working(part.state));
        working.map(|part| part.mean_threads).sum()
    }

    /// Whether its threads waited for threads of the account.
    fn has_within(&self) -> bool {
        self.parts.iter().any(|part| part.within > 0.0)
    }

    /// Mean number of its threads in `state`, without those that wait for threads of the account.
    pub fn state(&self, state: ThreadState) -> f64 {
        let parts = self.parts.iter().filter(|part| part.state == state);
        parts.map(|part| part.mean_threads - part.within).sum()
    }

    /// Its name: that of its process, and of its threads where that differs.
    pub fn name(&self) -> String {
        match self.process == self.comm {
            true => self.process.clone(),
            false => format!("{}/{}", self.process, self.comm),
        }
    }
}

impl Account {
    /// The groups whose time a verdict divides.
    pub fn that_matter(&self) -> impl Iterator<Item = &AccountGroup> {
        self.groups.iter().filter(|group| group.matters)
    }

    /// Whether it includes processes that the program waited for.
    pub fn has_peers(&self) -> bool {
        self.groups.iter().any(|group| group.peer)
    }

    /// Mean number of threads by state, of those that matter, without time within the account.
    pub fn states(&self) -> Vec<(ThreadState, f64)> {
        let is_worker = |group: &&AccountGroup| group.comm.starts_with("iou-wrk");
        let workers: f64 = self.that_matter().filter(is_worker).map(AccountGroup::working).sum();
        let sum = |state: ThreadState| -> f64 {
            let all: f64 = self.that_matter().map(|group| group.state(state)).sum();
            // Meanwhile, who waits in io_uring waits for its workers.
            if state == ThreadState::IoUring { (all - workers).max(0.0) } else { all }
        };
        let states = ThreadState::ALL.into_iter().map(|state| (state, sum(state)));
        let mut states: Vec<(ThreadState, f64)> = states.filter(|(_, mean)| *mean > 0.0).collect();
        states.sort_by(|a, b| b.1.total_cmp(&a.1));
        states
    }

    /// Mean number of threads whose time a verdict divides: those that matter, without idle ones.
    pub fn wall(&self) -> f64 {
        let states = self.states();
        let sum = |wanted: &dyn Fn(ThreadState) -> bool| -> f64 {
            states.iter().filter(|(state, _)| wanted(*state)).map(|(_, mean)| mean).sum()
        };
        let (counted, all) = (sum(&|state| !is_idle(state)), sum(&|_| true));
        // A program that does next to nothing is not limited by what it does then.
        if self.idle || counted < COUNTED_MIN * all { all } else { counted }
    }

    /// The share of their time that the watched program's threads which waited for others of the account did so, 0 to 1.
    pub fn share_within(&self) -> f64 {
        let own = || self.groups.iter().filter(|group| !group.peer && group.has_within());
        let within: f64 = own().flat_map(|group| &group.parts).map(|part| part.within).sum();
        within / own().map(|group| group.mean_threads).sum::<f64>().max(1e-9)
    }

    pub fn most_in(&self, state: ThreadState) -> Option<&AccountGroup> {
        let in_it = self.that_matter().filter(|group| group.state(state) > 0.0);
        in_it.max_by(|a, b| a.state(state).total_cmp(&b.state(state)))
    }
}
