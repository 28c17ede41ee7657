//! The events that make samples: one ring for each processor.

use super::retpoline;
use super::tick::Tick;
use crate::perf::{Event, Of, Record, Ring, bindings as perf, online_cpus};
use fathom_model::watch::Missing;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a ring for each sample in a second: all of half a second at the longest chains, of two
/// seconds at usual ones.
const RING_PER_HZ: usize = 640;
/// The least and the most bytes of a ring.
const RINGS: [usize; 2] = [1 << 13, 1 << 19];
/// Events that are opened where each thread needs its own.
const EVENTS_MAX: usize = 8192;

/// What makes samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    /// The processor's cycles.
    Cycles,
    /// A timer of its own on each processor.
    Timer,
    /// The interrupt that comes on a busy processor anyway.
    Tick(Tick),
}

/// What makes samples, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    pub pulse: Pulse,
    /// In the kernel too.
    pub kernel: bool,
    pub hz: u32,
    /// With user functions.
    pub user: bool,
    /// With the registers that [`retpoline::target`] needs, where there are such.
    pub registers: bool,
}

/// The open events.
#[derive(Debug)]
pub(super) struct Lanes {
    pub source: Source,
    lanes: Vec<Lane>,
    sys_root: PathBuf,
    /// Each processor as a whole; else single threads.
    whole: bool,
    /// Processors of which nothing is seen, each told once.
    refused: Vec<u32>,
}

#[derive(Debug)]
struct Lane {
    cpu: u32,
    ring: Ring,
    /// Kept open as long as samples are to come.
    _events: Vec<Event>,
}

impl Source {
    /// The name that samples are told by.
    pub fn event(self) -> &'static str {
        match self.pulse {
            Pulse::Cycles => "cycles",
            Pulse::Timer => "cpu-clock",
            Pulse::Tick(_) => "tick",
        }
    }

    /// The same as far as the kernel has it: by a timer where the processor's cycles cannot be counted, without
    /// registers where they are secret (kernel_lockdown(7)).
    fn granted(self, of: Of) -> Self {
        let pulse = if self.pulse == Pulse::Cycles { Pulse::Timer } else { self.pulse };
        let ways = [self, Self { pulse, ..self }]
            .map(|way| [way, Self { registers: false, ..way }])
            .concat();
        let opens = |way: &Self| Event::open(way.attr(), of, None).is_ok();
        ways.into_iter().find(opens).unwrap_or(Self { pulse, registers: false, ..self })
    }

    fn attr(self) -> perf::perf_event_attr {
        let mut attr = perf::perf_event_attr::default();
        (attr.type_, attr.config) = match self.pulse {
            Pulse::Cycles => (perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_CPU_CYCLES.into()),
            Pulse::Timer => (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_CPU_CLOCK.into()),
            Pulse::Tick(tick) => (perf::PERF_TYPE_TRACEPOINT, tick.tracepoint),
        };
        attr.sample_type = u64::from(
            perf::PERF_SAMPLE_TID
                | perf::PERF_SAMPLE_TIME
                | perf::PERF_SAMPLE_PERIOD
                | perf::PERF_SAMPLE_CALLCHAIN,
        );
        // What the processor did when a tick came is not in the registers of the tick's own event.
        let of_tick = matches!(self.pulse, Pulse::Tick(_));
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
        // Nobody waits to be woken: the rings are emptied at intervals.
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = u32::MAX;
        attr
    }
}

impl Lanes {
    /// Samples of all processors that are online, with whatever runs there, and what of them was not
    /// allowed.
    ///
    /// # Errors
    /// What the kernel said to opening the first of them.
    pub fn of_machine(source: Source, sys_root: &Path) -> io::Result<(Self, Vec<Missing>)> {
        let first = *online_cpus(sys_root)?.first().ok_or(io::ErrorKind::NotFound)?;
        let source = source.granted(Of::Cpu(first));
        let lane = Lane::open(source, first, &[Of::Cpu(first)])?;
        let (lanes, refused) = (vec![lane], Vec::new());
        let mut this = Self { source, lanes, sys_root: sys_root.into(), whole: true, refused };
        let missing = this.follow();
        Ok((this, missing))
    }

    /// Samples of these threads and of all that they start.
    ///
    /// # Errors
    /// What the kernel said to opening one of them that has not ended.
    pub fn of_threads(source: Source, sys_root: &Path, tids: &[i32]) -> io::Result<Self> {
        let cpus = online_cpus(sys_root)?;
        let tids = &tids[..tids.len().min(EVENTS_MAX / cpus.len().max(1))];
        let first = Of::ThreadOn(*tids.first().ok_or(io::ErrorKind::NotFound)?, cpus[0]);
        let source = source.granted(first);
        let open = |cpu: &u32| {
            let of: Vec<Of> = tids.iter().map(|tid| Of::ThreadOn(*tid, *cpu)).collect();
            Lane::open(source, *cpu, &of)
        };
        let lanes = cpus.iter().map(open).collect::<io::Result<_>>()?;
        let sys_root = sys_root.into();
        Ok(Self { source, lanes, sys_root, whole: false, refused: Vec::new() })
    }

    /// Follows processors that went or came; gives what those that came did not allow.
    pub fn follow(&mut self) -> Vec<Missing> {
        let mut missing = Vec::new();
        let Ok(online) = online_cpus(&self.sys_root) else { return missing };
        if !self.whole || self.lanes.iter().map(|lane| lane.cpu).eq(online.iter().copied()) {
            return missing;
        }
        self.lanes.retain(|lane| online.contains(&lane.cpu));
        for cpu in online {
            let known = self.lanes.iter().any(|lane| lane.cpu == cpu);
            if known || self.refused.contains(&cpu) {
                continue;
            }
            match Lane::open(self.source, cpu, &[Of::Cpu(cpu)]) {
                Ok(lane) => self.lanes.push(lane),
                // It went again meanwhile.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => {}
                Err(error) => {
                    self.refused.push(cpu);
                    missing.push(refused(&format!("samples of processor {cpu}"), &error));
                }
            }
        }
        self.lanes.sort_by_key(|lane| lane.cpu);
        missing
    }

    /// Hands over all records; gives how many were lost.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>)) -> u64 {
        let empty = |lane: &mut Lane| {
            lane.ring.drain(&mut each);
            lane.ring.take_lost()
        };
        self.lanes.iter_mut().map(empty).sum()
    }
}

impl Lane {
    /// Opens and enables an event of each of `of`, all on the processor `cpu`, into one ring.
    fn open(source: Source, cpu: u32, of: &[Of]) -> io::Result<Self> {
        let mut events: Vec<Event> = Vec::new();
        let mut ring = None;
        for of in of {
            let mut attr = source.attr();
            attr.set_inherit(u64::from(matches!(of, Of::ThreadOn(..))));
            let event = match Event::open(attr, *of, None) {
                Ok(event) => event,
                // It has ended meanwhile.
                Err(Errno::SRCH) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if let Pulse::Tick(tick) = source.pulse {
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

/// A ring of the size that suits, or as much of it as kernel.perf_event_mlock_kb allows.
fn map(event: &Event, source: Source) -> io::Result<Ring> {
    let wanted = (source.hz as usize).saturating_mul(RING_PER_HZ).clamp(RINGS[0], RINGS[1]);
    // Each program that starts maps some 20 times, which is told in 128 bytes each.
    let mut size = if source.user { RINGS[1] } else { wanted };
    loop {
        match Ring::map(event, size) {
            Err(error) if size <= RINGS[0] => {
                let why = format!(
                    "{error}, for the memory that samples come in (kernel.perf_event_mlock_kb)"
                );
                return Err(io::Error::new(error.kind(), why));
            }
            Err(_) => size /= 2,
            Ok(ring) => return Ok(ring),
        }
    }
}

/// The threads of those of `pids` that run as the calling user, which are all that may be sampled one by one.
pub(super) fn threads(proc_root: &Path, pids: &[i32]) -> Vec<i32> {
    let numbers = |dir: &Path| -> Vec<i32> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let uid = rustix::process::geteuid().as_raw();
    let own = |pid: &&i32| {
        fs::metadata(proc_root.join(pid.to_string())).is_ok_and(|found| found.uid() == uid)
    };
    let own = pids.iter().filter(own);
    own.flat_map(|pid| numbers(&proc_root.join(format!("{pid}/task")))).collect()
}

/// What to tell where the kernel refused samples.
pub(super) fn refused(what: &str, error: &io::Error) -> Missing {
    let mut missing = crate::perf::refused(what, error);
    if matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM)) {
        missing.allow += "; or sysctl kernel.perf_event_paranoid=0";
    }
    missing
}
