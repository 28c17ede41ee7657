//! The journal of a run (`--journal`), and what targets hold of it after a crash (`fathom verify`).

use fathom_engine::{JournalFile, PromisedFile, check_promises};
use fathom_machine::{Lookup, Roots};
use fathom_model::facts::{Facts, TargetFacts, TargetKind};
use fathom_model::plan::{JobPlan, Plan, Region};
use fathom_model::record::PromiseReport;
use fathom_model::{Dir, escape, split_mix};
use rustix::fs::{Advice, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
const HEAD: &str = "journal.json";
/// Targets of a job: their numbers have 16 bits in a journal.
const TARGETS_MAX: usize = 1 << 16;

/// What the journals of the jobs refer to.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    fathom_version: String,
    started_unix_ns: u64,
    salt: u64,
    plan: Plan,
    /// Those of the plan, with absolute paths.
    targets: Vec<TargetFacts>,
}

fn job_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("job-{}.journal", index + 1))
}

fn writes(job: &JobPlan) -> bool {
    job.modifies(Dir::Write)
}

/// Whether the run of `plan` can keep a journal in `dir`; returns what its user should know.
pub fn check(dir: &str, plan: &Plan, facts: &Facts) -> Result<Vec<String>, Vec<String>> {
    let mut errors = Vec::new();
    if !plan.jobs.iter().any(writes) {
        errors.push("--journal: no job writes; remove it".to_string());
    }
    for job in plan.jobs.iter().filter(|job| writes(job)) {
        let name = &job.name;
        if !job.verify.as_ref().is_some_and(|verify| verify.method.has_header()) {
            errors.push(format!(
                "--journal: job '{name}' writes data that does not say which write it is of; add verify=crc32c, or \
                 another method with headers"
            ));
        } else if job.regions.is_empty() || job.regions.len() > TARGETS_MAX {
            errors.push(format!(
                "--journal: job '{name}' has {} targets; use 1 to {TARGETS_MAX}",
                job.regions.len()
            ));
        } else if job.until.full && job.until.bytes.is_none() {
            errors.push(format!(
                "--journal: job '{name}' writes until its file system is full, so how much is not known; remove \
                 fill_device, and set size"
            ));
        }
    }
    let resolved = |region: &Region| {
        let path = plan.targets.get(region.target).map_or("", |target| target.path.as_str());
        let facts = facts.targets.iter().find(|facts| facts.path == path);
        facts.map(|facts| facts.resolved.as_str()).filter(|path| !path.is_empty()).unwrap_or(path)
    };
    let modifies = |job: &&JobPlan| job.used_dirs().any(|dir| job.modifies(dir));
    let parts: Vec<(&str, &str, &Region)> = plan
        .jobs
        .iter()
        .filter(modifies)
        .flat_map(|job| {
            job.regions.iter().map(|region| (job.name.as_str(), resolved(region), region))
        })
        .collect();
    let end = |region: &Region| region.start.saturating_add(region.len);
    let shared = parts.iter().enumerate().find_map(|(index, (name, path, region))| {
        let overlaps = |(_, other, part): &&(&str, &str, &Region)| {
            other == path && part.start < end(region) && region.start < end(part)
        };
        parts[..index].iter().find(overlaps).map(|(before, ..)| (before, name, path))
    });
    if let Some((before, name, path)) = shared {
        errors.push(format!(
            "--journal: jobs '{before}' and '{name}' write the same part of {}, so neither knows what is there last; give \
             each its own with offset=, offset_increment= or filename=",
            escape::text(path)
        ));
    }
    let number = place(dir).map(|metadata| metadata.dev());
    let mut notes = vec![
        "--journal: writes wait until the journal is on disk; figures of this run are not those of the disk alone"
            .to_string(),
    ];
    let written = parts.iter().map(|(_, _, region)| region.target);
    for index in fathom_model::list::ascending(written) {
        let path = plan.targets.get(index).map_or("", |target| target.path.as_str());
        let Some(facts) = facts.targets.iter().find(|facts| facts.path == path) else { continue };
        let (major, minor) = facts.device_number;
        if number != Some(rustix::fs::makedev(major, minor)) {
            continue;
        }
        let (dir, path) = (escape::text(dir), escape::text(path));
        match facts.kind {
            TargetKind::BlockDevice => errors.push(format!(
                "--journal={dir} is on {path}, which the run writes; use a directory on another disk"
            )),
            _ => notes.push(format!(
                "--journal={dir} is on the file system of {path}, which a power cut may damage together; better use \
                 another disk"
            )),
        }
    }
    if let Err(error) = is_free(dir) {
        errors.push(error);
    }
    if errors.is_empty() { Ok(notes) } else { Err(errors) }
}

/// The directory, or the first above it that exists.
fn place(dir: &str) -> Option<fs::Metadata> {
    let dir = std::path::absolute(dir).ok()?;
    dir.ancestors().find_map(|dir| fs::metadata(dir).ok())
}

fn is_free(dir: &str) -> Result<(), String> {
    let named = escape::text(dir);
    match fs::read_dir(dir) {
        Ok(mut files) => match files.next() {
            None => Ok(()),
            Some(_) => Err(format!(
                "--journal={named} exists and is not empty; name a new directory, or remove it"
            )),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("--journal={named}: {error}; name a new directory")),
    }
}

/// The directory of a journal that a run is about to write.
pub(crate) struct JournalDir {
    dir: PathBuf,
    salt: u64,
}

impl JournalDir {
    pub fn create(dir: &str, plan: &Plan, targets: &[TargetFacts]) -> Result<Self, String> {
        is_free(dir)?;
        let started_unix_ns = fathom_engine::clock::unix_ns();
        let salt = split_mix::nth(started_unix_ns, u64::from(std::process::id()));
        let absolute =
            |facts: &TargetFacts| TargetFacts { path: absolute(&facts.path), ..facts.clone() };
        let head = Head {
            version: VERSION,
            fathom_version: env!("CARGO_PKG_VERSION").into(),
            started_unix_ns,
            salt,
            plan: plan.clone(),
            targets: targets.iter().take(plan.targets.len()).map(absolute).collect(),
        };
        let journal = Self { dir: PathBuf::from(dir), salt };
        let written = journal.write(&head);
        written.map_err(|error| format!("--journal={}: {error}", escape::text(dir)))?;
        Ok(journal)
    }

    fn write(&self, head: &Head) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        for (index, job) in head.plan.jobs.iter().enumerate() {
            if writes(job) {
                File::create_new(job_path(&self.dir, index))?.sync_all()?;
            }
        }
        let mut file = File::create_new(self.dir.join(HEAD))?;
        serde_json::to_writer(&mut file, head)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        // The names must last as long as what is in the files.
        for dir in [Some(self.dir.as_path()), self.dir.parent()].into_iter().flatten() {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    /// That of a job, if it writes.
    pub fn file(&self, index: usize, job: &JobPlan) -> Result<Option<JournalFile>, String> {
        if !writes(job) {
            return Ok(None);
        }
        let path = job_path(&self.dir, index);
        let named = escape::path(&path);
        let file = File::options().append(true).open(&path);
        let file = file.map_err(|error| format!("cannot open {named}: {error}"))?;
        Ok(Some(JournalFile { file, path: named, salt: self.salt }))
    }
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_string(), |path| path.display().to_string())
}

/// Compares the targets of the run that kept the journal in `dir` with it. `moved` are targets that are now elsewhere: their
/// paths in the run, and now. Reads only.
pub fn verify(dir: &str, moved: &[(String, String)]) -> Result<PromiseReport, Vec<String>> {
    let head = read_head(dir).map_err(|error| vec![error])?;
    let mut errors = Vec::new();
    for (from, _) in moved {
        if !head.targets.iter().any(|target| target.path == absolute(from)) {
            let all: Vec<_> = head.targets.iter().map(|target| target.path.as_str()).collect();
            errors.push(format!(
                "--target: the run wrote no {}; it wrote {}",
                escape::text(from),
                escape::text(&all.join(", "))
            ));
        }
    }
    let mut report = PromiseReport { journal: dir.to_string(), ..PromiseReport::default() };
    for (index, job) in head.plan.jobs.iter().enumerate().filter(|(_, job)| writes(job)) {
        let open = |region: &Region| match head.targets.get(region.target) {
            Some(target) => open(target, moved),
            None => Err(format!("{dir}/{HEAD} has no target {}", region.target)),
        };
        let (files, failed): (Vec<_>, Vec<_>) =
            job.regions.iter().map(open).partition(Result::is_ok);
        if !failed.is_empty() {
            errors.extend(failed.into_iter().filter_map(Result::err));
            continue;
        }
        let files: Vec<PromisedFile> = files.into_iter().flatten().collect();
        let path = job_path(Path::new(dir), index);
        let journal = fs::read(&path);
        let named = escape::path(&path);
        let checked = journal
            .map_err(|error| error.to_string())
            .and_then(|journal| check_promises(job, index, head.salt, &journal, &files));
        match checked {
            Ok(record) => report.jobs.push(record),
            Err(error) => errors.push(format!("{named}: {error}; it cannot be used")),
        }
    }
    errors.dedup();
    report.kept = report.jobs.iter().all(|job| job.blocks.lost() == 0);
    if errors.is_empty() { Ok(report) } else { Err(errors) }
}

fn read_head(dir: &str) -> Result<Head, String> {
    let path = Path::new(dir).join(HEAD);
    let named = escape::path(&path);
    let text = fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => format!(
            "{} holds no journal; name the directory that `fathom run --journal=DIR` was given",
            escape::text(dir)
        ),
        _ => format!("cannot read {named}: {error}"),
    })?;
    let head: Head = serde_json::from_slice(&text).map_err(|error| {
        format!("{named}: {error}; it is damaged, or of another version of fathom")
    })?;
    if head.version != VERSION {
        let (found, by) = (head.version, escape::text(&head.fathom_version));
        return Err(format!(
            "{named} is of version {found}, by fathom {by}; this fathom reads version {VERSION}"
        ));
    }
    Ok(head)
}

/// Opens a target of the run for reading, where it is now.
fn open(then: &TargetFacts, moved: &[(String, String)]) -> Result<PromisedFile, String> {
    let moved = moved.iter().find(|(from, _)| absolute(from) == then.path);
    let path = moved.map_or(then.path.as_str(), |(_, to)| to.as_str());
    let named = escape::text(path);
    let now = Lookup::new(&Roots::default()).target(path);
    let now = now.map_err(|error| format!("cannot read {named}: {error}"))?;
    match (then.kind, now.kind) {
        (TargetKind::BlockDevice, TargetKind::BlockDevice | TargetKind::File)
        | (TargetKind::File | TargetKind::Missing, TargetKind::File) => {}
        (then, TargetKind::BlockDevice) if then.is_generic() => {}
        (_, TargetKind::Missing) => {
            return Err(format!(
                "{named} does not exist; mount its file system, or name it with --target {}=PATH; if it was lost, so was \
                 everything in it that was acknowledged",
                escape::text(&then.path)
            ));
        }
        _ => {
            return Err(format!(
                "{named} is no regular file or block device; name it with --target"
            ));
        }
    }
    let serial =
        |facts: &TargetFacts| facts.device.as_ref().and_then(|device| device.serial.clone());
    if let (TargetKind::BlockDevice, Some(then), Some(now)) = (now.kind, serial(then), serial(&now))
        && then != now
    {
        return Err(format!(
            "{named} is not the disk that was written: its serial number is {}, not {}; name that disk with --target \
             {named}=PATH",
            escape::text(&now),
            escape::text(&then)
        ));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::empty());
    let fd = fd.map_err(|error| format!("cannot open {named} for reading: {error}"))?;
    // The disk is to answer. What is dirty stays, and is right.
    let _ = rustix::fs::fadvise(&fd, 0, None, Advice::DontNeed);
    Ok(PromisedFile { path: path.to_string(), fd })
}
