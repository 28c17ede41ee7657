//! Renders documents as text, Markdown and HTML.

mod chart;
mod figure;
mod html;
mod markdown;
pub mod screen;
mod svg;
mod text;

pub(crate) use figure::{milliseconds, number};
pub use html::html;
pub(crate) use html::markup;
pub use markdown::markdown;
pub(crate) use svg::shortened;
pub use text::text;

use crate::doc::{DataTable, Text, Tree, TreeNode};
use fathom_model::finding::Severity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 100 }
    }
}

pub fn line(text: &Text) -> String {
    figure::plain(text, figure::NumberContext::Sentence)
}

#[cfg(test)]
use crate::doc::Document;

#[cfg(test)]
pub(crate) fn unwrapped(document: &Document) -> String {
    text(document, Style { color: false, width: 4000 })
}

/// Checks that the document's lines fit terminals, that no word is broken and no number parted from its unit.
#[cfg(test)]
pub(crate) fn assert_fits(document: &Document) {
    let whole = unwrapped(document);
    let is_whole = |word: &str| whole.contains(word.trim_end_matches(':')) || word == "·";
    for width in [60, 80, 120] {
        let text = text(document, Style { color: false, width });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
            assert!(line.split_whitespace().all(is_whole), "{width}: {line}\n{text}");
            let first = line.split_whitespace().next().unwrap_or_default();
            let units = ["ns", "µs", "ms", "KiB", "MiB/s", "GiB/s", "IOPS,"];
            assert!(!units.contains(&first), "{width}: {line}\n{text}");
        }
    }
}

#[derive(Default)]
struct TreeRows {
    pub table: DataTable,
    /// For each row, the prefix of its first line and of further ones.
    pub branches: Vec<(String, String)>,
    pub severities: Vec<Option<Severity>>,
}

impl TreeRows {
    pub fn of(tree: &Tree) -> Self {
        let mut rows = Self::default();
        rows.table.columns.clone_from(&tree.columns);
        for root in &tree.roots {
            rows.add(root, "", ("", ""));
        }
        rows
    }

    /// Adds a node whose ancestors have the branches `before`, and its children.
    fn add(&mut self, node: &TreeNode, before: &str, (first, rest): (&str, &str)) {
        let below = format!("{before}{rest}");
        let wrapped = if node.children.is_empty() { "" } else { "│" };
        self.branches.push((format!("{before}{first}"), format!("{below}{wrapped:<2}")));
        self.severities.push(node.severity);
        self.table.rows.push(node.cells.clone());
        for (index, child) in node.children.iter().enumerate() {
            let is_last = index + 1 == node.children.len();
            self.add(child, &below, if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
