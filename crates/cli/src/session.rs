//! The one place that starts and stops engine and watch.

pub mod beside;
mod shrunk;
pub mod turns;
pub mod watching;

use crate::cost;
use crate::signals::Signals;
use fathom_engine::{FileKind, OpenFile, Running};
use fathom_machine::Roots;
use fathom_machine::guard::{self, OpenTarget, Permissions, WorkerOpen};
use fathom_model::facts::{Facts, TargetFacts, TargetKind};
use fathom_model::plan::{JobPlan, Plan, SyncIo};
use fathom_model::progress::Phase;
use fathom_model::record::{DiskRecord, JobRecord, RECORD_VERSION, RunRecord};
use fathom_model::{Dir, Progress};
use fathom_watch::disks::{DiskSnapshot, NamedDisks};
use fathom_watch::threads::helper_time;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_current_timer_slack;
use shrunk::ShrinkDetector;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks at the workers.
const TICK: Duration = Duration::from_millis(50);
/// A look may come so many nanoseconds later.
const LATE_MAX: Option<NonZeroU64> = NonZeroU64::new(5_000_000);

/// Uses the limits of open files and locked memory up to what this process is allowed.
pub fn raise_limits() {
    for resource in [Resource::Nofile, Resource::Memlock] {
        let limit = getrlimit(resource);
        // Where it is refused, the work says so if it needs more.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// Targets that were proven usable and are held, for as many runs as one likes.
pub struct Session {
    /// The machine and the targets as opened.
    pub facts: Facts,
    targets: Vec<OpenTarget>,
    roots: Roots,
}

impl Session {
    /// Opens the targets of `plan`, unless a signal comes. What it makes is undone when the session
    /// ends before any job began to work.
    ///
    /// # Errors
    /// Why one of them may not or cannot be used, or that a signal came.
    pub fn open(
        plan: &Plan,
        mut facts: Facts,
        permissions: &Permissions,
        signals: &Signals,
    ) -> Result<Self, String> {
        let roots = Roots::default();
        let stop = || signals.caught().is_some();
        let targets =
            guard::open_all(&roots, plan, permissions, &stop).map_err(|e| e.to_string())?;
        facts.targets = targets.iter().map(|t| t.facts.clone()).collect();
        Ok(Self { facts, targets, roots })
    }

    /// A session on targets that were opened otherwise.
    #[must_use]
    pub fn with_targets(host: fathom_model::facts::Host, targets: Vec<OpenTarget>) -> Self {
        let facts = Facts { host, targets: targets.iter().map(|t| t.facts.clone()).collect() };
        Self { facts, targets, roots: Roots::default() }
    }

    /// Writes contents into what was newly made and is going to be read; `progress` is told the
    /// path and the bytes written so far and in all.
    ///
    /// # Errors
    /// When writing fails or a signal comes.
    pub fn fill(
        &mut self,
        signals: &Signals,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<(), String> {
        for target in &mut self.targets {
            let Some((from, len)) = target.fill_range() else { continue };
            let path = target.facts.path.clone();
            let fail = |error: std::io::Error| format!("cannot lay out {path}: {error}");
            let how = WorkerOpen { direct: false, write: true, sync_io: SyncIo::None };
            let fd = target.open_worker(how).map_err(fail)?;
            let buffers = fathom_model::plan::Buffers::default();
            fathom_engine::fill(fd, from, from + len, &buffers, from ^ len, |done| {
                progress(&path, done, len);
                signals.caught().is_none()
            })
            .map_err(|error| match signals.caught() {
                Some(signal) => format!("{signal} while {path} was laid out"),
                None => fail(error),
            })?;
            target.filled().map_err(fail)?;
            self.facts
                .targets
                .iter_mut()
                .filter(|f| f.path == path)
                .for_each(|f| f.allocated_bytes += len);
        }
        Ok(())
    }

    /// Starts the jobs of `plan`, whose regions name this session's targets.
    ///
    /// # Errors
    /// When a target cannot be opened once more, or threads cannot be made.
    pub fn start(&self, plan: &Plan) -> Result<Running, String> {
        let files = plan.jobs.iter().map(|job| self.files(job)).collect::<Result<_, _>>()?;
        fathom_engine::start(plan, files).map_err(|e| e.to_string())
    }

    fn files(&self, job: &JobPlan) -> Result<Vec<OpenFile>, String> {
        let write = job.used_dirs().any(Dir::modifies);
        let how = WorkerOpen { direct: job.direct, write, sync_io: job.sync_io };
        let regions = job.regions.iter().map(|region| {
            let target = &self.targets[region.target];
            let kind = match target.facts.kind {
                TargetKind::BlockDevice => FileKind::Block,
                TargetKind::NvmeGeneric => passthrough(&target.facts)?,
                _ => FileKind::Regular,
            };
            let fd = target.open_worker(how).map_err(|e| e.to_string())?;
            Ok(OpenFile { fd, kind, path: target.facts.path.clone() })
        });
        regions.collect()
    }

    /// Runs `plan` to its end, or until a signal comes, and collects all about it but what it
    /// means. `look` sees the progress several times a second.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(
        &self,
        plan: &Plan,
        signals: &Signals,
        mut look: impl FnMut(&Progress),
    ) -> Result<RunRecord, String> {
        let mut record = self.new_record(plan);
        let sampler = self.disk_sampler();
        let before = sampler.snapshot().ok();
        let mut shrunk = ShrinkDetector::new(plan, &self.targets);
        let running = self.start(plan)?;
        let mut helpers = Helpers::new(plan, self.roots.proc.clone());
        let began = Instant::now();
        let mut worked = false;
        let deferred = Deferred::new();
        while !running.wait(TICK) {
            if let Some(signal) = signals.caught().filter(|_| record.interrupted.is_none()) {
                record.interrupted = Some(signal.to_string());
                running.stop();
            }
            let progress = running.progress();
            let works = |phase| matches!(phase, Phase::Ramp | Phase::Running);
            worked |= progress.jobs.iter().any(|job| works(job.phase));
            helpers.look(&running, &progress);
            shrunk.look(&self.targets);
            look(&progress);
        }
        record.elapsed_ns = began.elapsed().as_nanos() as u64;
        drop(deferred);
        // Once more at the end, so that what was seen adds up to what was done.
        look(&running.progress());
        record.jobs = running.join();
        record.disks = disks(&sampler, before.as_ref());
        helpers.note(&mut record.jobs);
        worked |= record.jobs.iter().any(|job| job.runtime_ns > 0);
        let failed = record.interrupted.is_some() || record.jobs.iter().any(|j| j.error.is_some());
        // What was made for work that did not begin is undone.
        if worked || !failed {
            self.targets.iter().for_each(OpenTarget::keep);
        }
        self.note_changes(plan, shrunk, &mut record.jobs);
        if record.interrupted.is_none() {
            cost::measure(self, plan, signals, &mut record.jobs);
        }
        Ok(record)
    }

    /// A record that knows what is to be done and nothing of what came of it.
    #[must_use]
    pub fn new_record(&self, plan: &Plan) -> RunRecord {
        RunRecord {
            record_version: RECORD_VERSION,
            fathom_version: env!("CARGO_PKG_VERSION").to_string(),
            command: std::env::args().collect(),
            started_unix_ns: fathom_engine::clock::unix_ns(),
            facts: self.facts.clone(),
            plan: plan.clone(),
            jobs: vec![JobRecord::default(); plan.jobs.len()],
            ..RunRecord::default()
        }
    }

    /// Kernel names of the block devices of all targets.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        let devices = self.facts.targets.iter().filter_map(|t| t.device.as_ref());
        let mut names: Vec<String> = devices.map(|d| d.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// A sampler of the block devices of all targets.
    #[must_use]
    pub fn disk_sampler(&self) -> NamedDisks {
        NamedDisks::new(&self.roots.proc, &self.devices())
    }

    fn note_changes(&self, plan: &Plan, mut shrunk: ShrinkDetector, jobs: &mut [JobRecord]) {
        let change = |(index, target): (usize, &OpenTarget)| {
            let change = shrunk.finish(index, &self.targets).or_else(|| target.changed());
            change.inspect(|_| target.disown())
        };
        let changes: Vec<Option<String>> = self.targets.iter().enumerate().map(change).collect();
        for (job, record) in plan.jobs.iter().zip(jobs) {
            let of_job = job.regions.iter().filter_map(|region| changes[region.target].clone());
            record.target_changes = of_job.collect();
        }
    }

    /// Removes what this run made and was asked to remove.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn finish(self) -> Result<(), String> {
        self.targets.into_iter().try_for_each(|target| target.finish().map_err(|e| e.to_string()))
    }
}

/// While it lasts, the calling thread is woken with interrupts that come anyway, as one of its own costs the
/// workers something. Threads that it starts meanwhile are woken so, too: workers must not be among them.
struct Deferred;

impl Deferred {
    fn new() -> Self {
        // Kernels without it wake the thread at its times.
        let _ = set_current_timer_slack(LATE_MAX);
        Self
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(None);
    }
}

/// Passthrough commands carry the namespace and count logical blocks: a guess would reach other data.
fn passthrough(target: &TargetFacts) -> Result<FileKind, String> {
    let device = target.device.as_ref();
    let known = device.and_then(|device| Some((device.nvme_nsid?, device.logical_block)));
    let Some((nsid, lba_bytes)) = known else {
        return Err(format!(
            "{}: sysfs does not show the namespace ID and the size of a logical block, without which passthrough may \
             address the wrong data; use --ioengine=io_uring on the block device",
            target.path
        ));
    };
    Ok(FileKind::NvmeGeneric { nsid, lba_bytes })
}

fn disks(sampler: &NamedDisks, before: Option<&DiskSnapshot>) -> Vec<DiskRecord> {
    match (sampler.snapshot(), before) {
        (Ok(after), Some(before)) => after.since(before),
        _ => Vec::new(),
    }
}

/// Processor time of kernel threads that work for the jobs' rings.
struct Helpers {
    proc: std::path::PathBuf,
    /// For each job whose ring has such threads: the last reading before the measured time, which is 0
    /// where there was none, and the last of all.
    seen: Vec<Option<(u64, u64)>>,
    wanted: Vec<bool>,
}

impl Helpers {
    fn new(plan: &Plan, proc: impl AsRef<Path>) -> Self {
        let has = |job: &JobPlan| {
            job.engine.uring().is_some_and(|u| u.sqpoll.is_some() || u.force_async > 0)
        };
        Self {
            proc: proc.as_ref().to_path_buf(),
            seen: vec![None; plan.jobs.len()],
            wanted: plan.jobs.iter().map(has).collect(),
        }
    }

    fn look(&mut self, running: &Running, progress: &Progress) {
        if !self.wanted.contains(&true) {
            return;
        }
        for (index, tid) in running.thread_ids().into_iter().enumerate() {
            let phase = progress.jobs[index].phase;
            let alive = matches!(phase, Phase::Waiting | Phase::Ramp | Phase::Running);
            let (true, true, Some(tid)) = (self.wanted[index], alive, tid) else { continue };
            if let Ok(time) = helper_time(&self.proc, tid) {
                let now = time.owned_ns;
                let entry = self.seen[index].get_or_insert((0, now));
                entry.1 = entry.1.max(now);
                if phase != Phase::Running {
                    entry.0 = entry.1;
                }
            }
        }
    }

    fn note(&self, jobs: &mut [JobRecord]) {
        for (job, seen) in jobs.iter_mut().zip(&self.seen) {
            if let Some((first, last)) = seen {
                job.usage.helper_ns = last - first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::facts::DeviceFacts;

    #[test]
    fn passthrough_needs_the_namespace_and_its_block_size() {
        let kind = |nvme_nsid| {
            let device = DeviceFacts { nvme_nsid, logical_block: 4096, ..DeviceFacts::default() };
            passthrough(&TargetFacts { device: Some(device), ..TargetFacts::default() })
        };
        assert!(matches!(kind(Some(7)), Ok(FileKind::NvmeGeneric { nsid: 7, lba_bytes: 4096 })));
        assert!(kind(None).is_err());
        assert!(passthrough(&TargetFacts::default()).is_err_and(|e| e.contains("namespace ID")));
    }
}
