//! Rings in synthetic trees, then real ones.

use super::fdinfo::tests::{LOCKED, V6_1, V6_12, V6_18};
use super::testing::TestRing;
use super::*;
use fathom_model::watch::RingEvents;
use linux_raw_sys::io_uring as sys;
use std::fs;

const LINK: &str = "anon_inode:[io_uring]";

/// A process with threads; `rings` are descriptors with their fdinfo.
fn process(root: &Path, pid: i32, threads: &[&str], rings: &[(i32, &str)]) {
    let at = root.join(pid.to_string());
    for folder in ["fd", "fdinfo", "task"] {
        fs::create_dir_all(at.join(folder)).unwrap();
    }
    fs::write(at.join("comm"), "db\n").unwrap();
    fs::write(at.join("stat"), format!("{pid} (db) S 1 1 1 0\n")).unwrap();
    for (index, name) in threads.iter().enumerate() {
        let task = at.join(format!("task/{}", pid + index as i32));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), format!("{name}\n")).unwrap();
    }
    // The process may exist already.
    drop(std::os::unix::fs::symlink("/dev/null", at.join("fd/0")));
    for (fd, text) in rings {
        std::os::unix::fs::symlink(LINK, at.join(format!("fd/{fd}"))).unwrap();
        fs::write(at.join(format!("fdinfo/{fd}")), text).unwrap();
    }
}

fn take(sampler: &mut RingSampler) -> RingsSample {
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    sample.rings.unwrap()
}

#[test]
fn rings_of_several_kernels() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(
        root,
        100,
        &["db", "iou-sqp-100", "iou-wrk-100", "iou-wrk-100"],
        &[(3, V6_1), (12, V6_12)],
    );
    process(root, 200, &["other", "iou-wrk"], &[(3, V6_18)]);
    process(root, 300, &["none"], &[]);
    let mut sampler = RingSampler::open(root, Scope::Machine).unwrap();
    assert_eq!(sampler.missing(), []);
    let sample = take(&mut sampler);
    let at: Vec<(i32, i32)> = sample.rings.iter().map(|ring| (ring.pid, ring.fd)).collect();
    assert_eq!(at, [(100, 3), (100, 12), (200, 3)]);
    assert_eq!(sample.rings[0].queues.unwrap().overflowed, 2);
    assert_eq!(sample.rings[2].sq_poll.unwrap().work_us, Some(1250));
    let workers: Vec<(i32, u32)> = sample.workers.iter().map(|w| (w.pid, w.threads)).collect();
    assert_eq!(workers, [(100, 2)]);
    let only = RingSampler::open(root, Scope::Trees(vec![200])).unwrap();
    assert_eq!(only.rings.len(), 1);
}

#[test]
fn shared_rings_are_reported_once() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for pid in [100, 101] {
        process(root, pid, &["db", "iou-wrk-1"], &[(3, V6_18), (4, V6_18)]);
    }
    // If the link leads to a file, its inode is the ring's.
    fs::write(root.join(format!("100/fd/{LINK}")), "").unwrap();
    fs::hard_link(root.join(format!("100/fd/{LINK}")), root.join(format!("101/fd/{LINK}")))
        .unwrap();
    let mut sampler = RingSampler::open(root, Scope::Machine).unwrap();
    let sample = take(&mut sampler);
    assert_eq!(sample.rings.len(), 1);
    assert_eq!((sample.rings[0].pid, sample.rings[0].fd, sample.rings[0].processes), (100, 3, 2));
    assert_eq!(sample.workers.len(), 2);
}

#[test]
fn new_closed_and_locked_rings() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, 100, &["db"], &[(3, V6_18)]);
    let mut sampler = RingSampler::open(root, Scope::Machine).unwrap();
    assert!(take(&mut sampler).rings[0].queues.is_some());
    fs::write(root.join("100/fdinfo/3"), "pos:\t0\nflags:\t02\n").unwrap();
    assert_eq!(take(&mut sampler).rings, [], "the descriptor was reused");
    fs::write(root.join("100/fdinfo/3"), V6_18).unwrap();
    sampler.search().unwrap();
    assert_eq!(take(&mut sampler).rings.len(), 1);
    fs::remove_dir_all(root.join("100")).unwrap();
    process(root, 90, &["new"], &[(5, V6_1)]);
    sampler.search().unwrap();
    let sample = take(&mut sampler);
    assert_eq!((sample.rings.len(), sample.rings[0].pid), (1, 90));
}

/// Makes the searches appear so expensive that none is due.
fn tire(sampler: &mut RingSampler) {
    let search = Some((Duration::from_secs(3600), Instant::now()));
    (sampler.search, sampler.near_search) = (search, search);
}

#[test]
fn likely_processes_are_searched_more_often() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, 100, &["db"], &[(3, V6_18)]);
    process(root, 200, &["db"], &[]);
    let mut sampler = RingSampler::open(root, Scope::Machine).unwrap();
    for pid in [100, 200, own_pid()] {
        process(root, pid, &["db"], &[(4, V6_12)]);
    }
    let mut rings = |near: bool| {
        tire(&mut sampler);
        sampler.near_search.take_if(|_| near);
        let rings = take(&mut sampler).rings;
        rings.iter().map(|ring| (ring.pid, ring.fd)).collect::<Vec<_>>()
    };
    assert_eq!(rings(false), [(100, 3)]);
    let mut likely = [(100, 3), (100, 4), (own_pid(), 4)];
    likely.sort_unstable();
    assert_eq!(rings(true), likely);
}

#[test]
fn a_locked_ring_keeps_its_thread() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, 100, &["db"], &[(3, V6_18)]);
    let text = root.join("100/fdinfo/3");
    let mut ring = MonitoredRing {
        at: find::RingLocation {
            pid: 100,
            fd: 3,
            inode: Some(993_794),
            unique: true,
            processes: 1,
        },
        comm: "db".into(),
        fdinfo: File::open(&text).unwrap(),
        last: FdInfo::default(),
        is_timed: false,
    };
    assert!(ring.read(&mut Vec::new()) && ring.is_complete());
    fs::write(&text, LOCKED).unwrap();
    assert!(ring.read(&mut Vec::new()) && !ring.is_complete());
    let ring_sample = ring.sample(&HashMap::new());
    let known = SqPollThread { thread: 1973, cpu: None, total_us: None, work_us: None };
    assert_eq!((ring_sample.queues, ring_sample.sq_poll), (None, Some(known)));
    // As a kernel before 6.14 reports it when locked.
    fs::write(&text, V6_18.replace("1973", "-1")).unwrap();
    assert!(ring.read(&mut Vec::new()) && !ring.is_complete());
    fs::write(&text, V6_18.replace("993794", "5")).unwrap();
    assert!(ring.read(&mut Vec::new()) && ring.is_complete());
    fs::write(&text, LOCKED.replace("993794", "5")).unwrap();
    assert!(!ring.read(&mut Vec::new()), "another file");
}

fn ring(entries: u32, flags: u32) -> Option<TestRing> {
    TestRing::new(entries, flags).inspect_err(|error| println!("skipped: no ring: {error}")).ok()
}

fn real() -> RingSampler {
    RingSampler::open(Path::new("/proc"), Scope::Trees(vec![own_pid()])).unwrap()
}

fn only<'a>(sample: &'a RingsSample, ring: &TestRing) -> &'a RingSample {
    let mine =
        |ring_sample: &&RingSample| (ring_sample.pid, ring_sample.fd) == (own_pid(), ring.number());
    sample.rings.iter().find(mine).unwrap()
}

#[test]
fn the_queues_of_a_real_ring() {
    let Some(ring) = ring(8, 0) else { return };
    let mut sampler = real();
    ring.push(8, 0);
    ring.enter(8, 8);
    assert_eq!(ring.reap(), 8);
    ring.push(5, 0);
    ring.enter(3, 0);
    let sample = take(&mut sampler);
    let queues = only(&sample, &ring).queues.unwrap();
    assert_eq!((queues.sq_entries, queues.cq_entries), (8, 16));
    assert_eq!((queues.submitted, queues.sq_ready), (11, 2));
    assert_eq!((queues.completed, queues.cq_ready, queues.overflowed), (11, 3, 0));
    assert_eq!(only(&sample, &ring).sq_poll, None);
    let number = ring.number();
    drop(ring);
    sampler.search().unwrap();
    let after = take(&mut sampler);
    // Another test may have a ring of this number by now.
    let is_it = |ring: &RingSample| {
        let submitted = ring.queues.map(|queues| queues.submitted);
        (ring.pid, ring.fd, submitted) == (own_pid(), number, Some(11))
    };
    assert!(!after.rings.iter().any(is_it));
}

#[test]
fn overflowed_completions() {
    let Some(ring) = ring(8, 0) else { return };
    for _ in 0..3 {
        ring.push(8, 0);
        ring.enter(8, 0);
    }
    let sample = take(&mut real());
    let queues = only(&sample, &ring).queues.unwrap();
    assert_eq!((queues.cq_ready, queues.overflowed), (16, 8));
}

#[test]
fn workers_of_a_real_ring() {
    let Some(ring) = ring(8, 0) else { return };
    let mut sampler = real();
    ring.push(4, 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8);
    ring.enter(4, 4);
    // Workers exit some seconds after their last request.
    let workers = take(&mut sampler).workers;
    assert!(workers.iter().any(|of| of.pid == own_pid() && of.threads > 0), "{workers:?}");
}

#[test]
fn an_idle_and_a_busy_sqpoll_thread() {
    let Some(ring) = ring(8, sys::IORING_SETUP_SQPOLL) else { return };
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", ring.number())).unwrap();
    if !text.contains("SqWorkTime") {
        println!("skipped: SQPOLL times require Linux 6.9");
        return;
    }
    let mut sampler = real();
    let until = Instant::now() + Duration::from_secs(300);
    let in_time = || assert!(Instant::now() < until, "not within 5 minutes");
    // Total and busy time, in microseconds.
    let mut times = || loop {
        in_time();
        let thread = only(&take(&mut sampler), &ring).sq_poll.unwrap();
        if let Some(times) = thread.total_us.zip(thread.work_us) {
            break times;
        }
    };
    let work = || {
        ring.push(8, 0);
        ring.wake(8);
        let mut done = 0;
        while done < 8 {
            in_time();
            done += ring.reap();
        }
    };
    // It sleeps until the first request, then polls, with or without work.
    work();
    std::thread::sleep(Duration::from_millis(50));
    let first = times();
    let mut idle = first;
    while idle.0 < first.0 + 20_000 {
        std::thread::sleep(Duration::from_millis(10));
        idle = times();
    }
    assert_eq!(idle.1, first.1, "no work without requests");
    while times().1 == idle.1 {
        work();
    }
}

#[test]
fn events_and_setup_flags_on_the_running_kernel() {
    let mut sampler = real().with_events(Path::new("/sys"), TraceCoverage::Full);
    let Some(before) = take(&mut sampler).events else {
        return println!("skipped: {}", sampler.missing()[0]);
    };
    let Some(ring) = ring(16, sys::IORING_SETUP_CLAMP) else { return };
    ring.push(4, 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8);
    ring.enter(4, 4);
    for _ in 0..3 {
        ring.push(16, 0);
        ring.enter(16, 0);
    }
    tire(&mut sampler);
    let sample = take(&mut sampler);
    assert_eq!(only(&sample, &ring).setup_flags, Some(sys::IORING_SETUP_CLAMP));
    let now = sample.events.unwrap();
    // Other programs may use io_uring at the same time.
    assert!(now.punted.unwrap() >= before.punted.unwrap() + 4);
    assert!(now.overflows.unwrap() >= before.overflows.unwrap() + 20);
    let batches: Vec<u32> = now.task_work.iter().map(|(least, _)| *least).collect();
    assert_eq!(batches, [1, 2, 4, 8, 16, 32, 64, 128]);
}

#[test]
fn frequent_punts_are_counted_in_windows() {
    let mut sampler = real().with_events(Path::new("/sys"), TraceCoverage::Off);
    let Some(first) = take(&mut sampler).events else {
        return println!("skipped: {}", sampler.missing()[0]);
    };
    assert_eq!(sampler.period(), Some(WindowSchedule::PERIOD));
    let Some(ring) = ring(64, sys::IORING_SETUP_CLAMP) else { return };
    let (began, mut sampled_at, mut submitted) = (Instant::now(), Instant::now(), 0);
    let last = loop {
        ring.push(64, 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8);
        ring.enter(64, 64);
        ring.reap();
        submitted += 64;
        if sampled_at.elapsed() >= WindowSchedule::PERIOD {
            sampled_at = Instant::now();
            sampler.sample();
            let events = take(&mut sampler).events.unwrap();
            if events.punted_estimated && began.elapsed() > 20 * WindowSchedule::PERIOD {
                break events;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{submitted} are too few");
    };
    // The error depends on how evenly this thread runs.
    let counted = last.punted.unwrap() - first.punted.unwrap();
    assert!(counted > submitted / 10 && submitted > counted / 10, "{counted} of {submitted}");
}

#[test]
fn task_work_is_counted_in_windows() {
    let mut sampler = real().with_events(Path::new("/sys"), TraceCoverage::DutyCycle);
    let Some(before) = take(&mut sampler).events else {
        return println!("skipped: {}", sampler.missing()[0]);
    };
    assert_eq!((before.task_work_ns, sampler.period()), (Some(0), Some(WindowSchedule::PERIOD)));
    assert!(before.task_work.iter().all(|(_, runs)| *runs == 0));
    sampler.sample();
    let Some(ring) = ring(16, sys::IORING_SETUP_CLAMP) else { return };
    ring.push(4, 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8);
    ring.enter(4, 4);
    sampler.sample();
    let ended = take(&mut sampler).events.unwrap();
    let runs = |events: &RingEvents| events.task_work.iter().map(|(_, runs)| runs).sum::<u64>();
    assert!(runs(&ended) > 0 && ended.task_work_ns.unwrap() > 0);
    ring.push(4, 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8);
    ring.enter(4, 4);
    let later = take(&mut sampler).events.unwrap();
    assert_eq!((runs(&later), later.task_work_ns), (runs(&ended), ended.task_work_ns));
}

#[test]
fn unavailable_events_are_named() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("mounts"), "").unwrap();
    let sampler = RingSampler::open(root.path(), Scope::Machine).unwrap();
    let mut sampler = sampler.with_events(root.path(), TraceCoverage::Off);
    // Either tracefs or the list of online CPUs is not available.
    assert!(sampler.missing()[0].to_string().starts_with("io_uring events: "));
    assert_eq!(take(&mut sampler), RingsSample::default());
}
