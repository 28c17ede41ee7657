//! Interrupts by source and CPU.

use crate::derive::per_second;
use fathom_model::watch::InterruptSample;
use serde::Serialize;

/// One source of interrupts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InterruptRates {
    /// Number, or short name such as `LOC`.
    pub irq: String,
    /// What it is, such as `nvme0q1`.
    pub source: String,
    /// Interrupts per second on all CPUs.
    pub total: f64,
    /// CPUs that it fired on, each with its interrupts per second.
    pub cpus: Vec<(u32, f64)>,
}

/// The sources that fired, in the order of `later`.
pub(super) fn rates(
    earlier: &[InterruptSample],
    later: &[InterruptSample],
    elapsed_ns: u64,
) -> Vec<InterruptRates> {
    // Both are in the kernel's order, so the same source is mostly in the same place.
    let find = |index: usize, now: &InterruptSample| {
        let same = |then: &&InterruptSample| then.irq == now.irq && then.source == now.source;
        earlier.get(index).filter(same).or_else(|| earlier.iter().find(same))
    };
    let rates = |(index, now)| of(find(index, now), now, elapsed_ns);
    later.iter().enumerate().map(rates).filter(|source| source.total > 0.0).collect()
}

/// A source that never fired is not in the sample, and a CPU where it never did not in the
/// source: new sources began at 0.
fn of(then: Option<&InterruptSample>, now: &InterruptSample, elapsed_ns: u64) -> InterruptRates {
    let counts = then.map_or(&[][..], |then| &then.counts);
    let before = |cpu: u32| counts.iter().find(|then| then.0 == cpu).map_or(0, |then| then.1);
    let grown = now.counts.iter().map(|(cpu, count)| (*cpu, growth(before(*cpu), *count)));
    let cpus: Vec<(u32, f64)> =
        grown.filter(|(_, n)| *n > 0).map(|(cpu, n)| (cpu, per_second(n, elapsed_ns))).collect();
    InterruptRates {
        irq: now.irq.clone(),
        source: now.source.clone(),
        total: cpus.iter().map(|(_, rate)| rate).sum(),
        cpus,
    }
}

/// Half of the range ahead is growth past 2^32, half behind a counter that began anew.
pub(super) fn growth(then: u32, now: u32) -> u64 {
    let growth = now.wrapping_sub(then);
    if growth < 1 << 31 { growth.into() } else { 0 }
}
