//! Resolves one clone of a job.

use super::engine::{self, Choice};
use super::own_options;
use super::waves::Start;
use crate::job::{JobSpec, Nodes, RwKind, Size};
use fathom_model::facts::Host;
use fathom_model::plan::{
    Access, Advice, Dedupe, Distribution, Flow, IoFlags, JobPlan, Logs, MemoryPolicy, Order,
    Placement, Rate, Think, Until,
};
use fathom_model::{Dir, PerDir, split_mix};
use std::collections::BTreeSet;

/// fio's own default of `randseed`, so that a seed is never 0.
const SEED: u64 = 0xb189_9bed;

/// Clone `clone` of `job`, worker `number` of the run, without regions and end conditions.
pub(super) fn resolve(
    job: &JobSpec,
    clone: u32,
    number: usize,
    start: Start,
    choice: &Choice,
    entropy: u64,
) -> JobPlan {
    let seed = split_mix::nth(base_seed(job, entropy), number as u64);
    let (low, high) = job.schedule.start_delay_ns;
    let pattern = if job.work.rw.random { Advice::Random } else { Advice::Sequential };
    let has_priorities = engine::supports(job, "cmdprio_percentage");
    JobPlan {
        name: job.name.clone(),
        engine: choice.engine.clone(),
        clone,
        group: start.group,
        wave: start.wave,
        start_delay_ns: low + split_mix::nth(seed, 1) % (high - low).saturating_add(1),
        depth: choice.depth,
        requested_depth: choice.requested,
        batch: engine::batch(&job.engine, choice.depth),
        direct: job.is_direct(),
        advice: job.files.advice.unwrap_or(pattern),
        invalidate: job.invalidates(),
        fresh_passes: job.fresh_passes(),
        flags: flags(job),
        priorities: if has_priorities { job.command_priorities() } else { PerDir::default() },
        serialize_overlap: job.engine.serialize_overlap && choice.depth > 1 && job.modifies(),
        access: Access {
            mix: job.mix(),
            order: order(job),
            seed,
            align: align(job),
            ..job.plan.access.clone()
        },
        rate: rate(job),
        flow: (job.rate.flow > 0).then_some(Flow {
            id: job.rate.flow_id,
            weight: job.rate.flow,
            sleep_ns: job.rate.flow_sleep_ns,
        }),
        think: (job.rate.think_ns > 0).then(|| Think {
            time_ns: job.rate.think_ns,
            spin_ns: job.rate.think_spin_ns.min(job.rate.think_ns),
            blocks: job.rate.think_blocks,
        }),
        logs: job.logs.any().then(|| logs(job, number)),
        options: own_options(job),
        ..job.plan.clone()
    }
}

fn order(job: &JobSpec) -> Order {
    let postfix = job.work.rw.postfix;
    if !job.work.rw.random {
        return Order::Sequential { skip: postfix.unwrap_or(0) };
    }
    let default = match (job.work.to_steady_state, job.work.no_map) {
        (true, _) => Distribution::SteadyState(job.work.steady_state),
        (false, true) => Distribution::Uniform,
        (false, false) => Distribution::EachOnce,
    };
    let mut distribution = job.work.distribution.clone().unwrap_or(default);
    if let Distribution::Sequence { stride, .. } = &mut distribution {
        *stride = job.work.sequence_stride;
    }
    let run = postfix.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    Order::Random { distribution, run }
}

pub(super) fn block_min(job: &JobSpec) -> u64 {
    job.used_dirs().map(|dir| job.plan.access.block_sizes[dir].min()).min().unwrap_or(1).max(1)
}

fn align(job: &JobSpec) -> PerDir<u64> {
    let given = if job.work.rw.random { job.work.align } else { PerDir::default() };
    given.map(|dir, align| align.unwrap_or_else(|| job.plan.access.block_sizes[dir].min()))
}

/// Flags that the engine supports; as in fio, `atomic` is about writes, and `uncached` about buffered I/O.
fn flags(job: &JobSpec) -> IoFlags {
    let flags = job.engine.flags;
    let atomic = flags.atomic && job.mix().has(Dir::Write);
    let uncached = flags.uncached && !job.is_direct();
    IoFlags {
        atomic: atomic && engine::supports(job, "atomic"),
        uncached: uncached && engine::supports(job, "uncached"),
    }
}

fn logs(job: &JobSpec, number: usize) -> Logs {
    let mut logs = Logs { number: number as u32 + 1, ..job.logs.clone() };
    let keys = ["write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log"];
    let last = keys.iter().filter_map(|key| job.given.iter().rfind(|given| given.key == *key));
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
pub(super) fn dedupe(job: &JobSpec, plan: &JobPlan) -> Option<Dedupe> {
    let spec = &job.dedupe;
    let unit_bytes = plan.access.block_sizes.write.min().max(1);
    let bytes = plan.regions.iter().map(|region| region.len).fold(0, u64::saturating_add);
    let set = u128::from(bytes) * u128::from(spec.set_percent) / 100 / u128::from(unit_bytes);
    (spec.percent > 0 && job.mix().has(Dir::Write)).then(|| Dedupe {
        percent: spec.percent,
        unit_bytes,
        working_set: spec.from_set.then(|| (set as u64).max(1)),
        global: spec.global,
    })
}

fn rate(job: &JobSpec) -> PerDir<Option<Rate>> {
    PerDir::from_fn(|dir| {
        let iops = job.rate.iops[dir].map(Rate::Iops);
        iops.or_else(|| job.rate.bytes[dir].map(Rate::BytesPerSecond))
    })
}

/// When the clone ends; its regions must be resolved. `pass` is the number of bytes of a pass that skips blocks.
pub(super) fn until(job: &JobSpec, plan: &JobPlan, pass: Option<u64>) -> Result<Until, String> {
    let schedule = &job.schedule;
    let unit = plan.block_unit();
    // A remainder shorter than a block cannot be transferred.
    let regions = plan.offset_regions().iter();
    let all = regions.map(|r| r.len - r.len % unit).fold(0, u64::saturating_add);
    let size = match (job.files.size, job.files.file_size) {
        // As in fio, size limits the bytes transferred when filesize is set.
        (Some(Size::Bytes(size)), Some(_)) => all.min(size),
        _ => all,
    };
    let bytes = match schedule.io_size {
        Some(Size::Bytes(bytes)) if bytes > 0 => bytes,
        Some(Size::Percent(percent)) => (u128::from(size) * u128::from(percent) / 100) as u64,
        _ => pass.map_or(size, |pass| pass.min(size)),
    };
    let bytes = match job.work.to_steady_state {
        // As in fio, io_size has no effect then.
        true => job.work.steady_state.physical_bytes(all, unit),
        false => bytes,
    };
    // As in fio, the last block is transferred whole.
    let bytes = bytes.checked_next_multiple_of(unit).unwrap_or(bytes - bytes % unit);
    // As in fio, writes of trimmed blocks count in addition.
    let times = if job.work.rw.kind == RwKind::TrimWrite { 2 } else { 1 };
    let loops = u64::from(schedule.loops) * times;
    let endless = schedule.time_based || (bytes == 0 && !job.uses_files());
    let until = Until {
        bytes: (!endless).then(|| bytes.saturating_mul(loops)),
        ios: match job.files.create_only {
            true => Some(0),
            false => schedule.ios.map(|ios| ios.saturating_mul(loops)),
        },
        ..job.plan.until
    };
    if until.bytes.is_none() && until.ios.is_none() && until.runtime_ns.is_none() {
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

pub(super) fn notes(job: &JobSpec, clone: u32, choice: Choice) -> Vec<String> {
    if clone > 0 {
        return Vec::new();
    }
    let name = &job.name;
    let mut notes = Vec::from_iter(choice.note);
    if !job.work.rw.random && job.work.distribution.is_some() {
        notes.push(format!("job '{name}': random_distribution has no effect on sequential I/O"));
    }
    notes.extend(engine::ignored_keys(job).map(|key| {
        format!("job '{name}': {key} has no effect with ioengine={}", job.engine.name.name())
    }));
    notes
}

pub(super) fn base_seed(job: &JobSpec, entropy: u64) -> u64 {
    match (job.work.seed, job.work.repeat) {
        (Some(seed), _) => seed,
        (None, true) => SEED,
        (None, false) => entropy,
    }
}

/// The placement of clone number `clone` of `job` on `host`.
pub(super) fn placement(job: &JobSpec, clone: u32, host: &Host) -> Result<Placement, String> {
    let spec = &job.placement;
    let allowed = match (&spec.nodes, spec.cpus.as_slice()) {
        (None | Some(Nodes::All), cpus) => cpus.to_vec(),
        (Some(nodes), cpus) => {
            let of_nodes = cpus_of(nodes, host)?;
            // As in fio, numa_cpu_nodes is applied last, within the CPUs allowed.
            let both = of_nodes.into_iter().filter(|cpu| cpus.is_empty() || cpus.contains(cpu));
            both.collect()
        }
    };
    if allowed.is_empty() && !spec.cpus.is_empty() {
        return Err("no CPU of cpus_allowed is on numa_cpu_nodes; change one of them".to_string());
    }
    check_memory(&job.plan.placement.memory, host)?;
    let cpus = match (spec.split, allowed.len()) {
        (true, n) if n > 0 => vec![allowed[clone as usize % n]],
        _ => allowed,
    };
    let io_priority = match (spec.io_class, spec.io_level) {
        (None, None) => None,
        // As in fio, a level without a class means best effort.
        (class, level) => Some((class.unwrap_or(2), level.unwrap_or(0))),
    };
    Ok(Placement { cpus, io_priority, ..job.plan.placement.clone() })
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
