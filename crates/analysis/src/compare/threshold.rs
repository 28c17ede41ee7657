//! Requirements on a comparison (`--fail-if`): `p99 > +5%`, `iops < -3%`, `p99 > 2ms`, `reads:iops < 100k`.

use super::{ComparedFigure, Comparison, measured};
use crate::metrics::{self, FigureGroup, FigureUnit, MetricRow};
use fathom_model::finding::Severity;
use fathom_model::units;
use schemars::JsonSchema;
use serde::Serialize;

/// A change, or a value, that must not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As given.
    pub text: String,
    /// The part whose figure it is; every part if absent.
    part: Option<String>,
    figure: &'static str,
    is_above: bool,
    bound: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// The figure after over that before.
    Ratio(f64),
    /// The figure after, in its unit.
    Value(f64),
}

/// What became of a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThresholdResult {
    /// As given.
    pub condition: String,
    /// Whether it holds.
    pub outcome: ThresholdOutcome,
    /// Why, with the figures.
    pub reason: String,
}

fathom_model::named! {
    /// Whether a condition holds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ThresholdOutcome {
        /// It does: the requirement is missed.
        Holds = "holds",
        /// It does not.
        DoesNotHold = "does not hold",
        /// The results do not show which.
        Inconclusive = "inconclusive",
    }
}

/// The figures that a condition may name: with their short names, which also work.
fn figures() -> impl Iterator<Item = (&'static str, String, MetricRow<()>)> {
    measured::COMPARED.iter().filter_map(|id| {
        let row = metrics::named(id)?;
        let short = match row.group {
            FigureGroup::Job if !row.title.contains(' ') => row.title.to_lowercase(),
            _ => (*id).to_string(),
        };
        Some((*id, short, row))
    })
}

impl Threshold {
    /// Parses `[PART:]FIGURE OP VALUE`. OP is `<` or `>`; VALUE is a change with its sign, or a value with its unit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected FIGURE > VALUE or FIGURE < VALUE, such as 'p99 > +5%', 'iops < -3%' or 'p99 > 2ms'"
                .to_string()
        };
        let at = text.find(['<', '>']).ok_or_else(expected)?;
        let (left, value) = (text[..at].trim(), text[at + 1..].trim());
        if left.is_empty() || value.is_empty() || value.starts_with(['=', '<', '>']) {
            return Err(expected());
        }
        let (part, name) = match left.rsplit_once(':') {
            Some((part, name)) => (Some(part.trim().to_string()), name.trim()),
            None => (None, left),
        };
        let known = |(id, short, _): &(&str, String, _)| {
            name.eq_ignore_ascii_case(id) || name.eq_ignore_ascii_case(short)
        };
        let Some((figure, _, row)) = figures().find(known) else {
            let names: Vec<String> = figures().map(|(_, short, _)| short).collect();
            return Err(format!("unknown figure '{name}'; figures are {}", names.join(", ")));
        };
        let bound = bound(value, row.unit)?;
        let is_above = text[at..].starts_with('>');
        Ok(Self { text: text.trim().to_string(), part, figure, is_above, bound })
    }

    /// Whether it is about a change, which takes results to compare with.
    pub fn is_change(&self) -> bool {
        matches!(self.bound, Bound::Ratio(_))
    }

    /// Whether it holds for any part that has the figure.
    pub(super) fn check(&self, comparison: &Comparison) -> ThresholdResult {
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        let parts = comparison.parts.iter();
        for part in parts.filter(|part| self.part.as_ref().is_none_or(|name| *name == part.name)) {
            seen.push(part.name.as_str());
            let figures = part.figures.iter().filter(|figure| figure.id == self.figure);
            found.extend(figures.map(|figure| {
                let (outcome, reason) = self.check_figure(comparison, figure);
                let has_parts = comparison.parts.len() > 1;
                let name = if has_parts { format!("{} ", part.name) } else { String::new() };
                (outcome, format!("{name}{} {reason}", figure.title))
            }));
        }
        let result =
            |outcome, reason| ThresholdResult { condition: self.text.clone(), outcome, reason };
        if found.is_empty() {
            let reason = match (&self.part, seen.is_empty()) {
                (Some(part), true) => {
                    let names: Vec<&str> =
                        comparison.parts.iter().map(|part| part.name.as_str()).collect();
                    format!("no part is called '{part}'; parts are {}", names.join(", "))
                }
                _ if comparison.before.runs.is_empty() => {
                    "the runs do not have this figure".to_string()
                }
                _ => "the figure is not available on both sides".to_string(),
            };
            return result(ThresholdOutcome::Inconclusive, reason);
        }
        let order = [
            ThresholdOutcome::Holds,
            ThresholdOutcome::Inconclusive,
            ThresholdOutcome::DoesNotHold,
        ];
        let has = |wanted: &ThresholdOutcome| found.iter().any(|(outcome, _)| outcome == wanted);
        let outcome = order.into_iter().find(has).unwrap_or(ThresholdOutcome::Inconclusive);
        let reasons =
            found.into_iter().filter(|(one, _)| *one == outcome).map(|(_, reason)| reason);
        result(outcome, reasons.collect::<Vec<_>>().join("; "))
    }

    fn check_figure(
        &self,
        comparison: &Comparison,
        figure: &ComparedFigure,
    ) -> (ThresholdOutcome, String) {
        use ThresholdOutcome::{DoesNotHold, Holds, Inconclusive};
        let is_beyond =
            |value: f64, bound: f64| if self.is_above { value > bound } else { value < bound };
        let ratio = match self.bound {
            Bound::Value(bound) => {
                let shown = |value| shown_value(figure, value);
                let incomplete = comparison.after.runs.iter().find(|run| run.incomplete.is_some());
                if let Some(run) = incomplete {
                    return (
                        Inconclusive,
                        format!("{}: {} is incomplete", shown(figure.after), run.name),
                    );
                }
                let holds = is_beyond(figure.after, bound);
                return (if holds { Holds } else { DoesNotHold }, shown(figure.after));
            }
            Bound::Ratio(ratio) => ratio,
        };
        let change = |ratio: f64| units::change((ratio - 1.0) * 100.0);
        let Some(value) = figure.ratio else {
            return (Inconclusive, "has no ratio, as it is 0 on one side".to_string());
        };
        let Some((low, high)) = figure.interval else {
            return (Inconclusive, format!("{}: how much runs differ is not known", change(value)));
        };
        let shown = format!(
            "{} (95% CI {} to {})",
            change(value),
            change(low).trim_end_matches('%'),
            change(high).trim_end_matches('%')
        );
        let blocks = |finding: &&fathom_model::Finding| finding.severity >= Severity::Warning;
        if let Some(why) = comparison.findings.iter().find(blocks) {
            return (Inconclusive, format!("{shown}: {}", why.summary.trim_end_matches('.')));
        }
        match (is_beyond(low, ratio), is_beyond(high, ratio)) {
            (true, true) => (Holds, shown),
            (false, false) => (DoesNotHold, shown),
            _ => (Inconclusive, format!("{shown}: the interval includes the threshold")),
        }
    }
}

fn shown_value(figure: &ComparedFigure, value: f64) -> String {
    match figure.row().map(|row| row.unit) {
        Some(FigureUnit::Milliseconds) => units::time(value * 1e6),
        Some(FigureUnit::BytesPerSecond) => units::bandwidth(value),
        Some(FigureUnit::Bytes) => units::bytes(value.max(0.0) as u64),
        Some(FigureUnit::Percent) => units::percent(value),
        _ => units::count(value),
    }
}

const DECIMAL: [(&str, f64); 4] = [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9)];

fn bound(text: &str, unit: FigureUnit) -> Result<Bound, String> {
    let (sign, digits) = match text.chars().next() {
        Some('+') => (Some(1.0), &text[1..]),
        Some('-') => (Some(-1.0), &text[1..]),
        Some('−') => (Some(-1.0), &text['−'.len_utf8()..]),
        _ => (None, text),
    };
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
        text.parse::<f64>().ok().filter(|number| is_plain && number.is_finite())
    };
    let percent = digits.strip_suffix('%').map(|digits| number(digits.trim()));
    match (percent, sign) {
        (Some(Some(percent)), Some(sign)) => return Ok(Bound::Ratio(1.0 + sign * percent / 100.0)),
        (Some(Some(percent)), None) if unit == FigureUnit::Percent => {
            return Ok(Bound::Value(percent));
        }
        (Some(Some(_)), None) => {
            return Err(format!("'{text}': write a change with its sign: +{text} or -{text}"));
        }
        (Some(None), _) => return Err(format!("'{text}' is not a percentage, such as +5%")),
        (None, Some(_)) => return Err(format!("'{text}': a change is in percent, such as +5%")),
        (None, None) => {}
    }
    let with_suffix = |suffixes: &[(&str, f64)]| {
        let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let suffix = text[at..].trim().to_ascii_lowercase();
        let (_, factor) = suffixes.iter().find(|(name, _)| *name == suffix)?;
        number(&text[..at]).map(|number| number * factor)
    };
    let (value, expected) = match unit {
        FigureUnit::Milliseconds => {
            (units::time_ns(text).map(|ns| ns / 1e6), "a time such as 2ms or 500us")
        }
        FigureUnit::Bytes | FigureUnit::BytesPerSecond => {
            let bare = text.trim_end_matches("/s").to_ascii_lowercase();
            let bare = bare.trim_end_matches("ib").trim_end_matches('b').trim().to_string();
            let at = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
            let shift = units::size(&format!("1{}", bare[at..].trim())).map(|(_, shift)| shift);
            let value = number(&bare[..at]).zip(shift);
            (
                value.map(|(number, shift)| number * (1_u64 << shift) as f64),
                "a size such as 500m or 2GiB/s",
            )
        }
        FigureUnit::Percent => (None, "a percentage such as 80%"),
        _ => (with_suffix(&DECIMAL), "a number such as 5000 or 100k"),
    };
    value
        .filter(|value| value.is_finite())
        .map(Bound::Value)
        .ok_or_else(|| format!("'{text}': expected {expected}, or a change such as +5%"))
}
