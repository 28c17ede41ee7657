//! Log-linear histograms of latencies in nanoseconds.
//!
//! Each power of two is divided into [`SUB_BUCKETS`] equal buckets (HdrHistogram's scheme,
//! <http://hdrhistogram.org>), so a bucket's width is at most 1/128 of its value. Values are
//! reported as the midpoint of their bucket, with an error of at most 0.4%. Minimum, maximum and
//! sum are exact. Values above [`VALUE_MAX_NS`] are counted in the last bucket.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bits that select the bucket within a power of two.
const SUB_BITS: u32 = 7;
/// Buckets per power of two.
pub const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Exponent of the first power of two without buckets of its own: 2^43 ns, some 2.4 hours.
const VALUE_BITS: u32 = 43;
/// The largest value with a bucket of its own, in nanoseconds.
pub const VALUE_MAX_NS: u64 = (1 << VALUE_BITS) - 1;
/// Number of buckets.
pub const BUCKETS: usize = ((VALUE_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// The bucket of `value_ns`.
#[inline]
pub const fn bucket_of(value_ns: u64) -> usize {
    let value = if value_ns > VALUE_MAX_NS { VALUE_MAX_NS } else { value_ns };
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// Lower bound of bucket `index`, in nanoseconds.
pub const fn bucket_low(index: usize) -> u64 {
    if index < SUB_BUCKETS {
        return index as u64;
    }
    let shift = (index >> SUB_BITS) - 1;
    ((SUB_BUCKETS + (index & (SUB_BUCKETS - 1))) as u64) << shift
}

/// Midpoint of bucket `index`, in nanoseconds, which represents all its values.
pub const fn bucket_mid(index: usize) -> u64 {
    let low = bucket_low(index);
    if index < SUB_BUCKETS { low } else { low + (1 << ((index >> SUB_BITS) - 1)) / 2 }
}

/// A mergeable histogram of latencies in nanoseconds.
///
/// Serialized as its non-empty buckets, to keep records small.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// From the first bucket that has values to the last one: records of thousands of machines are held at once.
    counts: Vec<u64>,
    /// Index of the first of `counts`.
    first: usize,
    total: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), first: 0, total: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.total)
            .field("min_ns", &self.min_ns())
            .field("mean_ns", &self.mean_ns())
            .field("max_ns", &self.max_ns)
            .finish_non_exhaustive()
    }
}

impl Histogram {
    /// Heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }

    /// Records `n` values of `value_ns`.
    pub fn record_n(&mut self, value_ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.add_bucket(bucket_of(value_ns), n);
        self.sum_ns = self.sum_ns.saturating_add(value_ns.saturating_mul(n));
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Records one value of `value_ns`.
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Creates a histogram from bucket counts and the exact sum, minimum and maximum, which are
    /// ignored if `counts` is empty.
    pub fn from_parts(
        counts: impl IntoIterator<Item = (usize, u64)>,
        sum_ns: u64,
        min_ns: u64,
        max_ns: u64,
    ) -> Self {
        let mut h = Self::default();
        for (index, n) in counts {
            if n > 0 && index < BUCKETS {
                h.add_bucket(index, n);
            }
        }
        if h.total > 0 {
            (h.sum_ns, h.min_ns, h.max_ns) = (sum_ns, min_ns, max_ns);
        }
        h.counts.shrink_to_fit();
        h
    }

    fn add_bucket(&mut self, index: usize, n: u64) {
        if self.counts.is_empty() {
            self.first = index;
        }
        if index < self.first {
            self.counts.splice(..0, std::iter::repeat_n(0, self.first - index));
            self.first = index;
        }
        let at = index - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += n;
        self.total += n;
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (index, n) in other.indexed() {
            self.add_bucket(index, n);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The values added since `earlier`, a previous state of the same histogram. Minimum and
    /// maximum are approximated by the buckets.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut h = Self::default();
        for (index, n) in self.indexed() {
            let before = index.checked_sub(earlier.first).and_then(|at| earlier.counts.get(at));
            let n = n.saturating_sub(before.copied().unwrap_or(0));
            if n > 0 {
                h.add_bucket(index, n);
                h.min_ns = h.min_ns.min(bucket_low(index).max(self.min_ns));
                h.max_ns = bucket_low(index + 1).saturating_sub(1).min(self.max_ns);
            }
        }
        h.sum_ns = if h.total > 0 { self.sum_ns.saturating_sub(earlier.sum_ns) } else { 0 };
        h
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The exact minimum, in nanoseconds; 0 if empty.
    pub fn min_ns(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min_ns }
    }

    /// The exact maximum, in nanoseconds; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The sum of all values in nanoseconds, exact unless it exceeds 2^64.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The exact mean, in nanoseconds; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum_ns as f64 / self.total as f64 }
    }

    /// The population standard deviation, from bucket midpoints, in nanoseconds; 0 if empty.
    pub fn stddev_ns(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let mean = self.mean_ns();
        let squares: f64 =
            self.indexed().map(|(i, n)| (bucket_mid(i) as f64 - mean).powi(2) * n as f64).sum();
        (squares / self.total as f64).sqrt()
    }

    /// The percentile `percent` (0 to 100), in nanoseconds; `None` if empty.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((percent / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total);
        if rank == self.total {
            return Some(self.max_ns);
        }
        let mut seen = 0;
        for (index, n) in self.indexed() {
            seen += n;
            if seen >= rank {
                return Some(bucket_mid(index).clamp(self.min_ns, self.max_ns));
            }
        }
        Some(self.max_ns)
    }

    /// The non-empty buckets as (midpoint in nanoseconds, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.indexed().map(|(index, n)| (bucket_mid(index), n))
    }

    fn indexed(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        used.map(|(at, n)| (self.first + at, *n))
    }
}

/// JSON representation of a histogram.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Histogram")]
struct Stored {
    /// Number of values.
    count: u64,
    /// Sum of all values in nanoseconds.
    sum_ns: u64,
    /// Minimum in nanoseconds.
    min_ns: u64,
    /// Maximum in nanoseconds.
    max_ns: u64,
    /// Non-empty buckets, each as its lower bound in nanoseconds and its count.
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored {
            count: self.total,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns(),
            max_ns: self.max_ns,
            buckets: self.indexed().map(|(index, n)| (bucket_low(index), n)).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let s = Stored::deserialize(deserializer)?;
        let counts = s.buckets.into_iter().map(|(low, n)| (bucket_of(low), n));
        Ok(Self::from_parts(counts, s.sum_ns, s.min_ns, s.max_ns))
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Histogram {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Histogram".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Stored::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for index in 0..BUCKETS {
            assert_eq!(bucket_of(bucket_low(index)), index);
            if index + 1 < BUCKETS {
                assert_eq!(bucket_of(bucket_low(index + 1) - 1), index);
                let width = bucket_low(index + 1) - bucket_low(index);
                assert!(width == 1 || width * SUB_BUCKETS as u64 <= bucket_low(index));
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        const { assert!(VALUE_MAX_NS > 3600 * 1_000_000_000, "an hour has a bucket of its own") };
    }

    #[test]
    fn since_is_the_difference() {
        let mut h = Histogram::default();
        h.record_n(1000, 3);
        let before = h.clone();
        h.record_n(5_000_000, 2);
        let d = h.since(&before);
        assert_eq!((d.count(), d.sum_ns()), (2, 10_000_000));
        assert!(d.min_ns() > 4_900_000 && d.max_ns() == 5_000_000);
        assert!(h.since(&h.clone()).is_empty());
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent(mut values in prop::collection::vec(0u64..4_000_000_000_000, 1..200)) {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.record(*v));
            values.sort_unstable();
            for percent in [1.0, 50.0, 99.0, 100.0] {
                let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
                let exact = values[rank - 1] as f64;
                let got = h.percentile(percent).unwrap() as f64;
                prop_assert!((got - exact).abs() <= exact * 0.01, "{got} for {exact}");
            }
            prop_assert_eq!(h.max_ns(), *values.last().unwrap());
            prop_assert_eq!(h.min_ns(), values[0]);
        }

        #[test]
        fn merging_is_recording_both_and_json_keeps_all(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(0u64..1_000_000, 0..50)) {
            let of = |v: &[u64]| { let mut h = Histogram::default(); v.iter().for_each(|x| h.record(*x)); h };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&merged, &of(&both));
            let json = serde_json::to_string(&merged).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), merged);
        }
    }
}
