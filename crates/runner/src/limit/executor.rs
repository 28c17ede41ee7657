//! Windows of a search, measured by the engine with one job for each worker.

use crate::targets::OpenTargets;
use crate::window::{self, MachineSnapshots, Snapshot, is_clean};
use fathom_model::PerDir;
use fathom_model::experiment::WindowResult;
use fathom_model::facts::{Facts, TargetFacts};
use fathom_model::plan::{
    BlockSizes, Distribution, Engine, JobPlan, Order, Plan, Rate, RateProcess, Region, Uring,
};
use fathom_model::record::{DiskRecord, JobRecord};
use fathom_model::window::{Conditions, Load, Measurement, Probe, WorkerCpu};
use fathom_watch::disks::DriverQueue;
use rustix::io::Errno;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Which workers of a window are this machine's: worker `n` is on rank `n` modulo the number of ranks, so that two are on two
/// machines.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub rank: u32,
    pub ranks: u32,
}

impl Place {
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };

    /// Of so many workers or CPUs.
    pub fn own(self, all: u32) -> impl Iterator<Item = u32> {
        (self.rank..all).step_by(self.ranks as usize)
    }
}

pub struct EngineExecutor<'a> {
    targets: &'a OpenTargets,
    conditions: Vec<Conditions>,
    place: Place,
    machine: MachineSnapshots,
    /// Of the device of each target that has an I/O scheduler.
    drivers: Vec<Option<DriverQueue>>,
    number: u64,
}

impl<'a> EngineExecutor<'a> {
    pub fn new(targets: &'a OpenTargets, conditions: Vec<Conditions>, place: Place) -> Self {
        let machine = MachineSnapshots::new(targets);
        let drivers = targets.facts.targets.iter().map(driver).collect();
        Self { targets, conditions, place, machine, drivers, number: 0 }
    }

    /// The disks that hold a load's target, between two snapshots, as one.
    fn disk(&self, load: &Load, from: &Snapshot, to: &Snapshot) -> Option<DiskRecord> {
        let target = self.targets.facts.targets.get(load.target?)?;
        to.disk_since(from, |disk| target.may_be_on(&disk.name))
    }

    fn idle(&self, probe: &Probe) -> Measurement {
        let from = self.machine.take();
        thread::sleep(Duration::from_nanos(probe.ramp_ns + probe.window_ns));
        let to = self.machine.take();
        let elapsed_ns = (to.at - from.at).as_nanos() as u64;
        let loads = vec![WindowResult::default(); probe.loads.len()];
        Measurement { elapsed_ns, took_ns: elapsed_ns, loads, cpu: to.cpu_since(&from) }
    }

    pub fn window(&mut self, probe: &Probe) -> Result<Measurement, String> {
        self.number += 1;
        let plan = plan(probe, &self.targets.facts, &self.conditions, self.number, self.place)?;
        if plan.jobs.is_empty() {
            return Ok(self.idle(probe));
        }
        let lengths = (Duration::from_nanos(probe.ramp_ns), Duration::from_nanos(probe.window_ns));
        let mut drivers = std::mem::take(&mut self.drivers);
        let mut queues = DriverQueues::of(probe, &mut drivers);
        let has_queues = queues.any();
        let mut observe = || queues.sample();
        let observe = has_queues.then_some(&mut observe as &mut dyn FnMut());
        let measured = window::measure(self.targets, &plan, lengths, &self.machine, observe);
        let queues = queues.means();
        self.drivers = drivers;
        let window::MeasuredWindow { jobs, from, to, took } = measured?;
        let took_ns = took.as_nanos() as u64;
        if let Some(error) = spawn_error(&jobs) {
            return Err(error);
        }
        let elapsed_ns = window::elapsed_ns(&jobs);
        if elapsed_ns == 0 && jobs.iter().all(|job| job.error.is_none()) {
            return Err("the workers ended before the measured time began".to_string());
        }
        let mut rest = jobs.as_slice();
        let mut loads = Vec::new();
        for (load, driver_queue) in probe.loads.iter().zip(queues) {
            let workers = self.place.own(load.setting.workers).count();
            let (mine, others) = rest.split_at(rest.len().min(workers));
            rest = others;
            let disk = self.disk(load, &from, &to);
            loads.push(WindowResult { disk, driver_queue, ..self::measured(mine, load) });
        }
        Ok(Measurement { elapsed_ns, took_ns, loads, cpu: to.cpu_since(&from) })
    }
}

fn driver(target: &TargetFacts) -> Option<DriverQueue> {
    let device = target.device.as_ref()?;
    device.scheduler.as_deref().filter(|name| *name != "none")?;
    DriverQueue::open(Path::new("/sys"), &device.name).ok()
}

/// The drivers of the loads of a window, with the number of samples and their sum.
struct DriverQueues<'a>(Vec<(Option<&'a mut DriverQueue>, u64, u64)>);

impl<'a> DriverQueues<'a> {
    fn of(probe: &Probe, drivers: &'a mut [Option<DriverQueue>]) -> Self {
        let mut drivers: Vec<Option<&mut DriverQueue>> =
            drivers.iter_mut().map(Option::as_mut).collect();
        let of = |load: &Load| (drivers.get_mut(load.target?)?).take();
        let loads: Vec<_> = probe.loads.iter().map(of).collect();
        Self(loads.into_iter().map(|driver| (driver, 0, 0)).collect())
    }

    fn any(&self) -> bool {
        self.0.iter().any(|(driver, ..)| driver.is_some())
    }

    fn sample(&mut self) {
        for (driver, samples, sum) in &mut self.0 {
            if let Some(in_flight) = driver.as_mut().and_then(|driver| driver.in_flight()) {
                *samples += 1;
                *sum = sum.saturating_add(in_flight);
            }
        }
    }

    fn means(&self) -> Vec<Option<f64>> {
        let mean = |n: u64, sum: u64| (n > 0).then(|| sum as f64 / n as f64);
        self.0.iter().map(|(_, samples, sum)| mean(*samples, *sum)).collect()
    }
}

/// Errors that mean a lack of resources or of kernel support.
const REFUSALS: [Errno; 10] = [
    Errno::NOMEM,
    Errno::AGAIN,
    Errno::INVAL,
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOBUFS,
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOSYS,
    Errno::OPNOTSUPP,
];

/// Why a worker failed without a failed I/O: its setting is not available.
fn spawn_error(jobs: &[JobRecord]) -> Option<String> {
    let errors = jobs.iter().filter(|job| is_clean(job)).filter_map(|job| job.error.as_ref());
    let refusal = |errno: i32| errno == 0 || REFUSALS.iter().any(|e| e.raw_os_error() == errno);
    errors.filter(|e| refusal(e.errno)).map(|e| e.message.clone()).next()
}

fn measured(jobs: &[JobRecord], load: &Load) -> WindowResult {
    let sum = window::workers(jobs, load.iops.is_some());
    let worker = |job: &JobRecord| WorkerCpu {
        user_ns: job.usage.user_ns,
        system_ns: job.usage.system_ns + job.usage.helper_ns,
    };
    WindowResult {
        ios: sum.ios,
        bytes: sum.bytes,
        errors: sum.errors,
        short_ios: sum.short_ios,
        first_error: sum.first_error,
        clat: sum.clat,
        unstarted: sum.unstarted,
        workers: jobs.iter().map(worker).collect(),
        ..WindowResult::default()
    }
}

/// The plan of the workers of `probe` at `place`, with jobs in the order of its loads. `number` differs between windows, so that
/// none reads blocks that another has just read.
pub fn plan(
    probe: &Probe,
    facts: &Facts,
    conditions: &[Conditions],
    number: u64,
    place: Place,
) -> Result<Plan, String> {
    let cpus = &facts.host.cpus_allowed;
    let own_cpus = |all: u32| cpus.len().min(place.own(all).count().max(1));
    let cpus = probe.cores.map_or(&[][..], |all| &cpus[..own_cpus(all)]);
    let mut jobs = Vec::new();
    for load in &probe.loads {
        // NOPs read nothing, but use offsets like those of a target.
        let region = region(load.target.unwrap_or(0), probe.block_bytes, facts)?;
        let direct = load.target.and_then(|t| conditions.get(t)).is_some_and(|c| c.direct);
        for worker in place.own(load.setting.workers) {
            let mut job = job(probe, load, part(region, probe, worker, load.setting.workers));
            let among_all = jobs.len() as u64 * u64::from(place.ranks) + u64::from(place.rank);
            job.access.seed = window::seed(number, among_all);
            job.direct = direct;
            job.placement.cpus = cpus.to_vec();
            jobs.push(job);
        }
    }
    let plan = Plan { jobs, ..Plan::default() };
    fathom_spec::check_memory(&plan, facts).map_err(|error| error.to_string())?;
    Ok(plan)
}

fn region(target: usize, block: u64, facts: &Facts) -> Result<Region, String> {
    let (path, size) =
        facts.targets.get(target).map_or(("", 0), |t| (t.path.as_str(), t.size_bytes));
    let len = size / block * block;
    if len == 0 {
        return Err(format!("{path} has {size} bytes, less than one block of {block}"));
    }
    Ok(Region { target, start: 0, len })
}

/// Sequential workers each have a part of the target, because shared blocks would come from a cache.
fn part(all: Region, probe: &Probe, worker: u32, workers: u32) -> Region {
    let len = all.len / u64::from(workers.max(1)) / probe.block_bytes * probe.block_bytes;
    match probe.rw.is_random() || len == 0 {
        true => all,
        false => Region { start: all.start + len * u64::from(worker), len, ..all },
    }
}

fn job(probe: &Probe, load: &Load, region: Region) -> JobPlan {
    let workers = u64::from(load.setting.workers.max(1));
    let ring = Uring::default();
    let engine = if load.target.is_some() { Engine::IoUring(ring) } else { Engine::Nop(ring) };
    let order = match probe.rw.is_random() || load.target.is_none() {
        true => Order::Random { distribution: Distribution::EachOnce, run: 1 },
        false => Order::Sequential { skip: 0 },
    };
    let mut job = JobPlan::new("limit", engine, probe.rw.mix(), order);
    job.depth = load.setting.depth;
    job.regions = vec![region];
    job.access.block_sizes = PerDir::splat(BlockSizes::Fixed(probe.block_bytes));
    job.access.align = PerDir::splat(probe.block_bytes);
    job.until.runtime_ns = Some(probe.window_ns);
    job.until.ramp_ns = probe.ramp_ns;
    job.rate_process = RateProcess::Poisson;
    for (dir, percent) in probe.rw.dirs() {
        let share = |iops: u64| (iops * u64::from(*percent) / 100 / workers).max(1);
        job.rate[*dir] = load.iops.map(|iops| Rate::Iops(share(iops)));
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::facts::{Host, TargetFacts};
    use fathom_model::limit::Phase;
    use fathom_model::record::JobError;
    use fathom_model::window::{Rw, Setting};
    use std::collections::BTreeSet;

    fn job(ios: u64, errors: u64, error: Option<(i32, &str)>) -> JobRecord {
        let mut job = JobRecord {
            error: error.map(|(errno, m)| JobError { errno, message: m.into() }),
            ..JobRecord::default()
        };
        job.dirs.read.counts.ios = ios;
        job.dirs.read.counts.errors = errors;
        job.usage.user_ns = 7;
        job
    }

    const LOAD: Load = Load::at(0, Setting::ONE);
    const ENOMEM: Option<(i32, &str)> = Some((12, "no memory"));
    const EIO: Option<(i32, &str)> = Some((5, "EIO"));

    #[test]
    fn a_worker_that_fails_without_io_makes_the_setting_impossible() {
        assert_eq!(spawn_error(&[job(5, 0, None), job(0, 0, ENOMEM)]).unwrap(), "no memory");
        assert_eq!(spawn_error(&[job(5, 1, EIO)]), None);
        assert_eq!(spawn_error(&[job(0, 0, EIO)]), None);
    }

    #[test]
    fn workers_add_up() {
        let sum = measured(&[job(5, 1, EIO), job(6, 0, None)], &LOAD);
        assert_eq!((sum.ios, sum.errors, sum.workers.len()), (11, 1, 2));
        assert_eq!(sum.first_error.as_deref(), Some("EIO"));
        assert_eq!(sum.workers[1].user_ns, 7);
    }

    #[test]
    fn an_io_that_fails_in_the_ramp_is_an_error_too() {
        assert_eq!(measured(&[job(0, 0, EIO)], &LOAD).errors, 1);
    }

    fn facts() -> Facts {
        Facts {
            host: Host { cpus_allowed: vec![2, 4, 6], ..Host::default() },
            targets: vec![TargetFacts { size_bytes: (3 << 20) + 5, ..TargetFacts::default() }],
            ..Facts::default()
        }
    }

    fn probe(target: Option<usize>, block_bytes: u64) -> Probe {
        Probe {
            phase: Phase::Climb,
            loads: vec![Load { target, setting: Setting { workers: 3, depth: 7 }, iops: None }],
            block_bytes,
            rw: Rw::Randread,
            cores: Some(2),
            ramp_ns: 5,
            window_ns: 50,
        }
    }

    #[test]
    fn each_worker_is_a_job_with_a_seed_of_its_own() {
        let conditions = [Conditions { direct: true, scratch: false }];
        let probe = probe(Some(0), 1 << 20);
        let plan = plan(&probe, &facts(), &conditions, 9, Place::ALONE).unwrap();
        assert_eq!(plan.jobs.len(), 3);
        let job = &plan.jobs[0];
        assert_eq!(job.regions, [Region { target: 0, start: 0, len: 3 << 20 }]);
        assert_eq!((job.depth, job.direct, job.block_max()), (7, true, 1 << 20));
        assert_eq!(job.placement.cpus, [2, 4]);
        assert_eq!((job.until.runtime_ns, job.until.ramp_ns), (Some(50), 5));
        let seeds: BTreeSet<u64> = plan.jobs.iter().map(|j| j.access.seed).collect();
        assert_eq!(seeds.len(), 3);
    }

    #[test]
    fn workers_are_spread_over_ranks() {
        let mut wide = probe(Some(0), 4096);
        (wide.loads[0].setting.workers, wide.rw) = (5, Rw::Read);
        let plans = [0, 1]
            .map(|rank| plan(&wide, &facts(), &[], 9, Place { rank, ranks: 2 }).unwrap().jobs);
        assert_eq!(plans.each_ref().map(Vec::len), [3, 2]);
        let jobs: Vec<&JobPlan> = plans.iter().flatten().collect();
        let seeds: BTreeSet<u64> = jobs.iter().map(|job| job.access.seed).collect();
        let starts: BTreeSet<u64> = jobs.iter().map(|job| job.regions[0].start).collect();
        assert_eq!((seeds.len(), starts.len()), (5, 5));
        // The third has no worker, and waits.
        let third = Place { rank: 3, ranks: 4 };
        assert_eq!(plan(&probe(Some(0), 4096), &facts(), &[], 9, third).unwrap().jobs, []);
        // Of two CPUs for all, each has one.
        assert!(jobs.iter().all(|job| job.placement.cpus == [2]));
    }

    #[test]
    fn nothing_is_read_without_a_target() {
        let plan = plan(&probe(None, 4096), &facts(), &[], 0, Place::ALONE).unwrap();
        assert!(plan.jobs.iter().all(|j| j.engine.name() == "nop" && !j.direct));
    }

    #[test]
    fn a_target_smaller_than_a_block_is_refused() {
        let probe = probe(Some(0), 1 << 30);
        let error = plan(&probe, &facts(), &[], 0, Place::ALONE).unwrap_err();
        assert!(error.contains("less than one block"), "{error}");
    }
}
