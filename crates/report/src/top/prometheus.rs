//! The same figures in Prometheus's text format, for node_exporter's textfile collector.

use fathom_analysis::metrics::{DISK, Interval, METRICS, MetricRow};
use std::fmt::Write;

/// All figures of the machine and of each block device, as gauges named `fathom_` and as in CSV. What is not available is absent.
/// Source of the format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
pub fn prometheus(interval: &Interval<'_>, unix_ns: u64) -> String {
    let mut text = String::new();
    let at = [(String::new(), unix_ns as f64 / 1e9)];
    family(&mut text, "fathom_sampled_timestamp_seconds", "End of the interval.", &at);
    for of in METRICS {
        let value = (of.value)(interval).map(|value| (String::new(), value));
        family(&mut text, &format!("fathom_{}", of.id), &help(of), value.as_slice());
    }
    for of in DISK {
        let devices = interval.rates.disks.iter();
        let values: Vec<(String, f64)> = devices
            .filter_map(|disk| {
                Some((format!("{{device=\"{}\"}}", label(&disk.name)), (of.value)(disk)?))
            })
            .collect();
        family(&mut text, &format!("fathom_disk_{}", of.id), &help(of), &values);
    }
    text
}

fn family(text: &mut String, name: &str, help: &str, values: &[(String, f64)]) {
    if values.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn help<F>(of: &MetricRow<F>) -> String {
    let text = format!("{}: {} ({})", of.group.title(), of.title, of.unit.name());
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::machine::{DiskRates, MachineRates};
    use fathom_model::watch::MachineSample;
    use std::collections::BTreeSet;

    #[test]
    fn each_family_is_described_once_and_devices_are_labels() {
        let disk = |name: &str| DiskRates { name: name.into(), queue: 1.5, ..DiskRates::default() };
        let rates = MachineRates {
            elapsed_ns: 1_000_000_000,
            disks: vec![disk("vda"), disk("a\"b")],
            ..MachineRates::default()
        };
        let sample = MachineSample::default();
        let interval = Interval { before: &sample, now: &sample, rates: &rates };
        let text = prometheus(&interval, 1_500_000_000);
        assert!(text.starts_with("# HELP fathom_sampled_timestamp_seconds End of the interval.\n"));
        assert!(text.contains("\nfathom_sampled_timestamp_seconds 1.5\n"), "{text}");
        assert!(text.contains("\nfathom_disk_queue{device=\"vda\"} 1.5\n"), "{text}");
        assert!(text.contains("\nfathom_disk_queue{device=\"a\\\"b\"} 1.5\n"), "{text}");
        let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(families.len(), families.iter().collect::<BTreeSet<_>>().len());
        // Without a sample of the CPUs, nothing is said about them.
        assert!(!text.contains("fathom_user_pct"), "{text}");
    }
}
