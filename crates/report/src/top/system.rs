//! Figures of the whole machine: the lines above the tables.

use super::{TopView, take};
use crate::doc::{Text, named};
use crate::figures;
use crate::render::screen::{Paint, Tone, cpu_lines};
use fathom_analysis::metrics::{FigureUnit, METRICS, MetricRow};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Lines that even small screens have; on these, the tables need the others more.
const ALWAYS: [&str; 5] = ["cpu %", "tasks", "mem", "page", "cgroup"];
/// Height of the smallest screen with all lines.
const ALL_MIN: u16 = 20;
/// Least width of a share that moves nothing when it changes.
const SHARE: u8 = 4;

pub fn height(view: &TopView<'_>, area: Rect) -> u16 {
    let cpus = view.rates.system.as_ref().map(|system| cpu_lines(system.cpus.len(), area));
    cpus.map_or(1, |cpus| cpus + lines(view, area).len() as u16)
}

/// Draws onto all of `area`, which is what [`height`] gave of `room`.
pub fn draw(view: &TopView<'_>, room: Rect, paint: Paint, area: Rect, buf: &mut Buffer) {
    let Some(system) = &view.rates.system else {
        let text = "CPU and memory figures are not in this record";
        paint.put(Tone::Faint, text, area.x, area, buf);
        return;
    };
    let (lines, mut rest) = (lines(view, room), area);
    // `area` may be smaller than requested, never larger.
    let bars = area.height.saturating_sub(lines.len() as u16);
    for (place, (label, values)) in lines.iter().enumerate() {
        paint.line(label, values, take(&mut rest, 1), buf);
        if place == 0 {
            let busy: Vec<_> = system.cpus.iter().map(|cpu| (cpu.cpu, cpu.shares.busy())).collect();
            paint.cpus(&busy, take(&mut rest, bars), buf);
        }
    }
}

fn lines(view: &TopView<'_>, area: Rect) -> Vec<(&'static str, Text)> {
    let interval = view.interval();
    let mut lines: Vec<(&str, Text)> = Vec::new();
    let mut add = |label, text| match lines.iter_mut().find(|line| line.0 == label) {
        Some((_, line)) => *line = Text::join([std::mem::take(line), text], " "),
        None => lines.push((label, text)),
    };
    for metric in METRICS.iter().filter(|metric| !metric.label.is_empty()) {
        let value = (metric.value)(&interval);
        let Some(value) = value.filter(|value| !is_silent(metric, *value)) else { continue };
        let mut quantity = figures::quantity(metric, value);
        if metric.unit == FigureUnit::Percent && metric.rank == 0 {
            quantity.width = SHARE;
        }
        add(metric.group.line(), named(metric.label, quantity));
    }
    let group = view.now.system.as_ref().and_then(|system| system.cgroup.as_ref());
    if let Some(group) = group.filter(|group| !group.io_limits.is_empty()) {
        add("cgroup", named("I/O", group.io_limits.join(", ").replace(' ', "\u{a0}")));
    }
    lines.retain(|(label, _)| area.height >= ALL_MIN || ALWAYS.contains(label));
    lines
}

fn is_silent(metric: &MetricRow, value: f64) -> bool {
    let is_usual = value == 0.0 || (metric.unit == FigureUnit::Percent && value >= 99.95);
    metric.rank > 1 && is_usual
}
