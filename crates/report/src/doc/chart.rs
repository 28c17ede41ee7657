//! Charts.

use super::QuantityUnit;

/// Values as a picture. In text and Markdown it repeats what a table of the same page has; what has no table is
/// [`HtmlOnly`](super::Block::HtmlOnly).
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    pub kind: ChartKind,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<ChartSeries>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    Lines,
    /// A bar for each point, named by its label.
    Bars,
    /// The share of values in classes. `x` is a class's lower bound, and the upper bound of the one before. Marked points
    /// are values of their own, such as percentiles.
    Histogram,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub name: String,
    pub unit: QuantityUnit,
    /// Whether equal distances are equal ratios. Needs values above 0.
    pub log: bool,
    /// What happened when, if it is time since the start, of which a part can be enlarged.
    pub events: Option<Vec<AxisEvent>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AxisEvent {
    pub at: f64,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChartSeries {
    /// Its name in the legend; may be empty where it is the only one.
    pub name: String,
    /// The number of its color, if that is not its place among the series.
    pub color: Option<usize>,
    /// Whether its line is dashed, to distinguish it from another one of the same color.
    pub is_dashed: bool,
    pub points: Vec<ChartPoint>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChartPoint {
    pub label: String,
    pub x: f64,
    pub y: f64,
    /// The interval of `y`.
    pub interval: Option<(f64, f64)>,
    pub x_interval: Option<(f64, f64)>,
    /// What is special about it, such as `knee`.
    pub mark: Option<String>,
    /// Whether the line of the series passes it by.
    pub is_aside: bool,
}

impl Axis {
    pub fn linear(name: &str, unit: QuantityUnit) -> Self {
        Self { name: name.to_string(), unit, log: false, events: None }
    }

    pub fn log(name: &str, unit: QuantityUnit) -> Self {
        Self { log: true, ..Self::linear(name, unit) }
    }

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
    pub fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        let place = match self.log {
            true => (value.max(low) / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round values within `range`, at most `most` of them and at least one, in ascending order: on a linear axis
    /// multiples of 1, 2 or 5 times a power of ten, or of parts of a binary unit, on a logarithmic one powers of two between powers of two, else of
    /// ten, or 1, 2 and 5 times these.
    pub fn ticks(&self, (low, high): (f64, f64), most: usize) -> Vec<f64> {
        let within = |values: Vec<f64>| -> Vec<f64> {
            let slack = 1e-9 * (high - low);
            values.into_iter().filter(|v| *v >= low - slack && *v <= high + slack).collect()
        };
        let fits = |values: &Vec<f64>| (2..=most.max(2)).contains(&values.len());
        if self.log {
            let is_binary = |value: f64| value >= 1.0 && value.log2().fract() == 0.0;
            let powers = |base: f64, stride: i32| -> Vec<f64> {
                let first = (low.ln() / base.ln()).floor() as i32;
                (0..64).map(|n| base.powi(first + n * stride)).collect()
            };
            let sets: Vec<Vec<f64>> = match is_binary(low) && is_binary(high) {
                true => (1..8).map(|stride| powers(2.0, stride)).collect(),
                false => {
                    let tens = || powers(10.0, 1);
                    let each = |factors: &[f64]| -> Vec<f64> {
                        tens().iter().flat_map(|ten| factors.iter().map(move |f| ten * f)).collect()
                    };
                    vec![each(&[1.0, 2.0, 5.0]), tens(), powers(10.0, 2), powers(10.0, 3)]
                }
            };
            if let Some(found) = sets.into_iter().map(within).find(fits) {
                return found;
            }
        }
        let steps: Vec<f64> = match self.unit {
            QuantityUnit::Bytes | QuantityUnit::BytesPerSecond | QuantityUnit::BitsPerSecond => {
                binary_steps(high)
            }
            _ => {
                let span = (high - low).max(f64::MIN_POSITIVE);
                let power = 10_f64.powf((span / most.max(2) as f64).log10().floor());
                [1.0, 2.0, 5.0, 10.0, 20.0].map(|factor| factor * power).to_vec()
            }
        };
        let multiples = |step: f64| {
            let first = (low / step).ceil();
            let count = ((high - low) / step).floor().min(1e3) as i32;
            (0..=count).map(|n| (first + f64::from(n)) * step).collect::<Vec<f64>>()
        };
        let found: Vec<Vec<f64>> = steps.into_iter().map(multiples).map(within).collect();
        // Where two do not fit, one is better than a value that is not round.
        let fits_one = |values: &&Vec<f64>| (1..=most).contains(&values.len());
        let found = found.iter().find(|values| fits(values)).or(found.iter().find(fits_one));
        found.cloned().unwrap_or_else(|| vec![high])
    }
}

/// Steps whose multiples up to `high` are round in KiB, MiB and so on: decimal ones within a unit, else parts of the next.
fn binary_steps(high: f64) -> Vec<f64> {
    let of_unit = |power: i32| {
        let unit = 1024_f64.powi(power);
        let decimal = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
        let all = if high < 1024.0 * unit { decimal.to_vec() } else { vec![128.0, 256.0, 512.0] };
        all.into_iter().map(move |factor| factor * unit)
    };
    (0..7).flat_map(of_unit).collect()
}

impl ChartSeries {
    pub fn new(name: impl Into<String>, points: Vec<ChartPoint>) -> Self {
        Self { name: name.into(), points, ..Self::default() }
    }
}

impl Chart {
    /// A bar for each of `points`.
    pub fn bars(title: impl Into<String>, y: Axis, points: Vec<ChartPoint>) -> Self {
        let (x, series) = (Axis::linear("", QuantityUnit::Count), ChartSeries::new("", points));
        Self { title: title.into(), kind: ChartKind::Bars, x, y, series: vec![series] }
    }

    pub fn lines(title: impl Into<String>, (x, y): (Axis, Axis), series: Vec<ChartSeries>) -> Self {
        Self { title: title.into(), kind: ChartKind::Lines, x, y, series }
    }

    pub fn points(&self) -> impl Iterator<Item = &ChartPoint> {
        self.series.iter().flat_map(|series| &series.points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let depths = Axis::log("iodepth", QuantityUnit::Count);
        assert_eq!(depths.ticks((1.0, 32.0), 6), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!(depths.ticks((1.0, 128.0), 5), [1.0, 4.0, 16.0, 64.0]);
        let latency = Axis::log("latency", QuantityUnit::Nanoseconds);
        let ticks = latency.ticks((60_312.0, 5_637_000.0), 5);
        assert_eq!(ticks, [1e5, 1e6]);
        assert_eq!(latency.ticks((60_312.0, 563_700.0), 5), [1e5, 2e5, 5e5]);
        let iops = Axis::linear("IOPS", QuantityUnit::Count);
        assert_eq!(iops.ticks((0.0, 96_431.0), 5), [0.0, 20e3, 40e3, 60e3, 80e3]);
        let rate = Axis::linear("bandwidth", QuantityUnit::BytesPerSecond);
        let mib = f64::from(1 << 20);
        assert_eq!(rate.ticks((0.0, 370.0 * mib), 5), [0.0, 100.0 * mib, 200.0 * mib, 300.0 * mib]);
        let parts = [0.0, 256.0, 512.0, 768.0, 1024.0].map(|part| part * mib);
        assert_eq!(rate.ticks((0.0, 1080.0 * mib), 5), parts);
    }

    #[test]
    fn every_range_has_a_few_ticks_within_it() {
        for axis in [Axis::log("", QuantityUnit::Count), Axis::linear("", QuantityUnit::Bytes)] {
            for (low, high) in [(1.0, 1.1), (0.003, 4e12), (7.0, 7.000_1), (1.0, 2.0), (3.0, 17.0)]
            {
                let ticks = axis.ticks((low, high), 5);
                assert!((1..=5).contains(&ticks.len()), "{low} {high} {ticks:?}");
                assert!(ticks.iter().all(|t| *t >= low * 0.999 && *t <= high * 1.001), "{ticks:?}");
            }
        }
    }
}
