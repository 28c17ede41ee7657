//! Rejects plans that need more memory, open files or space than there is.

use fathom_model::facts::{Facts, TargetFacts};
use fathom_model::plan::Plan;
use fathom_model::units::bytes as show;
use std::collections::{BTreeMap, HashMap};

pub(super) fn memory(plan: &Plan, facts: &Facts) -> Result<(), String> {
    let host = &facts.host;
    let need = plan.memory_need(host.cpus_online);
    let available = Some(host.memory_available_bytes).filter(|bytes| *bytes > 0);
    let (resident, mapped) = (need.resident_bytes, need.address_space_bytes);
    let raise = "raise it (`ulimit -v unlimited`), or ";
    let locked: u64 = plan.jobs.iter().map(|job| job.placement.locked_bytes).sum();
    let (of_locked, lower) = match locked {
        0 => (String::new(), ""),
        bytes => (format!(", up to {} of it for lockmem", show(bytes)), "lockmem, "),
    };
    let limits = [
        ("memory", resident, available, "available memory is", ""),
        ("memory", resident, host.cgroup_memory_max_bytes, "the limit of this cgroup is", ""),
        (
            "address space",
            mapped,
            host.address_space_available_bytes,
            "RLIMIT_AS leaves this process",
            raise,
        ),
    ];
    for (what, need, limit, source, advice) in limits {
        if let Some(limit) = limit.filter(|limit| need > *limit) {
            let workers = match plan.jobs.len() {
                1 => "1 worker needs".to_string(),
                n => format!("{n} workers need"),
            };
            return Err(format!(
                "{workers} {} of {what}{of_locked}, but {source} {}; {advice}lower {lower}iodepth, bs or numjobs",
                show(need),
                show(limit)
            ));
        }
    }
    Ok(())
}

pub(super) fn open_files(plan: &Plan, facts: &Facts) -> Result<(), String> {
    // One per ring, and some for standard streams, samplers and the record.
    let needed = plan.jobs.iter().map(|job| job.regions.len() as u64 + 1).sum::<u64>() + 32;
    match facts.host.open_files_limit {
        limit if limit > 0 && needed > limit => Err(format!(
            "the jobs need {needed} open files, and RLIMIT_NOFILE is {limit}; raise it \
             (ulimit -n {needed}), or lower numjobs or nrfiles"
        )),
        _ => Ok(()),
    }
}

/// Checks new and extended files against the free space of their file systems.
pub(super) fn space(plan: &Plan, facts: &Facts) -> Result<(), String> {
    let known: HashMap<&str, &TargetFacts> =
        facts.targets.iter().map(|target| (target.path.as_str(), target)).collect();
    let mut systems: BTreeMap<(u32, u32), (u64, u64, &str)> = BTreeMap::new();
    for target in &plan.targets {
        let known = known.get(target.path.as_str());
        let (Some(size), Some(known)) = (target.create_size, known) else { continue };
        let Some(free) = known.free_bytes else { continue };
        let system = systems.entry(known.device_number).or_insert((0, free, &target.path));
        system.0 = system.0.saturating_add(size.saturating_sub(known.allocated_bytes));
    }
    match systems.into_values().find(|(needed, free, _)| needed > free) {
        Some((needed, free, path)) => Err(format!(
            "{path} and the other new files on its file system need {}, but only {} are free; \
             use a smaller size",
            show(needed),
            show(free)
        )),
        None => Ok(()),
    }
}
