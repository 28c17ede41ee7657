use super::testing::Scene;
use super::*;
use crate::rules::testing::Case;
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
            let Case::View { holds, near_miss, summary } = case else { continue };
            let found = causes(holds);
            let named = found.iter().find(|cause| cause.rule == rule.id);
            assert_eq!(named.map(|c| c.summary.as_str()), Some(*summary), "{:?}", ids(&found));
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

#[test]
fn an_idle_program_on_a_busy_machine() {
    let mut scene = Scene::reads();
    scene.no_threads();
    scene.hog(1.9, 0.0, 0.0);
    scene.state(ThreadState::Timer, 1.0);
    scene.disk("vda", 10, 0.1, 5.0);
    let Limiters::Inconclusive(settle) = scene.limiters() else { panic!("a cause of nothing") };
    assert!(settle.starts_with("the CPUs were 95% busy, but fio did not"), "{settle}");
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
    let Limiters::Inconclusive(settle) = scene.limiters() else { panic!("a cause of nothing") };
    assert!(settle.contains("Change one setting"), "{settle}");
    scene.record.watch.as_mut().unwrap().pids.clear();
    let Limiters::Inconclusive(settle) = scene.limiters() else { panic!("a cause of nothing") };
    assert!(settle.contains("fathom watch -p PID"), "{settle}");
    let empty = limiters(&RunRecord::default(), &ObservedTotals::default(), &[]);
    let Limiters::Inconclusive(settle) = empty else { panic!("a cause of nothing") };
    assert!(settle.contains("fewer than two samples"), "{settle}");
}
