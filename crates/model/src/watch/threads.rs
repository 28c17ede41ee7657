//! What threads were doing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Looks at all threads in one interval, added up.
///
/// Threads that were doing something are in [`Self::active`]; the average number of threads that
/// did a thing is its count divided by the looks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsSample {
    /// Times the sampler looked in this interval.
    pub looks: u32,
    /// Threads seen, asleep or not, added up over all looks.
    pub seen: u64,
    /// The kernel told of all threads at once; otherwise files of each thread were read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Each distinct doing with how often it was seen, in order.
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

/// Something that a thread was seen doing. Text is empty, and a number absent, where it does not
/// apply, was not asked for or could not be seen.
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
    /// State as in /proc/PID/stat, with `R` split in two: `R` on a processor, `Q` ready to run and
    /// waiting for one; `D` in uninterruptible sleep; `S` asleep, of which only threads that wait
    /// for I/O are here unless all were asked for.
    pub state: char,
    /// System call in which it sleeps, by name, or by number where it has none here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub syscall: String,
    /// Kernel function in which it sleeps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wchan: String,
    /// Kernel functions of a thread that sleeps, outermost first, with `;` between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kstack: String,
    /// File whose descriptor is an argument of the system call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// The process's arguments, with blanks between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cmdline: String,
    /// The process's effective user, by name, or by number where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Processor on which it ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// For the kernel's own threads of io_uring (`iou-wrk-N`, `iou-sqp-N`): the program's thread
    /// that set up the ring for which they work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<i32>,
    /// The thread went on while it was looked at, so that the parts may not belong together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
    /// Times seen.
    pub count: u32,
}
