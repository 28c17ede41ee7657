//! Sizes and times on the command line.

/// A size in bytes: a whole number with k, m, g or t for powers of 1024, as in `4g` or `512MiB`.
///
/// # Errors
/// Says what was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    let expected = || "expected a size such as 512m or 4g".to_string();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    let suffix = text[digits..].to_ascii_lowercase();
    let shift = match suffix.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(expected()),
    };
    let size = number.checked_mul(1 << shift).ok_or("larger than 16 EiB")?;
    if size < 1 << 20 {
        Err("less than 1m, the larger of the blocks read".into())
    } else {
        Ok(size)
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
    fn sizes() {
        assert_eq!(bytes("4g"), Ok(4 << 30));
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for bad in ["", "g", "4x", "-1g", "1k", "99999999999t", "4 g", "é"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
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
