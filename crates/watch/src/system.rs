//! The whole machine: processors, interrupts, memory, stalls and the limits of control groups.

mod cgroup;
mod frequency;
mod interrupts;
mod memory;
pub(crate) mod stat;
#[cfg(test)]
mod tests;

use crate::Sampler;
use crate::kept::Kept;
use cgroup::Cgroups;
use fathom_model::watch::{MachineSample, Missing, Pressure, PressureSample, SystemSample};
use frequency::Frequencies;
use stat::Stat;
use std::io;
use std::path::Path;

/// Reads the counters of the whole machine.
///
/// Its files stay open. What cannot be read is in [`SystemSampler::missing`] and left out.
#[derive(Debug)]
pub struct SystemSampler {
    stat: Kept,
    interrupts: Option<Kept>,
    soft_interrupts: Option<Kept>,
    memory: Option<Kept>,
    paging: Option<Kept>,
    stalls: Option<Stalls>,
    frequencies: Frequencies,
    cgroups: Option<Cgroups>,
    missing: Vec<Missing>,
    buffer: Vec<u8>,
}

/// The files of /proc/pressure.
#[derive(Debug)]
struct Stalls {
    cpu: Kept,
    memory: Kept,
    io: Kept,
    irq: Option<Kept>,
}

impl SystemSampler {
    /// A sampler of the machine whose proc and sysfs are mounted at `proc` and `sys`: `/proc`,
    /// `/sys`. The limits of control groups are those of process `pid`, or of this one.
    ///
    /// # Errors
    /// Where there is no /proc/stat, or it is not as the kernel writes it.
    pub fn open(proc: &Path, sys: &Path, pid: Option<i32>) -> io::Result<Self> {
        let mut missing = Vec::new();
        let mut open = |what: &str, name: &str, allow: &str| {
            kept(Kept::open(proc.join(name)), what, allow, &mut missing)
        };
        let mut sampler = Self {
            stat: Kept::open(proc.join("stat"))?,
            interrupts: open("interrupts by source", "interrupts", ""),
            soft_interrupts: open("soft interrupts by kind", "softirqs", ""),
            memory: open("memory", "meminfo", ""),
            paging: open("paging and reclaim", "vmstat", ""),
            stalls: None,
            frequencies: Frequencies::new(sys),
            cgroups: None,
            missing: Vec::new(),
            buffer: Vec::new(),
        };
        let allow = "boot a kernel with CONFIG_PSI=y and the parameter psi=1";
        sampler.stalls =
            kept(Stalls::open(&proc.join("pressure")), "stalls (PSI)", allow, &mut missing);
        let cgroups = Cgroups::open(proc, sys, pid);
        sampler.cgroups = kept(cgroups, "limits of control groups", "", &mut missing);
        sampler.missing = missing;
        sampler.note_missing(pid)?;
        Ok(sampler)
    }

    /// What cannot be seen, and what would allow it.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Looks for what shows only when it is read.
    fn note_missing(&mut self, pid: Option<i32>) -> io::Result<()> {
        let cpus = self.read()?.cpus;
        if let Some(cpu) = cpus.first()
            && let Err(error) = Kept::open(self.frequencies.file(cpu.cpu))
        {
            self.missing.push(Missing {
                what: "processors' frequencies".into(),
                why: error.to_string(),
                allow: "a driver for cpufreq; a virtual machine mostly has none".into(),
            });
        }
        if self.cgroups.as_mut().is_some_and(|groups| groups.read(&mut self.buffer).is_none()) {
            let process = pid.map_or("this process".into(), |pid| format!("process {pid}"));
            self.missing.push(Missing {
                what: "limits of control groups".into(),
                why: format!("no control group of {process} is mounted"),
                allow: "mount -t cgroup2 cgroup2 /sys/fs/cgroup".into(),
            });
        }
        Ok(())
    }

    /// The counters as they stand.
    ///
    /// # Errors
    /// Where /proc/stat cannot be read or is not as the kernel writes it.
    pub fn read(&mut self) -> io::Result<SystemSample> {
        let buffer = &mut self.buffer;
        let Stat { cpus, running, blocked, context_switches, interrupts, forks } =
            Stat::parse(&self.stat.read(buffer)?, self.stat.path())?;
        let mut sample = SystemSample {
            cpus,
            running,
            blocked,
            context_switches,
            interrupts,
            forks,
            interrupts_by: parsed(&self.interrupts, buffer, interrupts::parse),
            soft_interrupts_by: parsed(&self.soft_interrupts, buffer, interrupts::parse),
            memory: parsed(&self.memory, buffer, memory::memory),
            paging: parsed(&self.paging, buffer, memory::paging),
            pressure: self.stalls.as_ref().and_then(|stalls| stalls.read(buffer)),
            cgroup: self.cgroups.as_mut().and_then(|groups| groups.read(buffer)),
        };
        self.frequencies.read(&mut sample.cpus, buffer);
        Ok(sample)
    }
}

impl Sampler for SystemSampler {
    fn name(&self) -> &'static str {
        "system"
    }

    fn take(&mut self, sample: &mut MachineSample) {
        sample.system = self.read().ok();
    }
}

impl Stalls {
    fn open(dir: &Path) -> io::Result<Self> {
        let mut stalls = Self {
            cpu: Kept::open(dir.join("cpu"))?,
            memory: Kept::open(dir.join("memory"))?,
            io: Kept::open(dir.join("io"))?,
            irq: Kept::open(dir.join("irq")).ok(),
        };
        // Where they are switched off at boot, the files are there and reading them fails.
        let mut buffer = Vec::new();
        stalls.cpu.read(&mut buffer)?;
        stalls.irq = stalls.irq.filter(|irq| irq.read(&mut buffer).is_ok());
        Ok(stalls)
    }

    fn read(&self, buffer: &mut Vec<u8>) -> Option<PressureSample> {
        let mut of = |file: &Kept| -> Option<Pressure> {
            file.read(buffer).ok().map(|text| memory::pressure(&text))
        };
        Some(PressureSample {
            cpu: of(&self.cpu)?,
            memory: of(&self.memory)?,
            io: of(&self.io)?,
            irq: self.irq.as_ref().and_then(of),
        })
    }
}

/// What a file's text says; nothing where it cannot be read.
fn parsed<T: Default>(file: &Option<Kept>, buffer: &mut Vec<u8>, parse: fn(&str) -> T) -> T {
    let text = file.as_ref().and_then(|file| file.read(buffer).ok());
    text.as_deref().map_or_else(T::default, parse)
}

/// What was opened, or a note on why it was not.
fn kept<T>(
    opened: io::Result<T>,
    what: &str,
    allow: &str,
    missing: &mut Vec<Missing>,
) -> Option<T> {
    let note = |error: io::Error| Missing {
        what: what.into(),
        why: error.to_string(),
        allow: allow.into(),
    };
    opened.map_err(|error| missing.push(note(error))).ok()
}
