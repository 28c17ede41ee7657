use super::*;
use fathom_model::watch::TaskBlocks;

fn came() -> BlocksSample {
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
    vda.queue.record_n(7000, 20);
    vda.driver.record_n(250_000, 20);
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
    let text = lines(&came(), 2_000_000_000);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0].join(" "),
        "vda 500 250 50 800 100 700 1 7 µs 7 µs 250 µs 250 µs 5-8: 90.0%"
    );
    assert_eq!(lines[1].join(" "), "zram0 1.5 0 - - - 1.5 0 - - - - 5-8: 90.0%");
    let widths = |line: &str| line.chars().count();
    let head = header();
    let begins = head.find("unplugs").map(|at| head[..at].chars().count());
    assert!(text.lines().all(|line| Some(widths(line) - "5-8: 90.0%".len()) == begins), "{text}");
}

#[test]
fn a_device_that_was_removed_is_said_to_be() {
    let mut came = came();
    came.devices[1].removed = true;
    assert!(
        lines(&came, 1_000_000_000).contains("zram0            3 "),
        "{}",
        lines(&came, 1_000_000_000)
    );
    assert!(
        summary(&came, 1_000_000_000, &[], Style::default())
            .contains("zram0 in 1 s, removed meanwhile\n")
    );
    came.devices[1] =
        DeviceBlocks { name: "zram0".into(), removed: true, ..DeviceBlocks::default() };
    assert!(lines(&came, 1_000_000_000).ends_with("zram0      removed\n"));
}

#[test]
fn times_at_the_driver_are_not_told_by_the_few_whose_end_was_seen() {
    let mut came = came();
    came.devices[0].queue.record_n(7000, 6);
    assert_eq!(came.devices[0].ends_unseen(), None);
    assert!(!summary(&came, 1, &[], Style::default()).contains("not seen"));
    came.devices[0].queue.record_n(7000, 4);
    assert_eq!(came.devices[0].ends_unseen(), Some(10));
    let text = summary(&came, 1, &[], Style::default());
    assert!(text.contains("Of 10 of 30 the end was not seen"), "{text}");
    let line = lines(&came, 1_000_000_000);
    assert!(line.contains("7 µs") && !line.contains("250 µs"), "{line}");
    came.devices[0].bio_based = true;
    assert_eq!(came.devices[0].ends_unseen(), None);
}

#[test]
fn the_summary_names_limits_sizes_and_tasks() {
    let missing = Missing { what: "a".into(), why: "b".into(), allow: String::new() };
    let text = summary(&came(), 2_000_000_000, &[missing], Style::default());
    for part in [
        "vda in 2 s\n  1k I/Os entered, 500 splits, 100 merged; 1.6k requests issued, 200 put back by the driver, 1.4k done, 1 errors\n",
        "  errno 5: 1\n",
        "  sizes, one in 61: read 4 KiB 75.0%, flush 25.0%\n",
        "  split by: max_segments after 1016 KiB 99.0%, a rule of the driver after 512 B 1.0%\n",
        "zram0 in 2 s\n  3 I/Os entered, 0 splits, 3 I/Os done, 0 errors\n",
        "I/Os by task, one in 61: fio 100.0%\n",
        "not seen: a: b\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains("faster"), "{text}");
    let lost = BlocksSample { lost: 3, ..came() };
    assert!(summary(&lost, 1, &[], Style::default()).contains("3 sampled events came faster"));
}

#[test]
fn unplugs_by_size() {
    let text = unplugs(&came(), Style::default());
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["requests", "1", "5-8"]);
    assert_eq!(rows[2], ["unplugs", "10", "90"]);
    assert_eq!(rows[3], ["share", "10.0%", "90.0%"]);
    assert_eq!(unplugs(&BlocksSample::default(), Style::default()), "no unplugs on any device\n");
    assert_eq!(range(&came().unplugs, 5), "64+");
    assert_eq!(most_unplugs(&BlocksSample::default()), "-");
}
