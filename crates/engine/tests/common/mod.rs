//! What the tests against the real kernel share.
#![allow(dead_code, clippy::unwrap_used)]

use fathom_engine::{FileKind, OpenFile, Running, start};
use fathom_model::plan::{
    Distribution, Engine, JobPlan, Mix, Order, Plan, Psync, Region, SqPoll, Until, Uring,
};
use fathom_model::record::{JobError, JobRecord};
use fathom_model::{Dir, PerDir};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file of its own, removed with it. On the disk, not on tmpfs: direct I/O must work.
pub struct Target {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
    pub bytes: u64,
}

impl Target {
    pub fn sparse(bytes: u64) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("target");
        File::create(&path).unwrap().set_len(bytes).unwrap();
        Self { _dir: dir, path, bytes }
    }

    /// Filled with bytes that encode their offsets.
    pub fn filled(bytes: u64) -> Self {
        let target = Self::sparse(bytes);
        std::fs::write(&target.path, (0..bytes).map(|i| (i / 512 % 251) as u8).collect::<Vec<_>>())
            .unwrap();
        File::open(&target.path).unwrap().sync_all().unwrap();
        target
    }
}

pub fn random() -> Order {
    Order::Random { distribution: Distribution::EachOnce, run: 1 }
}

pub fn job(engine: Engine, mix: Mix, target: &Target) -> JobPlan {
    let mut job = JobPlan::new("test", engine, mix, random());
    job.depth = if job.engine.is_synchronous() { 1 } else { 8 };
    job.direct = true;
    job.regions = vec![Region { target: 0, start: 0, len: target.bytes }];
    job.until = Until { bytes: Some(target.bytes), ..Until::default() };
    job
}

pub fn open(path: &Path, job: &JobPlan) -> OpenFile {
    let writes = job.used_dirs().any(Dir::modifies);
    let flags = if job.direct { libc::O_DIRECT } else { 0 };
    let file = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path).unwrap();
    let block =
        std::os::unix::fs::FileTypeExt::is_block_device(&file.metadata().unwrap().file_type());
    let kind = if block { FileKind::Block { trims: None } } else { FileKind::Regular };
    OpenFile {
        fd: file.into(),
        kind,
        path: path.display().to_string(),
        created: false,
        trims: None,
    }
}

pub fn plan(jobs: Vec<JobPlan>) -> Plan {
    Plan { jobs, ..Plan::default() }
}

/// Runs jobs on one target.
pub fn run(path: &Path, jobs: Vec<JobPlan>) -> Vec<JobRecord> {
    let files =
        jobs.iter().map(|job| job.regions.iter().map(|_| open(path, job)).collect()).collect();
    joined(start(&plan(jobs), files).unwrap())
}

/// The records of a run, with errors as they are.
pub fn joined(running: Running) -> Vec<JobRecord> {
    let results = running.join().into_iter();
    let record = |result: fathom_engine::JobResult| {
        let message = format!("{:?}", result.error);
        let error = result.error.map(|error| JobError { errno: error.errno, message });
        JobRecord { error, ..result.record }
    };
    results.map(record).collect()
}

pub fn run_one(path: &Path, job: JobPlan) -> JobRecord {
    run(path, vec![job]).remove(0)
}

/// Every way to the kernel that moves data.
pub fn engines() -> Vec<(&'static str, Engine)> {
    let uring = Uring::default();
    vec![
        ("io_uring", Engine::IoUring(uring.clone())),
        (
            "unregistered",
            Engine::IoUring(Uring {
                fixed_buffers: false,
                registered_files: false,
                ..uring.clone()
            }),
        ),
        ("vectored", Engine::IoUring(Uring { vectored: true, ..uring.clone() })),
        ("offloaded", Engine::IoUring(Uring { force_async: 2, ..uring.clone() })),
        (
            "sqpoll",
            Engine::IoUring(Uring {
                sqpoll: Some(SqPoll { cpu: None, idle_ms: Some(20) }),
                ..uring
            }),
        ),
        ("libaio", Engine::Libaio),
        ("psync", Engine::Psync(Psync::Plain)),
        ("sync", Engine::Psync(Psync::Seek)),
        ("pvsync", Engine::Psync(Psync::Vectored)),
        ("pvsync2", Engine::Psync(Psync::VectoredFlags { hipri: false, nowait: false })),
        ("vsync", Engine::Vsync),
        ("mmap", Engine::Mmap),
        ("splice", Engine::Splice),
        ("posixaio", Engine::Posixaio),
    ]
}

pub fn all<T: Clone>(value: T) -> PerDir<T> {
    PerDir::splat(value)
}
