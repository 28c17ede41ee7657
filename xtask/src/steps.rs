//! Counts the user instructions of each thread of a program by single-stepping it (ptrace(2)).
//!
//! Exact, and possible on machines that show no hardware counters; some thousand times slower
//! than the program itself, so take the difference of a longer and a shorter run.

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io;
use std::process::{Command, Stdio};

/// Runs `program` with `arguments` and returns how many instructions its busiest thread executed
/// in user mode, the first thread left out. A system call counts as one.
///
/// # Errors
/// When the program cannot be started or traced, or ends with a failure.
pub fn busiest_thread(program: &str, arguments: &[&str]) -> io::Result<u64> {
    // The shell stops itself, so that nothing runs before it is traced.
    let mut child = Command::new("sh")
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh", program])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let first = Pid::from_raw(child.id() as i32);
    waitpid(first, Some(WaitPidFlag::WUNTRACED))?;
    ptrace::seize(first, Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEEXEC)?;
    kill(first, Signal::SIGCONT)?;
    let mut steps = HashMap::new();
    let status = trace(first, &mut steps);
    // Tracing reaped it: this only tells the standard library so.
    let _ = child.wait();
    match status? {
        0 => Ok(steps.into_values().map(|s| s.count).max().unwrap_or(0)),
        code => Err(io::Error::other(format!("{program} ended with status {code}"))),
    }
}

/// What a thread has executed.
#[derive(Default)]
struct Steps {
    count: u64,
    at: u64,
}

impl Steps {
    /// The thread has come to the instruction at `address`. A repeated string instruction (`rep
    /// movsb`) stops once for each repetition but counts once, as hardware counters count it.
    fn step(&mut self, address: u64) {
        self.count += u64::from(address != self.at);
        self.at = address;
    }
}

/// Steps all threads but the first until the process has ended; returns its exit status.
fn trace(first: Pid, steps: &mut HashMap<Pid, Steps>) -> io::Result<i32> {
    loop {
        let status = waitpid(None, Some(WaitPidFlag::__WALL))?;
        let go_on = |pid: Pid, signal: Option<Signal>| {
            let result =
                if pid == first { ptrace::cont(pid, signal) } else { ptrace::step(pid, signal) };
            // A thread may be gone by now, with its process.
            match result {
                Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
                Err(error) => Err(io::Error::from(error)),
            }
        };
        match status {
            WaitStatus::Exited(pid, code) if pid == first => return Ok(code),
            WaitStatus::Signaled(pid, signal, _) if pid == first => return Ok(128 + signal as i32),
            WaitStatus::Stopped(pid, Signal::SIGTRAP) => {
                steps.entry(pid).or_default().step(ptrace::getregs(pid)?.rip);
                go_on(pid, None)?;
            }
            WaitStatus::Stopped(pid, signal) => go_on(pid, Some(signal))?,
            WaitStatus::PtraceEvent(pid, ..) => go_on(pid, None)?,
            _ => {}
        }
    }
}
