//! Which data about threads is accessible.

use super::files::{Proc, ReadError};
use super::members::ProcessSet;
use super::task::SampleParts;
use fathom_model::watch::Unavailable;
use std::fmt::Arguments;
use std::path::Path;

pub(super) struct ThreadAccess {
    pub has_schedstat: bool,
    pub missing: Vec<Unavailable>,
}

impl ThreadAccess {
    pub fn of(proc: &Proc, proc_root: &Path, parts: SampleParts) -> Self {
        let mut buffer = vec![0; 16 << 10];
        let mut read = |path: Arguments<'_>| proc.read_once(path, &mut buffer).err();
        let mut missing = Vec::new();
        let mut add = |what: &str, path: &str, why: ReadError, allow: &str| {
            let why = if why == ReadError::Denied { "permission denied" } else { "no such file" };
            let why = format!("{}: {why}", proc_root.join(path).display());
            missing.push(Unavailable { source: what.into(), reason: why, remedy: allow.into() });
        };
        let schedstat = read(format_args!("self/schedstat"));
        if let Some(why) = schedstat {
            let what = "runnable threads, which are shown as on-CPU";
            add(what, "self/schedstat", why, "use a kernel with CONFIG_SCHED_INFO");
        }
        if let Some(why) = read(format_args!("self/syscall")) {
            let what = "system calls, and whether threads in state S wait for I/O";
            add(what, "self/syscall", why, "use a kernel with CONFIG_HAVE_ARCH_TRACEHOOK");
        } else if read(format_args!("1/stat")) == Some(ReadError::Gone) {
            let allow = "run as root, or mount /proc without hidepid";
            add("threads of other users", "1", ReadError::Gone, allow);
        }
        if parts.kstack
            && let Some(why) = read(format_args!("self/stack"))
        {
            let allow = "run as root or with CAP_SYS_ADMIN, on a kernel with CONFIG_STACKTRACE";
            add("kernel stacks", "self/stack", why, allow);
        }
        Self { has_schedstat: schedstat.is_none(), missing }
    }
}

/// Threads whose system calls this process may not read.
pub(super) fn refused(members: &ProcessSet, proc: &Proc, proc_root: &Path) -> Option<Unavailable> {
    let all: usize = members.processes.iter().map(|process| process.tasks.len()).sum();
    let tasks = members.processes.iter().flat_map(|process| {
        process.tasks.iter().filter(|task| task.is_refused()).map(|task| (process.pid, task.tid))
    });
    let refused = tasks.clone().count();
    let (pid, tid) = { tasks }.next()?;
    let allow = if rustix::process::geteuid().is_root() {
        "requires CAP_SYS_PTRACE in their user namespace and no security module that denies it"
    } else if yama_forbids(proc) {
        "run as root or with CAP_SYS_PTRACE, or for threads of the same user `sysctl \
         kernel.yama.ptrace_scope=0`"
    } else {
        "run as root or with CAP_SYS_PTRACE"
    };
    Some(Unavailable {
        source: format!(
            "system calls, wait channels and files of {refused} of {all} threads, and \
             whether these wait for I/O in state S"
        ),
        reason: format!("{}/{pid}/task/{tid}/syscall: permission denied", proc_root.display()),
        remedy: allow.into(),
    })
}

fn yama_forbids(proc: &Proc) -> bool {
    let mut buffer = [0; 8];
    let scope = proc.read_once(format_args!("sys/kernel/yama/ptrace_scope"), &mut buffer);
    scope.is_ok_and(|text| text.trim_ascii() != b"0")
}
