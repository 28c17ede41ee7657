//! CPU packages and NUMA nodes (Documentation/admin-guide/cputopology.rst).

use crate::host;
use fathom_model::topology::{CpuPackage, NumaNode};
use fathom_sys::roots::{Roots, entries, number, text};

/// The packages with online CPUs.
pub(super) fn packages(roots: &Roots) -> Vec<CpuPackage> {
    let dir = roots.sys.join("devices/system/cpu");
    let model = host::cpu_model(&text(roots.proc.join("cpuinfo")).unwrap_or_default());
    let mut packages: Vec<CpuPackage> = Vec::new();
    for cpu in numbered(&entries(&dir), "cpu") {
        let id = number::<i64>(dir.join(format!("cpu{cpu}/topology/physical_package_id")));
        // -1 if the firmware does not report it; offline CPUs have no topology.
        let Some(id) = id.map(|id| u32::try_from(id).unwrap_or(0)) else { continue };
        match packages.iter_mut().find(|package| package.id == id) {
            Some(package) => package.cpus.push(cpu),
            None => packages.push(CpuPackage { id, model: model.clone(), cpus: vec![cpu] }),
        }
    }
    packages.sort_by_key(|package| package.id);
    packages
}

/// The NUMA nodes.
pub(super) fn numa_nodes(roots: &Roots) -> Vec<NumaNode> {
    let dir = roots.sys.join("devices/system/node");
    let node = |id: u32| {
        let dir = dir.join(format!("node{id}"));
        // Each line begins with `Node N`.
        let memory = text(dir.join("meminfo")).unwrap_or_default();
        let total = memory.lines().find(|line| line.contains("MemTotal:"));
        let kibibytes = total.and_then(|line| line.split_whitespace().nth_back(1)?.parse().ok());
        NumaNode {
            id,
            cpus: host::cpu_list(&text(dir.join("cpulist")).unwrap_or_default()),
            memory_bytes: kibibytes.unwrap_or(0_u64).saturating_mul(1024),
        }
    };
    numbered(&entries(&dir), "node").into_iter().map(node).collect()
}

/// CPUs that this process may run on.
pub(super) fn allowed(roots: &Roots) -> Vec<u32> {
    let status = text(roots.proc.join("self/status")).unwrap_or_default();
    host::cpu_list(host::field(&status, "Cpus_allowed_list").unwrap_or(""))
}

/// The numbers of names such as `cpu12`, ascending.
fn numbered(names: &[String], prefix: &str) -> Vec<u32> {
    let numbers = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}
