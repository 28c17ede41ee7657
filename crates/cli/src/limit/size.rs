//! Sizes and times that a search can do with.

use crate::quantity;
use std::time::Duration;

/// A size in bytes, at least that of the larger of the blocks read.
///
/// # Errors
/// Says what was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        ..1_048_576 => Err("less than 1m, the largest block size".into()),
        size => Ok(size),
    }
}

/// A time that is long enough for a search, at most a day.
///
/// # Errors
/// Says what was expected.
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
