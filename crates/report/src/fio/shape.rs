//! fio's coarse distributions: shares of latencies and depths in a few fixed classes.

use fathom_model::histogram::Histogram;

pub(crate) type Buckets = Vec<(&'static str, f64)>;

/// fio's latency classes, and their upper ends, exclusive.
const NAMES: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];
const ENDS: [u64; 12] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000, u64::MAX];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatencyUnit {
    Ns = 1,
    Us = 1000,
    Ms = 1_000_000,
}

/// The share of all values in each class of `unit`; its first class begins where the classes of the unit below end.
pub(crate) fn latency(histogram: &Histogram, unit: LatencyUnit) -> Buckets {
    let ns = unit as u64;
    let classes = if unit == LatencyUnit::Ms { 12 } else { 10 };
    let from_ns = if unit == LatencyUnit::Ns { 0 } else { ns };
    let mut counts = vec![0; classes];
    for (value_ns, n) in histogram.buckets().filter(|(value_ns, _)| *value_ns >= from_ns) {
        let is_below = |end: &u64| value_ns < end.saturating_mul(ns);
        if let Some(class) = ENDS[..classes].iter().position(is_below) {
            counts[class] += n;
        }
    }
    NAMES
        .into_iter()
        .zip(counts)
        .map(|(name, n)| (name, share(n, histogram.count(), 0.01)))
        .collect()
}

/// Shares of I/Os by depth: each class extends from its name to the next.
pub(crate) fn in_flight(levels: &[(u32, u64)]) -> Buckets {
    let names = ["1", "2", "4", "8", "16", "32", ">=64"];
    classes(names, levels, |depth| (depth.max(1).ilog2() as usize).min(6))
}

/// Shares of calls by batch size: each class extends from above the previous one to its name.
pub(crate) fn batch(sizes: &[(u32, u64)]) -> Buckets {
    let names = ["0", "4", "8", "16", "32", "64", ">=64"];
    classes(names, sizes, |size| match size {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    })
}

fn classes(names: [&'static str; 7], all: &[(u32, u64)], class: fn(u32) -> usize) -> Buckets {
    let mut counts = [0; 7];
    for (value, n) in all {
        counts[class(*value)] += n;
    }
    let total = counts.iter().sum();
    names.into_iter().zip(counts).map(|(name, n)| (name, share(n, total, 0.1))).collect()
}

/// A share in percent; at least `least` unless it is 0.
fn share(part: u64, whole: u64, least: f64) -> f64 {
    match part {
        0 => 0.0,
        _ => (part as f64 * 100.0 / whole as f64).max(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_class() {
        let mut h = Histogram::default();
        for ns in [1, 999, 1000, 749_000, 999_000, 1_000_000, 1_500_000_000, 5_000_000_000] {
            h.record(ns);
        }
        let all = [LatencyUnit::Ns, LatencyUnit::Us, LatencyUnit::Ms].map(|unit| latency(&h, unit));
        assert_eq!(all.iter().flatten().map(|b| b.1).sum::<f64>(), 100.0);
        assert_eq!((all[0][0], all[0][9]), (("2", 12.5), ("1000", 12.5)));
        assert_eq!((all[1][0], all[1][8], all[1][9]), (("2", 12.5), ("750", 12.5), ("1000", 12.5)));
        assert_eq!(
            (all[2][0], all[2][10], all[2][11]),
            (("2", 12.5), ("2000", 12.5), (">=2000", 12.5))
        );
    }

    #[test]
    fn depths_and_batches_have_different_edges() {
        let level = in_flight(&[(1, 1), (3, 1), (4, 1), (63, 1), (64, 4)]);
        let shares: Vec<f64> = level.iter().map(|b| b.1).collect();
        assert_eq!(shares, [12.5, 12.5, 12.5, 0.0, 0.0, 12.5, 50.0]);
        let sizes = batch(&[(0, 1), (1, 1), (4, 1), (5, 1), (64, 2), (65, 2)]);
        let shares: Vec<f64> = sizes.iter().map(|b| b.1).collect();
        assert_eq!(shares, [12.5, 25.0, 12.5, 0.0, 0.0, 25.0, 25.0]);
    }

    #[test]
    fn rare_is_not_never() {
        assert_eq!(in_flight(&[(1, 1), (8, 100_000)])[0], ("1", 0.1));
        assert!(in_flight(&[]).iter().all(|b| b.1 == 0.0));
    }
}
