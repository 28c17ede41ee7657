//! The screens of `fathom top`, a pure function of two samples and the user's settings; and the same
//! figures as lines: dstat columns, CSV, NDJSON.

mod detail;
mod disks;
mod gauges;
mod header;
mod help;
mod keys;
mod layers;
pub mod lines;
mod rings;
mod system;
mod threads;
mod ui;

pub use crate::render::screen::{Listing, Paint};
pub use gauges::{otlp, prometheus};
pub use keys::{Go, ScreenAction, press};
pub use ui::{Grouping, Page, Panel, TableUi, Ui};

use crate::calendar::TimeZone;
use crate::render::screen::Tone;
use fathom_analysis::machine::MachineRates;
use fathom_analysis::metrics::Interval;
use fathom_model::escape;
use fathom_model::watch::{DeviceWiring, MachineSample, Stack, Unavailable};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy)]
pub struct TopView<'a> {
    pub before: &'a MachineSample,
    pub now: &'a MachineSample,
    pub rates: &'a MachineRates,
    pub elapsed_ns: u64,
    /// Its end, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Time zone of the times on screen; CSV and NDJSON are in UTC.
    pub zone: &'a TimeZone,
    pub source: TopSource,
    pub stacks: &'a [Stack],
    pub wiring: &'a [DeviceWiring],
    pub missing: &'a [Unavailable],
    /// CPU time of this program in the interval, in nanoseconds; `None` for a replay.
    pub own_ns: Option<u64>,
}

impl<'a> TopView<'a> {
    pub fn interval(&self) -> Interval<'a> {
        Interval { before: self.before, now: self.now, rates: self.rates }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TopSource {
    Live {
        interval_ns: u64,
        /// Paused: age of the interval shown, in nanoseconds.
        frozen: Option<u64>,
        recording: bool,
    },
    Replay {
        first_ns: u64,
        last_ns: u64,
        /// Replay speed, 1 for real time; `None` while paused.
        speed: Option<f64>,
    },
}

pub fn draw(view: &TopView<'_>, ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
    if area.width < 20 || area.height < 4 {
        paint.put(Tone::Plain, "screen too small", area.x, area, buf);
        return;
    }
    let mut rest = area;
    header::draw(view, paint, take(&mut rest, 1), buf);
    let footer = take_below(&mut rest, 1);
    help::footer(ui, view, paint, footer, buf);
    let page = match &ui.page {
        Page::Tables => None,
        Page::Help => Some(help::page()),
        Page::Missing => Some(header::missing_and_overhead(view)),
        Page::Detail(panel, key) => Some(detail::page(view, ui, *panel, key)),
    };
    match page {
        Some(page) => paint.page(&page, ui.scrolled, rest, buf),
        None => draw_tables(view, ui, paint, rest, buf),
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
    paint.put(Tone::Faint, text, area.x, area, buf);
}

pub fn table(view: &TopView<'_>, ui: &Ui, panel: Panel) -> Listing {
    let (table, usual) = match panel {
        Panel::Disks => (disks::table(view, ui), disks::sort()),
        Panel::Threads => (threads::table(view, ui), 0),
        Panel::Layers => (layers::table(view), 0),
        Panel::Rings => (rings::table(view), 2),
    };
    let chosen = panel.of(ui);
    table.sorted_by(chosen.sort.unwrap_or(usual), chosen.reversed)
}

fn draw_tables(view: &TopView<'_>, ui: &Ui, paint: Paint, area: Rect, buf: &mut Buffer) {
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
    let rows = |panel| table(view, ui, panel).keys.len().max(1) as u16 + 1;
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

fn take(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let taken = Rect { height, ..*area };
    area.y += height;
    area.height -= height;
    taken
}

fn take_below(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    area.height -= height;
    Rect { y: area.y + area.height, height, ..*area }
}
