//! CPU frequencies, from cpufreq (Documentation/admin-guide/pm/cpufreq.rst of the kernel).

use crate::proc_file::PinnedProcFile;
use fathom_model::watch::CpuSample;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Frequencies {
    dir: PathBuf,
    /// The files of the CPUs last online; `None` for a CPU without cpufreq.
    files: Vec<(u32, Option<PinnedProcFile>)>,
    next: usize,
}

/// Time limit per sample. Kernels before 5.19 sleep 10 ms per CPU on x86; then each sample covers a
/// few CPUs.
const BUDGET: Duration = Duration::from_millis(2);

impl Frequencies {
    pub fn new(sys: &Path) -> Self {
        Self { dir: sys.join("devices/system/cpu"), files: Vec::new(), next: 0 }
    }

    pub fn file(&self, cpu: u32) -> PathBuf {
        self.dir.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"))
    }

    pub fn read(&mut self, cpus: &mut [CpuSample], buffer: &mut Vec<u8>) {
        let same = cpus.iter().map(|cpu| cpu.cpu).eq(self.files.iter().map(|(cpu, _)| *cpu));
        if !same {
            let open = |cpu: &CpuSample| (cpu.cpu, PinnedProcFile::open(self.file(cpu.cpu)).ok());
            self.files = cpus.iter().map(open).collect();
        }
        let end = Instant::now() + BUDGET;
        for _ in 0..cpus.len() {
            let index = self.next % cpus.len();
            let text = self.files[index].1.as_ref().and_then(|file| file.read(buffer).ok());
            cpus[index].khz = text.and_then(|text| text.trim_ascii().parse().ok());
            self.next = index + 1;
            if Instant::now() >= end {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(numbers: &[u32]) -> Vec<CpuSample> {
        numbers.iter().map(|cpu| CpuSample { cpu: *cpu, ..CpuSample::default() }).collect()
    }

    #[test]
    fn cpus_go_on_and_offline() {
        let root = tempfile::tempdir().unwrap();
        let mut frequencies = Frequencies::new(root.path());
        for (cpu, khz) in [(0, "800000\n"), (2, "<unknown>\n"), (3, "3200000\n")] {
            let file = frequencies.file(cpu);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, khz).unwrap();
        }
        let mut buffer = Vec::new();
        let mut khz = |numbers: &[u32]| {
            let mut cpus = cpus(numbers);
            // Repeats the sample, as a busy machine may not finish within the time limit.
            let mut seen = vec![None; cpus.len()];
            for _ in numbers {
                frequencies.read(&mut cpus, &mut buffer);
                seen.iter_mut().zip(&cpus).for_each(|(seen, cpu)| *seen = cpu.khz);
            }
            seen
        };
        assert_eq!(khz(&[0, 1, 2]), [Some(800_000), None, None]);
        assert_eq!(khz(&[0, 3]), [Some(800_000), Some(3_200_000)]);
        assert_eq!(khz(&[]), []);
    }
}
