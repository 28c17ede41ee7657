//! Resolves one clone of a job.

use super::engine;
use super::regions::FILL_BYTES;
use super::waves::Start;
use crate::job::{Job, Nodes, Size};
use fathom_model::facts::Host;
use fathom_model::plan::{Dedupe, Engine, JobPlan, Logs, MemoryPolicy, Mix, Until};
use fathom_model::{Dir, PerDir, split_mix};
use std::collections::BTreeSet;

/// fio's own default of `randseed`, so that a seed is never 0.
const SEED: u64 = 0xb189_9bed;

/// Clone `clone` of `job`, worker `number` of the run, without engine, regions and end conditions.
pub(super) fn resolve(job: &Job, clone: u32, number: usize, start: Start, entropy: u64) -> JobPlan {
    let mut plan = job.plan.clone();
    let seed = split_mix::nth(base_seed(job, entropy), number as u64);
    let (low, high) = job.startdelay_ns;
    plan.start_delay_ns = low + split_mix::nth(seed, 1) % (high - low).saturating_add(1);
    (plan.clone, plan.group, plan.wave) = (clone, start.group, start.wave);
    plan.access.seed = seed;
    plan.access.align = PerDir::from_fn(|dir| match job.access.align[dir] {
        align if align > 0 && job.is_random() => align,
        _ => job.access.block_sizes[dir].min(),
    });
    plan.logs = job.logging.any().then(|| logs(job, number));
    let own = job.given.iter().filter(|given| !given.global);
    plan.options = own.map(|given| (given.key.to_string(), given.value.clone())).collect();
    // As in fio: a section's name is no key.
    if job.place.is_none() {
        plan.options.insert("name".to_string(), job.name.clone());
    }
    plan
}

fn logs(job: &Job, number: usize) -> Logs {
    let mut logs = Logs { number: number as u32 + 1, ..job.logging.clone() };
    let keys = ["write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log", "write_iolog"];
    let last = keys.iter().filter_map(|key| job.last(key));
    let named = last.filter(|given| {
        let by_name = given.value.is_empty();
        given.place.is_none() && !(by_name && job.place.is_some())
    });
    let named = named.map(|given| match given.value.as_str() {
        "" => job.name.clone(),
        prefix => prefix.to_string(),
    });
    logs.named = named.collect();
    let prefixes = [&mut logs.bw, &mut logs.iops, &mut logs.lat, &mut logs.hist];
    for prefix in prefixes.into_iter().flatten().filter(|prefix| prefix.is_empty()) {
        prefix.clone_from(&job.name);
    }
    logs
}

/// Duplicates among the buffers of `plan`, whose regions must be resolved.
pub(super) fn dedupe(job: &Job, plan: &JobPlan) -> Option<Dedupe> {
    let given = &job.duplicates;
    let unit_bytes = plan.access.block_sizes.write.min().max(1);
    let bytes = plan.regions.iter().map(|region| region.len).fold(0, u64::saturating_add);
    let percent = u128::from(job.dedupe_working_set_percentage);
    let set = u128::from(bytes) * percent / 100 / u128::from(unit_bytes);
    let working_set = given.working_set.map(|_| (set as u64).max(1));
    let has_any = given.percent > 0 && job.access.mix.has(Dir::Write);
    has_any.then(|| Dedupe { unit_bytes, working_set, ..given.clone() })
}

/// When the clone ends; its regions must be resolved. `pass` is the number of bytes of a pass that skips blocks.
pub(super) fn until(job: &Job, plan: &JobPlan, pass: Option<u64>) -> Result<Until, String> {
    if let Some(replay) = &plan.replay {
        let ios = if job.create_only { Some(0) } else { job.until.ios };
        let ends = replay.passes.is_some() || ios.is_some() || job.until.runtime_ns.is_some();
        let until = Until { bytes: None, ios, ..job.until };
        return if ends {
            Ok(until)
        } else {
            Err("time_based needs a runtime; set it".to_string())
        };
    }
    let unit = plan.block_unit();
    // A remainder shorter than a block cannot be transferred.
    let regions = plan.offset_regions().iter();
    let all = regions.map(|r| r.len - r.len % unit).fold(0, u64::saturating_add);
    let size = match (job.size, job.filesize) {
        // As in fio, size limits the bytes transferred when filesize is set.
        (Some(Size::Bytes(size)), Some(_)) => all.min(size),
        _ => all,
    };
    let bytes = match job.io_size {
        Some(Size::Bytes(bytes)) if bytes > 0 => bytes,
        Some(Size::Percent(percent)) => (u128::from(size) * u128::from(percent) / 100) as u64,
        _ => pass.map_or(size, |pass| pass.min(size)),
    };
    let bytes = match job.sprandom {
        // As in fio, io_size has no effect then.
        true => job.steady_state.physical_bytes(all, unit),
        false => bytes,
    };
    // As in fio, the last block is transferred whole.
    let bytes = bytes.checked_next_multiple_of(unit).unwrap_or(bytes - bytes % unit);
    // As in fio, writes of trimmed blocks count in addition.
    let times = if job.access.mix == Mix::TrimThenWrite { 2 } else { 1 };
    let loops = u64::from(job.loops) * times;
    let fills = plan.regions.iter().any(|region| region.len >= FILL_BYTES);
    let endless = fills || job.time_based || (bytes == 0 && !job.uses_files());
    let until = Until {
        bytes: (!endless).then(|| bytes.saturating_mul(loops)),
        ios: match job.create_only {
            true => Some(0),
            false => job.until.ios.map(|ios| ios.saturating_mul(loops)),
        },
        ..job.until
    };
    let ends = until.bytes.is_some() || until.ios.is_some() || until.runtime_ns.is_some();
    let ends_with_others = matches!(job.engine, Engine::Cpu(load) if load.ends_with_io);
    if !ends && !until.full && !ends_with_others {
        return Err("the job would never end; set size, number_ios or runtime".to_string());
    }
    if until.bytes == Some(0) {
        return Err(
            "nothing to transfer: size or io_size is less than one block; raise it, or lower bs"
                .to_string(),
        );
    }
    Ok(until)
}

pub(super) fn notes(job: &Job) -> impl Iterator<Item = String> {
    let name = &job.name;
    let idle = !job.is_random() && job.random_distribution.is_some();
    let idle =
        idle.then(|| format!("job '{name}': random_distribution has no effect on sequential I/O"));
    let foreign = engine::foreign(job).filter(|key| !job.has_own(key.name)).map(move |key| {
        format!("job '{name}': {} has no effect with ioengine={}", key.name, job.engine.name())
    });
    let unverified = job.verify_method.flatten().filter(|_| job.verify.is_none());
    let unverified = unverified.map(|_| {
        let engine = job.engine.name();
        format!("job '{name}': verify has no effect: with ioengine={engine} and this rw, no data is moved")
    });
    let given = ["rw", "bs", "bsrange", "bssplit", "size", "io_size", "offset"];
    let given: Vec<&str> = given.into_iter().filter(|key| job.has_own(key)).collect();
    let untraced = (!job.traces.is_empty() && !given.is_empty()).then(|| {
        let given = given.join(", ");
        format!("job '{name}': {given} has no effect: read_iolog says which I/Os there are; number_ios and runtime limit them")
    });
    idle.into_iter().chain(unverified).chain(untraced).chain(foreign)
}

pub(super) fn base_seed(job: &Job, entropy: u64) -> u64 {
    job.randseed.unwrap_or(if job.randrepeat { SEED } else { entropy })
}

/// fio's name for the file that holds the state of a verification.
pub(super) fn state_file(directory: &str, name: &str, number: usize) -> String {
    let file = format!("local-{}-{number}-verify.state", name.replace('/', "."));
    if directory.is_empty() { file } else { format!("{directory}/{file}") }
}

/// The CPUs that clone number `clone` of `job` may run on; empty for all of `host`.
pub(super) fn cpus(job: &Job, clone: u32, host: &Host) -> Result<Vec<u32>, String> {
    let cpus = &job.placement.cpus;
    let allowed = match &job.numa_cpu_nodes {
        None | Some(Nodes::All) => cpus.clone(),
        Some(nodes) => {
            let of_nodes = cpus_of(nodes, host)?;
            // As in fio, numa_cpu_nodes is applied last, within the CPUs allowed.
            let both = of_nodes.into_iter().filter(|cpu| cpus.is_empty() || cpus.contains(cpu));
            both.collect()
        }
    };
    if allowed.is_empty() && !cpus.is_empty() {
        return Err("no CPU of cpus_allowed is on numa_cpu_nodes; change one of them".to_string());
    }
    check_memory(&job.placement.memory, host)?;
    Ok(match allowed.len() {
        n if n > 0 && job.cpus_split => vec![allowed[clone as usize % n]],
        _ => allowed,
    })
}

fn cpus_of(nodes: &Nodes, host: &Host) -> Result<Vec<u32>, String> {
    let (Nodes::Only(named) | Nodes::Without(named)) = nodes else { return Ok(Vec::new()) };
    named.iter().try_for_each(|node| exists("numa_cpu_nodes", *node, host))?;
    let wanted = |node: &u32| named.contains(node) == matches!(nodes, Nodes::Only(_));
    let cpus = host.numa_nodes.iter().filter(|(node, _)| wanted(node)).flat_map(|(_, cpus)| cpus);
    let usable = |cpu: &u32| host.cpus_allowed.is_empty() || host.cpus_allowed.contains(cpu);
    let cpus: BTreeSet<u32> = cpus.copied().filter(usable).collect();
    match cpus.is_empty() {
        true => {
            Err("numa_cpu_nodes leaves no CPU that this process may use; name other nodes".into())
        }
        false => Ok(cpus.into_iter().collect()),
    }
}

fn check_memory(policy: &MemoryPolicy, host: &Host) -> Result<(), String> {
    let nodes = match policy {
        MemoryPolicy::Default | MemoryPolicy::Local => &[][..],
        MemoryPolicy::Prefer(node) => std::slice::from_ref(node),
        MemoryPolicy::Bind(nodes) | MemoryPolicy::Interleave(nodes) => nodes,
    };
    nodes.iter().try_for_each(|node| exists("numa_mem_policy", *node, host))
}

fn exists(key: &str, node: u32, host: &Host) -> Result<(), String> {
    if host.numa_nodes.is_empty() || host.numa_nodes.contains_key(&node) {
        return Ok(());
    }
    let nodes: Vec<String> = host.numa_nodes.keys().map(ToString::to_string).collect();
    Err(format!("{key}: there is no NUMA node {node}; use {}", nodes.join(", ")))
}
