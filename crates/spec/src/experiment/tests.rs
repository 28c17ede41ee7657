use super::*;
use fathom_model::experiment::Direction;

const SCHEDULERS: &str = r#"
question = "What does the I/O scheduler cost?"
source = "someone"

[job]
rw = "randread"
bs = "4k"
direct = true

[grid]
iodepth = [1, 16]

[[variant]]
name = "none"
settings = { scheduler = "none" }

[[variant]]
name = "bfq"
settings = { scheduler = "bfq" }
published = "slow"
direction = "lower"
"#;

fn read(text: &str) -> Result<Experiment, Vec<String>> {
    let found = experiment(text, "dir/scheduler.toml", 8, 2);
    found.map_err(|all| all.iter().map(ToString::to_string).collect())
}

#[test]
fn variants_are_compared_within_each_cell_only() {
    let found = read(SCHEDULERS).unwrap();
    assert_eq!(
        (found.name.as_str(), found.axes.as_slice()),
        ("scheduler", &["iodepth".into()][..])
    );
    let names: Vec<String> = found.conditions.iter().map(|c| c.label(&found.axes)).collect();
    assert_eq!(names[..3], ["none iodepth=1", "none again (A/A) iodepth=1", "bfq iodepth=1"]);
    assert_eq!(names.len(), 6);
    for (index, condition) in found.conditions.iter().enumerate() {
        for other in condition.against.iter().chain(&condition.repeats) {
            assert_ne!(*other, index);
            assert_eq!(found.conditions[*other].cell, condition.cell);
        }
    }
    let Load::Job(keys) = &found.conditions[5].load else { panic!() };
    assert_eq!(keys.join(" "), "rw=randread bs=4k direct=1 iodepth=16");
    assert_eq!(found.conditions[5].settings, ["scheduler=bfq"]);
    assert_eq!(found.conditions[5].published.as_ref().unwrap().direction, Some(Direction::Lower));
}

#[test]
fn all_problems_are_reported_with_their_lines() {
    let text = "metric = \"speed\"\nquestoin = \"x\"\n[job]\nrw = \"sideways\"\nbs = \"4k\"\nruntime = 5\n\
        [grid]\niodepth = \"8..1\"\n[[variant]]\nname = \"a\"\njob = { bss = 1 }\ncommand = \"true\"\n\
        [[variant]]\nname = \"a\"\n";
    let problems = read(text).unwrap_err();
    let starts = |line: usize, part: &str| {
        let start = format!("dir/scheduler.toml:{line}: ");
        assert!(
            problems.iter().any(|p| p.starts_with(&start) && p.contains(part)),
            "{problems:#?}"
        );
    };
    starts(1, "'speed' is not one of");
    starts(2, "did you mean 'question'?");
    starts(4, "sideways");
    starts(6, "--duration");
    starts(8, "is not a range");
    starts(9, "both command and job");
    starts(11, "unknown key 'bss'");
    starts(13, "occurs twice");
    assert_eq!(problems.len(), 8, "{problems:#?}");
    let problems = read("a = \nb = 1 2\n").unwrap_err();
    assert!(problems.len() >= 2, "{problems:?}");
}

#[test]
fn variants_that_do_the_same_are_refused() {
    let text = "[job]\nrw = \"read\"\n[[variant]]\nname = \"a\"\njob = { bs = \"4k\", iodepth = 2 }\n\
        [[variant]]\nname = \"b\"\njob = \"--iodepth=2 --bs=4k\"\n";
    let problems = read(text).unwrap_err();
    assert!(problems[0].contains("'a' and 'b' are identical"), "{problems:?}");
    let none = read("[job]\nrw = \"read\"\n").unwrap_err();
    assert!(none[0].contains("nothing to compare"), "{none:?}");
    let both = "[grid]\nbs = [\"4k\"]\n[[variant]]\nname = \"a\"\njob = { bs = \"8k\" }\n";
    assert!(read(both).unwrap_err()[0].contains("which the grid varies"));
}

#[test]
fn each_target_alone_is_compared_with_all() {
    let text = "each_target = true\n[job]\nrw = \"read\"\nnumjobs = \"$ncpus\"\n[[variant]]\nname = \"together\"\n\
        [[variant]]\nname = \"one generator\"\ntargets = \"shared\"\n";
    let found = read(text).unwrap();
    assert_eq!(found.conditions.len(), 4);
    assert_eq!(found.conditions[2].against, [0, 1]);
    let targets = ["/dev/a".to_string(), "/dev/b:c".to_string()];
    let args = |index: usize| condition_args(&found.conditions[index], &targets).join(" ");
    assert_eq!(args(1), "--name=job --rw=read --numjobs=8 --filename=/dev/b\\:c");
    assert!(args(2).matches("--name=job").count() == 2, "{}", args(2));
    assert!(args(3).ends_with("--filename=/dev/a:/dev/b\\:c"), "{}", args(3));
}

#[test]
fn each_target_needs_targets_and_a_metric_that_adds_up() {
    let text = |metric: &str| {
        format!(
            "metric = \"{metric}\"\neach_target = true\n[job]\nrw = \"read\"\n[[variant]]\nname = \"a\"\n"
        )
    };
    assert!(read(&text("iops")).is_ok() && read(&text("bandwidth")).is_ok());
    for metric in ["latency", "cpu", "time"] {
        let problems = read(&text(metric)).unwrap_err();
        assert!(problems[0].contains(":2: each_target compares sums"), "{problems:?}");
    }
    let of = |targets| experiment(&text("iops"), "a.toml", 8, targets);
    assert!(of(1).unwrap_err()[0].to_string().contains("two targets or more"));
    assert!(of(0).is_ok());
}

#[test]
fn jobs_on_a_command_line() {
    let words = |text: &str| job_words(text);
    assert_eq!(words("--rw=randread bs=4k").unwrap(), ["rw=randread", "bs=4k"]);
    assert!(
        words("/dev/sda").is_none() && words("some=file").is_none() && words("direct").is_none()
    );
    // A misspelled key does not make it a path.
    assert!(words("rw=read bss=4k").is_some());
    let jobs = ["rw=read bs=4k", "rw=read bs=8k"].map(|job| words(job).unwrap());
    let found = compare_jobs(&jobs, Metric::Bandwidth).unwrap();
    let names: Vec<&str> = found.conditions.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["bs=4k", "bs=4k again (A/A)", "bs=8k"]);
    let bad = ["rw=read bs=x", "rw=reed"].map(|job| words(job).unwrap());
    assert_eq!(compare_jobs(&bad, Metric::Iops).unwrap_err().len(), 2);
    let same = ["rw=read", "rw=read"].map(|job| words(job).unwrap());
    assert!(compare_jobs(&same, Metric::Iops).is_err());
}

#[test]
fn the_number_of_ranks_is_an_axis_but_no_key() {
    let found = sweep(&[(RANKS.into(), "1..6".into())], &["rw=read".into()]).unwrap();
    let ranks: Vec<_> = found.conditions.iter().map(|condition| condition.ranks).collect();
    assert_eq!(ranks, [Some(1), Some(2), Some(4), Some(6)]);
    assert!(found.conditions.iter().all(|c| c.load == Load::Job(vec!["rw=read".into()])));
    assert_eq!(found.conditions[3].label(&found.axes), "ranks=6");
    let refused = sweep(&[(RANKS.into(), "0,two".into())], &[]).unwrap_err();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn a_sweep_has_a_condition_for_each_cell() {
    let axes = [("bs".to_string(), "4k,64k".to_string()), ("rate".into(), "50%..100%".into())];
    let found = sweep(&axes, &["rw=randread".into()]).unwrap();
    assert_eq!(found.conditions.len(), 12);
    assert!(found.conditions.iter().all(|c| c.against.is_empty() && c.repeats.is_none()));
    let last = &found.conditions[11];
    assert_eq!(last.rate_share, Some(1.0));
    assert_eq!(last.load, Load::Job(vec!["rw=randread".into(), "bs=64k".into()]));
    assert!(
        sweep(&[("bs".into(), "4k,x".into()), ("iodepth".into(), "9..1".into())], &[]).is_err()
    );
}
