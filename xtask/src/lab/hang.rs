//! The tasks of a hanging guest, as reported by its kernel (sysrq).

use super::guest::Guest;
use crate::Result;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Timeouts of a kernel's answer; an emulated serial port transfers 10 KB/s.
const ANSWER: Duration = Duration::from_secs(10);
/// Time without output after which an answer is complete.
const QUIET: Duration = Duration::from_secs(1);

/// Makes the guest's kernel print its tasks and CPUs (sysrq keys t and l) to the console. Returns the lines about CPUs and
/// about tasks that run, wait uninterruptibly, or belong to fathom; empty if there is no answer.
pub fn question(guest: &mut Guest, console: &Path) -> Result<Option<Vec<String>>> {
    let before = fs::read(console)?.len();
    // Raises the console log level; old kernels do not do so themselves.
    guest.sysrq("7")?;
    thread::sleep(QUIET);
    for key in ["t", "l"] {
        let from = length(console);
        guest.sysrq(key)?;
        wait_for(ANSWER, || length(console) > from);
        wait_for(ANSWER, || {
            let last = length(console);
            thread::sleep(QUIET);
            length(console) == last
        });
    }
    let said = fs::read(console)?.split_off(before);
    let text = String::from_utf8_lossy(&said);
    Ok(text.contains("task:").then(|| telling(&text)))
}

fn length(console: &Path) -> u64 {
    fs::metadata(console).map_or(0, |metadata| metadata.len())
}

fn wait_for(most: Duration, mut is_over: impl FnMut() -> bool) {
    let until = Instant::now() + most;
    while !is_over() && Instant::now() < until {
        thread::sleep(Duration::from_millis(100));
    }
}

/// The relevant lines of an answer: tasks and the functions they are in.
fn telling(text: &str) -> Vec<String> {
    let mut wanted = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.split_once("] ").map_or(line, |(_time, line)| line).trim_end();
        let processor = line.contains("NMI backtrace for cpu");
        if processor || line.starts_with("task:") {
            wanted = processor || can_hold_up(line);
        } else if line.starts_with("Showing busy workqueues") || line.starts_with("Sched Debug") {
            wanted = false;
        } else if line.contains(" ? ") || !(line.contains("+0x") || line.contains("Comm:")) {
            // Stale stack entries, registers and code.
            continue;
        }
        if wanted {
            lines.push(line.to_string());
        }
    }
    lines
}

/// Whether the task of this line is one of fathom's, runs, or waits uninterruptibly.
fn can_hold_up(line: &str) -> bool {
    let own = ["task:fathom", "task:worker-"].iter().any(|name| line.starts_with(name));
    own || line.contains("state:D") || line.contains("state:R")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_hold_a_case_up_is_told_with_the_functions_it_is_in() {
        let text = "\
[    1.0] task:kthreadd        state:S stack:0     pid:2     ppid:0      flags:0x00004000
[    1.0] Call Trace:
[    1.0]  kthreadd+0x1/0x2
[    1.0] task:worker-0        state:S stack:0     pid:165   ppid:1      flags:0x00000000
[    1.0] Call Trace:
[    1.0]  <TASK>
[    1.0]  ? do_syscall_64+0x69/0xb0
[    1.0]  io_cqring_wait+0x1/0x2
[    1.0] RAX: 0000000000000000 RBX: ffff88800572f800 RCX: 0000000000001000
[    1.0] task:jbd2            state:D stack:0     pid:9     ppid:2      flags:0x00004000
[    1.0]  bio_wait+0x1/0x2
[    1.0] Showing busy workqueues and worker pools:
[    1.0] workqueue events: flags=0x0
[    2.0] NMI backtrace for cpu 0
[    2.0] CPU: 0 PID: 165 Comm: worker-0 Not tainted 6.1
[    2.0] RIP: 0010:nvme_irq+0xe/0x60";
        let wanted = [
            "task:worker-0        state:S stack:0     pid:165   ppid:1      flags:0x00000000",
            " io_cqring_wait+0x1/0x2",
            "task:jbd2            state:D stack:0     pid:9     ppid:2      flags:0x00004000",
            " bio_wait+0x1/0x2",
            "NMI backtrace for cpu 0",
            "CPU: 0 PID: 165 Comm: worker-0 Not tainted 6.1",
            "RIP: 0010:nvme_irq+0xe/0x60",
        ];
        assert_eq!(telling(text), wanted);
        assert!(telling("[    1.0] sysrq: Changing Loglevel").is_empty());
    }
}
