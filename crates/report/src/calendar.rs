//! Instants as dates and times of day, formatted and parsed: UTC in files, local time on screen.

use jiff::civil::{DateTime, Time};
pub use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::sync::OnceLock;

const NS: u64 = 1_000_000_000;

/// The system's time zone (`TZ`, `/etc/localtime`); UTC where neither is valid.
pub fn local_zone() -> &'static TimeZone {
    static LOCAL: OnceLock<TimeZone> = OnceLock::new();
    LOCAL.get_or_init(TimeZone::system)
}

/// An instant, in nanoseconds since 1970, in UTC, in a format of `strftime`.
pub fn formatted(unix_ns: u64, format: &str) -> String {
    formatted_in(unix_ns, &TimeZone::UTC, format)
}

/// An instant, in nanoseconds since 1970, in a time zone and a format of `strftime`.
pub fn formatted_in(unix_ns: u64, zone: &TimeZone, format: &str) -> String {
    zoned(unix_ns, zone).strftime(format).to_string()
}

/// An instant, in nanoseconds since 1970, as local date and time of day with its offset from UTC:
/// `2026-11-21 20:53:12 +01:00`.
pub fn date_and_time(unix_ns: u64, zone: &TimeZone) -> String {
    formatted_in(unix_ns, zone, "%Y-%m-%d %H:%M:%S %:z")
}

fn zoned(unix_ns: u64, zone: &TimeZone) -> Zoned {
    let instant = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::MAX);
    instant.to_zoned(zone.clone())
}

/// Parses a time into nanoseconds since 1970. Accepted are a date and time of day in `zone`
/// (`2026-11-21 19:53:12` or `2026-11-21T19:53`) or in UTC (with a `Z` at the end); a time of day
/// (`19:53`, `19:53:12`) at or after `first`, within a day; and `+90s`, `+5m` or `+2h` after `first`.
pub fn instant(text: &str, first: u64, zone: &TimeZone) -> Result<u64, String> {
    let expected =
        || format!("{text:?}: expected a time such as 19:53:12, 2026-11-21T19:53:12 or +90s");
    let text = text.trim();
    if let Some(offset) = text.strip_prefix('+') {
        return span(offset).and_then(|span| first.checked_add(span)).ok_or_else(expected);
    }
    if let Some((date, time)) = text.split_once(['T', ' ']) {
        let utc = time.strip_suffix('Z');
        let zone = if utc.is_some() { &TimeZone::UTC } else { zone };
        return parsed(&format!("{date}T{}", utc.unwrap_or(time)), zone).ok_or_else(expected);
    }
    let formats = ["%H:%M:%S", "%H:%M"];
    let time = formats.iter().find_map(|format| Time::strptime(format, text).ok());
    let same_day = zoned(first, zone).datetime().date().to_datetime(time.ok_or_else(expected)?);
    let at = unix_ns(same_day, zone).ok_or_else(expected)?;
    if first.saturating_sub(at) < NS {
        return Ok(at);
    }
    let next_day = same_day.checked_add(1.day()).ok();
    next_day.and_then(|next_day| unix_ns(next_day, zone)).ok_or_else(expected)
}

/// A date and time of day as nanoseconds since 1970.
fn parsed(text: &str, zone: &TimeZone) -> Option<u64> {
    let formats = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"];
    let at = formats.iter().find_map(|format| DateTime::strptime(format, text).ok())?;
    unix_ns(at, zone)
}

fn unix_ns(at: DateTime, zone: &TimeZone) -> Option<u64> {
    u64::try_from(at.to_zoned(zone.clone()).ok()?.timestamp().as_nanosecond()).ok()
}

/// A time span such as `90`, `90s`, `5m` or `2h`, in nanoseconds.
fn span(text: &str) -> Option<u64> {
    let (digits, seconds) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) if text.ends_with('h') => (digits, 3600),
        Some(digits) if text.ends_with('m') => (digits, 60),
        Some(digits) => (digits, 1),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(seconds)?.checked_mul(NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::offset;

    const FIRST: u64 = 1_795_290_792 * NS + 500;

    fn east() -> TimeZone {
        TimeZone::fixed(offset(1))
    }

    fn utc(text: &str) -> Result<u64, String> {
        instant(text, FIRST, &TimeZone::UTC)
    }

    #[test]
    fn formatting_and_parsing_agree() {
        assert_eq!(date_and_time(FIRST, &TimeZone::UTC), "2026-11-21 19:53:12 +00:00");
        assert_eq!(date_and_time(FIRST, &east()), "2026-11-21 20:53:12 +01:00");
        for seconds in [0, 951_782_400, 951_868_800, 1_795_290_792, 4_102_444_799] {
            let format = "%Y-%m-%d %H:%M:%S";
            for zone in [TimeZone::UTC, east()] {
                let text = formatted_in(seconds * NS, &zone, format);
                assert_eq!(instant(&text, FIRST, &zone), Ok(seconds * NS), "{text}");
            }
        }
    }

    #[test]
    fn a_time_of_day_is_never_before_the_first_sample() {
        let at = |text, zone| date_and_time(instant(text, FIRST, &zone).unwrap(), &zone);
        assert_eq!(at("19:53:12", TimeZone::UTC), "2026-11-21 19:53:12 +00:00");
        assert_eq!(at("20:00", TimeZone::UTC), "2026-11-21 20:00:00 +00:00");
        assert_eq!(at("01:02:03", TimeZone::UTC), "2026-11-22 01:02:03 +00:00");
        assert_eq!(at("20:53:12", east()), "2026-11-21 20:53:12 +01:00");
        assert_eq!(at("20:00", east()), "2026-11-22 20:00:00 +01:00");
        assert_eq!(at("2026-11-21T01:02:03Z", east()), "2026-11-21 02:02:03 +01:00");
    }

    #[test]
    fn spans_count_from_the_first_sample() {
        let after = |text| utc(text).map(|at| (at - FIRST) / NS);
        assert_eq!((after("+90"), after("+5m"), after("+2h")), (Ok(90), Ok(300), Ok(7200)));
    }

    #[test]
    fn invalid_times_are_rejected() {
        for bad in [
            "",
            "x",
            "25:00",
            "1:2:3:4",
            "+",
            "+x",
            "+1d",
            "2026-13-01 00:00",
            "é",
            "+99999999999h",
            "2600-01-01T00:00",
            "9999-12-31 23:59:59",
        ] {
            assert!(utc(bad).is_err(), "{bad}");
        }
        // A damaged record may start at any instant.
        assert_eq!(instant("23:34:33", u64::MAX, &TimeZone::UTC), Ok(18_446_744_073 * NS));
    }
}
