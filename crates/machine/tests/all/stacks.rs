//! Random stacks of loop devices, partitions, hard links, overlays, mounts and swap, with something
//! in use in each: whatever a target is called that shares bytes with it, nothing of it changes.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{
    Cover, Elsewhere, Loop, MIB, Mounted, Swap, Target, WRITE, devices, mkfs, open, target, text,
    written,
};
use fathom_machine::guard::Permissions;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// So many stacks are built, unless `FATHOM_STACKS` says another number.
const STACKS: u32 = 100;
const IMAGE: u64 = 2 * MIB;
/// Behind the signatures of file systems.
const OFFSET: u64 = 64 << 10;
const LIMIT: u64 = MIB;

/// What the file at the bottom is called.
const NAMES: [&[u8]; 6] = [b"img", b"img ", b"img\n", b"im\\040g", b"img\xff", b"img (deleted)"];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Directory,
    BindMount,
    Overlay,
    /// On a file system on a loop device.
    Nested,
}

#[derive(Debug, Clone, Copy)]
enum Usage {
    /// Only by what is set up on it: the uppermost device is nobody's.
    SetUp,
    Mounted,
    MountedElsewhere,
    Swap,
}

/// A loop device of the stack.
#[derive(Debug, Clone, Copy)]
struct Layer {
    /// On a partition of what is below, where that is a device.
    on_partition: bool,
    offset: bool,
    limited: bool,
}

#[derive(Debug, Clone)]
struct Stack {
    name: usize,
    place: Place,
    links: usize,
    renamed: bool,
    removed: bool,
    covered: bool,
    layers: Vec<Layer>,
    /// Which of the layers is used, from the bottom.
    used: usize,
    usage: Usage,
}

fn stacks() -> impl Strategy<Value = Stack> {
    let place = prop_oneof![
        4 => Just(Place::Directory),
        1 => Just(Place::BindMount),
        2 => Just(Place::Overlay),
        1 => Just(Place::Nested),
    ];
    let usage = prop_oneof![
        8 => Just(Usage::SetUp),
        12 => Just(Usage::Mounted),
        1 => Just(Usage::MountedElsewhere),
        3 => Just(Usage::Swap),
    ];
    let layer = (any::<bool>(), any::<bool>(), any::<bool>());
    let layer =
        layer.prop_map(|(on_partition, offset, limited)| Layer { on_partition, offset, limited });
    let layers = prop::collection::vec(layer, 1..=3);
    let names = (0..NAMES.len(), 0..=2_usize, any::<bool>(), any::<bool>(), any::<bool>());
    (place, usage, layers, 0..3_usize, names).prop_map(|(place, usage, layers, used, names)| {
        let (name, links, renamed, removed, covered) = names;
        let used = used.min(layers.len() - 1);
        Stack { name, place, links, renamed, removed, covered, layers, used, usage }
    })
}

/// What was built. The fields are released in their order.
struct Built {
    _used: Option<Box<dyn std::any::Any>>,
    _cover: Option<Cover>,
    _loops: Vec<Loop>,
    /// Every path that leads to the file at the bottom, or to a device of the stack that is used.
    paths: Vec<PathBuf>,
    /// The file at the bottom, whatever it is called.
    file: File,
    /// Where in the file the page of swap is that the kernel may use.
    spare: Option<usize>,
    _place: Vec<Box<dyn std::any::Any>>,
    dir: TempDir,
}

impl Stack {
    fn build(&self) -> Built {
        let dir = crate::support::dir();
        let (home, below, place) = self.place(&dir);
        let image = home.join(OsStr::from_bytes(NAMES[self.name]));
        std::fs::write(&image, vec![0; IMAGE as usize]).expect("image");
        let file = File::options().read(true).write(true).open(&image).expect("image");
        let mut loops: Vec<Loop> = Vec::new();
        let mut paths = Vec::new();
        for layer in &self.layers {
            let lower = match loops.last_mut() {
                Some(lower) if layer.on_partition => lower.half().into(),
                Some(lower) => lower.path.clone().into(),
                None => image.clone(),
            };
            paths.push(lower.clone());
            let mut options: Vec<String> = Vec::new();
            if layer.offset {
                options.extend(["-o".to_string(), OFFSET.to_string()]);
            }
            if layer.limited {
                options.extend(["--sizelimit".to_string(), LIMIT.to_string()]);
            }
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            loops.push(Loop::on(&lower, &options));
        }
        if !matches!(self.usage, Usage::SetUp) {
            paths.extend(loops.last().map(|top| PathBuf::from(&top.path)));
        }
        let used = self.usage(&loops[self.used].path);
        let bytes = std::fs::read(&image).expect("image");
        let spare = bytes.windows(Swap::SPARE.len()).position(|bytes| bytes == Swap::SPARE);
        assert_eq!(spare.is_some(), matches!(self.usage, Usage::Swap));
        // The uppermost is released first.
        loops.reverse();
        let mut built = Built {
            _used: used,
            _cover: None,
            _loops: loops,
            paths,
            file,
            spare,
            _place: place,
            dir,
        };
        self.rename(&mut built, &image, &home, &below);
        built
    }

    /// Where the image is made, and another directory in which the same file can be found.
    fn place(&self, dir: &TempDir) -> (PathBuf, PathBuf, Vec<Box<dyn std::any::Any>>) {
        let at = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).expect("directory");
            path
        };
        let (home, shown) = (at("home"), at("shown"));
        match self.place {
            Place::Directory => (home.clone(), home, Vec::new()),
            Place::BindMount => {
                let bound = Mounted::over(&["--bind", text(&home)], &shown);
                (shown, home, vec![Box::new(bound)])
            }
            Place::Overlay => {
                let (lower, work) = (at("lower"), at("work"));
                let layers = [("lower", &lower), ("upper", &home), ("work", &work)];
                let options = layers.map(|(name, path)| format!("{name}dir={}", text(path)));
                let args = ["-t", "overlay", "overlay", "-o", &options.join(",")];
                let overlay = Mounted::over(&args, &shown);
                (shown, home, vec![Box::new(overlay)])
            }
            Place::Nested => {
                let disk = Loop::new(4 * MIB);
                mkfs(&disk.path);
                let mounted = Mounted::new(&[&disk.path]);
                let home = mounted.dir.path().to_path_buf();
                (home.clone(), home, vec![Box::new(mounted), Box::new(disk)])
            }
        }
    }

    fn usage(&self, device: &str) -> Option<Box<dyn std::any::Any>> {
        match self.usage {
            Usage::SetUp => None,
            Usage::Mounted => {
                mkfs(device);
                Some(Box::new(Mounted::new(&[device])))
            }
            Usage::MountedElsewhere => {
                mkfs(device);
                Some(Box::new(Elsewhere::mounted(device)))
            }
            Usage::Swap => Some(Box::new(Swap::on(device))),
        }
    }

    /// Gives the file other names, and takes those away by which the kernel knows it.
    fn rename(&self, built: &mut Built, image: &Path, home: &Path, below: &Path) {
        let file_name = image.file_name().expect("name");
        let mut names = vec![image.to_path_buf(), below.join(file_name)];
        for number in 0..self.links {
            let link = below.join(format!("link{number}"));
            std::fs::hard_link(below.join(file_name), &link).expect("link");
            names.push(link);
        }
        if self.renamed {
            let moved = home.join("moved");
            std::fs::rename(image, &moved).expect("renamed");
            names.extend([moved, below.join("moved")]);
        } else if self.removed && self.links > 0 {
            std::fs::remove_file(image).expect("removed");
        }
        if self.covered && self.place != Place::Nested {
            built._cover = Some(Mounted::over(&["-t", "tmpfs", "cover"], home));
            std::fs::write(image, vec![1; IMAGE as usize]).expect("decoy");
        }
        names.push(format!("/proc/{}/fd/{}", std::process::id(), built.file.as_raw_fd()).into());
        built.paths.extend(names);
    }
}

impl Built {
    /// Every way to name what shares bytes with the file: the paths, links to them, and nodes of
    /// other names.
    fn names(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        for (number, path) in self.paths.iter().enumerate() {
            if path.to_str().is_some() {
                names.push(path.clone());
            }
            let link = self.dir.path().join(format!("symlink{number}"));
            std::os::unix::fs::symlink(path, &link).expect("link");
            names.push(link);
            let Ok(stat) = rustix::fs::stat(path) else { continue };
            if path.starts_with("/dev") {
                let node = self.dir.path().join(format!("node{number}"));
                let kind = rustix::fs::FileType::BlockDevice;
                rustix::fs::mknodat(rustix::fs::CWD, &node, kind, 0o600.into(), stat.st_rdev)
                    .expect("node");
                names.push(node);
                names.push(format!("/dev/../{}", text(path)).into());
            }
        }
        names
    }

    /// All of the file but the page of swap that the kernel uses, if there is one.
    fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; IMAGE as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("readable");
        if let Some(spare) = self.spare {
            bytes.drain(spare..spare + 4096);
        }
        bytes
    }

    /// Writes wherever the guard lets it; returns the first name by which the file was reached.
    fn attack(&self) -> Option<String> {
        let before = self.content();
        for path in self.names() {
            let permitted = everything(&path);
            for target in [written(&path), Target { trimmed: true, ..target(&path) }] {
                let Ok(targets) = open(vec![target], &permitted) else { continue };
                // A decoy that is nobody's.
                let Ok(fd) = targets[0].open_worker(WRITE) else { continue };
                let _ = rustix::io::pwrite(&fd, &vec![0xff; 1 << 20], 0);
                let _ = rustix::fs::fdatasync(&fd);
                if self.content() != before {
                    return Some(path.display().to_string());
                }
            }
        }
        None
    }
}

/// Every permission that there is for a path.
fn everything(path: &Path) -> Permissions {
    let path = text(path);
    let size = std::fs::File::open(path)
        .ok()
        .and_then(|file| std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).ok());
    let erase = vec![path.to_string(), format!("{path}@{}", size.unwrap_or(0))];
    Permissions { erase, overwrite: vec![path.to_string()] }
}

#[test]
fn nothing_in_use_changes_under_any_name() {
    let Some(_alone) = devices("random stacks") else { return };
    let cases = std::env::var("FATHOM_STACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(STACKS);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let (built, names) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let result = TestRunner::new(config).run(&stacks(), |stack| {
        let here = stack.build();
        let broken = here.attack();
        built.set(built.get() + 1);
        names.set(names.get() + here.paths.len());
        prop_assert!(broken.is_none(), "changed through {broken:?}");
        // The guard does not simply refuse everything.
        let own = here.dir.path().join("own");
        std::fs::write(&own, [0; 8192]).expect("file");
        prop_assert!(open(vec![written(&own)], &everything(&own)).is_ok());
        Ok(())
    });
    let word = format!("stacks: {} built, {} names tried\n", built.get(), names.get());
    std::io::stderr().write_all(word.as_bytes()).expect("standard error");
    result.expect("nothing in use changes");
    assert!(built.get() >= cases);
}
