use super::*;
use crate::render::{self, Style, assert_fits, html, unwrapped};
use fathom_analysis::rules::judge_experiment;
use fathom_model::experiment::{
    Detail, Direction, Experiment, ExperimentReport, LayerShare, Published, Request,
};
use fathom_model::outcome::Outcome;
use fathom_model::record::Header;
use fathom_model::window::Estimate;

fn condition(name: &str, cell: &[&str], against: &[usize], repeats: Option<usize>) -> Condition {
    Condition {
        name: name.into(),
        cell: cell.iter().map(ToString::to_string).collect(),
        against: against.to_vec(),
        repeats,
        ..Condition::default()
    }
}

fn found(iops: f64) -> MeasuredCondition {
    MeasuredCondition {
        windows: 10,
        metric: Estimate {
            mean: iops,
            low: Some(iops * 0.99),
            high: Some(iops * 1.01),
            windows: 10,
        },
        iops,
        bytes_per_second: iops * 4096.0,
        clat_mean_ns: 80_000.0,
        clat_p50_ns: 75_000,
        clat_p99_ns: 150_000,
        cores: 0.5,
        cpu_ns_per_io: Some([1000.0, 3000.0, 500.0]),
        switches_per_io: Some(0.5),
        ..MeasuredCondition::default()
    }
}

fn effect(value: f64, claim: Claim) -> Option<Effect> {
    let ratio = Ratio { value, low: value - 0.01, high: value + 0.01 };
    let ratio_99 = Some(Ratio { low: value - 0.013, high: value + 0.013, ..ratio });
    Some(Effect { ratio: Some(ratio), ratio_99, pairs: 10, claim })
}

fn record(
    experiment: Experiment,
    conditions: Vec<MeasuredCondition>,
    is_sweep: bool,
) -> ExperimentRecord {
    let report = ExperimentReport { seconds_used: 30.0, windows: 33, rounds: 10, conditions };
    judged(ExperimentRecord {
        header: Header::default(),
        request: Request { experiment, is_sweep, ..Request::default() },
        conditions: Vec::new(),
        report,
        ranks: Vec::new(),
    })
}

fn judged(mut record: ExperimentRecord) -> ExperimentRecord {
    record.header.findings = judge_experiment(&record);
    record
}

fn schedulers() -> ExperimentRecord {
    let published = |text: &str, direction| Some(Published { text: text.into(), direction });
    let conditions = vec![
        Condition {
            published: published("1,150k IOPS", None),
            ..condition("none", &[], &[], None)
        },
        condition("none again (A/A)", &[], &[], Some(0)),
        Condition {
            published: published("525k IOPS", Some(Direction::Lower)),
            ..condition("mq-deadline", &[], &[0], None)
        },
        Condition {
            published: published("no difference", Some(Direction::Same)),
            ..condition("kyber", &[], &[0], None)
        },
        condition("bfq", &[], &[0], None),
    ];
    let experiment = Experiment {
        name: "scheduler".into(),
        question: "What does the I/O scheduler cost?".into(),
        source: "someone, on a large machine".into(),
        conditions,
        ..Experiment::default()
    };
    let layers = |names: &[(&str, f64)]| {
        let layer =
            |(name, share): &(&str, f64)| LayerShare { layer: (*name).into(), share: *share };
        Some(Detail {
            samples: 400,
            layers: names.iter().map(layer).collect(),
            unplugs: vec![(1, 10), (8, 30)],
            io_wq_workers: 2,
        })
    };
    let measured = vec![
        MeasuredCondition {
            detail: layers(&[("block layer", 0.6), ("driver", 0.4)]),
            ..found(100e3)
        },
        MeasuredCondition { control: effect(1.003, Claim::NoneAbove(0.012)), ..found(100.3e3) },
        MeasuredCondition {
            effect: effect(0.457, Claim::Changed),
            detail: layers(&[("I/O scheduler", 0.5), ("driver", 0.5)]),
            ..found(45.7e3)
        },
        MeasuredCondition { effect: effect(1.002, Claim::NoneAbove(0.013)), ..found(100.2e3) },
        MeasuredCondition {
            rejected: Some("no such scheduler".into()),
            effect: Some(Effect {
                ratio: None,
                ratio_99: None,
                pairs: 0,
                claim: Claim::Inconclusive("0 of 8".into()),
            }),
            ..MeasuredCondition::default()
        },
    ];
    record(experiment, measured, false)
}

fn grid() -> ExperimentRecord {
    let cells = [
        ("4k", "1", 10e3),
        ("4k", "8", 60e3),
        ("4k", "64", 61e3),
        ("1m", "1", 1e3),
        ("1m", "8", 2e3),
    ];
    let conditions =
        cells.iter().map(|(bs, depth, _)| condition("", &[bs, depth], &[], None)).collect();
    let axes = vec!["bs".into(), "iodepth".into()];
    let experiment = Experiment { name: "sweep".into(), conditions, axes, ..Experiment::default() };
    let mut measured: Vec<MeasuredCondition> = cells.iter().map(|cell| found(cell.2)).collect();
    measured[1].is_knee = true;
    measured[2].is_best = true;
    measured[4].is_best = true;
    for (index, value) in [(0, 0.16), (1, 0.99), (3, 0.5)] {
        measured[index].to_best = Some(Ratio { value, low: value - 0.02, high: value + 0.02 });
    }
    record(experiment, measured, true)
}

#[test]
fn effects_come_first_then_figures_and_what_others_found() {
    let page = experiment(&schedulers(), false);
    let shown = unwrapped(&page);
    for part in [
        "scheduler  What does the I/O scheduler cost?",
        "mq-deadline: IOPS −54.3% (99% CI −55.6 to −53.0) relative to none.",
        "kyber: no effect on IOPS above 1.30%.",
        "A/A control  the two baseline measurements differ by +0.3% (99% CI −1.0 to +1.6)",
        "published  someone, on a large machine",
        "problem  bfq: no such scheduler",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let line = |start: &str, word: &str| {
        shown.lines().any(|line| line.trim_start().starts_with(start) && line.contains(word))
    };
    assert!(line("mq-deadline", "agrees") && line("kyber", "agrees"), "{shown}");
    assert!(line("I/O scheduler", "2.25 µs") && line("mq-deadline", "6.25"), "{shown}");
    assert!(line("none", "100k") && line("none", "████"), "{shown}");
    assert!(!shown.contains("bfq: inconclusive"), "{shown}");
}

#[test]
fn a_sweep_has_its_knee_and_what_is_within_noise() {
    let shown = unwrapped(&experiment(&grid(), false));
    assert!(shown.contains("knee, tied with the best") && shown.contains("best"), "{shown}");
    let first: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).take(2).collect();
    let answer = [
        "Best: bs=4k iodepth=64, IOPS 61k (95% CI 60.4k–61.6k), p99 150 µs.",
        "Knee: bs=4k iodepth=8, IOPS 60k (95% CI 59.4k–60.6k), p99 150 µs.",
    ];
    assert_eq!(first, answer, "{shown}");
    assert!(
        shown.contains("1 of 5 points are statistically tied with the best of their curve"),
        "{shown}"
    );
    assert!(shown.contains("◎ knee: iodepth=8 (bs=4k)") && shown.contains("● bs=4k"), "{shown}");
    assert!(!shown.contains("relative to"), "{shown}");
}

#[test]
fn the_latency_of_flushes_is_beside_that_of_writes() {
    for mut record in [schedulers(), grid()] {
        assert!(!unwrapped(&experiment(&record, false)).contains("flush p99"));
        record
            .report
            .conditions
            .iter_mut()
            .take(3)
            .for_each(|found| found.flush_p99_ns = 7_000_000);
        let shown = unwrapped(&experiment(&record, false));
        let columns = shown.lines().find(|line| line.contains(" flush p99 ")).unwrap();
        assert!(columns.contains(" p99 "), "{shown}");
        assert!(shown.matches("7 ms").count() >= 3, "{shown}");
        assert!(
            !record.request.is_sweep || shown.contains("p99 150 µs, flush p99 7 ms."),
            "{shown}"
        );
    }
}

#[test]
fn what_noise_hides_is_not_a_tie() {
    let mut record = grid();
    record.report.rounds = 3;
    record.report.conditions[0].to_best = Some(Ratio { value: 0.75, low: 0.5, high: 1.12 });
    let shown = unwrapped(&experiment(&record, false));
    assert!(shown.contains("not distinguishable from the best: 0.75× (0.50–1.12)"), "{shown}");
    assert_eq!(shown.matches("tied with the best").count(), 2, "{shown}");
    assert!(
        shown.contains(
            "1 of 5 points cannot be told apart from the best of their curve with 3 rounds; a longer \
             --duration narrows their intervals"
        ),
        "{shown}"
    );
}

#[test]
fn a_curve_that_still_rises_has_no_knee() {
    let mut record = grid();
    record.report.conditions[1].is_knee = false;
    let noisy = Estimate { mean: 97e3, low: Some(0.0), high: Some(11e6), windows: 3 };
    record.report.conditions[0].metric = noisy;
    let shown = unwrapped(&experiment(&record, false));
    assert!(shown.contains("best, knee not reached") && shown.contains("noisy"), "{shown}");
    assert!(!shown.contains("◎"), "{shown}");
}

#[test]
fn the_interval_beside_inconclusive_is_the_one_that_decided() {
    let mut record = schedulers();
    record.report.conditions[3].effect = effect(0.98, Claim::Inconclusive("why".into()));
    let shown = unwrapped(&experiment(&judged(record), false));
    assert!(shown.contains("kyber: inconclusive: −2.0% (99% CI −3.3 to −0.7); why."), "{shown}");
    assert!(shown.contains("inconclusive, −2.0% (99% CI −3.3 to −0.7)"), "{shown}");
}

#[test]
fn latency_stays_at_80_and_at_60_columns() {
    let mut record = schedulers();
    record.report.conditions[3].effect = effect(0.98, Claim::Inconclusive("why".into()));
    for width in [60, 80] {
        let style = crate::render::Style { color: false, width };
        let text = crate::render::text(&experiment(&record, false), style);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("p99")).collect();
        assert!(!rows.is_empty() && text.matches("150 µs").count() >= 3, "{text}");
        assert!(width < 80 || rows[0].contains("variant"), "{text}");
    }
}

#[test]
fn pages_fit_terminals() {
    for record in [schedulers(), grid()] {
        let mut page = experiment(&record, false);
        // Charts have axes, not sentences.
        fn without_charts(page: &mut Document) {
            page.blocks.retain(|block| !matches!(block, crate::doc::Block::Chart(_)));
            for block in &mut page.blocks {
                if let crate::doc::Block::Section(section) = block {
                    without_charts(&mut section.body);
                }
            }
        }
        for width in [40, 60, 80] {
            let text = crate::render::text(&page, crate::render::Style { color: false, width });
            assert!(text.lines().all(|line| line.chars().count() <= width.max(60)), "{text}");
        }
        without_charts(&mut page);
        assert_fits(&page);
    }
}

#[test]
fn an_interrupted_experiment_says_so() {
    let mut record = schedulers();
    record.header.outcome = Outcome::interrupted("SIGINT");
    assert!(unwrapped(&experiment(&record, false)).contains("INCOMPLETE: interrupted by SIGINT"));
}

#[test]
fn html_is_one_page_that_loads_nothing_and_escapes_everything() {
    let mut record = schedulers();
    record.request.experiment.question = "<script>alert(1)</script> & \u{1b}[31m".into();
    record.request.experiment.conditions[0].name = "\"><img src=x>".into();
    let page = html(&experiment(&record, false));
    assert!(
        !page.contains("<script") && !page.contains("<img") && !page.contains('\u{1b}'),
        "{page}"
    );
    for outside in ["http:", "https:", "src=\"", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("<svg viewBox") && page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("width=device-width"));
    for tag in ["section", "table", "tr", "td", "svg", "figure", "dl", "p", "div"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn a_busy_machine_is_named_with_what_follows() {
    let mut record = schedulers();
    assert!(!unwrapped(&experiment(&record, false)).contains("waited for a CPU"));
    let found = &mut record.report.conditions;
    found[0].run_delay = Some(0.31);
    found[3].effect = effect(0.9, Claim::Inconclusive("the interval is too wide".into()));
    let shown = unwrapped(&experiment(&record, false));
    assert!(
        shown.contains(
            "Workers waited for a CPU for up to 31.0% of the time. If other programs use the CPUs, rerun on an idle \
             machine, or give all variants nice=-20 (as root)."
        ),
        "{shown}"
    );
    assert!(!shown.contains("corrected"), "{shown}");
    let found = &mut record.report.conditions;
    found[2].corrected = Some(Estimate { mean: 61.2e3, ..Estimate::default() });
    let shown = unwrapped(&experiment(&judged(record), false));
    for part in [
        "mq-deadline: corrected IOPS −54.3% (99% CI −55.6 to −53.0) relative to none.",
        "Other programs kept workers waiting for a CPU for up to 31.0% of the time. Effects therefore \
         compare corrected IOPS, which leaves that time out.",
        "61.2k",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn each_machine_has_a_row_with_what_it_did() {
    let rank = |hostname: &str, base: f64| ExperimentRank {
        hostname: hostname.into(),
        kernel: "6.1".into(),
        metrics: vec![Some(base), Some(base), Some(base / 2.0), None, None],
    };
    let ranks = (0..12).map(|n| rank(&format!("node{n}"), 1000.0 * f64::from(n + 1))).collect();
    let record = ExperimentRecord { ranks, ..schedulers() };
    let page = render::text(&experiment(&record, false), Style::default());
    let page = page.split("\nranks").nth(1).unwrap();
    assert!(page.contains("12 ranks measured each window together"), "{page}");
    // With more variants than columns, the one with most IOPS; the median, the slowest three, and the fastest.
    let rows: Vec<&str> = page.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let at = rows.iter().position(|first| *first == "host").unwrap();
    assert_eq!(rows[at + 1..at + 6], ["median", "node0", "node1", "node2", "node11"], "{page}");
}
