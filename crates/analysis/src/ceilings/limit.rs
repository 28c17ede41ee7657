//! Ceilings at the peaks of a search.

use super::path::{self, DeviceLoad, QueueSizes};
use super::{Basis, Ceiling, CeilingKind, Ceilings};
use fathom_model::limit::{BlockLimit, LimitRecord, PeakCost, QueueFacts};
use fathom_model::record::Cost;
use fathom_model::window::Point;
use fathom_model::{PerDir, units};
use schemars::JsonSchema;
use serde::Serialize;

/// The ceilings at a peak.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PeakCeilings {
    /// Index into the targets of the search.
    pub target: usize,
    /// Index into its kinds of I/O.
    pub block: usize,
    /// The tightest first.
    pub ceilings: Vec<Ceiling>,
}

/// The ceilings at each peak, in the order of targets and kinds of I/O.
pub fn of_limit(record: &LimitRecord) -> Vec<PeakCeilings> {
    let mut found = Vec::new();
    for (target, limits) in record.report.targets.iter().enumerate() {
        for (block, limit) in limits.blocks.iter().enumerate() {
            if let Some(peak) = &limit.peak {
                let ceilings = at_peak(record, target, limit, peak);
                found.push(PeakCeilings { target, block, ceilings });
            }
        }
    }
    found
}

fn at_peak(record: &LimitRecord, target: usize, limit: &BlockLimit, peak: &Point) -> Vec<Ceiling> {
    let (config, report) = (&record.config, &record.report);
    let iops = peak.iops.mean;
    let mut all = Ceilings::new(limit.block_bytes as f64);
    let is_of = |cost: &&PeakCost| {
        (cost.target, cost.block_bytes, cost.rw) == (target, limit.block_bytes, limit.rw)
    };
    let cost = record.costs.iter().find(is_of).map(|found| &found.cost);
    of_cpus(&mut all, record, peak, cost);
    let own = if peak.workers == 1 { report.own.one_worker } else { report.own.all_cores };
    let is_direct = record.conditions.get(target).is_none_or(|conditions| conditions.direct);
    let passes = if is_direct { 1.0 } else { 2.0 + peak.from_disk.unwrap_or(0.0) };
    let traffic = iops * limit.block_bytes as f64 * passes;
    all.memory(&record.header.facts.host, (iops, traffic));
    if let Some(own) = own {
        let part = (CeilingKind::LoadGenerator, "fathom itself".to_string());
        let source = (Basis::Measured, "no-ops without a device".to_string());
        all.add(part, (iops, iops / own.mean), source);
    }
    if let Some(latency_ns) = least_latency(limit, peak) {
        let depth = peak.setting().in_flight();
        let source = format!("at the lowest mean latency, {}", units::time(latency_ns));
        let part = (CeilingKind::QueueDepth, format!("queue depth {depth}"));
        let share = iops * latency_ns / 1e9 / depth as f64;
        all.add(part, (iops, share), (Basis::Measured, source));
    }
    let facts = &record.header.facts;
    let device = facts.targets.get(target).and_then(|target| target.device.as_ref());
    let kind = (limit.block_bytes, limit.rw);
    if let Some(spec) = config.spec {
        if let Some(most) = spec.iops(kind.0, kind.1) {
            let part = (CeilingKind::Specification, "specification of the device".to_string());
            all.add(part, (iops, iops / most), (Basis::Assumed, "--spec".to_string()));
        }
    } else if is_direct {
        let model = device.and_then(|device| device.model.as_deref());
        all.known_model(model, (iops, kind));
    }
    all.heat(&record.header.heat);
    let (Some(device), Some(from_disk)) = (device, peak.from_disk) else { return all.sorted() };
    let ios = shares(limit).map(|_, share| share * iops * from_disk);
    let bytes = ios.map(|_, ios| ios * limit.block_bytes as f64);
    let load = DeviceLoad {
        name: device.name.clone(),
        requests: ios,
        bytes,
        in_flight: peak.device_queue,
        at_driver: peak.driver_queue,
    };
    if let Some(queue) = config.queues.get(target) {
        path::queues(&mut all, &load, sizes(queue));
        path::cgroup_limits(&mut all, &load, (ios, bytes), &queue.io_limits);
    }
    if let Some(topology) = &facts.topology {
        path::links(&mut all, topology, &[load]);
    }
    all.sorted()
}

/// The lowest mean latency of all settings, in nanoseconds; `None` if that of QD1, where nothing queues, was not measured.
fn least_latency(limit: &BlockLimit, peak: &Point) -> Option<f64> {
    // On a busy machine, a deeper queue may have been measured at a better moment.
    let all = limit.points.iter().chain([limit.latency.as_ref()?, peak]);
    let all = all.map(|point| point.clat_mean_ns).filter(|ns| *ns > 0.0);
    all.min_by(f64::total_cmp)
}

/// The part of the I/Os in each direction.
fn shares(limit: &BlockLimit) -> PerDir<f64> {
    let mut shares = PerDir::splat(0.0);
    for (dir, percent) in limit.rw.dirs() {
        shares[*dir] = f64::from(*percent) / 100.0;
    }
    shares
}

fn of_cpus(all: &mut Ceilings, record: &LimitRecord, peak: &Point, cost: Option<&Cost>) {
    let (iops, each_ns) = (peak.iops.mean, peak.cpu_ns_per_io());
    let used = iops * each_ns / 1e9;
    let workers = f64::from(peak.workers.max(1));
    all.core("one submitting core", (iops / workers, used / workers), cost);
    all.cpus((iops, used), f64::from(record.report.cores), record.config.cpu_limit);
}

fn sizes(queue: &QueueFacts) -> QueueSizes {
    QueueSizes {
        requests: queue.nr_requests,
        tags: queue.driver_tags,
        hardware_queues: queue.hardware_queues,
        commands: None,
    }
}
