//! The limits of control groups that apply to a process
//! (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the kernel).

mod level;
#[cfg(test)]
mod tests;

use crate::kept::Kept;
use fathom_model::watch::CgroupSample;
use level::Level;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Reads the limits of a process's control groups.
#[derive(Debug)]
pub(super) struct Cgroups {
    proc: PathBuf,
    sys: PathBuf,
    /// /proc/PID/cgroup, and its text as last seen.
    membership: Kept,
    groups: String,
    /// Path of the group that limits processor time.
    path: String,
    /// The groups and their parents, innermost first within a hierarchy.
    levels: Vec<Level>,
}

impl Cgroups {
    /// # Errors
    /// Where the process does not exist.
    pub fn open(proc: &Path, sys: &Path, pid: Option<i32>) -> io::Result<Self> {
        let pid = pid.map_or_else(|| "self".to_string(), |pid| pid.to_string());
        Ok(Self {
            membership: Kept::open(proc.join(pid).join("cgroup"))?,
            proc: proc.to_path_buf(),
            sys: sys.to_path_buf(),
            groups: String::new(),
            path: String::new(),
            levels: Vec::new(),
        })
    }

    /// The limits as they stand; `None` where the process is in no group that is mounted.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Option<CgroupSample> {
        // A process that has ended is shown with the groups that it had.
        if let Ok(groups) = self.membership.read(buffer)
            && groups != self.groups
        {
            self.groups = groups.into_owned();
            self.resolve();
        }
        let mut sample = CgroupSample { path: self.path.clone(), ..CgroupSample::default() };
        for level in &self.levels {
            level.add_to(&mut sample, buffer);
        }
        (!self.levels.is_empty()).then_some(sample)
    }

    /// Finds the groups' directories anew.
    fn resolve(&mut self) {
        let mounts = std::fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
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

/// One line of /proc/PID/cgroup: `4:cpu,cpuacct:/path`, or `0::/path` for version 2.
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

/// A hierarchy's mount: a line of /proc/self/mountinfo.
struct Mount<'a> {
    /// The group that is seen at the mount point.
    root: &'a str,
    point: &'a str,
    /// `None` for version 2.
    controllers: Option<Vec<&'a str>>,
}

impl<'a> Mount<'a> {
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

/// The group and its parents up to the mount, innermost first.
fn levels(membership: &Membership, mount: &Mount, sys: &Path) -> Vec<Level> {
    let point = Path::new(mount.point);
    let top = point.strip_prefix("/sys").map_or(point.to_path_buf(), |below| sys.join(below));
    // Outside of what is mounted here, the group at the mount is all that can be seen.
    let below = Path::new(membership.path).strip_prefix(mount.root).ok();
    let seen = |below: &&Path| {
        below.components().all(|part| part != Component::ParentDir) && top.join(below).is_dir()
    };
    let below = below.filter(seen).unwrap_or(Path::new(""));
    let open = |below: &Path| {
        let name: PathBuf = Path::new(mount.root).components().chain(below.components()).collect();
        Level::open(&top.join(below), &name, &membership.controllers, sys)
    };
    below.ancestors().map(open).filter(Level::has_files).collect()
}
