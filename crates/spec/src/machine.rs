//! Files that describe a machine, for `fathom predict` (docs/predict.md).

use crate::error::{Place, SpecError};
use fathom_model::prediction::{Machine, Workload};

const DISKS_MAX: u32 = 100_000;
const ENTRIES_MAX: usize = 1000;
const WORKERS_MAX: u32 = 1_000_000;
/// More are not reported.
const PROBLEMS_MAX: usize = 20;
/// What begins a text of several lines.
const MANY_LINES: [&str; 2] = ["\"\"\"", "'''"];

/// The machine in `text`, the contents of `file`, with one workload at least.
/// Fails with all problems where the text is not TOML, keys are unknown or their values wrong, or parts do not form trees.
pub fn machine(text: &str, file: &str) -> Result<Machine, Vec<SpecError>> {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut machine: Machine = loop {
        let rest = lines.join("\n");
        let error = match toml::from_str(&rest) {
            Ok(machine) => break machine,
            Err(error) => error,
        };
        let at = error.span().map_or(0, |span| span.start);
        let at = rest.get(..at).map_or(0, |before| before.matches('\n').count());
        // What a line with a problem would have given is not missing.
        let is_missing = error.message().starts_with("missing field") && !found.is_empty();
        let key = lines.get(at).and_then(|line| entry(line));
        if !is_missing {
            let key = key.filter(|key| !error.message().contains(&format!("field `{key}`")));
            let name = key.map(|key| format!("{key}: ")).unwrap_or_default();
            let place = Place { file: file.to_string(), line: at + 1 };
            found.push(SpecError::new(format!("{name}{}", error.message())).at(Some(&place)));
        }
        // The rest of the file is read without the line.
        match lines.get_mut(at).filter(|_| key.is_some() && !is_missing) {
            Some(line) if found.len() < PROBLEMS_MAX => *line = "",
            _ => return Err(found),
        }
    };
    let of_parts = problems(&machine).into_iter();
    found.extend(of_parts.map(|why| SpecError::new(format!("{file}: {why}"))));
    if !found.is_empty() {
        return Err(found);
    }
    if machine.workloads.is_empty() {
        machine.workloads.push(Workload::default());
    }
    Ok(machine)
}

/// The key of a line that is an entry by itself.
fn entry(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let is_whole = !value.trim_start().starts_with(['[', '{'])
        && !MANY_LINES.iter().any(|quotes| value.contains(quotes));
    let key = key.trim();
    (is_whole && !key.is_empty() && !key.starts_with(['[', '#'])).then_some(key)
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
    let loads = machine.workloads.iter();
    let counts = loads.flat_map(|load| [("workers", load.workers), ("iodepth", load.iodepth)]);
    for (name, count) in [("cores", machine.cpu.cores)].into_iter().chain(counts) {
        if let Some(count) = count.filter(|count| !(1..=WORKERS_MAX).contains(count)) {
            found.push(format!("{name}: {count} is out of range; expected 1 to {WORKERS_MAX}"));
        }
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
        let refused = |text: &str| {
            let all = machine(text, "m.toml").unwrap_err();
            all.iter().map(|problem| format!("{problem}\n")).collect::<String>()
        };
        let disk = "[[disk]]\nname = \"d\"\n";
        for (text, why) in [
            ("", "m.toml: there are no disks"),
            ("cores = 3", "m.toml:1: unknown field `cores`"),
            ("[cpu]\ncores = \"many\"", "m.toml:2: "),
            ("[cpu]\ncores = 0", "m.toml: cores: 0 is out of range; expected 1 to 1000000"),
            (
                "[[disk]]\nname = \"d\"\nread_iops = \"fast\"",
                "m.toml:3: read_iops: 'fast' is not a figure",
            ),
            (
                "[[disk]]\nname = \"d\"\nread_iops = \"9..3\"",
                "m.toml:3: read_iops: '9..3' is not a figure",
            ),
            (
                "[[disk]]\nname = \"d\"\npcie = \"7.0 x4\"",
                "m.toml:3: pcie: '7.0 x4' is not a PCIe link",
            ),
            ("[[disk]]\nname = \"d\"\ncount = 0", "m.toml: count: expected"),
            ("[[disk]]\nname = \"d\"\non = \"e\"", "m.toml: 'd' is on 'e', which is not"),
            ("[[disk]]\nname = \"d\"\n[[disk]]\nname = \"d\"", "the name 'd' occurs twice"),
            (&format!("{disk}[[workload]]\nbs = \"4q\""), "m.toml:4: bs: '4q' is not a block size"),
            (&format!("{disk}[[workload]]\niodepth = 0"), "m.toml: iodepth: 0 is out of range"),
            (
                &format!("{disk}[[part]]\nname=\"a\"\non=\"b\"\n[[part]]\nname=\"b\"\non=\"a\"\n"),
                "the parts that 'a' is on form a loop",
            ),
            ("[[disk", "m.toml:1: "),
        ] {
            assert!(refused(text).contains(why), "{text}: {}", refused(text));
        }
    }

    #[test]
    fn figures_beyond_any_machine_are_refused_by_name() {
        for (value, shown) in
            [("1e308", "'1e308'"), ("\"1e16\"", "'1e16'"), ("-4", "'-4'"), ("2e15", "'2e15'")]
        {
            let text = format!("[[disk]]\nname = \"d\"\nwrite_bw = {value}\n");
            let why = machine(&text, "m.toml").unwrap_err()[0].to_string();
            assert!(why.starts_with("m.toml:3: write_bw: "), "{why}");
            assert!(why.contains(shown) && why.contains("above 0 and up to 1e15"), "{why}");
        }
        assert!(machine("[[disk]]\nname = \"d\"\nwrite_bw = 1e15\n", "m.toml").is_ok());
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let text = "[cpu]\ncores = \"many\"\nclock = 3\n\n[[disk]]\nname = \"d\"\ncount = 0\non = \"e\"\n\
                    read_iops = inf\nread_bw = \"fast\"\n[[workload]]\nrw = \"sideways\"\niodepth = 0\n";
        let all = machine(text, "m.toml").unwrap_err();
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        for (index, start) in [
            "m.toml:2: cores: ",
            "m.toml:3: unknown field `clock`",
            "m.toml:9: read_iops: ",
            "m.toml:10: read_bw: 'fast'",
            "m.toml:12: rw: ",
            "m.toml: 'd' is on 'e'",
            "m.toml: count: ",
            "m.toml: iodepth: ",
        ]
        .into_iter()
        .enumerate()
        {
            assert!(all.get(index).is_some_and(|own| own.starts_with(start)), "{start}: {all:#?}");
        }
        assert_eq!(all.len(), 8, "{all:#?}");
        // A name that cannot be read is not missing, too; a table that is not one ends the list.
        let texts =
            ["[[disk]]\nname = 3\nread_iops = 0", "[[disk]]\nname = \"d\"\ncount = -1\n[[disk"];
        assert_eq!(texts.map(|text| machine(text, "m.toml").unwrap_err().len()), [2, 1]);
    }
}
