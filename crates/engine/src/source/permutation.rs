//! A random permutation of the numbers below `n`, in constant memory.
//!
//! A linear congruential generator of full period (Hull and Dobell, "Random Number Generators",
//! SIAM Review 4, 1962) visits all numbers of the smallest sufficient number of bits; invertible
//! steps (multiplication by an odd number, xor with the high half) scatter them;
//! numbers outside `n` are skipped (cycle walking: Black and Rogaway, "Ciphers with
//! Arbitrary Finite Domains", CT-RSA 2002). At most half of the numbers are skipped.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

#[derive(Clone)]
pub(crate) struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    /// Of this pass: multiplier 5 modulo 8 and odd increment give the full period.
    multiplier: u64,
    increment: u64,
    state: u64,
    left: u64,
    random: Xoshiro256PlusPlus,
}

impl Permutation {
    /// A permutation of the numbers below `n`, which is at least 1.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = 64 - (n.max(2) - 1).leading_zeros();
        let mut this = Self {
            n,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            multiplier: 5,
            increment: 1,
            state: 0,
            left: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        this.restart();
        this
    }

    /// Begins another pass.
    #[cold]
    pub fn restart(&mut self) {
        self.multiplier = self.random.next_u64() & !7 | 5;
        self.increment = self.random.next_u64() | 1;
        self.state = self.random.next_u64();
        self.left = self.n;
    }

    /// The next number; begins a new pass after the last.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.ready(1);
        self.made(1);
        self.draw()
    }

    /// How many numbers can be drawn before the pass ends, at most `want`.
    #[inline]
    pub fn ready(&mut self, want: usize) -> usize {
        if self.left == 0 {
            self.restart();
        }
        self.left.min(want as u64) as usize
    }

    /// The next number of this pass, which must not be at its end.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        loop {
            let x = self.scatter(self.state);
            self.state = self.after(self.state);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    pub fn made(&mut self, count: usize) {
        self.left -= count as u64;
    }

    /// The number that `rank` maps to, which is not the `rank`th drawn.
    pub fn at(&self, rank: u64) -> u64 {
        let mut x = self.scatter(self.after(rank));
        while x >= self.n {
            x = self.scatter(self.after(x));
        }
        x
    }

    #[inline]
    fn after(&self, state: u64) -> u64 {
        state.wrapping_mul(self.multiplier).wrapping_add(self.increment)
    }

    #[inline]
    fn scatter(&self, state: u64) -> u64 {
        // Multipliers of splitmix64: they mix well, and are odd, so invertible in any width.
        let mut x = state & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
        x ^ (x >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_once_per_pass(n in 1u64..5000, seed in any::<u64>()) {
            let mut order = Permutation::new(n, seed);
            for _pass in 0..2 {
                let mut seen = vec![false; n as usize];
                for _ in 0..n {
                    let x = order.next();
                    prop_assert!(!std::mem::replace(&mut seen[x as usize], true), "{} came twice", x);
                }
            }
        }

        #[test]
        fn ranks_are_a_permutation(n in 1u64..2000, seed in any::<u64>()) {
            let order = Permutation::new(n, seed);
            let mut all: Vec<u64> = (0..n).map(|rank| order.at(rank)).collect();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..n));
        }
    }

    #[test]
    fn the_seed_determines_the_order() {
        let take = |seed| {
            let mut p = Permutation::new(1 << 20, seed);
            (0..100).map(|_| p.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    /// Chi-squared of the position of each draw, its low bits, and the gaps between draws and between
    /// batches, over 64 bins.
    #[test]
    fn draws_look_random() {
        for (n, seed) in [
            (1 << 16, 1),
            (1 << 18, 2),
            (1 << 20, 3),
            ((1 << 20) + 7, 4),
            (1 << 38, 5),
            (1_000_003, 6),
        ]
        .into_iter()
        .flat_map(|(n, seed)| (0..10).map(move |more| (n, seed + 10 * more)))
        {
            let mut order = Permutation::new(n, seed);
            let draws = 32_000;
            let all: Vec<u64> = (0..draws).map(|_| order.next()).collect();
            let bin = |v: u64| (u128::from(v) * 64 / u128::from(n)) as usize;
            let gaps = |far: usize| {
                all.iter()
                    .skip(far)
                    .zip(&all)
                    .map(|(x, before)| bin((x + n - before) % n))
                    .collect::<Vec<_>>()
            };
            let looks: [(&str, Vec<usize>); 4] = [
                ("places", all.iter().map(|x| bin(*x)).collect()),
                ("low bits", all.iter().map(|x| (x % 64) as usize).collect()),
                ("gaps", gaps(1)),
                ("gaps of batches", gaps(32)),
            ];
            for (what, bins) in looks {
                let mut counts = [0u32; 64];
                bins.iter().for_each(|bin| counts[*bin] += 1);
                let expected = bins.len() as f64 / 64.0;
                let chi: f64 =
                    counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
                // 63 degrees of freedom: probability below 1e-7 to exceed 140.
                assert!(chi < 140.0, "{what} of {n}, seed {seed}: {chi}");
            }
        }
    }

    #[test]
    fn memory_use_does_not_grow_with_the_target() {
        let mut order = Permutation::new((15 << 40) / 4096, 9);
        assert!((0..1000).all(|_| order.next() < (15 << 40) / 4096));
        assert!(std::mem::size_of::<Permutation>() < 256);
    }
}
