//! The block layer's events, from its tracepoints (include/trace/events/block.h of the kernel).
//!
//! What can be counted is counted by events without a ring, one for each filter, so that nothing is
//! copied. One event in so many is looked at for what counting cannot tell: sizes, tasks, what split
//! an I/O, and how long requests wait for the driver and the driver for the device.

mod device;
mod limits;
mod sizes;
mod times;
mod trace;
mod windows;

use crate::perf::{OnCpus, Tracefs, Tracepoint, Turns, online_cpus, refused};
use crate::{EachIo, Sampler};
use device::Device;
use fathom_model::watch::{BlocksSample, DeviceBlocks, MachineSample, Missing};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace::Trace;

/// One event in so many is sampled unless said otherwise: odd, so that batches of a power of two
/// do not always show the same of their requests.
pub const ONE_IN: u32 = 61;

/// How many devices are watched where none is named: each event passes the filters of all of them.
pub const DEVICES_MAX: usize = 4;
/// How many, where so many come first ([`Devices::Busiest`]).
pub const FIRST_MAX: usize = 16;

/// Unplugs of so many requests and more, up to the next, are counted together: 32 is where a plug
/// is flushed by itself, 64 where it holds several queues (block/blk-mq.c, `blk_plug_max_rq_count`).
const UNPLUGS: [u32; 9] = [1, 2, 3, 5, 9, 17, 32, 33, 64];

/// How often samples are read: at 500,000 I/Os a second on one processor, 128 KiB come in this time.
const PERIOD: Duration = Turns::PERIOD;

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlocksOptions {
    /// Whose events.
    pub devices: Devices,
    /// One event in so many is sampled; 0 for none.
    pub one_in: u32,
    /// When to see what happens to each I/O. Unless that is always, only what is rarer is counted:
    /// unplugs, splits, requests put back, errors of requests; all else stays 0, and the disks' own
    /// counters have how many I/Os and merges there were. Sizes, tasks and times come from the part of the time.
    pub each_io: EachIo,
}

/// Whose events to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// Devices and partitions by name or path.
    Named(Vec<String>),
    /// Those with the most I/Os, [`DEVICES_MAX`] of them.
    Busiest {
        /// Kernel names of devices that come, with what they are made of, before these, up to
        /// [`FIRST_MAX`]. A name that there is not is passed over.
        first: Vec<String>,
    },
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    /// There is no such device.
    #[error("there is no block device {name}; there are {known}")]
    NoDevice {
        /// As it was named.
        name: String,
        /// All that there are.
        known: String,
    },
    /// A path that leads to no device.
    #[error("{path}: {why}; name a device such as nvme0n1 or /dev/nvme0n1")]
    NotADevice {
        /// As it was named.
        path: String,
        /// What it is.
        why: String,
    },
    /// The devices cannot be listed.
    #[error("{path}: {source}")]
    Unreadable {
        /// Where they are listed.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel shows no events.
    #[error("{0}")]
    Missing(Missing),
}

/// Counts and samples the events of some devices.
#[derive(Debug)]
pub struct BlockSampler {
    unplugs: Vec<OnCpus>,
    devices: Vec<Counted>,
    trace: Option<Trace>,
    each_io: EachIo,
    missing: Vec<Missing>,
}

/// A device with the events that count its own.
#[derive(Debug)]
struct Counted {
    device: Device,
    counts: Vec<(Count, OnCpus)>,
}

/// What an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Queued,
    Issued,
    Completed,
    Requeued,
    Merged,
    Split,
    Errors,
}

impl Count {
    /// The place of its value.
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
    /// Opens all events, and starts to count. `proc_root` and `sys_root` are where these file systems are
    /// mounted: `/proc` and `/sys`.
    ///
    /// # Errors
    /// [`BlocksError`] where a device is unknown, or nothing can be counted at all.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        options: &BlocksOptions,
    ) -> Result<Self, BlocksError> {
        let mut missing = Vec::new();
        let devices = chosen(sys_root, &options.devices, &mut missing)?;
        let tracefs = Tracefs::find(proc_root, "the block layer's events");
        let tracefs = tracefs.map_err(BlocksError::Missing)?;
        let cpus = online_cpus(sys_root).map_err(|source| BlocksError::Unreadable {
            path: sys_root.join("devices/system/cpu/online"),
            source,
        })?;
        let mut opening = Opening { tracefs, cpus, each_io: options.each_io, missing };
        let unplugs = opening.unplugs()?;
        let devices: Vec<Counted> =
            devices.into_iter().map(|device| opening.count(device)).collect();
        let trace = match options.one_in {
            0 => None,
            one_in => opening.trace(one_in, &devices),
        };
        let mut all =
            unplugs.iter().chain(devices.iter().flat_map(|d| d.counts.iter().map(|c| &c.1)));
        all.try_for_each(OnCpus::enable).map_err(no_counts)?;
        let Opening { each_io, missing, .. } = opening;
        Ok(Self { unplugs, devices, trace, each_io, missing })
    }

    /// What it cannot see.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The devices that are watched, by kernel name.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        self.devices.iter().map(|counted| counted.device.name.as_str()).collect()
    }
}

impl Sampler for BlockSampler {
    fn name(&self) -> &'static str {
        "blocks"
    }

    fn period(&self) -> Option<Duration> {
        self.trace.as_ref().map(|_| PERIOD)
    }

    fn look(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.drain();
            trace.turn();
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        if let Some(trace) = &mut self.trace {
            trace.drain();
        }
        // A counter that cannot be read stands at 0 as one that is missing.
        let read = |counter: &OnCpus| counter.read().unwrap_or(0);
        let device = |counted: &Counted| {
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
            each_io: self.each_io == EachIo::Always,
            ..BlocksSample::default()
        };
        if let Some(trace) = &self.trace {
            trace.put(&mut blocks);
        }
        sample.blocks = Some(blocks);
    }
}

/// The devices to watch; those that are too many are missing.
fn chosen(
    sys_root: &Path,
    devices: &Devices,
    missing: &mut Vec<Missing>,
) -> Result<Vec<Device>, BlocksError> {
    let first = match devices {
        Devices::Named(names) => return device::find(sys_root, names),
        Devices::Busiest { first } => first,
    };
    let (mut devices, first) = device::with_first(sys_root, first)?;
    let most = first.clamp(DEVICES_MAX, FIRST_MAX);
    if devices.len() > most {
        let rest = devices.split_off(most);
        let own = if first > 0 { "those of the run, and then " } else { "" };
        missing.push(Missing {
            what: format!("block events of {}", names(&rest)),
            why: format!("{most} devices are watched, {own}those with the most I/Os"),
            allow: "name the devices to `fathom blocks`".into(),
        });
    }
    Ok(devices)
}

/// What opening events needs.
struct Opening {
    tracefs: Tracefs,
    cpus: Vec<u32>,
    each_io: EachIo,
    missing: Vec<Missing>,
}

impl Opening {
    /// The counters of unplugs. They are the first: where they cannot be opened nothing can.
    fn unplugs(&self) -> Result<Vec<OnCpus>, BlocksError> {
        let point =
            self.tracefs.tracepoint("block", "block_unplug").map_err(BlocksError::Missing)?;
        let ends = UNPLUGS[1..].iter().map(|next| format!(" && nr_rq < {next}"));
        let ends = ends.chain([String::new()]);
        let filters = UNPLUGS.iter().zip(ends).map(|(first, end)| format!("nr_rq >= {first}{end}"));
        filters.map(|f| point.count(&self.cpus, Some(&f)).map_err(no_counts)).collect()
    }

    /// The counters of one device; a part that this kernel does not have is missing.
    fn count(&mut self, device: Device) -> Counted {
        let (request, bio) = (device.request_filter(), device.bio_filter());
        let failed = |filter: &str| format!("error != 0 && {filter}");
        let mut wanted = vec![
            ("block_bio_queue", Count::Queued, bio.clone()),
            ("block_split", Count::Split, bio.clone()),
        ];
        if device.bio_based {
            wanted.push(("block_bio_complete", Count::Errors, failed(&bio)));
            wanted.push(("block_bio_complete", Count::Completed, bio));
        } else {
            wanted.extend([
                ("block_bio_backmerge", Count::Merged, bio.clone()),
                ("block_bio_frontmerge", Count::Merged, bio),
                ("block_rq_merge", Count::Merged, request.clone()),
                ("block_rq_issue", Count::Issued, request.clone()),
                ("block_rq_requeue", Count::Requeued, request.clone()),
                ("block_rq_complete", Count::Errors, failed(&request)),
                ("block_rq_complete", Count::Completed, request),
            ]);
        }
        if self.each_io != EachIo::Always {
            wanted.retain(|(_, count, _)| matches!(count, Count::Split | Count::Requeued));
            if !device.bio_based {
                wanted.push(("block_rq_error", Count::Errors, device.request_filter()));
            }
        }
        let open = |(event, count, filter): (&str, Count, String)| {
            let point = self.tracepoint(event)?;
            let counter = point.count(&self.cpus, Some(&filter));
            let what = || format!("counting {} of {}", point.name, device.name);
            let counter = counter.map_err(|error| refused(&what(), &error));
            Some((count, counter.map_err(|missing| self.missing.push(missing)).ok()?))
        };
        let counts = wanted.into_iter().filter_map(open).collect();
        Counted { device, counts }
    }

    fn trace(&mut self, one_in: u32, devices: &[Counted]) -> Option<Trace> {
        let devices = devices.iter().map(|counted| counted.device.clone()).collect();
        let trace = Trace::open(self, one_in, devices);
        trace.map_err(|missing| self.missing.push(missing)).ok()
    }

    /// A tracepoint; one that this kernel does not have is noted once.
    fn tracepoint(&mut self, name: &str) -> Option<Tracepoint> {
        let found = self.tracefs.tracepoint("block", name);
        found
            .map_err(|missing| {
                if !self.missing.contains(&missing) {
                    self.missing.push(missing);
                }
            })
            .ok()
    }
}

fn no_counts(error: io::Error) -> BlocksError {
    BlocksError::Missing(refused("block events", &error))
}

fn names(devices: &[Device]) -> String {
    devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "blocks/tests.rs"]
mod tests;
