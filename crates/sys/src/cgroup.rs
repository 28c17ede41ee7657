//! cgroup hierarchies of a process, v1 and v2.

use crate::mounts::{self, Mount};
use crate::roots::{self, Roots, Unread, text};
use std::path::{Component, Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Whether it is the one of version 2.
    pub is_v2: bool,
    pub controllers: Vec<String>,
    pub path: String,
    /// The group at the mount point: a container often mounts only its own subtree.
    pub root: String,
    pub top: PathBuf,
    /// The directory of the process's group; the top if the group is not visible.
    pub own: PathBuf,
}

impl Hierarchy {
    /// Whether groups below the top have a controller; all have none.
    pub fn has(&self, controller: &str) -> bool {
        controller.is_empty() || self.controllers.iter().any(|name| name == controller)
    }

    pub fn groups(&self) -> impl Iterator<Item = &Path> {
        let mut is_past = false;
        self.own.ancestors().take_while(move |dir| {
            let is_last = is_past;
            is_past = *dir == self.top;
            !is_last
        })
    }

    pub fn name(&self, dir: &Path) -> String {
        let below = dir.strip_prefix(&self.top).unwrap_or(Path::new(""));
        let name: PathBuf = Path::new(&self.root).components().chain(below.components()).collect();
        name.display().to_string()
    }
}

/// The mounted hierarchies of this process, version 2 first.
pub fn own(roots: &Roots) -> Result<Vec<Hierarchy>, Unread> {
    // A kernel without cgroups has no such file.
    let groups: String = roots::value(&roots.proc.join("self/cgroup"))?.unwrap_or_default();
    let mut all = hierarchies(roots, &groups);
    all.sort_by_key(|hierarchy| !hierarchy.is_v2);
    Ok(all)
}

/// The mounted hierarchies among the lines of a /proc/PID/cgroup, in their order.
pub fn hierarchies(roots: &Roots, groups: &str) -> Vec<Hierarchy> {
    let mounts = mounts::own(roots);
    groups.lines().filter_map(|line| hierarchy(roots, &mounts, line)).collect()
}

/// The hierarchy in one line: `4:cpu,cpuacct:/a/b` (v1) or `0::/a/b` (v2).
fn hierarchy(roots: &Roots, mounts: &[Mount], line: &str) -> Option<Hierarchy> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (names, path) = (parts.next()?, parts.next()?);
    let is_v2 = names.is_empty();
    let has_names = |m: &&Mount| {
        let has = |name: &str| m.super_options.split(',').any(|option| option == name);
        m.file_system == "cgroup" && names.split(',').any(has)
    };
    let mount = match is_v2 {
        true => mounts.iter().find(|m| m.file_system == "cgroup2")?,
        false => mounts.iter().find(has_names)?,
    };
    let point = Path::new(&mount.point);
    let top = point.strip_prefix("/sys").map_or(point.into(), |below| roots.sys.join(below));
    // Groups outside the mount are invisible; those outside the cgroup namespace are shown with "..".
    let is_seen = |below: &&Path| {
        below.components().all(|part| part != Component::ParentDir) && top.join(below).is_dir()
    };
    let below = Path::new(path).strip_prefix(&mount.root).ok().filter(is_seen);
    let own = below.map_or(top.clone(), |below| top.join(below));
    let controllers = match is_v2 {
        true => text(top.join("cgroup.subtree_control")).unwrap_or_default(),
        false => names.replace(',', " "),
    };
    let controllers = controllers.split_whitespace().map(ToString::to_string).collect();
    Some(Hierarchy { is_v2, controllers, path: path.into(), root: mount.root.clone(), top, own })
}
