//! Where processors' time went, as mpstat shows it.

use fathom_model::watch::CpuSample;
use serde::Serialize;

/// One processor's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuRates {
    /// Number of the processor.
    pub cpu: u32,
    /// Where its time went.
    pub shares: CpuShares,
    /// Frequency at the end, in kHz, where it was read.
    pub khz: Option<u32>,
}

/// Shares of time in percent; they sum to 100, or are all 0 where no tick was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuShares {
    /// In user mode, guests included.
    pub user: f64,
    /// In user mode, niced.
    pub nice: f64,
    /// In the kernel.
    pub system: f64,
    /// Idle while a task that last ran there waited for I/O.
    pub iowait: f64,
    /// In interrupts.
    pub irq: f64,
    /// In soft interrupts.
    pub softirq: f64,
    /// Ready to run while the hypervisor ran something else.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

impl CpuShares {
    /// Time in which work was done, for whomever: user, nice, system and interrupts.
    #[must_use]
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

/// What adds up to all of a processor's time.
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

/// The shares of all processors together and of each.
pub(super) fn shares(earlier: &[CpuSample], later: &[CpuSample]) -> (CpuShares, Vec<CpuRates>) {
    let mut sum = CpuSample::default();
    let mut cpus = Vec::with_capacity(later.len());
    for now in later {
        let Some(then) = earlier.iter().find(|then| then.cpu == now.cpu) else { continue };
        let ticks = since(now, then);
        sum = combine(&sum, &ticks, u64::saturating_add);
        let rates = |shares| CpuRates { cpu: now.cpu, shares, khz: now.khz };
        cpus.extend(CpuShares::of(&ticks).map(rates));
    }
    (CpuShares::of(&sum).unwrap_or_default(), cpus)
}

/// The kernel lets idle and iowait run backwards at times: then nothing came.
fn since(now: &CpuSample, then: &CpuSample) -> CpuSample {
    combine(now, then, u64::saturating_sub)
}

fn combine(a: &CpuSample, b: &CpuSample, with: fn(u64, u64) -> u64) -> CpuSample {
    CpuSample {
        cpu: a.cpu,
        user: with(a.user, b.user),
        nice: with(a.nice, b.nice),
        system: with(a.system, b.system),
        idle: with(a.idle, b.idle),
        iowait: with(a.iowait, b.iowait),
        irq: with(a.irq, b.irq),
        softirq: with(a.softirq, b.softirq),
        steal: with(a.steal, b.steal),
        khz: None,
    }
}
