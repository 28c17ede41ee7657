//! Ceilings of a run.

use super::path::{self, DeviceLoad, QueueSizes};
use super::{Basis, Ceiling, CeilingKind, Ceilings};
use crate::derive;
use crate::watch::Observed;
use fathom_model::facts::DeviceFacts;
use fathom_model::plan::{JobPlan, Rate};
use fathom_model::record::{DiskRecord, JobRecord, RunRecord};
use fathom_model::{Outcome, PerDir, units};

/// Below this, CPU times and the counters of disks are too coarse, in nanoseconds.
const RUNTIME_MIN_NS: u64 = 500_000_000;

/// Ceilings of the jobs of a run together, the tightest first; with the samples, those of the cgroup, too. None where jobs
/// ran one after the other, since disks are counted over the whole run, where they worked on names, or only for a moment, and of several machines together.
pub fn of_run(record: &RunRecord, observed: Option<&Observed>) -> Vec<Ceiling> {
    let jobs: Vec<(&JobPlan, &JobRecord)> = derive::jobs(record).collect();
    let is_usable = |(plan, job): &(&JobPlan, &JobRecord)| {
        plan.wave == jobs[0].0.wave
            && plan.engine.paths().is_none()
            && job.runtime_ns >= RUNTIME_MIN_NS
    };
    let is_failed = matches!(record.header.outcome, Outcome::Failed { .. });
    let is_of_many = !record.ranks.is_empty();
    if is_failed || is_of_many || jobs.is_empty() || !jobs.iter().all(is_usable) {
        return Vec::new();
    }
    let of_all = |of: &dyn Fn(&JobRecord) -> u64| -> f64 {
        jobs.iter().map(|(_, job)| derive::per_second(of(job), job.runtime_ns)).sum()
    };
    let ios = PerDir::from_fn(|dir| of_all(&|job| job.dirs[dir].counts.ios));
    let bytes = PerDir::from_fn(|dir| of_all(&|job| job.dirs[dir].counts.bytes));
    let (iops, bandwidth) = (of_all(&derive::ios), of_all(&derive::bytes));
    let mut all = Ceilings::new(if iops > 0.0 { bandwidth / iops } else { 0.0 });
    let cgroup = observed.and_then(|seen| seen.last().system.as_ref()?.cgroup.as_ref());
    of_cpus(&mut all, record, &jobs, iops, cgroup.and_then(|cgroup| cgroup.cpu_limit));
    if let Some(seen) = observed {
        interrupts(&mut all, seen, iops);
    }
    let traffic = memory_traffic(&jobs, &record.disks);
    all.memory(&record.header.facts.host, (iops, traffic));
    depths(&mut all, &jobs, iops);
    rates(&mut all, &jobs, iops);
    let loads: Vec<DeviceLoad> = record.disks.iter().filter_map(load).collect();
    for load in &loads {
        let targets = record.header.facts.targets.iter();
        let mut devices = targets.filter_map(|target| target.device.as_ref());
        if let Some(device) = devices.find(|device| device.name == load.name) {
            path::queues(&mut all, load, sizes(device));
            path::device(&mut all, load, &record.device_limits);
            let limits = cgroup.map_or(&[][..], |cgroup| &cgroup.io_limits);
            path::cgroup_limits(&mut all, load, (ios, bytes), limits);
        }
    }
    if let Some(topology) = &record.header.facts.topology {
        path::links(&mut all, topology, &loads);
    }
    all.sorted()
}

/// Time of the worker's own thread per second.
fn own_cpu(job: &JobRecord) -> f64 {
    (job.usage.user_ns + job.usage.system_ns) as f64 / job.runtime_ns as f64
}

fn of_cpus(
    all: &mut Ceilings,
    record: &RunRecord,
    jobs: &[(&JobPlan, &JobRecord)],
    iops: f64,
    limit: Option<f64>,
) {
    let measured = |job: &JobRecord| own_cpu(job) > 0.0;
    if let Some((_, job)) = jobs.iter().max_by(|a, b| own_cpu(a.1).total_cmp(&own_cpu(b.1))) {
        let share = own_cpu(job);
        let own = derive::per_second(derive::ios(job), job.runtime_ns);
        let part = if jobs.len() == 1 { "one submitting core" } else { "busiest submitting core" };
        all.core(part, (own, share), job.cost.as_ref());
    }
    if !jobs.iter().all(|(_, job)| measured(job)) {
        return;
    }
    let helpers = |job: &JobRecord| job.usage.helper_ns as f64 / job.runtime_ns as f64;
    let used: f64 = jobs.iter().map(|(_, job)| own_cpu(job) + helpers(job)).sum();
    all.cpus((iops, used), allowed(record, jobs) as f64, limit);
}

/// The CPU that spent most of its time in interrupts, of devices and of softirqs. Those of all programs count.
fn interrupts(all: &mut Ceilings, seen: &Observed, iops: f64) {
    let Some(system) = &seen.rates().system else { return };
    let cpus =
        system.cpus.iter().map(|one| (one.cpu, (one.shares.irq + one.shares.softirq) / 100.0));
    if let Some((cpu, share)) = cpus.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let part = (CeilingKind::InterruptCpu, format!("interrupts on CPU {cpu}"));
        let source = format!("{:.1}% of its time", share * 100.0);
        all.add(part, (iops, share), (Basis::Measured, source));
    }
}

/// Bytes per second that the jobs and their disks move through memory: once for each byte that a device transfers, and twice
/// for each that is copied to or from the page cache. Engines without a target move nothing.
fn memory_traffic(jobs: &[(&JobPlan, &JobRecord)], disks: &[DiskRecord]) -> f64 {
    let of = |direct: bool| -> f64 {
        let jobs =
            jobs.iter().filter(|(plan, _)| plan.direct == direct && !plan.regions.is_empty());
        jobs.map(|(_, job)| derive::per_second(derive::bytes(job), job.runtime_ns)).sum()
    };
    let loads = disks.iter().filter_map(load);
    let by_disks: f64 =
        loads.map(|load| load.bytes.iter().map(|(_, bytes)| bytes).sum::<f64>()).sum();
    by_disks.max(of(true)) + 2.0 * of(false)
}

/// The number of CPUs that the workers may run on; 0 if that is not known.
fn allowed(record: &RunRecord, jobs: &[(&JobPlan, &JobRecord)]) -> usize {
    let pinned = jobs.iter().map(|(plan, _)| &plan.placement.cpus);
    let mut cpus: Vec<u32> = pinned.clone().flatten().copied().collect();
    if pinned.into_iter().any(Vec::is_empty) {
        cpus.clone_from(&record.header.facts.host.cpus_allowed);
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}

/// The requested queue depths, at the latencies that were measured; only of jobs that rates or pauses hold back. Others use all
/// of their depth, by Little's law, whatever limits them.
fn depths(all: &mut Ceilings, jobs: &[(&JobPlan, &JobRecord)], iops: f64) {
    if !jobs.iter().all(|(plan, _)| plan.is_held_back() || plan.think.is_some()) {
        return;
    }
    let most = |(plan, job): &(&JobPlan, &JobRecord)| {
        let latency_ns = derive::latency_sum_ns(job) as f64 / derive::ios(job) as f64;
        (latency_ns > 0.0).then(|| f64::from(plan.depth) * 1e9 / latency_ns)
    };
    let Some(most) = jobs.iter().map(most).sum::<Option<f64>>() else { return };
    let depth: u64 = jobs.iter().map(|(plan, _)| u64::from(plan.depth)).sum();
    let latency = units::time(depth as f64 * 1e9 / most);
    let part = match jobs {
        [_] => format!("queue depth {depth}"),
        jobs => format!("queue depth {depth} ({} jobs)", jobs.len()),
    };
    let source = format!("at the measured mean latency, {latency}");
    all.add((CeilingKind::QueueDepth, part), (iops, iops / most), (Basis::Measured, source));
}

/// The rates that the jobs request, if all do in all directions.
fn rates(all: &mut Ceilings, jobs: &[(&JobPlan, &JobRecord)], iops: f64) {
    let most = |(plan, job): &(&JobPlan, &JobRecord)| {
        let of = |dir| match plan.rate[dir]? {
            Rate::Iops(rate) => Some(rate as f64),
            Rate::BytesPerSecond(rate) => {
                let counts = job.dirs[dir].counts;
                Some(rate as f64 * counts.ios as f64 / counts.bytes as f64)
            }
        };
        plan.used_dirs().map(of).sum::<Option<f64>>()
    };
    if let Some(most) = jobs.iter().map(most).sum::<Option<f64>>() {
        let source = (Basis::Read, "rate, rate_iops".to_string());
        let part = (CeilingKind::Rate, "requested rate".to_string());
        all.add(part, (iops, iops / most), source);
    }
}

fn load(disk: &DiskRecord) -> Option<DeviceLoad> {
    let seconds = disk.elapsed_ms as f64 / 1e3;
    (seconds > 0.0).then(|| DeviceLoad {
        name: disk.name.clone(),
        requests: disk.ios.map(|dir, ios| (ios + disk.merges[dir]) as f64 / seconds),
        bytes: PerDir { trim: 0, ..disk.sectors }
            .map(|_, sectors| *sectors as f64 * 512.0 / seconds),
        in_flight: Some(disk.queue_mean()),
        at_driver: None,
    })
}

fn sizes(device: &DeviceFacts) -> QueueSizes {
    QueueSizes {
        requests: device.nr_requests,
        hardware_queues: device.hardware_queues,
        commands: device.queue_depth,
        ..QueueSizes::default()
    }
}
