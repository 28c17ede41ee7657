//! Hardware events of a thread or CPU, in pairs whose ratio is of interest.

use crate::perf::{EventTarget, PerfEvent, Reading, bindings as perf};
use fathom_model::watch::{CacheCounts, CacheEvent, Counted, Executed, Unavailable};
use rustix::io::Errno;
use std::io;

pub(super) type EventCode = (u32, u64);

/// Events to open. Tests substitute software events for missing ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventPairs {
    pub executed: [EventCode; 2],
    /// Cache references and misses; the first supported pair is used.
    pub caches: [(CacheEvent, [EventCode; 2]); 2],
}

impl EventPairs {
    pub const HARDWARE: Self = Self {
        executed: [
            hardware(perf::PERF_COUNT_HW_INSTRUCTIONS),
            hardware(perf::PERF_COUNT_HW_CPU_CYCLES),
        ],
        caches: [
            (
                CacheEvent::LlcLoads,
                [
                    llc_load(perf::PERF_COUNT_HW_CACHE_RESULT_ACCESS),
                    llc_load(perf::PERF_COUNT_HW_CACHE_RESULT_MISS),
                ],
            ),
            (
                CacheEvent::CacheReferences,
                [
                    hardware(perf::PERF_COUNT_HW_CACHE_REFERENCES),
                    hardware(perf::PERF_COUNT_HW_CACHE_MISSES),
                ],
            ),
        ],
    };
}

const fn hardware(number: u32) -> EventCode {
    (perf::PERF_TYPE_HARDWARE, number as u64)
}

/// Cache, operation and result, one byte each (perf_event_open(2), `PERF_TYPE_HW_CACHE`).
const fn llc_load(result: u32) -> EventCode {
    let config =
        perf::PERF_COUNT_HW_CACHE_LL | perf::PERF_COUNT_HW_CACHE_OP_READ << 8 | result << 16;
    (perf::PERF_TYPE_HW_CACHE, config as u64)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventScope {
    pub of: EventTarget,
    /// Includes all threads and processes created from now on.
    pub inherit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuMode {
    User,
    Kernel,
    Both,
}

/// The hardware events of one thread or CPU. Initially disabled.
#[derive(Debug)]
pub(super) struct HardwareEvents {
    user: EventPair,
    kernel: Option<EventPair>,
    cache: Option<(CacheEvent, EventPair)>,
}

impl HardwareEvents {
    /// Opens all available events; also returns the unavailable ones.
    /// Fails if not even instructions in user mode can be counted: why, and what would allow it.
    pub fn open(
        scope: EventScope,
        kinds: &EventPairs,
    ) -> Result<(Self, Vec<Unavailable>), Unavailable> {
        let mut lacks = Vec::new();
        let what = "instructions and cycles";
        let user = EventPair::open(kinds.executed, scope, CpuMode::User)
            .map_err(|errno| refused(what, scope.of, errno))?;
        let kernel = EventPair::open(kinds.executed, scope, CpuMode::Kernel)
            .map_err(|errno| lacks.push(kernel_refused(errno, scope.of)))
            .ok();
        let mode = if kernel.is_some() { CpuMode::Both } else { CpuMode::User };
        let mut cache = None;
        let mut why = Errno::NOENT;
        for (event, kinds) in kinds.caches {
            match EventPair::open(kinds, scope, mode) {
                Ok(pair) => {
                    cache = Some((event, pair));
                    break;
                }
                Err(errno) => why = errno,
            }
        }
        if cache.is_none() {
            lacks.push(cache_refused(why, scope.of));
        }
        Ok((Self { user, kernel, cache }, lacks))
    }

    pub fn enable(&self) -> io::Result<()> {
        self.pairs().try_for_each(|pair| pair.leader.enable())
    }

    pub fn disable(&self) -> io::Result<()> {
        self.pairs().try_for_each(|pair| pair.leader.disable())
    }

    pub fn read(&self, counted: &mut Counted) -> io::Result<()> {
        counted.user = Some(executed(self.user.read()?));
        counted.kernel = self.kernel.as_ref().map(EventPair::read).transpose()?.map(executed);
        counted.cache = match &self.cache {
            Some((event, pair)) => Some(cached(*event, pair.read()?)),
            None => None,
        };
        Ok(())
    }

    fn pairs(&self) -> impl Iterator<Item = &EventPair> {
        std::iter::once(&self.user)
            .chain(&self.kernel)
            .chain(self.cache.as_ref().map(|(_, pair)| pair))
    }
}

fn executed([instructions, cycles]: [Reading; 2]) -> Executed {
    Executed {
        instructions: instructions.value,
        cycles: cycles.value,
        enabled_ns: instructions.enabled_ns,
        running_ns: instructions.running_ns,
    }
}

fn cached(event: CacheEvent, [references, misses]: [Reading; 2]) -> CacheCounts {
    CacheCounts {
        event,
        references: references.value,
        misses: misses.value,
        enabled_ns: references.enabled_ns,
        running_ns: references.running_ns,
    }
}

/// Two events that are scheduled on the PMU together or not at all, so their ratio holds. Pairs
/// instead of one large group: a group that exceeds the free counters never runs.
#[derive(Debug)]
pub(super) struct EventPair {
    pub leader: PerfEvent,
    member: PerfEvent,
}

impl EventPair {
    pub fn open(kinds: [EventCode; 2], scope: EventScope, mode: CpuMode) -> Result<Self, Errno> {
        let leader = open_event(kinds[0], scope, mode, None)?;
        let member = open_event(kinds[1], scope, mode, Some(&leader))?;
        Ok(Self { leader, member })
    }

    pub fn read(&self) -> io::Result<[Reading; 2]> {
        Ok([self.leader.read()?, self.member.read()?])
    }
}

/// Opens an event, disabled; a group member starts and stops with its leader.
pub(super) fn open_event(
    (kind, config): EventCode,
    scope: EventScope,
    mode: CpuMode,
    leader: Option<&PerfEvent>,
) -> Result<PerfEvent, Errno> {
    let mut attr = perf::perf_event_attr { type_: kind, config, ..Default::default() };
    attr.set_disabled(u64::from(leader.is_none()));
    attr.set_inherit(u64::from(scope.inherit));
    attr.set_exclude_user(u64::from(mode == CpuMode::Kernel));
    attr.set_exclude_kernel(u64::from(mode == CpuMode::User));
    attr.set_exclude_hv(u64::from(kind != perf::PERF_TYPE_SOFTWARE));
    PerfEvent::open(attr, scope.of, leader)
}

/// Why kernel mode is not counted. Some PMUs cannot distinguish the modes.
fn kernel_refused(errno: Errno, of: EventTarget) -> Unavailable {
    let what = "instructions and cycles in the kernel";
    match errno {
        Errno::OPNOTSUPP | Errno::INVAL => Unavailable {
            source: what.into(),
            reason: format!("the CPU's counters cannot distinguish user and kernel mode ({errno})"),
            remedy: String::new(),
        },
        errno => refused(what, of, errno),
    }
}

/// Why no cache event is counted although instructions are.
fn cache_refused(errno: Errno, of: EventTarget) -> Unavailable {
    let what = "cache misses";
    match errno {
        Errno::NOENT | Errno::OPNOTSUPP | Errno::INVAL => Unavailable {
            source: what.into(),
            reason: format!("the CPU does not support this event ({errno})"),
            remedy: String::new(),
        },
        errno => refused(what, of, errno),
    }
}

/// Why an event cannot be opened, and what would allow it.
pub(super) fn refused(what: &str, of: EventTarget, errno: Errno) -> Unavailable {
    let paranoid = || std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let (why, allow) = match errno {
        Errno::ACCESS => {
            let setting = paranoid().map_or("unknown".into(), |text| text.trim().to_string());
            let value = if matches!(of, EventTarget::Thread(_)) { 1 } else { 0 };
            (
                format!("not permitted (kernel.perf_event_paranoid = {setting})"),
                format!(
                    "allow it with `sysctl kernel.perf_event_paranoid={value}`, or run with CAP_PERFMON"
                ),
            )
        }
        // The kernel itself never returns EPERM here; ENOSYS comes from seccomp filters, too.
        Errno::PERM | Errno::NOSYS => (
            format!("perf_event_open is refused ({errno}) by a seccomp filter or security module, \
                     as in most containers"),
            "allow it there (for Docker: --cap-add PERFMON or a seccomp profile with perf_event_open)"
                .into(),
        ),
        Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP => (
            format!("perf_event_open: {errno}"),
            "on a virtual machine, the host must expose a PMU (QEMU/KVM: -cpu host,pmu=on)"
                .into(),
        ),
        Errno::SRCH => (format!("no such thread ({of:?})"), String::new()),
        Errno::MFILE => (errno.to_string(), "raise the open file limit: ulimit -n".into()),
        errno => (errno.to_string(), String::new()),
    };
    Unavailable { source: what.into(), reason: why, remedy: allow }
}
