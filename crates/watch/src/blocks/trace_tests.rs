use super::super::limits::Limits;
use super::*;
use fathom_model::watch::DeviceBlocks;

fn disk(bio_based: bool) -> Device {
    let limits = Limits { max_segments: 254, page: 4096, logical_block: 512, ..Limits::default() };
    Device {
        name: "vda".into(),
        disk: 7,
        parts: vec![],
        range: None,
        bio_based,
        limits,
        ..Device::default()
    }
}

fn at(time_ns: u64, what: What, sector: u64) -> Seen {
    Seen { time_ns, what: Some(what), dev: 7, sector, sectors: 8, ..Seen::default() }
}

/// What one device shows after these events.
fn after(bio_based: bool, events: &[Seen]) -> DeviceBlocks {
    let devices = [disk(bio_based)];
    let (mut tally, mut times) = (Tally::new(&devices), Times::new(&devices));
    for seen in events {
        tally.add(0, &devices[0], seen);
        tally.error(0, seen);
        times.add(0, seen);
    }
    let mut blocks = BlocksSample { devices: vec![DeviceBlocks::default()], ..Default::default() };
    tally.put(&mut blocks);
    times.put(&mut blocks);
    blocks.devices.remove(0)
}

#[test]
fn a_request_is_followed_to_its_end() {
    use What::{TimedDone, TimedEnter, TimedIssue};
    let of = after(false, &[at(100, TimedEnter, 8), at(150, TimedIssue, 8), at(400, TimedDone, 8)]);
    assert_eq!((of.queue.count(), of.queue.max_ns()), (1, 50));
    assert_eq!((of.driver.count(), of.driver.max_ns()), (1, 250));
}

#[test]
fn a_request_that_was_put_back_waited_once_and_its_last_try_counts() {
    use What::{TimedDone, TimedEnter, TimedIssue};
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
fn what_cannot_be_told_apart_is_not_timed() {
    use What::{TimedDone, TimedEnter, TimedIssue};
    // Two reads of one block at once; then one whose beginning was not seen.
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
    // One that was merged is overtaken by the next at its place.
    let of =
        after(false, &[at(100, TimedEnter, 8), at(700, TimedEnter, 8), at(710, TimedIssue, 8)]);
    assert_eq!(of.queue.max_ns(), 10);
}

#[test]
fn without_requests_the_driver_has_it_at_once() {
    let of = after(true, &[at(100, What::TimedEnter, 8), at(300, What::TimedBioDone, 8)]);
    assert_eq!((of.queue.count(), of.driver.max_ns()), (0, 200));
    let of = after(true, &[at(1, What::Enter, 8)]);
    assert_eq!((of.sizes[0].bytes_min, of.sizes[0].samples), (4096, 1));
}

#[test]
fn what_never_ends_is_forgotten() {
    let devices = [disk(false)];
    let mut times = Times::new(&devices);
    times.add(0, &at(1_000, What::TimedEnter, 8));
    times.forget(200_000_000_000);
    times.add(0, &at(200_000_000_001, What::TimedIssue, 8));
    let mut blocks = BlocksSample { devices: vec![DeviceBlocks::default()], ..Default::default() };
    times.put(&mut blocks);
    assert!(blocks.devices[0].queue.is_empty());
}

#[test]
fn sizes_splits_errors_and_tasks() {
    let mut split = at(1, What::Split, 16);
    (split.sectors, split.op) = (254 * 8, BlockOp::Read);
    let mut issue = at(2, What::Issue, 16);
    (issue.sectors, issue.op) = (12, BlockOp::Write);
    let flush = Seen { sectors: 0, op: BlockOp::Flush, ..at(3, What::Issue, 0) };
    let failed = Seen { error: -5, ..at(4, What::TimedDone, 8) };
    let of = after(false, &[split, issue, flush, failed]);
    let split = &of.splits[0];
    assert_eq!((split.limit.as_str(), split.bytes, split.samples), ("max_segments", 1_040_384, 1));
    let sizes: Vec<_> = of.sizes.iter().map(|s| (s.op, s.bytes_min, s.samples)).collect();
    assert_eq!(sizes, [(BlockOp::Write, 4096, 1), (BlockOp::Flush, 0, 1)]);
    assert_eq!(of.error_codes, [(5, 1)]);

    let mut tally = Tally::new(&[]);
    let mut comm = [0; 16];
    comm[..3].copy_from_slice(b"fio");
    for requests in [7, 8, 32, 0] {
        tally.unplug(&Seen { requests, comm, ..at(1, What::Unplug, 0) });
    }
    let mut blocks = BlocksSample::default();
    tally.put(&mut blocks);
    assert_eq!(blocks.tasks[0].comm, "fio");
    assert_eq!(blocks.tasks[0].unplugs, [(5, 2), (32, 1)]);
}

#[test]
fn letters_of_operations() {
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
fn one_in_so_many_sectors_is_timed() {
    for (one_in, share) in [(1, 1), (2, 2), (61, 64), (64, 64), (1000, 1024)] {
        let mask = mask(one_in);
        assert_eq!(1 << mask.count_ones(), share);
        assert_eq!(mask & 7, 0, "all sectors of a block alike");
    }
}

#[test]
fn a_split_beyond_two_tebibytes_keeps_its_size() {
    let field = |name: &str, offset: u32, kind: &str| {
        format!("\tfield:{kind} {name};\toffset:{offset};\tsize:8;\tsigned:0;\n")
    };
    let format =
        format!("ID: 1\n{}{}", field("sector", 0, "sector_t"), field("new_sector", 8, "sector_t"));
    let layout = Layout::of(&Tracepoint::parse("a".into(), &format).unwrap());
    let sector = (1_u64 << 33) - 8;
    let raw = [sector.to_ne_bytes(), 24_u64.to_ne_bytes()].concat();
    assert_eq!(layout.decode(&raw).sectors, 32);
    assert_eq!(layout.decode(&raw[..4]), Seen::default());
}
