use super::super::events::op;
use super::super::events::{BlockEvent, EventLayout};
use super::super::limits::QueueLimits;
use super::*;
use crate::TraceCoverage;
use crate::blocks::{BlockSampler, BlocksOptions, Devices, ONE_IN};
use crate::perf::online_cpus;
use fathom_model::watch::{BlockOp, DeviceBlocks};
use std::path::Path;

fn disk(bio_based: bool) -> BlockDevice {
    let limits =
        QueueLimits { max_segments: 254, page: 4096, logical_block: 512, ..QueueLimits::default() };
    BlockDevice {
        name: "vda".into(),
        disk: 7,
        parts: vec![],
        range: None,
        bio_based,
        limits,
        ..BlockDevice::default()
    }
}

fn at(time_ns: u64, what: EventKind, sector: u64) -> BlockEvent {
    BlockEvent { time_ns, what: Some(what), dev: 7, sector, sectors: 8, ..BlockEvent::default() }
}

/// The device's results after these events.
fn after(bio_based: bool, events: &[BlockEvent]) -> DeviceBlocks {
    let devices = [disk(bio_based)];
    let (mut tally, mut times) = (SizeTally::new(&devices), RequestTimes::new(&devices));
    for event in events {
        tally.add(0, &devices[0], event);
        tally.error(0, event);
        times.add(0, event);
    }
    let mut blocks = BlocksSample { devices: vec![DeviceBlocks::default()], ..Default::default() };
    tally.put(&mut blocks);
    times.put(&mut blocks);
    blocks.devices.remove(0)
}

#[test]
fn a_request_is_timed_until_completion() {
    use EventKind::{TimedDone, TimedEnter, TimedIssue};
    let of = after(false, &[at(100, TimedEnter, 8), at(150, TimedIssue, 8), at(400, TimedDone, 8)]);
    assert_eq!((of.queue.count(), of.queue.max_ns()), (1, 50));
    assert_eq!((of.driver.count(), of.driver.max_ns()), (1, 250));
}

#[test]
fn a_requeued_request_is_timed_from_its_last_issue() {
    use EventKind::{TimedDone, TimedEnter, TimedIssue};
    let of = after(
        false,
        &[
            at(100, TimedEnter, 8),
            at(150, TimedIssue, 8),
            at(300, TimedIssue, 8),
            at(400, TimedDone, 8),
        ],
    );
    assert_eq!((of.queue.count(), of.queue.max_ns()), (1, 50));
    assert_eq!((of.driver.count(), of.driver.max_ns()), (1, 100));
}

#[test]
fn ambiguous_requests_are_not_timed() {
    use EventKind::{TimedDone, TimedEnter, TimedIssue};
    // Two concurrent reads of one block; then a completion without a start.
    let of = after(
        false,
        &[
            at(100, TimedEnter, 8),
            at(110, TimedIssue, 8),
            at(120, TimedEnter, 8),
            at(130, TimedIssue, 8),
            at(400, TimedDone, 8),
            at(500, TimedDone, 8),
            at(600, TimedDone, 16),
        ],
    );
    assert_eq!((of.queue.count(), of.driver.count()), (1, 0));
    // A merged bio is superseded by the next one at its sector.
    let of =
        after(false, &[at(100, TimedEnter, 8), at(700, TimedEnter, 8), at(710, TimedIssue, 8)]);
    assert_eq!(of.queue.max_ns(), 10);
}

#[test]
fn bios_are_issued_when_queued() {
    let of = after(true, &[at(100, EventKind::TimedEnter, 8), at(300, EventKind::TimedBioDone, 8)]);
    assert_eq!((of.queue.count(), of.driver.max_ns()), (0, 200));
    let of = after(true, &[at(1, EventKind::Enter, 8)]);
    assert_eq!((of.sizes[0].bytes_min, of.sizes[0].samples), (4096, 1));
}

#[test]
fn requests_that_never_complete_are_dropped() {
    let devices = [disk(false)];
    let mut times = RequestTimes::new(&devices);
    times.add(0, &at(1_000, EventKind::TimedEnter, 8));
    times.forget(200_000_000_000);
    times.add(0, &at(200_000_000_001, EventKind::TimedIssue, 8));
    let mut blocks = BlocksSample { devices: vec![DeviceBlocks::default()], ..Default::default() };
    times.put(&mut blocks);
    assert!(blocks.devices[0].queue.is_empty());
}

#[test]
fn sizes_splits_errors_and_tasks() {
    let mut split = at(1, EventKind::Split, 16);
    (split.sectors, split.op) = (254 * 8, BlockOp::Read);
    let mut issue = at(2, EventKind::Issue, 16);
    (issue.sectors, issue.op) = (12, BlockOp::Write);
    let flush = BlockEvent { sectors: 0, op: BlockOp::Flush, ..at(3, EventKind::Issue, 0) };
    let failed = BlockEvent { error: -5, ..at(4, EventKind::TimedDone, 8) };
    let of = after(false, &[split, issue, flush, failed]);
    let split = &of.splits[0];
    assert_eq!((split.limit.as_str(), split.bytes, split.samples), ("max_segments", 1_040_384, 1));
    let sizes: Vec<_> = of.sizes.iter().map(|s| (s.op, s.bytes_min, s.samples)).collect();
    assert_eq!(sizes, [(BlockOp::Write, 4096, 1), (BlockOp::Flush, 0, 1)]);
    assert_eq!(of.error_codes, [(5, 1)]);

    let mut tally = SizeTally::new(&[]);
    let mut comm = [0; 16];
    comm[..3].copy_from_slice(b"fio");
    for requests in [7, 8, 32, 0] {
        tally.unplug(&BlockEvent { requests, comm, ..at(1, EventKind::Unplug, 0) });
    }
    let mut blocks = BlocksSample::default();
    tally.put(&mut blocks);
    assert_eq!(blocks.tasks[0].comm, "fio");
    assert_eq!(blocks.tasks[0].unplugs, [(5, 2), (32, 1)]);
    let unplugs = tally.unplugs(5);
    let unplugs: Vec<_> = unplugs.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(unplugs, [&(5, 10), &(32, 5)]);
}

/// While a window is open, each event of a tracepoint costs time at every I/O or plug flush.
#[test]
fn requests_and_plug_flushes_pass_few_events() {
    let options = BlocksOptions {
        devices: Devices::Busiest { first: Vec::new() },
        one_in: ONE_IN,
        each_io: TraceCoverage::DutyCycle,
    };
    let (proc_root, sys_root) = (Path::new("/proc"), Path::new("/sys"));
    let sampler = match BlockSampler::open(proc_root, sys_root, &options) {
        Ok(sampler) => sampler,
        Err(error) => return println!("skipped: {error}"),
    };
    let cpus = online_cpus(sys_root).unwrap().len();
    let sources = &sampler.trace.as_ref().unwrap().events.sources;
    let events = |of: &[EventKind]| sources.values().filter(|(kind, _)| of.contains(kind)).count();
    assert!(sampler.unplugs.is_empty());
    assert_eq!(events(&[EventKind::Unplug]), cpus);
    let (issue, done) = ([EventKind::Issue, EventKind::TimedIssue], EventKind::TimedDone);
    assert!(events(&[EventKind::Enter, EventKind::TimedEnter]) <= 2 * cpus);
    assert!(events(&issue) <= 2 * cpus && events(&[done]) <= cpus);
}

#[test]
fn rwbs_letters() {
    for (letters, expected) in [
        ("R", BlockOp::Read),
        ("RA", BlockOp::Read),
        ("WS", BlockOp::Write),
        ("FWFS", BlockOp::Write),
        ("ZAS", BlockOp::Write),
        ("D", BlockOp::Discard),
        ("DE", BlockOp::Discard),
        ("FF", BlockOp::Flush),
        ("F", BlockOp::Flush),
        ("N", BlockOp::Other),
        ("", BlockOp::Other),
    ] {
        assert_eq!(op(letters.as_bytes()), expected, "{letters}");
    }
}

#[test]
fn one_sector_in_one_in_is_timed() {
    for (one_in, share) in [(1, 1), (2, 2), (61, 64), (64, 64), (1000, 1024)] {
        let mask = mask(one_in);
        assert_eq!(1 << mask.count_ones(), share);
        assert_eq!(mask & 7, 0, "all sectors of a 4 KiB block alike");
    }
}

#[test]
fn splits_beyond_two_tebibytes_have_the_right_size() {
    let field = |name: &str, offset: u32, kind: &str| {
        format!("\tfield:{kind} {name};\toffset:{offset};\tsize:8;\tsigned:0;\n")
    };
    let format =
        format!("ID: 1\n{}{}", field("sector", 0, "sector_t"), field("new_sector", 8, "sector_t"));
    let layout = EventLayout::of(&Tracepoint::parse("a".into(), &format).unwrap());
    let sector = (1_u64 << 33) - 8;
    let raw = [sector.to_ne_bytes(), 24_u64.to_ne_bytes()].concat();
    assert_eq!(layout.decode(&raw).sectors, 32);
    assert_eq!(layout.decode(&raw[..4]), BlockEvent::default());
}

#[test]
fn flushes_are_timed_apart() {
    use EventKind::{TimedDone, TimedEnter, TimedIssue};
    let flush = |time_ns, what| BlockEvent { op: BlockOp::Flush, ..at(time_ns, what, 0) };
    let read = |time_ns, what| BlockEvent { op: BlockOp::Read, ..at(time_ns, what, 0) };
    let of = after(
        false,
        &[
            flush(100, TimedEnter),
            flush(120, TimedIssue),
            read(130, TimedEnter),
            read(140, TimedIssue),
            read(200, TimedDone),
            flush(1120, TimedDone),
            // The request that asked for the flush, which was never issued itself.
            flush(1121, TimedDone),
        ],
    );
    assert_eq!((of.queue.count(), of.driver.count(), of.driver.max_ns()), (1, 1, 60));
    let ops: Vec<_> = of.ops.iter().map(|t| (t.op, t.driver.count(), t.driver.max_ns())).collect();
    assert_eq!(ops, [(BlockOp::Read, 1, 60), (BlockOp::Flush, 1, 1000)]);
}
