//! Charts as SVG within an HTML page, whose style sheet sets their colors. Each is drawn for wide and for narrow screens,
//! of which the style sheet shows one, so that text has the same size on both.

use super::figure::scalar;
use super::html::escaped;
use crate::doc::{Axis, AxisEvent, Chart, ChartKind, ChartPoint, ChartSeries, QuantityUnit};
use std::fmt::Write;

/// Of a picture, in CSS pixels.
struct Size {
    class: &'static str,
    width: f64,
    height: f64,
}

const SIZES: [Size; 2] = [
    Size { class: "wide", width: 880.0, height: 360.0 },
    Size { class: "narrow", width: 360.0, height: 300.0 },
];
/// One of several side by side, two of which fit on a phone.
const SMALL: Size = Size { class: "small", width: 176.0, height: 116.0 };
/// Width of a letter, and height of a line of text.
const LETTER: f64 = 8.0;
const LINE: f64 = 18.0;
const GAP: f64 = 8.0;
/// Margin to the right of the area: half of the last tick's label.
const RIGHT: f64 = 32.0;
/// Distance between ticks, at least, and the most that help on the longer axis.
const TICKS: (f64, f64) = (64.0, 42.0);
const TICKS_MAX: usize = 8;
/// Height of a bar with its gap, and how much of it is the bar.
const BAR: (f64, f64) = (30.0, 16.0);
/// Widest column for labels of bars, and the space for their values.
const LABEL: f64 = 240.0;
const VALUE: f64 = 84.0;
/// Classes of color; further series repeat them.
const COLORS: usize = 6;
/// Points of a series that are drawn as dots with a description each; more are a line only.
const DOTS_MAX: usize = 60;
/// Events that are named.
const EVENTS_MAX: usize = 6;
/// Space above the highest and below the lowest value, as a share of the value.
const ROOM: f64 = 0.08;
/// An interval extends an axis to at most this many times the highest value, or the lowest one divided by it.
const NEAR: f64 = 1.25;

pub(super) fn figure(chart: &Chart) -> String {
    let drawn = |size: &Size| {
        let picture = match chart.kind {
            ChartKind::Lines => lines(chart, std::slice::from_ref(chart), size),
            ChartKind::Bars => bars(chart, size),
            ChartKind::Histogram => histogram(chart, size),
        };
        format!("<div class=\"{}\">\n{picture}{}</div>\n", size.class, legend(chart, size))
    };
    let title = escaped(&chart.title);
    let drawn: String = SIZES.iter().map(drawn).collect();
    format!("<figure>\n<figcaption>{title}</figcaption>\n{drawn}</figure>\n")
}

/// Lines of several charts side by side, with the same axes.
pub(super) fn multiples(charts: &[Chart]) -> String {
    let one = |chart: &Chart| {
        let (title, picture) = (escaped(&chart.title), lines(chart, charts, &SMALL));
        format!("<figure>\n<figcaption>{title}</figcaption>\n<div>\n{picture}</div>\n</figure>\n")
    };
    let all: String = charts.iter().map(one).collect();
    format!("<div class=\"multiples\">\n{all}</div>\n")
}

/// The space for the names of series at the ends of their lines; `None` where they do not fit, and a legend has them.
fn direct_labels(chart: &Chart, size: &Size) -> Option<f64> {
    let longest = chart.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    let space = longest as f64 * LETTER + 2.0 * GAP;
    match chart.series.len() {
        0 | 1 => Some(RIGHT),
        2..=COLORS if space <= size.width / 4.0 && are_apart(chart, size) => Some(space.max(RIGHT)),
        _ => None,
    }
}

/// Whether the names at the ends of lines would be near these, and not moved up by others.
fn are_apart(chart: &Chart, size: &Size) -> bool {
    let area = Area::new(chart, std::slice::from_ref(chart), size, (RIGHT, 0));
    let mut ends: Vec<f64> =
        chart.series.iter().filter_map(|one| Some(area.y(end_of(chart, one)?.y))).collect();
    ends.sort_by(f64::total_cmp);
    let mut taken = f64::NEG_INFINITY;
    ends.iter().all(|end| {
        taken = end.max(taken + LINE);
        taken - end <= LINE
    })
}

/// The last point of the line of a series.
fn end_of<'a>(chart: &Chart, series: &'a ChartSeries) -> Option<&'a ChartPoint> {
    let drawn = series.points.iter().filter(|p| is_drawn(chart, p) && !p.is_aside);
    drawn.max_by(|a, b| a.x.total_cmp(&b.x))
}

fn legend(chart: &Chart, size: &Size) -> String {
    if chart.kind != ChartKind::Lines || direct_labels(chart, size).is_some() {
        return String::new();
    }
    let entry = |(at, series): (usize, &ChartSeries)| {
        let (color, name) = (color(series, at), escaped(&series.name));
        format!("<li data-s=\"{at}\"><span class=\"key {color}\"></span>{name}</li>")
    };
    let entries: String = chart.series.iter().enumerate().map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>\n")
}

/// The classes of a series, the one at `at`: its color, and whether its line is dashed.
fn color(series: &ChartSeries, at: usize) -> String {
    let dashed = if series.is_dashed { " dash" } else { "" };
    format!("c{}{dashed}", series.color.unwrap_or(at) % COLORS)
}

/// The area between the axes.
struct Area<'a> {
    chart: &'a Chart,
    xs: (f64, f64),
    ys: (f64, f64),
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Whether there is no room for the names of the axes.
    is_small: bool,
}

impl<'a> Area<'a> {
    /// With this margin on the right, and lines of text above, for the values of all charts in `among`.
    fn new(chart: &'a Chart, among: &[Chart], size: &Size, (right, lines): (f64, usize)) -> Self {
        let is_small = size.class == SMALL.class;
        let points = || among.iter().flat_map(Chart::points);
        let xs = points().map(|p| (p.x, p.x_interval));
        let xs = with_intervals(&chart.x, xs.collect());
        let ys = points().filter(|p| !is_value(chart, p)).map(|p| (p.y, p.interval));
        let ys = with_intervals(&chart.y, ys.collect());
        let low = if chart.y.log { ys.0 / (1.0 + ROOM) } else { ys.0 };
        let ys = (low, ys.1 * (1.0 + ROOM));
        let (names, right) = if is_small { (0.0, right / 2.0) } else { (LINE + GAP, right) };
        let top = lines as f64 * LINE + names.max(GAP);
        let bottom = size.height - LINE - GAP - names;
        let right = size.width - right;
        let mut area = Self { chart, xs, ys, left: 0.0, right, top, bottom, is_small };
        let ticks = area.y_ticks().into_iter().map(|tick| tick_text(tick, &chart.y));
        // A percent sign is as wide as two letters.
        let letters = |tick: String| tick.chars().count() + tick.matches('%').count();
        let widest = ticks.map(letters).max().unwrap_or(0);
        area.left = widest as f64 * LETTER + GAP;
        area
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.chart.x.place(value, self.xs) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.chart.y.place(value, self.ys) * (self.bottom - self.top)
    }

    fn y_ticks(&self) -> Vec<f64> {
        self.chart.y.ticks(self.ys, ((self.bottom - self.top) / TICKS.1) as usize)
    }

    /// Begins the picture, with what its script needs.
    fn open(&self, size: &Size) -> String {
        let Self { chart, xs, left, right, top, bottom, .. } = self;
        let plot = format!("{left:.1} {right:.1} {top:.1} {bottom:.1}");
        let time = if chart.x.events.is_some() {
            format!(" data-time=\"{} {}\"", xs.0, xs.1)
        } else {
            String::new()
        };
        let name = escaped(&chart.x.name);
        open(
            chart,
            size.width,
            size.height,
            &format!(" data-plot=\"{plot}\" data-x=\"{name}\"{time}"),
        )
    }

    /// Begins a series: where its points are, and what they are called.
    fn group(&self, out: &mut String, (at, series): (usize, &ChartSeries), points: &[&ChartPoint]) {
        let each = |of: &dyn Fn(&ChartPoint) -> String, between: &str| {
            escaped(&points.iter().map(|point| of(point)).collect::<Vec<_>>().join(between))
        };
        let places = match self.chart.kind {
            // The line has them.
            ChartKind::Lines => String::new(),
            _ => each(&|p| format!("{:.1},{:.1}", self.x(p.x), self.y(p.y)), " "),
        };
        let xs = each(
            &|p| if p.label.is_empty() { scalar(p.x, self.chart.x.unit) } else { p.label.clone() },
            "|",
        );
        let ys = each(&|p| within(p, self.chart.y.unit), "|");
        let (color, name) = (color(series, at), escaped(&series.name));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<g class=\"{color}\" data-s=\"{at}\" data-name=\"{name}\" data-p=\"{places}\" data-x=\"{xs}\" data-y=\"{ys}\">"
        );
    }

    fn axes(&self, out: &mut String) {
        let Chart { x, y, .. } = self.chart;
        for tick in self.y_ticks() {
            let at = self.y(tick);
            line(out, "grid", (self.left, at), (self.right, at));
            text(out, "end", (self.left - GAP, at + 4.0), &tick_text(tick, y));
        }
        line(out, "axis", (self.left, self.bottom), (self.right, self.bottom));
        out.push_str("<g class=\"ticks\">\n");
        let most = (((self.right - self.left) / TICKS.0) as usize).min(TICKS_MAX);
        for tick in x.ticks(self.xs, most) {
            let at = self.x(tick);
            line(out, "axis", (at, self.bottom), (at, self.bottom + 5.0));
            text(out, "middle", (at, self.bottom + LINE + 3.0), &tick_text(tick, x));
        }
        out.push_str("</g>\n");
        if self.is_small {
            return;
        }
        let middle = f64::midpoint(self.left, self.right);
        text(out, "middle", (middle, self.bottom + 2.0 * LINE + GAP), &axis_name(x));
        text(out, "start", (0.0, LINE - 4.0), &axis_name(y));
    }
}

/// The range of values and their intervals, as far as these are near the values; others are cut at the area's edge.
fn with_intervals(axis: &Axis, values: Vec<(f64, Option<(f64, f64)>)>) -> (f64, f64) {
    let (low, high) = axis.range(values.iter().map(|(value, _)| *value));
    let ends = values.iter().filter_map(|(_, interval)| *interval);
    let ends = ends.map(|(from, to)| (from.max(low / NEAR), to.min(high * NEAR)));
    axis.range([low, high].into_iter().chain(ends.flat_map(|(from, to)| [from, to])))
}

/// Ticks are round: `6%`, not `6.00%`, and `0.5`, not `0.50`.
fn tick_text(tick: f64, axis: &Axis) -> String {
    let text = scalar(tick, axis.unit);
    let (digits, unit) = text.strip_suffix('%').map_or((text.as_str(), ""), |rest| (rest, "%"));
    match digits.contains('.') {
        true => format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.')),
        false => text,
    }
}

/// The value of a point, with its interval if it has one.
fn within(point: &ChartPoint, unit: QuantityUnit) -> String {
    let value = scalar(point.y, unit);
    match point.interval {
        Some((low, high)) => format!("{value} ({}–{})", scalar(low, unit), scalar(high, unit)),
        None => value,
    }
}

fn axis_name(axis: &Axis) -> String {
    format!("{}{}", axis.name, if axis.log { " (log scale)" } else { "" })
}

/// Whether a point of a histogram is a value, not a class.
fn is_value(chart: &Chart, point: &ChartPoint) -> bool {
    chart.kind == ChartKind::Histogram && point.mark.is_some()
}

/// Whether a point has a place on both axes.
fn is_drawn(chart: &Chart, point: &ChartPoint) -> bool {
    let on = |axis: &Axis, value: f64| value.is_finite() && (!axis.log || value > 0.0);
    on(&chart.x, point.x) && on(&chart.y, point.y)
}

fn lines(chart: &Chart, among: &[Chart], size: &Size) -> String {
    let right = direct_labels(chart, size);
    let events = chart.x.events.as_deref().unwrap_or_default();
    let mut area = Area::new(chart, among, size, (right.unwrap_or(RIGHT), 0));
    // A marked point may be the highest one.
    area.top += if chart.points().any(|point| point.mark.is_some()) { LINE } else { 0.0 };
    let shown = |event: &&AxisEvent| event.at > area.xs.0 && event.at < area.xs.1;
    let events: Vec<&AxisEvent> = events.iter().filter(shown).take(EVENTS_MAX).collect();
    area.top += events.len() as f64 * LINE;
    let mut out = area.open(size);
    area.axes(&mut out);
    let mut names = Labels::default();
    for event in events {
        let x = area.x(event.at);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<g class=\"event\" data-at=\"{}\">", event.at);
        let top = names.above(&mut out, (x, 2.0 * LINE), &area, &event.name);
        line(&mut out, "mark", (x, top + 4.0), (x, area.bottom));
        out.push_str("</g>\n");
    }
    for series in chart.series.iter().enumerate() {
        curve(&mut out, &area, series);
    }
    let mut labels = Labels::default();
    for point in chart.points().filter(|point| is_drawn(chart, point)) {
        if let Some(mark) = &point.mark {
            let words = format!("{mark} {}", point.label);
            labels.before(&mut out, (area.x(point.x), area.y(point.y)), words.trim());
        }
    }
    if right.is_some() && chart.series.len() > 1 {
        for (at, series) in chart.series.iter().enumerate() {
            if let Some(last) = end_of(chart, series) {
                let place = (area.x(last.x) + GAP, area.y(last.y) + 4.0);
                labels.after(&mut out, place, &area, (at, series));
            }
        }
    }
    out + "</svg>\n"
}

fn curve(out: &mut String, area: &Area<'_>, (at, series): (usize, &ChartSeries)) {
    let chart = area.chart;
    let points: Vec<&ChartPoint> = series.points.iter().filter(|p| is_drawn(chart, p)).collect();
    let place = |p: &&ChartPoint| format!("{:.1},{:.1}", area.x(p.x), area.y(p.y));
    let on_line: Vec<&ChartPoint> = points.iter().copied().filter(|p| !p.is_aside).collect();
    let places: Vec<String> = on_line.iter().map(place).collect();
    area.group(out, (at, series), &on_line);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<polyline class=\"line\" points=\"{}\"/>", places.join(" "));
    let has_dots = points.len() <= DOTS_MAX && !area.is_small;
    for point in points.into_iter().filter(|point| has_dots || point.mark.is_some()) {
        let (x, y) = (area.x(point.x), area.y(point.y));
        if let Some((low, high)) = point.interval {
            line(out, "whisker", (x, area.y(low)), (x, area.y(high)));
        }
        if let Some((low, high)) = point.x_interval {
            line(out, "whisker", (area.x(low), y), (area.x(high), y));
        }
        let size = if point.mark.is_some() { 6.5 } else { 3.5 };
        let what = escaped(&described(chart, series, point));
        let aside = if point.is_aside { " aside" } else { "" };
        let _ = writeln!(
            out,
            "<circle class=\"dot{aside}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size}\"><title>{what}</title></circle>",
        );
    }
    out.push_str("</g>\n");
}

/// What a point is and where.
fn described(chart: &Chart, series: &ChartSeries, point: &ChartPoint) -> String {
    let (x, y) = (scalar(point.x, chart.x.unit), scalar(point.y, chart.y.unit));
    let place = if x == point.label { String::new() } else { format!(" at {x}") };
    let of = format!("{} {}", series.name, point.label);
    let of = of.trim();
    if of.is_empty() { format!("{y}{place}") } else { format!("{of}: {y}{place}") }
}

/// The classes as an area, and values as lines across it.
fn histogram(chart: &Chart, size: &Size) -> String {
    let values: Vec<&ChartPoint> = chart.points().filter(|point| is_value(chart, point)).collect();
    let area = Area::new(chart, std::slice::from_ref(chart), size, (RIGHT, values.len()));
    let mut out = area.open(size);
    area.axes(&mut out);
    for (at, series) in chart.series.iter().enumerate() {
        let classes = series.points.iter().filter(|p| !is_value(chart, p) && is_drawn(chart, p));
        let classes: Vec<&ChartPoint> = classes.collect();
        let step = |p: &&ChartPoint| format!("H{:.1}V{:.1}", area.x(p.x), area.y(p.y));
        let steps: String = classes.iter().map(step).collect();
        if let Some(first) = classes.first() {
            let (from, base) = (area.x(first.x), area.bottom);
            area.group(&mut out, (at, series), &classes);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<path class=\"classes\" d=\"M{from:.1} {base:.1}{steps}V{base:.1}Z\"/></g>"
            );
        }
    }
    let mut labels = Labels::default();
    for point in values.into_iter().filter(|point| point.x > 0.0 && point.x.is_finite()) {
        let x = area.x(point.x);
        let name = point.mark.as_deref().unwrap_or_default();
        let words = format!("{name} {}", scalar(point.x, chart.x.unit));
        let top = labels.above(&mut out, (x, 2.0 * LINE), &area, &words);
        line(&mut out, "mark", (x, top + 4.0), (x, area.bottom));
    }
    out + "</svg>\n"
}

/// Labels within an area, none of which overlaps another.
#[derive(Default)]
struct Labels {
    /// Left end, right end and baseline of each.
    taken: Vec<(f64, f64, f64)>,
}

impl Labels {
    /// The first free baseline from `y` on, in steps of `step`.
    fn free(&mut self, (left, right): (f64, f64), y: f64, step: f64) -> f64 {
        let mut y = y;
        let is_taken = |y: f64| {
            let overlaps = |(from, to, at): &(f64, f64, f64)| {
                left < *to && *from < right && (at - y).abs() < LINE
            };
            self.taken.iter().any(overlaps)
        };
        while is_taken(y) {
            y += step;
        }
        self.taken.push((left, right, y));
        y
    }

    /// The name of a marked point, to the upper left of it, or to its upper right at the left edge.
    fn before(&mut self, out: &mut String, (x, y): (f64, f64), words: &str) {
        let width = words.chars().count() as f64 * LETTER;
        let is_room = x - GAP - width >= 0.0;
        let from = if is_room { x - GAP - width } else { x + GAP };
        let y = self.free((from, from + width), y - GAP, -LINE);
        let (anchor, x) = if is_room { ("end", x - GAP) } else { ("start", x + GAP) };
        classed(out, "label", anchor, (x, y), words);
    }

    /// The name of a series, to the right of its end.
    fn after(
        &mut self,
        out: &mut String,
        (x, y): (f64, f64),
        area: &Area<'_>,
        (at, series): (usize, &ChartSeries),
    ) {
        let words = series.name.as_str();
        let width = words.chars().count() as f64 * LETTER;
        let is_low = y > f64::midpoint(area.top, area.bottom);
        let y = self.free((x, x + width), y, if is_low { -LINE } else { LINE });
        let class = format!("label {}\" data-s=\"{at}", color(series, at));
        classed(out, &class, "start", (x, y), words);
    }

    /// The name of a value, centered on it, from `y` down. Returns its baseline.
    fn above(&mut self, out: &mut String, (x, y): (f64, f64), area: &Area<'_>, words: &str) -> f64 {
        let width = words.chars().count() as f64 * LETTER + 2.0 * GAP;
        let from = (x - width / 2.0).min(area.right + RIGHT - width).max(0.0);
        let y = self.free((from, from + width), y, LINE);
        classed(out, "label", "middle", (from + width / 2.0, y), words);
        y
    }
}

/// A bar for each point, with its label to the left, or above it where there is no room.
fn bars(chart: &Chart, size: &Size) -> String {
    let names = || chart.points().map(|point| point.label.chars().count());
    let is_narrow = size.width < LABEL * 2.0;
    let widest = names().max().unwrap_or(0) as f64 * LETTER + GAP;
    let left = if is_narrow { 0.0 } else { widest.min(LABEL) };
    let fits = ((if is_narrow { size.width } else { left }) / LETTER) as usize;
    let each = if is_narrow { BAR.0 + LINE } else { BAR.0 };
    let ends = |point: &ChartPoint| point.interval.map_or(point.y, |(_, high)| high.max(point.y));
    let range = chart.y.range(chart.points().map(ends));
    let length = |value: f64| chart.y.place(value, range) * (size.width - left - VALUE);
    let mut out = open(chart, size.width, chart.points().count() as f64 * each + GAP, "");
    let mut top = GAP / 2.0;
    for (at, series) in chart.series.iter().enumerate() {
        for point in series.points.iter().filter(|point| point.y.is_finite()) {
            let label = shortened(&point.label, fits);
            let bar = if is_narrow { top + LINE } else { top };
            let middle = bar + BAR.1 / 2.0;
            match is_narrow {
                true => text(&mut out, "start", (0.0, bar - 4.0), &label),
                false => text(&mut out, "end", (left - GAP, middle + 4.0), &label),
            }
            let what = escaped(&format!("{}: {}", point.label, scalar(point.y, chart.y.unit)));
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<rect class=\"bar c{}\" x=\"{left:.1}\" y=\"{bar:.1}\" width=\"{:.1}\" height=\"{}\"><title>{what}</title></rect>",
                at % COLORS,
                length(point.y).max(0.5),
                BAR.1
            );
            if let Some((low, high)) = point.interval {
                let place = |value| (left + length(value), middle);
                line(&mut out, "whisker", place(low), place(high));
            }
            let end = (left + length(ends(point)) + GAP, middle + 4.0);
            text(&mut out, "start", end, &scalar(point.y, chart.y.unit));
            top += each;
        }
    }
    out + "</svg>\n"
}

/// `words`, cut where they have more than so many letters.
pub(crate) fn shortened(words: &str, letters: usize) -> String {
    match words.chars().count() > letters {
        true => words.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => words.to_string(),
    }
}

fn open(chart: &Chart, width: f64, height: f64, data: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\"{data}><title>{}</title><desc>{}</desc>\n",
        escaped(&chart.title),
        escaped(&summary(chart))
    )
}

/// What the picture shows, for those who cannot see it.
fn summary(chart: &Chart) -> String {
    let of = |series: &ChartSeries| {
        let finite = || series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite());
        let marks = finite().filter(|point| point.mark.is_some()).map(|point| {
            let mark = point.mark.as_deref().unwrap_or_default();
            match chart.kind {
                ChartKind::Histogram => format!("; {mark} {}", scalar(point.x, chart.x.unit)),
                _ => format!("; {mark} {}", described(chart, series, point)),
            }
        });
        let values = || finite().filter(|point| !is_value(chart, point)).map(|point| point.y);
        let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let name = if series.name.is_empty() { &chart.y.name } else { &series.name };
        let range = [least, most].map(|value| scalar(value, chart.y.unit)).join(" to ");
        Some(format!("{name}: {range}{}.", marks.collect::<String>()))
    };
    let all: Vec<String> = chart.series.iter().filter_map(of).collect();
    all.join(" ")
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, anchor: &str, place: (f64, f64), words: &str) {
    classed(out, "", anchor, place, words);
}

fn classed(out: &mut String, class: &str, anchor: &str, (x, y): (f64, f64), words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(
        out,
        "<text{class} text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escaped(words)
    );
}

#[cfg(test)]
#[path = "svg_tests.rs"]
mod tests;
