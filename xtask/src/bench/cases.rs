//! The cases: what is run, what is measured, and what fathom must reach.

use super::results::{Figure, Goal, Peer};
use super::tools::Tool;

/// One kind of work that the tools are compared at. Its keys are fio's, and come on top of
/// random reads of 4 KiB; t/io_uring's options are its own. A tool without keys has no part.
pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    pub target: Target,
    pub measure: Measure,
    /// Hand the keys over in a job file.
    pub job_file: bool,
    /// Measures sampling overhead as well.
    pub watched: bool,
    pub fathom: &'static [&'static [&'static str]],
    pub fio: &'static [&'static [&'static str]],
    pub fio_tuned: &'static [&'static [&'static str]],
    pub t_io_uring: &'static [&'static str],
    pub t_io_uring_half: &'static [&'static str],
    /// One of a row of like cases, which share a table and are short.
    pub in_row: bool,
    /// Run with `--quick`, too.
    pub quick: bool,
    pub goals: &'static [Goal],
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A file without data, of this size in bytes.
    Sparse(u64),
    /// A file with data on the disk.
    Filled,
    /// A loop device on a file that is in the page cache.
    Loop,
    /// A compressed disk in memory, of this size in bytes.
    Zram(u64),
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// IOPS, and CPU time per I/O.
    Speed,
    /// I/Os relative to those of the same program sharing one CPU.
    Beside,
    Instructions,
    /// What an I/O takes beyond the device's own time.
    Overhead,
    /// One I/O, from start to exit.
    Start,
    /// Peak memory less the buffers of so many jobs, fathom's and the peers'.
    Memory {
        fathom_jobs: u32,
        peer_jobs: u32,
    },
}

pub const SPARSE_BYTES: u64 = 4 << 30;
const SPARSE: Target = Target::Sparse(SPARSE_BYTES);
/// What makes a ring cheap: fathom's default, and fio's to ask for.
pub const REGISTERED: &[&str] = &["ioengine=io_uring", "fixedbufs=1", "registerfiles=1"];
pub const DEEP: &[&str] = &[
    "iodepth=128",
    "iodepth_batch_submit=32",
    "iodepth_batch_complete_min=32",
    "direct=1",
    "norandommap=1",
];
const SHALLOW: &[&str] = &[
    "iodepth=32",
    "iodepth_batch_submit=4",
    "iodepth_batch_complete_min=4",
    "direct=1",
    "norandommap=1",
];
/// What only fio needs in order to be fast: one process, no clock and so no latencies.
const FIO_FAST: &[&str] = &["thread=1", "gtod_reduce=1"];
const PLAIN: &[&str] = &["ioengine=io_uring", "iodepth=128", "direct=1"];
const ONE: &[&str] = &["iodepth=1", "direct=1"];

const WATCHING: &[Goal] =
    &[than(Figure::Beside, Tool::WatchDefault, 0.99), than(Figure::Beside, Tool::WatchFull, 0.95)];

/// Whatever a case does not set.
pub const BASE: Case = Case {
    name: "",
    title: "",
    target: SPARSE,
    measure: Measure::Speed,
    job_file: false,
    watched: false,
    fathom: &[],
    fio: &[],
    fio_tuned: &[],
    t_io_uring: &[],
    t_io_uring_half: &[],
    in_row: false,
    quick: true,
    goals: &[],
};

pub const CASES: [Case; 12] = [
    Case {
        name: "tuned",
        title: "sparse 4 GiB file, O_DIRECT, 4 KiB random reads, depth 128, batches of 32",
        fathom: &[DEEP, REGISTERED],
        fio: &[DEEP, REGISTERED, FIO_FAST],
        t_io_uring: &["-d128", "-s32", "-c32"],
        goals: &[than(Figure::Iops, Tool::TIoUring, 1.0), than(Figure::Iops, Tool::Fio, 1.3)],
        ..BASE
    },
    Case {
        name: "tuned-beside",
        title: "the case `tuned`, each sharing one CPU with the same program",
        measure: Measure::Beside,
        fathom: &[DEEP, REGISTERED],
        t_io_uring: &["-d128", "-s32", "-c32"],
        goals: &[than(Figure::Beside, Tool::TIoUring, 1.0)],
        ..BASE
    },
    Case {
        name: "tuned-instructions",
        title: "the case `tuned`, its instructions",
        measure: Measure::Instructions,
        fathom: &[DEEP, REGISTERED],
        fio: &[DEEP, REGISTERED, FIO_FAST],
        t_io_uring: &["-d128", "-s32", "-c32"],
        goals: &[
            at(Figure::UserInstructions, 100.0),
            than(Figure::UserInstructions, Tool::Fio, 0.05),
            than(Figure::KernelInstructions, Tool::TIoUring, 1.0),
        ],
        ..BASE
    },
    Case {
        name: "plain",
        title: "plain job file, the same file: rw=randread bs=4k iodepth=128 direct=1",
        job_file: true,
        fathom: &[PLAIN],
        fio: &[PLAIN],
        goals: &[than(Figure::Iops, Tool::Fio, 3.0)],
        ..BASE
    },
    Case {
        name: "plain-instructions",
        title: "the case `plain`, its instructions",
        measure: Measure::Instructions,
        job_file: true,
        fathom: &[PLAIN],
        fio: &[PLAIN],
        ..BASE
    },
    Case {
        name: "nop",
        title: "operations that do nothing, depth 128, batches of 32",
        fathom: &[DEEP, &["ioengine=nop", "size=4g"]],
        // It wants a file here too, and does not read it.
        t_io_uring: &["-N1", "-d128", "-s32", "-c32"],
        goals: &[than(Figure::Iops, Tool::TIoUring, 1.0)],
        ..BASE
    },
    Case {
        name: "zram",
        title: "zram, 4 KiB random reads, depth 32, batches of 4",
        target: Target::Zram(256 << 20),
        fathom: &[SHALLOW, REGISTERED],
        fio: &[SHALLOW, REGISTERED, FIO_FAST],
        t_io_uring: &["-d32", "-s4", "-c4"],
        goals: &[than(Figure::Iops, Tool::TIoUring, 1.0)],
        ..BASE
    },
    Case {
        name: "watch-sparse",
        title: "the case `tuned-beside`, with sampling",
        measure: Measure::Beside,
        watched: true,
        fathom: &[DEEP, REGISTERED],
        goals: WATCHING,
        ..BASE
    },
    Case {
        name: "watch-zram",
        title: "the case `zram`, 1 MiB, sharing one CPU with the same program, with sampling",
        // What the caches do not hold is read at a speed of its own in each run.
        target: Target::Zram(1 << 20),
        measure: Measure::Beside,
        watched: true,
        fathom: &[SHALLOW, REGISTERED],
        goals: WATCHING,
        ..BASE
    },
    Case {
        name: "depth-one",
        title: "file on the disk, 4 KiB random reads, depth 1",
        target: Target::Filled,
        measure: Measure::Overhead,
        fathom: &[ONE, REGISTERED],
        fio: &[ONE, REGISTERED, &["thread=1"]],
        // Without latencies, so not a peer here: what the kernel takes at least.
        t_io_uring: &["-d1", "-s1", "-c1"],
        goals: &[than(Figure::Overhead, Tool::Fio, 1.0), than(Figure::CpuPerIo, Tool::Fio, 1.0)],
        ..BASE
    },
    Case {
        name: "start",
        title: "one job of one I/O, from start to exit",
        target: Target::Filled,
        measure: Measure::Start,
        fathom: &[ONE, REGISTERED],
        fio: &[ONE, REGISTERED, &["thread=1"]],
        goals: &[at(Figure::StartTime, 20.0)],
        ..BASE
    },
    Case {
        name: "memory",
        title: "15 TiB sparse file, each block once, depth 128; fathom 64 jobs, fio 1",
        target: Target::Sparse(15 << 40),
        // fio's map of the blocks takes half a gigabyte for each job: 64 of them are too many.
        measure: Measure::Memory { fathom_jobs: 64, peer_jobs: 1 },
        fathom: &[PLAIN, &["numjobs=64"]],
        fio: &[PLAIN, &["thread=1"]],
        goals: &[at(Figure::Memory, 64.0)],
        ..BASE
    },
];

impl Case {
    /// What is particular to a tool, or nothing where it has no part in this case.
    pub fn keys(&self, tool: Tool) -> Option<Vec<&'static str>> {
        let keys = match tool {
            Tool::Fathom => self.fathom.concat(),
            Tool::Fio => self.fio.concat(),
            Tool::FioTuned => self.fio_tuned.concat(),
            Tool::TIoUring => self.t_io_uring.to_vec(),
            Tool::TIoUringHalf => self.t_io_uring_half.to_vec(),
            _ if !self.watched => Vec::new(),
            _ => self.fathom.concat(),
        };
        (!keys.is_empty()).then_some(keys)
    }
}

/// fathom's figure against a peer's, or a variant's against fathom's.
const fn than(figure: Figure, peer: Tool, ratio: f64) -> Goal {
    Goal { figure, peer: Peer::Tool(peer), limit: ratio }
}

/// fathom's figure against that of the peer with the most I/Os per second.
pub const fn than_best(figure: Figure, ratio: f64) -> Goal {
    Goal { figure, peer: Peer::Fastest, limit: ratio }
}

/// fathom's figure by itself.
const fn at(figure: Figure, limit: f64) -> Goal {
    Goal { figure, peer: Peer::None, limit }
}
