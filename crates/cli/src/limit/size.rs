//! Sizes and times that `fathom limit` accepts.

use crate::quantity;
use std::time::Duration;

/// The largest block size.
const BLOCK_MAX: u64 = 16 << 20;

/// A size in bytes, at least the larger of the default block sizes.
pub fn bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        ..1_048_576 => Err("expected at least 1m, the largest block size".into()),
        size => Ok(size),
    }
}

/// A block size.
pub fn block(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        size @ 512..=BLOCK_MAX if size.is_multiple_of(512) => Ok(size),
        _ => Err("expected a multiple of 512 bytes up to 16m".into()),
    }
}

/// A duration long enough for a search, at most a day.
pub fn duration(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(5)..=Duration::from_secs(86_400);
    let expected = || "expected a time from 5s to 24h".to_string();
    quantity::duration(text).ok().filter(|time| range.contains(time)).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_hold_a_block() {
        assert_eq!(bytes("1m"), Ok(1 << 20));
        assert!(bytes("1023k").is_err());
        assert_eq!((block("4k"), block("16m")), (Ok(4096), Ok(16 << 20)));
        assert!(["0", "1000", "17m", "x"].iter().all(|bad| block(bad).is_err()));
    }

    #[test]
    fn times() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for bad in ["", "0", "-5", "4.9s", "NaN", "inf", "25h", "1e9"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
