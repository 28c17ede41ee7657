//! Text pages: each function takes what a run directory holds and returns a [`Document`]. The same input
//! always gives the same page, so that a stored run is reprinted as it was printed.

mod account;
mod blocks;
mod calls;
mod ceilings;
mod charts;
mod compare;
mod counters;
mod doctor;
mod experiment;
mod header;
mod hosts;
mod layers;
mod limit;
mod limited_by;
mod predict;
mod programs;
mod promises;
mod report;
mod rings;
mod run;
mod runs;
mod settings;
mod stacks;
mod steadiness;
mod threads;
mod topo;
mod watch;

use account::account;
pub(crate) use blocks::device_blocks;
pub use blocks::{block_rates, blocks};
use blocks::{gaps, is_biased, range, sentence};
use calls::calls;
use ceilings::ceilings;
pub use compare::{compare, compared, requirements, rounds};
pub use doctor::doctor;
use doctor::doctor_line;
pub use experiment::{ShippedExperiment, experiment, experiments};
pub use header::{Origin, device_list};
pub use hosts::hosts;
pub use layers::{IoCost, layers};

pub use limit::limit;
pub use limited_by::judged_anew;
use limited_by::limited_by;
pub use predict::predict;
pub use promises::promises;
pub use report::{ReportedRun, report};
pub use rings::{placement, rings};
pub use run::run;
pub use runs::{LeftoverRow, RunRow, RunSummary, leftovers, run_result, run_summary, runs};
pub use settings::{SettingRow, restored, settings};
pub use stacks::stacks;
pub use steadiness::not_steady;
use threads::thread_states;
pub use threads::threads;
pub use topo::topo;
pub(crate) use topo::topo_tree;
pub use watch::watch;

use crate::doc::{Document, Text, text};
use fathom_model::watch::Unavailable;
use fathom_model::{Histogram, list};

/// Up to this many names of what could not be measured are printed.
const MISSING_NAMED: usize = 6;

/// Entries for what could not be measured: the names on one line, or with `verbose` each with its reason.
fn not_measured(page: &mut Document, missing: &[Unavailable], verbose: bool) {
    if verbose {
        for (index, missing) in missing.iter().enumerate() {
            let key = if index == 0 { "not measured" } else { "" };
            page.entry(key, missing.to_string());
        }
    } else if !missing.is_empty() {
        let names = list::distinct(missing.iter().map(|missing| &missing.source));
        page.entry("not measured", text!(list::few(&names, MISSING_NAMED), "; see\u{a0}--verbose"));
    }
}

/// A percentile in nanoseconds; `None` where fewer samples than one are expected to be above it.
fn percentile(times: &Histogram, percent: f64) -> Option<f64> {
    let above = times.count() as f64 * (100.0 - percent) / 100.0;
    times.percentile(percent).filter(|_| above >= 0.999).map(|ns| ns as f64)
}

fn parts(parts: impl IntoIterator<Item = Text>) -> Text {
    // A line ends with the separator.
    Text::join(parts, "\u{a0}· ")
}
