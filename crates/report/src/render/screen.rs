//! Documents on the screen of a terminal, as in `top`: lines of figures, tables with a selected row, pages that scroll.

use super::figure::{NumberContext, compact, loose, plain};
use super::text::dense;
use crate::doc::{DataColumn, DataTable, Document, Quantity, Span, Text};
use fathom_model::escape;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style as CellStyle};
use std::cmp::Ordering;

const LABEL: u16 = 6;
const BARS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Width of one CPU with its number and usage: `12 ▃  45%  `.
const CPU: u16 = 11;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paint {
    pub color: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// The name of a figure, or a row without any activity.
    Faint,
    Title,
    FocusedTitle,
    Selected,
    Warning,
    Key,
    Low,
    Middle,
    High,
}

impl Paint {
    pub(crate) fn of(self, tone: Tone) -> CellStyle {
        let plain = CellStyle::new();
        let colored = |color| if self.color { plain.fg(color) } else { plain };
        match tone {
            Tone::Plain => plain,
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Title => plain.add_modifier(Modifier::UNDERLINED),
            Tone::FocusedTitle => plain.add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
            Tone::Selected => plain.add_modifier(Modifier::REVERSED),
            Tone::Warning => colored(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Key => plain.add_modifier(Modifier::BOLD),
            Tone::Low => colored(Color::Green),
            Tone::Middle => colored(Color::Yellow),
            Tone::High => colored(Color::Red),
        }
    }

    /// Writes `text` at column `x` of `area`'s first line, cut at its edge; the column after it.
    pub(crate) fn put(self, tone: Tone, text: &str, x: u16, area: Rect, buf: &mut Buffer) -> u16 {
        if area.height == 0 || x >= area.right() {
            return x;
        }
        buf.set_stringn(x, area.y, text, (area.right() - x).into(), self.of(tone)).0
    }

    /// Draws named values on one line after its label; those that do not fit are left out. A label with a percent sign
    /// is the unit of its shares.
    pub(crate) fn line(self, label: &str, values: &Text, area: Rect, buf: &mut Buffer) {
        self.put(Tone::Key, label, area.x, area, buf);
        let is_bare = label.ends_with('%');
        let mut x = area.x + LABEL;
        for parts in parts(values) {
            let shown = |span: &Span| match span {
                Span::Words(words) => (Tone::Faint, loose(&escape::text(words))),
                Span::Quantity(value) => (Tone::Plain, compact(value, false, is_bare)),
            };
            let shown: Vec<(Tone, String)> = parts.iter().map(shown).collect();
            let width: usize = shown.iter().map(|(_, text)| text.chars().count()).sum();
            if usize::from(x) + width > area.right().into() {
                break;
            }
            x = shown.iter().fold(x, |x, (tone, text)| self.put(*tone, text, x, area, buf)) + 1;
        }
    }

    /// Draws each CPU, with its usage in percent, as a bar of one column; several share a column where there are too
    /// many. A small number of CPUs have their number and usage beside the bar.
    pub(crate) fn cpus(self, cpus: &[(u32, f64)], area: Rect, buf: &mut Buffer) {
        let room = usize::from(area.width.saturating_sub(LABEL));
        if area.height == 0 || room == 0 {
            return;
        }
        self.put(Tone::Key, "cpus", area.x, area, buf);
        let line = |row: usize| Rect { y: area.y + row as u16, height: 1, ..area };
        if cpus.len() * usize::from(CPU) <= room {
            for (place, (cpu, busy)) in cpus.iter().enumerate() {
                let x = area.x + LABEL + place as u16 * CPU;
                let x = self.put(Tone::Faint, &cpu.to_string(), x, area, buf);
                let x = self.put(tone(*busy), bar(*busy), x + 1, area, buf);
                self.put(Tone::Plain, &format!("{busy:3.0}%"), x, area, buf);
            }
            return;
        }
        let each = cpus.len().div_ceil(room * usize::from(area.height)).max(1);
        for (place, group) in cpus.chunks(each).enumerate() {
            // A shared column shows the busiest CPU.
            let busy = group.iter().map(|(_, busy)| *busy).fold(0.0, f64::max);
            let x = area.x + LABEL + (place % room) as u16;
            self.put(tone(busy), bar(busy), x, line(place / room), buf);
        }
        if each > 1 && area.height > 1 {
            self.put(Tone::Faint, &format!("/{each}"), area.x, line(1), buf);
        }
    }

    /// Draws a page, scrolled down by `scrolled` lines.
    pub(crate) fn page(self, page: &Document, scrolled: usize, area: Rect, buf: &mut Buffer) {
        let text = dense(page, area.width.into());
        let last = text.lines().count().saturating_sub(area.height.into());
        let lines = text.lines().skip(scrolled.min(last)).take(area.height.into());
        for (row, line) in lines.enumerate() {
            let line_area = Rect { y: area.y + row as u16, height: 1, ..area };
            let mut x = area.x;
            for (place, part) in line.split("\x1b[").enumerate() {
                let (code, part) = part.split_once('m').filter(|_| place > 0).unwrap_or(("", part));
                let tone = match code {
                    "1" => Tone::Key,
                    "2" => Tone::Faint,
                    "" | "0" => Tone::Plain,
                    _ => Tone::Warning,
                };
                x = self.put(tone, part, x, line_area, buf);
            }
        }
    }
}

/// How many lines the bars of CPUs take on a screen of this size.
pub(crate) fn cpu_lines(cpus: usize, area: Rect) -> u16 {
    let width = usize::from(area.width.saturating_sub(LABEL).max(1));
    let most = if area.height > 40 { 4 } else { 2 };
    cpus.div_ceil(width).clamp(1, most) as u16
}

fn bar(busy: f64) -> &'static str {
    // Low usage must differ from none.
    let eighths = if busy < 0.5 { 0 } else { (busy / 12.5).round().clamp(1.0, 8.0) as usize };
    BARS[eighths]
}

fn tone(busy: f64) -> Tone {
    match busy {
        90.0.. => Tone::High,
        50.0.. => Tone::Middle,
        _ => Tone::Low,
    }
}

fn parts(text: &Text) -> Vec<Vec<Span>> {
    let mut parts = vec![Vec::new()];
    for span in &text.spans {
        let pieces: Vec<Span> = match span {
            Span::Words(words) => words.split(' ').map(|word| Span::Words(word.into())).collect(),
            Span::Quantity(_) => vec![span.clone()],
        };
        for (place, piece) in pieces.into_iter().enumerate() {
            match parts.last_mut().filter(|_| place == 0) {
                Some(part) => part.push(piece),
                None => parts.push(vec![piece]),
            }
        }
    }
    parts
}

#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub table: DataTable,
    /// For each row, what identifies it across intervals.
    pub keys: Vec<String>,
    /// Shown instead of rows where there are none.
    pub note: String,
    pub sorted: usize,
    pub reversed: bool,
}

struct PlacedColumn {
    index: usize,
    x: u16,
    width: u16,
}

impl Listing {
    pub(crate) fn new(
        columns: Vec<DataColumn>,
        rows: Vec<Vec<Text>>,
        keys: Vec<String>,
        note: String,
    ) -> Self {
        let table = DataTable { columns, rows, ..DataTable::default() };
        Self { table, keys, note, ..Self::default() }
    }

    /// Sorts the rows by a column; the sort is stable.
    pub fn sorted_by(mut self, column: usize, reversed: bool) -> Self {
        let column = column.min(self.table.columns.len().saturating_sub(1));
        let mut rows: Vec<_> = self.table.rows.into_iter().zip(self.keys).collect();
        rows.sort_by(|(a, _), (b, _)| {
            let order =
                a.get(column).zip(b.get(column)).map_or(Ordering::Equal, |(a, b)| order(a, b));
            if reversed { order.reverse() } else { order }
        });
        (self.table.rows, self.keys) = rows.into_iter().unzip();
        (self.sorted, self.reversed) = (column, reversed);
        self
    }

    /// The index of the row with this key; 0 where there is none.
    pub fn place(&self, key: Option<&str>) -> usize {
        key.and_then(|key| self.keys.iter().position(|row| row == key)).unwrap_or(0)
    }

    /// Draws the header and as many rows as fit, including the selected one.
    pub(crate) fn draw(&self, area: Rect, buf: &mut Buffer, paint: Paint, selected: Option<usize>) {
        if area.height == 0 || area.width == 0 {
            return;
        }
        let columns = self.columns_within(area);
        self.draw_names(area, buf, paint, &columns, selected.is_some());
        let line = |row: usize| Rect { y: area.y + 1 + row as u16, height: 1, ..area };
        let rows = &self.table.rows;
        let room = usize::from(area.height - 1);
        if rows.is_empty() && room > 0 {
            paint.put(Tone::Faint, &self.note, area.x + 1, line(0), buf);
        }
        let first = selected.map_or(0, |place| (place + 1).saturating_sub(room));
        for (at, row) in rows.iter().enumerate().skip(first).take(room) {
            let line = line(at - first);
            let tone = match is_idle(row) {
                _ if selected == Some(at) => Tone::Selected,
                true => Tone::Faint,
                false => Tone::Plain,
            };
            buf.set_style(line, paint.of(tone));
            self.draw_cells(line, buf, &columns, |column| row.get(column).map(cell));
        }
        if rows.len() > room {
            let text = format!(" {}-{}/{}", first + 1, first + room, rows.len());
            let x = area.right().saturating_sub(text.chars().count() as u16).max(area.x);
            paint.put(Tone::Title, &text, x, area, buf);
        }
    }

    /// The columns that fit, in order, each with its position and width.
    fn columns_within(&self, area: Rect) -> Vec<PlacedColumn> {
        let all = &self.table.columns;
        let mut shown: Vec<usize> = (0..all.len()).collect();
        let needed = |shown: &[usize]| shown.iter().map(|at| all[*at].width.0 + 1).sum::<u16>();
        while needed(&shown) > area.width && shown.len() > 1 {
            let least = shown.iter().copied().max_by_key(|at| (all[*at].rank, *at));
            let Some(least) = least.filter(|at| all[*at].rank > 0) else { break };
            shown.retain(|index| *index != least);
        }
        let mut left = area.width.saturating_sub(needed(&shown));
        let mut x = area.x;
        let column = |index: usize| {
            let (least, most) = all[index].width;
            let more = most.saturating_sub(least).min(left);
            left -= more;
            let room = area.right().saturating_sub(x + 1);
            let column = PlacedColumn { index, x: x + 1, width: (least + more).min(room) };
            x += 1 + least + more;
            column
        };
        shown.into_iter().map(column).collect()
    }

    fn draw_names(
        &self,
        area: Rect,
        buf: &mut Buffer,
        paint: Paint,
        all: &[PlacedColumn],
        focused: bool,
    ) {
        let style = paint.of(if focused { Tone::FocusedTitle } else { Tone::Title });
        let line = Rect { height: 1, ..area };
        buf.set_style(line, style);
        self.draw_cells(line, buf, all, |column| Some(self.table.columns[column].name.clone()));
        let Some(place) = all.iter().find(|place| place.index == self.sorted) else { return };
        let column = &self.table.columns[self.sorted];
        let name = column.name.chars().count() as u16;
        let pad = if column.is_text { 0 } else { place.width.saturating_sub(name) };
        // The mark goes into the gap to the left of the column.
        let mark = if self.reversed { "▴" } else { "▾" };
        buf.set_stringn(place.x + pad - 1, area.y, mark, 1, style);
    }

    fn draw_cells(
        &self,
        line: Rect,
        buf: &mut Buffer,
        columns: &[PlacedColumn],
        text: impl Fn(usize) -> Option<String>,
    ) {
        for PlacedColumn { index, x, width } in columns {
            let text = text(*index).unwrap_or_default();
            let length = text.chars().count() as u16;
            let is_text = self.table.columns[*index].is_text;
            let pad = if is_text { 0 } else { width.saturating_sub(length) };
            buf.set_stringn(x + pad, line.y, text, (*width).into(), CellStyle::new());
            if length > *width && *width > 0 {
                buf.set_stringn(x + width - 1, line.y, "…", 1, CellStyle::new());
            }
        }
    }
}

fn cell(text: &Text) -> String {
    match text.spans.as_slice() {
        [Span::Quantity(value)] => compact(value, true, false),
        _ => plain(text, NumberContext::Cell),
    }
}

/// Whether all that a row counts is 0.
fn is_idle(row: &[Text]) -> bool {
    row.iter().all(|cell| cell.quantity().is_none_or(|quantity| quantity.value == 0.0))
}

/// Descending for numbers, the missing ones last; ascending for text.
fn order(a: &Text, b: &Text) -> Ordering {
    match (a.quantity(), b.quantity()) {
        (None, None) => plain(a, NumberContext::Cell).cmp(&plain(b, NumberContext::Cell)),
        (a, b) => {
            let of = |value: Option<Quantity>| value.map_or(f64::NEG_INFINITY, |value| value.value);
            of(b).total_cmp(&of(a))
        }
    }
}
