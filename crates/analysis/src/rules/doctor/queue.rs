//! Settings of a disk's request queue.

#[cfg(test)]
use super::testing::{queue, without_requests};
use super::{bad, bad_as, check, good, judged};
use fathom_model::finding::Severity;
use fathom_model::setting::Setting;

/// I/Os of this size should not be split.
const LARGE_KB: u64 = 1024;
/// Requests per hardware queue that a driver without tags of its own should have.
const REQUESTS: u64 = 128;

check! { SCHEDULER: Disk, Warning {
    id: "scheduler",
    title: "I/O scheduler",
    reads: "queue/scheduler",
    says: "the I/O scheduler is FOUND; WANTED has less overhead",
    good: "none, on NVMe and other solid-state disks, unless I/O priorities or cgroup weights are used; hard disks and \
           zoned devices keep mq-deadline or bfq",
    cost: "A scheduler adds a lock and a merge lookup to each I/O and bypasses the driver's batched submission, which \
           can halve the IOPS of a fast disk.",
    why: "With a scheduler, a plug list is inserted one request at a time instead of going to the driver's queue_rqs \
          (kernel block/blk-mq.c, blk_mq_flush_plug_list; Documentation/block/switching-sched.rst)",
    change: "echo WANTED >/sys/block/DISK/queue/scheduler",
    fix: Some(Setting::Scheduler),
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let text = disk.files.text("queue/scheduler")?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let chosen = chosen.map_or(text, |(name, _)| name);
        if !disk.is_solid() || disk.is_zoned() || chosen == "none" {
            return good(chosen);
        }
        // Only fast disks lose IOPS.
        let severity = if disk.is_nvme() { Severity::Warning } else { Severity::Info };
        bad_as(severity, chosen, "none")
    },
    case: |i| queue(i, "scheduler", "none [mq-deadline] kyber"),
    near_miss: |i| {
        queue(i, "scheduler", "none [mq-deadline] kyber");
        queue(i, "zoned", "host-managed");
    },
} }

check! { NR_REQUESTS: Disk, Warning {
    id: "nr-requests",
    title: "requests per hardware queue",
    reads: "queue/nr_requests",
    says: "only FOUND requests fit into a hardware queue; the driver takes WANTED",
    good: "as many as the driver has tags (mq/0/nr_tags), and at least 128 with a scheduler, for workloads with a high queue depth",
    cost: "I/Os beyond this number wait in the kernel for a free request, which only adds latency.",
    why: "blk_mq_get_tag() sleeps when all tags are taken (kernel Documentation/ABI/stable/sysfs-block, nr_requests)",
    change: "echo WANTED >/sys/block/DISK/queue/nr_requests",
    fix: Some(Setting::NrRequests),
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.number("queue/nr_requests")?;
        let tags = disk.files.number("mq/0/nr_tags")?;
        let wanted = tags.min(REQUESTS);
        if now < wanted { bad(now.to_string(), wanted.to_string()) } else { good(now.to_string()) }
    },
    case: |i| queue(i, "nr_requests", "127"),
    near_miss: |i| queue(i, "nr_requests", "128"),
} }

check! { IOSTATS: Disk, Warning {
    id: "iostats",
    title: "I/O statistics",
    reads: "queue/iostats",
    says: "I/O statistics are disabled",
    good: "1, to monitor the disk; 0 saves at most a few percent of CPU time",
    cost: "With 0, /proc/diskstats counts nothing: neither fathom nor iostat sees the disk's I/O.",
    why: "blk_account_io_start() and _done() are skipped (kernel Documentation/ABI/stable/sysfs-block, iostats)",
    change: "echo WANTED >/sys/block/DISK/queue/iostats",
    fix: Some(Setting::Iostats),
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.text("queue/iostats")?;
        judged(now == "0", now, "1")
    },
    case: |i| queue(i, "iostats", "0"),
    near_miss: |i| {
        queue(i, "iostats", "0");
        without_requests(i);
    },
} }

check! { RQ_AFFINITY: Disk, Warning {
    id: "rq-affinity",
    title: "CPU of completions",
    reads: "queue/rq_affinity",
    says: "completions run on the CPU that the interrupt arrives at",
    good: "1, or 2 to complete on exactly the submitting CPU, for all workloads",
    cost: "With 0, a completion runs wherever the interrupt arrives, with the request's data in another CPU's cache.",
    why: "blk_mq_complete_need_ipi() (kernel Documentation/ABI/stable/sysfs-block, rq_affinity)",
    change: "echo WANTED >/sys/block/DISK/queue/rq_affinity",
    fix: Some(Setting::RqAffinity),
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.text("queue/rq_affinity")?;
        judged(now == "0", now, "1")
    },
    case: |i| queue(i, "rq_affinity", "0"),
    near_miss: |i| queue(i, "rq_affinity", "2"),
} }

check! { MAX_SECTORS: Disk, Info {
    id: "max-sectors",
    title: "largest request, KiB",
    reads: "queue/max_sectors_kb",
    says: "I/Os above FOUND KiB are split; the hardware takes WANTED KiB",
    good: "at least 1024, or the hardware limit (max_hw_sectors_kb), for workloads with large I/Os",
    cost: "Larger I/Os are split, which costs CPU time, and complete only when their slowest part does.",
    why: "bio_split_rw() splits at max_sectors (kernel Documentation/ABI/stable/sysfs-block, max_sectors_kb)",
    change: "echo WANTED >/sys/block/DISK/queue/max_sectors_kb",
    // Some USB bridges fail with larger requests than their driver sets.
    fix: None,
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.number("queue/max_sectors_kb")?;
        let wanted = disk.files.number("queue/max_hw_sectors_kb")?.min(LARGE_KB);
        if now < wanted { bad(now.to_string(), wanted.to_string()) } else { good(now.to_string()) }
    },
    case: |i| queue(i, "max_sectors_kb", "512"),
    near_miss: |i| {
        queue(i, "max_sectors_kb", "512");
        queue(i, "max_hw_sectors_kb", "512");
    },
} }

check! { READ_AHEAD: Disk, Warning {
    id: "read-ahead",
    title: "read-ahead, KiB",
    reads: "queue/read_ahead_kb",
    says: "read-ahead is disabled",
    good: "128 to 4096, for sequential buffered reads; no effect on direct I/O, and little on random reads",
    cost: "With 0, sequential buffered reads wait for one page at a time.",
    why: "page_cache_sync_readahead() (kernel Documentation/ABI/stable/sysfs-block, read_ahead_kb)",
    change: "echo WANTED >/sys/block/DISK/queue/read_ahead_kb",
    fix: Some(Setting::ReadAheadKb),
    judge: |disk| {
        let now = disk.files.number("queue/read_ahead_kb")?;
        if now == 0 { bad("0", "128") } else { good(now.to_string()) }
    },
    case: |i| queue(i, "read_ahead_kb", "0"),
    near_miss: |i| queue(i, "read_ahead_kb", "64"),
} }

check! { POLL_QUEUES: Disk, Info {
    id: "poll-queues",
    title: "queues for polled I/O",
    reads: "queue/io_poll",
    says: "the driver has no queues for polled I/O",
    good: "1, for polled I/O (hipri=1); otherwise irrelevant",
    cost: "Without poll queues, polled I/O fails or silently waits for interrupts.",
    why: "BLK_FEAT_POLL is set only for drivers with queues of type HCTX_TYPE_POLL; writing queue/io_poll has no effect \
          since Linux 5.16 (kernel block/blk-sysfs.c)",
    change: "boot with nvme.poll_queues=N, or reload the driver: modprobe -r nvme && modprobe nvme poll_queues=N",
    fix: None,
    judge: |disk| {
        if !disk.is_nvme() || !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.text("queue/io_poll")?;
        judged(now == "0", now, "1, to measure polled I/O")
    },
    case: |i| queue(i, "io_poll", "0"),
    near_miss: |i| queue(i, "io_poll", "1"),
} }

check! { NOMERGES: Disk, Info {
    id: "nomerges",
    title: "merging of requests",
    reads: "queue/nomerges",
    says: "the kernel tries to merge random I/Os (nomerges is FOUND)",
    good: "2 (none) for random I/O on fast disks; 0 (all) for sequential buffered I/O and hard disks",
    cost: "With 0, the kernel tries to merge each I/O with those queued before it, from which random I/O gains nothing; \
           the CPU time is a few percent at most.",
    why: "blk_attempt_plug_merge() and the scheduler's lookup (kernel Documentation/ABI/stable/sysfs-block, nomerges)",
    change: "echo 2 >/sys/block/DISK/queue/nomerges",
    fix: None,
    judge: |disk| {
        let now = disk.files.text("queue/nomerges")?;
        judged(disk.is_nvme() && disk.has_requests() && now != "2", now, "2, for random I/O only")
    },
    case: |i| queue(i, "nomerges", "0"),
    near_miss: |i| queue(i, "nomerges", "2"),
} }

check! { WRITEBACK_THROTTLING: Disk, Info {
    id: "wbt-latency",
    title: "writeback throttling, µs",
    reads: "queue/wbt_lat_usec",
    says: "writeback throttling is on, with a target of FOUND µs",
    good: "0, to measure writes; otherwise the default protects reads from background writes",
    cost: "Buffered writes are held back while reads take longer than this.",
    why: "kernel block/blk-wbt.c; Documentation/ABI/stable/sysfs-block, wbt_lat_usec",
    change: "echo 0 >/sys/block/DISK/queue/wbt_lat_usec",
    fix: None,
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.number("queue/wbt_lat_usec")?;
        judged(now != 0, now.to_string(), "0, to measure writes")
    },
    case: |i| queue(i, "wbt_lat_usec", "2000"),
    near_miss: |i| queue(i, "wbt_lat_usec", "0"),
} }

check! { MAX_SEGMENTS: Disk, Info {
    id: "max-segments",
    title: "segments per request",
    reads: "queue/max_segments",
    says: "a request has at most FOUND segments",
    good: "at least as many as the largest I/O has pages (256 for 1 MiB), or buffers in huge pages",
    cost: "A 1 MiB I/O whose pages are not contiguous is split even if max_sectors_kb allows it.",
    why: "Each page that does not adjoin the previous one is a segment; NVMe long had a limit of 127, hence splits at 512 KiB \
          (kernel drivers/nvme/host/pci.c, NVME_MAX_SEGS)",
    change: "use huge pages for buffers: --mem=mmaphuge, or transparent huge pages",
    fix: None,
    judge: |disk| {
        if !disk.has_requests() {
            return Ok(None);
        }
        let now = disk.files.number("queue/max_segments")?;
        let pages = disk.files.number("queue/max_sectors_kb")?.min(LARGE_KB) / 4;
        // 65535 and 0 mean unlimited.
        judged(now > 0 && now < pages, now.to_string(), "256, or huge pages for 1 MiB I/Os")
    },
    case: |i| queue(i, "max_segments", "127"),
    near_miss: |i| queue(i, "max_segments", "256"),
} }

check! { ADD_RANDOM: Disk, Info {
    id: "add-random",
    title: "entropy from completions",
    reads: "queue/add_random",
    says: "completions feed the random number generator",
    good: "0 on solid-state disks, for all workloads",
    cost: "Each completion feeds the random number generator, to no benefit on disks without moving parts.",
    why: "add_disk_randomness() (kernel Documentation/ABI/stable/sysfs-block, add_random)",
    change: "echo 0 >/sys/block/DISK/queue/add_random",
    fix: None,
    judge: |disk| {
        let now = disk.files.text("queue/add_random")?;
        match (disk.is_solid() && disk.has_requests(), now) {
            (true, "1") => bad_as(Severity::Info, "1", "0"),
            _ => good(now),
        }
    },
    case: |i| queue(i, "add_random", "1"),
    near_miss: |i| queue(i, "add_random", "0"),
} }
