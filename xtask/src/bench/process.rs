//! Runs one tool once and measures it from outside.

use crate::Result;
use fathom_model::watch::{Counted, Executed, Missing};
use fathom_watch::counters::Counters;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// What is measured in addition to elapsed and CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Nothing,
    PeakMemory,
    Instructions,
}

/// A successful run.
pub struct Finished {
    pub stdout: String,
    /// Elapsed time, from before the start to after the end.
    pub wall: Duration,
    /// User and system time of the process and all its children.
    pub cpu: Duration,
    /// Peak resident memory in bytes; 0 unless probed.
    pub memory_bytes: u64,
    /// Counters of it and its children; default unless probed.
    pub counts: Counted,
}

/// A run that takes longer than this is killed and counts as failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Runs a command in `dir` to its end. An error includes the end of its output.
pub fn run(path: &Path, args: &[String], dir: &Path, probe: Probe) -> Result<Finished> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(path);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);

    let watch = Watch::start(probe == Probe::PeakMemory)?;
    // After the monitoring thread was created, which must not be counted, and before the child, which must.
    let counters = match probe {
        Probe::Instructions => Some(Counters::open_with_children().map_err(told)?),
        _ => None,
    };
    counters.iter().try_for_each(Counters::enable).map_err(told)?;
    let cpu_before = children_cpu()?;
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", path.display()))?;
    watch.follow(child.id())?;
    let status = child.wait()?;
    let wall = started.elapsed();
    let memory_bytes = watch.end();
    counters.iter().try_for_each(Counters::disable).map_err(told)?;
    if !status.success() {
        let words = [text_of(&mut stderr)?, text_of(&mut stdout)?].concat();
        let words = words.lines().filter(|line| !line.trim().is_empty()).take(3);
        return Err(format!("{status}: {}", words.collect::<Vec<_>>().join(" / ")).into());
    }
    Ok(Finished {
        stdout: text_of(&mut stdout)?,
        wall,
        cpu: children_cpu()?.saturating_sub(cpu_before),
        memory_bytes,
        counts: counters.map(|c| c.read()).transpose().map_err(told)?.unwrap_or_default(),
    })
}

impl Finished {
    /// Instructions in user mode, and in the kernel if counted. Estimates if other programs used the counters part of the
    /// time, `None` if all the time.
    pub fn instructions(&self) -> (Option<f64>, Option<f64>) {
        let of = |executed: Executed| Some(executed.instructions as f64 * executed.scale()?);
        (self.counts.user.and_then(of), self.counts.kernel.and_then(of))
    }
}

fn told(missing: Missing) -> String {
    missing.to_string()
}

/// The output of a short command, such as `--version`.
pub fn output_of(path: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(path)
        .args(args)
        .output()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn text_of(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// CPU time of all children that have ended: cutime and cstime of /proc/self/stat.
fn children_cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ticks: Vec<u64> = stat
        .rsplit_once(')')
        .map_or("", |(_, fields)| fields)
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second() as u32;
    Ok(tick * ticks.iter().sum::<u64>() as u32)
}

/// A thread that kills a hanging run and, if requested, monitors its memory.
struct Watch {
    tell: Sender<(OwnedFd, u32)>,
    thread: std::thread::JoinHandle<u64>,
}

impl Watch {
    fn start(memory: bool) -> Result<Self> {
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().spawn(move || watch(&told, memory))?;
        Ok(Self { tell, thread })
    }

    fn follow(&self, pid: u32) -> Result<()> {
        let handle = Pid::from_raw(pid as i32).ok_or("a child without a number")?;
        let pidfd = pidfd_open(handle, PidfdFlags::empty())?;
        self.tell.send((pidfd, pid)).map_err(|_| "the watching thread ended early".into())
    }

    /// Ends the thread; returns peak resident memory in bytes.
    fn end(self) -> u64 {
        drop(self.tell);
        self.thread.join().unwrap_or(0)
    }
}

fn watch(told: &Receiver<(OwnedFd, u32)>, memory: bool) -> u64 {
    let Ok((pidfd, pid)) = told.recv() else { return 0 };
    let deadline = Instant::now() + TIME_LIMIT;
    // VmHWM disappears with the process, so it is read often.
    let pause = if memory { Duration::from_millis(2) } else { TIME_LIMIT };
    let mut peak = 0;
    while matches!(told.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
        if memory {
            peak = peak.max(peak_memory(pid).unwrap_or(0));
        }
        if Instant::now() >= deadline {
            // An error means that it has just ended.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
    peak
}

/// VmHWM of a process, in bytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, probe: Probe) -> Result<Finished> {
        run(Path::new("sh"), &["-c".into(), script.into()], Path::new("/"), probe)
    }

    #[test]
    fn output_and_time() {
        let done = shell("echo hello; sleep 0.05", Probe::Nothing).unwrap();
        assert_eq!(done.stdout, "hello\n");
        assert!(done.wall >= Duration::from_millis(50));
    }

    #[test]
    fn processor_time_of_children() {
        // Spins for some 100,000 rounds of the shell at a time until 3 clock ticks are used.
        let script = "while set -- $(cut -d' ' -f14 /proc/$$/stat); [ $1 -lt 3 ]; do \
            i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";
        assert!(shell(script, Probe::Nothing).unwrap().cpu >= Duration::from_millis(20));
    }

    #[test]
    fn peak_memory_of_a_process() {
        let done = shell("sleep 0.1", Probe::PeakMemory).unwrap();
        assert!(done.memory_bytes > 100_000, "{}", done.memory_bytes);
    }

    #[test]
    fn failures_show_the_last_words() {
        let error = shell("echo oh no >&2; exit 3", Probe::Nothing).err().unwrap().to_string();
        assert!(error.contains("3") && error.contains("oh no"), "{error}");
        let error = run(Path::new("/nonexistent"), &[], Path::new("/"), Probe::Nothing)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("/nonexistent"), "{error}");
    }
}
