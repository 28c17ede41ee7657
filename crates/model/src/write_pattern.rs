//! The contents of fathom's writes, by which it recognizes what it wrote.
//!
//! Random contents consist of sectors of [`SECTOR_BYTES`]. All bytes of a sector derive from a seed, which is stored in
//! the sector itself, so a reader can compute what a sector must hold if fathom wrote it. The first bytes of a page may
//! hold a stamp instead: the offset of the write and a count, which make each page unique.

use crate::split_mix;

/// Bytes that derive from one seed.
pub const SECTOR_BYTES: usize = 512;
/// Bytes of which the first `STAMP_BYTES` may be a stamp.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a stamp; the seed follows.
const STAMP_BYTES: usize = 16;
/// Where the derived bytes continue after the seed.
const SEED_END: usize = STAMP_BYTES + 8;
/// Bytes after the seed that must match.
const PROOF_BYTES: usize = 8;
/// Longest write whose pages are recognized, in bytes.
const WRITE_BYTES_MAX: u64 = 1 << 32;

/// Fills a sector, or the first part of one, with random bytes that derive from `seed`.
pub fn fill(sector: &mut [u8], seed: u64) {
    let mut words = sector.chunks_exact_mut(8);
    let mut state = seed;
    for word in &mut words {
        state = state.wrapping_add(split_mix::STEP);
        word.copy_from_slice(&split_mix::output(state).to_le_bytes());
    }
    let rest = words.into_remainder();
    let last = split_mix::output(state.wrapping_add(split_mix::STEP)).to_le_bytes();
    rest.iter_mut().zip(last).for_each(|(to, from)| *to = from);
    if let Some(place) = sector.get_mut(STAMP_BYTES..SEED_END) {
        place.copy_from_slice(&seed.to_le_bytes());
    }
}

/// Stamps a page of a write at `offset` with the number of pages stamped before, from 1.
#[inline]
pub fn stamp(page: &mut [u8], offset: u64, count: u64) {
    page[..8].copy_from_slice(&offset.to_le_bytes());
    page[8..STAMP_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// Whether the sector read at byte `at` is zero, or one that fathom wrote there: random bytes, possibly followed by zeroes
/// (`buffer_compress_percentage`).
pub fn is_blank(sector: &[u8], at: u64) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if is_zero(sector) {
        return true;
    }
    let mut expected = [0; SECTOR_BYTES];
    let (Some(seed), Some(expected)) =
        (word(sector, STAMP_BYTES), expected.get_mut(..sector.len()))
    else {
        return false;
    };
    fill(expected, seed);
    let pairs = sector.iter().zip(expected.iter()).skip(SEED_END);
    let same = pairs.take_while(|(found, expected)| found == expected).count();
    let is_head = sector[..STAMP_BYTES] == expected[..STAMP_BYTES] || is_stamp(sector, at);
    is_head && same >= PROOF_BYTES && is_zero(&sector[SEED_END + same..])
}

/// Whether a sector read at byte `at` begins with a stamp of a write that covers it.
fn is_stamp(sector: &[u8], at: u64) -> bool {
    let distance = word(sector, 0).and_then(|offset| at.checked_sub(offset));
    let is_page =
        |distance: u64| distance.is_multiple_of(PAGE_BYTES as u64) && distance < WRITE_BYTES_MAX;
    distance.is_some_and(is_page) && word(sector, 8).is_some_and(|count| count != 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(len: usize, seed: u64) -> Vec<u8> {
        let mut sector = vec![0; len];
        fill(&mut sector, seed);
        sector
    }

    #[test]
    fn sectors_of_fathom_and_zeroes_are_blank_and_nothing_else() {
        assert!(is_blank(&[0; SECTOR_BYTES], 0) && is_blank(&[], 0) && is_blank(&[0; 7], 512));
        for seed in [0, 1, u64::MAX] {
            let own = filled(SECTOR_BYTES, seed);
            assert!(is_blank(&own, 0) && is_blank(&own, 1 << 40));
            for at in 0..SECTOR_BYTES {
                let mut other = own.clone();
                other[at] ^= 1;
                assert!(!is_blank(&other, 0), "byte {at} was changed");
            }
        }
        for other in [[1; SECTOR_BYTES], [0xff; SECTOR_BYTES]] {
            assert!(!is_blank(&other, 0));
        }
        for len in [1, 8, 24, 31, 500] {
            assert!(!is_blank(&vec![7; len], 0), "{len}");
        }
    }

    #[test]
    fn a_stamp_is_that_of_a_write_over_this_place() {
        let stamped = |offset, count| {
            let mut sector = filled(SECTOR_BYTES, 9);
            stamp(&mut sector, offset, count);
            sector
        };
        assert!(is_blank(&stamped(0, 1), 0) && is_blank(&stamped(1 << 20, 5), (1 << 20) + 8192));
        assert!(!is_blank(&stamped(4096, 1), 0), "a write behind it");
        assert!(!is_blank(&stamped(0, 1), 512), "no page of that write");
        assert!(!is_blank(&stamped(0, 0), 0), "pages are counted from 1");
        let text = u64::from_le_bytes(*b"integrt\0");
        assert!(!is_blank(&stamped(text, 1), 0));
    }

    #[test]
    fn zeroes_may_follow_what_is_random() {
        for len in [32, 33, 100, 511] {
            let mut sector = filled(len, 4);
            sector.resize(SECTOR_BYTES, 0);
            assert!(is_blank(&sector, 0), "{len}");
            sector[SECTOR_BYTES - 1] = 1;
            assert!(!is_blank(&sector, 0), "{len}");
        }
        let mut sector = filled(SEED_END, 4);
        sector.resize(SECTOR_BYTES, 0);
        assert!(!is_blank(&sector, 0), "a seed alone proves nothing");
    }
}
