//! What a thread does, with interned texts: comparing and counting need no copies.

use fathom_model::watch::{ThreadCount, ThreadState};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) type TextId = u32;

pub(super) const NONE: TextId = 0;

/// Number of texts at which the table is cleared.
const NAMES_MAX: usize = 65_536;

#[derive(Debug)]
pub(super) struct TextTable {
    numbers: HashMap<Arc<[u8]>, TextId>,
    texts: Vec<Arc<[u8]>>,
}

impl Default for TextTable {
    fn default() -> Self {
        let empty: Arc<[u8]> = Arc::from([]);
        Self { numbers: HashMap::from([(Arc::clone(&empty), NONE)]), texts: vec![empty] }
    }
}

impl TextTable {
    /// The ID of `text`; known texts need no memory.
    pub fn intern(&mut self, text: &[u8]) -> TextId {
        if let Some(name) = self.numbers.get(text) {
            return *name;
        }
        let text: Arc<[u8]> = text.into();
        let name = self.texts.len() as TextId;
        self.numbers.insert(Arc::clone(&text), name);
        self.texts.push(text);
        name
    }

    /// Like [`Self::intern`], faster if `text` equals the text `likely`.
    pub fn intern_like(&mut self, text: &[u8], likely: TextId) -> TextId {
        if self.bytes(likely) == text { likely } else { self.intern(text) }
    }

    pub fn bytes(&self, name: TextId) -> &[u8] {
        &self.texts[name as usize]
    }

    pub fn text(&self, name: TextId) -> String {
        fathom_model::escape::bytes(self.bytes(name))
    }

    pub fn is_full(&self) -> bool {
        self.texts.len() > NAMES_MAX
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct SleepPlace {
    pub state: u8,
    pub timeslices: u64,
    /// What it waits for; `None` until the wait channel is known.
    pub cause: Option<ThreadState>,
    pub waits_for_io: bool,
    /// Its system call waits until data is on the disk.
    pub flushes: bool,
    /// The descriptor that its system call is about.
    pub descriptor: Option<u32>,
    pub syscall: TextId,
    pub wchan: TextId,
    pub kstack: TextId,
    pub filename: TextId,
    pub torn: bool,
    /// State, system call and wait channel, though read one after the other, all are of waits for a disk.
    pub all_of_disk: bool,
}

impl SleepPlace {
    /// Of a thread whose state alone shows what it does.
    pub fn at_rest(state: u8) -> Self {
        let cause = match state {
            b'T' | b't' => ThreadState::Stopped,
            b'I' | b'P' | b'S' => ThreadState::KernelThread,
            _ => ThreadState::Other,
        };
        Self { state, cause: Some(cause), ..Self::default() }
    }

    /// Whether it is reported even if not all states are.
    pub fn is_active(self) -> bool {
        self.waits_for_io || self.state == b'D'
    }

    /// What it waits for. In an inconsistent sample, the parts belong to different sleeps.
    pub fn found(self) -> Option<ThreadState> {
        let is_known = !self.torn || self.cause != Some(ThreadState::Other);
        self.cause.filter(|_| is_known)
    }

    pub fn cause(self) -> ThreadState {
        self.cause.unwrap_or(ThreadState::Other)
    }
}

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
