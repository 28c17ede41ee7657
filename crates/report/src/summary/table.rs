//! Aligned columns and colours.

use fathom_model::escape;

/// What a [`super::Style`] does to text.
pub(super) trait Style {
    fn red(&self, text: &str) -> String;
    fn yellow(&self, text: &str) -> String;
    fn bold(&self, text: &str) -> String;
    fn dim(&self, text: &str) -> String;
}

impl Style for super::Style {
    fn red(&self, text: &str) -> String {
        painted(*self, "1;31", text)
    }
    fn yellow(&self, text: &str) -> String {
        painted(*self, "1;33", text)
    }
    fn bold(&self, text: &str) -> String {
        painted(*self, "1", text)
    }
    fn dim(&self, text: &str) -> String {
        painted(*self, "2", text)
    }
}

fn painted(style: super::Style, code: &str, text: &str) -> String {
    let text = escape::text(text);
    if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into_owned() }
}

/// Rows of cells; the first column is aligned left, the others right. The first row is dimmed.
pub(crate) fn table(rows: &[Vec<String>], style: super::Style) -> String {
    // Escaped before they are measured: names in them come from outside.
    let escaped =
        |row: &Vec<String>| row.iter().map(|cell| escape::text(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line.push_str(&match column {
                0 => format!(" {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        let line = line.trim_end();
        text.push_str(&if index == 0 { style.dim(line) } else { line.to_string() });
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_keep_columns_aligned_and_colors_out() {
        let rows =
            [["job", "IOPS"], ["a\x1b[31m\n", "1"]].map(|row| row.map(String::from).to_vec());
        let style = super::super::Style { color: false, width: 80 };
        assert_eq!(table(&rows, style), "  job            IOPS\n  a\\x1b[31m\\x0a     1\n");
        let style = super::super::Style { color: true, ..style };
        assert_eq!(style.bold("a\x1b[0m"), "\x1b[1ma\\x1b[0m\x1b[0m");
    }

    #[test]
    fn columns_are_aligned_by_letters_not_bytes() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_string()).collect::<Vec<_>>();
        let rows = [row(&["", "p50"]), row(&["read", "5 µs"]), row(&["trim", "12.3 ms"])];
        let style = super::super::Style { color: false, width: 80 };
        assert_eq!(table(&rows, style), "            p50\n  read     5 µs\n  trim  12.3 ms\n");
    }
}
