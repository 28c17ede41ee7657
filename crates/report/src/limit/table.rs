//! A plain text table: the first two columns to the left, figures to the right.

use fathom_model::escape;

/// Columns that hold names.
const NAMES: usize = 2;

/// A table with a header.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|h| (*h).to_string()).collect()] }
    }

    /// Adds a row, which may have fewer cells than the header.
    pub fn row(&mut self, cells: Vec<String>) {
        let escaped = cells.iter().map(|cell| escape::text(cell).into_owned());
        self.rows.push(escaped.collect());
    }

    /// Columns are as wide as their widest cell, counted in characters.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                let (before, after) =
                    if c < NAMES { ("", pad.as_str()) } else { (pad.as_str(), "") };
                line += &format!("  {before}{cell}{after}");
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}
