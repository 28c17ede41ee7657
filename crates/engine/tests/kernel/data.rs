//! The engine against the real kernel, on files of its own.

use crate::common::{Target, all, engines, job, joined, open, plan, random, run, run_one};
use fathom_engine::{FileKind, OpenFile, start};
use fathom_model::Dir;
use fathom_model::plan::{
    Batch, BlockSizes, CommandPriority, Engine, ExitWhat, Fill, JobPlan, Mix, Order, Psync, Rate,
    RateProcess, Region, Until, Uring,
};
use fathom_model::progress::Phase;
use fathom_model::record::PriorityRecord;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

const BYTES: u64 = 4 << 20;

#[test]
fn every_engine_reads_every_block_once() {
    let target = Target::filled(BYTES);
    for (name, engine) in engines() {
        for direct in [true, false] {
            let mut job = job(engine.clone(), Mix::Only(Dir::Read), &target);
            job.direct = direct;
            let record = run_one(&target.path, job);
            let read = &record.dirs.read;
            assert_eq!(record.error, None, "{name}");
            assert_eq!((read.counts.ios, read.counts.bytes), (BYTES / 4096, BYTES), "{name}");
            assert_eq!(
                (read.clat.count(), read.lat.count(), read.slat.count()),
                (1024, 1024, 1024),
                "{name}"
            );
            assert!(read.lat.sum_ns() >= read.clat.sum_ns(), "{name}");
            assert!(record.runtime_ns > 0 && record.depth.in_flight_max <= 8, "{name}");
            let submitted: u64 =
                record.depth.submit.iter().map(|(size, n)| u64::from(*size) * n).sum();
            let completed: u64 =
                record.depth.complete.iter().map(|(size, n)| u64::from(*size) * n).sum();
            assert_eq!((submitted, completed), (1024, 1024), "{name}");
        }
    }
}

#[test]
fn every_engine_writes_the_requested_data_and_offsets() {
    for (name, engine) in engines() {
        let target = Target::filled(BYTES);
        let mut job = job(engine, Mix::Only(Dir::Write), &target);
        job.regions[0].start = 1 << 20;
        job.regions[0].len = 2 << 20;
        job.until.bytes = Some(2 << 20);
        job.access.block_sizes = all(BlockSizes::Fixed(8192));
        job.access.align = all(8192);
        job.buffers.fill = Fill::Pattern(b"fathom!".to_vec());
        job.sync.at_end = true;
        job.sync.fsync_every = 100;
        let before = std::fs::read(&target.path).unwrap();
        let record = run_one(&target.path, job);
        assert_eq!((record.error, record.dirs.write.counts.bytes), (None, 2 << 20), "{name}");
        assert_eq!(
            record.flushes.count, 3,
            "{name}: after 100 and 200 of 256 writes, and at the end"
        );
        let after = std::fs::read(&target.path).unwrap();
        let block: Vec<u8> = b"fathom!".iter().cycle().take(8192).copied().collect();
        assert!(after[1 << 20..3 << 20].chunks(8192).all(|written| written == block), "{name}");
        assert_eq!(
            (&after[..1 << 20], &after[3 << 20..]),
            (&before[..1 << 20], &before[3 << 20..]),
            "{name}"
        );
    }
}

#[test]
fn random_blocks_differ_from_each_other() {
    let target = Target::sparse(1 << 20);
    let record = run_one(
        &target.path,
        job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Write), &target),
    );
    assert_eq!(record.error, None);
    let bytes = std::fs::read(&target.path).unwrap();
    let mut blocks: Vec<&[u8]> = bytes.chunks(4096).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 256, "a device that deduplicates must gain nothing");
}

#[test]
fn trims_punch_holes_into_files() {
    for (_, engine) in engines() {
        let target = Target::filled(BYTES);
        let mut job = job(engine, Mix::Only(Dir::Trim), &target);
        job.regions[0].len = 1 << 20;
        job.until.bytes = Some(1 << 20);
        let record = run_one(&target.path, job);
        assert_eq!((record.error, record.dirs.trim.counts.ios), (None, 256));
        let bytes = std::fs::read(&target.path).unwrap();
        assert!(
            bytes[..1 << 20].iter().all(|b| *b == 0) && bytes[1 << 20..].iter().any(|b| *b != 0)
        );
        let allocated = std::fs::metadata(&target.path).unwrap().blocks() * 512;
        // The file system may need a block of its own for the list of the parts that are left.
        assert!(allocated <= BYTES - (1 << 20) + 65536, "{allocated}");
    }
}

#[test]
fn single_ios_have_priorities() {
    let target = Target::filled(BYTES);
    // The kernel refuses the class 7, which shows that it gets the value, and of which I/Os.
    let priority = |block, value| CommandPriority { block, percent: 100, value };
    for engine in [Engine::Libaio, Engine::IoUring(Uring::default())] {
        let mut job = job(engine, Mix::Only(Dir::Read), &target);
        job.priorities.read = vec![priority(Some(4096), 2 << 13 | 7), priority(Some(512), 7 << 13)];
        let read = run_one(&target.path, job.clone());
        assert_eq!((read.error, read.dirs.read.counts.bytes), (None, BYTES));
        job.priorities.read =
            vec![CommandPriority { block: None, percent: 50, value: 2 << 13 | 7 }];
        let halves = run_one(&target.path, job.clone()).dirs.read;
        let ios = |one: &PriorityRecord| (one.priority, one.clat.count() + one.lat.count());
        let [(0, plain), (own, others)] = halves.priorities.iter().map(ios).collect::<Vec<_>>()[..]
        else {
            panic!("{:?}", halves.priorities);
        };
        assert_eq!((own, plain + others), (2 << 13 | 7, 2 * halves.counts.ios));
        let mut merged = halves.priorities[0].clat.clone();
        merged.merge(&halves.priorities[1].clat);
        assert_eq!(merged, halves.clat);
        job.priorities.read = vec![priority(None, 7 << 13)];
        let refused = run_one(&target.path, job).error.unwrap();
        assert_eq!(refused.errno, libc::EINVAL, "{refused:?}");
    }
}

#[test]
fn allocating_and_truncating_transfer_no_data() {
    let target = Target::sparse(BYTES);
    let of = |call, dir| {
        let mut job = job(Engine::Psync(call), Mix::Only(dir), &target);
        job.direct = false;
        job.until.bytes = Some(1 << 20);
        job.regions[0].len = 1 << 20;
        let record = run_one(&target.path, job);
        (record.error.map(|error| error.errno), record.dirs[dir].counts.ios)
    };
    let allocated = || std::fs::metadata(&target.path).unwrap().blocks() * 512;
    assert_eq!(of(Psync::Allocate, Dir::Write), (None, 256));
    assert!(allocated() >= 1 << 20 && allocated() < 2 << 20, "{}", allocated());
    assert_eq!(of(Psync::Allocate, Dir::Trim), (None, 256));
    assert!(allocated() < 1 << 19, "{}", allocated());
    assert_eq!(of(Psync::Allocate, Dir::Read), (Some(libc::EINVAL), 0));
    assert!(std::fs::read(&target.path).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(of(Psync::Truncate, Dir::Write), (None, 256));
    let size = std::fs::metadata(&target.path).unwrap().len();
    assert!(size < 1 << 20 && size.is_multiple_of(4096), "{size}: the offset of the last write");
}

#[test]
fn kernel_features_in_effect_are_recorded() {
    let target = Target::filled(1 << 20);
    let granted = |uring: Uring| {
        run_one(&target.path, job(Engine::IoUring(uring), Mix::Only(Dir::Read), &target)).granted
    };
    let by_default = granted(Uring::default());
    assert!(by_default.fixed_buffers && by_default.registered_files && by_default.direct);
    // Flags that this kernel has are in force or named as refused, never lost.
    for flag in ["SINGLE_ISSUER", "DEFER_TASKRUN", "COOP_TASKRUN", "NO_SQARRAY", "SUBMIT_ALL"] {
        let (has, refused) = (&by_default.setup_flags, &by_default.refused_flags);
        assert!(
            has.iter().chain(refused).filter(|f| *f == flag).count() == 1,
            "{flag}: {has:?} {refused:?}"
        );
    }
    let plain =
        granted(Uring { fixed_buffers: false, registered_files: false, ..Uring::default() });
    assert!(!plain.fixed_buffers && !plain.registered_files);
}

#[test]
fn polling_without_poll_queues_is_an_error() {
    let target = Target::filled(1 << 20);
    let mut job = job(
        Engine::IoUring(Uring { iopoll: true, ..Uring::default() }),
        Mix::Only(Dir::Read),
        &target,
    );
    job.until = Until { runtime_ns: Some(300_000_000), ..Until::default() };
    let record = run_one(&target.path, job);
    match record.error {
        // The file system's device has no polled queues: the usual case here.
        Some(error) => {
            assert_eq!((error.errno, record.dirs.read.counts.ios), (libc::EOPNOTSUPP, 0));
            assert!(error.message.contains("NoPolledQueues"), "{}", error.message);
        }
        None => assert!(record.granted.polled && record.dirs.read.counts.ios > 0),
    }
}

#[test]
fn a_target_truncated_during_the_run_is_reported() {
    let target = Target::filled(BYTES);
    let mut job = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
    job.until = Until { runtime_ns: Some(10_000_000_000), ..Until::default() };
    let files = vec![vec![open(&target.path, &job)]];
    let running = start(&plan(vec![job]), files).unwrap();
    wait_for(|| running.progress().jobs[0].dirs.read.ios > 2000);
    std::fs::OpenOptions::new().write(true).open(&target.path).unwrap().set_len(0).unwrap();
    let record = joined(running).remove(0);
    let error = record.error.expect("a failure");
    assert!(error.message.contains("Shrunk"), "{}", error.message);
    assert!(record.runtime_ns < 9_000_000_000, "the job ended with the error");
    assert_eq!(record.dirs.read.counts.bytes, record.dirs.read.counts.ios * 4096);
}

#[test]
fn a_read_only_descriptor_gives_a_clear_error() {
    let target = Target::filled(1 << 20);
    let write = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Write), &target);
    let read = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
    let files = vec![vec![open(&target.path, &read)]];
    let record = joined(start(&plan(vec![write]), files).unwrap()).remove(0);
    let error = record.error.expect("a failure");
    assert_eq!(error.errno, libc::EBADF);
    assert!(error.message.contains(&*target.path.to_string_lossy()), "{}", error.message);
}

#[test]
fn runtime_ramp_and_stop_end_a_job() {
    let target = Target::filled(1 << 20);
    let mut job = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
    job.until = Until { runtime_ns: Some(200_000_000), ramp_ns: 100_000_000, ..Until::default() };
    let record = run_one(&target.path, job.clone());
    assert!(record.started_ns >= 100_000_000 && record.runtime_ns >= 200_000_000);

    job.until = Until::default();
    let files = vec![vec![open(&target.path, &job)]];
    let running = start(&plan(vec![job]), files).unwrap();
    wait_for(|| running.progress().jobs[0].phase == Phase::Running);
    running.stop();
    assert_eq!(joined(running)[0].error, None);
}

#[test]
fn the_schedule_of_a_rate_does_not_depend_on_completions() {
    let target = Target::filled(1 << 20);
    for (process, slack) in [(RateProcess::Linear, 2), (RateProcess::Poisson, 150)] {
        let mut job = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
        job.until = Until { runtime_ns: Some(1_000_000_000), ..Until::default() };
        job.rate.read = Some(Rate::Iops(1000));
        job.rate_process = process;
        let read = run_one(&target.path, job).dirs.read;
        let scheduled = read.counts.ios + read.unstarted_ios;
        assert!(
            scheduled.abs_diff(1000) <= slack,
            "{process:?}: {scheduled} I/Os were scheduled in a second"
        );
        assert_eq!(read.response.count(), read.counts.ios);
        assert!(read.response.max_ns() >= read.clat.max_ns() / 2);
    }
}

#[test]
fn late_and_unstarted_ios_are_counted() {
    let target = Target::filled(1 << 20);
    let mut job = job(Engine::Psync(Psync::Plain), Mix::Only(Dir::Read), &target);
    job.until = Until { runtime_ns: Some(300_000_000), ..Until::default() };
    job.rate.read = Some(Rate::Iops(50_000_000));
    let read = run_one(&target.path, job).dirs.read;
    assert!(read.late_ios > 0 && read.unstarted_ios > read.counts.ios);
    assert!(read.response.max_ns() > 100_000_000, "waiting before the start counts");
    assert!(read.lat.max_ns() < read.response.max_ns());
}

#[test]
fn waves_run_in_order_and_exitall_ends_all() {
    let target = Target::filled(1 << 20);
    let mut first = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
    first.until = Until { runtime_ns: Some(50_000_000), ..Until::default() };
    let mut second = first.clone();
    second.wave = 1;
    let records = run(&target.path, vec![first.clone(), second.clone()]);
    assert!(records[1].started_ns >= records[0].started_ns + records[0].runtime_ns);

    first.exitall = true;
    second.wave = 0;
    second.until = Until { runtime_ns: Some(60_000_000_000), ..Until::default() };
    let began = Instant::now();
    let records = run(&target.path, vec![first, second]);
    assert!(began.elapsed() < Duration::from_secs(30) && records.iter().all(|r| r.error.is_none()));
}

#[test]
fn exit_what_selects_the_jobs_to_end() {
    let target = Target::filled(1 << 20);
    let with = |group, wave, until| {
        let job = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
        JobPlan { group, wave, until, ..job }
    };
    let ios = |n| Until { ios: Some(n), ..Until::default() };
    let minute = Until { runtime_ns: Some(60_000_000_000), ..Until::default() };
    // How long a job of another group works beside the one that ends the others, and what it and
    // one that comes later then get done.
    let cases = [
        (ExitWhat::Group, ios(300), Some(300), 300),
        (ExitWhat::Stonewall, minute, None, 300),
        (ExitWhat::All, minute, None, 0),
    ];
    for (exit_what, until, beside, later) in cases {
        let ends = JobPlan { exitall: true, exit_what, ..with(0, 0, ios(10)) };
        let jobs = vec![ends, with(0, 0, minute), with(1, 0, until), with(2, 1, ios(300))];
        let records = run(&target.path, jobs);
        assert!(records.iter().all(|r| r.error.is_none() && r.runtime_ns < 30_000_000_000));
        let done = |index: usize| records[index].dirs.read.counts.ios;
        assert!(beside.is_none_or(|ios| done(2) == ios), "{exit_what:?}: {}", done(2));
        assert_eq!(done(3), later, "{exit_what:?}");
    }
}

#[test]
fn a_job_that_fails_to_set_up_prevents_the_run() {
    let target = Target::filled(1 << 20);
    let good = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Write), &target);
    let mut bad = good.clone();
    bad.depth = 60_000;
    let before = std::fs::read(&target.path).unwrap();
    let records = run(&target.path, vec![good, bad]);
    let error = records[1].error.as_ref().expect("a refusal");
    assert!(error.message.contains("SetUpRing(60000)"), "{}", error.message);
    assert!(error.message.contains("RingFlags"), "{}", error.message);
    assert_eq!(records[0].dirs.write.counts.ios, 0);
    assert!(std::fs::read(&target.path).unwrap() == before, "nothing was written");
}

#[test]
fn batch_sizes_are_as_requested() {
    let target = Target::sparse(64 << 20);
    let mut job = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
    job.depth = 128;
    job.batch = Batch { submit_max: Some(32), complete_min: 32, ..Batch::default() };
    let record = run_one(&target.path, job.clone());
    assert_eq!(record.depth.submit, [(32, 512)]);
    // Reads of holes complete as they are submitted: one system call for each batch.
    assert_eq!(record.depth.system_calls, 512);
}

#[test]
fn batches_grow_while_completions_are_ready() {
    let target = Target::sparse(64 << 20);
    let ios: u64 = 4 + 8 + 16 + 32 + 64 + 50 * 128;
    for (engine, calls_per_batch) in [(Engine::IoUring(Uring::default()), 1), (Engine::Libaio, 2)] {
        let mut job = job(engine, Mix::Only(Dir::Read), &target);
        job.depth = 128;
        job.until = Until { ios: Some(ios), ..Until::default() };
        let name = job.engine.name();
        let depth = run_one(&target.path, job).depth;
        // Reads of holes complete as they are submitted: all that is free goes in one batch soon.
        assert_eq!(depth.submit, [(4, 1), (8, 1), (16, 1), (32, 1), (64, 1), (128, 50)], "{name}");
        assert_eq!(depth.system_calls, 55 * calls_per_batch, "{name}");
    }
}

#[test]
fn mixed_sequential_io_stays_in_its_region() {
    let target = Target::filled(BYTES);
    let mut job =
        job(Engine::IoUring(Uring::default()), Mix::ReadWrite { read_percent: 50 }, &target);
    job.access.order = Order::Sequential { skip: 0 };
    job.regions[0].start = 2 << 20;
    job.regions[0].len = 1 << 20;
    job.until.bytes = Some(8 << 20);
    let before = std::fs::read(&target.path).unwrap();
    let record = run_one(&target.path, job);
    assert_eq!(record.error, None);
    assert_eq!(record.dirs.read.counts.bytes + record.dirs.write.counts.bytes, 8 << 20);
    let after = std::fs::read(&target.path).unwrap();
    assert_eq!(&after[..2 << 20], &before[..2 << 20]);
    assert_eq!(&after[3 << 20..], &before[3 << 20..]);
}

#[test]
fn layout_writes_the_whole_file() {
    let target = Target::sparse(3 << 20);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&target.path).unwrap();
    let mut told = Vec::new();
    fathom_engine::fill(file.into(), 4096, 3 << 20, &Default::default(), 1, |done| {
        told.push(done);
        true
    })
    .unwrap();
    assert_eq!(told.last(), Some(&((3 << 20) - 4096)));
    let mut block = [0u8; 4096];
    let file = std::fs::File::open(&target.path).unwrap();
    for at in (4096..3 << 20).step_by(4096) {
        file.read_exact_at(&mut block, at).unwrap();
        assert!(block.iter().filter(|b| **b == 0).count() < 200, "random bytes at {at}");
    }
}

/// An empty pipe stands in for a device that never answers.
#[test]
fn a_hung_target_does_not_block_the_end_of_the_run() {
    let target = Target::filled(1 << 20);
    let mut silent = job(Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), &target);
    silent.direct = false;
    silent.until = Until { runtime_ns: Some(200_000_000), ..Until::default() };
    let mut ramp = silent.clone();
    ramp.until.ramp_ns = 100_000_000;
    let mut healthy = silent.clone();
    healthy.until = Until { runtime_ns: Some(9_000_000_000), ..Until::default() };
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = || OpenFile {
        fd: reader.try_clone().unwrap().into(),
        kind: FileKind::Regular,
        path: "the pipe".into(),
        created: false,
        trims: None,
    };
    for job in [&mut silent, &mut ramp] {
        job.access.order = Order::Sequential { skip: 0 };
        job.depth = 1;
    }
    let files = vec![vec![pipe()], vec![pipe()], vec![open(&target.path, &healthy)]];
    let records = joined(start(&plan(vec![silent, ramp, healthy]), files).unwrap());
    for (record, what) in records.iter().zip(["measured", "in the ramp"]) {
        let error = record.error.as_ref().expect(what);
        assert_eq!(error.errno, libc::ETIMEDOUT, "{what}: {error:?}");
        assert_eq!(record.dirs.read.counts.ios, 0, "{what}");
    }
    assert_eq!(records[2].error, None);
    assert!(records[2].dirs.read.counts.ios > 0);
}

/// A ring of `depth` sequential 4 KiB reads of a pipe, each wait for all of them.
#[allow(clippy::unwrap_used)]
fn reads_of_a_pipe(depth: u32) -> (fathom_engine::Running, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let order = Order::Sequential { skip: 0 };
    let engine = Engine::IoUring(Uring::default());
    let mut job = JobPlan::new("pipe", engine, Mix::Only(Dir::Read), order);
    job.depth = depth;
    job.batch.complete_min = depth;
    job.regions = vec![Region { target: 0, start: 0, len: u64::from(depth) * 4096 }];
    job.until = Until { ios: Some(depth.into()), ..Until::default() };
    let pipe = OpenFile {
        fd: reader.into(),
        kind: FileKind::Regular,
        path: "the pipe".into(),
        created: false,
        trims: None,
    };
    (start(&plan(vec![job]), vec![vec![pipe]]).unwrap(), writer)
}

#[test]
fn a_stalled_target_is_not_a_lost_wakeup() {
    // In the second case one read completes and the wait for two goes on.
    for depth in [1, 2] {
        let (running, mut writer) = reads_of_a_pipe(depth);
        wait_for(|| running.progress().jobs[0].in_flight == depth);
        (1..depth).for_each(|_| writer.write_all(&[0; 4096]).unwrap());
        assert!(!running.wait(Duration::from_millis(2500)));
        writer.write_all(&[0; 4096]).unwrap();
        let record = joined(running).remove(0);
        assert_eq!((record.error, record.dirs.read.counts.ios), (None, depth.into()));
        assert!(record.depth.system_calls > 1, "a long wait is interrupted: {:?}", record.depth);
        assert!(record.lost_wakeups.is_none(), "depth {depth}: {:?}", record.lost_wakeups);
    }
}

#[test]
fn nop_and_null_need_no_target() {
    for engine in [Engine::Nop(Uring::default()), Engine::Null] {
        let mut job = fathom_model::JobPlan::new("none", engine, Mix::Only(Dir::Read), random());
        job.depth = 32;
        job.until = Until { ios: Some(100_000), ..Until::default() };
        let record = joined(start(&plan(vec![job]), vec![vec![]]).unwrap()).remove(0);
        assert_eq!((record.error, record.dirs.read.counts.ios), (None, 100_000));
    }
}

fn wait_for(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(20), "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}
