//! What several machines have in common, and which of them differ.

use crate::doc::{DataColumn, Document, Text, whole};
#[cfg(test)]
use fathom_analysis::hosts::HostsFailed;
use fathom_analysis::hosts::{HostDifference, HostsFinding, HostsReport, OtherValue};
use fathom_model::finding::Severity;
use fathom_model::{escape, list};

/// Up to this many hosts are named at one place.
const NAMED: usize = 3;
const ABSENT: &str = "absent";

/// The answer, what differs, and what was found on how many; hints only if `verbose`.
pub fn hosts(report: &HostsReport, verbose: bool) -> Document {
    let mut page = Document::default();
    page.paragraph(answer(report));
    for failed in &report.failed {
        let reason = escape::text(&failed.reason);
        page.paragraph(format!("Not inspected: {}: {reason}", names(&failed.hosts)));
    }
    let all = report.differences.iter();
    let (columns, rows): (Vec<&str>, Vec<Vec<Text>>) = match report.hosts.as_slice() {
        [first, second] => (vec!["differs", "of", first, second], all.map(row_of_two).collect()),
        _ => (vec!["differs", "of", "most have", "hosts", "others have"], all.map(row).collect()),
    };
    if !rows.is_empty() {
        page.table(columns.into_iter().map(DataColumn::text).collect(), rows);
    }
    let mut body = Document::default();
    let shown = |one: &&HostsFinding| verbose || one.finding.severity > Severity::Info;
    for one in report.findings.iter().filter(shown) {
        let who = match one.hosts.len() {
            all if all == report.hosts.len() => format!("all {all}"),
            some => format!("{some} of {} ({})", report.hosts.len(), names(&one.hosts)),
        };
        body.entry(&one.finding.rule, format!("on {who}: {}", one.finding.summary));
    }
    page.section_if_any("findings", "on how many hosts, as on the first of them", body);
    page
}

fn answer(report: &HostsReport) -> String {
    let noun = |count: usize| if count == 1 { "property" } else { "properties" };
    if let [first, second] = report.hosts.as_slice() {
        let both = format!("{} and {}", escape::text(first), escape::text(second));
        return match report.differences.len() {
            0 => format!("{both} do not differ."),
            count => format!("{both} differ in {count} {}.", noun(count)),
        };
    }
    let all = report.hosts.len();
    if all == 0 {
        return "No host was inspected.".into();
    }
    let hosts = report.hosts.iter().zip(&report.differs);
    let mut differ: Vec<(&String, usize)> =
        hosts.filter(|(_, count)| **count > 0).map(|(host, count)| (host, *count)).collect();
    if differ.is_empty() {
        return format!("All {all} hosts agree.");
    }
    differ.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = |(host, count): &(&String, usize)| {
        format!("{} differs in {count} {}", escape::text(host), noun(*count))
    };
    let said: Vec<String> = differ.iter().map(said).collect();
    format!("{} of {all} hosts agree; {}.", all - differ.len(), list::few(&said, NAMED))
}

fn row(one: &HostDifference) -> Vec<Text> {
    let other = |other: &OtherValue| format!("{} on {}", value(&other.value), names(&other.hosts));
    let others: Vec<String> = one.others.iter().map(other).collect();
    let [title, subject] = named(one);
    let count = whole(one.hosts as u64);
    vec![title, subject, value(&one.most).into(), count.into(), others.join("; ").into()]
}

/// Of two, the value of the first is that of most.
fn row_of_two(one: &HostDifference) -> Vec<Text> {
    let [title, subject] = named(one);
    let second = one.others.first().map(|other| value(&other.value));
    vec![title, subject, value(&one.most).into(), Text::from(second)]
}

fn named(one: &HostDifference) -> [Text; 2] {
    let subject = if one.subject.is_empty() { "machine" } else { &one.subject };
    [one.title.as_str().into(), escape::text(subject).into_owned().into()]
}

fn value(value: &Option<String>) -> String {
    escape::text(value.as_deref().unwrap_or(ABSENT)).into_owned()
}

fn names(hosts: &[String]) -> String {
    let escaped: Vec<_> = hosts.iter().map(|host| escape::text(host)).collect();
    list::few(&escaped, NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{self, Style};

    #[test]
    fn the_answer_names_who_differs() {
        let hosts: Vec<String> = (0..40).map(|n| format!("node{n}")).collect();
        let differs = |title: &str, most: Option<&str>| HostDifference {
            title: title.into(),
            subject: "nvme0n1".into(),
            most: most.map(String::from),
            hosts: 39,
            others: vec![OtherValue { value: Some("bfq".into()), hosts: vec!["node17".into()] }],
        };
        let mut counts = vec![0; 40];
        counts[17] = 2;
        let report = HostsReport {
            hosts: hosts.clone(),
            differs: counts,
            failed: vec![HostsFailed { hosts: vec!["node40".into()], reason: "no disk".into() }],
            differences: vec![differs("I/O scheduler", Some("none")), differs("firmware", None)],
            findings: vec![HostsFinding { hosts: hosts[..2].to_vec(), ..HostsFinding::default() }],
        };
        let text = render::text(&super::hosts(&report, true), Style::default());
        let answer = "39 of 40 hosts agree; node17 differs in 2 properties.";
        for said in
            [answer, "bfq on node17", "absent", "on 2 of 40 (node0, node1)", "node40: no disk"]
        {
            assert!(text.contains(said), "{text}");
        }
        let two = HostsReport { hosts: hosts[..2].to_vec(), ..report };
        let text = render::text(&super::hosts(&two, true), Style::default());
        assert!(text.contains("node0 and node1 differ in 2 properties."), "{text}");
        let same = HostsReport { hosts, ..HostsReport::default() };
        assert_eq!(super::answer(&same), "All 40 hosts agree.");
    }
}
