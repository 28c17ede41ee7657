//! `fathom blocks` as a user sees it, on devices with a known number of I/Os.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Answer, Loop, MIB, Place, Zram, as_root, says, until};
use serde_json::Value;

/// What `fathom blocks` reports about `count` direct writes of `size` bytes to `device`; none where the
/// kernel's events are not available; the reason is printed.
fn writes(args: &[&str], device: &str, size: usize, count: usize) -> Option<Answer> {
    let (to, size, count) =
        (format!("of={device}"), format!("bs={size}"), format!("count={count}"));
    let dd = ["--", "dd", "if=/dev/zero", &to, &size, &count, "oflag=direct", "status=none"];
    let answer = Place::new().ask(&[&["blocks", device], args, &dd].concat());
    if answer.code == Some(1) && answer.stderr.contains("tracefs") {
        eprintln!("skipped: {}", answer.stderr);
        return None;
    }
    Some(answer.done())
}

/// The last line of JSON, which covers the whole trace.
fn total(answer: &Answer) -> Value {
    let lines = answer.stderr.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.last().unwrap().clone()
}

#[test]
fn every_request_of_a_loop_device_is_counted() {
    let Some(_guard) = as_root("fathom blocks on a loop device") else { return };
    let place = Place::new();
    place.write("image", vec![0; 8 * MIB]);
    let device = Loop::on(&place.path("image"));
    let Some(answer) = writes(&["--json"], &device.0, 16 << 10, 400) else { return };
    let total = total(&answer);
    let loops = &total["devices"][0];
    for name in ["queued", "completed"] {
        assert_eq!(loops[name], 400, "{total}");
    }
    // A requeued I/O is issued more than once.
    let number = |name: &str| loops[name].as_u64().unwrap();
    assert_eq!(number("issued") - number("requeued"), 400, "{total}");
    assert_eq!((number("errors"), number("split"), number("merged")), (0, 0, 0), "{total}");
    assert_eq!((&loops["bio_based"], &loops["name"]), (&false.into(), &device.0[5..].into()));
    let sizes = loops["sizes"].as_array().unwrap();
    assert!(sizes.iter().all(|size| size["bytes_min"] == 16 << 10 && size["op"] == "write"));
    assert!(total["elapsed_ns"].as_u64().unwrap() > 0);
    // The same as a page, by the device's name.
    let text = writes(&[], &device.0, 16 << 10, 400).unwrap().stderr;
    says(&text, &["400 queued", "400 completed · 0 errors", "queue to issue", "plug flushes"]);
}

#[test]
fn every_io_of_a_device_without_requests_is_counted() {
    let Some(_guard) = as_root("fathom blocks on a zram device") else { return };
    let zram = match Zram::new("8M") {
        Ok(zram) => zram,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let device = zram.device();
    let Some(answer) = writes(&["--json", "-i", "50ms"], &device, 4096, 1500) else { return };
    let total = total(&answer);
    let seen = &total["devices"][0];
    assert_eq!((&seen["queued"], &seen["completed"]), (&1500.into(), &1500.into()), "{total}");
    assert_eq!((&seen["bio_based"], &seen["issued"]), (&true.into(), &0.into()), "{total}");
    // Its lines cover everything in between, and the last one is the sum.
    let text = writes(&[], &device, 4096, 1500).unwrap().stderr;
    says(&text, &["1.5k queued", "1.5k completed · 0 errors"]);
    // On a busy machine, one in so many may not represent the others.
    assert!(["queue to completion", "is biased"].iter().any(|part| text.contains(part)), "{text}");

    // A device removed meanwhile is not shown as idle.
    let running = Place::new().start(&["blocks", "-i", "50ms", &device]);
    until("lines", || running.so_far("stdout").lines().count() >= 3);
    drop(zram);
    let answer = running.wait().done();
    says(&answer.stdout, &["s, removed\n"]);
    assert_eq!(answer.stdout.matches("  removed\n").count(), 1, "{}", answer.stdout);
    says(&answer.stderr, &["all devices were removed"]);
}

#[test]
fn what_is_no_device_is_refused_with_those_there_are() {
    let place = Place::new();
    for (args, parts) in [
        (
            vec!["blocks", "nosuch0", "--duration", "1s"],
            vec!["unknown block device nosuch0", "known devices"],
        ),
        (vec!["blocks", "/dev/null", "--duration", "1s"], vec!["/dev/null: not a block device"]),
        (vec!["blocks", "--duration", "0"], vec!["expected a time above 0"]),
    ] {
        let answer = place.ask(&args);
        assert!(answer.code.is_some_and(|code| code != 0), "{args:?}");
        if !answer.stderr.contains("tracefs") {
            says(&answer.stderr, &parts);
        }
    }
}
