//! vsync, mmap, splice and posixaio against the real kernel: what sets them apart from other engines.

use crate::common::{Target, all, job, joined, open, plan, run_one};
use fathom_engine::{FileKind, OpenFile, start};
use fathom_model::Dir;
use fathom_model::plan::{
    Batch, BlockSizes, Engine, FileService, Fill, JobPlan, Mix, Order, Region, SyncIo, Until,
};
use fathom_model::record::JobRecord;
use std::fs::OpenOptions;
use std::time::{Duration, Instant};

const BYTES: u64 = 4 << 20;
const SEQUENTIAL: Order = Order::Sequential { skip: 0 };

fn wait_for(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(20), "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn batches(order: Order) -> JobRecord {
    let target = Target::filled(BYTES);
    let mut job = job(Engine::Vsync, Mix::Only(Dir::Read), &target);
    job.access.order = order;
    job.batch = Batch { submit_max: Some(8), complete_min: 8, ..Batch::default() };
    run_one(&target.path, job)
}

#[test]
fn vsync_joins_adjacent_ios_of_a_batch() {
    let record = batches(SEQUENTIAL);
    assert_eq!((record.error, record.dirs.read.counts.ios), (None, BYTES / 4096));
    assert_eq!(record.depth.submit, [(8, BYTES / 4096 / 8)]);
    // lseek and readv for each batch.
    assert_eq!(record.depth.system_calls, BYTES / 4096 / 8 * 2);
    // Descending offsets are not adjacent.
    let record = batches(Order::Sequential { skip: -8192 });
    assert_eq!((record.error, record.dirs.read.counts.ios), (None, BYTES / 4096));
    assert!(record.depth.system_calls > BYTES / 4096, "{}", record.depth.system_calls);
}

#[test]
fn large_blocks_pass_through_the_pipe_in_parts() {
    let target = Target::filled(BYTES);
    let block: Vec<u8> = b"fathom!".iter().cycle().take(1 << 20).copied().collect();
    for direct in [false, true] {
        let mut write = job(Engine::Splice, Mix::Only(Dir::Write), &target);
        write.direct = direct;
        write.access.block_sizes = all(BlockSizes::Fixed(1 << 20));
        write.access.align = all(1 << 20);
        write.buffers.fill = Fill::Pattern(b"fathom!".to_vec());
        let mut read = write.clone();
        read.access.mix = Mix::Only(Dir::Read);
        let record = run_one(&target.path, write);
        assert_eq!((record.error, record.dirs.write.counts.ios), (None, 4), "direct={direct}");
        assert!(record.depth.system_calls >= 4 * 16 * 2, "{}", record.depth.system_calls);
        assert!(std::fs::read(&target.path).unwrap().chunks(1 << 20).all(|have| have == block));
        let record = run_one(&target.path, read);
        assert_eq!((record.error, record.dirs.read.counts.bytes), (None, BYTES), "direct={direct}");
        std::fs::write(&target.path, vec![0; BYTES as usize]).unwrap();
    }
}

#[test]
fn a_target_that_cannot_be_spliced_is_reported() {
    let target = Target::filled(BYTES);
    let mut job = job(Engine::Splice, Mix::Only(Dir::Write), &target);
    job.direct = false;
    // splice(2) refuses O_APPEND.
    let file = OpenOptions::new().append(true).open(&target.path).unwrap();
    let file = OpenFile {
        fd: file.into(),
        kind: FileKind::Regular,
        path: "the file".into(),
        created: false,
        trims: None,
    };
    let record = joined(start(&plan(vec![job]), vec![vec![file]]).unwrap()).remove(0);
    let error = record.error.expect("a failure");
    assert_eq!((error.errno, record.dirs.write.counts.ios), (libc::EINVAL, 0));
    assert!(error.message.contains("NoSplice"), "{}", error.message);
    assert_eq!(std::fs::metadata(&target.path).unwrap().len(), BYTES, "nothing was appended");
}

#[test]
fn mappings_of_regions_that_begin_within_a_page() {
    let target = Target::filled(BYTES);
    let before = std::fs::read(&target.path).unwrap();
    let mut job = job(Engine::Mmap, Mix::Only(Dir::Write), &target);
    job.direct = false;
    job.regions = vec![Region { target: 0, start: 4096 + 512, len: 512 * 33 }];
    job.until.bytes = Some(512 * 33);
    job.access.block_sizes = all(BlockSizes::Fixed(512));
    job.access.align = all(512);
    job.buffers.fill = Fill::Pattern(vec![0xa5]);
    job.sync_io = SyncIo::Dsync;
    let record = run_one(&target.path, job);
    assert_eq!((record.error, record.dirs.write.counts.ios), (None, 33));
    // msync for each write.
    assert_eq!(record.depth.system_calls, 33);
    let after = std::fs::read(&target.path).unwrap();
    assert!(after[4608..4608 + 512 * 33].iter().all(|byte| *byte == 0xa5));
    assert!(
        after[..4608] == before[..4608] && after[4608 + 512 * 33..] == before[4608 + 512 * 33..]
    );
}

#[test]
fn a_mapping_is_not_direct_io() {
    let target = Target::filled(BYTES);
    let record = run_one(&target.path, job(Engine::Mmap, Mix::Only(Dir::Read), &target));
    assert!(record.error.is_none() && !record.granted.direct);
    // With direct=1, each block is written back and unmapped.
    assert_eq!(record.depth.system_calls, 2 * BYTES / 4096);
}

#[test]
fn passes_over_a_mapping_read_from_the_disk_again() {
    let target = Target::filled(BYTES);
    let faults = |invalidate| {
        let mut job = job(Engine::Mmap, Mix::Only(Dir::Read), &target);
        job.direct = false;
        job.invalidate = invalidate;
        job.access.order = SEQUENTIAL;
        job.until.bytes = Some(4 * BYTES);
        let record = run_one(&target.path, job);
        assert_eq!((record.error, record.dirs.read.counts.bytes), (None, 4 * BYTES));
        record.usage.minor_faults + record.usage.major_faults
    };
    let (once, again) = (faults(false), faults(true));
    assert!(again > 2 * once, "{once} faults with one pass from the disk, {again} with four");
}

/// Starts endless accesses to a mapped file, truncates that, and returns the record.
fn truncated(mix: Mix) -> JobRecord {
    let target = Target::filled(BYTES);
    let mut job = job(Engine::Mmap, mix, &target);
    job.direct = false;
    job.until = Until { runtime_ns: Some(10_000_000_000), ..Until::default() };
    let dir = job.used_dirs().next().unwrap();
    let files = vec![vec![open(&target.path, &job)]];
    let running = start(&plan(vec![job]), files).unwrap();
    wait_for(|| running.progress().jobs[0].dirs[dir].ios > 100);
    OpenOptions::new().write(true).open(&target.path).unwrap().set_len(0).unwrap();
    let record = joined(running).remove(0);
    assert!(record.runtime_ns < 9_000_000_000, "the job ended with the error");
    record
}

#[test]
fn a_bus_error_fails_the_io_and_not_the_program() {
    for (mix, errno) in [(Dir::Read, libc::ENODATA), (Dir::Write, libc::EFAULT)] {
        let record = truncated(Mix::Only(mix));
        let error = record.error.expect("a failure");
        assert_eq!(error.errno, errno, "{}", error.message);
        let hint = if mix == Dir::Read { "Shrunk" } else { "Truncated" };
        assert!(error.message.contains(hint), "{}", error.message);
        assert_eq!(record.dirs[mix].counts.errors, 1);
    }
}

/// Reads of several files through posixaio.
fn posixaio(files: usize, depth: u32) -> JobRecord {
    let targets: Vec<Target> = (0..files).map(|_| Target::filled(1 << 20)).collect();
    let mut job: JobPlan = job(Engine::Posixaio, Mix::Only(Dir::Read), &targets[0]);
    job.depth = depth;
    job.batch.submit_max = Some(depth);
    job.file_service = FileService::RoundRobin;
    job.access.order = SEQUENTIAL;
    let region = |target| Region { target, start: 0, len: 1 << 20 };
    job.regions = (0..files).map(region).collect();
    job.until.bytes = Some((files as u64) << 20);
    let open = targets.iter().map(|target| open(&target.path, &job)).collect();
    joined(start(&plan(vec![job]), vec![open]).unwrap()).remove(0)
}

#[test]
fn posixaio_keeps_more_in_flight_than_one_wait_can_name() {
    for (files, depth) in [(1, 1), (1, 100), (25, 200)] {
        let record = posixaio(files, depth);
        let read = &record.dirs.read;
        assert_eq!((record.error, read.counts.bytes), (None, (files as u64) << 20), "{files}");
        assert_eq!(record.depth.in_flight_max, depth);
        assert!(read.clat.count() == read.counts.ios && read.clat.max_ns() > 0);
    }
}
