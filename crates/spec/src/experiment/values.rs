//! Lists and ranges of values: `4k,64k,1m`, `1..128`, `10%..100%`.

use fathom_model::units;

const VALUES_MAX: usize = 256;
/// Between two values of a range in percent.
const PERCENT_STEP: u64 = 10;

/// The values that `text` lists: separated by commas, each of them a value or a range. A range of numbers or sizes
/// doubles from its first value to its last, `1..8` being 1, 2, 4 and 8; one in percent has steps of ten.
pub fn values(text: &str) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part.is_empty() {
            return Err("a value is missing between two commas, or there is none".into());
        }
        match part.split_once("..") {
            Some((from, to)) => all.extend(range(from.trim(), to.trim())?),
            None => all.push(part.to_string()),
        }
        if all.len() > VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values; shorten the list"));
        }
    }
    for (at, value) in all.iter().enumerate() {
        if all[..at].contains(value) {
            return Err(format!("{value} occurs twice; remove one"));
        }
    }
    Ok(all)
}

fn range(from: &str, to: &str) -> Result<Vec<String>, String> {
    let expected = || {
        format!(
            "'{from}..{to}' is not a range; use two numbers, sizes or percentages, such as 1..128"
        )
    };
    if let (Some(from), Some(to)) = (from.strip_suffix('%'), to.strip_suffix('%')) {
        let number = |text: &str| text.parse::<u64>().map_err(|_| expected());
        let (from, to) = (number(from)?, number(to)?);
        if from == 0 || from > to || to > 1000 {
            return Err(expected());
        }
        let steps = (from..to).step_by(PERCENT_STEP as usize);
        return Ok(steps.chain([to]).map(|value| format!("{value}%")).collect());
    }
    let size = |text: &str| units::size_bytes(text).ok_or_else(expected);
    let (first, last) = (size(from)?, size(to)?);
    if first == 0 || first > last {
        return Err(expected());
    }
    let is_size = [from, to].iter().any(|text| text.ends_with(|c: char| c.is_alphabetic()));
    let shown = |value: u64| if is_size { shown_size(value) } else { value.to_string() };
    let doubled = std::iter::successors(Some(first), |value| value.checked_mul(2));
    let below = doubled.take_while(|value| *value < last).map(shown);
    Ok(below.chain([shown(last)]).collect())
}

fn shown_size(value: u64) -> String {
    let suffixes = [(30, "g"), (20, "m"), (10, "k")];
    let fits = suffixes.iter().find(|(shift, _)| value.is_multiple_of(1 << shift));
    fits.map_or_else(|| value.to_string(), |(shift, suffix)| format!("{}{suffix}", value >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> String {
        values(text).unwrap().join(" ")
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(all("4k,64k,1m"), "4k 64k 1m");
        assert_eq!(all("1..8"), "1 2 4 8");
        assert_eq!(all("1..6,32"), "1 2 4 6 32");
        assert_eq!(all("512..4k"), "512 1k 2k 4k");
        assert_eq!(all("512k..2m"), "512k 1m 2m");
        assert_eq!(all("70%..100%"), "70% 80% 90% 100%");
        assert_eq!(all("25%..50%"), "25% 35% 45% 50%");
        assert_eq!(all("randread,read"), "randread read");
        assert_eq!(all("3..3"), "3");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["", ",", "1,,2", "0..4", "8..1", "a..b", "1..", "1..2..3", "0%..5%", "4k,4k"] {
            assert!(values(bad).is_err(), "{bad}");
        }
        assert!(values(&vec!["1..128"; 40].join(",")).is_err());
    }
}
