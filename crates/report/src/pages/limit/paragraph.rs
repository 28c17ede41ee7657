//! A paragraph that can be forwarded by itself: what was measured, the results, what limits them, and what to do next.

use super::{description, estimate, how, of_peak, setting, verdict};
use crate::doc::{Text, bandwidth, count, number, of, text, time};
use fathom_model::Finding;
use fathom_model::finding::Part;
use fathom_model::limit::{BlockLimit, Combined, CombinedCause, LimitRecord, TargetLimit};
use fathom_model::window::Point;

/// The paragraph about target `index`; empty where there is none.
pub(super) fn paragraph(record: &LimitRecord, index: usize) -> Text {
    let Some(target) = record.report.targets.get(index) else { return Text::default() };
    let mut sentences = vec![subject(record, target, index)];
    for (number, block) in target.blocks.iter().enumerate() {
        sentences.extend(about_block(block, number == 0));
        let limits = [
            ("One worker", Part::OneWorker { target: index, block: number }),
            ("The peak", Part::Peak { target: index, block: number }),
        ];
        let limits =
            limits.into_iter().filter_map(|(what, part)| Some((what, verdict(record, part)?)));
        sentences.extend(limits.map(|(what, verdict)| limited(what, verdict)));
    }
    sentences.extend(own_ceiling(record, target));
    let combined = record.report.combined.iter();
    sentences.extend(combined.filter_map(|combined| others(combined, index)));
    sentences.extend(next_step(record, index));
    Text::join(sentences, " ")
}

fn subject(record: &LimitRecord, target: &TargetLimit, index: usize) -> Text {
    let what =
        record.header.facts.targets.get(index).map(|facts| text!(" (", description(facts), ")"));
    let direct = record.conditions.get(index).is_some_and(|c| c.direct);
    let cut = if !record.header.outcome.is_finished() { " until interrupted" } else { "" };
    text!(
        target.name.as_str(),
        what,
        " was measured",
        cut,
        " for ",
        time(record.report.seconds_used * 1e9),
        format!(" on Linux {} with ", record.header.facts.host.kernel),
        crate::doc::plural(record.report.cores.into(), "CPU"),
        format!(" through io_uring, {}.", how(direct))
    )
}

fn latency(point: &Point) -> Text {
    text!(time(point.clat_p50_ns as f64), " (p99 ", time(point.clat_p99_ns as f64), ")")
}

/// What was measured with a kind of I/O; the cost of an I/O only with the first, smallest one.
fn about_block(block: &BlockLimit, is_first: bool) -> Vec<Text> {
    let name = block.name();
    let Some(peak) = &block.peak else {
        let why = block.problems.first().map_or("not measured", |p| p.message.as_str());
        return vec![text!("With ", name, " there is no result: ", why, ".")];
    };
    let mut sentences = vec![text!(
        "With ",
        name,
        " it peaks at ",
        of(estimate(&peak.iops), "IOPS"),
        ", ",
        bandwidth(peak.bytes_per_second),
        ", with ",
        setting(peak.setting()),
        "."
    )];
    if let (Some(found), Some(one)) = (&block.knee, &block.latency) {
        let knee = &found.point;
        let against =
            (knee.setting() != one.setting()).then(|| text!(", against ", latency(one), " at QD1"));
        sentences.push(text!(
            of_peak(found, peak),
            " of that is reached with ",
            setting(knee.setting()),
            ", at a median latency of ",
            latency(knee),
            against,
            "."
        ));
    }
    if let (Some(limit), true) = (peak.one_core_iops(), is_first) {
        let cost = time(peak.cpu_ns_per_io());
        sentences.push(text!(
            "Each I/O costs ",
            cost,
            " of CPU time: max ",
            count(limit),
            " IOPS per core."
        ));
    }
    sentences
}

pub(in crate::pages) fn limited(what: &str, verdict: &Finding) -> Text {
    let summary = &verdict.summary;
    match &verdict.limited_by {
        Some(limit) => format!("{what} is limited by {limit}: {summary}"),
        None => {
            let what = what.to_lowercase();
            format!("It is inconclusive what limits {what}. {summary}")
        }
    }
    .into()
}

fn own_ceiling(record: &LimitRecord, target: &TargetLimit) -> Option<Text> {
    let own = record.report.own.all_cores?;
    let peak = target.blocks.first()?.peak.as_ref()?;
    let times = (own.mean > 0.0 && peak.iops.mean > 0.0).then(|| own.mean / peak.iops.mean)?;
    let rate = count(own.mean);
    Some(text!("fathom itself reaches ", rate, " no-ops/s here, ", number(times), "× the peak."))
}

fn others(combined: &Combined, index: usize) -> Option<Text> {
    let this = combined.targets.iter().find(|target| target.target == index)?;
    let name = combined.name();
    let share =
        this.ratio.map(|r| text!(" (this one reaches ", super::ratio(&r), " of its IOPS alone)"));
    let why = format!(": {}.", combined.reason);
    Some(match combined.cause {
        CombinedCause::Independent => {
            let all =
                format!(" the {} targets do not slow each other down", combined.targets.len());
            text!("With ", name, all, share, ".")
        }
        CombinedCause::Inconclusive => {
            text!(
                "With ",
                name,
                " it is inconclusive whether the targets slow each other down",
                why
            )
        }
        CombinedCause::Cores | CombinedCause::SharedBelow => {
            text!("With ", name, " the targets slow each other down", share, why)
        }
    })
}

fn next_step(record: &LimitRecord, target: usize) -> Option<Text> {
    let verdict = verdict(record, Part::Peak { target, block: 0 })?;
    let step = verdict.next_step.as_ref()?;
    let mut chars = step.chars();
    let first = chars.next()?.to_lowercase();
    let command = verdict.next_command.as_ref().filter(|command| !step.contains(*command));
    let command = command.map_or_else(String::new, |command| format!(" ({command})"));
    Some(format!("Next: {}{}{command}.", first, chars.as_str()).into())
}
