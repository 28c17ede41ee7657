//! What processors or processes execute, from the beginning of watching to its end.

use super::events::{Hardware, Kind, Kinds, Mode, Whose, open_event, refused};
use super::trial::{self, Trial};
use crate::perf::{Event, Of, bindings as perf, online_cpus};
use crate::{Sampler, Scope};
use fathom_model::watch::{Counted, CountersSample, MachineSample, Missing};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Length of a window, where the hardware's events are counted in windows.
const WINDOW: Duration = Duration::from_millis(20);
/// One window in so many is counted: a load that counting makes four times slower loses 4%.
const ONE_IN: u32 = 20;
/// What counting may add to a context switch, in nanoseconds, where processors are counted: 1% of the time
/// of one that makes 20,000 a second.
const CPU_MOST_NS: f64 = 500.0;
/// The same where processes are: any event of a thread costs more than that, as it is switched with the
/// thread. 1% at 4,000 a second.
const PROCESS_MOST_NS: f64 = 2500.0;

/// Counts instructions, cycles and cache misses, context switches and page faults, of each processor or of
/// processes. Where a trial shows that counting processes is not free, processors are counted instead,
/// which costs nothing at a context switch; where that is not free either, in short windows.
#[derive(Debug)]
pub struct CounterSampler {
    seats: Vec<Seat>,
    windows: Option<Windows>,
    missing: Vec<Missing>,
}

/// Windows in which the hardware's events are counted.
#[derive(Debug, Default)]
struct Windows {
    /// Looks so far.
    looks: u32,
}

/// Events of one thread or processor.
#[derive(Debug)]
struct Seat {
    cpu: Option<u32>,
    pid: Option<i32>,
    software: Software,
    hardware: Option<Hardware>,
}

impl CounterSampler {
    /// A sampler of each processor for [`Scope::Machine`]; otherwise of the processes that are in the scope
    /// now, with all threads and processes that they start from now on. `hardware`: whether the processor's
    /// counters may be used at all. `proc_root` and `sys_root` are where the proc file system and sysfs are
    /// mounted: `/proc`, `/sys`.
    ///
    /// # Errors
    /// Where nothing can be counted: why, and what would allow it.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        hardware: bool,
    ) -> Result<Self, Missing> {
        Self::open_with(proc_root, sys_root, scope, hardware.then_some(&Kinds::HARDWARE))
    }

    fn open_with(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        kinds: Option<&Kinds>,
    ) -> Result<Self, Missing> {
        let mut this = Self::of(proc_root, sys_root, scope, kinds)?;
        let (by_cpu, hardware) = (*scope == Scope::Machine, this.has_hardware());
        if by_cpu && !hardware {
            // The kernel's own events of a processor cost nothing at a context switch.
            return Ok(this);
        }
        if let Some(why) = disturbs(&trial::run(by_cpu, |of| attach(of, kinds)), by_cpu) {
            if !by_cpu {
                this = Self::open_with(proc_root, sys_root, &Scope::Machine, kinds)?;
            } else {
                this.windows = Some(Windows::default());
            }
            this.missing.push(instead(why, by_cpu));
        }
        if this.windows.is_none() {
            this.switch(true);
        }
        Ok(this)
    }

    /// Events that are open, the hardware's not enabled.
    fn of(
        proc_root: &Path,
        sys_root: &Path,
        scope: &Scope,
        kinds: Option<&Kinds>,
    ) -> Result<Self, Missing> {
        let whom = whom(proc_root, sys_root, scope).map_err(|error| Missing {
            what: WHAT.into(),
            why: error.to_string(),
            allow: String::new(),
        })?;
        let (mut seats, mut missing) = (Vec::with_capacity(whom.len()), Vec::new());
        for whom in whom {
            seats.extend(Seat::open(whom, kinds, &mut missing)?);
        }
        Ok(Self { seats, windows: None, missing })
    }

    /// What of it cannot be counted, or not as it was asked, and what would allow it.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    fn has_hardware(&self) -> bool {
        self.seats.iter().any(|seat| seat.hardware.is_some())
    }

    /// Switches the hardware's events on or off. What was counted stays.
    fn switch(&self, on: bool) {
        for hardware in self.seats.iter().filter_map(|seat| seat.hardware.as_ref()) {
            // Nothing is counted then, which shows in the times.
            let _ = if on { hardware.enable() } else { hardware.disable() };
        }
    }
}

impl Sampler for CounterSampler {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn period(&self) -> Option<Duration> {
        self.windows.is_some().then_some(WINDOW)
    }

    fn look(&mut self) {
        let Some(windows) = &mut self.windows else { return };
        let place = windows.looks % ONE_IN;
        windows.looks = windows.looks.wrapping_add(1);
        if place < 2 {
            self.switch(place == 0);
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let mut counters = CountersSample::default();
        for seat in &self.seats {
            // What cannot be read is left out.
            let Ok(counted) = seat.read(self.windows.is_some()) else { continue };
            match counters
                .of
                .last_mut()
                .filter(|last| last.pid.is_some() && last.pid == counted.pid)
            {
                Some(last) => *last = last.combine(&counted, u64::saturating_add),
                None => counters.of.push(counted),
            }
        }
        sample.counters = Some(counters);
    }
}

/// Why events are not to be counted as they were in a trial; `None` where they cost next to nothing.
fn disturbs(trial: &io::Result<Trial>, by_cpu: bool) -> Option<String> {
    let most_ns = if by_cpu { CPU_MOST_NS } else { PROCESS_MOST_NS };
    match trial {
        Ok(trial) if trial.added_ns <= most_ns => None,
        Ok(trial) => Some(trial.to_string()),
        Err(error) => Some(format!("whether counting slows work could not be tried: {error}")),
    }
}

/// What is counted instead of all the time of processors, or of processes alone.
fn instead(why: String, by_cpu: bool) -> Missing {
    let (what, instead) = if by_cpu {
        let (window, cycle) = (WINDOW, WINDOW * ONE_IN);
        (
            "instructions and cycles of all the time",
            format!("counted for {window:?} of every {cycle:?}"),
        )
    } else {
        (
            "instructions and cycles of processes",
            "counted of processors, whatever runs there".into(),
        )
    };
    Missing { what: what.into(), why: format!("{why}; {instead}"), allow: String::new() }
}

/// Counts, for a trial, as it would be counted.
fn attach(of: Of, kinds: Option<&Kinds>) -> io::Result<Option<Seat>> {
    let seat = Seat::open(Whom { of, pid: None }, kinds, &mut Vec::new())
        .map_err(|missing| io::Error::other(missing.to_string()))?;
    if let Some(hardware) = seat.as_ref().and_then(|seat| seat.hardware.as_ref()) {
        hardware.enable()?;
    }
    Ok(seat)
}

const WHAT: &str = "instructions, cycles, context switches";

/// A processor or a thread, and whose it is.
#[derive(Debug, Clone, Copy)]
struct Whom {
    of: Of,
    pid: Option<i32>,
}

fn whom(proc_root: &Path, sys_root: &Path, scope: &Scope) -> io::Result<Vec<Whom>> {
    if *scope == Scope::Machine {
        let cpus = online_cpus(sys_root)?;
        return Ok(cpus.into_iter().map(|cpu| Whom { of: Of::Cpu(cpu), pid: None }).collect());
    }
    let mut whom = Vec::new();
    for pid in scope.processes(proc_root)? {
        // One that ended meanwhile has no threads.
        let Ok(tasks) = std::fs::read_dir(proc_root.join(format!("{pid}/task"))) else { continue };
        let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        whom.extend(tids.map(|tid| Whom { of: Of::Thread(tid), pid: Some(pid) }));
    }
    Ok(whom)
}

impl Seat {
    /// `None` where it ended meanwhile.
    fn open(
        whom: Whom,
        kinds: Option<&Kinds>,
        missing: &mut Vec<Missing>,
    ) -> Result<Option<Self>, Missing> {
        let cpu = if let Of::Cpu(cpu) = whom.of { Some(cpu) } else { None };
        let whose = Whose { of: whom.of, inherit: cpu.is_none() };
        let mut note = |lack: Missing| {
            // One for all of them.
            if !missing.iter().any(|known| known.what == lack.what) {
                missing.push(lack);
            }
        };
        let software = match Software::open(whose, &mut note) {
            // A processor that was taken offline, a thread that ended.
            Err(Errno::SRCH | Errno::NODEV | Errno::NXIO) => return Ok(None),
            software => software.map_err(|errno| refused(WHAT, whom.of, errno))?,
        };
        let hardware = kinds.and_then(|kinds| match Hardware::open(whose, kinds) {
            Ok((hardware, lacks)) => {
                lacks.into_iter().for_each(&mut note);
                Some(hardware)
            }
            Err(lack) => {
                note(lack);
                None
            }
        });
        Ok(Some(Self { cpu, pid: whom.pid, software, hardware }))
    }

    fn read(&self, windowed: bool) -> io::Result<Counted> {
        let mut counted = Counted { cpu: self.cpu, pid: self.pid, ..Counted::default() };
        let wanted_ns = self.software.read(&mut counted)?;
        if let Some(hardware) = &self.hardware {
            hardware.read(&mut counted)?;
        }
        if windowed {
            // They are wanted all the time, but enabled in windows only.
            let executed = counted.user.iter_mut().chain(&mut counted.kernel);
            executed.for_each(|executed| executed.enabled_ns = wanted_ns);
            counted.cache.iter_mut().for_each(|cache| cache.enabled_ns = wanted_ns);
        }
        Ok(counted)
    }
}

/// Events of the kernel's own, which exist on every machine.
#[derive(Debug)]
struct Software {
    clock: Event,
    faults: Event,
    /// These happen in the kernel, and are not seen by who may not look there.
    switches: Option<Event>,
}

const CLOCK: Kind = software(perf::PERF_COUNT_SW_TASK_CLOCK);
const FAULTS: Kind = software(perf::PERF_COUNT_SW_PAGE_FAULTS);
const SWITCHES: Kind = software(perf::PERF_COUNT_SW_CONTEXT_SWITCHES);

const fn software(number: u32) -> Kind {
    (perf::PERF_TYPE_SOFTWARE, number as u64)
}

impl Software {
    fn open(whose: Whose, mut note: impl FnMut(Missing)) -> Result<Self, Errno> {
        let open = |mode| {
            let clock = open_event(CLOCK, whose, mode, None)?;
            let faults = open_event(FAULTS, whose, mode, Some(&clock))?;
            Ok((clock, faults))
        };
        let (mode, opened) = match open(Mode::Both) {
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                let opened = open(Mode::User).map_err(|_| errno)?;
                note(refused("context switches, page faults of the kernel", whose.of, errno));
                (Mode::User, opened)
            }
            opened => (Mode::Both, opened?),
        };
        let (clock, faults) = opened;
        let switches = match mode {
            Mode::Both => Some(open_event(SWITCHES, whose, mode, Some(&clock))?),
            _ => None,
        };
        clock.enable().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Self { clock, faults, switches })
    }

    /// Puts what was counted into its fields; gives the time for which it was.
    fn read(&self, counted: &mut Counted) -> io::Result<u64> {
        let clock = self.clock.read()?;
        // Of a processor it is all of its time, whatever ran.
        counted.task_clock_ns = counted.cpu.is_none().then_some(clock.value);
        counted.page_faults = Some(self.faults.read()?.value);
        counted.context_switches =
            self.switches.as_ref().map(Event::read).transpose()?.map(|reading| reading.value);
        Ok(clock.enabled_ns)
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
