//! The machine before and after a window: CPUs, disks, and the CPU quota of the cgroup.

use crate::targets::OpenTargets;
use fathom_analysis::derive;
use fathom_model::record::DiskRecord;
use fathom_model::window::CpuTime;
use fathom_watch::cpus::{CpuSampler, CpuSnapshot};
use fathom_watch::disks::{DiskSnapshot, NamedDisks};
use fathom_watch::system::CgroupSampler;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

/// Takes snapshots of what the windows on some targets may depend on.
pub(crate) struct MachineSnapshots {
    cpus: CpuSampler,
    disks: NamedDisks,
    /// None where no cgroup is mounted.
    cgroup: Option<RefCell<CgroupSampler>>,
}

pub(crate) struct Snapshot {
    pub at: Instant,
    cpus: Option<CpuSnapshot>,
    disks: Option<DiskSnapshot>,
    /// Time for which the CPU quota kept threads from running, summed over CPUs, in microseconds.
    throttled_us: Option<u64>,
    /// CPU time of all threads of this process, those of the kernel that work for its rings included, in nanoseconds.
    process_ns: u64,
}

impl MachineSnapshots {
    pub fn new(targets: &OpenTargets) -> Self {
        let cgroup = CgroupSampler::open(Path::new("/proc"), Path::new("/sys")).ok();
        Self {
            cpus: CpuSampler::new(Path::new("/proc"), &targets.facts.host.cpus_allowed),
            disks: targets.disk_sampler(),
            cgroup: cgroup.map(RefCell::new),
        }
    }

    pub fn take(&self) -> Snapshot {
        let cgroup = self.cgroup.as_ref();
        Snapshot {
            cpus: self.cpus.snapshot().ok(),
            disks: self.disks.snapshot().ok(),
            throttled_us: cgroup.and_then(|c| c.borrow_mut().snapshot()?.throttled_us),
            process_ns: process_ns(),
            at: Instant::now(),
        }
    }
}

fn process_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Snapshot {
    pub fn process_ns_since(&self, from: &Self) -> u64 {
        self.process_ns.saturating_sub(from.process_ns)
    }

    /// CPU time on the allowed CPUs since `from`.
    pub fn cpu_since(&self, from: &Self) -> Option<CpuTime> {
        let throttled = from.throttled_us.zip(self.throttled_us);
        let throttled_us = throttled.map_or(0, |(from, to)| to.saturating_sub(from));
        let (from, to) = (from.cpus.as_ref()?, self.cpus.as_ref()?);
        let time = derive::cpu_time(&from.cpus, &to.cpus, to.tick_ns);
        Some(CpuTime { throttled_ns: throttled_us.saturating_mul(1_000), ..time })
    }

    /// What the disks below the targets that `holds` accepts did since `from`, as one.
    pub fn disk_since(
        &self,
        from: &Self,
        holds: impl Fn(&DiskRecord) -> bool,
    ) -> Option<DiskRecord> {
        let (from, to) = from.disks.as_ref().zip(self.disks.as_ref())?;
        let elapsed = to.at.saturating_duration_since(from.at);
        let disks = derive::disk_records(&from.disks, &to.disks, elapsed);
        disks.into_iter().filter(holds).reduce(DiskRecord::with)
    }
}
