//! Tests of the counters. Software events stand in for hardware ones where there is no PMU.

use super::events::{Kind, Mode, Pair, refused};
use super::*;
use crate::perf::{Reading, bindings as perf};
use rustix::io::Errno;

const CLOCK_AND_FAULTS: [Kind; 2] = [
    (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_TASK_CLOCK as u64),
    (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_PAGE_FAULTS as u64),
];

fn software(tid: i32, inherit: bool) -> Option<Pair> {
    match Pair::open(CLOCK_AND_FAULTS, Whose { of: Of::Thread(tid), inherit }, Mode::User) {
        Ok(pair) => Some(pair),
        // Where even this is forbidden, as in most containers, there is nothing to test with.
        Err(errno) => {
            assert!(matches!(errno, Errno::ACCESS | Errno::PERM | Errno::NOSYS), "{errno}");
            None
        }
    }
}

/// Touches `pages` new pages of memory, and keeps them, so that the allocator has none to reuse.
fn fault(pages: usize) {
    let memory = vec![0_u8; pages * 4096].leak();
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(memory);
}

const PAGES: usize = 2048;
/// One huge page of 2 MiB stands for 512.
const FAULTS_MIN: u64 = PAGES as u64 / 512;

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
    let (tell, told) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (done, finished) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        wait.recv().unwrap();
        fault(PAGES);
        done.send(()).unwrap();
        let _ = wait.recv();
    });
    let tid = told.recv().unwrap();
    let pair = software(tid, false);
    if let Some(pair) = &pair {
        pair.leader.enable().unwrap();
    }
    go.send(()).unwrap();
    finished.recv().unwrap();
    if let Some(pair) = pair {
        let seen = pair.read().unwrap()[1].value;
        assert!(seen >= FAULTS_MIN, "{seen}");
        // The worker stands still now: faults of this thread do not count.
        fault(PAGES);
        assert!(pair.read().unwrap()[1].value < seen + FAULTS_MIN);
    }
    drop(go);
    worker.join().unwrap();
}

#[test]
fn children_count_once_they_have_ended() {
    let Some(pair) = software(0, true) else { return };
    pair.leader.enable().unwrap();
    std::thread::spawn(|| fault(PAGES)).join().unwrap();
    let status = std::process::Command::new("true").status().unwrap();
    pair.leader.disable().unwrap();
    assert!(status.success());
    assert!(pair.read().unwrap()[1].value >= FAULTS_MIN);
}

#[test]
fn hardware_counts_or_says_why_not() {
    let counters = match Counters::open(0) {
        Ok(counters) => counters,
        Err(missing) => {
            assert!(!missing.allow.is_empty(), "{missing}");
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
    // Others may have all of the processor's counters.
    let Some(scale) = user.scale() else { return };
    let instructions = (user.instructions as f64 * scale) as u64;
    assert!((ROUNDS..ROUNDS * 100).contains(&instructions), "{values:?}");
    assert!(user.cycles as f64 * scale > ROUNDS as f64 / 10.0, "{values:?}");
    assert!(values.kernel.is_none_or(|kernel| kernel.instructions < instructions), "{values:?}");
    let lacks = |what: &str| counters.lacks().iter().any(|missing| missing.what.contains(what));
    assert_eq!(
        (values.kernel.is_none(), values.cache.is_none()),
        (lacks("kernel"), lacks("cache"))
    );
}

#[test]
fn each_errno_has_its_reason_and_remedy() {
    let text = |errno| refused("cycles", Of::Thread(42), errno).to_string();
    assert!(text(Errno::ACCESS).contains("sysctl kernel.perf_event_paranoid=1"));
    let cpu = refused("cycles", Of::Cpu(0), Errno::ACCESS).allow;
    assert!(cpu.contains("sysctl kernel.perf_event_paranoid=0"), "{cpu}");
    assert!(text(Errno::PERM).contains("seccomp"));
    assert!(text(Errno::NOENT).contains("pmu=on"));
    assert!(text(Errno::SRCH).contains("no such thread"));
    assert!(text(Errno::MFILE).starts_with("cycles: ") && text(Errno::MFILE).contains("ulimit"));
}

#[test]
fn parts_that_cannot_be_counted_are_named() {
    const NONE: Kind = (perf::PERF_TYPE_SOFTWARE, u64::MAX);
    let whose = Whose { of: Of::Thread(0), inherit: false };
    let caches = Kinds::HARDWARE.caches.map(|(event, _)| (event, [NONE; 2]));
    let kinds = Kinds { executed: CLOCK_AND_FAULTS, caches };
    if let Ok((hardware, lacks)) = Hardware::open(whose, &kinds) {
        let mut counted = Counted::default();
        hardware.read(&mut counted).unwrap();
        assert!(counted.user.is_some() && counted.cache.is_none());
        assert!(lacks.iter().any(|missing| missing.what == "cache misses"), "{lacks:?}");
    }
    let kinds = Kinds { executed: [NONE; 2], caches };
    let missing = Hardware::open(whose, &kinds).unwrap_err();
    assert_eq!(missing.what, "instructions and cycles");
}

#[test]
fn the_next_cache_event_is_taken_where_the_machine_lacks_the_first() {
    let whose = Whose { of: Of::Thread(0), inherit: false };
    let [(first, _), (second, _)] = Kinds::HARDWARE.caches;
    let none = [(perf::PERF_TYPE_SOFTWARE, u64::MAX); 2];
    let kinds =
        Kinds { executed: CLOCK_AND_FAULTS, caches: [(first, none), (second, CLOCK_AND_FAULTS)] };
    let Ok((hardware, lacks)) = Hardware::open(whose, &kinds) else { return };
    let mut counted = Counted::default();
    hardware.read(&mut counted).unwrap();
    assert_eq!(counted.cache.map(|cache| cache.event), Some(second));
    assert!(lacks.iter().all(|missing| missing.what != "cache misses"), "{lacks:?}");
}

#[test]
fn a_thread_that_is_not() {
    // Above the kernel's highest thread number (PID_MAX_LIMIT).
    let whose = Whose { of: Of::Thread(1 << 23), inherit: false };
    let result = Pair::open(CLOCK_AND_FAULTS, whose, Mode::User);
    let errno = result.map(|_| ()).unwrap_err();
    assert!(matches!(errno, Errno::SRCH | Errno::ACCESS | Errno::PERM | Errno::NOSYS), "{errno}");
}
