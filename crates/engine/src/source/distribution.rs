//! Random block numbers with a given distribution.

use super::permutation::Permutation;
use super::steady_state::SteadyStateOrder;
use fathom_model::plan::{AbsoluteZone, Distribution, Zone};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub(crate) struct OffsetDraw {
    blocks: u64,
    random: Xoshiro256PlusPlus,
    kind: DistributionKind,
}

enum DistributionKind {
    Once(Permutation),
    Uniform(UniformNumbers),
    Zipf {
        ranks: Zipf,
        places: Permutation,
    },
    Pareto {
        exponent: f64,
        places: Permutation,
    },
    Normal {
        deviation: f64,
        center: f64,
    },
    /// Percentage of accesses, first block and end of each zone.
    Zoned(Vec<(f64, u64, u64)>),
    Sequence {
        blocks: Vec<u64>,
        stride: u64,
        next: usize,
        base: u64,
    },
    SteadyState(SteadyStateOrder),
}

impl OffsetDraw {
    /// Draws numbers below `blocks`, which is at least 1, of blocks of `block_bytes`.
    pub fn new(distribution: &Distribution, blocks: u64, block_bytes: u64, seed: u64) -> Self {
        // Ranks are scattered over the region, so that popular blocks are not adjacent.
        let places = || Permutation::new(blocks, seed ^ 0x9e37_79b9_7f4a_7c15);
        let kind = match distribution {
            Distribution::EachOnce => DistributionKind::Once(Permutation::new(blocks, seed)),
            Distribution::Uniform => DistributionKind::Uniform(UniformNumbers::new(seed)),
            Distribution::Zipf { theta } => {
                DistributionKind::Zipf { ranks: Zipf::new(blocks, *theta), places: places() }
            }
            // fio's pareto:h draws rank n·u^(ln h / ln(1-h)); its documentation mentions only h.
            Distribution::Pareto { h } => {
                DistributionKind::Pareto { exponent: h.ln() / (1.0 - h).ln(), places: places() }
            }
            Distribution::Normal { deviation_percent, center_percent } => {
                DistributionKind::Normal {
                    deviation: deviation_percent / 100.0 * blocks as f64,
                    center: center_percent / 100.0 * blocks as f64,
                }
            }
            Distribution::Zoned(zones) => DistributionKind::Zoned(relative(zones, blocks)),
            Distribution::ZonedAbs(zones) => DistributionKind::Zoned(absolute(zones, block_bytes)),
            Distribution::SteadyState(plan) => DistributionKind::SteadyState(
                SteadyStateOrder::new(plan, blocks, block_bytes, seed),
            ),
            Distribution::Sequence { blocks, stride } => {
                let stride = if *stride { blocks.len() as u64 } else { 0 };
                DistributionKind::Sequence { blocks: blocks.clone(), stride, next: 0, base: 0 }
            }
        };
        Self { blocks, random: Xoshiro256PlusPlus::seed_from_u64(seed), kind }
    }

    /// Begins a new pass, if it makes any.
    pub fn restart(&mut self) {
        match &mut self.kind {
            DistributionKind::Once(order) => order.restart(),
            DistributionKind::Sequence { next, base, .. } => (*next, *base) = (0, 0),
            _ => {}
        }
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        match &mut self.kind {
            DistributionKind::Once(order) => order.next(),
            DistributionKind::Uniform(uniform) => uniform.below(self.blocks),
            _ => self.next_skewed(),
        }
    }

    fn next_skewed(&mut self) -> u64 {
        let random = &mut self.random;
        match &mut self.kind {
            DistributionKind::Zipf { ranks, places } => places.at(ranks.next(random) - 1),
            DistributionKind::Pareto { exponent, places } => {
                let rank = (unit(random).powf(*exponent) * (self.blocks - 1) as f64) as u64;
                places.at(rank.min(self.blocks - 1))
            }
            DistributionKind::Normal { deviation, center } => {
                normal(random, *deviation, *center, self.blocks)
            }
            DistributionKind::Zoned(zones) => zoned(random, zones, self.blocks),
            DistributionKind::Sequence { blocks, stride, next, base } => {
                if *next == blocks.len() {
                    (*next, *base) = (0, *base + *stride);
                }
                let mut block = *base + blocks[*next];
                if block >= self.blocks {
                    // The next repetition would leave the region: begins at its start again.
                    (*next, *base) = (0, 0);
                    block = blocks[0];
                }
                *next += 1;
                block.min(self.blocks - 1)
            }
            DistributionKind::SteadyState(order) => order.next(random),
            DistributionKind::Once(_) | DistributionKind::Uniform(_) => below(random, self.blocks),
        }
    }
}

/// Uniform, independent draws, one per I/O, with the generator that takes the fewest instructions:
/// multiplicative congruential modulo 2^128, using the upper half (L'Ecuyer,
/// "Tables of linear congruential generators of different sizes and good lattice structure", Math.
/// Comp. 68, 1999; multiplier as in Lemire's lehmer64). Its period is 2^126.
#[derive(Clone)]
pub(crate) struct UniformNumbers(u128);

impl UniformNumbers {
    pub fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (high, low) = (random.next_u64(), random.next_u64());
        // Only odd states have the full period.
        Self(u128::from(high) << 64 | u128::from(low | 1))
    }

    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0xda94_2042_e4dd_58b5);
        scaled((self.0 >> 64) as u64, bound)
    }
}

/// Uniform below `bound`.
#[inline]
pub(crate) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    scaled(random.next_u64(), bound)
}

/// Maps any 64 bits below `bound` (Lemire's multiplication; bias below bound / 2^64).
#[inline]
fn scaled(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// Uniform in (0, 1].
#[inline]
pub(crate) fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Normal around `center` (Box and Muller); draws outside the region are repeated.
fn normal(random: &mut Xoshiro256PlusPlus, deviation: f64, center: f64, blocks: u64) -> u64 {
    for _ in 0..64 {
        let z = (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos();
        let x = center + z * deviation;
        if x >= 0.0 && x < blocks as f64 {
            return x as u64;
        }
    }
    // With a deviation this wide, a uniform draw is equivalent.
    below(random, blocks)
}

/// Share, first block and end of zones in percent of `blocks`.
fn relative(zones: &[Zone], blocks: u64) -> Vec<(f64, u64, u64)> {
    let block = |percent: f64| (percent / 100.0 * blocks as f64) as u64;
    let place = |from: &mut f64, zone: &Zone| {
        let first = block(*from);
        *from += zone.span_percent;
        Some((zone.access_percent, first, block(*from)))
    };
    zones.iter().scan(0.0, place).collect()
}

/// Share, first block and end of zones in bytes.
fn absolute(zones: &[AbsoluteZone], block_bytes: u64) -> Vec<(f64, u64, u64)> {
    let place = |from: &mut u64, zone: &AbsoluteZone| {
        let first = *from / block_bytes;
        *from = from.saturating_add(zone.bytes);
        Some((zone.access_percent, first, *from / block_bytes))
    };
    zones.iter().scan(0, place).collect()
}

fn zoned(random: &mut Xoshiro256PlusPlus, zones: &[(f64, u64, u64)], blocks: u64) -> u64 {
    let mut pick = unit(random) * 100.0;
    for (access_percent, first, end) in zones {
        if pick <= *access_percent || *access_percent >= 100.0 {
            return (first + below(random, end.saturating_sub(*first).max(1))).min(blocks - 1);
        }
        pick -= access_percent;
    }
    below(random, blocks)
}

/// Zipf by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates
/// from monotone discrete distributions", ACM TOMACS 6(3), 1996): exact, in constant time and memory.
struct Zipf {
    n: f64,
    theta: f64,
    h_first: f64,
    h_last: f64,
    accept: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Self {
        let mut this = Self { n: n as f64, theta, h_first: 0.0, h_last: 0.0, accept: 0.0 };
        this.h_first = this.integral(1.5) - 1.0;
        this.h_last = this.integral(this.n + 0.5);
        this.accept = 2.0 - this.inverse(this.integral(2.5) - this.density(2.0));
        this
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        if t.abs() > 1e-8 { (t.exp() - 1.0) / t * log } else { (1.0 + t / 2.0) * log }
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        let scale = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (scale * y).exp()
    }

    /// A rank from 1 to n.
    fn next(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        loop {
            let u = self.h_last + unit(random) * (self.h_first - self.h_last);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.accept || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: &Distribution, blocks: u64, draws: u64) -> Vec<u64> {
        let mut draw = OffsetDraw::new(distribution, blocks, 4096, 7);
        let mut counts = vec![0; blocks as usize];
        (0..draws).for_each(|_| counts[draw.next() as usize] += 1);
        counts
    }

    /// Pearson's statistic of `counts` against equal shares, in standard deviations from its mean.
    fn deviation(counts: &[u64]) -> f64 {
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let squares: f64 = counts.iter().map(|n| (*n as f64 - mean).powi(2) / mean).sum();
        let freedom = (counts.len() - 1) as f64;
        (squares - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn uniform_draws_are_uniform_and_independent() {
        for seed in [0, 1, 2, 12_345, u64::MAX] {
            let mut draw = UniformNumbers::new(seed);
            let (mut alone, mut pairs) = (vec![0; 1000], vec![0; 64 * 64]);
            let mut before = draw.below(64);
            for _ in 0..400_000 {
                alone[draw.below(1000) as usize] += 1;
                let now = draw.below(64);
                pairs[(before * 64 + now) as usize] += 1;
                before = now;
            }
            assert!(deviation(&alone).abs() < 5.0, "{seed}: {}", deviation(&alone));
            assert!(deviation(&pairs).abs() < 5.0, "{seed}: {}", deviation(&pairs));
        }
    }

    #[test]
    fn zipf_frequencies_match_the_distribution() {
        for theta in [0.6, 0.99, 1.2] {
            let (blocks, draws) = (1000u64, 400_000);
            let mut seen = counts(&Distribution::Zipf { theta }, blocks, draws);
            seen.sort_unstable_by(|a, b| b.cmp(a));
            let total: f64 = (1..=blocks).map(|k| (k as f64).powf(-theta)).sum();
            for rank in [1u64, 2, 5, 20] {
                let expected = (rank as f64).powf(-theta) / total * draws as f64;
                let got = seen[rank as usize - 1] as f64;
                assert!(
                    (got / expected - 1.0).abs() < 0.1,
                    "theta {theta} rank {rank}: {got} for {expected}"
                );
            }
        }
    }

    fn normal(deviation_percent: f64, center_percent: f64) -> Distribution {
        Distribution::Normal { deviation_percent, center_percent }
    }

    #[test]
    fn normal_is_centered() {
        let seen = counts(&normal(10.0, 50.0), 1000, 100_000);
        let within: u64 = seen[400..600].iter().sum();
        assert!((67_000..70_000).contains(&within), "68.3% lie within one deviation: {within}");
        let seen = counts(&normal(5.0, 20.0), 1000, 100_000);
        let within: u64 = seen[150..250].iter().sum();
        assert!((67_000..70_000).contains(&within), "around a fifth: {within}");
    }

    #[test]
    fn zones_in_bytes_get_their_share_and_nothing_lies_beyond() {
        let zone =
            |access_percent, blocks: u64| AbsoluteZone { access_percent, bytes: blocks * 4096 };
        let zones = vec![zone(60.0, 100), zone(0.0, 300), zone(40.0, 200)];
        let seen = counts(&Distribution::ZonedAbs(zones), 1000, 100_000);
        let sum = |range: std::ops::Range<usize>| seen[range].iter().sum::<u64>();
        assert!(sum(0..100).abs_diff(60_000) < 1000, "{}", sum(0..100));
        assert_eq!((sum(100..400), sum(600..1000)), (0, 0));
        assert!(seen[400..600].iter().all(|count| *count > 0));
    }

    #[test]
    fn a_sequence_repeats_or_moves_on() {
        let drawn = |stride, blocks| -> Vec<u64> {
            let sequence = Distribution::Sequence { blocks: vec![2, 0, 1], stride };
            let mut draw = OffsetDraw::new(&sequence, blocks, 4096, 7);
            (0..9).map(|_| draw.next()).collect()
        };
        assert_eq!(drawn(false, 12), [2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(drawn(true, 12), [2, 0, 1, 5, 3, 4, 8, 6, 7]);
        assert_eq!(drawn(true, 7), [2, 0, 1, 5, 3, 4, 2, 0, 1], "begins again before it leaves");
    }

    #[test]
    fn zones_get_their_share_of_accesses() {
        let zones = vec![
            Zone { access_percent: 60.0, span_percent: 10.0 },
            Zone { access_percent: 30.0, span_percent: 20.0 },
            Zone { access_percent: 10.0, span_percent: 70.0 },
        ];
        let seen = counts(&Distribution::Zoned(zones), 1000, 100_000);
        let shares =
            [&seen[..100], &seen[100..300], &seen[300..]].map(|zone| zone.iter().sum::<u64>());
        assert!(
            shares[0].abs_diff(60_000) < 1000 && shares[1].abs_diff(30_000) < 1000,
            "{shares:?}"
        );
    }

    #[test]
    fn pareto_is_skewed_as_requested() {
        let mut seen = counts(&Distribution::Pareto { h: 0.2 }, 1000, 100_000);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        // The rule: a share h of the blocks gets a share 1-h of the accesses.
        let top: u64 = seen[..200].iter().sum();
        assert!((78_000..82_000).contains(&top), "{top}");
    }

    #[test]
    fn a_single_block_is_always_drawn() {
        for distribution in [
            Distribution::EachOnce,
            Distribution::Uniform,
            Distribution::Zipf { theta: 1.1 },
            Distribution::Pareto { h: 0.3 },
            normal(5.0, 50.0),
            Distribution::Sequence { blocks: vec![0], stride: true },
        ] {
            assert_eq!(counts(&distribution, 1, 20), [20]);
        }
    }
}
