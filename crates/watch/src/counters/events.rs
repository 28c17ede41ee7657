//! The hardware's events in pairs whose ratio is of interest, of a thread or a processor.

use crate::perf::{Event, Of, Reading, bindings as perf};
use fathom_model::watch::{CacheCounts, CacheEvent, Counted, Executed, Missing};
use rustix::io::Errno;
use std::io;

/// Type and number of an event.
pub(super) type Kind = (u32, u64);

/// Which events are opened. Tests put software events in the place of what their machine may not have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    /// Instructions and cycles.
    pub executed: [Kind; 2],
    /// Accesses and misses of caches; the first that the machine has is taken.
    pub caches: [(CacheEvent, [Kind; 2]); 2],
}

impl Kinds {
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

const fn hardware(number: u32) -> Kind {
    (perf::PERF_TYPE_HARDWARE, number as u64)
}

/// Cache, operation and result, a byte each (perf_event_open(2), `PERF_TYPE_HW_CACHE`).
const fn llc_load(result: u32) -> Kind {
    let config =
        perf::PERF_COUNT_HW_CACHE_LL | perf::PERF_COUNT_HW_CACHE_OP_READ << 8 | result << 16;
    (perf::PERF_TYPE_HW_CACHE, config as u64)
}

/// Whose work counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whose {
    pub of: Of,
    /// With all threads and processes that it starts from now on.
    pub inherit: bool,
}

/// In which modes it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    User,
    Kernel,
    Both,
}

/// What the hardware can count of one thread or processor. Not enabled when it is opened.
#[derive(Debug)]
pub(super) struct Hardware {
    user: Pair,
    kernel: Option<Pair>,
    cache: Option<(CacheEvent, Pair)>,
}

impl Hardware {
    /// Opens all that can be counted; with it, what cannot.
    ///
    /// # Errors
    /// Where not even instructions in user mode can be counted: why, and what would allow it.
    pub fn open(whose: Whose, kinds: &Kinds) -> Result<(Self, Vec<Missing>), Missing> {
        let mut lacks = Vec::new();
        let what = "instructions and cycles";
        let user = Pair::open(kinds.executed, whose, Mode::User)
            .map_err(|errno| refused(what, whose.of, errno))?;
        let kernel = Pair::open(kinds.executed, whose, Mode::Kernel)
            .map_err(|errno| lacks.push(kernel_refused(errno, whose.of)))
            .ok();
        let mode = if kernel.is_some() { Mode::Both } else { Mode::User };
        let mut cache = None;
        let mut why = Errno::NOENT;
        for (event, kinds) in kinds.caches {
            match Pair::open(kinds, whose, mode) {
                Ok(pair) => {
                    cache = Some((event, pair));
                    break;
                }
                Err(errno) => why = errno,
            }
        }
        if cache.is_none() {
            lacks.push(cache_refused(why, whose.of));
        }
        Ok((Self { user, kernel, cache }, lacks))
    }

    /// Starts counting, or goes on.
    pub fn enable(&self) -> io::Result<()> {
        self.pairs().try_for_each(|pair| pair.leader.enable())
    }

    /// Stops counting; the values stay.
    pub fn disable(&self) -> io::Result<()> {
        self.pairs().try_for_each(|pair| pair.leader.disable())
    }

    /// What was counted so far, into its fields of `counted`.
    pub fn read(&self, counted: &mut Counted) -> io::Result<()> {
        counted.user = Some(executed(self.user.read()?));
        counted.kernel = self.kernel.as_ref().map(Pair::read).transpose()?.map(executed);
        counted.cache = match &self.cache {
            Some((event, pair)) => Some(cached(*event, pair.read()?)),
            None => None,
        };
        Ok(())
    }

    fn pairs(&self) -> impl Iterator<Item = &Pair> {
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

/// Two events that are on the processor together or not at all, so that their ratio holds. Pairs, not
/// one large group: a group that finds too few free counters never counts.
#[derive(Debug)]
pub(super) struct Pair {
    pub leader: Event,
    member: Event,
}

impl Pair {
    pub fn open(kinds: [Kind; 2], whose: Whose, mode: Mode) -> Result<Self, Errno> {
        let leader = open_event(kinds[0], whose, mode, None)?;
        let member = open_event(kinds[1], whose, mode, Some(&leader))?;
        Ok(Self { leader, member })
    }

    pub fn read(&self) -> io::Result<[Reading; 2]> {
        Ok([self.leader.read()?, self.member.read()?])
    }
}

/// An event that is not enabled; a member of a group starts and stops with its leader.
pub(super) fn open_event(
    (kind, config): Kind,
    whose: Whose,
    mode: Mode,
    leader: Option<&Event>,
) -> Result<Event, Errno> {
    let mut attr = perf::perf_event_attr { type_: kind, config, ..Default::default() };
    attr.set_disabled(u64::from(leader.is_none()));
    attr.set_inherit(u64::from(whose.inherit));
    attr.set_exclude_user(u64::from(mode == Mode::Kernel));
    attr.set_exclude_kernel(u64::from(mode == Mode::User));
    attr.set_exclude_hv(u64::from(kind != perf::PERF_TYPE_SOFTWARE));
    Event::open(attr, whose.of, leader)
}

/// Why the kernel's instructions are not counted. Some PMUs cannot tell the modes apart.
fn kernel_refused(errno: Errno, of: Of) -> Missing {
    let what = "instructions and cycles of the kernel";
    match errno {
        Errno::OPNOTSUPP | Errno::INVAL => Missing {
            what: what.into(),
            why: format!("the processor's counters cannot tell user and kernel apart ({errno})"),
            allow: String::new(),
        },
        errno => refused(what, of, errno),
    }
}

/// Why no cache is counted, where instructions are.
fn cache_refused(errno: Errno, of: Of) -> Missing {
    let what = "cache misses";
    match errno {
        Errno::NOENT | Errno::OPNOTSUPP | Errno::INVAL => Missing {
            what: what.into(),
            why: format!("the processor's counters have no such event ({errno})"),
            allow: String::new(),
        },
        errno => refused(what, of, errno),
    }
}

/// Why an event cannot be opened, and what would allow it.
pub(super) fn refused(what: &str, of: Of, errno: Errno) -> Missing {
    let paranoid = || std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let (why, allow) = match errno {
        Errno::ACCESS => {
            let setting = paranoid().map_or("unknown".into(), |text| text.trim().to_string());
            let value = if matches!(of, Of::Thread(_)) { 1 } else { 0 };
            (
                format!("not permitted (kernel.perf_event_paranoid = {setting})"),
                format!(
                    "allow it with `sysctl kernel.perf_event_paranoid={value}`, or run with CAP_PERFMON"
                ),
            )
        }
        // The kernel itself gives EPERM for no such event; ENOSYS comes from filters too.
        Errno::PERM | Errno::NOSYS => (
            format!("perf_event_open is refused ({errno}) by a seccomp filter or security module, \
                     as in most containers"),
            "allow it there (for Docker: --cap-add PERFMON or a seccomp profile with perf_event_open)"
                .into(),
        ),
        Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP => (
            format!("this machine shows no hardware counters ({errno})"),
            "on a virtual machine, its host must pass the PMU through (QEMU/KVM: -cpu host,pmu=on)"
                .into(),
        ),
        Errno::SRCH => (format!("there is no such thread ({of:?})"), String::new()),
        Errno::MFILE => (errno.to_string(), "raise the limit of open files: ulimit -n".into()),
        errno => (errno.to_string(), String::new()),
    };
    Missing { what: what.into(), why, allow }
}
