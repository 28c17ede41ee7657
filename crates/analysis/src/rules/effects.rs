//! What an experiment shows of each variant, and of each curve of a sweep.

#[cfg(test)]
use super::testing::Case;
use super::{Check, Claim, Rule};
use fathom_model::experiment::{self as model, Effect, ExperimentRecord, MeasuredCondition};
use fathom_model::finding::{Class, Confidence, Evidence, Severity, Unit};
use fathom_model::units;
use fathom_model::window::Ratio;

pub(super) struct Variant<'a> {
    pub record: &'a ExperimentRecord,
    pub condition: &'a model::Condition,
    pub found: &'a MeasuredCondition,
}

impl<'a> Variant<'a> {
    pub fn all(record: &'a ExperimentRecord) -> impl Iterator<Item = Variant<'a>> {
        let pairs = record.request.experiment.conditions.iter().zip(&record.report.conditions);
        pairs.map(move |(condition, found)| Variant { record, condition, found })
    }

    pub fn label(&self) -> String {
        self.condition.label(&self.record.request.experiment.axes)
    }
}

pub(super) static EFFECT: Rule = Rule {
    id: "effect",
    class: Class::Advice,
    severity: Severity::Info,
    meaning: "How a variant compares with its baseline.",
    threshold: || {
        "The 99% interval excludes \"no difference\" and the control does not differ as much, or the 95% interval excludes \
         larger effects; else inconclusive."
            .into()
    },
    checks: &[Check::Variant(effect)],
    #[cfg(test)]
    cases: &[Case::Experiment {
        holds: |r| r.report.conditions[1].effect = Some(half(model::Claim::Changed)),
        near_miss: |r| r.report.conditions[1].windows = 0,
    }],
    ..Rule::DEFAULT
};

#[cfg(test)]
pub(super) fn half(claim: model::Claim) -> model::Effect {
    let ratio = Ratio { value: 0.5, low: 0.48, high: 0.52 };
    let ratio_99 = Some(Ratio { low: 0.47, high: 0.53, ..ratio });
    model::Effect { ratio: Some(ratio), ratio_99, pairs: 10, claim }
}

fn effect(variant: &Variant) -> Option<Claim> {
    use model::Claim::{Changed, Inconclusive, NoneAbove};
    let found = variant.found;
    let effect = found.effect.as_ref().filter(|_| found.windows > 0)?;
    let experiment = &variant.record.request.experiment;
    let corrected = if found.corrected.is_some() { "corrected " } else { "" };
    let metric = format!("{corrected}{}", experiment.metric.title());
    let names = variant.condition.against.iter();
    let names: Vec<&str> =
        names.filter_map(|base| Some(experiment.conditions.get(*base)?.name.as_str())).collect();
    let base = match names.as_slice() {
        [one] => (*one).to_string(),
        several => format!("the sum of {} alone", several.len()),
    };
    let label = variant.label();
    let (text, confidence) = match (&effect.claim, &effect.ratio) {
        (Changed, Some(ratio)) => {
            let text = format!("{metric} {} relative to {base}", decisive(effect, ratio));
            (text, Some(Confidence::High))
        }
        (NoneAbove(share), _) => {
            let share = units::percent(share * 100.0);
            (format!("no effect on {metric} above {share}"), Some(Confidence::High))
        }
        (Inconclusive(why), ratio) => {
            let ratio = ratio.as_ref().map(|ratio| format!(" {};", decisive(effect, ratio)));
            let ratio = ratio.unwrap_or_default();
            (format!("inconclusive:{ratio} {why}"), None)
        }
        (Changed, None) => ("inconclusive".to_string(), None),
    };
    let figure = |name: &str, ratio: &Ratio| {
        Evidence::number(name, ratio.value, Unit::Ratio).with_interval(ratio.low, ratio.high)
    };
    let ratio = effect.ratio.as_ref().map(|ratio| figure(&format!("{metric}, ratio"), ratio));
    let sure =
        effect.ratio_99.as_ref().map(|ratio| figure("the same with its 99% interval", ratio));
    let rounds = Evidence::number("rounds", f64::from(effect.pairs), Unit::Count);
    let control = variant.record.report.conditions.iter().zip(&experiment.conditions);
    let control =
        control.filter(|(_, of)| of.repeats == variant.condition.against.first().copied());
    let control = control.filter_map(|(found, _)| found.control.as_ref()?.ratio).next();
    let control = control.map(|ratio| figure("baseline again (A/A)", &ratio));
    let evidence = ratio.into_iter().chain(sure).chain([rounds]).collect();
    let claim = Claim::new(format!("{label}: {text}."), evidence).despite(control);
    Some(Claim { confidence, ..claim })
}

/// An effect with the interval that decides: the one at 99%, where it is known.
fn decisive(effect: &Effect, ratio: &Ratio) -> String {
    match effect.ratio_99 {
        Some(sure) => change(&Ratio { value: ratio.value, ..sure }, 99),
        None => change(ratio, 95),
    }
}

/// A ratio as a change with its interval.
pub(super) fn change(ratio: &Ratio, confidence: u32) -> String {
    let [value, low, high] =
        [ratio.value, ratio.low, ratio.high].map(|ratio| (ratio - 1.0) * 100.0);
    format!("{} ({confidence}% CI {})", units::change(value), units::change_ends(low, high))
}

pub(super) static CURVE: Rule = Rule {
    id: "curve",
    class: Class::Advice,
    severity: Severity::Info,
    meaning: "The cell with the most IOPS of its curve, or the knee of the curve.",
    threshold: || {
        "The knee is the first cell with 95% of the most IOPS, or under a given load the one with the most throughput per \
         latency; none at the end of a curve that still rises."
            .into()
    },
    checks: &[Check::Variant(curve)],
    #[cfg(test)]
    cases: &[Case::Experiment {
        holds: |r| {
            r.request.is_sweep = true;
            r.report.conditions[1].is_best = true;
        },
        near_miss: |r| r.request.is_sweep = true,
    }],
    ..Rule::DEFAULT
};

fn curve(variant: &Variant) -> Option<Claim> {
    let found = variant.found;
    let what = match (found.is_knee, found.is_best) {
        (true, true) => "the most IOPS of its curve, and its knee",
        (true, false) => "the knee of its curve",
        (false, true) => "the most IOPS of its curve",
        (false, false) => return None,
    };
    let latency = match found.clat_mean_ns {
        ns if ns > 0.0 => format!(" at a mean latency of {}", units::time(ns)),
        _ => String::new(),
    };
    let text = format!("{}: {what}, {} IOPS{latency}.", variant.label(), units::count(found.iops));
    let metric = found.metric;
    let iops = Evidence::number("IOPS", found.iops, Unit::Iops);
    let is_iops = variant.record.request.experiment.metric == model::Metric::Iops;
    let iops = match metric.low.zip(metric.high).filter(|_| is_iops) {
        Some((low, high)) => iops.with_interval(low.max(0.0), high),
        None => iops,
    };
    let p99 = Evidence::number("p99 latency", found.clat_p99_ns as f64, Unit::Nanoseconds);
    Some(Claim::new(text, vec![iops, p99]))
}

#[cfg(test)]
mod tests {
    use super::super::judge_experiment;
    use super::super::testing::{changed, experiment};
    use super::*;
    use fathom_model::finding::Part;

    #[test]
    fn each_variant_has_its_verdict() {
        let of = |claim| {
            let record =
                changed(experiment(), |r| r.report.conditions[1].effect = Some(half(claim)));
            let found = judge_experiment(&record);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(
                (found[0].rank, found[0].part),
                (Some(1), Some(Part::Condition { index: 1 }))
            );
            found[0].summary.clone()
        };
        let changed = of(model::Claim::Changed);
        assert_eq!(changed, "b: IOPS −50.0% (99% CI −53.0 to −47.0) relative to a.");
        assert_eq!(of(model::Claim::NoneAbove(0.02)), "b: no effect on IOPS above 2.00%.");
        let inconclusive = of(model::Claim::Inconclusive("3 of 8 rounds needed".into()));
        let wanted = "b: inconclusive: −50.0% (99% CI −53.0 to −47.0); 3 of 8 rounds needed.";
        assert_eq!(inconclusive, wanted);
    }
}
