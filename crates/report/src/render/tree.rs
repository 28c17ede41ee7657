//! Trees as tables: the first column has the branches.

use crate::doc::{DataTable, Tree, TreeNode};
use fathom_model::finding::Severity;

#[derive(Default)]
pub(super) struct TreeRows {
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
