//! The first line of a page: which program measured which machine.

use super::parts;
use crate::doc::{Document, Text, plural, text};
use fathom_model::RunRecord;
use fathom_model::facts::Host;

/// `fathom 0.1.0 · Linux 6.12.30 · 16 CPUs (AMD EPYC 9354P)`, and `more`.
pub(super) fn header(version: &str, host: &Host, cpus: u32, more: Text) -> Text {
    let kernel = (!host.kernel.is_empty()).then(|| format!("Linux\u{a0}{}", host.kernel));
    let model = (!host.cpu_model.is_empty()).then(|| format!(" ({})", host.cpu_model));
    let cpus = (cpus > 0).then(|| text!(plural(cpus.into(), "CPU"), model));
    parts([format!("fathom\u{a0}{version}").into(), kernel.into(), cpus.into(), more])
}

/// Begins the page of a run.
pub(super) fn run_header(page: &mut Document, record: &RunRecord) {
    let host = &record.facts.host;
    if !record.fathom_version.is_empty() {
        page.paragraph(header(&record.fathom_version, host, host.cpus_online, Text::default()));
    }
}
