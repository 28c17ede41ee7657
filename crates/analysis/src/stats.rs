//! The little statistics that a claim about a measurement needs: how sure a mean is, and how sure
//! the ratio of two means is. All intervals are two-sided at 95%.
//!
//! Sources: Student's t interval of a mean, NIST/SEMATECH e-Handbook of Statistical Methods 1.3.5.2;
//! Welch–Satterthwaite degrees of freedom, the same 7.3.1.3; the interval of a ratio is taken on the logarithm (delta
//! method: var(ln x̄) ≈ s²/(n·x̄²)), so that it is never negative and a:b is the inverse of b:a; the estimate of Hodges and
//! Lehmann and the interval that goes with it (Tukey), Hollander and Wolfe, Nonparametric Statistical Methods, 3.2 and 3.3;
//! Wilson's interval of a share, NIST/SEMATECH e-Handbook 7.2.4.1; the ratio estimator, W. G. Cochran, Sampling
//! Techniques, 3rd edition, 6.4; Student's distribution in closed form, Abramowitz and Stegun, 26.7.3 and 26.7.4.

use fathom_model::window::{Estimate, Ratio};

/// The normal distribution at 97.5%.
const NORMAL_975: f64 = 1.959_964;
/// Up to this many pairs are compared one with another; more are put into groups first, each by its median.
const ROBUST_MAX: usize = 256;
/// Up to this many degrees of freedom Student's t is computed, beyond it is normal to four digits.
const FREEDOM_MAX: f64 = 5000.0;
/// Logarithm of the largest ratio reported; larger means infinite.
const LOG_MAX: f64 = 300.0;

/// Wilson's interval of a share, 0 to 1, that was found among `samples` independent samples.
pub fn share_interval(share: f64, samples: u64) -> (f64, f64) {
    let n = samples.max(1) as f64;
    let z2 = NORMAL_975 * NORMAL_975;
    let middle = share + z2 / (2.0 * n);
    let half = NORMAL_975 * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// Student's t interval of the mean of `values`; not-finite values are left out.
pub fn mean(values: &[f64]) -> Estimate {
    let Some(m) = Moments::of(values) else { return Estimate::default() };
    let half = m.standard_error().map(|e| t_975(m.n - 1.0) * e);
    Estimate {
        mean: m.mean,
        low: half.map(|h| m.mean - h),
        high: half.map(|h| m.mean + h),
        windows: m.n as u32,
    }
}

/// The rate over all windows, each given as an amount and what it is per, such as I/Os and seconds: the sum of the
/// amounts over the sum of the others, with the interval of a ratio estimator. For windows of equal length, it is
/// that of [`mean`].
pub fn rate(windows: &[(f64, f64)]) -> Estimate {
    let usable = |(amount, per): &&(f64, f64)| amount.is_finite() && per.is_finite();
    let windows: Vec<(f64, f64)> = windows.iter().filter(usable).copied().collect();
    let (n, per) = (windows.len() as f64, windows.iter().map(|(_, per)| per).sum::<f64>());
    if per <= 0.0 {
        return Estimate { windows: windows.len() as u32, ..Estimate::default() };
    }
    let mean = windows.iter().map(|(amount, _)| amount).sum::<f64>() / per;
    let squares: f64 = windows.iter().map(|(amount, p)| (amount - mean * p).powi(2)).sum();
    let half = (n > 1.0).then(|| t_975(n - 1.0) * (n * squares / (n - 1.0)).sqrt() / per);
    Estimate {
        mean,
        low: half.map(|half| mean - half),
        high: half.map(|half| mean + half),
        windows: windows.len() as u32,
    }
}

/// Pairs measured one right after the other, as (changed, base): the t interval of the mean of
/// their log ratios. A drift that is slower than a pair cancels out. Needs two usable pairs.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let m = Moments::of(&logs(pairs))?;
    Some(from_log(m.mean, t_975(m.n - 1.0) * m.standard_error()?))
}

/// The same where a few pairs may be far off, as by a stall, which move this little: the median of all means
/// of two log ratios, and the interval of Wilcoxon's signed ranks. Needs six usable pairs.
pub fn paired_robust(pairs: &[(f64, f64)]) -> Option<Ratio> {
    paired_robust_at(pairs, TAIL_95)
}

/// The same with 99% confidence. Needs eight usable pairs.
pub fn paired_robust_99(pairs: &[(f64, f64)]) -> Option<Ratio> {
    paired_robust_at(pairs, TAIL_99)
}

fn paired_robust_at(pairs: &[(f64, f64)], tail: Tail) -> Option<Ratio> {
    // A pair in which one of both stood still altogether is as far off as can be.
    let moved = pairs.iter().filter(|(c, b)| *c > 0.0 || *b > 0.0);
    let mut logs: Vec<f64> = moved.map(|(c, b)| (c / b).ln().clamp(-LOG_MAX, LOG_MAX)).collect();
    let size = logs.len().div_ceil(ROBUST_MAX).max(1);
    let logs: Vec<f64> = logs.chunks_mut(size).map(median).collect();
    let mut means: Vec<f64> = (0..logs.len())
        .flat_map(|a| logs[a..].iter().map(move |b| (a, *b)))
        .map(|(a, b)| f64::midpoint(logs[a], b))
        .collect();
    let first = signed_rank(logs.len(), tail)?;
    let (center, last) = (median(&mut means), means.len() - 1);
    Some(of_logs(center, means[first], means[last - first]))
}

/// The ratio of the means of two independent samples (Welch, on the logarithm). Needs two
/// values of each and means above 0.
pub fn welch(changed: &[f64], base: &[f64]) -> Option<Ratio> {
    welch_at(changed, base, 0.05)
}

/// The same with an interval outside of which the ratio is with the probability `outside`.
pub fn welch_at(changed: &[f64], base: &[f64], outside: f64) -> Option<Ratio> {
    let (c, b) = (Moments::of(changed)?, Moments::of(base)?);
    if c.mean <= 0.0 || b.mean <= 0.0 {
        return None;
    }
    let c_var = (c.standard_error()? / c.mean).powi(2);
    let b_var = (b.standard_error()? / b.mean).powi(2);
    let var = c_var + b_var;
    let parts = c_var.powi(2) / (c.n - 1.0) + b_var.powi(2) / (b.n - 1.0);
    let freedom = if parts > 0.0 { var.powi(2) / parts } else { c.n + b.n - 2.0 };
    Some(from_log((c.mean / b.mean).ln(), student(outside, freedom) * var.sqrt()))
}

/// The ratio of two means where `others`, single values under the same conditions, show how much values differ: their
/// standard deviation on the logarithm is that of each value. Needs two others, and values above 0.
pub fn ratio_beside(changed: &[f64], base: &[f64], others: &[f64], outside: f64) -> Option<Ratio> {
    let (c, b) = (Moments::of(changed)?, Moments::of(base)?);
    let logs: Vec<f64> = others.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
    let spread = Moments::of(&logs)?;
    let error = (spread.variance? * (1.0 / c.n + 1.0 / b.n)).sqrt();
    let ratio = c.mean / b.mean;
    (ratio > 0.0 && ratio.is_finite())
        .then(|| from_log(ratio.ln(), student(outside, spread.n - 1.0) * error))
}

/// The mean of independent ratios, each weighted by how narrow its interval is (NIST/SEMATECH e-Handbook 2.6.3:
/// inverse variances), with its interval. `None` without any.
pub fn pooled(ratios: &[Ratio]) -> Option<Ratio> {
    // Ratios without noise would weigh infinitely.
    let weight = |ratio: &Ratio| ratio.spread().max(1e-6).powi(-2);
    let weights: f64 = ratios.iter().map(weight).sum();
    let sum: f64 = ratios.iter().map(|ratio| weight(ratio) * ratio.value.ln()).sum();
    (weights > 0.0).then(|| from_log(sum / weights, weights.sqrt().recip()))
}

fn from_log(center: f64, half: f64) -> Ratio {
    of_logs(center, center - half, center + half)
}

fn of_logs(center: f64, low: f64, high: f64) -> Ratio {
    // exp overflows beyond 709; a ratio of e^300 means "unknown" as infinity would, but is valid JSON.
    let exp = |x: f64| x.clamp(-LOG_MAX, LOG_MAX).exp();
    Ratio { value: exp(center), low: exp(low), high: exp(high) }
}

fn logs(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().filter(|(c, b)| *c > 0.0 && *b > 0.0).map(|(c, b)| (c / b).ln()).collect()
}

/// The median of `values`, which are sorted for it; there must be some.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[values.len() / 2], values[(values.len() - 1) / 2])
}

/// The part of a distribution below an interval.
#[derive(Debug, Clone, Copy)]
struct Tail {
    share: f64,
    /// Its quantile of the normal distribution, without the sign.
    normal: f64,
}

const TAIL_95: Tail = Tail { share: 0.025, normal: NORMAL_975 };
const TAIL_99: Tail = Tail { share: 0.005, normal: 2.575_829 };
/// Up to this many differences the distribution of the rank sum is computed, beyond it is near normal (Hollander and
/// Wolfe, 3.1).
const RANKS_EXACT: usize = 32;

/// The largest c with P(T ≤ c) within `tail`, T being Wilcoxon's signed-rank statistic of `n` differences; `None` where
/// P(T = 0) is more.
fn signed_rank(n: usize, tail: Tail) -> Option<usize> {
    if n > RANKS_EXACT {
        let n = n as f64;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return Some((n * (n + 1.0) / 4.0 - tail.normal * deviation) as usize);
    }
    // Each rank is in the sum or not: ways to come to each sum, as shares of all 2^n.
    let mut shares = vec![1.0];
    for rank in 1..=n {
        let with = |sum: usize| sum.checked_sub(rank).and_then(|sum| shares.get(sum));
        let next = |sum: usize| (shares.get(sum).unwrap_or(&0.0) + with(sum).unwrap_or(&0.0)) / 2.0;
        shares = (0..shares.len() + rank).map(next).collect();
    }
    let mut sum = 0.0;
    let values = shares.iter().take_while(|share| {
        sum += **share;
        sum <= tail.share
    });
    values.count().checked_sub(1)
}

/// Student's t at 97.5%, for 95% intervals.
pub fn t_975(freedom: f64) -> f64 {
    student(0.05, freedom)
}

/// What Student's t exceeds, with either sign, with the probability `outside`. Between whole degrees of freedom the lower
/// one counts, which is the careful side.
fn student(outside: f64, freedom: f64) -> f64 {
    let whole = freedom.clamp(1.0, FREEDOM_MAX).floor();
    let (mut low, mut high) = (0.0_f64, 2.0_f64);
    while beyond(high, whole) > outside && high < 1e9 {
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-6 * high {
        let middle = f64::midpoint(low, high);
        *(if beyond(middle, whole) > outside { &mut low } else { &mut high }) = middle;
    }
    high
}

/// The probability that Student's t with so many whole degrees of freedom is beyond `t`, with either sign.
fn beyond(t: f64, freedom: f64) -> f64 {
    let angle = (t / freedom.sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_even = freedom % 2.0 == 0.0;
    // Terms of cos with the powers 0, 2, 4 … or 1, 3, 5 …, up to freedom - 2.
    let mut power = if is_even { 0.0 } else { 1.0 };
    let (mut term, mut sum) = (if is_even { 1.0 } else { cos }, 0.0);
    while power <= freedom - 2.0 {
        sum += term;
        term *= cos * cos * (power + 1.0) / (power + 2.0);
        power += 2.0;
    }
    let within =
        if is_even { sin * sum } else { (angle + sin * sum) * std::f64::consts::FRAC_2_PI };
    1.0 - within
}

struct Moments {
    n: f64,
    mean: f64,
    /// Sample variance (n - 1); absent for a single value.
    variance: Option<f64>,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Some(Self { n, mean, variance: (n > 1.0).then(|| squares / (n - 1.0)) })
    }

    fn standard_error(&self) -> Option<f64> {
        Some((self.variance? / self.n).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // Worked by hand: mean 10, s = 1, n = 3, t(2) = 4.303: 4.303/√3 = 2.484.
        let e = mean(&[9.0, 10.0, 11.0]);
        assert_eq!((e.mean, e.windows), (10.0, 3));
        assert!((e.high.unwrap() - 12.484).abs() < 0.001, "{e:?}");
        assert!((e.relative().unwrap() - 0.2484).abs() < 0.0001);
    }

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        // Values of R's prop.test(correct = FALSE).
        let near = |(low, high): (f64, f64), expected: (f64, f64)| {
            assert!(
                (low - expected.0).abs() < 5e-4 && (high - expected.1).abs() < 5e-4,
                "{low} {high}"
            );
        };
        near(share_interval(0.4, 20), (0.2188, 0.6134));
        near(share_interval(0.0, 10), (0.0, 0.2775));
        near(share_interval(0.5, 1000), (0.4691, 0.5309));
    }

    #[test]
    fn a_rate_is_amount_over_time_however_long_each_window_was() {
        let e = rate(&[(9.0, 1.0), (10.0, 1.0), (11.0, 1.0)]);
        assert_eq!(e, mean(&[9.0, 10.0, 11.0]));
        // A stalled window of 4 s counts four times as much as one of 1 s: 34 in 6 s. Residuals 4.333, 3.333, -7.667.
        let e = rate(&[(10.0, 1.0), (9.0, 1.0), (15.0, 4.0)]);
        assert!((e.mean - 34.0 / 6.0).abs() < 1e-12 && e.windows == 3);
        assert!(
            (e.high.unwrap() - e.mean - 4.303 * (3.0 * 88.667_f64 / 2.0).sqrt() / 6.0).abs() < 1e-3
        );
        assert_eq!(rate(&[(0.0, 0.0)]), Estimate { windows: 1, ..Estimate::default() });
        assert_eq!(rate(&[]), Estimate::default());
    }

    #[test]
    fn one_window_has_no_interval() {
        let e = mean(&[7.0]);
        assert_eq!((e.mean, e.low, e.high, e.relative()), (7.0, None, None, None));
        assert_eq!(mean(&[]), Estimate::default());
    }

    #[test]
    fn drift_cancels_out_of_pairs_but_not_out_of_samples() {
        let base = [100.0, 200.0, 400.0, 800.0];
        let changed = base.map(|b| b * 1.5);
        let pairs: Vec<_> = changed.into_iter().zip(base).collect();
        let paired = paired(&pairs).unwrap();
        assert!((paired.value - 1.5).abs() < 1e-9 && paired.spread() < 1e-6, "{paired:?}");
        assert!(welch(&changed, &base).unwrap().low < 1.0);
    }

    #[test]
    fn few_pairs_that_are_far_off_move_a_robust_ratio_little() {
        // Hollander and Wolfe, example 3.1 (depression of nine patients after therapy, before): a median of -0.46,
        // from -0.786 to -0.010.
        let before = [1830, 500, 1620, 2480, 1680, 1880, 1550, 3060, 1300];
        let after = [878, 647, 598, 2050, 1060, 1290, 1060, 3140, 1290];
        let exp = |thousandths: i32| (f64::from(thousandths) / 1e3).exp();
        let pairs: Vec<_> = after.map(exp).into_iter().zip(before.map(exp)).collect();
        let r = paired_robust(&pairs).unwrap();
        let found = [r.value, r.low, r.high].map(f64::ln);
        for (found, known) in found.into_iter().zip([-0.46, -0.786, -0.010]) {
            assert!((found - known).abs() < 1e-9, "{found} {known}");
        }
        let mut stalled = vec![(98.0, 100.0), (97.0, 100.0), (99.0, 100.0), (98.5, 100.0)];
        stalled.extend([(97.5, 100.0), (98.2, 100.0), (97.8, 100.0), (10.0, 100.0)]);
        let r = paired_robust(&stalled).unwrap();
        assert!((r.value - 0.979).abs() < 0.002 && r.high < 0.99, "{r:?}");
        assert_eq!(paired_robust(&stalled[..5]), None);
        // A series without any progress counts too; one without data does not.
        stalled.truncate(5);
        assert!(paired_robust(&[&stalled[..], &[(0.0, 100.0)]].concat()).is_some());
        assert_eq!(paired_robust(&[&stalled[..], &[(0.0, 0.0)]].concat()), None);
        // So many that they are put into groups.
        let many: Vec<_> = (0..3000)
            .map(|n| (if n % 40 == 0 { 10.0 } else { 97.0 + f64::from(n % 3) }, 100.0))
            .collect();
        let r = paired_robust(&many).unwrap();
        assert!((r.value - 0.98).abs() < 0.002 && r.low > 0.97, "{r:?}");
    }

    #[test]
    fn signed_ranks_are_those_of_the_tables() {
        let critical = [5, 6, 9, 15, 50].map(|n| signed_rank(n, TAIL_95));
        assert_eq!(critical, [None, Some(0), Some(5), Some(25), Some(434)]);
        let critical = [7, 8, 15, 50].map(|n| signed_rank(n, TAIL_99));
        // Tables have 373 for 50, which is near enough on the careful side.
        assert_eq!(critical, [None, Some(0), Some(15), Some(370)]);
    }

    #[test]
    fn a_narrow_interval_weighs_more_than_a_wide_one() {
        let ratio = |value: f64, spread: f64| from_log(value.ln(), spread);
        let all = pooled(&[ratio(1.2, 0.2), ratio(0.98, 0.02)]).unwrap();
        // (25·ln 1.2 + 2500·ln 0.98) / 2525 = -0.0182; 1/√2525 = 0.0199.
        assert!((all.value.ln() + 0.0182).abs() < 1e-3 && (all.spread() - 0.0199).abs() < 1e-4);
        assert_eq!(pooled(&[]), None);
    }

    #[test]
    fn ratios_need_two_positive_values() {
        assert_eq!(paired(&[(1.0, 1.0)]), None);
        assert_eq!(paired(&[(0.0, 1.0), (1.0, 0.0)]), None);
        assert_eq!(welch(&[1.0, 1.0], &[0.0, 0.0]), None);
    }

    #[test]
    fn t_falls_with_freedom_to_the_normal_quantile() {
        // Tables of Student's t, such as NIST/SEMATECH e-Handbook 1.3.6.7.2.
        let known =
            [(0.05, 0.0, 12.706), (0.05, 2.9, 4.303), (0.05, 5.0, 2.571), (0.01, 1.0, 63.657)];
        let more = [(0.01, 10.0, 3.169), (0.05, 60.0, 2.0), (0.001, 8.0, 5.041), (0.05, 1e9, 1.96)];
        for (outside, freedom, t) in known.into_iter().chain(more) {
            let found = student(outside, freedom);
            assert!((found - t).abs() < 6e-4, "{outside} {freedom}: {found}");
        }
    }

    #[test]
    fn what_other_runs_differ_by_is_what_two_runs_may_differ_by() {
        // The standard deviation of ln 99, ln 100, ln 101 is 0.0100003; t(2) = 4.303; √2.
        let r = ratio_beside(&[110.0], &[100.0], &[99.0, 100.0, 101.0], 0.05).unwrap();
        assert!((r.value - 1.1).abs() < 1e-9 && (r.spread() - 0.060_85).abs() < 1e-4, "{r:?}");
        assert_eq!(ratio_beside(&[110.0], &[100.0], &[99.0], 0.05), None);
        assert_eq!(ratio_beside(&[0.0], &[100.0], &[99.0, 100.0], 0.05), None);
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_truth() {
        // A fixed sequence (multiplicative congruential), sums of 12 uniforms for a normal.
        let mut state = 12_345_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let held = (0..2000)
            .filter(|_| {
                let v: Vec<f64> =
                    (0..5).map(|_| 50.0 + (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect();
                let e = mean(&v);
                e.low.unwrap() <= 50.0 && 50.0 <= e.high.unwrap()
            })
            .count();
        assert!((1860..=1940).contains(&held), "{held} of 2000");
    }

    proptest! {
        #[test]
        fn intervals_hold_their_means(values in proptest::collection::vec(-1e12..1e12_f64, 2..20)) {
            let e = mean(&values);
            prop_assert!(e.low.unwrap() <= e.mean && e.mean <= e.high.unwrap());
        }

        #[test]
        fn ratios_are_finite_and_ordered(
            pairs in proptest::collection::vec((1e-9..1e15_f64, 1e-9..1e15_f64), 2..10)
        ) {
            let r = paired(&pairs).unwrap();
            prop_assert!(r.low.is_finite() && r.high.is_finite());
            prop_assert!(r.low <= r.value && r.value <= r.high);
            let robust = paired_robust(&pairs);
            prop_assert_eq!(robust.is_some(), pairs.len() >= 6);
            prop_assert!(robust.is_none_or(|r| r.low <= r.value && r.value <= r.high));
        }
    }
}
