//! I/O engine, queue depth, and batching.

use super::accept_flag;
use crate::job::Job;
use crate::suggest;
use crate::value::{DEPTH_MAX, KeyValue};
use fathom_model::plan::{
    BUFFER_ALIGN, CpuLoad, Directive, Donor, Engine, HUGE_PAGE_BYTES, Memory, NameOp, Names,
    PlacementSelect, Psync, ScsiCommands, ScsiWrite, StatCall, Uring, WriteMode,
};

/// As in fio.
const PLACEMENTS_MAX: usize = 128;

/// The engines by all their names; what their keys set is in [`Job`].
pub(crate) fn engines() -> impl Iterator<Item = (&'static str, Engine)> {
    [
        ("io_uring", Engine::IoUring(Uring::default())),
        ("io_uring_cmd", Engine::IoUringCmd(Uring::default())),
        ("libaio", Engine::Libaio),
        ("linuxaio", Engine::Libaio),
        ("aio", Engine::Libaio),
        ("psync", Engine::Psync(Psync::Plain)),
        ("sync", Engine::Psync(Psync::Seek)),
        ("pvsync", Engine::Psync(Psync::Vectored)),
        ("pvsync2", Engine::Psync(Psync::VectoredFlags { hipri: false, nowait: false })),
        ("falloc", Engine::Psync(Psync::Allocate)),
        ("ftruncate", Engine::Psync(Psync::Truncate)),
        ("vsync", Engine::Vsync),
        ("mmap", Engine::Mmap),
        ("splice", Engine::Splice),
        ("e4defrag", Engine::MoveExtents(Donor::default())),
        ("posixaio", Engine::Posixaio),
        ("sg", Engine::Sg(ScsiCommands::default())),
        ("filecreate", Engine::Names(Names::new(NameOp::CreateFile))),
        ("filestat", Engine::Names(Names::new(NameOp::StatFile))),
        ("filedelete", Engine::Names(Names::new(NameOp::DeleteFile))),
        ("dircreate", Engine::Names(Names::new(NameOp::CreateDir))),
        ("dirstat", Engine::Names(Names::new(NameOp::StatDir))),
        ("dirdelete", Engine::Names(Names::new(NameOp::DeleteDir))),
        ("cpuio", Engine::Cpu(CpuLoad::default())),
        ("nop", Engine::Nop(Uring::default())),
        ("null", Engine::Null),
        ("cpp_null", Engine::Null),
    ]
    .into_iter()
}

keys! { Engine;
    value("NAME") "ioengine": "I/O engine: io_uring, io_uring_cmd, libaio, posixaio, psync, sync, vsync, pvsync, \
         pvsync2, mmap, splice, sg, falloc, ftruncate, e4defrag, null, nop, cpuio (CPU time without I/O), or operations on names: filecreate, filestat, \
         filedelete, dircreate, dirstat, dirdelete",
        "The default is io_uring, not psync. `nop` (a ring of no-ops) is fathom's own." = engine;
    value("COUNT") "iodepth": "Queue depth: number of I/Os to keep in flight", "At most 32768, the limit of io_uring."
        => depth = count32(1, DEPTH_MAX);
    value("COUNT") "iodepth_batch" | "iodepth_batch_submit": "Maximum number of I/Os to submit at once",
        "By default, adapts to the device: from a quarter of iodepth (at most 4) up to all of it."
        => batch.submit_max = depth();
    value("COUNT") "iodepth_batch_complete_min" | "iodepth_batch_complete": "Minimum number of completions to reap at \
         once"
        => batch.complete_min = count32(0, DEPTH_MAX);
    value("COUNT") "iodepth_batch_complete_max": "Maximum number of completions to reap at once",
        "By default, all available completions." => batch.complete_max = depth();
    value("COUNT") "iodepth_low": "Queue depth at which to start refilling the queue",
        "By default, refills the queue immediately." => batch.low = depth();
    flag "direct": "Use direct I/O (O_DIRECT)"
        @(e if e.moves_data()) -> direct;
    flag "buffered": "Use buffered I/O; the opposite of direct" => |job, v| job.direct = !v.flag()?;
    flag "atomic": "Atomic writes (RWF_ATOMIC; io_uring, libaio, pvsync2); implies direct"
        @(Engine::IoUring(_) | Engine::Libaio | Engine::Psync(Psync::VectoredFlags { .. })) -> flags.atomic;
    flag "uncached": "Buffered I/O whose pages are dropped afterwards (RWF_DONTCACHE; io_uring, pvsync2)"
        @(Engine::IoUring(_) | Engine::Psync(Psync::VectoredFlags { .. })) -> flags.uncached;
    flag "serialize_overlap": "Let an I/O wait for those in flight that overlap it" -> serialize_overlap;
    flag "hipri": "Poll for completions (io_uring, io_uring_cmd, pvsync2, sg)",
        "The kernel's SCSI drivers ignore it (sg); the results say so."
        @(Engine::IoUring(_) | Engine::IoUringCmd(_) | Engine::Sg(_) | Engine::Psync(Psync::VectoredFlags { .. }))
        -> ring.iopoll;
    flag "hybrid_iopoll": "With hipri, sleep before polling (IORING_SETUP_HYBRID_IOPOLL, Linux 6.13; io_uring, \
         io_uring_cmd)",
        "fathom's own."
        @(Engine::IoUring(_) | Engine::IoUringCmd(_)) -> ring.hybrid_iopoll;
    flag "fixedbufs": "Register the I/O buffers with the ring", "On by default, since it only reduces CPU time."
        @(e if e.uring().is_some()) -> ring.fixed_buffers;
    flag "registerfiles": "Register the files with the ring", "On by default, since it only reduces CPU time."
        @(e if e.uring().is_some()) -> ring.registered_files;
    flag "sqthread_poll": "Let a kernel thread submit I/O (SQPOLL)"
        @(e if e.uring().is_some()) -> sqthread_poll;
    value("CPU") "sqthread_poll_cpu": "CPU of the SQPOLL thread"
        @(e if e.uring().is_some()) => |job, v| job.poller.cpu = Some(v.count32(0, 8191)?);
    value("TIME") "sqthread_poll_idle": "Idle time after which the SQPOLL thread sleeps; default unit: ms",
        "Not in fio."
        @(e if e.uring().is_some()) => |job, v| {
            let ms = v.time_ns(1_000_000)? / 1_000_000;
            let idle = u32::try_from(ms).ok().filter(|ms| *ms > 0);
            job.poller.idle_ms = Some(idle.ok_or("value out of range; use 1 ms to 49 days")?);
        };
    flag "nonvectored": "Use READ and WRITE instead of READV and WRITEV"
        @(e if e.uring().is_some()) => |job, v| job.ring.vectored = match v.text {
            // In fio, "choose automatically".
            "-1" => false,
            _ => !v.flag()?,
        };
    value("N") "force_async": "Issue every Nth I/O with IOSQE_ASYNC"
        @(e if e.uring().is_some()) => ring.force_async = count32(0, u32::MAX);
    value("CALL") "stat_type": "System call of filestat and dirstat: stat, lstat or statx"
        @(Engine::Names(names) if names.op.is_stat()) => stat_type = choice(&[
            ("stat", StatCall::Stat), ("lstat", StatCall::Lstat), ("statx", StatCall::Statx)
        ]);
    value("PERCENT") "cpuload": "Share of a CPU to use (cpuio)"
        @(Engine::Cpu(_)) => |job, v| job.cpu_load.percent = v.count32(0, u32::MAX)?.min(100);
    value("TIME") "cpuchunks": "Length of each busy period; default unit: µs (cpuio)"
        @(Engine::Cpu(_)) => cpu_load.chunk_ns = time_ns(1_000);
    value("noop|qsort") "cpumode": "What uses the CPU time: a loop (noop), or sorting of numbers (qsort) (cpuio)"
        @(Engine::Cpu(_)) @off "noop" => cpu_load.sorts = choice(&[("noop", false), ("qsort", true)]);
    flag "exit_on_io_done": "End when the jobs of all other engines have ended (cpuio)"
        @(Engine::Cpu(_)) -> cpu_load.ends_with_io;
    value("PATH") "donorname": "File on the same ext4 whose blocks are exchanged with those of the job's files (e4defrag)",
        "Writing to an existing file needs `--overwrite=`." @(Engine::MoveExtents(_)) => |job, v| job.donor.path = v.text.to_string();
    flag "inplace": "Allocate the blocks of donorname with each I/O, and free them afterwards (e4defrag)",
        "They are freed by punching a hole, so that the file keeps its size."
        @(Engine::MoveExtents(_)) -> donor.in_place;
    flag "nowait": "Set RWF_NOWAIT (pvsync2)"
        @(Engine::Psync(Psync::VectoredFlags { .. })) -> nowait;
    value("nvme|bsg") "cmd_type": "Type of passthrough commands: nvme, or SCSI on /dev/bsg/H:C:T:L (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) => bsg = choice(&[("nvme", false), ("bsg", true)]);
    value("MODE|MODE/PERCENT:…") "write_mode": "NVMe command of writes: write, zeroes, uncor, verify or zone_append, or a mix; \
         SCSI command with cmd_type=bsg: write or verify (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) @off "write" => |job, v| job.ring.nvme.write_modes = write_modes(v)?;
    flag "readfua": "Set the Force Unit Access bit of reads (io_uring_cmd, sg)"
        @(e if e.is_passthrough()) -> ring.nvme.read_fua;
    flag "writefua": "Set the Force Unit Access bit of writes (io_uring_cmd, sg)"
        @(e if e.is_passthrough()) -> ring.nvme.write_fua;
    flag "deac": "Set the Deallocate bit of write_mode=zeroes (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) -> ring.nvme.deallocate;
    value("COUNT") "num_range": "Ranges of each trim, from 1 to 256 (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) @off "1" => ring.nvme.ranges = count32(1, 256);
    value("0|1") "pi_act": "Protection information: 1, the controller adds and removes it; 0, it is transferred, and made and checked by \
         fathom (io_uring_cmd)",
        "On namespaces with 16-bit guards whose metadata are transferred apart from the data."
        @(Engine::IoUringCmd(_)) @off "1" => |job, v| job.ring.nvme.protection.by_host = !v.flag()?;
    value("GUARD,REFTAG,APPTAG") "pi_chk": "Parts of the protection information to check (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) = protection_checks;
    value("NUMBER") "apptag": "Application tag of the protection information; default: 0x1234 (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) => |job, v| job.ring.nvme.protection.tag = v.count32(0, u32::from(u16::MAX))? as u16;
    value("NUMBER") "apptag_mask": "Bits of apptag to check; default: 0xffff (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) => |job, v| job.ring.nvme.protection.mask = v.count32(0, u32::from(u16::MAX))? as u16;
    value("SIZE") "md_per_io_size": "No effect: buffers of metadata are as large as the I/Os need",
        "fio needs it on namespaces whose metadata are transferred apart from the data." = |_, v| v.bytes().map(|_| ());
    flag "fdp": "The same as dataplacement=fdp (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) -> fdp;
    value("KIND") "dataplacement" | "data_placement": "Which writes belong together: none, fdp (flexible data placement) or streams \
         (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) @off "none" => directive = choice(&[
            ("none", None), ("fdp", Some(Directive::Placement)), ("streams", Some(Directive::Streams))
        ]);
    value("HOW") "plid_select" | "fdp_pli_select": "How each write gets its placement: roundrobin, random or scheme (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) @off "roundrobin" => placing.select = choice(&[
            ("roundrobin", PlacementSelect::RoundRobin), ("random", PlacementSelect::Random),
            ("scheme", PlacementSelect::ByOffset)
        ]);
    value("N|N-M,…") "plids" | "fdp_pli": "Indices in the device's list of placement identifiers, by default all, or streams \
         (io_uring_cmd)"
        @(Engine::IoUringCmd(_)) => |job, v| job.placing.ids = placements(v)?;
    value("FILE") "dp_scheme": "File of lines `START, END, IDENTIFIER` for plid_select=scheme (io_uring_cmd)",
        "All lines hold, not only 32."
        @(Engine::IoUringCmd(_)) => dp_scheme = some_text();
    value("MODE") "sg_write_mode": "SCSI command of writes: write, write_and_verify, write_same, write_same_ndob, \
         write_stream, verify_bytchk_00, verify_bytchk_01 or verify_bytchk_11 (sg)"
        @(Engine::Sg(_)) @off "write" => scsi.write = choice(&[
            ("write", ScsiWrite::Write), ("write_and_verify", ScsiWrite::WriteAndVerify),
            ("verify", ScsiWrite::WriteAndVerify), ("write_same", ScsiWrite::WriteSame),
            ("same", ScsiWrite::WriteSame), ("write_same_ndob", ScsiWrite::WriteSameNdob),
            ("write_stream", ScsiWrite::WriteStream), ("verify_bytchk_00", ScsiWrite::VerifyMedium),
            ("verify_bytchk_01", ScsiWrite::VerifyData), ("verify_bytchk_11", ScsiWrite::VerifyBlock)
        ]);
    value("NUMBER") "stream_id": "Stream that sg_write_mode=write_stream writes to (sg)",
        "fathom opens no stream, so write_stream needs one."
        @(Engine::Sg(_)) => |job, v| job.scsi.stream = v.count32(0, u32::from(u16::MAX))? as u16;
    flag "userspace_reap": "No effect: io_getevents reaps the completions of libaio",
        "No effect: io_uring reaps completions from user space, libaio does not." = accept_flag;
    value("KIND") "mem" | "iomem": "Buffer memory: malloc, shm, shmhuge, mmap, mmapshared or mmaphuge",
        "Buffers are always anonymous memory, in normal or huge pages; file-backed mmap is refused."
        => buffers.memory = choice(&[
            ("malloc", Memory::Normal), ("shm", Memory::Normal), ("mmap", Memory::Normal),
            ("mmapshared", Memory::Normal), ("shmhuge", Memory::Huge), ("mmaphuge", Memory::Huge)
        ]);
    value("SIZE") "mem_align" | "iomem_align": "Minimum alignment of I/O buffers",
        "Buffers are always page-aligned; more is refused." = |_, v| match v.bytes()? {
            align if align > BUFFER_ALIGN => Err(format!(
                "buffers are aligned to pages of {BUFFER_ALIGN} bytes; use {BUFFER_ALIGN} or less"
            )),
            align if align > 0 && !align.is_power_of_two() => {
                Err(format!("{align} is no power of two; use one"))
            }
            _ => Ok(()),
        };
    value("SIZE") "hugepage-size": "Size of huge pages", "Only 2m is supported." = |_, v| match v.bytes()? {
            HUGE_PAGE_BYTES => Ok(()),
            other => Err(format!("huge pages of {other} bytes are not supported; use 2m")),
        };
    value("inline|offload") "io_submit_mode": "Submit from the job's own thread or from others",
        "No effect: arrivals of a rate-limited job are never delayed by a stall, which is the purpose of `offload`."
        = |_, v| v.choice(&[("inline", ()), ("offload", ())]);
    any "thread" | "threads": "Run jobs as threads (always the case)",
        "Jobs are always threads. As in fio, `threads` is accepted, too." = accept_flag;
}

/// As in fio, in ascending order.
fn placements(v: KeyValue<'_>) -> Result<Vec<u16>, String> {
    let mut ids = Vec::new();
    for part in v.text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| v.with(text.trim()).count32(0, u32::from(u16::MAX));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("'{part}' is no range; use {last}-{first}"));
        }
        ids.extend((first..=last).map(|id| id as u16));
    }
    if ids.len() > PLACEMENTS_MAX {
        let count = ids.len();
        return Err(format!("{count} placements given; use at most {PLACEMENTS_MAX}"));
    }
    ids.sort_unstable();
    Ok(ids)
}

fn protection_checks(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let words = v.text.split(',').map(|word| {
        v.with(word.trim()).choice(&[
            ("GUARD", "GUARD"),
            ("REFTAG", "REFTAG"),
            ("APPTAG", "APPTAG"),
        ])
    });
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let checks = &mut job.ring.nvme.protection;
    checks.guard = words.contains(&"GUARD");
    checks.reference = words.contains(&"REFTAG");
    checks.application = words.contains(&"APPTAG");
    Ok(())
}

fn engine(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    if let Some((_, engine)) = engines().find(|(word, _)| *word == v.text) {
        job.engine = engine;
        return Ok(());
    }
    // As in fio, what follows a colon is a path, or a detail of the engine; an engine may also be a path itself.
    let word = v.text.split(':').next().unwrap_or(v.text);
    let word = word.rsplit('/').next().unwrap_or(word);
    if let Some((_, instead)) =
        OTHERS.iter().find(|(words, _)| words.split(' ').any(|other| other == word))
    {
        return Err(format!("fio's engine '{word}' is not supported; {instead}"));
    }
    let near = suggest::nearest(word, engines().map(|(word, _)| word));
    let near = near.unwrap_or("io_uring, libaio, psync, sync, pvsync, pvsync2 or null");
    Err(format!("unknown engine '{}'; use {near}", v.text))
}

/// fio's other engines, and what to do instead.
const OTHERS: &[(&str, &str)] = &[
    ("binject guasi solarisaio syslet-rw windowsaio", "use io_uring or libaio"),
    ("pmem libpmem pmemblk dev-dax dev_dax", "use mmap on a file"),
    ("fusion-aw-sync", "use io_uring, libaio or pvsync2 with atomic=1"),
    (
        "nvme spdk spdk_bdev spdk_nvme xnvme libblkio libnvme",
        "use io_uring, or io_uring_cmd on /dev/ngXnY",
    ),
    ("exec", "fathom never runs commands from a job file; run the program alongside fathom"),
    ("page_fault", "it measures faults on memory without a file; use mmap on a file"),
    (
        "mtd",
        "flash memory without a controller has no block layer; use io_uring on /dev/mtdblockN, or a file on UBIFS",
    ),
    (
        "ftp http librpma_apm_client librpma_apm_server librpma_gpspm_client librpma_gpspm_server net netsplice rdma",
        "fathom does storage I/O only; use fio",
    ),
    (
        "bsg dfs external filecopy gfapi gfapi_async ime_aio ime_psync ime_psyncv libcufile libhdfs libhipfile \
         libiscsi libzbc nbd nfs rados rbd",
        "mount the storage, or attach it as a block device, and use io_uring on that",
    ),
];

/// A mode, or modes with percentages; as in fio, those without one share the rest.
fn write_modes(v: KeyValue<'_>) -> Result<Vec<(WriteMode, u32)>, String> {
    let mode = |text: &str| {
        v.with(text.trim()).choice(&[
            ("write", WriteMode::Write),
            ("zeroes", WriteMode::Zeroes),
            ("uncor", WriteMode::Uncorrectable),
            ("verify", WriteMode::Verify),
            ("zone_append", WriteMode::Append),
        ])
    };
    if !v.text.contains('/') {
        return Ok(vec![(mode(v.text)?, 100)]);
    }
    let mut modes = Vec::new();
    for part in v.text.split(':') {
        let missing = || format!("'{part}' has no percentage; write it as write/60:zeroes/40");
        let (word, percent) = part.split_once('/').ok_or_else(missing)?;
        let given = (!percent.trim().is_empty()).then(|| v.with(percent.trim()).count32(0, 100));
        modes.push((mode(word)?, given.transpose()?));
    }
    let sum: u32 = modes.iter().filter_map(|mode| mode.1).sum();
    let open = modes.iter().filter(|mode| mode.1.is_none()).count() as u32;
    if sum > 100 || (open == 0 && sum < 100) {
        return Err(format!("the percentages add up to {sum}%; change that to 100%"));
    }
    let rest = (100 - sum) / open.max(1);
    Ok(modes.into_iter().map(|(mode, percent)| (mode, percent.unwrap_or(rest))).collect())
}
