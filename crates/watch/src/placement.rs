//! Where I/Os are submitted, and how block devices are connected to interrupts and processors.

mod wiring;

pub use wiring::wiring;

use crate::Sampler;
use crate::perf::{EachIo, Gate, OnCpus, Tracefs, Turns, online_cpus, refused};
use fathom_model::watch::{MachineSample, Missing, SubmitSample};
use std::path::Path;
use std::time::Duration;

/// Devices that are counted one by one at most: each is one more filter that the kernel tries at every
/// I/O.
const DEVICES_MAX: usize = 8;

/// Counts I/Os that enter the block layer (`block_bio_queue`), by the processor on which they do. An
/// I/O to a stacked device is counted there and at each device below it.
#[derive(Debug)]
pub struct PlacementSampler {
    cpus: Vec<u32>,
    counters: Vec<(String, OnCpus)>,
    /// What switches the counters, where they are not always on.
    partly: Option<(Gate, Turns)>,
}

impl PlacementSampler {
    /// A sampler of each of `devices`, whole devices by kernel name; of all devices together where that
    /// is empty or too many to count one by one; always, or for a part of the time. `proc_root` and `sys_root` are where the proc file
    /// system and sysfs are mounted: `/proc`, `/sys`.
    ///
    /// # Errors
    /// Where the tracepoint cannot be counted: why, and what would allow it.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        devices: &[String],
        each_io: EachIo,
    ) -> Result<Self, Missing> {
        let what = "the processors that submit I/O";
        let point = Tracefs::find(proc_root, what)?.tracepoint("block", "block_bio_queue")?;
        let cpus = online_cpus(sys_root).map_err(|error| refused(what, &error))?;
        let partly = each_io != EachIo::Always;
        let gate = partly.then(|| Gate::open(&cpus)).transpose();
        let gate = gate.map_err(|error| refused(what, &error))?;
        let one_by_one = (1..=DEVICES_MAX).contains(&devices.len());
        let names = if one_by_one { devices } else { &[String::new()][..] };
        let mut counters = Vec::with_capacity(names.len());
        for name in names {
            let filter = if name.is_empty() { None } else { Some(wiring::filter(sys_root, name)?) };
            let counter = point.count_gated(&cpus, filter.as_deref(), gate.as_ref());
            counters.push((name.clone(), counter.map_err(|error| refused(what, &error))?));
        }
        let partly = gate.map(|gate| (gate, Turns::default()));
        Ok(Self { cpus, counters, partly })
    }
}

impl Sampler for PlacementSampler {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn period(&self) -> Option<Duration> {
        self.partly.as_ref().map(|_| Turns::PERIOD)
    }

    fn look(&mut self) {
        if let Some((gate, turns)) = &mut self.partly {
            gate.switch(turns.next());
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let of = |(device, counters): &(String, OnCpus)| {
            let events = self.cpus.iter().zip(counters.events());
            let by_cpu = events.filter_map(|(cpu, event)| Some((*cpu, event.read().ok()?.value)));
            let by_cpu = by_cpu.filter(|(_, count)| *count > 0).collect();
            SubmitSample { device: device.clone(), by_cpu }
        };
        sample.submits = self.counters.iter().map(of).collect();
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
