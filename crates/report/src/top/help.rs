//! The help page and the footer.

use super::ui::{Page, Ui};
use super::{TopSource, TopView};
use crate::doc::{Block, Document, Text};
use crate::render::screen::{Paint, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

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

const FIGURES: &[&str] = &[
    "Disk columns are those of iostat -x, with 1 MiB = 2^20 bytes; await is in ms. cpu % is as in mpstat.",
    "PSI: time in which some task was stalled. ACTIVE: mean number of threads. inflt: I/Os in flight.",
];

pub fn page() -> Document {
    let mut page = Document::default();
    for (key, what) in KEYS {
        match page.blocks.last_mut() {
            Some(Block::Section(section)) if !key.is_empty() => section.body.entry(key, *what),
            _ => page.section(what, Text::default(), Document::default()),
        }
    }
    FIGURES.iter().for_each(|text| page.paragraph(*text));
    page
}

/// Draws the last line: the prompt, a message, or the most important keys.
pub fn footer(ui: &Ui, view: &TopView<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    let prompt = |typed| format!("go to time (14:03:22, 2026-11-22T14:03, +90s): {typed}_");
    let typed = ui.prompt.as_ref().map(|typed| (Tone::Key, prompt(typed)));
    let message = ui.message.as_ref().map(|message| (Tone::Warning, message.clone()));
    if let Some((tone, text)) = typed.or(message) {
        paint.put(tone, &text, area.x, area, buf);
        return;
    }
    let space = match view.source {
        TopSource::Live { frozen: None, .. } => "pause",
        TopSource::Live { .. } => "resume",
        TopSource::Replay { speed: None, .. } => "play",
        TopSource::Replay { .. } => "pause",
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
        let next = paint.put(Tone::Key, key, x, area, buf);
        x = paint.put(Tone::Faint, &format!(" {what}  "), next, area, buf);
    }
}
