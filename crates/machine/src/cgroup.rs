//! cgroups of this process, v1 and v2.

use crate::mounts::{self, Mount};
use crate::roots::{self, Roots, Unread, text};
use std::path::{Component, Path, PathBuf};

/// cgroup v1 has no keyword for "unlimited"; it reports the largest page-aligned number.
const UNLIMITED_FROM: u64 = 1 << 62;

/// A mounted cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Whether it is the one of version 2.
    pub is_v2: bool,
    /// Its controllers; of version 2, those enabled for groups below the top.
    pub controllers: Vec<String>,
    /// Its mount point.
    pub top: PathBuf,
    /// This process's group.
    pub own: PathBuf,
}

impl Hierarchy {
    /// Whether groups below the top have a controller; all have none.
    pub fn has(&self, controller: &str) -> bool {
        controller.is_empty() || self.controllers.iter().any(|name| name == controller)
    }

    /// This process's group and those above it.
    pub fn groups(&self) -> impl Iterator<Item = &Path> {
        let mut is_past = false;
        self.own.ancestors().take_while(move |dir| {
            let is_last = is_past;
            is_past = *dir == self.top;
            !is_last
        })
    }
}

/// The lowest limit in bytes of this process's cgroup and its ancestors.
pub(crate) fn memory_max(roots: &Roots) -> Option<u64> {
    // A fact: unknown is not limited.
    let all = hierarchies(roots).unwrap_or_default();
    let of_memory = all.iter().filter(|hierarchy| hierarchy.is_v2 || hierarchy.has("memory"));
    let limits = of_memory.flat_map(|hierarchy| {
        let file = if hierarchy.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        hierarchy.groups().filter_map(move |dir| text(dir.join(file))?.parse().ok())
    });
    limits.filter(|value| *value < UNLIMITED_FROM).min()
}

/// The mounted hierarchies, version 2 first.
///
/// # Errors
/// This process's groups cannot be read.
pub(crate) fn hierarchies(roots: &Roots) -> Result<Vec<Hierarchy>, Unread> {
    // A kernel without cgroups has no such file.
    let groups: String = roots::value(&roots.proc.join("self/cgroup"))?.unwrap_or_default();
    let mounts = mounts::own(roots);
    let mut all: Vec<Hierarchy> =
        groups.lines().filter_map(|line| hierarchy(roots, &mounts, line)).collect();
    all.sort_by_key(|hierarchy| !hierarchy.is_v2);
    Ok(all)
}

/// The hierarchy in one line of /proc/self/cgroup: `4:memory:/a/b` or `0::/a/b`.
fn hierarchy(roots: &Roots, mounts: &[Mount], line: &str) -> Option<Hierarchy> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (names, group) = (parts.next()?, parts.next()?);
    let is_v2 = names.is_empty();
    let has_names = |m: &&Mount| {
        let has = |name: &str| m.super_options.split(',').any(|option| option == name);
        m.file_system == "cgroup" && names.split(',').any(has)
    };
    let mount = match is_v2 {
        true => mounts.iter().find(|m| m.file_system == "cgroup2")?,
        false => mounts.iter().find(has_names)?,
    };
    let top = below_sys(roots, &mount.point);
    let own = top.join(within(group, &mount.root));
    let controllers: Vec<String> = match is_v2 {
        true => text(top.join("cgroup.subtree_control")).unwrap_or_default(),
        false => names.replace(',', " "),
    }
    .split_whitespace()
    .map(ToString::to_string)
    .collect();
    Some(Hierarchy { is_v2, controllers, top, own })
}

/// The cgroup's path below the mount; a container often mounts only its own subtree.
fn within(group: &str, mount_root: &str) -> PathBuf {
    let path = Path::new(group);
    let below = path.strip_prefix(mount_root).unwrap_or(path);
    // A cgroup outside the cgroup namespace is shown with "..": only the mount root is visible.
    if below.components().any(|part| part == Component::ParentDir) {
        return PathBuf::new();
    }
    below.strip_prefix("/").unwrap_or(below).to_path_buf()
}

fn below_sys(roots: &Roots, point: &str) -> PathBuf {
    match Path::new(point).strip_prefix("/sys") {
        Ok(rest) => roots.sys.join(rest),
        Err(_) => point.into(),
    }
}
