//! Comparisons of simulated runs.

use super::*;
use crate::watch::Observed;
use fathom_model::finding::Severity;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A run of one job on an idle machine.
fn run(name: &str, figures: &[(&'static str, f64)]) -> Measured {
    let figures = figures.iter().map(|(id, value)| (*id, Some(*value)));
    Measured {
        name: name.into(),
        host_id: "machine".into(),
        conditions: RunConditions { cpus: 8, other_cpus: Some(0.02), ..RunConditions::default() },
        parts: vec![MeasuredPart::new("reads", figures)],
        ..Measured::default()
    }
}

/// A fixed sequence of normal deviates: sums of 12 uniforms.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    /// So many runs whose figures are `level` times the usual and vary by 1%, percentiles by 3%.
    fn set(&mut self, runs: usize, level: f64) -> Vec<Measured> {
        let mut value = |usual: f64, noise: f64| usual * (1.0 + noise * self.next());
        let run = |at| {
            let figures = [
                ("iops", value(100_000.0 * level, 0.01)),
                ("bandwidth_bytes_per_s", value(4.096e8 * level, 0.01)),
                ("p50_ms", value(0.3, 0.01)),
                ("p99_ms", value(0.7, 0.03)),
                ("p999_ms", value(2.0, 0.03)),
                ("cpu_ms_per_io", value(0.002, 0.01)),
                ("ios_in_flight", value(31.0, 0.01)),
            ];
            self::run(&format!("run-{at}"), &figures)
        };
        (0..runs).map(run).collect()
    }
}

fn compared(before: &[Measured], after: &[Measured], earlier: &[Measured]) -> Comparison {
    compare(before, after, earlier, &[]).unwrap()
}

fn changed(comparison: &Comparison) -> Vec<&str> {
    let figures = comparison.parts.iter().flat_map(|part| &part.figures);
    let changed = figures.filter(|one| one.verdict == FigureVerdict::Changed);
    changed.map(|one| one.id.as_str()).collect()
}

#[test]
fn of_what_is_the_same_nearly_nothing_is_claimed() {
    let mut noise = Noise(7);
    // Welch's approximation falls short where one set is small and the other is not.
    for (sizes, most) in [((5, 5), 20), ((3, 3), 20), ((3, 8), 28)] {
        let claims = (0..400).filter(|_| {
            let (before, after) = (noise.set(sizes.0, 1.0), noise.set(sizes.1, 1.0));
            !changed(&compared(&before, &after, &[])).is_empty()
        });
        // All seven intervals hold at once in 95 of 100 comparisons.
        let claims = claims.count();
        assert!(claims <= most, "{claims} of 400 claims between sets of {sizes:?}");
    }
    let claims = (0..400).filter(|_| {
        let (before, after, earlier) = (noise.set(1, 1.0), noise.set(1, 1.0), noise.set(5, 1.0));
        !changed(&compared(&before, &after, &earlier)).is_empty()
    });
    let claims = claims.count();
    assert!(claims <= 20, "{claims} of 400 claims between single runs");
}

#[test]
fn an_effect_of_five_percent_is_found() {
    let mut noise = Noise(11);
    for level in [0.95, 1.05] {
        let found = (0..200).filter(|_| {
            let (before, after) = (noise.set(5, 1.0), noise.set(5, level));
            changed(&compared(&before, &after, &[])).contains(&"iops")
        });
        let found = found.count();
        assert!(found >= 190, "found {found} of 200 times");
    }
    let comparison = compared(&noise.set(5, 1.0), &noise.set(5, 0.9), &[]);
    let answer = comparison.findings.last().unwrap();
    assert!(answer.is_verdict() && answer.summary.starts_with("Slower: IOPS −"), "{answer:?}");
}

#[test]
fn single_runs_need_earlier_ones() {
    let mut noise = Noise(13);
    let (before, after) = (noise.set(1, 1.0), noise.set(1, 0.7));
    let alone = compared(&before, &after, &[]);
    assert!(alone.earlier.is_empty() && changed(&alone).is_empty());
    assert!(alone.parts[0].figures.iter().all(|figure| figure.interval.is_none()));
    let answer = alone.findings.last().unwrap();
    assert!(answer.summary.starts_with("No difference is claimed (IOPS −"), "{answer:?}");
    assert!(answer.next_step.as_ref().unwrap().contains("three times"), "{answer:?}");
    // Two are too few.
    let few = compared(&before, &after, &noise.set(2, 1.0));
    assert!(few.earlier.is_empty() && changed(&few).is_empty());
    let known = compared(&before, &after, &noise.set(6, 1.0));
    assert_eq!((known.earlier.len(), changed(&known)), (6, vec!["iops", "bandwidth_bytes_per_s"]));
    // Sets show their own variation.
    let sets = compared(&noise.set(3, 1.0), &noise.set(3, 1.0), &noise.set(6, 1.0));
    assert!(sets.earlier.is_empty());
}

#[test]
fn percentiles_of_neighboring_buckets_do_not_differ() {
    let set =
        |p99| [1, 2, 3].map(|at| run(&format!("{p99}-{at}"), &[("iops", 1e5), ("p99_ms", p99)]));
    let claims = |after| changed(&compared(&set(1.0), &set(after), &[])).contains(&"p99_ms");
    assert!(!claims(1.007) && claims(1.02), "a bucket is 0.8% wide");
}

#[test]
fn other_load_blocks_every_claim() {
    let mut noise = Noise(17);
    let (before, mut after) = (noise.set(5, 1.0), noise.set(5, 0.8));
    after[3].conditions.other_cpus = Some(1.4);
    after[3].conditions.other_program = Some("cargo (3 processes)".into());
    let comparison = compared(&before, &after, &[]);
    assert!(changed(&comparison).is_empty());
    let first = &comparison.findings[0];
    assert_eq!((first.rule.as_str(), first.severity), ("other-load", Severity::Warning));
    let text = "Other programs used 1.40 CPUs during run-3, cargo (3 processes) most of them.";
    assert_eq!(first.summary, text);
    assert!(comparison.findings.last().unwrap().summary.contains("not comparable: Other programs"));
    let iops = &comparison.parts[0].figures[0];
    assert_eq!((iops.id.as_str(), iops.verdict), ("iops", FigureVerdict::NotComparable));
}

/// Runs without samples, begun one after the other from `first` on, every `step`-th; each may be slowed down by a load.
fn unsampled(noise: &mut Noise, slow: f64, (first, step): (u64, u64)) -> Vec<Measured> {
    let mut runs = noise.set(5, 1.0);
    for (at, run) in runs.iter_mut().enumerate() {
        run.started_unix_ns = first + at as u64 * step;
        run.conditions = RunConditions { cpus: 8, ..RunConditions::default() };
        if noise.next() < slow {
            let figures = &mut run.parts[0].figures;
            figures.values_mut().for_each(|value| *value *= 0.7);
        }
    }
    runs
}

#[test]
fn without_samples_a_load_is_never_taken_for_a_difference() {
    let mut noise = Noise(23);
    // As it is on one side only, half of the time or always.
    for slow in [0.0, 9.0] {
        for _ in 0..200 {
            let before = unsampled(&mut noise, -9.0, (1, 1));
            let after = unsampled(&mut noise, slow, (10, 1));
            let comparison = compared(&before, &after, &[]);
            assert!(changed(&comparison).is_empty(), "{:?}", comparison.findings);
            let answer = comparison.findings.last().unwrap();
            assert!(!answer.summary.starts_with("Slower"), "{answer:?}");
            let limit = threshold("iops < -3%").check(&comparison);
            assert_eq!(limit.outcome, ThresholdOutcome::Inconclusive, "{limit:?}");
        }
    }
    let comparison =
        compared(&unsampled(&mut noise, -9.0, (1, 1)), &unsampled(&mut noise, 9.0, (10, 1)), &[]);
    let answer = &comparison.findings.last().unwrap().summary;
    assert!(
        answer.contains("as the runs are not comparable: Whether other programs ran"),
        "{answer}"
    );
    // Single runs need both: repetitions, and to know what else ran.
    let alone = compared(&comparison_runs(1), &comparison_runs(2), &[]);
    let answer = alone.findings.last().unwrap();
    assert!(answer.summary.contains("is not known, and the runs are not comparable"), "{answer:?}");
    assert!(answer.next_step.as_ref().unwrap().contains("three times"), "{answer:?}");
}

fn comparison_runs(started: u64) -> Vec<Measured> {
    let mut one = run("one", &[("iops", 1e5)]);
    (one.started_unix_ns, one.conditions) = (started, RunConditions::default());
    vec![one]
}

#[test]
fn runs_that_alternate_show_what_a_load_does_to_both_sides() {
    let mut noise = Noise(29);
    let mut claims = |slow: f64, level: f64| {
        let claim = |noise: &mut Noise| {
            let before = unsampled(noise, slow, (1, 2));
            let mut after = unsampled(noise, slow, (2, 2));
            let iops = after.iter_mut().filter_map(|run| run.parts[0].figures.get_mut("iops"));
            iops.for_each(|iops| *iops *= level);
            !changed(&compared(&before, &after, &[])).is_empty()
        };
        (0..400).filter(|_| claim(&mut noise)).count()
    };
    // The load hits any run with a probability of one half, a sixth, or none.
    for slow in [0.0, -1.0, -9.0] {
        let wrong = claims(slow, 1.0);
        assert!(wrong <= 20, "{wrong} of 400 claims of nothing");
    }
    let found = claims(-9.0, 0.95);
    assert!(found >= 380, "an effect was found {found} of 400 times");
}

/// Runs whose latencies follow a shifted exponential distribution, `level` times the usual.
fn with_latencies(noise: &mut Noise, level: f64) -> Vec<Measured> {
    let mut set = noise.set(5, 1.0);
    for run in &mut set {
        let scale = level * (1.0 + 0.02 * noise.next());
        let part = &mut run.parts[0];
        part.latency = Histogram::default();
        for at in 0..2000 {
            let quantile = (f64::from(at) + 0.5) / 2000.0;
            let us = scale * 100.0 * (1.0 - (1.0 - quantile).ln());
            part.latency.record((us * 1e3 * (1.0 + 0.05 * noise.next())).max(1.0) as u64);
        }
        for (id, percent) in [("p50_ms", 50.0), ("p99_ms", 99.0), ("p999_ms", 99.9)] {
            let ns = part.latency.percentile(percent).unwrap();
            part.figures.insert(id.into(), ns as f64 / 1e6);
        }
    }
    set
}

#[test]
fn the_change_of_a_percentile_is_that_of_the_values_beside_it() {
    let mut noise = Noise(31);
    let mut wrong = 0;
    for _ in 0..100 {
        let (before, after) = (with_latencies(&mut noise, 1.0), with_latencies(&mut noise, 1.0));
        let same = compared(&before, &after, &[]);
        wrong += usize::from(!changed(&same).is_empty());
        for (_, figure) in same.figures() {
            let ratio = figure.ratio.unwrap();
            assert!((ratio - figure.after / figure.before).abs() < 1e-12, "{figure:?}");
            let (low, high) = figure.interval.unwrap();
            assert!(low <= ratio && ratio <= high, "{figure:?}");
        }
    }
    assert!(wrong <= 5, "{wrong} of 100 claims of nothing");
    let slower = compared(&with_latencies(&mut noise, 1.0), &with_latencies(&mut noise, 1.2), &[]);
    assert!(changed(&slower).contains(&"p99_ms"));
    // Any percentile is one of all I/Os.
    let (before, after) = (with_latencies(&mut noise, 1.0), with_latencies(&mut noise, 1.2));
    let limits = [threshold("p95 > +10%"), threshold("p99.5 > 5s")];
    let asked = compare(&before, &after, &[], &limits).unwrap();
    let outcomes: Vec<_> = asked.requirements.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [ThresholdOutcome::Holds, ThresholdOutcome::DoesNotHold], "{asked:?}");
    let mut all = Histogram::default();
    after.iter().for_each(|run| all.merge(&run.parts[0].latency));
    let p95 = asked.figures().find(|(_, figure)| figure.title == "p95 of all I/Os").unwrap().1;
    assert_eq!(p95.after, all.percentile(95.0).unwrap() as f64 / 1e6);
}

#[test]
fn numbers_of_the_json_are_compared_where_a_condition_names_them() {
    use ThresholdOutcome::{DoesNotHold, Holds, Inconclusive};
    let with = |ctx: f64, errors: u64| {
        let mut run = run("a", &[("iops", 1e5)]);
        run.published =
            Published::of(&json!({"jobs": [{"jobname": "reads", "ctx": ctx, "usr_cpu": 5.0,
            "read": {"total_ios": 5, "clat_ns": {"N": 5, "max": 3_000_000}, "errors": errors}}]}));
        run
    };
    let before: Vec<Measured> = [100.0, 101.0, 99.0].map(|ctx| with(ctx, 0)).into();
    let after: Vec<Measured> = [120.0, 121.0, 119.0].map(|ctx| with(ctx, 0)).into();
    let of = |after: &[Measured], text: &str| {
        compare(&before, after, &[], &[threshold(text)]).unwrap().requirements[0].clone()
    };
    for (text, expected) in [
        ("ctx > +5%", Holds),
        ("reads:ctx > +5%", Holds),
        ("ctx > +50%", DoesNotHold),
        ("ctx > 100", Holds),
        ("usr_cpu > 50%", DoesNotHold),
        ("read.clat_ns.max > 2ms", Holds),
        ("clat.max > 5ms", DoesNotHold),
        ("errors > 0", DoesNotHold),
        ("errors > +5%", Inconclusive),
        ("write.clat_ns.max > 2ms", Inconclusive),
    ] {
        let found = of(&after, text);
        assert_eq!(found.outcome, expected, "{text}: {found:?}");
    }
    // It is compared in the table too, and is worse in the direction that the condition names.
    let asked = compare(&before, &after, &[], &[threshold("ctx > +5%")]).unwrap();
    let ctx = asked.figures().find(|(_, figure)| figure.id == "jobs.ctx").unwrap().1;
    assert_eq!((ctx.verdict, ctx.is_better()), (FigureVerdict::Changed, Some(false)));
    assert_eq!(changed(&compared(&before, &after, &[])), Vec::<&str>::new(), "nothing asks for it");
    // Errors make a run incomplete, which does not make their number doubtful.
    let failed: Vec<Measured> = [1, 2, 3].map(|errors| with(100.0, errors)).into();
    let failed: Vec<Measured> = failed
        .into_iter()
        .map(|run| Measured { incomplete: Some("parts of it failed".into()), ..run })
        .collect();
    assert_eq!(of(&failed, "errors > 0").outcome, Holds);
    assert_eq!(of(&failed, "errors > 5").outcome, Inconclusive);
    let near = |word: &str, all: &[&str]| {
        all.iter().find(|one| one.contains("usr") && word == "usr_cp").map(ToString::to_string)
    };
    assert_eq!(threshold("usr_cpu > 5%").unknown(after.iter(), near), None);
    let error = threshold("usr_cp > 5").unknown(after.iter(), near).unwrap();
    assert!(error.starts_with("unknown figure 'usr_cp'; did you mean 'jobs.usr_cpu'? "), "{error}");
    let error = threshold("foo > 5").unknown(after.iter(), near).unwrap();
    assert!(error.starts_with("unknown figure 'foo'; figures are "), "{error}");
    let error = threshold("nosuch:iops > 5").unknown(after.iter(), near).unwrap();
    assert!(error.starts_with("no part is called 'nosuch'; parts are "), "{error}");
    let part = format!("{}:iops > 5", after[0].parts[0].name);
    assert_eq!(threshold(&part).unknown(after.iter(), near), None);
    for name in ["p101", "p0"] {
        let error = Threshold::parse(&format!("{name} > 5ms")).unwrap_err();
        assert_eq!(error, format!("'{name}' is not a percentile (above 0, at most 100)"));
    }
}

#[test]
fn the_maximum_of_a_set_is_that_of_its_runs() {
    let set = [200.0, 1110.0, 300.0].map(|max| run("a", &[("iops", 1e5), ("max_ms", max)]));
    for (text, expected) in [
        ("max > 1s", ThresholdOutcome::Holds),
        ("max > 1.2s", ThresholdOutcome::DoesNotHold),
        ("max < 1s", ThresholdOutcome::DoesNotHold),
    ] {
        let asked = compare(&set, &set, &[], &[threshold(text)]).unwrap();
        let found = threshold(text).check(&asked);
        assert_eq!(found.outcome, expected, "{text}: {found:?}");
    }
}

#[test]
fn layers_of_the_kernel_are_compared() {
    let with = |block: f64, tiny: f64| -> Vec<Measured> {
        let one = |at: f64| {
            let mut run = run("a", &[("iops", 1e5)]);
            let mut part = MeasuredPart { name: LAYERS.into(), ..MeasuredPart::default() };
            let layers = [("block layer", block), ("driver", 0.004), ("dm, md", tiny)];
            part.figures = layers
                .map(|(name, ms)| (format!("{LAYER}{name}"), ms * (1.0 + at / 1000.0)))
                .into();
            run.parts.push(part);
            run
        };
        [0.0, 1.0, 2.0].map(one).into()
    };
    let found = compared(&with(0.002, 1e-6), &with(0.003, 0.0), &[]);
    let layers: Vec<&str> =
        found.parts[1].figures.iter().map(|figure| figure.title.as_str()).collect();
    assert_eq!(layers, ["CPU per I/O in block layer", "CPU per I/O in driver"]);
    let answer = &found.findings.last().unwrap().summary;
    assert!(answer.starts_with("Worse: CPU per I/O in block layer +50.0%"), "{answer}");
}

#[test]
fn results_of_different_commands_are_refused() {
    let limit = Measured { kind: ComparedKind::Limit, ..run("l", &[("iops", 1.0)]) };
    let error = compare(&[run("r", &[("iops", 1.0)])], &[limit], &[], &[]).unwrap_err();
    assert_eq!(
        error,
        "r is a result of `run`, l one of `limit`; compare results of the same command"
    );
    let mut other = run("b", &[("iops", 1.0)]);
    other.parts[0].name = "writes".into();
    let error = compare(&[run("a", &[("iops", 1.0)])], &[other], &[], &[]).unwrap_err();
    assert!(error.starts_with("nothing is in both: a has reads, b has writes; "), "{error}");
    assert!(compare(&[], &[], &[], &[]).is_err());
}

#[test]
fn what_is_known_to_matter_comes_first() {
    let with = |facts: Value, plan: Value| Measured {
        settings: differences::flat(&facts),
        plan: differences::flat(&plan),
        ..run("a", &[("iops", 1.0)])
    };
    let facts = |kernel: &str, scheduler: &str, other: u32| {
        json!({
            "host": {"kernel": kernel, "load_1min": other, "new_fact": other},
            "targets": [{"device": {"scheduler": scheduler, "name": "vda"}}],
            "inspection": {"host": {"texts": {
                "/sys/devices/system/cpu/vulnerabilities/meltdown": format!("Mitigation: {other}"),
                "/sys/kernel/mm/transparent_hugepage/enabled": "always",
            }}},
        })
    };
    let plan = |depth: u32| {
        json!({"jobs": [
            {"depth": depth, "access": {"seed": depth}, "options": {"iodepth": depth.to_string()}},
            {"depth": depth, "options": {"iodepth": depth.to_string()}},
        ]})
    };
    let before = with(facts("6.1", "none", 1), plan(32));
    let after = with(facts("6.18", "mq-deadline", 2), plan(64));
    let found = compared(std::slice::from_ref(&before), &[after], &[]);
    let names = |of: &[Difference]| of.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    let expected = ["kernel", "I/O scheduler", "mitigation of meltdown", "new fact"];
    assert_eq!(names(&found.settings), expected);
    let how = |at: usize| found.settings[at].matters.as_str();
    assert_eq!(how(1), "IOPS: its lock, and the order of requests");
    assert_eq!((how(2), how(3)), ("IOPS: cost of system calls and interrupts", ""));
    let depth = Difference {
        name: "iodepth".into(),
        before: "32".into(),
        after: "64".into(),
        ..Difference::default()
    };
    assert_eq!(found.plan, [depth]);
    // Without keys, what follows from them.
    let bare = |depth: u32| with(json!({}), json!({"jobs": [{"depth": depth}]}));
    assert_eq!(names(&compared(&[bare(1)], &[bare(2)], &[]).plan), ["jobs depth"]);
    // Two jobs instead of one, with half the depth each.
    let jobs = |depths: &[u32]| {
        let job = |depth: &u32| json!({"options": {"iodepth": depth.to_string(), "bs": "4k"}});
        with(json!({}), json!({"jobs": depths.iter().map(job).collect::<Vec<_>>()}))
    };
    let found =
        |before: &[u32], after: &[u32]| names(&compared(&[jobs(before)], &[jobs(after)], &[]).plan);
    assert_eq!(found(&[32], &[16, 16]), ["iodepth"]);
    assert_eq!(found(&[32], &[32, 32]), ["bs", "iodepth"], "nothing else says that they differ");
    // A link matters for bandwidth, and the governor for latency.
    let links = |figure: &'static str, level: f64, speed: &str, governor: &str| -> Vec<Measured> {
        let facts =
            json!({"pci/current_link_speed": speed, "cpu0/cpufreq/scaling_governor": governor});
        let one = |at: f64| Measured {
            settings: differences::flat(&facts),
            ..run("a", &[("iops", 1e5), (figure, level + at / 1e3)])
        };
        [0.0, 1.0, 2.0].map(one).into()
    };
    for (figure, first) in [
        ("bandwidth_bytes_per_s", "PCIe link speed"),
        ("p99_ms", "cpufreq governor"),
        ("cpu_ms_per_io", "cpufreq governor"),
    ] {
        let before = links(figure, 5.0, "16.0 GT/s", "performance");
        let found = compared(&before, &links(figure, 3.0, "8.0 GT/s", "powersave"), &[]);
        assert_eq!(found.settings[0].name, first, "{figure}");
        assert!(found.settings[1].matters.is_empty(), "{:?}", found.settings);
    }
    let same = compared(std::slice::from_ref(&before), std::slice::from_ref(&before), &[]);
    assert!(same.plan.is_empty() && same.settings.is_empty());
}

fn threshold(text: &str) -> Threshold {
    Threshold::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn outcome(comparison: &Comparison, text: &str) -> ThresholdOutcome {
    threshold(text).check(comparison).outcome
}

#[test]
fn conditions_hold_do_not_hold_or_are_inconclusive() {
    use ThresholdOutcome::{DoesNotHold, Holds, Inconclusive};
    let mut noise = Noise(19);
    let (before, after) = (noise.set(5, 1.0), noise.set(5, 0.9));
    let comparison = compared(&before, &after, &[]);
    let cases = [
        ("iops < -3%", Holds),
        ("iops < −3%", Holds),
        ("IOPS > +3%", DoesNotHold),
        ("iops < -10%", Inconclusive),
        ("reads:bandwidth < -3%", Holds),
        ("p99 > +30%", DoesNotHold),
        ("p99 > 2ms", DoesNotHold),
        ("p99 > 500us", Holds),
        ("iops < 100k", Holds),
        ("iops < 50000", DoesNotHold),
        ("bandwidth_bytes_per_s < 1GiB/s", Holds),
        ("p99.9 > 1ms", Holds),
        ("writes:iops < -3%", Inconclusive),
        ("util_pct > 80%", Inconclusive),
        ("aqu-sz > 80", Inconclusive),
    ];
    for (text, expected) in cases {
        assert_eq!(outcome(&comparison, text), expected, "{text}");
    }
    // A change needs to know how much runs differ, a value does not.
    let alone = compared(&before[..1], &after[..1], &[]);
    assert_eq!(outcome(&alone, "iops < -3%"), Inconclusive);
    assert_eq!(outcome(&alone, "iops < 100k"), Holds);
    let mut failed = after.clone();
    failed[0].incomplete = Some("interrupted by SIGINT".into());
    let failed = compared(&before, &failed, &[]);
    assert_eq!(outcome(&failed, "iops < -3%"), Inconclusive);
    assert_eq!(outcome(&failed, "iops < 100k"), Inconclusive);
}

#[test]
fn bad_conditions_say_what_is_expected() {
    let error = |text| Threshold::parse(text).unwrap_err();
    assert!(error("p99").starts_with("expected FIGURE > VALUE or FIGURE < VALUE"));
    assert!(error("p99 >= 2ms").starts_with("expected FIGURE"));
    assert!(error("reads: > 2ms").starts_with("expected FIGURE"));
    assert_eq!(error("iops < 5%"), "'5%': write a change with its sign: +5% or -5%");
    assert_eq!(
        error("p99 > 2"),
        "'2': expected a time such as 2ms or 500us, or a change such as +5%"
    );
    assert_eq!(error("iops < +5"), "'+5': a change is in percent, such as +5%");
    assert_eq!(error("iops < x%"), "'x%' is not a percentage, such as +5%");
    assert_eq!(
        error("bandwidth < 1q"),
        "'1q': expected a size such as 500m or 2GiB/s, or a change such as +5%"
    );
}

fn fio() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/fio-3.33/run.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn fio_json_has_figures_and_options() {
    let found = Measured::of_fio("a.json", &fio()).unwrap();
    let names: Vec<&str> = found.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names[..3], ["a", "a read", "a write"]);
    let read = &found.parts[1].figures;
    let known = [("iops", 496_000.0), ("bandwidth_bytes_per_s", 2_031_616_000.0)];
    for (id, value) in known.into_iter().chain([("p99_ms", 30e-6), ("p999_ms", 9536e-6)]) {
        assert!((read[id] / value - 1.0).abs() < 1e-9, "{id}: {}", read[id]);
    }
    assert_eq!(found.parts[0].figures["iops"], 496_000.0 + 528_000.0);
    assert!(!found.parts[0].figures.contains_key("p99_ms"), "percentiles cannot be merged");
    assert_eq!(found.plan["options.bs"][0], "4k");
    let error = Measured::of_fio("x.json", &json!({"jobs": []})).unwrap_err();
    assert!(error.starts_with("x.json is not fio's JSON"), "{error}");
    let mut data = fio();
    data["jobs"][0]["read"]["iops"] = (-5.5).into();
    let error = Measured::of_fio("x.json", &data).unwrap_err();
    assert!(error.starts_with("x.json is damaged: read.iops of job 'a' is -5.5"), "{error}");
}

/// Replaces the value at a place that `at` selects.
fn damage(data: &mut Value, at: &[u8], with: &Value) {
    let Some((first, rest)) = at.split_first() else {
        *data = with.clone();
        return;
    };
    let first = usize::from(*first);
    match data {
        Value::Array(all) if !all.is_empty() => {
            let at = first % all.len();
            damage(&mut all[at], rest, with);
        }
        Value::Object(all) if !all.is_empty() => {
            let at = first % all.len();
            all.values_mut().nth(at).into_iter().for_each(|value| damage(value, rest, with));
        }
        other => *other = with.clone(),
    }
}

proptest! {
    #[test]
    fn no_condition_panics(text in "[a-z0-9:.% <>+−µ-]{0,24}", any in ".{0,24}") {
        for text in [text, any] {
            if let Ok(threshold) = Threshold::parse(&text) {
                let set = Noise(3).set(3, 1.0);
                threshold.check(&compared(&set, &set, &[]));
            }
        }
    }

    #[test]
    fn no_json_panics(at in prop::collection::vec(any::<u8>(), 0..7), kind in 0_usize..7) {
        let values = [json!(null), json!("x"), json!(-1), json!(1e308), json!({}), json!([]), json!(0)];
        let mut data = fio();
        damage(&mut data, &at, &values[kind]);
        let Ok(found) = Measured::of_fio("a", &data) else { return Ok(()) };
        let whole = Measured::of_fio("b", &fio()).unwrap();
        if let Ok(comparison) = compare(&[whole], &[found], &[], &[threshold("iops < 1k")]) {
            prop_assert!(serde_json::to_string(&comparison).is_ok());
            for (_, figure) in comparison.figures() {
                prop_assert!(figure.ratio.is_none_or(f64::is_finite));
            }
        }
    }

    #[test]
    fn intervals_hold_the_ratio(
        before in prop::collection::vec(0.0..1e12_f64, 1..6),
        after in prop::collection::vec(0.0..1e12_f64, 1..6),
        earlier in prop::collection::vec(0.0..1e12_f64, 0..6),
    ) {
        let set = |values: &[f64]| -> Vec<Measured> {
            values.iter().map(|value| run("a", &[("iops", *value)])).collect()
        };
        if let Ok(found) = compare(&set(&before), &set(&after), &set(&earlier), &[]) {
            for (_, figure) in found.figures() {
                let Some(ratio) = figure.interval() else { continue };
                prop_assert!(ratio.low <= ratio.value * 1.000001 && ratio.value <= ratio.high * 1.000001);
                prop_assert!(ratio.low.is_finite() && ratio.high.is_finite());
            }
        }
    }
}

#[test]
fn others_moved_no_more_than_the_disks_did_besides_the_load() {
    let share = measured::other_disk_share;
    assert_eq!(share(150.0, 50.0, 200.0), 0.25);
    // A compiler's output that is still in the page cache.
    assert_eq!(share(150.0, 500.0, 150.0), 0.0);
    assert_eq!(share(150.0, 500.0, 160.0), 0.0625);
    // Reads of a sparse file, and nothing at all.
    assert_eq!(share(0.0, 1.0, 1.0), 0.0);
    assert_eq!(share(0.0, 0.0, 0.0), 0.0);
}

#[test]
fn what_limited_a_set_does_not_depend_on_the_order_of_its_runs() {
    let of = |limits: &[&str]| Measured {
        limited_by: limits.iter().map(ToString::to_string).collect(),
        ..run("a", &[("iops", 1.0)])
    };
    let mut runs = vec![of(&["CPU", "other"]), of(&["device", "other"]), of(&["device", "CPU"])];
    let expected = ["device (2 of 3)", "CPU (2 of 3)", "other (2 of 3)"];
    for _ in 0..3 {
        runs.rotate_left(1);
        assert_eq!(ComparedSide::of(&runs).limited_by, expected);
    }
    assert_eq!(ComparedSide::of(&[of(&["other", "CPU"])]).limited_by, ["other", "CPU"]);
}

#[test]
fn block_devices_of_others_do_not_differ() {
    use fathom_model::facts::{DeviceFacts, TargetFacts};
    use fathom_model::record::{Header, RunRecord};
    use fathom_model::topology::{Topology, Volume};
    let volume = |name: &str, members: &[&str]| Volume {
        name: name.into(),
        members: members.iter().map(ToString::to_string).collect(),
        ..Volume::default()
    };
    let of = |volumes: Vec<Volume>| {
        let mut header = Header::default();
        let device = Some(DeviceFacts { name: "md0".into(), ..DeviceFacts::default() });
        header.facts.targets = vec![TargetFacts { device, ..TargetFacts::default() }];
        header.facts.topology = Some(Topology { volumes, ..Topology::default() });
        let record = RunRecord { header, ..RunRecord::default() };
        Measured::of_run("a", &record, &Observed::default()).settings["topology.volumes.name"]
            .clone()
    };
    let all = [volume("loop0", &["md0"]), volume("md0", &["sda"]), volume("sda", &[])];
    assert_eq!(of(all.to_vec()), ["md0", "sda"]);
}
