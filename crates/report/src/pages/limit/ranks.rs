//! What each of several machines did at the peaks.

use crate::doc::{DataColumn, Document, Text, count, percent, plural, text, time};
use crate::pages::run::ranks::{SHOWN, kernels, selected};
use fathom_model::escape;
use fathom_model::limit::{LimitRank, LimitRecord, RankPeak, TargetLimit};

/// A table for each kind of I/O; of many ranks, the median and the extremes have rows.
pub(super) fn ranks(page: &mut Document, record: &LimitRecord) {
    let all = &record.ranks;
    if all.is_empty() {
        return;
    }
    let cores = all.iter().fold(0_u64, |sum, rank| sum + u64::from(rank.cores));
    let mut body = Document::default();
    for (target, limit) in record.report.targets.iter().enumerate() {
        for spec in &record.config.blocks {
            let is_of = |peak: &&RankPeak| {
                (peak.target, peak.block_bytes, peak.rw) == (target, spec.block_bytes, spec.rw)
            };
            let peaks: Vec<(&LimitRank, &RankPeak)> = all
                .iter()
                .filter_map(|rank| Some((rank, rank.at_peaks.iter().find(is_of)?)))
                .collect();
            if !peaks.is_empty() {
                table(&mut body, &title(record, limit, &spec.name()), peaks);
            }
        }
    }
    kernels(&mut body, all.iter().map(|rank| (rank.kernel.as_str(), rank.hostname.as_str())));
    let about = text!(
        plural(all.len() as u64, "rank"),
        " measured together, with ",
        plural(cores, "CPU"),
        "; the workers of each setting were spread over them"
    );
    page.section("ranks", about, body);
}

fn title(record: &LimitRecord, limit: &TargetLimit, kind: &str) -> String {
    match record.report.targets.len() {
        1 => format!("{kind}, host"),
        _ => format!("{kind} of {}, host", escape::text(&limit.name)),
    }
}

fn table(body: &mut Document, title: &str, mut peaks: Vec<(&LimitRank, &RankPeak)>) {
    let columns = vec![
        DataColumn::text(title),
        DataColumn::number("workers"),
        DataColumn::number("IOPS"),
        DataColumn::number("p99"),
        DataColumn::number("CPUs busy"),
    ];
    let row = |name: String, (_, peak): &(&LimitRank, &RankPeak)| -> Vec<Text> {
        vec![
            name.into(),
            count(f64::from(peak.workers)).into(),
            Text::from(peak.iops.map(count)),
            Text::from(peak.clat_p99_ns.map(|ns| time(ns as f64))),
            Text::from(peak.cpu.map(|cpu| percent(100.0 * cpu.taken()))),
        ]
    };
    // Of many, those without workers are not the slowest.
    if peaks.len() > SHOWN {
        peaks.retain(|(_, peak)| peak.iops.is_some());
    }
    let host = |one: &(&LimitRank, &RankPeak)| escape::text(&one.0.hostname).into_owned();
    let rows = selected(peaks, |one| one.1.iops.unwrap_or(0.0), host, row);
    body.table(columns, rows);
}
