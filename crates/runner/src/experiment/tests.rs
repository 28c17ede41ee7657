use super::*;
use fathom_model::experiment::{Experiment, Metric, Protocol};

/// A short trial on the null engine, which does no I/O, or with commands.
fn options(experiment: Experiment, dir: &std::path::Path) -> ExperimentOptions {
    let protocol = Protocol {
        seconds: 6.0,
        window_ns: 20_000_000,
        ramp_ns: 2_000_000,
        precision: 0.02,
        rounds_min: 8,
        rounds_warm: 1,
        seed: 5,
    };
    let request = Request { experiment, protocol, scratch_bytes: 1 << 20, ..Request::default() };
    let record = RecordTo::Required(dir.join("run").to_str().map(String::from));
    ExperimentOptions { request, record, ..ExperimentOptions::default() }
}

fn jobs(jobs: &[&str], metric: Metric) -> Experiment {
    let words = |job: &&str| job.split_whitespace().map(String::from).collect();
    let jobs: Vec<Vec<String>> = jobs.iter().map(words).collect();
    fathom_spec::experiment::compare_jobs(&jobs, metric).unwrap()
}

fn run(options: ExperimentOptions) -> ExperimentRecord {
    let mut runner = ExperimentRunner::open(options, &mut ()).unwrap();
    runner.lay_out(&mut ()).unwrap();
    let mut record = runner.run(&mut (), &mut None).unwrap();
    runner.finish(&mut record, |record| &mut record.header, &mut ()).unwrap();
    record
}

#[test]
fn a_job_that_waits_is_slower_than_one_that_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let slow = "rw=read ioengine=null size=1m thinktime=200us";
    let experiment = jobs(&["rw=read ioengine=null size=1m", slow], Metric::Iops);
    let record = run(options(experiment, dir.path()));
    assert_eq!(record.header.outcome, Outcome::Finished);
    let effect = record.report.conditions[2].effect.as_ref().unwrap();
    // A factor of a thousand; whether that is claimed depends on how busy the machine is.
    assert!(effect.ratio.unwrap().value < 0.5, "{effect:?}");
    assert!(record.report.conditions[1].control.is_some());
    let windows: Vec<RoundWindow> = fathom_store::read_windows(&dir.path().join("run")).unwrap();
    assert_eq!(windows.len(), record.report.windows as usize);
}

#[test]
fn an_interrupted_experiment_is_continued() {
    /// Interrupts in the third round.
    struct Interrupt(CancelToken);
    impl Hooks for Interrupt {
        fn trying(&mut self, progress: &RoundProgress) {
            if progress.rounds == 2 {
                self.0.cancel();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let names = ["rw=read ioengine=null size=1m", "rw=read ioengine=null size=1m thinktime=1ms"];
    let options = options(jobs(&names, Metric::Iops), dir.path());
    let mut hooks = Interrupt(options.cancel.clone());
    let mut runner = ExperimentRunner::open(options.clone(), &mut hooks).unwrap();
    runner.lay_out(&mut hooks).unwrap();
    let mut first = runner.run(&mut hooks, &mut None).unwrap();
    runner.finish(&mut first, |record| &mut record.header, &mut ()).unwrap();
    assert_eq!(first.header.outcome, Outcome::interrupted("the caller"));
    assert!(first.report.windows >= 6 && first.report.rounds < 8);

    let resume = Some(dir.path().join("run"));
    let cancel = CancelToken::default();
    let record = run(ExperimentOptions { request: first.request, resume, cancel, ..options });
    assert_eq!(
        (record.header.outcome.clone(), record.report.conditions[2].effect.is_some()),
        (Outcome::Finished, true)
    );
    assert!(record.report.rounds >= 8);
    let windows: Vec<RoundWindow> = fathom_store::read_windows(&dir.path().join("run")).unwrap();
    assert_eq!(windows.len(), record.report.windows as usize);
}

#[test]
fn commands_are_measured_from_start_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = "metric = \"time\"\n[[variant]]\nname = \"short\"\ncommand = \"sleep 0.01\"\n\
        [[variant]]\nname = \"long\"\ncommand = \"sleep 0.1\"\n[[variant]]\nname = \"bad\"\ncommand = \"exit 3\"\n";
    let experiment = fathom_spec::experiment::experiment(file, "x.toml", 1, 0).unwrap();
    let record = run(options(experiment, dir.path()));
    let found = &record.report.conditions;
    let ratio = found[2].effect.as_ref().unwrap().ratio.unwrap();
    assert!(ratio.value > 1.0 && found[2].metric.mean > 1e8, "{ratio:?}");
    assert!(found[3].rejected.as_ref().unwrap().contains("exit status: 3"), "{found:?}");
}

#[test]
fn what_a_machine_lacks_is_refused_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = jobs(&["rw=read bs=4k", "rw=read bs=8m"], Metric::Bandwidth);
    let request = options(experiment, dir.path());
    let request = ExperimentOptions {
        request: Request {
            scratch_dir: dir.path().display().to_string(),
            ..request.request.clone()
        },
        ..request
    };
    let refused = ExperimentRunner::open(request, &mut ()).err().unwrap();
    assert!(refused.contains("bs=8m") || refused.contains("smaller"), "{refused}");
}

#[test]
fn waiting_for_a_cpu_is_left_out_only_where_it_cannot_be_the_effect() {
    use fathom_model::Dir;
    use fathom_model::plan::{Engine, JobPlan, Mix, Order, Psync, Rate, Think};
    use plans::Work;

    let corrects = |change: &dyn Fn(&mut Plan)| {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("a", Engine::Psync(Psync::Plain), Mix::Only(Dir::Read), order);
        job.direct = true;
        let base = Plan { jobs: vec![job], ..Plan::default() };
        let mut variant = base.clone();
        change(&mut variant);
        let works = [base, variant].map(|plan| Work::Jobs(Box::new(plan))).to_vec();
        let mut plans = Plans { works, ..Plans::default() };
        plans.facts.host.cpus_allowed = vec![0, 1];
        plans.waits_for_others(&Experiment::default())
    };
    let think = |spin_ns| Some(Think { time_ns: 1 << 30, spin_ns, blocks: 1, io_ns: 0 });
    assert!(corrects(&|_| {}));
    assert!(corrects(&|plan| plan.jobs = vec![plan.jobs[0].clone(); 2]));
    assert!(corrects(&|plan| plan.jobs[0].think = think(100_000)));
    // More workers than CPUs wait for each other.
    assert!(!corrects(&|plan| plan.jobs = vec![plan.jobs[0].clone(); 3]));
    assert!(!corrects(&|plan| plan.jobs[0].placement.cpus = vec![0]));
    assert!(!corrects(&|plan| plan.jobs[0].placement.nice = 5));
    // Work goes on meanwhile.
    assert!(!corrects(&|plan| plan.jobs[0].engine = Engine::Libaio));
    assert!(!corrects(&|plan| plan.jobs[0].direct = false));
    assert!(!corrects(&|plan| plan.jobs[0].think = think(1 << 25)));
    // The rate is given.
    assert!(!corrects(&|plan| plan.jobs[0].rate.read = Some(Rate::Iops(100))));
}
