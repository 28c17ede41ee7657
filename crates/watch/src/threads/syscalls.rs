//! System calls by number, and what threads that sleep in them wait for.

use fathom_model::watch::ThreadState;

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("syscalls/x86_64.txt");
#[cfg(target_arch = "aarch64")]
const TABLE: &str = include_str!("syscalls/aarch64.txt");
/// On other architectures system calls are shown by number.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const TABLE: &str = "";

/// System calls whose first argument is a file descriptor.
const FILE_FIRST: &[&str] = &[
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "fsync",
    "fdatasync",
    "syncfs",
    "sync_file_range",
    "fallocate",
    "ftruncate",
    "fadvise64",
    "readahead",
    "lseek",
    "fstat",
    "fstatfs",
    "getdents",
    "getdents64",
    "ioctl",
    "flock",
    "fcntl",
    "close",
    "splice",
    "tee",
    "vmsplice",
    "copy_file_range",
    "accept",
    "accept4",
    "connect",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
];

/// System calls that sleep in state `S` until submitted I/O completes.
const WAITS_FOR_IO: &[&str] = &["io_uring_enter", "io_getevents", "io_pgetevents"];

/// System calls that wait until data is on the disk.
const FLUSHES: &[&str] = &["fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync"];

/// Operations of futex(2) without the flags, and what its word holds while others wait for a lock of the C library.
const FUTEX_FLAGS: u32 = 128 | 256;
const FUTEX_WAIT: u32 = 0;
const FUTEX_LOCK_PI: u32 = 6;
const CONTENDED: u32 = 2;

/// Flag of io_uring_enter: the descriptor is an index into the ring's own table.
const IORING_ENTER_REGISTERED_RING: u64 = 16;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Syscall {
    pub name: &'static str,
    /// Whether it sleeps in state `S` for I/O.
    pub waits_for_io: bool,
    /// What a thread that sleeps in it waits for; `None` if that depends on the file.
    pub cause: Option<ThreadState>,
    /// Whether its waits for a disk are for data to get there.
    pub flushes: bool,
    file_first: bool,
}

#[derive(Debug)]
pub(crate) struct Syscalls(Vec<Syscall>);

impl Syscalls {
    pub fn new() -> Self {
        let mut table = Vec::new();
        for line in TABLE.lines() {
            let Some((number, name)) = line.split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            if table.len() <= number {
                table.resize(number + 1, Syscall::default());
            }
            let waits_for_io = WAITS_FOR_IO.contains(&name);
            let (cause, file_first) = (cause(name), FILE_FIRST.contains(&name));
            let flushes = FLUSHES.contains(&name);
            table[number] = Syscall { name, waits_for_io, cause, flushes, file_first };
        }
        Self(table)
    }

    /// The number of a system call; `None` if this architecture lacks it or is unknown.
    pub fn number(&self, name: &str) -> Option<u32> {
        let place = self.0.iter().position(|call| call.name == name)?;
        u32::try_from(place).ok()
    }

    pub fn get(&self, number: u32) -> Option<&Syscall> {
        self.0.get(number as usize).filter(|call| !call.name.is_empty())
    }
}

/// What a thread that sleeps in this system call waits for; `None` if that depends on the file.
fn cause(name: &str) -> Option<ThreadState> {
    Some(match name {
        "io_uring_enter" => ThreadState::IoUring,
        "io_getevents" | "io_pgetevents" => ThreadState::Aio,
        "futex" | "futex_wait" | "futex_waitv" | "futex_requeue" => ThreadState::Futex,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
        | "pselect6" => ThreadState::Poll,
        "nanosleep" | "clock_nanosleep" => ThreadState::Timer,
        "wait4" | "waitid" | "vfork" => ThreadState::Child,
        "semop" | "semtimedop" | "msgrcv" | "msgsnd" | "mq_timedreceive" | "mq_timedsend" => {
            ThreadState::Pipe
        }
        "pause" | "rt_sigtimedwait" | "rt_sigsuspend" => ThreadState::Signal,
        _ if name.starts_with("accept") || name == "connect" => ThreadState::Socket,
        _ if name.starts_with("recv") || name.starts_with("send") && name != "sendfile" => {
            ThreadState::Socket
        }
        _ => return None,
    })
}

/// What a thread in state `S` waits for, by the kernel function in which it sleeps.
pub(super) fn place(wchan: &[u8]) -> ThreadState {
    let has = |part: &[u8]| wchan.windows(part.len()).any(|window| window == part);
    let causes: [(&[&[u8]], ThreadState); 8] = [
        (&[b"pipe", b"fifo", b"wait_for_partner"], ThreadState::Pipe),
        (
            &[b"sk_", b"skb", b"unix_", b"inet_", b"tcp_", b"datagram", b"vsock"],
            ThreadState::Socket,
        ),
        (&[b"futex"], ThreadState::Futex),
        // flock(2), fcntl(2): of a file, by another process.
        (&[b"lock_inode_wait"], ThreadState::KernelLock),
        (&[b"poll", b"ep_", b"eventfd", b"select"], ThreadState::Poll),
        (&[b"nanosleep", b"timerfd"], ThreadState::Timer),
        (&[b"cqring"], ThreadState::IoUring),
        (&[b"n_tty_"], ThreadState::Terminal),
    ];
    let found = causes.iter().find(|(parts, _)| parts.iter().any(|part| has(part)));
    found.map_or(ThreadState::Other, |(_, cause)| *cause)
}

impl Syscall {
    /// What a thread that sleeps in it waits for; one that polls no descriptor only lets time pass, and one that waits for a lock
    /// tells so by its arguments.
    pub fn waits_for(&self, args: &[u64; 6]) -> Option<ThreadState> {
        let descriptors = match self.name {
            "futex" => {
                let is_lock = match args[1] as u32 & !FUTEX_FLAGS {
                    FUTEX_WAIT => args[2] as u32 == CONTENDED && args[3] == 0,
                    operation => operation == FUTEX_LOCK_PI,
                };
                return if is_lock { Some(ThreadState::FutexBrief) } else { self.cause };
            }
            "poll" | "ppoll" => args[1],
            "select" | "pselect6" => args[0],
            _ => return self.cause,
        };
        // The upper half of the register is undefined.
        if descriptors as u32 == 0 { Some(ThreadState::Timer) } else { self.cause }
    }

    pub fn descriptor(&self, args: &[u64; 6]) -> Option<u32> {
        let ring = self.name == "io_uring_enter" && args[3] & IORING_ENTER_REGISTERED_RING == 0;
        if !self.file_first && !ring {
            return None;
        }
        // The upper half of the register is undefined.
        Some(args[0] as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_libc() {
        let calls = Syscalls::new();
        let name = |number: libc::c_long| calls.get(number as u32).unwrap().name;
        assert_eq!(name(libc::SYS_read), "read");
        assert_eq!(name(libc::SYS_pread64), "pread64");
        assert_eq!(name(libc::SYS_futex), "futex");
        assert_eq!(name(libc::SYS_clock_nanosleep), "clock_nanosleep");
        assert_eq!(name(libc::SYS_io_getevents), "io_getevents");
        assert_eq!(name(libc::SYS_io_uring_enter), "io_uring_enter");
        assert_eq!(name(libc::SYS_fadvise64), "fadvise64");
        assert_eq!(name(libc::SYS_epoll_pwait2), "epoll_pwait2");
        assert_eq!(calls.number("fsync"), Some(libc::SYS_fsync as u32));
        assert_eq!(calls.number("nonsense"), None);
        assert!(calls.get(100_000).is_none());
        assert!(calls.get(libc::SYS_io_uring_enter as u32).unwrap().waits_for_io);
        assert!(!calls.get(libc::SYS_read as u32).unwrap().waits_for_io);
    }

    #[test]
    fn both_tables_have_all_special_calls() {
        // System calls that 64-bit Arm never had.
        let old = ["getdents", "epoll_wait"];
        for table in [include_str!("syscalls/x86_64.txt"), include_str!("syscalls/aarch64.txt")] {
            let has = |name: &str| table.lines().any(|line| line.split(' ').nth(1) == Some(name));
            for name in FILE_FIRST.iter().chain(WAITS_FOR_IO) {
                assert!(has(name) || old.contains(name), "{name}");
            }
            let numbers: Vec<u32> = table
                .lines()
                .skip(1)
                .map(|l| l.split(' ').next().unwrap().parse().unwrap())
                .collect();
            assert!(numbers.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn a_poll_of_nothing_is_a_sleep() {
        let calls = Syscalls::new();
        let waits_for = |name: &str, args: [u64; 2]| {
            let call = calls.get(calls.number(name)?)?;
            call.waits_for(&[args[0], args[1], 0, 0, 0, 0])
        };
        assert_eq!(waits_for("ppoll", [0x7fff_0000, 0]), Some(ThreadState::Timer));
        assert_eq!(waits_for("ppoll", [0x7fff_0000, 2]), Some(ThreadState::Poll));
        assert_eq!(waits_for("pselect6", [0xdead_beef_0000_0000, 5]), Some(ThreadState::Timer));
        assert_eq!(waits_for("pselect6", [4, 0]), Some(ThreadState::Poll));
        assert_eq!(waits_for("epoll_pwait", [0, 0]), Some(ThreadState::Poll));
    }

    #[test]
    fn a_contended_lock_is_told_by_the_arguments() {
        let calls = Syscalls::new();
        let futex = calls.get(libc::SYS_futex as u32).unwrap();
        let waits_for = |operation: i32, value: u64, timeout: u64| {
            futex.waits_for(&[0x7f00_0000_1000, operation as u64, value, timeout, 0, 0])
        };
        let private = libc::FUTEX_PRIVATE_FLAG;
        assert_eq!(waits_for(libc::FUTEX_WAIT | private, 2, 0), Some(ThreadState::FutexBrief));
        assert_eq!(waits_for(libc::FUTEX_LOCK_PI | private, 0, 0), Some(ThreadState::FutexBrief));
        // Go's idle threads, and a condition variable.
        assert_eq!(waits_for(libc::FUTEX_WAIT | private, 0, 0), Some(ThreadState::Futex));
        assert_eq!(waits_for(libc::FUTEX_WAIT_BITSET | private, 2, 0), Some(ThreadState::Futex));
    }

    #[test]
    fn the_file_of_a_call() {
        let calls = Syscalls::new();
        let file = |number: libc::c_long, args: [u64; 6]| {
            calls.get(number as u32).unwrap().descriptor(&args)
        };
        assert_eq!(file(libc::SYS_pwrite64, [0xdead_beef_0000_0005, 0, 0, 0, 0, 0]), Some(5));
        assert_eq!(file(libc::SYS_futex, [5, 0, 0, 0, 0, 0]), None);
        assert_eq!(file(libc::SYS_io_uring_enter, [5, 0, 1, 1, 0, 0]), Some(5));
        assert_eq!(file(libc::SYS_io_uring_enter, [0, 0, 1, 1 | 16, 0, 0]), None);
    }
}
