//! Sizes, times and numbers on the command line, and `--sampling`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use fathom_model::units;
use fathom_model::watch::Level;
use std::time::Duration;

const BLOCK_MAX: u64 = 16 << 20;

/// A size in bytes: a whole number with k, m, g or t for powers of 1024, as in `4g` or `512MiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let expected = || "expected a size such as 512m or 4g".to_string();
    let text = text.to_ascii_lowercase();
    let size = text.trim_end_matches("ib").trim_end_matches('b');
    let (number, shift) = units::size(size).ok_or_else(expected)?;
    number.checked_mul(1 << shift).ok_or_else(|| "expected at most 16 EiB".to_string())
}

/// A time: a number with ms, s, m, h or d, as in `500ms` or `1.5h`; a bare number is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 500ms, 60s, 90m, 24h or 7d".to_string();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match &text[digits..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(expected()),
    };
    let number: f64 = text[..digits].parse().map_err(|_| expected())?;
    // Nanoseconds since 1970 must hold it twice over.
    let longest = 100.0 * 365.0 * 86_400.0;
    Some(number * unit)
        .filter(|seconds| *seconds <= longest)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected at most 100 years".to_string())
}

pub fn time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected a time above 0, such as 500ms, 60s or 5m".into()),
        time => Ok(time),
    }
}

/// The time between two samples.
pub fn interval(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_millis(50)..=Duration::from_secs(3600);
    duration(text)
        .ok()
        .filter(|interval| bounds.contains(interval))
        .ok_or_else(|| "expected 50ms to 1h, such as 1, 0.5 or 200ms".to_string())
}

pub fn whole(
    range: std::ops::RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("expected a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A time with its unit, as messages have it.
pub fn shown(time: Duration) -> String {
    units::time(time.as_nanos() as f64)
}

/// The size of a scratch file: at least the larger of the default block sizes.
pub fn scratch_size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        ..1_048_576 => Err("expected at least 1m, the largest block size".into()),
        size => Ok(size),
    }
}

pub fn block_size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        size @ 512..=BLOCK_MAX if size.is_multiple_of(512) => Ok(size),
        _ => Err("expected a multiple of 512 bytes up to 16m".into()),
    }
}

/// A duration long enough for a search, at most a day.
pub fn search_time(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(5)..=Duration::from_secs(86_400);
    let expected = || "expected a time from 5s to 24h".to_string();
    duration(text).ok().filter(|time| range.contains(time)).ok_or_else(expected)
}

pub fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::NAMES.map(|(name, _)| name)).map(|given| {
        let named = Level::NAMES.iter().find(|(name, _)| *name == given);
        named.map_or_else(Level::default, |(_, level)| *level)
    })
}

pub fn on_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|given| given == "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("4g"), Ok(4 << 30));
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for bad in ["", "g", "4x", "-1g", "99999999999t", "4 g", "é"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(interval("50ms"), Ok(Duration::from_millis(50)));
        for bad in ["", "s", ".", "1.2.3", "-5", "NaN", "inf", "1w", "1e9", "99999999d", "é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["0", "49ms", "2h", "1x"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_hold_a_block_size() {
        assert_eq!(scratch_size("1m"), Ok(1 << 20));
        assert!(scratch_size("1023k").is_err());
        assert_eq!((block_size("4k"), block_size("16m")), (Ok(4096), Ok(16 << 20)));
        assert!(["0", "1000", "17m", "x"].iter().all(|bad| block_size(bad).is_err()));
    }

    #[test]
    fn times_of_searches() {
        assert_eq!(search_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(search_time("1.5m"), Ok(Duration::from_secs(90)));
        for bad in ["", "0", "-5", "4.9s", "NaN", "inf", "25h", "1e9"] {
            assert!(search_time(bad).is_err(), "{bad}");
        }
    }
}
