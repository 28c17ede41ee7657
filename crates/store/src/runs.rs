//! Lists, removes and prunes the run directories below [`state_dir`].

use crate::dir::{self, HeldDir, Readers};
use crate::run_dir::{RunDir, TAGS, state_dir};
use crate::stored::read_search;
use crate::time::instant;
use fathom_model::facts::{DeviceFacts, Host};
use fathom_model::finding::{Finding, Part};
use fathom_model::limit::{BlockLimit, BlockSpec, CombinedCause, CombinedTarget, LimitRecord};
use fathom_model::list;
use fathom_model::record::DeviceLimit;
use fathom_model::topology::Hop;
use rustix::fs::{FlockOperation, flock};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default limit on the age of runs in the default directory. Each new run removes what exceeds the limits.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(90 * 86_400);
/// Default limit on their total size in bytes.
pub const DEFAULT_BYTES_MAX: u64 = 4 << 30;
/// Length of a tag in bytes, tags of a run, and bytes of its file of tags.
const TAG_MAX: usize = 64;
const TAGS_MAX: usize = 64;
pub(crate) const TAG_FILE_MAX: u64 = 64 << 10;

/// Runs among which searches are looked for, the latest first.
const SEARCHED_MAX: usize = 500;
/// Part of a search's I/Os that reached the device, from which on it measured that device.
const FROM_DISK_MIN: f64 = 0.9;

#[derive(Debug, Default)]
pub struct Pruned {
    pub removed: Vec<RunEntry>,
    /// Those of which something remains that fathom did not create.
    pub kept: Vec<RunEntry>,
}

pub struct Runs {
    dir: HeldDir,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEntry {
    /// Its name, such as `20261121-193600-4711`: start (UTC) and process ID, then a number if the process began others in the
    /// same second.
    pub name: String,
    pub path: PathBuf,
    /// When the run started, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    pub size_bytes: u64,
    pub is_active: bool,
    /// The user's names for it and other runs.
    pub tags: Vec<String>,
    /// Whether it is not pruned: it has a tag, or that cannot be read.
    pub is_kept: bool,
}

impl Runs {
    /// Opens the directory of the user's runs; `None` if there is none yet.
    pub fn open() -> Result<Option<Self>, String> {
        let path = state_dir("runs")?;
        match HeldDir::open(&path) {
            Ok(dir) => Ok(Some(Self { dir })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {error}")),
        }
    }

    /// All runs, oldest first. Other entries of the directory are ignored.
    pub fn list(&self) -> Result<Vec<RunEntry>, String> {
        let names = self.dir.names().map_err(|e| format!("cannot read {e}"))?;
        let names = names.filter_map(|name| name.ok()?.into_string().ok());
        let mut entries: Vec<RunEntry> = names.filter_map(|name| self.entry(name)).collect();
        entries.sort_by(|a, b| list::natural(&a.name, &b.name));
        Ok(entries)
    }

    /// What the latest complete search of each of `host`'s `devices` found for `kind`, if the device was what limited it: not
    /// the CPUs or a cgroup; and what disks of one root complex did together, if they share something there. A search whose record cannot be read shows nothing.
    pub fn device_limits<'a>(
        &self,
        host: &Host,
        devices: impl IntoIterator<Item = &'a DeviceFacts>,
        kind: BlockSpec,
    ) -> Result<Vec<DeviceLimit>, String> {
        let mut wanted: Vec<&DeviceFacts> = devices.into_iter().collect();
        let mut found = Vec::new();
        for entry in self.list()?.iter().rev().take(SEARCHED_MAX) {
            if wanted.is_empty() || host.host_id.is_empty() {
                break;
            }
            let Some(search) = read_search(&entry.path) else { continue };
            let facts = &search.header.facts;
            if facts.host.host_id != host.host_id || !search.header.outcome.is_finished() {
                continue;
            }
            let shared = shared(&search, kind)
                .filter(|(root, _)| found.iter().all(|known: &DeviceLimit| known.device != *root));
            found.extend(shared.map(|(device, bytes_per_second)| DeviceLimit {
                device,
                bytes_per_second,
                run_name: entry.name.clone(),
            }));
            for (index, (target, limits)) in
                facts.targets.iter().zip(&search.report.targets).enumerate()
            {
                let is_it = |device: &&DeviceFacts| {
                    let known =
                        |of: &DeviceFacts| (of.name.clone(), of.serial.clone(), of.size_bytes);
                    target.device.as_ref().map(known) == Some(known(device))
                };
                let is_kind = |b: &BlockLimit| (b.block_bytes, b.rw) == (kind.block_bytes, kind.rw);
                let Some(block) = limits.blocks.iter().position(is_kind) else { continue };
                let part = Some(Part::Peak { target: index, block });
                let by_device = |found: &Finding| found.part == part && found.rule == "device";
                let is_limit = search.header.findings.iter().any(by_device);
                let peak = limits.blocks[block].peak.as_ref().filter(|_| is_limit);
                // Elsewhere, another layer served the I/Os.
                let peak =
                    peak.filter(|peak| peak.from_disk.is_some_and(|part| part > FROM_DISK_MIN));
                let Some((at, peak)) = wanted.iter().position(is_it).zip(peak) else { continue };
                found.push(DeviceLimit {
                    device: wanted.swap_remove(at).name.clone(),
                    bytes_per_second: peak.iops.mean * kind.block_bytes as f64,
                    run_name: entry.name.clone(),
                });
            }
        }
        Ok(found)
    }

    fn entry(&self, name: String) -> Option<RunEntry> {
        let started_unix_ns = started(&name)?;
        let dir = self.dir.dir(&name).ok()?;
        let sizes = own_files(&dir).ok()?;
        let size_bytes = sizes.iter().map(|(_, bytes)| bytes).sum();
        let path = self.dir.path().join(&name);
        let (is_active, tags) = (is_locked(&dir), tags(&dir));
        let is_kept = tags.as_ref().map_or(true, |tags| !tags.is_empty());
        let tags = tags.unwrap_or_default();
        Some(RunEntry { is_active, tags, is_kept, name, path, started_unix_ns, size_bytes })
    }

    /// Removes the run `name`, but no files that fathom did not create; whether nothing remains.
    pub fn remove(&self, name: &str) -> Result<bool, String> {
        let known = self.entry(name.to_string());
        let entry = known.ok_or_else(|| format!("no such run: {name}; `fathom runs` lists all"))?;
        if entry.is_active {
            return Err(format!("{name} is still being recorded"));
        }
        let removed = self.dir.dir(name).and_then(|dir| {
            // Version 1 recorded the samples of a search in a separate directory.
            if let Ok(watch) = dir.dir("watch") {
                remove_files(&watch)?;
                remove_empty(&dir, "watch")?;
            }
            remove_files(&dir)?;
            remove_empty(&self.dir, name)
        });
        removed.map_err(|e| format!("cannot remove {e}"))
    }

    /// Removes the runs that started more than `keep` before `now_unix_ns`, and then the oldest until those without
    /// a tag take at most `bytes_max`; returns what was removed. Runs with a tag, and those still being recorded, stay.
    pub fn prune(
        &self,
        keep: Duration,
        bytes_max: u64,
        now_unix_ns: u64,
    ) -> Result<Pruned, String> {
        let entries = self.list()?;
        // Others than those that may go do not count: they would leave no room.
        let counted = entries.iter().filter(|entry| !entry.is_kept);
        let mut bytes: u64 = counted.map(|entry| entry.size_bytes).sum();
        let oldest = now_unix_ns.saturating_sub(keep.as_nanos() as u64);
        let (mut pruned, mut failure) = (Pruned::default(), None);
        let may_go = |entry: &RunEntry| !entry.is_active && !entry.is_kept;
        for entry in entries.into_iter().filter(may_go) {
            if entry.started_unix_ns >= oldest && bytes <= bytes_max {
                continue;
            }
            match self.remove(&entry.name) {
                Ok(is_gone) => {
                    bytes = bytes.saturating_sub(entry.size_bytes);
                    if is_gone { &mut pruned.removed } else { &mut pruned.kept }.push(entry);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(pruned), Err)
    }
}

/// When the run of this name started, in nanoseconds since 1970 (UTC); `None` if it is not the name of a run.
pub(crate) fn started(name: &str) -> Option<u64> {
    let (stamp, pid) = name.split_at_checked(15)?;
    let mut numbers = pid.strip_prefix('-')?.splitn(2, '-');
    let is_number = numbers
        .all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    instant(stamp).filter(|_| is_number)
}

/// Regular files that fathom writes into a run directory, with their sizes.
fn own_files(dir: &HeldDir) -> io::Result<Vec<(String, u64)>> {
    let mut own = Vec::new();
    for name in dir.names()? {
        let Ok(name) = name?.into_string() else { continue };
        if !RunDir::FILES.contains(&name.as_str()) && !dir::is_temporary(&name) {
            continue;
        }
        if let Ok(Some(found)) = dir.regular(&name) {
            own.push((name, u64::try_from(found.st_size).unwrap_or(0)));
        }
    }
    Ok(own)
}

fn remove_files(dir: &HeldDir) -> io::Result<()> {
    own_files(dir)?.iter().try_for_each(|(name, _)| dir.remove_file(name))
}

/// Removes the directory `name`; whether it was empty.
fn remove_empty(parent: &HeldDir, name: &str) -> io::Result<bool> {
    match parent.remove_dir(name) {
        Ok(()) => Ok(true),
        // POSIX permits either.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Checks that `tag` can be one: letters, digits, `.`, `_` and `-`, and not the form of a run's name.
pub fn check_tag(tag: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !begins || tag.len() > TAG_MAX || !tag.bytes().all(is_plain) {
        return Err(format!(
            "'{tag}' cannot be a tag; use up to {TAG_MAX} letters, digits, '.', '_' and '-', the first of them a letter or \
             digit"
        ));
    }
    let is_run = tag.split_at_checked(15).is_some_and(|(stamp, _)| instant(stamp).is_some());
    if is_run {
        Err(format!("'{tag}' has the form of a run's name; use another tag"))
    } else {
        Ok(())
    }
}

/// Gives the run in the directory `run` a tag, or takes it away; whether that changed something.
pub fn set_tag(run: &Path, tag: &str, is_set: bool) -> Result<bool, String> {
    check_tag(tag)?;
    let failed = |error: io::Error| format!("cannot tag {error}");
    let dir = HeldDir::open(run).and_then(HeldDir::to_write).map_err(failed)?;
    if dir.regular("record.json").map_err(failed)?.is_none() {
        return Err(format!("{} is not a run directory", run.display()));
    }
    let mut tags = tags(&dir).map_err(failed)?;
    if tags.iter().any(|have| have == tag) == is_set {
        return Ok(false);
    }
    match is_set {
        true if tags.len() >= TAGS_MAX => {
            return Err(format!("{} has {TAGS_MAX} tags already; remove one", run.display()));
        }
        true => tags.push(tag.to_string()),
        false => tags.retain(|have| have != tag),
    }
    let text: String = tags.iter().map(|tag| format!("{tag}\n")).collect();
    match tags.is_empty() {
        true => dir.remove_file(TAGS),
        false => dir.replace(TAGS, text.as_bytes(), Readers::Owner),
    }
    .map_err(failed)?;
    Ok(true)
}

/// The tags in a run directory; what cannot be one is left out.
fn tags(dir: &HeldDir) -> io::Result<Vec<String>> {
    if dir.regular(TAGS)?.is_none() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&dir.read(TAGS, TAG_FILE_MAX)?).into_owned();
    Ok(text.lines().filter(|tag| check_tag(tag).is_ok()).map(str::to_string).collect())
}

/// Whether the run in this directory is still being recorded.
pub fn is_active(run: &Path) -> bool {
    HeldDir::open(run).is_ok_and(|dir| is_locked(&dir))
}

/// Whether a [`RunDir`] holds the lock of its samples.
fn is_locked(dir: &HeldDir) -> bool {
    let samples = dir.open_file("samples.ndjson");
    samples.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// The root complex at which the ways to all disks of a search meet, and the bytes per second that they moved together, if
/// they slow each other down although CPUs are available.
fn shared(search: &LimitRecord, kind: BlockSpec) -> Option<(String, f64)> {
    let facts = &search.header.facts;
    let topology = facts.topology.as_ref()?;
    let combined = search.report.combined.iter().find(|combined| {
        combined.cause == CombinedCause::SharedBelow
            && (combined.block_bytes, combined.rw) == (kind.block_bytes, kind.rw)
    })?;
    let device = |one: &CombinedTarget| facts.targets.get(one.target)?.device.as_ref();
    let devices = combined.targets.iter().map(device).collect::<Option<Vec<_>>>()?;
    let disks: Vec<String> =
        devices.iter().flat_map(|device| topology.disks_under(&device.name)).collect();
    let leads_to_all = |hop: &Hop| {
        let below = hop.disks_below();
        disks.iter().all(|disk| below.contains(&disk.as_str()))
    };
    // Below a port that all share, its link may be what they share.
    let is_it = |root: &&Hop| leads_to_all(root) && !root.children.iter().any(leads_to_all);
    let root = topology.roots.iter().find(is_it).filter(|_| !disks.is_empty())?;
    Some((root.name.clone(), combined.combined_iops.mean * kind.block_bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::facts::TargetFacts;
    use fathom_model::limit::{Combined, LimitReport, TargetLimit};
    use fathom_model::outcome::RecordKind;
    use fathom_model::record::{Header, RECORD_VERSION};
    use fathom_model::topology::Topology;
    use fathom_model::window::{Estimate, Point, Rw};
    use fathom_model::{Facts, Outcome, RunRecord};
    use std::fs;

    const DAY: u64 = 86_400_000_000_000;

    fn add(dir: &Path, name: &str) -> RunDir {
        let run = RunDir::create(dir.join(name).to_str(), 0).unwrap();
        run.begin(&RunRecord::default()).unwrap()
    }

    fn names(entries: &[RunEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn runs_that_begin_in_the_same_second_are_numbered() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Runs { dir: HeldDir::open(dir.path()).unwrap() };
        let in_order = ["20261101-120000-7", "20261101-120000-7-2", "20261101-120000-7-10"];
        in_order.iter().rev().for_each(|name| drop(add(dir.path(), name)));
        for other in ["20261101-120000-7-", "20261101-120000-7-x", "20261101-120000-7-2-3"] {
            fs::create_dir(dir.path().join(other)).unwrap();
        }
        let all = runs.list().unwrap();
        assert_eq!(names(&all), in_order);
        assert!(all.iter().all(|run| run.started_unix_ns == all[0].started_unix_ns));
    }

    /// A search of a device of this serial number, whose reads of 4 KiB reached the device with `from_disk`.
    fn search(serial: &str, iops: f64, from_disk: f64) -> LimitRecord {
        let config = serde_json::json!({
            "targets": ["data"], "seconds": 1.0, "cores": 1, "buffers_bytes_max": 1
        });
        let mean = Estimate { mean: iops, ..Estimate::default() };
        let peak = Point { iops: mean, from_disk: Some(from_disk), ..Point::default() };
        let block = BlockLimit { block_bytes: 4096, peak: Some(peak), ..BlockLimit::default() };
        let target = TargetLimit { name: "data".into(), blocks: vec![block] };
        LimitRecord {
            header: Header {
                kind: RecordKind::Limit,
                record_version: RECORD_VERSION,
                outcome: Outcome::Finished,
                facts: Facts {
                    host: host("here"),
                    targets: vec![TargetFacts {
                        device: Some(device(serial)),
                        ..Default::default()
                    }],
                    ..Facts::default()
                },
                findings: vec![by_device()],
                ..Header::default()
            },
            config: serde_json::from_value(config).unwrap(),
            conditions: Vec::new(),
            competitors: Vec::new(),
            report: LimitReport { targets: vec![target], ..LimitReport::default() },
            costs: Vec::new(),
            costs_missing: None,
            ranks: Vec::new(),
        }
    }

    fn by_device() -> Finding {
        let text = r#"{"rule": "device", "severity": "info", "summary": "", "evidence": [], "next_step": null}"#;
        Finding {
            part: Some(Part::Peak { target: 0, block: 0 }),
            ..serde_json::from_str(text).unwrap()
        }
    }

    fn host(id: &str) -> Host {
        Host { host_id: id.into(), ..Host::default() }
    }

    fn device(serial: &str) -> DeviceFacts {
        DeviceFacts { name: "vda".into(), serial: Some(serial.into()), ..DeviceFacts::default() }
    }

    #[test]
    fn the_latest_search_of_a_device_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Runs { dir: HeldDir::open(dir.path()).unwrap() };
        let add_search = |day: u32, record: &LimitRecord| {
            let name = format!("202611{day:02}-120000-1");
            fs::create_dir(dir.path().join(&name)).unwrap();
            let text = serde_json::to_vec_pretty(record).unwrap();
            fs::write(dir.path().join(name).join("record.json"), text).unwrap();
        };
        add_search(1, &search("a", 1000.0, 1.0));
        add_search(2, &search("a", 2000.0, 1.0));
        // Another disk of this name, a search in the page cache, an interrupted one, one that a cgroup limited, and a run.
        add_search(3, &search("b", 3000.0, 1.0));
        add_search(4, &search("a", 4000.0, 0.1));
        let mut interrupted = search("a", 5000.0, 1.0);
        interrupted.header.outcome = Outcome::unfinished();
        add_search(5, &interrupted);
        let mut in_cgroup = search("a", 6000.0, 1.0);
        in_cgroup.header.findings[0].rule = "cgroup-io-limit".into();
        add_search(6, &in_cgroup);
        drop(add(dir.path(), "20261107-120000-1"));
        let (disk, reads) = (device("a"), BlockSpec::new(4096, Rw::Randread));
        let found = |host: &Host, kind| runs.device_limits(host, [&disk], kind).unwrap();
        let expected = DeviceLimit {
            device: "vda".into(),
            bytes_per_second: 2000.0 * 4096.0,
            run_name: "20261102-120000-1".into(),
        };
        assert_eq!(found(&host("here"), reads), [expected]);
        assert_eq!(found(&host("there"), reads), []);
        assert_eq!(found(&host(""), reads), []);
        assert_eq!(found(&host("here"), BlockSpec::new(4096, Rw::Read)), []);
        assert_eq!(found(&host("here"), BlockSpec::new(8192, Rw::Randread)), []);
    }

    #[test]
    fn disks_that_share_a_root_complex_have_its_limit() {
        let disk = |name: &str| Hop {
            name: format!("port of {name}"),
            disks: vec![name.into()],
            ..Hop::default()
        };
        let children = vec![disk("vda"), disk("vdb"), disk("vdc")];
        let root = Hop { name: "pci0000:40".into(), children, ..Hop::default() };
        let mut search = search("a", 1000.0, 1.0);
        let second = DeviceFacts { name: "vdb".into(), ..DeviceFacts::default() };
        search
            .header
            .facts
            .targets
            .push(TargetFacts { device: Some(second), ..TargetFacts::default() });
        search.header.facts.topology = Some(Topology { roots: vec![root], ..Topology::default() });
        let target = |target| CombinedTarget { target, ..CombinedTarget::default() };
        search.report.combined = vec![Combined {
            block_bytes: 4096,
            targets: vec![target(0), target(1)],
            combined_iops: Estimate { mean: 1500.0, ..Estimate::default() },
            cause: CombinedCause::SharedBelow,
            ..Combined::default()
        }];
        let kind = |bytes| BlockSpec::new(bytes, Rw::Randread);
        let found = |search: &LimitRecord| shared(search, kind(4096));
        assert_eq!(found(&search), Some(("pci0000:40".into(), 1500.0 * 4096.0)));
        assert_eq!(shared(&search, kind(8192)), None);
        let mut free = search.clone();
        free.report.combined[0].cause = CombinedCause::Independent;
        assert_eq!(found(&free), None);
        // What they share may be the link of a port.
        let topology = search.header.facts.topology.as_mut().unwrap();
        let children = std::mem::take(&mut topology.roots[0].children);
        topology.roots[0].children = vec![Hop { children, ..Hop::default() }];
        assert_eq!(found(&search), None);
    }

    #[test]
    fn a_tagged_run_is_not_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Runs { dir: HeldDir::open(dir.path()).unwrap() };
        let names = ["20261101-120000-1", "20261101-120000-2"];
        names.iter().for_each(|name| drop(add(dir.path(), name)));
        let tagged = dir.path().join(names[0]);
        assert!(set_tag(&tagged, "nightly", true).unwrap());
        assert!(set_tag(&tagged, "6.12-rc1", true).unwrap());
        assert!(!set_tag(&tagged, "nightly", true).unwrap());
        assert_eq!(runs.list().unwrap()[0].tags, ["nightly", "6.12-rc1"]);
        let pruned = runs.prune(Duration::ZERO, 0, u64::MAX).unwrap();
        assert_eq!(super::tests::names(&pruned.removed), [names[1]]);
        assert!(set_tag(&tagged, "nightly", false).unwrap());
        assert!(set_tag(&tagged, "6.12-rc1", false).unwrap());
        assert!(!set_tag(&tagged, "nightly", false).unwrap());
        assert!(!tagged.join(TAGS).exists());
        for wrong in ["", "a b", "../x", "-q", "20261101-120000-1", &"x".repeat(65), "ä"] {
            assert!(set_tag(&tagged, wrong, true).is_err(), "{wrong}");
        }
        assert!(set_tag(dir.path(), "nightly", true).unwrap_err().contains("not a run directory"));
        fs::write(tagged.join(TAGS), "good\n../bad\n").unwrap();
        assert_eq!(runs.list().unwrap()[0].tags, ["good"]);
        assert_eq!(runs.prune(Duration::ZERO, 0, u64::MAX).unwrap().removed, []);
        // What cannot be read may be a tag.
        fs::remove_file(tagged.join(TAGS)).unwrap();
        std::os::unix::fs::symlink("nowhere", tagged.join(TAGS)).unwrap();
        assert!(set_tag(&tagged, "nightly", true).is_err());
        assert_eq!(runs.prune(Duration::ZERO, 0, u64::MAX).unwrap().removed, []);
        fs::remove_file(tagged.join(TAGS)).unwrap();
        assert!(runs.remove(names[0]).unwrap(), "by its name");
    }

    #[test]
    fn runs_are_pruned_by_age_and_size_but_not_while_they_are_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Runs { dir: HeldDir::open(dir.path()).unwrap() };
        let [first, second, third, active] =
            ["20261101-120000-1", "20261110-120000-2", "20261110-120000-3", "20261001-120000-9"];
        for name in [first, second, third] {
            drop(add(dir.path(), name));
        }
        let writing = add(dir.path(), active);
        fs::create_dir(dir.path().join("20261122-holiday")).unwrap();
        fs::write(dir.path().join(second).join("notes.txt"), "mine").unwrap();
        let all = runs.list().unwrap();
        assert_eq!(names(&all), [active, first, second, third]);
        assert!(all[0].is_active && !all[1].is_active);
        let now = all[1].started_unix_ns + 10 * DAY;
        let keep = Duration::from_secs(9 * 86_400);
        // A directory of that name, with nothing of fathom's in it.
        let strange = "20261010-120000-7";
        fs::create_dir_all(dir.path().join(strange).join("record.json")).unwrap();
        let pruned = runs.prune(keep, u64::MAX, now).unwrap();
        assert_eq!((names(&pruned.removed), names(&pruned.kept)), (vec![first], vec![strange]));
        let pruned = runs.prune(keep, 0, now).unwrap();
        assert_eq!(names(&pruned.removed), [third]);
        assert_eq!(names(&pruned.kept), [strange, second]);
        assert!(!runs.remove(strange).unwrap());
        assert!(dir.path().join(second).join("notes.txt").exists(), "not fathom's");
        assert!(!dir.path().join(third).exists() && dir.path().join("20261122-holiday").exists());
        assert!(runs.remove(active).unwrap_err().contains("still being recorded"));
        drop(writing);
        assert!(runs.remove(active).unwrap());
        assert!(runs.remove("../x").unwrap_err().contains("no such run"));
    }
}
