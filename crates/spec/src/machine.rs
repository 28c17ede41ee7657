//! Files that describe a machine, for `fathom predict` (docs/predict.md).

use crate::error::{Place, SpecError};
use fathom_model::prediction::{Machine, Workload};

const DISKS_MAX: u32 = 100_000;
const ENTRIES_MAX: usize = 1000;

/// The machine in `text`, the contents of `file`, with one workload at least.
/// Fails where the text is not TOML, a key is unknown or its value wrong, or parts do not form trees.
pub fn machine(text: &str, file: &str) -> Result<Machine, Vec<SpecError>> {
    let mut machine: Machine = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let place = Place { file: file.to_string(), line };
        vec![SpecError::new(error.message()).at(Some(&place))]
    })?;
    let problems: Vec<SpecError> = problems(&machine)
        .into_iter()
        .map(|why| SpecError::new(format!("{file}: {why}")))
        .collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    if machine.workloads.is_empty() {
        machine.workloads.push(Workload::default());
    }
    Ok(machine)
}

fn problems(machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let parts = machine.parts.iter().map(|part| (&part.name, &part.on, &part.source));
    let disks = machine.disks.iter().map(|disks| (&disks.name, &disks.on, &disks.source));
    if machine.parts.len().max(machine.disks.len()) > ENTRIES_MAX {
        return vec![format!("more than {ENTRIES_MAX} parts or entries of disks; use count")];
    }
    for (name, on, _) in parts.chain(disks) {
        if name.trim().is_empty() {
            found.push("a part or disk has an empty name; name it".to_string());
        } else if names.contains(&name.as_str()) {
            found.push(format!("the name '{name}' occurs twice; rename one"));
        }
        names.push(name);
        let is_known = |on: &String| machine.parts.iter().any(|part| part.name == *on);
        if let Some(on) = on.as_ref().filter(|on| !is_known(on)) {
            found.push(format!("'{name}' is on '{on}', which is not a [[part]]; add it"));
        }
    }
    if found.is_empty() {
        let in_circle = |part: &&fathom_model::prediction::Part| {
            let root = machine.root_of(part);
            machine.parts.iter().any(|other| other.name == root && other.on.is_some())
        };
        if let Some(part) = machine.parts.iter().find(in_circle) {
            found
                .push(format!("the parts that '{}' is on form a loop; remove one `on`", part.name));
        }
    }
    if machine.disks.is_empty() {
        found.push("there are no disks; add [[disk]]".to_string());
    }
    let sum = machine.disks.iter().fold(0_u32, |sum, disks| sum.saturating_add(disks.count));
    if sum > DISKS_MAX || machine.disks.iter().any(|disks| disks.count == 0) {
        found.push(format!("count: expected at least 1 and at most {DISKS_MAX} in all"));
    }
    let counts = machine.workloads.iter().flat_map(|load| [load.workers, load.iodepth]);
    if counts.chain([machine.cpu.cores]).any(|count| count == Some(0)) {
        found.push("cores, workers and iodepth: expected at least 1".to_string());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::prediction::Range;

    #[test]
    fn figures_have_units_and_bounds() {
        let text = "[cpu]\ncores = 16\nclock_ghz = 3.9\ncycles_per_io = \"5000..8666\"\n\
                    [[part]]\nname = \"a\"\npcie = \"4.0 x16\"\n\
                    [[disk]]\nname = \"d\"\non = \"a\"\ncount = 4\nread_iops = \"1000k..\"\nread_bw = \"7GB/s\"\n\
                    [[workload]]\nbs = \"64k\"\nrw = \"randread\"\n";
        let machine = machine(text, "m.toml").unwrap();
        assert_eq!(machine.cpu.clock_ghz, Some(Range::exactly(3.9)));
        assert_eq!(machine.cpu.cycles_per_io, Some(Range { low: 5000.0, high: 8666.0 }));
        assert_eq!(machine.parts[0].pcie.unwrap().name(), "4.0 x16");
        let disk = &machine.disks[0];
        assert_eq!(disk.read_iops, Some(Range { low: 1e6, high: f64::INFINITY }));
        assert_eq!((disk.read_bw, disk.count), (Some(Range::exactly(7e9)), 4));
        assert_eq!(machine.workloads[0].bs, 65_536);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let refused = |text: &str| machine(text, "m.toml").unwrap_err()[0].to_string();
        let disk = "[[disk]]\nname = \"d\"\n";
        for (text, why) in [
            ("", "m.toml: there are no disks"),
            ("cores = 3", "m.toml:1: unknown field `cores`"),
            ("[cpu]\ncores = \"many\"", "m.toml:2: "),
            ("[[disk]]\nname = \"d\"\nread_iops = \"fast\"", "m.toml:3: 'fast' is not a figure"),
            ("[[disk]]\nname = \"d\"\nread_iops = \"9..3\"", "m.toml:3: '9..3' is not a figure"),
            ("[[disk]]\nname = \"d\"\npcie = \"7.0 x4\"", "m.toml:3: '7.0 x4' is not a PCIe link"),
            ("[[disk]]\nname = \"d\"\ncount = 0", "m.toml: count: expected"),
            ("[[disk]]\nname = \"d\"\non = \"e\"", "m.toml: 'd' is on 'e', which is not"),
            ("[[disk]]\nname = \"d\"\n[[disk]]\nname = \"d\"", "the name 'd' occurs twice"),
            (&format!("{disk}[[workload]]\nbs = \"4q\""), "m.toml:4: '4q' is not a block size"),
            (&format!("{disk}[[workload]]\niodepth = 0"), "expected at least 1"),
            (
                &format!("{disk}[[part]]\nname=\"a\"\non=\"b\"\n[[part]]\nname=\"b\"\non=\"a\"\n"),
                "the parts that 'a' is on form a loop",
            ),
            ("[[disk", "m.toml:1: "),
        ] {
            assert!(refused(text).contains(why), "{text}: {}", refused(text));
        }
    }
}
