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

/// With fewer samples, a share of 10% is only known to within 5 points.
pub const SAMPLES_MIN: u64 = 200;

macro_rules! layers {
    ($($(#[$doc:meta])* $layer:ident $name:literal $key:literal,)*) => {
        /// A layer, in the order in which an I/O passes through them; defined in `docs/layers.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Layer {
            $($(#[$doc])* $layer,)*
        }

        impl Layer {
            pub const ALL: &'static [Self] = &[$(Self::$layer),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$layer => $name,)* }
            }

            /// What the table of functions calls each; empty for those that it has not.
            const KEYS: &'static [(&'static str, Self)] = &[$(($key, Self::$layer)),*];
        }
    };
}

// Each with its name on pages, and what the table of functions calls it.
layers! {
    /// User mode.
    Program "user space" "",
    /// Entry to and exit from system calls.
    Syscall "system call entry" "syscall",
    /// io_uring.
    Uring "io_uring" "uring",
    /// io_uring's worker threads: handing work to them.
    IoWq "io-wq" "iowq",
    /// The kernel's AIO, under libaio.
    Aio "aio" "aio",
    /// The VFS and the file systems.
    FileSystem "file system" "fs",
    /// The page cache and its writing back.
    PageCache "page cache" "pagecache",
    /// Reclaim, the lists of least recently used pages, swap, compaction.
    Reclaim "reclaim, LRU" "reclaim",
    /// The block layer.
    Block "block layer" "block",
    /// I/O schedulers and how requests get into and out of them.
    IoScheduler "I/O scheduler" "iosched",
    /// Device mapper, md, bcache.
    Mapper "dm, md" "dm",
    /// Drivers of devices and their transports.
    Driver "driver" "driver",
    /// Mapping of memory for devices, IOMMU, bounce buffers.
    Dma "DMA, IOMMU" "dma",
    /// Interrupts, soft interrupts, timer ticks.
    Interrupt "interrupts" "irq",
    /// Copying and zeroing of memory.
    Copy "copy, zeroing" "copy",
    /// Memory allocation and accounting.
    Allocation "allocation" "alloc",
    /// Address spaces: page faults, pinning of a program's pages, page tables.
    Mappings "faults, pinning" "vm",
    /// Threads: scheduling, waking, kernel work queues, processes and signals.
    Scheduler "scheduler" "sched",
    /// The network.
    Network "network" "net",
    /// Overhead of observation: perf, tracing, BPF.
    Watching "tracing" "watch",
    /// Functions not in the table.
    Other "other" "",
    /// Nothing to do. Not busy time.
    Idle "idle" "idle",
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribution {
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
