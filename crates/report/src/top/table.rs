//! A table with columns that are dropped on a narrow screen, and rows that can be sorted and selected.

use super::paint::{Paint, Tone};
use fathom_model::{escape, units};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::cmp::Ordering;

/// A table at one instant.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Shown instead of rows where there are none.
    pub note: String,
    /// The columns.
    pub columns: &'static [Column],
    /// The rows, sorted.
    pub rows: Vec<Row>,
    /// Index of the sort column.
    pub sorted: usize,
    /// Ascending order for numbers, descending for text.
    pub reversed: bool,
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its header.
    pub name: &'static str,
    /// Minimum width.
    pub width: u16,
    /// Maximum width.
    pub wide: u16,
    /// Columns with the highest rank are dropped first, those of rank 0 never.
    pub rank: u8,
    /// Holds numbers, which are right-aligned.
    pub number: bool,
}

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    /// Identifies the row across intervals.
    pub key: String,
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Style of the row.
    pub tone: Tone,
}

/// The value in one row and column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text, sorted alphabetically.
    Text(String),
    /// A number and its formatted text, sorted by value.
    Number(f64, String),
}

impl Cell {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(escape::text(&text.into()).into_owned())
    }

    /// A number with a fixed number of decimals.
    #[must_use]
    pub fn fixed(value: f64, decimals: usize) -> Self {
        Self::Number(value, format!("{value:.decimals$}"))
    }

    /// A number with an SI suffix (10^3).
    #[must_use]
    pub fn count(value: f64) -> Self {
        Self::Number(value, units::count(value))
    }

    /// A number; `-` where it is not available.
    #[must_use]
    pub fn optional(value: Option<f64>, write: impl Fn(f64) -> Self) -> Self {
        value.map_or(Self::Number(-1.0, "-".into()), write)
    }

    /// The text.
    #[must_use]
    pub fn shown(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(_, text) => text,
        }
    }

    /// Descending for numbers, ascending for text.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a, _), Self::Number(b, _)) => b.total_cmp(a),
            _ => self.shown().cmp(other.shown()),
        }
    }
}

impl Table {
    /// Sorts the rows by a column; the sort is stable.
    #[must_use]
    pub fn sorted_by(mut self, column: usize, reversed: bool) -> Self {
        self.sorted = column.min(self.columns.len().saturating_sub(1));
        self.reversed = reversed;
        let column = self.sorted;
        self.rows.sort_by(|a, b| {
            let order = match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.order(b),
                _ => Ordering::Equal,
            };
            if reversed { order.reverse() } else { order }
        });
        self
    }

    /// The index of the row with this key; 0 where there is none.
    #[must_use]
    pub fn place(&self, key: Option<&str>) -> usize {
        key.and_then(|key| self.rows.iter().position(|row| row.key == key)).unwrap_or(0)
    }

    /// Draws the header and as many rows as fit, including the selected one.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, paint: Paint, selected: Option<usize>) {
        if area.height == 0 || area.width == 0 {
            return;
        }
        let shown = self.columns_within(area);
        self.draw_names(area, buf, paint, &shown, selected.is_some());
        let room = usize::from(area.height - 1);
        if self.rows.is_empty() && room > 0 {
            let style = paint.of(Tone::Faint);
            buf.set_stringn(area.x + 1, area.y + 1, &self.note, width_left(area, 1), style);
        }
        let first = selected.map_or(0, |place| (place + 1).saturating_sub(room));
        for (line, row) in self.rows.iter().skip(first).take(room).enumerate() {
            let y = area.y + 1 + line as u16;
            let tone = if selected == Some(first + line) { Tone::Selected } else { row.tone };
            buf.set_style(Rect::new(area.x, y, area.width, 1), paint.of(tone));
            self.draw_cells(y, buf, &shown, |column| row.cells.get(column).map(Cell::shown));
        }
        let hidden = self.rows.len().saturating_sub(room);
        if hidden > 0 {
            let text = format!(" {}-{}/{}", first + 1, first + room, self.rows.len());
            let x = (area.x + area.width).saturating_sub(text.chars().count() as u16);
            buf.set_stringn(x, area.y, &text, width_left(area, x - area.x), paint.of(Tone::Title));
        }
    }

    /// The columns that fit, in order, each with its position and width.
    fn columns_within(&self, area: Rect) -> Vec<Place> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |shown: &[usize]| -> u16 {
            shown.iter().map(|index| self.columns[*index].width + 1).sum::<u16>()
        };
        while needed(&shown) > area.width && shown.len() > 1 {
            let rank = |index: &usize| (self.columns[*index].rank, *index);
            let Some(least) = shown.iter().copied().max_by_key(rank) else { break };
            if self.columns[least].rank == 0 {
                break;
            }
            shown.retain(|index| *index != least);
        }
        let mut left = area.width.saturating_sub(needed(&shown));
        let mut x = area.x;
        let place = |index: usize| {
            let column = &self.columns[index];
            let more = column.wide.saturating_sub(column.width).min(left);
            left -= more;
            let room = area.right().saturating_sub(x + 1);
            let place = Place { index, x: x + 1, width: (column.width + more).min(room) };
            x += 1 + column.width + more;
            place
        };
        shown.into_iter().map(place).collect()
    }

    fn draw_names(
        &self,
        area: Rect,
        buf: &mut Buffer,
        paint: Paint,
        places: &[Place],
        focused: bool,
    ) {
        let style = paint.of(if focused { Tone::FocusedTitle } else { Tone::Title });
        buf.set_style(Rect { height: 1, ..area }, style);
        self.draw_cells(area.y, buf, places, |column| Some(self.columns[column].name));
        let Some(place) = places.iter().find(|place| place.index == self.sorted) else { return };
        // The mark goes into the gap to the left of the column.
        let name = self.columns[self.sorted].name.chars().count() as u16;
        let pad =
            if self.columns[self.sorted].number { place.width.saturating_sub(name) } else { 0 };
        let mark = if self.reversed { "▴" } else { "▾" };
        buf.set_stringn(place.x + pad - 1, area.y, mark, 1, style);
    }

    fn draw_cells<'a>(
        &self,
        y: u16,
        buf: &mut Buffer,
        places: &[Place],
        text: impl Fn(usize) -> Option<&'a str>,
    ) {
        for Place { index, x, width } in places {
            let text = text(*index).unwrap_or("");
            let length = text.chars().count() as u16;
            let pad = if self.columns[*index].number { width.saturating_sub(length) } else { 0 };
            buf.set_stringn(x + pad, y, text, (*width).into(), Style::new());
            if length > *width && *width > 0 {
                buf.set_stringn(x + width - 1, y, "…", 1, Style::new());
            }
        }
    }
}

/// Where a column is drawn.
struct Place {
    index: usize,
    x: u16,
    width: u16,
}

/// Width of `area` right of column `x`, which counts from its left edge.
fn width_left(area: Rect, x: u16) -> usize {
    area.width.saturating_sub(x).into()
}
