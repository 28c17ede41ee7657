//! CPUs, priorities and NUMA nodes of a clone.

use crate::job::{JobSpec, Nodes};
use fathom_model::facts::Host;
use fathom_model::plan::{MemoryPolicy, Placement};
use std::collections::BTreeSet;

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

/// The CPUs of `nodes` that this process may use.
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
