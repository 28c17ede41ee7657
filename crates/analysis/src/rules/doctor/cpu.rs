//! Settings of the CPUs.

use super::{bad, check, cpus, good, judged};
use fathom_model::setting::Setting;

/// Where cpufreq keeps its policies; `*` stands for all of them.
const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq/policy*/";
/// Leaving an idle state may take this long in µs before it shows in latencies.
const EXIT_US: u64 = 50;

check! { GOVERNOR: Machine, Warning {
    id: "governor",
    title: "cpufreq governor",
    reads: "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    says: "the cpufreq governor is FOUND; for measurements, use WANTED",
    good: "performance, for all measurements",
    cost: "CPUs start at a low clock and change it during the measurement: IOPS are lower and vary.",
    why: "kernel Documentation/admin-guide/pm/cpufreq.rst",
    change: "cpupower frequency-set -g WANTED",
    fix: Some(Setting::Governor),
    judge: |machine| {
        let Ok(now) = machine.files.text(&format!("{CPUFREQ}scaling_governor")) else { return Ok(None) };
        judged(now != "performance", now, "performance")
    },
    case: |i| i.host.set(&format!("{CPUFREQ}scaling_governor"), "performance, powersave"),
    near_miss: |i| i.host.set(&format!("{CPUFREQ}scaling_governor"), "performance"),
} }

check! { FREQUENCY_CAP: Machine, Warning {
    id: "frequency-cap",
    title: "maximum allowed clock, kHz",
    reads: "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq",
    says: "CPU clocks are capped at FOUND kHz of WANTED kHz",
    good: "the CPU's maximum (cpuinfo_max_freq)",
    cost: "CPU-bound workloads lose IOPS in proportion.",
    why: "kernel Documentation/admin-guide/pm/cpufreq.rst, scaling_max_freq",
    change: "cpupower frequency-set -u WANTED",
    fix: None,
    judge: |machine| {
        let Ok(now) = machine.files.text(&format!("{CPUFREQ}scaling_max_freq")) else { return Ok(None) };
        let most = machine.files.text(&format!("{CPUFREQ}cpuinfo_max_freq"))?;
        if now == most { good(now) } else { bad(now, most) }
    },
    case: |i| i.host.set(&format!("{CPUFREQ}scaling_max_freq"), "2000000"),
    near_miss: |i| i.host.set(&format!("{CPUFREQ}scaling_max_freq"), "4000000"),
} }

check! { TURBO: Machine, Warning {
    id: "turbo",
    title: "boost clocks",
    reads: "/sys/devices/system/cpu/intel_pstate/no_turbo, cpufreq/boost",
    says: "boost clocks are disabled",
    good: "enabled, for the highest IOPS; disabled, for the most repeatable",
    cost: "Busy CPUs stay at the base clock, often a third below their boost clock.",
    why: "kernel Documentation/admin-guide/pm/intel_pstate.rst, no_turbo",
    change: "echo 0 >/sys/devices/system/cpu/intel_pstate/no_turbo, or echo 1 >/sys/devices/system/cpu/cpufreq/boost",
    fix: None,
    judge: |machine| {
        let off = machine.files.text("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|text| text == "1");
        let boost = machine.files.text("/sys/devices/system/cpu/cpufreq/boost").map(|text| text == "0");
        match off.or(boost) {
            Ok(off) => judged(off, if off { "disabled" } else { "enabled" }, "enabled"),
            Err(_) => Ok(None),
        }
    },
    case: |i| i.host.set("/sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
    near_miss: |i| i.host.set("/sys/devices/system/cpu/cpufreq/boost", "1"),
} }

check! { ENERGY: Machine, Info {
    id: "energy-preference",
    title: "energy preference",
    reads: "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference",
    says: "the CPU's energy preference is FOUND; for measurements, use WANTED",
    good: "performance, for measurements",
    cost: "The CPU itself chooses lower clocks under partial load.",
    why: "kernel Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst",
    change: "echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference",
    fix: None,
    judge: |machine| {
        let file = format!("{CPUFREQ}energy_performance_preference");
        let Ok(now) = machine.files.text(&file) else { return Ok(None) };
        judged(now != "performance", now, "performance")
    },
    case: |i| i.host.set(&format!("{CPUFREQ}energy_performance_preference"), "balance_power"),
    near_miss: |i| i.host.set(&format!("{CPUFREQ}energy_performance_preference"), "performance"),
} }

check! { IDLE_STATES: Machine, Info {
    id: "idle-states",
    title: "deepest idle state of the CPUs",
    reads: "/sys/devices/system/cpu/cpu0/cpuidle/state*/latency",
    says: "leaving the deepest idle state takes a CPU FOUND",
    good: "exit latency of at most 50 µs, for latency at low queue depth; deep states leave more boost to busy CPUs",
    cost: "A CPU that idles while it waits for an I/O takes this long to wake up, which adds to latency.",
    why: "kernel Documentation/admin-guide/pm/cpuidle.rst",
    change: "cpupower idle-set -D 50, or hold /dev/cpu_dma_latency open",
    fix: None,
    judge: |machine| {
        let state = |path: &str| path.starts_with("/sys/devices/system/cpu/cpu0/cpuidle/");
        let files = machine.files.texts.iter().filter(|(path, _)| state(path) && path.ends_with("/latency"));
        let enabled = files.filter(|(path, _)| {
            machine.files.text(&path.replace("/latency", "/disable")) != Ok("1")
        });
        let Some(us) = enabled.filter_map(|(_, text)| text.parse::<u64>().ok()).max() else {
            return Ok(None);
        };
        judged(us > EXIT_US, format!("{us} µs"), "at most 50 µs")
    },
    case: |i| i.host.set("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "170"),
    near_miss: |i| {
        i.host.set("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "170");
        i.host.set("/sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "1");
    },
} }

check! { OFFLINE: Machine, Info {
    id: "cpus-offline",
    title: "CPUs online",
    reads: "/sys/devices/system/cpu/online, present",
    says: "CPUs FOUND are online, of WANTED",
    good: "all CPUs present",
    cost: "Fewer CPUs submit and complete I/O; the queues of offline CPUs are idle.",
    why: "kernel Documentation/core-api/cpu_hotplug.rst",
    change: "echo 1 >/sys/devices/system/cpu/cpuN/online",
    fix: None,
    judge: |machine| {
        let online = machine.files.text("/sys/devices/system/cpu/online")?;
        let present = machine.files.text("/sys/devices/system/cpu/present")?;
        if cpus(online) == cpus(present) { good(online) } else { bad(online, present) }
    },
    case: |i| i.host.set("/sys/devices/system/cpu/present", "0-15"),
    near_miss: |i| i.host.set("/sys/devices/system/cpu/present", "0-3,4-7"),
} }

check! { AFFINITY: Machine, Info {
    id: "cpus-allowed",
    title: "CPUs that fathom may use",
    reads: "/proc/self/status, Cpus_allowed_list",
    says: "fathom may run on FOUND CPUs",
    good: "all CPUs online",
    cost: "Peaks are those of only part of the machine.",
    why: "sched_setaffinity(2), cpuset(7)",
    change: "run fathom without taskset, outside of a cpuset",
    fix: None,
    judge: |machine| {
        let online = cpus(machine.files.text("/sys/devices/system/cpu/online")?).len();
        let allowed = machine.host.cpus_allowed.len();
        judged(allowed < online, format!("{allowed} of {online}"), "all")
    },
    case: |i| i.host.set("/sys/devices/system/cpu/online", "0-8"),
    near_miss: |i| i.host.set("/sys/devices/system/cpu/online", "0-6"),
} }

check! { DAEMONS: Machine, Info {
    id: "daemons",
    title: "programs that change settings",
    reads: "/proc/PID/comm",
    says: "programs that change settings are running: FOUND",
    good: "none during a measurement",
    cost: "They move interrupts, or change governors and queues, during a measurement.",
    why: "irqbalance(1), tuned(8), power-profiles-daemon",
    change: "systemctl stop irqbalance tuned power-profiles-daemon thermald",
    fix: None,
    judge: |machine| match machine.daemons {
        [] => machine.read("/proc").and_then(|()| good("none")),
        all => bad(all.join(", "), "none"),
    },
    case: |i| i.daemons.push("irqbalance".into()),
    near_miss: |i| i.daemons.clear(),
} }

check! { NUMA_BALANCING: Machine, Info {
    id: "numa-balancing",
    title: "automatic NUMA balancing",
    reads: "/proc/sys/kernel/numa_balancing",
    says: "automatic NUMA balancing is enabled",
    good: "0, for repeatable measurements on machines with several nodes",
    cost: "The kernel unmaps pages to detect who uses them, and moves threads: latencies vary.",
    why: "kernel Documentation/admin-guide/sysctl/kernel.rst, numa_balancing",
    change: "sysctl kernel.numa_balancing=0",
    fix: None,
    judge: |machine| {
        let nodes = machine.files.text("/sys/devices/system/node/online").map_or(0, |text| cpus(text).len());
        let Ok(now) = machine.files.text("/proc/sys/kernel/numa_balancing") else { return Ok(None) };
        judged(nodes > 1 && now != "0", now, "0")
    },
    case: |i| {
        i.host.set("/proc/sys/kernel/numa_balancing", "1");
        i.host.set("/sys/devices/system/node/online", "0-1");
    },
    near_miss: |i| i.host.set("/proc/sys/kernel/numa_balancing", "1"),
} }
