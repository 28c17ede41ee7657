//! The progress of a search, as one line.

use fathom_analysis::limit::{Phase, Probe};
use fathom_model::units;

/// Width of the bar.
const BAR: usize = 24;

/// What a window is for, in words.
#[must_use]
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "looking at the idle machine",
        Phase::Own => "the tool's own ceiling",
        Phase::Latency => "latency at depth 1",
        Phase::Climb => "searching the peak",
        Phase::Counter => "what stops the peak",
        Phase::CounterOne => "what stops one worker",
        Phase::Knee => "searching the knee",
        Phase::Together => "targets alone and together",
    }
}

/// The line while `probe` is measured, with a share of `done` (0 to 1) of `seconds` used.
#[must_use]
pub fn line(probe: &Probe, targets: &[String], done: f64, seconds: f64) -> String {
    let done = done.clamp(0.0, 1.0);
    let full = (done * BAR as f64) as usize;
    let left = (seconds * (1.0 - done)).ceil();
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(BAR - full));
    format!("[{bar}] {left:>3.0} s left · {}{}", phase(probe.phase), what(probe, targets))
}

fn what(probe: &Probe, targets: &[String]) -> String {
    match probe.loads.as_slice() {
        [] => String::new(),
        [load] => {
            let target = load.target.and_then(|t| targets.get(t));
            let of = target.map_or_else(String::new, |name| {
                format!(" of {name}, {}", units::bytes(probe.block_bytes))
            });
            format!("{of}, {}", load.setting)
        }
        loads => format!(", {} at once, {}", loads.len(), units::bytes(probe.block_bytes)),
    }
}
