//! Reading the kernel's functions while nobody else wants the processor: they are 100,000 lines and more.

use super::kallsyms::Kallsyms;
use crate::watcher::thread_time;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A thread that reads them on processors that are idle (SCHED_IDLE).
#[derive(Debug)]
pub(super) struct Reader {
    thread: JoinHandle<(io::Result<Kallsyms>, u64)>,
    /// The thread's number; 0 where it did not tell.
    pub tid: i32,
    pub began: Instant,
}

impl Reader {
    /// Begins to read.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn start(proc_root: &Path) -> io::Result<Self> {
        let proc_root = proc_root.to_path_buf();
        let (tell, told) = mpsc::channel();
        let body = move || {
            // Where it may not step back it reads all the same.
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            schedule(0, libc::SCHED_IDLE);
            let table = Kallsyms::read(&proc_root);
            (table, thread_time())
        };
        let thread = thread::Builder::new().name("fathom-names".into()).spawn(body)?;
        Ok(Self { thread, tid: told.recv().unwrap_or_default(), began: Instant::now() })
    }

    /// Whether all was read.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until all was read, no longer letting others go first where that is allowed. Gives what was
    /// read, and the processor time that it took, in nanoseconds.
    pub fn finish(self) -> (io::Result<Kallsyms>, u64) {
        schedule(self.tid, libc::SCHED_OTHER);
        self.thread.join().unwrap_or_else(|_| (Err(io::ErrorKind::Other.into()), 0))
    }
}

fn schedule(tid: i32, policy: i32) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives during the call, which writes nothing.
    unsafe { libc::sched_setscheduler(tid, policy, &raw const param) };
}
