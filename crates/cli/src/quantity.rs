//! Sizes and times on the command line.

use fathom_model::units;
use std::time::Duration;

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

/// A duration above 0.
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

/// A whole number within `range`.
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
}
