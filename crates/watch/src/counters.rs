//! Instructions and cycles, user and kernel, of one thread, from the processor's counters through
//! perf_event_open(2).
//!
//! Counting is not free everywhere: on some virtual machines it makes I/O several times slower.
//! Use it in a window of its own, never in one whose speed is reported.

use crate::perf::{Event, Of, Reading, bindings as perf};
use rustix::io::Errno;
use std::io;

/// Counters of one thread. Dropping them closes them.
#[derive(Debug)]
pub struct Counters {
    user: Pair,
    kernel: Option<Pair>,
}

/// What was counted while the counters were enabled, since they were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValues {
    /// Instructions in user mode.
    pub user_instructions: u64,
    /// Cycles in user mode.
    pub user_cycles: u64,
    /// Instructions in kernel mode; `None` without the right to count them.
    pub kernel_instructions: Option<u64>,
    /// Cycles in kernel mode; `None` without the right to count them.
    pub kernel_cycles: Option<u64>,
    /// Time that the counters were enabled while the thread ran, in nanoseconds.
    pub enabled_ns: u64,
    /// Time that all of them were on the processor, in nanoseconds. Where it is less than
    /// `enabled_ns`, other programs had the processor's counters for the rest, and the values
    /// are estimates: scaled up by enabled over running time.
    pub running_ns: u64,
}

/// Why nothing can be counted, and what would allow it.
#[derive(Debug, thiserror::Error)]
pub enum CountersError {
    /// kernel.perf_event_paranoid forbids it to this user.
    #[error(
        "counting instructions is not permitted (kernel.perf_event_paranoid = {}); allow it with \
         `sysctl kernel.perf_event_paranoid=2`, or 1 to count in the kernel too, or run with \
         CAP_PERFMON", setting(*.paranoid)
    )]
    NotPermitted {
        /// The setting, where it can be read.
        paranoid: Option<i32>,
    },
    /// A seccomp filter or security module forbids the system call.
    #[error(
        "perf_event_open is refused ({errno}) by a seccomp filter or security module, as in most \
         containers; allow it there (for Docker: --cap-add PERFMON or a seccomp profile with \
         perf_event_open)"
    )]
    Blocked {
        /// The filter's choice.
        errno: Errno,
    },
    /// There are no hardware counters.
    #[error(
        "this machine shows no hardware counters ({errno}); on a virtual machine, its host must \
         pass the PMU through (QEMU/KVM: -cpu host,pmu=on)"
    )]
    NoPmu {
        /// What perf_event_open gave.
        errno: Errno,
    },
    /// The thread has ended or never was.
    #[error("there is no thread {tid} to count")]
    NoThread {
        /// The thread asked for.
        tid: i32,
    },
    /// The counters were never on the processor while they were enabled.
    #[error(
        "no hardware counter was free while the work ran; stop other profilers (perf, or the NMI \
         watchdog: sysctl kernel.nmi_watchdog=0)"
    )]
    NeverScheduled,
    /// Something else failed.
    #[error("cannot {action} hardware counters: {source}")]
    Failed {
        /// What was being done.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Counters {
    /// Counters of the thread `tid` of any process, or of the calling thread for 0; not enabled
    /// yet. Counts in user mode only where counting in the kernel is not permitted.
    ///
    /// # Errors
    /// [`CountersError`] says why nothing can be counted, and what would allow it.
    pub fn open(tid: i32) -> Result<Self, CountersError> {
        Self::open_with(tid, Reach::ThreadOnly)
    }

    /// Counters of the calling thread together with all threads and processes that it starts
    /// from now on; otherwise as [`Counters::open`]. What a process counted is added when it
    /// has ended.
    ///
    /// # Errors
    /// As [`Counters::open`].
    pub fn open_with_children() -> Result<Self, CountersError> {
        Self::open_with(0, Reach::WithChildren)
    }

    fn open_with(tid: i32, reach: Reach) -> Result<Self, CountersError> {
        let open = |mode| Pair::open(tid, INSTRUCTIONS_AND_CYCLES, mode, reach);
        let user = open(Mode::User).map_err(|errno| CountersError::from_open(errno, tid))?;
        let kernel = match open(Mode::Kernel) {
            Ok(pair) => Some(pair),
            // Some PMUs cannot tell the modes apart, and some settings forbid the kernel's.
            Err(Errno::ACCESS | Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) => None,
            Err(errno) => return Err(CountersError::from_open(errno, tid)),
        };
        Ok(Self { user, kernel })
    }

    /// Starts counting, or goes on.
    ///
    /// # Errors
    /// Where the kernel refuses, as when the counters are pinned elsewhere.
    pub fn enable(&self) -> Result<(), CountersError> {
        self.pairs().try_for_each(|pair| pair.leader.enable()).map_err(failed("enable"))
    }

    /// Stops counting; the values stay.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn disable(&self) -> Result<(), CountersError> {
        self.pairs().try_for_each(|pair| pair.leader.disable()).map_err(failed("disable"))
    }

    /// What was counted so far. For a window, subtract an earlier reading or read once after
    /// [`Counters::disable`].
    ///
    /// # Errors
    /// [`CountersError::NeverScheduled`] where no counter was free all the time, or where the
    /// kernel refuses.
    pub fn read(&self) -> Result<CounterValues, CountersError> {
        let user = self.user.read().map_err(failed("read"))?;
        let kernel = self.kernel.as_ref().map(Pair::read).transpose().map_err(failed("read"))?;
        combine(user, kernel).ok_or(CountersError::NeverScheduled)
    }

    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        std::iter::once(&self.user).chain(&self.kernel)
    }
}

impl CountersError {
    fn from_open(errno: Errno, tid: i32) -> Self {
        match errno {
            Errno::ACCESS => Self::NotPermitted { paranoid: paranoid() },
            // The kernel itself gives EPERM for no hardware event; ENOSYS comes from filters too.
            Errno::PERM | Errno::NOSYS => Self::Blocked { errno },
            Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP => Self::NoPmu { errno },
            Errno::SRCH => Self::NoThread { tid },
            errno => Self::Failed { action: "open", source: errno.into() },
        }
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> CountersError {
    move |source| CountersError::Failed { action, source }
}

fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

fn setting(paranoid: Option<i32>) -> String {
    paranoid.map_or_else(|| "unknown".to_string(), |n| n.to_string())
}

fn combine(user: [Reading; 2], kernel: Option<[Reading; 2]>) -> Option<CounterValues> {
    let all = || user.iter().chain(kernel.iter().flatten());
    let [user_instructions, user_cycles] = user.map(|r| r.scaled());
    let [kernel_instructions, kernel_cycles] =
        kernel.map_or([Some(None); 2], |pair| pair.map(|r| r.scaled().map(Some)));
    Some(CounterValues {
        user_instructions: user_instructions?,
        user_cycles: user_cycles?,
        kernel_instructions: kernel_instructions?,
        kernel_cycles: kernel_cycles?,
        enabled_ns: all().map(|r| r.enabled_ns).max()?,
        running_ns: all().map(|r| r.running_ns).min()?,
    })
}

/// Type and number of an event.
type Kind = (u32, u64);

const INSTRUCTIONS_AND_CYCLES: [Kind; 2] = [
    (perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_INSTRUCTIONS as u64),
    (perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_CPU_CYCLES as u64),
];

/// Which instructions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    User,
    Kernel,
}

/// Whose instructions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    ThreadOnly,
    WithChildren,
}

/// Two events that are on the processor together or not at all, so that their ratio holds. Two
/// pairs, not one group of four: a group that finds too few free counters never counts.
#[derive(Debug)]
struct Pair {
    leader: Event,
    member: Event,
}

impl Pair {
    fn open(tid: i32, events: [Kind; 2], mode: Mode, reach: Reach) -> Result<Self, Errno> {
        let leader = open_event(events[0], tid, mode, reach, None)?;
        let member = open_event(events[1], tid, mode, reach, Some(&leader))?;
        Ok(Self { leader, member })
    }

    fn read(&self) -> io::Result<[Reading; 2]> {
        Ok([self.leader.read()?, self.member.read()?])
    }
}

impl Reading {
    /// The value for the whole time that the event was enabled; `None` where it never ran.
    fn scaled(self) -> Option<u64> {
        match (self.enabled_ns, self.running_ns) {
            (0, _) => Some(self.value),
            (_, 0) => None,
            (enabled, running) if enabled == running => Some(self.value),
            (enabled, running) => {
                let value = u128::from(self.value) * u128::from(enabled) / u128::from(running);
                Some(u64::try_from(value).unwrap_or(u64::MAX))
            }
        }
    }
}

fn open_event(
    (kind, config): Kind,
    tid: i32,
    mode: Mode,
    reach: Reach,
    leader: Option<&Event>,
) -> Result<Event, Errno> {
    let mut attr = perf::perf_event_attr { type_: kind, config, ..Default::default() };
    // A member starts and stops with its leader.
    attr.set_disabled(u64::from(leader.is_none()));
    attr.set_inherit(u64::from(reach == Reach::WithChildren));
    attr.set_exclude_user(u64::from(mode == Mode::Kernel));
    attr.set_exclude_kernel(u64::from(mode == Mode::User));
    attr.set_exclude_hv(1);
    Event::open(attr, Of::Thread(tid), leader)
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
