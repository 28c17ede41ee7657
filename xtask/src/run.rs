//! Runs a program once and measures it from outside.

use crate::Result;
use fathom_model::watch::{Counted, Executed, Unavailable};
use fathom_watch::counters::Counters;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::Timespec;
use std::fs::File;
use std::io::{Read, Seek};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured in addition to elapsed and CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Nothing,
    PeakMemory,
    Instructions,
}

pub struct Finished {
    /// Exit status; `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Elapsed time, from before the start to after the end.
    pub wall: Duration,
    /// User and system time of the process and all its children.
    pub cpu: Duration,
    /// Peak resident memory in bytes; 0 unless probed.
    pub memory_bytes: u64,
    /// Counters of it and its children; default unless probed.
    pub counts: Counted,
}

/// Runs a command in `dir`, which must succeed within this time. An error includes the start of its output.
pub fn run(path: &Path, args: &[String], dir: &Path, probe: Probe) -> Result<Finished> {
    const TIME_LIMIT: Duration = Duration::from_secs(60);
    let done = attempt(path, args, dir, probe, TIME_LIMIT)?;
    if done.code == Some(0) {
        return Ok(done);
    }
    let status = done.code.map_or("ended by a signal".into(), |code| format!("exit status {code}"));
    let words = [done.stderr, done.stdout].concat();
    let words = words.lines().filter(|line| !line.trim().is_empty()).take(3);
    Err(format!("{status}: {}", words.collect::<Vec<_>>().join(" / ")).into())
}

/// Runs a command in `dir` to its end, which may be a failure; kills it after `limit`.
pub fn attempt(
    path: &Path,
    args: &[String],
    dir: &Path,
    probe: Probe,
    limit: Duration,
) -> Result<Finished> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(path);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let counters = match probe {
        Probe::Instructions => Some(Counters::open_with_children().map_err(told)?),
        _ => None,
    };
    counters.iter().try_for_each(Counters::enable).map_err(told)?;
    let cpu_before = children_cpu()?;
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", path.display()))?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    // VmHWM disappears with the process, so it is read often.
    let memory = probe == Probe::PeakMemory;
    let pause = if memory { Duration::from_millis(2) } else { limit };
    let pause = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
    let mut memory_bytes = 0;
    let ended = || poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&pause));
    while retry_on_intr(ended)? == 0 {
        if memory {
            memory_bytes = memory_bytes.max(peak_memory(child.id()).unwrap_or(0));
        }
        if started.elapsed() >= limit {
            child.kill()?;
        }
    }
    let status = child.wait()?;
    let wall = started.elapsed();
    counters.iter().try_for_each(Counters::disable).map_err(told)?;
    Ok(Finished {
        code: status.code(),
        stdout: text_of(&mut stdout)?,
        stderr: text_of(&mut stderr)?,
        wall,
        cpu: children_cpu()?.saturating_sub(cpu_before),
        memory_bytes,
        counts: counters.map(|c| c.read()).transpose().map_err(told)?.unwrap_or_default(),
    })
}

/// A program beside others: killed when dropped, with the whole process group if it leads one.
pub struct Background(Child);

impl Background {
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn();
        let name = command.get_program().display();
        child.map(Self).map_err(|error| format!("{name}: {error}").into())
    }

    /// Programs that keep all CPUs busy, until this one ends in whatever way.
    pub fn on_all_cpus() -> Result<Vec<Self>> {
        let cpus = std::thread::available_parallelism()?.get();
        let busy = ["--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"];
        let start = |_| Self::start(Command::new("setpriv").args(busy));
        (0..cpus).map(start).collect()
    }
}

impl Deref for Background {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Background {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Once it has been waited for, another process may have its ID.
        if matches!(self.0.try_wait(), Ok(None)) {
            // Fails if it leads no group.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Finished {
    /// Instructions in user mode, and in the kernel if counted. Estimates if other programs used the counters part of the
    /// time, `None` if all the time.
    pub fn instructions(&self) -> (Option<f64>, Option<f64>) {
        let of = |executed: Executed| Some(executed.instructions as f64 * executed.scale()?);
        (self.counts.user.and_then(of), self.counts.kernel.and_then(of))
    }
}

fn told(missing: Unavailable) -> String {
    missing.to_string()
}

fn text_of(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn children_cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(us as u64))
}

/// The largest amount of memory that a process has had, in bytes.
pub fn peak_memory(pid: u32) -> Option<u64> {
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
