//! Sizes and times that a search can do with.

use crate::quantity;

/// A size in bytes, at least that of the larger of the blocks read.
///
/// # Errors
/// Says what was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        ..1_048_576 => Err("less than 1m, the larger of the blocks read".into()),
        size => Ok(size),
    }
}

/// A time in seconds: long enough for a search, at most a day.
///
/// # Errors
/// Says what was expected.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds) if (5.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 5 to 86400".into()),
    }
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
        assert_eq!(seconds("90"), Ok(90.0));
        assert_eq!(seconds("7.5s"), Ok(7.5));
        for bad in ["", "0", "-5", "NaN", "inf", "1h", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
