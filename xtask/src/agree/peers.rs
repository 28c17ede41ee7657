//! The reference tools: how each is started, and which of its figures correspond to fathom's.

use super::{Row, SamplerFigures, perf};
use crate::Result;
use fathom_analysis::machine::{CpuPercent, DiskRates, InterruptRates, IoRates, MachineRates};
use serde_json::Value;

pub struct Peer {
    pub program: &'static str,
    /// Its arguments, with SECONDS for the duration and DATA for its data file.
    pub arguments: &'static str,
    /// What to do if it is missing.
    pub install: &'static str,
    pub rows: fn(&str, &SamplerFigures) -> Result<Vec<Row>>,
}

/// All tools; to compare another one, add an entry.
pub const PEERS: &[Peer] = &[
    Peer {
        program: "iostat",
        // Not since boot; partitions too.
        arguments: "-x -y -p ALL -o JSON SECONDS 1",
        install: "apt-get install sysstat",
        rows: |output, ours| iostat(output, &ours.rates, ours.seconds),
    },
    Peer {
        program: "mpstat",
        arguments: "-P ALL -u -I SUM,CPU,SCPU -o JSON SECONDS 1",
        install: "apt-get install sysstat",
        rows: |output, ours| mpstat(output, &ours.rates, ours.seconds),
    },
    Peer {
        program: "vmstat",
        arguments: "-n SECONDS 2",
        install: "apt-get install procps",
        rows: |output, ours| vmstat(output, &ours.rates, ours.seconds),
    },
    Peer {
        program: "perf",
        arguments: "stat -a -x, -o /dev/stdout -e context-switches,page-faults sleep SECONDS",
        install: "apt-get install linux-perf",
        rows: |output, ours| counted(output, &ours.rates, ours.seconds),
    },
    Peer {
        program: "perf",
        arguments: "stat -a -x, -o /dev/stdout -e block:block_bio_queue,block:block_bio_backmerge,\
                    block:block_bio_frontmerge,block:block_rq_merge,block:block_split,\
                    block:block_rq_issue,block:block_rq_requeue,block:block_rq_complete,\
                    block:block_unplug sleep SECONDS",
        install: "apt-get install linux-perf",
        rows: perf::blocks,
    },
    Peer {
        program: "perf",
        arguments: "record -q -a -F 99 -e cpu-clock -o DATA sleep SECONDS",
        install: "apt-get install linux-perf",
        rows: perf::places,
    },
];

/// Shares of time count ticks of 10 ms, here in percent points.
const SHARE_FLOOR: f64 = 0.5;
/// iostat prints two digits.
const PRINT_FLOOR: f64 = 0.011;

fn iostat(output: &str, rates: &MachineRates, seconds: f64) -> Result<Vec<Row>> {
    let root: Value = serde_json::from_str(output)?;
    let disks = root["sysstat"]["hosts"][0]["statistics"][0]["disk"].as_array();
    let mut rows = Vec::new();
    for disk in disks.ok_or("no disks in the output of iostat")? {
        let name = disk["disk_device"].as_str().unwrap_or_default();
        if let Some(ours) = rates.disks.iter().find(|ours| ours.name == name) {
            rows.extend(disk_rows(ours, disk, seconds));
        }
    }
    Ok(rows)
}

fn disk_rows(ours: &DiskRates, disk: &Value, seconds: f64) -> Vec<Row> {
    let row = |figure: &str, value: f64, floor: f64| {
        let theirs = disk[figure].as_f64().unwrap_or(f64::NAN);
        Row::new(format!("{} {figure}", ours.name), value, theirs, floor)
    };
    let events = 2.0 / seconds;
    let mut rows = Vec::new();
    let directions = [("r", &ours.read), ("w", &ours.write), ("d", &ours.discard)];
    for (letter, IoRates { ios, bytes, merges, merged, wait_ms, size }) in directions {
        let kib = size.unwrap_or(0.0) / 1024.0;
        rows.extend([
            row(&format!("{letter}/s"), *ios, events),
            row(&format!("{letter}kB/s"), bytes / 1024.0, events * kib),
            row(&format!("{letter}rqm/s"), *merges, events),
            row(&format!("{letter}rqm"), *merged, SHARE_FLOOR),
            row(&format!("{letter}_await"), wait_ms.unwrap_or(0.0), PRINT_FLOOR),
            row(&format!("{letter}areq-sz"), kib, PRINT_FLOOR),
        ]);
    }
    rows.extend([
        row("f/s", ours.flush.ios, events),
        row("f_await", ours.flush.wait_ms.unwrap_or(0.0), PRINT_FLOOR),
        row("aqu-sz", ours.queue, PRINT_FLOOR),
        row("util", ours.util, SHARE_FLOOR),
    ]);
    rows
}

fn mpstat(output: &str, rates: &MachineRates, seconds: f64) -> Result<Vec<Row>> {
    let root: Value = serde_json::from_str(output)?;
    let seen = &root["sysstat"]["hosts"][0]["statistics"][0];
    let system = rates.system.as_ref().ok_or("no CPU figures")?;
    let mut rows = Vec::new();
    for theirs in seen["cpu-load"].as_array().ok_or("no CPUs in the output of mpstat")? {
        let cpu = theirs["cpu"].as_str().unwrap_or_default();
        let one = system.cpus.iter().find(|one| one.cpu.to_string() == cpu);
        let shares = if cpu == "all" { Some(&system.cpu) } else { one.map(|one| &one.shares) };
        rows.extend(shares.into_iter().flat_map(|ours| cpu_rows(cpu, ours, theirs)));
    }
    let total = seen["sum-interrupts"][0]["intr"].as_f64().unwrap_or(f64::NAN);
    rows.push(Row::new("intr/s", system.interrupts, total, 2.0 / seconds));
    let tables = [
        ("individual-interrupts", &system.interrupts_by),
        ("soft-interrupts", &system.soft_interrupts_by),
    ];
    for (table, ours) in tables {
        rows.extend(interrupt_rows(&seen[table], ours, seconds));
    }
    Ok(rows)
}

fn cpu_rows(cpu: &str, ours: &CpuPercent, theirs: &Value) -> Vec<Row> {
    let figures = [
        // mpstat excludes guest time from these two.
        (&["usr", "guest"][..], ours.user),
        (&["nice", "gnice"], ours.nice),
        (&["sys"], ours.system),
        (&["iowait"], ours.iowait),
        (&["irq"], ours.irq),
        (&["soft"], ours.softirq),
        (&["steal"], ours.steal),
        (&["idle"], ours.idle),
    ];
    let row = |(names, ours): (&[&str], f64)| {
        let theirs = names.iter().map(|name| theirs[*name].as_f64().unwrap_or(f64::NAN)).sum();
        Row::new(format!("cpu {cpu} {}", names.join("+")), ours, theirs, SHARE_FLOOR)
    };
    figures.into_iter().map(row).collect()
}

fn interrupt_rows(table: &Value, ours: &[InterruptRates], seconds: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for theirs in table.as_array().into_iter().flatten() {
        let cpu = theirs["cpu"].as_str().unwrap_or_default();
        for source in theirs["intr"].as_array().into_iter().flatten() {
            let name = source["name"].as_str().unwrap_or_default();
            let by_cpu = ours.iter().find(|ours| ours.irq == name).map(|ours| &ours.cpus);
            let on_cpu = by_cpu.and_then(|all| all.iter().find(|one| one.0.to_string() == cpu));
            let theirs = source["value"].as_f64().unwrap_or(f64::NAN);
            let ours = on_cpu.map_or(0.0, |one| one.1);
            rows.push(Row::new(format!("cpu {cpu} {name}/s"), ours, theirs, 5.0 / seconds));
        }
    }
    rows
}

/// The second line covers the interval; the first one is since boot.
fn vmstat(output: &str, rates: &MachineRates, seconds: f64) -> Result<Vec<Row>> {
    let mut lines = output.lines().skip(1);
    let names = lines.next().ok_or("vmstat said nothing")?.split_ascii_whitespace();
    let values = lines.nth(1).ok_or("vmstat has no second line")?.split_ascii_whitespace();
    let seen: Vec<(&str, f64)> =
        names.zip(values.map(|value| value.parse().unwrap_or(f64::NAN))).collect();
    let system = rates.system.as_ref().ok_or("no figures of the system")?;
    // It prints whole numbers.
    let events = (2.0 / seconds).max(1.0);
    let row = |figure: &str, ours: f64| {
        let theirs = seen.iter().find(|(name, _)| *name == figure).map_or(f64::NAN, |seen| seen.1);
        Row::new(figure, ours, theirs, events)
    };
    Ok(vec![
        row("in", system.interrupts),
        row("cs", system.context_switches),
        row("bi", system.paging.in_bytes / 1024.0),
        row("bo", system.paging.out_bytes / 1024.0),
        row("si", system.paging.swap_in),
        row("so", system.paging.swap_out),
    ])
}

fn counted(output: &str, rates: &MachineRates, seconds: f64) -> Result<Vec<Row>> {
    let system = rates.system.as_ref().ok_or("no figures of the system")?;
    let ours =
        [("context-switches", system.context_switches), ("page-faults", system.paging.faults)];
    let row = |(event, ours): (&str, f64)| {
        let theirs = perf::counted(output, event)? / seconds;
        Ok(Row::new(format!("{event}/s"), ours, theirs, 2.0 / seconds))
    };
    ours.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::machine::{CpuRates, SystemRates};

    fn theirs(rows: &[Row], figure: &str) -> (f64, f64) {
        let row = rows.iter().find(|row| row.figure == figure).unwrap();
        (row.ours, row.theirs)
    }

    #[test]
    fn iostats_output() {
        let output = r#"{"sysstat": {"hosts": [{"statistics": [{"disk": [
            {"disk_device": "loop4", "r/s": 1.00},
            {"disk_device": "vda", "r/s": 12.50, "rkB/s": 50.00, "rrqm/s": 1.00, "rrqm": 7.40,
             "r_await": 2.15, "rareq-sz": 4.00, "f/s": 1.53, "f_await": 0.08, "aqu-sz": 2.51,
             "util": 6.66}]}]}]}}"#;
        let read = IoRates { ios: 12.5, bytes: 51200.0, size: Some(4096.0), ..IoRates::default() };
        let vda = DiskRates { name: "vda".into(), read, util: 6.5, ..DiskRates::default() };
        let rows =
            iostat(output, &MachineRates { disks: vec![vda], ..MachineRates::default() }, 10.0);
        let rows = rows.unwrap();
        assert_eq!(theirs(&rows, "vda r/s"), (12.5, 12.5));
        assert_eq!(theirs(&rows, "vda rkB/s"), (50.0, 50.0));
        assert_eq!(theirs(&rows, "vda util"), (6.5, 6.66));
        assert!(iostat("{}", &MachineRates::default(), 1.0).is_err());
    }

    fn system() -> MachineRates {
        let cpu = CpuPercent { user: 30.0, idle: 70.0, ..CpuPercent::default() };
        let source = InterruptRates {
            irq: "LOC".into(),
            cpus: vec![(1, 330.0)],
            ..InterruptRates::default()
        };
        let system = SystemRates {
            cpu,
            cpus: vec![CpuRates { cpu: 1, shares: cpu, khz: None }],
            interrupts: 500.0,
            context_switches: 900.0,
            interrupts_by: vec![source],
            ..SystemRates::default()
        };
        MachineRates { system: Some(system), ..MachineRates::default() }
    }

    #[test]
    fn mpstats_output() {
        let output = r#"{"sysstat": {"hosts": [{"statistics": [{
            "cpu-load": [{"cpu": "all", "usr": 20.0, "guest": 9.5, "idle": 70.5},
                         {"cpu": "1", "usr": 29.0, "guest": 0.0, "idle": 71.0},
                         {"cpu": "2", "usr": 1.0}],
            "sum-interrupts": [{"cpu": "all", "intr": 501.0}],
            "individual-interrupts": [{"cpu": "1", "intr": [{"name": "LOC", "value": 328.0}]}]}]}]}}"#;
        let rows = mpstat(output, &system(), 10.0).unwrap();
        assert_eq!(theirs(&rows, "cpu all usr+guest"), (30.0, 29.5));
        assert_eq!(theirs(&rows, "cpu 1 idle"), (70.0, 71.0));
        assert_eq!(theirs(&rows, "intr/s"), (500.0, 501.0));
        assert_eq!(theirs(&rows, "cpu 1 LOC/s"), (330.0, 328.0));
        assert!(!rows.iter().any(|row| row.figure.starts_with("cpu 2")));
    }

    #[test]
    fn vmstats_and_perfs_output() {
        let output = "procs ---memory---\n r  b bi bo in cs\n 1 0 9 9 9 9\n 2 0 0 5 600 890\n";
        let rows = vmstat(output, &system(), 10.0).unwrap();
        assert_eq!(theirs(&rows, "cs"), (900.0, 890.0));
        assert_eq!(theirs(&rows, "in"), (500.0, 600.0));
        let output =
            "# started\n\n8800,,context-switches,20,100.00,,\n42139,,page-faults,20,100.00,,\n";
        let rows = counted(output, &system(), 10.0).unwrap();
        assert_eq!(theirs(&rows, "context-switches/s"), (900.0, 880.0));
        assert!(counted("", &system(), 10.0).is_err());
        assert!(vmstat("procs\n", &system(), 10.0).is_err());
    }
}
