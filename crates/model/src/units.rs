//! Formatting of quantities.

/// A count with a decimal suffix and at most four significant digits: `999`, `12.3k`, `1.94M`.
pub fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"], "")
}

/// A whole number in groups of three digits: `1,998`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A whole number and the power of two of its suffix: `4k`, `512m`, `2g`, `1t`.
pub fn size(text: &str) -> Option<(u64, u32)> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffixes = [("", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40)];
    let suffix = text[digits.len()..].to_ascii_lowercase();
    let (_, shift) = suffixes.into_iter().find(|(known, _)| *known == suffix)?;
    Some((digits.parse().ok()?, shift))
}

/// The bytes of such a size.
pub fn size_bytes(text: &str) -> Option<u64> {
    let (number, shift) = size(text)?;
    number.checked_mul(1 << shift)
}

/// A number with a decimal suffix, as in data sheets: `1000k`, `7.2M`, `7000MB/s`; binary with an `i`: `4GiB/s`.
pub fn decimal(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let suffix = text[digits..].trim().to_ascii_lowercase();
    let suffix = suffix.trim_end_matches("/s").trim_end_matches('b');
    let (suffix, base) = match suffix.strip_suffix('i') {
        Some(suffix) if !suffix.is_empty() => (suffix, 1024.0_f64),
        _ => (suffix, 1000.0),
    };
    let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == suffix)?;
    text[..digits].parse().ok().map(|number: f64| number * base.powi(power as i32))
}

/// The nanoseconds of a time with its unit: `2ms`, `1.5 s`.
pub fn time_ns(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit = match text[digits..].trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    text[..digits].parse().ok().map(|number: f64| number * unit)
}

/// Bytes with a binary suffix: `512 B`, `4 KiB`, `1.5 GiB`.
pub fn bytes(value: u64) -> String {
    scaled(value as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], " ")
}

/// Bytes per second with a binary suffix: `1.5 GiB/s`.
pub fn bandwidth(bytes_per_second: f64) -> String {
    scaled(
        bytes_per_second,
        1024.0,
        &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s", "EiB/s"],
        " ",
    )
}

/// A duration in a suitable unit: `812 ns`, `83.1 µs`, `1.2 ms`, `3.5 s`.
pub fn time(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "µs", "ms", "s"], " ")
}

fn scaled(value: f64, base: f64, suffixes: &[&str], gap: &str) -> String {
    let mut value = value;
    let mut index = 0;
    // 999.5 would round to 1000.
    while value.abs() >= base - 0.5 && index + 1 < suffixes.len() {
        value /= base;
        index += 1;
    }
    let digits = match value.abs() {
        v if index == 0 && v.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let mut text = format!("{value:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text}{gap}{}", suffixes[index]).trim_end().to_string()
}

/// A change in percent: `+4.9%`, `−54%`; the factor where that is ten or more: `12.5×`, `417k×`.
pub fn change(value: f64) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    match value.abs() {
        _ if value >= 899.5 => format!("{}×", count(1.0 + value / 100.0)),
        v if v < 0.05 => "0.0%".into(),
        v if v >= 99.95 => format!("{sign}{v:.0}%"),
        v => format!("{sign}{v:.1}%"),
    }
}

/// The ends of a change's interval: `−6.3 to +2.1`.
pub fn change_ends(low: f64, high: f64) -> String {
    let (low, high) = (change(low), change(high));
    match low.strip_suffix('%').zip(high.strip_suffix('%')) {
        Some((low, high)) => format!("{low} to {high}"),
        None => format!("{low} to {high}"),
    }
}

/// A percentage: `0.05%`, `12.3%`.
pub fn percent(value: f64) -> String {
    match value.abs() {
        0.0 => "0%".into(),
        v if v >= 99.95 => format!("{value:.0}%"),
        v if v >= 9.995 => format!("{value:.1}%"),
        _ => format!("{value:.2}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_quantities() {
        assert_eq!(count(999.0), "999");
        assert_eq!(count(1_940_000.0), "1.94M");
        assert_eq!(count(999_999.0), "1M");
        assert_eq!(count(u64::MAX as f64), "18.4E");
        assert_eq!([0.4, 999.0, 1998.2, 1e6].map(grouped), ["0", "999", "1,998", "1,000,000"]);
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(time(83_100.0), "83.1 µs");
        assert_eq!(time(0.0), "0 ns");
        assert_eq!(bandwidth(1.5 * 1024.0 * 1024.0), "1.5 MiB/s");
    }

    #[test]
    fn large_changes_are_factors() {
        let shown = [-54.0, 0.01, 4.9, 250.0, 900.0, 41_738_446.0].map(change);
        assert_eq!(shown, ["−54.0%", "0.0%", "+4.9%", "+250%", "10×", "417k×"]);
        assert_eq!(change_ends(-6.3, 2.1), "−6.3 to +2.1");
        assert_eq!(change_ends(-99.9, 41_738_446.0), "−99.9% to 417k×");
    }

    #[test]
    fn numbers_of_data_sheets() {
        let read = ["1000k", "7.2M", "7000 MB/s", "4GiB/s", "5"].map(decimal);
        assert_eq!(read, [1e6, 7.2e6, 7e9, 4_294_967_296.0, 5.0].map(Some));
        assert!(["", "k", "1x", "-1", "1i", "1.2.3", "é"].iter().all(|bad| decimal(bad).is_none()));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(["2ms", "1.5 s", "7us"].map(time_ns), [Some(2e6), Some(1.5e9), Some(7e3)]);
        assert!(
            ["2", "ms", "", "1.2.3s", "-1s", "2 h", "é"].iter().all(|bad| time_ns(bad).is_none())
        );
    }
}
