//! Thread sampling on the running kernel: this process's own threads, each in a known system call.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use fathom_model::watch::{MachineSample, ThreadCount, ThreadsSample};
use fathom_watch::threads::{SampleParts, ThreadOptions, ThreadSampler};
use fathom_watch::{Sampler, Scope};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

thread_local! {
    /// Allocations of this thread.
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all calls are forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // An exiting thread no longer counts.
        let _ = ALLOCATED.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` was returned by `alloc` above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Starts a thread that does `work` and runs until the process exits.
fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.into()).spawn(work).unwrap();
}

/// Waits for a completion that never arrives; returns whether io_uring is available.
fn start_ring_waiter() -> bool {
    let (sender, receiver) = std::sync::mpsc::channel();
    start("t-ring", move || {
        let mut params = [0_u32; 30];
        // SAFETY: `params` has the size of io_uring_params, 120 bytes, and outlives the call.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, params.as_mut_ptr()) };
        sender.send(ring >= 0).unwrap();
        let (get_events, none) = (1, std::ptr::null::<u8>());
        // SAFETY: the descriptor is a ring of this thread, and there are no pointer arguments.
        unsafe { libc::syscall(libc::SYS_io_uring_enter, ring, 0, 1, get_events, none, 0) };
    });
    receiver.recv().unwrap()
}

/// Starts threads in known system calls once; returns whether one waits in a ring.
fn start_threads() -> bool {
    let (mut reader, writer) = std::io::pipe().unwrap();
    start("t-pipe", move || {
        let _ = reader.read(&mut [0]);
        drop(writer);
    });
    start("t-park", thread::park);
    start("t-sleep", || thread::sleep(Duration::from_secs(3600)));
    start("t-spin", || {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    });
    start_ring_waiter()
}

fn sampler(all_states: bool, parts: SampleParts) -> ThreadSampler {
    let scope = Scope::Only(vec![std::process::id() as i32]);
    let one_by_one = true;
    let options =
        ThreadOptions { scope, all_states, parts, one_by_one, ..ThreadOptions::default() };
    ThreadSampler::open(options).unwrap()
}

fn look(sampler: &mut ThreadSampler) -> ThreadsSample {
    sampler.sample();
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    sample.threads.unwrap()
}

/// The activity of the thread with this name, once `is_there` holds.
fn wait_for(
    sampler: &mut ThreadSampler,
    name: &str,
    is_there: impl Fn(&ThreadCount) -> bool,
) -> ThreadCount {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let sample = look(sampler);
        if let Some(thread) =
            sample.active.iter().find(|t| t.comm == name && t.count > 0 && is_there(t))
        {
            return thread.clone();
        }
        assert!(Instant::now() < until, "{name}: {:?}", sample.active);
        thread::sleep(Duration::from_millis(10));
    }
}

const PARTS: SampleParts =
    SampleParts { kstack: true, filename: true, cmdline: true, user: true, cpu: true };
const CALLS: [(&str, &str); 3] =
    [("t-pipe", "read"), ("t-park", "futex"), ("t-sleep", "clock_nanosleep")];

#[test]
fn threads_in_known_calls() {
    let has_ring = start_threads();
    let mut all = sampler(true, PARTS);
    for (name, call) in CALLS {
        let thread = wait_for(&mut all, name, |thread| thread.syscall == call);
        assert_eq!((thread.state, thread.torn), ('S', false), "{thread:?}");
        assert!(!thread.wchan.is_empty() && thread.cmdline.contains("threads"), "{thread:?}");
        assert!(!thread.user.is_empty() && thread.cpu.is_some(), "{thread:?}");
        if all.missing().is_empty() {
            assert!(thread.kstack.contains(';'), "{thread:?}");
        }
    }
    let reader = wait_for(&mut all, "t-pipe", |thread| thread.syscall == "read");
    assert!(reader.filename.starts_with("pipe:"), "{reader:?}");
    let spins = wait_for(&mut all, "t-spin", |thread| thread.state == 'R' || thread.state == 'Q');
    assert_eq!((spins.syscall.as_str(), spins.wchan.as_str()), ("", ""));
    let process = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(spins.process, process.trim_end());

    let mut active = sampler(false, SampleParts::default());
    if has_ring {
        let waits = wait_for(&mut active, "t-ring", |thread| thread.syscall == "io_uring_enter");
        assert_eq!(waits.state, 'S');
    } else {
        println!("skipped: io_uring is not available");
    }
    let sample = look(&mut active);
    // Excludes the sampling thread and threads that do not sleep for I/O.
    let idle = ["t-pipe", "t-park", "t-sleep"];
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    assert!(sample.seen >= 6);
    assert!(sample.active.iter().all(|t| !idle.contains(&t.comm.as_str()) && t.tid != own));

    nothing_is_allocated(&mut active);
    nothing_is_allocated(&mut all);
    at_once_is_as_one_by_one(has_ring, &mut all);
}

/// The BPF iterator and /proc files agree on every thread.
fn at_once_is_as_one_by_one(has_ring: bool, one_by_one: &mut ThreadSampler) {
    let options = ThreadOptions { all_states: true, parts: PARTS, ..ThreadOptions::default() };
    let mut at_once = ThreadSampler::open(options).unwrap();
    if !look(&mut at_once).at_once {
        println!("skipped: the BPF iterator is not available");
        return;
    }
    let ring = has_ring.then_some(("t-ring", "io_uring_enter"));
    for (name, call) in CALLS.into_iter().chain(ring) {
        let own = std::process::id() as i32;
        let is_it = |thread: &ThreadCount| {
            thread.pid == own && thread.syscall == call && !thread.torn && !thread.wchan.is_empty()
        };
        let expected = wait_for(one_by_one, name, is_it);
        let told = wait_for(&mut at_once, name, is_it);
        let same = |thread| ThreadCount { cpu: None, count: 1, ns: 0, ..thread };
        assert_eq!(same(told), same(expected));
    }
    let is_kernel_thread = |thread: &ThreadCount| thread.state == 'S' && thread.syscall.is_empty();
    let thread = wait_for(&mut at_once, "kthreadd", is_kernel_thread);
    assert_eq!((thread.pid, thread.wchan.as_str()), (2, "kthreadd"));
    let spins = wait_for(&mut at_once, "t-spin", |thread| matches!(thread.state, 'R' | 'Q'));
    assert_eq!((spins.syscall.as_str(), spins.wchan.as_str()), ("", ""));
    let process = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(spins.process, process.trim_end());
}

fn nothing_is_allocated(sampler: &mut ThreadSampler) {
    look(sampler);
    let before = ALLOCATED.get();
    for _ in 0..100 {
        sampler.sample();
    }
    let allocated = ALLOCATED.get() - before;
    // A thread of the test harness may do something new meanwhile: one text, and a larger table.
    assert!(allocated <= 10, "{allocated} allocations in 100 samples");
}
