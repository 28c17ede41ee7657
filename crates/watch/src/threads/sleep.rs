//! Where a thread sleeps, and what it waits for.

use super::names::TextId;
use fathom_model::watch::ThreadState;

/// Where a thread sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct SleepPlace {
    /// State letter.
    pub state: u8,
    pub timeslices: u64,
    /// What it waits for; `None` until the wait channel is known.
    pub cause: Option<ThreadState>,
    pub waits_for_io: bool,
    pub syscall: TextId,
    pub wchan: TextId,
    pub kstack: TextId,
    pub filename: TextId,
    /// It ran in between.
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

    /// What it was found waiting for. The parts of a torn sleep are each true of some sleep.
    pub fn found(self) -> Option<ThreadState> {
        let is_known = !self.torn || self.cause != Some(ThreadState::Other);
        self.cause.filter(|_| is_known)
    }

    /// What it waits for.
    pub fn cause(self) -> ThreadState {
        self.cause.unwrap_or(ThreadState::Other)
    }
}
