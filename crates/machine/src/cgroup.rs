//! Memory limits of this process's cgroups, v1 and v2.

use crate::mounts::{self, Mount};
use crate::roots::{Roots, text};
use std::path::{Component, Path, PathBuf};

/// cgroup v1 has no keyword for "unlimited"; it reports the largest page-aligned number.
const UNLIMITED_FROM: u64 = 1 << 62;

/// The lowest limit in bytes of this process's cgroup and its ancestors.
pub(crate) fn memory_max(roots: &Roots) -> Option<u64> {
    let groups = text(roots.proc.join("self/cgroup"))?;
    let mounts = mounts::own(roots);
    groups.lines().filter_map(|line| limit(roots, &mounts, line)).min()
}

/// The limit of the cgroup in one line of /proc/self/cgroup: `4:memory:/a/b` or `0::/a/b`.
fn limit(roots: &Roots, mounts: &[Mount], line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (file, mount) = if controllers.is_empty() {
        ("memory.max", mounts.iter().find(|m| m.file_system == "cgroup2")?)
    } else if controllers.split(',').any(|name| name == "memory") {
        let has_memory = |m: &&Mount| {
            m.file_system == "cgroup" && m.super_options.split(',').any(|o| o == "memory")
        };
        ("memory.limit_in_bytes", mounts.iter().find(has_memory)?)
    } else {
        return None;
    };
    let top = below_sys(roots, &mount.point);
    let mut dir = top.join(within(group, &mount.root));
    let mut least: Option<u64> = None;
    loop {
        let here = text(dir.join(file)).and_then(|value| value.parse().ok());
        least = least.into_iter().chain(here.filter(|value| *value < UNLIMITED_FROM)).min();
        if dir == top || !dir.pop() {
            return least;
        }
    }
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
