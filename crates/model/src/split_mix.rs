//! SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).

/// What the state grows by from one number to the next.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number `n` of the sequence that begins with `seed`.
pub fn nth(seed: u64, n: u64) -> u64 {
    output(seed.wrapping_add(n.wrapping_add(1).wrapping_mul(STEP)))
}

/// The number of a state.
#[inline]
pub(crate) fn output(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
