//! How IOPS saturate with the number of I/Os in flight.
//!
//! Between two bounds of closed queueing networks: with n in flight, throughput is at most min(n/c, 1) of its maximum
//! (asymptotic bounds, Denning and Buzen 1978) and, if all service is spread evenly over queues, n/(n + c) (balanced
//! job bounds, J. Zahorjan et al., "Balanced Job Bound Analysis of Queueing Networks", Communications of the ACM 25(2),
//! 1982). (1 + (c/n)^k)^(-1/k) is the latter at k = 1 and the former as k grows.

/// Sharpness: balanced, and as good as the asymptotic bounds.
const SHARP_MIN: f64 = 1.0;
const SHARP_MAX: f64 = 50.0;
/// Ratio of neighbours in the search for both parameters.
const STEP: f64 = 1.06;

#[derive(Debug, Clone, Copy)]
pub(super) struct LevelAtDepth {
    pub in_flight: f64,
    pub log: f64,
    pub weight: f64,
}

/// The curve; all values are logarithms of shares of its maximum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saturation {
    /// In flight where both asymptotes meet.
    corner: f64,
    sharpness: f64,
}

impl Saturation {
    /// The curve with the least absolute deviations: a single depth that the device dislikes moves it little. `None`
    /// without observations.
    pub fn fit(observed: &[LevelAtDepth]) -> Option<Self> {
        let deepest = observed.iter().map(|one| one.in_flight).fold(0.0, f64::max);
        let sharp = steps(SHARP_MIN, SHARP_MAX);
        let all = sharp.flat_map(|sharpness| {
            steps(0.25, deepest).map(move |corner| Self { corner, sharpness })
        });
        all.map(|curve| (curve, curve.deviation(observed)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(curve, _)| curve)
    }

    /// Sum of the absolute deviations, at the level that suits best: their weighted median.
    fn deviation(&self, observed: &[LevelAtDepth]) -> f64 {
        let mut rest: Vec<(f64, f64)> =
            observed.iter().map(|one| (one.log - self.log_at(one.in_flight), one.weight)).collect();
        rest.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = rest.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let median = rest.iter().find(|(_, weight)| {
            sum += weight;
            sum >= half
        });
        let level = median.map_or(0.0, |(rest, _)| *rest);
        rest.iter().map(|(rest, weight)| weight * (rest - level).abs()).sum()
    }

    pub fn log_at(&self, in_flight: f64) -> f64 {
        -(self.corner / in_flight).powf(self.sharpness).ln_1p() / self.sharpness
    }

    /// In flight where the curve reaches `log`, which is below 0.
    pub fn in_flight_for(&self, log: f64) -> f64 {
        let ratio = (-log * self.sharpness).exp_m1().max(f64::MIN_POSITIVE);
        self.corner / ratio.powf(1.0 / self.sharpness)
    }

    /// The fewest in flight, a power of two, from which doubling gains less than `gain`.
    pub fn flat_from(&self, gain: f64) -> f64 {
        let powers = (0..40).map(|power| f64::from(power).exp2());
        let is_flat = |n: &f64| self.log_at(2.0 * n) - self.log_at(*n) < gain;
        powers.into_iter().find(is_flat).unwrap_or(f64::INFINITY)
    }
}

fn steps(from: f64, to: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(from), |value| Some(value * STEP))
        .take_while(move |value| *value <= to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(curve: Saturation, depths: &[f64], level: f64) -> Vec<LevelAtDepth> {
        let one =
            |n: &f64| LevelAtDepth { in_flight: *n, log: level + curve.log_at(*n), weight: 3.0 };
        depths.iter().map(one).collect()
    }

    #[test]
    fn a_curve_is_found_again() {
        let depths = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0];
        for (corner, sharpness) in [(11.0, 1.0), (10.0, 4.0), (30.0, 1.5)] {
            let truth = Saturation { corner, sharpness };
            let mut observed = observe(truth, &depths, 0.1);
            // One depth is off.
            observed[4].log -= 0.3;
            let found = Saturation::fit(&observed).unwrap();
            for share in [0.5_f64, 0.8, 0.95] {
                let (wanted, n) =
                    (truth.in_flight_for(share.ln()), found.in_flight_for(share.ln()));
                assert!((n / wanted - 1.0).abs() < 0.08, "{truth:?} {found:?} {share}");
            }
        }
    }

    #[test]
    fn it_is_flat_where_doubling_gains_little() {
        // n/(n + 11): 64 to 128 gains 7.9%, 128 to 256 4.1%.
        let curve = Saturation { corner: 11.0, sharpness: 1.0 };
        assert_eq!(curve.flat_from(1.05_f64.ln()), 128.0);
        assert!((curve.in_flight_for(0.5_f64.ln()) - 11.0).abs() < 1e-9);
        assert!(Saturation::fit(&[]).is_none_or(|curve| curve.log_at(1.0).is_finite()));
    }
}
