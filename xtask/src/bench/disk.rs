//! fathom's defaults on a disk, a loop device and zram, compared with the best that fio and t/io_uring reach.

use super::cases::{BASE, Case, Target, than_best};
use super::results::{Figure, Goal};

const GOALS: &[Goal] = &[than_best(Figure::Iops, 0.98), than_best(Figure::CpuPerIo, 1.0)];

pub const RANDOM_WRITES: &str = "rw=randwrite";
pub const MIXED: &str = "rw=randrw";

/// fio's default is psync.
const RING: &[&str] = &["ioengine=io_uring"];
const RING_TUNED: &[&str] = &["ioengine=io_uring", "fixedbufs=1", "registerfiles=1"];
/// No block map, one process, and no clock, therefore no latencies.
const SAVING: &[&str] = &["norandommap=1", "thread=1", "gtod_reduce=1"];

/// A case with the same keys for fathom and fio.
const fn like(
    name: &'static str,
    title: &'static str,
    target: Target,
    fathom: &'static [&'static [&'static str]],
    fio: &'static [&'static [&'static str]],
    fio_tuned: &'static [&'static [&'static str]],
) -> Case {
    Case {
        name,
        title,
        target,
        fathom,
        fio,
        fio_tuned,
        goals: GOALS,
        in_row: true,
        quick: false,
        ..BASE
    }
}

/// Random reads at a queue depth; a second t/io_uring submits `half` of it per call.
macro_rules! reads {
    ($place:literal, $title:literal, $target:expr, $depth:literal, $half:literal) => {{
        const KEYS: &[&str] = &["direct=1", concat!("iodepth=", $depth)];
        Case {
            t_io_uring: &[concat!("-d", $depth), "-s1", "-c1"],
            t_io_uring_half: &[concat!("-d", $depth), concat!("-s", $half), concat!("-c", $half)],
            quick: $depth == 32,
            ..like(
                concat!("disk-", $place, "-", $depth),
                concat!($title, ", 4 KiB random reads, depth ", $depth),
                $target,
                &[KEYS],
                &[KEYS, RING],
                &[KEYS, RING_TUNED, SAVING],
            )
        }
    }};
}

/// Other workloads at QD32.
macro_rules! others {
    ($place:literal, $title:literal, $target:expr, $name:literal, $what:literal, $keys:expr) => {{
        const KEYS: &[&str] = $keys;
        like(
            concat!("disk-", $place, "-", $name),
            concat!($title, ", ", $what),
            $target,
            &[KEYS],
            &[RING, KEYS],
            &[RING_TUNED, SAVING, KEYS],
        )
    }};
}

macro_rules! place {
    ($place:literal, $title:literal, $target:expr) => {
        [
            reads!($place, $title, $target, 1, 1),
            reads!($place, $title, $target, 2, 1),
            reads!($place, $title, $target, 4, 2),
            reads!($place, $title, $target, 8, 4),
            reads!($place, $title, $target, 16, 8),
            reads!($place, $title, $target, 32, 16),
            reads!($place, $title, $target, 64, 32),
            reads!($place, $title, $target, 128, 64),
            reads!($place, $title, $target, 256, 128),
            Case {
                t_io_uring: &["-b16384", "-d32", "-s1", "-c1"],
                t_io_uring_half: &["-b16384", "-d32", "-s16", "-c16"],
                ..others!(
                    $place,
                    $title,
                    $target,
                    "16k",
                    "16 KiB random reads, depth 32",
                    &["direct=1", "iodepth=32", "bs=16k"]
                )
            },
            Case {
                t_io_uring: &["-a1", "-d32", "-s1", "-c1"],
                t_io_uring_half: &["-a1", "-d32", "-s16", "-c16"],
                ..others!(
                    $place,
                    $title,
                    $target,
                    "libaio",
                    "4 KiB random reads, libaio, QD32",
                    &["direct=1", "iodepth=32", "ioengine=libaio"]
                )
            },
            Case {
                t_io_uring: &["-n4", "-d8", "-s1", "-c1"],
                t_io_uring_half: &["-n4", "-d8", "-s4", "-c4"],
                ..others!(
                    $place,
                    $title,
                    $target,
                    "jobs",
                    "4 KiB random reads, 4 jobs, QD8",
                    &["direct=1", "iodepth=8", "numjobs=4"]
                )
            },
            others!(
                $place,
                $title,
                $target,
                "mixed",
                "4 KiB, 70% reads and 30% writes, QD32",
                &["direct=1", "iodepth=32", MIXED, "rwmixread=70"]
            ),
            others!(
                $place,
                $title,
                $target,
                "write",
                "4 KiB random writes, depth 32",
                &["direct=1", "iodepth=32", RANDOM_WRITES]
            ),
        ]
    };
}

pub const CASES: [[Case; 14]; 3] = [
    place!("file", "file", Target::Filled),
    place!("loop", "loop device", Target::Loop),
    place!("zram", "zram", Target::Zram(256 << 20)),
];
