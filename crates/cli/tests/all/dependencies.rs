//! What may come into the program: licenses, sources and versions of all dependencies, as Cargo resolves them for
//! the supported machines.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Permissive only: fathom is MIT OR Apache-2.0 as a whole.
const LICENSES: [&str; 7] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Unicode-3.0",
    "Zlib",
];
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Versions of a package beside its newest one, and why they are accepted.
const SECOND_VERSIONS: [(&str, &str, &str); 3] = [
    ("getrandom", "0.3.", "ahash's own, for parquet, which the default build does not have"),
    ("signal-hook", "0.3.", "crossterm's own, for changes of the terminal's size"),
    ("syn", "2.", "derives within crossterm and ratatui; runs while they are built"),
];

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

fn cargo(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(args).args(["--locked", "--all-features"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn packages() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    // The metadata also hold what only features for other machines need.
    let tree = |target| cargo(&["tree", "--workspace", "--prefix=none", "--target", target]);
    let trees = TARGETS.map(tree).concat();
    let built: BTreeSet<(&str, &str)> = trees
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap()))
        .collect();
    let mut packages = metadata["packages"].as_array().unwrap().clone();
    let text = |package: &Value, key: &str| package[key].as_str().unwrap().to_string();
    packages.retain(|package| {
        built.contains(&(text(package, "name").as_str(), text(package, "version").as_str()))
    });
    packages
}

#[test]
fn dependencies_are_permitted() {
    let (mut faults, mut versions) = (Vec::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for package in packages() {
        let text = |key: &str| package[key].as_str().unwrap_or("").to_string();
        let (name, source) = (text("name"), text("source"));
        if !permits(&text("license")) {
            faults.push(format!("{name}: its license, {:?}, is not allowed", text("license")));
        }
        // The workspace's own packages have none.
        if ![SOURCE, ""].contains(&source.as_str()) {
            faults.push(format!("{name}: comes from {source}, not from {SOURCE}"));
        }
        if source.is_empty() {
            let dependencies = package["dependencies"].as_array().unwrap();
            for used in
                dependencies.iter().filter(|used| used["path"].is_null() && used["req"] == "*")
            {
                faults.push(format!("{name}: name a version of {}", used["name"]));
            }
        }
        versions.entry(name).or_default().insert(text("version"));
    }
    assert!(versions.len() > 50, "{versions:?}");
    for (name, start, _) in SECOND_VERSIONS {
        let of = versions.get_mut(name).map_or(0, |of| {
            let all = of.len();
            of.retain(|version| !version.starts_with(start));
            all - of.len()
        });
        if of != 1 {
            faults
                .push(format!("{name} {start}x is no dependency: remove it from SECOND_VERSIONS"));
        }
    }
    let many = versions.iter().filter(|(_, versions)| versions.len() > 1);
    faults.extend(many.map(|(name, versions)| format!("{name}: several versions: {versions:?}")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether an SPDX expression can be satisfied with [`LICENSES`]. Old packages write `/` for OR.
fn permits(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    any(&mut words) && words.is_empty()
}

/// Alternatives; the words are in reverse order.
fn any(words: &mut Vec<&str>) -> bool {
    let mut permitted = all(words);
    while words.pop_if(|word| *word == "OR").is_some() {
        permitted |= all(words);
    }
    permitted
}

fn all(words: &mut Vec<&str>) -> bool {
    let mut permitted = one(words);
    while words.pop_if(|word| *word == "AND").is_some() {
        permitted &= one(words);
    }
    permitted
}

fn one(words: &mut Vec<&str>) -> bool {
    match words.pop() {
        Some("(") => {
            let permitted = any(words);
            words.pop() == Some(")") && permitted
        }
        Some(license) => {
            let exception = words.pop_if(|word| *word == "WITH").and_then(|_| words.pop());
            let whole = exception.map(|exception| format!("{license} WITH {exception}"));
            LICENSES.contains(&whole.as_deref().unwrap_or(license))
        }
        None => false,
    }
}

#[test]
fn license_expressions() {
    for permitted in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-2.0-only) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR BSD-3-Clause",
    ] {
        assert!(permits(permitted), "{permitted}");
    }
    for refused in ["", "GPL-3.0-only", "MIT AND GPL-2.0-only", "MIT WITH x", "(MIT"] {
        assert!(!permits(refused), "{refused}");
    }
}
