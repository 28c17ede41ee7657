//! The first line, and what cannot be seen.

use super::paint::{Paint, Tone};
use super::{Source, View};
use crate::calendar;
use fathom_model::units;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The first line: when, how it goes on, and what watching costs.
pub fn draw(view: &View<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    let width = area.width.into();
    buf.set_style(area, paint.of(Tone::Selected));
    let time = calendar::date_and_time(view.unix_ns);
    let text = format!(" fathom top  {time} UTC  {}{}", state(view), joined(view));
    let (end, _) = buf.set_stringn(area.x, area.y, text, width, paint.of(Tone::Selected));
    let cost = cost(view);
    let length = cost.chars().count() as u16;
    if end + length < area.right() {
        let x = area.right() - length;
        buf.set_stringn(x, area.y, cost, length.into(), paint.of(Tone::Selected));
    }
}

/// How the view goes on.
fn state(view: &View<'_>) -> String {
    let seconds = |ns: u64| units::time(ns as f64);
    match view.source {
        Source::Live { interval_ns, frozen, recording } => {
            let recording = if recording { "  REC" } else { "" };
            match frozen {
                None => format!("every {}{recording}", seconds(interval_ns)),
                Some(0) => format!("FROZEN{recording}"),
                Some(behind) => format!("FROZEN {} ago{recording}", seconds(behind)),
            }
        }
        Source::Replay { first_ns, last_ns, speed } => {
            let length = last_ns.saturating_sub(first_ns).max(1);
            let done = view.unix_ns.saturating_sub(first_ns) * 100 / length;
            let speed = speed.map_or("PAUSED".into(), |speed| format!("x{speed}"));
            let last = calendar::date_and_time(last_ns);
            let last = last.rsplit(' ').next().unwrap_or_default();
            format!("REPLAY {speed} {done}% of record to {last}")
        }
    }
}

/// How many intervals this one is in truth, where there are more.
fn joined(view: &View<'_>) -> String {
    let (before, now) = (view.before.intervals_joined, view.now.intervals_joined);
    let joined = now.saturating_sub(before);
    if joined > 0 { format!("  {joined} JOINED") } else { String::new() }
}

/// Processor time of the view and all samplers.
fn cost(view: &View<'_>) -> String {
    match view.own_ns {
        Some(ns) if view.elapsed_ns > 0 => {
            format!("cost {:.2}% of a core ", ns as f64 * 100.0 / view.elapsed_ns as f64)
        }
        _ => String::new(),
    }
}

/// One line that names what cannot be seen.
pub fn missing_line(view: &View<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let names: Vec<&str> = view.missing.iter().map(|missing| missing.what.as_str()).collect();
    let text = format!("not seen ('!' says why): {}", names.join(", "));
    buf.set_stringn(area.x, area.y, text, area.width.into(), paint.of(Tone::Warning));
}

/// What cannot be seen with what would allow it, and what each sampler costs.
pub fn missing_and_cost(view: &View<'_>) -> Vec<(Tone, String)> {
    let mut lines = vec![(Tone::Key, "What cannot be seen".to_string())];
    if view.missing.is_empty() {
        lines.push((Tone::Plain, "  nothing is missing".into()));
    }
    for missing in view.missing {
        lines.push((Tone::Warning, format!("  {}", missing.what)));
        lines.push((Tone::Plain, format!("    why: {}", missing.why)));
        if !missing.allow.is_empty() {
            lines.push((Tone::Plain, format!("    allow it: {}", missing.allow)));
        }
    }
    lines.push((Tone::Plain, String::new()));
    lines.push((Tone::Key, "What watching costs, in this interval".into()));
    let title = format!(
        "  {:12} {:>9} {:>12} {:>10} {:>7}",
        "sampler", "of a core", "CPU", "looks", "late"
    );
    lines.push((Tone::Faint, title));
    for now in &view.now.cost {
        let then = view.before.cost.iter().find(|then| then.sampler == now.sampler);
        let since = |now: u64, then: Option<u64>| now.saturating_sub(then.unwrap_or(0));
        let cpu_ns = since(now.cpu_ns, then.map(|then| then.cpu_ns));
        let share = cpu_ns as f64 * 100.0 / view.elapsed_ns.max(1) as f64;
        lines.push((
            Tone::Plain,
            format!(
                "  {:12} {share:>8.2}% {:>12} {:>10} {:>7}",
                now.sampler,
                units::time(cpu_ns as f64),
                since(now.looks, then.map(|then| then.looks)),
                since(now.missed, then.map(|then| then.missed)),
            ),
        ));
    }
    lines
}
