//! Processor time by layer as text.

use crate::summary::{Style, table};
use fathom_analysis::layers::{Layer, LayerTime, LayerTimes, Unit};
use fathom_model::units;
use std::fmt::Write;

/// Functions named beside a layer, and beside what has none.
const NAMED: usize = 2;
const NAMED_OTHER: usize = 8;

/// The layers with their shares of busy time, what each takes of an I/O where `ios` of them are
/// known, the part of locks, and the functions with most samples. Empty without samples.
#[must_use]
pub fn render(times: &LayerTimes, ios: Option<u64>, style: Style) -> String {
    if times.samples == 0 {
        return String::new();
    }
    let ios = ios.filter(|ios| *ios > 0);
    let mut rows = vec![header(ios.is_some())];
    rows.extend(times.layers.iter().map(|row| cells(times, row, ios)));
    // Columns but the first are aligned right, which leaves texts of one length where they begin.
    let longest = rows.iter().filter_map(|row| row.last()).map(|text| text.chars().count()).max();
    for text in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *text = format!("{text:<width$}", width = longest.unwrap_or(0));
    }
    if let Some(ios) = ios {
        let total = per_io(times.unit, times.time(), ios);
        rows.push(["all", "100%", &total].map(String::from).to_vec());
    }
    let mut out = table(&rows, style);
    let known = times.classified().map(|share| format!("{:.1}% of ", share * 100.0));
    let _ = writeln!(
        out,
        "  {}{} samples in the kernel belong to a layer",
        known.unwrap_or_default(),
        times.kernel_samples,
    );
    out
}

fn header(per_io: bool) -> Vec<String> {
    let mut header = vec!["layer", "busy"];
    if per_io {
        header.push("per I/O");
    }
    header.extend(["locks", "most in"]);
    header.into_iter().map(String::from).collect()
}

fn cells(times: &LayerTimes, row: &LayerTime, ios: Option<u64>) -> Vec<String> {
    let percent = |time: u64| format!("{:.1}%", time as f64 / times.time().max(1) as f64 * 100.0);
    let mut cells = vec![row.layer.name().to_string(), percent(row.time)];
    cells.extend(ios.map(|ios| per_io(times.unit, row.time, ios)));
    cells.push(if row.lock_time > 0 { percent(row.lock_time) } else { String::new() });
    cells.push(functions(row));
    cells
}

/// Processor time per I/O.
fn per_io(unit: Unit, time: u64, ios: u64) -> String {
    let each = time as f64 / ios as f64;
    match unit {
        Unit::Nanoseconds => units::time(each),
        Unit::Cycles => format!("{} cycles", units::count(each)),
    }
}

fn functions(row: &LayerTime) -> String {
    let (shown, counted) = match row.layer {
        Layer::Other => (NAMED_OTHER, true),
        _ => (NAMED, false),
    };
    let name = |(name, n): &(String, u64)| match counted {
        true => format!("{name} {n}"),
        false => name.clone(),
    };
    row.top.iter().take(shown).map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{Stack, StackCount, StacksSample};

    fn times(event: &str) -> LayerTimes {
        let stack = |kernel: &[&str]| Stack {
            kernel: kernel.iter().map(|name| (*name).into()).collect(),
            user: Vec::new(),
        };
        let stacks = [
            stack(&[]),
            stack(&["do_syscall_64", "blk_mq_submit_bio"]),
            stack(&["do_syscall_64", "blk_mq_submit_bio", "_raw_spin_lock"]),
            stack(&["do_syscall_64", "frobnicate"]),
        ];
        let counts = [100, 60, 20, 20].into_iter().enumerate();
        let count = |(stack, count): (usize, u32)| StackCount {
            stack: stack as u32,
            count,
            period: u64::from(count) * 1_000_000,
            ..StackCount::default()
        };
        let counts = counts.map(count).collect();
        let sample = StacksSample { event: event.into(), counts, ..StacksSample::default() };
        LayerTimes::of([&sample], &stacks, |_| true)
    }

    #[test]
    fn shares_and_time_of_an_io() {
        let text = render(&times("cpu-clock"), Some(100_000), Style::default());
        let expected = "  \
  layer         busy  per I/O  locks  most in
  program      50.0%     1 µs
  block layer  40.0%   800 ns  10.0%  blk_mq_submit_bio, _raw_spin_lock
  other        10.0%   200 ns         frobnicate 20
  all           100%     2 µs
  80.0% of 100 samples in the kernel belong to a layer
";
        assert_eq!(text, expected);
    }

    #[test]
    fn cycles_are_called_so_and_ios_need_not_be_known() {
        let text = render(&times("cycles"), Some(100_000), Style::default());
        assert!(text.contains("1k cycles"), "{text}");
        let text = render(&times("cycles"), None, Style::default());
        assert!(!text.contains("I/O") && text.contains("50.0%"), "{text}");
    }

    #[test]
    fn no_samples_no_table() {
        assert_eq!(render(&LayerTimes::default(), Some(1), Style::default()), "");
    }
}
