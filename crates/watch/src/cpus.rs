//! Where the time of some processors went, added up.

use crate::kept::named;
use crate::system::stat::Stat;
use fathom_model::watch::CpuSample;
use std::io;
use std::path::{Path, PathBuf};

/// Reads the time of a fixed set of processors.
#[derive(Debug, Clone)]
pub struct CpuSampler {
    path: PathBuf,
    cpus: Vec<u32>,
    /// Nanoseconds in one unit of the counters.
    tick_ns: u64,
}

/// Time of all the processors of a sampler together, in nanoseconds. The counters only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Worked, for whomever: user, nice, system and interrupts. Guests are part of user time.
    pub busy_ns: u64,
    /// Ready to run, but the hypervisor ran something else.
    pub steal_ns: u64,
    /// Idle, or waiting for I/O.
    pub idle_ns: u64,
}

impl CpuSampler {
    /// A sampler of the processors with these numbers. `proc_root` is where the proc file system is mounted:
    /// `/proc`.
    #[must_use]
    pub fn new(proc_root: &Path, cpus: &[u32]) -> Self {
        // The unit is USER_HZ, whatever the kernel's own is.
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Self {
            path: proc_root.join("stat"),
            cpus: cpus.to_vec(),
            tick_ns: 1_000_000_000 / per_second,
        }
    }

    /// Reads the counters. A processor that is not there adds nothing.
    ///
    /// # Errors
    /// Where the file cannot be read, or has a line that is not as the kernel writes it; both name
    /// the file.
    pub fn snapshot(&self) -> io::Result<CpuTimes> {
        let text = std::fs::read_to_string(&self.path).map_err(|e| named(&self.path, &e))?;
        let mut sum = CpuTimes::default();
        for cpu in Stat::parse(&text, &self.path)?.cpus {
            if self.cpus.contains(&cpu.cpu) {
                sum.add(&cpu, self.tick_ns);
            }
        }
        Ok(sum)
    }
}

impl CpuTimes {
    /// What came since `earlier`. Idle time can run backwards where a processor was offline: then
    /// nothing came.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
        }
    }

    fn add(&mut self, cpu: &CpuSample, tick_ns: u64) {
        let ns = |parts: &[u64]| {
            parts.iter().fold(0_u64, |sum, ticks| sum.saturating_add(ticks.saturating_mul(tick_ns)))
        };
        let busy = ns(&[cpu.user, cpu.nice, cpu.system, cpu.irq, cpu.softirq]);
        self.busy_ns = self.busy_ns.saturating_add(busy);
        self.steal_ns = self.steal_ns.saturating_add(ns(&[cpu.steal]));
        self.idle_ns = self.idle_ns.saturating_add(ns(&[cpu.idle, cpu.iowait]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str, cpus: &[u32]) -> io::Result<CpuTimes> {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("stat"), text).unwrap();
        CpuSampler::new(root.path(), cpus).snapshot()
    }

    const STAT: &str = "cpu  11 22 33 44 55 66 77 88 0 0\n\
        cpu0 1 2 3 4 5 6 7 8 1 0\n\
        cpu1 10 20 30 40 50 60 70 80 0 0\n\
        intr 5 6\n\
        ctxt 9\n";

    #[test]
    fn only_the_processors_asked_for_count() {
        let one = snapshot(STAT, &[0]).unwrap();
        // 1 + 2 + 3 + 6 + 7 ticks of 10 ms.
        assert_eq!(
            one,
            CpuTimes { busy_ns: 190_000_000, steal_ns: 80_000_000, idle_ns: 90_000_000 }
        );
        let both = snapshot(STAT, &[0, 1, 7]).unwrap();
        assert_eq!(both.busy_ns, 11 * one.busy_ns);
        assert_eq!(both.since(&one).steal_ns, 10 * one.steal_ns);
    }

    #[test]
    fn what_is_not_from_a_kernel_is_an_error_that_names_the_file() {
        let error = snapshot("cpu0 1 2 x\n", &[0]).unwrap_err().to_string();
        assert!(error.contains("/stat") && error.contains("7 or more"), "{error}");
        assert!(snapshot("cpu0 1 2 3\n", &[0]).is_err());
        assert_eq!(snapshot("", &[0]).unwrap(), CpuTimes::default());
    }

    #[test]
    fn the_real_counters_grow() {
        let sampler = CpuSampler::new(Path::new("/proc"), &[0]);
        let before = sampler.snapshot().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = sampler.snapshot().unwrap().since(&before);
        assert!(now.busy_ns + now.steal_ns + now.idle_ns > 0, "{now:?}");
    }
}
