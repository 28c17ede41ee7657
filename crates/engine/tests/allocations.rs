//! Between its first and its last I/O a worker allocates nothing.

#![allow(unsafe_code)]

mod common;

use common::{Target, engines, job, run_one};
use fathom_model::Dir;
use fathom_model::plan::{Mix, Until};
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

/// A run of many I/Os allocates as often as a run of few: none of it is per I/O. (The one test of
/// this binary: another thread's allocations would be counted too.)
#[test]
fn ios_do_not_allocate() {
    let target = Target::filled(4 << 20);
    for (name, engine) in engines() {
        for mix in [Mix::Only(Dir::Read), Mix::ReadWrite { read_percent: 50 }] {
            let allocations = |ios| {
                let mut job = job(engine.clone(), mix, &target);
                job.until = Until { ios: Some(ios), ..Until::default() };
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                let record = run_one(&target.path, job);
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
