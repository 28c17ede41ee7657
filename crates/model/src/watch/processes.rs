//! Resource use of processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What processes used since the previous sample that holds this, from /proc/PID/stat and /proc/PID/io. Kernel threads
/// and fathom's own samplers are not included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessesSample {
    /// Time covered, in nanoseconds.
    pub elapsed_ns: u64,
    /// The watched processes together; for the whole machine, nothing.
    #[serde(default)]
    pub watched: ProcessUse,
    /// The other programs with the highest use, with processes of the same name added up, those of peers by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ProcessUse>,
    /// Regular files that the watched processes had open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProcessFile>,
    /// CPUs on which they may run, as a list; empty if that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpus_allowed: String,
    /// Bytes of their memory that are swapped out at the end of the interval (`VmSwap`); absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swapped: Option<u64>,
    /// The other ends of their TCP connections: those with most segments first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<RemotePeer>,
}

impl ProcessesSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let names = |uses: &ProcessUse| uses.comm.len();
        let paths = |file: &ProcessFile| file.path.len();
        size_of_val(&*self.others)
            + size_of_val(&*self.files)
            + self.others.iter().map(names).sum::<usize>()
            + self.files.iter().map(paths).sum::<usize>()
            + self.cpus_allowed.len()
            + size_of_val(&*self.remotes)
            + self.remotes.iter().map(|one| one.address.len() + one.comm.len()).sum::<usize>()
    }
}

/// Resource use of processes, including children that they waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessUse {
    /// Name of the program that used the most CPU time or, without any, read and wrote most.
    pub comm: String,
    /// Its process ID.
    pub pid: i32,
    /// Number of processes.
    pub processes: u32,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Bytes that read(2) and the like returned (`rchar`); reads through io_uring are not counted there.
    pub requested_read: u64,
    /// Bytes passed to write(2) and the like (`wchar`).
    pub requested_write: u64,
    /// Bytes read from block devices (`read_bytes`).
    pub disk_read: u64,
    /// Bytes written to block devices, or made dirty in the page cache (`write_bytes`).
    pub disk_write: u64,
    /// Page faults that needed I/O, such as those of pages that had been swapped out (`majflt`).
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub major_faults: u64,
    /// Whether one of these processes holds the other end of a pipe or socket of the watched ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer: bool,
}

impl ProcessUse {
    /// Adds the numbers of `other`; its name and ID are taken if it used more.
    pub fn add(&mut self, other: &Self) {
        let rank = |one: &Self| (one.cpu_ns, one.disk_bytes());
        if self.comm.is_empty() || rank(other) > rank(self) {
            (self.comm, self.pid) = (other.comm.clone(), other.pid);
        }
        self.processes += other.processes;
        self.cpu_ns += other.cpu_ns;
        self.requested_read += other.requested_read;
        self.requested_write += other.requested_write;
        self.disk_read += other.disk_read;
        self.disk_write += other.disk_write;
        self.major_faults += other.major_faults;
        self.peer |= other.peer;
    }

    /// `name (pid 812)` or `name (3 processes)`: of another program, even if that is a fathom.
    pub fn named(&self) -> String {
        let is_fathom = self.comm == "fathom";
        match self.processes {
            0 | 1 if is_fathom => format!("another fathom (pid {})", self.pid),
            0 | 1 => format!("{} (pid {})", self.comm, self.pid),
            n if is_fathom => format!("other instances of fathom ({n} processes)"),
            n => format!("{} ({n} processes)", self.comm),
        }
    }

    /// Bytes read from and written to block devices.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_read + self.disk_write
    }
}

/// A regular file that a process has open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessFile {
    /// Its path.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Bytes allocated; fewer than `size` if it is sparse.
    pub allocated: u64,
    /// Whether its file system keeps it in memory (tmpfs, ramfs).
    pub in_memory: bool,
    /// Whether it is open with O_DIRECT.
    pub direct: bool,
    /// Whether it is open with O_SYNC or O_DSYNC.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
}

/// The other ends of TCP connections, at one address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemotePeer {
    /// Address and port; of connections that the watched processes accepted, the address alone.
    pub address: String,
    /// Number of connections at the end of the interval.
    pub connections: u32,
    /// Segments with data that they sent and received in the interval.
    pub segments: u64,
    /// The longest of their smoothed round-trip times, in microseconds.
    pub rtt_us: u32,
    /// The process at the other end and the name of its program, if it is in the same network namespace; 0 otherwise.
    #[serde(default, skip_serializing_if = "super::is_no_pid")]
    pub pid: i32,
    /// The same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
}

#[cfg(test)]
mod tests {
    use super::ProcessUse;

    #[test]
    fn another_fathom_is_named_as_one() {
        let of = |comm: &str, processes| {
            ProcessUse { comm: comm.into(), pid: 812, processes, ..ProcessUse::default() }.named()
        };
        assert_eq!(of("fio", 1), "fio (pid 812)");
        assert_eq!(of("fathom", 1), "another fathom (pid 812)");
        assert_eq!(of("fathom", 3), "other instances of fathom (3 processes)");
    }
}
