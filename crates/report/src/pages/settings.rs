//! Changed settings, and the results of restoring them.

use crate::doc::{DataColumn, Document, Text};
use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub struct SettingRow {
    pub what: String,
    pub old: String,
    /// The value now, if it can be read.
    pub now: Option<String>,
    /// Whose it is, such as `left by PID 4711`.
    pub state: String,
}

pub fn settings(rows: &[SettingRow]) -> Document {
    let mut page = Document::default();
    if rows.is_empty() {
        page.paragraph("no settings are changed");
        return page;
    }
    let columns = vec![
        DataColumn::text("setting"),
        DataColumn::text("before"),
        DataColumn::text("now"),
        DataColumn::text("by"),
    ];
    let cells = |row: &SettingRow| -> Vec<Text> {
        let now = row.now.as_deref().unwrap_or("unknown");
        vec![
            row.what.as_str().into(),
            row.old.as_str().into(),
            now.into(),
            row.state.as_str().into(),
        ]
    };
    page.table(columns, rows.iter().map(cells).collect());
    page
}

pub fn restored(sentences: &[String]) -> Document {
    let mut page = Document::default();
    if sentences.is_empty() {
        page.paragraph("no settings are changed");
    }
    sentences.iter().for_each(|sentence| page.paragraph(sentence.as_str()));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{self, Style};

    #[test]
    fn changed_settings_are_a_table() {
        let row = SettingRow {
            what: "scheduler of sda=none".into(),
            old: "mq-deadline".into(),
            now: None,
            state: "left by PID 1".into(),
        };
        let text = render::text(&settings(&[row]), Style::default());
        assert!(text.contains("mq-deadline") && text.contains("unknown"), "{text}");
        assert_eq!(render::text(&settings(&[]), Style::default()), "no settings are changed\n");
        assert_eq!(render::text(&restored(&[]), Style::default()), "no settings are changed\n");
    }
}
