//! The engine's errors in the words of its users: fio's keys for `run`, the options of `fathom limit` for that.

use crate::dump;
use fathom_engine::{EngineError, Hint, JobResult, Operation, ScsiError};
use fathom_model::record::{JobError, JobRecord};
use rustix::io::Errno;
use std::io;

/// The words in which a user stated what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Vocabulary {
    #[default]
    Keys,
    /// The options of `fathom limit`, which chooses queue depths and workers itself.
    Limit,
}

/// Sense keys by their number (SPC-5).
const SENSE_KEYS: [&str; 16] = [
    "NO SENSE",
    "RECOVERED ERROR",
    "NOT READY",
    "MEDIUM ERROR",
    "HARDWARE ERROR",
    "ILLEGAL REQUEST",
    "UNIT ATTENTION",
    "DATA PROTECT",
    "BLANK CHECK",
    "vendor specific",
    "COPY ABORTED",
    "ABORTED COMMAND",
    "reserved",
    "VOLUME OVERFLOW",
    "MISCOMPARE",
    "COMPLETED",
];

impl Vocabulary {
    pub fn record(self, result: JobResult) -> JobRecord {
        let mut record = result.record;
        record.error = result.error.map(|error| self.error(&error));
        record.granted.fallbacks.extend(result.fallbacks.iter().map(|error| self.message(error)));
        for dump in &result.dumps {
            let written = dump::write(&mut record, dump);
            record.granted.fallbacks.extend(written.err());
        }
        record
    }

    fn error(self, error: &EngineError) -> JobError {
        JobError { errno: error.errno, message: self.message(error) }
    }

    pub fn message(self, error: &EngineError) -> String {
        if let Some(message) = unmet(error) {
            return message;
        }
        let why = io::Error::from_raw_os_error(error.errno);
        let (what, advice) = (what(error), self.advice(error));
        match (&error.hint, advice.as_str()) {
            (Hint::Explained(why), _) => format!("{what}: {why}"),
            (_, "") => format!("{what}: {why}"),
            (_, advice) => format!("{what}: {why}; {advice}"),
        }
    }

    /// The remedy or the cause; may be empty.
    fn advice(self, error: &EngineError) -> String {
        let at_set_up = |advice: &str, or_lower: &str| match self {
            Self::Keys => format!("{advice}{or_lower}"),
            Self::Limit => advice.to_string(),
        };
        match &error.op {
            Operation::Start | Operation::CreatePipe => {
                let comma = if error.op == Operation::Start { "" } else { "," };
                let lower = format!("{comma} or lower numjobs");
                at_set_up("raise the limit on open files (`ulimit -n`)", &lower)
            }
            Operation::SpawnWorker => at_set_up(
                "raise the limit on processes and threads (RLIMIT_NPROC, `ulimit -u`, or pids.max of the cgroup)",
                ", or lower numjobs",
            ),
            Operation::AllocateBuffers { .. } => match (&error.hint, self) {
                (Hint::NoHugePages, _) => "reserve huge pages (`sysctl vm.nr_hugepages`)".into(),
                (_, Self::Keys) => "lower iodepth, bs or numjobs".into(),
                (_, Self::Limit) => "free memory, or lower --bs".into(),
            },
            Operation::SetNice(_) => "values below 0 need CAP_SYS_NICE".into(),
            Operation::SetIoPriority { .. } => {
                "the real-time class needs CAP_SYS_ADMIN or CAP_SYS_NICE".into()
            }
            Operation::LockMemory(_) => {
                at_set_up("raise the limit on locked memory (`ulimit -l`)", ", or lower lockmem")
            }
            Operation::SetMemoryPolicy => "name nodes that have memory".into(),
            Operation::SetAffinity(_) => {
                "use CPUs that are online and allowed for this process".into()
            }
            Operation::PreRead(_) => "remove pre_read".into(),
            // Of a file system, it may also be a checksum of its own.
            Operation::Io { .. } if error.errno == Errno::ILSEQ.raw_os_error() => {
                "its checksum or protection information is another than expected (pi_chk, apptag), or the data are damaged".into()
            }
            Operation::FreeBlocks => "remove unlink_each_loop".into(),
            Operation::ReadPlacements => {
                "it may have no flexible data placement (`nvme fdp status`); remove fdp and dataplacement".into()
            }
            Operation::AllocateDonor => "use a file on the same ext4 as the job's".into(),
            Operation::ResetZone(_) | Operation::FinishZone(_) => {
                "zones that are read-only or offline cannot be written; use offset and size".into()
            }
            Operation::SetUser(_) | Operation::SetGroup(_) => {
                "this needs CAP_SETUID and CAP_SETGID; run as root".into()
            }
            Operation::Advise => "use fadvise_hint=0".into(),
            Operation::HintWriteLife => "remove it".into(),
            Operation::Map(_) if error.hint == Hint::AddressSpace => {
                "lower size, or raise the limit (`ulimit -v unlimited`)".into()
            }
            Operation::Map(_) => {
                "its file system or driver may not support it; use ioengine=psync".into()
            }
            Operation::SetUpRing(entries) => self.without_ring(*entries, &error.hint),
            Operation::SetUpAio(_) => match error.hint {
                Hint::AioMaxNr => {
                    "fs.aio-max-nr is exhausted; raise it (`sysctl fs.aio-max-nr`) or lower iodepth"
                }
                Hint::NoAio => {
                    "this kernel has no native asynchronous I/O; use --ioengine=io_uring"
                }
                _ => "lower iodepth, or use --ioengine=io_uring",
            }
            .into(),
            Operation::RegisterFiles(count) => {
                format!("raise the limit on open files (`ulimit -n`) to at least {count}")
            }
            Operation::RegisterBuffers(bytes) if error.errno == Errno::NOMEM.raw_os_error() => {
                format!(
                    "RLIMIT_MEMLOCK is too small to lock {} KiB for this job; raise it (`ulimit -l`) or run as root",
                    bytes / 1024
                )
            }
            Operation::RegisterBuffers(_) => at_set_up("", "set fixedbufs=0 to run without"),
            Operation::RemoveNames { .. } => "remove them yourself".into(),
            Operation::WriteJournal => {
                "what was written before is in it, for `fathom verify`".into()
            }
            Operation::UseQueue { in_flight, .. } => format!("{in_flight} I/Os were in flight"),
            _ => self.cause(&error.hint),
        }
    }

    /// Why there is no ring, and what to do.
    fn without_ring(self, entries: u32, hint: &Hint) -> String {
        let or_libaio = match self {
            Self::Keys => "use --ioengine=libaio",
            Self::Limit => {
                "use `fathom run --ioengine=libaio` (`fathom limit` supports only io_uring)"
            }
        };
        let or_psync = if self == Self::Keys { " or psync" } else { "" };
        match hint {
            Hint::SeccompOrNoRing => format!(
                "a seccomp filter (as in many containers) blocks io_uring_setup, or this kernel was built without \
                 io_uring; allow it in the container's seccomp profile, or {or_libaio}"
            ),
            Hint::NoRing => {
                format!("this kernel has no io_uring (fathom needs Linux 5.6); {or_libaio}{or_psync}")
            }
            Hint::RingDisabled => format!(
                "kernel.io_uring_disabled is 2 (disabled for all processes); run `sysctl kernel.io_uring_disabled=0`, \
                 or {or_libaio}"
            ),
            Hint::RingDisabledForUsers => format!(
                "kernel.io_uring_disabled is 1 (disabled without CAP_SYS_ADMIN); run as root or as a member of \
                 kernel.io_uring_group, or {or_libaio}"
            ),
            Hint::Seccomp => format!(
                "a seccomp filter (as in many containers) blocks io_uring_setup; allow it in the container's seccomp \
                 profile, or {or_libaio}"
            ),
            Hint::NoPermission => format!(
                "permission denied, but not by kernel.io_uring_disabled or a seccomp filter, perhaps by a security \
                 module; {or_libaio}"
            ),
            Hint::LockedMemory => {
                let lower = if self == Self::Keys { "lower iodepth or " } else { "" };
                format!(
                    "out of memory, or RLIMIT_MEMLOCK is too low on this kernel; {lower}raise the limit (`ulimit -l`)"
                )
            }
            Hint::NoSqThread => {
                "the kernel cannot create the SQPOLL thread; raise the limit on processes and threads (RLIMIT_NPROC, \
                 `ulimit -u`, or pids.max of the cgroup), or use sqthread_poll=0"
                    .into()
            }
            Hint::RingFlags(flags) => {
                let rejects = format!(
                    "the kernel rejects a ring of {entries} entries with these flags: {}",
                    flags.join(", ")
                );
                match self {
                    Self::Keys => format!(
                        "{rejects}; lower iodepth (at most 32768), or remove the options that this kernel lacks"
                    ),
                    Self::Limit => rejects,
                }
            }
            _ => "see io_uring_setup(2)".into(),
        }
    }

    /// Why an I/O failed, as far as is known.
    fn cause(self, hint: &Hint) -> String {
        let text = match hint {
            Hint::Shrunk => {
                "the target is shorter than at the start of the run: it was truncated, or the device is gone (see \
                 `dmesg`)"
            }
            Hint::Overrun(bytes) => {
                return format!(
                    "the kernel reports {bytes} bytes transferred; the device reports an error: see `dmesg`"
                );
            }
            Hint::WouldBlock => "the request would block, and nowait=1 is set",
            Hint::Retried => "gave up after 1,000,000 retries",
            Hint::NoPolledQueues => {
                "the device has no polled queues: for NVMe, load the driver with nvme.poll_queues=N, or omit hipri"
            }
            Hint::Unsupported => "the target does not support this operation",
            Hint::Misaligned if self == Self::Limit => {
                "direct I/O must be aligned to the target's logical block: check --bs"
            }
            Hint::Misaligned => {
                "direct I/O must be aligned to the target's logical block: check bs, offset and blockalign"
            }
            Hint::NoSplice => "its file system does not support splice: use ioengine=psync",
            Hint::NoMoveExtents => {
                "blocks are exchanged between two files of one ext4 only, and where both have some"
            }
            Hint::Replaced => {
                "it was replaced since it was laid out, and fathom removes only what it created"
            }
            Hint::Truncated => {
                "the target is shorter than at the start of the run: it was truncated"
            }
            Hint::DeviceError => "the device reports an error: see `dmesg`",
            Hint::Full => "the file system or device is full, or the device is gone (see `dmesg`)",
            Hint::MediumError => "a medium error: see `dmesg`",
            Hint::Rejected => "the device rejected the request: see `dmesg`",
            Hint::QuotaExceeded if self == Self::Limit => {
                "raise the quota, or use a smaller --size"
            }
            Hint::QuotaExceeded => "raise the quota, or use a smaller size",
            Hint::DeviceGone => "the device is gone",
            Hint::NotOpen => "the target is not open for this operation",
            Hint::Scsi(error) => return scsi(*error),
            _ => "",
        };
        text.into()
    }
}

/// What failed without a system call that did, if anything.
fn unmet(error: &EngineError) -> Option<String> {
    Some(match &error.op {
        Operation::Supervise => "the supervisor thread failed".into(),
        Operation::Work => "the worker panicked: a bug in fathom; please report it".into(),
        Operation::EndWorker => {
            "the worker did not end within 9 s: a system call hangs in the kernel; see `dmesg` and the state of the device"
                .into()
        }
        Operation::UseCpu { cpu, max } => {
            format!("cpus_allowed: CPU {cpu} is out of range; use 0 to {max}")
        }
        Operation::UsePlacement { index, count } => format!(
            "plids: {} lists {count} placement identifiers, none of which has index {index}; use lower ones, or remove fdp",
            file(error)
        ),
        Operation::UseUnregistered => {
            "io_uring reads and writes of unregistered buffers need Linux 5.6; use fixedbufs=1 with enough locked \
             memory (`ulimit -l`), nonvectored=0, or --ioengine=libaio"
                .into()
        }
        Operation::IssueTrims => format!(
            "trims without kernel threads: the driver of {} does not support nowait, so io-wq threads issue them",
            file(error)
        ),
        Operation::MatchFiles { regions, files } => {
            format!("{regions} regions but {files} open files: each region needs one")
        }
        Operation::FindNames => "no names: the job needs at least one".into(),
        Operation::Drain { lost, paths } => format!(
            "{lost} I/Os on {} did not complete within 8 s of the end of the job; the device or its driver hangs: see `dmesg`",
            paths.join(", ")
        ),
        Operation::Verify(wrong) => format!(
            "verification failed: {} at offset {}, {} bytes: {}",
            wrong.file,
            wrong.offset,
            wrong.len,
            wrong.text()
        ),
        Operation::LoadState(why) if !why.is_empty() => format!(
            "verify_state_load: {}: {why}; name the directory with --aux-path, or remove the key",
            file(error)
        ),
        Operation::SaveState(why) if !why.is_empty() => format!(
            "verify_state_save: {}: {why}; move it, name another directory with --aux-path, or set verify_state_save=0",
            file(error)
        ),
        Operation::MeetLatency { dir, max_ns, took_ns } => {
            format!("max_latency={}us exceeded: a {dir} took {} µs", max_ns / 1000, took_ns / 1000)
        }
        Operation::MeetRate { dir, in_bytes, needed, reached } => {
            let (key, unit) =
                if *in_bytes { ("rate_min", "bytes/s") } else { ("rate_iops_min", "IOPS") };
            format!("{key}={needed} not met: {dir}s reached {reached} {unit}")
        }
        _ => return None,
    })
}

fn file(error: &EngineError) -> &str {
    error.file.as_deref().unwrap_or("the target")
}

/// What failed, before the system's reason.
fn what(error: &EngineError) -> String {
    let path = file(error);
    match &error.op {
        Operation::Start => "cannot start workers".into(),
        Operation::SpawnWorker => "cannot create a worker thread".into(),
        Operation::AllocateBuffers { count, bytes } => {
            format!("cannot allocate {count} buffers of {bytes} bytes")
        }
        Operation::SetNice(nice) => format!("cannot set nice={nice}"),
        Operation::SetIoPriority { class, level } => {
            format!("cannot set prioclass={class} prio={level}")
        }
        Operation::LockMemory(bytes) => format!("cannot lock {bytes} bytes"),
        Operation::SetMemoryPolicy => "cannot set numa_mem_policy".into(),
        Operation::SetAffinity(cpus) => format!("cannot set cpus_allowed={cpus:?}"),
        Operation::PreRead(offset) => format!("cannot pre-read {path} at offset {offset}"),
        Operation::ReportZones => format!("cannot read the zones of {path}"),
        Operation::ResetZone(at) => format!("cannot reset the zone at byte {at} of {path}"),
        Operation::FinishZone(at) => format!("cannot finish the zone at byte {at} of {path}"),
        Operation::SetUser(user) => format!("cannot set uid={user}"),
        Operation::SetGroup(group) => format!("cannot set gid={group}"),
        Operation::SyncRange => format!("sync_file_range of {path} failed"),
        Operation::FreeBlocks => format!("cannot free the blocks of {path} between passes"),
        Operation::ReadPlacements => format!("cannot read the placement identifiers of {path}"),
        Operation::AllocateDonor => format!("cannot allocate blocks of donorname={path}"),
        Operation::Advise => format!("cannot set fadvise_hint on {path}"),
        Operation::HintWriteLife => format!("cannot set write_hint on {path}"),
        Operation::HandleBusErrors => "cannot install a handler for SIGBUS".into(),
        Operation::Map(bytes) => format!("cannot map {bytes} bytes of {path} into memory"),
        Operation::CreatePipe => "cannot create a pipe for ioengine=splice".into(),
        Operation::SetUpRing(_) => "io_uring_setup failed".into(),
        Operation::PollWake => "cannot poll the worker's eventfd through the ring".into(),
        Operation::RegisterFiles(_) => "cannot register files".into(),
        Operation::RegisterBuffers(_) => "cannot register buffers".into(),
        Operation::SetUpAio(depth) => format!("io_setup failed for queue depth {depth}"),
        Operation::Io { dir, len, offset } => {
            format!("{dir} of {len} bytes at offset {offset} of {path} failed")
        }
        Operation::LoadState(_) => format!("verify_state_load: cannot read {path}"),
        Operation::SaveState(_) => format!("verify_state_save: cannot write {path}"),
        Operation::WriteJournal => format!("cannot write the journal {path}"),
        Operation::Fsync => format!("fsync of {path} failed"),
        Operation::Fdatasync => format!("fdatasync of {path} failed"),
        Operation::Name(op) => format!("{} of {path} failed", op.name()),
        Operation::RemoveNames { more } => {
            let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
            let requested = if matches!(error.hint, Hint::None) { " (unlink=1)" } else { "" };
            format!("cannot remove {path}{more}{requested}")
        }
        Operation::UseQueue { engine, .. } => format!("{engine}: the queue failed"),
        // Worded in `unmet`.
        _ => String::new(),
    }
}

fn scsi(error: ScsiError) -> String {
    let is = |errno: i32, of: &[Errno]| of.iter().any(|known| known.raw_os_error() == errno);
    match error {
        ScsiError::NoCommand => {
            "SCSI commands are on whole logical blocks, and WRITE STREAM on at most 65535; check bs and offset".into()
        }
        ScsiError::NotSent(errno) if is(errno, &[Errno::PERM, Errno::ACCESS]) => {
            "the kernel lets only root send this SCSI command".into()
        }
        ScsiError::NotSent(errno) if is(errno, &[Errno::OPNOTSUPP]) => {
            "this kernel takes no SCSI commands on a ring (cmd_type=bsg needs Linux 7); use ioengine=sg on the disk"
                .into()
        }
        ScsiError::NotSent(_) => {
            "the kernel did not send the SCSI command; check bs against queue/max_hw_sectors_kb".into()
        }
        ScsiError::Sense(key, code, qualifier) => format!(
            "the device reports sense key {} ({key:X}h), additional sense code {code:02X}h, qualifier {qualifier:02X}h",
            SENSE_KEYS[usize::from(key & 0xf)]
        ),
        ScsiError::Status { device, host } => {
            format!("SCSI status {device:02X}h, host status {host:02X}h; see `dmesg`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;

    fn error(op: Operation, errno: Errno, hint: Hint) -> EngineError {
        EngineError { op, file: Some("/x".into()), errno: errno.raw_os_error(), hint }
    }

    #[test]
    fn errors_say_what_failed_why_and_what_to_do() {
        let read = Operation::Io { dir: Dir::Read, len: 4096, offset: 8192 };
        let words = |op, errno, hint| Vocabulary::Keys.message(&error(op, errno, hint));
        assert_eq!(
            words(read.clone(), Errno::INVAL, Hint::Misaligned),
            "read of 4096 bytes at offset 8192 of /x failed: Invalid argument (os error 22); direct I/O must be aligned \
             to the target's logical block: check bs, offset and blockalign"
        );
        assert_eq!(
            words(read, Errno::PERM, Hint::None),
            "read of 4096 bytes at offset 8192 of /x failed: Operation not permitted (os error 1)"
        );
        let read = Operation::Io { dir: Dir::Read, len: 4096, offset: 8192 };
        assert!(words(read, Errno::ILSEQ, Hint::None).contains("protection information"));
        let queue = Operation::UseQueue { engine: "libaio", in_flight: 7 };
        assert_eq!(
            words(queue, Errno::BADF, Hint::None),
            "libaio: the queue failed: Bad file descriptor (os error 9); 7 I/Os were in flight"
        );
        let removal = |hint| words(Operation::RemoveNames { more: 2 }, Errno::STALE, hint);
        assert_eq!(
            removal(Hint::Explained("it was replaced".into())),
            "cannot remove /x and 2 more: it was replaced"
        );
        assert_eq!(
            removal(Hint::None),
            "cannot remove /x and 2 more (unlink=1): Stale file handle (os error 116); remove them yourself"
        );
    }

    #[test]
    fn failures_that_no_system_call_reports_are_worded_alone() {
        let words = |op| Vocabulary::Keys.message(&error(op, Errno::TIMEDOUT, Hint::None));
        let (max_ns, took_ns) = (2_000_000, 3_000_000);
        assert_eq!(
            words(Operation::MeetLatency { dir: Dir::Read, max_ns, took_ns }),
            "max_latency=2000us exceeded: a read took 3000 µs"
        );
        let (dir, needed, reached) = (Dir::Read, 100, 99);
        assert_eq!(
            words(Operation::MeetRate { dir, in_bytes: false, needed, reached }),
            "rate_iops_min=100 not met: reads reached 99 IOPS"
        );
    }

    #[test]
    fn failed_commands_are_worded_as_the_device_reports_them() {
        let hint = Hint::Scsi(ScsiError::Sense(0xe, 0x1d, 0));
        let text = Vocabulary::Keys.message(&error(Operation::Fsync, Errno::IO, hint));
        assert_eq!(
            text,
            "fsync of /x failed: Input/output error (os error 5); the device reports sense key MISCOMPARE (Eh), \
             additional sense code 1Dh, qualifier 00h"
        );
    }

    #[test]
    fn limit_names_no_key() {
        let flags = Hint::RingFlags(vec!["IOPOLL".into()]);
        let buffers = Operation::AllocateBuffers { count: 8, bytes: 4096 };
        let read = Operation::Io { dir: Dir::Read, len: 4096, offset: 0 };
        let errors = [
            (Operation::Start, Hint::None),
            (Operation::SpawnWorker, Hint::None),
            (buffers, Hint::None),
            (Operation::SetUpRing(8), Hint::LockedMemory),
            (Operation::SetUpRing(8), flags),
            (Operation::SetUpRing(8), Hint::Seccomp),
            (Operation::RegisterBuffers(4096), Hint::None),
            (read, Hint::Misaligned),
        ];
        for (op, hint) in errors {
            let error = error(op, Errno::NOMEM, hint);
            let limit = Vocabulary::Limit.message(&error);
            for key in ["iodepth", "numjobs", " bs", "fixedbufs", "blockalign", "hipri"] {
                assert!(!limit.contains(key), "{limit}");
            }
        }
        let no_ring = error(Operation::SetUpRing(8), Errno::NOSYS, Hint::NoRing);
        let limit = Vocabulary::Limit.message(&no_ring);
        assert!(limit.contains("use `fathom run --ioengine=libaio`"), "{limit}");
        assert!(!limit.contains("psync"), "{limit}");
    }
}
