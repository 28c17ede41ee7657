//! What the pairs of a comparison allow to claim.

use crate::stats::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pairs at least for any claim: with fewer, no 99% interval of signed ranks exists.
const PAIRS_MIN: usize = 8;
/// "No effect" is claimed only where the interval excludes larger effects than this, or than this many times the
/// precision that was requested.
const NO_EFFECT_MAX: f64 = 0.05;
const NO_EFFECT_PRECISIONS: f64 = 3.0;
/// An A/A difference of this part of an effect, or more, makes it inconclusive.
pub(super) const CONTROL_PART: f64 = 0.5;

/// A comparison and what it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The metric relative to what it is compared with, and its 95% interval.
    pub ratio: Option<Ratio>,
    /// Rounds in which both were measured.
    pub pairs: u32,
    /// The claim.
    pub claim: Claim,
}

/// What a comparison allows to claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The metric differs: the 99% interval excludes "no difference", and the control does not differ as much.
    Changed,
    /// No difference above this share (95%).
    NoneAbove(f64),
    /// Neither can be claimed, for this reason.
    Inconclusive(String),
}

/// The effect that `pairs` of (changed, baseline) show, `control` being those of the baseline's repetition with itself.
#[must_use]
pub(super) fn effect(
    pairs: &[(f64, f64)],
    control: Option<&[(f64, f64)]>,
    rounds_min: u32,
    precision: f64,
) -> Effect {
    let ratio = Ratio::paired_robust(pairs).or_else(|| Ratio::paired(pairs));
    let claim = claim(pairs, ratio, control, rounds_min, precision);
    Effect { ratio, pairs: pairs.len() as u32, claim }
}

fn claim(
    pairs: &[(f64, f64)],
    ratio: Option<Ratio>,
    control: Option<&[(f64, f64)]>,
    rounds_min: u32,
    precision: f64,
) -> Claim {
    let inconclusive = |why: &str| Claim::Inconclusive(why.to_string());
    let needed = PAIRS_MIN.max(rounds_min as usize);
    let sure = Ratio::paired_robust_99(pairs).filter(|_| pairs.len() >= needed);
    let (Some(ratio), Some(sure)) = (ratio, sure) else {
        return Claim::Inconclusive(format!("{} of {needed} rounds needed", pairs.len()));
    };
    let size = ratio.value.ln().abs();
    if is_outside(&sure) {
        let same = control.and_then(Ratio::paired_robust);
        let sure_same = control.and_then(Ratio::paired_robust_99);
        let differs = same.map_or(0.0, |same| same.value.ln().abs());
        let is_real = sure_same.is_some_and(|same| is_outside(&same));
        // A control that differs by chance is as small as its interval is wide.
        return match differs >= size || (is_real && differs >= CONTROL_PART * size) {
            true => inconclusive("the two baseline measurements (A/A) differ as much"),
            false => Claim::Changed,
        };
    }
    no_change(&ratio, precision)
}

/// What a 95% interval allows to claim where the 99% interval includes no difference.
pub(super) fn no_change(ratio: &Ratio, precision: f64) -> Claim {
    let inconclusive = |why: &str| Claim::Inconclusive(why.to_string());
    let above = (ratio.high - 1.0).abs().max((1.0 - ratio.low).abs());
    match above <= NO_EFFECT_MAX.max(NO_EFFECT_PRECISIONS * precision) {
        true => Claim::NoneAbove(above),
        false if is_outside(ratio) => {
            inconclusive("the 99% interval includes zero; rerun with a longer --duration")
        }
        false => inconclusive("the interval is too wide; rerun with a longer --duration"),
    }
}

pub(super) fn is_outside(ratio: &Ratio) -> bool {
    ratio.low > 1.0 || ratio.high < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratio: f64, noise: f64, n: usize) -> Vec<(f64, f64)> {
        // Deviations that are symmetric and all different.
        let deviation = |i: usize| (i as f64 - (n as f64 - 1.0) / 2.0) / n as f64 * 2.0;
        (0..n).map(|i| (100.0 * ratio * (1.0 + noise * deviation(i)), 100.0)).collect()
    }

    #[test]
    fn claims_need_evidence_of_their_own() {
        let of = |pairs: &[(f64, f64)]| effect(pairs, None, 8, 0.01).claim;
        assert_eq!(of(&pairs(0.95, 0.01, 12)), Claim::Changed);
        assert!(matches!(of(&pairs(1.0, 0.02, 12)), Claim::NoneAbove(above) if above < 0.02));
        assert!(matches!(of(&pairs(1.0, 0.5, 12)), Claim::Inconclusive(_)));
        assert!(matches!(of(&pairs(0.5, 0.01, 7)), Claim::Inconclusive(_)));
    }

    #[test]
    fn a_control_that_differs_as_much_makes_an_effect_inconclusive() {
        let (changed, same) = (pairs(1.05, 0.01, 12), pairs(1.06, 0.01, 12));
        let claim = effect(&changed, Some(&same), 8, 0.01).claim;
        assert!(matches!(&claim, Claim::Inconclusive(why) if why.contains("A/A")), "{claim:?}");
        let claim = effect(&changed, Some(&pairs(1.001, 0.01, 12)), 8, 0.01).claim;
        assert_eq!(claim, Claim::Changed);
    }
}
