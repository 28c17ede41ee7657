//! /proc/stat (Documentation/filesystems/proc.rst of the kernel, "Miscellaneous kernel statistics").

use crate::proc_file::unexpected_line;
use fathom_model::watch::{CpuSample, SystemSample};
use std::io;
use std::path::Path;

/// The fields of a sample that it holds.
pub(crate) fn parse(text: &str, path: &Path) -> io::Result<SystemSample> {
    let mut stat = SystemSample::default();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        // `intr` and `softirq` continue with one number per source.
        let first = || rest.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        let count = || first().unwrap_or(0_u64);
        match name {
            "intr" => stat.interrupts = count(),
            "ctxt" => stat.context_switches = count(),
            "processes" => stat.forks = count(),
            "procs_running" => stat.running = count() as u32,
            "procs_blocked" => stat.blocked = count() as u32,
            _ => {
                let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
                let Some(number) = number else { continue };
                let unexpected =
                    || unexpected_line(path, "7 or more counters after the name", line);
                stat.cpus.push(cpu(number, rest).ok_or_else(unexpected)?);
            }
        }
    }
    Ok(stat)
}

/// A CPU's line: user nice system idle iowait irq softirq steal, then guest times, which are part
/// of user and nice.
fn cpu(cpu: u32, counters: &str) -> Option<CpuSample> {
    let mut ticks = [0_u64; 8];
    let mut known = 0;
    for (field, word) in ticks.iter_mut().zip(counters.split_ascii_whitespace()) {
        *field = word.parse().ok()?;
        known += 1;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    let sample =
        CpuSample { cpu, user, nice, system, idle, iowait, irq, softirq, steal, khz: None };
    (known >= 7).then_some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> io::Result<SystemSample> {
        super::parse(text, Path::new("/proc/stat"))
    }

    #[test]
    fn a_line_of_the_kernel() {
        let text = "cpu  11 22 33 44 55 66 77 88 0 0\n\
            cpu0 1 2 3 4 5 6 7 8 1 0\n\
            cpu12 10 20 30 40 50 60 70\n\
            intr 500 1 2 3 0 0\nctxt 900\nbtime 1\nprocesses 30\nprocs_running 4\n\
            procs_blocked 2\nsoftirq 80 1 2\n";
        let stat = parse(text).unwrap();
        assert_eq!(stat.cpus.iter().map(|c| c.cpu).collect::<Vec<_>>(), [0, 12]);
        let CpuSample { user, nice, system, idle, iowait, irq, softirq, steal, .. } = stat.cpus[0];
        assert_eq!(
            [user, nice, system, idle, iowait, irq, softirq, steal],
            [1, 2, 3, 4, 5, 6, 7, 8]
        );
        assert_eq!((stat.cpus[1].softirq, stat.cpus[1].steal), (70, 0));
        assert_eq!((stat.interrupts, stat.context_switches, stat.forks), (500, 900, 30));
        assert_eq!((stat.running, stat.blocked), (4, 2));
    }

    #[test]
    fn unexpected_lines_are_errors_that_name_the_file() {
        for text in ["cpu0 1 2 x\n", "cpu0 1 2 3\n", "cpu0 1 2 3 4 5 6 -7\n"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("/proc/stat") && error.contains("7 or more"), "{error}");
        }
        assert_eq!(parse("").unwrap(), SystemSample::default());
        assert_eq!(parse("cpus 1\nintr x\n\n").unwrap(), SystemSample::default());
    }
}
