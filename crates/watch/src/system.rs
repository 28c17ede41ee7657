//! The whole machine: CPUs, interrupts, memory, pressure, and cgroup limits.

mod cgroup;
mod frequency;
mod memory;
pub(crate) mod stat;
#[cfg(test)]
mod tests;

use crate::Sampler;
use crate::proc_file::PinnedProcFile;
use cgroup::Cgroups;
use fathom_model::watch::{
    CgroupSample, MachineSample, Pressure, PressureSample, SystemSample, Unavailable,
};
use fathom_sys::interrupts;
use frequency::Frequencies;
use std::io;
use std::path::Path;

/// Reads the counters of the whole machine. Unreadable files are reported by
/// [`SystemSampler::missing`] and their data is omitted.
#[derive(Debug)]
pub struct SystemSampler {
    stat: PinnedProcFile,
    interrupts: Option<PinnedProcFile>,
    soft_interrupts: Option<PinnedProcFile>,
    memory: Option<PinnedProcFile>,
    paging: Option<PinnedProcFile>,
    stalls: Option<PressureFiles>,
    frequencies: Frequencies,
    cgroups: Option<Cgroups>,
    missing: Vec<Unavailable>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct PressureFiles {
    cpu: PinnedProcFile,
    memory: PinnedProcFile,
    io: PinnedProcFile,
    irq: Option<PinnedProcFile>,
}

#[derive(Debug)]
pub struct CgroupSampler {
    cgroups: Cgroups,
    buffer: Vec<u8>,
}

impl CgroupSampler {
    pub fn open(proc: &Path, sys: &Path) -> io::Result<Self> {
        Ok(Self { cgroups: Cgroups::open(proc, sys, None)?, buffer: Vec::new() })
    }

    /// The limits and counters now; `None` if no cgroup is mounted.
    pub fn snapshot(&mut self) -> Option<CgroupSample> {
        self.cgroups.read(&mut self.buffer)
    }
}

impl SystemSampler {
    /// cgroup limits are those of process `pid`, by default this one.
    pub fn open(proc: &Path, sys: &Path, pid: Option<i32>) -> io::Result<Self> {
        let mut missing = Vec::new();
        let mut open = |what: &str, name: &str, allow: &str| {
            available(PinnedProcFile::open(proc.join(name)), what, allow, &mut missing)
        };
        let mut sampler = Self {
            stat: PinnedProcFile::open(proc.join("stat"))?,
            interrupts: open("interrupts by source", "interrupts", ""),
            soft_interrupts: open("softirqs by kind", "softirqs", ""),
            memory: open("memory", "meminfo", ""),
            paging: open("paging and reclaim", "vmstat", ""),
            stalls: None,
            frequencies: Frequencies::new(sys),
            cgroups: None,
            missing: Vec::new(),
            buffer: Vec::new(),
        };
        let allow = "boot a kernel with CONFIG_PSI=y and the parameter psi=1";
        sampler.stalls = available(
            PressureFiles::open(&proc.join("pressure")),
            "pressure (PSI)",
            allow,
            &mut missing,
        );
        let cgroups = Cgroups::open(proc, sys, pid);
        sampler.cgroups = available(cgroups, "cgroup limits", "", &mut missing);
        sampler.missing = missing;
        sampler.note_missing(pid)?;
        Ok(sampler)
    }

    pub fn missing(&self) -> &[Unavailable] {
        &self.missing
    }

    /// Reports data that turns out to be unavailable only when read.
    fn note_missing(&mut self, pid: Option<i32>) -> io::Result<()> {
        let cpus = self.read()?.cpus;
        if let Some(cpu) = cpus.first()
            && let Err(error) = PinnedProcFile::open(self.frequencies.file(cpu.cpu))
        {
            self.missing.push(Unavailable {
                source: "CPU frequencies".into(),
                reason: error.to_string(),
                remedy: "load a cpufreq driver; most virtual machines have none".into(),
            });
        }
        if self.cgroups.as_mut().is_some_and(|groups| groups.read(&mut self.buffer).is_none()) {
            let process = pid.map_or("this process".into(), |pid| format!("process {pid}"));
            self.missing.push(Unavailable {
                source: "cgroup limits".into(),
                reason: format!("the cgroups of {process} are not mounted"),
                remedy: "mount -t cgroup2 cgroup2 /sys/fs/cgroup".into(),
            });
        }
        Ok(())
    }

    /// The current counters.
    pub fn read(&mut self) -> io::Result<SystemSample> {
        let buffer = &mut self.buffer;
        let stat = stat::parse(&self.stat.read(buffer)?, self.stat.path())?;
        let mut sample = SystemSample {
            interrupts_by: parsed(&self.interrupts, buffer, interrupts::parse),
            soft_interrupts_by: parsed(&self.soft_interrupts, buffer, interrupts::parse),
            memory: parsed(&self.memory, buffer, memory::memory),
            paging: parsed(&self.paging, buffer, memory::paging),
            pressure: self.stalls.as_ref().and_then(|stalls| stalls.read(buffer)),
            cgroup: self.cgroups.as_mut().and_then(|groups| groups.read(buffer)),
            ..stat
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

impl PressureFiles {
    fn open(dir: &Path) -> io::Result<Self> {
        let mut stalls = Self {
            cpu: PinnedProcFile::open(dir.join("cpu"))?,
            memory: PinnedProcFile::open(dir.join("memory"))?,
            io: PinnedProcFile::open(dir.join("io"))?,
            irq: PinnedProcFile::open(dir.join("irq")).ok(),
        };
        // If PSI is disabled at boot, the files exist but reading them fails.
        let mut buffer = Vec::new();
        stalls.cpu.read(&mut buffer)?;
        stalls.irq = stalls.irq.filter(|irq| irq.read(&mut buffer).is_ok());
        Ok(stalls)
    }

    fn read(&self, buffer: &mut Vec<u8>) -> Option<PressureSample> {
        let mut of = |file: &PinnedProcFile| -> Option<Pressure> {
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

/// Parses a file; the default value if it cannot be read.
fn parsed<T: Default>(
    file: &Option<PinnedProcFile>,
    buffer: &mut Vec<u8>,
    parse: fn(&str) -> T,
) -> T {
    let text = file.as_ref().and_then(|file| file.read(buffer).ok());
    text.as_deref().map_or_else(T::default, parse)
}

fn available<T>(
    opened: io::Result<T>,
    what: &str,
    allow: &str,
    missing: &mut Vec<Unavailable>,
) -> Option<T> {
    let note = |error: io::Error| Unavailable {
        source: what.into(),
        reason: error.to_string(),
        remedy: allow.into(),
    };
    opened.map_err(|error| missing.push(note(error))).ok()
}
