//! Charts in block characters.

use super::figure::scalar;
use crate::doc::{Axis, Chart, ChartKind, ChartPoint};
use fathom_model::escape;
use unicode_width::UnicodeWidthStr;

const ROWS: usize = 10;
/// Most columns of bars and of the area of lines.
const BARS_MAX: usize = 40;
const AREA_MAX: usize = 64;
/// Columns for each label below the area.
const TICK_WIDTH: usize = 9;
/// Fewest columns of the same; a narrower terminal shows values without bars.
const WIDTH_MIN: usize = 8;
/// Points of different series; a place of several series shows the last one.
const GLYPHS: [char; 8] = ['●', '○', '■', '□', '▲', '△', '◆', '◇'];
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub(super) fn lines(chart: &Chart, width: usize) -> Vec<String> {
    let mut out = vec![escape::text(&chart.title).into_owned()];
    out.extend(match chart.kind {
        ChartKind::Lines | ChartKind::Histogram => area(chart, width),
        ChartKind::Bars => bars(chart, width),
    });
    let cut = |line: String| match line.width() > width {
        true => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => line,
    };
    out.into_iter().map(cut).collect()
}

fn bars(chart: &Chart, width: usize) -> Vec<String> {
    let several = chart.series.len() > 1;
    let rows = chart.series.iter().flat_map(|series| {
        series.points.iter().map(move |point| match several {
            true => (format!("{} {}", series.name, point.label), point),
            false => (point.label.clone(), point),
        })
    });
    let rows: Vec<(String, String, &ChartPoint)> = rows
        .map(|(label, point)| {
            let value = scalar(point.y, chart.y.unit);
            (escape::text(label.trim()).into_owned(), value, point)
        })
        .collect();
    let widest = |of: &dyn Fn(&(String, String, &ChartPoint)) -> usize| {
        rows.iter().map(of).max().unwrap_or(0)
    };
    let (labels, values) = (widest(&|row| row.0.width()), widest(&|row| row.1.width()));
    let room = width.saturating_sub(labels + values + 4).min(BARS_MAX);
    let range = chart.y.range(rows.iter().map(|row| row.2.y));
    let line = |(label, value, point): &(String, String, &ChartPoint)| {
        let pad = " ".repeat(labels - label.width());
        let gap = " ".repeat(values - value.width());
        let bar =
            if room < WIDTH_MIN { String::new() } else { bar(chart.y.place(point.y, range), room) };
        let mark = point.mark.as_ref().map_or_else(String::new, |mark| format!(" {mark}"));
        format!("{label}{pad}  {gap}{value}  {bar}{mark}").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

fn bar(share: f64, room: usize) -> String {
    let eighths = (share * room as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn area(chart: &Chart, width: usize) -> Vec<String> {
    let (xs, ys) =
        (chart.x.range(chart.points().map(|p| p.x)), chart.y.range(chart.points().map(|p| p.y)));
    let ticks = |axis: &Axis, range, most| -> Vec<(f64, String)> {
        let ticks = axis.ticks(range, most).into_iter();
        ticks.map(|tick| (axis.place(tick, range), scalar(tick, axis.unit))).collect()
    };
    let row_of = |place: f64| ((1.0 - place) * (ROWS - 1) as f64).round() as usize;
    let left = ticks(&chart.y, ys, ROWS / 2);
    let margin = left.iter().map(|(_, tick)| tick.width()).max().unwrap_or(0);
    let columns = width.saturating_sub(margin + 2).min(AREA_MAX);
    if columns < WIDTH_MIN {
        return Vec::new();
    }
    let mut cells = vec![vec![' '; columns]; ROWS];
    for (at, series) in chart.series.iter().enumerate() {
        for point in &series.points {
            let column = (chart.x.place(point.x, xs) * (columns - 1) as f64).round() as usize;
            let row = row_of(chart.y.place(point.y, ys));
            cells[row][column] =
                if point.mark.is_some() { '◎' } else { GLYPHS[at % GLYPHS.len()] };
        }
    }
    let mut out = vec![format!("{:margin$} {}", "", escape::text(&chart.y.name))];
    for (row, cells) in cells.iter().enumerate() {
        let tick = left.iter().find(|(place, _)| row_of(*place) == row);
        let tick = tick.map_or("", |(_, tick)| tick.as_str());
        let pad = " ".repeat(margin - tick.width());
        let line: String = cells.iter().collect();
        out.push(format!("{pad}{tick} │{line}").trim_end().to_string());
    }
    out.push(format!("{:margin$} └{}", "", "─".repeat(columns)));
    let mut labels = String::new();
    for (place, tick) in ticks(&chart.x, xs, columns / TICK_WIDTH) {
        let middle = (place * (columns - 1) as f64).round() as usize;
        let start =
            middle.saturating_sub(tick.width() / 2).min(columns.saturating_sub(tick.width()));
        if labels.is_empty() || start > labels.width() {
            labels += &" ".repeat(start - labels.width());
            labels += &tick;
        }
    }
    out.push(format!("{:margin$}  {labels}", ""));
    let name = escape::text(&chart.x.name);
    let indent = columns.saturating_sub(name.width()) / 2;
    out.push(format!("{:margin$}  {:indent$}{name}", "", ""));
    out.extend(legend(chart));
    out
}

fn legend(chart: &Chart) -> Vec<String> {
    let named = chart.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
    let mut parts: Vec<String> = named
        .map(|(at, series)| format!("{} {}", GLYPHS[at % GLYPHS.len()], series.name))
        .collect();
    let marks = chart.series.iter().flat_map(|series| {
        series.points.iter().filter_map(move |point| {
            let mark = point.mark.as_ref()?;
            let of =
                if series.name.is_empty() { String::new() } else { format!(" ({})", series.name) };
            Some(format!("◎ {mark}: {}{of}", point.label))
        })
    });
    parts.extend(marks);
    parts.iter().map(|part| format!("  {}", escape::text(part))).collect()
}
