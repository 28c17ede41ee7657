//! `fathom report`: recorded runs on one page.

use super::header::command_line;
use super::runs::RunSummary;
use crate::doc::{DataColumn, Document, Text};

/// A run of a report.
#[derive(Debug)]
pub struct ReportedRun {
    /// Its name.
    pub name: String,
    pub summary: RunSummary,
    /// Its own page.
    pub page: Document,
}

/// The page of a single run; of several a table of all, then a section for each.
pub fn report(runs: Vec<ReportedRun>) -> Document {
    let mut page = Document::default();
    if runs.len() == 1 {
        return runs.into_iter().map(|run| run.page).next().unwrap_or_default();
    }
    let columns = vec![
        DataColumn::text("run"),
        DataColumn::text("result"),
        DataColumn::text("limited by").ranked(1),
        DataColumn::cut("command").ranked(2),
    ];
    let row = |run: &ReportedRun| -> Vec<Text> {
        vec![
            run.name.as_str().into(),
            run.summary.headline.clone(),
            run.summary.limits.join(", ").into(),
            command_line(run.summary.command.get(1..).unwrap_or_default()).into(),
        ]
    };
    page.table(columns, runs.iter().map(row).collect());
    for ReportedRun { name, page: own, .. } in runs {
        let mut body = Document::default();
        let mut about = Text::default();
        if let Some(heading) = &own.heading {
            about = heading.line().into();
            body.entry("machine", heading.machine.clone());
            body.entry("storage", heading.devices.clone());
            body.entry("command", heading.command.as_str());
        }
        body.blocks.extend(own.blocks);
        page.named(&name, about, body);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::runs::{RunRow, runs};
    use super::*;
    use crate::calendar::TimeZone;
    use crate::render::markdown;

    #[test]
    fn command_lines_are_quoted_for_the_shell() {
        let command = ["fathom", "run", "--name=my job", "a'b"].map(String::from).to_vec();
        let summary = RunSummary { command, ..RunSummary::default() };
        let run = |name: &str| ReportedRun {
            name: name.into(),
            summary: summary.clone(),
            page: Document::default(),
        };
        let row = RunRow { summary: summary.clone(), ..RunRow::default() };
        for page in [report(vec![run("a"), run("b")]), runs(&[row], &TimeZone::UTC)] {
            let text = markdown(&page);
            assert!(text.contains(r"run '--name=my job' 'a'\\''b'"), "{text}");
        }
    }
}
