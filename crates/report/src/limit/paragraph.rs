//! The paragraph that an engineer would forward: what was measured on what, what came out, what
//! stopped it, and what to do next.

use super::{cause, description, rate};
use fathom_analysis::limit::{
    BLOCKS, BlockLimit, Cause, LimitRecord, Point, TargetLimit, TogetherCause, Verdict,
};
use fathom_model::units;

/// The paragraph about target `index`; empty where there is none.
#[must_use]
pub fn paragraph(record: &LimitRecord, index: usize) -> String {
    let Some(target) = record.report.targets.get(index) else { return String::new() };
    let mut sentences = vec![subject(record, target, index)];
    for block in &target.blocks {
        sentences.extend(about_block(block));
    }
    sentences.extend(own_part(record, target));
    sentences.extend(others(record, index));
    sentences.extend(next_step(target));
    sentences.join(" ")
}

fn subject(record: &LimitRecord, target: &TargetLimit, index: usize) -> String {
    let what = record
        .facts
        .targets
        .get(index)
        .map_or_else(String::new, |facts| format!(" ({})", description(facts)));
    let how = match record.conditions.get(index) {
        Some(c) if c.direct => "O_DIRECT",
        _ => "the page cache",
    };
    let cut = if record.interrupted.is_some() { " until interrupted" } else { "" };
    format!(
        "{}{what} was measured{cut} for {:.0} s on Linux {} with {} processors, by random reads \
         through io_uring and {how}.",
        target.name, record.report.seconds_used, record.facts.host.kernel, record.report.cores
    )
}

fn workers(point: &Point) -> String {
    if point.workers == 1 {
        format!("one worker at depth {}", point.depth)
    } else {
        format!("{} workers at depth {} each", point.workers, point.depth)
    }
}

fn latency(point: &Point) -> String {
    format!(
        "{} (p99 {})",
        units::time(point.clat_p50_ns as f64),
        units::time(point.clat_p99_ns as f64)
    )
}

fn about_block(block: &BlockLimit) -> Vec<String> {
    let size = units::bytes(block.block_bytes);
    let Some(peak) = &block.peak else {
        let why = block.problems.first().map_or_else(
            || "the time was up or it was interrupted".to_string(),
            |p| p.message.clone(),
        );
        return vec![format!("With {size} there are no figures: {why}.")];
    };
    let mut sentences = vec![format!(
        "With {size} it peaks at {} ({} I/Os per second), with {}.",
        units::bandwidth(peak.bytes_per_second),
        rate(&peak.iops),
        workers(peak)
    )];
    if let (Some(knee), Some(one)) = (&block.knee, &block.latency) {
        let knee = &knee.point;
        let verb = if knee.workers == 1 { "reaches" } else { "reach" };
        let against = if knee.setting() == one.setting() {
            String::new()
        } else {
            format!(", against {} with one I/O in flight", latency(one))
        };
        sentences.push(format!(
            "{} {verb} 95% of that with a median latency of {}{against}.",
            capital(&workers(knee)),
            latency(knee),
        ));
    }
    if let (Some(limit), true) = (peak.one_core_iops(), block.block_bytes == BLOCKS[0]) {
        sentences.push(format!(
            "An I/O costs {} of processor time, so one core would stop at {} I/Os per second.",
            units::time(peak.cpu_ns_per_io()),
            units::count(limit)
        ));
    }
    if let Some(verdict) = &block.one_worker {
        sentences.push(stopped("One worker", verdict));
    }
    sentences.extend(block.verdict.as_ref().map(|v| stopped("The peak", v)));
    sentences
}

fn stopped(what: &str, verdict: &Verdict) -> String {
    if verdict.cause == Cause::Undecided {
        format!("What stops {} is undecided: {}.", what.to_lowercase(), verdict.reason)
    } else {
        format!("{what} is stopped by {}: {}.", cause(verdict.cause), verdict.reason)
    }
}

fn own_part(record: &LimitRecord, target: &TargetLimit) -> Option<String> {
    let own = record.report.own.all_cores?;
    let peak = target.blocks.first()?.peak.as_ref()?;
    (own.mean > 0.0 && peak.iops.mean > 0.0).then(|| {
        format!(
            "The tool itself could do {} operations per second here, {:.0} times the peak.",
            units::count(own.mean),
            own.mean / peak.iops.mean
        )
    })
}

/// What the other targets do to this one.
fn others(record: &LimitRecord, index: usize) -> Vec<String> {
    let took_part =
        |t: &&fathom_analysis::limit::Together| t.targets.iter().any(|x| x.target == index);
    record
        .report
        .together
        .iter()
        .filter(took_part)
        .map(|t| {
            let size = units::bytes(t.block_bytes);
            let share = t.targets.iter().find(|x| x.target == index).and_then(|x| x.ratio);
            let share = share.map_or_else(String::new, |r| {
                format!(" (this one does {:.2} of what it does alone)", r.value)
            });
            match t.cause {
                TogetherCause::Independent => format!(
                    "With {size} the {} targets do not slow each other down{share}.",
                    t.targets.len()
                ),
                TogetherCause::Undecided => {
                    format!(
                        "With {size} it is undecided whether the targets slow each other down: {}.",
                        t.reason
                    )
                }
                TogetherCause::Cores | TogetherCause::SharedBelow => {
                    format!("With {size} the targets slow each other down{share}: {}.", t.reason)
                }
            }
        })
        .collect()
}

fn next_step(target: &TargetLimit) -> Option<String> {
    let verdict = target.blocks.first()?.verdict.as_ref()?;
    let step = match verdict.cause {
        Cause::SubmittingCore => "give the work to more workers, or make an I/O cheaper",
        Cause::AllCores => {
            "the device may have more to give: measure it with more processors, or make an I/O cheaper (larger \
             blocks, polled completions, a shorter path than this file system's)"
        }
        Cause::Device => {
            "compare with the device's data sheet and its link; there is nothing to gain on this side by more \
             workers or depth"
        }
        Cause::Depth => "let more be in flight: more workers, or more time for the search (--time)",
        Cause::Undecided => "repeat on a quiet machine or with more time (--time)",
    };
    Some(format!("Next: {step}."))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}
