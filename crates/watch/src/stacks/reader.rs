//! Reads /proc/kallsyms, which has more than 100,000 lines, at idle priority.

use super::kallsyms::Kallsyms;
use crate::watcher::thread_time;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A thread that reads the symbols under SCHED_IDLE.
#[derive(Debug)]
pub(super) struct KallsymsReader {
    thread: JoinHandle<(io::Result<Kallsyms>, u64)>,
    /// Its thread ID; 0 if unknown.
    pub tid: i32,
    pub began: Instant,
}

impl KallsymsReader {
    /// Starts reading.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(proc_root: &Path) -> io::Result<Self> {
        let proc_root = proc_root.to_path_buf();
        let (tid_sender, tid_receiver) = mpsc::channel();
        let body = move || {
            // Without SCHED_IDLE it reads at normal priority.
            let _ = tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get());
            schedule(0, libc::SCHED_IDLE);
            let table = Kallsyms::read(&proc_root);
            (table, thread_time())
        };
        let thread = thread::Builder::new().name("fathom-names".into()).spawn(body)?;
        Ok(Self { thread, tid: tid_receiver.recv().unwrap_or_default(), began: Instant::now() })
    }

    /// Whether everything has been read.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Restores normal priority and waits for the thread. Returns the symbols and the CPU time
    /// used, in nanoseconds.
    pub fn finish(self) -> (io::Result<Kallsyms>, u64) {
        schedule(self.tid, libc::SCHED_OTHER);
        self.thread.join().unwrap_or_else(|_| (Err(io::ErrorKind::Other.into()), 0))
    }
}

fn schedule(tid: i32, policy: i32) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call, which only reads it.
    unsafe { libc::sched_setscheduler(tid, policy, &raw const param) };
}
