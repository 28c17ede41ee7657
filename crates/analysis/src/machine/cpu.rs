//! CPU time by mode, as mpstat shows it.

use crate::derive::{add_ticks, cpu_ticks};
use fathom_model::watch::CpuSample;
use serde::Serialize;

/// One CPU's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuRates {
    pub cpu: u32,
    pub shares: CpuPercent,
    /// Frequency at the end, in kHz, where it was read.
    pub khz: Option<u32>,
}

/// Shares of time in percent; they sum to 100, or are all 0 where no tick was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuPercent {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub iowait: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
    pub idle: f64,
}

impl CpuPercent {
    /// Busy time: user, nice, system and interrupts.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    fn of(ticks: &CpuSample) -> Option<Self> {
        let total: u64 = FIELDS.iter().map(|field| field(ticks)).sum();
        let share = |ticks: u64| ticks as f64 * 100.0 / total as f64;
        (total > 0).then(|| Self {
            user: share(ticks.user),
            nice: share(ticks.nice),
            system: share(ticks.system),
            iowait: share(ticks.iowait),
            irq: share(ticks.irq),
            softirq: share(ticks.softirq),
            steal: share(ticks.steal),
            idle: share(ticks.idle),
        })
    }
}

/// What adds up to all of a CPU's time.
const FIELDS: [fn(&CpuSample) -> u64; 8] = [
    |c| c.user,
    |c| c.nice,
    |c| c.system,
    |c| c.iowait,
    |c| c.irq,
    |c| c.softirq,
    |c| c.steal,
    |c| c.idle,
];

pub(super) fn shares(earlier: &[CpuSample], later: &[CpuSample]) -> (CpuPercent, Vec<CpuRates>) {
    let mut sum = CpuSample::default();
    let mut cpus = Vec::with_capacity(later.len());
    for ticks in cpu_ticks(earlier, later) {
        sum = add_ticks(&sum, &ticks);
        let rates = |shares| CpuRates { cpu: ticks.cpu, shares, khz: ticks.khz };
        cpus.extend(CpuPercent::of(&ticks).map(rates));
    }
    (CpuPercent::of(&sum).unwrap_or_default(), cpus)
}
