//! CPU time by kernel layer.
//!
//! A sample belongs to the layer of its innermost kernel function, by the table in
//! `layers/table.txt`. Locks, lists, clocks and other helpers have no layer of their own: they
//! take that of the nearest caller that has one, and locks are counted apart within it.

mod table;
mod times;

pub use times::{LayerTime, LayerTimes, TimeUnit};

use schemars::JsonSchema;
use serde::Serialize;
use table::TableEntry;

/// A layer, in the order in which an I/O passes through them; defined in `docs/layers.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// User mode.
    Program,
    /// Entry to and exit from system calls.
    Syscall,
    /// io_uring.
    Uring,
    /// io_uring's worker threads: handing work to them.
    IoWq,
    /// The kernel's AIO, under libaio.
    Aio,
    /// The VFS and the file systems.
    FileSystem,
    /// The page cache and its writing back.
    PageCache,
    /// Reclaim, the lists of least recently used pages, swap, compaction.
    Reclaim,
    /// The block layer.
    Block,
    /// I/O schedulers and how requests get into and out of them.
    IoScheduler,
    /// Device mapper, md, bcache.
    Mapper,
    /// Drivers of devices and their transports.
    Driver,
    /// Mapping of memory for devices, IOMMU, bounce buffers.
    Dma,
    /// Interrupts, soft interrupts, timer ticks.
    Interrupt,
    /// Copying and zeroing of memory.
    Copy,
    /// Memory allocation and accounting.
    Allocation,
    /// Address spaces: page faults, pinning of a program's pages, page tables.
    Mappings,
    /// Threads: scheduling, waking, kernel work queues, processes and signals.
    Scheduler,
    /// The network.
    Network,
    /// Overhead of observation: perf, tracing, BPF.
    Watching,
    /// Functions not in the table.
    Other,
    /// Nothing to do. Not busy time.
    Idle,
}

impl Layer {
    /// All layers, in their order.
    pub const ALL: [Self; 22] = [
        Self::Program,
        Self::Syscall,
        Self::Uring,
        Self::IoWq,
        Self::Aio,
        Self::FileSystem,
        Self::PageCache,
        Self::Reclaim,
        Self::Block,
        Self::IoScheduler,
        Self::Mapper,
        Self::Driver,
        Self::Dma,
        Self::Interrupt,
        Self::Copy,
        Self::Allocation,
        Self::Mappings,
        Self::Scheduler,
        Self::Network,
        Self::Watching,
        Self::Other,
        Self::Idle,
    ];

    /// Its display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "user space",
            Self::Syscall => "system call entry",
            Self::Uring => "io_uring",
            Self::IoWq => "io-wq",
            Self::Aio => "aio",
            Self::FileSystem => "file system",
            Self::PageCache => "page cache",
            Self::Reclaim => "reclaim, LRU",
            Self::Block => "block layer",
            Self::IoScheduler => "I/O scheduler",
            Self::Mapper => "dm, md",
            Self::Driver => "driver",
            Self::Dma => "DMA, IOMMU",
            Self::Interrupt => "interrupts",
            Self::Copy => "copy, zeroing",
            Self::Allocation => "allocation",
            Self::Mappings => "faults, pinning",
            Self::Scheduler => "scheduler",
            Self::Network => "network",
            Self::Watching => "tracing",
            Self::Other => "other",
            Self::Idle => "idle",
        }
    }
}

/// Where a sample belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribution {
    /// The layer.
    pub layer: Layer,
    /// It takes, holds on to, waits for or releases a lock of that layer.
    pub lock: bool,
}

/// Where a sample with these kernel functions, outermost first, belongs.
///
/// Functions are named as in /proc/kallsyms, those of modules with or without the module:
/// `nvme_queue_rq` or `nvme_queue_rq [nvme]`.
pub fn classify<S: AsRef<str>>(kernel: &[S]) -> Attribution {
    let Some((leaf, callers)) = kernel.split_last() else {
        return Attribution { layer: Layer::Program, lock: false };
    };
    let mut class = table::class(leaf.as_ref());
    let mut lock = false;
    let mut callers = callers.iter().rev();
    loop {
        match class {
            Some(TableEntry::Layer(layer)) => return Attribution { layer, lock },
            Some(TableEntry::Lock) => lock = true,
            Some(TableEntry::Caller) => {}
            None => return Attribution { layer: Layer::Other, lock },
        }
        // A caller that is not in the table is skipped: it may be a helper too.
        class = callers.by_ref().find_map(|caller| table::class(caller.as_ref()));
    }
}

#[cfg(test)]
mod tests;
