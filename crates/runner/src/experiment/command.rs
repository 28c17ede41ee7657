//! A program that generates the load.

use crate::cancel::CancelToken;
use crate::window::MachineSnapshots;
use fathom_model::experiment::WindowResult;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, setrlimit,
    waitid,
};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
/// A command may take so long.
const TIME_MAX: Duration = Duration::from_secs(3600);
const SECTOR_BYTES: u64 = 512;

pub type Limits = Vec<(Resource, Rlimit)>;

/// Runs `command` by the shell from its start to its end; I/Os are those of the disks below the targets, CPU time that
/// of the command and all its children.
pub(super) fn measure(
    command: &str,
    targets: &[String],
    limits: &Limits,
    machine: &MachineSnapshots,
    cancel: &CancelToken,
) -> Result<WindowResult, String> {
    let before = children_ns();
    let from = machine.take();
    let began = Instant::now();
    let mut child = start(command, targets, limits)?;
    let status = loop {
        match child.try_wait().map_err(|e| format!("cannot wait for the command: {e}"))? {
            Some(status) => break status,
            None => thread::sleep(TICK),
        }
        if cancel.reason().is_some() || began.elapsed() > TIME_MAX {
            end(&mut child);
            return Err("the command was ended before it finished".into());
        }
    };
    let elapsed_ns = began.elapsed().as_nanos() as u64;
    let to = machine.take();
    if !status.success() {
        return Err(format!("`{command}` failed ({status}); run it by itself to see why"));
    }
    let after = children_ns();
    let disk = to.disk_since(&from, |_| true);
    let counted = disk.as_ref();
    Ok(WindowResult {
        elapsed_ns,
        took_ns: elapsed_ns,
        ios: counted.map_or(0, |disk| disk.ios.read + disk.ios.write),
        bytes: counted.map_or(0, |disk| (disk.sectors.read + disk.sectors.write) * SECTOR_BYTES),
        user_ns: after.0.saturating_sub(before.0),
        system_ns: after.1.saturating_sub(before.1),
        cpu: to.cpu_since(&from),
        disk,
        ..WindowResult::default()
    })
}

fn start(command: &str, targets: &[String], limits: &Limits) -> Result<Child, String> {
    let fail = |e: std::io::Error| format!("cannot start /bin/sh: {e}");
    let mut shell = Command::new("/bin/sh");
    // In a group of its own, so that all of it can be ended.
    shell.arg("-c").arg(command).process_group(0);
    shell
        .env("TARGET", targets.first().map_or("", String::as_str))
        .env("TARGETS", targets.join(" "));
    // Opened before the limit of open files is lowered.
    let null = File::options().read(true).write(true).open("/dev/null").map_err(fail)?;
    let copy = || null.try_clone().map(Stdio::from).map_err(fail);
    shell.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    let raised = limits.iter().map(|(resource, _)| (*resource, getrlimit(*resource)));
    let raised: Limits = raised.collect();
    set(limits);
    let child = shell.spawn();
    set(&raised);
    child.map_err(fail)
}

fn set(limits: &Limits) {
    for (resource, limit) in limits {
        // Only soft limits differ, which cannot be refused.
        let _ = setrlimit(*resource, *limit);
    }
}

fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let until = Instant::now() + Duration::from_secs(1);
    // Until the shell is reaped, the number of its group cannot be that of another.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while Instant::now() < until && matches!(waitid(WaitId::Pid(group), ended), Ok(None)) {
        thread::sleep(TICK);
    }
    // Children can outlive the shell.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// User and system CPU time of all children that were waited for, in nanoseconds (cutime and cstime in proc(5)).
fn children_ns() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let mut times =
        fields.split_whitespace().skip(13).map(|field| field.parse().unwrap_or(0) * tick_ns);
    (times.next().unwrap_or(0), times.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_end_with_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid").display().to_string();
        // The child ignores TERM; the shell does not.
        let text = "sh -c 'trap \"\" TERM; echo $$ >$TARGET; while :; do sleep 0.1; done' & wait";
        let mut child = start(text, std::slice::from_ref(&file), &Limits::new()).unwrap();
        let pid = loop {
            let pid = std::fs::read_to_string(&file).unwrap_or_default();
            if pid.ends_with('\n') {
                break pid.trim().to_string();
            }
            thread::sleep(TICK);
        };
        end(&mut child);
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let until = Instant::now() + Duration::from_secs(5);
        while is_running() && Instant::now() < until {
            thread::sleep(TICK);
        }
        assert!(!is_running(), "{pid} still runs");
    }
}
