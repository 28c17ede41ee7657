//! Checks the rules of ARCHITECTURE.md that no lint can check: which crate uses which, that every crate forbids
//! what its role rules out, that every dependency has a reason and a use, and that files stay short.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SAFE: &str = "#![forbid(unsafe_code)]";
const SILENT: &str = "#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]";
/// Creates no thread without a result and does not exit; see clippy.toml.
const RETURNS: &str = "#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]";
// clap's derives allow whole groups of lints, which `forbid` rejects.
const SILENT_CLAP: &str =
    "#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]";
const RETURNS_CLAP: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_methods))]";
const PURE: &[&str] = &[SAFE, SILENT, RETURNS];
const RAW: &[&str] = &[SILENT, RETURNS];

/// For each crate: those of fathom's crates that it may depend on, and the attributes that each of
/// its roots must have.
const CRATES: [(&str, &[&str], &[&str]); 13] = [
    ("fathom-no-schema", &[], PURE),
    ("fathom-model", &["no-schema"], PURE),
    ("fathom-spec", &["model"], PURE),
    ("fathom-sys", &["model"], PURE),
    ("fathom-machine", &["model", "sys"], RAW),
    ("fathom-engine", &["model"], RAW),
    ("fathom-watch", &["model", "sys"], RAW),
    ("fathom-analysis", &["model", "no-schema"], PURE),
    ("fathom-report", &["model", "no-schema", "analysis"], PURE),
    ("fathom-store", &["model"], PURE),
    ("fathom-runner", &["model", "machine", "engine", "watch", "store", "analysis", "spec"], PURE),
    (
        "fathom",
        &["model", "spec", "machine", "engine", "watch", "analysis", "report", "store", "runner"],
        &[SAFE, SILENT_CLAP, RETURNS_CLAP],
    ),
    ("xtask", &["model", "analysis", "report", "watch"], &[SAFE, RETURNS_CLAP]),
];
/// Where else these lints may be named: paths below the root, and the lint.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("crates/engine/", "unsafe_code"),
    ("crates/watch/", "unsafe_code"),
    // Ioctls have no safe form.
    ("crates/machine/src/lib.rs", "unsafe_code"),
    // A second signal ends the program whatever its threads are stuck in.
    ("crates/cli/src/signals.rs", "clippy::disallowed_methods"),
    ("crates/cli/tests/all/design.rs", ""),
];
const LINES_MAX: usize = 800;
const README_LINES_MAX: usize = 150;

#[test]
fn crates_depend_only_as_designed() {
    let mut faults = Vec::new();
    for package in packages() {
        let allowed = CRATES.iter().find(|(name, ..)| *name == package.name).map(|found| found.1);
        let Some(allowed) = allowed else {
            faults.push(format!("{}: add it to CRATES here and to ARCHITECTURE.md", package.name));
            continue;
        };
        let used = package.dependencies.iter().filter_map(|name| name.strip_prefix("fathom-"));
        for used in used.filter(|used| !allowed.contains(used)) {
            faults.push(format!(
                "{} must not depend on {used}, only on {allowed:?}; move what both need to model, \
                 or hand it over as a value",
                package.name
            ));
        }
    }
    none(&faults);
}

#[test]
fn every_crate_forbids_what_its_role_rules_out() {
    let mut faults = Vec::new();
    for package in packages() {
        let manifest = fs::read_to_string(package.dir.join("Cargo.toml")).unwrap();
        if !manifest.contains("[lints]\nworkspace = true") {
            faults.push(format!("{}: inherit the lints of the workspace", package.name));
        }
        let required = CRATES.iter().find(|(name, ..)| *name == package.name).map(|found| found.2);
        for root in &package.roots {
            let text = fs::read_to_string(root).unwrap();
            for line in required.into_iter().flatten() {
                if !text.lines().any(|have| have == *line) {
                    faults.push(format!("{}: put {line} below its documentation", root.display()));
                }
            }
        }
    }
    for (path, text) in sources() {
        for lint in ["unsafe_code", "clippy::disallowed_methods", "clippy::print_std"] {
            let lifts = |line: &str| {
                line.contains(lint)
                    && ![SAFE, SILENT, RETURNS, SILENT_CLAP, RETURNS_CLAP].contains(&line)
            };
            let known = |(place, of): &(&str, &str)| path.starts_with(place) && lint.contains(of);
            if text.lines().any(lifts) && !EXCEPTIONS.iter().any(known) {
                faults.push(format!("{path}: allows {lint}, which EXCEPTIONS does not list"));
            }
        }
    }
    none(&faults);
}

#[test]
fn every_dependency_has_a_reason_and_a_use() {
    let reasons = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let reasons: Vec<(&str, &str)> =
        reasons.lines().filter_map(|line| line.strip_prefix("* `")?.split_once('`')).collect();
    let declared = workspace.split("[workspace.dependencies]").nth(1).unwrap();
    let declared = declared.split("\n[").next().unwrap().lines();
    let declared = declared.filter_map(|line| Some(line.split_once(" = ")?.0));
    let sources = sources();
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for package in packages() {
        for name in package.dependencies {
            // One library has another name than its package.
            let library = if name == "md-5" { "md5" } else { &name };
            let crate_name = library.replace('-', "_");
            let uses = [format!("{crate_name}::"), format!("extern crate {crate_name} ")];
            let mut own =
                sources.iter().filter(|(file, _)| root().join(file).starts_with(&package.dir));
            if !own.any(|(_, text)| uses.iter().any(|use_of| text.contains(use_of))) {
                faults.push(format!("{}: {name} is declared and never used", package.name));
            }
            used.insert(name);
        }
    }
    used.retain(|name| !name.starts_with("fathom-") && name != "xtask");
    for name in &used {
        let reasons: Vec<_> = reasons.iter().filter(|(have, _)| have == name).collect();
        if !matches!(reasons[..], [(_, reason)] if reason.len() > 20) {
            faults
                .push(format!("docs/dependencies.md: have one line \"* `{name}`: why this one\""));
        }
    }
    for name in declared.chain(reasons.iter().map(|(name, _)| *name)) {
        if !used.contains(name) && !name.starts_with("fathom-") {
            faults.push(format!(
                "no crate uses {name}: remove it from Cargo.toml and docs/dependencies.md"
            ));
        }
    }
    none(&faults);
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let lengths = sources().into_iter().map(|(path, text)| (path, text.lines().count()));
    let long = lengths.filter(|(_, lines)| *lines > LINES_MAX);
    none(
        &long
            .map(|(path, lines)| format!("{path}: {lines} lines exceed {LINES_MAX}; split it"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_readme_is_short_and_documents_link_to_files_that_exist() {
    let mut faults = Vec::new();
    let mut files = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for dir in ["docs", "docs/topics"] {
        files.extend(fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    assert!(files.len() > 30);
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let targets = text.split("](").skip(1).filter_map(|link| link.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            if !file.with_file_name(target).exists() {
                faults.push(format!("{}: there is no {target}", file.display()));
            }
        }
    }
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    if lines > README_LINES_MAX {
        faults
            .push(format!("README.md: {lines} lines exceed {README_LINES_MAX}; move some to docs"));
    }
    none(&faults);
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// A package of the workspace, as Cargo describes it.
struct Package {
    name: String,
    dir: PathBuf,
    /// For the program, for tests and for builds.
    dependencies: Vec<String>,
    /// The root modules of its libraries and programs.
    roots: Vec<PathBuf>,
}

fn packages() -> Vec<Package> {
    let arguments = ["metadata", "--format-version=1", "--no-deps", "--offline"];
    let answer = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let packages: Vec<Package> = array(&metadata, "packages").iter().map(package).collect();
    assert_eq!(packages.len(), CRATES.len(), "remove crates that no longer exist from CRATES");
    packages
}

fn package(described: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let is_program = |target: &&Value| {
        array(target, "kind")
            .iter()
            .any(|kind| matches!(kind.as_str(), Some("lib" | "bin" | "proc-macro")))
    };
    Package {
        name: text(&described["name"]),
        dir: Path::new(&text(&described["manifest_path"])).parent().unwrap().into(),
        dependencies: array(described, "dependencies")
            .iter()
            .map(|used| text(&used["name"]))
            .collect(),
        roots: array(described, "targets")
            .iter()
            .filter(is_program)
            .map(|target| text(&target["src_path"]).into())
            .collect(),
    }
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All Rust files of the workspace: their paths below the root, and their text.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let mut dirs = vec![root().join("crates"), root().join("xtask")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root()).unwrap().display().to_string();
                sources.push((path, text));
            }
        }
    }
    assert!(sources.len() > 100);
    sources
}
