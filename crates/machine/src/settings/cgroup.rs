//! A cgroup for this process alone, in either version of the interface.

use super::LockedJournal;
use super::SettingsError;
use super::effects::{Effects, may_write};
use super::journal::{RunCgroup, SlotKind};
use super::place::SettingFile;
use super::restore::Restored;
use crate::host::kibibytes;
use fathom_model::setting::CgroupLimits;
use fathom_model::units::bytes;
use fathom_sys::cgroup::{self, Hierarchy};
use fathom_sys::roots::{self, Roots, Unread, is_cgroup};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Period of a CPU limit in microseconds, the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Maximum number of attempts to remove a group, whose last process may be exiting.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Memory in bytes that fathom needs besides what it uses before a run: rings, threads, samples.
const HEADROOM_BYTES: u64 = 16 << 20;

type LimitFile = (&'static str, String);

pub(super) fn enter(
    effects: &Effects,
    held: &mut LockedJournal,
    place: &SettingFile,
) -> Result<(), SettingsError> {
    let name = format!("fathom-{}", std::process::id());
    let all = cgroup::own(&effects.roots)?;
    let limits = limits(place)?;
    enough_memory(&effects.roots, place, limits)?;
    let groups = groups(&all, place, limits)?;
    held.journal.group = Some(RunCgroup {
        dirs: groups.iter().map(|(hierarchy, _)| hierarchy.top.join(&name)).collect(),
        back: groups.iter().map(|(hierarchy, _)| hierarchy.own.clone()).collect(),
    });
    effects.save(&held.slot, SlotKind::Transient, &held.journal)?;
    groups.iter().try_for_each(|(hierarchy, files)| {
        create(effects, place, &hierarchy.top.join(&name), files)
    })
}

/// Checks that this user may create the group of `place`.
pub(super) fn check(effects: &Effects, place: &SettingFile) -> Result<(), SettingsError> {
    let all = cgroup::own(&effects.roots)?;
    for (hierarchy, _) in groups(&all, place, limits(place)?)? {
        may_write(&hierarchy.top).map_err(|error| refused(place, &hierarchy.top, error))?;
    }
    Ok(())
}

fn limits(place: &SettingFile) -> Result<CgroupLimits, SettingsError> {
    CgroupLimits::parse(&place.value).map_err(|wrong| place.refused(io::Error::other(wrong)))
}

/// The hierarchies that have the controllers of these limits, each with the files to write.
fn groups<'a>(
    all: &'a [Hierarchy],
    place: &SettingFile,
    limits: CgroupLimits,
) -> Result<Vec<(&'a Hierarchy, Vec<LimitFile>)>, SettingsError> {
    let mut groups: Vec<(&Hierarchy, Vec<LimitFile>)> = Vec::new();
    for (controller, v2, v1) in wanted(limits) {
        let hierarchy = all.iter().find(|hierarchy| hierarchy.has(controller)).ok_or_else(|| {
            place.no_target(match controller {
                "" => "no cgroup hierarchy is mounted".to_string(),
                _ => format!(
                    "no mounted cgroup hierarchy has the {controller} controller enabled; with cgroup v2: \
                     echo +{controller} >/sys/fs/cgroup/cgroup.subtree_control"
                ),
            })
        })?;
        let files = if hierarchy.is_v2 { v2 } else { v1 };
        match groups.iter_mut().find(|(known, _)| known.top == hierarchy.top) {
            Some((_, known)) => known.extend(files),
            None => groups.push((hierarchy, files)),
        }
    }
    let mut own = groups.iter().filter_map(|(hierarchy, _)| hierarchy.own.file_name()?.to_str());
    match own.find(|name| is_fathoms(name)) {
        Some(own) => Err(place
            .no_target(format!("this process is already in the cgroup {own} of another fathom"))),
        None => Ok(groups),
    }
}

fn create(
    effects: &Effects,
    place: &SettingFile,
    dir: &Path,
    files: &[LimitFile],
) -> Result<(), SettingsError> {
    effects.step();
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(refused(place, dir, error));
        }
        _ => effects.step(),
    }
    let own = ("cgroup.procs", std::process::id().to_string());
    for (file, value) in files.iter().chain([&own]) {
        let path = dir.join(file);
        effects.write_path(&path, value).map_err(|error| refused(place, &path, error))?;
    }
    Ok(())
}

fn refused(place: &SettingFile, file: &Path, source: io::Error) -> SettingsError {
    place.refused_at(file.display().to_string(), source)
}

/// Refuses a limit that would have the kernel kill fathom itself. What a process uses already stays accounted to its old
/// group, so that the limit is for what it may use again, and for what it needs besides.
fn enough_memory(
    roots: &Roots,
    place: &SettingFile,
    limits: CgroupLimits,
) -> Result<(), SettingsError> {
    let Some(limit) = limits.memory_bytes else { return Ok(()) };
    let file = roots.proc.join("self/status");
    let status = roots::value::<String>(&file)?.ok_or_else(|| Unread::missing(&file))?;
    let needed = kibibytes(&status, "RssAnon").saturating_add(HEADROOM_BYTES);
    if limit >= needed {
        return Ok(());
    }
    Err(place.no_target(format!(
        "{} is too little for fathom itself, which the kernel would kill; set at least {}m",
        bytes(limit),
        needed.div_ceil(1 << 20)
    )))
}

/// For each controller needed: the files of version 2 and of version 1.
fn wanted(limits: CgroupLimits) -> Vec<(&'static str, Vec<LimitFile>, Vec<LimitFile>)> {
    let mut all = Vec::new();
    if let Some(bytes) = limits.memory_bytes {
        let value = bytes.to_string();
        let v1 = vec![("memory.limit_in_bytes", value.clone())];
        all.push(("memory", vec![("memory.max", value)], v1));
    }
    if let Some(cpus) = limits.cpus {
        let quota = (cpus * PERIOD_US as f64).round() as u64;
        let v1 = vec![
            ("cpu.cfs_period_us", PERIOD_US.to_string()),
            ("cpu.cfs_quota_us", quota.to_string()),
        ];
        all.push(("cpu", vec![("cpu.max", format!("{quota} {PERIOD_US}"))], v1));
    }
    if all.is_empty() {
        all.push(("", Vec::new(), Vec::new()));
    }
    all
}

/// Moves this process back, if it is the one in the group, and removes the group. `None` if nothing was changed.
pub(super) fn leave(effects: &Effects, group: &RunCgroup, pid: u32) -> Option<Restored> {
    let mut failed = None;
    for (dir, back) in group.dirs.iter().zip(&group.back) {
        if !is_own_name(dir, pid) {
            continue;
        }
        if !dir.is_dir() {
            // It is gone only if its hierarchy is visible.
            let is_seen = dir.parent().is_some_and(|top| is_cgroup(&effects.roots, top));
            let hidden = || io::Error::other("its cgroup hierarchy is not mounted; mount it");
            failed = (!is_seen).then(hidden).or(failed);
            continue;
        }
        if pid == std::process::id() {
            failed = move_back(effects, back, pid).err().or(failed);
        }
        failed = remove(effects, dir).err().or(failed);
    }
    failed.map(|error| Restored::failed(format!("cgroup fathom-{pid}"), &error))
}

/// Moves this process to the group `back`, or the nearest group above it that still exists.
fn move_back(effects: &Effects, back: &Path, pid: u32) -> io::Result<()> {
    let mut groups = back.ancestors().map(|group| group.join("cgroup.procs"));
    let nearest = groups.find(|file| file.exists()).unwrap_or_else(|| back.join("cgroup.procs"));
    effects.write_path(&nearest, &pid.to_string())
}

fn remove(effects: &Effects, dir: &PathBuf) -> io::Result<()> {
    let mut tries = 0;
    loop {
        effects.step();
        match std::fs::remove_dir(dir) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
        tries += 1;
    }
    effects.step();
    Ok(())
}

fn is_fathoms(name: &str) -> bool {
    name.strip_prefix("fathom-").is_some_and(|pid| pid.parse::<u32>().is_ok())
}

/// Whether a directory in a journal is one that fathom creates.
fn is_own_name(dir: &Path, pid: u32) -> bool {
    dir.file_name().is_some_and(|name| name.to_str() == Some(&format!("fathom-{pid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_returns_to_the_nearest_group_that_exists() {
        let dir = tempfile::tempdir().unwrap();
        let procs = dir.path().join("a/cgroup.procs");
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(&procs, "").unwrap();
        let (roots, on_step) = (Roots::default(), None);
        let effects = Effects { roots, state: dir.path().into(), on_step };
        move_back(&effects, &dir.path().join("a/gone/too"), 7).unwrap();
        assert_eq!(std::fs::read_to_string(&procs).unwrap(), "7");
        assert!(is_fathoms("fathom-7") && !is_fathoms("fathom-x"));
    }
}
