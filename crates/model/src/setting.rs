//! Settings of the machine that fathom can change, and restores.

use crate::{cpus, units};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A setting; in the order in which several are applied, because a change of the scheduler resets others.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// queue/scheduler of a disk.
    Scheduler,
    /// queue/read_ahead_kb of a disk.
    ReadAheadKb,
    /// queue/nr_requests of a disk.
    NrRequests,
    /// queue/nomerges of a disk.
    Nomerges,
    /// queue/rq_affinity of a disk.
    RqAffinity,
    /// queue/io_poll of a disk; current kernels ignore it.
    IoPoll,
    /// queue/wbt_lat_usec of a disk.
    WbtLatUsec,
    /// queue/iostats of a disk.
    Iostats,
    /// queue/max_sectors_kb of a disk.
    MaxSectorsKb,
    /// The cpufreq governor of one CPU (`cpu3`), or of all.
    Governor,
    /// The CPUs that serve an interrupt, named by its number, or all interrupts of a disk.
    IrqAffinity,
    /// transparent_hugepage/enabled.
    TransparentHugepage,
    /// vm.drop_caches, once; it is not undone.
    DropCaches,
    /// A control group of its own for this process, with limits.
    Cgroup,
    /// The CPUs on which a process, its threads and its descendants may run.
    CpuAffinity,
    /// The CPU quotas of a process's cgroups: cpu.max (v1: cpu.cfs_quota_us).
    CpuMax,
    /// The I/O limits of a process's cgroups: io.max (v1: blkio.throttle.*).
    IoMax,
    /// The I/O weights of a process's cgroups: io.weight, io.bfq.weight (v1: blkio.bfq.weight).
    IoWeight,
}

/// What a setting belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingScope {
    /// A disk.
    Disk,
    /// A CPU; without one, all of them.
    Cpu,
    /// An interrupt, or a disk's interrupts.
    Irq,
    /// The machine.
    Machine,
    /// A process, named by its ID.
    Process,
}

/// What a setting may be set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// A word; the kernel knows which.
    Word,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A number from the first to the second.
    Number(u64, u64),
    /// CPUs, such as `0-3,8`.
    Cpus,
    /// See [`CgroupLimits`].
    Limits,
}

/// A setting, its name, what it belongs to, and its values.
type Row = (Setting, &'static str, SettingScope, Values);

/// All settings.
const TABLE: [Row; 18] = [
    (Setting::Scheduler, "scheduler", SettingScope::Disk, Values::Word),
    (Setting::ReadAheadKb, "read_ahead_kb", SettingScope::Disk, Values::Number(0, 1 << 22)),
    (Setting::NrRequests, "nr_requests", SettingScope::Disk, Values::Number(4, 1 << 16)),
    (Setting::Nomerges, "nomerges", SettingScope::Disk, Values::OneOf(&["0", "1", "2"])),
    (Setting::RqAffinity, "rq_affinity", SettingScope::Disk, Values::OneOf(&["0", "1", "2"])),
    (Setting::IoPoll, "io_poll", SettingScope::Disk, Values::OneOf(&["0", "1"])),
    (Setting::WbtLatUsec, "wbt_lat_usec", SettingScope::Disk, Values::Number(0, 1 << 30)),
    (Setting::Iostats, "iostats", SettingScope::Disk, Values::OneOf(&["0", "1"])),
    (Setting::MaxSectorsKb, "max_sectors_kb", SettingScope::Disk, Values::Number(4, 1 << 22)),
    (Setting::Governor, "governor", SettingScope::Cpu, Values::Word),
    (Setting::IrqAffinity, "irq_affinity", SettingScope::Irq, Values::Cpus),
    (
        Setting::TransparentHugepage,
        "transparent_hugepage",
        SettingScope::Machine,
        Values::OneOf(&["always", "madvise", "never"]),
    ),
    (Setting::DropCaches, "drop_caches", SettingScope::Machine, Values::OneOf(&["1", "2", "3"])),
    (Setting::Cgroup, "cgroup", SettingScope::Machine, Values::Limits),
    (Setting::CpuAffinity, "cpu_affinity", SettingScope::Process, Values::Cpus),
    (Setting::CpuMax, "cpu_max", SettingScope::Process, Values::OneOf(&["max"])),
    (Setting::IoMax, "io_max", SettingScope::Process, Values::OneOf(&["max"])),
    (Setting::IoWeight, "io_weight", SettingScope::Process, Values::Number(1, 1000)),
];

impl Setting {
    /// All settings.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The setting with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name, which for a disk's settings is that of its file in `queue/`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it belongs to.
    pub fn scope(self) -> SettingScope {
        self.row().2
    }

    fn row(self) -> &'static Row {
        // The table has each setting once, in order, as a test checks.
        &TABLE[self as usize]
    }

    /// Checks a value as far as that is possible without the machine.
    pub fn check(self, value: &str) -> Result<(), String> {
        let refuse = |expected: &str| Err(format!("{self}={value}: expected {expected}"));
        match self.row().3 {
            Values::Word if is_word(value) => Ok(()),
            Values::Word => refuse("a name"),
            Values::OneOf(words) if words.contains(&value) => Ok(()),
            Values::OneOf(words) => refuse(&words.join(", ")),
            Values::Number(least, most) => match value.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                _ => refuse(&format!("a number from {least} to {most}")),
            },
            Values::Cpus if cpus::parse(value).is_ok() => Ok(()),
            Values::Cpus => refuse("CPUs, such as 0-3,8"),
            Values::Limits => {
                CgroupLimits::parse(value).map(|_| ()).map_err(|e| format!("{self}={value}: {e}"))
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn is_word(value: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !value.is_empty() && value.len() < 32 && value.bytes().all(is_part)
}

/// A setting of one target and the value that it is to have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SettingChange {
    /// What is set.
    pub setting: Setting,
    /// A path or kernel name of a disk, the number of an interrupt, or the name of a CPU; empty for the machine.
    pub target: String,
    /// What it is set to.
    pub value: String,
}

impl SettingChange {
    /// Parses `scheduler=none`, for `target` where the setting belongs to a disk. Interrupts and CPUs are named
    /// as in `irq_affinity:24=0-3` and `governor:cpu3=performance`; a disk can be, too. A process has to be:
    /// `cpu_affinity:4711=0-3`.
    pub fn parse(text: &str, target: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}`: expected SETTING=VALUE"))?;
        let (name, own) = name.trim().split_once(':').unwrap_or((name.trim(), ""));
        let value = value.trim();
        let Some(setting) = Setting::by_name(name) else {
            let names: Vec<&str> = Setting::all().map(Setting::name).collect();
            return Err(format!("unknown setting `{name}`; settings are {}", names.join(", ")));
        };
        setting.check(value)?;
        let target = match (setting.scope(), own) {
            (SettingScope::Disk | SettingScope::Irq, "") if target.is_empty() => {
                return Err(format!("{setting}={value}: expected a target"));
            }
            (SettingScope::Disk | SettingScope::Irq, "") => target,
            (SettingScope::Process, own) if own.parse::<u32>().is_err() => {
                return Err(format!("{text}: expected {setting}:PID={value}"));
            }
            (SettingScope::Machine, own) if !own.is_empty() => {
                return Err(format!("{text}: {setting} has no target"));
            }
            (_, own) => own,
        };
        Ok(Self { setting, target: target.to_string(), value: value.to_string() })
    }
}

/// As in messages: `scheduler of nvme0n1`, `transparent_hugepage`.
pub fn setting_of(setting: Setting, target: &str) -> String {
    if target.is_empty() { setting.to_string() } else { format!("{setting} of {target}") }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", setting_of(self.setting, &self.target), self.value)
    }
}

/// Limits of a control group, such as `memory.max=512m,cpu.max=1.5`; `none` for a group without limits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CgroupLimits {
    /// Memory in bytes, the page cache included.
    pub memory_bytes: Option<u64>,
    /// CPU time per time.
    pub cpus: Option<f64>,
}

impl CgroupLimits {
    /// Parses a list of limits.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "expected none, or memory.max=SIZE, cpu.max=CPUS, or both with a comma";
        let mut limits = Self::default();
        if text == "none" {
            return Ok(limits);
        }
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or(EXPECTED)?;
            match name.trim() {
                "memory.max" => {
                    let bytes = units::size_bytes(value.trim()).filter(|bytes| *bytes > 0);
                    limits.memory_bytes = Some(bytes.ok_or(EXPECTED)?);
                }
                "cpu.max" => {
                    let cpus =
                        value.trim().parse().ok().filter(|n: &f64| *n >= 0.01 && *n <= 65536.0);
                    limits.cpus = Some(cpus.ok_or(EXPECTED)?);
                }
                _ => return Err(EXPECTED.into()),
            }
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_settings() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
            assert_eq!(Setting::by_name(row.1), Some(row.0));
        }
    }

    #[test]
    fn changes_are_parsed_and_checked() {
        let change = SettingChange::parse("scheduler=none", "/dev/nvme0n1").unwrap();
        assert_eq!(change.to_string(), "scheduler of /dev/nvme0n1=none");
        let change = SettingChange::parse("irq_affinity:24=0-3,8", "/dev/sda").unwrap();
        assert_eq!((change.target.as_str(), change.value.as_str()), ("24", "0-3,8"));
        assert_eq!(SettingChange::parse("governor=performance", "x").unwrap().target, "");
        assert_eq!(SettingChange::parse("governor:cpu3=performance", "").unwrap().target, "cpu3");
        let limits = "cgroup=memory.max=512m,cpu.max=1.5";
        assert_eq!(SettingChange::parse(limits, "").unwrap().value, "memory.max=512m,cpu.max=1.5");
    }

    #[test]
    fn bad_changes_say_what_is_expected() {
        let error = |text, target| SettingChange::parse(text, target).unwrap_err();
        assert_eq!(error("scheduler", "a"), "`scheduler`: expected SETTING=VALUE");
        assert!(error("schedular=none", "a").starts_with("unknown setting `schedular`; settings"));
        assert_eq!(error("scheduler=none", ""), "scheduler=none: expected a target");
        assert_eq!(error("nomerges=3", "a"), "nomerges=3: expected 0, 1, 2");
        assert_eq!(error("nr_requests=1", "a"), "nr_requests=1: expected a number from 4 to 65536");
        assert_eq!(error("scheduler=../x", "a"), "scheduler=../x: expected a name");
        assert_eq!(error("irq_affinity=3-", "a"), "irq_affinity=3-: expected CPUs, such as 0-3,8");
        assert!(error("cgroup=memory.max=0", "").contains("expected none, or memory.max=SIZE"));
        assert_eq!(error("cpu_max=max", "a"), "cpu_max=max: expected cpu_max:PID=max");
        assert_eq!(error("cpu_affinity:1=x", ""), "cpu_affinity=x: expected CPUs, such as 0-3,8");
        assert_eq!(error("drop_caches:a=3", ""), "drop_caches:a=3: drop_caches has no target");
    }

    #[test]
    fn limits_have_suffixes() {
        let limits = CgroupLimits::parse("memory.max=2g").unwrap();
        assert_eq!((limits.memory_bytes, limits.cpus), (Some(2 << 30), None));
        assert_eq!(CgroupLimits::parse("none"), Ok(CgroupLimits::default()));
    }
}
