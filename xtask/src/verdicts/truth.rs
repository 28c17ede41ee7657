//! Shares of wall-clock time by cause: fathom's account, and the same by bpftrace.

use crate::Result;
use crate::run::Background;
use fathom_analysis::account::KINDS;
use fathom_analysis::threads::fold_digits;
use fathom_model::watch::ThreadState;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Groups of the account, and their shares of all threads' time; they add up to 1.
pub type Shares = BTreeMap<String, f64>;

const SCRIPT: &str = include_str!("../../../verdicts/truth.bt");
/// tracefs is needed, and mounted where only bpftrace sees it.
const MOUNTED: &str =
    "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
    exec setpriv --pdeathsig INT bpftrace -f json -e \"$1\"";

pub struct Tracer {
    bpftrace: Background,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A thread, and the time that it spent in each group, in nanoseconds.
#[derive(Default, Clone)]
pub struct Thread {
    comm: String,
    ns: BTreeMap<String, f64>,
}

impl Tracer {
    /// Starts bpftrace, and waits until it traces. Without processes, the marker of the case's shell starts it.
    pub fn start(pids: &[String]) -> Result<Self> {
        let watched: String = pids.iter().map(|pid| existing(pid)).collect();
        let script = SCRIPT.replace("/* WATCHED */", &watched).replace("MARKER", &marker());
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", MOUNTED, "sh", &script]);
        command.env("BPFTRACE_MAP_KEYS_MAX", "65536").env("BPFTRACE_STRLEN", "32");
        let mut bpftrace = Background::start(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let stdout = bpftrace.stdout.take().ok_or("no output of bpftrace")?;
        let mut tracer = Self { bpftrace, lines: BufReader::new(stdout).lines() };
        for line in tracer.lines.by_ref() {
            if line?.contains("attached_probes") {
                return Ok(tracer);
            }
        }
        Err("bpftrace does not run: apt-get install bpftrace, as root".into())
    }

    pub fn stop(mut self) -> Result<Vec<Thread>> {
        let pid = Pid::from_child(&self.bpftrace);
        let (reading, ended) = channel::<()>();
        // bpftrace sometimes misses the first signal.
        let interrupter = std::thread::Builder::new().spawn(move || {
            for signal in [Signal::INT, Signal::INT, Signal::KILL] {
                let _ = kill_process(pid, signal);
                if ended.recv_timeout(Duration::from_secs(10)) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        })?;
        let mut maps = Value::Null;
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line?).unwrap_or_default();
            for (name, map) in line["data"].as_object().into_iter().flatten() {
                maps[name] = map.clone();
            }
        }
        drop(reading);
        let _ = interrupter.join();
        let map = |name: &str| maps[name].as_object().into_iter().flatten();
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let mut threads: BTreeMap<&str, Thread> = BTreeMap::new();
        for (key, ns) in map("@ns") {
            let (tid, group) = key.split_once(',').unwrap_or_default();
            threads.entry(tid).or_default().ns.insert(group.into(), number(ns));
        }
        // Waits that have not ended.
        for (tid, since) in map("@off") {
            let group = maps["@why"][tid].as_str().unwrap_or_default().replace("poll", "peer");
            let ns = threads.entry(tid).or_default().ns.entry(group).or_default();
            *ns += number(&maps["@end"]) - number(since);
        }
        for (tid, comm) in map("@comm") {
            threads.entry(tid).or_default().comm =
                fold_digits(comm.as_str().unwrap_or_default()).into_owned();
        }
        Ok(threads.into_values().collect())
    }
}

/// The processes with one of these names.
pub fn named(names: &[String]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_named = |process: &std::fs::DirEntry| {
        let comm = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        names.iter().any(|name| name == comm.trim_end())
    };
    let found = processes.filter(|process| !names.is_empty() && is_named(process));
    found.map(|process| process.file_name().to_string_lossy().into_owned()).collect()
}

/// No process has this id; it differs between tools that run at the same time.
pub fn marker() -> String {
    format!("{}", 1_000_000_000 + std::process::id())
}

/// What tells the script of a process and its descendants that run already, and what their threads wait for.
fn existing(pid: &str) -> String {
    let mut text = format!("@watched[{pid}] = 1; ");
    let tasks = std::fs::read_dir(Path::new("/proc").join(pid).join("task"));
    for task in tasks.into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let group = match read("syscall").split(' ').next() {
            _ if read("stat").contains(") T ") => "stopped",
            None | Some("" | "running\n" | "-1") => "",
            Some("34" | "128" | "130") => "other",
            Some("202") => "futex",
            Some("35" | "230") => "timer",
            Some("61" | "247") => "child",
            Some("7" | "23" | "232" | "270" | "271" | "281" | "441") => "poll",
            Some(_) => "peer",
        };
        if !group.is_empty() {
            let (tid, comm) = (task.file_name(), read("comm"));
            let (tid, comm) = (tid.display(), comm.trim_end());
            text += &format!(
                "@off[{tid}] = nsecs; @why[{tid}] = \"{group}\"; @comm[{tid}] = \"{comm}\"; "
            );
        }
        text.extend(read("children").split_whitespace().map(existing));
    }
    text
}

/// The shares of the threads that matter, of those with these names if there are any: with a quarter of the most active
/// one's active time, all if none is active for 3% of its time.
pub fn shares(mut threads: Vec<Thread>, names: &[String]) -> Shares {
    const ACTIVE: [&str; 6] = ["on_cpu", "device", "flush", "kernel_lock", "page_fault", "stopped"];
    let active =
        |thread: &Thread| -> f64 { ACTIVE.iter().filter_map(|group| thread.ns.get(*group)).sum() };
    let is_named = |thread: &Thread| names.iter().any(|name| fold_digits(name) == thread.comm);
    threads.retain(|thread| names.is_empty() || is_named(thread));
    let most = threads.iter().map(active).fold(0.0, f64::max);
    let is_idle = |one: &Thread| active(one) < 0.03 * one.ns.values().sum::<f64>();
    if !threads.iter().all(is_idle) {
        threads.retain(|thread| active(thread) >= most / 4.0 && !is_idle(thread));
    }
    let mut ns = Shares::new();
    for mut thread in threads {
        // A source that becomes ready later makes all polls waits for it.
        if let Some(timed) = thread.ns.remove("timed_poll") {
            let group = if thread.ns.contains_key("peer") { "peer" } else { "timer" };
            *thread.ns.entry(group.into()).or_default() += timed;
        }
        for (group, of_one) in thread.ns {
            *ns.entry(group).or_default() += of_one;
        }
    }
    let total = ns.values().sum::<f64>().max(1.0);
    ns.into_iter().map(|(group, ns)| (group, ns / total)).collect()
}

/// The share of a group. What names time on a CPU names time runnable as well, which other programs decide.
pub fn share(shares: &Shares, group: &str) -> f64 {
    const CPU: [&str; 2] = ["on_cpu", "runnable"];
    let groups: &[&str] = if CPU.contains(&group) { &CPU } else { &[group] };
    groups.iter().filter_map(|group| shares.get(*group)).sum()
}

/// The account's groups that matter, of the program or of its peers: their names and shares.
pub fn of_account(account: &Value, peers: bool) -> (Vec<String>, Option<Shares>) {
    let (mut names, mut shares, mut total) = (Vec::new(), Shares::new(), 0.0);
    for group in account["groups"].as_array().into_iter().flatten() {
        if group["matters"] == false || (group["peer"] == true) != peers {
            continue;
        }
        names.extend(group["comm"].as_str().map(String::from));
        for part in group["parts"].as_array().into_iter().flatten() {
            let state: Option<ThreadState> = serde_json::from_value(part["state"].clone()).ok();
            let kind = KINDS.iter().find(|(_, states)| state.is_some_and(|s| states.contains(&s)));
            let kind = kind.map_or("unknown".into(), |(kind, _)| kind.to_lowercase());
            let kind = kind.replace(' ', "_").replace("terminal", "peer");
            let threads = part["mean_threads"].as_f64().unwrap_or_default();
            *shares.entry(kind).or_default() += threads;
            total += threads;
        }
    }
    shares.values_mut().for_each(|share| *share /= total);
    (names, (total > 0.0).then_some(shares))
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
    use serde_json::json;

    fn groups(groups: &[(&str, f64)]) -> Shares {
        groups.iter().map(|(group, ns)| (group.to_string(), *ns)).collect()
    }

    #[test]
    fn threads_that_only_wait_do_not_count() {
        let thread = |comm: &str, ns| Thread { comm: comm.into(), ns: groups(ns) };
        let helper = thread("helper", &[("timed_poll", 98.0), ("on_cpu", 2.0)]);
        let worker = thread("fio", &[("device", 75.0), ("on_cpu", 25.0)]);
        let both = vec![helper.clone(), worker];
        assert_eq!(shares(both.clone(), &[]), groups(&[("device", 0.75), ("on_cpu", 0.25)]));
        assert_eq!(shares(both, &["helper".into()])["timer"], 0.98);
        let client = thread("curl", &[("timed_poll", 90.0), ("peer", 10.0)]);
        assert_eq!(shares(vec![helper, client], &[])["peer"], 0.5);
    }

    #[test]
    fn an_account_is_read() {
        let parts = json!([{ "state": "disk", "mean_threads": 0.75 }, { "state": "on_cpu", "mean_threads": 0.25 }]);
        let account = json!({ "groups": [
            { "comm": "fio", "peer": false, "matters": true, "parts": parts },
            { "comm": "pgbench", "peer": true, "matters": true, "parts": parts },
        ] });
        let shares = groups(&[("device", 0.75), ("on_cpu", 0.25)]);
        assert_eq!(of_account(&account, false), (vec!["fio".to_string()], Some(shares.clone())));
        assert_eq!(of_account(&account, true), (vec!["pgbench".to_string()], Some(shares)));
        assert_eq!(of_account(&Value::Null, false), (vec![], None));
    }
}
