//! User instructions per I/O. Counted by single-stepping, so that it holds on every
//! machine; the kernel's instructions need hardware counters (see docs/performance.md).
#![allow(clippy::unwrap_used)]

use std::fs::File;

/// User instructions per read of 4 KiB by the worker's thread, which submits `ios` reads in `batches`
/// after a first one of `first` reads.
fn per_read(path: &str, (first, batches, ios): (u64, u64, u64), keys: &[&str]) -> f64 {
    let (filename, number) = (format!("--filename={path}"), format!("--number_ios={ios}"));
    let fixed = ["run", "--name=cost", "--rw=randread", "--bs=4k", "--direct=1", "--no-record"];
    let more = ["--eta=never", "--sampling=off", "--iodepth=128", &filename, &number];
    let counted =
        xtask::steps::count(env!("CARGO_BIN_EXE_fathom"), &[&fixed[..], &more[..], keys].concat())
            .unwrap();
    // One call arms the ring's wake-up and one submits the first batch; then one for each.
    assert_eq!(counted.enters, batches, "reads of holes complete as they are submitted");
    counted.instructions as f64 / (ios - first) as f64
}

/// Twenty batches of 32 reads.
const FIXED: (u64, u64, u64) = (32, 19, 640);
/// Batches grow from 4 reads to 64, then there are nine of 128.
const ADAPTIVE: (u64, u64, u64) = (4, 4 + 9, 124 + 9 * 128);

#[test]
fn user_instructions_per_read() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("sparse");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let path = path.to_str().unwrap();
    let batches = ["--iodepth_batch_submit=32", "--iodepth_batch_complete_min=32"];
    let uniform = per_read(path, FIXED, &[&batches[..], &["--norandommap"]].concat());
    let once = per_read(path, FIXED, &batches);
    let plain = per_read(path, ADAPTIVE, &[]);
    println!(
        "user instructions per read: {uniform:.0} in batches of 32 with norandommap, \
         {once:.0} with each block once, {plain:.0} untuned"
    );
    // Test builds are less optimized than what users run.
    let head_room = if cfg!(debug_assertions) { 2.0 } else { 1.0 };
    assert!(uniform <= 72.0 * head_room, "{uniform:.1} in batches of 32, norandommap");
    assert!(once <= 88.0 * head_room, "{once:.1} in batches of 32, each block once");
    assert!(plain <= 75.0 * head_room, "{plain:.1} without tuning");
}
