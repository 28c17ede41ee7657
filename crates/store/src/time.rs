//! Timestamps in the names of run directories, such as `20261121-193600` (UTC).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const FORMAT: &str = "%Y%m%d-%H%M%S";

/// The second of `unix_ns`, which is in nanoseconds since 1970.
pub fn stamp(unix_ns: u64) -> String {
    let instant = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::MAX);
    instant.strftime(FORMAT).to_string()
}

pub fn instant(stamp: &str) -> Option<u64> {
    let is_right =
        |(at, byte): (usize, u8)| if at == 8 { byte == b'-' } else { byte.is_ascii_digit() };
    if stamp.len() != 15 || !stamp.bytes().enumerate().all(is_right) {
        return None;
    }
    let instant = DateTime::strptime(FORMAT, stamp).ok()?.to_zoned(TimeZone::UTC).ok()?;
    u64::try_from(instant.timestamp().as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_and_parsing_agree() {
        for (text, seconds) in [
            ("19700101-000000", 0),
            ("20000229-000000", 951_782_400),
            ("20261121-193600", 1_795_289_760),
        ] {
            assert_eq!(stamp(seconds * 1_000_000_000 + 999_999_999), text);
            assert_eq!(instant(text), Some(seconds * 1_000_000_000));
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        let others = [
            "20261321-193600",
            "20260230-000000",
            "2026112-1193600",
            "20261121-1936",
            "",
            "20261121-19360a",
        ];
        for text in others {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
