//! The screens of `fathom top`, a pure function of two samples and the user's settings; and the same
//! figures as lines: dstat columns, CSV, NDJSON.

mod blocks;
mod detail;
mod disks;
mod header;
mod help;
mod keys;
mod layers;
pub mod lines;
mod paint;
mod rings;
mod system;
mod table;
mod threads;
mod ui;

pub use keys::{Action, Go, press};
pub use paint::Paint;
pub use table::Table;
pub use ui::{Grouping, Page, Panel, TableUi, Ui};

use crate::calendar::TimeZone;
use fathom_analysis::machine::MachineRates;
use fathom_model::escape;
use fathom_model::watch::{DeviceWiring, MachineSample, Missing, Stack};
use paint::Tone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// One interval of the machine, with its context.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Sample at the start of the interval.
    pub before: &'a MachineSample,
    /// Sample at its end.
    pub now: &'a MachineSample,
    /// Rates between the two.
    pub rates: &'a MachineRates,
    /// Its length, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its end, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Time zone of the times on screen; CSV and NDJSON are in UTC.
    pub zone: &'a TimeZone,
    /// Where the samples come from.
    pub source: Source,
    /// Stacks, indexed by [`fathom_model::watch::StackCount::stack`].
    pub stacks: &'a [Stack],
    /// How block devices are connected.
    pub wiring: &'a [DeviceWiring],
    /// Sources that are unavailable.
    pub missing: &'a [Missing],
    /// CPU time of this program in the interval, in nanoseconds; `None` for a replay.
    pub own_ns: Option<u64>,
}

/// Where samples come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// This machine, now.
    Live {
        /// Between two samples, in nanoseconds.
        interval_ns: u64,
        /// Paused: age of the interval shown, in nanoseconds.
        frozen: Option<u64>,
        /// The samples are also recorded.
        recording: bool,
    },
    /// A record.
    Replay {
        /// Its first instant, in nanoseconds since 1970.
        first_ns: u64,
        /// Its last instant.
        last_ns: u64,
        /// Replay speed, 1 for real time; `None` while paused.
        speed: Option<f64>,
    },
}

/// Draws the view onto all of `area`.
pub fn draw(view: &View<'_>, ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
    if area.width < 20 || area.height < 4 {
        buf.set_stringn(
            area.x,
            area.y,
            "screen too small",
            area.width.into(),
            paint.of(Tone::Plain),
        );
        return;
    }
    let mut rest = area;
    header::draw(view, paint, take(&mut rest, 1), buf);
    let footer = take_below(&mut rest, 1);
    help::footer(ui, view, paint, footer, buf);
    match &ui.page {
        Page::Tables => draw_tables(view, ui, paint, rest, buf),
        Page::Help => page(&help::text(), ui, paint, rest, buf),
        Page::Missing => page(&header::missing_and_overhead(view), ui, paint, rest, buf),
        Page::Detail(panel, key) => {
            page(&detail::text(view, ui, *panel, key), ui, paint, rest, buf)
        }
    }
    sanitize(area, buf);
}

/// Replaces bidirectional controls, which would reorder the terminal's text; ratatui drops other control characters.
fn sanitize(area: Rect, buf: &mut Buffer) {
    for position in area.intersection(buf.area).positions() {
        if let Some(cell) =
            buf.cell_mut(position).filter(|c| c.symbol().contains(escape::is_unsafe))
        {
            cell.set_symbol("?");
        }
    }
}

/// Draws onto all of `area` before the first interval is complete.
pub fn draw_waiting(paint: Paint, area: Rect, buf: &mut Buffer) {
    let text = "fathom top: sampling the first interval (q quits)";
    buf.set_stringn(area.x, area.y, text, area.width.into(), paint.of(Tone::Faint));
}

/// A table, sorted as the user chose.
#[must_use]
pub fn table(view: &View<'_>, ui: &Ui, panel: Panel) -> Table {
    let (table, usual) = match panel {
        Panel::Disks => (disks::table(view, ui), disks::SORT),
        Panel::Threads => (threads::table(view, ui), threads::SORT),
        Panel::Layers => (layers::table(view), layers::SORT),
        Panel::Rings => (rings::table(view), rings::SORT),
    };
    let chosen = panel.of(ui);
    table.sorted_by(chosen.sort.unwrap_or(usual), chosen.reversed)
}

fn draw_tables(view: &View<'_>, ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
    let mut rest = area;
    if !view.missing.is_empty() {
        header::missing_line(view, paint, take_below(&mut rest, 1), buf);
    }
    let room = rest;
    let lines = take(&mut rest, system::height(view, room));
    system::draw(view, room, paint, lines, buf);
    let one = |panel: Panel, area: Rect, buf: &mut Buffer| {
        let table = table(view, ui, panel);
        let place = table.place(panel.of(ui).selected.as_deref());
        table.draw(area, buf, paint, (ui.focus == panel).then_some(place));
    };
    if ui.zoomed {
        return one(ui.focus, rest, buf);
    }
    let rows = |panel| table(view, ui, panel).rows.len().max(1) as u16 + 1;
    let beside = rows(Panel::Threads).max(rows(Panel::Layers));
    let [disks, middle, rings] =
        shares(rest.height, [rows(Panel::Disks), beside, rows(Panel::Rings)]);
    one(Panel::Disks, take(&mut rest, disks), buf);
    let mut left = take(&mut rest, middle);
    let right = layers::width(area.width);
    let layers_area = Rect::new(left.right() - right, left.y, right, left.height);
    left.width -= right + 1;
    one(Panel::Threads, left, buf);
    one(Panel::Layers, layers_area, buf);
    one(Panel::Rings, take(&mut rest, rings), buf);
}

/// Divides `height` fairly (max-min) among tables that need `wanted` lines each; spare lines go to the middle one.
fn shares<const N: usize>(height: u16, wanted: [u16; N]) -> [u16; N] {
    let mut given = [0; N];
    let mut left = height;
    // Line by line, so that no line is lost to rounding.
    while left > 0 {
        let short = (0..N).filter(|index| given[*index] < wanted[*index]);
        let Some(least) = short.min_by_key(|index| given[*index]) else { break };
        given[least] += 1;
        left -= 1;
    }
    // The middle tables change height most often.
    given[N / 2] += left;
    given
}

/// Draws lines of text, wrapped and scrolled.
fn page(lines: &[(Tone, String)], ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
    let wrapped = |(tone, text): &(Tone, String)| {
        wrapped(text, area.width.into()).into_iter().map(|text| (*tone, text)).collect::<Vec<_>>()
    };
    let lines: Vec<(Tone, String)> = lines.iter().flat_map(wrapped).collect();
    let first = ui.scrolled.min(lines.len().saturating_sub(area.height.into()));
    for (row, (tone, text)) in lines.iter().skip(first).take(area.height.into()).enumerate() {
        let y = area.y + row as u16;
        buf.set_stringn(area.x, y, text, area.width.into(), paint.of(*tone));
    }
}

/// `text` wrapped at `width`, where words allow; continuation lines are indented. A number is kept with the words
/// around it.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "      ";
    let mut lines = vec![String::new()];
    for chunk in chunks(text) {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if line + chunk.trim_end().chars().count() > width && line > INDENT.len() {
            lines.push(INDENT.into());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(&chunk);
        }
    }
    lines
}

/// Words of `text` with their spaces, where a line may break: `p99 82 µs, ` is one.
fn chunks(text: &str) -> Vec<String> {
    let number =
        |word: &str| word.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit());
    let ends = |word: &str| word.is_empty() || word.ends_with([',', ';', ':', ')', '·']);
    let mut chunks: Vec<String> = Vec::new();
    let mut before = "";
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end();
        let joined = !ends(before) && !bare.is_empty() && (number(before) || number(bare));
        match chunks.last_mut().filter(|_| joined) {
            Some(chunk) => chunk.push_str(word),
            None => chunks.push(word.into()),
        }
        before = bare;
    }
    chunks
}

/// Splits the top lines off `area`.
fn take(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let taken = Rect { height, ..*area };
    area.y += height;
    area.height -= height;
    taken
}

/// Splits the bottom lines off `area`.
fn take_below(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    area.height -= height;
    Rect { y: area.y + area.height, height, ..*area }
}
