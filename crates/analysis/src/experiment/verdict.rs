//! What the pairs of a comparison allow to claim.

use crate::stats;
use fathom_model::experiment::{Claim, Effect};
use fathom_model::units;
use fathom_model::window::Ratio;

/// Pairs at least for any claim: with fewer, no 99% interval of signed ranks exists.
const PAIRS_MIN: usize = 8;
/// Measured time of each variant at least for any claim, in nanoseconds: windows within a fraction of a second agree with
/// each other more than with what follows.
pub(super) const MEASURED_MIN_NS: u64 = 1_000_000_000;
/// "No effect" is claimed only where the interval excludes larger effects than this, or than this many times the
/// precision that was requested.
const NO_EFFECT_MAX: f64 = 0.05;
const NO_EFFECT_PRECISIONS: f64 = 3.0;
/// An A/A difference of this part of an effect, or more, makes it inconclusive.
const CONTROL_PART: f64 = 0.5;

/// What a claim needs, and has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    pub rounds: u32,
    pub precision: f64,
    /// Measured time of the variant that was measured least, in nanoseconds.
    pub measured_ns: u64,
}

/// The effect that `pairs` of (changed, baseline) show, `control` being those of the baseline's repetition with itself.
pub(super) fn effect(pairs: &[(f64, f64)], control: Option<&[(f64, f64)]>, needs: Needs) -> Effect {
    let ratio = stats::paired_robust(pairs).or_else(|| stats::paired(pairs));
    let ratio_99 = stats::paired_robust_99(pairs);
    let claim = claim(pairs, ratio.zip(ratio_99), control, needs);
    Effect { ratio, ratio_99, pairs: pairs.len() as u32, claim }
}

fn claim(
    pairs: &[(f64, f64)],
    ratios: Option<(Ratio, Ratio)>,
    control: Option<&[(f64, f64)]>,
    needs: Needs,
) -> Claim {
    let inconclusive = |why: &str| Claim::Inconclusive(why.to_string());
    let needed = PAIRS_MIN.max(needs.rounds as usize);
    let Some((ratio, sure)) = ratios.filter(|_| pairs.len() >= needed) else {
        return Claim::Inconclusive(format!("{} of {needed} rounds needed", pairs.len()));
    };
    if needs.measured_ns < MEASURED_MIN_NS {
        return short(needs.measured_ns);
    }
    let size = ratio.value.ln().abs();
    let same = control.and_then(stats::paired_robust);
    if is_outside(&sure) {
        let sure_same = control.and_then(stats::paired_robust_99);
        let differs = same.map_or(0.0, |same| same.value.ln().abs());
        let is_real = sure_same.is_some_and(|same| is_outside(&same));
        // A control that differs by chance is as small as its interval is wide.
        return match differs >= size || (is_real && differs >= CONTROL_PART * size) {
            true => inconclusive("the two baseline measurements (A/A) differ as much"),
            false => Claim::Changed,
        };
    }
    // What two measurements of the baseline may differ by cannot be ruled out for a variant.
    no_change(&ratio, same.map_or(0.0, |same| extent(&same)), needs.precision)
}

/// What can be said after a variant was measured for this time only, in nanoseconds.
fn short(measured_ns: u64) -> Claim {
    let [has, needed] = [measured_ns, MEASURED_MIN_NS].map(|ns| units::time(ns as f64));
    let text = format!("measured for {has}, {needed} needed; rerun with a longer --duration");
    Claim::Inconclusive(text)
}

/// How far from no difference an interval reaches.
fn extent(ratio: &Ratio) -> f64 {
    (ratio.high - 1.0).abs().max((1.0 - ratio.low).abs())
}

/// What a 95% interval allows to claim where the 99% interval includes no difference, and what is the same differs by
/// `same`, as a share.
fn no_change(ratio: &Ratio, same: f64, precision: f64) -> Claim {
    let inconclusive = |why: &str| Claim::Inconclusive(why.to_string());
    let above = extent(ratio).max(same);
    match above <= NO_EFFECT_MAX.max(NO_EFFECT_PRECISIONS * precision) {
        true => Claim::NoneAbove(above),
        false if is_outside(ratio) => {
            inconclusive("the 99% interval includes zero; rerun with a longer --duration")
        }
        false => inconclusive("the interval is too wide; rerun with a longer --duration"),
    }
}

fn is_outside(ratio: &Ratio) -> bool {
    ratio.low > 1.0 || ratio.high < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs { rounds: 8, precision: 0.01, measured_ns: 2_000_000_000 };

    fn pairs(ratio: f64, noise: f64, n: usize) -> Vec<(f64, f64)> {
        // Deviations that are symmetric and all different.
        let deviation = |i: usize| (i as f64 - (n as f64 - 1.0) / 2.0) / n as f64 * 2.0;
        (0..n).map(|i| (100.0 * ratio * (1.0 + noise * deviation(i)), 100.0)).collect()
    }

    #[test]
    fn claims_need_evidence_of_their_own() {
        let of = |pairs: &[(f64, f64)]| effect(pairs, None, NEEDS).claim;
        assert_eq!(of(&pairs(0.95, 0.01, 12)), Claim::Changed);
        assert!(matches!(of(&pairs(1.0, 0.02, 12)), Claim::NoneAbove(above) if above < 0.02));
        assert!(matches!(of(&pairs(1.0, 0.5, 12)), Claim::Inconclusive(_)));
        assert!(matches!(of(&pairs(0.5, 0.01, 7)), Claim::Inconclusive(_)));
    }

    #[test]
    fn nothing_is_claimed_within_a_fraction_of_a_second() {
        let needs = Needs { measured_ns: 188_000_000, ..NEEDS };
        for ratio in [1.0, 0.9] {
            let claim = effect(&pairs(ratio, 0.01, 12), None, needs).claim;
            let is_short = |why: &str| why.starts_with("measured for 188 ms, 1 s needed");
            assert!(matches!(&claim, Claim::Inconclusive(why) if is_short(why)), "{claim:?}");
        }
    }

    #[test]
    fn no_effect_is_claimed_below_what_the_baseline_differs_by() {
        let (changed, same) = (pairs(1.0, 0.005, 12), pairs(1.0, 0.04, 12));
        let of = |control: Option<&[(f64, f64)]>| effect(&changed, control, NEEDS).claim;
        assert!(matches!(of(None), Claim::NoneAbove(above) if above < 0.01));
        assert!(matches!(of(Some(&same)), Claim::NoneAbove(above) if above > 0.01));
        assert!(matches!(of(Some(&pairs(1.0, 0.5, 12))), Claim::Inconclusive(_)));
    }

    #[test]
    fn a_control_that_differs_as_much_makes_an_effect_inconclusive() {
        let (changed, same) = (pairs(1.05, 0.01, 12), pairs(1.06, 0.01, 12));
        let claim = effect(&changed, Some(&same), NEEDS).claim;
        assert!(matches!(&claim, Claim::Inconclusive(why) if why.contains("A/A")), "{claim:?}");
        let claim = effect(&changed, Some(&pairs(1.001, 0.01, 12)), NEEDS).claim;
        assert_eq!(claim, Claim::Changed);
    }
}
