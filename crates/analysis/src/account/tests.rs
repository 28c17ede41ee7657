use super::*;
use crate::account::KINDS;

const S: u64 = 1_000_000_000;

fn thread(pid: i32, tid: i32, comm: &str, times: &[(ThreadState, u64)]) -> TimesOfThread {
    let times = times.iter().map(|(state, ns)| ThreadTime { state: *state, ns: *ns }).collect();
    TimesOfThread { pid, tid, comm: comm.into(), times, ..TimesOfThread::default() }
}

/// Waits, of which processes of the account ended `within`.
fn wait(cause: ThreadState, count: u64, ns: u64, within: u64) -> WaitSum {
    let function = "f".into();
    WaitSum { cause, function, count, ns, within, holders: Vec::new(), meanwhile: Vec::new() }
}

fn account(threads: Vec<TimesOfThread>, switched: Vec<SwitchedThread>, seen_ns: u64) -> Account {
    let mut totals = AccountTotals::default();
    let sample = ThreadsSample {
        elapsed_ns: S,
        samples: 20,
        by_thread: threads,
        ..ThreadsSample::default()
    };
    let off_cpu = OffCpuSample { seen_ns, threads: switched, ..OffCpuSample::default() };
    let taken = TakenTime::of(&MachineRates::default());
    totals.add(&sample, (seen_ns > 0).then_some(&off_cpu), taken, |_| true);
    totals.account().unwrap()
}

fn parts(group: &AccountGroup) -> Vec<(ThreadState, u64)> {
    let ms = |part: &AccountPart| (part.state, (part.mean_threads * 1000.0).round() as u64);
    group.parts.iter().map(ms).collect()
}

/// Threads of a process that wait for another one and compute, in tenths of the time, and the threads that end their waits.
fn turns(threads: &[(i32, u64, u64, &[i32])], seen_ns: u64) -> Account {
    use ThreadState as T;
    let times = |(tid, waits, runs, _): &(i32, u64, u64, &[i32])| {
        let rest = 10 - waits - runs;
        let times = [(T::Futex, *waits), (T::OnCpu, *runs), (T::Poll, rest)];
        thread(1, *tid, "w", &times.map(|(state, part)| (state, part * S / 10)))
    };
    let switched = |(tid, waits, _, by): &(i32, u64, u64, &[i32])| {
        let holder = |tid: &i32| LockHolder { tid: *tid, count: 1, ..LockHolder::default() };
        let holders = by.iter().map(holder).collect();
        // They take 100 ms each.
        let lock = WaitSum { holders, ..wait(T::Futex, *waits, waits * S / 10, 0) };
        SwitchedThread { pid: 1, tid: *tid, waits: vec![lock], ..SwitchedThread::default() }
    };
    let switched = threads.iter().map(switched).collect();
    account(threads.iter().map(times).collect(), switched, seen_ns)
}

#[test]
fn threads_that_wait_for_each_other_take_turns_however_long_they_wait() {
    let waiting = |account: &Account| {
        account.turns.as_ref().map(|turns| (turns.threads, (turns.waiting * 10.0).round()))
    };
    let two = [(1, 5, 5, &[2][..]), (2, 5, 5, &[1][..])];
    let found = turns(&two, S);
    assert_eq!(waiting(&found), Some((2, 10.0)));
    assert!((found.wall() - 2.0).abs() < 1e-6, "{found:?}");
    // Who ended their waits was not recorded.
    assert_eq!(waiting(&turns(&two, 0)), Some((2, 10.0)));
    // Workers that a dispatcher wakes, which waits for input.
    let pool = [(1, 0, 1, &[][..]), (2, 5, 5, &[1][..]), (3, 5, 5, &[1][..])];
    assert_eq!(waiting(&turns(&pool, S)), None);
    // One works, the others are idle; or two do at a time.
    let idle = [(1, 1, 9, &[2][..]), (2, 10, 0, &[1][..]), (3, 10, 0, &[1][..])];
    assert_eq!(waiting(&turns(&idle, S)), None);
    let two_at_a_time = [(1, 3, 7, &[2][..]), (2, 4, 6, &[1][..]), (3, 3, 7, &[1][..])];
    assert_eq!(waiting(&turns(&two_at_a_time, S)), None);
}

#[test]
fn a_long_wait_is_for_a_lock_if_all_samples_say_so() {
    use ThreadState as T;
    let state = |sampled: &[(T, u64)], count: u64| {
        let waits = vec![wait(T::Futex, count, S, 0)];
        let switched = SwitchedThread { pid: 1, tid: 1, waits, ..SwitchedThread::default() };
        parts(&account(vec![thread(1, 1, "w", sampled)], vec![switched], S).groups[0])
    };
    assert_eq!(state(&[(T::FutexBrief, S)], 1), [(T::FutexBrief, 1000)]);
    // It had just run in half of the samples, or in all, as its waits are short.
    assert_eq!(state(&[(T::FutexBrief, S / 2), (T::Futex, S / 2)], 10), [(T::Futex, 1000)]);
    assert_eq!(state(&[(T::FutexBrief, S)], 25), [(T::Futex, 1000)]);
}

#[test]
fn every_state_is_of_one_kind() {
    for state in ThreadState::ALL {
        let kinds = KINDS.iter().filter(|(_, states)| states.contains(&state));
        assert_eq!(kinds.count(), 1, "{state:?}");
    }
}

#[test]
fn context_switches_divide_the_time_that_the_scheduler_leaves() {
    use ThreadState as T;
    // Samples found it asleep in a socket only; a tenth of the time was recorded.
    let times = [(T::OnCpu, 3 * S / 10), (T::Runnable, S / 10), (T::Socket, 6 * S / 10)];
    let switched = SwitchedThread {
        pid: 1,
        tid: 1,
        waits: vec![wait(T::Flush, 100, S / 50, 0), wait(T::Socket, 100, S / 50, 0)],
        ..SwitchedThread::default()
    };
    let account = account(vec![thread(1, 1, "postgres", &times)], vec![switched], S / 10);
    let group = &account.groups[0];
    // The waits that began before a window are those that samples found.
    assert_eq!(
        parts(group),
        [(T::Socket, 400), (T::OnCpu, 300), (T::Flush, 200), (T::Runnable, 100)]
    );
    assert!((group.mean_threads - 1.0).abs() < 1e-6);
    assert_eq!(account.recorded_share, 0.1);
    let flush = group.parts.iter().find(|part| part.state == T::Flush).unwrap();
    assert_eq!(flush.waits_per_s.map(f64::round), Some(1000.0));
    assert_eq!(flush.mean_wait_ns, Some(200_000.0));
}

#[test]
fn samples_do_not_say_why_a_thread_waits_for_a_disk() {
    use ThreadState as T;
    // A program that writes with O_DSYNC: samples find it in write(2). Windows were too short for most waits.
    let times = [(T::OnCpu, 2 * S / 10), (T::Disk, 7 * S / 10), (T::Futex, S / 10)];
    let waits = vec![wait(T::Flush, 20, S / 40, 0), wait(T::Disk, 5, S / 200, 0)];
    let switched = SwitchedThread { pid: 1, tid: 1, waits, ..SwitchedThread::default() };
    let account = account(vec![thread(1, 1, "log", &times)], vec![switched], S / 10);
    let group = &account.groups[0];
    let of = |state| parts(group).into_iter().find(|(known, _)| *known == state).unwrap().1;
    assert_eq!((of(T::OnCpu), of(T::Flush) + of(T::Disk) + of(T::Futex)), (200, 800));
    // Five sixths of the recorded waits are flushes.
    assert!(of(T::Flush).abs_diff(5 * of(T::Disk)) <= 5, "{:?}", parts(group));
}

#[test]
fn more_waits_than_time_are_scaled_and_unknown_time_is_shown() {
    use ThreadState as T;
    let times = [(T::OnCpu, S / 2), (T::Unknown, S / 2)];
    let switched = |ns| SwitchedThread {
        pid: 1,
        tid: 1,
        waits: vec![wait(T::Disk, 10, ns, 0)],
        ..SwitchedThread::default()
    };
    let one = thread(1, 1, "dd", &times);
    let full = account(vec![one.clone()], vec![switched(S * 7 / 10)], S);
    assert_eq!(parts(&full.groups[0]), [(T::OnCpu, 500), (T::Disk, 500)]);
    let some = account(vec![one.clone()], vec![switched(S / 10)], S);
    assert_eq!(parts(&some.groups[0]), [(T::OnCpu, 500), (T::Unknown, 400), (T::Disk, 100)]);
    let none = account(vec![one], Vec::new(), 0);
    assert_eq!(
        (parts(&none.groups[0]), none.recorded_share),
        (vec![(T::OnCpu, 500), (T::Unknown, 500)], 0.0)
    );
}

#[test]
fn time_without_a_wait_is_of_interrupts_or_of_a_quota_as_far_as_these_took_any() {
    use ThreadState as T;
    let sample = ThreadsSample {
        elapsed_ns: S,
        by_thread: vec![thread(1, 1, "perl", &[(T::OnCpu, S / 5), (T::Unknown, 4 * S / 5)])],
        ..ThreadsSample::default()
    };
    // The windows were where it ran.
    let switched = SwitchedThread { pid: 1, tid: 1, run_ns: S / 10, ..SwitchedThread::default() };
    let off_cpu =
        OffCpuSample { seen_ns: S / 5, threads: vec![switched], ..OffCpuSample::default() };
    let parts_of = |taken: TakenTime| {
        let mut totals = AccountTotals::default();
        totals.add(&sample, Some(&off_cpu), taken, |_| true);
        parts(&totals.account().unwrap().groups[0])
    };
    let of = |interrupts_ns, throttled_ns| parts_of(TakenTime { interrupts_ns, throttled_ns });
    let s = S as f64;
    assert_eq!(of(f64::INFINITY, 0.0), [(T::OnCpu, 500), (T::Unknown, 500)]);
    assert_eq!(of(0.05 * s, 0.0), [(T::Unknown, 750), (T::OnCpu, 250)]);
    assert_eq!(of(0.0, 0.8 * s), [(T::Throttled, 800), (T::OnCpu, 200)]);
    // The scheduler calls it runnable.
    let times = [(T::OnCpu, S / 5), (T::Runnable, 7 * S / 10), (T::Unknown, S / 10)];
    let runnable =
        ThreadsSample { by_thread: vec![thread(1, 1, "perl", &times)], ..sample.clone() };
    let mut totals = AccountTotals::default();
    let taken = TakenTime { interrupts_ns: 0.0, throttled_ns: 0.4 * s };
    totals.add(&runnable, Some(&off_cpu), taken, |_| true);
    assert_eq!(
        parts(&totals.account().unwrap().groups[0]),
        [(T::Runnable, 400), (T::Throttled, 400), (T::OnCpu, 200)]
    );
    assert_eq!(of(0.05 * s, 0.5 * s), [(T::Throttled, 500), (T::OnCpu, 250), (T::Unknown, 250)]);
}

#[test]
fn what_a_client_waits_for_is_what_its_server_does() {
    use ThreadState as T;
    let times = [(T::OnCpu, S / 4), (T::Poll, 3 * S / 4)];
    let client = SwitchedThread {
        pid: 1,
        tid: 1,
        waits: vec![wait(T::Poll, 1000, 3 * S / 4, 1000)],
        ..SwitchedThread::default()
    };
    let server = SwitchedThread {
        pid: 9,
        tid: 9,
        comm: "postgres".into(),
        peer: true,
        run_ns: S / 4,
        waits: vec![wait(T::Flush, 1000, S / 2, 0), wait(T::Poll, 1000, S / 4, 1000)],
        ..SwitchedThread::default()
    };
    let idle = thread(1, 2, "pool", &[(T::Futex, S)]);
    let client_thread = thread(1, 1, "pgbench", &times);
    let account = account(vec![client_thread, idle], vec![client, server], S);
    assert!((account.wall() - 1.0).abs() < 1e-6, "{account:?}");
    let states: Vec<(T, u64)> = account
        .states()
        .iter()
        .map(|(state, mean)| (*state, (mean * 100.0).round() as u64))
        .collect();
    assert_eq!(states[..2], [(T::OnCpu, 50), (T::Flush, 50)]);
    assert_eq!(account.most_in(T::Flush).unwrap().name(), "postgres");
    let idle = account.groups.iter().find(|group| group.comm == "pool").unwrap();
    assert!(!idle.matters);
}

#[test]
fn who_waits_in_io_uring_waits_for_its_workers() {
    use ThreadState as T;
    let waiter = thread(1, 1, "fio", &[(T::IoUring, 9 * S / 10), (T::OnCpu, S / 10)]);
    let times = [(T::Flush, S / 2), (T::Runnable, S / 5), (T::KernelThread, 3 * S / 10)];
    let worker = thread(1, 2, "iou-wrk-1", &times);
    let of = |threads: Vec<TimesOfThread>| {
        let states = account(threads, Vec::new(), 0).states().into_iter();
        let rounded = states.map(|(state, mean)| (state, (mean * 100.0).round() as u64));
        rounded.collect::<BTreeMap<T, u64>>()
    };
    assert_eq!(of(vec![waiter.clone()])[&T::IoUring], 90);
    let states = of(vec![waiter, worker]);
    assert_eq!([T::IoUring, T::Flush, T::Runnable].map(|one| states[&one]), [20, 50, 20]);
}

#[test]
fn polls_that_samples_found_to_be_sleeps_are_sleeps() {
    use ThreadState as T;
    let switched = SwitchedThread {
        pid: 1,
        tid: 1,
        waits: vec![wait(T::Poll, 1, S / 2, 0)],
        ..SwitchedThread::default()
    };
    let parts_of = |sampled: T| {
        let account =
            account(vec![thread(1, 1, "perl", &[(sampled, S)])], vec![switched.clone()], S);
        parts(&account.groups[0])
    };
    assert_eq!(parts_of(T::Timer), [(T::Timer, 1000)]);
    assert_eq!(parts_of(T::Poll), [(T::Poll, 1000)]);
}

#[test]
fn polls_of_unknown_end_ended_as_the_others_did() {
    use ThreadState as T;
    let switched = |poll: WaitSum, timer: WaitSum| SwitchedThread {
        pid: 1,
        tid: 1,
        waits: vec![poll, timer],
        ..SwitchedThread::default()
    };
    let parts_of = |ended: WaitSum| {
        let polls = thread(1, 1, "httpd", &[(T::Poll, S)]);
        let timer = wait(T::Timer, 3, 3 * S / 10, 0);
        let account = account(vec![polls], vec![switched(ended, timer)], S);
        parts(&account.groups[0])
    };
    // One that lasts longer than what was recorded has no end.
    assert_eq!(parts_of(wait(T::Poll, 0, S / 10, 0)), [(T::Timer, 1000)]);
    assert_eq!(parts_of(wait(T::Poll, 1, S / 10, 0)), [(T::Timer, 750), (T::Poll, 250)]);
}

#[test]
fn a_program_that_sleeps_has_an_account_of_its_sleep() {
    let account = account(vec![thread(1, 1, "sleep", &[(ThreadState::Timer, S)])], Vec::new(), 0);
    assert_eq!((account.wall(), account.states()), (1.0, vec![(ThreadState::Timer, 1.0)]));
    assert!(AccountTotals::default().account().is_none());
}
