//! The last block of `run` and `watch`: what limited the workload.

use super::parts;
use super::watch::Observed;
use crate::doc::{Document, Text, text};
use fathom_analysis::rules::{Limiters, limiters};
use fathom_model::{Finding, RunRecord};

/// Names the causes with their figures, or how to resolve an inconclusive result.
pub(super) fn limited_by(page: &mut Document, record: &RunRecord, observed: &Observed) {
    if observed.seen.samples == 0 {
        return;
    }
    let mut body = Document::default();
    match limiters(record, observed.seen, observed.stacks) {
        Limiters::Found(causes) => {
            for (place, cause) in causes.iter().enumerate() {
                body.entry(&format!("{}.", place + 1), cause.summary.as_str());
                details(&mut body, cause);
            }
        }
        Limiters::Inconclusive(settle) => body.paragraph(text!("inconclusive: ", settle, ".")),
    }
    page.section("Limited by:", Text::default(), body);
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
