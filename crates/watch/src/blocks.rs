//! Block layer events, from its tracepoints (include/trace/events/block.h of the kernel).
//!
//! Counts come from perf events without a ring buffer, one per filter, so no record is copied. What
//! counts cannot show is sampled, one event in [`ONE_IN`]: request sizes, submitting tasks, causes
//! of splits, and the latencies from queueing to issue and from issue to completion.

mod device;
mod events;
mod ios;
mod limits;
mod sizes;
mod times;
mod trace;
mod windows;

use crate::perf::{PerCpuEvents, Tracefs, Tracepoint, WindowSchedule, online_cpus, refused};
use crate::{Sampler, TraceCoverage};
pub use device::BlocksError;
pub use ios::{IoTrace, QueuedIo};

use device::BlockDevice;
use fathom_model::list;
use fathom_model::watch::{BlocksSample, DeviceBlocks, MachineSample, Unavailable};
use sizes::UNPLUGS;
use std::io;
use std::path::Path;
use std::time::Duration;
use trace::EventTrace;
use windows::SamplingWindows;

/// Default sampling period, in events. Odd, so that batches whose size is a power of two are not
/// always sampled at the same request.
pub const ONE_IN: u32 = 61;

/// Maximum number of devices if none is named: the kernel evaluates the filters of all of them at
/// each event.
pub const DEVICES_MAX: usize = 4;
/// The same if devices are requested to come first ([`Devices::Busiest`]).
pub const FIRST_MAX: usize = 16;

/// Interval between reads of the ring buffers: at 500,000 IOPS on one CPU, 128 KiB accumulate.
const PERIOD: Duration = WindowSchedule::PERIOD;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlocksOptions {
    pub devices: Devices,
    /// One event in this many is sampled; 0 disables sampling.
    pub one_in: u32,
    /// When to trace every I/O. Unless [`TraceCoverage::Full`], only rarer events are counted (splits,
    /// requeues, request errors) and all other counts stay 0; /proc/diskstats has the numbers of I/Os
    /// and merges. Unplugs, sizes, tasks and latencies then come from the sampling windows.
    pub each_io: TraceCoverage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    Named(Vec<String>),
    /// The devices with the most I/Os, up to [`DEVICES_MAX`].
    Busiest {
        /// Kernel names of devices to put first, with the devices they are built on, up to
        /// [`FIRST_MAX`]. Unknown names are ignored.
        first: Vec<String>,
    },
}

#[derive(Debug)]
pub struct BlockSampler {
    unplugs: Vec<PerCpuEvents>,
    devices: Vec<DeviceCounters>,
    trace: Option<EventTrace>,
    each_io: TraceCoverage,
    missing: Vec<Unavailable>,
}

#[derive(Debug)]
struct DeviceCounters {
    device: BlockDevice,
    counts: Vec<(EventCounter, PerCpuEvents)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventCounter {
    Queued,
    Issued,
    Completed,
    Requeued,
    Merged,
    Split,
    Errors,
}

impl EventCounter {
    fn of(self, device: &mut DeviceBlocks) -> &mut u64 {
        match self {
            Self::Queued => &mut device.queued,
            Self::Issued => &mut device.issued,
            Self::Completed => &mut device.completed,
            Self::Requeued => &mut device.requeued,
            Self::Merged => &mut device.merged,
            Self::Split => &mut device.split,
            Self::Errors => &mut device.errors,
        }
    }
}

impl BlockSampler {
    /// Opens all events and starts counting.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        options: &BlocksOptions,
    ) -> Result<Self, BlocksError> {
        let mut missing = Vec::new();
        let devices = chosen(sys_root, &options.devices, &mut missing)?;
        let tracefs = Tracefs::find(proc_root, "block layer events");
        let tracefs = tracefs.map_err(BlocksError::Unavailable)?;
        let cpus = online_cpus(sys_root).map_err(|source| BlocksError::Unreadable {
            path: sys_root.join("devices/system/cpu/online"),
            source,
        })?;
        let mut tracepoints = BlockTracepoints { tracefs, cpus, each_io: options.each_io, missing };
        let windows = options.one_in > 0 && options.each_io != TraceCoverage::Full;
        let windows = windows.then(|| SamplingWindows::open(&tracepoints.cpus));
        let windows = windows.transpose().map_err(no_counts)?;
        // Where each I/O is a plug flush, a counter for each size costs more than all other events: windows sample them.
        let unplugs = if windows.is_some() { Vec::new() } else { tracepoints.unplugs()? };
        let devices: Vec<DeviceCounters> =
            devices.into_iter().map(|device| tracepoints.count(device)).collect();
        let trace = match options.one_in {
            0 => None,
            one_in => {
                let devices = devices.iter().map(|counted| counted.device.clone()).collect();
                match EventTrace::open(&mut tracepoints, one_in, devices, windows) {
                    // Without the counters of unplugs, which would have been refused as well.
                    Err(missing) if unplugs.is_empty() => {
                        return Err(BlocksError::Unavailable(missing));
                    }
                    opened => opened.map_err(|missing| tracepoints.missing.push(missing)).ok(),
                }
            }
        };
        let mut counts = devices.iter().flat_map(|device| device.counts.iter());
        counts.try_for_each(|(_, count)| count.enable()).map_err(no_counts)?;
        let BlockTracepoints { each_io, missing, .. } = tracepoints;
        Ok(Self { unplugs, devices, trace, each_io, missing })
    }

    pub fn missing(&self) -> &[Unavailable] {
        &self.missing
    }
}

impl Sampler for BlockSampler {
    fn name(&self) -> &'static str {
        "blocks"
    }

    fn period(&self) -> Option<Duration> {
        self.trace.as_ref().map(|_| PERIOD)
    }

    fn sample(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.drain();
            trace.advance();
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        if let Some(trace) = &mut self.trace {
            trace.drain();
        }
        // A counter that cannot be read stays 0, as one that is not available.
        let read = |counter: &PerCpuEvents| counter.read().unwrap_or(0);
        let device = |counted: &DeviceCounters| {
            let mut device = DeviceBlocks {
                name: counted.device.name.clone(),
                bio_based: counted.device.bio_based,
                removed: !counted.device.path.exists(),
                ..DeviceBlocks::default()
            };
            for (count, counter) in &counted.counts {
                *count.of(&mut device) += read(counter);
            }
            device
        };
        let mut blocks = BlocksSample {
            unplugs: UNPLUGS.iter().copied().zip(self.unplugs.iter().map(read)).collect(),
            devices: self.devices.iter().map(device).collect(),
            each_io: self.each_io == TraceCoverage::Full,
            ..BlocksSample::default()
        };
        if let Some(trace) = &self.trace {
            trace.put(&mut blocks);
        }
        sample.blocks = Some(blocks);
    }
}

/// The devices to trace; the excess is reported in `missing`.
fn chosen(
    sys_root: &Path,
    devices: &Devices,
    missing: &mut Vec<Unavailable>,
) -> Result<Vec<BlockDevice>, BlocksError> {
    let first = match devices {
        Devices::Named(names) => return device::find(sys_root, names),
        Devices::Busiest { first } => first,
    };
    let (mut devices, first) = device::with_first(sys_root, first)?;
    let most = first.clamp(DEVICES_MAX, FIRST_MAX);
    if devices.len() > most {
        let mut rest = devices.split_off(most);
        let own = if first > 0 { "the devices of the run first, then " } else { "" };
        missing.push(Unavailable {
            source: format!("block layer events of {}", named(&mut rest)),
            reason: format!("limited to {most} devices, {own}those with the most I/Os"),
            remedy: "name the devices to `fathom blocks`".into(),
        });
    }
    Ok(devices)
}

pub(super) struct BlockTracepoints {
    pub tracefs: Tracefs,
    pub cpus: Vec<u32>,
    pub each_io: TraceCoverage,
    pub missing: Vec<Unavailable>,
}

impl BlockTracepoints {
    /// The tracepoint `block:name`; if this kernel lacks it, that is reported once.
    pub fn tracepoint(&mut self, name: &str) -> Option<Tracepoint> {
        let found = self.tracefs.tracepoint("block", name);
        found
            .map_err(|missing| {
                if !self.missing.contains(&missing) {
                    self.missing.push(missing);
                }
            })
            .ok()
    }

    /// The unplug counters. Opened first: if the kernel refuses them, it refuses all others.
    fn unplugs(&self) -> Result<Vec<PerCpuEvents>, BlocksError> {
        let point =
            self.tracefs.tracepoint("block", "block_unplug").map_err(BlocksError::Unavailable)?;
        let ends = UNPLUGS[1..].iter().map(|next| format!(" && nr_rq < {next}"));
        let ends = ends.chain([String::new()]);
        let filters = UNPLUGS.iter().zip(ends).map(|(first, end)| format!("nr_rq >= {first}{end}"));
        let count = |filter: String| {
            point.count_grouped(&self.cpus, Some(&filter), None).map_err(no_counts)
        };
        filters.map(count).collect()
    }

    /// The counters of one device; `missing` reports those that this kernel lacks.
    fn count(&mut self, device: BlockDevice) -> DeviceCounters {
        let (request, bio) = (device.request_filter(), device.bio_filter());
        let failed = |filter: &str| format!("error != 0 && {filter}");
        let mut wanted = vec![
            ("block_bio_queue", EventCounter::Queued, bio.clone()),
            ("block_split", EventCounter::Split, bio.clone()),
        ];
        if device.bio_based {
            wanted.push(("block_bio_complete", EventCounter::Errors, failed(&bio)));
            wanted.push(("block_bio_complete", EventCounter::Completed, bio));
        } else {
            wanted.extend([
                ("block_bio_backmerge", EventCounter::Merged, bio.clone()),
                ("block_bio_frontmerge", EventCounter::Merged, bio),
                ("block_rq_merge", EventCounter::Merged, request.clone()),
                ("block_rq_issue", EventCounter::Issued, request.clone()),
                ("block_rq_requeue", EventCounter::Requeued, request.clone()),
                ("block_rq_complete", EventCounter::Errors, failed(&request)),
                ("block_rq_complete", EventCounter::Completed, request),
            ]);
        }
        if self.each_io != TraceCoverage::Full {
            wanted.retain(|(_, count, _)| {
                matches!(count, EventCounter::Split | EventCounter::Requeued)
            });
            if !device.bio_based {
                wanted.push(("block_rq_error", EventCounter::Errors, device.request_filter()));
            }
        }
        let open = |(event, count, filter): (&str, EventCounter, String)| {
            let point = self.tracepoint(event)?;
            let counter = point.count(&self.cpus, Some(&filter));
            let what = || format!("counting {} of {}", point.name, device.name);
            let counter = counter.map_err(|error| refused(&what(), &error));
            Some((count, counter.map_err(|missing| self.missing.push(missing)).ok()?))
        };
        let counts = wanted.into_iter().filter_map(open).collect();
        DeviceCounters { device, counts }
    }
}

fn no_counts(error: io::Error) -> BlocksError {
    BlocksError::Unavailable(refused("block layer events", &error))
}

/// The devices that are not traced: a few by name, many by number.
fn named(devices: &mut [BlockDevice]) -> String {
    devices.sort_by(|a, b| list::natural(&a.name, &b.name));
    match devices {
        few @ ([] | [_] | [_, _] | [_, _, _]) => {
            let names: Vec<&str> = few.iter().map(|device| device.name.as_str()).collect();
            list::few(&names, names.len())
        }
        many => format!("{} other devices", many.len()),
    }
}

#[cfg(test)]
#[path = "blocks/tests.rs"]
mod tests;
