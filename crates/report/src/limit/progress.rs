//! The progress of a search, as one line.

use fathom_model::limit::Phase;
use fathom_model::units;
use fathom_model::window::Probe;

/// Width of the bar.
const BAR: usize = 24;

/// What a window is for, in words.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "measuring the idle machine",
        Phase::Own => "load-generator overhead",
        Phase::Latency => "latency at QD1",
        Phase::Climb => "searching for the peak",
        Phase::Counter => "what limits the peak",
        Phase::CounterOne => "what limits one worker",
        Phase::Knee => "searching for the knee",
        Phase::Confirm => "confirming the peak",
        Phase::Rated => "searching for the highest load within the target",
        Phase::Suite => "measuring the suite",
        Phase::Combined => "targets alone and combined",
    }
}

/// The line while `probe` is measured, with a share of `done` (0 to 1) of `seconds` used.
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
        loads => {
            format!(", {} targets concurrently, {}", loads.len(), units::bytes(probe.block_bytes))
        }
    }
}
