//! Charts.

use super::QuantityUnit;
use serde::Serialize;

/// Values as a picture. Whatever it shows is also in a table of the same page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How.
    pub kind: ChartKind,
    /// The horizontal axis; that of the names in a chart of bars.
    pub x: Axis,
    /// The vertical axis; that of the bars' length.
    pub y: Axis,
    /// In the order of the legend.
    pub series: Vec<ChartSeries>,
}

/// How values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartKind {
    /// Points, joined in their order.
    Lines,
    /// A bar for each point, named by its label.
    Bars,
    /// The same without gaps: labels are lower bounds of classes.
    Histogram,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// What it measures.
    pub name: String,
    /// The unit of its values.
    pub unit: QuantityUnit,
    /// Whether equal distances are equal ratios. Needs values above 0.
    pub log: bool,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChartSeries {
    /// Its name in the legend; may be empty where it is the only one.
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<ChartPoint>,
}

/// A point, or a bar.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChartPoint {
    /// Names it.
    pub label: String,
    /// Position on the horizontal axis.
    pub x: f64,
    /// Position on the vertical axis, or length.
    pub y: f64,
    /// The interval of `y`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// What is special about it, such as `knee`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl Axis {
    /// A linear axis that begins at 0.
    #[must_use]
    pub fn linear(name: &str, unit: QuantityUnit) -> Self {
        Self { name: name.to_string(), unit, log: false }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(name: &str, unit: QuantityUnit) -> Self {
        Self { log: true, ..Self::linear(name, unit) }
    }

    /// The range that it shows for `values`.
    #[must_use]
    pub fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let values: Vec<f64> =
            values.filter(|value| value.is_finite() && (!self.log || *value > 0.0)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match (low.is_finite(), self.log) {
            (false, true) => (1.0, 10.0),
            (false, false) => (0.0, 1.0),
            (true, true) if high <= low => (low / 2.0, low * 2.0),
            (true, true) => (low, high),
            (true, false) => (low.min(0.0), if high > 0.0 { high } else { 1.0 }),
        }
    }

    /// Where `value` is in `range`, from 0 to 1.
    #[must_use]
    pub fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        let place = match self.log {
            true => (value.max(low) / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The value in the middle of `range`.
    #[must_use]
    pub fn middle(&self, (low, high): (f64, f64)) -> f64 {
        if self.log { (low * high).sqrt() } else { f64::midpoint(low, high) }
    }
}

impl Chart {
    /// All points of all series.
    pub fn points(&self) -> impl Iterator<Item = &ChartPoint> {
        self.series.iter().flat_map(|series| &series.points)
    }
}
