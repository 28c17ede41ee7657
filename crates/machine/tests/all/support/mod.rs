//! Devices and mounts that tests make, and release themselves also when they fail.
#![allow(dead_code)]

pub mod images;

use fathom_machine::guard::{self, GuardError, OpenTarget, Permissions};
use fathom_machine::{Roots, guard::WorkerOpen};
use fathom_model::Plan;
pub use fathom_model::plan::Target;
use fathom_model::plan::{Fallocate, SyncIo};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tests that make devices run one at a time, and only as root: to the guard of another test, here or in another process
/// of the machine, their files may be in use.
pub fn devices(test: &str) -> Option<impl Sized + use<>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if !is_root() {
        // Not eprintln, which the test harness hides where a test passes.
        let word = format!("skipped: {test} makes block devices or mounts, which needs root\n");
        std::io::stderr().write_all(word.as_bytes()).expect("standard error");
        return None;
    }
    let here = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let anywhere = File::open("/dev/loop-control").ok();
    anywhere.iter().for_each(|file| file.lock().expect("lock"));
    Some((here, anywhere))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A directory on the disk: a tmpfs may not know extended attributes.
pub fn dir() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory")
}

/// Runs a program and returns what it prints.
pub fn run<A: AsRef<OsStr> + std::fmt::Debug>(program: &str, args: &[A]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| {
        panic!("cannot run {program} ({error}): install Debian's {}", package(program))
    });
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?} failed: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn package(program: &str) -> &'static str {
    match program {
        "mkfs.ext4" | "chattr" => "e2fsprogs",
        "mkfs.xfs" => "xfsprogs",
        "mount" | "umount" | "losetup" | "swapon" | "swapoff" => "mount",
        _ => "util-linux",
    }
}

/// A loop device on an image of its own.
pub struct Loop {
    pub path: String,
    pub image: PathBuf,
    partitions: usize,
    _dir: Option<TempDir>,
}

impl Loop {
    /// A blank device of this size.
    pub fn new(size: u64) -> Self {
        let dir = dir();
        let image = dir.path().join("image");
        std::fs::write(&image, vec![0; usize::try_from(size).expect("size")]).expect("image");
        let mut device = Self::on(&image, &[]);
        device._dir = Some(dir);
        device
    }

    /// A device on this file or device.
    pub fn on(image: &Path, options: &[&str]) -> Self {
        let mut args: Vec<&OsStr> = ["-f", "--show", "-P"].iter().map(OsStr::new).collect();
        args.extend(options.iter().map(OsStr::new));
        args.push(image.as_os_str());
        let path = run("losetup", &args);
        Self { path, image: image.into(), partitions: 0, _dir: None }
    }

    /// A device on a file in an open directory, by its path below that.
    pub fn within(dir: &OwnedFd, name: &str, options: &[&str]) -> Self {
        let here = format!("/proc/{}/fd/{}", std::process::id(), dir.as_raw_fd());
        let mut losetup = Command::new("losetup");
        losetup.args(["-f", "--show", "-P"]).args(options).arg(name).current_dir(here);
        let output = losetup.output().expect("losetup");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::adopt(String::from_utf8_lossy(&output.stdout).trim())
    }

    /// A device that was set up otherwise, to be released.
    pub fn adopt(path: &str) -> Self {
        Self { path: path.to_string(), image: PathBuf::new(), partitions: 0, _dir: None }
    }

    /// Adds a partition of 8 MiB, as the kernel may know no partition tables.
    pub fn partition(&mut self) -> String {
        self.add_partition(2048 + self.partitions as u64 * 16384, 16384)
    }

    /// Adds a partition of half of the device.
    pub fn half(&mut self) -> String {
        let sectors: u64 = run("blockdev", &["--getsz", &self.path]).parse().expect("size");
        self.add_partition(8, sectors / 2)
    }

    fn add_partition(&mut self, start: u64, sectors: u64) -> String {
        self.partitions += 1;
        let (number, start) = (self.partitions.to_string(), start.to_string());
        run("addpart", &[&self.path, &number, &start, &sectors.to_string()]);
        let path = format!("{}p{number}", self.path);
        wait(|| Path::new(&path).exists(), &path);
        path
    }

    pub fn name(&self) -> &str {
        self.path.strip_prefix("/dev/").expect("below /dev")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        for number in 1..=self.partitions {
            let _ = Command::new("delpart").args([&self.path, &number.to_string()]).output();
        }
        // Detaching is lazy: it is done when the last one closes the device.
        let backing = format!("/sys/block/{}/loop/backing_file", self.name());
        release(&self.path, &["losetup", "-d", &self.path], || !Path::new(&backing).exists());
    }
}

/// Releases what a test made, and waits until it is gone: another test could take it for someone's.
fn release(what: &str, command: &[&str], is_gone: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    let (mut released, mut said) = (false, String::new());
    while !is_gone() {
        if !released {
            let output = Command::new(command[0]).args(&command[1..]).output().expect(command[0]);
            released = output.status.success();
            said = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        if Instant::now() > until && !std::thread::panicking() {
            panic!("{what} is not released by {command:?}: {said}{:#?}", holders(what));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Which processes have a device or directory open or mounted.
fn holders(what: &str) -> Vec<String> {
    let device = rustix::fs::stat(what).map_or(0, |stat| stat.st_rdev);
    let number = format!(" {}:{} ", rustix::fs::major(device), rustix::fs::minor(device));
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let mut all = Vec::new();
    for process in processes.filter(|path| path.join("comm").exists()) {
        let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
        let who = format!("{} {}", process.display(), read("comm").trim());
        let mounts = read("mountinfo");
        let is_it = |line: &&str| line.contains(what) || line.contains(&number);
        all.extend(mounts.lines().filter(is_it).map(|line| format!("{who} mounts {line}")));
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        let open = files.filter(|file| file.starts_with(what));
        all.extend(open.map(|file| format!("{who} has {} open", file.display())));
    }
    all
}

/// A directory below `top` whose path is longer than a page, so that the kernel cannot show it.
pub fn deep_directory(top: &Path) -> OwnedFd {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(top, flags, Mode::empty()).expect("directory");
    let name = "d".repeat(200);
    for _ in 0..22 {
        rustix::fs::mkdirat(&dir, &name, Mode::RWXU).expect("directory");
        dir = rustix::fs::openat(&dir, &name, flags, Mode::empty()).expect("directory");
    }
    dir
}

/// A zram device.
pub struct Zram {
    pub path: String,
    number: String,
}

impl Zram {
    pub fn new(size: u64) -> Self {
        let control = "/sys/class/zram-control/hot_add";
        let number = std::fs::read_to_string(control)
            .unwrap_or_else(|error| panic!("{control}: {error}: load the module zram"));
        let number = number.trim().to_string();
        let zram = Self { path: format!("/dev/zram{number}"), number };
        let disksize = format!("/sys/block/zram{}/disksize", zram.number);
        std::fs::write(disksize, size.to_string()).expect("size of zram");
        wait(|| Path::new(&zram.path).exists(), &zram.path);
        zram
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let reset = format!("/sys/block/zram{}/reset", self.number);
        let remove =
            format!("echo 1 >{reset} && echo {} >/sys/class/zram-control/hot_remove", self.number);
        let dir = format!("/sys/block/zram{}", self.number);
        release(&self.path, &["sh", "-c", &remove], || !Path::new(&dir).exists());
    }
}

/// Something mounted on a directory of its own.
pub struct Mounted {
    pub dir: TempDir,
}

/// Something mounted on a directory that is there.
pub struct Cover(pub PathBuf);

impl Drop for Cover {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// Not lazily: what the mount is on would stay in use.
fn unmount(dir: &Path) {
    let dir = text(dir);
    let mounts = || {
        // The image of a mount may have a name that is not UTF-8.
        let mounts = std::fs::read("/proc/self/mountinfo").expect("mounts");
        String::from_utf8_lossy(&mounts)
            .lines()
            .filter(|line| line.split(' ').nth(4) == Some(dir))
            .count()
    };
    // Another mount may be below it.
    let before = mounts();
    release(dir, &["umount", dir], || mounts() < before.max(1));
}

impl Mounted {
    pub fn new(args: &[&str]) -> Self {
        let dir = dir();
        let at = dir.path().to_str().expect("UTF-8");
        run("mount", &[args, &[at]].concat());
        let mounted = Self { dir };
        // What mounting itself writes is not to come between two checksums.
        run("sync", &["-f", mounted.dir.path().to_str().expect("UTF-8")]);
        mounted
    }

    pub fn over(args: &[&str], dir: &Path) -> Cover {
        run("mount", &[args, &[text(dir)]].concat());
        Cover(dir.to_path_buf())
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(self.dir.path());
    }
}

/// Swap space in use.
pub struct Swap(pub String);

impl Swap {
    /// In the page that begins with this, and in no other, the kernel may put what it swaps out.
    pub const SPARE: &[u8] = b"fathom test: the one page of swap that the kernel may use";

    /// One page long, whatever the size of the device: memory pressure must not look like damage.
    pub fn on(path: &str) -> Self {
        run("mkswap", &[path]);
        let device = File::options().write(true).open(path).expect("swap");
        // The number of the last page, in linux/swap.h after 1,024 bytes and the version.
        device.write_all_at(&1_u32.to_ne_bytes(), 1028).expect("header");
        device.write_all_at(Self::SPARE, 4096).expect("spare page");
        device.sync_all().expect("on the device");
        run("swapon", &[path]);
        Self(path.to_string())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
    }
}

/// A device mounted in a mount namespace of its own.
pub struct Elsewhere {
    child: Child,
    _dir: TempDir,
}

impl Elsewhere {
    pub fn mounted(device: &str) -> Self {
        // Mounted over a directory of the system, which this namespace alone sees.
        Self::run("mount \"$1\" /mnt && sync -f /mnt", &[device])
    }

    /// Runs a shell script in a new mount namespace, which stays as long as this.
    pub fn run(script: &str, args: &[&str]) -> Self {
        let dir = dir();
        let ready = dir.path().join("ready");
        let script = format!("{script} && touch \"$0\" && exec sleep 60");
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .arg(&ready)
            .args(args)
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare, of Debian's util-linux");
        let here = Self { child, _dir: dir };
        wait(|| ready.exists(), "the other namespace");
        here
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait(done: impl Fn() -> bool, what: &str) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes an ext4 that writes nothing by itself once it is mounted.
pub fn mkfs(device: &str) {
    let options = ["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0"];
    run("mkfs.ext4", &[&options[..], &[device]].concat());
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn checksum(path: impl AsRef<Path>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(path).expect("readable"));
    hasher.finish()
}

pub fn target(path: impl AsRef<Path>) -> Target {
    Target {
        path: path.as_ref().to_str().expect("UTF-8").to_string(),
        within: None,
        create_size: None,
        fallocate: Fallocate::Native,
        fill: false,
        create_on_open: false,
        unlink: false,
        invalidate: false,
        written: false,
        trimmed: false,
    }
}

pub fn written(path: impl AsRef<Path>) -> Target {
    Target { written: true, ..target(path) }
}

/// Opens the targets of a run that goes on to begin.
pub fn open(
    targets: Vec<Target>,
    permissions: &Permissions,
) -> Result<Vec<OpenTarget>, GuardError> {
    let targets = prepare(targets, permissions)?;
    targets.iter().for_each(OpenTarget::keep);
    Ok(targets)
}

/// Opens the targets of a run that has not begun.
pub fn prepare(
    targets: Vec<Target>,
    permissions: &Permissions,
) -> Result<Vec<OpenTarget>, GuardError> {
    let plan = Plan { targets, ..Plan::default() };
    guard::open_all(&Roots::default(), &plan, permissions, &|| false)
}

/// A directory with one file of someone else's, 1 MiB of sevens.
pub fn theirs() -> (TempDir, PathBuf) {
    let dir = dir();
    let path = dir.path().join("theirs");
    std::fs::write(&path, vec![7; 1 << 20]).expect("file");
    (dir, path)
}

/// A file that is made if it is missing or too short.
pub fn made(path: impl AsRef<Path>, size: u64) -> Target {
    Target { create_size: Some(size), ..target(path) }
}

/// Why targets are refused.
pub fn error(targets: Vec<Target>) -> String {
    open(targets, &none()).err().expect("refused").to_string()
}

pub fn none() -> Permissions {
    Permissions::default()
}

pub fn erase(flags: &[&str]) -> Permissions {
    Permissions { erase: flags.iter().map(ToString::to_string).collect(), ..none() }
}

pub fn overwrite(paths: &[&str]) -> Permissions {
    Permissions { overwrite: paths.iter().map(ToString::to_string).collect(), ..none() }
}

/// That a target is refused for writing and for trimming, and that nothing of `content` changes.
/// The result is the refusal in words.
pub fn refused(
    path: impl AsRef<Path>,
    permissions: &Permissions,
    content: impl AsRef<Path>,
) -> String {
    let before = checksum(&content);
    let path = path.as_ref();
    let trimmed = Target { trimmed: true, ..target(path) };
    let trim = open(vec![trimmed], permissions).err().expect("trimming is refused");
    let write = open(vec![written(path)], permissions).err().expect("writing is refused");
    assert_eq!(trim.to_string(), write.to_string());
    assert_eq!(
        checksum(&content),
        before,
        "the contents of {} changed",
        content.as_ref().display()
    );
    write.to_string()
}

/// Repeats `act` in another thread while `body` runs.
pub fn meanwhile(act: impl Fn() + Sync, body: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                act();
            }
        });
        body();
        done.store(true, Ordering::Relaxed);
    });
}

/// Writes as a worker does.
pub fn work(target: &OpenTarget) {
    let writing = target.writing();
    writing.begin();
    let fd = target.open_worker(WRITE).expect("to write");
    rustix::io::pwrite(&fd, &[1; 4096], 0).expect("written");
    writing.end();
}

pub const READ: WorkerOpen = WorkerOpen { direct: false, write: false, sync_io: SyncIo::None };
pub const WRITE: WorkerOpen = WorkerOpen { direct: false, write: true, sync_io: SyncIo::None };

#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not said in: {text}");
    }
}
