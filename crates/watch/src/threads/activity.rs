//! What a thread does.

use super::names::{NONE, TextId, TextTable};
use fathom_model::watch::ThreadCount;

/// Like [`ThreadCount`], with interned texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Activity {
    pub pid: i32,
    pub tid: i32,
    pub comm: TextId,
    pub process: TextId,
    pub state: u8,
    pub syscall: TextId,
    pub wchan: TextId,
    pub kstack: TextId,
    pub filename: TextId,
    pub cmdline: TextId,
    pub user: TextId,
    pub cpu: Option<u32>,
    pub works_for: Option<i32>,
}

/// How often an activity was found, and the time spent in it, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ActivityCount {
    pub count: u32,
    pub ns: u64,
}

impl Activity {
    /// With its texts, which are in `names`.
    pub fn text(&self, tally: ActivityCount, names: &TextTable) -> ThreadCount {
        let text = |name: TextId| if name == NONE { String::new() } else { names.text(name) };
        ThreadCount {
            pid: self.pid,
            tid: self.tid,
            comm: text(self.comm),
            process: text(if self.process == self.comm { NONE } else { self.process }),
            state: char::from(self.state),
            syscall: text(self.syscall),
            wchan: text(self.wchan),
            kstack: text(self.kstack),
            filename: text(self.filename),
            cmdline: text(self.cmdline),
            user: text(self.user),
            cpu: self.cpu,
            works_for: self.works_for,
            torn: false,
            count: tally.count,
            ns: tally.ns,
        }
    }
}
