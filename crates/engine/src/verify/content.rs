//! The data of verified writes: what fio would write for the same seed or pattern (lib/rand.c, lib/pattern.c).

use fathom_model::plan::{Buffers, Fill, Verify};

/// Of fio's generator of buffer contents.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;
/// The sequences that fio interleaves, as it is built by default, begin with the seed times these.
const FACTORS: [u64; 4] = [1, 2, 3, 5];

/// Fills `buffer` with random bytes that derive from `seed`, as fio does.
pub(super) fn random(buffer: &mut [u8], seed: u64) {
    let mut states = FACTORS.map(|factor| seed.wrapping_mul(factor));
    let (groups, rest) = buffer.as_chunks_mut::<32>();
    for group in groups {
        for (word, state) in group.as_chunks_mut::<8>().0.iter_mut().zip(&mut states) {
            *word = state.to_ne_bytes();
            *state = state.wrapping_mul(GOLDEN_RATIO);
        }
    }
    let mut state = states[0];
    for word in rest.chunks_mut(8) {
        word.copy_from_slice(&state.to_ne_bytes()[..word.len()]);
        state = state.wrapping_mul(GOLDEN_RATIO);
    }
}

/// Fills the buffer of a write at `offset`, headers aside.
pub(super) fn fill(plan: &Verify, buffers: &Buffers, buffer: &mut [u8], offset: u64, seed: u64) {
    if !plan.pattern.is_empty() {
        return pattern(plan, buffer, offset);
    }
    let percent = 100 - buffers.compress_percent.min(100) as usize;
    let (noise, rest) = buffer.split_at_mut(buffer.len() * percent / 100);
    random(noise, seed);
    match &buffers.fill {
        Fill::Pattern(bytes) if !bytes.is_empty() => {
            rest.iter_mut().zip(bytes.iter().cycle()).for_each(|(to, from)| *to = *from);
        }
        _ => rest.fill(0),
    }
}

/// Repeats the pattern, which may have the offset in it: that of the write, or of each `verify_pattern_interval`.
fn pattern(plan: &Verify, buffer: &mut [u8], offset: u64) {
    let interval = match plan.pattern_interval {
        0 => buffer.len().max(1),
        bytes => bytes as usize,
    };
    for (index, part) in buffer.chunks_mut(interval).enumerate() {
        let mut done = plan.pattern.len().min(part.len());
        part[..done].copy_from_slice(&plan.pattern[..done]);
        let place = (offset + (index * interval) as u64).to_le_bytes();
        for at in &plan.offsets {
            let Some(to) = part[..done].get_mut(*at as usize..) else { continue };
            let len = to.len().min(8);
            to[..len].copy_from_slice(&place[..len]);
        }
        // Always whole patterns, twice as many each time.
        while done < part.len() {
            let more = done.min(part.len() - done);
            part.copy_within(..more, done);
            done += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_hold_the_offset_and_begin_again() {
        let plan = Verify {
            pattern: [b"ab".as_slice(), &[0; 8]].concat(),
            offsets: vec![2],
            pattern_interval: 16,
            ..Verify::default()
        };
        let mut buffer = [0; 40];
        fill(&plan, &Buffers::default(), &mut buffer, 4096, 7);
        let whole = |offset: u64| [b"ab".as_slice(), &offset.to_le_bytes()].concat();
        for (index, part) in buffer.chunks(16).enumerate() {
            let whole = whole(4096 + 16 * index as u64);
            assert_eq!(part[..8], whole[..8]);
            assert!(part.len() < 10 || part[10..] == whole[..part.len() - 10], "{index}");
        }
    }

    #[test]
    fn a_part_can_be_compressible() {
        let buffers = Buffers { compress_percent: 75, ..Buffers::default() };
        let mut buffer = [1; 4000];
        fill(&Verify::default(), &buffers, &mut buffer, 0, 7);
        assert!(buffer[1000..].iter().all(|byte| *byte == 0) && buffer[..1000] != [0; 1000]);
    }
}
