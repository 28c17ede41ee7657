//! What the engine itself costs: near-null targets, one worker, I/Os per second.
//!
//! `cargo bench -p fathom-engine [-- PART-OF-A-NAME]`. Compare lines of one run with each other, never across machines.
#![allow(clippy::expect_used)]

use fathom_engine::{FileKind, OpenFile, start};
use fathom_model::plan::{
    Batch, Distribution, Engine, JobPlan, Mix, Order, Plan, Region, Until, Uring,
};
use fathom_model::{Dir, units};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const SPARSE_BYTES: u64 = 4 << 30;

fn main() {
    // `cargo test --benches` passes no arguments of `cargo bench`: run short there.
    let short = !std::env::args().any(|a| a == "--bench");
    let seconds = if short { 0.1 } else { 1.0 };
    let dir = tempfile::tempdir_in(".").expect("a directory for the sparse file");
    let path = dir.path().join("sparse");
    File::create(&path).and_then(|f| f.set_len(SPARSE_BYTES)).expect("a sparse file");
    let once = || Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let uniform = || Order::Random { distribution: Distribution::Uniform, run: 1 };
    let cases = [
        (
            "sparse file, 4 KiB, depth 128, batches of 32",
            Engine::IoUring(Uring::default()),
            once(),
            Some(32),
        ),
        ("the same, norandommap", Engine::IoUring(Uring::default()), uniform(), Some(32)),
        ("the same, adaptive batches", Engine::IoUring(Uring::default()), once(), None),
        ("nop ring, batches of 32", Engine::Nop(Uring::default()), once(), Some(32)),
        ("null", Engine::Null, once(), Some(32)),
    ];
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with("--")).unwrap_or_default();
    for (name, engine, order, batch) in cases.into_iter().filter(|case| case.0.contains(&wanted)) {
        let mut rates: Vec<f64> = (0..if short { 1 } else { 5 })
            .map(|_| rate(&path, engine.clone(), order.clone(), batch, seconds))
            .collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{name:48} {:>8} IOPS (from {} to {})",
            units::count(rates[rates.len() / 2]),
            units::count(rates[0]),
            units::count(rates[rates.len() - 1])
        );
    }
}

fn rate(path: &Path, engine: Engine, order: Order, batch: Option<u32>, seconds: f64) -> f64 {
    let mut job = JobPlan::new("bench", engine, Mix::Only(Dir::Read), order);
    job.depth = 128;
    job.direct = true;
    job.regions = vec![Region { target: 0, start: 0, len: SPARSE_BYTES }];
    job.until = Until { runtime_ns: Some((seconds * 1e9) as u64), ..Until::default() };
    if let Some(size) = batch {
        job.batch = Batch { submit_max: Some(size), complete_min: size, ..Batch::default() };
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .expect("the sparse file");
    let open = OpenFile {
        fd: file.into(),
        kind: FileKind::Regular,
        path: path.display().to_string(),
        created: false,
        trims: None,
    };
    let plan = Plan { jobs: vec![job], ..Plan::default() };
    let record = start(&plan, vec![vec![open]]).expect("a run").join().remove(0).record;
    assert_eq!(record.error, None);
    record.dirs.read.counts.ios as f64 / (record.runtime_ns as f64 / 1e9)
}
