//! The answer, in a line for each kind of I/O: how fast, at which latency, and what limits it.

use super::verdict;
use crate::doc::{Document, Text, bandwidth, count, text, time};
use fathom_model::Finding;
use fathom_model::finding::Part;
use fathom_model::limit::{BlockLimit, LimitRecord, TargetResult};
use fathom_model::units;
use fathom_model::window::Point;

/// From this block size on, bandwidth is what people ask for.
const LARGE_BYTES: u64 = 128 << 10;

/// A paragraph for each kind of I/O of each target that was searched.
pub(super) fn answers(page: &mut Document, record: &LimitRecord) {
    if !record.config.suite.is_empty() {
        return;
    }
    let several = record.report.targets.len() > 1;
    for (index, target) in record.report.targets.iter().enumerate() {
        for (number, block) in target.blocks.iter().enumerate() {
            let limit = verdict(record, Part::Peak { target: index, block: number });
            let name = several.then(|| format!("{}, ", target.name));
            let what = format!("{} {}: ", units::bytes(block.block_bytes), block.rw.in_words());
            page.paragraph(text!(Text::from(name), what, answer(block, limit), "."));
        }
    }
}

fn answer(block: &BlockLimit, limit: Option<&Finding>) -> Text {
    let Some(peak) = &block.peak else {
        let why = block.problems.first().map(|problem| problem.message.clone());
        return text!("no result", Text::from(why.map(|why| format!(" ({why})"))));
    };
    let sure = if peak.iops.windows > 1 && !peak.noisy { "" } else { " (unconfirmed)" };
    let highest = text!(rates(block, peak), ", ", latency(peak), sure);
    let knee = block.knee.as_ref().map(|knee| &knee.point);
    let knee = knee.filter(|knee| knee.setting() != peak.setting());
    let knee = knee.map(|knee| text!(rate(block, knee), ", ", latency(knee)));
    let limit = limit.map(|verdict| match &verdict.limited_by {
        Some(limit) => format!("limited by {limit}"),
        None => "what limits it is inconclusive".to_string(),
    });
    let parts = [Some(highest), knee, within(block.target.as_ref()), limit.map(Text::from)];
    Text::join(parts.into_iter().flatten(), "; ")
}

fn within(result: Option<&TargetResult>) -> Option<Text> {
    let TargetResult { target, best, .. } = result?;
    let best = best.as_ref()?;
    Some(text!("up to ", count(best.iops), " IOPS within ", target.to_string()))
}

/// The rate that matters for this block size.
fn rate(block: &BlockLimit, point: &Point) -> Text {
    match block.block_bytes >= LARGE_BYTES {
        true => bandwidth(point.bytes_per_second).into(),
        false => text!(count(point.iops.mean), " IOPS"),
    }
}

/// The same, with the other one.
fn rates(block: &BlockLimit, point: &Point) -> Text {
    let other = match block.block_bytes >= LARGE_BYTES {
        true => text!(count(point.iops.mean), " IOPS"),
        false => bandwidth(point.bytes_per_second).into(),
    };
    text!(rate(block, point), " (", other, ")")
}

fn latency(point: &Point) -> Text {
    let at = match point.workers {
        1 => format!(" at QD{}", point.depth),
        workers => format!(" with {workers} workers at QD{}", point.depth),
    };
    text!("p99 ", time(point.clat_p99_ns as f64), at)
}
