//! Which block devices hold the data of a file, also where its file system has no device of its own.

use crate::target;
use fathom_sys::device::{Node, Number};
use fathom_sys::mounts::{self, Mount, unescaped};
use fathom_sys::roots::{Roots, entries, text};
use rustix::fs::{FileType, Statx};
use std::path::{Path, PathBuf};

/// File systems may be stacked this deep.
const DEPTH_MAX: u32 = 8;
/// File systems of this machine's disks, or on other file systems, whose devices may be invisible, as in a container.
const LOCAL: &str = "overlay aufs unionfs ecryptfs btrfs bcachefs zfs fuse.fuse-overlayfs fuse.mergerfs \
    fuse.bindfs fuse.gocryptfs fuse.encfs";
/// File systems whose files are in memory, or no data at all.
const IN_MEMORY: &str =
    "tmpfs devtmpfs ramfs hugetlbfs proc sysfs cgroup cgroup2 debugfs tracefs rootfs";

fn lists(names: &str, name: &str) -> bool {
    names.split(' ').any(|other| other == name)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backing {
    By(Vec<Number>),
    AnyDisk,
    Hidden,
}

#[derive(Clone, Copy)]
pub(crate) struct Holders<'a> {
    pub roots: &'a Roots,
    /// Those of this process's namespace, in which `path` and the sources and layers of mounts are looked up.
    pub mounts: &'a [Mount],
}

impl Holders<'_> {
    /// The devices that hold the file or directory with this `stat`, which is at `path`. Of a directory, those of new
    /// files in it.
    pub fn of(&self, stat: &Statx, path: &Path) -> Backing {
        self.below(stat, path, 0)
    }

    fn below(&self, stat: &Statx, path: &Path, depth: u32) -> Backing {
        let number = (stat.stx_dev_major, stat.stx_dev_minor);
        if Node::by_number(self.roots, number).is_some() {
            return Backing::By(vec![number]);
        }
        let Some(mount) = mounts::of(self.mounts, stat).filter(|_| depth < DEPTH_MAX) else {
            return Backing::Hidden;
        };
        let found = match mount.file_system.as_str() {
            name if lists(IN_MEMORY, name) => return Backing::By(Vec::new()),
            "overlay" => self.layers(mount, stat, path, depth),
            "btrfs" => self.source(mount, depth).map(|held| self.all_of_btrfs(held)),
            _ => self.source(mount, depth),
        };
        found.unwrap_or_else(|| match lists(LOCAL, &mount.file_system) {
            true => Backing::AnyDisk,
            false => Backing::Hidden,
        })
    }

    /// The devices, or the file, in the mount's source; bcachefs lists its devices between colons. Other sources, such as
    /// `none`, are mere names.
    fn source(&self, mount: &Mount, depth: u32) -> Option<Backing> {
        let mut numbers = Vec::new();
        for part in mount.source.split(':') {
            let path = Path::new(part);
            let stat = lstat(&path.canonicalize().ok().filter(|_| path.is_absolute())?)?;
            match FileType::from_raw_mode(stat.stx_mode.into()) {
                FileType::BlockDevice => numbers.push((stat.stx_rdev_major, stat.stx_rdev_minor)),
                FileType::RegularFile => return Some(self.below(&stat, path, depth + 1)),
                _ => return None,
            }
        }
        Some(Backing::By(numbers))
    }

    fn all_of_btrfs(&self, one: Backing) -> Backing {
        let Backing::By(numbers) = one else { return one };
        let dir = self.roots.sys.join("fs/btrfs");
        let members = |id: String| -> Vec<Number> {
            let devices = dir.join(id).join("devices");
            let number = |name: String| {
                fathom_sys::device::parse_number(&text(devices.join(name).join("dev"))?)
            };
            entries(&devices).into_iter().filter_map(number).collect()
        };
        let mut all = entries(&dir).into_iter().map(members);
        Backing::By(all.find(|all| all.contains(&numbers[0])).unwrap_or(numbers))
    }

    /// The devices of the layer of an overlay that has the file, and of the layer that gets its copy when it is written.
    fn layers(&self, mount: &Mount, stat: &Statx, path: &Path, depth: u32) -> Option<Backing> {
        let inside = path.strip_prefix(&mount.point).ok()?;
        let inside = Path::new(mount.root.trim_start_matches('/')).join(inside);
        let layers = Layers::of(mount);
        let at = |layer: &Path, below: &Path, like: &Statx| {
            let found = layer.join(below).canonicalize().ok()?;
            let stat = lstat(&found).filter(|stat| is_same(stat, like))?;
            Some(self.below(&stat, &found, depth + 1))
        };
        if let Some(upper) = layers.upper.iter().find_map(|upper| at(upper, &inside, stat)) {
            return Some(upper);
        }
        let Some(lower) = layers.lower.iter().find_map(|lower| at(lower, &inside, stat)) else {
            // A file that has another name there, or none yet, is where its directory is.
            let dir = path.parent().filter(|dir| dir.starts_with(&mount.point))?;
            let is_file = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
            let stat = lstat(dir).filter(|_| is_file)?;
            return self.layers(mount, &stat, dir, depth + 1);
        };
        // The root tells whether the path leads to the upper layer, also from here.
        let root = lstat(Path::new(&mount.point)).filter(|_| mount.root == "/");
        let upper = root
            .and_then(|root| layers.upper.iter().find_map(|upper| at(upper, Path::new(""), &root)));
        Some(match (lower, upper) {
            (Backing::By(mut numbers), Some(Backing::By(more))) => {
                numbers.extend(more);
                numbers.sort_unstable();
                numbers.dedup();
                Backing::By(numbers)
            }
            (lower, _) => lower,
        })
    }
}

struct Layers {
    upper: Vec<PathBuf>,
    lower: Vec<PathBuf>,
}

impl Layers {
    /// From the options of the mount, in which paths are as they were given to mount(8): they may be those of another
    /// namespace, or relative to the directory it was called in, probably that of the mount point.
    fn of(mount: &Mount) -> Self {
        let near = Path::new(&mount.point).parent().unwrap_or(Path::new("/"));
        let place = |given: &str| match Path::new(given) {
            path if path.is_absolute() => path.to_path_buf(),
            path => near.join(path),
        };
        let mut layers = Self { upper: Vec::new(), lower: Vec::new() };
        for option in mount.super_options.split(',') {
            let Some((key, value)) = option.split_once('=') else { continue };
            let value = unescaped(value);
            match key {
                "upperdir" => layers.upper.push(place(&value)),
                "lowerdir" => {
                    layers.lower.extend(split_layers(&value).iter().map(|dir| place(dir)))
                }
                "lowerdir+" | "datadir+" => layers.lower.push(place(&value)),
                _ => {}
            }
        }
        layers
    }
}

fn split_layers(value: &str) -> Vec<String> {
    let mut layers = vec![String::new()];
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match (char, layers.last_mut()) {
            (':', _) => layers.push(String::new()),
            ('\\', Some(layer)) => layer.extend(chars.next()),
            (_, Some(layer)) => layer.push(char),
            (_, None) => {}
        }
    }
    layers.retain(|layer| !layer.is_empty());
    layers
}

/// Whether an overlay shows `layer`'s file as `shown`: it copies all of this from there.
fn is_same(layer: &Statx, shown: &Statx) -> bool {
    let of = |stat: &Statx| {
        let (ctime, mtime) = (stat.stx_ctime, stat.stx_mtime);
        let times = (ctime.tv_sec, ctime.tv_nsec, mtime.tv_sec, mtime.tv_nsec);
        (stat.stx_mode, stat.stx_uid, stat.stx_gid, stat.stx_size, times)
    };
    of(layer) == of(shown)
}

fn lstat(path: &Path) -> Option<Statx> {
    target::stat(target::open_path(path.to_str()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(point: &str, options: &str) -> Mount {
        Mount {
            id: 1,
            device: (0, 40),
            root: "/".into(),
            point: point.into(),
            options: String::new(),
            file_system: "overlay".into(),
            source: "o".into(),
            super_options: options.into(),
        }
    }

    #[test]
    fn file_systems_that_show_no_device() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: dir.path().into(), sys: dir.path().into() };
        let stat = target::stat(target::open_path(dir.path().to_str().unwrap()).unwrap()).unwrap();
        let held = |file_system: &str, source: &str| {
            let (id, options) = (stat.stx_mnt_id, "rw,upperdir=/nonexistent,lowerdir=gone");
            let mount = Mount {
                id,
                file_system: file_system.into(),
                source: source.into(),
                ..overlay("/", options)
            };
            Holders { roots: &roots, mounts: &[mount] }.of(&stat, dir.path())
        };
        // A name in the working directory is no source.
        for source in ["none", "src", "server:/export", "host0", "user@host:/"] {
            for name in ["nfs4", "9p", "virtiofs", "fuse.sshfs", "ceph", "cifs"] {
                assert_eq!(held(name, source), Backing::Hidden, "{name} {source}");
            }
            for name in ["overlay", "btrfs", "bcachefs", "zfs", "fuse.fuse-overlayfs"] {
                assert_eq!(held(name, source), Backing::AnyDisk, "{name} {source}");
            }
            assert_eq!(held("tmpfs", source), Backing::By(Vec::new()));
        }
        let held_by = Holders { roots: &roots, mounts: &[] }.of(&stat, dir.path());
        assert_eq!(held_by, Backing::Hidden);
    }

    #[test]
    fn layers_as_the_kernel_prints_them() {
        let layers = Layers::of(&overlay(
            "/data/ov",
            "rw,lowerdir=/a\\054b:rel:/c\\134:d::/e,lowerdir+=/f,datadir+=/g,upperdir=up,workdir=wo",
        ));
        let lower = ["/a,b", "/data/rel", "/c:d", "/e", "/f", "/g"];
        assert_eq!(layers.lower, lower.map(PathBuf::from));
        assert_eq!(layers.upper, [PathBuf::from("/data/up")]);
    }
}
