//! Numbers and text as strings: three significant digits, a space before the unit.

use crate::doc::{CONFIDENCE, Quantity, QuantityUnit, Span, Text};
use fathom_model::{escape, units};

const BAR: f64 = 20.0;
const MIB: f64 = 1_048_576.0;
/// Units that are not separated from the number before them.
const UNITS: [&str; 21] = [
    "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "B/s", "KiB/s", "MiB/s", "GiB/s",
    "MB/s", "GB/s", "IOPS", "I/Os", "Hz", "CPUs", "workers", "jobs",
];
/// Names that are not separated from the number after them.
const NAMES: [&str; 12] =
    ["p50", "p90", "p99", "p99.9", "max", "QD", "IPC", "util", "aqu-sz", "await", "CPU", "errno"];

/// Whether a number is in a sentence, where its interval is labeled, or in a table cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberContext {
    Sentence,
    Cell,
}

/// `text`, escaped, with non-breaking spaces between numbers and their names and units.
pub(super) fn glued(text: &Text, place: NumberContext) -> String {
    let span = |span: &Span| match span {
        Span::Words(words) => escape::text(words).into_owned(),
        Span::Quantity(quantity) => shown(quantity, place).replace(' ', "\u{a0}"),
    };
    glue(&text.spans.iter().map(span).collect::<String>())
}

pub(super) fn plain(text: &Text, place: NumberContext) -> String {
    loose(&glued(text, place))
}

/// `text` with spaces for unbreakable ones.
pub(super) fn loose(text: &str) -> String {
    text.replace('\u{a0}', " ")
}

/// `words` with non-breaking spaces between numbers and their units and names, and in code.
pub(super) fn glue(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    let mut before = "";
    let mut in_code = false;
    for word in words.split(' ') {
        let last = before.rsplit('\u{a0}').next().unwrap_or(before).trim_start_matches('(');
        let bare = word.trim_end_matches([',', ';', '.', ':', ')']);
        let joined = in_code
            || (is_number(last) && UNITS.contains(&bare))
            || (NAMES.contains(&last) && starts_number(bare));
        if !out.is_empty() || !before.is_empty() {
            out.push(if joined { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
        // Commands in backticks are not broken.
        in_code ^= word.matches('`').count() % 2 == 1;
        before = word;
    }
    out
}

/// `text` in parts, each with whether it is code: what is in backticks that stand at the edges of words. Other backticks
/// are text: they are part of a name.
pub(super) fn code_spans(text: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let (mut rest, mut from) = (text, 0);
    while let Some(open) = rest.get(from..).and_then(|text| text.find('`')).map(|at| at + from) {
        let after = &rest[open + 1..];
        let begins = rest[..open].ends_with(|c: char| " \u{a0}(".contains(c)) || open == 0;
        let code = after.find('`').map(|end| after.split_at(end)).filter(|(code, end)| {
            let ends = |c: char| " \u{a0},.;:)?".contains(c);
            begins && !code.is_empty() && (end.len() == 1 || end[1..].starts_with(ends))
        });
        let Some((code, end)) = code else {
            from = open + 1;
            continue;
        };
        parts.extend([(false, &rest[..open]), (true, code)]);
        (rest, from) = (&end[1..], 0);
    }
    parts.push((false, rest));
    parts.retain(|(_, part)| !part.is_empty());
    parts
}

pub(super) fn without_ticks(text: &str) -> String {
    code_spans(text).into_iter().map(|(_, part)| part).collect()
}

fn starts_number(word: &str) -> bool {
    word.trim_start_matches(['<', '~']).starts_with(|c: char| c.is_ascii_digit())
}

fn is_number(word: &str) -> bool {
    starts_number(word) && word.ends_with(|c: char| c.is_ascii_digit() || "kMGT".contains(c))
}

/// A number with its unit and interval. A value of 0 with an upper bound above 0 is printed as `<` the bound.
pub(super) fn shown(quantity: &Quantity, place: NumberContext) -> String {
    let of = |value| scalar(value, quantity.unit);
    let bound = |value| of(value).trim_end_matches('×').to_string();
    let text = of(quantity.value);
    // The title of a column says 95%.
    let is_labeled = place == NumberContext::Sentence || quantity.confidence != CONFIDENCE;
    let label = if is_labeled { format!("{}% CI ", quantity.confidence) } else { String::new() };
    match quantity.interval {
        None => text,
        // A change has two directions.
        Some((low, high)) if quantity.unit == QuantityUnit::Change => {
            format!("{text} ({label}{})", units::change_ends(low, high))
        }
        Some((low, high)) if quantity.value == 0.0 && low <= 0.0 && high > 0.0 => {
            format!("<{}", of(high))
        }
        Some((low, high)) => format!("{text} ({label}{}–{})", bound(low), bound(high)),
    }
}

pub(super) fn scalar(value: f64, unit: QuantityUnit) -> String {
    let bits = |text: String| text.replace("B/s", "bit/s");
    match unit {
        QuantityUnit::Count => units::count(value),
        QuantityUnit::Whole => format!("{value:.0}"),
        QuantityUnit::Number => number(value),
        QuantityUnit::Ratio => format!("{}×", number(value)),
        QuantityUnit::Percent => units::percent(value),
        QuantityUnit::Change => units::change(value),
        QuantityUnit::PercentBar => "█".repeat((value / 100.0 * BAR).round() as usize),
        QuantityUnit::Nanoseconds => units::time(value),
        QuantityUnit::Bytes => units::bytes(value as u64),
        QuantityUnit::BytesPerSecond => units::bandwidth(value),
        QuantityUnit::DecimalBytesPerSecond => decimal(value),
        QuantityUnit::BitsPerSecond => bits(units::bandwidth(value)),
        QuantityUnit::DecimalBitsPerSecond => bits(decimal(value)),
    }
}

/// A number on a screen that is drawn again and again: percentages with one decimal, no space before a unit. In a table's
/// column the unit is the column's (MiB/s, ms, KiB, %), in a line percentages are `is_bare` where their label says it.
pub(super) fn compact(quantity: &Quantity, in_column: bool, is_bare: bool) -> String {
    let value = quantity.value;
    let text = match quantity.unit {
        QuantityUnit::Percent if in_column || is_bare => format!("{value:.1}"),
        QuantityUnit::Percent => format!("{value:.1}%"),
        QuantityUnit::BytesPerSecond if in_column => number(value / MIB),
        QuantityUnit::Bytes if in_column => format!("{:.1}", value / 1024.0),
        QuantityUnit::Nanoseconds if in_column => milliseconds(value / 1e6),
        unit => scalar(value, unit).replace(' ', ""),
    };
    format!("{text:>width$}", width = usize::from(quantity.width))
}

/// Milliseconds without a unit: `0.314`, `3.81`, `12.3`.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 0.9995 { format!("{ms:.3}") } else { number(ms) }
}

fn decimal(value: f64) -> String {
    let figure = units::count(value);
    let digits = figure.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{digits} {}B/s", &figure[digits.len()..])
}

pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 99_950.0 => units::count(value),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
