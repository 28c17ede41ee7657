//! The help page and the footer.

use super::paint::{Paint, Tone};
use super::ui::{Page, Ui};
use super::{Source, View};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Keys with their functions; an empty key marks a heading.
const KEYS: &[(&str, &str)] = &[
    ("", "Tables"),
    ("Tab  d t l r", "go to the next table; to disks, threads, layers, rings"),
    ("Up Down", "select a row"),
    ("Enter", "show details of the selected row (Esc: back)"),
    ("z", "zoom one table to the whole screen, or show all tables"),
    ("s S", "sort by the next or previous column (marked ▾)"),
    ("R", "reverse the sort order (marked ▴)"),
    ("p", "show or hide partitions"),
    ("i", "show or hide idle devices"),
    ("c", "group threads by name+state+syscall+wchan, name+state, name, TID"),
    ("", "Time"),
    ("Space", "pause or resume; in a replay, pause or play"),
    ("Left Right", "one interval back or forward (live: within the last minute)"),
    ("PgUp PgDn", "60 intervals back or forward; on a text page, scroll"),
    ("Home End", "go to the first or last interval (live: End resumes)"),
    ("g", "go to a time: 14:03, 14:03:22, 2026-11-22T14:03, +90s"),
    ("+ -", "replay faster or slower"),
    ("", "Other"),
    ("!", "unavailable sources and their remedies; sampling overhead"),
    ("Ctrl-L", "redraw the screen"),
    ("?", "show this help"),
    ("q", "quit; on a text page, back"),
];

/// What the figures mean, one line each.
const FIGURES: &[&str] = &[
    "Disk columns are those of iostat -x, with 1 MiB = 2^20 bytes; await is in ms. cpu % is as in mpstat.",
    "PSI: time in which some task was stalled. ACTIVE: mean number of threads. inflt: I/Os in flight.",
];

/// The lines of the help page.
pub fn text() -> Vec<(Tone, String)> {
    let line = |(key, what): &(&str, &str)| match *key {
        "" => (Tone::Key, (*what).to_string()),
        key => (Tone::Plain, format!("  {key:13} {what}")),
    };
    let mut lines: Vec<(Tone, String)> = KEYS.iter().map(line).collect();
    lines.extend(FIGURES.iter().map(|text| (Tone::Faint, (*text).to_string())));
    lines
}

/// Draws the last line: the prompt, a message, or the most important keys.
pub fn footer(ui: &Ui, view: &View<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    let width = area.width.into();
    if let Some(typed) = &ui.prompt {
        let text = format!("go to time (14:03:22, 2026-11-22T14:03, +90s): {typed}_");
        buf.set_stringn(area.x, area.y, text, width, paint.of(Tone::Key));
        return;
    }
    if let Some(message) = &ui.message {
        buf.set_stringn(area.x, area.y, message, width, paint.of(Tone::Warning));
        return;
    }
    let space = match view.source {
        Source::Live { frozen: None, .. } => "pause",
        Source::Live { .. } => "resume",
        Source::Replay { speed: None, .. } => "play",
        Source::Replay { .. } => "pause",
    };
    let keys: &[(&str, &str)] = match ui.page {
        Page::Tables => &[
            ("?", "help"),
            ("Tab", "table"),
            ("Enter", "detail"),
            ("s", "sort"),
            ("z", "zoom"),
            ("Space", space),
            ("g", "go to"),
            ("q", "quit"),
        ],
        _ => &[("Esc", "back"), ("PgUp PgDn", "scroll"), ("Space", space), ("q", "back")],
    };
    let mut x = area.x;
    for (key, what) in keys {
        let left = usize::from(area.right().saturating_sub(x));
        if key.chars().count() + 1 + what.chars().count() > left {
            break;
        }
        let (next, _) = buf.set_stringn(x, area.y, key, left, paint.of(Tone::Key));
        let (next, _) =
            buf.set_stringn(next, area.y, format!(" {what}  "), left, paint.of(Tone::Faint));
        x = next;
    }
}
