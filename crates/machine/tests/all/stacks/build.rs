//! Builds the stacks.

use super::sight::Sight;
use crate::support::images::{make_image, mount_image, mounts_images};
use crate::support::{Cover, Elsewhere, Loop, MIB, Mounted, Swap, deep_directory, mkfs, run, text};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub const IMAGE: u64 = 2 * MIB;
/// Behind the signatures of file systems.
const OFFSET: u64 = 64 << 10;
const LIMIT: u64 = MIB;

/// What the file at the bottom is called.
pub const NAMES: [&[u8]; 6] =
    [b"img", b"img ", b"img\n", b"im\\040g", b"img\xff", b"img (deleted)"];

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    Directory,
    BindMount,
    Overlay,
    /// On a file system on a loop device.
    Nested,
}

#[derive(Debug, Clone, Copy)]
pub enum Usage {
    /// Only by what is set up on it: the uppermost device is nobody's.
    SetUp,
    Mounted,
    MountedElsewhere,
    Swap,
    /// The file itself is mounted, without a loop device.
    Image,
}

/// A loop device of the stack.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    /// On a partition of what is below, where that is a device.
    pub on_partition: bool,
    pub offset: bool,
    pub limited: bool,
}

#[derive(Debug, Clone)]
pub struct Stack {
    pub name: usize,
    pub place: Place,
    pub links: usize,
    pub renamed: bool,
    pub removed: bool,
    pub covered: bool,
    /// Whether the kernel knows it by a path that is longer than it can show.
    pub deep: bool,
    pub layers: Vec<Layer>,
    /// Which of the layers is used, from the bottom.
    pub used: usize,
    pub usage: Usage,
    /// From where it is attacked, too.
    pub sight: Sight,
}

/// What was built. The fields are released in their order.
pub struct Built {
    _used: Option<Box<dyn std::any::Any>>,
    _cover: Option<Cover>,
    _loops: Vec<Loop>,
    /// Every path that leads to the file at the bottom, or to a device of the stack that is used.
    pub paths: Vec<PathBuf>,
    /// The file at the bottom, whatever it is called.
    pub file: File,
    /// Where in the file the page of swap is that the kernel may use.
    pub spare: Option<usize>,
    _place: Vec<Box<dyn std::any::Any>>,
    pub dir: TempDir,
}

impl Stack {
    pub fn build(&self) -> Built {
        let dir = crate::support::dir();
        let (home, below, place) = self.place(&dir);
        let image = home.join(OsStr::from_bytes(NAMES[self.name]));
        std::fs::write(&image, vec![0; IMAGE as usize]).expect("image");
        let file = File::options().read(true).write(true).open(&image).expect("image");
        let mut loops: Vec<Loop> = Vec::new();
        let mut paths = Vec::new();
        let deep = self.deep.then(|| deep_link(&image, &home));
        let layers = if self.is_image() { &[][..] } else { &self.layers };
        for layer in layers {
            let lower: PathBuf = match loops.last_mut() {
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
            loops.push(match (&deep, loops.is_empty()) {
                (Some(deep), true) => Loop::within(deep, DEEP_NAME, &options),
                _ => Loop::on(&lower, &options),
            });
        }
        let used = match loops.get(self.used) {
            None => Some(mounted_image(&image, dir.path())),
            Some(device) => self.usage(&device.path),
        };
        // Without file systems that mount images, the uppermost device is nobody's.
        if !matches!(self.usage, Usage::SetUp | Usage::Image) {
            paths.extend(loops.last().map(|top| PathBuf::from(&top.path)));
        }
        let bytes = std::fs::read(&image).expect("image");
        assert_eq!(bytes.len(), IMAGE as usize);
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

    /// Whether the file itself is mounted; overlays may not allow it.
    fn is_image(&self) -> bool {
        matches!(self.usage, Usage::Image) && self.place != Place::Overlay && mounts_images()
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
            Usage::SetUp | Usage::Image => None,
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

/// What the file is called in the deep directory.
const DEEP_NAME: &str = "deep";

/// Links a file into a directory whose path is longer than a page, and returns that directory.
fn deep_link(image: &Path, top: &Path) -> OwnedFd {
    let dir = deep_directory(top);
    let (here, none) = (rustix::fs::CWD, rustix::fs::AtFlags::empty());
    rustix::fs::linkat(here, image, &dir, DEEP_NAME, none).expect("link");
    dir
}

/// Makes an erofs in an existing file of the usual size, and mounts that.
fn mounted_image(image: &Path, dir: &Path) -> Box<dyn std::any::Any> {
    let made = dir.join("erofs");
    assert!(make_image(&made, dir), "mkfs.erofs");
    let mut bytes = std::fs::read(&made).expect("image");
    bytes.resize(IMAGE as usize, 0);
    std::fs::write(image, bytes).expect("image");
    run("sync", &["-f", text(dir)]);
    Box::new(mount_image(image, dir).expect("mounted"))
}
