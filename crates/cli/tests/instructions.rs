//! What an I/O costs in user instructions. Counted by single-stepping, so that it holds on every
//! machine; the kernel's instructions need hardware counters (see docs/performance.md).
#![allow(clippy::unwrap_used)]

use std::fs::File;

/// User instructions per read of 4 KiB by the worker's thread, beyond what start and end cost.
fn per_read(path: &str, keys: &[&str], few: u64, many: u64) -> f64 {
    let run = |ios: u64| {
        let (filename, ios) = (format!("--filename={path}"), format!("--number_ios={ios}"));
        let fixed = [
            "run",
            "--name=cost",
            "--rw=randread",
            "--bs=4k",
            "--direct=1",
            "--no-record",
            "--eta=never",
        ];
        let arguments: Vec<&str> = fixed
            .into_iter()
            .chain([filename.as_str(), ios.as_str()])
            .chain(keys.iter().copied())
            .collect();
        xtask::steps::busiest_thread(env!("CARGO_BIN_EXE_fathom"), &arguments).unwrap()
    };
    (run(many) - run(few)) as f64 / (many - few) as f64
}

#[test]
fn user_instructions_per_read() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("sparse");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let path = path.to_str().unwrap();
    let tuned = per_read(
        path,
        &["--iodepth=128", "--iodepth_batch_submit=32", "--iodepth_batch_complete_min=32"],
        640,
        1920,
    );
    let plain = per_read(path, &["--iodepth=128"], 640, 1920);
    let single = per_read(path, &["--iodepth=1"], 50, 250);
    println!(
        "user instructions per read: {tuned:.0} in batches of 32, {plain:.0} untuned, {single:.0} at depth 1"
    );
    // Optimised builds need about half of this (docs/performance.md); test builds are less optimised.
    let head_room = if cfg!(debug_assertions) { 6.0 } else { 1.0 };
    assert!(tuned <= 100.0 * head_room, "{tuned:.1} user instructions per read in batches of 32");
    assert!(plain <= 100.0 * head_room, "{plain:.1} user instructions per read without tuning");
    assert!(single <= 600.0 * head_room, "{single:.1} user instructions per read at depth 1");
}
