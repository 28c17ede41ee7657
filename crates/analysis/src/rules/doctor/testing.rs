//! A machine with one NVMe disk that nothing is wrong with.

use super::diagnose;
use crate::rules::Rule;
use crate::rules::testing::GIB;
use fathom_model::facts::{DeviceFacts, Host};
use fathom_model::finding::Finding;
use fathom_model::inspection::{
    DiskInspection, Inspection, Interrupt, LbaFormat, MountedFileSystem, NvmeNamespace, NvmeReport,
    NvmeSmart, Partition, PowerState,
};
use std::ops::{Deref, DerefMut};

/// A machine and its facts.
pub(in crate::rules) struct TestMachine {
    pub facts: Host,
    inspection: Inspection,
}

impl Deref for TestMachine {
    type Target = Inspection;

    fn deref(&self) -> &Inspection {
        &self.inspection
    }
}

impl DerefMut for TestMachine {
    fn deref_mut(&mut self) -> &mut Inspection {
        &mut self.inspection
    }
}

impl TestMachine {
    /// What `rule` alone finds.
    pub fn findings(&self, rule: &Rule) -> Vec<Finding> {
        let all = diagnose(&self.facts, self).findings.into_iter().map(|found| found.finding);
        all.filter(|finding| finding.rule == rule.id).collect()
    }
}

const HOST: &[(&str, &str)] = &[
    ("/proc/swaps", "/swapfile"),
    ("/proc/sys/kernel/kptr_restrict", "0"),
    ("/proc/sys/kernel/nmi_watchdog", "0"),
    ("/proc/sys/kernel/numa_balancing", "0"),
    ("/proc/sys/vm/nr_hugepages", "512"),
    ("/proc/sys/vm/zone_reclaim_mode", "0"),
    ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2"),
    ("/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq", "4000000"),
    ("/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", "performance"),
    ("/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", "4000000"),
    ("/sys/devices/system/cpu/online", "0-7"),
    ("/sys/devices/system/cpu/present", "0-7"),
    ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected"),
    ("/sys/devices/system/node/online", "0"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
    ("/sys/kernel/tracing/events", "readable"),
];

const DISK: &[(&str, &str)] = &[
    ("alignment_offset", "0"),
    ("inflight", "       0        0"),
    ("mq/0/nr_tags", "1023"),
    ("nvme/state", "live"),
    ("pci/iommu_group/type", "identity"),
    ("pci/numa_node", "0"),
    ("queue/add_random", "0"),
    ("queue/chunk_sectors", "0"),
    ("queue/discard_max_bytes", "2199023255040"),
    ("queue/io_poll", "1"),
    ("queue/iostats", "1"),
    ("queue/max_hw_sectors_kb", "2048"),
    ("queue/max_sectors_kb", "1280"),
    ("queue/max_segments", "256"),
    ("queue/nomerges", "2"),
    ("queue/nr_requests", "1023"),
    ("queue/read_ahead_kb", "128"),
    ("queue/rotational", "0"),
    ("queue/rq_affinity", "1"),
    ("queue/scheduler", "[none] mq-deadline"),
    ("queue/wbt_lat_usec", "0"),
    ("queue/write_cache", "write through"),
    ("ro", "0"),
];

pub(in crate::rules) fn healthy() -> TestMachine {
    let facts = Host {
        cpus_allowed: (0..8).collect(),
        cpus_online: 8,
        memory_bytes: 16 * GIB,
        memory_available_bytes: 8 * GIB,
        io_uring_disabled: Some(0),
        perf_event_paranoid: Some(2),
        privileged: true,
        load_1min: 0.1,
        clocksource: "tsc".into(),
        ..Host::default()
    };
    let device =
        DeviceFacts { name: "nvme0n1".into(), hardware_queues: Some(8), ..DeviceFacts::default() };
    let mut disk = DiskInspection { device, nvme: Some(drive()), ..DiskInspection::default() };
    disk.partitions = vec![Partition { name: "nvme0n1p1".into(), start_bytes: 1 << 20 }];
    let cpus = |cpu: u32| Interrupt { number: 24 + cpu, cpus: cpu.to_string(), counts: Vec::new() };
    disk.interrupts = (0..8).map(cpus).collect();
    DISK.iter().for_each(|(path, text)| disk.files.set(path, text));
    let mut inspection = Inspection { disks: vec![disk], ..Inspection::default() };
    HOST.iter().for_each(|(path, text)| inspection.host.set(path, text));
    TestMachine { facts, inspection }
}

fn drive() -> NvmeReport {
    let format = |block_bytes, relative_performance| LbaFormat {
        block_bytes,
        metadata_bytes: 0,
        relative_performance,
    };
    let state =
        |is_operational, exit_us| PowerState { is_operational, exit_us, ..PowerState::default() };
    NvmeReport {
        controller: "nvme0".into(),
        firmware: "1.0".into(),
        warning_celsius: Some(80),
        power_states: vec![state(true, 0), state(true, 0), state(false, 1200)],
        power_state: Some(0),
        autonomous_power: Some(false),
        has_volatile_cache: true,
        volatile_cache_enabled: Some(false),
        smart: Some(NvmeSmart {
            celsius: 40,
            spare_percent: 100,
            spare_threshold_percent: 10,
            ..NvmeSmart::default()
        }),
        firmware_slots: Some(Default::default()),
        namespace: Some(NvmeNamespace {
            size_blocks: 1000,
            used_blocks: 1000,
            formats: vec![format(4096, 0), format(512, 2)],
            ..NvmeNamespace::default()
        }),
        ..NvmeReport::default()
    }
}

pub(super) fn first_disk(machine: &mut TestMachine) -> &mut DiskInspection {
    &mut machine.disks[0]
}

/// Makes it a device that passes I/Os on as they are.
pub(super) fn without_requests(machine: &mut TestMachine) {
    let disk = first_disk(machine);
    disk.device.hardware_queues = None;
    disk.files.texts.remove("mq/0/nr_tags");
}

/// Sets the text of a file: of the machine, of its control groups, or of the disk.
pub(super) fn set(machine: &mut TestMachine, path: &str, text: &str) {
    match path.starts_with('/') || path.starts_with("cgroup/") {
        true => machine.host.set(path, text),
        false => first_disk(machine).files.set(path, text),
    }
}

pub(super) fn nvme(machine: &mut TestMachine) -> &mut NvmeReport {
    first_disk(machine).nvme.as_mut().unwrap()
}

pub(super) fn smart(machine: &mut TestMachine) -> &mut NvmeSmart {
    nvme(machine).smart.as_mut().unwrap()
}

pub(super) fn namespace(machine: &mut TestMachine) -> &mut NvmeNamespace {
    nvme(machine).namespace.as_mut().unwrap()
}

/// Mounts a file system of 100 bytes.
pub(super) fn mount(machine: &mut TestMachine, options: &str, free_bytes: u64) {
    first_disk(machine).mounts = vec![MountedFileSystem {
        point: "/data".into(),
        file_system: "ext4".into(),
        options: options.into(),
        size_bytes: 100,
        free_bytes,
    }];
}

pub(super) fn partition(machine: &mut TestMachine, start_bytes: u64) {
    let name = "nvme0n1p2".into();
    first_disk(machine).partitions.push(Partition { name, start_bytes });
}
