//! CPU profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU samples of one interval.
///
/// The total number of samples is the sum of `counts`, `idle` and `own`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StacksSample {
    /// Sampling event: `cycles`; `cpu-clock` if the CPU has no counters; or `tick`, the scheduler
    /// tick, which idle CPUs lack, so that their interrupts are not sampled.
    pub event: String,
    /// Requested frequency, in samples per second and CPU.
    pub hz: u32,
    /// Samples of idle CPUs. Hardly any with `cycles`, which stop then, and none with `tick`.
    pub idle: u64,
    /// Samples of the sampling thread, which are in no other count.
    pub own: u64,
    /// Samples lost because a ring buffer was full.
    pub lost: u64,
    /// Number of times that the kernel throttled sampling (kernel.perf_event_max_sample_rate,
    /// kernel.perf_cpu_time_max_percent).
    pub throttled: u64,
    /// Samples truncated to their innermost function, because the record's limit on distinct stacks
    /// was reached.
    pub cut: u64,
    /// Samples by process, thread and stack.
    pub counts: Vec<StackCount>,
    /// Stacks new in this interval, written to `stacks.ndjson`. The first one follows those of all
    /// previous intervals.
    #[serde(skip)]
    pub new: Vec<Stack>,
}

impl StacksSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.new.iter().flat_map(|stack| stack.kernel.iter().chain(&stack.user));
        let names: usize = names.map(|name| size_of_val(name) + name.len()).sum();
        let comms: usize = self.counts.iter().map(|c| c.comm.len() + c.process.len()).sum();
        size_of_val(&*self.counts) + comms + names
    }
}

/// Samples of one stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackCount {
    /// Process ID; 0 is the kernel, in an interrupt of an idle CPU.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread.
    pub comm: String,
    /// Name of its process; empty if it is the thread's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process: String,
    /// Zero-based line number in the record's `stacks.ndjson`, which holds a [`Stack`].
    pub stack: u32,
    /// Number of samples.
    pub count: u32,
    /// Sum of the sampling periods, in nanoseconds, or in cycles for `cycles`.
    pub period: u64,
}

/// A call chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Kernel functions, outermost first, those of modules with the module (`nvme_queue_rq
    /// [nvme]`); empty in user mode. `[unknown]` if the kernel hides its addresses.
    pub kernel: Vec<String>,
    /// User functions, outermost first; empty unless requested. `[libfoo.so]` if the file has no
    /// symbols.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<String>,
}
