use super::testing::Scene;
use super::*;
use crate::rules::testing::Case;
use fathom_model::Dir;
use fathom_model::facts::{DeviceFacts, HeldBy};
use fathom_model::finding::Subject;
use fathom_model::progress::Sample;
use fathom_model::watch::ThreadState;

fn ids(causes: &[Finding]) -> Vec<&str> {
    causes.iter().map(|cause| cause.rule.as_str()).collect()
}

/// The causes of the ten seconds after `change`.
fn causes(change: impl FnOnce(&mut Scene)) -> Vec<Finding> {
    let mut scene = Scene::reads();
    change(&mut scene);
    scene.causes()
}

#[test]
fn each_cause_is_named_among_others_and_its_near_miss_is_not() {
    for rule in RULES {
        for case in rule.cases {
            let near_miss = match case {
                Case::View { holds, near_miss, summary } => {
                    let found = causes(holds);
                    let named = found.iter().find(|cause| cause.rule == rule.id);
                    let named = named.map(|cause| cause.summary.as_str());
                    assert_eq!(named, Some(*summary), "{:?}", ids(&found));
                    near_miss
                }
                Case::NearMiss(near_miss) => near_miss,
                _ => continue,
            };
            let near = causes(near_miss);
            assert!(!ids(&near).contains(&rule.id), "{}: {:?}", rule.id, ids(&near));
        }
    }
}

#[test]
fn only_the_device_limits_plain_reads() {
    assert_eq!(ids(&causes(|_| ())), ["device"]);
}

#[test]
fn the_device_is_not_blamed_for_what_keeps_ios_from_it() {
    let changes: [fn(&mut Scene); 4] = [
        |s| s.io_limit(10_010),
        |s| s.tags(3.9, 99.0, 0.6),
        |s| s.stacked("dm-0", 16.0, 4.0),
        |s| s.scheduler("bfq", 600),
    ];
    for change in changes {
        let found = causes(change);
        assert!(!ids(&found).contains(&"device"), "{:?}", ids(&found));
    }
}

#[test]
fn a_small_cause_does_not_hide_the_device() {
    // The quota takes 6% of the time, the device 90%.
    let found = causes(|s| {
        (s.cgroup().cpu_limit, s.cgroup().throttled_us) = (Some(0.2), Some(600_000));
    });
    assert_eq!(ids(&found), ["device"]);
}

#[test]
fn refaults_of_the_machine_do_not_rule_out_the_device() {
    let found = causes(|s| s.memory_limit(50, 10_000));
    assert!(ids(&found).contains(&"device"), "{:?}", ids(&found));
}

#[test]
fn a_cpu_bound_machine_is_limited_by_its_cpus() {
    let found = causes(|s| {
        s.whole_machine();
        s.no_threads();
        s.hog(1.9, 2.0, 3.0);
        s.busy(98);
        s.scheduler("mq-deadline", 900);
        s.disk("vda", 50, 0.05, 4.7);
    });
    assert_eq!(ids(&found), ["busy-cpus"]);
}

/// What is said of a program that does next to nothing, on a busy machine, after `change`.
fn settle(change: impl FnOnce(&mut Scene)) -> String {
    let mut scene = Scene::reads();
    scene.no_threads();
    scene.hog(1.9, 0.0, 0.0);
    scene.disk("vda", 10, 0.1, 5.0);
    change(&mut scene);
    scene.inconclusive()
}

#[test]
fn an_idle_program_on_a_busy_machine() {
    let settled = settle(|_| ());
    assert!(settled.starts_with("the CPUs were 95% busy, but fio did not"), "{settled}");
}

#[test]
fn a_program_that_sleeps_gets_no_advice_for_its_ios() {
    let said = |state| settle(|s| s.state(state, 1.0));
    assert_eq!(
        said(ThreadState::Timer),
        "fio slept in a timer (1.00 threads), not waiting for a CPU or a disk."
    );
    assert_eq!(
        said(ThreadState::Pipe),
        "fio waited for input or another program (1.00 threads: pipe), not for a CPU or a disk."
    );
    assert_eq!(
        said(ThreadState::Stopped),
        "fio was stopped (1.00 threads), by a signal or a debugger."
    );
    // A timer beside as many busy threads is no reason.
    let settled = settle(|s| {
        s.state(ThreadState::Timer, 1.0);
        s.state(ThreadState::Disk, 1.0);
    });
    assert!(settled.starts_with("the CPUs were"), "{settled}");
    // It waits for a program that is known.
    let settled = settle(|s| {
        s.state(ThreadState::Socket, 1.0);
        s.others()[0].peer = true;
    });
    let peer = "fio waited for stress-ng (pid 812) (1.00 threads: socket). Watch that instead: fathom watch -p stress-ng";
    assert_eq!(settled, peer);
}

#[test]
fn a_program_that_ran_for_less_than_a_second_is_not_judged() {
    let mut scene = Scene::reads();
    let live = |scene: &mut Scene, ns| {
        scene.record.header.sampling.as_mut().unwrap().command.as_mut().unwrap().elapsed_ns = ns;
    };
    live(&mut scene, 900_000_000);
    let settle = "too short to tell: fio ran for only 900 ms. Run for at least several seconds";
    assert_eq!(scene.inconclusive(), settle);
    live(&mut scene, 1_100_000_000);
    assert_eq!(ids(&scene.verdict()), ["device"]);
    scene.job_of_its_own(Dir::Read, 16.0);
    scene.record.jobs[0].runtime_ns = 900_000_000;
    assert!(scene.causes().is_empty());
}

#[test]
fn a_run_that_ended_before_it_was_sampled_is_too_short() {
    let mut scene = Scene::reads();
    scene.job_of_its_own(Dir::Read, 16.0);
    let summary = |scene: &Scene, observed: &Observed| {
        let found = verdict(&scene.record, &[], observed);
        found.first().map(|found| found.summary.clone())
    };
    scene.record.jobs[0].runtime_ns = 100_000_000;
    let short = |time: &str| Some(format!("too short to tell: fathom ran for only {time}."));
    assert_eq!(summary(&scene, &Observed::default()), short("100 ms"));
    // Of 600 ms, the last 244 were sampled.
    scene.record.jobs[0].runtime_ns = 600_000_000;
    let mut late = Observed::default();
    for elapsed_ns in [0, 100_000_000, 244_000_000] {
        late.add(&Sample { elapsed_ns, ..Sample::default() });
    }
    assert_eq!(summary(&scene, &late), short("600 ms"));
    // Without sampling, nothing is said.
    scene.record.header.sampling = None;
    assert_eq!(summary(&scene, &Observed::default()), None);
}

#[test]
fn a_program_behind_its_own_lock_is_not_held_up_by_others() {
    let found = causes(|s| {
        s.lock(6.5, 0.3);
        s.hog(1.63, 0.3, 0.7);
    });
    assert_eq!(ids(&found), ["lock"]);
}

#[test]
fn few_samples_show_what_the_scheduler_holds_back_if_they_are_clear() {
    let is_held = |held_us: [u64; 2], counts: u64| {
        let found = causes(|s| {
            s.scheduler("bfq", 0);
            let blocks = &mut s.last.blocks.as_mut().unwrap().devices[0];
            (blocks.queue, blocks.driver) = Default::default();
            held_us.iter().for_each(|us| blocks.queue.record_n(us * 1000, counts / 2));
            blocks.driver.record_n(100_000, counts);
            blocks.ops[0].driver.clone_from(&blocks.driver);
        });
        ids(&found).contains(&"io-scheduler")
    };
    assert!(is_held([1000, 1000], 10));
    assert!(!is_held([1000, 1000], 8));
    // Of half of them, hardly anything was held.
    assert!(!is_held([1000, 5], 10));
}

#[test]
fn medians_of_the_same_requests_show_what_the_scheduler_holds_back() {
    let held = |change: fn(&mut Scene)| {
        let found = causes(|s| {
            s.scheduler("bfq", 600);
            change(s);
        });
        ids(&found).contains(&"io-scheduler")
    };
    assert!(held(|_| ()));
    // Most completions were not reported: of the millisecond that all requests take on average, as in flight and IOPS show.
    assert!(held(|s| s.held_requests_unended("vda", 600)));
    assert!(!held(|s| s.held_requests_unended("vda", 200)));
    // Sampled were slower ones than most.
    assert!(!held(|s| {
        s.held_requests_unended("vda", 600);
        s.disk("vda", 10_000, 5.0, 99.0);
    }));
    // await is far from what was sampled.
    assert!(!held(|s| s.disk("vda", 10_000, 150.0, 99.0)));
}

#[test]
fn time_refused_by_a_quota_is_not_another_programs() {
    let found = causes(|s| {
        s.throttled(7_800_000);
        s.hog(1.63, 0.4, 0.3);
    });
    assert_eq!(ids(&found)[0], "cgroup-cpu-quota");
    assert!(!ids(&found).contains(&"other-programs-cpu"));
}

#[test]
fn a_runs_own_threads_among_those_of_the_machine() {
    let found = causes(|s| {
        s.no_threads();
        s.threads("fathom-0", ThreadState::KernelLock, "pwrite64", "ext4_buffered_write_iter", 3.0);
        s.run_of_its_own(101);
    });
    assert_eq!(ids(&found), ["kernel-lock"]);
    assert!(found[0].summary.starts_with("3.0 of 3.0 busy threads of fathom"));
}

#[test]
fn without_a_cause_it_says_what_would_settle_it() {
    let mut scene = Scene::reads();
    scene.no_threads();
    scene.disk("vda", 10, 0.1, 5.0);
    let settle = scene.inconclusive();
    assert!(settle.contains("Change one setting"), "{settle}");
    scene.record.header.sampling.as_mut().unwrap().pids.clear();
    let settle = scene.inconclusive();
    assert!(settle.contains("fathom watch -p PID"), "{settle}");
    let mut once = Observed::default();
    once.add(&Sample::default());
    let found = verdict(&RunRecord::default(), &[], &once);
    assert!(found[0].summary.contains("fewer than two samples"), "{found:?}");
    assert_eq!(verdict(&RunRecord::default(), &[], &Observed::default()), []);
}

#[test]
fn the_verdict_ranks_what_explains_the_time() {
    let found = causes(|s| {
        s.throttled(7_800_000);
        s.disk("vda", 10_000, 16.0, 99.0);
    });
    assert_eq!((found[0].rule.as_str(), found[0].rank), ("cgroup-cpu-quota", Some(1)));
    let share = found[0].share_explained.unwrap();
    // It used up its quota: without others it would wait for that instead of them.
    assert!((share - 0.8).abs() < 1e-9, "{share}");
    assert_eq!(found[0].subject, Some(Subject::Cgroup { path: "/db".into() }));
    let gain = found[0].expected_gain.unwrap().throughput_ratio_max;
    assert!((gain - 1.0 / 0.2).abs() < 1e-6, "{gain}");
}

#[test]
fn own_cpu_time_comes_after_what_explains_as_much_and_has_a_remedy() {
    let first = |on_cpu: f64| {
        let found = causes(|s| {
            s.sync_reads(1.0);
            let (cpu, disk) = (ThreadState::OnCpu, ThreadState::Disk);
            s.spends(&[(cpu, on_cpu), (disk, 1.0 - on_cpu)]);
        });
        (found[0].rule.clone(), found.len())
    };
    assert_eq!(first(0.45), ("one-at-a-time".into(), 2));
    assert_eq!(first(0.52), ("one-at-a-time".into(), 2));
    assert_eq!(first(0.55), ("own-cpu-time".into(), 2));
}

#[test]
fn a_few_reads_of_the_page_cache_do_not_explain_the_cpu_time() {
    let first = |requested: u64| {
        let found = causes(|s| {
            s.spends(&[(ThreadState::OnCpu, 0.6), (ThreadState::Socket, 0.4)]);
            s.cached_reads(0);
            s.own().requested_read = requested;
            s.file(1 << 30, 1 << 30, false);
        });
        found[0].rule.clone()
    };
    assert_eq!(first(10 << 30), "not-on-disk");
    assert_ne!(first(110 << 20), "not-on-disk");
}

#[test]
fn the_process_whose_threads_show_it_is_the_subject() {
    let found = |state, function| {
        let all = causes(|s| s.is_served(4, state, function, 0.75));
        (all[0].subject.clone(), all[0].next_command.clone())
    };
    let server = Subject::Process { comm: "server".into(), pid: Some(900) };
    let (subject, _) = found(ThreadState::PageFault, "folio_wait_bit_common");
    assert_eq!(subject, Some(server.clone()));
    assert_eq!(found(ThreadState::Flush, "jbd2_log_wait_commit").0, Some(server));
    let (subject, command) = found(ThreadState::Futex, "futex_wait_queue");
    let threads = Subject::ThreadGroup { comm: "server".into(), wchan: "futex".into() };
    assert_eq!(subject, Some(threads));
    assert_eq!(command.as_deref(), Some("fathom stacks -p 900"));
}

#[test]
fn what_a_peer_reads_is_no_other_programs() {
    // As many threads as there are I/Os in flight; then, more are those of others.
    let scene = |in_flight: f64| {
        causes(|s| {
            s.is_served(4, ThreadState::Disk, "folio_wait_bit_common", 0.9);
            s.other("dd", 0.1, 400_000_000);
            s.disk("vda", 10_000, in_flight, 99.0);
        })
    };
    assert!(!ids(&scene(4.0)).contains(&"other-programs-io"));
    let found = scene(36.0);
    assert_eq!(found[0].rule, "other-programs-io", "{:?}", ids(&found));
    let whose = "were neither fio's nor those of its peers; of other programs, dd (pid 812)";
    assert!(found[0].summary.contains(whose), "{}", found[0].summary);
}

#[test]
fn the_gain_is_that_of_the_share() {
    let gains = |change: fn(&mut Scene)| {
        let all = causes(change);
        let gain = all[0].expected_gain.map(|gain| gain.throughput_ratio_max);
        (all[0].rule.clone(), gain.map(|gain| (gain * 10.0).round() / 10.0))
    };
    let (rule, gain) = gains(|s| s.disk_waits("folio_wait_bit_common", 0.75));
    assert_eq!((rule.as_str(), gain), ("device", Some(4.0)));
    let (rule, gain) =
        gains(|s| s.spends(&[(ThreadState::Timer, 0.75), (ThreadState::OnCpu, 0.25)]));
    assert_eq!((rule.as_str(), gain), ("timer", None));
}

#[test]
fn each_cause_has_a_subject() {
    for rule in RULES {
        for case in rule.cases {
            let Case::View { holds, .. } = case else { continue };
            let found = causes(holds);
            assert!(found.iter().all(|cause| cause.subject.is_some()), "{found:?}");
        }
    }
}

#[test]
fn who_syncs_once_is_not_advised_to_sync_less_often() {
    let step = |count: u64, seen_ns: u64| {
        let mut scene = Scene::reads();
        scene.syncs(0.7);
        scene.calls("fdatasync", count, seen_ns);
        let causes = scene.causes();
        causes.iter().find(|cause| cause.rule == "fsync").unwrap().next_step.clone().unwrap()
    };
    assert!(step(1, 10_000_000_000).starts_with("One sync waits for all data written before it"));
    assert!(step(2, 10_000_000_000).starts_with("Sync less often"));
    // A sixteenth of the time was recorded.
    assert!(step(1, 625_000_000).starts_with("Sync less often"));
    let mut scene = Scene::reads();
    scene.syncs(0.7);
    scene.last.disks[0].flush.ios = 3;
    scene.calls("fsync", 1, 4_000_000_000);
    let cause = scene.causes().into_iter().find(|cause| cause.rule == "fsync").unwrap();
    assert!(cause.next_step.is_some_and(|step| step.starts_with("One sync waits for all data")));
}

#[test]
fn flushes_without_a_known_time_have_none() {
    let mut scene = Scene::reads();
    scene.syncs(0.7);
    scene.flushes("vda", 1, 0);
    let cause = scene.causes().into_iter().find(|cause| cause.rule == "fsync").unwrap();
    let names: Vec<&str> = cause.evidence.iter().map(|evidence| evidence.name.as_str()).collect();
    assert!(names.contains(&"flushes/s on vda") && !names.contains(&"f_await"), "{names:?}");
}

#[test]
fn stacked_devices_of_others_do_not_limit_a_run() {
    let of = |held: HeldBy, device: &str| {
        let mut scene = Scene::idle();
        scene.stacked("loop0", 16.0, 2.0);
        scene.job_on(held);
        let device = DeviceFacts { name: device.into(), ..DeviceFacts::default() };
        scene.record.header.facts.targets[0].device = Some(device);
        let observed = scene.observed();
        let view = View::new(&scene.record, &[], &observed);
        view.disks().iter().map(|disk| disk.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(HeldBy::Device, "vda"), ["vda"]);
    assert_eq!(of(HeldBy::Device, "loop0"), ["loop0", "vda"]);
    assert_eq!(of(HeldBy::AnyDisk, "vda"), ["loop0", "vda"]);
    assert_eq!(of(HeldBy::Devices(vec!["vdb".into()]), "vdb"), ["vda"]);
    assert_eq!(of(HeldBy::Hidden, "vda"), ["vda"]);
}
