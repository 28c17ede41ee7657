//! The block of `run` and `watch` about what limited the workload.

use super::parts;
use crate::doc::{Block, Document, Lead, Text};
use fathom_model::Finding;
use fathom_model::finding::{Confirmed, ConfirmedVerdict};

/// A gain below this ratio is not worth a word.
const GAIN_SHOWN: f64 = 1.05;

/// The verdict among `findings`: the causes with their figures, or how to resolve an inconclusive result.
pub(super) fn limited_by(page: &mut Document, findings: &[Finding]) {
    let mut body = Document::default();
    for cause in findings.iter().filter(|finding| finding.is_verdict()) {
        match (cause.rank, cause.share_explained) {
            (Some(rank), Some(share)) => {
                let key = format!("{rank}. {:.0}%", share * 100.0);
                body.entry(&key, cause.summary.as_str());
                body.entry("", cause.confirmed.as_ref().map_or_else(String::new, confirmed));
                details(&mut body, cause);
            }
            _ => {
                let step = cause.next_step.as_ref();
                let step = step.map_or_else(String::new, |step| format!(" {step}."));
                body.paragraph(format!("{}{step}", cause.summary));
                body.blocks.extend(command(cause).map(|line| Block::Paragraph(line.into())));
            }
        }
    }
    page.lead(Lead::Verdict, "Limited by:", Text::default(), body);
}

/// What an experiment showed about a cause, and how.
fn confirmed(found: &Confirmed) -> String {
    let verdict = verdict(found.verdict);
    let yields = found.ratio.map(|ratio| {
        let (experiment, metric) = (&found.experiment, found.metric.title());
        format!("{experiment} yields {:.2}× the {metric} ({})", ratio.value, ratio.interval())
    });
    let parts: Vec<String> = yields.into_iter().chain(found.reason.clone()).collect();
    format!("{verdict}: {}", parts.join("; "))
}

/// In a few words, as `runs` has them too.
pub(super) fn verdict(verdict: ConfirmedVerdict) -> &'static str {
    match verdict {
        ConfirmedVerdict::Confirmed => "confirmed",
        ConfirmedVerdict::Refuted => "refuted",
        ConfirmedVerdict::Inconclusive => "inconclusive",
        ConfirmedVerdict::NotTested => "not tested",
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
    next_step(body, "", cause);
}

/// What to do about a cause, and the command line that does it.
pub(super) fn next_step(body: &mut Document, key: &str, cause: &Finding) {
    let label = if key.is_empty() { "next: " } else { "" };
    let gain = cause.expected_gain.map(|gain| gain.throughput_ratio_max);
    let gain = gain.filter(|most| *most >= GAIN_SHOWN);
    let gain = gain.map_or_else(String::new, |most| format!(" (gain: at most {most:.1}×)"));
    if let Some(step) = &cause.next_step {
        body.entry(key, format!("{label}{step}{gain}"));
        if let Some(line) = command(cause) {
            body.entry("", line);
        }
    }
}

/// The command line of the next step, where the step does not hold it.
fn command(cause: &Finding) -> Option<String> {
    let step = cause.next_step.as_deref().unwrap_or("");
    let command = cause.next_command.as_ref().filter(|command| !step.contains(*command))?;
    Some(format!("$ {command}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::unwrapped;
    use fathom_model::experiment::Metric;
    use fathom_model::window::Ratio;

    fn shown(confirmed: Confirmed) -> String {
        let cause = Finding {
            rank: Some(1),
            share_explained: Some(0.9),
            summary: "fathom waited for vda 90% of the time.".into(),
            next_step: Some("Compare".into()),
            confirmed: Some(confirmed),
            ..Finding::default()
        };
        let mut page = Document::default();
        limited_by(&mut page, &[cause]);
        unwrapped(&page)
    }

    #[test]
    fn what_an_experiment_showed_is_below_its_cause() {
        let confirmed = |verdict, reason: Option<&str>| Confirmed {
            verdict,
            metric: Metric::Iops,
            ratio: Some(Ratio { value: 1.018, low: 0.98, high: 1.061 }),
            experiment: "doubling the queue depth".into(),
            reason: reason.map(String::from),
        };
        let effect = "doubling the queue depth yields 1.02× the IOPS (95% CI 0.98–1.06)";
        let page = shown(confirmed(ConfirmedVerdict::Confirmed, None));
        let lines: Vec<&str> = page.lines().map(str::trim).collect();
        let at = lines.iter().position(|line| *line == format!("confirmed: {effect}"));
        let at = at.unwrap_or_else(|| panic!("{page}"));
        assert!(
            lines[at - 1].starts_with("1. 90%  ")
                && lines[at - 1].ends_with("90% of the time.")
                && lines[at + 1] == "next: Compare",
            "{page}"
        );
        let page = shown(confirmed(ConfirmedVerdict::Refuted, None));
        assert!(page.contains(&format!("refuted: {effect}\n")), "{page}");
        let page =
            shown(confirmed(ConfirmedVerdict::Inconclusive, Some("the interval is too wide")));
        assert!(
            page.contains(&format!("inconclusive: {effect}; the interval is too wide\n")),
            "{page}"
        );
        let wide = Ratio { value: 1.0, low: 0.0, high: 1e7 };
        let wide =
            Confirmed { ratio: Some(wide), ..confirmed(ConfirmedVerdict::Inconclusive, None) };
        assert!(shown(wide).contains("(95% CI 0.00 to more than 100)"));
        let page = shown(Confirmed::not_tested("no job has fsync"));
        assert!(page.contains("not tested: no job has fsync\n"), "{page}");
    }
}
