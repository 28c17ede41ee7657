//! Values of keys: sizes, times, counts, lists.

mod arithmetic;
mod buffer;

pub(crate) use arithmetic::evaluate;
pub(crate) use buffer::{pattern, verify_pattern, with_files};

use crate::job::Size;
use fathom_model::plan::{AbsoluteZone, Zone};
use fathom_model::{Dir, PerDir};

#[derive(Debug, Clone, Copy)]
pub struct KeyValue<'a> {
    /// Its text; for a key without a value, the default that the key implies.
    pub text: &'a str,
    /// The value of the `k` prefix: 1024 (the default) or 1000 (`kb_base`).
    pub kb_base: u64,
    /// Whether a number ends before an operator or a repeated unit, as in fio, and the rest is ignored.
    pub lax: bool,
}

/// Maximum queue depth, that of io_uring (IORING_MAX_ENTRIES in io_uring/io_uring.h).
pub(crate) const DEPTH_MAX: u32 = 32_768;

/// The operators at which fio stops reading a number that is not in parentheses.
const OPERATORS: [char; 4] = ['+', '*', '/', '^'];

impl<'a> KeyValue<'a> {
    /// A text of which every part must be understood.
    pub(crate) fn strict(text: &'a str, kb_base: u64) -> Self {
        Self { text, kb_base, lax: false }
    }

    /// Another text, such as an entry of a list, with the same base.
    pub(crate) fn with(self, text: &'a str) -> Self {
        Self { text, ..self }
    }

    pub(crate) fn percent(self) -> Result<u32, String> {
        let number = self.text.strip_suffix('%').map_or(self.text, str::trim_end);
        self.with(number).count32(0, 100)
    }

    pub(crate) fn flag(self) -> Result<bool, String> {
        match self.text {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(format!("invalid value '{other}'; use 0 or 1")),
        }
    }

    pub(crate) fn count(self, min: u64, max: u64) -> Result<u64, String> {
        let n = self.bytes()?;
        if n < min || n > max {
            return Err(format!("{n} is out of range; use {min} to {max}"));
        }
        Ok(n)
    }

    pub(crate) fn count32(self, min: u32, max: u32) -> Result<u32, String> {
        let n = self.count(u64::from(min), u64::from(max))?;
        u32::try_from(n).map_err(|_| format!("{n} is out of range; use {min} to {max}"))
    }

    /// A number, or nothing for 0.
    pub(crate) fn nonzero(self) -> Result<Option<u64>, String> {
        Ok(Some(self.bytes()?).filter(|n| *n > 0))
    }

    /// A number of I/Os; as in fio, 0 selects the default.
    pub(crate) fn depth(self) -> Result<Option<u32>, String> {
        Ok(Some(self.count32(0, DEPTH_MAX)?).filter(|n| *n > 0))
    }

    pub(crate) fn some_text(self) -> Result<Option<String>, String> {
        Ok(Some(self.text.to_string()))
    }

    /// Two values of which the first is not larger, or twice the only one.
    pub(crate) fn range<T: PartialOrd>(
        self,
        separators: &[char],
        read: impl Fn(Self) -> Result<T, String>,
    ) -> Result<(T, T), String> {
        let (low, high) = self.text.split_once(separators).unwrap_or((self.text, self.text));
        let (low, high) = (read(self.with(low.trim()))?, read(self.with(high.trim()))?);
        if low > high {
            return Err(format!(
                "invalid range '{}': the lower bound exceeds the upper; swap them",
                self.text
            ));
        }
        Ok((low, high))
    }

    pub(crate) fn signed(self, min: i64, max: i64) -> Result<i64, String> {
        let n = match self.text.strip_prefix('-') {
            Some(rest) => -to_i64(self.with(rest).bytes()?)?,
            None => to_i64(self.bytes()?)?,
        };
        if n < min || n > max {
            return Err(format!("{n} is out of range; use {min} to {max}"));
        }
        Ok(n)
    }

    pub(crate) fn size(self) -> Result<u64, String> {
        match self.bytes()? {
            0 => Err("invalid size 0; use a size above 0".to_string()),
            n => Ok(n),
        }
    }

    pub(crate) fn size_or_percent(self) -> Result<Size, String> {
        match self.size_or_any_percent()? {
            Size::Percent(more @ 101..) => Err(format!("{more}% is out of range; use 0% to 100%")),
            size => Ok(size),
        }
    }

    /// A size in bytes or a percentage. `%%` is `%`, as Python's configparser writes it.
    pub(crate) fn size_or_any_percent(self) -> Result<Size, String> {
        if let Some(count) = self.text.strip_suffix(['z', 'Z']) {
            return Ok(Size::Zones(self.with(count.trim_end()).count32(0, u32::MAX)?));
        }
        let Some(number) = self.text.strip_suffix('%') else {
            return Ok(Size::Bytes(self.bytes()?));
        };
        let number = self.with(number.trim_end_matches('%').trim_end());
        Ok(Size::Percent(number.count32(0, u32::MAX)?))
    }

    pub(crate) fn bytes(self) -> Result<u64, String> {
        if self.text.starts_with('(') {
            return unsigned(self.text, evaluate(self.text, &|number| self.with(number).bytes())?);
        }
        let (number, suffix) = self.split_number("number or size (16, 4k, 1m)")?;
        let repeats = ["kk", "mm", "gg", "tt"].iter().any(|unit| suffix.eq_ignore_ascii_case(unit));
        let suffix = if self.lax && repeats { &suffix[..1] } else { suffix };
        let (power, opposite) = match suffix.to_ascii_lowercase().as_str() {
            "" | "b" => (0, false),
            "k" | "kb" | "ki" => (1, false),
            "m" | "mb" | "mi" => (2, false),
            "g" | "gb" | "gi" => (3, false),
            "t" | "tb" | "ti" => (4, false),
            "p" | "pb" | "pi" => (5, false),
            "kib" => (1, true),
            "mib" => (2, true),
            "gib" => (3, true),
            "tib" => (4, true),
            "pib" => (5, true),
            "z" => return Err(no_zones(self.text)),
            _ => return Err(bad_suffix(self.text, suffix, "k, m, g, t or p")),
        };
        // As in fio: with kb_base=1024, k is 1024 and kib is 1000; with kb_base=1000, the reverse.
        let base =
            if opposite { if self.kb_base == 1024 { 1000 } else { 1024 } } else { self.kb_base };
        base.checked_pow(power)
            .and_then(|unit| number.checked_mul(unit))
            .ok_or_else(|| format!("'{}' exceeds 2^64; use a smaller value", self.text))
    }

    /// A time in nanoseconds; a bare number is in units of `bare_ns`.
    pub(crate) fn time_ns(self, bare_ns: u64) -> Result<u64, String> {
        if self.text.starts_with('(') {
            let plain = |number: &str| self.with(number).time_ns(1);
            let value = unsigned(self.text, evaluate(self.text, &plain)?)?;
            let has_unit = self.text.contains(|c: char| c.is_ascii_alphabetic());
            return Ok(if has_unit { value } else { value.saturating_mul(bare_ns) });
        }
        let (number, suffix) = self.split_number("time (30, 10s, 5m)")?;
        let unit = match suffix.to_ascii_lowercase().as_str() {
            "" => bare_ns,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(bad_suffix(self.text, suffix, "us, ms, s, m, h or d")),
        };
        number
            .checked_mul(unit)
            .ok_or_else(|| format!("'{}' exceeds 500 years; use a shorter time", self.text))
    }

    fn split_number(self, what: &str) -> Result<(u64, &'a str), String> {
        let (number, rest) = split_number(self.text, what)?;
        let end = rest.find(OPERATORS).filter(|_| self.lax).unwrap_or(rest.len());
        Ok((number, rest[..end].trim_end()))
    }

    pub(crate) fn choice<T: Copy>(self, words: &[(&str, T)]) -> Result<T, String> {
        words.iter().find(|(word, _)| *word == self.text).map(|(_, value)| *value).ok_or_else(
            || {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("invalid value '{}'; valid values are {}", self.text, known.join(", "))
            },
        )
    }
}

fn unsigned(text: &str, value: i128) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| format!("'{text}' is {value}; use a value from 0 to 2^64"))
}

fn to_i64(n: u64) -> Result<i64, String> {
    i64::try_from(n).map_err(|_| format!("{n} exceeds 2^63; use a smaller value"))
}

/// The digits (decimal, or hexadecimal after 0x) and what follows them; `what` is expected.
fn split_number<'a>(text: &'a str, what: &str) -> Result<(u64, &'a str), String> {
    if text.is_empty() {
        return Err("missing number; add one".to_string());
    }
    let (digits, rest, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            (&hex[..end], &hex[end..], 16)
        }
        None => {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            (&text[..end], &text[end..], 10)
        }
    };
    if digits.is_empty() {
        return Err(match text.starts_with('-') {
            true => format!("'{text}' is negative; use 0 or more"),
            false => format!("'{text}' is not a {what}"),
        });
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        let number = &text[..text.len() - rest.len()];
        let left = fraction.trim_start_matches('0');
        let instead = match left.starts_with(|c: char| c.is_ascii_digit()) {
            true => "a smaller unit".to_string(),
            false => format!("{number}{left}"),
        };
        return Err(format!(
            "'{text}' is not an integer, and fio would read {number}; use {instead}"
        ));
    }
    u64::from_str_radix(digits, radix)
        .map(|number| (number, rest.trim_start()))
        .map_err(|_| format!("'{text}' exceeds 2^64; use a smaller value"))
}

fn bad_suffix(text: &str, suffix: &str, known: &str) -> String {
    match suffix.starts_with(OPERATORS) {
        true => format!("'{text}' is an expression; put it in parentheses, ({text})"),
        false if suffix == "%" => format!("'{text}' is a percentage; use {known}"),
        false => format!("unknown unit '{suffix}' in '{text}'; use {known}"),
    }
}

fn no_zones(text: &str) -> String {
    format!(
        "'{text}': only size, io_size, offset, offset_increment and zoneskip can be in zones; use bytes"
    )
}

/// Parses `read,write,trim` into `into`, as in fio: an empty entry leaves its direction
/// unchanged, and the last entry also applies to the directions after it unless it is empty.
pub(crate) fn triple<'a, T: Clone>(
    value: KeyValue<'a>,
    into: &mut PerDir<T>,
    mut read: impl FnMut(KeyValue<'a>) -> Result<T, String>,
) -> Result<(), String> {
    let parts: Vec<&str> = value.text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return Err(format!("'{}' has more than three entries; use read,write,trim", value.text));
    }
    if parts.iter().all(|part| part.is_empty()) {
        return Err("missing value; add one".to_string());
    }
    let mut last = None;
    for (index, dir) in Dir::ALL.into_iter().enumerate() {
        let part = parts.get(index).copied();
        match part {
            Some("") => last = None,
            Some(text) => {
                last = Some(read(value.with(text))?);
            }
            None => {}
        }
        if let Some(new) = &last {
            into[dir] = new.clone();
        }
    }
    Ok(())
}

fn entries(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|entry| !entry.is_empty())
}

pub(crate) fn path_list(text: &str) -> Result<Vec<String>, String> {
    let mut paths = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&':') => {
                chars.next();
                push(&mut paths, ':');
            }
            ':' => paths.push(String::new()),
            _ => push(&mut paths, c),
        }
    }
    if paths.iter().any(String::is_empty) {
        return Err(format!("'{text}' contains an empty path; escape a colon in a path as \\:"));
    }
    Ok(paths)
}

fn push(paths: &mut [String], c: char) {
    if let Some(path) = paths.last_mut() {
        path.push(c);
    }
}

/// `path` as one of `filename`, in which colons separate paths.
pub fn escape_path(path: &str) -> String {
    path.replace(':', "\\:")
}

/// Numbers separated by `:`, each above 0 and at most 100, at most 20 of them.
pub(crate) fn floats(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for entry in entries(text, ':') {
        match entry.parse::<f64>() {
            Ok(n) if n > 0.0 && n <= 100.0 => list.push(n),
            _ => {
                return Err(format!(
                    "invalid percentile '{entry}'; use a number above 0, up to 100"
                ));
            }
        }
    }
    if list.is_empty() || list.len() > 20 {
        return Err(format!("{} percentiles given; use 1 to 20, separated by ':'", list.len()));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

/// Lines of `START, END, IDENTIFIER` (`dp_scheme`).
pub(crate) fn placed_ranges(text: &str) -> Result<Vec<(u64, u64, u16)>, String> {
    let range = |line: &str| {
        let mut parts = line.split(',').map(str::trim);
        let range =
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(range)
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let ranges: Vec<_> = lines
        .map(|(number, line)| {
            let fail = || {
                format!("line {}: expected `START, END, IDENTIFIER`, found '{line}'", number + 1)
            };
            range(line).ok_or_else(fail)
        })
        .collect::<Result<_, String>>()?;
    if ranges.is_empty() {
        return Err("there are no lines of `START, END, IDENTIFIER`".to_string());
    }
    Ok(ranges)
}

/// Block sizes with percentages, `4k/60:64k/40`. As in fio, sizes without one, or with 0, divide what
/// the others leave, whatever is left then goes to the size with the largest percentage, and of a range
/// of sizes the first counts.
pub(crate) fn block_split(value: KeyValue<'_>) -> Result<Vec<(u64, u32)>, String> {
    let mut parts: Vec<(u64, u32)> = Vec::new();
    for entry in entries(value.text, ':') {
        let (size, share) = match entry.split_once('/') {
            Some((size, "")) => (size, 0),
            Some((size, share)) => {
                let whole = share.strip_suffix('.').unwrap_or(share);
                (size, value.with(whole).count32(0, 100)?)
            }
            None => (entry, 0),
        };
        let size = size.split('-').next().unwrap_or(size);
        parts.push((value.with(size.trim()).size()?, share));
    }
    if parts.is_empty() || parts.len() > 64 {
        return Err(format!("{} block sizes given; use 1 to 64", parts.len()));
    }
    let given: u32 = parts.iter().map(|(_, share)| share).sum();
    let open = parts.iter().filter(|(_, share)| *share == 0).count() as u32;
    let left = 100_u32.checked_sub(given).ok_or_else(|| {
        format!("the percentages of '{}' add up to {given}%; change them to 100%", value.text)
    })?;
    for (_, share) in parts.iter_mut().filter(|(_, share)| *share == 0) {
        *share = left / open.max(1);
    }
    let sum: u32 = parts.iter().map(|(_, share)| share).sum();
    if let Some((_, share)) = parts.iter_mut().max_by_key(|(_, share)| *share) {
        *share += 100 - sum;
    }
    parts.retain(|(_, share)| *share > 0);
    Ok(parts)
}

/// Zones of `random_distribution=zoned:access/span:…`, in percent; zones without a span
/// divide the remainder evenly.
pub(crate) fn zones(text: &str) -> Result<Vec<Zone>, String> {
    let mut parts: Vec<(f64, Option<f64>)> = Vec::new();
    for entry in entries(text, ':') {
        let bad = || format!("invalid zone '{entry}'; use percent of accesses/percent of space");
        let percent = |n: &str| match n.trim().parse::<f64>() {
            Ok(n) if (0.0..=100.0).contains(&n) => Ok(n),
            _ => Err(bad()),
        };
        let (access, span) = entry.split_once('/').ok_or_else(bad)?;
        let span = if span.trim().is_empty() { None } else { Some(percent(span)?) };
        parts.push((percent(access)?, span));
    }
    let access: f64 = parts.iter().map(|part| part.0).sum();
    let given: f64 = parts.iter().filter_map(|part| part.1).sum();
    let open = parts.iter().filter(|part| part.1.is_none()).count();
    let is_all = |sum: f64| (sum - 100.0).abs() <= 0.01;
    if !is_all(access) || (open == 0 && !is_all(given)) || (open > 0 && given >= 100.0) {
        return Err(format!(
            "the zones of '{text}' add up to {access}% of accesses and {given}% of space; \
             change both to 100%"
        ));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    let zone = |(access_percent, span): (f64, Option<f64>)| Zone {
        access_percent,
        span_percent: span.unwrap_or(rest),
    };
    Ok(parts.into_iter().map(zone).collect())
}

/// Zones of `random_distribution=zoned_abs:access/size:…`, in percent of accesses and bytes.
pub(crate) fn absolute_zones(v: KeyValue<'_>) -> Result<Vec<AbsoluteZone>, String> {
    let mut zones = Vec::new();
    for entry in entries(v.text, ':') {
        let bad = || format!("invalid zone '{entry}'; use percent of accesses/size");
        let (access, bytes) = entry.split_once('/').ok_or_else(bad)?;
        let access = access.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
        let (access_percent, bytes) = (access.ok_or_else(bad)?, v.with(bytes.trim()).size()?);
        zones.push(AbsoluteZone { access_percent, bytes });
    }
    let access: f64 = zones.iter().map(|zone| zone.access_percent).sum();
    match (access - 100.0).abs() <= 0.01 {
        true => Ok(zones),
        false => {
            let text = v.text;
            Err(format!(
                "the zones of '{text}' add up to {access}% of accesses; change that to 100%"
            ))
        }
    }
}

/// Generic error numbers of Linux (include/uapi/asm-generic/errno-base.h and errno.h).
const NAMES: &str = "EPERM=1 ENOENT=2 EINTR=4 EIO=5 ENXIO=6 EBADF=9 EAGAIN=11 EWOULDBLOCK=11 ENOMEM=12 EACCES=13 \
    EFAULT=14 EBUSY=16 ENODEV=19 EINVAL=22 EFBIG=27 ENOSPC=28 EROFS=30 ENODATA=61 ETIME=62 ENOLINK=67 \
    EREMOTEIO=121 EDQUOT=122 ENOMEDIUM=123 EBADE=52 EILSEQ=84 EOPNOTSUPP=95 ETIMEDOUT=110 ESTALE=116 \
    ECANCELED=125";

pub(crate) fn errno(text: &str) -> Result<i32, String> {
    let mut names = NAMES.split(' ').filter_map(|name| name.split_once('='));
    let number = names.find(|(name, _)| *name == text).map_or(text, |(_, number)| number);
    match number.parse::<i32>() {
        Ok(number) if (1..=4095).contains(&number) => Ok(number),
        _ => Err(format!(
            "unknown error '{text}'; use a name such as EIO, or a number from 1 to 4095"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v(text: &str) -> KeyValue<'_> {
        KeyValue::strict(text, 1024)
    }

    /// A size as [`KeyValue::bytes`] reads it back, with the largest unit that divides it.
    fn render_bytes(bytes: u64) -> String {
        for (shift, suffix) in [(50, "p"), (40, "t"), (30, "g"), (20, "m"), (10, "k")] {
            if bytes != 0 && bytes.is_multiple_of(1 << shift) {
                return format!("{}{suffix}", bytes >> shift);
            }
        }
        bytes.to_string()
    }

    #[test]
    fn sizes_as_fio_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4kib", 4000),
            ("4Ki", 4096),
            ("1Mi", 1 << 20),
            ("1m", 1 << 20),
            ("2G", 2 << 30),
            ("0x1000", 4096),
            ("512b", 512),
            ("1t", 1 << 40),
            ("(4k*3+512)", 12_800),
        ] {
            assert_eq!(v(text).bytes(), Ok(bytes), "{text}");
        }
        let si = KeyValue::strict("4k", 1000);
        assert_eq!(si.bytes(), Ok(4000));
        assert_eq!(si.with("4kib").bytes(), Ok(4096));
    }

    #[test]
    fn numbers_end_before_an_operator_where_that_is_allowed() {
        let lax = |text| KeyValue { lax: true, ..v(text) };
        let sizes =
            [("128*2", 128), ("4k/15:1024k:85", 4096), ("1m + 1m", 1 << 20), ("1mm", 1 << 20)];
        for (text, bytes) in sizes {
            assert_eq!(lax(text).bytes(), Ok(bytes), "{text}");
            assert!(v(text).bytes().is_err(), "{text}");
        }
        assert_eq!(lax("40+30").time_ns(1), Ok(40));
        assert_eq!(lax("(40+30)").time_ns(1), Ok(70));
        assert!(lax("4q*2").bytes().is_err() && lax("*2").bytes().is_err());
    }

    #[test]
    fn errors_of_sizes() {
        for (text, part) in [
            ("", "missing"),
            ("k", "not a number or size (16, 4k, 1m)"),
            ("-1", "negative; use 0 or more"),
            ("4q", "unknown unit 'q'"),
            ("4kk", "unknown unit 'kk'"),
            ("128*2", "in parentheses, (128*2)"),
            ("1.5g", "not an integer, and fio would read 1; use a smaller unit"),
            ("1024.0M", "fio would read 1024; use 1024M"),
            ("0x10.", "use 0x10"),
            ("99999999999999999999", "2^64"),
            ("99999999999p", "2^64"),
            ("4z", "zones"),
            ("(1-2)", "is -1"),
            ("(4k", "missing )"),
        ] {
            let error = v(text).bytes().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn times() {
        let second = 1_000_000_000;
        assert_eq!(v("10").time_ns(second), Ok(10 * second));
        assert_eq!(v("10").time_ns(1000), Ok(10_000));
        assert_eq!(v("5ms").time_ns(second), Ok(5_000_000));
        assert_eq!(v("2m").time_ns(second), Ok(120 * second));
        assert_eq!(v("1D").time_ns(second), Ok(86_400 * second));
        assert_eq!(v("(2*3)").time_ns(second), Ok(6 * second));
        assert_eq!(v("(1m+30s)").time_ns(second), Ok(90 * second));
        assert!(v("30min").time_ns(second).unwrap_err().contains("unknown unit 'min'"));
        assert!(v("99999999d").time_ns(second).is_err());
    }

    #[test]
    fn percentages_have_bounds() {
        assert_eq!(v("50%").size_or_percent(), Ok(Size::Percent(50)));
        assert_eq!(v("100%%").size_or_percent(), Ok(Size::Percent(100)));
        assert!(v("101%").size_or_percent().unwrap_err().contains("use 0% to 100%"));
        assert!(v("%").size_or_percent().is_err());
        assert_eq!((v("70%").percent(), v("70").percent()), (Ok(70), Ok(70)));
        assert!(v("101%").percent().is_err() && v("%").percent().is_err());
    }

    proptest! {
        #[test]
        fn rendered_sizes_read_back(bytes: u64) {
            prop_assert_eq!(v(&render_bytes(bytes)).bytes(), Ok(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = v(&text).bytes();
            let _ = v(&text).time_ns(1);
            let _ = v(&text).signed(-5, 5);
            let _ = v(&text).size_or_percent();
        }
    }

    fn sizes(text: &str) -> (u64, u64, u64) {
        let mut sizes = PerDir::splat(1);
        triple(v(text), &mut sizes, |v| v.bytes()).unwrap();
        (sizes.read, sizes.write, sizes.trim)
    }

    #[test]
    fn triples_inherit_as_in_fio() {
        assert_eq!(sizes("4k"), (4096, 4096, 4096));
        assert_eq!(sizes("4k,8k"), (4096, 8192, 8192));
        assert_eq!(sizes(",8k"), (1, 8192, 8192));
        assert_eq!(sizes("4k,"), (4096, 1, 1));
        assert_eq!(sizes("4k,,16k"), (4096, 1, 16384));
        assert_eq!(sizes(",8k,"), (1, 8192, 1));
        assert!(triple(v(","), &mut PerDir::splat(1), |v| v.bytes()).is_err());
        assert!(triple(v("1,2,3,4"), &mut PerDir::splat(1), |v| v.bytes()).is_err());
    }

    #[test]
    fn paths_with_colons() {
        assert_eq!(path_list("/dev/a:/dev/b").unwrap(), ["/dev/a", "/dev/b"]);
        assert_eq!(path_list("/x\\:0:/y").unwrap(), ["/x:0", "/y"]);
        assert!(path_list("a::b").is_err());
    }

    #[test]
    fn sizes_without_a_percentage_share_the_remainder() {
        assert_eq!(block_split(v("4k/60:64k/40")).unwrap(), [(4096, 60), (65536, 40)]);
        assert_eq!(block_split(v("4k/50:8k:16k")).unwrap(), [(4096, 50), (8192, 25), (16384, 25)]);
        assert_eq!(block_split(v("4k")).unwrap(), [(4096, 100)]);
        assert!(block_split(v("4k/60:64k/60")).unwrap_err().contains("120%"));
        assert_eq!(block_split(v("4k/60:64k/38")).unwrap(), [(4096, 62), (65536, 38)]);
        assert_eq!(
            block_split(v("4k/0:8k/34:16k")).unwrap(),
            [(4096, 33), (8192, 34), (16384, 33)]
        );
        assert_eq!(block_split(v("4k/100:8k/0")).unwrap(), [(4096, 100)]);
        assert_eq!(block_split(v("4k-8k/50:64k/50")).unwrap(), [(4096, 50), (65536, 50)]);
    }

    #[test]
    fn zones_add_up() {
        assert_eq!(zones("60/10:40/90").unwrap().len(), 2);
        assert!((zones("50/5:30/15:20/").unwrap()[2].span_percent - 80.0).abs() < 1e-9);
        assert!(zones("50/50:30/50:20/").is_err());
        assert!(zones("60/10:30/90").unwrap_err().contains("90%"));
        assert!(zones("nan/10:30/90").is_err());
        let zones = absolute_zones(v("60/1m:0/2m:40/4k")).unwrap();
        assert_eq!(zones.iter().map(|zone| zone.bytes).sum::<u64>(), (3 << 20) + 4096);
        assert!(absolute_zones(v("60/1m:30/2m")).unwrap_err().contains("90%"));
    }

    proptest! {
        #[test]
        fn any_path_reads_back(path in "[^\\\\]{1,20}") {
            prop_assert_eq!(path_list(&escape_path(&path)), Ok(vec![path]));
        }

        #[test]
        fn shares_add_up_to_100(text in "[0-9k/:]{1,30}") {
            if let Ok(split) = block_split(v(&text)) {
                prop_assert_eq!(split.iter().map(|part| part.1).sum::<u32>(), 100);
            }
        }

        #[test]
        fn any_list_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = (path_list(&text), floats(&text), zones(&text));
        }
    }

    #[test]
    fn placements_by_offset() {
        let read = placed_ranges("0, 4096, 1\n\n4096,18446744073709551615,65535\n");
        assert_eq!(read, Ok(vec![(0, 4096, 1), (4096, u64::MAX, 65535)]));
        for (text, said) in
            [("", "there are no lines"), ("0,1,2\n1,2", "line 2"), ("0,1,65536", "line 1")]
        {
            assert!(placed_ranges(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(errno("EIO"), Ok(5));
        assert_eq!(errno("28"), Ok(28));
        assert!(errno("EWHAT").is_err());
        assert!(errno("0").is_err());
        assert!(errno("-5").is_err());
    }
}
