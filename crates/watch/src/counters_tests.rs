//! Tests of the counters. Software events stand in for hardware ones where there is no PMU.

use super::*;

const CLOCK_AND_FAULTS: [Kind; 2] = [
    (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_TASK_CLOCK as u64),
    (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_PAGE_FAULTS as u64),
];

fn software(tid: i32, reach: Reach) -> Option<Pair> {
    match Pair::open(tid, CLOCK_AND_FAULTS, Mode::User, reach) {
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
    let Some(pair) = software(0, Reach::ThreadOnly) else { return };
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
    let pair = software(tid, Reach::ThreadOnly);
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
    let Some(pair) = software(0, Reach::WithChildren) else { return };
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
        Err(error) => {
            assert!(!matches!(error, CountersError::Failed { .. }), "{error}");
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
    let values = match counters.read() {
        Ok(values) => values,
        Err(error) => {
            assert!(matches!(error, CountersError::NeverScheduled), "{error}");
            return;
        }
    };
    let instructions = values.user_instructions;
    assert!((ROUNDS..ROUNDS * 100).contains(&instructions), "{values:?}");
    assert!(values.user_cycles > ROUNDS / 10, "{values:?}");
    assert!(values.kernel_instructions.is_none_or(|n| n < instructions), "{values:?}");
}

#[test]
fn each_errno_has_its_reason_and_remedy() {
    let text = |errno| CountersError::from_open(errno, 42).to_string();
    assert!(text(Errno::ACCESS).contains("sysctl kernel.perf_event_paranoid"));
    assert!(text(Errno::PERM).contains("seccomp"));
    assert!(text(Errno::NOENT).contains("pmu=on"));
    assert!(text(Errno::SRCH).contains("thread 42"));
    assert!(text(Errno::MFILE).contains("open hardware counters"));
}

#[test]
fn a_thread_that_is_not() {
    // Above the kernel's highest thread number (PID_MAX_LIMIT).
    let result = Pair::open(1 << 23, CLOCK_AND_FAULTS, Mode::User, Reach::ThreadOnly);
    let errno = result.map(|_| ()).unwrap_err();
    assert!(matches!(errno, Errno::SRCH | Errno::ACCESS | Errno::PERM | Errno::NOSYS), "{errno}");
}

#[test]
fn values_scale_by_the_time_on_the_processor() {
    let reading = |value, enabled_ns, running_ns| Reading { value, enabled_ns, running_ns };
    assert_eq!(reading(100, 50, 50).scaled(), Some(100));
    assert_eq!(reading(100, 100, 25).scaled(), Some(400));
    assert_eq!(reading(0, 0, 0).scaled(), Some(0));
    assert_eq!(reading(0, 100, 0).scaled(), None);
    assert_eq!(reading(u64::MAX, 4, 1).scaled(), Some(u64::MAX));
}

#[test]
fn values_without_the_kernels_are_whole() {
    let reading = |value, running_ns| Reading { value, enabled_ns: 100, running_ns };
    let user = [reading(10, 100), reading(20, 100)];
    let values = combine(user, None).unwrap();
    assert_eq!((values.user_instructions, values.kernel_instructions), (10, None));
    let values = combine(user, Some([reading(30, 50), reading(40, 50)])).unwrap();
    assert_eq!((values.kernel_instructions, values.kernel_cycles), (Some(60), Some(80)));
    assert_eq!((values.enabled_ns, values.running_ns), (100, 50));
    assert_eq!(combine(user, Some([reading(30, 0), reading(40, 50)])), None);
}
