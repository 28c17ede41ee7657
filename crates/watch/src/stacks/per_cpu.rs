//! Sampling events, with one ring buffer per CPU.

use super::retpoline;
use super::tick::Tick;
use crate::perf::{EventTarget, PerfEvent, PerfRecord, PerfRing, bindings as perf, online_cpus};
use crate::proc_file::numbers;
use fathom_model::watch::Unavailable;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Ring buffer size per Hz, in bytes: half a second of the longest chains, two seconds of typical
/// ones.
const RING_PER_HZ: usize = 640;
/// Minimum and maximum size of a ring buffer, in bytes.
const RINGS: [usize; 2] = [1 << 13, 1 << 19];
/// Maximum number of events when sampling thread by thread.
const EVENTS_MAX: usize = 8192;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    Cycles,
    Timer,
    Tick(Tick),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleSource {
    pub trigger: Trigger,
    pub kernel: bool,
    pub hz: u32,
    pub user: bool,
    /// Includes the registers needed by [`retpoline::target`], if the architecture has them.
    pub registers: bool,
}

#[derive(Debug)]
pub(super) struct PerCpuRings {
    pub source: SampleSource,
    per_cpu: Vec<CpuRing>,
    sys_root: PathBuf,
    /// Whether the events are per CPU instead of per thread.
    whole: bool,
    /// CPUs that could not be sampled, each reported once.
    refused: Vec<u32>,
}

#[derive(Debug)]
struct CpuRing {
    cpu: u32,
    ring: PerfRing,
    /// Closing these ends the samples.
    _events: Vec<PerfEvent>,
}

impl SampleSource {
    pub fn event(self) -> &'static str {
        match self.trigger {
            Trigger::Cycles => "cycles",
            Trigger::Timer => "cpu-clock",
            Trigger::Tick(_) => "tick",
        }
    }

    /// The settings supported by this machine: a timer if the CPU has no cycle counter, no
    /// registers if they are restricted (kernel_lockdown(7)).
    fn granted(self, of: EventTarget) -> Self {
        let trigger = if self.trigger == Trigger::Cycles { Trigger::Timer } else { self.trigger };
        let variants = [self, Self { trigger, ..self }]
            .map(|variant| [variant, Self { registers: false, ..variant }])
            .concat();
        let opens = |variant: &Self| PerfEvent::open(variant.attr(), of, None).is_ok();
        variants.into_iter().find(opens).unwrap_or(Self { trigger, registers: false, ..self })
    }

    fn attr(self) -> perf::perf_event_attr {
        let mut attr = perf::perf_event_attr::default();
        (attr.type_, attr.config) = match self.trigger {
            Trigger::Cycles => (perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_CPU_CYCLES.into()),
            Trigger::Timer => (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_CPU_CLOCK.into()),
            Trigger::Tick(tick) => (perf::PERF_TYPE_TRACEPOINT, tick.tracepoint),
        };
        attr.sample_type = u64::from(
            perf::PERF_SAMPLE_TID
                | perf::PERF_SAMPLE_TIME
                | perf::PERF_SAMPLE_PERIOD
                | perf::PERF_SAMPLE_CALLCHAIN,
        );
        // A tick event's registers are those of the interrupt handler.
        let of_tick = matches!(self.trigger, Trigger::Tick(_));
        if self.registers && self.kernel && cfg!(target_arch = "x86_64") && !of_tick {
            attr.sample_type |= u64::from(perf::PERF_SAMPLE_REGS_INTR);
            attr.sample_regs_intr = retpoline::REGISTERS;
        }
        attr.__bindgen_anon_1.sample_freq = self.hz.into();
        attr.set_freq(1);
        attr.set_disabled(1);
        attr.set_comm(1);
        attr.set_task(1);
        attr.set_sample_id_all(1);
        attr.set_exclude_guest(1);
        attr.set_exclude_kernel(u64::from(!self.kernel));
        attr.set_exclude_hv(u64::from(!self.kernel));
        attr.set_exclude_callchain_user(u64::from(!self.user));
        attr.set_mmap(self.user.into());
        attr.set_mmap2(self.user.into());
        // No wake-ups: the rings are read at intervals.
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = u32::MAX;
        attr
    }
}

impl PerCpuRings {
    /// Samples all online CPUs; also returns what was not permitted.
    pub fn of_machine(
        source: SampleSource,
        sys_root: &Path,
    ) -> io::Result<(Self, Vec<Unavailable>)> {
        let first = *online_cpus(sys_root)?.first().ok_or(io::ErrorKind::NotFound)?;
        let source = source.granted(EventTarget::Cpu(first));
        let ring = CpuRing::open(source, first, &[EventTarget::Cpu(first)])?;
        let (per_cpu, refused) = (vec![ring], Vec::new());
        let mut this = Self { source, per_cpu, sys_root: sys_root.into(), whole: true, refused };
        let missing = this.follow();
        Ok((this, missing))
    }

    /// Samples these threads and all that they create.
    pub fn of_threads(source: SampleSource, sys_root: &Path, tids: &[i32]) -> io::Result<Self> {
        let cpus = online_cpus(sys_root)?;
        let tids = &tids[..tids.len().min(EVENTS_MAX / cpus.len().max(1))];
        let first = EventTarget::ThreadOn(*tids.first().ok_or(io::ErrorKind::NotFound)?, cpus[0]);
        let source = source.granted(first);
        let open = |cpu: &u32| {
            let of: Vec<EventTarget> =
                tids.iter().map(|tid| EventTarget::ThreadOn(*tid, *cpu)).collect();
            CpuRing::open(source, *cpu, &of)
        };
        let per_cpu = cpus.iter().map(open).collect::<io::Result<_>>()?;
        let sys_root = sys_root.into();
        Ok(Self { source, per_cpu, sys_root, whole: false, refused: Vec::new() })
    }

    /// Follows CPU hotplug; returns what was refused for new CPUs.
    pub fn follow(&mut self) -> Vec<Unavailable> {
        let mut missing = Vec::new();
        let Ok(online) = online_cpus(&self.sys_root) else { return missing };
        if !self.whole || self.per_cpu.iter().map(|ring| ring.cpu).eq(online.iter().copied()) {
            return missing;
        }
        self.per_cpu.retain(|ring| online.contains(&ring.cpu));
        for cpu in online {
            let known = self.per_cpu.iter().any(|ring| ring.cpu == cpu);
            if known || self.refused.contains(&cpu) {
                continue;
            }
            match CpuRing::open(self.source, cpu, &[EventTarget::Cpu(cpu)]) {
                Ok(ring) => self.per_cpu.push(ring),
                // It went offline again.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => {}
                Err(error) => {
                    self.refused.push(cpu);
                    missing.push(refused(&format!("samples of CPU {cpu}"), &error));
                }
            }
        }
        self.per_cpu.sort_by_key(|ring| ring.cpu);
        missing
    }

    /// Passes on all records; returns the number lost.
    pub fn drain(&mut self, mut each: impl FnMut(PerfRecord<'_>)) -> u64 {
        let empty = |ring: &mut CpuRing| {
            ring.ring.drain(&mut each);
            ring.ring.take_lost()
        };
        self.per_cpu.iter_mut().map(empty).sum()
    }
}

impl CpuRing {
    /// Opens and enables an event for each of `of`, all on CPU `cpu` and into one ring buffer.
    fn open(source: SampleSource, cpu: u32, of: &[EventTarget]) -> io::Result<Self> {
        let mut events: Vec<PerfEvent> = Vec::new();
        let mut ring = None;
        for of in of {
            let mut attr = source.attr();
            attr.set_inherit(u64::from(matches!(of, EventTarget::ThreadOn(..))));
            let event = match PerfEvent::open(attr, *of, None) {
                Ok(event) => event,
                // The thread has exited.
                Err(Errno::SRCH) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if let Trigger::Tick(tick) = source.trigger {
                event.set_filter(&tick.filter())?;
            }
            match events.first() {
                Some(first) => event.send_to(first)?,
                None => ring = Some(map(&event, source)?),
            }
            event.enable()?;
            events.push(event);
        }
        let ring = ring.ok_or(io::Error::from(Errno::SRCH))?;
        Ok(Self { cpu, ring, _events: events })
    }
}

/// Maps a ring buffer of a suitable size, or as much as kernel.perf_event_mlock_kb allows.
fn map(event: &PerfEvent, source: SampleSource) -> io::Result<PerfRing> {
    let wanted = (source.hz as usize).saturating_mul(RING_PER_HZ).clamp(RINGS[0], RINGS[1]);
    // Each exec maps some 20 files, with a record of 128 bytes each.
    let mut size = if source.user { RINGS[1] } else { wanted };
    loop {
        match PerfRing::map(event, size) {
            Err(error) if size <= RINGS[0] => {
                let why = format!("{error}, for the ring buffer (kernel.perf_event_mlock_kb)");
                return Err(io::Error::new(error.kind(), why));
            }
            Err(_) => size /= 2,
            Ok(ring) => return Ok(ring),
        }
    }
}

/// The threads of those of `pids` that run as the calling user: only these may be sampled
/// individually.
pub(super) fn own_threads(proc_root: &Path, pids: &[i32]) -> Vec<i32> {
    let uid = rustix::process::geteuid().as_raw();
    let own = |pid: &&i32| {
        fs::metadata(proc_root.join(pid.to_string())).is_ok_and(|found| found.uid() == uid)
    };
    let own = pids.iter().filter(own);
    let tasks = own.filter_map(|pid| numbers(&proc_root.join(format!("{pid}/task"))).ok());
    tasks.flatten().collect()
}

/// The reason and remedy if the kernel refused samples.
pub(super) fn refused(what: &str, error: &io::Error) -> Unavailable {
    let mut missing = crate::perf::refused(what, error);
    if matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM)) {
        missing.remedy += "; or sysctl kernel.perf_event_paranoid=0";
    }
    missing
}
