//! The list of files left by killed runs.

use crate::doc::{DataColumn, Document, Text, bytes};
use serde::Serialize;

/// One file of the list.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LeftoverRow {
    /// Its path.
    pub path: String,
    /// What it is.
    pub what: &'static str,
    /// Allocated bytes.
    pub bytes: u64,
    /// Whether it was removed.
    pub removed: bool,
}

/// The files, in the order given.
pub fn leftovers(rows: &[LeftoverRow]) -> Document {
    let mut page = Document::default();
    if rows.is_empty() {
        page.paragraph("no files left by killed runs");
        return page;
    }
    let columns = vec![DataColumn::text("file"), DataColumn::number("size"), DataColumn::text("")];
    let cells = |row: &LeftoverRow| -> Vec<Text> {
        let what = if row.removed { format!("{}, removed", row.what) } else { row.what.into() };
        vec![row.path.as_str().into(), bytes(row.bytes).into(), what.into()]
    };
    page.table(columns, rows.iter().map(cells).collect());
    page
}
