//! CPU time by kernel layer.

use crate::doc::{DataColumn, Document, Text, events, of, percent, text, time, whole};
use crate::figures::quantity;
use crate::pages::charts;
use fathom_analysis::layers::{Layer, LayerTime, LayerTimes, SAMPLES_MIN};
use fathom_analysis::metrics::LAYER;
use fathom_analysis::stats::share_interval;

/// Functions named for a layer, and for samples that belong to none.
const NAMED: usize = 2;
const NAMED_OTHER: usize = 8;

#[derive(Debug, Clone, Copy)]
pub struct IoCost {
    /// CPU time of the workers and the kernel's helpers per I/O, in nanoseconds.
    pub cpu_ns: f64,
    /// The samples' CPU time per I/O, in nanoseconds, if that is known.
    pub sampled_ns: Option<f64>,
}

/// The layers with their shares of busy CPU time, the 95% confidence interval that follows from the number of samples,
/// the part of the CPU time of an I/O where that is known, the part spent on locks, and the functions with most
/// samples. Too few samples are only reported; empty without samples.
pub fn layers(times: &LayerTimes, per_io: Option<IoCost>) -> Document {
    let mut page = Document::default();
    if times.samples < SAMPLES_MIN {
        if times.samples > 0 {
            let needed = text!("CPU time by layer needs ", of(whole(SAMPLES_MIN), "samples"));
            let taken = text!(" (only ", whole(times.samples), " taken); sample for longer");
            page.paragraph(text!(needed, taken));
        }
        return page;
    }
    let per_io_ns = per_io.map(|per_io| per_io.cpu_ns);
    charts::layers(&mut page, times, per_io_ns);
    let mut columns = vec![DataColumn::text("layer"), DataColumn::number("CPU time")];
    columns.push(DataColumn::number("95% CI").ranked(1));
    columns.extend(per_io_ns.map(|_| DataColumn::number("per I/O")));
    columns.extend(LAYER.iter().skip(1).map(|metric| DataColumn::number(metric.title)));
    columns.push(DataColumn::text("top functions"));
    let mut rows: Vec<Vec<Text>> =
        times.layers.iter().map(|row| cells(times, row, per_io_ns)).collect();
    if let Some(ns) = per_io_ns {
        rows.push(vec!["all".into(), percent(100.0).into(), Text::default(), time(ns).into()]);
    }
    page.table(columns, rows);
    let samples = of(whole(times.samples), "samples");
    let known = times
        .classified()
        .map(|known| text!(", ", percent(known * 100.0), " of kernel time assigned to a layer"));
    page.paragraph(text!(samples, known));
    per_io.and_then(|per_io| coverage(times, per_io)).into_iter().for_each(|t| page.paragraph(t));
    page
}

/// What the samples sum to, next to the CPU time that the table divides.
fn coverage(times: &LayerTimes, per_io: IoCost) -> Option<Text> {
    let sampled_ns = per_io.sampled_ns?;
    // 95% interval of the number of samples, by the normal approximation of the Poisson distribution.
    let error = 1.96 / (times.samples.max(1) as f64).sqrt();
    let why = match sampled_ns / per_io.cpu_ns {
        ratio if (ratio - 1.0).abs() <= error => "equal within the sampling error",
        ratio if ratio > 1.0 => {
            "the samples include fathom's other threads and interrupts that arrived meanwhile"
        }
        _ => "code that ran before sampling began, or with interrupts off, is not sampled",
    };
    Some(text!(
        "The samples sum to ",
        time(sampled_ns),
        " per I/O (±",
        percent(error * 100.0),
        "), CPU per I/O is ",
        time(per_io.cpu_ns),
        ": ",
        why,
        "."
    ))
}

fn cells(times: &LayerTimes, row: &LayerTime, per_io_ns: Option<f64>) -> Vec<Text> {
    let all = times.time().max(1) as f64;
    let share = row.time as f64 / all;
    let (low, high) = share_interval(share, times.samples);
    let range = format!("{:.1}–{:.1}%", low * 100.0, high * 100.0);
    let mut cells = vec![row.layer.name().into(), percent(share * 100.0).into(), range.into()];
    cells.extend(per_io_ns.map(|ns| Text::from(time(ns * share))));
    // Beside its share of CPU time, which is the first.
    let others = LAYER.iter().skip(1).map(|metric| {
        let value = (metric.value)(times, row).filter(|value| *value > 0.0);
        value.map(|value| quantity(metric, value)).into()
    });
    cells.extend(others);
    cells.push(functions(row));
    cells
}

fn functions(row: &LayerTime) -> Text {
    let (shown, counted) = match row.layer {
        Layer::Other => (NAMED_OTHER, true),
        _ => (NAMED, false),
    };
    let name = |(name, n): &(String, u64)| match counted {
        true => text!(name.as_str(), " (", events(*n), ")"),
        false => name.as_str().into(),
    };
    Text::join(row.top.iter().take(shown).map(name), ", ")
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
