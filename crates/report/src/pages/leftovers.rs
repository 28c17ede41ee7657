//! The list of files left by killed runs.

use crate::doc::{DataColumn, Document, Text, bytes};
use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub struct LeftoverRow {
    pub path: String,
    pub what: &'static str,
    pub bytes: u64,
    pub removed: bool,
}

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
