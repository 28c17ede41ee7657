//! /proc/interrupts and /proc/softirqs: one column per CPU, one line per source.

use fathom_model::watch::InterruptSample;

/// The sources with at least one interrupt.
///
/// A line is `24:  counts…  chip  hwirq-edge  device`, or `LOC:  counts…  Local timer interrupts`
/// (kernel/irq/proc.c, show_interrupts).
pub fn parse(text: &str) -> Vec<InterruptSample> {
    let mut lines = text.lines();
    let columns = lines.next().unwrap_or_default();
    let cpus: Vec<u32> = columns
        .split_ascii_whitespace()
        .filter_map(|column| column.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines.filter_map(|line| source(line, &cpus)).collect()
}

/// `None` if there were none, and for `ERR` and `MIS`, which are not per CPU.
fn source(line: &str, cpus: &[u32]) -> Option<InterruptSample> {
    let (irq, mut rest) = line.split_once(':')?;
    let mut counts = Vec::new();
    for cpu in cpus {
        rest = rest.trim_ascii_start();
        let (word, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let count = word.parse().ok()?;
        if count > 0 {
            counts.push((*cpu, count));
        }
        rest = after;
    }
    let irq = irq.trim_ascii();
    let is_number = irq.bytes().all(|byte| byte.is_ascii_digit());
    // Two spaces precede the devices, whose names contain single spaces at most.
    let devices = || rest.trim_ascii_end().rsplit_once("  ").map_or(rest, |(_, devices)| devices);
    let source = if is_number { devices() } else { rest };
    let named = |counts| InterruptSample {
        irq: irq.to_string(),
        source: source.trim_ascii().to_string(),
        counts,
    };
    (!counts.is_empty()).then(|| named(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Source = (String, String, Vec<(u32, u32)>);

    fn seen(text: &str) -> Vec<Source> {
        parse(text).into_iter().map(|i| (i.irq, i.source, i.counts)).collect()
    }

    #[test]
    fn sources_of_an_x86_machine() {
        let text = "           CPU0       CPU2       \n \
             24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
             28:          0          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config\n \
             36:         14    8832886 PCI-MSIX-0000:00:02.0   1-edge      nvme0q1, nvme1q1\n\
            LOC:    5034063    5121757   Local timer interrupts\n\
            SPU:          0          0   Spurious interrupts\n\
            ERR:          7\n";
        let owned = |irq: &str, source: &str, counts: &[(u32, u32)]| {
            (irq.to_string(), source.to_string(), counts.to_vec())
        };
        assert_eq!(
            seen(text),
            [
                owned("24", "ACPI:Ged", &[(0, 1)]),
                owned("36", "nvme0q1, nvme1q1", &[(0, 14), (2, 8_832_886)]),
                owned("LOC", "Local timer interrupts", &[(0, 5_034_063), (2, 5_121_757)]),
            ]
        );
    }

    #[test]
    fn sources_of_an_arm_machine() {
        let text = "           CPU0       CPU1\n \
             10:       2121       3131     GICv3  27 CgroupDir     arch_timer\n\
            IPI0:         5          6       Rescheduling interrupts\n";
        assert_eq!(seen(text)[0].1, "arch_timer");
        assert_eq!(
            (seen(text)[1].0.as_str(), seen(text)[1].1.as_str()),
            ("IPI0", "Rescheduling interrupts")
        );
    }

    #[test]
    fn soft_interrupts() {
        let text = "                    CPU0       CPU1\n          HI:          0          0\n       \
            BLOCK:     221380    8969529\n";
        assert_eq!(
            seen(text),
            [("BLOCK".into(), String::new(), vec![(0, 221_380), (1, 8_969_529)])]
        );
    }

    #[test]
    fn malformed_tables_give_nothing() {
        for text in ["", "\n", "x", "CPU0\n1: x\n2: 4294967296\n:\n3 4\n"] {
            assert_eq!(seen(text), []);
        }
    }

    #[test]
    fn the_running_kernel() {
        let text = std::fs::read_to_string("/proc/softirqs").unwrap();
        assert!(parse(&text).iter().any(|kind| kind.irq == "TIMER"), "{text}");
        let text = std::fs::read_to_string("/proc/interrupts").unwrap();
        assert!(parse(&text).iter().all(|source| !source.source.is_empty()), "{text}");
    }
}
