use super::*;
use crate::render::{self, Style, assert_fits};
use fathom_model::watch::{BlockOp, OpTimes, TaskBlocks};

fn lines(growth: &BlocksSample, elapsed_ns: u64) -> String {
    render::text(&block_rates(growth, elapsed_ns, false), Style { color: false, width: 140 })
}

fn summary(growth: &BlocksSample, elapsed_ns: u64, missing: &[Unavailable]) -> String {
    render::text(
        &blocks(growth, &[], elapsed_ns, missing, true),
        Style { color: false, width: 140 },
    )
}

fn growth() -> BlocksSample {
    let size = |op, bytes_min, samples| SizeSamples { op, bytes_min, samples };
    let mut vda = DeviceBlocks {
        name: "vda".into(),
        queued: 1000,
        split: 500,
        merged: 100,
        issued: 1600,
        requeued: 200,
        completed: 1400,
        errors: 1,
        error_codes: vec![(5, 1)],
        sizes: vec![size(BlockOp::Flush, 0, 1), size(BlockOp::Read, 4096, 3)],
        splits: vec![
            SplitSamples { limit: String::new(), bytes: 512, samples: 1 },
            SplitSamples { limit: "max_segments".into(), bytes: 1_040_384, samples: 99 },
        ],
        ..DeviceBlocks::default()
    };
    vda.queue.record_n(7000, 200);
    vda.driver.record_n(250_000, 200);
    let zram = DeviceBlocks {
        name: "zram0".into(),
        bio_based: true,
        queued: 3,
        completed: 3,
        ..DeviceBlocks::default()
    };
    BlocksSample {
        unplugs: vec![(1, 10), (2, 0), (3, 0), (5, 90), (9, 0), (64, 0)],
        one_in: 61,
        each_io: true,
        devices: vec![vda, zram],
        tasks: vec![TaskBlocks { comm: "fio".into(), queued: 16, unplugs: vec![] }],
        ..BlocksSample::default()
    }
}

#[test]
fn a_line_for_each_device() {
    let text = lines(&growth(), 2_000_000_000);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0].join(" "),
        "vda 500 250 50 800 100 700 1 7 µs 7 µs 250 µs 250 µs 5–8: 90.0%"
    );
    assert_eq!(lines[1].join(" "), "zram0 1.5 0 - - - 1.5 0 - - - - 5–8: 90.0%");
    let first = render::text(&block_rates(&growth(), 1, true), Style { color: false, width: 140 });
    let begins = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count());
    let head = begins(first.lines().next().unwrap(), "plug flushes");
    assert!(text.lines().all(|line| begins(line, "5–8: ") == head), "{first}{text}");
}

#[test]
fn idle_devices_take_one_line() {
    let mut growth = growth();
    let idle = |n| DeviceBlocks { name: format!("loop{n}"), ..DeviceBlocks::default() };
    growth.devices.extend((0..300).map(idle));
    let text = summary(&growth, 1_000_000_000, &[]);
    assert!(text.contains("loop0, loop1, loop2, loop3, loop4 and 295 more"), "{text}");
    assert!(text.starts_with("vda  1 s\n") && !text.contains("loop7"), "{text}");
}

#[test]
fn a_device_that_was_removed_is_said_to_be() {
    let mut growth = growth();
    growth.devices[1].removed = true;
    assert!(
        lines(&growth, 1_000_000_000)
            .lines()
            .any(|line| line.starts_with("zram0 ") && line.contains(" 3 ")),
        "{}",
        lines(&growth, 1_000_000_000)
    );
    assert!(summary(&growth, 1_000_000_000, &[]).contains("zram0  1 s, removed\n"));
    growth.devices[1] =
        DeviceBlocks { name: "zram0".into(), removed: true, ..DeviceBlocks::default() };
    assert!(lines(&growth, 1_000_000_000).ends_with(" removed\n"));
}

#[test]
fn latencies_are_omitted_where_few_completions_were_traced() {
    let mut growth = growth();
    growth.devices[0].queue.record_n(7000, 60);
    assert_eq!(growth.devices[0].ends_unseen(), None);
    assert!(!summary(&growth, 1, &[]).contains("no completion event"));
    growth.devices[0].queue.record_n(7000, 40);
    assert_eq!(growth.devices[0].ends_unseen(), Some(100));
    let text = summary(&growth, 1, &[]);
    assert!(text.contains("no completion event for 100 of 300 requests"), "{text}");
    assert!(!text.contains("issue to completion"), "{text}");
    let line = lines(&growth, 1_000_000_000);
    assert!(line.contains("7 µs") && !line.contains("250 µs"), "{line}");
    growth.devices[0].bio_based = true;
    assert_eq!(growth.devices[0].ends_unseen(), None);
}

#[test]
fn the_summary_names_limits_sizes_and_tasks() {
    let missing = Unavailable { source: "a".into(), reason: "b".into(), remedy: String::new() };
    let text = summary(&growth(), 2_000_000_000, &[missing]);
    for part in [
        "vda  2 s\n  I/Os             1k queued · 500 split · 100 merged\n  requests         1.6k issued · 200 requeued · 1.4k completed · 1 error\n",
        "  errors           errno 5: 1\n",
        "  sizes (1 in 61)  read 4 KiB 75.0%, flush 25.0%\n",
        "  splits           at 1016 KiB (max_segments) 99.0%, at 512 B (driver's own limit) 1.00%\n",
        "zram0  2 s\n  I/Os  3 queued · 0 split · 3 completed · 0 errors\n",
        "I/Os by task (1 in 61)  fio 100%\n",
        "not measured            a: b\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains("lost"), "{text}");
    assert_fits(&blocks(&growth(), &[], 2_000_000_000, &[], true));
    assert_fits(&block_rates(&growth(), 2_000_000_000, true));
    let lost = BlocksSample { lost: 3, ..growth() };
    assert!(
        summary(&lost, 1, &[])
            .contains("3 sampled events, buffers were full; raise --sample-every")
    );
}

#[test]
fn unplugs_by_size() {
    let text = summary(&growth(), 1, &[]);
    let rows = text.lines().skip_while(|line| !line.starts_with("plug flushes")).skip(1);
    let rows: Vec<Vec<&str>> = rows.map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["requests", "plug", "flushes", "share"]);
    assert_eq!((&*rows[1], &*rows[2]), (&["1", "10", "10.0%"][..], &["5–8", "90", "90.0%"][..]));
    assert!(summary(&BlocksSample::default(), 1, &[]).contains("plug flushes  none\n"));
    assert_eq!(range(&growth().unplugs, 5), "64+");
    assert_eq!(most_unplugs(&BlocksSample::default()), "-".into());
}

#[test]
fn each_operation_has_its_latency_and_few_samples_have_no_tail() {
    let mut growth = growth();
    let mut times = |op, ns, samples| {
        let mut of = OpTimes { op, ..OpTimes::default() };
        of.driver.record_n(ns, samples);
        growth.devices[0].ops.push(of);
    };
    times(BlockOp::Read, 250_000, 200);
    times(BlockOp::Flush, 1_000_000, 12);
    let text = summary(&growth, 1_000_000_000, &[]);
    let row = |name: &str| {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("completion, read"),
        "issue to completion, read 250 µs 250 µs 250 µs 250 µs - 250 µs 200"
    );
    assert_eq!(row("completion, flush"), "issue to completion, flush 1 ms 1 ms 1 ms - - 1 ms 12");
}

#[test]
fn a_sample_that_is_biased_is_not_printed() {
    let mut growth = growth();
    let mut of = OpTimes { op: BlockOp::Flush, ..OpTimes::default() };
    of.driver.record_n(33_000, 40);
    growth.devices[0].ops.push(of);
    let mut disk = DiskRates { name: "vda".into(), ..DiskRates::default() };
    (disk.flush.ios, disk.flush.wait_ms) = (100.0, Some(0.19));
    let second_ns = 1_000_000_000;
    let page = |disks: &[DiskRates]| {
        render::text(
            &blocks(&growth, disks, second_ns, &[], true),
            Style { color: false, width: 200 },
        )
    };
    let text = page(&[disk.clone()]).replace('\u{a0}', " ");
    let wanted = "flush: sample of 40 requests is biased; percentiles omitted (await 190 µs)";
    assert!(text.contains(wanted) && !text.contains("completion, flush"), "{text}");
    disk.flush.wait_ms = Some(0.04);
    let text = page(&[disk]);
    assert!(text.contains("completion, flush") && !text.contains("biased"), "{text}");
}
