//! Submitting CPUs.

use crate::Sampler;
use crate::perf::{
    GroupLeaders, PerCpuEvents, TraceCoverage, Tracefs, WindowSchedule, online_cpus, refused,
};
use fathom_model::watch::{MachineSample, SubmitSample, Unavailable};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Maximum number of devices to count separately: the kernel evaluates one more filter per I/O for
/// each.
const DEVICES_MAX: usize = 8;

/// Counts bios by submitting CPU (`block_bio_queue`). An I/O to a stacked device counts there and
/// at each device below it.
#[derive(Debug)]
pub struct PlacementSampler {
    cpus: Vec<u32>,
    counters: Vec<(String, PerCpuEvents)>,
    /// Enables the counters in windows, unless they are always enabled.
    partly: Option<(GroupLeaders, WindowSchedule)>,
}

impl PlacementSampler {
    /// Counts each of `devices` (whole devices, by kernel name), or all devices together if there
    /// are none or too many. `each_io`: when to count.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        devices: &[String],
        each_io: TraceCoverage,
    ) -> Result<Self, Unavailable> {
        let what = "submitting CPUs";
        let point = Tracefs::find(proc_root, what)?.tracepoint("block", "block_bio_queue")?;
        let cpus = online_cpus(sys_root).map_err(|error| refused(what, &error))?;
        let partly = each_io != TraceCoverage::Full;
        let leaders = partly.then(|| GroupLeaders::open(&cpus)).transpose();
        let leaders = leaders.map_err(|error| refused(what, &error))?;
        let one_by_one = (1..=DEVICES_MAX).contains(&devices.len());
        let names = if one_by_one { devices } else { &[String::new()][..] };
        let mut counters = Vec::with_capacity(names.len());
        for name in names {
            let filter = if name.is_empty() { None } else { Some(filter(sys_root, name)?) };
            let counter = point.count_grouped(&cpus, filter.as_deref(), leaders.as_ref());
            counters.push((name.clone(), counter.map_err(|error| refused(what, &error))?));
        }
        let partly = leaders.map(|leaders| (leaders, WindowSchedule::default()));
        Ok(Self { cpus, counters, partly })
    }
}

impl Sampler for PlacementSampler {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn period(&self) -> Option<Duration> {
        self.partly.as_ref().map(|_| WindowSchedule::PERIOD)
    }

    fn sample(&mut self) {
        if let Some((leaders, schedule)) = &mut self.partly {
            leaders.set_enabled(schedule.next());
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let of = |(device, counters): &(String, PerCpuEvents)| {
            let events = self.cpus.iter().zip(counters.events());
            let by_cpu = events.filter_map(|(cpu, event)| Some((*cpu, event.read().ok()?.value)));
            let by_cpu = by_cpu.filter(|(_, count)| *count > 0).collect();
            SubmitSample { device: device.clone(), by_cpu }
        };
        sample.submits = self.counters.iter().map(of).collect();
    }
}

fn filter(sys_root: &Path, name: &str) -> Result<String, Unavailable> {
    // sysfs has `cciss!c0d0` for `cciss/c0d0`.
    let path = sys_root.join("block").join(name.replace('/', "!")).join("dev");
    let missing = |why: String| Unavailable {
        source: format!("CPUs submitting to {name}"),
        reason: format!("{}: {why}", path.display()),
        remedy: "name a whole block device, as in /sys/block".into(),
    };
    let text = fs::read_to_string(&path).map_err(|error| missing(error.to_string()))?;
    let number = text.trim().split_once(':').and_then(|(major, minor)| {
        // The kernel-internal device number: MKDEV in include/linux/kdev_t.h.
        Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
    });
    let number = number.ok_or_else(|| missing(format!("expected major:minor, found {text:?}")))?;
    Ok(format!("dev == {number}"))
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
