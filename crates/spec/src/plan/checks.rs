//! Rejects what cannot be done, before anything is.

use super::regions::Part;
use super::{File, engine};
use crate::job::{Job, Size, ZoneMode};
use crate::names::PATHS_MAX;
use crate::spec::Spec;
use crate::trace::Trace;
use fathom_model::facts::{Facts, TargetKind};
use fathom_model::plan::{
    BlockSizes, Directive, Distribution, Engine, Mix, NameOp, Order, PlacementSelect, Psync,
    ScsiWrite, WriteMode,
};
use fathom_model::units::bytes as show;
use fathom_model::{Dir, PerDir, cpus};
use std::collections::HashSet;

/// What is wrong with a key of a job.
pub(super) type KeyProblem = (&'static str, String);

/// A check of a job's keys against each other and against the machine.
struct Check {
    /// The key that it is about: the first check that a key fails is reported.
    key: &'static str,
    why: fn(&Job, &Facts) -> Option<String>,
}

/// `"key": |job| condition => message;`, or `"key" = function;` where the message needs more than the job.
macro_rules! checks {
    ($($key:literal $(: |$job:ident| $when:expr => $why:expr;)? $(= $check:expr;)?)*) => {
        const CHECKS: &[Check] = &[$(Check {
            key: $key,
            why: $(|$job, _| ($when).then(|| String::from($why)))? $($check)?
        }),*];
    };
}

checks! {
    "cmdprio_bssplit": |job| job.has("cmdprio_percentage") && job.has("cmdprio_bssplit")
        => "cmdprio_percentage and cmdprio_bssplit conflict; remove one";
    "cmdprio_bssplit" = |job, _| priority_shares(job);
    "sqthread_poll_cpu": |job| job.has_own("sqthread_poll_cpu") && !job.sqthread_poll
        => "sqthread_poll_cpu has no effect without sqthread_poll=1; set that, or remove it";
    "sqthread_poll_idle": |job| job.has_own("sqthread_poll_idle") && !job.sqthread_poll
        => "sqthread_poll_idle has no effect without sqthread_poll=1; set that, or remove it";
    "rw" = |job, _| lacking_direction(job);
    "rw": |job| job.access.mix == Mix::TrimThenWrite && job.is_held_back()
        => "the writes of trimwrite follow its trims; remove rate, rate_iops and flow";
    "rw": |job| names_op(job).is_some() && job.access.mix.has(Dir::Trim)
        => format!("{} does not trim; use rw=read or rw=write", job.engine.name());
    "pre_read": |job| job.pre_read && job.direct && job.access.mix.has(Dir::Read)
        => "pre_read fills the page cache, which direct I/O bypasses; remove one of them";
    "unlink_each_loop": |job| job.fresh_passes > 1 && job.access.mix.has(Dir::Read)
        => "unlink_each_loop leaves nothing to read for the second pass; remove it, or loops";
    "num_range": |job| trim_ranges(job) > 1 && job.access.mix == Mix::TrimThenWrite
        => "a write follows a trim of one range; remove num_range";
    "num_range": |job| trim_ranges(job) > 1 && job.serialize_overlap
        => "num_range and serialize_overlap conflict; remove one";
    "num_range": |job| job.access.block_sizes.trim.max().saturating_mul(trim_ranges(job)) > u64::from(u32::MAX)
        => "one trim is limited to 4 GiB in all its ranges; lower num_range, or bs";
    "sg_write_mode": |job| sg_write(job) == Some(ScsiWrite::WriteStream) && job.scsi.stream == 0
        => "write_stream needs an open stream; set stream_id";
    "writefua": |job| job.ring.nvme.write_fua
        && sg_write(job).is_some_and(|write| !matches!(write, ScsiWrite::Write | ScsiWrite::WriteStream))
        => "writefua is a bit of sg_write_mode=write and write_stream only; remove one of them";
    "deac": |job| is_bsg(job) && job.ring.nvme.deallocate
        => "deac is a bit of NVMe commands; remove it, or cmd_type=bsg";
    "num_range": |job| is_bsg(job) && job.ring.nvme.ranges > 1
        => "cmd_type=bsg trims one range at a time; remove num_range";
    "write_mode": |job| is_bsg(job)
        && !matches!(job.ring.nvme.write_modes[..], [] | [(WriteMode::Write | WriteMode::Verify, _)])
        => "with cmd_type=bsg, writes are write_mode=write or verify, without a mix";
    "writefua": |job| is_bsg(job) && job.ring.nvme.write_fua
        && matches!(job.ring.nvme.write_modes[..], [(WriteMode::Verify, _)])
        => "VERIFY has no Force Unit Access bit; remove writefua or write_mode=verify";
    "sprandom": |job| job.sprandom && !(job.is_random() && job.access.mix == Mix::Only(Dir::Write))
        => "sprandom writes at random; use rw=randwrite";
    "sprandom": |job| job.sprandom && !matches!(job.access.block_sizes.write, BlockSizes::Fixed(_))
        => "sprandom writes blocks of one size; use bs";
    "sprandom": |job| job.sprandom && ![0, job.access.block_sizes.write.min()].contains(&job.access.align.write)
        => "sprandom writes every block; use blockalign=bs, or remove it";
    "sprandom": |job| job.sprandom && (job.random_distribution.is_some()
        || matches!(job.access.order, Order::Random { run: 2.., .. })
        || job.access.random_percent.write != 100)
        => "sprandom chooses all offsets; remove random_distribution, percentage_random and what follows randwrite";
    "sprandom": |job| job.sprandom && job.numjobs > 1
        => "sprandom writes all of a target in one job; remove numjobs";
    "verify": |job| job.verify.as_ref().is_some_and(|v| v.method.needs_pattern() && v.pattern.is_empty())
        => "a pattern is needed; set verify_pattern";
    "verify" = |job, _| small_interval(job);
    "verify_offset" = |job, _| overlapping_header(job);
    "verify": |job| job.verify.is_some() && job.ring.nvme.write_modes.iter()
        .any(|(mode, _)| !matches!(mode, WriteMode::Write | WriteMode::Append))
        => "write_mode decides what is written; remove one of them";
    "verify_only": |job| job.verify.as_ref().is_some_and(|v| v.only) && job.time_based
        => "how much was written must be known; remove time_based";
    "verify": |job| job.verify.is_some() && !job.traces.is_empty()
        => "what a trace writes is not known, so that it cannot be verified; remove one of them";
    "latency_target": |job| job.latency_target.is_some() && (job.verify.is_some() || !job.traces.is_empty())
        => "it repeats I/Os at several queue depths, which neither verify nor a trace can be combined with; remove one of them";
    "rate": |job| job.has_rate() && !job.traces.is_empty()
        => "a trace has times of its own; use replay_time_scale or replay_no_stall, and remove rate and rate_iops";
    "ioengine": |job| names_op(job).is_some() && !job.traces.is_empty()
        => "a trace has I/Os, not names; use another ioengine";
    "steadystate": |job| job.ends_steady && job.steady.duration_ns == 0
        => "for how long it must be steady is missing; set steadystate_duration";
    "steadystate_duration": |job| job.until_steady.is_some_and(|steady| steady.count() < 2)
        => "it must be at least two of steadystate_check_interval; raise it";
    "hybrid_iopoll": |job| job.ring.hybrid_iopoll && !job.ring.iopoll && job.engine.uring().is_some()
        => "it changes how hipri polls; set hipri=1";
    "hipri": |job| is_polled(job) && !job.direct
        => "hipri polls only direct I/O; set direct=1, or remove hipri";
    "hipri" = |job, _| unpolled_requests(job);
    "nonvectored": |job| matches!(job.engine, Engine::IoUringCmd(_)) && job.ring.vectored
        => "nonvectored=0 has no effect with io_uring_cmd; remove it";
    "cpus_allowed" = |job, facts| not_allowed(&job.placement.cpus, facts);
    "sqthread_poll_cpu" = |job, facts| not_allowed(job.ring.sqpoll.and_then(|poller| poller.cpu).as_slice(), facts);
    "nrfiles": |job| names_op(job).is_some() && too_many_names(job)
        => "the job has more than a million files; lower nrfiles or numjobs";
    "zonesize": |job| job.zone_mode == Some(ZoneMode::None) && job.zone_size > 0
        => "zonemode=none has no zones; remove zonesize";
    "zonesize": |job| job.zone_mode() == ZoneMode::Strided && job.zone_size == 0
        => "zonemode=strided needs the number of bytes to transfer in each zone; set zonesize";
    "zonemode": |job| job.zone_mode() == ZoneMode::Strided && job.filename.len().max(job.nrfiles as usize) > 1
        => "zonemode=strided is about one file; remove nrfiles, or all but one filename";
    "zonerange": |job| job.zone_mode() == ZoneMode::Strided && job.zone_range > 0 && job.zone_range < job.block_max()
        => "a block must fit in a zone; raise zonerange";
    "zonemode": |job| job.zone_mode() == ZoneMode::Device
        && (is_bsg(job) || matches!(job.engine, Engine::Sg(_) | Engine::Mmap | Engine::Names(_) | Engine::MoveExtents(_)))
        => "zonemode=zbd needs plain reads and writes; use ioengine=io_uring or libaio on the block device";
    "num_range": |job| job.zone_mode() == ZoneMode::Device && trim_ranges(job) > 1
        => "with zonemode=zbd, a trim resets one zone; remove num_range";
    "write_mode": |job| job.zone_mode() != ZoneMode::Device
        && matches!(job.engine, Engine::IoUringCmd(_)) && job.access.mix.has(Dir::Write)
        && job.ring.nvme.write_modes.iter().any(|(mode, _)| *mode == WriteMode::Append)
        => "zone_append writes to zones; set zonemode=zbd";
    "zonemode": |job| job.zone_mode() == ZoneMode::Device && !job.uses_files() && (job.size.is_none() || job.zone_size == 0)
        => "without a target, zonemode=zbd needs size and zonesize; set both";
    "zonemode": |job| job.zone_mode() == ZoneMode::Device && job.access.mix == Mix::TrimThenWrite
        => "a trim resets a whole zone; use rw=trim or a mix of reads and writes";
    "zonemode": |job| job.zone_mode() == ZoneMode::Device
        && job.verify.as_ref().is_some_and(|verify| verify.only || verify.load_state)
        => "where zones were written is not known afterwards; remove verify_only and verify_state_load";
    "zonemode": |job| job.zone_mode() != ZoneMode::None && (!job.traces.is_empty() || job.sprandom)
        => "read_iolog and sprandom choose all offsets; remove zonemode";
    "fill_device": |job| job.until.full && (job.is_random() || job.access.mix != Mix::Only(Dir::Write))
        => "it writes from the start on until there is no space left; use rw=write";
    "fill_device": |job| job.until.full && (job.verify.as_ref().is_some_and(|verify| verify.only)
        || matches!(job.engine, Engine::Mmap | Engine::MoveExtents(_)))
        => "how much will be written is not known, as verify_only, mmap and e4defrag need it; remove one of them";
    "log_issue_time": |job| job.logging.issue_time && !(job.logging.lat.is_some() && job.logging.offset)
        => "as in fio, it needs write_lat_log and log_offset; set these, too";
    "dataplacement": |job| job.fdp && job.has("dataplacement") && job.directive != Some(Directive::Placement)
        => "fdp=1 is dataplacement=fdp; remove one of them";
    "dataplacement": |job| is_bsg(job) && job.ring.nvme.placement.is_some()
        => "data placement is a part of NVMe commands; remove it, or cmd_type=bsg";
    "plids": |job| job.directive == Some(Directive::Streams) && job.placing.ids.is_empty()
        => "the streams that writes belong to are missing; set plids";
    "dp_scheme": |job| job.ring.nvme.placement.as_ref().is_some_and(|p| p.select == PlacementSelect::ByOffset)
        && job.dp_scheme.is_none()
        => "plid_select=scheme needs a file of lines `START, END, IDENTIFIER`; set dp_scheme";
    "donorname": |job| job.engine.donor().is_some() && job.donor.path.is_empty()
        => "ioengine=e4defrag needs a file whose blocks it exchanges with those of its own; set donorname";
    "cpuload": |job| matches!(job.engine, Engine::Cpu(load) if load.percent == 0)
        => "ioengine=cpuio needs the load in percent; set cpuload";
    "rate_min": |job| exceeds(&job.rate_floor.bytes, &job.rate_bytes)
        => "the job fails below a rate above its limit; lower rate_min, or raise rate";
    "rate_iops_min": |job| exceeds(&job.rate_floor.iops, &job.rate_iops)
        => "the job fails below a rate above its limit; lower rate_iops_min, or raise rate_iops";
}

fn exceeds(floor: &PerDir<Option<u64>>, limit: &PerDir<Option<u64>>) -> bool {
    Dir::ALL.iter().any(|dir| limit[*dir].is_some_and(|limit| floor[*dir] > Some(limit)))
}

pub(super) fn settings(job: &Job, facts: &Facts, readonly: bool) -> Vec<KeyProblem> {
    let name = job.engine.name();
    let both = |dir: &Dir| job.rate_bytes[*dir].is_some() && job.rate_iops[*dir].is_some();
    let both = Dir::ALL
        .into_iter()
        .filter(both)
        .map(|dir| ("rate_iops", format!("rate and rate_iops both limit {dir}s; remove one")));
    let foreign = engine::foreign(job).map(|key| key.name).filter(|key| job.has_own(key));
    let foreign =
        foreign.map(|key| (key, format!("ioengine={name} does not support {key}; remove it")));
    let changing = names_op(job)
        .filter(|op| readonly && !op.is_stat())
        .map(|_| ("ioengine", format!("{name} changes the file system; remove --readonly")));
    let others = [too_large(job), repeated_names(job), changing];
    let mut problems: Vec<KeyProblem> =
        both.chain(foreign).chain(others.into_iter().flatten()).collect();
    let mut failed = HashSet::new();
    for check in CHECKS {
        if let Some(why) = (check.why)(job, facts).filter(|_| failed.insert(check.key)) {
            problems.push((check.key, why));
        }
    }
    problems
}

/// Whether there is room for the header in each interval, and where the job wants it.
fn small_interval(job: &Job) -> Option<String> {
    let verify = job.verify.as_ref()?;
    let (needs, has, at) =
        (verify.method.header_bytes(), verify.interval as usize, verify.header_offset);
    if needs + at as usize <= has && (needs < has || needs == 0) {
        return None;
    }
    let name = verify.method.name();
    let at = if at > 0 { format!(" at verify_offset={at}") } else { String::new() };
    Some(format!(
        "the header of {name}, {needs} bytes{at}, does not fit into intervals of {has}; raise bs or verify_interval"
    ))
}

/// fio exchanges the header with what is at the offset, which works only if these do not overlap.
fn overlapping_header(job: &Job) -> Option<String> {
    let verify = job.verify.as_ref()?;
    let (needs, at) = (verify.method.header_bytes(), verify.header_offset as usize);
    let overlaps = at > 0 && at < needs;
    let name = verify.method.name();
    overlaps.then(|| format!("the header of {name} has {needs} bytes; use 0, or {needs} and more"))
}

fn lacking_direction(job: &Job) -> Option<String> {
    let (lacks, instead) = match job.engine {
        Engine::Psync(Psync::Allocate) => {
            (&[Dir::Read][..], "use rw=write, randwrite, trim or randtrim")
        }
        Engine::Psync(Psync::Truncate) | Engine::MoveExtents(_) => {
            (&[Dir::Read, Dir::Trim][..], "use rw=write or randwrite")
        }
        _ => return None,
    };
    let lacking = job.used_dirs().find(|dir| lacks.contains(dir))?;
    Some(format!("{} does not support {lacking}; {instead}", job.engine.name()))
}

/// Ranges of each trim, if the job has any.
fn trim_ranges(job: &Job) -> u64 {
    if job.access.mix.has(Dir::Trim) { u64::from(job.ring.nvme.ranges) } else { 0 }
}

/// What the writes of a job of SCSI commands are, if it has any.
fn sg_write(job: &Job) -> Option<ScsiWrite> {
    let writes = matches!(job.engine, Engine::Sg(_)) && job.access.mix.has(Dir::Write);
    writes.then_some(job.scsi.write)
}

/// Whether a job sends SCSI commands through a ring.
fn is_bsg(job: &Job) -> bool {
    matches!(job.engine, Engine::IoUringCmd(_)) && job.bsg
}

fn is_polled(job: &Job) -> bool {
    matches!(job.engine, Engine::IoUring(_)) && job.ring.iopoll
}

fn names_op(job: &Job) -> Option<NameOp> {
    match &job.engine {
        Engine::Names(names) => Some(names.op),
        _ => None,
    }
}

fn too_many_names(job: &Job) -> bool {
    let each = job.filename.len().max(job.nrfiles as usize);
    each.saturating_mul(job.numjobs as usize) > PATHS_MAX
}

fn repeated_names(job: &Job) -> Option<KeyProblem> {
    let op = names_op(job).filter(|op| !op.is_stat())?;
    if !job.time_based && job.loops <= 1 && job.until.ramp_ns == 0 {
        return None;
    }
    let keys = ["time_based", "loops", "ramp_time"];
    let key = keys.into_iter().find(|key| job.has(key)).unwrap_or("loops");
    Some((key, format!("{} uses each name once; remove {key}, and raise nrfiles", op.name())))
}

/// Largest block size of reads and writes in bytes: Linux limits them to just below 2 GiB (MAX_RW_COUNT).
const TRANSFER_MAX: u64 = 1 << 30;

fn too_large(job: &Job) -> Option<KeyProblem> {
    if matches!(
        job.engine,
        Engine::Psync(Psync::Allocate) | Engine::Null | Engine::Nop(_) | Engine::Cpu(_)
    ) {
        return None;
    }
    let moves = |dir: &Dir| *dir != Dir::Trim;
    let sizes = job.used_dirs().filter(moves).map(|dir| job.access.block_sizes[dir].max());
    let size = sizes.max().filter(|size| *size > TRANSFER_MAX)?;
    let key = ["bs", "bsrange", "bssplit"].into_iter().rfind(|key| job.has(key))?;
    let why = format!(
        "block size of {} exceeds what Linux reads or writes at once; use 1g or less",
        show(size)
    );
    Some((key, why))
}

/// Checks that each I/O has only one priority.
fn priority_shares(job: &Job) -> Option<String> {
    let mut sums = job.cmdprio_bssplit.iter().flat_map(|(_, parts)| {
        parts.iter().map(|part| {
            let same = parts.iter().filter(|other| other.block == part.block);
            (part.block, same.map(|part| part.percent).sum::<u32>())
        })
    });
    let (size, sum) = sums.find(|(_, sum)| *sum > 100)?;
    Some(format!("the percentages for {} add up to {sum}%; use at most 100%", show(size)))
}

fn not_allowed(cpus: &[u32], facts: &Facts) -> Option<String> {
    let allowed = &facts.host.cpus_allowed;
    let cpu = cpus.iter().find(|cpu| !allowed.is_empty() && !allowed.contains(cpu))?;
    let allowed = cpus::list(allowed);
    Some(format!("CPU {cpu} is not among the CPUs that this process may use: {allowed}"))
}

/// Flushes and trims of a polled job, which the kernel does not do through a polled ring.
fn unpolled_requests(job: &Job) -> Option<String> {
    let (mix, sync) = (job.access.mix, &job.sync);
    let flushes = [
        ("fsync", sync.fsync_every > 0),
        ("fdatasync", sync.fdatasync_every > 0),
        ("end_fsync", sync.at_end),
        ("fsync_on_close", sync.on_close),
    ];
    // Jobs that only read never flush: ignore keys from [global].
    let flush = flushes.into_iter().find(|(_, on)| *on && mix.has(Dir::Write));
    let (what, key) = match flush {
        _ if !is_polled(job) => return None,
        Some((key, _)) => ("flush", key),
        None if mix.has(Dir::Trim) => ("trim", "the trims"),
        None => return None,
    };
    Some(format!(
        "the kernel does not {what} through a polled ring; remove hipri or {key}, \
         or use --ioengine=pvsync2, which polls too"
    ))
}

/// `why` a file cannot be used; one that is missing may be part of a name with a colon.
pub(super) fn with_colon_hint(job: &Job, file: &File<'_>, why: String) -> String {
    match (file.facts.kind, job.filename.len()) {
        (TargetKind::Missing, 2..) => {
            format!(
                "{why}; filename was split at ':': for a colon that is part of a name, write '\\:'"
            )
        }
        _ => why,
    }
}

pub(super) fn target(job: &Job, file: &File<'_>, spec: &Spec) -> Result<(), String> {
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
        TargetKind::Missing if !job.allow_file_create => {
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
    match (&job.engine, file.facts.kind) {
        (Engine::IoUringCmd(_), TargetKind::ScsiBsg) if job.bsg => Ok(()),
        (Engine::IoUringCmd(_), _) if job.bsg => Err(format!(
            "cmd_type=bsg needs the bsg device of a SCSI disk, such as /dev/bsg/0:0:0:0, which {path} is not"
        )),
        (Engine::IoUringCmd(_), TargetKind::NvmeGeneric) => metadata(job, file),
        (Engine::IoUringCmd(_), _) => Err(format!(
            "ioengine=io_uring_cmd needs an NVMe generic device such as /dev/ng0n1, which {path} is not"
        )),
        (Engine::Sg(_), TargetKind::BlockDevice | TargetKind::ScsiGeneric) if is_scsi_disk => {
            Ok(())
        }
        (Engine::Sg(_), _) => Err(format!(
            "ioengine=sg needs a SCSI disk, whole, such as /dev/sda or /dev/sg0, which {path} is not; use \
             ioengine=io_uring"
        )),
        (Engine::MoveExtents(_), _) => match file.facts.file_system.as_deref() {
            _ if file.facts.kind == TargetKind::BlockDevice => Err(format!(
                "ioengine=e4defrag exchanges blocks of files on ext4, and {path} is a device; name a file"
            )),
            Some("ext4") | None => Ok(()),
            Some(other) => Err(format!(
                "ioengine=e4defrag exchanges blocks of files on ext4, and {path} is on {other}; name a file on ext4"
            )),
        },
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

/// What passthrough commands cannot transfer of a namespace's metadata.
fn metadata(job: &Job, file: &File<'_>) -> Result<(), String> {
    let Some(metadata) = file.facts.device.as_ref().and_then(|device| device.metadata) else {
        return Ok(());
    };
    let path = &file.path;
    if metadata.extended {
        return Err(format!(
            "{path} transfers {} bytes of metadata with each block, so that I/Os are no multiples of its block size; format it to \
             transfer them apart (nvme format --ms=0), or use another namespace",
            metadata.bytes
        ));
    }
    if job.ring.nvme.protection.by_host && metadata.wide_guard {
        return Err(format!(
            "{path} has checksums of 64 bits, which fathom does not make; remove pi_act=0, so that the controller makes them"
        ));
    }
    Ok(())
}

fn discard(job: &Job, file: &File<'_>) -> Result<(), String> {
    let device = file.facts.device.as_ref().filter(|_| file.facts.kind == TargetKind::BlockDevice);
    let cannot = device.is_some_and(|device| device.discard_max_bytes == Some(0));
    if cannot && job.trims() && job.zone_mode() != ZoneMode::Device {
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

pub(super) fn region(job: &Job, file: &File<'_>, part: &Part, spec: &Spec) -> Result<(), String> {
    let path = &file.path;
    if part.len == 0 && job.used_dirs().next().is_some() {
        let (offset, size) = (show(part.start), show(file.facts.size_bytes));
        return Err(format!(
            "the job uses no bytes of {path} (offset {offset}, size {size}); lower offset, or raise size"
        ));
    }
    if job.traces.is_empty() {
        blocks_fit(job, path, part)?;
    }
    regions_of_flash(job, path, part)?;
    let grows = part.create_size.is_some() && file.facts.kind == TargetKind::File;
    let permitted = [path, &file.facts.resolved]
        .into_iter()
        .any(|name| spec.permissions.overwrite.contains(name));
    if grows && !file.facts.made_by_fathom && !permitted && !job.traces.is_empty() {
        return Err(format!(
            "{path} is {}, but the trace goes up to {}; use replay_scale, another target with replay_redirect, or let fathom \
             extend it with --overwrite={path}",
            show(file.facts.size_bytes),
            show(part.start + part.len)
        ));
    }
    if grows && !file.facts.made_by_fathom && !permitted {
        return Err(format!(
            "{path} is {}, shorter than the {} that the job needs; use a smaller size, or let \
             fathom extend it with --overwrite={path}",
            show(file.facts.size_bytes),
            show(part.start + part.len)
        ));
    }
    if job.traces.is_empty() { aligned(job, file, part) } else { Ok(()) }
}

/// Checks that blocks fit in the region, and those of a distribution are within it.
pub(super) fn blocks_fit(job: &Job, path: &str, part: &Part) -> Result<(), String> {
    for dir in job.used_dirs() {
        let smallest = job.access.block_sizes[dir].min();
        if smallest > part.len {
            let room = match job.size {
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

fn distribution(job: &Job, path: &str, part: &Part) -> Result<(), String> {
    let beyond = |what: String| {
        let len = show(part.len);
        Err(format!("random_distribution: {what} is beyond the {len} of {path} that the job uses"))
    };
    match job.random_distribution.as_ref().filter(|_| job.is_random()) {
        Some(Distribution::Sequence { blocks, .. }) => {
            let bytes = job.block_min();
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
fn regions_of_flash(job: &Job, path: &str, part: &Part) -> Result<(), String> {
    if !job.sprandom {
        return Ok(());
    }
    let (plan, block) = (&job.steady_state, job.access.block_sizes.write.min());
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

/// The unit in bytes of all I/Os of `job` on `file`, if it has one.
fn io_unit(job: &Job, file: &File<'_>) -> Result<Option<u64>, String> {
    if !job.direct && !job.engine.is_passthrough() {
        return Ok(None);
    }
    // For a file to be created, the device that will hold it.
    let block = file.facts.device.as_ref().map(|device| device.logical_block);
    match file.facts.direct_align.or(block) {
        Some(0) => Err(format!("{} does not support direct I/O; remove direct=1", file.path)),
        unit => Ok(unit.map(u64::from)),
    }
}

/// Checks the I/Os of a trace on its file number `index`.
pub(super) fn replayed(
    job: &Job,
    file: &File<'_>,
    trace: &Trace,
    index: usize,
) -> Result<(), String> {
    let Some(unit) = io_unit(job, file)? else { return Ok(()) };
    let Some(io) = trace.misaligned(index, unit) else { return Ok(()) };
    let (name, path) = (&trace.name, &file.path);
    Err(format!(
        "{name} has an I/O of {} bytes at {}: direct I/O on {path} needs multiples of {unit} bytes; use \
         replay_align={unit}, or direct=0",
        io.len, io.offset
    ))
}

fn aligned(job: &Job, file: &File<'_>, part: &Part) -> Result<(), String> {
    let path = &file.path;
    let passthrough = job.engine.is_passthrough();
    let Some(unit) = io_unit(job, file)? else { return Ok(()) };
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
        let (key, sizes) = match &job.access.block_sizes[dir] {
            BlockSizes::Fixed(size) => ("bs", vec![*size]),
            BlockSizes::Range { min, .. } => ("bsrange", vec![*min]),
            BlockSizes::Any { .. } if unit > 1 => {
                return Err(format!(
                    "bs_unaligned: direct I/O on {path} needs multiples of {unit} bytes; remove it, or use direct=0"
                ));
            }
            BlockSizes::Any { .. } => continue,
            BlockSizes::Split(parts) => ("bssplit", parts.iter().map(|part| part.0).collect()),
        };
        if let Some(size) = sizes.into_iter().find(|size| size % unit != 0) {
            return bad(key, size);
        }
        if let Some(align) = Some(job.access.align[dir]).filter(|align| align % unit != 0) {
            return bad("blockalign", align);
        }
    }
    let skip = match job.access.order {
        Order::Sequential { skip } => skip.unsigned_abs(),
        Order::Random { .. } => 0,
    };
    match (part.start % unit, skip % unit) {
        (0, 0) => Ok(()),
        (0, _) => bad("a skip", skip),
        _ => bad("offset", part.start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::MemorySources;

    /// A job for each check, in their order.
    const CASES: &[&str] = &[
        "--cmdprio_percentage=10 --cmdprio_bssplit=4k/50",
        "--cmdprio_bssplit=4k/60:4k/60",
        "--sqthread_poll_cpu=1",
        "--sqthread_poll_idle=10",
        "--ioengine=falloc --rw=read",
        "--rw=trimwrite --rate=1m",
        "--ioengine=filestat --rw=trim",
        "--rw=read --pre_read=1 --direct=1",
        "--rw=read --unlink_each_loop=1 --loops=2",
        "--ioengine=io_uring_cmd --rw=trimwrite --num_range=2",
        "--ioengine=io_uring_cmd --rw=trim --num_range=2 --serialize_overlap=1",
        "--ioengine=io_uring_cmd --rw=trim --num_range=256 --bs=1g",
        "--ioengine=sg --rw=write --sg_write_mode=write_stream",
        "--ioengine=sg --rw=write --sg_write_mode=write_same --writefua=1",
        "--ioengine=io_uring_cmd --cmd_type=bsg --rw=write --deac=1",
        "--ioengine=io_uring_cmd --cmd_type=bsg --rw=trim --num_range=2",
        "--ioengine=io_uring_cmd --cmd_type=bsg --rw=write --write_mode=zeroes",
        "--ioengine=io_uring_cmd --cmd_type=bsg --rw=write --write_mode=verify --writefua=1",
        "--rw=write --sprandom=1",
        "--rw=randwrite --sprandom=1 --bsrange=4k-8k",
        "--rw=randwrite --sprandom=1 --blockalign=8k",
        "--rw=randwrite:2 --sprandom=1",
        "--rw=randwrite --sprandom=1 --numjobs=2",
        "--rw=write --verify=pattern",
        "--rw=write --verify=sha512 --bs=128",
        "--rw=write --verify=md5 --verify_offset=16",
        "--ioengine=io_uring_cmd --rw=write --verify=md5 --write_mode=zeroes",
        "--rw=write --verify=md5 --verify_only=1 --time_based --runtime=1",
        "--read_iolog=t --verify=md5 --bs=4k",
        "--latency_target=1ms --verify=md5 --bs=4k",
        "--read_iolog=t --rate_iops=10",
        "--read_iolog=t --ioengine=filestat",
        "--steadystate=iops:1%",
        "--ss_dur=1",
        "--hybrid_iopoll=1",
        "--hipri=1",
        "--hipri=1 --direct=1 --rw=trim",
        "--ioengine=io_uring_cmd --nonvectored=0",
        "--cpus_allowed=9",
        "--sqthread_poll=1 --sqthread_poll_cpu=9",
        "--ioengine=filestat --nrfiles=65536 --numjobs=64",
        "--zonemode=none --zonesize=1m",
        "--zonemode=strided",
        "--zonesize=1m --nrfiles=2",
        "--zonesize=1m --zonerange=2k",
        "--zonemode=zbd --zonesize=1m --ioengine=mmap",
        "--zonemode=zbd --zonesize=1m --ioengine=io_uring_cmd --rw=trim --num_range=2",
        "--ioengine=io_uring_cmd --rw=write --write_mode=write/50:zone_append/50",
        "--zonemode=zbd --zonesize=1m --ioengine=null",
        "--zonemode=zbd --zonesize=1m --rw=trimwrite",
        "--zonemode=zbd --zonesize=1m --rw=write --verify=md5 --verify_only=1",
        "--zonesize=1m --rw=randwrite --sprandom=1",
        "--fill_device=1 --rw=randwrite",
        "--fill_device=1 --rw=write --ioengine=mmap",
        "--log_issue_time=1",
        "--ioengine=io_uring_cmd --rw=write --fdp=1 --dataplacement=none",
        "--ioengine=io_uring_cmd --cmd_type=bsg --rw=write --fdp=1",
        "--ioengine=io_uring_cmd --rw=write --dataplacement=streams",
        "--ioengine=io_uring_cmd --rw=write --fdp=1 --plid_select=scheme",
        "--ioengine=e4defrag --rw=write",
        "--ioengine=cpuio",
        "--rate=1m --rate_min=2m",
        "--rate_iops=1000 --rate_iops_min=2000",
    ];

    #[test]
    fn each_check_has_a_job_that_fails_it_alone() {
        let mut facts = Facts::default();
        facts.host.cpus_allowed = vec![0, 1];
        let sources = MemorySources::new(&[("t", "fio version 3 iolog\n0 f write 0 4096\n")]);
        for (number, line) in CASES.iter().enumerate() {
            let words = std::iter::once("--name=a").chain(line.split(' '));
            let args: Vec<String> = words.map(str::to_string).collect();
            let spec = crate::parse(&args, &sources).unwrap();
            let fails = |at: &usize| (CHECKS[*at].why)(&spec.jobs[0], &facts).is_some();
            let failed: Vec<usize> = (0..CHECKS.len()).filter(fails).collect();
            assert_eq!(failed, [number], "{line}");
        }
        assert_eq!(CASES.len(), CHECKS.len());
    }
}
