//! System calls by number.

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

/// Flag of io_uring_enter: the descriptor is an index into the ring's own table.
const IORING_ENTER_REGISTERED_RING: u64 = 16;

/// A system call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Syscall {
    /// Its name; empty for unused numbers.
    pub name: &'static str,
    /// Whether it sleeps in state `S` for I/O.
    pub waits_for_io: bool,
    file_first: bool,
}

/// The system calls of the target architecture.
#[derive(Debug)]
pub(super) struct Syscalls(Vec<Syscall>);

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
            table[number] = Syscall { name, waits_for_io, file_first: FILE_FIRST.contains(&name) };
        }
        Self(table)
    }

    pub fn get(&self, number: u32) -> Option<&Syscall> {
        self.0.get(number as usize).filter(|call| !call.name.is_empty())
    }
}

impl Syscall {
    /// The file descriptor of a call with these arguments.
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
