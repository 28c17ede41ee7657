//! `fathom predict`: what a described machine would deliver, and what limits it.

use crate::doc::{DataColumn, Document, Quantity, QuantityUnit, Text, TreeNode, percent};
use fathom_analysis::predict::shown_rate;
use fathom_model::finding::Severity;
use fathom_model::limit::is_large;
use fathom_model::prediction::{PartLoad, Prediction, Range};
use fathom_model::{list, units};

/// Up to this many limits, and figures that a file does not give, are named.
const NAMED_MAX: usize = 4;

/// A section for each workload: the answer, what would yield more, and what every part could sustain.
pub fn predict(predictions: &[Prediction]) -> Document {
    let mut page = Document::default();
    for prediction in predictions {
        page.section(&title(prediction), Text::default(), section(prediction));
    }
    page
}

fn title(prediction: &Prediction) -> String {
    let workload = &prediction.workload;
    let mut title = format!("{} {}", units::bytes(workload.bs), workload.rw);
    if let Some(workers) = workload.workers {
        title += &format!(", {workers} {}", if workers == 1 { "worker" } else { "workers" });
    }
    if let Some(depth) = workload.iodepth {
        title += &format!(", QD{depth} each");
    }
    if workload.scheduler_cycles.is_some() {
        title += ", with an I/O scheduler";
    }
    title
}

fn section(prediction: &Prediction) -> Document {
    let bs = prediction.workload.bs;
    let mut body = Document::default();
    let both = match is_large(bs as f64) {
        true => format!("{} IOPS", range(prediction.iops, units::count)),
        false => range(prediction.bytes_per_second, units::bandwidth),
    };
    if prediction.limited_by.is_empty() {
        body.entry("would deliver", "not known: no part whose figures are in the file limits it");
    } else {
        body.entry("would deliver", format!("{} ({both})", rate(prediction.iops, bs)));
        body.entry("limited by", either(&prediction.limited_by));
    }
    let measured = prediction.workload.measured;
    // Of large I/Os, bytes per second are given.
    let each = if is_large(bs as f64) { bs as f64 } else { 1.0 };
    body.entry("measured", measured.map(|given| rate(given.map(|given| given / each), bs)));
    for (at, step) in prediction.next_steps.iter().enumerate() {
        let key = if at == 0 { "would yield more" } else { "" };
        let gains = [step.iops.low / prediction.iops.low, step.iops.high / prediction.iops.high];
        // Infinity divided by itself is no number, which min and max leave out.
        let gain = Range { low: gains[0].min(gains[1]), high: gains[0].max(gains[1]) };
        let gain = range(gain, |gain| format!("{gain:.2}×"));
        let then = either(&step.limited_by);
        // Other limits, which a file does not know, are assumed to allow it.
        let most = if step.iops.high.is_finite() { "at most " } else { "" };
        let rate = rate(step.iops, bs);
        let text = format!("{}: {most}{rate} ({gain}), then limited by {then}", step.change);
        body.entry(key, text);
    }
    if !prediction.unknown.is_empty() {
        body.entry("not in the file", list::few(&prediction.unknown, NAMED_MAX));
    }
    let columns = vec![
        DataColumn::text(""),
        DataColumn::number("could sustain"),
        DataColumn::number("would carry"),
        DataColumn::number("used"),
        DataColumn::text("").ranked(1),
        DataColumn::text("set by").ranked(2),
        DataColumn::text("source").ranked(3),
    ];
    let names: Vec<&str> = prediction.parts.iter().map(|part| part.name.as_str()).collect();
    let roots = prediction.parts.iter().filter(|part| match &part.on {
        Some(on) => !names.contains(&on.as_str()),
        None => true,
    });
    body.tree(columns, roots.map(|part| node(prediction, part)).collect());
    body
}

/// A part with what is attached to it.
fn node(prediction: &Prediction, part: &PartLoad) -> TreeNode {
    let bs = prediction.workload.bs;
    let used = part.most_iops.zip(part.iops).map(|(most, own)| own.high / most.high * 100.0);
    let used = used.filter(|used| used.is_finite());
    let below = prediction.parts.iter().filter(|child| child.on.as_ref() == Some(&part.name));
    let is_limit = prediction.limited_by.contains(&part.name);
    TreeNode {
        cells: vec![
            part.name.as_str().into(),
            part.most_iops.map(|most| Text::from(rate(most, bs))).into(),
            part.iops.map(|own| Text::from(rate(own, bs))).into(),
            used.map(percent).into(),
            used.map(|used| Quantity::new(used.min(100.0), QuantityUnit::PercentBar)).into(),
            part.most_iops.map(|_| Text::from(part.because.as_str())).into(),
            part.source.as_str().into(),
        ],
        severity: is_limit.then_some(Severity::Warning),
        children: below.map(|child| node(prediction, child)).collect(),
    }
}

fn either(names: &[String]) -> String {
    if names.len() > NAMED_MAX { list::few(names, NAMED_MAX) } else { names.join(" or ") }
}

fn rate(iops: Range, bs: u64) -> String {
    range(iops, |iops| shown_rate(iops, bs))
}

/// Both bounds, or one figure where they are shown the same.
fn range(range: Range, shown: impl Fn(f64) -> String) -> String {
    let low = shown(range.low);
    if range.high.is_infinite() {
        return format!("at least {low}");
    }
    let high = shown(range.high);
    if low == high {
        return low;
    }
    // `1M–1.2M IOPS` has its unit once.
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((low, unit)), Some((_, same))) if unit == same => format!("{low}–{high}"),
        _ => format!("{low}–{high}"),
    }
}
