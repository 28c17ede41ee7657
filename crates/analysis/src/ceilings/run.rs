//! Ceilings of a run.

use super::path::{self, DeviceLoad, QueueSizes};
use super::{Basis, Ceiling, CeilingKind, Ceilings};
use crate::derive;
use crate::layers::{Layer, LayerTimes};
use crate::machine::{DiskRates, with_those_below};
use crate::watch::Observed;
use fathom_model::facts::DeviceFacts;
use fathom_model::plan::{JobPlan, Rate};
use fathom_model::record::{DiskRecord, JobRecord, RunRecord};
use fathom_model::{Outcome, PerDir, units};

/// Below this, CPU times and the counters of disks are too coarse, in nanoseconds.
const RUNTIME_MIN_NS: u64 = 500_000_000;
/// CPU samples from which the share of a layer means something.
const SAMPLES_MIN: u64 = 200;
/// I/O schedulers with one lock for each device: `dd->lock` (block/mq-deadline.c), `bfqd->lock` (block/bfq-iosched.c).
const WITH_ONE_LOCK: [&str; 2] = ["mq-deadline", "bfq"];

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
    itself(&mut all, &jobs);
    let traffic = memory_traffic(&jobs, &record.disks);
    all.memory(&record.header.facts.host, (iops, traffic));
    depths(&mut all, &jobs, iops);
    rates(&mut all, &jobs, iops);
    let mut loads: Vec<DeviceLoad> = record.disks.iter().filter_map(load).collect();
    if let Some(seen) = observed {
        page_cache(&mut all, seen, &jobs, iops);
        scheduler(&mut all, record, seen, &jobs, iops);
        loads.extend(volumes(&mut all, record, &loads, &seen.rates().disks));
    }
    for load in &loads {
        let targets = record.header.facts.targets.iter();
        let mut devices = targets.filter_map(|target| target.device.as_ref());
        if let Some(device) = devices.find(|device| device.name == load.name) {
            let load = &DeviceLoad { at_driver: at_driver(load, device, observed), ..load.clone() };
            path::queues(&mut all, load, sizes(device));
            path::device(&mut all, load, &record.device_limits);
            if let Some(kind) = record.kind_of_io() {
                let used = (load.iops(all.io_bytes), (kind.block_bytes, kind.rw));
                all.known_model(device.model.as_deref(), used);
            }
            let limits = cgroup.map_or(&[][..], |cgroup| &cgroup.io_limits);
            path::cgroup_limits(&mut all, load, (ios, bytes), limits);
        }
    }
    if let Some(topology) = &record.header.facts.topology {
        path::links(&mut all, topology, &loads);
        path::root_complexes(&mut all, topology, &loads, &record.device_limits);
    }
    all.heat(&record.header.heat);
    all.sorted()
}

/// fathom itself: what the jobs would do if the time of the fullest one were all spent in user mode.
fn itself(all: &mut Ceilings, jobs: &[(&JobPlan, &JobRecord)]) {
    let user = |job: &JobRecord| job.usage.user_ns as f64 / job.runtime_ns as f64;
    let Some((_, job)) = jobs.iter().max_by(|a, b| user(a.1).total_cmp(&user(b.1))) else { return };
    let iops: f64 =
        jobs.iter().map(|(_, job)| derive::per_second(derive::ios(job), job.runtime_ns)).sum();
    let each = units::time(job.usage.user_ns as f64 / derive::ios(job).max(1) as f64);
    let source = format!("CPU time per I/O in user mode, {each}");
    let part = (CeilingKind::LoadGenerator, "fathom itself".to_string());
    all.add(part, (iops, user(job)), (Basis::Measured, source));
}

/// What the page cache takes of the CPU time of jobs that use it, with the copies and with reclaim, by CPU samples: its
/// ceiling is where that fills the CPUs of the jobs.
fn page_cache(all: &mut Ceilings, seen: &Observed, jobs: &[(&JobPlan, &JobRecord)], iops: f64) {
    let is_buffered = |plan: &JobPlan| !plan.direct && !plan.regions.is_empty();
    let Some(stacks) = seen.own_stacks().filter(|_| jobs.iter().all(|(plan, _)| is_buffered(plan)))
    else {
        return;
    };
    let times = LayerTimes::of([&stacks], &seen.known_stacks, |_| true);
    if times.samples < SAMPLES_MIN {
        return;
    }
    let cpus: f64 = jobs.iter().map(|(_, job)| own_cpu(job) + helpers(job)).sum();
    let of = |layer| times.share(layer) * cpus;
    let reclaim = of(Layer::Reclaim);
    let used = of(Layer::PageCache) + of(Layer::Copy) + reclaim;
    let each = |cpus: f64| units::time(cpus * 1e9 / iops);
    let source =
        format!("CPU time in them per I/O, {}, of which reclaim {}", each(used), each(reclaim));
    let part = (CeilingKind::PageCache, "page cache and reclaim".to_string());
    all.add(part, (iops, used / jobs.len() as f64), (Basis::Measured, source));
}

/// Requests of a device at its driver: without a scheduler all of its requests, otherwise by Little's law, if the time that
/// they took there was sampled.
fn at_driver(load: &DeviceLoad, device: &DeviceFacts, seen: Option<&Observed>) -> Option<f64> {
    if !is_scheduled(device) {
        return load.in_flight;
    }
    let blocks = seen?.last().blocks.as_ref()?;
    let times = &blocks.devices.iter().find(|device| device.name == load.name)?.driver;
    let requests: f64 = load.requests.iter().map(|(_, requests)| requests).sum();
    // Requests are counted before they are merged.
    let at_driver = (requests * times.mean_ns() / 1e9).min(load.in_flight?);
    (times.count() >= SAMPLES_MIN).then_some(at_driver)
}

fn is_scheduled(device: &DeviceFacts) -> bool {
    device.scheduler.as_deref().is_some_and(|scheduler| scheduler != "none")
}

/// The I/O scheduler of the jobs' disk, by the time that they spent in it, waits for its lock excluded. Where several disks have
/// one, it is not known in which.
fn scheduler(
    all: &mut Ceilings,
    record: &RunRecord,
    seen: &Observed,
    jobs: &[(&JobPlan, &JobRecord)],
    iops: f64,
) {
    let targets = record.header.facts.targets.iter().filter_map(|target| target.device.as_ref());
    let mut scheduled: Vec<(&str, &str)> = targets
        .filter_map(|device| Some((device.name.as_str(), device.scheduler.as_deref()?)))
        .filter(|(_, scheduler)| *scheduler != "none")
        .collect();
    scheduled.dedup();
    let [(device, name)] = scheduled[..] else { return };
    let Some(stacks) = seen.own_stacks().filter(|_| WITH_ONE_LOCK.contains(&name)) else { return };
    let times = LayerTimes::of([&stacks], &seen.known_stacks, |_| true);
    let Some(row) = times.layer(Layer::IoScheduler).filter(|_| times.samples >= SAMPLES_MIN) else {
        return;
    };
    let cpus: f64 = jobs.iter().map(|(_, job)| own_cpu(job) + helpers(job)).sum();
    let used = row.time.saturating_sub(row.lock_time) as f64 / times.time() as f64 * cpus;
    let each = units::time(used * 1e9 / iops);
    let source = format!("CPU time in it per I/O, {each}, if its lock serves one CPU at a time");
    let part = (CeilingKind::Scheduler, format!("I/O scheduler {name} of {device}"));
    all.add(part, (iops, used), (Basis::Assumed, source));
}

/// Adds the disks of stacked targets, and returns what those did that are not among `loads`.
fn volumes(
    all: &mut Ceilings,
    record: &RunRecord,
    loads: &[DeviceLoad],
    disks: &[DiskRates],
) -> Vec<DeviceLoad> {
    let mut found: Vec<DeviceLoad> = Vec::new();
    for load in loads {
        let below = disks_below(disks, &load.name);
        if below.len() > 1 {
            path::members(all, load, &below, &record.device_limits);
            let is_known =
                |disk: &DeviceLoad| loads.iter().chain(&found).any(|l| l.name == disk.name);
            let new: Vec<DeviceLoad> = below.into_iter().filter(|disk| !is_known(disk)).collect();
            found.extend(new);
        }
    }
    found
}

/// The disks on which the device `name` is built, and what they did; none for a disk.
fn disks_below(disks: &[DiskRates], name: &str) -> Vec<DeviceLoad> {
    let of = |name: &str| disks.iter().find(|disk| disk.name == name);
    let names = with_those_below(disks, vec![name]);
    let leaves = names.into_iter().skip(1).filter_map(of).filter(|disk| disk.below.is_empty());
    leaves.map(DeviceLoad::from).collect()
}

/// Time of kernel threads of the worker's ring per second.
fn helpers(job: &JobRecord) -> f64 {
    job.usage.helper_ns as f64 / job.runtime_ns as f64
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
    // Without a scheduler, both are the same requests.
    let is_fewer = |requests: &u32| device.driver_tags.is_none_or(|tags| *requests < tags);
    let requests = device.nr_requests.filter(|n| is_scheduled(device) || is_fewer(n));
    QueueSizes {
        requests,
        tags: device.driver_tags.filter(|_| is_scheduled(device) || requests.is_none()),
        hardware_queues: device.hardware_queues,
        commands: device.queue_depth,
    }
}
