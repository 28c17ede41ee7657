//! Counts the user instructions of a worker between its system calls by single-stepping it
//! (ptrace(2)): exact, and possible without hardware counters; a few thousand times slower than the program itself.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io;
use std::process::{Command, Stdio};

/// io_uring_enter(2) on x86-64.
const ENTER: u64 = 426;
/// Upper bound of io_uring_enter(2)'s numeric arguments.
const NUMBER_MAX: u64 = 1 << 16;

/// Instructions of a worker from its second to its last io_uring_enter(2). Before the second call it initializes itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Instructions in user mode; a system call counts as one.
    pub instructions: u64,
    /// Calls without the first two.
    pub enters: u64,
}

/// Runs `program` with `arguments`, and counts in the thread that calls io_uring_enter(2) most often, the first thread
/// excepted.
pub fn count(program: &str, arguments: &[&str]) -> io::Result<Counted> {
    stay_on_one_cpu()?;
    // The shell stops itself, so that nothing runs before it is traced.
    let mut child = Command::new("sh")
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh", program])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let first = Pid::from_raw(child.id() as i32);
    waitpid(first, Some(WaitPidFlag::WUNTRACED))?;
    let events = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEEXEC;
    ptrace::seize(first, events | Options::PTRACE_O_TRACESYSGOOD)?;
    kill(first, Signal::SIGCONT)?;
    let mut steps = HashMap::new();
    let status = trace(first, &mut steps);
    if status.is_err() {
        let _ = kill(first, Signal::SIGKILL);
        // A traced process can be reaped only after its traced threads.
        while waitpid(None, Some(WaitPidFlag::__WALL)).is_ok() {}
    }
    // Already reaped: this only updates the standard library's view.
    let _ = child.wait();
    match status? {
        0 => {
            Ok(steps.into_values().map(|s| s.counted).max_by_key(|c| c.enters).unwrap_or_default())
        }
        code => Err(io::Error::other(format!("{program} ended with status {code}"))),
    }
}

/// Binds this thread and the program that it starts to one CPU. A step takes two switches between them, which are several
/// times slower across CPUs.
fn stay_on_one_cpu() -> nix::Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let mut one = CpuSet::new();
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    one.set(first.unwrap_or(0))?;
    sched_setaffinity(this, &one)
}

#[derive(Default)]
struct Steps {
    count: u64,
    at: u64,
    /// Calls after the first one, and the count at the next.
    calls: u64,
    from: u64,
    counted: Counted,
    calling: bool,
}

impl Steps {
    /// Counts the next instruction. A repeated string instruction (`rep movsb`)
    /// stops once for each repetition but counts once, as hardware counters count it.
    fn step(&mut self, registers: &libc::user_regs_struct) {
        self.count += u64::from(registers.rip != self.at);
        self.at = registers.rip;
        let numbers = [registers.rdi, registers.rsi, registers.rdx];
        let calling = registers.rax == ENTER && numbers.iter().all(|n| *n < NUMBER_MAX);
        if calling && !self.calling {
            self.calls += 1;
            if self.calls == 1 {
                self.from = self.count;
            }
            self.counted.enters = self.calls - 1;
            self.counted.instructions = self.count - self.from;
        }
        self.calling = calling;
    }
}

/// Single-steps all threads but the first, from their first call on, until the process exits; returns
/// its exit status.
fn trace(first: Pid, steps: &mut HashMap<Pid, Steps>) -> io::Result<i32> {
    loop {
        let status = waitpid(None, Some(WaitPidFlag::__WALL))?;
        let resume = |pid: Pid, signal: Option<Signal>, steps: &HashMap<Pid, Steps>| match pid {
            _ if pid == first => ptrace::cont(pid, signal),
            _ if steps.contains_key(&pid) => ptrace::step(pid, signal),
            _ => ptrace::syscall(pid, signal),
        };
        let resumed = match status {
            WaitStatus::Exited(pid, code) if pid == first => return Ok(code),
            WaitStatus::Signaled(pid, signal, _) if pid == first => return Ok(128 + signal as i32),
            WaitStatus::Stopped(pid, Signal::SIGTRAP) => ptrace::getregs(pid).and_then(|now| {
                steps.entry(pid).or_default().step(&now);
                resume(pid, None, steps)
            }),
            WaitStatus::PtraceSyscall(pid) => ptrace::getregs(pid).and_then(|now| {
                if now.orig_rax == ENTER {
                    steps.entry(pid).or_default();
                }
                resume(pid, None, steps)
            }),
            WaitStatus::Stopped(pid, signal) => resume(pid, Some(signal), steps),
            WaitStatus::PtraceEvent(pid, ..) => resume(pid, None, steps),
            _ => Ok(()),
        };
        match resumed {
            // The thread may have exited with its process by now.
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
