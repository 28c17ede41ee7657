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
#[cfg(test)]
pub(crate) use tests::{assert_fits, unwrapped};
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
