//! What each part between a workload and its disks could sustain, and how much of that was used. A part whose capacity a
//! record does not hold is left out. Judges nothing: what limited the workload is for [`crate::rules`] to say.

mod limit;
mod path;
mod run;
mod specs;

pub use limit::{PeakCeilings, of_limit};
pub(crate) use path::{DeviceLoad, LinkLoad, REAL_MAX, link_loads};
pub use run::of_run;
pub use specs::{KnownModel, known_model};

use fathom_model::facts::Host;
use fathom_model::limit::is_large;
use fathom_model::record::{Cost, DriveHeat};
use fathom_model::units;
use fathom_model::window::Rw;
use schemars::JsonSchema;
use serde::Serialize;

/// What a part could sustain of a workload's I/Os.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ceiling {
    /// What kind of part it is.
    pub kind: CeilingKind,
    /// The part, in words.
    pub part: String,
    /// The most that it could sustain.
    pub most: f64,
    /// What the workload did there.
    pub used: f64,
    /// Unit of both.
    pub unit: CeilingUnit,
    /// How the most is known.
    pub basis: Basis,
    /// From what, in words.
    pub source: String,
}

impl Ceiling {
    /// The part that was used, from 0 to about 1.
    pub fn share(&self) -> f64 {
        self.used / self.most
    }
}

/// A kind of part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// The CPU of one worker.
    Core,
    /// All CPUs that fathom may run on.
    Cpus,
    /// The CPU limit of the cgroup.
    CpuQuota,
    /// fathom without a device (`limit`), or without the kernel (`run`).
    LoadGenerator,
    /// The requested queue depth.
    QueueDepth,
    /// The rate that a job requests.
    Rate,
    /// An I/O limit of the cgroup.
    CgroupIo,
    /// Requests of a device's queues (nr_requests).
    Requests,
    /// Requests that a device's driver takes.
    Tags,
    /// The I/O scheduler of a device.
    Scheduler,
    /// The disks that a stacked device divides its I/Os among.
    Members,
    /// A link on the way to a disk.
    Link,
    /// A root complex that several disks share.
    RootComplex,
    /// The CPU that spends most of its time in interrupts.
    InterruptCpu,
    /// The bandwidth of memory.
    Memory,
    /// The page cache, and reclaim that makes room in it.
    PageCache,
    /// What a search found for the device.
    Device,
    /// What the device is specified for.
    Specification,
    /// The temperature from which a drive protects itself.
    Heat,
}

/// Unit of a ceiling: that in which people give the rate of such I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CeilingUnit {
    /// I/Os per second.
    Iops,
    /// Bytes per second, for large I/Os.
    BytesPerSecond,
    /// °C: no rate follows from a temperature.
    Celsius,
}

fathom_model::named! {
    /// How a ceiling is known.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Basis {
        /// From measured costs and times.
        Measured = "measured",
        /// Read from the machine or from the request.
        Read = "read",
        /// From a statement that was not verified, or a rule that need not hold.
        Assumed = "assumed",
    }
}

/// The ceilings of a workload, in the making.
struct Ceilings {
    /// Mean size of the workload's I/Os, in bytes.
    io_bytes: f64,
    all: Vec<Ceiling>,
}

impl Ceilings {
    fn new(io_bytes: f64) -> Self {
        Self { io_bytes, all: Vec::new() }
    }

    /// Adds a part that served `iops` of the workload's I/Os per second with `share` of its capacity; nothing where either
    /// is 0 or unknown.
    fn add(
        &mut self,
        (kind, part): (CeilingKind, String),
        (iops, share): (f64, f64),
        (basis, source): (Basis, String),
    ) {
        let most = iops / share;
        let is_known = |value: f64| value.is_finite() && value > 0.0;
        if ![iops, share, most].into_iter().all(is_known) {
            return;
        }
        let (unit, factor) = match is_large(self.io_bytes) {
            true => (CeilingUnit::BytesPerSecond, self.io_bytes),
            false => (CeilingUnit::Iops, 1.0),
        };
        let (most, used) = (most * factor, iops * factor);
        self.all.push(Ceiling { kind, part, most, used, unit, basis, source });
    }

    /// Adds the CPU of a worker that did `iops` with `used` of it, and with `cost` where counters exist.
    fn core(&mut self, part: &str, (iops, used): (f64, f64), cost: Option<&Cost>) {
        let each_ns = used * 1e9 / iops.max(1e-9);
        let cycles = cost.and_then(|cost| Some(cost.user_cycles + cost.kernel_cycles?));
        let cycles = cycles.filter(|cycles| *cycles > 0.0).map_or(String::new(), |cycles| {
            format!(": {cycles:.0} cycles at {:.1} GHz", cycles / each_ns)
        });
        let source = format!("CPU time per I/O, {}{cycles}", units::time(each_ns));
        let part = (CeilingKind::Core, part.to_string());
        self.add(part, (iops, used), (Basis::Measured, source));
    }

    /// Adds all CPUs that the workers may run on, and the CPU limit of their cgroup: they do `iops` with `used` CPUs.
    fn cpus(&mut self, (iops, used): (f64, f64), allowed: f64, limit: Option<f64>) {
        let each = units::time(used * 1e9 / iops);
        // A quota of a third of a CPU has no end of digits.
        let rounded = |n: f64| (n * 100.0).round() / 100.0;
        let count = |n: f64| format!("{} {}", rounded(n), if n == 1.0 { "CPU" } else { "CPUs" });
        // A single one is the submitting core.
        if allowed > 1.0 {
            let part = (CeilingKind::Cpus, format!("all {}", count(allowed)));
            let source = format!("CPU time per I/O, {each}, if all CPUs scale");
            self.add(part, (iops, used / allowed), (Basis::Assumed, source));
        }
        if let Some(limit) = limit {
            let part = (CeilingKind::CpuQuota, format!("CPU quota, {}", count(limit)));
            let source = format!("CPU time per I/O, {each}");
            self.add(part, (iops, used / limit), (Basis::Measured, source));
        }
    }

    /// Adds the bandwidth of memory, through which the workload moves `traffic` bytes per second.
    fn memory(&mut self, host: &Host, (iops, traffic): (f64, f64)) {
        let Some(copied) = host.memory_copy_bytes_per_second else { return };
        // Each byte that is copied is read once and written once.
        let share = traffic / (2.0 * copied);
        let source = format!("2 × {}, copied by all CPUs", units::bandwidth(copied));
        self.add((CeilingKind::Memory, "memory".into()), (iops, share), (Basis::Assumed, source));
    }

    /// Adds what a known `model` of a device is specified for, with I/Os of `block_bytes`.
    fn known_model(&mut self, model: Option<&str>, (iops, kind): (f64, (u64, Rw))) {
        let Some(known) = model.and_then(known_model) else { return };
        if let Some(most) = known.spec.iops(kind.0, kind.1) {
            let part = (CeilingKind::Specification, "specification of the device".to_string());
            let source = format!("{}, {}", known.name, known.source);
            self.add(part, (iops, iops / most), (Basis::Assumed, source));
        }
    }

    /// Adds the drives' temperatures at the end.
    fn heat(&mut self, drives: &[DriveHeat]) {
        self.all.extend(drives.iter().map(|drive| {
            let throttled = drive.throttled_seconds.filter(|seconds| *seconds > 0);
            let throttled = throttled.map_or(String::new(), |seconds| {
                format!(", throttled itself for {seconds} s meanwhile")
            });
            Ceiling {
                kind: CeilingKind::Heat,
                part: format!("temperature of {}", drive.device),
                most: drive.warning_celsius,
                used: drive.celsius,
                unit: CeilingUnit::Celsius,
                basis: Basis::Read,
                source: format!("{:.0} °C at the end{throttled}", drive.celsius),
            }
        }));
    }

    /// All of them, the tightest first; temperatures, which are no rates, last.
    fn sorted(mut self) -> Vec<Ceiling> {
        self.all.sort_by(|a, b| {
            let is_heat = |ceiling: &Ceiling| ceiling.unit == CeilingUnit::Celsius;
            is_heat(a).cmp(&is_heat(b)).then(b.share().total_cmp(&a.share()))
        });
        self.all
    }
}

#[cfg(test)]
mod tests;
