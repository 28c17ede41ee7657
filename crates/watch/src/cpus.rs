//! CPU time of some CPUs, from /proc/stat.

use crate::proc_file::read_text;
use crate::system::stat;
use fathom_model::watch::CpuSample;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct CpuSampler {
    path: PathBuf,
    cpus: Vec<u32>,
    tick_ns: u64,
}

/// The counters of the CPUs at one instant; `fathom_analysis::derive` makes the difference of two.
#[derive(Debug, Clone)]
pub struct CpuSnapshot {
    pub tick_ns: u64,
    /// Each CPU that is online, ascending.
    pub cpus: Vec<CpuSample>,
}

impl CpuSampler {
    pub fn new(proc_root: &Path, cpus: &[u32]) -> Self {
        // The unit is USER_HZ, whatever the kernel's own is.
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Self {
            path: proc_root.join("stat"),
            cpus: cpus.to_vec(),
            tick_ns: 1_000_000_000 / per_second,
        }
    }

    /// Reads the counters. A CPU that is offline is left out.
    pub fn snapshot(&self) -> io::Result<CpuSnapshot> {
        let text = read_text(&self.path)?;
        let mut cpus = stat::parse(&text, &self.path)?.cpus;
        cpus.retain(|cpu| self.cpus.contains(&cpu.cpu));
        Ok(CpuSnapshot { tick_ns: self.tick_ns, cpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str, cpus: &[u32]) -> io::Result<CpuSnapshot> {
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
    fn only_requested_cpus_are_read() {
        let one = snapshot(STAT, &[0]).unwrap();
        assert_eq!((one.cpus.len(), one.cpus[0].softirq, one.tick_ns), (1, 7, 10_000_000));
        let both = snapshot(STAT, &[0, 1, 7]).unwrap();
        assert_eq!(both.cpus.iter().map(|cpu| cpu.steal).collect::<Vec<_>>(), [8, 80]);
    }

    #[test]
    fn an_unknown_format_is_an_error_that_names_the_file() {
        let error = snapshot("cpu0 1 2 x\n", &[0]).unwrap_err().to_string();
        assert!(error.contains("/stat") && error.contains("7 or more"), "{error}");
        assert!(snapshot("cpu0 1 2 3\n", &[0]).is_err());
        assert!(snapshot("", &[0]).unwrap().cpus.is_empty());
    }

    #[test]
    fn the_real_counters_grow() {
        let sampler = CpuSampler::new(Path::new("/proc"), &[0]);
        let ticks = || {
            let cpu = sampler.snapshot().unwrap().cpus[0];
            cpu.user + cpu.nice + cpu.system + cpu.softirq + cpu.steal + cpu.idle + cpu.iowait
        };
        let before = ticks();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(ticks() > before);
    }
}
