//! The same figures as gauges of monitoring systems: in Prometheus's text format, for node_exporter's textfile collector, and in
//! OpenTelemetry's protocol.

use fathom_analysis::metrics::{DISK, FigureUnit, Interval, METRICS, MetricRow};
use serde_json::{Value, json};
use std::fmt::Write;

/// A figure of the machine, or of each block device.
struct Gauge<'a> {
    name: String,
    help: String,
    unit: FigureUnit,
    /// Values by device; what is not available is absent.
    values: Vec<(Option<&'a str>, f64)>,
}

/// All figures of the machine and of each block device, named `fathom_` and as in CSV, where they are available.
fn gauges<'a>(interval: &'a Interval<'_>) -> impl Iterator<Item = Gauge<'a>> {
    let machine = METRICS.iter().map(|of| {
        let value = (of.value)(interval).map(|value| (None, value));
        Gauge::new(of, "fathom_", value.into_iter().collect())
    });
    let disks = DISK.iter().map(|of| {
        let devices = interval.rates.disks.iter();
        let value = |disk| (of.value)(disk);
        let values = devices.filter_map(|disk| Some((Some(disk.name.as_str()), value(disk)?)));
        Gauge::new(of, "fathom_disk_", values.collect())
    });
    machine.chain(disks).filter(|gauge| !gauge.values.is_empty())
}

impl<'a> Gauge<'a> {
    fn new<F>(of: &MetricRow<F>, prefix: &str, values: Vec<(Option<&'a str>, f64)>) -> Self {
        let help = format!("{}: {} ({})", of.group.title(), of.title, of.unit.name());
        Self { name: format!("{prefix}{}", of.id), help, unit: of.unit, values }
    }
}

/// Source of the format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
pub fn prometheus(interval: &Interval<'_>, unix_ns: u64) -> String {
    let mut text = String::new();
    let (name, seconds) = ("fathom_sampled_timestamp_seconds", unix_ns as f64 / 1e9);
    head(&mut text, name, "End of the interval.");
    // Writing to a string does not fail.
    let _ = writeln!(text, "{name} {seconds}");
    for Gauge { name, help, values, .. } in gauges(interval) {
        head(&mut text, &name, &help.replace('\\', "\\\\").replace('\n', "\\n"));
        for (device, value) in values {
            let _ = match device {
                Some(device) => writeln!(text, "{name}{{device=\"{}\"}} {value}", label(device)),
                None => writeln!(text, "{name} {value}"),
            };
        }
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
}

fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The request of OTLP/HTTP in JSON, with metrics of `host`. Source of the format:
/// <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.
pub fn otlp(interval: &Interval<'_>, unix_ns: u64, host: &str) -> String {
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let metric = |Gauge { name, help, unit, values }: Gauge<'_>| {
        let point = |(device, value): (Option<&str>, f64)| {
            let attributes: Vec<Value> =
                device.map(|name| attribute("device", name)).into_iter().collect();
            json!({"timeUnixNano": unix_ns.to_string(), "asDouble": value, "attributes": attributes})
        };
        // JSON has no infinite numbers.
        let points = values.into_iter().filter(|(_, value)| value.is_finite()).map(point);
        let points: Vec<Value> = points.collect();
        json!({"name": name, "description": help, "unit": ucum(unit), "gauge": {"dataPoints": points}})
    };
    let metrics: Vec<Value> = gauges(interval).map(metric).collect();
    let scope = json!({"name": "fathom", "version": env!("CARGO_PKG_VERSION")});
    let resource =
        json!({"attributes": [attribute("service.name", "fathom"), attribute("host.name", host)]});
    let of_scope = json!({"scope": scope, "metrics": metrics});
    json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [of_scope]}]}).to_string()
}

/// The unit in the code that OpenTelemetry uses (UCUM).
fn ucum(unit: FigureUnit) -> &'static str {
    match unit {
        FigureUnit::Count | FigureUnit::Number => "1",
        FigureUnit::Rate => "1/s",
        FigureUnit::Percent => "%",
        FigureUnit::Bytes => "By",
        FigureUnit::BytesPerSecond => "By/s",
        FigureUnit::Milliseconds => "ms",
    }
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
        let sent: Value = serde_json::from_str(&otlp(&interval, 1_500_000_000, "node1")).unwrap();
        let sent = &sent["resourceMetrics"][0];
        assert_eq!(sent["resource"]["attributes"][1]["value"]["stringValue"], "node1");
        let metrics = sent["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let names: Vec<&str> = metrics.iter().map(|one| one["name"].as_str().unwrap()).collect();
        let named: Vec<&str> =
            families.iter().skip(1).map(|line| line.split(' ').nth(2).unwrap()).collect();
        assert_eq!(names, named);
        let queue = metrics.iter().find(|one| one["name"] == "fathom_disk_queue").unwrap();
        let point = json!({
            "timeUnixNano": "1500000000", "asDouble": 1.5,
            "attributes": [{"key": "device", "value": {"stringValue": "a\"b"}}],
        });
        assert_eq!((&queue["unit"], &queue["gauge"]["dataPoints"][1]), (&json!("1"), &point));
    }
}
