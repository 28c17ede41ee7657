//! How I/O reaches the kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How I/O reaches the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring on a file or block device.
    IoUring(Uring),
    /// io_uring passthrough commands on an NVMe generic device (`/dev/ngXnY`).
    IoUringCmd(Uring),
    /// Linux native asynchronous I/O: io_submit(2), io_getevents(2).
    Libaio,
    /// One system call per I/O.
    Psync(Psync),
    /// io_uring with operations that do nothing: what the ring itself costs.
    Nop(Uring),
    /// Completes everything at once without the kernel: what the engine itself costs.
    Null,
}

impl Engine {
    /// The name as in fio's `ioengine`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Engine::IoUring(_) => "io_uring",
            Engine::IoUringCmd(_) => "io_uring_cmd",
            Engine::Libaio => "libaio",
            Engine::Psync(p) => match p {
                Psync::Plain => "psync",
                Psync::Seek => "sync",
                Psync::Vectored => "pvsync",
                Psync::VectoredFlags { .. } => "pvsync2",
            },
            Engine::Nop(_) => "nop",
            Engine::Null => "null",
        }
    }

    /// Whether each call does one I/O and waits for it, whatever the depth asked.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        matches!(self, Engine::Psync(_))
    }

    /// The io_uring settings, where the engine is a ring.
    #[must_use]
    pub fn uring(&self) -> Option<&Uring> {
        match self {
            Engine::IoUring(u) | Engine::IoUringCmd(u) | Engine::Nop(u) => Some(u),
            _ => None,
        }
    }
}

/// Which system call the synchronous engine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Psync {
    /// pread(2), pwrite(2).
    Plain,
    /// lseek(2), then read(2) or write(2) (fio's `sync`).
    Seek,
    /// preadv(2), pwritev(2).
    Vectored,
    /// preadv2(2), pwritev2(2).
    VectoredFlags {
        /// RWF_HIPRI: poll for the completion.
        hipri: bool,
        /// RWF_NOWAIT.
        nowait: bool,
    },
}

/// What is asked of io_uring. What was granted is in [`crate::record::Granted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uring {
    /// Register the buffers, so that the kernel maps them once (`fixedbufs`).
    pub fixed_buffers: bool,
    /// Register the files (`registerfiles`).
    pub registered_files: bool,
    /// Poll for completions instead of taking interrupts (`hipri`; IORING_SETUP_IOPOLL).
    pub iopoll: bool,
    /// A kernel thread submits (`sqthread_poll`; IORING_SETUP_SQPOLL).
    pub sqpoll: Option<SqPoll>,
    /// Use the vectored operations READV and WRITEV (`nonvectored=0`).
    pub vectored: bool,
    /// Every n-th I/O goes to a kernel worker thread at once (`force_async`); 0 is none.
    pub force_async: u32,
}

impl Default for Uring {
    /// What changes no meaning, only cost, is on.
    fn default() -> Self {
        Self {
            fixed_buffers: true,
            registered_files: true,
            iopoll: false,
            sqpoll: None,
            vectored: false,
            force_async: 0,
        }
    }
}

/// The kernel's submission thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqPoll {
    /// Bind it to this processor.
    pub cpu: Option<u32>,
    /// It sleeps after this time without work, in milliseconds; `None` leaves the kernel's default.
    pub idle_ms: Option<u32>,
}

/// Sizes of batches (`iodepth_batch*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    /// Submit at most this many at once (`iodepth_batch`); `None`: adapts to the device.
    pub submit_max: Option<u32>,
    /// Wait for at least this many completions (`iodepth_batch_complete_min`); 0 only looks.
    pub complete_min: u32,
    /// Reap at most this many at once (`iodepth_batch_complete_max`); `None`: all that is there.
    pub complete_max: Option<u32>,
    /// Once the depth is reached, let it fall to this before refilling (`iodepth_low`);
    /// `None`: refill at once.
    pub low: Option<u32>,
}

impl Default for Batch {
    /// Submit in batches that adapt to the device, reap all that is there.
    fn default() -> Self {
        Self { submit_max: None, complete_min: 1, complete_max: None, low: None }
    }
}
