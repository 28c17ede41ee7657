//! Requirements on a comparison (`--fail-if`): `p99 > +5%`, `iops < -3%`, `p99 > 2ms`, `reads:iops < 100k`.

use super::named::{Named, job_names, table_names};
use super::{ComparedFigure, Comparison, Measured};
use crate::metrics::FigureUnit;
use fathom_model::finding::Severity;
use fathom_model::{list, units};
use schemars::JsonSchema;
use serde::Serialize;

/// Figures that a result names.
const REASONS: usize = 8;

/// A change, or a value, that must not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As given.
    pub text: String,
    /// The part whose figure it is; every part if absent.
    part: Option<String>,
    /// As named.
    name: String,
    pub(super) figure: Named,
    pub(super) is_above: bool,
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
        if name.is_empty() {
            return Err(expected());
        }
        let figure = Named::parse(name);
        let digits = name.strip_prefix(['p', 'P']).unwrap_or_default();
        let is_number = digits.parse::<f64>().is_ok_and(f64::is_finite);
        if is_number && matches!(figure, Named::Path(_)) {
            return Err(format!("'{name}' is not a percentile (above 0, at most 100)"));
        }
        let bound = bound(value, figure.unit()).map_err(|error| match figure {
            Named::Path(_) if figure.unit() == FigureUnit::Number => {
                format!("{error}; the name '{name}' does not say that it has a unit")
            }
            _ => error,
        })?;
        let is_above = text[at..].starts_with('>');
        let (text, name) = (text.trim().to_string(), name.to_string());
        Ok(Self { text, part, name, figure, is_above, bound })
    }

    /// The percentile that it needs, where the JSON may not list it.
    pub fn percent(&self) -> Option<f64> {
        self.figure.percent()
    }

    /// Whether its figure is a number of the JSON, which [`Measured::published`] has to hold.
    pub fn is_of_json(&self) -> bool {
        matches!(self.figure, Named::Path(_))
    }

    /// Why no result can have its figure, if so: none of `results` has its part, or a number of the JSON. `nearest` finds the
    /// word that is most like one.
    pub fn unknown<'a>(
        &self,
        results: impl Iterator<Item = &'a Measured> + Clone,
        nearest: impl Fn(&str, &[&str]) -> Option<String>,
    ) -> Option<String> {
        let parts = || results.clone().flat_map(Measured::part_names);
        let is_one = |part: &str, name: &str| {
            let rest = part.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        };
        if let Some(part) = &self.part
            && results.clone().any(|run| !run.parts.is_empty())
            && !parts().any(|name| is_one(part, name))
        {
            let measured = results.flat_map(|run| &run.parts);
            return Some(no_part(part, measured.map(|part| part.name.as_str())));
        }
        let has = |run: &Measured| run.published.matching(&self.figure).next().is_some();
        if !self.is_of_json() || results.clone().any(has) {
            return None;
        }
        let short = table_names();
        let of_json = results.flat_map(|run| run.published.names());
        let all: Vec<&str> = short.iter().map(String::as_str).chain(of_json).collect();
        let near = nearest(&self.name, &all).map(|near| format!("did you mean '{near}'? Figures"));
        let near = near.unwrap_or_else(|| "figures".to_string());
        Some(format!(
            "unknown figure '{}'; {near} are {}, others of docs/figures.md, percentiles such as p95, and numbers of \
             the JSON by their keys, such as clat_ns.max",
            self.name,
            job_names().collect::<Vec<_>>().join(", ")
        ))
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
            let figures = part.figures.iter().filter(|figure| self.figure.is(&figure.id));
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
                    no_part(part, comparison.parts.iter().map(|part| part.name.as_str()))
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
        let reasons = found.into_iter().filter(|(one, _)| *one == outcome);
        let mut reasons: Vec<String> = reasons.map(|(_, reason)| reason).collect();
        if reasons.len() > REASONS {
            let more = format!("and {} more", reasons.len() - REASONS);
            reasons.splice(REASONS.., [more]);
        }
        result(outcome, reasons.join("; "))
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
                let longest = figure.after_runs.iter().copied().reduce(f64::max);
                let value = longest.filter(|_| is_maximum(&figure.id)).unwrap_or(figure.after);
                let incomplete = comparison.after.runs.iter().find(|run| run.incomplete.is_some());
                // Errors are what makes a run incomplete, and do not become fewer.
                let is_settled = is_errors(&figure.id) && is_beyond(value, bound);
                if let Some(run) = incomplete.filter(|_| !is_settled) {
                    return (Inconclusive, format!("{}: {} is incomplete", shown(value), run.name));
                }
                let outcome = if is_beyond(value, bound) { Holds } else { DoesNotHold };
                return (outcome, shown(value));
            }
            Bound::Ratio(ratio) => ratio,
        };
        let change = |ratio: f64| (ratio - 1.0) * 100.0;
        let Some(value) = figure.ratio else {
            return (Inconclusive, "has no ratio, as it is 0 on one side".to_string());
        };
        let Some((low, high)) = figure.interval else {
            let value = units::change(change(value));
            return (Inconclusive, format!("{value}: how much runs differ is not known"));
        };
        let ends = units::change_ends(change(low), change(high));
        let shown = format!("{} (95% CI {ends})", units::change(change(value)));
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

fn no_part<'a>(name: &str, parts: impl Iterator<Item = &'a str>) -> String {
    let names = list::distinct(parts);
    format!("no part is called '{name}'; parts are {}", list::few(&names, REASONS))
}

fn is_errors(id: &str) -> bool {
    ["error", "errors", "total_err"].contains(&id.rsplit('.').next().unwrap_or(id))
}

/// Whether the figure of a set is the highest of its runs.
fn is_maximum(id: &str) -> bool {
    ["max", "max_ms"].contains(&id.rsplit('.').next().unwrap_or(id))
}

fn shown_value(figure: &ComparedFigure, value: f64) -> String {
    match figure.figure_unit() {
        FigureUnit::Milliseconds => units::time(value * 1e6),
        FigureUnit::BytesPerSecond => units::bandwidth(value),
        FigureUnit::Bytes => units::bytes(value.max(0.0) as u64),
        FigureUnit::Percent => units::percent(value),
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
