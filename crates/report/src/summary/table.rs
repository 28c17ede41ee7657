//! Aligned columns and colours.

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
    if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}

/// Rows of cells; the first column is aligned left, the others right. The first row is dimmed.
pub(crate) fn table(rows: &[Vec<String>], style: super::Style) -> String {
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
    fn columns_are_aligned_by_letters_not_bytes() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_string()).collect::<Vec<_>>();
        let rows = [row(&["", "p50"]), row(&["read", "5 µs"]), row(&["trim", "12.3 ms"])];
        let style = super::super::Style { color: false, width: 80 };
        assert_eq!(table(&rows, style), "            p50\n  read     5 µs\n  trim  12.3 ms\n");
    }
}
