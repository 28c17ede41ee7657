//! Confirmation tests: what is changed to see whether a limiter limits, and what the measured effect says about it.

use super::jobs::{facts_of, targets_of};
use super::limiters::links::INTERRUPT_CPU;
use super::limiters::queue::twice;
use super::limiters::setting::WORKER_FULL;
use super::{RULES, Rule};
use fathom_model::Dir;
use fathom_model::experiment::{Claim, Effect, Metric};
use fathom_model::facts::Host;
use fathom_model::finding::{Confirmed, ConfirmedVerdict, Finding, Subject};
use fathom_model::plan::{
    Batch, Engine, FlushPlan, JobPlan, Order, Plan, Psync, RateFloor, Region, SyncIo, Until,
};
use fathom_model::record::{JobRecord, RunRecord};
use fathom_model::setting::{Setting, SettingChange};
use fathom_model::{cpus, units};
use std::borrow::Cow;

/// From this ratio on, more IOPS are a gain: less may be noise of short windows, and changes no verdict.
const GAIN_MIN: f64 = 1.10;
/// Limits of io_uring, and of the jobs that can run.
const DEPTH_MAX: u32 = 32768;
const JOBS_MAX: usize = 4096;
/// I/Os per submission that save most of what each submission costs.
const BATCH: u32 = 16;
/// The highest I/O weight that all schedulers take.
const WEIGHT_MAX: &str = "1000";
/// Regions are divided at a multiple of this, in bytes: direct I/O needs no larger alignment.
const ALIGNMENT: u64 = 4096;

/// How a limiter is tested: what is changed, and whether IOPS rise by a factor of `gain_min` then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmation {
    change: Change,
    gain_min: f64,
    predicts_gain: bool,
}

impl Confirmation {
    pub(super) const fn gain(change: Change) -> Self {
        Self { change, gain_min: GAIN_MIN, predicts_gain: true }
    }

    pub(super) const fn no_gain(change: Change) -> Self {
        Self { change, gain_min: GAIN_MIN, predicts_gain: false }
    }

    /// The test of a rule; jobs that poll are its test where interrupts are the limit.
    pub(super) fn of(rule: &Rule) -> Option<Self> {
        let polled = || (rule.id == INTERRUPT_CPU.id).then(|| Self::gain(Change::Polled));
        rule.confirmation.or_else(polled)
    }

    /// For docs/rules.md.
    #[cfg(test)]
    pub(super) fn documented(self) -> String {
        let change = self.change.described();
        let gain = (self.gain_min - 1.0) * 100.0;
        match self.predicts_gain {
            true => format!("With {change}, IOPS rise by {gain:.0}% or more"),
            false => format!("With {change}, IOPS do not rise by {gain:.0}%"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Twice the queue depth; twice the jobs where an engine does one I/O at a time.
    InFlight,
    /// Twice the jobs.
    Jobs,
    /// scheduler=none on the device.
    NoScheduler,
    /// Twice the nr_requests of the device.
    Requests,
    /// Neither fsync nor fdatasync.
    NoFlushes,
    /// O_DIRECT.
    Direct,
    /// No read-ahead of the device.
    NoReadAhead,
    /// Polling for completions, on devices with polled queues.
    Polled,
    /// Several I/Os per submission and per wait for completions.
    LargerBatches,
    /// Submission by the jobs themselves.
    NoSqPoll,
    /// All CPUs, where some were not allowed.
    AllCpus,
    /// No CPU quota of the cgroups.
    NoCpuQuota,
    /// No I/O limit of the cgroups.
    NoIoLimit,
    /// The highest I/O weight of the cgroups.
    IoWeight,
}

impl Change {
    const fn described(self) -> &'static str {
        match self {
            Self::InFlight => {
                "twice the iodepth (twice the jobs with engines of one I/O at a time)"
            }
            Self::Jobs => "twice the jobs, where CPUs are free",
            Self::NoScheduler => "scheduler=none",
            Self::Requests => "twice the nr_requests",
            Self::NoFlushes => "neither fsync, fdatasync nor sync",
            Self::Direct => "direct=1",
            Self::NoReadAhead => "read_ahead_kb=0",
            Self::Polled => "hipri=1, where the devices have polled queues",
            Self::LargerBatches => {
                "iodepth_batch and iodepth_batch_complete_min of 16, or half of the iodepth"
            }
            Self::NoSqPoll => "sqthread_poll=0",
            Self::AllCpus => "all CPUs allowed",
            Self::NoCpuQuota => "cpu_max=max",
            Self::NoIoLimit => "io_max=max",
            Self::IoWeight => "io_weight=1000",
        }
    }

    /// Whether it can be made from outside the program.
    const fn is_external(self) -> bool {
        match self {
            Self::InFlight
            | Self::Jobs
            | Self::NoFlushes
            | Self::Direct
            | Self::Polled
            | Self::LargerBatches
            | Self::NoSqPoll => false,
            Self::NoScheduler
            | Self::Requests
            | Self::NoReadAhead
            | Self::AllCpus
            | Self::NoCpuQuota
            | Self::NoIoLimit
            | Self::IoWeight => true,
        }
    }
}

/// What runs during a test.
#[derive(Debug, Clone, Copy)]
pub enum Workload<'a> {
    /// The jobs of a run, in short windows.
    Jobs(&'a Plan),
    /// Processes that run anyway, by their IDs.
    Processes(&'a [i32]),
}

/// The test of a limiter, ready to be measured.
#[derive(Debug, Clone)]
pub struct ConfirmationTest {
    /// What is changed, such as `doubling the queue depth`.
    pub experiment: String,
    /// The changed jobs; none for processes.
    pub plan: Plan,
    /// What is compared.
    pub metric: Metric,
    /// Settings that are in effect while these run.
    pub settings: Vec<SettingChange>,
    confirmation: Confirmation,
    /// Why the absence of a gain would not confirm it, if so.
    unclear_without_gain: Option<String>,
}

/// The jobs of `plan` as they run in short windows, which end by time.
///
/// # Errors
/// Why such windows would not show what the run did, or would do what it did not.
pub fn repeatable(plan: &Plan) -> Result<Plan, String> {
    if plan.jobs.iter().any(|job| job.wave != plan.jobs[0].wave) {
        return Err("its jobs run one after another (stonewall)".into());
    }
    let jobs = plan.jobs.iter().map(|job| match unrepeatable(job) {
        Some(why) => Err(format!("job '{}': {why}", job.name)),
        None => Ok(JobPlan {
            until: Until::default(),
            start_delay_ns: 0,
            exitall: false,
            exitall_on_error: false,
            rate_floor: RateFloor::default(),
            logs: None,
            sync: FlushPlan { at_end: false, on_close: false, ..job.sync },
            ..job.clone()
        }),
    });
    let jobs = jobs.collect::<Result<Vec<_>, String>>()?;
    match jobs.is_empty() {
        true => Err("it has no jobs".into()),
        false => Ok(Plan { jobs, ..plan.clone() }),
    }
}

fn unrepeatable(job: &JobPlan) -> Option<&'static str> {
    let writes = job.used_dirs().any(Dir::modifies);
    let is_buffered = !job.direct && !job.engine.is_passthrough() && !job.regions.is_empty();
    let is_flushed = flushes(job);
    let bytes: u64 = job.regions.iter().map(|region| region.len).sum();
    let is_partial = job.until.ios.is_some() || job.until.bytes.is_some_and(|most| most < bytes);
    let of_names = [Psync::Allocate, Psync::Truncate].map(Engine::Psync);
    Some(match () {
        () if job.engine.paths().is_some()
            || job.engine.donor().is_some()
            || of_names.contains(&job.engine) =>
        {
            "its engine transfers no data"
        }
        () if job.replay.is_some() => "it replays a trace",
        () if job.is_held_back() || job.think.is_some() => "a rate or think time holds it back",
        () if job.used_dirs().any(|dir| dir == Dir::Trim) => "it would trim the same blocks again",
        () if job.fresh_passes > 1 => "unlink_each_loop replaces its files",
        () if writes && is_partial => "it would write more than the run did",
        () if writes && is_buffered && !is_flushed => {
            "short windows of buffered writes end in the page cache"
        }
        () if is_buffered && (job.pre_read || !job.invalidate) => {
            "it reads from the page cache, which short windows begin without"
        }
        () => return None,
    })
}

fn flushes(job: &JobPlan) -> bool {
    job.sync.fsync_every > 0 || job.sync.fdatasync_every > 0 || job.sync_io != SyncIo::None
}

/// The test of `finding`, a limiter of `record`, with its `workload`.
///
/// # Errors
/// Why there is none, or not for this workload.
pub fn confirmation_test(
    record: &RunRecord,
    workload: Workload,
    finding: &Finding,
) -> Result<ConfirmationTest, String> {
    let rule = RULES.iter().find(|rule| rule.id == finding.rule);
    let confirmation = rule.copied().and_then(Confirmation::of);
    let confirmation = confirmation.ok_or("there is no confirmation test for this cause")?;
    let (mut plan, metric) = match workload {
        Workload::Jobs(base) => (base.clone(), Metric::Iops),
        // The kernel counts their bytes, not their I/Os.
        Workload::Processes(_) if confirmation.change.is_external() => {
            (Plan::default(), Metric::Bandwidth)
        }
        Workload::Processes(_) => {
            let change = confirmation.change.described();
            return Err(format!("only the program itself can be changed for its test ({change})"));
        }
    };
    let mut settings = Vec::new();
    let host = &record.header.facts.host;
    let experiment = match confirmation.change {
        Change::InFlight => more_in_flight(&mut plan)?,
        Change::Jobs => more_jobs(&mut plan, host.cpus_allowed.len())?,
        Change::NoFlushes => without_flushes(&mut plan)?,
        Change::Direct => with_direct(&mut plan)?,
        Change::Polled => with_polling(&mut plan, record)?,
        Change::LargerBatches => with_larger_batches(&mut plan)?,
        Change::NoSqPoll => without_sq_poll(&mut plan)?,
        Change::NoScheduler => set(&mut settings, finding, Setting::Scheduler, "none")?,
        Change::Requests => {
            let twice = twice_requests(record, device_of(finding)?);
            let twice = twice.ok_or("nr_requests of the device cannot be doubled")?;
            set(&mut settings, finding, Setting::NrRequests, &twice.to_string())?
        }
        Change::NoReadAhead => set(&mut settings, finding, Setting::ReadAheadKb, "0")?,
        Change::AllCpus => all_cpus(&mut plan, &mut settings, workload, host)?,
        Change::NoCpuQuota => {
            settings.extend(of_processes(&processes_of(workload), Setting::CpuMax, "max"));
            "removing the CPU quota of the cgroup".into()
        }
        Change::NoIoLimit => {
            settings.extend(of_processes(&processes_of(workload), Setting::IoMax, "max"));
            "removing the I/O limits of the cgroup".into()
        }
        Change::IoWeight => {
            settings.extend(of_processes(&processes_of(workload), Setting::IoWeight, WEIGHT_MAX));
            format!("an I/O weight of {WEIGHT_MAX} of the cgroup")
        }
    };
    let need = plan.memory_need(host.cpus_online).resident_bytes;
    let available = Some(host.memory_available_bytes).filter(|bytes| *bytes > 0);
    if plan.jobs.len() > JOBS_MAX || available.is_some_and(|most| need > most) {
        let need = units::bytes(need);
        let jobs = plan.jobs.len();
        return Err(format!(
            "{experiment} takes {jobs} jobs and {need} of memory, more than available"
        ));
    }
    let unclear_without_gain = match (confirmation.change, confirmation.predicts_gain) {
        (Change::Polled, _) => full_cpu(record, "polling"),
        (_, false) => full_cpu(record, "a deeper queue"),
        _ => None,
    };
    Ok(ConfirmationTest { experiment, plan, metric, settings, confirmation, unclear_without_gain })
}

/// A CPU that was in use so much that `change` could gain nothing, whatever the device can do.
fn full_cpu(record: &RunRecord, change: &str) -> Option<String> {
    let own = |job: &JobRecord| {
        (job.usage.user_ns + job.usage.system_ns) as f64 / job.runtime_ns.max(1) as f64
    };
    let busiest = record.jobs.iter().map(own).fold(0.0, f64::max);
    if busiest >= WORKER_FULL {
        return Some(format!(
            "a worker used {:.0}% of its CPU, so {change} could gain nothing on any device",
            busiest * 100.0
        ));
    }
    let helpers = |job: &JobRecord| job.usage.helper_ns as f64 / job.runtime_ns.max(1) as f64;
    let used: f64 = record.jobs.iter().map(|job| own(job) + helpers(job)).sum();
    let cpus = record.header.facts.host.cpus_allowed.len();
    (cpus > 0 && used >= WORKER_FULL * cpus as f64).then(|| {
        format!(
            "its jobs used {used:.1} of {cpus} CPUs, so {change} could gain nothing on any device"
        )
    })
}

fn more_in_flight(plan: &mut Plan) -> Result<String, String> {
    let synchronous = plan.jobs.iter().filter(|job| job.engine.is_synchronous()).count();
    for job in plan.jobs.iter_mut().filter(|job| !job.engine.is_synchronous()) {
        if job.depth > DEPTH_MAX / 2 {
            return Err(format!("twice iodepth={} is more than io_uring allows", job.depth));
        }
        job.depth *= 2;
    }
    add_jobs(plan, |job| job.engine.is_synchronous())?;
    Ok(match synchronous {
        0 => "doubling the queue depth",
        some if some * 2 == plan.jobs.len() => "doubling the number of jobs",
        _ => "doubling the I/Os in flight",
    }
    .into())
}

fn more_jobs(plan: &mut Plan, cpus: usize) -> Result<String, String> {
    if plan.jobs.len() >= cpus || plan.jobs.iter().any(|job| !job.placement.cpus.is_empty()) {
        return Err("no other CPU may run more jobs".into());
    }
    add_jobs(plan, |_| true)?;
    Ok("doubling the number of jobs".into())
}

/// Adds a second job to each of those that are `wanted`.
fn add_jobs(plan: &mut Plan, wanted: impl Fn(&JobPlan) -> bool) -> Result<(), String> {
    let seconds = plan.jobs.iter().filter(|job| wanted(job)).map(second);
    let seconds = seconds.collect::<Result<Vec<_>, String>>()?;
    plan.jobs.extend(seconds);
    Ok(())
}

/// A job like `job`; a sequential one begins in the middle, so that it does not read what the first has just read.
fn second(job: &JobPlan) -> Result<JobPlan, String> {
    let mut second = job.clone();
    if !matches!(job.access.order, Order::Sequential { .. }) {
        return Ok(second);
    }
    let block = job.block_max().max(1);
    let unit = if block.is_multiple_of(ALIGNMENT) { block } else { block * ALIGNMENT };
    for region in &mut second.regions {
        let half = region.len / 2 / unit * unit;
        if half == 0 {
            return Err(format!("job '{}' has too few blocks for a second job", job.name));
        }
        *region = Region { start: region.start + half, len: region.len - half, ..*region };
    }
    Ok(second)
}

fn without_flushes(plan: &mut Plan) -> Result<String, String> {
    if !plan.jobs.iter().any(flushes) {
        return Err("no job has fsync, fdatasync or sync to leave out".into());
    }
    for job in &mut plan.jobs {
        (job.sync, job.sync_io) = (FlushPlan::default(), SyncIo::None);
    }
    Ok("leaving out fsync, fdatasync and sync".into())
}

fn with_direct(plan: &mut Plan) -> Result<String, String> {
    let may_be_direct = |job: &&mut JobPlan| {
        let engine = matches!(job.engine, Engine::IoUring(_) | Engine::Libaio | Engine::Posixaio);
        engine && !job.direct
    };
    let changed = plan.jobs.iter_mut().filter(may_be_direct).map(|job| job.direct = true).count();
    match changed {
        0 => Err("its jobs use O_DIRECT already".into()),
        _ => Ok("setting direct=1".into()),
    }
}

/// Polls for completions; on a device without polled queues, some kernels would silently wait for interrupts.
fn with_polling(plan: &mut Plan, record: &RunRecord) -> Result<String, String> {
    for job in &mut plan.jobs {
        for target in targets_of(job) {
            let device = facts_of(record, target).and_then(|facts| facts.device.as_ref());
            if device.and_then(|device| device.io_poll) != Some(true) {
                let name = device.map_or("its target", |device| &device.name);
                return Err(format!(
                    "{name} has no queues for polled I/O; for NVMe, load the driver with nvme.poll_queues=N"
                ));
            }
        }
        let is_flushed = flushes(job);
        match &mut job.engine {
            Engine::IoUring(ring) if ring.iopoll => return Err("its jobs poll already".into()),
            Engine::IoUring(_) if !job.direct => return Err("only direct I/O is polled".into()),
            Engine::IoUring(_) if is_flushed => return Err("polled rings do not flush".into()),
            Engine::IoUring(ring) => ring.iopoll = true,
            other => return Err(format!("{} does not poll; io_uring does", other.name())),
        }
    }
    Ok("polling for completions (hipri)".into())
}

fn with_larger_batches(plan: &mut Plan) -> Result<String, String> {
    let mut batches: Vec<u32> = Vec::new();
    for job in plan.jobs.iter_mut().filter(|job| !job.engine.is_synchronous() && job.depth > 1) {
        let size = BATCH.min(job.depth / 2);
        job.batch = Batch { submit_max: Some(size), complete_min: size, ..Batch::default() };
        batches.push(size);
    }
    let largest = batches.iter().max().ok_or("its jobs keep no more than one I/O in flight")?;
    Ok(format!("submitting and reaping {largest} I/Os at a time"))
}

fn without_sq_poll(plan: &mut Plan) -> Result<String, String> {
    let mut polled = 0;
    for job in &mut plan.jobs {
        if let Engine::IoUring(ring) | Engine::IoUringCmd(ring) | Engine::Nop(ring) =
            &mut job.engine
        {
            polled += usize::from(ring.sqpoll.take().is_some());
        }
    }
    if polled == 0 {
        return Err("no job submits by SQPOLL".into());
    }
    Ok("submitting without SQPOLL (sqthread_poll=0)".into())
}

fn all_cpus(
    plan: &mut Plan,
    settings: &mut Vec<SettingChange>,
    workload: Workload,
    host: &Host,
) -> Result<String, String> {
    match workload {
        Workload::Jobs(_) => {
            let pinned = plan.jobs.iter_mut().filter(|job| !job.placement.cpus.is_empty());
            if pinned.map(|job| job.placement.cpus.clear()).count() == 0 {
                return Err("its jobs may use all CPUs already".into());
            }
        }
        Workload::Processes(processes) => {
            let cpus = cpus::list(&Vec::from_iter(0..host.cpus_online));
            settings.extend(of_processes(processes, Setting::CpuAffinity, &cpus));
        }
    }
    Ok("allowing all CPUs".into())
}

/// The processes whose cgroups are changed: of jobs, this one.
fn processes_of<'a>(workload: Workload<'a>) -> Cow<'a, [i32]> {
    match workload {
        Workload::Jobs(_) => vec![i32::try_from(std::process::id()).unwrap_or(i32::MAX)].into(),
        Workload::Processes(processes) => processes.into(),
    }
}

fn of_processes(processes: &[i32], setting: Setting, value: &str) -> Vec<SettingChange> {
    let change =
        move |pid: &i32| SettingChange { setting, target: pid.to_string(), value: value.into() };
    processes.iter().map(change).collect()
}

fn twice_requests(record: &RunRecord, name: &str) -> Option<u32> {
    let sampled = record.header.sampling.iter().flat_map(|sampling| &sampling.devices);
    let targets = record.header.facts.targets.iter().filter_map(|target| target.device.as_ref());
    let device = sampled.chain(targets).find(|device| device.name == name)?;
    twice(device.nr_requests?, device.scheduler.as_deref(), device.driver_tags)
}

fn device_of(finding: &Finding) -> Result<&str, String> {
    match &finding.subject {
        Some(Subject::Device { name }) => Ok(name),
        _ => Err("its device is not known".into()),
    }
}

fn set(
    settings: &mut Vec<SettingChange>,
    finding: &Finding,
    setting: Setting,
    value: &str,
) -> Result<String, String> {
    let name = device_of(finding)?;
    // A path, as a name alone could also be that of a file.
    settings.push(SettingChange { setting, target: format!("/dev/{name}"), value: value.into() });
    Ok(format!("setting {setting}={value} on {name}"))
}

impl ConfirmationTest {
    /// What the measured effect on its metric says about the limiter.
    pub fn judge(&self, effect: &Effect) -> Confirmed {
        let Confirmation { gain_min, predicts_gain, .. } = self.confirmation;
        let (verdict, reason) = match gains(effect, gain_min) {
            Some(false) if self.unclear_without_gain.is_some() => {
                (ConfirmedVerdict::Inconclusive, self.unclear_without_gain.clone())
            }
            Some(gains) if gains == predicts_gain => (ConfirmedVerdict::Confirmed, None),
            Some(_) => (ConfirmedVerdict::Refuted, None),
            None => (ConfirmedVerdict::Inconclusive, Some(why_open(effect, gain_min))),
        };
        let experiment = self.experiment.clone();
        Confirmed { verdict, metric: self.metric, ratio: effect.ratio, experiment, reason }
    }
}

/// Whether IOPS rise by a factor of `least` or more; `None` where neither can be claimed.
fn gains(effect: &Effect, least: f64) -> Option<bool> {
    let (ratio, sure) = effect.ratio.zip(effect.ratio_99)?;
    match effect.claim {
        Claim::Changed if ratio.value >= least => Some(true),
        Claim::Changed | Claim::NoneAbove(_) if sure.high < least => Some(false),
        _ => None,
    }
}

fn why_open(effect: &Effect, least: f64) -> String {
    match &effect.claim {
        // What follows is advice for `try`.
        Claim::Inconclusive(why) => why.split(';').next().unwrap_or_default().to_string(),
        _ => format!("a gain of {:.0}% is possible", (least - 1.0) * 100.0),
    }
}

#[cfg(test)]
mod tests;
