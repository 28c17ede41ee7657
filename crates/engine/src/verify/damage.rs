//! What a wrong block holds instead. Cold.

use super::header::{Header, number_of};
use super::{Expected, Verifier};
use fathom_model::plan::VerifyMethod;
use fathom_model::record::{Damage, WrongBlock};

const SECTOR: usize = 512;
const LISTED: usize = 8;
/// Bytes that are shown of either side.
const SHOWN: usize = 16;

/// Of an I/O that was read, an interval, which may be wrong.
#[derive(Clone, Copy)]
pub(super) struct Wrong<'a> {
    pub file: &'a str,
    /// The data of the whole I/O.
    pub io: &'a [u8],
    pub io_offset: u64,
    /// Where in it the interval is, in bytes.
    pub from: usize,
    pub to: usize,
    /// The data of the I/O, where it is compared with a pattern.
    pub right: &'a [u8],
}

impl Wrong<'_> {
    fn block(&self) -> &[u8] {
        &self.io[self.from..self.to]
    }

    fn offset(&self) -> u64 {
        self.io_offset + self.from as u64
    }
}

pub(super) fn describe(verifier: &Verifier, wrong: &Wrong<'_>, expected: &Expected) -> WrongBlock {
    let header = match verifier.plan.method {
        VerifyMethod::Pattern => None,
        _ => Header::of(wrong.block()),
    };
    let (damage, values) = match expected.zero {
        true => not_trimmed(wrong.block()),
        false => judge(verifier, wrong, expected, header.as_ref()),
    };
    WrongBlock {
        file: wrong.file.to_string(),
        offset: wrong.offset(),
        len: (wrong.to - wrong.from) as u32,
        damage,
        header: header.map(|header| header.found()),
        expected: hex(&values.0),
        found: hex(&values.1),
        dumped: Vec::new(),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

type Values = (Vec<u8>, Vec<u8>);

fn not_trimmed(block: &[u8]) -> (Damage, Values) {
    let from = block.iter().position(|byte| *byte != 0).unwrap_or(0);
    let found = block[from..(from + SHOWN).min(block.len())].to_vec();
    (Damage::NotTrimmed, (vec![0; found.len()], found))
}

fn judge(
    verifier: &Verifier,
    wrong: &Wrong<'_>,
    expected: &Expected,
    header: Option<&Header>,
) -> (Damage, Values) {
    let block = wrong.block();
    let start = || block[..block.len().min(SHOWN)].to_vec();
    let number = |n: u64| n.to_be_bytes().to_vec();
    if block.iter().all(|byte| *byte == 0) && !verifier.may_be_zero() {
        return (Damage::Zero, (Vec::new(), start()));
    }
    let Some(header) = header else {
        if let Some(claimed) = Header::claimed(block).filter(|_| verifier.plan.method.has_header())
        {
            let right_data = verifier.has_right_data(wrong, claimed.bytes);
            return (Damage::Header { right_data }, (Vec::new(), start()));
        }
        // What was to be there is known only of what this job wrote, and of patterns.
        let right = verifier.regenerate(wrong, expected, None);
        return match right.and_then(|right| compare(&right, block)) {
            Some(found) => found,
            None => (Damage::Foreign, (Vec::new(), start())),
        };
    };
    let (len, method) = (block.len() as u32, number_of(verifier.plan.method));
    if header.len != len || verifier.plan.method != VerifyMethod::Meta && header.method != method {
        let method = VerifyMethod::ALL.into_iter().find(|one| number_of(*one) == header.method);
        let method = method.map_or("?", VerifyMethod::name).to_string();
        let found = Damage::OtherFormat { len: header.len, method };
        return (found, (number(u64::from(len)), number(u64::from(header.len))));
    }
    if header.offset != wrong.offset() {
        return (Damage::Misplaced, (number(wrong.offset()), number(header.offset)));
    }
    if header.unix_ns() < expected.since_unix_ns {
        return (Damage::OtherWriter, (Vec::new(), start()));
    }
    if let Some((seed, last)) = expected.seed.zip(expected.number)
        && header.seed != seed
    {
        let is_own = header.job == verifier.job && verifier.seed(header.number) == header.seed;
        let found = if is_own { Damage::Stale { last } } else { Damage::OtherWriter };
        return (found, (number(seed), number(header.seed)));
    }
    if let Some(last) = expected.number.filter(|n| header.has_whole_number() && *n != header.number)
    {
        return (Damage::Stale { last }, (number(last), number(header.number)));
    }
    let right = verifier.regenerate(wrong, expected, Some(header));
    let found = right.and_then(|right| compare(&right, block));
    found.unwrap_or((Damage::Content, (Vec::new(), start())))
}

/// How `found` differs from what is `right`; `None` if they have nothing in common.
fn compare(right: &[u8], found: &[u8]) -> Option<(Damage, Values)> {
    let differs = |at: &usize| right[*at] != found[*at];
    let all: Vec<usize> = (0..found.len()).filter(differs).collect();
    let (first, last) = (*all.first()?, *all.last()?);
    let (from, to) = (first / SECTOR * SECTOR, (last / SECTOR * SECTOR + SECTOR).min(found.len()));
    let shown = first..(first + SHOWN).min(found.len());
    let values = (right[shown.clone()].to_vec(), found[shown].to_vec());
    // Of random bytes, one in 256 is right by chance.
    if all.len() * 2 > found.len() && to - from == found.len() {
        return None;
    }
    let damage = if all.len() * 4 > to - from {
        let zero = found[first..=last].iter().all(|byte| *byte == 0);
        Damage::Torn { from: from as u32, to: to as u32, zero }
    } else {
        let bits = all.iter().map(|at| u64::from((right[*at] ^ found[*at]).count_ones()));
        let bytes = all.iter().take(LISTED).map(|at| *at as u32).collect();
        Damage::Bits { count: bits.sum(), bytes }
    };
    Some((damage, values))
}
