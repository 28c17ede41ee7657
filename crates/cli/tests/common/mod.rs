//! A working directory for fathom, and its output as users see it.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
pub const MIB: usize = 1 << 20;

/// Time after which a program counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Output and status of a program that has ended.
pub struct Answer {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Answer {
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Standard output as the one JSON document that it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e} in standard output: {}{}", self.stdout, self.stderr))
    }
}

/// A program that runs.
pub struct Running {
    child: Child,
    out: TempDir,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let out = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = |name: &str| File::create(out.path().join(name)).unwrap();
        let child = command.stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
        Self { child, out }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Standard output or standard error so far.
    pub fn so_far(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.out.path().join(name)).unwrap()).into_owned()
    }

    /// Where its threads sleep.
    fn tasks(&self) -> String {
        let tasks = format!("/proc/{}/task", self.id());
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let of = |dir: PathBuf| {
            ["comm", "wchan", "syscall", "stack"].map(|name| read(dir.join(name))).join(" ")
        };
        let entries = fs::read_dir(tasks).into_iter().flatten().flatten();
        entries.map(|entry| of(entry.path()) + "\n").collect()
    }

    pub fn wait(mut self) -> Answer {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it hangs; {}{}", self.tasks(), self.so_far("stderr"));
            thread::sleep(Duration::from_millis(2));
        };
        Answer {
            code: status.code(),
            signal: status.signal(),
            stdout: self.so_far("stdout"),
            stderr: self.so_far("stderr"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A working directory, with a home next to it.
pub struct Place {
    dir: TempDir,
    home: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let dir = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { dir: dir(), home: dir() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    /// A file of data that fathom did not create.
    pub fn data(&self, name: &str, len: usize) {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + n / 4096) as u8).collect();
        self.write(name, bytes);
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// A command in this directory that finds nothing of the user's.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("HOME", self.home.path()).env_remove("XDG_STATE_HOME").env("NO_COLOR", "1");
        command
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(FATHOM, args))
    }

    pub fn ask(&self, args: &[&str]) -> Answer {
        self.start(args).wait()
    }

    /// Asserts that the first screen of a terminal of 80 × 24 holds all of `parts`, wherever its lines are wrapped.
    #[track_caller]
    pub fn first_screen(&self, args: &[&str], parts: &[&str]) {
        let mut command = self.command(FATHOM, args);
        let page = Running::start(command.env("COLUMNS", "80")).wait().stdout;
        let wide = page.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{page}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let screen = page.lines().take(24).collect::<Vec<_>>().join("\n");
        for part in parts {
            assert!(
                words(&screen).contains(part),
                "{part:?} is not on the first screen of: {page}"
            );
        }
    }

    /// `fathom run` without a record and without a live line.
    pub fn run(&self, args: &[&str]) -> Answer {
        self.ask(&[&["run", "--no-record", "--eta=never"], args].concat())
    }

    /// `fathom run` with this as standard input.
    pub fn run_stdin(&self, input: &str, args: &[&str]) -> Answer {
        self.write("stdin", input);
        let args = [&["run", "--no-record", "--eta=never"], args].concat();
        let mut command = self.command(FATHOM, &args);
        Running::start(command.stdin(File::open(self.path("stdin")).unwrap())).wait()
    }

    /// Every path with what is there.
    pub fn look(&self) -> BTreeMap<PathBuf, (u64, u64)> {
        let mut found = BTreeMap::new();
        let mut rest = vec![self.dir.path().to_path_buf(), self.home.path().to_path_buf()];
        while let Some(path) = rest.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let mut contents = 0;
            if meta.is_dir() {
                rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if meta.is_file() && meta.len() < 64 * MIB as u64 {
                contents = checksum(&path);
            }
            let len = if meta.is_file() { meta.len() } else { 0 };
            found.insert(path, (len, contents));
        }
        found
    }

    /// Asserts that this is refused with one error that contains all of `parts`, and changes nothing.
    #[track_caller]
    pub fn refuses(&self, args: &[&str], parts: &[&str]) {
        let before = self.look();
        let answer = self.run(args);
        assert_eq!(answer.code, Some(1), "{args:?}: {}{}", answer.stdout, answer.stderr);
        assert_eq!(answer.stdout, "", "{args:?}");
        assert_one_error(&answer.stderr, parts);
        assert_eq!(self.look(), before, "{args:?} changed something");
    }
}

/// Asserts that standard error is one line that contains all of `parts`.
#[track_caller]
pub fn assert_one_error(stderr: &str, parts: &[&str]) {
    // Another test's fathom may have been killed at any time.
    let lines =
        stderr.lines().filter(|line| !line.starts_with("fathom: settings left by a killed"));
    assert!(stderr.starts_with("fathom: ") && lines.count() == 1, "{stderr}");
    says(stderr, parts);
}

#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not said in: {text}");
    }
}

/// The lines below "Limited by:", each as one.
#[track_caller]
pub fn block(page: &str) -> String {
    let (_, rest) =
        page.split_once("Limited by:\n").unwrap_or_else(|| panic!("no block in: {page}"));
    let block = rest.split("\n\n").next().unwrap_or_default();
    let joined = |line: &str| match line.starts_with("      ") {
        true => format!(" {}", line.trim_start()),
        false => format!("\n{line}"),
    };
    block.lines().map(joined).collect::<String>() + "\n"
}

pub fn checksum(path: impl AsRef<Path>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(path).unwrap());
    hasher.finish()
}

#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Without root, the test is skipped.
pub fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: {test} needs root");
    }
    is_root
}

/// Tests that make devices, mount them, see others' mounts, or change settings, run one at a time on the machine, and only as root.
pub fn as_root(test: &str) -> Option<impl Sized + use<>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if !is_root(test) {
        return None;
    }
    let here = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let anywhere = File::open("/dev/loop-control").ok();
    anywhere.iter().for_each(|file| file.lock().unwrap());
    Some((here, anywhere))
}

/// Releases what a test made, and waits until it is gone: what it is on would stay in use.
fn release(command: &[&str], is_gone: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    let mut released = false;
    while !is_gone() {
        let mut command_line = Command::new(command[0]);
        released = released || command_line.args(&command[1..]).output().unwrap().status.success();
        assert!(Instant::now() < end || thread::panicking(), "{command:?} does not release it");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A mounted directory, unmounted when dropped.
pub struct Mounted(pub PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let at = self.0.to_str().unwrap();
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
        release(&["umount", at], || !mounts().contains(&format!(" {at} ")));
    }
}

/// Runs a tool of the system and returns what it prints.
pub fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?} failed: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// A small file system in memory, mounted on a directory of the place.
pub struct Tmpfs(Mounted);

impl Tmpfs {
    pub fn new(place: &Place, name: &str, mib: usize) -> Self {
        let at = place.path(name);
        fs::create_dir(&at).unwrap();
        let options = format!("size={mib}m");
        tool("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", at.to_str().unwrap()]);
        Self(Mounted(at))
    }
}

/// A cgroup of version 1 with one limit.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// `None` where there is no such hierarchy.
    pub fn new(controller: &str, file: &str, limit: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fathom-test-{}-{number}", std::process::id());
        let dir = Path::new("/sys/fs/cgroup").join(controller).join(name);
        if let Err(error) = fs::create_dir(&dir) {
            println!("skipped: {}: {error}", dir.display());
            return None;
        }
        let this = Self(dir);
        fs::write(this.0.join(file), limit).unwrap();
        Some(this)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What a shell does first to be in it.
    pub fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs; ", self.0.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A child of a killed process may be in it for a moment longer.
        let end = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A loop device on a file.
pub struct Loop(pub String, Vec<(PathBuf, String)>);

impl Loop {
    pub fn on(file: &Path) -> Self {
        Self::with_blocks(file, 512)
    }

    /// One whose logical blocks have so many bytes.
    pub fn with_blocks(file: &Path, bytes: u32) -> Self {
        let name =
            tool("losetup", &["-b", &bytes.to_string(), "-f", "--show", file.to_str().unwrap()]);
        let mut new = Self(name, Vec::new());
        let files = ["scheduler", "nr_requests", "max_sectors_kb", "wbt_lat_usec"];
        for path in files.map(|file| new.queue().join(file)) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            // Of the schedulers, the one in use is in brackets.
            let value = text.split(['[', ']']).nth(1).unwrap_or(&text).to_string();
            new.1.push((path, value));
        }
        new
    }

    /// The device's directory of settings.
    pub fn queue(&self) -> PathBuf {
        Path::new("/sys/block").join(self.0.trim_start_matches("/dev/")).join("queue")
    }
}

/// A loop device keeps the settings of its previous user.
impl Drop for Loop {
    fn drop(&mut self) {
        self.1.iter().for_each(|(path, value)| drop(fs::write(path, value)));
        let backing = self.queue().with_file_name("loop/backing_file");
        release(&["losetup", "-d", &self.0], || !backing.exists());
    }
}

const ZRAM: &str = "/sys/class/zram-control";

/// A compressed device in memory, which takes I/Os without making requests of them.
pub struct Zram(String);

impl Zram {
    /// The reason where there are none.
    pub fn new(size: &str) -> Result<Self, String> {
        let number = fs::read_to_string(format!("{ZRAM}/hot_add"));
        let zram = Self(number.map_err(|e| format!("{ZRAM}/hot_add: {e}"))?.trim().into());
        fs::write(format!("/sys/block/zram{}/disksize", zram.0), size).unwrap();
        Ok(zram)
    }

    pub fn device(&self) -> String {
        format!("/dev/zram{}", self.0)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write(format!("/sys/block/zram{}/reset", self.0), "1");
        let _ = fs::write(format!("{ZRAM}/hot_remove"), &self.0);
    }
}

/// What an HTML page would fetch, of which there is nothing. The name of SVG's elements is no address.
pub fn fetched(page: &str) -> Option<&'static str> {
    let page = page.replace("\"http://www.w3.org/2000/svg\"", "");
    ["http:", "https:", "src=", "@import", "url("].into_iter().find(|part| page.contains(part))
}
