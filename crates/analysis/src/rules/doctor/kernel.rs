//! Settings of the kernel, and what fathom's own sampling needs.

use super::{bad, bad_as, check, good, judged};
use crate::rules::host::FAST_CLOCKS;
use fathom_model::finding::Severity;
use fathom_model::setting::Setting;

/// Load average per CPU from which other programs disturb.
const LOAD_SHARE: f64 = 0.5;

check! { IO_URING: Machine, Warning {
    id: "io-uring",
    title: "io_uring",
    reads: "/proc/sys/kernel/io_uring_disabled",
    says: "kernel.io_uring_disabled is FOUND",
    good: "0",
    cost: "1 restricts io_uring to a privileged group, 2 disables it for everyone: only slower engines remain.",
    why: "kernel Documentation/admin-guide/sysctl/kernel.rst, io_uring_disabled (commit 76d3ccecfa18)",
    change: "sysctl kernel.io_uring_disabled=0",
    fix: None,
    judge: |machine| {
        let Some(now) = machine.host.io_uring_disabled else { return Ok(None) };
        judged(now == 2 || now == 1 && !machine.host.privileged, now.to_string(), "0")
    },
    case: |i| i.facts.io_uring_disabled = Some(2),
    near_miss: |i| i.facts.io_uring_disabled = Some(1),
} }

check! { CLOCK: Machine, Warning {
    id: "clock-source",
    title: "clock source",
    reads: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    says: "the clock source is FOUND, which the vDSO cannot read",
    good: "one that the vDSO can read, such as tsc",
    cost: "Every clock read is a system call, which adds to every latency.",
    why: "vdso(7); kernel Documentation/timers/timekeeping.rst",
    change: "see dmesg for why tsc was rejected; if the TSC is stable after all, boot with tsc=reliable",
    fix: None,
    judge: |machine| {
        let now = machine.host.clocksource.as_str();
        if now.is_empty() {
            return Err("the kernel does not report its clock source".into());
        }
        judged(!FAST_CLOCKS.contains(&now), now, "tsc")
    },
    case: |i| i.facts.clocksource = "hpet".into(),
    near_miss: |i| i.facts.clocksource = "kvm-clock".into(),
} }

check! { DEBUG: Machine, Warning {
    id: "debug-kernel",
    title: "kernel debugging features",
    reads: "/proc/lockdep_stats",
    says: "the kernel checks locks (FOUND)",
    good: "a kernel without lockdep, as distributions ship it",
    cost: "Every lock operation is checked, which multiplies CPU time per I/O.",
    why: "kernel Documentation/locking/lockdep-design.rst",
    change: "boot a kernel without CONFIG_PROVE_LOCKING",
    fix: None,
    judge: |machine| match machine.files.text("/proc/lockdep_stats") {
        Ok(_) => bad("lockdep", "none"),
        Err(_) => machine.read("/proc").and_then(|()| good("none")),
    },
    case: |i| i.host.set("/proc/lockdep_stats", "present"),
    near_miss: |i| i.host.set("/proc/swaps", ""),
} }

check! { LOAD: Machine, Warning {
    id: "load",
    title: "other programs",
    reads: "/proc/loadavg",
    says: "FOUND: other programs are running",
    good: "a load average below 0.5 per CPU before a measurement",
    cost: "Other programs share CPUs and caches; figures vary.",
    why: "proc_loadavg(5)",
    change: "fathom top shows what is running",
    fix: None,
    judge: |machine| {
        let (load, cpus) = (machine.host.load_1min, machine.host.cpus_online);
        machine.read("/proc")?;
        if cpus == 0 {
            return Err("the number of CPUs is not known".into());
        }
        let share = load / f64::from(cpus);
        let them = if cpus == 1 { "CPU" } else { "CPUs" };
        let found = format!("load average {load:.1} on {cpus} {them}");
        if share >= 1.0 {
            return bad(found, "below 0.5 per CPU");
        }
        if share >= LOAD_SHARE { bad_as(Severity::Info, found, "below 0.5 per CPU") } else { good(found) }
    },
    case: |i| i.facts.load_1min = 4.0,
    near_miss: |i| i.facts.load_1min = 3.9,
} }

check! { TRANSPARENT_HUGEPAGE: Machine, Info {
    id: "transparent-hugepage",
    title: "transparent huge pages",
    reads: "/sys/kernel/mm/transparent_hugepage/enabled",
    says: "transparent huge pages are disabled (FOUND)",
    good: "madvise, or always, for buffers of large I/Os",
    cost: "Buffers consist of small pages: more segments per request, and more TLB misses.",
    why: "kernel Documentation/admin-guide/mm/transhuge.rst",
    change: "echo WANTED >/sys/kernel/mm/transparent_hugepage/enabled",
    fix: Some(Setting::TransparentHugepage),
    judge: |machine| {
        let Ok(text) = machine.files.text("/sys/kernel/mm/transparent_hugepage/enabled") else {
            return Ok(None);
        };
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let chosen = chosen.map_or(text, |(word, _)| word);
        judged(chosen == "never", chosen, "madvise")
    },
    case: |i| i.host.set("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
    near_miss: |i| i.host.set("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
} }

check! { PERF: Machine, Info {
    id: "perf-events",
    title: "perf events",
    reads: "/proc/sys/kernel/perf_event_paranoid",
    says: "kernel.perf_event_paranoid is FOUND",
    good: "root, or at most 1, for fathom's stack samples and counters",
    cost: "Without them, fathom cannot attribute CPU time to functions.",
    why: "perf_event_open(2), perf_event_paranoid",
    change: "run fathom as root, or sysctl kernel.perf_event_paranoid=1",
    fix: None,
    judge: |machine| {
        let Some(level) = machine.host.perf_event_paranoid else {
            return Err("the kernel does not report perf_event_paranoid".into());
        };
        let found = format!("{level}{}", if machine.host.privileged { ", as root" } else { "" });
        judged(level > 1 && !machine.host.privileged, found, "1 or less")
    },
    case: |i| (i.facts.privileged, i.facts.perf_event_paranoid) = (false, Some(2)),
    near_miss: |i| i.facts.perf_event_paranoid = Some(2),
} }

check! { SYMBOLS: Machine, Info {
    id: "kernel-symbols",
    title: "kernel symbols",
    reads: "/proc/sys/kernel/kptr_restrict",
    says: "kernel.kptr_restrict is FOUND, which hides the names of kernel functions",
    good: "0, or 1 as root, for stack samples with names",
    cost: "Kernel functions in stack samples have no names, and CPU time is not split by layer.",
    why: "kernel Documentation/admin-guide/sysctl/kernel.rst, kptr_restrict",
    change: "sysctl kernel.kptr_restrict=1, and run fathom as root",
    fix: None,
    judge: |machine| {
        let now = machine.files.text("/proc/sys/kernel/kptr_restrict")?;
        judged(now == "2" || now == "1" && !machine.host.privileged, now, "0, or 1 as root")
    },
    case: |i| i.host.set("/proc/sys/kernel/kptr_restrict", "2"),
    near_miss: |i| i.host.set("/proc/sys/kernel/kptr_restrict", "1"),
} }

check! { TRACEPOINTS: Machine, Info {
    id: "tracepoints",
    title: "tracepoints",
    reads: "/sys/kernel/tracing/events",
    says: "tracepoints are FOUND",
    good: "readable, for fathom's block-layer figures",
    cost: "Without them, fathom does not count merges, splits, batches and driver latencies.",
    why: "kernel Documentation/trace/ftrace.rst",
    change: "run fathom as root",
    fix: None,
    judge: |machine| match machine.files.text("/sys/kernel/tracing/events") {
        Ok(text) => good(text),
        // Then fathom mounts tracefs for itself.
        Err(_) if machine.host.privileged => {
            let known = machine.files.text("/proc/filesystems")?;
            judged(!known.contains("tracefs"), "unsupported by the kernel", "readable")
        }
        Err(_) => bad("not readable", "readable"),
    },
    case: |i| {
        i.facts.privileged = false;
        i.host.texts.remove("/sys/kernel/tracing/events");
    },
    near_miss: |i| {
        i.host.set("/proc/filesystems", "tracefs");
        i.host.texts.remove("/sys/kernel/tracing/events");
    },
} }

check! { LOCKDOWN: Machine, Info {
    id: "lockdown",
    title: "kernel lockdown",
    reads: "/sys/kernel/security/lockdown",
    says: "the kernel is locked down (FOUND)",
    good: "none or integrity",
    cost: "With confidentiality, BPF cannot read kernel memory and perf hides registers: some of fathom's figures are missing.",
    why: "kernel_lockdown(7)",
    change: "boot without lockdown=confidentiality",
    fix: None,
    judge: |machine| {
        let Ok(text) = machine.files.text("/sys/kernel/security/lockdown") else { return Ok(None) };
        let is_strict = text.contains("[confidentiality]");
        judged(is_strict, if is_strict { "confidentiality" } else { "none or integrity" }, "none or integrity")
    },
    case: |i| i.host.set("/sys/kernel/security/lockdown", "none integrity [confidentiality]"),
    near_miss: |i| i.host.set("/sys/kernel/security/lockdown", "none [integrity] confidentiality"),
} }

check! { WATCHDOG: Machine, Info {
    id: "nmi-watchdog",
    title: "NMI watchdog",
    reads: "/proc/sys/kernel/nmi_watchdog",
    says: "the NMI watchdog is enabled",
    good: "0, when hardware counters are used",
    cost: "It occupies one hardware counter of each CPU and interrupts the CPU periodically.",
    why: "kernel Documentation/admin-guide/lockup-watchdogs.rst",
    change: "sysctl kernel.nmi_watchdog=0",
    fix: None,
    judge: |machine| {
        let Ok(now) = machine.files.text("/proc/sys/kernel/nmi_watchdog") else { return Ok(None) };
        judged(now == "1", now, "0")
    },
    case: |i| i.host.set("/proc/sys/kernel/nmi_watchdog", "1"),
    near_miss: |i| i.host.set("/proc/sys/kernel/nmi_watchdog", "0"),
} }

check! { ZONE_RECLAIM: Machine, Info {
    id: "zone-reclaim",
    title: "reclaim before other NUMA nodes are used",
    reads: "/proc/sys/vm/zone_reclaim_mode",
    says: "vm.zone_reclaim_mode is FOUND",
    good: "0, for buffered I/O",
    cost: "The page cache is reclaimed on one node while others have free memory.",
    why: "kernel Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode",
    change: "sysctl vm.zone_reclaim_mode=0",
    fix: None,
    judge: |machine| {
        let Ok(now) = machine.files.text("/proc/sys/vm/zone_reclaim_mode") else { return Ok(None) };
        judged(now != "0", now, "0")
    },
    case: |i| i.host.set("/proc/sys/vm/zone_reclaim_mode", "1"),
    near_miss: |i| i.host.set("/proc/sys/vm/zone_reclaim_mode", "0"),
} }

check! { VIRTUAL: Machine, Info {
    id: "virtual-machine",
    title: "virtual machine",
    reads: "/proc/cpuinfo, flag hypervisor",
    says: "running in a virtual machine: other guests may share the hardware",
    good: "no virtual machine, if the limits of the hardware are of interest",
    cost: "Figures are those of this guest: quotas apply, and interrupts and idle states cost more.",
    why: "the CPU's flag for guests (kernel arch/x86/include/asm/cpufeatures.h, X86_FEATURE_HYPERVISOR)",
    change: "",
    fix: None,
    judge: |machine| {
        let text = machine.files.text("/proc/cpuinfo")?;
        let is_guest = text == "hypervisor";
        judged(is_guest, if is_guest { "yes" } else { "no" }, "no")
    },
    case: |i| i.host.set("/proc/cpuinfo", "hypervisor"),
    near_miss: |i| i.host.set("/proc/cpuinfo", "no hypervisor"),
} }
