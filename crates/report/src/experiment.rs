//! The progress line of `fathom try` and `fathom sweep`.

/// Width of the bar.
const BAR: usize = 24;

/// The line while the condition `label` is measured, after `rounds` rounds, with a share of `done` (0 to 1) of `seconds`
/// used.
pub fn line(label: &str, rounds: u32, done: f64, seconds: f64) -> String {
    let done = done.clamp(0.0, 1.0);
    let full = (done * BAR as f64) as usize;
    let left = (seconds * (1.0 - done)).ceil();
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(BAR - full));
    format!("[{bar}] at most {left:.0} s left · round {} · {label}", rounds + 1)
}
