//! Facts about the host.

use crate::topology;
use fathom_model::cpus;
use fathom_model::facts::Host;
use fathom_sys::cgroup;
use fathom_sys::roots::{self, Roots, Unread, number, text};
use sha2::{Digest, Sha256};
use std::path::Path;

/// cgroup v1 has no keyword for "unlimited"; it reports the largest page-aligned number.
const UNLIMITED_FROM: u64 = 1 << 62;
/// Bit of CAP_SYS_ADMIN in a capability set (capabilities(7)).
const CAP_SYS_ADMIN: u32 = 21;

pub fn boot_id(roots: &Roots) -> Result<String, Unread> {
    let file = roots.proc.join("sys/kernel/random/boot_id");
    roots::value(&file)?.ok_or_else(|| Unread::missing(&file))
}

pub fn host(roots: &Roots) -> Host {
    let kernel = roots.proc.join("sys/kernel");
    let cpuinfo = text(roots.proc.join("cpuinfo")).unwrap_or_default();
    let meminfo = text(roots.proc.join("meminfo")).unwrap_or_default();
    let status = text(roots.proc.join("self/status")).unwrap_or_default();
    let limits = text(roots.proc.join("self/limits")).unwrap_or_default();
    let load = text(roots.proc.join("loadavg")).unwrap_or_default();
    let cpu = roots.sys.join("devices/system");
    let nodes = topology::numa_nodes(roots).into_iter();
    let online = text(cpu.join("cpu/online")).unwrap_or_default();
    Host {
        hostname: text(kernel.join("hostname")).unwrap_or_default(),
        host_id: host_id(text(Path::new("/etc/machine-id"))),
        boot_id: boot_id(roots).unwrap_or_default(),
        kernel: text(kernel.join("osrelease")).unwrap_or_default(),
        // Since Linux 6.1.
        arch: text(kernel.join("arch")).unwrap_or_else(|| std::env::consts::ARCH.to_string()),
        cpu_model: cpu_model(&cpuinfo),
        cpus_allowed: topology::cpus_allowed(roots),
        cpus_online: u32::try_from(cpu_list(&online).len()).unwrap_or(u32::MAX),
        numa_nodes: nodes.map(|node| (node.id, node.cpus)).collect(),
        memory_bytes: kibibytes(&meminfo, "MemTotal"),
        memory_available_bytes: kibibytes(&meminfo, "MemAvailable"),
        cgroup_memory_max_bytes: memory_max(roots),
        address_space_available_bytes: soft_limit(&limits, "Max address space")
            .map(|limit| limit.saturating_sub(kibibytes(&status, "VmSize"))),
        memlock_limit_bytes: soft_limit(&limits, "Max locked memory"),
        open_files_limit: soft_limit(&limits, "Max open files").unwrap_or(u64::MAX),
        io_uring_disabled: number(kernel.join("io_uring_disabled")),
        perf_event_paranoid: number(kernel.join("perf_event_paranoid")),
        privileged: has_capability(&status, CAP_SYS_ADMIN),
        load_1min: load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0),
        clocksource: text(cpu.join("clocksource/clocksource0/current_clocksource"))
            .unwrap_or_default(),
        virtualization: virtualization(roots, &cpuinfo),
        memory_copy_bytes_per_second: None,
    }
}

fn memory_max(roots: &Roots) -> Option<u64> {
    // A fact: unknown is not limited.
    let all = cgroup::own(roots).unwrap_or_default();
    let of_memory = all.iter().filter(|hierarchy| hierarchy.is_v2 || hierarchy.has("memory"));
    let limits = of_memory.flat_map(|hierarchy| {
        let file = if hierarchy.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        hierarchy.groups().filter_map(move |dir| number(dir.join(file)))
    });
    limits.filter(|value| *value < UNLIMITED_FROM).min()
}

/// What a guest runs in, by the name of the hypervisor or of the maker of its machine; `None` on bare metal.
fn virtualization(roots: &Roots, cpuinfo: &str) -> Option<String> {
    let has_flag = || field(cpuinfo, "flags")?.split(' ').find(|flag| *flag == "hypervisor");
    let maker = || text(roots.sys.join("class/dmi/id/sys_vendor"));
    let of_guest = || has_flag().map(|_| maker().unwrap_or_else(|| "unknown".to_string()));
    text(roots.sys.join("hypervisor/type")).or_else(of_guest)
}

/// The machine ID itself must not leave the machine (machine-id(5)).
fn host_id(machine_id: Option<String>) -> String {
    let hash = |id: String| Sha256::digest(format!("fathom:{id}"));
    let bytes = machine_id.map(hash).into_iter().flatten().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The bytes of `key: n kB`; 0 without that line.
pub(crate) fn kibibytes(meminfo: &str, key: &str) -> u64 {
    let value =
        field(meminfo, key).and_then(|value| value.strip_suffix(" kB")?.parse::<u64>().ok());
    value.unwrap_or(0).saturating_mul(1024)
}

/// x86 has "model name"; other architectures have the machine or the implementer.
pub(crate) fn cpu_model(cpuinfo: &str) -> String {
    let keys = ["model name", "Model", "cpu", "uarch", "CPU implementer"];
    keys.iter().find_map(|key| field(cpuinfo, key)).unwrap_or("").to_string()
}

pub(crate) fn cpu_list(text: &str) -> Vec<u32> {
    cpus::parse(text).unwrap_or_default()
}

/// The soft limit in one line of /proc/self/limits; `None` if unlimited.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn has_capability(status: &str, bit: u32) -> bool {
    let effective = field(status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    effective.is_some_and(|set| set >> bit & 1 == 1)
}
