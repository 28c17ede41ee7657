//! This machine as the file that `fathom predict` reads (docs/predict.md).

use fathom_analysis::ceilings::{KnownModel, known_model};
use fathom_analysis::topology::TopologyReport;
use fathom_model::prediction::PcieLink;
use fathom_model::topology::{Hop, Link, LinkStandard, Topology};
use std::fmt::Write;

/// What is to be known of a disk.
const DISK_UNKNOWN: &str =
    "# read_iops = \"1000k\"      # data sheet, or `fathom limit`\n# read_bw = \"7000MB/s\"\n";

/// Root complexes, shared links and disks of a topology. What it does not know is left for the user to fill in, as
/// comments.
pub fn machine_file(report: &TopologyReport, name: &str) -> String {
    let topology = &report.topology;
    let cores: usize = topology.packages.iter().map(|package| package.cpus.len()).sum();
    let model = topology.packages.first().map_or("", |package| package.model.as_str());
    let mut file = format!(
        "# Machine for `fathom predict`. Replace the lines that begin with #: figures, or bounds such as \
         \"1000k..1200k\".\nname = {}\n\n[cpu]{}\ncores = {cores}\n# clock_ghz = 3.9\n\
         # cycles_per_io = 8700     # `fathom run` prints CPU time per I/O\n",
        quoted(name),
        comment(model)
    );
    let mut written = Vec::new();
    for root in &topology.roots {
        part(&mut file, report, root, None, &mut written);
    }
    if written.is_empty() {
        let _ = write!(file, "\n# [[disk]]\n# name = \"disk\"\n{DISK_UNKNOWN}");
    }
    file
}

/// Enters a hop that two disks or more share, or a root complex with disks, then what is below it.
/// A disk on several paths is entered once.
fn part<'a>(
    file: &mut String,
    report: &TopologyReport,
    hop: &'a Hop,
    on: Option<&str>,
    written: &mut Vec<&'a str>,
) {
    let below = hop.disks_below();
    if below.is_empty() {
        return;
    }
    let link = pcie(hop.link);
    let is_root = on.is_none();
    let is_part = is_root || (below.len() > 1 && link.is_some());
    let mut above = on;
    if is_part {
        above = Some(&hop.name);
        // Writing to a string cannot fail.
        let _ = write!(file, "\n[[part]]{}\nname = {}\n", comment(&hop.label), quoted(&hop.name));
        entries(file, on, link.as_deref());
        if link.is_none() {
            file.push_str("# bandwidth = \"28GB/s..56GB/s\"  # one to two slots of 16 lanes\n");
        }
    }
    for disk in &hop.disks {
        if written.contains(&disk.as_str()) {
            continue;
        }
        written.push(disk);
        let volume = report.topology.volume(disk);
        let label = volume.map_or("", |volume| volume.label.as_str());
        let _ = write!(file, "\n[[disk]]{}\nname = {}\n", comment(label), quoted(disk));
        entries(file, above, link_of(&report.topology, disk).as_deref());
        match known_model(label) {
            Some(known) => specified(file, &known),
            None => file.push_str(DISK_UNKNOWN),
        }
        file.push_str("# latency_us = 60\n");
    }
    for child in &hop.children {
        part(file, report, child, above, written);
    }
}

/// What a model is specified for, and where that is stated.
fn specified(file: &mut String, known: &KnownModel) {
    let spec = &known.spec;
    for (key, value) in [
        ("read_iops", spec.read_iops),
        ("write_iops", spec.write_iops),
        ("read_bw", spec.read_bytes_per_second),
        ("write_bw", spec.write_bytes_per_second),
    ] {
        if let Some(value) = value {
            let _ = writeln!(file, "{key} = {value}");
        }
    }
    let _ = writeln!(file, "source = {}", quoted(known.source));
}

fn entries(file: &mut String, on: Option<&str>, link: Option<&str>) {
    if let Some(on) = on {
        let _ = writeln!(file, "on = {}", quoted(on));
    }
    if let Some(link) = link {
        let _ = writeln!(file, "pcie = \"{link}\"");
    }
}

fn pcie(link: Option<Link>) -> Option<String> {
    let link = link.filter(|link| link.standard == LinkStandard::Pcie)?;
    Some(PcieLink(link.current).name()).filter(|name| !name.is_empty())
}

/// The link of the last hop with one on the way to a disk.
fn link_of(topology: &Topology, disk: &str) -> Option<String> {
    let mut found = None;
    topology.each(&mut |hop| {
        if hop.disks_below() == [disk] {
            found = pcie(hop.link).or(found.take());
        }
    });
    found
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// What a device says of itself, as a comment.
fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_empty() { text } else { format!("  # {text}") }
}
