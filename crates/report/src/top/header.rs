//! The title line, and the page of unavailable sources and sampling overhead.

use super::{TopSource, TopView};
use crate::calendar;
use crate::doc::{DataColumn, Document, Text, share, text, time, whole};
use crate::render;
use crate::render::screen::{Paint, Tone};
use fathom_model::units;
use fathom_model::watch::SamplerCost;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const TIME: &str = "%H:%M:%S %:z";
/// Screens narrower than this show the time without its date.
const DATE_MIN: u16 = 80;

/// Draws the title line: local time, interval or replay position, sampling overhead. Parts that do not fit are
/// omitted.
pub fn draw(view: &TopView<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
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
    let end = paint.put(Tone::Selected, &text, area.x, area, buf);
    let overhead = overhead(view);
    let length = overhead.chars().count() as u16;
    if end + length < area.right() {
        paint.put(Tone::Selected, &overhead, area.right() - length, area, buf);
    }
}

fn state(view: &TopView<'_>) -> Vec<String> {
    let seconds = |ns: u64| units::time(ns as f64);
    let mut parts = match view.source {
        TopSource::Live { interval_ns, frozen, recording } => {
            let state = match frozen {
                None => format!("every {}", seconds(interval_ns)),
                Some(0) => "PAUSED".into(),
                Some(behind) => format!("PAUSED {} ago", seconds(behind)),
            };
            let recording = recording.then(|| "REC".to_string());
            std::iter::once(state).chain(recording).collect()
        }
        TopSource::Replay { first_ns, last_ns, speed } => {
            let length = last_ns.saturating_sub(first_ns).max(1);
            let done = view.unix_ns.saturating_sub(first_ns) * 100 / length;
            let speed = speed.map_or("PAUSED".into(), |speed| format!("{speed}×"));
            let last = calendar::formatted_in(last_ns, view.zone, "%H:%M:%S");
            vec![format!("REPLAY {speed}"), format!("{done}%"), format!("ends {last}")]
        }
    };
    // Intervals missed because the sampler was late; this one covers them too.
    let joined = view.now.intervals_merged.saturating_sub(view.before.intervals_merged);
    if joined > 0 {
        parts.push(format!("{joined} LATE"));
    }
    parts
}

fn overhead(view: &TopView<'_>) -> String {
    match view.own_ns {
        Some(ns) if view.elapsed_ns > 0 => {
            let text = text!("overhead ", share(ns, view.elapsed_ns), " of one CPU");
            format!("{} ", render::line(&text))
        }
        _ => String::new(),
    }
}

pub fn missing_line(view: &TopView<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    let names: Vec<&str> = view.missing.iter().map(|missing| missing.source.as_str()).collect();
    let all = format!("unavailable (! for details): {}", names.join(", "));
    let fits = all.chars().count() <= area.width.into();
    let text =
        if fits { all } else { format!("{} sources unavailable (! for details)", names.len()) };
    paint.put(Tone::Warning, &text, area.x, area, buf);
}

/// Unavailable sources, each with its reason and remedy, and the CPU time of each sampler.
pub fn missing_and_overhead(view: &TopView<'_>) -> Document {
    let mut page = Document::default();
    let mut body = Document::default();
    for missing in view.missing {
        body.entry(&missing.source, missing.reason.as_str());
        let remedy = (!missing.remedy.is_empty()).then(|| format!("remedy: {}", missing.remedy));
        body.entry("", remedy);
    }
    let about = if view.missing.is_empty() { "none" } else { "" };
    page.section("unavailable sources", about, body);
    let row = |now: &SamplerCost| -> Vec<Text> {
        let then = view.before.cost.iter().find(|then| then.sampler == now.sampler);
        let since = |of: fn(&SamplerCost) -> u64| of(now).saturating_sub(then.map_or(0, of));
        let cpu_ns = since(|cost| cost.cpu_ns);
        vec![
            now.sampler.as_str().into(),
            share(cpu_ns, view.elapsed_ns).into(),
            time(cpu_ns as f64).into(),
            whole(since(|cost| cost.samples)).into(),
            whole(since(|cost| cost.missed)).into(),
        ]
    };
    let mut columns = vec![DataColumn::text("sampler")];
    columns.extend(["of one CPU", "CPU time", "samples", "late"].map(DataColumn::number));
    let mut body = Document::default();
    body.table(columns, view.now.cost.iter().map(row).collect());
    page.section("sampling overhead", "in this interval", body);
    page
}
