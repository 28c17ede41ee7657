//! CPU time of threads that work for others: io_uring's kernel threads, and those of libraries.
//!
//! Kernel threads are tasks of this process, too. The kernel names an SQPOLL thread `iou-sqp-N` after the thread N
//! that created the ring, and an io-wq worker `iou-wrk-N` after the thread N that it works for: the
//! ring's owner or its SQPOLL thread (io_uring/sqpoll.c, io_uring/io-wq.c).

use super::parse::number;
use crate::proc_file::{numbers, with_path};
use std::io;
use std::path::Path;

/// CPU time of io_uring's kernel threads since their creation, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HelperTime {
    pub owned_ns: u64,
    /// Of those whose owner is not a thread of this process: it has exited, or this process is in a
    /// PID namespace, whereas the names contain IDs of the initial one. Their ring is unknown.
    pub unknown_ns: u64,
}

/// CPU time of the kernel threads that work for rings of thread `tid` of this process.
///
/// A kernel thread exits with its ring, and its time is lost: read it while the ring is open, at
/// the start and end of a measurement, and subtract. The kernel updates the time of a running
/// thread once per tick (1 to 10 ms). `proc_root` is the mount point of procfs: `/proc`.
pub fn helper_time(proc_root: &Path, tid: i32) -> io::Result<HelperTime> {
    let tasks = OwnTasks::read(&proc_root.join("self/task"))?;
    let mut time = HelperTime::default();
    for helper in &tasks.helpers {
        match tasks.owner(helper.works_for) {
            Some(owner) if owner == tid => time.owned_ns += helper.cpu_ns,
            Some(_) => {}
            None => time.unknown_ns += helper.cpu_ns,
        }
    }
    Ok(time)
}

/// CPU time of the threads of this process that have the name of thread `tid`, without that thread, in nanoseconds: those
/// that a library created for it, since a thread inherits the name of its creator. As for [`helper_time`], the time of
/// threads that have exited is lost.
pub fn library_time(proc_root: &Path, tid: i32) -> io::Result<u64> {
    let dir = proc_root.join("self/task");
    let own = dir.join(tid.to_string());
    let name = std::fs::read(own.join("comm")).map_err(|error| with_path(&own, &error))?;
    let tasks = numbers(&dir)?.into_iter();
    // A task may have exited since the directory was read.
    let others = tasks.filter(|task| *task != tid).map(|task| dir.join(task.to_string()));
    let namesakes = others.filter(|path| std::fs::read(path.join("comm")).is_ok_and(|n| n == name));
    Ok(namesakes.filter_map(|path| cpu_ns(&path)).sum())
}

struct OwnTasks {
    threads: Vec<i32>,
    helpers: Vec<Helper>,
}

struct Helper {
    tid: i32,
    works_for: i32,
    cpu_ns: u64,
}

impl OwnTasks {
    fn read(dir: &Path) -> io::Result<Self> {
        let mut tasks = Self { threads: Vec::new(), helpers: Vec::new() };
        for tid in numbers(dir)? {
            let path = dir.join(tid.to_string());
            // The task may have exited since the directory was read.
            let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
            match owner_in_name(name.trim_end().as_bytes()) {
                Some(works_for) => {
                    if let Some(cpu_ns) = cpu_ns(&path) {
                        tasks.helpers.push(Helper { tid, works_for, cpu_ns });
                    }
                }
                None => tasks.threads.push(tid),
            }
        }
        Ok(tasks)
    }

    /// The program's thread that task `tid` is or works for.
    fn owner(&self, tid: i32) -> Option<i32> {
        owner(tid, |tid| {
            let helper = self.helpers.iter().find(|helper| helper.tid == tid);
            let works_for = helper.map(|helper| helper.works_for);
            (works_for.is_some() || self.threads.contains(&tid)).then_some(works_for)
        })
    }
}

/// The program's thread that task `tid` is or works for. `works_for` returns, for a task of the
/// process, the task it works for, or `None` for the program's own threads.
pub(super) fn owner(tid: i32, works_for: impl Fn(i32) -> Option<Option<i32>>) -> Option<i32> {
    let Some(other) = works_for(tid)? else { return Some(tid) };
    // io-wq workers of an SQPOLL ring work for its SQPOLL thread.
    works_for(other)?.is_none().then_some(other)
}

pub(super) fn owner_in_name(name: &[u8]) -> Option<i32> {
    number(name.strip_prefix(b"iou-sqp-").or_else(|| name.strip_prefix(b"iou-wrk-"))?)
}

fn cpu_ns(task: &Path) -> Option<u64> {
    let exact = std::fs::read_to_string(task.join("schedstat"))
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok());
    // Without scheduler statistics: in clock ticks of 10 ms.
    exact.or_else(|| cpu_ns_in_stat(&std::fs::read_to_string(task.join("stat")).ok()?))
}

fn cpu_ns_in_stat(stat: &str) -> Option<u64> {
    // The name, in parentheses, may contain anything; utime and stime are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{FromRawFd, OwnedFd};

    fn task(root: &Path, tid: i32, name: &str, cpu_ns: u64) {
        let dir = root.join(format!("self/task/{tid}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(dir.join("schedstat"), format!("{cpu_ns} 5 3\n")).unwrap();
    }

    #[test]
    fn threads_are_attributed_to_their_owner() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        task(root, 100, "fathom", 1);
        task(root, 101, "worker", 10);
        task(root, 102, "worker", 20);
        task(root, 103, "iou-sqp-101", 1000);
        task(root, 104, "iou-wrk-101", 200);
        task(root, 105, "iou-wrk-103", 30);
        task(root, 106, "iou-sqp-102", 7000);
        task(root, 107, "iou-sqp-999", 50_000);
        let unknown_ns = 50_000;
        assert_eq!(helper_time(root, 101).unwrap(), HelperTime { owned_ns: 1230, unknown_ns });
        assert_eq!(helper_time(root, 102).unwrap(), HelperTime { owned_ns: 7000, unknown_ns });
        assert_eq!(helper_time(root, 100).unwrap(), HelperTime { owned_ns: 0, unknown_ns });
    }

    #[test]
    fn threads_of_a_library_have_the_name_of_their_creator() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (tid, name) in
            [(101, "worker-0"), (102, "worker-1"), (103, "worker-0"), (104, "worker-0")]
        {
            task(root, tid, name, u64::from(tid.unsigned_abs()));
        }
        assert_eq!(library_time(root, 101).unwrap(), 103 + 104);
        assert_eq!(library_time(root, 102).unwrap(), 0);
        assert!(library_time(root, 999).unwrap_err().to_string().contains("/self/task/999"));
    }

    #[test]
    fn stat_where_schedstat_is_missing() {
        let root = tempfile::tempdir().unwrap();
        task(root.path(), 1, "worker", 0);
        task(root.path(), 2, "iou-sqp-1", 0);
        let dir = root.path().join("self/task/2");
        std::fs::remove_file(dir.join("schedstat")).unwrap();
        let stat = "2 (iou) sqp-1) S 1 1 1 0 -1 69238848 0 0 0 0 3 40 0 0 20 0 2 0 1 2 3\n";
        std::fs::write(dir.join("stat"), stat).unwrap();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(helper_time(root.path(), 1).unwrap().owned_ns, 43 * tick_ns);
    }

    #[test]
    fn malformed_stat_is_rejected() {
        for stat in ["", "1 (x", "1 (x) S 1 2 3", "1 (x) S 1 1 1 0 -1 6 0 0 0 0 a b 0"] {
            assert_eq!(cpu_ns_in_stat(stat), None, "{stat}");
        }
    }

    #[test]
    fn the_error_names_the_path() {
        let error = helper_time(Path::new("/nonexistent"), 1).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/self/task"), "{error}");
    }

    #[test]
    fn the_running_kernel() {
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(helper_time(Path::new("/proc"), me).unwrap().owned_ns, 0);
        let tasks = OwnTasks::read(Path::new("/proc/self/task")).unwrap();
        assert!(tasks.threads.contains(&me));
        // The kernel updates the time of a running thread only at each tick.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while cpu_ns(Path::new("/proc/thread-self")).unwrap() == 0 {
            assert!(std::time::Instant::now() < until, "no CPU time after 10 s");
        }
    }

    /// A ring whose SQPOLL thread polls for 10 s without work; `None` if io_uring is disabled.
    fn polling_ring() -> Option<OwnedFd> {
        let mut params = linux_raw_sys::io_uring::io_uring_params {
            flags: linux_raw_sys::io_uring::IORING_SETUP_SQPOLL,
            sq_thread_idle: 10_000,
            // SAFETY: the structure holds integers only, for which zero is valid.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: the call reads and writes `params`, which outlives it.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, &raw mut params) };
        if fd < 0 {
            let errno = io::Error::last_os_error().raw_os_error();
            assert!(matches!(errno, Some(libc::EPERM | libc::ENOSYS | libc::ENOMEM)), "{errno:?}");
            return None;
        }
        // SAFETY: the call above returned this descriptor, and nothing else owns it.
        Some(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    #[test]
    fn the_sqpoll_thread_of_a_real_ring() {
        let Some(ring) = polling_ring() else { return };
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let time = helper_time(Path::new("/proc"), me).unwrap();
            // In a PID namespace its owner is unknown.
            if time.owned_ns + time.unknown_ns > 0 {
                break;
            }
            assert!(std::time::Instant::now() < until, "no CPU time after 10 s");
        }
        drop(ring);
    }
}
