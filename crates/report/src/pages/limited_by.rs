//! The last block of `run` and `watch`: what limited the workload.

use super::parts;
use crate::doc::{Document, Text};
use fathom_model::Finding;

/// The verdict among `findings`: the causes with their figures, or how to resolve an inconclusive result.
pub(super) fn limited_by(page: &mut Document, findings: &[Finding]) {
    let mut body = Document::default();
    for cause in findings.iter().filter(|finding| finding.is_verdict()) {
        match (cause.rank, cause.share_explained) {
            (Some(rank), Some(_)) => {
                body.entry(&format!("{rank}."), cause.summary.as_str());
                details(&mut body, cause);
            }
            _ => {
                let step = cause.next_step.as_ref();
                let step = step.map_or_else(String::new, |step| format!(" {step}."));
                body.paragraph(format!("{}{step}", cause.summary));
            }
        }
    }
    if !body.blocks.is_empty() {
        page.section("Limited by:", Text::default(), body);
    }
}

fn details(body: &mut Document, cause: &Finding) {
    if !cause.evidence.is_empty() {
        let evidence = cause.evidence.iter().map(|evidence| {
            let source = match evidence.source.as_str() {
                "" => String::new(),
                source => format!(" ({source})"),
            };
            format!("{evidence}{source}").into()
        });
        body.entry("", parts(evidence));
    }
    if let Some(step) = &cause.next_step {
        body.entry("", format!("next: {step}"));
    }
}

/// How a verdict differs from that of the findings `before`, which the record holds.
pub fn judged_anew(before: &[Finding], now: &[Finding]) -> Document {
    let mut body = Document::default();
    let missing = |from: &'_ Finding, all: &[Finding]| {
        !all.iter().any(|other| (&other.rule, &other.summary) == (&from.rule, &from.summary))
    };
    for (name, from, all) in [("no longer", before, now), ("new", now, before)] {
        for finding in from.iter().filter(|finding| missing(finding, all)) {
            body.entry(name, format!("{}: {}", finding.rule, finding.summary));
        }
    }
    if body.blocks.is_empty() {
        body.paragraph("the findings are those of the record");
    }
    let mut page = Document::default();
    page.section("Judged anew:", Text::default(), body);
    page
}
