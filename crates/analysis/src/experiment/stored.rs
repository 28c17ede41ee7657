//! Two stored runs of one experiment, compared: on two kernels, two machines, or before and after a change.

use super::totals::{SECTOR_BYTES, Totals};
use super::verdict::{CONTROL_PART, MEASURED_MIN_NS, is_outside, no_change, short};
use crate::stats;
use fathom_model::experiment::{
    Claim, Condition, Effect, Experiment, ExperimentRecord, MeasuredCondition, Metric, Request,
    TrialReport, TrialWindow,
};
use std::collections::BTreeMap;

/// Windows of a condition at least, for a claim.
const WINDOWS_MIN: usize = 5;
/// Runs are not comparable if other programs used so many more CPUs during one of them, or moved such a larger part of
/// the disks' bytes.
const FOREIGN_CPUS: f64 = 0.25;
const FOREIGN_BYTES: f64 = 0.05;
/// Or if windows of the same job differ so many times as much in one of them, and by this share at least.
const SPREAD_TIMES: f64 = 2.0;
const SPREAD_MIN: f64 = 0.01;

/// `second` compared with `first`, condition by condition, from their windows. What differs between both runs besides
/// what they are named by is not ruled out: they were not interleaved.
pub fn compare_stored(
    first: (&str, &ExperimentRecord, &[TrialWindow]),
    second: (&str, &ExperimentRecord, &[TrialWindow]),
) -> Result<ExperimentRecord, String> {
    let (a, b) = (&first.1.request.experiment, &second.1.request.experiment);
    if a.name != b.name || a.metric != b.metric {
        return Err(format!(
            "{} and {} are different experiments; compare runs of one",
            a.name, b.name
        ));
    }
    let mut experiment = Experiment { conditions: Vec::new(), ..a.clone() };
    experiment.question =
        format!("{} relative to {}; the runs were not interleaved", second.0, first.0);
    let precision = |run: &ExperimentRecord| run.request.protocol.precision;
    let precision = precision(first.1).max(precision(second.1));
    let mut report = TrialReport::default();
    for (at, condition) in a.conditions.iter().enumerate().filter(|(_, c)| c.repeats.is_none()) {
        let same = |other: &Condition| other.label(&b.axes) == condition.label(&a.axes);
        let Some(other) = b.conditions.iter().position(same) else { continue };
        let base = experiment.conditions.len();
        let named = |name: &str, against: Vec<usize>| Condition {
            name: format!("{} {name}", condition.name).trim().to_string(),
            against,
            published: None,
            ..condition.clone()
        };
        let published = condition.published.clone();
        experiment.conditions.push(named(first.0, Vec::new()));
        experiment.conditions.push(Condition { published, ..named(second.0, vec![base]) });
        let found = |record: &ExperimentRecord, at: usize| MeasuredCondition {
            effect: None,
            corrected: None,
            ..record.report.conditions.get(at).cloned().unwrap_or_default()
        };
        let runs = [Run::of(first, at, a.metric), Run::of(second, other, a.metric)];
        let effect = effect(&runs, precision);
        report.conditions.push(found(first.1, at));
        report
            .conditions
            .push(MeasuredCondition { effect: Some(effect), ..found(second.1, other) });
    }
    report.windows = first.1.report.windows + second.1.report.windows;
    report.seconds_used = first.1.report.seconds_used + second.1.report.seconds_used;
    report.rounds = first.1.report.rounds.min(second.1.report.rounds);
    let request = Request { experiment, is_sweep: false, ..first.1.request.clone() };
    Ok(ExperimentRecord { request, report, ..second.1.clone() })
}

#[derive(Debug, Clone, Default)]
struct Run {
    name: String,
    /// The metric of each window that counts.
    values: Vec<f64>,
    /// Their measured time, in nanoseconds.
    measured_ns: u64,
    /// CPUs that other programs kept busy, or a hypervisor kept, on average.
    foreign_cpus: Option<f64>,
    /// Part of the disks' bytes that was not the variant's.
    foreign_bytes: Option<f64>,
    /// The baseline's repetition over the baseline (A/A), over all windows.
    control: Option<f64>,
    /// By how much two windows of the same differ, as a standard deviation of logarithms: those of the A/A control in
    /// each round or, without one, the condition's own.
    spread: Option<f64>,
}

impl Run {
    fn of(run: (&str, &ExperimentRecord, &[TrialWindow]), at: usize, metric: Metric) -> Self {
        let (name, record, windows) = run;
        let warm = record.request.protocol.rounds_warm;
        let of = |at: usize| {
            let own = windows.iter().filter(move |w| w.condition == at && w.round >= warm);
            own.filter_map(|w| Some((w.round, w.outcome.as_ref().ok()?)))
        };
        let values = |at| of(at).filter_map(|(_, w)| w.metric(metric)).collect::<Vec<f64>>();
        let mut totals = Totals::default();
        of(at).for_each(|(_, window)| totals.add(window));
        let cpus = record.header.facts.host.cpus_allowed.len() as f64;
        let twin = twin(&record.request.experiment, at);
        let by_round = |at| of(at).filter_map(|(n, w)| Some((n, w.metric(metric)?)));
        let logs: Vec<f64> = match twin {
            Some((base, twin)) => {
                let base: BTreeMap<u32, f64> = by_round(base).collect();
                let log = |(n, value): (u32, f64)| Some((value / base.get(&n)?).ln());
                by_round(twin).filter_map(log).collect()
            }
            None => values(at).iter().map(|value| value.ln()).collect(),
        };
        Self {
            name: name.to_string(),
            values: values(at),
            measured_ns: totals.sum.elapsed_ns,
            foreign_cpus: totals.cpu().map(|cpu| (cpu.taken() * cpus - totals.cores()).max(0.0)),
            foreign_bytes: totals.sum.disk.as_ref().and_then(|disk| {
                let all = (disk.sectors.read + disk.sectors.write) as f64 * SECTOR_BYTES;
                (all > 0.0).then(|| (1.0 - totals.sum.bytes as f64 / all).max(0.0))
            }),
            control: twin
                .and_then(|(base, twin)| Some(stats::welch(&values(twin), &values(base))?.value)),
            spread: deviation(&logs),
        }
    }
}

/// The baseline of condition `at`, or itself, and its repetition (A/A).
fn twin(experiment: &Experiment, at: usize) -> Option<(usize, usize)> {
    let base = experiment.conditions.get(at)?.against.first().copied().unwrap_or(at);
    let twin = experiment.conditions.iter().position(|c| c.repeats == Some(base))?;
    Some((base, twin))
}

/// Why the runs cannot be compared, with the figures: other load during one of them changes more than noise within a run
/// shows.
fn not_comparable([first, second]: &[Run; 2]) -> Option<String> {
    let both = |of: fn(&Run) -> Option<f64>| of(first).zip(of(second));
    let differ = |what: &str, a: String, b: String| {
        Some(format!("{what} {a} in {}, {b} in {}", first.name, second.name))
    };
    if let Some((a, b)) = both(|run| run.foreign_cpus).filter(|(a, b)| (a - b).abs() > FOREIGN_CPUS)
    {
        return differ("other programs used", format!("{a:.2} CPUs"), format!("{b:.2} CPUs"));
    }
    if let Some((a, b)) =
        both(|run| run.foreign_bytes).filter(|(a, b)| (a - b).abs() > FOREIGN_BYTES)
    {
        let share = |part: f64| format!("{:.0}% of the disks' bytes", 100.0 * part);
        return differ("other programs moved", share(a), share(b));
    }
    let (a, b) = both(|run| run.spread)?;
    let (low, high) = (a.min(b), a.max(b));
    let shown = |spread: f64| format!("±{:.1}%", 100.0 * spread);
    (high > SPREAD_MIN && high > SPREAD_TIMES * low)
        .then(|| differ("windows of the same job differ by", shown(a), shown(b)))
        .flatten()
}

fn effect(runs: &[Run; 2], precision: f64) -> Effect {
    let [first, second] = runs;
    let (base, changed) = (&first.values, &second.values);
    let least = changed.len().min(base.len());
    if let Some(why) = not_comparable(runs) {
        let claim = Claim::NotComparable(why);
        return Effect { ratio: None, ratio_99: None, pairs: least as u32, claim };
    }
    let ratios = stats::welch(changed, base).zip(stats::welch_99(changed, base));
    let controls = runs.iter().filter_map(|run| run.control);
    let differs = controls.map(|control| control.ln().abs()).fold(0.0, f64::max);
    // Nothing shows how much two runs differ; it is more than two windows of one run do.
    let spread = 2.0 * runs.iter().filter_map(|run| run.spread).fold(0.0, f64::max);
    let measured_ns = first.measured_ns.min(second.measured_ns);
    let claim = match ratios {
        Some(_) if least < WINDOWS_MIN => {
            Claim::Inconclusive(format!("{least} of {WINDOWS_MIN} windows needed"))
        }
        Some(_) if measured_ns < MEASURED_MIN_NS => short(measured_ns),
        Some((ratio, sure)) if is_outside(&sure) => {
            let size = ratio.value.ln().abs();
            if differs >= CONTROL_PART * size {
                let why = "two measurements of a baseline (A/A) differ by half as much or more";
                Claim::Inconclusive(why.to_string())
            } else if spread >= size {
                let why = format!("single windows of one run differ by ±{:.1}%", 100.0 * spread);
                Claim::Inconclusive(why)
            } else {
                Claim::Changed
            }
        }
        Some((ratio, _)) => no_change(&ratio, spread, precision),
        None => Claim::Inconclusive("not measured in both runs".to_string()),
    };
    let (ratio, ratio_99) = ratios.unzip();
    Effect { ratio, ratio_99, pairs: least as u32, claim }
}

/// The standard deviation of `values`; `None` with fewer than [`WINDOWS_MIN`].
fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= WINDOWS_MIN).then(|| (squares / (n - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[f64]) -> Run {
        let (name, values) = ("a".into(), values.to_vec());
        Run { name, values, measured_ns: 1_000_000_000, ..Run::default() }
    }

    const BASE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];
    const HALF: [f64; 5] = [50.0, 51.0, 49.0, 50.5, 49.5];

    #[test]
    fn windows_of_both_runs_are_compared() {
        let claim = |changed: &[f64], controls: &[Option<f64>; 2]| {
            let [first, second] = [run(&BASE), run(changed)];
            let runs =
                [Run { control: controls[0], ..first }, Run { control: controls[1], ..second }];
            effect(&runs, 0.01).claim
        };
        let none = [None, None];
        assert_eq!(claim(&HALF, &none), Claim::Changed);
        assert_eq!(claim(&HALF, &[Some(1.01), Some(0.99)]), Claim::Changed);
        assert!(
            matches!(claim(&HALF, &[Some(1.01), Some(0.6)]), Claim::Inconclusive(why) if why.contains("A/A"))
        );
        assert!(matches!(claim(&[100.0, 102.0, 99.0, 100.0, 99.0], &none), Claim::NoneAbove(_)));
        assert!(matches!(claim(&[80.0, 122.0, 99.0, 70.0, 120.0], &none), Claim::Inconclusive(_)));
        assert!(matches!(claim(&HALF[1..], &none), Claim::Inconclusive(_)));
    }

    #[test]
    fn runs_beside_another_load_are_not_compared() {
        let claim = |first: Run, second: Run| match effect(&[first, second], 0.01) {
            Effect { ratio: None, claim: Claim::NotComparable(why), .. } => why,
            other => format!("compared: {other:?}"),
        };
        let cpus = |n| Run { foreign_cpus: Some(n), ..run(&HALF) };
        let why = "other programs used 0.05 CPUs in a, 1.60 CPUs in a";
        assert_eq!(claim(cpus(0.05), cpus(1.6)), why);
        assert!(claim(cpus(0.05), cpus(0.1)).starts_with("compared"));
        let bytes = |part| Run { foreign_bytes: Some(part), ..run(&HALF) };
        assert!(claim(bytes(0.0), bytes(0.4)).starts_with("other programs moved 0% of"));
        let spread = |part| Run { spread: Some(part), ..run(&HALF) };
        let why = "windows of the same job differ by ±1.0% in a, ±9.0% in a";
        assert_eq!(claim(spread(0.01), spread(0.09)), why);
        assert!(claim(spread(0.01), spread(0.015)).starts_with("compared"));
    }

    #[test]
    fn an_effect_within_the_spread_of_windows_is_not_claimed_across_runs() {
        let spread = |part, values: &[f64]| Run { spread: Some(part), ..run(values) };
        let claim = |part| effect(&[spread(part, &BASE), spread(part, &[95.0; 5])], 0.01).claim;
        assert_eq!(claim(0.01), Claim::Changed);
        assert!(matches!(claim(0.04), Claim::Inconclusive(why) if why.contains("±8.0%")));
    }
}
