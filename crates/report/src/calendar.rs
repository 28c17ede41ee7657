//! Instants as dates and times of day in UTC, and back.
//!
//! Days to date and date to days: Howard Hinnant,
//! <https://howardhinnant.github.io/date_algorithms.html>.

const DAY: u64 = 86_400;
const NS: u64 = 1_000_000_000;

/// A second of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Year.
    pub year: u64,
    /// Month, from 1.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
    /// Day of the week, from Sunday, which is 0.
    pub weekday: u64,
    /// Second of the day.
    pub second: u64,
}

impl Moment {
    /// The second that many seconds after the beginning of 1970.
    #[must_use]
    pub fn at(seconds: u64) -> Self {
        let days = seconds / DAY;
        let from_march_0000 = days + 719_468;
        let (era, day_of_era) = (from_march_0000 / 146_097, from_march_0000 % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            weekday: (days + 4) % 7,
            second: seconds % DAY,
        }
    }

    /// The time of day: `19:53:12`.
    #[must_use]
    pub fn time(self) -> String {
        let s = self.second;
        format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }

    /// The date: `2026-11-21`.
    #[must_use]
    pub fn date(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// An instant, in nanoseconds since 1970, as date and time of day: `2026-11-21 19:53:12`.
#[must_use]
pub fn date_and_time(unix_ns: u64) -> String {
    let moment = Moment::at(unix_ns / NS);
    format!("{} {}", moment.date(), moment.time())
}

/// The instant that a text names, in nanoseconds since 1970: `2026-11-21 19:53:12` or with a `T`
/// between, `19:53` or `19:53:12` of the day on which `first` is, or of the next where it would be
/// before it, or `+90s`, `+5m`, `+2h` after `first`; all in UTC.
///
/// # Errors
/// Says what was expected.
pub fn instant(text: &str, first: u64) -> Result<u64, String> {
    let expected =
        || format!("{text:?}: expected a time such as 19:53:12, 2026-11-21T19:53:12 (UTC) or +90s");
    let text = text.trim();
    if let Some(offset) = text.strip_prefix('+') {
        return first.checked_add(span(offset).ok_or_else(expected)?).ok_or_else(expected);
    }
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (Some(date), time.trim_end_matches('Z')),
        None => (None, text),
    };
    let second = second_of_day(time).ok_or_else(expected)?;
    if let Some(date) = date {
        let seconds = days(date).ok_or_else(expected)? * DAY + second;
        return seconds.checked_mul(NS).ok_or_else(expected);
    }
    let day_of_first = first / NS / DAY * DAY;
    let at = (day_of_first + second).saturating_mul(NS);
    Ok(if at.saturating_add(NS) <= first { at.saturating_add(DAY * NS) } else { at })
}

/// A span such as `90`, `90s`, `5m`, `2h`, in nanoseconds.
fn span(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) => (digits, if text.ends_with('s') { 1 } else { 60 }),
        None => (text, 1),
    };
    let unit = if text.ends_with('h') { 3600 } else { unit };
    digits.parse::<u64>().ok()?.checked_mul(unit)?.checked_mul(NS)
}

fn second_of_day(text: &str) -> Option<u64> {
    let parts: Vec<u64> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts[..] {
        [hour @ 0..24, minute @ 0..60] => Some(hour * 3600 + minute * 60),
        [hour @ 0..24, minute @ 0..60, second @ 0..60] => Some(hour * 3600 + minute * 60 + second),
        _ => None,
    }
}

/// Days since 1970 of a date as `2026-11-21`.
fn days(text: &str) -> Option<u64> {
    let parts: Vec<u64> = text.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year @ 1970..10_000, month @ 1..=12, day @ 1..=31] = parts[..] else { return None };
    let year_from_march = year - u64::from(month <= 2);
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 1_795_290_792 * NS + 500;

    #[test]
    fn there_and_back() {
        assert_eq!(date_and_time(FIRST), "2026-11-21 19:53:12");
        for seconds in [0, 951_782_400, 951_868_800, 1_795_290_792, 4_102_444_799] {
            let text = date_and_time(seconds * NS);
            assert_eq!(instant(&text, FIRST), Ok(seconds * NS), "{text}");
        }
    }

    #[test]
    fn times_of_day_are_not_before_the_first() {
        let at = |text| date_and_time(instant(text, FIRST).unwrap());
        assert_eq!(at("19:53:12"), "2026-11-21 19:53:12");
        assert_eq!(at("20:00"), "2026-11-21 20:00:00");
        assert_eq!(at("01:02:03"), "2026-11-22 01:02:03");
        assert_eq!(at("2026-11-21T01:02:03Z"), "2026-11-21 01:02:03");
    }

    #[test]
    fn spans_are_counted_from_the_first() {
        let after = |text| instant(text, FIRST).map(|at| (at - FIRST) / NS);
        assert_eq!((after("+90"), after("+5m"), after("+2h")), (Ok(90), Ok(300), Ok(7200)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
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
            assert!(instant(bad, FIRST).is_err(), "{bad}");
        }
        // A record may begin at any instant.
        assert_eq!(instant("23:59:59", u64::MAX), Ok(u64::MAX));
    }
}
