//! Latencies of system calls.

use super::percentile;
use crate::doc::{DataColumn, Document, Text, count, events, number, of, percent, text, time};
use fathom_analysis::calls::call_rates;
use fathom_model::watch::CallsSample;

/// A smaller part of the time than this is given: calls were recorded in windows.
const PART_MIN: f64 = 0.98;

/// A row for each system call; nothing without any.
pub(super) fn calls(page: &mut Document, sample: &CallsSample, elapsed_ns: u64) {
    let rates = call_rates(sample);
    if rates.is_empty() {
        return;
    }
    let any_failed = rates.iter().any(|of| of.failed > 0.0);
    let mut columns = vec![DataColumn::text("call")];
    let numbers = [("calls/s", 0), ("threads", 2), ("p50", 0), ("p99", 0), ("max", 1)];
    columns.extend(numbers.map(|(name, rank)| DataColumn::number(name).ranked(rank)));
    columns.extend(any_failed.then(|| DataColumn::number("failed").ranked(1)));
    columns.push(DataColumn::number("samples").ranked(1));
    let rows = rates.iter().map(|call| {
        let at = |percent| {
            percentile(call.latency, percent).map_or_else(|| "-".into(), |ns| time(ns).into())
        };
        let mut row: Vec<Text> = vec![call.call.into(), count(call.rate).into()];
        row.push(match call.threads {
            ..0.005 => "<0.01".into(),
            threads => number(threads).into(),
        });
        row.extend([at(50.0), at(99.0), time(call.latency.max_ns() as f64).into()]);
        row.extend(any_failed.then(|| percent(call.failed * 100.0).into()));
        row.push(events(call.latency.count()).into());
        row
    });
    let mut body = Document::default();
    body.table(columns, rows.collect());
    let part = sample.seen_ns as f64 / elapsed_ns.max(1) as f64;
    if part < PART_MIN {
        let part = percent(part * 100.0);
        body.paragraph(text!(
            "calls/s and threads are estimated: recorded ",
            part,
            " of the time."
        ));
    }
    if sample.lost > 0 {
        let lost = of(events(sample.lost), "records lost");
        body.paragraph(text!(lost, ": a buffer was full, so long calls may be underrepresented."));
    }
    if sample.unfinished > 0 {
        let calls = of(events(sample.unfinished), "calls");
        body.paragraph(text!(calls, " had not returned after 1 s, and are not included."));
    }
    page.section("calls", "reads, writes and flushes of files", body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{self, Style, assert_fits};
    use fathom_model::watch::CallTimes;

    fn sample() -> CallsSample {
        let mut fsync = CallTimes { call: "fsync".into(), failed: 1, ..CallTimes::default() };
        fsync.latency.record_n(2_000_000, 199);
        fsync.latency.record_n(9_000_000, 1);
        let mut read = CallTimes { call: "pread64".into(), ..CallTimes::default() };
        read.latency.record_n(90_000, 3);
        let calls = vec![fsync, read];
        CallsSample { seen_ns: 1_000_000_000, calls, ..CallsSample::default() }
    }

    fn rendered(sample: &CallsSample, elapsed_ns: u64) -> String {
        let mut page = Document::default();
        calls(&mut page, sample, elapsed_ns);
        assert_fits(&page);
        render::text(&page, Style { color: false, width: 100 })
    }

    #[test]
    fn each_call_has_its_percentiles_and_the_number_of_samples() {
        let text = rendered(&sample(), 1_000_000_000);
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[1].join(" "), "call calls/s threads p50 p99 max failed samples");
        assert_eq!(
            rows[2].join(" ").replace('\u{a0}', " "),
            "fsync 200 0.41 2 ms 2 ms 9 ms 0.50% 200"
        );
        assert_eq!(rows[3].join(" ").replace('\u{a0}', " "), "pread64 3 <0.01 90 µs - 90 µs 0% 3");
        assert_eq!(rows.len(), 4, "{text}");
    }

    #[test]
    fn windows_and_losses_are_reported() {
        let lossy = CallsSample { lost: 7, unfinished: 2, ..sample() };
        let text = rendered(&lossy, 16_000_000_000);
        assert!(
            text.contains("calls/s and threads are estimated: recorded 6.25% of the time."),
            "{text}"
        );
        assert!(text.contains("7 records lost"), "{text}");
        assert!(text.contains("2 calls had not returned after 1 s"), "{text}");
        assert_eq!(rendered(&CallsSample::default(), 1), "");
    }
}
