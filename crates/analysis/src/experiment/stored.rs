//! Two stored runs of one experiment, compared: on two kernels, two machines, or before and after a change.

use super::record::{ExperimentRecord, MeasuredCondition, Request, TrialReport, TrialWindow};
use super::verdict::{CONTROL_PART, Claim, Effect, is_outside, no_change};
use crate::stats::Ratio;
use fathom_model::experiment::{Condition, Experiment, Metric};

/// Windows of a condition at least, for a claim.
const WINDOWS_MIN: usize = 5;

/// `second` compared with `first`, condition by condition, from their windows. What differs between both runs besides
/// what they are named by is not ruled out: they were not interleaved.
///
/// # Errors
/// If they are not runs of the same experiment.
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
    experiment.question = format!("{} relative to {}", second.0, first.0);
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
        let values =
            |run: (&str, &ExperimentRecord, &[TrialWindow]), at| values(run.1, run.2, at, a.metric);
        let control = |run: (&str, &ExperimentRecord, &[TrialWindow]), at| {
            let (base, twin) = twin(&run.1.request.experiment, at)?;
            Some(Ratio::welch(&values(run, twin), &values(run, base))?.value)
        };
        let controls = [control(first, at), control(second, other)];
        let controls: Vec<f64> = controls.into_iter().flatten().collect();
        let effect = effect(&values(second, other), &values(first, at), &controls, precision);
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

/// The metric of each window of condition `at` that counts.
fn values(
    record: &ExperimentRecord,
    windows: &[TrialWindow],
    at: usize,
    metric: Metric,
) -> Vec<f64> {
    let warm = record.request.protocol.rounds_warm;
    let own = windows.iter().filter(|w| w.condition == at && w.round >= warm);
    own.filter_map(|w| w.outcome.as_ref().ok()?.metric(metric)).collect()
}

/// The baseline of condition `at`, or itself, and its repetition (A/A).
fn twin(experiment: &Experiment, at: usize) -> Option<(usize, usize)> {
    let base = experiment.conditions.get(at)?.against.first().copied().unwrap_or(at);
    let twin = experiment.conditions.iter().position(|c| c.repeats == Some(base))?;
    Some((base, twin))
}

/// The effect, `controls` being the ratios of each run's baseline to itself.
fn effect(changed: &[f64], base: &[f64], controls: &[f64], precision: f64) -> Effect {
    let ratio = Ratio::welch(changed, base);
    let least = changed.len().min(base.len());
    let differs = controls.iter().map(|control| control.ln().abs()).fold(0.0, f64::max);
    let claim = match ratio.zip(Ratio::welch_99(changed, base)) {
        Some(_) if least < WINDOWS_MIN => {
            Claim::Inconclusive(format!("{least} of {WINDOWS_MIN} windows needed"))
        }
        Some((ratio, sure))
            if is_outside(&sure) && differs >= CONTROL_PART * ratio.value.ln().abs() =>
        {
            let why = "two measurements of a baseline (A/A) differ by half as much or more";
            Claim::Inconclusive(why.to_string())
        }
        Some((_, sure)) if is_outside(&sure) => Claim::Changed,
        Some((ratio, _)) => no_change(&ratio, precision),
        None => Claim::Inconclusive("not measured in both runs".to_string()),
    };
    Effect { ratio, pairs: least as u32, claim }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_both_runs_are_compared() {
        let base = [100.0, 101.0, 99.0, 100.5, 99.5];
        let claim =
            |changed: &[f64], controls: &[f64]| effect(changed, &base, controls, 0.01).claim;
        let half = [50.0, 51.0, 49.0, 50.5, 49.5];
        assert_eq!(claim(&half, &[]), Claim::Changed);
        assert_eq!(claim(&half, &[1.01, 0.99]), Claim::Changed);
        assert!(
            matches!(claim(&half, &[1.01, 0.6]), Claim::Inconclusive(why) if why.contains("A/A"))
        );
        assert!(matches!(claim(&[100.0, 102.0, 99.0, 100.0, 99.0], &[]), Claim::NoneAbove(_)));
        assert!(matches!(claim(&[80.0, 122.0, 99.0, 70.0, 120.0], &[]), Claim::Inconclusive(_)));
        assert!(matches!(claim(&half[1..], &[]), Claim::Inconclusive(_)));
    }
}
