//! Targets that passed all checks and are held open, for any number of runs.

use crate::cancel::CancelToken;
use crate::journal::JournalDir;
use crate::memory;
use crate::run::Hooks;
use crate::session::new_header;
use crate::shrink::ShrinkDetector;
use crate::wording::Vocabulary;
use fathom_engine::{EntrySender, FileKind, JobInput, Name, OpenFile, Running, WorkerNames};
use fathom_machine::guard::{
    self, NamedTarget, NamedTargets, OpenTarget, Permissions, WorkerOpen, Writing,
};
use fathom_machine::scratch::{self, ScratchSize};
use fathom_machine::topology::attachment;
use fathom_machine::{Lookup, Roots, inspect};
use fathom_model::facts::{Facts, HeldBy, Host, TargetFacts, TargetKind};
use fathom_model::inspection::Inspection;
use fathom_model::outcome::RecordKind;
use fathom_model::plan::{Buffers, Engine, JobPlan, Plan, SyncIo};
use fathom_model::record::{DriveHeat, JobRecord, RunRecord};
use fathom_model::topology::Topology;
use fathom_model::{list, units};
use fathom_watch::disks::NamedDisks;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;

/// The open targets of a plan. If dropped before any job did I/O, created files are removed.
pub struct OpenTargets {
    pub facts: Facts,
    pub(crate) targets: Vec<OpenTarget>,
    /// The names of each job that operates on names.
    names: Vec<Option<NamedTargets>>,
    roots: Roots,
    vocabulary: Vocabulary,
}

impl OpenTargets {
    pub fn open(
        plan: &Plan,
        mut facts: Facts,
        permissions: &Permissions,
        cancel: &CancelToken,
    ) -> Result<Self, String> {
        let roots = Roots::default();
        let stop = || cancel.reason().is_some();
        let mut names = guard::check_names(&roots, plan, &stop).map_err(|e| e.to_string())?;
        let targets =
            guard::open_all(&roots, plan, permissions, &stop).map_err(|e| e.to_string())?;
        for names in names.iter_mut().flatten() {
            names.lay_out(&stop).map_err(|e| e.to_string())?;
        }
        facts.targets = targets.iter().map(|t| t.facts.clone()).collect();
        facts.targets.extend(directories(&roots, &names));
        facts.inspection = Some(inspected(&roots, &facts.targets));
        facts.topology = Some(attached(&roots, &facts.targets));
        Ok(Self { facts, targets, names, roots, vocabulary: Vocabulary::Keys })
    }

    pub(crate) fn with(host: Host, targets: Vec<OpenTarget>, vocabulary: Vocabulary) -> Self {
        let roots = Roots::default();
        let facts: Vec<TargetFacts> = targets.iter().map(|t| t.facts.clone()).collect();
        let inspection = Some(inspected(&roots, &facts));
        let topology = Some(attached(&roots, &facts));
        let facts = Facts { host, targets: facts, inspection, topology };
        Self { facts, targets, names: Vec::new(), roots, vocabulary }
    }

    /// Lays out newly created files that are going to be read; `progress` gets the path, the bytes written and the
    /// bytes in total.
    pub fn lay_out(
        &mut self,
        cancel: &CancelToken,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<(), String> {
        for target in &mut self.targets {
            let Some((from, len)) = target.fill_range() else { continue };
            let path = target.facts.path.clone();
            let fail = |error: std::io::Error| format!("cannot lay out {path}: {error}");
            let how = WorkerOpen { direct: false, write: true, sync_io: SyncIo::None };
            let fd = target.open_worker(how).map_err(fail)?;
            fathom_engine::fill(fd, from, from + len, &Buffers::default(), from ^ len, |done| {
                progress(&path, done, len);
                cancel.reason().is_none()
            })
            .map_err(|error| match cancel.reason() {
                Some(reason) => format!("{reason} while {path} was laid out"),
                None => fail(error),
            })?;
            target.filled().map_err(fail)?;
            let facts = self.facts.targets.iter_mut().filter(|facts| facts.path == path);
            facts.for_each(|facts| facts.allocated_bytes += len);
        }
        guard::note_allocated(&self.targets);
        Ok(())
    }

    /// Starts the jobs of `plan`, whose regions refer to these targets.
    pub fn start(&self, plan: &Plan) -> Result<Running, String> {
        self.start_logged(plan, |_| None, None)
    }

    /// The same; `log` gives what takes the entries of a job's logs, where each I/O has one, and `journal` keeps what is written.
    pub(crate) fn start_logged(
        &self,
        plan: &Plan,
        mut log: impl FnMut(usize) -> Option<EntrySender>,
        journal: Option<&JournalDir>,
    ) -> Result<Running, String> {
        let input = |(index, job)| {
            let names = self.names.get(index).and_then(Option::as_ref).map(table).transpose()?;
            let files = self.files(job)?;
            let journal = journal.map(|dir| dir.file(index, job)).transpose()?.flatten();
            let (log, journal) = (Mutex::new(log(index)), Mutex::new(journal));
            let how = WorkerOpen { direct: false, write: true, sync_io: SyncIo::None };
            let donor = self.donor(job).map(|donor| donor.open_worker(how)).transpose();
            let donor = donor.map_err(|e| e.to_string())?;
            Ok(JobInput { files, names, donor, log, journal, on_work: self.on_work(job) })
        };
        let inputs = plan.jobs.iter().enumerate().map(input).collect::<Result<_, String>>()?;
        fathom_engine::start_with(plan, inputs).map_err(|e| self.vocabulary.message(&e))
    }

    pub fn join(&self, running: Running) -> Vec<JobRecord> {
        running.join().into_iter().map(|result| self.vocabulary.record(result)).collect()
    }

    /// What notes which version of its files a job leaves, if it writes.
    fn on_work(&self, job: &JobPlan) -> Option<Box<dyn Fn(bool) + Send + Sync>> {
        if !job.used_dirs().any(|dir| job.modifies(dir)) {
            return None;
        }
        let own = job.regions.iter().map(|region| &self.targets[region.target]);
        let writing: Vec<Writing> = own.chain(self.donor(job)).map(OpenTarget::writing).collect();
        Some(Box::new(move |begins| {
            writing.iter().for_each(if begins { Writing::begin } else { Writing::end });
        }))
    }

    /// The target whose blocks `job` exchanges with those of its own.
    fn donor(&self, job: &JobPlan) -> Option<&OpenTarget> {
        let donor = job.engine.donor()?;
        self.targets.iter().find(|target| target.facts.path == donor.path)
    }

    fn files(&self, job: &JobPlan) -> Result<Vec<OpenFile>, String> {
        let writes = job.used_dirs().any(|dir| job.modifies(dir));
        let regions = job.regions.iter().map(|region| {
            let target = &self.targets[region.target];
            let trims = target.open_for_trims().map_err(|e| e.to_string())?;
            let kind = match target.facts.kind {
                _ if matches!(job.engine, Engine::Sg(_)) => scsi(&target.facts)?,
                TargetKind::BlockDevice => {
                    FileKind::Block { trims: trims.as_ref().map(AsRawFd::as_raw_fd) }
                }
                TargetKind::ScsiBsg => scsi(&target.facts)?,
                TargetKind::NvmeGeneric => passthrough(&target.facts)?,
                _ => FileKind::Regular,
            };
            // A trace may read one file and write another.
            let write = writes && (job.replay.is_none() || target.is_writable());
            let how = WorkerOpen { direct: job.direct, write, sync_io: job.sync_io };
            let fd = target.open_worker(how).map_err(|e| e.to_string())?;
            let created = target.is_created();
            Ok(OpenFile { fd, kind, path: target.facts.path.clone(), created, trims })
        });
        regions.collect()
    }

    /// A record of `plan` on these targets, without results.
    pub fn new_record(&self, plan: &Plan) -> RunRecord {
        let mut facts = self.facts.clone();
        facts.host.memory_copy_bytes_per_second = memory::copy_rate(&facts.host);
        RunRecord {
            header: new_header(RecordKind::Run, facts),
            plan: plan.clone(),
            jobs: vec![JobRecord::default(); plan.jobs.len()],
            ..RunRecord::default()
        }
    }

    /// Kernel names of the block devices of all targets, each once.
    pub fn devices(&self) -> Vec<String> {
        let names = self.facts.targets.iter().flat_map(TargetFacts::device_names);
        list::ascending(names.map(ToString::to_string))
    }

    /// How hot the disks below the targets are now.
    pub fn heat(&self) -> Vec<DriveHeat> {
        let before = self.facts.inspection.as_ref();
        before.map_or_else(Vec::new, |before| inspect::heat(&self.roots, before))
    }

    /// A sampler of the block devices of all targets; where one may be on any disk, of all disks.
    pub fn disk_sampler(&self) -> NamedDisks {
        let mut names = self.devices();
        if self.facts.targets.iter().any(|target| target.held_by == HeldBy::AnyDisk) {
            // The I/O of a stacked device is also that of its members.
            let disks = fathom_machine::device::disks(&self.roots).into_iter();
            let disks = disks.filter(|disk| disk.members.is_empty()).map(|disk| disk.name);
            names.extend(disks);
        }
        NamedDisks::new(&self.roots.proc, &names)
    }

    pub(crate) fn proc(&self) -> &std::path::Path {
        &self.roots.proc
    }

    pub(crate) fn drop_caches(&self) -> Result<(), String> {
        self.targets.iter().try_for_each(|target| {
            let path = &target.facts.path;
            target.invalidate().map_err(|e| format!("cannot drop the page cache of {path}: {e}"))
        })
    }

    pub(crate) fn keep(&self) {
        self.targets.iter().for_each(OpenTarget::keep);
        self.names.iter().flatten().for_each(NamedTargets::keep);
    }

    /// Notes in `jobs` which of their targets were replaced, deleted or truncated; such files are no longer fathom's.
    pub(crate) fn note_changes(
        &self,
        plan: &Plan,
        mut detector: ShrinkDetector,
        jobs: &mut [JobRecord],
    ) {
        let change = |(index, target): (usize, &OpenTarget)| {
            let change = detector.finish(index, &self.targets).or_else(|| target.changed());
            change.inspect(|_| target.disown())
        };
        let changes: Vec<Option<String>> = self.targets.iter().enumerate().map(change).collect();
        for (job, record) in plan.jobs.iter().zip(jobs) {
            let of_job = job.regions.iter().filter_map(|region| changes[region.target].clone());
            record.target_changes = of_job.collect();
        }
    }

    /// Closes all targets and removes temporary ones. There are none from then on.
    pub fn close(&mut self) -> Result<(), String> {
        let names = std::mem::take(&mut self.names).into_iter().flatten();
        let names = names.map(NamedTargets::finish);
        let targets = std::mem::take(&mut self.targets).into_iter().map(OpenTarget::finish);
        // All of them, also after an error.
        let closed: Vec<_> = names.chain(targets).collect();
        closed.into_iter().collect::<Result<(), _>>().map_err(|error| error.to_string())
    }
}

/// Makes a scratch file in `dir`, which is removed when it is closed, and says so.
pub(crate) fn scratch_file(
    dir: &str,
    size: ScratchSize,
    cancel: &CancelToken,
    hooks: &mut dyn Hooks,
) -> Result<OpenTarget, String> {
    let stop = || cancel.reason().is_some();
    let made = scratch::create(&Roots::default(), Path::new(dir), size, &stop);
    let target = made.map_err(|e| e.to_string())?;
    let place = if dir == "." { "the current directory" } else { dir };
    hooks.remark(&format!(
        "no target given; creating a scratch file of {} in {place}; it is removed afterwards",
        units::bytes(target.facts.size_bytes)
    ));
    Ok(target)
}

/// The directories of the jobs' names, each once: their file systems and disks are those of the run.
fn directories(roots: &Roots, names: &[Option<NamedTargets>]) -> Vec<TargetFacts> {
    let targets = names.iter().flatten().flat_map(|names| &names.names);
    let paths = list::distinct(targets.map(|target| match target.name_at() {
        0 => ".",
        at => &target.path[..at],
    }));
    let lookup = Lookup::new(roots);
    paths.into_iter().filter_map(|path| lookup.target(path).ok()).collect()
}

fn table(names: &NamedTargets) -> Result<WorkerNames, String> {
    let fail = |error: std::io::Error| format!("cannot keep a directory open: {error}");
    let dirs = names.dirs.iter().map(|dir| dir.try_clone().map_err(fail));
    let name = |target: &NamedTarget| {
        let path = CString::new(target.path.as_str())
            .map_err(|_| format!("{:?} holds a zero byte; use another name", target.path))?;
        Ok(Name { dir: target.dir, path, name_at: target.name_at(), made: target.made })
    };
    let names = names.names.iter().map(name).collect::<Result<_, String>>()?;
    let remove = |dir: BorrowedFd<'_>, name: &CStr, made, is_dir| {
        guard::remove(dir, name.to_bytes(), made, is_dir)
    };
    Ok(WorkerNames { dirs: dirs.collect::<Result<_, _>>()?, names, remove })
}

/// What is known of the machine and of the disks below the targets.
fn inspected(roots: &Roots, targets: &[TargetFacts]) -> Inspection {
    let names = targets.iter().flat_map(TargetFacts::device_names);
    inspect::inspect(roots, &inspect::disks_of(roots, names))
}

fn attached(roots: &Roots, targets: &[TargetFacts]) -> Topology {
    let names = targets.iter().flat_map(TargetFacts::device_names);
    let names: Vec<String> = names.map(ToString::to_string).collect();
    attachment(roots, &names)
}

/// Passthrough commands contain the namespace and count logical blocks, so a guess could reach other data.
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
    let metadata = device.and_then(|device| device.metadata);
    Ok(FileKind::NvmeGeneric { nsid, lba_bytes, metadata })
}

/// SCSI commands count logical blocks of the whole disk, even if sent to a partition.
fn scsi(target: &TargetFacts) -> Result<FileKind, String> {
    match target.device.as_ref().filter(|device| device.scsi_disk && device.logical_block > 0) {
        Some(disk) => Ok(FileKind::Scsi { lba_bytes: disk.logical_block }),
        None => Err(format!(
            "{}: ioengine=sg needs a SCSI disk, whole, such as /dev/sda or /dev/sg0; use ioengine=io_uring",
            target.path
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::facts::DeviceFacts;

    #[test]
    fn scsi_commands_need_a_whole_scsi_disk() {
        let kind = |scsi_disk| {
            let device = DeviceFacts { scsi_disk, logical_block: 4096, ..DeviceFacts::default() };
            scsi(&TargetFacts { device: Some(device), ..TargetFacts::default() })
        };
        assert!(matches!(kind(true), Ok(FileKind::Scsi { lba_bytes: 4096 })));
        assert!(kind(false).is_err_and(|e| e.contains("needs a SCSI disk")));
    }

    #[test]
    fn passthrough_needs_the_namespace_and_its_block_size() {
        let kind = |nvme_nsid| {
            let device = DeviceFacts { nvme_nsid, logical_block: 4096, ..DeviceFacts::default() };
            passthrough(&TargetFacts { device: Some(device), ..TargetFacts::default() })
        };
        assert!(matches!(
            kind(Some(7)),
            Ok(FileKind::NvmeGeneric { nsid: 7, lba_bytes: 4096, .. })
        ));
        assert!(kind(None).is_err());
        assert!(passthrough(&TargetFacts::default()).is_err_and(|e| e.contains("namespace ID")));
    }
}
