use super::*;
use fathom_model::watch::SwitchedThread;
use std::process::{Child, Command, Stdio};

/// Runs `script`, not through a wrapper in PATH, and returns what was recorded of it until it ended.
fn recorded(script: &str) -> Option<(i32, Vec<OffCpuSample>, Duration)> {
    let child = Command::new("/usr/bin/python3").args(["-c", script]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        println!("skipped: no /usr/bin/python3");
        return None;
    };
    let pid = child.id() as i32;
    let sampler =
        OffCpuSampler::open(Path::new("/proc"), Path::new("/sys"), &Scope::Trees(vec![pid]), true);
    let mut sampler = match sampler {
        Ok(sampler) => sampler,
        Err(missing) => {
            println!("skipped: {missing}");
            let _ = (child.kill(), child.wait());
            return None;
        }
    };
    let mut samples = Vec::new();
    sampler.take(&mut MachineSample::default());
    drop(child.stdin.take());
    let began = Instant::now();
    while is_running(&mut child) {
        std::thread::sleep(Duration::from_millis(20));
        sampler.sample();
        let mut sample = MachineSample::default();
        sampler.take(&mut sample);
        samples.extend(sample.off_cpu);
    }
    Some((pid, samples, began.elapsed()))
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

/// Time and number of the waits of these threads for `cause`, and how many of them their own processes ended.
fn waits(
    samples: &[OffCpuSample],
    wanted: impl Fn(&SwitchedThread) -> bool,
    cause: ThreadState,
) -> (u64, u64, u64) {
    let threads = samples.iter().flat_map(|sample| &sample.threads).filter(|one| wanted(one));
    let waits: Vec<_> =
        threads.flat_map(|one| &one.waits).filter(|one| one.cause == cause).collect();
    let within = waits.iter().map(|one| one.within).sum();
    (waits.iter().map(|one| one.ns).sum(), waits.iter().map(|one| one.count).sum(), within)
}

/// The machine may switch so often that only windows were recorded.
fn is_complete(samples: &[OffCpuSample], took: Duration) -> bool {
    let seen: u64 = samples.iter().map(|sample| sample.seen_ns).sum();
    println!("{:.0}% of {took:?} recorded", seen as f64 / took.as_nanos() as f64 * 100.0);
    seen as f64 >= took.as_nanos() as f64 * 0.95 && samples.iter().all(|sample| sample.lost == 0)
}

#[test]
fn sleeps_are_found_to_be_waits_for_a_timer() {
    let script = "import sys, time, select\nsys.stdin.read()\n\
                  for i in range(50): time.sleep(0.004)\nfor i in range(50): select.select([], [], [], 0.004)\n";
    let Some((pid, samples, took)) = recorded(script) else { return };
    if !is_complete(&samples, took) {
        return;
    }
    let (ns, count, _) = waits(&samples, |one| one.pid == pid, ThreadState::Timer);
    // One may be over before the thread sleeps.
    assert!((70..=100).contains(&count), "{count}");
    assert!((100_000_000..took.as_nanos() as u64).contains(&ns), "{ns}");
}

#[test]
fn waits_for_the_other_end_of_a_pipe_are_within_the_program() {
    // The parent waits for its child, which works and answers.
    let script = "import os, sys, time\nsys.stdin.read()\n(a, b), (c, d) = os.pipe(), os.pipe()\n\
                  pid = os.fork()\nif pid == 0:\n  for i in range(30):\n    os.read(a, 1); time.sleep(0.003); os.write(d, b'x')\n  \
                  os._exit(0)\nfor i in range(30):\n  os.write(b, b'x'); os.read(c, 1)\nos.wait()\n";
    let Some((pid, samples, took)) = recorded(script) else { return };
    if !is_complete(&samples, took) {
        return;
    }
    let (ns, count, within) = waits(&samples, |one| one.pid == pid, ThreadState::Pipe);
    assert!((20..=31).contains(&count) && ns >= 30_000_000, "{count} {ns}");
    assert!((20..=count).contains(&within), "{within} of {count}");
    let (slept, count, _) = waits(&samples, |one| one.pid != pid, ThreadState::Timer);
    assert!((20..=30).contains(&count) && slept >= 30_000_000, "{count} {slept}");
}

#[test]
fn time_adds_up() {
    let wait = |cause| Some((cause, 0));
    let comm = Comm::of(b"db");
    let mut switches = Switches::default();
    // 2 waits for the disk and is woken by an interrupt; 3 runs meanwhile, and wakes 2 from a socket.
    switches.switched(100, ((1, 3), comm), 0, None, 2);
    switches.switched(150, ((1, 2), comm), 2, wait(ThreadState::Disk), 3);
    switches.woken(400, 2, Waker::Event(ThreadState::Disk), 3);
    switches.switched(450, ((1, 3), comm), 0, None, 2);
    switches.switched(500, ((1, 2), comm), 1, wait(ThreadState::Socket), 3);
    switches.woken(700, 2, Waker::Process(1), 3);
    switches.pause(1100);
    let names = NameTable::new();
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &names);
    let of = |tid: i32| taken.iter().find(|one| one.tid == tid).unwrap();
    let sum = |one: &SwitchedThread| {
        one.run_ns + one.runnable_ns + one.waits.iter().map(|wait| wait.ns).sum::<u64>()
    };
    assert_eq!((of(2).run_ns, of(2).runnable_ns, sum(of(2))), (100, 450, 1000));
    assert_eq!((of(3).run_ns, of(3).runnable_ns, sum(of(3))), (900, 100, 1000));
    let waits: Vec<_> = of(2).waits.iter().map(|wait| (wait.cause, wait.count, wait.ns)).collect();
    assert_eq!(waits, [(ThreadState::Disk, 1, 250), (ThreadState::Socket, 1, 200)]);
    assert_eq!(of(2).waits[1].within, 1);
    // Nothing is counted twice, and 2 is still runnable.
    switches.switched(1200, ((1, 3), comm), 0, None, 2);
    switches.pause(1250);
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &names);
    let times: Vec<_> = taken.iter().map(|one| (one.tid, one.run_ns, one.runnable_ns)).collect();
    assert_eq!(times, [(2, 50, 100), (3, 100, 50)]);
}

#[test]
fn a_wakeup_on_the_way_to_sleep_and_a_timeout_are_no_waits_for_others() {
    let mut switches = Switches::default();
    let comm = Comm::of(b"db");
    switches.switched(100, ((1, 9), comm), 0, None, 2);
    // Woken after it had decided to sleep.
    switches.woken(195, 2, Waker::Process(1), 0);
    switches.switched(200, ((1, 2), comm), 1, Some((ThreadState::Futex, 0)), 9);
    switches.switched(300, ((1, 9), comm), 0, None, 2);
    switches.switched(50_000, ((1, 2), comm), 1, Some((ThreadState::Poll, 0)), 9);
    switches.woken(60_000, 2, Waker::Event(ThreadState::Timer), 0);
    switches.end_window(70_000);
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &NameTable::new());
    let two = taken.iter().find(|one| one.tid == 2).unwrap();
    assert_eq!((two.run_ns, two.runnable_ns), (49_800, 10_100));
    assert_eq!(two.waits.len(), 1);
    assert_eq!((two.waits[0].cause, two.waits[0].ns), (ThreadState::Timer, 10_000));
    // After the window, nothing is known.
    switches.switched(90_000, ((1, 9), comm), 0, None, 2);
    switches.pause(90_500);
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &NameTable::new());
    assert_eq!(taken.iter().map(|one| one.run_ns).sum::<u64>(), 500);
}

#[test]
fn a_thread_that_runs_on_a_cpu_that_was_idle_was_woken() {
    let mut switches = Switches::default();
    let comm = Comm::of(b"db");
    let wait = Some((ThreadState::Flush, 0));
    switches.switched(100, ((1, 2), comm), 2, wait, 0);
    // It wakes another one, and was not seen to be woken.
    switches.woken(50_000, 3, Waker::Process(1), 2);
    switches.switched(60_000, ((1, 2), comm), 1, Some((ThreadState::Socket, 0)), 0);
    // It was woken, but not seen to get a CPU.
    switches.woken(70_000, 2, Waker::Process(1), 3);
    switches.switched(90_000, ((1, 2), comm), 2, wait, 0);
    switches.pause(95_000);
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &NameTable::new());
    let two = taken.iter().find(|one| one.tid == 2).unwrap();
    assert_eq!((two.run_ns, two.runnable_ns), (30_000, 0));
    let waits: Vec<_> = two.waits.iter().map(|wait| (wait.cause, wait.count, wait.ns)).collect();
    assert_eq!(waits, [(ThreadState::Flush, 1, 54_900), (ThreadState::Socket, 1, 10_000)]);
}

#[test]
fn peers_are_followed_unless_that_is_off() {
    // A program that exists, so that it counts as one.
    let peer = crate::own_pid();
    let taken = |follows_peers| {
        let mut switches = Switches::new(follows_peers);
        let comm = Comm::of(b"db");
        switches.switched(100, ((1, 2), comm), 1, Some((ThreadState::Socket, 0)), peer);
        switches.woken(300, 2, Waker::Process(peer), peer);
        switches.switched(400, ((peer, peer), comm), 1, Some((ThreadState::Poll, 0)), 2);
        switches.pause(500);
        let (taken, _) = switches.take(Path::new("/proc"), |pid| pid == 1, &NameTable::new());
        let within = taken.iter().flat_map(|one| &one.waits).map(|wait| wait.within).sum::<u64>();
        (taken.iter().map(|one| (one.pid, one.peer)).collect::<Vec<_>>(), within)
    };
    assert_eq!(taken(true), (vec![(1, false), (peer, true)], 1));
    assert_eq!(taken(false), (vec![(1, false)], 0));
}

#[test]
fn a_peer_remains_one_and_its_threads_count_from_their_start() {
    let (peer, comm) = (crate::own_pid(), Comm::of(b"db"));
    let mut switches = Switches::new(true);
    let take = |switches: &mut Switches, now_ns| {
        switches.pause(now_ns);
        let (taken, _) = switches.take(Path::new("/proc"), |pid| pid == 1, &NameTable::new());
        let of_peer = taken.into_iter().filter(|one| one.peer && one.tid != peer);
        of_peer.map(|one| (one.tid, one.lived_ns)).collect::<Vec<_>>()
    };
    switches.switched(100, ((1, 2), comm), 1, Some((ThreadState::Socket, 0)), peer);
    switches.woken(300, 2, Waker::Process(peer), peer);
    assert_eq!(take(&mut switches, 1000), []);
    // No wait ends in this interval.
    switches.started(9, 1200);
    switches.switched(1300, ((peer, 9), comm), 1, Some((ThreadState::Poll, 0)), 0);
    assert_eq!(take(&mut switches, 2000), [(9, 800)]);
    assert_eq!(take(&mut switches, 3000), [(9, 0)]);
    switches.ended(9, 3100);
    assert_eq!(take(&mut switches, 4000), [(9, 100)]);
    switches.ended(peer, 4500);
    switches.switched(4600, ((peer, 10), comm), 1, Some((ThreadState::Poll, 0)), 0);
    assert_eq!(take(&mut switches, 5000).len(), 1);
    assert_eq!(take(&mut switches, 6000), []);
}

#[test]
fn chains_of_events_that_are_kept_stay_theirs() {
    let event =
        |chain| Event::Switch { from: (1, 1), comm: Comm::of(b"db"), state: 1, chain, to: 0 };
    let mut batch = Batch { addresses: vec![1, 2, 3, 4, 5], ..Batch::default() };
    batch.keep(vec![(10, event(3..5))]);
    assert_eq!(batch.addresses, [4, 5]);
    let Event::Switch { chain, .. } = &batch.events[0].1 else { panic!("a switch") };
    assert_eq!(*chain, 0..2);
    batch.keep(Vec::new());
    assert!(batch.addresses.is_empty());
}

#[test]
fn the_thread_that_ends_a_wait_for_a_lock_held_it() {
    let mut switches = Switches::new(true);
    let comm = Comm::of(b"db");
    let names = NameTable::new();
    // 2 waits for a lock of 3, which reads from a disk for it and computes; then 3 waits for one of 2.
    switches.switched(0, ((1, 9), comm), 0, None, 3);
    switches.switched(100, ((1, 9), comm), 0, None, 2);
    switches.switched(200, ((1, 2), comm), 1, Some((ThreadState::Futex, 0)), 9);
    switches.switched(300, ((1, 3), comm), 2, Some((ThreadState::Disk, 0)), 0);
    switches.woken(700, 3, Waker::Event(ThreadState::Disk), 0);
    switches.switched(710, ((1, 9), comm), 0, None, 3);
    switches.woken(900, 2, Waker::Process(1), 3);
    switches.switched(910, ((1, 3), comm), 1, Some((ThreadState::KernelLock, 0)), 2);
    // It had waited for the first one itself until 910.
    switches.woken(950, 3, Waker::Process(1), 2);
    switches.pause(1000);
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &names);
    let lock = |tid: i32, cause| {
        let thread = taken.iter().find(|one| one.tid == tid).unwrap();
        let wait = thread.waits.iter().find(|wait| wait.cause == cause).unwrap();
        let holders: Vec<_> =
            wait.holders.iter().map(|one| (one.tid, one.comm.as_str(), one.count)).collect();
        assert_eq!(holders, [(if tid == 2 { 3 } else { 2 }, "db", 1)]);
        wait.meanwhile.iter().map(|time| (time.state, time.ns)).collect::<Vec<_>>()
    };
    use ThreadState as S;
    assert_eq!(lock(2, S::Futex), [(S::Disk, 400), (S::OnCpu, 290), (S::Runnable, 10)]);
    assert_eq!(lock(3, S::KernelLock), [(S::OnCpu, 40)]);
}

#[test]
fn who_keeps_the_holder_of_a_lock_waiting_is_a_holder_too() {
    let mut switches = Switches::new(true);
    let comm = Comm::of(b"db");
    let lock = Some((ThreadState::Futex, 0));
    // 3 computes. 2 waits until it is done, and 4 for 2.
    switches.switched(0, ((1, 9), comm), 0, None, 3);
    switches.switched(0, ((1, 8), comm), 0, None, 2);
    switches.switched(100, ((1, 2), comm), 1, lock, 4);
    switches.switched(200, ((1, 4), comm), 1, lock, 8);
    switches.woken(1000, 2, Waker::Process(1), 3);
    switches.switched(1010, ((1, 8), comm), 0, None, 2);
    switches.woken(1100, 4, Waker::Process(1), 2);
    let names = NameTable::new();
    let (taken, _) = switches.take(Path::new("/nonexistent"), |pid| pid == 1, &names);
    let waits = &taken.iter().find(|one| one.tid == 4).unwrap().waits[0];
    let holders: Vec<_> = waits.holders.iter().map(|one| (one.tid, one.count, one.ns)).collect();
    assert_eq!(holders, [(3, 0, 800), (2, 1, 100)]);
    let did: Vec<_> = waits.meanwhile.iter().map(|time| (time.state, time.ns)).collect();
    assert_eq!(did, [(ThreadState::OnCpu, 890), (ThreadState::Runnable, 10)]);
}

#[test]
fn a_poll_that_an_interrupt_ends_waited_for_what_came() {
    let waits = |by: Waker, ns: u64| {
        let mut switches = Switches::new(true);
        let comm = Comm::of(b"db");
        switches.switched(100, ((1, 2), comm), 1, Some((ThreadState::Poll, 0)), 9);
        assert!(switches.may_time_out(2) && !switches.may_time_out(9));
        switches.woken(100 + ns, 2, by, 0);
        switches.pause(100 + ns);
        let (taken, _) =
            switches.take(Path::new("/nonexistent"), |pid| pid == 1, &NameTable::new());
        let waits = taken.iter().flat_map(|one| &one.waits);
        waits.map(|wait| (wait.cause, wait.count, wait.ns)).collect::<Vec<_>>()
    };
    let time = Waker::Event(ThreadState::Timer);
    assert_eq!(waits(time, 5000), [(ThreadState::Timer, 1, 5000)]);
    assert_eq!(waits(Waker::Event(ThreadState::Aio), 5000), [(ThreadState::Aio, 1, 5000)]);
    assert_eq!(waits(Waker::Interrupt, 5000), [(ThreadState::Poll, 1, 5000)]);
    // It waited for input, with a timeout in case that none comes.
    assert_eq!(waits(time, 1_000_000_000), [(ThreadState::Poll, 1, 1_000_000_000)]);
}

#[test]
fn of_many_threads_the_active_ones_are_taken() {
    let mut switches = Switches::new(true);
    let comm = Comm::of(b"db");
    for tid in 1..=1200 {
        let from = u64::from(tid as u32) * 1000;
        switches.switched(from, ((1, 5000), comm), 0, None, tid);
        let ran = if tid <= 600 { 900 } else { 10 };
        switches.switched(from + ran, ((1, tid), comm), 1, Some((ThreadState::Timer, 0)), 5000);
    }
    switches.pause(2_000_000);
    let take = |switches: &mut Switches| {
        switches.take(Path::new("/nonexistent"), |pid| pid == 1, &NameTable::new())
    };
    let (taken, left_out) = take(&mut switches);
    assert_eq!((taken.len(), left_out), (1000, 201));
    assert!((1..=600).all(|tid| taken.iter().any(|one| one.tid == tid)));
    // What was left out does not come later.
    switches.end_window(2_000_000);
    let (taken, left_out) = take(&mut switches);
    assert_eq!((taken.len(), left_out), (0, 0));
}
