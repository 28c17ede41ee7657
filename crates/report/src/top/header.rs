//! The title line, and the page of unavailable sources and sampling overhead.

use super::paint::{Paint, Tone};
use super::{Source, View};
use crate::calendar;
use fathom_model::units;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Format of a time of day with its offset from UTC.
const TIME: &str = "%H:%M:%S %:z";
/// Screens narrower than this show the time without its date.
const DATE_MIN: u16 = 80;

/// Draws the title line: local time, interval or replay position, sampling overhead. Parts that do not fit are
/// omitted.
pub fn draw(view: &View<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    buf.set_style(area, paint.of(Tone::Selected));
    let time = if area.width < DATE_MIN {
        calendar::formatted_in(view.unix_ns, view.zone, TIME)
    } else {
        calendar::date_and_time(view.unix_ns, view.zone)
    };
    let mut text = " fathom top".to_string();
    for part in std::iter::once(time).chain(state(view)) {
        if text.chars().count() + 2 + part.chars().count() <= area.width.into() {
            text += &format!("  {part}");
        }
    }
    let (end, _) =
        buf.set_stringn(area.x, area.y, text, area.width.into(), paint.of(Tone::Selected));
    let overhead = overhead(view);
    let length = overhead.chars().count() as u16;
    if end + length < area.right() {
        let x = area.right() - length;
        buf.set_stringn(x, area.y, overhead, length.into(), paint.of(Tone::Selected));
    }
}

/// The interval or the replay position, by importance.
fn state(view: &View<'_>) -> Vec<String> {
    let seconds = |ns: u64| units::time(ns as f64);
    let mut parts = match view.source {
        Source::Live { interval_ns, frozen, recording } => {
            let state = match frozen {
                None => format!("every {}", seconds(interval_ns)),
                Some(0) => "PAUSED".into(),
                Some(behind) => format!("PAUSED {} ago", seconds(behind)),
            };
            let recording = recording.then(|| "REC".to_string());
            std::iter::once(state).chain(recording).collect()
        }
        Source::Replay { first_ns, last_ns, speed } => {
            let length = last_ns.saturating_sub(first_ns).max(1);
            let done = view.unix_ns.saturating_sub(first_ns) * 100 / length;
            let speed = speed.map_or("PAUSED".into(), |speed| format!("{speed}×"));
            let last = calendar::formatted_in(last_ns, view.zone, "%H:%M:%S");
            vec![format!("REPLAY {speed}"), format!("{done}%"), format!("ends {last}")]
        }
    };
    // Intervals missed because the sampler was late; this one covers them too.
    let joined = view.now.intervals_joined.saturating_sub(view.before.intervals_joined);
    if joined > 0 {
        parts.push(format!("{joined} LATE"));
    }
    parts
}

/// CPU time of the view and all samplers.
fn overhead(view: &View<'_>) -> String {
    match view.own_ns {
        Some(ns) if view.elapsed_ns > 0 => {
            format!("overhead {:.2}% of one CPU ", ns as f64 * 100.0 / view.elapsed_ns as f64)
        }
        _ => String::new(),
    }
}

/// Draws one line that names the unavailable sources.
pub fn missing_line(view: &View<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let names: Vec<&str> = view.missing.iter().map(|missing| missing.what.as_str()).collect();
    let all = format!("unavailable (! for details): {}", names.join(", "));
    let fits = all.chars().count() <= area.width.into();
    let text =
        if fits { all } else { format!("{} sources unavailable (! for details)", names.len()) };
    buf.set_stringn(area.x, area.y, text, area.width.into(), paint.of(Tone::Warning));
}

/// Lists unavailable sources, each with its reason and remedy, and the CPU time of each sampler.
pub fn missing_and_overhead(view: &View<'_>) -> Vec<(Tone, String)> {
    let mut lines = vec![(Tone::Key, "Unavailable sources".to_string())];
    if view.missing.is_empty() {
        lines.push((Tone::Plain, "  none".into()));
    }
    for missing in view.missing {
        lines.push((Tone::Warning, format!("  {}", missing.what)));
        lines.push((Tone::Plain, format!("    reason: {}", missing.why)));
        if !missing.allow.is_empty() {
            lines.push((Tone::Plain, format!("    remedy: {}", missing.allow)));
        }
    }
    lines.push((Tone::Plain, String::new()));
    lines.push((Tone::Key, "Sampling overhead in this interval".into()));
    let title = format!(
        "  {:12} {:>9} {:>12} {:>10} {:>7}",
        "sampler", "CPU%", "CPU time", "samples", "late"
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
                since(now.samples, then.map(|then| then.samples)),
                since(now.missed, then.map(|then| then.missed)),
            ),
        ));
    }
    lines
}
