//! Windows, measured by the engine.

use super::plan::plan;
use crate::snapshot::{MachineSnapshots, Snapshot};
use crate::targets::OpenTargets;
use crate::window;
use fathom_model::facts::TargetFacts;
use fathom_model::record::{DiskRecord, JobRecord};
use fathom_model::window::{Conditions, Load, LoadMeasure, Measurement, Probe, Rw, WorkerCpu};
use fathom_watch::disks::DriverQueue;
use rustix::io::Errno;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub trait Bench {
    fn window(&mut self, probe: &Probe) -> Result<Measurement, String>;
}

pub struct EngineExecutor<'a> {
    targets: &'a OpenTargets,
    conditions: Vec<Conditions>,
    machine: MachineSnapshots,
    /// Of the device of each target that has an I/O scheduler.
    drivers: Vec<Option<DriverQueue>>,
    number: u64,
}

impl<'a> EngineExecutor<'a> {
    pub fn new(targets: &'a OpenTargets, conditions: Vec<Conditions>) -> Self {
        let machine = MachineSnapshots::new(targets);
        let drivers = targets.facts.targets.iter().map(driver).collect();
        Self { targets, conditions, machine, drivers, number: 0 }
    }

    /// The disks that hold a load's target, between two snapshots, as one.
    fn disk(&self, load: &Load, from: &Snapshot, to: &Snapshot) -> Option<DiskRecord> {
        let target = self.targets.facts.targets.get(load.target?)?;
        let holds = |disk: &DiskRecord| target.may_be_on(&disk.name);
        to.disks_since(from).into_iter().filter(holds).reduce(DiskRecord::with)
    }

    fn idle(&self, probe: &Probe) -> Measurement {
        let from = self.machine.take();
        thread::sleep(Duration::from_nanos(probe.ramp_ns + probe.window_ns));
        let to = self.machine.take();
        let elapsed_ns = (to.at - from.at).as_nanos() as u64;
        Measurement { elapsed_ns, took_ns: elapsed_ns, loads: Vec::new(), cpu: to.cpu_since(&from) }
    }
}

impl Bench for EngineExecutor<'_> {
    fn window(&mut self, probe: &Probe) -> Result<Measurement, String> {
        if probe.loads.is_empty() {
            return Ok(self.idle(probe));
        }
        self.number += 1;
        let plan = plan(probe, &self.targets.facts, &self.conditions, self.number)?;
        let lengths = (Duration::from_nanos(probe.ramp_ns), Duration::from_nanos(probe.window_ns));
        let mut drivers = std::mem::take(&mut self.drivers);
        let mut queues = DriverQueues::of(probe, &mut drivers);
        let has_queues = queues.any();
        let mut observe = || queues.sample();
        let observe = has_queues.then_some(&mut observe as &mut dyn FnMut());
        let snapshot = || self.machine.take();
        let measured = window::measure(self.targets, &plan, lengths, snapshot, observe);
        let queues = queues.means();
        self.drivers = drivers;
        let window::MeasuredWindow { jobs, from, to, took } = measured?;
        let took_ns = took.as_nanos() as u64;
        if let Some(error) = spawn_error(&jobs, probe.rw) {
            return Err(error);
        }
        let elapsed_ns = jobs.iter().map(|j| j.runtime_ns).sum::<u64>() / jobs.len().max(1) as u64;
        if elapsed_ns == 0 && jobs.iter().all(|job| job.error.is_none()) {
            return Err("the workers ended before the measured time began".to_string());
        }
        let mut rest = jobs.as_slice();
        let mut loads = Vec::new();
        for (load, driver_queue) in probe.loads.iter().zip(queues) {
            let (mine, others) = rest.split_at(rest.len().min(load.setting.workers as usize));
            rest = others;
            let disk = self.disk(load, &from, &to);
            loads.push(LoadMeasure { disk, driver_queue, ..self::measured(mine, load, probe.rw) });
        }
        Ok(Measurement { elapsed_ns, took_ns, loads, cpu: to.cpu_since(&from) })
    }
}

/// The driver of a target's device, if that has an I/O scheduler.
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

    /// The mean of each load, where it was sampled.
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

/// Whether no I/O of this worker failed in the measured time.
fn is_clean(job: &JobRecord, rw: Rw) -> bool {
    rw.dirs().iter().all(|(dir, _)| {
        let counts = job.dirs[*dir].counts;
        counts.errors == 0 && counts.short_ios == 0
    })
}

/// Why a worker failed without a failed I/O: its setting is not available.
fn spawn_error(jobs: &[JobRecord], rw: Rw) -> Option<String> {
    let errors = jobs.iter().filter(|job| is_clean(job, rw)).filter_map(|job| job.error.as_ref());
    let refusal = |errno: i32| errno == 0 || REFUSALS.iter().any(|e| e.raw_os_error() == errno);
    errors.filter(|e| refusal(e.errno)).map(|e| e.message.clone()).next()
}

fn measured(jobs: &[JobRecord], load: &Load, rw: Rw) -> LoadMeasure {
    let mut sum = LoadMeasure::default();
    for job in jobs {
        for (dir, _) in rw.dirs() {
            let done = &job.dirs[*dir];
            sum.ios += done.counts.ios;
            sum.bytes += done.counts.bytes;
            sum.errors += done.counts.errors;
            sum.short_ios += done.counts.short_ios;
            // With a rate, an I/O has waited since it was due.
            sum.clat.merge(if load.iops.is_some() { &done.response } else { &done.clat });
            sum.unstarted += done.unstarted_ios;
        }
        sum.workers.push(WorkerCpu {
            user_ns: job.usage.user_ns,
            system_ns: job.usage.system_ns + job.usage.helper_ns,
        });
        // Counts exclude I/Os that failed in the ramp.
        sum.errors += u64::from(job.error.is_some() && is_clean(job, rw));
        if sum.first_error.is_none() {
            sum.first_error = job.error.as_ref().map(|e| e.message.clone());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::record::JobError;

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

    const LOAD: Load = Load::at(0, fathom_model::window::Setting::ONE);
    const ENOMEM: Option<(i32, &str)> = Some((12, "no memory"));
    const EIO: Option<(i32, &str)> = Some((5, "EIO"));

    #[test]
    fn a_worker_that_fails_without_io_makes_the_setting_impossible() {
        assert_eq!(
            spawn_error(&[job(5, 0, None), job(0, 0, ENOMEM)], Rw::Randread).unwrap(),
            "no memory"
        );
        assert_eq!(spawn_error(&[job(5, 1, EIO)], Rw::Randread), None);
        assert_eq!(spawn_error(&[job(0, 0, EIO)], Rw::Randread), None);
    }

    #[test]
    fn workers_add_up() {
        let sum = measured(&[job(5, 1, EIO), job(6, 0, None)], &LOAD, Rw::Randread);
        assert_eq!((sum.ios, sum.errors, sum.workers.len()), (11, 1, 2));
        assert_eq!(sum.first_error.as_deref(), Some("EIO"));
        assert_eq!(sum.workers[1].user_ns, 7);
    }

    #[test]
    fn an_io_that_fails_in_the_ramp_is_an_error_too() {
        assert_eq!(measured(&[job(0, 0, EIO)], &LOAD, Rw::Randread).errors, 1);
    }
}
