//! The sampler on synthetic /proc trees.

use super::*;
use crate::Pattern;
use std::fs;
use tempfile::TempDir;

/// A synthetic /proc.
struct Tree(TempDir);

/// A thread in it.
#[derive(Clone, Copy)]
struct Thread<'a> {
    pid: i32,
    tid: i32,
    comm: &'a str,
    state: char,
    sched: &'a str,
    syscall: &'a str,
    wchan: &'a str,
    flags: u32,
    threads: u32,
}

const THREAD: Thread<'static> = Thread {
    pid: 10,
    tid: 10,
    comm: "program",
    state: 'S',
    sched: "1000 1000 1",
    syscall: "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd00000000 0x7f0000000000",
    wchan: "futex_do_wait",
    flags: 0x40_0000,
    threads: 1,
};
/// pread64 and io_uring_enter of this architecture, with descriptor 3.
const READS: &str = if cfg!(target_arch = "aarch64") {
    "67 0x3 0x2 0x3 0x4 0x5 0x6 0x7ffd00000000 0x7f0000000000"
} else {
    "17 0x3 0x2 0x3 0x4 0x5 0x6 0x7ffd00000000 0x7f0000000000"
};
const WAITS_IN_RING: &str = "426 0x3 0x0 0x1 0x1 0x0 0x8 0x7ffd00000000 0x7f0000000000";

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("self/schedstat", "1 1 1\n");
        tree.write("self/syscall", "running\n");
        tree.write("1/stat", "");
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // In place, as an open descriptor sees it.
        fs::write(path, text).unwrap();
    }

    fn put(&self, thread: Thread<'_>) {
        let Thread { pid, tid, comm, state, sched, syscall, wchan, flags, threads } = thread;
        let stat = format!(
            "{tid} ({comm}) {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0 0 0 0 0 \
             0 0 0 0 0 0 0 0 0 17 2 0 0 0 0\n"
        );
        let dir = format!("{pid}/task/{tid}");
        self.write(&format!("{dir}/stat"), &stat);
        self.write(&format!("{dir}/schedstat"), &format!("{sched}\n"));
        self.write(&format!("{dir}/syscall"), &format!("{syscall}\n"));
        self.write(&format!("{dir}/wchan"), wchan);
        self.write(&format!("{pid}/stat"), &stat);
    }

    fn end(&self, path: &str) {
        fs::remove_dir_all(self.0.path().join(path)).unwrap();
    }

    fn options(&self) -> ThreadOptions {
        ThreadOptions {
            proc_root: self.0.path().into(),
            passwd: self.0.path().join("passwd"),
            ..ThreadOptions::default()
        }
    }

    fn open(&self) -> ThreadSampler {
        ThreadSampler::open(self.options()).unwrap()
    }
}

fn take(sampler: &mut ThreadSampler) -> ThreadsSample {
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    sample.threads.unwrap()
}

fn sample_once(sampler: &mut ThreadSampler) -> ThreadsSample {
    sampler.sample();
    take(sampler)
}

/// Data that is not available in the tree; real-time priority depends on this machine.
fn missing(sampler: &ThreadSampler) -> Vec<String> {
    let of_tree =
        sampler.missing().iter().filter(|m| !m.source.starts_with("samples taken on time"));
    of_tree.map(Unavailable::to_string).collect()
}

/// State, system call and wait channel of each thread, as sampled.
fn doings(sample: &ThreadsSample) -> Vec<(i32, char, &str, &str)> {
    let sampled = sample.active.iter().filter(|thread| thread.count > 0);
    sampled.map(|t| (t.tid, t.state, t.syscall.as_str(), t.wchan.as_str())).collect()
}

/// The states in which threads spent time.
fn states(sample: &ThreadsSample) -> Vec<ThreadState> {
    sample.times.iter().map(|time| time.state).collect()
}

#[test]
fn only_active_threads_are_reported() {
    let tree = Tree::new();
    tree.put(THREAD);
    tree.put(Thread {
        pid: 11,
        tid: 11,
        state: 'D',
        syscall: READS,
        wchan: "folio_wait",
        ..THREAD
    });
    let waiter = Thread { syscall: WAITS_IN_RING, wchan: "io_cqring_wait", ..THREAD };
    tree.put(Thread { pid: 12, tid: 12, ..waiter });
    tree.put(Thread { pid: 13, tid: 13, state: 'I', flags: 0x20_0000, ..THREAD });
    let mut sampler = tree.open();
    assert!(missing(&sampler).is_empty(), "{:?}", missing(&sampler));
    sampler.sample();
    let sample = sample_once(&mut sampler);
    assert_eq!((sample.samples, sample.seen), (2, 8));
    use ThreadState::{Disk, Futex, IoUring, KernelThread};
    assert_eq!(states(&sample), [Disk, IoUring, Futex, KernelThread]);
    let sum: u64 = sample.times.iter().map(|time| time.ns).sum();
    assert!(sample.elapsed_ns > 0);
    assert_eq!(sum, 4 * sample.elapsed_ns, "all time of all threads");
    let want = [(11, 'D', "pread64", "folio_wait"), (12, 'S', "io_uring_enter", "io_cqring_wait")];
    assert_eq!(doings(&sample), want);
    assert!(sample.active.iter().all(|thread| thread.count == 2 && !thread.torn));
    assert_eq!(sample_once(&mut sampler).samples, 1);

    let mut all =
        ThreadSampler::open(ThreadOptions { all_states: true, ..tree.options() }).unwrap();
    let all = sample_once(&mut all);
    assert_eq!(all.active.len(), 4);
    assert_eq!(doings(&all)[0], (10, 'S', "futex", "futex_do_wait"));
}

#[test]
fn on_cpu_and_runnable() {
    let tree = Tree::new();
    let runs = Thread { state: 'R', syscall: "running", wchan: "0", ..THREAD };
    tree.put(runs);
    tree.put(Thread { pid: 11, tid: 11, ..runs });
    let mut sampler = tree.open();
    tree.put(Thread { sched: "50001000 1000 1", ..runs });
    let sample = sample_once(&mut sampler);
    assert_eq!(doings(&sample), [(10, 'R', "", ""), (11, 'Q', "", "")]);
}

#[test]
fn a_brief_sleeper_is_asleep_though_it_is_sampled_running() {
    let tree = Tree::new();
    let reads =
        Thread { state: 'D', syscall: READS, wchan: "folio_wait", sched: "1000 1000 40", ..THREAD };
    tree.put(reads);
    let mut sampler = tree.open();
    let runs = Thread { state: 'R', syscall: "running", wchan: "0", ..THREAD };
    // It ran for 7 ns and waited for 2 in 40 timeslices.
    tree.put(Thread { sched: "1007 1002 80", ..runs });
    let sample = sample_once(&mut sampler);
    let by_state = |state| sample.active.iter().find(|t| t.state == state).map_or(0, |t| t.ns);
    assert_eq!((by_state('R'), by_state('Q')), (7, 2));
    assert_eq!(by_state('D'), sample.elapsed_ns - 9);
    assert_eq!(states(&sample), [ThreadState::OnCpu, ThreadState::Runnable, ThreadState::Disk]);
}

#[test]
fn brief_sleeps_are_not_attributed_to_a_long_one_before() {
    let tree = Tree::new();
    tree.put(THREAD);
    let mut sampler = tree.open();
    let runs = Thread { state: 'R', syscall: "running", wchan: "0", ..THREAD };
    tree.put(Thread { sched: "1007 1002 800", ..runs });
    sampler.sample();
    // It ran while it was being sampled.
    let reads =
        Thread { state: 'D', syscall: READS, wchan: "0", sched: "1014 1004 1600", ..THREAD };
    tree.put(reads);
    let sample = sample_once(&mut sampler);
    use ThreadState::{Disk, OnCpu, Runnable, Unknown};
    assert_eq!(states(&sample), [OnCpu, Runnable, Disk]);
    assert_eq!(sample.times[2].ns, sample.elapsed_ns - 18);
    // Without a sample asleep, the cause is unknown.
    tree.put(Thread { sched: "1021 1006 1601", ..runs });
    assert_eq!(states(&sample_once(&mut sampler)), [OnCpu, Runnable, Unknown]);
}

#[test]
fn sleeps_have_causes() {
    let read = |wchan| {
        let tree = Tree::new();
        let call = READS.replacen("17 ", "0 ", 1).replacen("67 ", "63 ", 1);
        tree.put(Thread { syscall: &call, wchan, ..THREAD });
        states(&sample_once(&mut tree.open()))
    };
    assert_eq!(read("anon_pipe_read"), [ThreadState::Pipe]);
    assert_eq!(read("unix_stream_read_generic"), [ThreadState::Socket]);
    assert_eq!(read("n_tty_read"), [ThreadState::Terminal]);
    assert_eq!(read("locks_lock_inode_wait"), [ThreadState::KernelLock]);
    assert_eq!(read("inotify_read"), [ThreadState::Other]);
    let woken = |file| {
        let tree = Tree::new();
        let call = READS.replacen("17 ", "0 ", 1).replacen("67 ", "63 ", 1);
        tree.put(Thread { syscall: &call, wchan: "wait_woken", ..THREAD });
        fs::create_dir_all(tree.0.path().join("10/fd")).unwrap();
        std::os::unix::fs::symlink(file, tree.0.path().join("10/fd/3")).unwrap();
        states(&sample_once(&mut tree.open()))
    };
    assert_eq!(woken("/dev/pts/0"), [ThreadState::Terminal]);
    assert_eq!(woken("socket:[4711]"), [ThreadState::Socket]);
    assert_eq!(woken("/data/file"), [ThreadState::Other]);
    let blocked = |wchan| ThreadState::uninterruptible(wchan);
    assert_eq!(blocked("ext4_buffered_write_iter"), ThreadState::KernelLock);
    assert_eq!(blocked("folio_wait_bit_common"), ThreadState::Disk);
    assert_eq!(blocked("__iomap_dio_rw"), ThreadState::Disk);
}

#[test]
fn details_are_read_once_per_sleep() {
    let tree = Tree::new();
    let sleeps = Thread { state: 'D', syscall: READS, wchan: "first", ..THREAD };
    tree.put(sleeps);
    let mut sampler = tree.open();
    // Inconsistent: without a timeslice it cannot sleep elsewhere.
    tree.put(Thread { wchan: "never", ..sleeps });
    assert_eq!(doings(&sample_once(&mut sampler)), [(10, 'D', "pread64", "first")]);
    tree.put(Thread { wchan: "second", sched: "2000 1000 2", ..sleeps });
    assert_eq!(doings(&sample_once(&mut sampler)), [(10, 'D', "pread64", "second")]);
}

#[test]
fn inconsistent_details_are_marked_and_not_cached() {
    let tree = Tree::new();
    tree.put(Thread { state: 'D', syscall: "running", wchan: "0", ..THREAD });
    let mut sampler = tree.open();
    let sample = sample_once(&mut sampler);
    assert_eq!((doings(&sample), sample.torn), (vec![], 1));
    assert_eq!(states(&sample), [ThreadState::Disk]);
    tree.put(Thread { state: 'D', syscall: READS, wchan: "folio_wait", ..THREAD });
    let sample = sample_once(&mut sampler);
    assert_eq!(doings(&sample), [(10, 'D', "pread64", "folio_wait")]);
    assert_eq!((sample.torn, states(&sample)), (0, vec![ThreadState::Disk]));
}

#[test]
fn threads_come_and_go() {
    let tree = Tree::new();
    tree.write("loadavg", "0.1 0.2 0.3 1/100 10\n");
    let works = Thread { state: 'D', ..THREAD };
    tree.put(works);
    let mut sampler = tree.open();
    // A new thread shows in the number of threads of its process.
    tree.put(Thread { threads: 2, ..works });
    tree.put(Thread { tid: 20, threads: 2, ..works });
    assert_eq!(doings(&sample_once(&mut sampler)).len(), 2);
    // A new process shows in the newest task ID.
    tree.put(Thread { pid: 21, tid: 21, ..works });
    assert_eq!(doings(&sample_once(&mut sampler)).len(), 2);
    tree.write("loadavg", "0.1 0.2 0.3 1/100 21\n");
    assert_eq!(doings(&sample_once(&mut sampler)).len(), 3);
    assert_eq!((sampler.processes(), sampler.threads()), (2, 3));
    // Without such signs it is found at the next listing.
    tree.put(Thread { pid: 22, tid: 22, ..works });
    let found = (0..members::LIST_EVERY).any(|_| doings(&sample_once(&mut sampler)).len() == 4);
    assert!(found);
    tree.end("10/task/20");
    tree.end("21");
    tree.put(works);
    (0..=members::LIST_EVERY).for_each(|_| sampler.sample());
    take(&mut sampler);
    let tids: Vec<i32> = doings(&sample_once(&mut sampler)).iter().map(|t| t.0).collect();
    assert_eq!(tids, [10, 22]);
}

#[test]
fn trees_and_patterns() {
    let tree = Tree::new();
    let of = |scope: Scope| {
        let mut sampler = ThreadSampler::open(ThreadOptions { scope, ..tree.options() }).unwrap();
        sample_once(&mut sampler).active.iter().map(|t| t.pid).collect::<Vec<_>>()
    };
    for (pid, parent, comm) in
        [(10, 1, "init"), (12, 14, "child"), (14, 10, "postgres"), (15, 1, "fio")]
    {
        tree.put(Thread { pid, tid: pid, comm, state: 'D', ..THREAD });
        let stat = format!(
            "{pid} ({comm}) D {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 2 0\n"
        );
        tree.write(&format!("{pid}/stat"), &stat);
        tree.write(&format!("{pid}/cmdline"), &format!("/usr/bin/{comm}\0--flag\0"));
    }
    assert_eq!(of(Scope::Machine), [10, 12, 14, 15]);
    assert_eq!(of(Scope::Trees(vec![10])), [10, 12, 14]);
    assert_eq!(of(Scope::Only(vec![10, 99])), [10]);
    let matching = |pattern: &str, descendants| Scope::Matching {
        pattern: Pattern::parse(pattern).unwrap(),
        descendants,
    };
    assert_eq!(of(matching("post|fio", false)), [14, 15]);
    assert_eq!(of(matching("post|fio", true)), [12, 14, 15]);
    assert_eq!(of(matching("bin/postgres --flag", false)), [14]);
}

#[test]
fn a_process_that_matches_after_exec() {
    let tree = Tree::new();
    let pattern = Pattern::parse("fio").unwrap();
    let scope = Scope::Matching { pattern, descendants: false };
    let mut sampler = ThreadSampler::open(ThreadOptions { scope, ..tree.options() }).unwrap();
    tree.put(Thread { comm: "sh", state: 'D', ..THREAD });
    assert!(sample_once(&mut sampler).active.is_empty());
    tree.put(Thread { comm: "fio", state: 'D', ..THREAD });
    assert_eq!(doings(&sample_once(&mut sampler)).len(), 1);
}

#[test]
fn io_uring_threads_are_attributed_to_their_owner() {
    let tree = Tree::new();
    let (threads, state) = (4, 'D');
    // Their system call in /proc is stale.
    let helper = Thread { state, flags: 0x10, threads, syscall: READS, ..THREAD };
    tree.put(Thread { threads, ..THREAD });
    tree.put(Thread { tid: 11, comm: "iou-sqp-10", ..helper });
    tree.put(Thread { tid: 12, comm: "iou-wrk-11", wchan: "folio_wait", ..helper });
    tree.put(Thread { tid: 13, comm: "iou-wrk-99", ..helper });
    let mut sampler = tree.open();
    let sample = sample_once(&mut sampler);
    let tied: Vec<_> = sample.active.iter().map(|t| (t.tid, t.works_for)).collect();
    assert_eq!(tied, [(11, Some(10)), (12, Some(10)), (13, None)]);
    assert_eq!(doings(&sample)[1], (12, 'D', "", "folio_wait"));
    assert!(sample.active.iter().all(|t| !t.torn));
}

#[test]
fn optional_fields() {
    let tree = Tree::new();
    tree.write("passwd", "root:x:0:0::/:/bin/sh\ndaemon:x:4711:1::/:/bin/false\nalias:x:4711:::\n");
    tree.write("self/stack", "");
    tree.put(Thread { state: 'D', syscall: READS, ..THREAD });
    tree.write("10/task/10/stack", "[<0>] inner+0x1/0x2\n[<0>] outer+0x3/0x4\n");
    tree.write("10/cmdline", "/bin/program\0-x\0");
    tree.write("10/status", "TextId:\tprogram\nUid:\t1\t4711\t4711\t4711\n");
    fs::create_dir_all(tree.0.path().join("10/fd")).unwrap();
    std::os::unix::fs::symlink("/data/file", tree.0.path().join("10/fd/3")).unwrap();
    let all = SampleParts { kstack: true, filename: true, cmdline: true, user: true, cpu: true };
    let mut sampler = ThreadSampler::open(ThreadOptions { parts: all, ..tree.options() }).unwrap();
    let seen = sample_once(&mut sampler).active.remove(0);
    // The innermost function is the wait channel, whose file is not read then.
    assert_eq!((seen.kstack.as_str(), seen.wchan.as_str()), ("outer;inner", "inner"));
    assert_eq!(seen.filename, "/data/file");
    assert_eq!(seen.cmdline, "/bin/program -x");
    assert_eq!(seen.user, "daemon");
    assert_eq!(seen.cpu, Some(2));
    let without = ThreadCount { ns: seen.ns, ..sample_once(&mut tree.open()).active.remove(0) };
    let (kstack, filename) = (String::new(), String::new());
    let (cmdline, user) = (String::new(), String::new());
    let wchan = "futex_do_wait".into();
    assert_eq!(without, ThreadCount { wchan, kstack, filename, cmdline, user, cpu: None, ..seen });
}

/// Number of read system calls of this thread; `None` if the kernel does not count them.
fn reads() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

#[test]
fn each_sample_reads_as_little_as_possible() {
    let Some(first) = reads() else {
        println!("skipped: requires CONFIG_TASK_IO_ACCOUNTING");
        return;
    };
    let of_reads = reads().unwrap() - first;
    let tree = Tree::new();
    tree.write("loadavg", "0.1 0.2 0.3 1/100 20\n");
    tree.write("self/stack", "");
    tree.write("10/task/10/stack", "[<0>] futex_do_wait+0x1/0x2\n");
    let all = ThreadOptions { all_states: true, ..tree.options() };
    let parts = SampleParts { kstack: true, ..SampleParts::default() };
    let stacks = ThreadOptions { parts, ..all.clone() };
    let rings = Thread { syscall: WAITS_IN_RING, ..THREAD };
    let runs = Thread { state: 'R', syscall: "running", ..THREAD };
    let idle = Thread { state: 'I', flags: 0x20_0000, ..THREAD };
    // Number of reads if it keeps sleeping, and if it has run.
    let cases = [
        ("asleep, not for I/O", tree.options(), THREAD, 2, 3),
        ("asleep for I/O", tree.options(), rings, 2, 6),
        ("asleep, all states", all, THREAD, 2, 6),
        ("asleep, with its stack", stacks, THREAD, 2, 6),
        ("running", tree.options(), runs, 2, 2),
        ("kernel thread at rest", tree.options(), idle, 2, 2),
    ];
    for (what, options, thread, still, moved) in cases {
        tree.put(thread);
        let mut sampler = ThreadSampler::open(options).unwrap();
        for (sched, expected) in [(thread.sched, still), ("2000 1000 9", moved)] {
            tree.put(Thread { sched, ..thread });
            let before = reads().unwrap();
            sampler.sample();
            let count = reads().unwrap() - before - of_reads;
            // Plus one for the newest task ID.
            assert_eq!(count, expected + 1, "{what}, {sched}");
        }
    }
}

#[test]
fn without_descriptors_files_are_opened_each_time() {
    let tree = Tree::new();
    tree.put(Thread { state: 'D', syscall: READS, ..THREAD });
    let mut sampler = tree.open();
    let kept = sample_once(&mut sampler);
    let mut sampler = tree.open();
    sampler.context.proc.set_open_max(0);
    tree.put(Thread { state: 'D', syscall: READS, sched: "1 1 9", ..THREAD });
    assert_eq!(doings(&sample_once(&mut sampler)), doings(&kept));
}

#[test]
fn without_schedstat_runnable_threads_are_on_cpu() {
    let tree = Tree::new();
    tree.end("self");
    tree.write("self/syscall", "running\n");
    tree.put(Thread { state: 'R', ..THREAD });
    tree.put(Thread { pid: 11, tid: 11, state: 'D', syscall: READS, ..THREAD });
    fs::remove_file(tree.0.path().join("10/task/10/schedstat")).unwrap();
    fs::remove_file(tree.0.path().join("11/task/11/schedstat")).unwrap();
    let mut sampler = tree.open();
    assert!(missing(&sampler)[0].contains("CONFIG_SCHED_INFO"));
    let sample = sample_once(&mut sampler);
    assert_eq!(doings(&sample), [(10, 'R', "", ""), (11, 'D', "pread64", "futex_do_wait")]);
    assert_eq!(sample.torn, 0);
}

#[test]
fn unavailable_data_is_named_once() {
    let tree = Tree::new();
    tree.end("1");
    let parts = SampleParts { kstack: true, ..SampleParts::default() };
    let sampler = ThreadSampler::open(ThreadOptions { parts, ..tree.options() }).unwrap();
    let missing = missing(&sampler);
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].contains("hidepid"), "{missing:?}");
    assert!(missing[1].contains("CAP_SYS_ADMIN"), "{missing:?}");
}

#[test]
fn threads_with_refused_system_calls_are_counted() {
    let tree = Tree::new();
    tree.put(THREAD);
    tree.put(Thread { pid: 11, tid: 11, ..THREAD });
    // Reading a directory fails, even for root.
    let path = tree.0.path().join("11/task/11/syscall");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let missing = missing(&tree.open());
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].contains("1 of 2 threads"), "{missing:?}");
    assert!(missing[0].contains("/11/task/11/syscall: permission denied"), "{missing:?}");
}

#[test]
fn invalid_options_are_rejected() {
    let tree = Tree::new();
    for hz in [0, 101] {
        let error = ThreadSampler::open(ThreadOptions { hz, ..tree.options() }).unwrap_err();
        assert!(error.to_string().contains("1 to 100"), "{error}");
    }
    let proc_root = "/nonexistent".into();
    let error = ThreadSampler::open(ThreadOptions { proc_root, ..tree.options() }).unwrap_err();
    assert!(error.to_string().contains("/nonexistent"), "{error}");
}

#[test]
fn names_are_bounded() {
    let tree = Tree::new();
    tree.put(Thread { state: 'D', syscall: READS, ..THREAD });
    let mut sampler = tree.open();
    for number in 0..70_000_u32 {
        sampler.context.names.intern(&number.to_le_bytes());
    }
    let before = sample_once(&mut sampler);
    assert!(!sampler.context.names.is_full());
    assert_eq!(doings(&sample_once(&mut sampler)), doings(&before));
}

#[test]
fn of_many_threads_the_less_active_ones_are_reported_together() {
    let tree = Tree::new();
    tree.put(THREAD);
    let mut sampler = tree.open();
    let names = [b"worker", b"server"].map(|name| sampler.context.names.intern(name));
    for tid in 1..=1500 {
        let mut sums = StateSums::default();
        sums[ThreadState::OnCpu as usize] = if tid > 400 { 1000 } else { 1 };
        sums[ThreadState::Timer as usize] = 5000;
        sampler.by_thread.insert(tid, (7, names, sums));
    }
    let threads = sampler.take_by_thread();
    assert_eq!(threads.len(), BY_THREAD_MAX + 1);
    let (rest, active) = threads.split_last().unwrap();
    assert!(active.iter().all(|thread| thread.tid > 400 && thread.others == 0));
    assert_eq!((rest.tid, rest.comm.as_str(), rest.others), (0, "server", 500));
    let sum: u64 = threads.iter().flat_map(|thread| &thread.times).map(|time| time.ns).sum();
    assert_eq!(sum, 1100 * 1000 + 400 + 1500 * 5000);
    assert!(sampler.by_thread.is_empty());
}
