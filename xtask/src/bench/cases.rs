//! The cases: workload, measured figures, goals.

use super::results::{Figure, Goal, Peer};
use super::tools::Tool;

/// A workload on which the tools are compared. Its keys are fio's, in addition to 4 KiB random reads; t/io_uring has
/// options of its own. A tool without keys is not run.
pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    pub target: Target,
    pub measure: Measure,
    /// Pass the keys in a job file.
    pub job_file: bool,
    /// Measures sampling overhead as well.
    pub watched: bool,
    pub fathom: &'static [&'static [&'static str]],
    pub fio: &'static [&'static [&'static str]],
    pub fio_tuned: &'static [&'static [&'static str]],
    pub t_io_uring: &'static [&'static str],
    pub t_io_uring_half: &'static [&'static str],
    /// One of several similar, short cases that share a table.
    pub in_row: bool,
    /// Also run with `--quick`.
    pub quick: bool,
    pub goals: &'static [Goal],
}

/// The target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A file without data, of this size in bytes.
    Sparse(u64),
    /// A file with data on disk.
    Filled,
    /// A loop device backed by a cached file.
    Loop,
    /// A zram device of this size in bytes.
    Zram(u64),
}

/// The measured figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// IOPS, and CPU time per I/O.
    Speed,
    /// I/Os relative to those of the same program sharing one CPU.
    Beside,
    Instructions,
    /// Time per I/O beyond the device's own.
    Overhead,
    /// One I/O, from start to exit.
    Start,
    /// Peak memory minus the buffers of this many jobs, of fathom and of the peers.
    Memory {
        fathom_jobs: u32,
        peer_jobs: u32,
    },
}

pub const SPARSE_BYTES: u64 = 4 << 30;
const SPARSE: Target = Target::Sparse(SPARSE_BYTES);
/// Keys that reduce the cost of a ring: fathom's defaults, optional in fio.
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
/// Keys that only fio needs to be fast: one process, no clock and therefore no latencies.
const FIO_FAST: &[&str] = &["thread=1", "gtod_reduce=1"];
const PLAIN: &[&str] = &["ioengine=io_uring", "iodepth=128", "direct=1"];
const ONE: &[&str] = &["iodepth=1", "direct=1"];

const WATCHING: &[Goal] =
    &[than(Figure::Beside, Tool::WatchDefault, 0.99), than(Figure::Beside, Tool::WatchFull, 0.95)];

/// Defaults of a case.
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
        title: "sparse 4 GiB file, O_DIRECT, 4 KiB random reads, QD128, batches of 32",
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
        title: "no-ops, QD128, batches of 32",
        fathom: &[DEEP, &["ioengine=nop", "size=4g"]],
        // It requires a file, but does not read it.
        t_io_uring: &["-N1", "-d128", "-s32", "-c32"],
        goals: &[than(Figure::Iops, Tool::TIoUring, 1.0)],
        ..BASE
    },
    Case {
        name: "zram",
        title: "zram, 4 KiB random reads, QD32, batches of 4",
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
        // Larger than the CPU caches, the speed would vary between runs.
        target: Target::Zram(1 << 20),
        measure: Measure::Beside,
        watched: true,
        fathom: &[SHALLOW, REGISTERED],
        goals: WATCHING,
        ..BASE
    },
    Case {
        name: "depth-one",
        title: "file on disk, 4 KiB random reads, QD1",
        target: Target::Filled,
        measure: Measure::Overhead,
        fathom: &[ONE, REGISTERED],
        fio: &[ONE, REGISTERED, &["thread=1"]],
        // Without latencies, so not a peer here: a lower bound set by the kernel.
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
        title: "15 TiB sparse file, each block once, QD128; fathom 64 jobs, fio 1",
        target: Target::Sparse(15 << 40),
        // fio's block map takes half a gigabyte per job, too much for 64 jobs.
        measure: Measure::Memory { fathom_jobs: 64, peer_jobs: 1 },
        fathom: &[PLAIN, &["numjobs=64"]],
        fio: &[PLAIN, &["thread=1"]],
        goals: &[at(Figure::Memory, 64.0)],
        ..BASE
    },
];

impl Case {
    /// The keys of a tool; `None` if it is not part of this case.
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

/// fathom's figure relative to a peer's, or a variant's relative to fathom's.
const fn than(figure: Figure, peer: Tool, ratio: f64) -> Goal {
    Goal { figure, peer: Peer::Tool(peer), limit: ratio }
}

/// fathom's figure relative to that of the peer with the highest IOPS.
pub const fn than_best(figure: Figure, ratio: f64) -> Goal {
    Goal { figure, peer: Peer::Fastest, limit: ratio }
}

/// fathom's figure by itself.
const fn at(figure: Figure, limit: f64) -> Goal {
    Goal { figure, peer: Peer::None, limit }
}
