//! Shares and rates of the machine between two samples.
//!
//! Counters that ran backwards give 0; CPUs that went online or offline and disks that were replaced
//! under their name are left out. [`crate::metrics`] has each figure with its unit, formula and source.

mod counters;
#[cfg(test)]
mod counters_tests;
mod cpu;
mod disk;
mod interrupts;
mod memory;
mod placement;
mod rings;
#[cfg(test)]
mod tests;

pub use counters::{CounterRates, CpuWork, PerIo, WorkOf};
pub use cpu::{CpuPercent, CpuRates};
pub(crate) use disk::with_those_below;
pub use disk::{DiskRates, IoRates};
pub use interrupts::InterruptRates;
pub use memory::{CgroupRates, MemoryUse, PagingRates, PressureRates, StallShares};
pub use placement::{CpuCount, SubmitPlacement, placement};
pub use rings::{RingEventRates, RingRates, RingsRates, ring_rates, setup_flag_names};

use fathom_model::watch::{DiskKind, MachineSample, SystemSample};
use serde::Serialize;

/// The machine between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineRates {
    /// Time between the samples, in nanoseconds.
    pub elapsed_ns: u64,
    pub system: Option<SystemRates>,
    /// Each block device that has completed I/O since boot.
    pub disks: Vec<DiskRates>,
    /// Whole disks added up ([`fathom_model::watch::DiskKind::Disk`]); the load on partitions and
    /// stacks reaches them and is counted there.
    pub disks_total: DiskRates,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterRates>,
}

/// CPUs, memory and interrupts between two samples; rates are per second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SystemRates {
    pub cpu: CpuPercent,
    /// Each CPU for which at least one tick was counted.
    pub cpus: Vec<CpuRates>,
    /// Runnable tasks at the end, without the sampling thread.
    pub ready: u32,
    /// Tasks waiting for I/O at the end, including those that sleep in io_uring.
    pub blocked: u32,
    pub context_switches: f64,
    pub interrupts: f64,
    pub forks: f64,
    pub interrupts_by: Vec<InterruptRates>,
    pub soft_interrupts_by: Vec<InterruptRates>,
    pub memory: MemoryUse,
    pub paging: PagingRates,
    pub pressure: Option<PressureRates>,
    pub cgroup: Option<CgroupRates>,
}

impl MachineRates {
    /// Bytes per second written to all devices; those on devices that are built on others count for both.
    pub fn written(&self) -> f64 {
        let is_whole = |disk: &&DiskRates| disk.kind != DiskKind::Partition;
        self.disks.iter().filter(is_whole).map(|disk| disk.write.bytes).sum()
    }
}

/// What happened from `earlier` to `later`, `elapsed_ns` nanoseconds after it; all rates are 0 where
/// no time passed.
pub fn rates(earlier: &MachineSample, later: &MachineSample, elapsed_ns: u64) -> MachineRates {
    let system = match (&earlier.system, &later.system) {
        (Some(earlier), Some(later)) => Some(system(earlier, later, elapsed_ns)),
        _ => None,
    };
    let (disks, disks_total) = disk::rates(&earlier.disks, &later.disks, elapsed_ns);
    let counters = earlier.counters.as_ref().zip(later.counters.as_ref());
    let counters = counters.map(|(earlier, later)| {
        let total = &disks_total;
        let disk_ios =
            (total.read.ios + total.write.ios + total.discard.ios) * elapsed_ns as f64 / 1e9;
        let meanwhile = counters::CountedIos { elapsed_ns, disk_ios };
        counters::rates(earlier, later, meanwhile, |cpu| busy_ns(system.as_ref()?, cpu, elapsed_ns))
    });
    MachineRates { elapsed_ns, system, disks, disks_total, counters }
}

/// Busy time of a CPU, or of all of them for `None`.
fn busy_ns(system: &SystemRates, cpu: Option<u32>, elapsed_ns: u64) -> Option<f64> {
    let one = |cpu: &CpuRates| cpu.shares.busy() * elapsed_ns as f64 / 100.0;
    match cpu {
        Some(cpu) => system.cpus.iter().find(|other| other.cpu == cpu).map(one),
        None => Some(system.cpus.iter().map(one).sum()),
    }
}

fn system(earlier: &SystemSample, later: &SystemSample, elapsed_ns: u64) -> SystemRates {
    let rate = |of: fn(&SystemSample) -> u64| per_second(of(earlier), of(later), elapsed_ns);
    let (cpu, cpus) = cpu::shares(&earlier.cpus, &later.cpus);
    let pressure = earlier.pressure.zip(later.pressure);
    let cgroup = earlier.cgroup.as_ref().zip(later.cgroup.as_ref());
    let cgroup = cgroup.filter(|(then, now)| then.is_same(now));
    SystemRates {
        cpu,
        cpus,
        ready: later.running.saturating_sub(1),
        blocked: later.blocked,
        context_switches: rate(|s| s.context_switches),
        interrupts: rate(|s| s.interrupts),
        forks: rate(|s| s.forks),
        interrupts_by: interrupts::rates(&earlier.interrupts_by, &later.interrupts_by, elapsed_ns),
        soft_interrupts_by: interrupts::rates(
            &earlier.soft_interrupts_by,
            &later.soft_interrupts_by,
            elapsed_ns,
        ),
        memory: MemoryUse::of(&later.memory),
        paging: PagingRates::between(&earlier.paging, &later.paging, elapsed_ns),
        pressure: pressure.map(|(then, now)| PressureRates::between(&then, &now, elapsed_ns)),
        cgroup: cgroup.map(|(then, now)| CgroupRates::between(then, now, elapsed_ns)),
    }
}

/// Growth of a counter per second; 0 where it ran backwards.
fn per_second(earlier: u64, later: u64, elapsed_ns: u64) -> f64 {
    crate::derive::per_second(later.saturating_sub(earlier), elapsed_ns)
}
