//! Shares of wall-clock time by cause: fathom's account, and the same by bpftrace.

use crate::Result;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Groups of the account, and their shares of all threads' time; they add up to 1.
pub type Shares = BTreeMap<String, f64>;

const SCRIPT: &str = include_str!("../../../verdicts/truth.bt");
/// tracefs is needed, and mounted where only bpftrace sees it.
const MOUNTED: &str =
    "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
    exec setpriv --pdeathsig INT bpftrace -f json -e \"$1\"";

pub struct Tracer {
    bpftrace: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Tracer {
    /// Starts bpftrace, and waits until it traces. Without processes, the marker of the case's shell starts it.
    pub fn start(pids: &[String]) -> Result<Self> {
        let mut watched = String::new();
        for pid in pids.iter().flat_map(|pid| with_children(pid)) {
            watched += &format!("@watched[{pid}] = 1; ");
        }
        let script = SCRIPT.replace("/* WATCHED */", &watched).replace("MARKER", &marker());
        let mut bpftrace = Command::new("unshare")
            .args(["-m", "--propagation", "private", "sh", "-c", MOUNTED, "sh", &script])
            .env("BPFTRACE_MAP_KEYS_MAX", "65536")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = bpftrace.stdout.take().ok_or("no output of bpftrace")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut started = false;
        for line in &mut lines {
            started = line?.contains("attached_probes");
            if started {
                break;
            }
        }
        let tracer = Self { bpftrace, lines };
        if started {
            Ok(tracer)
        } else {
            Err("bpftrace does not run: apt-get install bpftrace, as root".into())
        }
    }

    pub fn stop(mut self) -> Result<Shares> {
        let pid = Pid::from_child(&self.bpftrace);
        kill_process(pid, Signal::INT)?;
        let mut threads: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line?).unwrap_or_default();
            for (key, value) in line["data"]["@ns"].as_object().into_iter().flatten() {
                let (thread, group) = key.split_once(',').unwrap_or_default();
                let ns = value.as_f64().unwrap_or(0.0);
                threads.entry(thread.into()).or_default().insert(group.into(), ns);
            }
        }
        Ok(of_threads(threads.into_values().collect()))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.bpftrace.kill();
        let _ = self.bpftrace.wait();
    }
}

/// No process has this id; it differs between tools that run at the same time.
pub fn marker() -> String {
    format!("{}", 1_000_000_000 + std::process::id())
}

/// A process and its descendants.
fn with_children(pid: &str) -> Vec<String> {
    let mut all = vec![pid.to_string()];
    let tasks = std::fs::read_dir(Path::new("/proc").join(pid).join("task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().flat_map(with_children));
    }
    all
}

/// The shares of the threads that matter: those with a quarter of the most active one's active time, all if none has a
/// twentieth of its time.
fn of_threads(mut threads: Vec<BTreeMap<String, f64>>) -> Shares {
    const ACTIVE: [&str; 6] = ["on_cpu", "device", "flush", "kernel_lock", "page_fault", "stopped"];
    for thread in &mut threads {
        // A source that becomes ready later makes all polls waits for it.
        if let Some(ns) = thread.remove("timed_poll") {
            let group = if thread.contains_key("peer") { "peer" } else { "timer" };
            *thread.entry(group.into()).or_default() += ns;
        }
    }
    let active = |thread: &BTreeMap<String, f64>| -> f64 {
        ACTIVE.iter().filter_map(|group| thread.get(*group)).sum()
    };
    let most = threads.iter().map(active).fold(0.0, f64::max);
    let longest = threads.iter().map(|thread| thread.values().sum()).fold(0.0, f64::max);
    if most > longest / 20.0 {
        threads.retain(|thread| active(thread) >= most / 4.0);
    }
    let mut ns = BTreeMap::new();
    for (group, of_one) in threads.into_iter().flatten() {
        *ns.entry(group).or_default() += of_one;
    }
    shares(ns)
}

fn shares(ns: BTreeMap<String, f64>) -> Shares {
    let total: f64 = ns.values().sum();
    ns.into_iter().map(|(group, ns)| (group, ns / total.max(1.0))).collect()
}

/// From the record's account, whatever its unit.
pub fn of_account(account: &Value) -> Option<Shares> {
    let groups = account.as_object()?;
    let numbers = groups.iter().filter_map(|(group, value)| Some((group.clone(), value.as_f64()?)));
    Some(shares(numbers.collect()))
}

/// The groups above 1%, the largest first.
pub fn text(shares: &Shares) -> String {
    let mut shown: Vec<_> = shares.iter().filter(|(_, share)| **share > 0.01).collect();
    shown.sort_by(|a, b| b.1.total_cmp(a.1));
    let shown: Vec<_> =
        shown.iter().map(|(group, share)| format!("{group} {:.0}%", **share * 100.0)).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_only_wait_do_not_count() {
        let thread = |groups: &[(&str, f64)]| {
            groups.iter().map(|(group, ns)| (group.to_string(), *ns)).collect::<BTreeMap<_, _>>()
        };
        let helper = thread(&[("timer", 95.0), ("on_cpu", 5.0)]);
        let worker = thread(&[("device", 75.0), ("on_cpu", 25.0)]);
        let shares = of_threads(vec![helper.clone(), worker]);
        assert_eq!(shares, thread(&[("device", 0.75), ("on_cpu", 0.25)]));
        let sleeper = thread(&[("timer", 100.0)]);
        assert_eq!(of_threads(vec![helper, sleeper])["timer"], 0.975);
    }
}
