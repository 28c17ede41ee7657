//! Charts as SVG within an HTML page, whose style sheet sets their colors.

use super::figure::scalar;
use super::html::escaped;
use crate::doc::{Chart, ChartKind, ChartPoint};
use std::fmt::Write;

/// Size of a chart of lines, and its margins, in the picture's own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Height of a bar with its gap, and the space for its label and value.
const BAR: f64 = 26.0;
const LABEL: f64 = 200.0;
const VALUE: f64 = 90.0;
/// Classes of color; further series repeat them.
const COLORS: usize = 6;
/// Lines across the area at most, and labels below it.
const GRID: usize = 6;

pub(super) fn figure(chart: &Chart) -> String {
    let picture = match chart.kind {
        ChartKind::Lines => lines(chart),
        ChartKind::Bars => bars(chart, BAR * 0.65),
        ChartKind::Histogram => bars(chart, BAR - 1.0),
    };
    let title = escaped(&chart.title);
    format!("<figure>\n<figcaption>{title}</figcaption>\n{picture}{}</figure>\n", legend(chart))
}

fn legend(chart: &Chart) -> String {
    if chart.series.len() < 2 {
        return String::new();
    }
    let entry = |(at, name): (usize, &str)| {
        format!("<li><span class=\"key c{}\"></span>{}</li>", at % COLORS, escaped(name))
    };
    let names = chart.series.iter().map(|series| series.name.as_str()).enumerate();
    format!("<ul class=\"legend\">{}</ul>\n", names.map(entry).collect::<String>())
}

fn lines(chart: &Chart) -> String {
    let xs = chart.x.range(chart.points().map(|point| point.x));
    let ends = |point: &ChartPoint| point.interval.map_or(point.y, |(_, high)| high.max(point.y));
    let ys = chart.y.range(chart.points().flat_map(|point| [point.y, ends(point)]));
    let x = |value: f64| LEFT + chart.x.place(value, xs) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - chart.y.place(value, ys) * (HEIGHT - TOP - BOTTOM);
    let mut out = open(&chart.title, WIDTH, HEIGHT);
    for tick in chart.y.ticks(ys, GRID) {
        let at = y(tick);
        line(&mut out, "grid", (LEFT, at), (WIDTH - RIGHT, at));
        text(&mut out, "end", LEFT - 8.0, at + 4.0, &scalar(tick, chart.y.unit));
    }
    for tick in chart.x.ticks(xs, GRID) {
        text(&mut out, "middle", x(tick), HEIGHT - BOTTOM + 18.0, &scalar(tick, chart.x.unit));
    }
    text(&mut out, "middle", f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 6.0, &chart.x.name);
    text(&mut out, "start", 4.0, 11.0, &chart.y.name);
    for (at, series) in chart.series.iter().enumerate() {
        let color = at % COLORS;
        let places: Vec<String> =
            series.points.iter().map(|p| format!("{:.1},{:.1}", x(p.x), y(p.y))).collect();
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, "<polyline class=\"line c{color}\" points=\"{}\"/>", places.join(" "));
        for point in &series.points {
            if let Some((low, high)) = point.interval {
                line(
                    &mut out,
                    &format!("line c{color}"),
                    (x(point.x), y(low)),
                    (x(point.x), y(high)),
                );
            }
            let size = if point.mark.is_some() { 7.0 } else { 3.5 };
            let what = [&series.name, &point.label].map(|part| escaped(part)).join(" ");
            let value = scalar(point.y, chart.y.unit);
            let _ = writeln!(
                out,
                "<circle class=\"dot c{color}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{size}\"><title>{}: {}</title></circle>",
                x(point.x),
                y(point.y),
                what.trim(),
                escaped(&value)
            );
            if let Some(mark) = &point.mark {
                let label = format!("{mark} {}", point.label);
                text(&mut out, "end", x(point.x) - 10.0, y(point.y) - 10.0, &label);
            }
        }
    }
    out + "</svg>\n"
}

fn bars(chart: &Chart, thickness: f64) -> String {
    let count = chart.points().count() as f64;
    let height = count * BAR + 8.0;
    let ends = |point: &ChartPoint| point.interval.map_or(point.y, |(_, high)| high.max(point.y));
    let range = chart.y.range(chart.points().map(ends));
    let length = |value: f64| chart.y.place(value, range) * (WIDTH - LABEL - VALUE);
    let mut out = open(&chart.title, WIDTH, height);
    let mut top = 4.0;
    for (at, series) in chart.series.iter().enumerate() {
        for point in &series.points {
            let middle = top + thickness / 2.0;
            text(&mut out, "end", LABEL - 8.0, middle + 4.0, &point.label);
            let _ = writeln!(
                out,
                "<rect class=\"bar c{}\" x=\"{LABEL}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{thickness:.1}\"/>",
                at % COLORS,
                length(point.y).max(0.5)
            );
            if let Some((low, high)) = point.interval {
                line(
                    &mut out,
                    "whisker",
                    (LABEL + length(low), middle),
                    (LABEL + length(high), middle),
                );
            }
            let end = LABEL + length(ends(point)) + 6.0;
            text(&mut out, "start", end, middle + 4.0, &scalar(point.y, chart.y.unit));
            top += BAR;
        }
    }
    out + "</svg>\n"
}

fn open(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(title)
    )
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, anchor: &str, x: f64, y: f64, words: &str) {
    let _ = writeln!(
        out,
        "<text text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escaped(words)
    );
}
