//! Rejects what cannot be done, before anything is.

use super::regions::Part;
use super::{File, engine, jobs};
use crate::job::{EngineName, JobSpec, RwKind, Size};
use crate::spec::Spec;
use fathom_model::Dir;
use fathom_model::cpus;
use fathom_model::facts::{Facts, TargetKind};
use fathom_model::plan::{BlockSizes, Distribution, Mix, ScsiWrite, WriteMode};
use fathom_model::units::bytes as show;

/// What is wrong with a key of a job; the key is empty if it is not about one.
pub(super) type KeyProblem = (&'static str, String);

pub(super) fn settings(job: &JobSpec, facts: &Facts) -> Vec<KeyProblem> {
    let mut problems = Vec::new();
    for dir in Dir::ALL {
        if job.rate.bytes[dir].is_some() && job.rate.iops[dir].is_some() {
            let why = format!("rate and rate_iops both limit {dir}s; remove one");
            problems.push(("rate_iops", why));
        }
    }
    problems.extend(priorities(job));
    let name = job.engine.name.name();
    problems.extend(
        engine::unsupported_keys(job)
            .map(|key| (key, format!("ioengine={name} does not support {key}; remove it"))),
    );
    for key in ["sqthread_poll_cpu", "sqthread_poll_idle"] {
        if job.has_own(key) && !job.engine.sqpoll {
            let why =
                format!("{key} has no effect without sqthread_poll=1; set that, or remove it");
            problems.push((key, why));
        }
    }
    if let Some((dir, instead)) = engine::without(job) {
        problems.push(("rw", format!("{name} does not support {dir}; {instead}")));
    }
    problems.extend(trim_write(job));
    if job.plan.pre_read && job.is_direct() && job.mix().has(Dir::Read) {
        let why = "pre_read fills the page cache, which direct I/O bypasses; remove one of them";
        problems.push(("pre_read", why.to_string()));
    }
    if job.fresh_passes() > 1 && job.mix().has(Dir::Read) {
        let why =
            "unlink_each_loop leaves nothing to read for the second pass; remove it, or loops";
        problems.push(("unlink_each_loop", why.to_string()));
    }
    problems.extend(trim_ranges(job));
    problems.extend(scsi(job));
    problems.extend(bsg(job));
    problems.extend(steady_state(job));
    problems.extend(polling(job));
    if job.engine.name == EngineName::IoUringCmd && job.engine.uring.vectored {
        let why = "nonvectored=0 has no effect with io_uring_cmd; remove it";
        problems.push(("nonvectored", why.to_string()));
    }
    problems.extend(too_large(job));
    problems.extend(cpus(job, facts));
    problems
}

fn trim_write(job: &JobSpec) -> Option<KeyProblem> {
    if job.work.rw.kind != RwKind::TrimWrite {
        return None;
    }
    let rates = |dir: Dir| job.rate.iops[dir].is_some() || job.rate.bytes[dir].is_some();
    let limited = job.used_dirs().any(rates) || job.rate.flow > 0;
    let why = "the writes of trimwrite follow its trims; remove rate, rate_iops and flow";
    limited.then(|| ("rw", why.to_string()))
}

fn trim_ranges(job: &JobSpec) -> Option<KeyProblem> {
    let count = u64::from(job.engine.uring.nvme.ranges);
    if count <= 1 || !job.mix().has(Dir::Trim) {
        return None;
    }
    let why = match job.mix() {
        Mix::TrimThenWrite => "a write follows a trim of one range; remove num_range",
        _ if job.engine.serialize_overlap => "num_range and serialize_overlap conflict; remove one",
        _ if job.plan.access.block_sizes.trim.max().saturating_mul(count) > u64::from(u32::MAX) => {
            "one trim is limited to 4 GiB in all its ranges; lower num_range, or bs"
        }
        _ => return None,
    };
    Some(("num_range", why.to_string()))
}

/// Checks keys of SCSI commands against the command that writes are.
fn scsi(job: &JobSpec) -> Option<KeyProblem> {
    if job.engine.name != EngineName::Sg || !job.mix().has(Dir::Write) {
        return None;
    }
    match job.engine.scsi.write {
        ScsiWrite::WriteStream if job.engine.scsi.stream == 0 => {
            let why = "write_stream needs an open stream; set stream_id";
            Some(("sg_write_mode", why.to_string()))
        }
        ScsiWrite::Write | ScsiWrite::WriteStream => None,
        _ if job.engine.uring.nvme.write_fua => {
            let why = "writefua is a bit of sg_write_mode=write and write_stream only; remove one of them";
            Some(("writefua", why.to_string()))
        }
        _ => None,
    }
}

/// Checks keys of NVMe commands in a job of SCSI commands on a ring.
fn bsg(job: &JobSpec) -> Option<KeyProblem> {
    if job.engine.name != EngineName::IoUringCmd || !job.engine.bsg {
        return None;
    }
    let nvme = &job.engine.uring.nvme;
    let is_one = |mode| matches!(nvme.write_modes[..], [(only, _)] if only == mode);
    let known = nvme.write_modes.is_empty() || is_one(WriteMode::Write);
    let (key, why) = match () {
        () if nvme.deallocate => {
            ("deac", "deac is a bit of NVMe commands; remove it, or cmd_type=bsg")
        }
        () if nvme.ranges > 1 => {
            ("num_range", "cmd_type=bsg trims one range at a time; remove num_range")
        }
        () if !known && !is_one(WriteMode::Verify) => (
            "write_mode",
            "with cmd_type=bsg, writes are write_mode=write or verify, without a mix",
        ),
        () if !known && nvme.write_fua => (
            "writefua",
            "VERIFY has no Force Unit Access bit; remove writefua or write_mode=verify",
        ),
        () => return None,
    };
    Some((key, why.to_string()))
}

fn steady_state(job: &JobSpec) -> Option<KeyProblem> {
    let work = &job.work;
    if !work.to_steady_state {
        return None;
    }
    let is_write = work.rw.random && job.mix() == Mix::Only(Dir::Write);
    let size = job.plan.access.block_sizes.write.min();
    let why = if !is_write {
        "sprandom writes at random; use rw=randwrite"
    } else if job.plan.access.block_sizes.write != BlockSizes::Fixed(size) {
        "sprandom writes blocks of one size; use bs"
    } else if work.align.write.is_some_and(|align| align != size) {
        "sprandom writes every block; use blockalign=bs, or remove it"
    } else if work.distribution.is_some()
        || work.rw.postfix.is_some()
        || job.plan.access.random_percent.write != 100
    {
        "sprandom chooses all offsets; remove random_distribution, percentage_random and what follows randwrite"
    } else if job.numjobs > 1 {
        "sprandom writes all of a target in one job; remove numjobs"
    } else {
        return None;
    };
    Some(("sprandom", why.to_string()))
}

/// Largest block size of reads and writes in bytes: Linux limits them to just below 2 GiB (MAX_RW_COUNT).
const TRANSFER_MAX: u64 = 1 << 30;

fn too_large(job: &JobSpec) -> Option<KeyProblem> {
    if matches!(job.engine.name, EngineName::Falloc | EngineName::Null | EngineName::Nop) {
        return None;
    }
    let moves = |dir: &Dir| *dir != Dir::Trim;
    let sizes = job.used_dirs().filter(moves).map(|dir| job.plan.access.block_sizes[dir].max());
    let size = sizes.max().filter(|size| *size > TRANSFER_MAX)?;
    let key = ["bs", "bsrange", "bssplit"].into_iter().rfind(|key| job.has(key))?;
    let why = format!(
        "block size of {} exceeds what Linux reads or writes at once; use 1g or less",
        show(size)
    );
    Some((key, why))
}

/// Checks the priorities of single I/Os, of which each may have only one.
fn priorities(job: &JobSpec) -> Option<KeyProblem> {
    if job.has("cmdprio_percentage") && job.has("cmdprio_bssplit") {
        let why = "cmdprio_percentage and cmdprio_bssplit conflict; remove one";
        return Some(("cmdprio_bssplit", why.to_string()));
    }
    let mut sums = job.priorities.split.iter().flat_map(|(_, parts)| {
        parts.iter().map(|part| {
            let same = parts.iter().filter(|other| other.block == part.block);
            (part.block, same.map(|part| part.percent).sum::<u32>())
        })
    });
    let (size, sum) = sums.find(|(_, sum)| *sum > 100)?;
    let why = format!("the percentages for {} add up to {sum}%; use at most 100%", show(size));
    Some(("cmdprio_bssplit", why))
}

fn cpus(job: &JobSpec, facts: &Facts) -> Option<KeyProblem> {
    let poller = job.engine.sqpoll_cpu.filter(|_| job.engine.sqpoll);
    let allowed = &facts.host.cpus_allowed;
    if allowed.is_empty() {
        return None;
    }
    let wanted = job.placement.cpus.iter().map(|cpu| ("cpus_allowed", *cpu));
    let mut wanted = wanted.chain(poller.map(|cpu| ("sqthread_poll_cpu", cpu)));
    let (key, cpu) = wanted.find(|(_, cpu)| !allowed.contains(cpu))?;
    let allowed = cpus::list(allowed);
    Some((key, format!("CPU {cpu} is not among the CPUs that this process may use: {allowed}")))
}

fn polling(job: &JobSpec) -> Option<KeyProblem> {
    let ring = &job.engine.uring;
    if ring.hybrid_iopoll && !ring.iopoll && job.engine.name.is_ring() {
        return Some(("hybrid_iopoll", "it changes how hipri polls; set hipri=1".to_string()));
    }
    if job.engine.name != EngineName::IoUring || !ring.iopoll {
        return None;
    }
    if !job.is_direct() {
        let why = "hipri polls only direct I/O; set direct=1, or remove hipri";
        return Some(("hipri", why.to_string()));
    }
    let mix = job.mix();
    let sync = &job.plan.sync;
    let flushes = [
        ("fsync", sync.fsync_every > 0),
        ("fdatasync", sync.fdatasync_every > 0),
        ("end_fsync", sync.at_end),
        ("fsync_on_close", sync.on_close),
    ];
    // Jobs that only read never flush: ignore keys from [global].
    let flush = flushes.into_iter().find(|(_, on)| *on && mix.has(Dir::Write));
    let (what, key) = match flush {
        Some((key, _)) => ("flush", key),
        None if mix.has(Dir::Trim) => ("trim", "the trims"),
        None => return None,
    };
    let why = format!(
        "the kernel does not {what} through a polled ring; remove hipri or {key}, \
         or use --ioengine=pvsync2, which polls too"
    );
    Some(("hipri", why))
}

/// `why` a file cannot be used; one that is missing may be part of a name with a colon.
pub(super) fn with_colon_hint(job: &JobSpec, file: &File<'_>, why: String) -> String {
    match (file.facts.kind, job.files.filename.len()) {
        (TargetKind::Missing, 2..) => {
            format!(
                "{why}; filename was split at ':': for a colon that is part of a name, write '\\:'"
            )
        }
        _ => why,
    }
}

pub(super) fn target(job: &JobSpec, file: &File<'_>, spec: &Spec) -> Result<(), String> {
    let path = &file.path;
    match file.facts.kind {
        TargetKind::Directory => {
            return Err(format!("{path} is a directory; to use files in it, set directory={path}"));
        }
        TargetKind::Other => {
            return Err(format!("{path} is neither a file nor a block device; name one of those"));
        }
        TargetKind::Missing if under_dev(path) || under_dev(&file.facts.resolved) => {
            return Err(format!(
                "{path} does not exist, and fathom creates no files under /dev; check the name"
            ));
        }
        TargetKind::Missing if !job.files.allow_create => {
            return Err(format!(
                "{path} does not exist, and allow_file_create=0 is set; create it, or remove that key"
            ));
        }
        TargetKind::Missing if spec.output.readonly => {
            return Err(format!(
                "{path} does not exist, and --readonly prevents its creation; create it, or remove --readonly"
            ));
        }
        _ => {}
    }
    let is_scsi_disk = file.facts.device.as_ref().is_some_and(|device| device.scsi_disk);
    match (job.engine.name, file.facts.kind) {
        (EngineName::IoUringCmd, TargetKind::ScsiBsg) if job.engine.bsg => Ok(()),
        (EngineName::IoUringCmd, _) if job.engine.bsg => Err(format!(
            "cmd_type=bsg needs the bsg device of a SCSI disk, such as /dev/bsg/0:0:0:0, which {path} is not"
        )),
        (EngineName::IoUringCmd, TargetKind::NvmeGeneric) => Ok(()),
        (EngineName::IoUringCmd, _) => Err(format!(
            "ioengine=io_uring_cmd needs an NVMe generic device such as /dev/ng0n1, which {path} is not"
        )),
        (EngineName::Sg, TargetKind::BlockDevice | TargetKind::ScsiGeneric) if is_scsi_disk => {
            Ok(())
        }
        (EngineName::Sg, _) => Err(format!(
            "ioengine=sg needs a SCSI disk, whole, such as /dev/sda or /dev/sg0, which {path} is not; use \
             ioengine=io_uring"
        )),
        (_, TargetKind::NvmeGeneric) => Err(format!(
            "{path} is an NVMe generic device; use ioengine=io_uring_cmd, or name the block device"
        )),
        (_, TargetKind::ScsiGeneric) => Err(format!(
            "{path} is a SCSI generic device; use ioengine=sg, or name the block device"
        )),
        (_, TargetKind::ScsiBsg) => Err(format!(
            "{path} is a bsg device; use ioengine=io_uring_cmd with cmd_type=bsg, or name the block device"
        )),
        _ => discard(job, file),
    }
}

fn discard(job: &JobSpec, file: &File<'_>) -> Result<(), String> {
    let device = file.facts.device.as_ref().filter(|_| file.facts.kind == TargetKind::BlockDevice);
    let cannot = device.is_some_and(|device| device.discard_max_bytes == Some(0));
    if cannot && job.mix().has(Dir::Trim) {
        return Err(format!(
            "{} does not support discard, so it cannot be trimmed; use another target",
            file.path
        ));
    }
    Ok(())
}

/// Whether `path`, with `.` and `..` resolved lexically, is under /dev.
fn under_dev(path: &str) -> bool {
    if !path.starts_with('/') {
        return false;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.first() == Some(&"dev")
}

pub(super) fn region(
    job: &JobSpec,
    file: &File<'_>,
    part: &Part,
    spec: &Spec,
) -> Result<(), String> {
    let path = &file.path;
    if part.len == 0 && job.used_dirs().next().is_some() {
        let (offset, size) = (show(part.start), show(file.facts.size_bytes));
        return Err(format!(
            "the job uses no bytes of {path} (offset {offset}, size {size}); lower offset, or raise size"
        ));
    }
    blocks_fit(job, path, part)?;
    regions_of_flash(job, path, part)?;
    let grows = part.create_size.is_some() && file.facts.kind == TargetKind::File;
    let permitted = [path, &file.facts.resolved]
        .into_iter()
        .any(|name| spec.permissions.overwrite.contains(name));
    if grows && !file.facts.made_by_fathom && !permitted {
        return Err(format!(
            "{path} is {}, shorter than the {} that the job needs; use a smaller size, or let \
             fathom extend it with --overwrite={path}",
            show(file.facts.size_bytes),
            show(part.start + part.len)
        ));
    }
    aligned(job, file, part)
}

/// Checks that blocks fit in the region, and those of a distribution are within it.
pub(super) fn blocks_fit(job: &JobSpec, path: &str, part: &Part) -> Result<(), String> {
    for dir in job.used_dirs() {
        let smallest = job.plan.access.block_sizes[dir].min();
        if smallest > part.len {
            let room = match job.files.size {
                Some(Size::Percent(percent)) => format!("that size={percent}% of {path} comes to"),
                _ => format!("of {path} that the job uses"),
            };
            return Err(format!(
                "bs={} is larger than the {} {room}; lower bs, or raise size",
                show(smallest),
                show(part.len)
            ));
        }
    }
    distribution(job, path, part)
}

fn distribution(job: &JobSpec, path: &str, part: &Part) -> Result<(), String> {
    let beyond = |what: String| {
        let len = show(part.len);
        Err(format!("random_distribution: {what} is beyond the {len} of {path} that the job uses"))
    };
    match job.work.distribution.as_ref().filter(|_| job.work.rw.random) {
        Some(Distribution::Sequence { blocks, .. }) => {
            let bytes = jobs::block_min(job);
            let count = part.len / bytes;
            let last = blocks.iter().find(|block| **block >= count);
            last.map_or(Ok(()), |block| beyond(format!("block {block} of {}", show(bytes))))
        }
        Some(Distribution::ZonedAbs(zones)) => {
            let end = zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.bytes));
            if end > part.len {
                beyond(format!("the end of the zones, {}", show(end)))
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// Checks that the regions of `sprandom` hold a block, and more than the device's cache.
fn regions_of_flash(job: &JobSpec, path: &str, part: &Part) -> Result<(), String> {
    if !job.work.to_steady_state {
        return Ok(());
    }
    let (plan, block) = (&job.work.steady_state, job.plan.access.block_sizes.write.min());
    let bytes = plan.region_writes(part.len, block) * block;
    if bytes == 0 || bytes < plan.cache_bytes {
        return Err(format!(
            "spr_num_regions={}: regions of {path} of {} are too short; each must hold a block, and be larger than \
             spr_cs: use fewer",
            plan.regions,
            show(bytes)
        ));
    }
    Ok(())
}

fn aligned(job: &JobSpec, file: &File<'_>, part: &Part) -> Result<(), String> {
    let path = &file.path;
    let passthrough = job.engine.name.is_passthrough();
    if !job.is_direct() && !passthrough {
        return Ok(());
    }
    // For a file to be created, the device that will hold it.
    let block = file.facts.device.as_ref().map(|device| device.logical_block);
    let unit = match file.facts.direct_align.or(block) {
        Some(0) => return Err(format!("{path} does not support direct I/O; remove direct=1")),
        Some(unit) => u64::from(unit),
        None => return Ok(()),
    };
    let bad = |what: &str, bytes: u64| {
        let why = if passthrough { "passthrough" } else { "direct I/O" };
        let fitting = bytes.next_multiple_of(unit);
        let advice = match what {
            "bssplit" => format!("use {fitting} instead (sizes are in bytes; 2k is 2048)"),
            what => format!("use {what}={fitting}"),
        };
        Err(format!(
            "{what} of {bytes} bytes: {why} on {path} needs multiples of {unit} bytes; {advice}"
        ))
    };
    for dir in job.used_dirs() {
        let (key, sizes) = match &job.plan.access.block_sizes[dir] {
            BlockSizes::Fixed(size) => ("bs", vec![*size]),
            BlockSizes::Range { min, .. } => ("bsrange", vec![*min]),
            BlockSizes::Split(parts) => ("bssplit", parts.iter().map(|part| part.0).collect()),
        };
        if let Some(size) = sizes.into_iter().find(|size| size % unit != 0) {
            return bad(key, size);
        }
        if let Some(align) = job.work.align[dir].filter(|align| align % unit != 0) {
            return bad("blockalign", align);
        }
    }
    let skip = job.work.rw.postfix.filter(|_| !job.work.rw.random).map_or(0, i64::unsigned_abs);
    match (part.start % unit, skip % unit) {
        (0, 0) => Ok(()),
        (0, _) => bad("a skip", skip),
        _ => bad("offset", part.start),
    }
}
