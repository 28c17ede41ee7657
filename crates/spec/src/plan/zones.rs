//! Zones (`zonemode`): sizes given in zones, the regions that zones make up, and what the device allows.

use super::File;
use super::regions::Part;
use crate::job::{Job, Size, ZoneMode};
use fathom_model::Dir;
use fathom_model::facts::{Host, TargetKind, ZoneFacts};
use fathom_model::plan::{BlockSizes, Engine, JobPlan, Plan, WriteMode, ZoneRules, Zoning};
use fathom_model::units::bytes as show;
use std::borrow::Cow;

/// First kernel that keeps the order of writes to a zone itself, instead of the scheduler mq-deadline.
const ORDERED_WRITES: (u32, u32) = (6, 10);

fn facts<'a>(file: &File<'a>) -> Option<&'a ZoneFacts> {
    let is_device = matches!(file.facts.kind, TargetKind::BlockDevice | TargetKind::NvmeGeneric);
    let device = file.facts.device.as_ref().filter(|_| is_device);
    device.and_then(|device| device.zones.as_ref())
}

/// The length of the job's zones; 0 if nothing says.
fn zone_bytes(job: &Job, files: &[File<'_>]) -> u64 {
    let own = files.iter().find_map(facts).filter(|_| job.zone_mode() == ZoneMode::Device);
    if job.zone_size > 0 { job.zone_size } else { own.map_or(0, |zones| zones.zone_bytes) }
}

/// The job with all sizes in bytes, also those that it gives in zones.
pub(super) fn in_bytes<'j>(job: &'j Job, files: &[File<'_>]) -> Result<Cow<'j, Job>, String> {
    let sizes =
        [job.size, job.io_size, Some(job.offset), Some(job.offset_increment), Some(job.zone_skip)];
    if !sizes.iter().any(|size| matches!(size, Some(Size::Zones(_)))) {
        return Ok(Cow::Borrowed(job));
    }
    let zone = zone_bytes(job, files);
    if zone == 0 {
        return Err("a size in zones (z) needs the length of a zone; set zonesize".to_string());
    }
    let resolve = |size: Size| match size {
        Size::Zones(count) => Size::Bytes(zone.saturating_mul(count.into())),
        size => size,
    };
    let mut job = job.clone();
    (job.size, job.io_size) = (job.size.map(resolve), job.io_size.map(resolve));
    (job.offset, job.offset_increment) = (resolve(job.offset), resolve(job.offset_increment));
    job.zone_skip = resolve(job.zone_skip);
    Ok(Cow::Owned(job))
}

/// Fits the parts of files to the job's zones: with write pointers, they are whole zones; of parts of a region, they are
/// all that follows. Returns the bytes of a pass, where those are not what the parts hold.
pub(super) fn fit(
    job: &Job,
    files: &[File<'_>],
    parts: &mut [Part],
) -> Result<Option<u64>, String> {
    match job.zone_mode() {
        _ if parts.is_empty() => Ok(None),
        ZoneMode::None => Ok(None),
        ZoneMode::Strided => {
            let once = parts.iter().map(|part| part.len).sum();
            for (number, part) in parts.iter_mut().enumerate() {
                // As in fio, only the end of the file ends the zones.
                let real = files.get(number).map_or(0, |file| file.facts.size_bytes);
                let end = part.create_size.unwrap_or(real);
                part.len = part.len.max(end.saturating_sub(part.start));
            }
            Ok(Some(once))
        }
        ZoneMode::Device => {
            let zone = zone_bytes(job, files);
            if zone == 0 {
                return Err("zonemode=zbd needs the length of a zone, since the target has no zones; set zonesize".into());
            }
            for (number, part) in parts.iter_mut().enumerate() {
                let path = files.get(number).map_or("the target", |file| file.path.as_str());
                let start = part.start.next_multiple_of(zone);
                let end = (part.start + part.len) / zone * zone;
                if end <= start {
                    return Err(format!(
                        "the job uses {} of {path}, in which there is no whole zone of {}; raise size",
                        show(part.len),
                        show(zone)
                    ));
                }
                (part.start, part.len) = (start, end - start);
            }
            Ok(None)
        }
    }
}

/// How the I/Os of `plan` keep to zones.
pub(super) fn zoning(
    job: &Job,
    plan: &JobPlan,
    files: &[File<'_>],
    host: &Host,
) -> Result<Option<Zoning>, String> {
    let skip = match job.zone_skip {
        Size::Bytes(bytes) => bytes,
        Size::Percent(_) | Size::Zones(_) => 0,
    };
    let zone_bytes = zone_bytes(job, files);
    match job.zone_mode() {
        ZoneMode::None => return Ok(None),
        ZoneMode::Device if zone_bytes == 0 => return Ok(None),
        ZoneMode::Strided => {
            let range = if job.zone_range > 0 { job.zone_range } else { job.zone_size };
            return Ok(Some(Zoning::Strided { bytes: job.zone_size, range, skip }));
        }
        ZoneMode::Device => {}
    }
    let capacity = if job.zone_capacity > 0 { job.zone_capacity } else { zone_bytes };
    if capacity > zone_bytes {
        return Err(format!(
            "zonecapacity={capacity} is more than a zone has, {}; lower it",
            show(zone_bytes)
        ));
    }
    if !skip.is_multiple_of(zone_bytes) {
        return Err(format!(
            "zoneskip={skip} is no multiple of a zone's {}; use one",
            show(zone_bytes)
        ));
    }
    if job.access.mix.has(Dir::Trim) && job.access.block_sizes.trim != BlockSizes::Fixed(zone_bytes)
    {
        return Err(format!("a trim resets a zone; use bs={zone_bytes} for trims"));
    }
    if job.access.mix.has(Dir::Write) && job.access.block_sizes.write.max() > capacity {
        return Err(format!(
            "a write must fit in a zone, of which {} can be written; lower bs",
            show(capacity)
        ));
    }
    let mut rules = ZoneRules {
        zone_bytes,
        capacity,
        skip,
        begins_again: job.io_size.is_some_and(|size| size != Size::Bytes(0)),
        keeps_order: files.iter().all(|file| keeps_order(job, plan, file, host)),
        ..job.zone_rules
    };
    for file in files {
        let Some(zones) = facts(file) else { continue };
        let path = &file.path;
        if zones.zone_bytes != zone_bytes {
            return Err(format!(
                "the zones of {path} have {}, not zonesize={zone_bytes}; remove zonesize",
                show(zones.zone_bytes)
            ));
        }
        if job.modifies() && zones.managed && !job.direct && !job.engine.is_passthrough() {
            return Err(format!(
                "{path} has zones that the page cache would write out of order; set direct=1"
            ));
        }
        let limits = [zones.open_max, zones.active_max].into_iter().filter(|max| *max > 0);
        let Some(max) = limits.min().filter(|_| zones.managed && !job.ignore_zone_limits) else {
            continue;
        };
        if job.zone_rules.open_max > max {
            return Err(format!(
                "max_open_zones={} exceeds the {max} of {path}; lower it",
                job.zone_rules.open_max
            ));
        }
        rules.open_max = if rules.open_max == 0 { max } else { rules.open_max.min(max) };
    }
    if job.modifies() && rules.own_open_max > 0 && rules.open_max == 0 {
        return Err("job_max_open_zones is a part of max_open_zones; set that, too".to_string());
    }
    Ok(Some(Zoning::WritePointers(rules)))
}

/// Whether the writes of several I/Os in flight reach a zone of `file` in the order of their submission.
fn keeps_order(job: &Job, plan: &JobPlan, file: &File<'_>, host: &Host) -> bool {
    if facts(file).is_none() || plan.depth == 1 {
        return true;
    }
    let by_kernel = host.kernel_version() >= ORDERED_WRITES;
    let scheduler = file.facts.device.as_ref().and_then(|device| device.scheduler.as_deref());
    match &plan.engine {
        Engine::Libaio => by_kernel || scheduler == Some("mq-deadline"),
        // Before that kernel, the ring hands requests that would block to other threads.
        Engine::IoUring(ring) => by_kernel && ring.force_async == 0 && !job.sqthread_poll,
        // The controller puts appends in an order of its own, which is not that of the data to be verified.
        Engine::IoUringCmd(ring) => {
            let modes = &ring.nvme.write_modes;
            let all_append = modes.iter().all(|(mode, _)| *mode == WriteMode::Append);
            !modes.is_empty() && all_append && job.verify.is_none()
        }
        _ => false,
    }
}

/// Checks that all jobs see a target's zones alike, since they share them.
pub(super) fn agree(plan: &Plan) -> Result<(), String> {
    let mut seen: Vec<(usize, ZoneRules, &str)> = Vec::new();
    for job in &plan.jobs {
        let Some(Zoning::WritePointers(rules)) = job.access.zoning else { continue };
        for region in &job.regions {
            match seen.iter().find(|(target, ..)| *target == region.target) {
                None => seen.push((region.target, rules, &job.name)),
                Some((_, other, name))
                    if (other.zone_bytes, other.capacity, other.open_max)
                        != (rules.zone_bytes, rules.capacity, rules.open_max) =>
                {
                    let path = &plan.targets[region.target].path;
                    return Err(format!(
                        "jobs '{name}' and '{}' share the zones of {path}, but set zonesize, zonecapacity or max_open_zones \
                         differently; use the same in both",
                        job.name
                    ));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}
