//! Thread activity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of all threads in one interval, aggregated.
///
/// Active threads are in [`Self::active`]; the average number of threads with an activity is its
/// count divided by `looks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsSample {
    /// Samples taken in this interval.
    pub looks: u32,
    /// Threads sampled, including sleeping ones, summed over all samples.
    pub seen: u64,
    /// Whether all threads were sampled at once by BPF, instead of through their /proc files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Distinct activities with their counts, sorted.
    pub active: Vec<ThreadCount>,
}

impl ThreadsSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let texts = |count: &ThreadCount| {
            count.kstack.len() + count.filename.len() + count.cmdline.len() + count.comm.len()
        };
        size_of_val(&*self.active) + self.active.iter().map(texts).sum::<usize>()
    }
}

/// The activity of a thread. Texts are empty and numbers absent if they do not apply, were not
/// requested or are not available.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ThreadCount {
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread.
    pub comm: String,
    /// State as in /proc/PID/stat, with `R` split: `R` on-CPU, `Q` runnable; `D` uninterruptible
    /// sleep; `S` sleeping, only included for threads that wait for I/O unless all states were
    /// requested.
    pub state: char,
    /// System call in which it sleeps, by name, or by number if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub syscall: String,
    /// Kernel function in which it sleeps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wchan: String,
    /// Kernel stack of a sleeping thread, outermost function first, separated by `;`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kstack: String,
    /// File whose descriptor is an argument of the system call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// Arguments of the process, separated by spaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cmdline: String,
    /// Effective user of the process, by name, or by ID if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// CPU on which it last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// For io_uring's kernel threads (`iou-wrk-N`, `iou-sqp-N`): the thread that created the ring
    /// for which they work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<i32>,
    /// Whether the thread ran while it was being sampled, so that the fields may be inconsistent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
    /// Number of samples.
    pub count: u32,
}
