//! Windows as the engine measures them.

use super::plan::plan;
use crate::session::Session;
use fathom_analysis::limit::{
    Conditions, CpuTime, Load, LoadMeasure, Measurement, Probe, WorkerCpu,
};
use fathom_engine::Running;
use fathom_model::Dir;
use fathom_model::progress::Phase;
use fathom_model::record::{DiskRecord, JobRecord};
use fathom_watch::cpus::{CpuSampler, CpuTimes};
use fathom_watch::disks::{DiskSnapshot, NamedDisks};
use rustix::io::Errno;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks whether the measured time has begun or ended.
const TICK: Duration = Duration::from_millis(1);

/// What measures windows.
pub trait Bench {
    /// Measures one window.
    ///
    /// # Errors
    /// Why it could not be begun, such as for lack of memory. I/O errors are in the measurement.
    fn window(&mut self, probe: &Probe) -> Result<Measurement, String>;
}

/// The engine on the targets of a session.
pub struct EngineBench<'a> {
    session: &'a Session,
    conditions: Vec<Conditions>,
    cpus: CpuSampler,
    disks: NamedDisks,
    number: u64,
}

/// The machine at one instant.
struct Look {
    at: Instant,
    cpus: Option<CpuTimes>,
    disks: Option<DiskSnapshot>,
}

impl<'a> EngineBench<'a> {
    #[must_use]
    pub fn new(session: &'a Session, conditions: Vec<Conditions>) -> Self {
        let cpus = CpuSampler::new(Path::new("/proc"), &session.facts.host.cpus_allowed);
        Self { session, conditions, cpus, disks: session.disk_sampler(), number: 0 }
    }

    fn look(&self) -> Look {
        Look {
            cpus: self.cpus.snapshot().ok(),
            disks: self.disks.snapshot().ok(),
            at: Instant::now(),
        }
    }

    /// The disk below a load's target, between two looks.
    fn disk(&self, load: &Load, from: &Look, to: &Look) -> Option<DiskRecord> {
        let device = self.session.facts.targets.get(load.target?)?.device.as_ref()?;
        let since = to.disks.as_ref()?.since(from.disks.as_ref()?);
        since.into_iter().find(|disk| disk.name == device.name)
    }

    fn idle(&self, probe: &Probe) -> Measurement {
        let from = self.look();
        thread::sleep(Duration::from_nanos(probe.ramp_ns + probe.window_ns));
        let to = self.look();
        let elapsed_ns = (to.at - from.at).as_nanos() as u64;
        Measurement {
            elapsed_ns,
            took_ns: elapsed_ns,
            loads: Vec::new(),
            cpu: cpu_time(&from, &to),
        }
    }
}

impl Bench for EngineBench<'_> {
    fn window(&mut self, probe: &Probe) -> Result<Measurement, String> {
        if probe.loads.is_empty() {
            return Ok(self.idle(probe));
        }
        self.number += 1;
        let began = Instant::now();
        let plan = plan(probe, &self.session.facts, &self.conditions, self.number)?;
        let running = self.session.start(&plan)?;
        // Looking costs more than sleeping, and the ramp does not end early.
        let _over = running.wait(Duration::from_nanos(probe.ramp_ns));
        wait_until(&running, |phase| !matches!(phase, Phase::Waiting | Phase::Ramp));
        let from = self.look();
        let _over = running.wait(Duration::from_nanos(probe.window_ns));
        let to = self.look();
        let jobs = running.join();
        let took_ns = began.elapsed().as_nanos() as u64;
        if let Some(error) = never_began(&jobs) {
            return Err(error);
        }
        let elapsed_ns = jobs.iter().map(|j| j.runtime_ns).sum::<u64>() / jobs.len().max(1) as u64;
        if elapsed_ns == 0 && jobs.iter().all(|job| job.error.is_none()) {
            return Err("the workers ended before the measured time began".to_string());
        }
        let mut rest = jobs.as_slice();
        let mut loads = Vec::new();
        for load in &probe.loads {
            let (mine, others) = rest.split_at(rest.len().min(load.setting.workers as usize));
            rest = others;
            loads.push(LoadMeasure { disk: self.disk(load, &from, &to), ..measured(mine) });
        }
        Ok(Measurement { elapsed_ns, took_ns, loads, cpu: cpu_time(&from, &to) })
    }
}

/// Waits until all workers are in a phase that `reached` accepts, or the run is over.
fn wait_until(running: &Running, reached: impl Fn(Phase) -> bool) {
    while !running.is_over() && !running.progress().jobs.iter().all(|job| reached(job.phase)) {
        thread::sleep(TICK);
    }
}

fn cpu_time(from: &Look, to: &Look) -> Option<CpuTime> {
    let since = to.cpus?.since(&from.cpus?);
    let CpuTimes { busy_ns, steal_ns, idle_ns } = since;
    Some(CpuTime { busy_ns, steal_ns, idle_ns })
}

/// What the kernel answers where a setting asks for more than there is, or for what it lacks.
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

/// Whether no I/O of this worker failed within the measured time.
fn is_clean(job: &JobRecord) -> bool {
    let read = job.dirs[Dir::Read].counts;
    read.errors == 0 && read.short_ios == 0
}

/// Why a worker failed without an I/O having failed: its setting cannot be had.
fn never_began(jobs: &[JobRecord]) -> Option<String> {
    let errors = jobs.iter().filter(|job| is_clean(job)).filter_map(|job| job.error.as_ref());
    let refusal = |errno: i32| errno == 0 || REFUSALS.iter().any(|e| e.raw_os_error() == errno);
    errors.filter(|e| refusal(e.errno)).map(|e| e.message.clone()).next()
}

/// What the workers of one load did.
fn measured(jobs: &[JobRecord]) -> LoadMeasure {
    let mut sum = LoadMeasure::default();
    for job in jobs {
        let read = &job.dirs[Dir::Read];
        sum.ios += read.counts.ios;
        sum.bytes += read.counts.bytes;
        sum.errors += read.counts.errors;
        sum.short_ios += read.counts.short_ios;
        sum.clat.merge(&read.clat);
        sum.workers.push(WorkerCpu {
            user_ns: job.usage.user_ns,
            system_ns: job.usage.system_ns + job.usage.helper_ns,
        });
        // An I/O that failed in the ramp is not in the counts.
        sum.errors += u64::from(job.error.is_some() && is_clean(job));
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

    const ENOMEM: Option<(i32, &str)> = Some((12, "no memory"));
    const EIO: Option<(i32, &str)> = Some((5, "EIO"));

    #[test]
    fn a_worker_that_fails_without_io_makes_the_setting_impossible() {
        assert_eq!(never_began(&[job(5, 0, None), job(0, 0, ENOMEM)]).unwrap(), "no memory");
        assert_eq!(never_began(&[job(5, 1, EIO)]), None);
        assert_eq!(never_began(&[job(0, 0, EIO)]), None);
    }

    #[test]
    fn workers_add_up() {
        let sum = measured(&[job(5, 1, EIO), job(6, 0, None)]);
        assert_eq!((sum.ios, sum.errors, sum.workers.len()), (11, 1, 2));
        assert_eq!(sum.first_error.as_deref(), Some("EIO"));
        assert_eq!(sum.workers[1].user_ns, 7);
    }

    #[test]
    fn an_io_that_fails_in_the_ramp_is_an_error_too() {
        assert_eq!(measured(&[job(0, 0, EIO)]).errors, 1);
    }
}
