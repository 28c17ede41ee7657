//! Bounded fuzzing without a fuzzer: a corpus, and inputs derived from it with a fixed seed. Tests of several
//! crates include this file by its path.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Multiplies the number of derived inputs.
const FACTOR: &str = "FATHOM_FUZZ";
/// Values at the limits of integer types, and texts that parsers may mistake.
const TEXTS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e300",
    "\u{fffd}",
    " ",
    "",
];
/// Derived inputs are at most so much longer than their origin, in bytes.
const GROWTH: usize = 4096;

/// Runs `check` on each file of `fuzz/corpus/<name>`, and on `count` inputs derived from them. A panic fails the
/// test after the input has been printed.
pub fn fuzz(name: &str, count: usize, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut corpus: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    corpus.sort();
    let corpus: Vec<Vec<u8>> = corpus.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!corpus.is_empty(), "{} is empty", folder.display());
    let factor = std::env::var(FACTOR).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut random = Random::new(name);
    corpus.iter().for_each(|input| checked(input, check));
    for _ in 0..count * factor {
        checked(&random.derived(&corpus), check);
    }
}

/// Prints the input when the check panics.
struct Printed<'a>(&'a [u8]);

impl Drop for Printed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was b\"{}\"", self.0.escape_ascii());
        }
    }
}

fn checked(input: &[u8], check: fn(&[u8])) {
    let _printed = Printed(input);
    check(input);
}

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
struct Random(u64);

impl Random {
    fn new(seed: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        Self(hasher.finish() | 1)
    }

    /// A number below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        start..start + self.below((len - start).min(64) + 1)
    }

    fn derived(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        let longest = input.len() + GROWTH;
        for _ in 0..1 + self.below(4) {
            self.change(&mut input, corpus);
            input.truncate(longest);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        match self.below(8) {
            0 => self.byte(input, |byte, random| byte ^ 1 << random.below(8)),
            1 => self.byte(input, |_, random| random.below(256) as u8),
            2 => drop(input.drain(self.range(input.len()))),
            3 => {
                let copied = input[self.range(input.len())].to_vec();
                self.insert(input, &copied);
            }
            4 => {
                let other = &corpus[self.below(corpus.len())];
                let copied = other[self.range(other.len())].to_vec();
                self.insert(input, &copied);
            }
            5 if self.below(4) == 0 => input.truncate(self.below(input.len() + 1)),
            _ => self.number(input),
        }
    }

    fn byte(&mut self, input: &mut [u8], new: impl Fn(u8, &mut Self) -> u8) {
        let at = self.below(input.len());
        if let Some(byte) = input.get(at).copied() {
            input[at] = new(byte, self);
        }
    }

    fn insert(&mut self, input: &mut Vec<u8>, bytes: &[u8]) {
        let at = self.below(input.len() + 1);
        input.splice(at..at, bytes.iter().copied());
    }

    /// Replaces a number in the text.
    fn number(&mut self, input: &mut Vec<u8>) {
        let from = self.below(input.len());
        let Some(start) = input[from..].iter().position(u8::is_ascii_digit) else { return };
        let start = from + start;
        let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = TEXTS[self.below(TEXTS.len())];
        input.splice(start..start + digits, text.bytes());
    }
}
