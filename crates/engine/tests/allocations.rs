//! Between its first and its last I/O a worker allocates nothing.

#![allow(unsafe_code, clippy::unwrap_used)]

mod common;

use common::{Target, engines, job, open, plan, run_one};
use fathom_engine::{JobInput, JournalFile, start_with};
use fathom_model::Dir;
use fathom_model::plan::{Engine, JobPlan, Mix, Until, Verify};
use fathom_model::record::JobRecord;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts allocations of threads that are workers.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The same with a journal, of writes that are verified and flushed.
fn run_journaled(target: &Target, mut job: JobPlan) -> JobRecord {
    job.verify = Some(Verify::default());
    job.sync.fsync_every = 8;
    let files = vec![open(&target.path, &job)];
    let file = tempfile::tempfile().unwrap();
    let journal = JournalFile { file, path: String::new(), salt: 1 };
    let input = JobInput { files, journal: Some(journal).into(), ..JobInput::default() };
    let running = start_with(&plan(vec![job]), vec![input]).unwrap();
    let result = running.join().remove(0);
    assert_eq!(result.error, None);
    result.record
}

/// A run of many I/Os allocates as often as a run of few: none of it is per I/O. (The one test of
/// this binary: another thread's allocations would be counted too.)
#[test]
fn ios_do_not_allocate() {
    let target = Target::filled(4 << 20);
    for (name, engine) in engines() {
        for (mix, is_journaled) in [
            (Mix::Only(Dir::Read), false),
            (Mix::ReadWrite { read_percent: 50 }, false),
            (Mix::Only(Dir::Write), true),
        ] {
            let is_journaled = is_journaled && matches!(engine, Engine::IoUring(_));
            let allocations = |ios| {
                let mut job = job(engine.clone(), mix, &target);
                job.until = Until { ios: Some(ios), ..Until::default() };
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                let record = match is_journaled {
                    true => run_journaled(&target, job),
                    false => run_one(&target.path, job),
                };
                assert_eq!(record.error, None, "{name}");
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            // The least of several: what the supervisor notes twice a second differs from run to run.
            let least = |ios| (0..3).map(|_| allocations(ios)).min().unwrap();
            let (few, many) = (least(100), least(1500));
            assert!(many < few + 100, "{name}: {few} allocations with 100 I/Os, {many} with 1500");
        }
    }
}
