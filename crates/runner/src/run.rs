//! The run loop: workers, samplers, the record and the caller's view of them.

use crate::cancel::CancelToken;
use crate::experiment::RoundProgress;
use crate::journal::JournalDir;
use crate::ring_threads::RingThreads;
use crate::session::{Measuring, RecordTo, Session};
use crate::shrink::ShrinkDetector;
use crate::targets::OpenTargets;
use fathom_analysis::derive;
use fathom_engine::EntrySender;
use fathom_machine::guard::Permissions;
use fathom_model::facts::Facts;
use fathom_model::limit::Config;
use fathom_model::outcome::Outcome;
use fathom_model::plan::Plan;
use fathom_model::progress::{JobSample, JobTotals, Phase, Progress, Sample};
use fathom_model::record::{DirRecord, DiskRecord, Header, JobRecord, RunRecord};
use fathom_model::watch::{Level, SamplingRecord};
use fathom_model::window::Probe;
use fathom_model::{Dir, Histogram, PerDir};
use fathom_watch::disks::{DiskSnapshot, NamedDisks};
use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(50);
/// Time between samples of the jobs if the machine is not sampled.
const SAMPLE: Duration = Duration::from_secs(1);
/// Tolerated delay of a read of the counters, in nanoseconds.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(5_000_000);

/// Callbacks of [`Runner::run`] and [`Limit::run`](crate::limit::Limit::run). Each method does nothing by default.
pub trait Hooks {
    /// A file is being laid out: its path, the bytes written so far, and the bytes in total.
    fn laying_out(&mut self, _path: &str, _done: u64, _total: u64) {}
    /// All is ready for the first I/O, which waits for this to return. An error ends the run.
    fn ready(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// The state of all workers, about 20 times a second and at the end.
    fn progress(&mut self, _progress: &Progress) {}
    /// A window of a search begins; `done` is the share of the search's time that is used.
    fn probing(&mut self, _config: &Config, _probe: &Probe, _done: f64) {}
    fn trying(&mut self, _progress: &RoundProgress) {}
    /// What takes the entries of the logs of the job with this index, which has one for each I/O.
    fn io_log(&mut self, _job: usize) -> Option<EntrySender> {
        None
    }
    /// Totals of the jobs that have logs, with their indices; returns after which time it wants the next. Without jobs
    /// that have logs it is not called.
    fn totals(&mut self, _totals: &[(usize, JobTotals)]) -> Duration {
        TICK
    }
    /// About 20 times a second; `make` makes a record of the run so far. It has no CPU usage, samples and findings.
    fn interim(&mut self, _make: &dyn Fn() -> RunRecord) {}
    /// Something that the user should know now, such as that the record's disk is full.
    fn notice(&mut self, _text: &str) {}
    /// What the user may want to know: neither a result nor a problem.
    fn remark(&mut self, _text: &str) {}
}

impl Hooks for () {}

#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    pub permissions: Permissions,
    pub sampling: Level,
    pub record: RecordTo,
    pub cancel: CancelToken,
    /// Directory of the journal, if the run keeps one.
    pub journal: Option<String>,
}

pub type Runner = Measuring<RunOptions>;

impl Runner {
    /// Creates the run directory, then opens the targets of `plan` and creates those that are missing.
    pub fn open(
        plan: &Plan,
        facts: Facts,
        options: RunOptions,
        hooks: &mut dyn Hooks,
    ) -> Result<Self, String> {
        let session = Session::open(&options.record, &mut |text: &str| hooks.notice(text))?;
        let targets = OpenTargets::open(plan, facts, &options.permissions, &options.cancel)?;
        Ok(Self { targets, session, how: options })
    }

    /// Lays out new files, runs `plan` until it ends or is cancelled, and returns its record, without findings.
    pub fn run(&mut self, plan: &Plan, hooks: &mut dyn Hooks) -> Result<RunRecord, String> {
        let cancel = self.how.cancel.clone();
        let laid_out =
            self.targets.lay_out(&cancel, |path, done, total| hooks.laying_out(path, done, total));
        let interrupted = match (laid_out, cancel.reason()) {
            (Ok(()), _) => None,
            (Err(_), Some(reason)) => Some(Outcome::interrupted(reason)),
            (Err(error), None) => return Err(error),
        };
        let record = self.targets.new_record(plan);
        let unfinished = RunRecord { header: record.header.unfinished(), ..record.clone() };
        self.session.begin(&unfinished, &mut |text: &str| hooks.notice(text))?;
        match interrupted {
            None => self.run_jobs(plan, record, hooks),
            Some(outcome) => {
                Ok(RunRecord { header: Header { outcome, ..record.header }, ..record })
            }
        }
    }

    fn run_jobs(
        &mut self,
        plan: &Plan,
        mut record: RunRecord,
        hooks: &mut dyn Hooks,
    ) -> Result<RunRecord, String> {
        let (targets, cancel) = (&self.targets, &self.how.cancel);
        let disks = targets.disk_sampler();
        let disks_before = disks.snapshot().ok();
        let mut shrinking = ShrinkDetector::new(plan, &targets.targets);
        let mut ring_threads = RingThreads::new(plan, targets.proc());
        let session = &mut self.session;
        session.sample_load(self.how.sampling, &plan.jobs, targets.devices());
        let mut samples = JobSamples::new();
        let of_single_ios = |index: usize| {
            plan.jobs[index].logs.as_ref().is_some_and(|logs| logs.are_of_single_ios())
        };
        let journal = self.how.journal.as_deref();
        let facts = &targets.facts.targets;
        let journal = journal.map(|dir| JournalDir::create(dir, plan, facts)).transpose()?;
        hooks.ready()?;
        let log = |index| of_single_ios(index).then(|| hooks.io_log(index)).flatten();
        let running = targets.start_logged(plan, log, journal.as_ref())?;
        let began = Instant::now();
        let mut worked = false;
        let coalesced = CoalescedTimer::new();
        let logged: Vec<usize> =
            (0..plan.jobs.len()).filter(|index| plan.jobs[*index].logs.is_some()).collect();
        let totals = |hooks: &mut dyn Hooks| match logged.is_empty() {
            true => TICK,
            false => {
                let of = |index: &usize| (*index, running.totals(*index));
                hooks.totals(&logged.iter().map(of).collect::<Vec<_>>()).min(TICK)
            }
        };
        let mut pause = TICK;
        while !running.wait(pause) {
            pause = totals(hooks);
            if let (Some(reason), true) = (cancel.reason(), record.header.outcome.is_finished()) {
                record.header.outcome = Outcome::interrupted(reason);
                running.stop();
            }
            let progress = running.progress();
            let works = |phase| matches!(phase, Phase::Ramp | Phase::Running);
            worked |= progress.jobs.iter().any(|job| works(job.phase));
            ring_threads.sample(&running, &progress);
            shrinking.check(&targets.targets);
            hooks.progress(&progress);
            hooks.interim(&|| RunRecord {
                header: Header {
                    elapsed_ns: began.elapsed().as_nanos() as u64,
                    ..record.header.unfinished()
                },
                jobs: (0..plan.jobs.len()).map(|job| interim(running.totals(job))).collect(),
                disks: disk_totals(&disks, disks_before.as_ref()),
                ..record.clone()
            });
            samples.take(session, &progress, hooks);
        }
        record.header.elapsed_ns = began.elapsed().as_nanos() as u64;
        drop(coalesced);
        // A final read, so that samples add up to the totals.
        let last = running.progress();
        totals(hooks);
        hooks.progress(&last);
        record.jobs = targets.join(running);
        // Started as fio, this fails nothing, and no page says it.
        for (job, done) in plan.jobs.iter().zip(&record.jobs) {
            let is_optional = job.verify.as_ref().is_some_and(|verify| verify.state_optional);
            let unsaved = done.granted.fallbacks.iter().filter(|text| text.starts_with(UNSAVED));
            unsaved.filter(|_| is_optional).for_each(|text| hooks.notice(text));
        }
        record.disks = disk_totals(&disks, disks_before.as_ref());
        record.header.heat = targets.heat();
        record.header.sampling = samples.finish(session, &last);
        ring_threads.note(&mut record.jobs);
        worked |= record.jobs.iter().any(|job| job.runtime_ns > 0);
        let failed =
            !record.header.outcome.is_finished() || record.jobs.iter().any(|j| j.error.is_some());
        // Files created for jobs that did not start are removed.
        if worked || !failed {
            targets.keep();
        }
        targets.note_changes(plan, shrinking, &mut record.jobs);
        Ok(record)
    }
}

/// How the message begins that the state of a verification was not saved.
const UNSAVED: &str = "verify_state_save: ";

fn interim(totals: JobTotals) -> JobRecord {
    let JobTotals { measured_ns, counts, slat, clat, lat, .. } = totals;
    let dirs = PerDir::from_fn(|dir| DirRecord {
        counts: counts[dir],
        slat: slat[dir].clone(),
        clat: clat[dir].clone(),
        lat: lat[dir].clone(),
        ..DirRecord::default()
    });
    JobRecord { runtime_ns: measured_ns, dirs, ..JobRecord::default() }
}

fn disk_totals(disks: &NamedDisks, before: Option<&DiskSnapshot>) -> Vec<DiskRecord> {
    match (disks.snapshot(), before) {
        (Ok(after), Some(before)) => {
            let elapsed = after.at.saturating_duration_since(before.at);
            derive::disk_records(&before.disks, &after.disks, elapsed)
        }
        _ => Vec::new(),
    }
}

struct JobSamples {
    /// When sampling began, in time since the start of the run.
    began_ns: Option<u64>,
    /// Time of the next sample of the jobs if the machine is not sampled.
    next: Instant,
    /// The jobs' latencies as of the last sample.
    before: Vec<PerDir<Histogram>>,
}

impl JobSamples {
    fn new() -> Self {
        Self { began_ns: None, next: Instant::now() + SAMPLE, before: Vec::new() }
    }

    fn take(&mut self, session: &mut Session, progress: &Progress, hooks: &mut dyn Hooks) {
        if session.has_room() {
            let complete = |sample, began| self.complete(progress, sample, began);
            let sample = session.next_as(Duration::ZERO, complete);
            if sample.is_none() && session.sampling().is_none() {
                self.add_if_due(session, progress);
            }
        }
        session.report(&mut |text: &str| hooks.notice(text));
    }

    fn add_if_due(&mut self, session: &mut Session, progress: &Progress) {
        if let Some(late) = Instant::now().checked_duration_since(self.next) {
            self.next += SAMPLE * (1 + late.as_secs() as u32);
            self.add(session, progress);
        }
    }

    fn add(&mut self, session: &mut Session, progress: &Progress) {
        let (elapsed_ns, unix_ns) = (progress.elapsed_ns, fathom_engine::clock::unix_ns());
        let jobs = self.jobs(progress);
        session.record(&Sample { elapsed_ns, unix_ns, jobs, ..Sample::default() });
    }

    /// Adds the jobs to a sample of the machine, whose times are relative to the start of sampling.
    fn complete(&mut self, progress: &Progress, sample: Sample, began: Instant) -> Sample {
        let since_ns = || progress.elapsed_ns.saturating_sub(began.elapsed().as_nanos() as u64);
        let elapsed_ns = sample.elapsed_ns + *self.began_ns.get_or_insert_with(since_ns);
        Sample { elapsed_ns, jobs: self.jobs(progress), ..sample }
    }

    fn jobs(&mut self, progress: &Progress) -> Vec<JobSample> {
        self.before.resize_with(progress.jobs.len(), PerDir::default);
        let jobs = progress.jobs.iter().zip(&mut self.before).map(|(job, before)| {
            let clat = PerDir::from_fn(|dir: Dir| job.clat[dir].since(&before[dir]));
            before.clone_from(&job.clat);
            JobSample { phase: job.phase, dirs: job.dirs, in_flight: job.in_flight, clat }
        });
        jobs.collect()
    }

    /// Takes the last samples; returns how the machine was sampled.
    fn finish(&mut self, session: &mut Session, last: &Progress) -> Option<SamplingRecord> {
        let (rest, sampling) =
            session.stop_sampling(|sample, began| self.complete(last, sample, began));
        if rest.is_empty() {
            self.add(session, last);
        }
        sampling
    }
}

/// Guard that raises the thread's timer slack so its wake-ups coalesce with existing interrupts. Threads started meanwhile
/// inherit the slack, so workers must be started before.
struct CoalescedTimer;

impl CoalescedTimer {
    fn new() -> Self {
        // Without it, the thread has timer interrupts of its own.
        let _ = set_current_timer_slack(TIMER_SLACK);
        Self
    }
}

impl Drop for CoalescedTimer {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(None);
    }
}
