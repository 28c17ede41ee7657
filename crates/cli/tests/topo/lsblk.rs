//! The block devices of the same trees as `lsblk -t` reads them.

use super::{ask, names, stored};
use fathom_machine::Roots;
use fathom_machine::inspect::{all_disks, inspect};
use fathom_model::facts::DeviceFacts;
use fathom_model::inspection::DiskInspection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The columns of `lsblk -t` that fathom has too. Of the others, it does not read MIN-IO, which is the physical block or
/// a stripe's part, and WSAME, which is 0 since Linux 5.18.
const COLUMNS: &str = "KNAME,SIZE,ALIGNMENT,OPT-IO,PHY-SEC,LOG-SEC,ROTA,SCHED,RQ-SIZE,RA";

type Row = BTreeMap<String, String>;

/// By kernel name; `None` where lsblk is not installed.
fn theirs(tree: &Path) -> Option<BTreeMap<String, Row>> {
    let output = Command::new("lsblk")
        .args(["--bytes", "--pairs", "--output", COLUMNS, "--sysroot"])
        .arg(tree)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| -> Row {
        let parts: Vec<&str> = line.split('"').collect();
        let pairs = parts.chunks_exact(2);
        pairs.map(|pair| (pair[0].trim().trim_end_matches('=').into(), pair[1].into())).collect()
    };
    Some(text.lines().map(row).map(|row| (row["KNAME"].clone(), row)).collect())
}

/// What `doctor` reads of a disk.
fn ours(disk: &DiskInspection) -> Row {
    let DeviceFacts { size_bytes, logical_block, physical_block, .. } = disk.device;
    let file = |path: &str| disk.files.text(path).unwrap_or_default().to_string();
    let rotational = disk.device.rotational.map_or(String::new(), |on| u8::from(on).to_string());
    let values = [
        ("SIZE", size_bytes.to_string()),
        ("ALIGNMENT", file("alignment_offset")),
        ("OPT-IO", file("queue/optimal_io_size")),
        ("PHY-SEC", physical_block.to_string()),
        ("LOG-SEC", logical_block.to_string()),
        ("ROTA", rotational),
        ("SCHED", disk.device.scheduler.clone().unwrap_or_default()),
        ("RQ-SIZE", disk.device.nr_requests.map_or(String::new(), |n| n.to_string())),
        ("RA", file("queue/read_ahead_kb")),
    ];
    values.map(|(column, value)| (column.to_string(), value)).into()
}

#[test]
fn block_devices_and_their_limits_agree_with_lsblk() {
    let (mut devices, mut disks, mut faults) = (0, 0, Vec::new());
    for name in names() {
        let tree = stored(&name);
        let Some(theirs) = theirs(tree.path()) else {
            return println!("skipped: needs lsblk (Debian's util-linux)");
        };
        let report = ask(&tree, &["--json"]).done().json();
        let volumes = report["topology"]["volumes"].as_array().unwrap();
        let size = |volume: &Value| volume["size_bytes"].to_string();
        let of = |volume: &Value| volume["name"].as_str().unwrap().to_string();
        let sizes: BTreeMap<String, String> = volumes.iter().map(|v| (of(v), size(v))).collect();
        let listed: BTreeMap<String, String> =
            theirs.iter().map(|(name, row)| (name.clone(), row["SIZE"].clone())).collect();
        if sizes != listed {
            faults.push(format!("{name}: {sizes:?}, lsblk {listed:?}"));
        }
        devices += sizes.len();

        let roots = Roots { proc: tree.path().join("proc"), sys: tree.path().join("sys") };
        for disk in &inspect(&roots, &all_disks(&roots)).disks {
            let device = &disk.device.name;
            for (column, own) in ours(disk) {
                let their = theirs.get(device).map_or("no device", |row| row[&column].as_str());
                // Where the only choice is no scheduler, the kernel writes it without brackets, which lsblk looks for.
                let only_none = column == "SCHED" && own == "none" && their.is_empty();
                if own != their && !only_none {
                    faults.push(format!("{name} {device} {column}: {own:?}, lsblk {their:?}"));
                }
            }
            disks += 1;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(devices > 60 && disks > 40, "{devices} {disks}");
}
