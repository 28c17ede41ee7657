//! Tests of the counters. Software events substitute for hardware events where there is no PMU.

use super::events::{CpuMode, EventCode, EventPair, refused};
use super::*;
use crate::perf::{Reading, bindings as perf};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr;

const CLOCK_AND_FAULTS: [EventCode; 2] = [
    (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_TASK_CLOCK as u64),
    (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_PAGE_FAULTS as u64),
];

fn software(tid: i32, inherit: bool) -> Option<EventPair> {
    match EventPair::open(
        CLOCK_AND_FAULTS,
        EventScope { of: EventTarget::Thread(tid), inherit },
        CpuMode::User,
    ) {
        Ok(pair) => Some(pair),
        // If even this is forbidden, as in most containers, there is nothing to test.
        Err(errno) => {
            assert!(matches!(errno, Errno::ACCESS | Errno::PERM | Errno::NOSYS), "{errno}");
            None
        }
    }
}

/// Touches `pages` new pages of memory: mapped anew, since the allocator would reuse old ones.
fn fault(pages: usize) {
    let (bytes, protection) = (pages * 4096, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new private mapping at an address the kernel chooses, written within its length
    // and unmapped once.
    unsafe {
        let memory = mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).unwrap();
        for page in 0..pages {
            memory.cast::<u8>().add(page * 4096).write_volatile(1);
        }
        munmap(memory, bytes).unwrap();
    }
}

const PAGES: usize = 2048;
/// A 2 MiB huge page counts as one fault instead of 512.
const FAULTS_MIN: u64 = PAGES as u64 / 512;
const REPEATS: u64 = 16;

#[test]
fn counts_only_while_enabled() {
    let Some(pair) = software(0, false) else { return };
    fault(PAGES);
    assert_eq!(pair.read().unwrap(), [Reading { value: 0, enabled_ns: 0, running_ns: 0 }; 2]);
    pair.leader.enable().unwrap();
    fault(PAGES);
    pair.leader.disable().unwrap();
    let first = pair.read().unwrap();
    assert!(first[1].value >= FAULTS_MIN, "{first:?}");
    assert!(first[0].enabled_ns > 0 && first[0].running_ns > 0, "{first:?}");
    fault(PAGES);
    assert_eq!(pair.read().unwrap(), first);
}

#[test]
fn another_thread_is_counted_alone() {
    let (tid_sender, tid_receiver) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (done, finished) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        wait.recv().unwrap();
        fault(PAGES);
        done.send(()).unwrap();
        let _ = wait.recv();
    });
    let tid = tid_receiver.recv().unwrap();
    let pair = software(tid, false);
    if let Some(pair) = &pair {
        pair.leader.enable().unwrap();
    }
    go.send(()).unwrap();
    finished.recv().unwrap();
    if let Some(pair) = pair {
        let faults = pair.read().unwrap()[1].value;
        assert!(faults >= FAULTS_MIN, "{faults}");
        // Page faults of this thread must not count. The worker, on its way to sleep, may have a few.
        (0..REPEATS).for_each(|_| fault(PAGES));
        let later = pair.read().unwrap()[1].value;
        assert!(later < faults + REPEATS * FAULTS_MIN, "{faults} {later}");
    }
    drop(go);
    worker.join().unwrap();
}

#[test]
fn children_count_when_they_exit() {
    let Some(pair) = software(0, true) else { return };
    pair.leader.enable().unwrap();
    std::thread::spawn(|| fault(PAGES)).join().unwrap();
    let status = std::process::Command::new("true").status().unwrap();
    pair.leader.disable().unwrap();
    assert!(status.success());
    assert!(pair.read().unwrap()[1].value >= FAULTS_MIN);
}

#[test]
fn hardware_events_work_or_say_why_not() {
    let counters = match Counters::open(0) {
        Ok(counters) => counters,
        Err(missing) => {
            assert!(!missing.remedy.is_empty(), "{missing}");
            return;
        }
    };
    const ROUNDS: u64 = 10_000_000;
    counters.enable().unwrap();
    let mut sum = 0_u64;
    for n in 0..ROUNDS {
        sum = std::hint::black_box(sum ^ n);
    }
    counters.disable().unwrap();
    let values = counters.read().unwrap();
    let user = values.user.unwrap();
    // Others may use all of the CPU's counters.
    let Some(scale) = user.scale() else { return };
    let instructions = (user.instructions as f64 * scale) as u64;
    assert!((ROUNDS..ROUNDS * 100).contains(&instructions), "{values:?}");
    assert!(user.cycles as f64 * scale > ROUNDS as f64 / 10.0, "{values:?}");
    assert!(values.kernel.is_none_or(|kernel| kernel.instructions < instructions), "{values:?}");
    let lacks = |what: &str| counters.lacks().iter().any(|missing| missing.source.contains(what));
    assert_eq!(
        (values.kernel.is_none(), values.cache.is_none()),
        (lacks("kernel"), lacks("cache"))
    );
}

#[test]
fn each_errno_has_its_reason_and_remedy() {
    let text = |errno| refused("cycles", EventTarget::Thread(42), errno).to_string();
    assert!(text(Errno::ACCESS).contains("sysctl kernel.perf_event_paranoid=1"));
    let cpu = refused("cycles", EventTarget::Cpu(0), Errno::ACCESS).remedy;
    assert!(cpu.contains("sysctl kernel.perf_event_paranoid=0"), "{cpu}");
    assert!(text(Errno::PERM).contains("seccomp"));
    assert!(text(Errno::NOENT).contains("pmu=on"));
    assert!(text(Errno::SRCH).contains("no such thread"));
    assert!(text(Errno::MFILE).starts_with("cycles: ") && text(Errno::MFILE).contains("ulimit"));
}

#[test]
fn unavailable_counters_are_named() {
    const NONE: EventCode = (perf::PERF_TYPE_SOFTWARE, u64::MAX);
    let scope = EventScope { of: EventTarget::Thread(0), inherit: false };
    let caches = EventPairs::HARDWARE.caches.map(|(event, _)| (event, [NONE; 2]));
    let kinds = EventPairs { executed: CLOCK_AND_FAULTS, caches };
    if let Ok((hardware, lacks)) = HardwareEvents::open(scope, &kinds) {
        let mut counted = Counted::default();
        hardware.read(&mut counted).unwrap();
        assert!(counted.user.is_some() && counted.cache.is_none());
        assert!(lacks.iter().any(|missing| missing.source == "cache misses"), "{lacks:?}");
    }
    let kinds = EventPairs { executed: [NONE; 2], caches };
    let missing = HardwareEvents::open(scope, &kinds).unwrap_err();
    assert_eq!(missing.source, "instructions and cycles");
}

#[test]
fn unsupported_cache_events_are_skipped() {
    let scope = EventScope { of: EventTarget::Thread(0), inherit: false };
    let [(first, _), (second, _)] = EventPairs::HARDWARE.caches;
    let none = [(perf::PERF_TYPE_SOFTWARE, u64::MAX); 2];
    let kinds = EventPairs {
        executed: CLOCK_AND_FAULTS,
        caches: [(first, none), (second, CLOCK_AND_FAULTS)],
    };
    let Ok((hardware, lacks)) = HardwareEvents::open(scope, &kinds) else { return };
    let mut counted = Counted::default();
    hardware.read(&mut counted).unwrap();
    assert_eq!(counted.cache.map(|cache| cache.event), Some(second));
    assert!(lacks.iter().all(|missing| missing.source != "cache misses"), "{lacks:?}");
}

#[test]
fn a_nonexistent_thread() {
    // Above the kernel's highest thread ID (PID_MAX_LIMIT).
    let scope = EventScope { of: EventTarget::Thread(1 << 23), inherit: false };
    let result = EventPair::open(CLOCK_AND_FAULTS, scope, CpuMode::User);
    let errno = result.map(|_| ()).unwrap_err();
    assert!(matches!(errno, Errno::SRCH | Errno::ACCESS | Errno::PERM | Errno::NOSYS), "{errno}");
}
