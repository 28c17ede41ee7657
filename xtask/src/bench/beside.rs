//! Two programs sharing one CPU, at the same time.
//!
//! The scheduler alternates between them every few milliseconds, so that any other load affects both equally: the ratio of
//! their work is reproducible within a percent, although the speed of each varies by tens of percent between runs.

use crate::Result;
use crate::run::Background;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time after which both are running.
const SETTLE: Duration = Duration::from_millis(1500);
/// Time that a program must run in addition to the window.
pub const MARGIN: Duration = Duration::from_secs(4);
/// Attempts to read a ring, which its owner keeps locked most of the time.
const ATTEMPTS: u32 = 1_000_000;

/// A program with its arguments, which drives one ring on one CPU.
pub struct Program {
    pub path: PathBuf,
    pub args: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Against {
    /// I/Os per CPU time, relative to the other program. Only the CPU time of threads that do I/O counts.
    pub ios: f64,
    /// CPU usage of its other threads, such as samplers; 1.0 is one CPU.
    pub others: f64,
}

/// Runs `tool` concurrently with `reference`, both bound to the same CPU.
///
/// Both must run for at least `window` and [`MARGIN`]; waits for both.
pub fn measure(
    tool: &Program,
    reference: &Program,
    dir: &Path,
    window: Duration,
) -> Result<Against> {
    let [mut tool, mut reference] = [tool.start(dir)?, reference.start(dir)?];
    std::thread::sleep(SETTLE);
    let before = [tool.look()?, reference.look()?];
    std::thread::sleep(window);
    let after = [tool.look()?, reference.look()?];
    tool.finish()?;
    reference.finish()?;
    let rate = |i: usize| after[i].per_second_since(&before[i]);
    let others = after[0].others_ns.saturating_sub(before[0].others_ns);
    Ok(Against { ios: rate(0)? / rate(1)?, others: others as f64 / window.as_nanos() as f64 })
}

impl Program {
    fn start(&self, dir: &Path) -> Result<Running> {
        let mut command = Command::new(&self.path);
        command.args(&self.args).current_dir(dir).stdin(Stdio::null());
        let child = Background::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        Ok(Running { name: self.path.display().to_string(), child, ring: None })
    }
}

struct Running {
    name: String,
    child: Background,
    /// The fdinfo of its ring, once found.
    ring: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Completions, modulo 2³².
    completions: u32,
    cpu_ns: u64,
    others_ns: u64,
}

impl Reading {
    /// I/Os completed per second of CPU time.
    fn per_second_since(&self, before: &Reading) -> Result<f64> {
        let ios = self.completions.wrapping_sub(before.completions);
        match self.cpu_ns.checked_sub(before.cpu_ns) {
            Some(ns) if ns > 0 && ios > 0 => Ok(f64::from(ios) * 1e9 / ns as f64),
            _ => Err("a program completed no I/O in the window".into()),
        }
    }
}

impl Running {
    fn look(&mut self) -> Result<Reading> {
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("{} ended too early: {status}", self.name).into());
        }
        let root = PathBuf::from(format!("/proc/{}", self.child.id()));
        if self.ring.is_none() {
            self.ring = Some(ring_of(&root).ok_or_else(|| format!("{} has no ring", self.name))?);
        }
        let ring = self.ring.as_deref().unwrap_or(&root);
        for _ in 0..ATTEMPTS {
            if let Some(completions) = completions(&fs::read_to_string(ring)?) {
                let [cpu_ns, others_ns] = processor_ns(&root)?;
                return Ok(Reading { completions, cpu_ns, others_ns });
            }
        }
        Err(format!("{}: its ring was locked at each of {ATTEMPTS} attempts", self.name).into())
    }

    fn finish(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.name).into()) }
    }
}

fn ring_of(root: &Path) -> Option<PathBuf> {
    let is_ring = |link: &PathBuf| link.to_string_lossy().contains("[io_uring]");
    fs::read_dir(root.join("fd")).ok()?.flatten().find_map(|entry| {
        fs::read_link(entry.path()).ok().filter(is_ring)?;
        Some(root.join("fdinfo").join(entry.file_name()))
    })
}

/// Completions since the ring was created; `None` if it was locked.
fn completions(fdinfo: &str) -> Option<u32> {
    fdinfo.lines().find_map(|line| line.strip_prefix("CqTail:"))?.trim().parse().ok()
}

/// CPU time of the threads that do the I/O, and of the others.
fn processor_ns(root: &Path) -> Result<[u64; 2]> {
    let mut all = [0; 2];
    for task in fs::read_dir(root.join("task"))? {
        let task = task?.path();
        // A thread that has just ended does no I/O.
        let read = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        all[usize::from(!works(read("comm").trim()))] +=
            on_processor(&read("schedstat")).unwrap_or(0);
    }
    Ok(all)
}

/// fathom's workers, t/io_uring's and fio's threads, and the kernel's for their rings.
fn works(comm: &str) -> bool {
    ["worker-", "iou-", "io_uring", "fio"].iter().any(|start| comm.starts_with(start))
}

fn on_processor(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_of_a_ring() {
        assert_eq!(
            completions("pos:\t0\nSqTail:\t7\nCqHead:\t1\nCqTail:\t4294967295\n"),
            Some(u32::MAX)
        );
        assert_eq!(completions("pos:\t0\nflags:\t02000002\n"), None, "its owner holds it");
        assert_eq!(on_processor("123456 7 8\n"), Some(123_456));
    }

    #[test]
    fn rates_go_on_where_the_count_begins_anew() {
        let before = Reading { completions: u32::MAX - 9, cpu_ns: 1_000_000_000, others_ns: 0 };
        let after = Reading { completions: 90, cpu_ns: 1_500_000_000, others_ns: 0 };
        assert_eq!(after.per_second_since(&before).unwrap(), 200.0);
        assert!(before.per_second_since(&before).is_err());
    }

    #[test]
    fn who_does_the_io() {
        assert!(["worker-0", "iou-wrk-71", "iou-sqp-71", "io_uring", "fio"].into_iter().all(works));
        assert!(!["watcher", "supervisor", "fathom"].into_iter().any(works));
    }

    #[test]
    fn a_program_without_a_ring_is_told() {
        let sleep = || Program { path: "sleep".into(), args: vec!["60".into()] };
        let told = measure(&sleep(), &sleep(), Path::new("/"), Duration::ZERO).err().unwrap();
        assert_eq!(told.to_string(), "sleep has no ring");
        let ended = Program { path: "true".into(), args: Vec::new() };
        let told = measure(&ended, &sleep(), Path::new("/"), Duration::ZERO).err().unwrap();
        assert!(told.to_string().starts_with("true ended too early"), "{told}");
    }
}
