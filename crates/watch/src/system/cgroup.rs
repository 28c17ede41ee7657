//! cgroup limits that apply to a process (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of
//! the kernel).

mod level;
#[cfg(test)]
mod tests;

use crate::proc_file::PinnedProcFile;
use fathom_model::watch::CgroupSample;
use level::CgroupDir;
use std::borrow::Cow;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A bit of the flags in /proc/PID/stat (include/linux/sched.h).
const PF_EXITING: u64 = 0x4;

/// Reads the limits of a process's cgroups.
#[derive(Debug)]
pub(super) struct Cgroups {
    proc: PathBuf,
    sys: PathBuf,
    /// /proc/PID/cgroup, and its last contents.
    membership: PinnedProcFile,
    groups: String,
    /// Path of the cgroup that limits CPU time.
    path: String,
    /// The cgroups and their ancestors, innermost first within a hierarchy.
    levels: Vec<CgroupDir>,
}

impl Cgroups {
    /// # Errors
    /// If the process does not exist.
    pub fn open(proc: &Path, sys: &Path, pid: Option<i32>) -> io::Result<Self> {
        let pid = pid.map_or_else(|| "self".to_string(), |pid| pid.to_string());
        Ok(Self {
            membership: PinnedProcFile::open(proc.join(pid).join("cgroup"))?,
            proc: proc.to_path_buf(),
            sys: sys.to_path_buf(),
            groups: String::new(),
            path: String::new(),
            levels: Vec::new(),
        })
    }

    /// The current limits; `None` if no cgroup of the process is mounted.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Option<CgroupSample> {
        // Of an exiting process cgroup v1 shows the root; what was known remains true.
        let groups = self.membership.read(buffer).map(Cow::into_owned);
        if let Ok(groups) = groups
            && groups != self.groups
            && (self.groups.is_empty() || !self.is_exiting())
        {
            self.groups = groups;
            self.resolve();
        }
        let mut sample = CgroupSample { path: self.path.clone(), ..CgroupSample::default() };
        for level in &self.levels {
            level.add_to(&mut sample, buffer);
        }
        (!self.levels.is_empty()).then_some(sample)
    }

    /// Whether the process has begun to exit: it is a zombie only once its memory has been freed.
    fn is_exiting(&self) -> bool {
        let stat = std::fs::read(self.membership.path().with_file_name("stat")).unwrap_or_default();
        let name_end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
        let text = String::from_utf8_lossy(stat.get(name_end..).unwrap_or_default());
        let flags =
            text.split_ascii_whitespace().nth(7).and_then(|flags| flags.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & PF_EXITING != 0)
    }

    /// Finds the directories of the cgroups.
    fn resolve(&mut self) {
        let mounts = std::fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let mounts: Vec<CgroupMount> = mounts.lines().filter_map(CgroupMount::parse).collect();
        self.levels.clear();
        let memberships: Vec<Membership> =
            self.groups.lines().filter_map(Membership::parse).collect();
        for membership in &memberships {
            if let Some(mount) = mounts.iter().find(|mount| mount.is_of(membership)) {
                self.levels.extend(levels(membership, mount, &self.sys));
            }
        }
        let limits_cpu = |m: &&Membership| m.controllers.contains(&"cpu");
        let path = memberships.iter().find(limits_cpu).or(memberships.last());
        self.path = path.map_or_else(String::new, |membership| membership.path.to_string());
    }
}

/// A line of /proc/PID/cgroup: `4:cpu,cpuacct:/path` (v1) or `0::/path` (v2).
struct Membership<'a> {
    controllers: Vec<&'a str>,
    path: &'a str,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        Some(Self { controllers: controllers.split(',').filter(|c| !c.is_empty()).collect(), path })
    }
}

/// The mount of a hierarchy: a line of /proc/self/mountinfo.
struct CgroupMount<'a> {
    /// The cgroup at the mount point.
    root: &'a str,
    point: &'a str,
    /// `None` for v2.
    controllers: Option<Vec<&'a str>>,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut kind = kind.split(' ');
        let controllers = match kind.next()? {
            "cgroup2" => None,
            "cgroup" => Some(kind.nth(1)?.split(',').collect()),
            _ => return None,
        };
        Some(Self { root, point, controllers })
    }

    fn is_of(&self, membership: &Membership) -> bool {
        match &self.controllers {
            None => membership.controllers.is_empty(),
            Some(mine) => {
                let mut theirs = membership.controllers.iter();
                !membership.controllers.is_empty() && theirs.all(|c| mine.contains(c))
            }
        }
    }
}

/// The cgroup and its ancestors up to the mount point, innermost first.
fn levels(membership: &Membership, mount: &CgroupMount, sys: &Path) -> Vec<CgroupDir> {
    let point = Path::new(mount.point);
    let top = point.strip_prefix("/sys").map_or(point.to_path_buf(), |below| sys.join(below));
    // Outside the mounted part of the hierarchy, only the cgroup at the mount point is visible.
    let below = Path::new(membership.path).strip_prefix(mount.root).ok();
    let seen = |below: &&Path| {
        below.components().all(|part| part != Component::ParentDir) && top.join(below).is_dir()
    };
    let below = below.filter(seen).unwrap_or(Path::new(""));
    let open = |below: &Path| {
        let name: PathBuf = Path::new(mount.root).components().chain(below.components()).collect();
        CgroupDir::open(&top.join(below), &name, &membership.controllers, sys)
    };
    below.ancestors().map(open).filter(CgroupDir::has_files).collect()
}
