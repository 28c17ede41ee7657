//! The keys.

use super::paint::{Paint, Tone};
use super::ui::{Page, Ui};
use super::{Source, View};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A key and what it does; a heading where there is no key.
const KEYS: &[(&str, &str)] = &[
    ("", "Tables"),
    ("Tab  d t l r", "go to the next table; to disks, threads, layers, rings"),
    ("Up Down", "select a row"),
    ("Enter", "show the selected row in full; Esc goes back"),
    ("z", "give one table the whole screen, or all their places again"),
    ("s S", "sort by the next or previous column (▾ marks it)"),
    ("R", "turn the order round (▴ marks it)"),
    ("p", "partitions too, or whole devices only"),
    ("i", "devices that do nothing too"),
    ("c", "threads by: name+state+call+channel, name+state, name, each"),
    ("", "Time"),
    ("Space", "freeze or go on; in a record play or pause"),
    ("Left Right", "one interval back or on (live: the last minute is kept)"),
    ("PgUp PgDn", "60 intervals back or on; scrolls a page of text"),
    ("Home End", "to the first or last instant (live: End goes on)"),
    ("g", "go to a time: 14:03, 14:03:22, 2026-11-22T14:03, +90s (UTC)"),
    ("+ -", "play a record faster or slower"),
    ("", "Else"),
    ("!", "what cannot be seen and what would allow it; what watching costs"),
    ("Ctrl-L", "draw the screen anew"),
    ("?", "this page"),
    ("q", "quit; on a page of text: back"),
];

/// What stands on the page of keys.
pub fn text() -> Vec<(Tone, String)> {
    let line = |(key, what): &(&str, &str)| match *key {
        "" => (Tone::Key, (*what).to_string()),
        key => (Tone::Plain, format!("  {key:13} {what}")),
    };
    let mut lines: Vec<(Tone, String)> = KEYS.iter().map(line).collect();
    let more = "Figures: r/s, await, aqu-sz, %util as in iostat -x; cpu as in mpstat; ACTIVE is how \
        many threads did it at a time.";
    lines.push((Tone::Faint, more.into()));
    lines
}

/// The last line: what is typed, what came of it, or the keys that matter here.
pub fn footer(ui: &Ui, view: &View<'_>, paint: Paint, area: Rect, buf: &mut Buffer) {
    let width = area.width.into();
    if let Some(typed) = &ui.prompt {
        let text = format!("go to time (14:03:22, 2026-11-22T14:03, +90s; UTC): {typed}_");
        buf.set_stringn(area.x, area.y, text, width, paint.of(Tone::Key));
        return;
    }
    if let Some(message) = &ui.message {
        buf.set_stringn(area.x, area.y, message, width, paint.of(Tone::Warning));
        return;
    }
    let space = match view.source {
        Source::Live { frozen: None, .. } => "freeze",
        Source::Live { .. } => "go on",
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
        let (next, _) = buf.set_stringn(x, area.y, key, left, paint.of(Tone::Key));
        let left = usize::from(area.right().saturating_sub(next));
        let (next, _) =
            buf.set_stringn(next, area.y, format!(" {what}  "), left, paint.of(Tone::Faint));
        x = next;
    }
}
