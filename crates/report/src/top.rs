//! The full-screen view of the machine, as a pure function of two samples and of what its user has
//! chosen to see; and the same figures as lines for programs.

mod blocks;
mod detail;
mod disks;
mod header;
mod help;
mod layers;
pub mod lines;
mod paint;
mod rings;
mod system;
mod table;
mod threads;
mod ui;

pub use paint::Paint;
pub use table::Table;
pub use ui::{Grouping, Page, Panel, TableUi, Ui};

use fathom_analysis::machine::MachineRates;
use fathom_model::escape;
use fathom_model::watch::{DeviceWiring, MachineSample, Missing, Stack};
use paint::Tone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// An interval of the machine and how it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The machine where the interval began.
    pub before: &'a MachineSample,
    /// The machine where it ended.
    pub now: &'a MachineSample,
    /// What happened in between.
    pub rates: &'a MachineRates,
    /// Its length, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its end, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Where the samples come from.
    pub source: Source,
    /// Stacks by their numbers in [`fathom_model::watch::StackCount::stack`].
    pub stacks: &'a [Stack],
    /// How block devices are connected.
    pub wiring: &'a [DeviceWiring],
    /// What cannot be seen.
    pub missing: &'a [Missing],
    /// Processor time of this program in the interval, in nanoseconds, where it is live.
    pub own_ns: Option<u64>,
}

/// Where samples come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// The machine as it is.
    Live {
        /// Between two samples, in nanoseconds.
        interval_ns: u64,
        /// The view stands still, or is this much behind, in nanoseconds.
        frozen: Option<u64>,
        /// It goes into a record too.
        recording: bool,
    },
    /// A record.
    Replay {
        /// Its first instant, in nanoseconds since 1970.
        first_ns: u64,
        /// Its last instant.
        last_ns: u64,
        /// Seconds of the record in a second; `None` where it stands still.
        speed: Option<f64>,
    },
}

/// Draws the view onto all of `area`.
pub fn draw(view: &View<'_>, ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
    if area.width < 20 || area.height < 4 {
        buf.set_stringn(area.x, area.y, "too small", area.width.into(), paint.of(Tone::Plain));
        return;
    }
    let mut rest = area;
    header::draw(view, paint, take(&mut rest, 1), buf);
    let footer = take_below(&mut rest, 1);
    help::footer(ui, view, paint, footer, buf);
    match &ui.page {
        Page::Tables => draw_tables(view, ui, paint, rest, buf),
        Page::Help => page(&help::text(), ui, paint, rest, buf),
        Page::Missing => page(&header::missing_and_cost(view), ui, paint, rest, buf),
        Page::Detail(panel, key) => {
            page(&detail::text(view, ui, *panel, key), ui, paint, rest, buf)
        }
    }
    clean(area, buf);
}

/// Takes away what would reorder what stands on the terminal; control characters are never drawn.
fn clean(area: Rect, buf: &mut Buffer) {
    for position in area.intersection(buf.area).positions() {
        if let Some(cell) =
            buf.cell_mut(position).filter(|c| c.symbol().contains(escape::is_unsafe))
        {
            cell.set_symbol("?");
        }
    }
}

/// Draws onto all of `area` before there is anything to be seen.
pub fn draw_waiting(paint: Paint, area: Rect, buf: &mut Buffer) {
    let text = "fathom top: the first interval is not over yet (q quits)";
    buf.set_stringn(area.x, area.y, text, area.width.into(), paint.of(Tone::Faint));
}

/// A table with its rows in the order that the user chose.
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

/// Divides `height` among tables that would like `wanted` lines each: nobody gets more, and those who
/// get less get the same, but for what the last ones lack.
fn shares<const N: usize>(height: u16, wanted: [u16; N]) -> [u16; N] {
    let mut given = [0; N];
    let mut left = height;
    // Line by line, so that nothing is lost to rounding; a screen has few.
    while left > 0 {
        let hungry = (0..N).filter(|index| given[*index] < wanted[*index]);
        let Some(least) = hungry.min_by_key(|index| given[*index]) else { break };
        given[least] += 1;
        left -= 1;
    }
    // What nobody wants is left free in the middle, where lines come and go.
    given[N / 2] += left;
    given
}

/// Draws lines of text, broken where they are too long; they may be scrolled.
fn page(lines: &[(Tone, String)], ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
    let broken = |(tone, text): &(Tone, String)| {
        broken(text, area.width.into()).into_iter().map(|text| (*tone, text)).collect::<Vec<_>>()
    };
    let lines: Vec<(Tone, String)> = lines.iter().flat_map(broken).collect();
    let first = ui.scrolled.min(lines.len().saturating_sub(area.height.into()));
    for (row, (tone, text)) in lines.iter().skip(first).take(area.height.into()).enumerate() {
        let y = area.y + row as u16;
        buf.set_stringn(area.x, y, text, area.width.into(), paint.of(*tone));
    }
}

/// The lines of a text in which none is longer than `width`, where words allow; those that follow
/// the first are indented.
fn broken(text: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "      ";
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if line + word.trim_end().chars().count() > width && line > INDENT.len() {
            lines.push(INDENT.into());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines
}

/// Takes the uppermost lines away from `area`.
fn take(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let taken = Rect { height, ..*area };
    area.y += height;
    area.height -= height;
    taken
}

/// Takes the lowest lines away from `area`.
fn take_below(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    area.height -= height;
    Rect { y: area.y + area.height, height, ..*area }
}
