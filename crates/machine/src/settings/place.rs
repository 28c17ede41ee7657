//! The files of settings, and their contents.

use super::SettingsError;
use super::journal::JournalEntry;
use super::process;
use super::{Applied, below};
use crate::host::cpu_list;
use crate::target::Lookup;
use crate::topology::irqs_above;
use fathom_model::setting::{Setting, SettingChange};
use fathom_sys::device::{self, Node};
use fathom_sys::roots::{self, Roots, Unread, entries};
use std::io;

/// Settings that the kernel resets when the scheduler changes: elevators set their own number of requests, and bfq
/// turns writeback throttling off.
const RESET_BY_SCHEDULER: [Setting; 2] = [Setting::NrRequests, Setting::WbtLatUsec];
/// What raises a smaller read-ahead to 128 KiB, as any change of the queue's limits does (blk_apply_bdi_limits in
/// block/blk-settings.c, Linux 6.12 and later).
const RAISES_READ_AHEAD: [Setting; 2] = [Setting::Iostats, Setting::MaxSectorsKb];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingFile {
    pub setting: Setting,
    pub target: String,
    /// Below the roots, such as `sys/block/sda/queue/scheduler`.
    pub file: String,
    pub value: String,
    /// The key to lock; `None` if nothing has to be restored.
    pub key: Option<String>,
}

impl SettingFile {
    pub fn change(&self) -> SettingChange {
        let (target, value) = (self.target.clone(), self.value.clone());
        SettingChange { setting: self.setting, target, value }
    }

    pub fn applied(&self, old: String) -> Applied {
        Applied { change: self.change(), old }
    }

    pub fn refused(&self, source: io::Error) -> SettingsError {
        self.refused_at(format!("/{}", self.file), source)
    }

    pub fn refused_at(&self, file: String, source: io::Error) -> SettingsError {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => "; run as root",
            io::ErrorKind::ReadOnlyFilesystem => {
                "; containers mount it read-only: run as root on the host, or remount it read-write"
            }
            io::ErrorKind::InvalidInput if self.setting == Setting::NrRequests => {
                "; with scheduler none, the maximum is the driver's number of tags"
            }
            io::ErrorKind::InvalidInput if self.setting == Setting::MaxSectorsKb => {
                "; the maximum is max_hw_sectors_kb"
            }
            io::ErrorKind::InvalidInput if self.setting == Setting::Scheduler => {
                "; the file lists the schedulers that this kernel has loaded"
            }
            _ if self.setting == Setting::IrqAffinity => {
                "; drivers such as nvme manage the affinity of their interrupts themselves"
            }
            _ => "",
        };
        SettingsError::Refused { change: self.change(), file, hint, source }
    }

    pub fn no_target(&self, reason: String) -> SettingsError {
        SettingsError::NoSuchTarget { change: self.change(), reason }
    }

    pub fn is_readable(&self) -> bool {
        !matches!(self.setting, Setting::DropCaches | Setting::Cgroup)
    }

    /// Whether `found` equals the requested value, within the kernel's representation.
    pub fn is_met_by(&self, found: &str) -> bool {
        if self.setting == Setting::ReadAheadKb {
            let page_kb = u64::try_from(rustix::param::page_size() / 1024).unwrap_or(4).max(1);
            let in_pages = |text: &str| text.parse::<u64>().map(|kb| kb / page_kb).ok();
            return in_pages(&self.value) == in_pages(found);
        }
        if self.setting == Setting::CpuMax {
            // cpu.max also holds the period.
            return found.split(' ').next() == Some(&self.value);
        }
        same(Some(self.setting), &self.value, found)
    }
}

/// The value in a file's text: of a list with one word in brackets, that word.
pub(super) fn value(setting: Option<Setting>, text: &str) -> String {
    match setting {
        Some(Setting::Scheduler | Setting::TransparentHugepage) => device::active(text).to_string(),
        _ => text.to_string(),
    }
}

pub(super) fn same(setting: Option<Setting>, one: &str, other: &str) -> bool {
    match setting {
        Some(Setting::IrqAffinity | Setting::CpuAffinity) => cpu_list(one) == cpu_list(other),
        _ => one == other,
    }
}

/// The files of a change: several if it applies to all CPUs, or to all interrupts of a disk.
pub(super) fn resolve(
    roots: &Roots,
    change: &SettingChange,
) -> Result<Vec<SettingFile>, SettingsError> {
    let missing = |reason: String| SettingsError::NoSuchTarget { change: change.clone(), reason };
    change.setting.check(&change.value).map_err(missing)?;
    let place = |target: &str, file: String, key: Option<String>| SettingFile {
        setting: change.setting,
        target: target.to_string(),
        file,
        value: change.value.clone(),
        key,
    };
    let name = change.setting.name();
    match change.setting {
        Setting::Governor => governors(roots, &change.target)
            .map(|all| {
                let key = || Some("cpufreq".to_string());
                all.into_iter().map(|(cpu, file)| place(&cpu, file, key())).collect()
            })
            .map_err(missing),
        Setting::IrqAffinity => {
            let irqs = interrupts(roots, &change.target).map_err(missing)?;
            let file = |irq: &str| format!("proc/irq/{irq}/smp_affinity_list");
            let key = || Some("irq".to_string());
            Ok(irqs.iter().map(|irq| place(irq, file(irq), key())).collect())
        }
        Setting::TransparentHugepage => {
            let file = "sys/kernel/mm/transparent_hugepage/enabled".to_string();
            Ok(vec![place("", file, Some(name.into()))])
        }
        Setting::DropCaches => Ok(vec![place("", "proc/sys/vm/drop_caches".into(), None)]),
        Setting::Cgroup => {
            let key = format!("{name}-{}", std::process::id());
            Ok(vec![place("", "sys/fs/cgroup".into(), Some(key))])
        }
        Setting::CpuAffinity => {
            let file = process::affinity_file(roots, &change.target).map_err(missing)?;
            let key = format!("{name}-{}", change.target);
            Ok(vec![place(&change.target, file, Some(key))])
        }
        Setting::CpuMax | Setting::IoMax | Setting::IoWeight => {
            let files = match change.setting {
                Setting::CpuMax => process::quota_files(roots, &change.target),
                Setting::IoMax => process::io_limit_files(roots, &change.target),
                _ => process::io_weight_files(roots, &change.target, &change.value),
            };
            let file = |(file, value)| SettingFile {
                value,
                ..place(&change.target, file, Some(name.into()))
            };
            Ok(files.map_err(missing)?.into_iter().map(file).collect())
        }
        _ => {
            let disk = disk(roots, &change.target).map_err(missing)?;
            let file = format!("sys/block/{}/queue/{name}", in_sysfs(&disk));
            if !below(roots, &file).is_some_and(|path| path.exists()) {
                return Err(missing(format!("{disk} has no queue/{name} in sysfs")));
            }
            Ok(vec![place(&disk, file, Some(in_sysfs(&disk)))])
        }
    }
}

fn in_sysfs(name: &str) -> String {
    name.replace('/', "!")
}

fn disk(roots: &Roots, target: &str) -> Result<String, String> {
    let name = target.strip_prefix("/dev/").unwrap_or(target);
    let is_name = !name.is_empty() && !name.starts_with('.');
    if let Some(node) = Node::named(roots, name).filter(|_| is_name) {
        return Ok(node.disk().name());
    }
    let facts =
        Lookup::new(roots).target(target).map_err(|e| format!("cannot read {target}: {e}"))?;
    let device = facts.device.ok_or_else(|| format!("{target} is not on a disk"))?;
    let node = Node::named(roots, &device.name);
    Ok(node.map_or(device.name, |node| node.disk().name()))
}

/// CPUs, or groups of them with one clock, and the files of their governors.
fn governors(roots: &Roots, target: &str) -> Result<Vec<(String, String)>, String> {
    let file = |dir: String| format!("{dir}/scaling_governor");
    let cpu = "sys/devices/system/cpu";
    if !target.is_empty() {
        let of_one = file(format!("{cpu}/{target}/cpufreq"));
        let exists = below(roots, &of_one).is_some_and(|path| path.exists());
        return match exists {
            true => Ok(vec![(target.to_string(), of_one)]),
            false => Err(format!("{target} has no cpufreq governor")),
        };
    }
    let policies = entries(roots.sys.join("devices/system/cpu/cpufreq"));
    let policies = policies.into_iter().filter(|name| name.starts_with("policy"));
    let all: Vec<_> =
        policies.map(|policy| (policy.clone(), file(format!("{cpu}/cpufreq/{policy}")))).collect();
    match all.is_empty() {
        true => Err("the CPUs have no cpufreq governor, as in most virtual machines".into()),
        false => Ok(all),
    }
}

fn interrupts(roots: &Roots, target: &str) -> Result<Vec<String>, String> {
    if target.parse::<u32>().is_ok() {
        return match roots.proc.join("irq").join(target).is_dir() {
            true => Ok(vec![target.to_string()]),
            false => Err(format!("there is no interrupt {target}")),
        };
    }
    let disk = disk(roots, target)?;
    let node = Node::named(roots, &disk);
    let irqs = node.map(|node| irqs_above(roots, node.dir())).unwrap_or_default();
    match irqs.is_empty() {
        true => Err(format!("{disk} has no interrupts of its own")),
        false => Ok(irqs.iter().map(u32::to_string).collect()),
    }
}

pub(super) fn consequences(
    roots: &Roots,
    place: &SettingFile,
) -> Result<Vec<(JournalEntry, String)>, Unread> {
    let Some((queue, _)) = place.file.rsplit_once('/') else { return Ok(Vec::new()) };
    let entry = |setting: Option<Setting>, file: String| {
        let entry = JournalEntry {
            setting,
            target: place.target.clone(),
            file: file.clone(),
            old: String::new(),
            ours: Vec::new(),
            is_requested: false,
            is_consequence: true,
            is_pending: false,
        };
        (entry, file)
    };
    let reset: &[Setting] = match place.setting {
        Setting::Scheduler => &RESET_BY_SCHEDULER,
        changed if RAISES_READ_AHEAD.contains(&changed) => &[Setting::ReadAheadKb],
        _ => return Ok(Vec::new()),
    };
    let settings = reset.iter();
    let settings = settings.map(|setting| entry(Some(*setting), format!("{queue}/{setting}")));
    if place.setting != Setting::Scheduler {
        return Ok(settings.collect());
    }
    // A scheduler's own settings vanish with it; `none` has none.
    let own = match below(roots, &format!("{queue}/iosched")) {
        Some(dir) => roots::list(&dir)?.unwrap_or_default(),
        None => Vec::new(),
    };
    let own = own.into_iter().map(|name| entry(None, format!("{queue}/iosched/{name}")));
    Ok(settings.chain(own).collect())
}
