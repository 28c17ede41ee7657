use super::testing::{SECONDS, Scene, reads};
use super::*;
use fathom_model::watch::{DeviceBlocks, StackCount, StacksSample};

/// A change that makes a cause hold, and one that nearly does.
struct Case {
    id: &'static str,
    holds: fn(&mut Scene),
    near_miss: fn(&mut Scene),
    summary: &'static str,
}

fn ids(causes: &[Finding]) -> Vec<&str> {
    causes.iter().map(|cause| cause.rule.as_str()).collect()
}

fn io_limit(scene: &mut Scene, limit: u64) {
    scene.cgroup().io_limits = vec![format!("/db vda riops={limit}")];
}

fn hog(scene: &mut Scene, cpus: f64, runnable: f64) {
    scene.busy(95);
    scene.other("stress-ng", cpus, 0);
    scene.state(ThreadState::Runnable, runnable);
    scene.state(ThreadState::OnCpu, 0.4);
}

fn memory(scene: &mut Scene, hits: u64, reclaimed: u64) {
    let group = scene.cgroup();
    (group.memory_limit, group.memory_used) = (Some(64 << 20), Some(64 << 20));
    group.memory_hits = Some(hits * SECONDS);
    scene.system().paging.steal_file = reclaimed * SECONDS;
    scene.system().paging.refault_file = reclaimed * SECONDS;
}

fn syncs(scene: &mut Scene, syncing: f64) {
    scene.no_threads();
    scene.state(ThreadState::OnCpu, 1.0 - syncing);
    scene.threads("fio", ThreadState::Disk, "fdatasync", "jbd2_log_wait_commit", syncing);
    scene.disk("vda", 0, 0.6, 60.0);
    let disk = &mut scene.last.disks[0];
    (disk.flush.ios, disk.flush.ticks_ms) = (500 * SECONDS, 2000);
}

fn sync_reads(scene: &mut Scene, threads: f64) {
    scene.no_threads();
    scene.threads("fio", ThreadState::Disk, "pread64", "folio_wait_bit_common", threads);
    scene.state(ThreadState::OnCpu, 0.2);
    scene.disk("vda", 10_000, threads, 99.0);
}

fn lock(scene: &mut Scene, waiting: f64, running: f64) {
    scene.no_threads();
    scene.state(ThreadState::FutexBrief, waiting);
    scene.state(ThreadState::OnCpu, running);
    scene.disk("vda", 0, 0.0, 0.0);
}

fn workers(scene: &mut Scene, mean: f64) {
    scene.threads("iou-wrk-101", ThreadState::Disk, "", "folio_wait_bit_common", mean);
}

fn tags(scene: &mut Scene, queue: f64, waiting: f64) {
    scene.device().nr_requests = Some(4);
    scene.disk("vda", 10_000, queue, 99.0);
    scene.threads("fio", ThreadState::Disk, "io_submit", "blk_mq_get_tag", waiting);
}

/// The scheduler `name`, in which I/Os spend this part of the millisecond that they take.
fn scheduler(scene: &mut Scene, name: &str, held_us: u64) {
    scene.device().scheduler = Some(name.into());
    let mut blocks = DeviceBlocks { name: "vda".into(), ..DeviceBlocks::default() };
    blocks.queue.record_n(held_us * 1000, 1000);
    scene.disk("vda", 10_000, 10.0, 99.0);
    let devices = vec![blocks];
    scene.last.blocks = Some(fathom_model::watch::BlocksSample { devices, ..Default::default() });
}

fn from_memory(scene: &mut Scene, disk_read: u64) {
    let own = scene.own();
    (own.requested_read, own.disk_read) = (SECONDS << 30, disk_read);
}

fn swaps(scene: &mut Scene, pages: u64) {
    scene.system().paging.swap_in = pages * SECONDS;
    scene.disk("zram0", pages, 0.1, 10.0);
}

fn computes(scene: &mut Scene, running: f64) {
    scene.no_threads();
    scene.state(ThreadState::OnCpu, running);
    scene.state(ThreadState::IoUring, 1.0 - running);
}

const CASES: [Case; 19] = [
    Case {
        id: "cgroup-io-limit",
        holds: |s| io_limit(s, 10_010),
        near_miss: |s| io_limit(s, 12_000),
        summary: "The cgroup /db allows 10k reads/s on vda (riops); it reached 10k.",
    },
    Case {
        id: "cgroup-cpu-quota",
        holds: |s| {
            (s.cgroup().cpu_limit, s.cgroup().throttled_us) = (Some(0.2), Some(7_800_000));
        },
        near_miss: |s| {
            (s.cgroup().cpu_limit, s.cgroup().throttled_us) = (Some(0.2), Some(400_000));
        },
        summary: "The cgroup /db may use 0.20 CPUs; it was throttled for 78% of the time.",
    },
    Case {
        id: "cgroup-memory-limit",
        holds: |s| memory(s, 50, 1000),
        near_miss: |s| memory(s, 0, 1000),
        summary: "The cgroup may use 64 MiB of memory; the limit was hit 50 times/s, and pages had to be reclaimed.",
    },
    Case {
        id: "other-programs-cpu",
        holds: |s| hog(s, 1.63, 0.3),
        near_miss: |s| hog(s, 1.63, 0.03),
        summary: "stress-ng (pid 812) used 1.63 of 2 CPUs, fio itself 0.10; its threads waited for a CPU 43% of the \
                  time that they wanted one.",
    },
    Case {
        id: "other-programs-io",
        holds: |s| s.other("dd", 0.1, 10 * 40_960_000),
        near_miss: |s| s.other("dd", 0.1, 40_960_000 / 10),
        summary: "fio read and wrote 9% of the bytes on the disks; dd (pid 812) did 91%.",
    },
    Case {
        id: "fsync",
        holds: |s| syncs(s, 0.7),
        near_miss: |s| syncs(s, 0.2),
        summary: "fio waits for fsync and the journal 70% of the time.",
    },
    Case {
        id: "one-at-a-time",
        holds: |s| sync_reads(s, 0.8),
        near_miss: |s| sync_reads(s, 1.8),
        summary: "fio does one read at a time: 0.8 I/Os were in flight on average, 10k reads/s on vda. Latency, not \
                  throughput, limits it.",
    },
    Case {
        id: "lock",
        holds: |s| lock(s, 6.5, 1.0),
        // Threads that wait for work.
        near_miss: |s| lock(s, 6.5, 0.1),
        summary: "Threads of fio wait for each other: 6.5 of 7.5 were in futex(2) on average, each for a short time, \
                  while 1.0 ran.",
    },
    Case {
        id: "io-wq",
        holds: |s| workers(s, 4.0),
        near_miss: |s| workers(s, 0.1),
        summary: "io_uring hands I/Os of fio to worker threads (io-wq): 4.0 of them were active on average. Each \
                  I/O there costs thread switches.",
    },
    Case {
        id: "queue-requests",
        holds: |s| tags(s, 3.9, 0.6),
        // The device is full, but nobody waits for it.
        near_miss: |s| tags(s, 3.9, 0.0),
        summary: "vda takes 4 requests (nr_requests) for each of its hardware queues, of which it has 1; 3.9 were in \
                  flight there while it was busy, and more I/Os waited for one.",
    },
    Case {
        id: "io-scheduler",
        holds: |s| scheduler(s, "bfq", 600),
        near_miss: |s| scheduler(s, "none", 600),
        summary: "The I/O scheduler bfq of vda holds I/Os back: they spent 60% of their time there, and 0% of the \
                  CPU time went to it.",
    },
    Case {
        id: "io-scheduler",
        holds: |s| scheduler(s, "mq-deadline", 400),
        near_miss: |s| scheduler(s, "mq-deadline", 100),
        summary: "The I/O scheduler mq-deadline of vda holds I/Os back: they spent 40% of their time there, and 0% \
                  of the CPU time went to it.",
    },
    Case {
        id: "not-on-disk",
        holds: |s| {
            from_memory(s, 0);
            s.file(1 << 30, 4096, false);
        },
        near_miss: |s| {
            from_memory(s, SECONDS << 29);
            s.file(1 << 30, 4096, false);
        },
        summary: "/data/file is sparse, 4 KiB of 1 GiB allocated: holes are read without I/O.",
    },
    Case {
        id: "not-on-disk",
        holds: |s| {
            from_memory(s, SECONDS << 24);
            s.file(1 << 30, 1 << 30, false);
        },
        near_miss: |s| from_memory(s, SECONDS << 28),
        summary: "fio requested 1 GiB/s from the page cache: 1.6% came from a disk.",
    },
    Case {
        id: "not-on-disk",
        holds: |s| {
            from_memory(s, 0);
            s.file(1 << 30, 1 << 30, true);
        },
        near_miss: |s| s.file(1 << 30, 1 << 30, true),
        summary: "/data/file is on a file system in memory (tmpfs): no disk is involved.",
    },
    Case {
        // I/O through io_uring and aio does not count as requested.
        id: "not-on-disk",
        holds: |s| {
            computes(s, 0.95);
            s.own().disk_read = 0;
            s.file(1 << 30, 4096, false);
            s.last.processes.as_mut().unwrap().files[0].direct = true;
        },
        near_miss: |s| {
            computes(s, 0.95);
            s.own().disk_read = 0;
            s.file(1 << 30, 4096, false);
        },
        summary: "/data/file is sparse, 4 KiB of 1 GiB allocated: holes are read without I/O.",
    },
    Case {
        id: "one-at-a-time",
        holds: |s| sync_reads(s, 0.5),
        // Reads that hit the page cache.
        near_miss: |s| {
            sync_reads(s, 0.5);
            s.disk("vda", 100, 0.02, 2.0);
        },
        summary: "fio does one read at a time: 0.5 I/Os were in flight on average, 10k reads/s on vda. Latency, not \
                  throughput, limits it.",
    },
    Case {
        id: "swapping",
        holds: |s| swaps(s, 5000),
        near_miss: |s| swaps(s, 50),
        summary: "Memory is short: 19.5 MiB/s were read from swap on zram0 and 0 B/s written to it.",
    },
    Case {
        id: "own-cpu-time",
        holds: |s| computes(s, 0.95),
        near_miss: |s| computes(s, 0.6),
        summary: "fio spends its time on the CPU: 0.9 of its 1.0 busy threads ran on average, on 2 CPUs.",
    },
];

#[test]
fn each_cause_is_named_and_a_near_miss_is_not() {
    for case in CASES {
        let (mut holds, mut near) = (reads(), reads());
        (case.holds)(&mut holds);
        (case.near_miss)(&mut near);
        let causes = holds.causes();
        let cause = causes.iter().find(|cause| cause.rule == case.id);
        let summary = cause.map(|cause| cause.summary.as_str());
        assert_eq!(summary, Some(case.summary), "{:?}", ids(&causes));
        assert!(!ids(&near.causes()).contains(&case.id), "{}: {:?}", case.id, ids(&near.causes()));
    }
}

#[test]
fn only_the_device_limits_plain_reads() {
    let causes = reads().causes();
    assert_eq!(ids(&causes), ["device"]);
    assert_eq!(
        causes[0].summary,
        "fio waits for vda 90% of the time: 16.0 I/Os were in flight there on average, 10k reads/s, which took \
         1.6 ms each."
    );
}

#[test]
fn the_device_is_not_blamed_for_what_holds_back_its_ios() {
    for change in [|s: &mut Scene| io_limit(s, 10_010), |s: &mut Scene| tags(s, 3.9, 0.6)] {
        let mut scene = reads();
        change(&mut scene);
        let causes = scene.causes();
        assert!(!ids(&causes).contains(&"device"), "{:?}", ids(&causes));
    }
}

#[test]
fn without_a_program_it_is_the_machine_that_waits() {
    let mut scene = reads();
    let watch = scene.record.watch.as_mut().unwrap();
    (watch.command, watch.pids) = (None, Vec::new());
    scene.own().comm.clear();
    let causes = scene.causes();
    assert_eq!(ids(&causes), ["device"]);
    assert!(causes[0].summary.starts_with("This machine waits for vda"), "{}", causes[0].summary);
}

#[test]
fn time_refused_by_a_quota_is_not_another_programs() {
    let mut scene = reads();
    hog(&mut scene, 1.63, 0.3);
    (scene.cgroup().cpu_limit, scene.cgroup().throttled_us) = (Some(0.2), Some(7_800_000));
    assert_eq!(ids(&scene.causes())[0], "cgroup-cpu-quota");
    assert!(!ids(&scene.causes()).contains(&"other-programs-cpu"));
}

#[test]
fn the_io_schedulers_cpu_time() {
    let mut scene = reads();
    scene.device().scheduler = Some("bfq".into());
    let kernel = ["do_syscall_64", "blk_mq_submit_bio", "bfq_insert_requests"];
    let kernel = kernel.map(String::from).to_vec();
    scene.stacks = vec![Stack { kernel, ..Stack::default() }];
    let sampled = |count| StacksSample {
        counts: vec![StackCount { stack: 0, count, period: 1000, ..StackCount::default() }],
        ..StacksSample::default()
    };
    scene.last.stacks = Some(sampled(199));
    assert_eq!(ids(&scene.causes()), ["device"]);
    scene.last.stacks = Some(sampled(200));
    assert_eq!(ids(&scene.causes()), ["io-scheduler"]);
}

#[test]
fn without_a_cause_it_says_what_would_settle_it() {
    let mut scene = reads();
    scene.no_threads();
    scene.disk("vda", 10, 0.1, 5.0);
    let Limiters::Inconclusive(settle) = scene.limiters() else { panic!("a cause of nothing") };
    assert!(settle.contains("Change one setting"), "{settle}");
    scene.record.watch.as_mut().unwrap().pids.clear();
    let Limiters::Inconclusive(settle) = scene.limiters() else { panic!("a cause of nothing") };
    assert!(settle.contains("fathom watch -p PID"), "{settle}");
    let empty = limiters(&RunRecord::default(), &ObservedTotals::default(), &[]);
    let Limiters::Inconclusive(settle) = empty else { panic!("a cause of nothing") };
    assert!(settle.contains("fewer than two samples"), "{settle}");
}
