//! Where processors were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of processors in one interval.
///
/// All samples of the interval are those in `counts`, `idle` and `own` together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StacksSample {
    /// What made the samples: `cycles`; `cpu-clock` where the processor has no counters; or `tick`, the
    /// scheduler's, which idle processors do not have: what interrupts do there is not seen.
    pub event: String,
    /// Samples asked for, for each second and processor.
    pub hz: u32,
    /// Samples of processors that had nothing to do. Nearly none with `cycles`, which stand still then, and none
    /// with `tick`.
    pub idle: u64,
    /// Samples of the thread that watches, which are in no other count.
    pub own: u64,
    /// Samples lost because a buffer was full.
    pub lost: u64,
    /// Times the kernel stopped sampling for a while because it cost too much
    /// (kernel.perf_event_max_sample_rate, kernel.perf_cpu_time_max_percent).
    pub throttled: u64,
    /// Samples of which only the innermost function is known, because the record was full of distinct
    /// stacks.
    pub cut: u64,
    /// Each distinct place with its samples, by process, thread and stack.
    pub counts: Vec<StackCount>,
    /// Stacks first seen in this interval; they go to `stacks.ndjson`. The first is the one after
    /// those of all intervals before.
    #[serde(skip)]
    pub new: Vec<Stack>,
}

impl StacksSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.new.iter().flat_map(|stack| stack.kernel.iter().chain(&stack.user));
        let names: usize = names.map(|name| size_of_val(name) + name.len()).sum();
        let comms: usize = self.counts.iter().map(|count| count.comm.len()).sum();
        size_of_val(&*self.counts) + comms + names
    }
}

/// Samples in one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackCount {
    /// Process; 0 is the kernel itself, in an interrupt of an idle processor.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The thread's name.
    pub comm: String,
    /// Line of the record's `stacks.ndjson`, counted from 0, which holds a [`Stack`].
    pub stack: u32,
    /// Samples.
    pub count: u32,
    /// What the samples stand for: nanoseconds, or cycles with `cycles`.
    pub period: u64,
}

/// A call chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Kernel functions by their plain names, those of modules with the module (`nvme_queue_rq
    /// [nvme]`), outermost first; empty where the processor was in user mode. `[unknown]` where the
    /// kernel does not show its addresses.
    pub kernel: Vec<String>,
    /// User functions, outermost first; empty unless they were asked for. `[libfoo.so]` where the
    /// file tells no name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<String>,
}
