//! What each of several machines did.

use crate::doc::{DataColumn, Document, Text, bandwidth, count, text, time, whole};
use fathom_analysis::derive;
use fathom_analysis::ranks::of_rank;
use fathom_model::histogram::Histogram;
use fathom_model::record::{JobRecord, RankRecord, RunRecord};
use fathom_model::{escape, list, units};

/// Up to this many ranks have a row each; of more, the median and these extremes.
pub(in crate::pages) const SHOWN: usize = 8;
const WORST: usize = 3;

/// When they started and ended, and a row for each; the slowest first where not all are shown.
pub(super) fn ranks(page: &mut Document, record: &RunRecord) {
    let all: Vec<(usize, &RankRecord, JobRecord)> = record
        .ranks
        .iter()
        .enumerate()
        .map(|(number, rank)| (number, rank, of_rank(record, rank)))
        .collect();
    let Some(about) = about(&record.ranks) else { return };
    let columns = vec![
        DataColumn::text("host"),
        DataColumn::number("rank"),
        DataColumn::number("IOPS"),
        DataColumn::number("bandwidth"),
        DataColumn::number("p99"),
        DataColumn::number("started").ranked(1),
        DataColumn::text("limited by").ranked(2),
    ];
    let rows = selected(all, |one| iops(&one.2), |one| host(one.1), row);
    let mut body = Document::default();
    body.table(columns, rows);
    kernels(
        &mut body,
        record.ranks.iter().map(|rank| (rank.kernel.as_str(), rank.hostname.as_str())),
    );
    page.section("ranks", about, body);
}

/// A row for each; of many, the median, the slowest, and the fastest.
pub(in crate::pages) fn selected<T>(
    mut all: Vec<T>,
    iops: impl Fn(&T) -> f64,
    host: impl Fn(&T) -> String,
    row: impl Fn(String, &T) -> Vec<Text>,
) -> Vec<Vec<Text>> {
    let named = |one: &T| row(host(one), one);
    if all.len() <= SHOWN {
        return all.iter().map(named).collect();
    }
    all.sort_by(|a, b| iops(a).total_cmp(&iops(b)));
    let median = all.get(all.len() / 2).map(|one| row("median".into(), one));
    let slowest = all.iter().take(WORST).map(named);
    median.into_iter().chain(slowest).chain(all.last().map(named)).collect()
}

/// On which machines each kernel runs, or on how many, if they differ.
pub(in crate::pages) fn kernels<'a>(
    body: &mut Document,
    of_ranks: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) {
    let all = list::ascending(of_ranks.clone().map(|(kernel, _)| kernel));
    if all.len() > 1 {
        let of = |kernel: &&str| {
            let with = of_ranks.clone().filter(|(other, _)| other == kernel);
            let hosts = list::ascending(with.map(|(_, host)| host));
            let hosts = match hosts.len() {
                few if few <= WORST => {
                    hosts.iter().map(|host| escape::text(host)).collect::<Vec<_>>().join(", ")
                }
                many => many.to_string(),
            };
            format!("{} on {hosts}", escape::text(kernel))
        };
        body.entry("kernels differ:", all.iter().map(of).collect::<Vec<_>>().join(", "));
    }
}

/// How many there are, and how close together they started.
fn about(ranks: &[RankRecord]) -> Option<String> {
    let start = ranks.iter().map(|rank| rank.started_ns).max()?;
    let error = ranks.iter().map(|rank| rank.clock_error_ns).max()?;
    let first = ranks.iter().min_by_key(|rank| rank.ended_ns)?;
    let last = ranks.iter().max_by_key(|rank| rank.ended_ns)?;
    let after = |ns: u64| units::time(ns as f64);
    Some(format!(
        "{} started within {} (clocks agree within {}); {} ended first, {} {} later",
        ranks.len(),
        after(start),
        after(error),
        host(first),
        host(last),
        after(last.ended_ns - first.ended_ns)
    ))
}

fn host(rank: &RankRecord) -> String {
    escape::text(&rank.hostname).into_owned()
}

fn iops(done: &JobRecord) -> f64 {
    derive::per_second(derive::ios(done), done.runtime_ns)
}

fn row(name: String, (number, rank, done): &(usize, &RankRecord, JobRecord)) -> Vec<Text> {
    let mut latency = Histogram::default();
    for (_, dir) in done.dirs.iter() {
        latency.merge(if dir.lat.is_empty() { &dir.clat } else { &dir.lat });
    }
    let p99 = latency.percentile(99.0).map_or_else(Text::default, |ns| time(ns as f64).into());
    let limited = rank.limited_by.as_ref();
    let limited = limited.map(|found| found.limited_by.as_deref().unwrap_or(&found.rule));
    vec![
        name.into(),
        whole(*number as u64).into(),
        count(iops(done)).into(),
        bandwidth(derive::per_second(derive::bytes(done), done.runtime_ns)).into(),
        p99,
        text!("+", time(rank.started_ns as f64)),
        limited.unwrap_or_default().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{self, Style};

    #[test]
    fn few_hosts_with_another_kernel_are_named() {
        let hosts = ["node0", "node1", "node2", "node3", "node4"];
        let page = |odd: &str| {
            let kernel = |host: &'static str| (if host == odd { "6.1" } else { "7.3" }, host);
            let mut body = Document::default();
            kernels(&mut body, hosts.into_iter().map(kernel));
            render::text(&body, Style::default())
        };
        assert!(page("node3").contains("6.1 on node3, 7.3 on 4"), "{}", page("node3"));
        assert!(!page("none").contains("kernels"));
    }
}
