//! Runs the cases of a boot one after another, and handles their requests to the lab.

use super::case::Case;
use super::cut::{self, Cut};
use super::guest::{self, Guest, Setup};
use super::hang;
use super::schedule::Boot;
use crate::Result;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time beyond a case's limit, at which the guest ends it, after which the guest is considered hung.
const GRACE: Duration = Duration::from_secs(20);

/// Maximum console output printed of a failed case.
const CONSOLE_LINES: usize = 60;

pub struct Places {
    /// What `lab/image.sh` built.
    pub images: PathBuf,
    pub logs: PathBuf,
    pub records: PathBuf,
}

pub struct Outcome {
    pub case: String,
    pub kernel: &'static str,
    pub time: Duration,
    pub boot_time: Duration,
    /// Why each attempt failed, except the last one if the case passed.
    pub faults: Vec<Fault>,
    pub passed: bool,
}

pub struct Fault {
    pub what: String,
    /// Whether the guest is unusable.
    pub lost: bool,
    pub log: PathBuf,
    pub console: PathBuf,
    /// Messages of the guest's kernel; if it hangs, its tasks.
    pub kernel: Vec<String>,
}

/// The last lines of a file after its first `from` bytes; empty if it cannot be read.
pub fn last_lines(path: &Path, count: usize, from: usize) -> Vec<String> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(from..).unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(ToString::to_string).collect()
}

/// Whether a case that failed like this is repeated: once, and once more if a guest was lost. Emulated kernels occasionally
/// crash or hang while they patch their own code, as when events are enabled, also twice in a row.
fn is_repeated(faults: &[Fault]) -> bool {
    faults.len() < 2 + usize::from(faults.iter().any(|fault| fault.lost))
}

/// Runs all cases of a boot. A case that fails is repeated in a fresh guest, which then serves the next cases.
pub fn boot(boot: &Boot, places: &Places, report: &dyn Fn(Outcome)) -> Result<()> {
    let logs = places.logs.join(boot.kernel.name());
    fs::create_dir_all(&logs)?;
    let dir = tempfile::Builder::new().prefix("fathom-lab-").tempdir()?;
    let (dir, console) = (dir.path(), PathBuf::new());
    let mut guests = Guests { boot, places, logs, dir, guest: None, console };
    for case in &boot.cases {
        let (start, boot_time) = (Instant::now(), Cell::default());
        let (again, mut faults) = (format!("{}.again", case.name), Vec::new());
        guests.forget(&again);
        let passed = loop {
            let name = if faults.is_empty() { &case.name } else { &again };
            let Some(fault) = guests.attempt(case, name, &boot_time)? else { break true };
            guests.give_up()?;
            faults.push(fault);
            if !is_repeated(&faults) {
                break false;
            }
        };
        let boot_time = boot_time.get();
        let time = start.elapsed().saturating_sub(boot_time);
        let kernel = boot.kernel.name();
        report(Outcome { case: case.name.clone(), kernel, time, boot_time, faults, passed });
    }
    Ok(())
}

struct Guests<'a> {
    boot: &'a Boot,
    places: &'a Places,
    logs: PathBuf,
    dir: &'a Path,
    guest: Option<Guest>,
    console: PathBuf,
}

impl Guests<'_> {
    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.logs.join(format!("{name}.{kind}"))
    }

    fn forget(&self, name: &str) {
        ["log", "console"].iter().for_each(|kind| drop(fs::remove_file(self.file(name, kind))));
    }

    /// Runs a case; why it failed, if it did. Its output goes to a file with this name.
    fn attempt(
        &mut self,
        case: &Case,
        name: &str,
        boot_time: &Cell<Duration>,
    ) -> Result<Option<Fault>> {
        if self.guest.is_none() {
            self.console = self.file(name, "console");
            drop(fs::remove_file(&self.console));
        }
        let setup = Setup {
            images: &self.places.images,
            kernel: self.boot.kernel,
            machine: &self.boot.machine,
            cmdline: &self.boot.cmdline,
            peers: &case.peers,
            number: 0,
            logged: case.own_boot,
            dir: self.dir.to_path_buf(),
            console: self.console.clone(),
        };
        let log = self.file(name, "log");
        let from = fs::metadata(&self.console).map_or(0, |metadata| metadata.len() as usize);
        let run = Run {
            case,
            setup: &setup,
            log: File::create(&log)?,
            kept: SavedFiles::new(self.places, self.boot.kernel.name(), case),
            boot_time,
        };
        let (what, lost, tasks) = match run.finish(&mut self.guest) {
            Ok(None) => return Ok(None),
            Ok(Some(what)) => (what, false, None),
            Err(error) => {
                let (what, tasks) = self.question(&error.to_string());
                (what, true, tasks)
            }
        };
        let kernel = tasks.unwrap_or_else(|| last_lines(&self.console, CONSOLE_LINES, from));
        Ok(Some(Fault { what, lost, log, console: self.console.clone(), kernel }))
    }

    /// Describes a guest that did not finish, with its kernel's tasks.
    fn question(&mut self, error: &str) -> (String, Option<Vec<String>>) {
        let Some(guest) = &mut self.guest else { return (error.into(), None) };
        if let Some(status) = guest.ended() {
            return (format!("{error}: QEMU, {status}"), None);
        }
        match hang::question(guest, &self.console) {
            // The guest kills all of a case that exceeds its limit.
            Ok(Some(tasks)) => (format!("{error}, and its kernel cannot end it"), Some(tasks)),
            Ok(None) => (format!("{error}, and its kernel does not answer sysrq"), None),
            Err(why) => (format!("{error}, and it cannot be queried for the reason: {why}"), None),
        }
    }

    /// The next case gets a new guest with new disks.
    fn give_up(&mut self) -> Result<()> {
        self.guest = None;
        guest::remove_disks(self.dir, self.boot.machine.disk_mib.len())
    }
}

struct Run<'a> {
    case: &'a Case,
    setup: &'a Setup<'a>,
    log: File,
    kept: SavedFiles,
    boot_time: &'a Cell<Duration>,
}

enum Next {
    /// The case has ended, with the reason if it failed.
    End(Option<String>),
    PowerCut(Cut),
}

impl Run<'_> {
    /// Why the case failed, if it did. An error means that the guest is unusable.
    fn finish(mut self, slot: &mut Option<Guest>) -> Result<Option<String>> {
        let mut known = Vec::new();
        for stage in 0.. {
            let guest = match slot {
                Some(guest) => guest,
                None => {
                    // Emulated kernels sometimes crash in their first seconds, while they patch
                    // themselves. That is unrelated to fathom, so they are repeated.
                    let booted = Guest::boot(self.setup).or_else(|error| {
                        writeln!(self.log, "-- {error}; booting once more --")?;
                        Guest::boot(self.setup)
                    });
                    let guest = slot.insert(booted?);
                    self.boot_time.set(self.boot_time.get() + guest.boot_time);
                    guest
                }
            };
            for line in &known {
                guest.say(&format!("known {line}"))?;
            }
            let Case { name, limit_s, modules, .. } = self.case;
            guest.say(&format!("case {name} {stage} {limit_s} {}", modules.join(" ")))?;
            match self.listen(guest, &mut known)? {
                Next::End(fault) => return Ok(fault),
                Next::PowerCut(cut) => {
                    let dir = &self.setup.dir;
                    let lengths = cut::lengths(dir, self.setup.machine.disk_mib.len())?;
                    // Fills the gaps of what was in flight; QEMU also flushes then, beyond these lengths.
                    guest.pause()?;
                    *slot = None;
                    cut::take_back(dir, &lengths, &cut)?;
                }
            }
        }
        Ok(None)
    }

    fn listen(&mut self, guest: &mut Guest, known: &mut Vec<String>) -> Result<Next> {
        let limit = Duration::from_secs(self.case.limit_s);
        let deadline = Instant::now() + limit + GRACE;
        while let Some(line) = guest.line(deadline)? {
            let (what, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match what {
                "out" => writeln!(self.log, "{rest}")?,
                "remember" => known.push(rest.to_string()),
                "keep" => self.kept.text.push_str(rest),
                "kept" => {
                    if let Err(error) = self.kept.store() {
                        return Ok(Next::End(Some(format!("cannot keep what it gives: {error}"))));
                    }
                }
                "host" if rest.starts_with("powercut") && self.case.own_boot => {
                    writeln!(self.log, "-- {rest} --")?;
                    return Ok(Next::PowerCut(Cut::parse(&rest["powercut".len()..])?));
                }
                "host" => {
                    let answer = self.host(guest, rest);
                    guest.say(&answer.map_or_else(
                        |error| format!("no: {error}"),
                        |text| format!("ok {text}"),
                    ))?;
                }
                "end" => return Ok(Next::End(fault(rest, limit))),
                _ => writeln!(self.log, "?? {line}")?,
            }
        }
        Err(format!("hangs: no end within {} s", limit.as_secs()).into())
    }

    /// Performs a request that only the host can, and returns the reply.
    fn host(&self, guest: &mut Guest, action: &str) -> Result<String> {
        let Some((action, disk)) = action.split_once(' ') else {
            return Err(
                "valid requests are powercut, sum DISK, device_del DISK and device_add DISK".into(),
            );
        };
        let index = disk.strip_prefix("nvme").and_then(|index| index.parse().ok());
        let there = self.setup.machine.lba_bytes.len();
        let index =
            index.filter(|index| *index < there).ok_or_else(|| format!("no disk {disk}"))?;
        match action {
            "sum" => {
                let path = guest::disk_path(&self.setup.dir, index);
                // A CRC detects accidental changes in a tenth of the time of stronger checksums.
                let sum = pipe(&mut Command::new("cksum"), File::open(path)?, &self.setup.dir)?;
                Ok(String::from_utf8_lossy(&sum)
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .into())
            }
            _ if !self.case.own_boot => {
                Err("the machine is shared; the case needs `boot: own`".into())
            }
            "device_del" => guest.remove_disk(index).map(|()| String::new()),
            "device_add" => guest.add_disk(index, self.setup.machine).map(|()| String::new()),
            _ => Err(format!("no action {action}").into()),
        }
    }
}

fn fault(status: &str, limit: Duration) -> Option<String> {
    match status {
        "0" => None,
        "137" => Some(format!("killed, as after its limit of {} s", limit.as_secs())),
        status => Some(format!("exit status {status}")),
    }
}

struct SavedFiles {
    dir: PathBuf,
    text: String,
}

impl SavedFiles {
    fn new(places: &Places, kernel: &str, case: &Case) -> SavedFiles {
        let dir = places.records.join(kernel).join(&case.name);
        drop(fs::remove_dir_all(&dir));
        SavedFiles { dir, text: String::new() }
    }

    fn store(&mut self) -> Result<()> {
        fs::create_dir_all(&self.dir)?;
        let archive =
            pipe(Command::new("base64").arg("-d"), temporary(self.text.as_bytes())?, &self.dir)?;
        pipe(Command::new("tar").args(["-xf", "-"]), temporary(&archive)?, &self.dir)?;
        self.text.clear();
        Ok(())
    }
}

fn temporary(content: &[u8]) -> Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(content)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

fn pipe(command: &mut Command, input: File, dir: &Path) -> Result<Vec<u8>> {
    let output = command.current_dir(dir).stdin(input).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{:?} failed on what the case gave it", command.get_program()).into());
    }
    Ok(output.stdout)
}
