use super::*;
use crate::rules::Check;
use fathom_model::facts::{DeviceFacts, TargetFacts};
use fathom_model::plan::{Logs, Mix, Rate, SqPoll, Target, Think, Uring};
use fathom_model::record::Usage;
use fathom_model::window::Ratio;

fn job(engine: Engine) -> JobPlan {
    let mut job = JobPlan::new("a", engine, Mix::Only(Dir::Read), Order::Sequential { skip: 0 });
    (job.direct, job.invalidate) = (true, true);
    job.regions = vec![Region { target: 0, start: 0, len: 1 << 20 }];
    job
}

fn plan(jobs: &[JobPlan]) -> Plan {
    Plan { jobs: jobs.to_vec(), ..Plan::default() }
}

fn uring() -> Engine {
    Engine::IoUring(Uring::default())
}

/// The test of a limiter of this rule on vda, on a machine with two CPUs.
fn test(rule: &str, base: &Plan) -> Result<ConfirmationTest, String> {
    let mut record = RunRecord::default();
    let facts = &mut record.header.facts;
    facts.host.cpus_allowed = vec![0, 1];
    let scheduler = Some("bfq".to_string());
    let device = DeviceFacts {
        name: "vda".into(),
        nr_requests: Some(64),
        scheduler,
        ..DeviceFacts::default()
    };
    facts.targets = vec![TargetFacts { device: Some(device), ..TargetFacts::default() }];
    let subject = Some(Subject::device("vda"));
    confirmation_test(
        &record,
        Workload::Jobs(base),
        &Finding { rule: rule.into(), subject, ..Finding::default() },
    )
}

#[test]
fn tests_belong_to_limiters_of_runs() {
    let tested = || RULES.iter().filter(|rule| Confirmation::of(rule).is_some());
    for rule in tested() {
        let judges_runs = rule.checks.iter().any(|check| matches!(check, Check::View(_)));
        assert!(judges_runs && !rule.limits.is_empty(), "{}", rule.id);
    }
    assert_eq!(tested().count(), 18);
    let error = test("swapping", &plan(&[job(uring())])).unwrap_err();
    assert_eq!(error, "there is no confirmation test for this cause");
}

#[test]
fn other_programs_are_changed_from_outside_only() {
    let mut record = RunRecord::default();
    record.header.facts.host.cpus_online = 4;
    let of = |rule: &str| {
        let subject = Some(Subject::device("vda"));
        let finding = Finding { rule: rule.into(), subject, ..Finding::default() };
        confirmation_test(&record, Workload::Processes(&[7, 8]), &finding)
    };
    let changes = |rule: &str| {
        let test = of(rule).unwrap();
        assert_eq!((test.metric, test.plan.jobs.len()), (Metric::Bandwidth, 0));
        test.settings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(changes("io-scheduler"), ["scheduler of /dev/vda=none"]);
    assert_eq!(changes("readahead"), ["read_ahead_kb of /dev/vda=0"]);
    assert_eq!(changes("cgroup-cpu-quota"), ["cpu_max of 7=max", "cpu_max of 8=max"]);
    assert_eq!(changes("cgroup-io-limit"), ["io_max of 7=max", "io_max of 8=max"]);
    assert_eq!(changes("cgroup-io-weight"), ["io_weight of 7=1000", "io_weight of 8=1000"]);
    assert_eq!(changes("other-programs-cpu"), ["cpu_affinity of 7=0-3", "cpu_affinity of 8=0-3"]);
    for rule in ["device", "one-at-a-time", "fsync", "io-wq", "interrupt-cpu"] {
        assert!(of(rule).unwrap_err().contains("only the program itself"), "{rule}");
    }
}

#[test]
fn jobs_may_use_all_cpus_only_if_they_are_pinned() {
    let mut pinned = job(uring());
    pinned.placement.cpus = vec![1];
    let free = test("busy-cpus", &plan(&[pinned, job(uring())])).unwrap();
    assert!(free.plan.jobs.iter().all(|job| job.placement.cpus.is_empty()));
    let error = test("busy-cpus", &plan(&[job(uring())])).unwrap_err();
    assert_eq!(error, "its jobs may use all CPUs already");
}

#[test]
fn jobs_poll_where_the_device_can() {
    let found = |io_poll: Option<bool>, change: &dyn Fn(&mut JobPlan)| {
        let mut record = RunRecord::default();
        record.header.facts.host.cpus_allowed = vec![0, 1];
        let device = DeviceFacts { name: "vda".into(), io_poll, ..DeviceFacts::default() };
        let (path, device) = ("a".to_string(), Some(device));
        record.header.facts.targets = vec![TargetFacts { path, device, ..Default::default() }];
        record.plan = plan(&[job(uring())]);
        record.plan.targets = vec![Target { path: "a".into(), ..Target::default() }];
        change(&mut record.plan.jobs[0]);
        let usage = Usage { user_ns: 50, system_ns: 45, ..Usage::default() };
        record.jobs = vec![JobRecord { runtime_ns: 100, usage, ..JobRecord::default() }];
        let finding = Finding { rule: "interrupt-cpu".into(), ..Finding::default() };
        confirmation_test(&record, Workload::Jobs(&record.plan), &finding)
    };
    let same = |_: &mut JobPlan| ();
    let test = found(Some(true), &same).unwrap();
    assert!(test.plan.jobs[0].engine.is_polled());
    assert_eq!(test.experiment, "polling for completions (hipri)");
    // A poller needs a CPU that has time.
    let none = Ratio { value: 1.0, low: 0.98, high: 1.02 };
    let effect = Effect {
        ratio: Some(none),
        ratio_99: Some(none),
        pairs: 12,
        claim: Claim::NoneAbove(0.02),
    };
    let judged = test.judge(&effect);
    assert_eq!(judged.verdict, ConfirmedVerdict::Inconclusive);
    assert!(judged.reason.unwrap().contains("so polling could gain nothing"));
    let error = |io_poll, change: &dyn Fn(&mut JobPlan)| found(io_poll, change).unwrap_err();
    assert!(error(Some(false), &same).starts_with("vda has no queues for polled I/O"));
    assert!(error(None, &same).starts_with("vda has no queues for polled I/O"));
    assert_eq!(error(Some(true), &|job| job.direct = false), "only direct I/O is polled");
    assert_eq!(error(Some(true), &|job| job.sync.fsync_every = 1), "polled rings do not flush");
    let libaio = |job: &mut JobPlan| job.engine = Engine::Libaio;
    assert_eq!(error(Some(true), &libaio), "libaio does not poll; io_uring does");
    let polled = |job: &mut JobPlan| {
        job.engine = Engine::IoUring(Uring { iopoll: true, ..Uring::default() });
    };
    assert_eq!(error(Some(true), &polled), "its jobs poll already");
}

#[test]
fn more_ios_are_in_flight_by_depth_or_by_jobs() {
    let deeper = test("device", &plan(&[JobPlan { depth: 16, ..job(uring()) }])).unwrap();
    assert_eq!((deeper.plan.jobs.len(), deeper.plan.jobs[0].depth), (1, 32));
    assert_eq!(deeper.experiment, "doubling the queue depth");
    let psync = || job(Engine::Psync(Psync::Plain));
    let more = test("one-at-a-time", &plan(&[psync()])).unwrap();
    assert_eq!(
        (more.plan.jobs.len(), more.experiment.as_str()),
        (2, "doubling the number of jobs")
    );
    // The second job does not read what the first has just read.
    let second = more.plan.jobs[1].regions[0];
    assert_eq!((second.start, second.len), (1 << 19, 1 << 19));
    let both = test("one-at-a-time", &plan(&[psync(), job(uring())])).unwrap();
    let depths: Vec<u32> = both.plan.jobs.iter().map(|job| job.depth).collect();
    assert_eq!((depths, both.experiment.as_str()), (vec![1, 2, 1], "doubling the I/Os in flight"));
    let deepest = plan(&[JobPlan { depth: DEPTH_MAX, ..job(uring()) }]);
    assert!(test("device", &deepest).unwrap_err().contains("iodepth=32768"));
    let mut short = psync();
    short.regions[0].len = 4096;
    assert!(test("device", &plan(&[short])).unwrap_err().contains("too few blocks"));
}

#[test]
fn one_thing_is_changed() {
    let two = test("own-cpu-time", &plan(&[job(uring())])).unwrap();
    assert_eq!((two.plan.jobs.len(), two.plan.jobs[1].depth), (2, 1));
    assert!(test("own-cpu-time", &two.plan).unwrap_err().contains("no other CPU"));
    let buffered = JobPlan { direct: false, ..job(uring()) };
    assert!(test("io-wq", &plan(&[buffered])).unwrap().plan.jobs[0].direct);
    assert!(test("blocking-submit", &plan(&[job(uring())])).is_err());
    let mut flushed = job(uring());
    flushed.sync.fsync_every = 1;
    let unflushed = test("fsync", &plan(&[flushed])).unwrap();
    assert_eq!(unflushed.plan.jobs[0].sync, FlushPlan::default());
    assert!(test("fsync", &plan(&[job(uring())])).is_err());
    let deep = JobPlan { depth: 64, ..job(uring()) };
    let batches = test("small-batches", &plan(&[deep])).unwrap().plan.jobs[0].batch;
    assert_eq!((batches.submit_max, batches.complete_min), (Some(16), 16));
    assert!(test("small-batches", &plan(&[job(uring())])).is_err());
    let sqpoll = Some(SqPoll { cpu: Some(0), idle_ms: None });
    let polled = job(Engine::IoUring(Uring { sqpoll, ..Uring::default() }));
    let plain = test("sqpoll-starved", &plan(&[polled])).unwrap().plan;
    assert_eq!(plain.jobs[0].engine.uring().unwrap().sqpoll, None);
    assert!(test("sqpoll-starved", &plain).is_err());
    let base = plan(&[job(uring())]);
    for (rule, change) in [
        ("io-scheduler", "scheduler of /dev/vda=none"),
        ("queue-requests", "nr_requests of /dev/vda=128"),
    ] {
        let test = test(rule, &base).unwrap();
        let settings: Vec<String> = test.settings.iter().map(ToString::to_string).collect();
        assert_eq!((settings, test.plan), (vec![change.to_string()], base.clone()));
    }
}

#[test]
fn windows_end_by_time_and_do_nothing_new() {
    let mut whole = job(uring());
    whole.until.bytes = Some(1 << 20);
    (whole.start_delay_ns, whole.exitall, whole.logs) = (1, true, Some(Logs::default()));
    let base = repeatable(&plan(&[whole.clone()])).unwrap();
    assert_eq!(base.jobs[0].until, Until::default());
    assert_eq!((base.jobs[0].start_delay_ns, base.jobs[0].exitall), (0, false));
    assert!(base.jobs[0].logs.is_none());
    let why = |change: &dyn Fn(&mut JobPlan)| {
        let mut job = whole.clone();
        change(&mut job);
        repeatable(&plan(&[job])).err().unwrap_or_default()
    };
    assert_eq!(why(&|_| ()), "");
    let writes = |job: &mut JobPlan| job.access.mix = Mix::Only(Dir::Write);
    assert_eq!(why(&writes), "");
    let buffered =
        |job: &mut JobPlan| (job.access.mix, job.direct) = (Mix::Only(Dir::Write), false);
    assert!(why(&buffered).contains("page cache"));
    let flushed = |job: &mut JobPlan| {
        buffered(job);
        job.sync.fsync_every = 1;
    };
    assert_eq!(why(&flushed), "");
    let part = |job: &mut JobPlan| {
        writes(job);
        job.until.ios = Some(10);
    };
    assert_eq!(why(&part), "job 'a': it would write more than the run did");
    assert_eq!(why(&|job| job.until.ios = Some(10)), "");
    assert!(why(&|job| job.access.mix = Mix::Only(Dir::Trim)).contains("trim"));
    assert!(why(&|job| job.rate.read = Some(Rate::Iops(1))).contains("rate"));
    assert!(
        why(&|job| job.think = Some(Think { time_ns: 1, blocks: 1, ..Think::default() }))
            .contains("think")
    );
    assert!(why(&|job| (job.direct, job.invalidate) = (false, false)).contains("begin without"));
    let waves = plan(&[whole.clone(), JobPlan { wave: 1, ..whole }]);
    assert!(repeatable(&waves).unwrap_err().contains("stonewall"));
}

#[test]
fn an_effect_confirms_or_refutes_only_beyond_doubt() {
    let effect = |value: f64, (low, high): (f64, f64), claim: Claim| Effect {
        ratio: Some(Ratio { value, low, high }),
        ratio_99: Some(Ratio { value, low, high }),
        pairs: 12,
        claim,
    };
    let base = plan(&[job(uring())]);
    let judged = |rule, effect: &Effect| test(rule, &base).unwrap().judge(effect);
    let twice = effect(1.9, (1.8, 2.0), Claim::Changed);
    let same = effect(1.0, (0.98, 1.02), Claim::NoneAbove(0.02));
    let slower = effect(0.8, (0.75, 0.85), Claim::Changed);
    let little = effect(1.05, (1.01, 1.09), Claim::Changed);
    for (rule, gain, none) in [
        ("one-at-a-time", ConfirmedVerdict::Confirmed, ConfirmedVerdict::Refuted),
        ("device", ConfirmedVerdict::Refuted, ConfirmedVerdict::Confirmed),
    ] {
        assert_eq!(judged(rule, &twice).verdict, gain);
        for effect in [&same, &slower, &little] {
            assert_eq!(judged(rule, effect).verdict, none, "{rule}: {effect:?}");
        }
    }
    // Where a CPU is full, the device is not shown by that.
    let mut record = RunRecord::default();
    let usage = Usage { user_ns: 50, system_ns: 45, ..Usage::default() };
    record.jobs = vec![JobRecord { runtime_ns: 100, usage, ..JobRecord::default() }];
    let judged_with = |record: &RunRecord, effect: &Effect| {
        let finding = Finding { rule: "device".into(), ..Finding::default() };
        confirmation_test(record, Workload::Jobs(&base), &finding).unwrap().judge(effect)
    };
    let found = judged_with(&record, &same);
    assert_eq!(found.verdict, ConfirmedVerdict::Inconclusive);
    assert!(found.reason.unwrap().contains("95% of its CPU"));
    assert_eq!(judged_with(&record, &twice).verdict, ConfirmedVerdict::Refuted);
    record.jobs[0].usage.system_ns = 35;
    assert_eq!(judged_with(&record, &same).verdict, ConfirmedVerdict::Confirmed);
    record.header.facts.host.cpus_allowed = vec![0];
    record.jobs[0].usage.helper_ns = 10;
    assert_eq!(judged_with(&record, &same).verdict, ConfirmedVerdict::Inconclusive);
    let unclear = effect(1.08, (1.01, 1.16), Claim::Changed);
    let found = judged("device", &unclear);
    assert_eq!(found.verdict, ConfirmedVerdict::Inconclusive);
    assert_eq!(found.reason.unwrap(), "a gain of 10% is possible");
    let noisy = Claim::Inconclusive("the interval is too wide; rerun".into());
    let found = judged("device", &effect(1.3, (0.9, 1.9), noisy));
    assert_eq!(
        (found.verdict, found.reason.unwrap().as_str()),
        (ConfirmedVerdict::Inconclusive, "the interval is too wide")
    );
}
