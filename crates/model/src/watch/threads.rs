//! What threads were doing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Looks at all threads in one interval, added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsSample {
    /// Times the sampler looked in this interval.
    pub looks: u32,
    /// Threads seen, added up over all looks.
    pub seen: u64,
    /// Threads that were doing something, each distinct doing with how often it was seen.
    pub active: Vec<ThreadCount>,
}

/// Something that threads were seen doing.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ThreadCount {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// State: `R` running, `D` in uninterruptible sleep, `S` asleep (only of those that wait for
    /// I/O), …, as in /proc/PID/stat; `Q` ready to run and waiting for a processor.
    pub state: String,
    /// System call that it is in, by name; empty in user mode or unknown.
    pub syscall: String,
    /// Where in the kernel it sleeps; empty where it does not.
    pub wchan: String,
    /// For kernel threads that work for another thread's ring (io-wq, SQPOLL): that thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<i32>,
    /// The parts disagree: the thread went on while it was being looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
    /// Times seen.
    pub count: u32,
}
