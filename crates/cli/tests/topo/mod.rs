//! `fathom topo` on stored trees: the pages that a user reads, and what lspci, lstopo and lsblk read.

mod lsblk;
mod lspci;
mod lstopo;
mod tree;

use crate::common::{self, Place};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tree::Tree;

fn dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topo").join(name)
}

/// The stored trees, by name.
fn names() -> Vec<String> {
    let files = fs::read_dir(dir("trees")).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn stored(name: &str) -> Tree {
    let tree = Tree::expand(&fs::read_to_string(dir("trees").join(format!("{name}.txt"))).unwrap());
    // Names must not depend on the database of the machine that runs the test.
    let ids = tree.path().join("usr/share/misc");
    fs::create_dir_all(&ids).unwrap();
    fs::copy(dir("pci.ids"), ids.join("pci.ids")).unwrap();
    tree
}

fn ask(tree: &Tree, args: &[&str]) -> common::Answer {
    let root = tree.path().to_str().unwrap();
    Place::new().ask(&[&["topo", "--root", root], args].concat())
}

/// As it is written, `predict` says what is missing; filled in, it predicts.
#[test]
fn predict_reads_the_machine_file_of_each_stored_tree() {
    for name in names() {
        let tree = stored(&name);
        let written = ask(&tree, &["--as-machine"]).done().stdout;
        let place = Place::new();
        let file = place.path("machine.toml");
        let predict = |text: &str| {
            fs::write(&file, text).unwrap();
            place.ask(&["predict", file.to_str().unwrap()])
        };
        let answer = predict(&written);
        let has_disks = written.contains("\n[[disk]]");
        assert_eq!(answer.code == Some(2), !has_disks, "{name}: {}", answer.stderr);
        if has_disks {
            assert_eq!(answer.stderr, "", "{name}: {written}");
            let missing = "not in the file";
            assert!(answer.stdout.contains(missing), "{name}: {}", answer.stdout);
        }
        let entry = |line: &str| {
            let rest = line
                .strip_prefix("# ")
                .filter(|rest| rest.starts_with("[[") || rest.contains(" = "));
            format!("{}\n", rest.unwrap_or(line))
        };
        let filled: String = written.lines().map(entry).collect();
        let answer = predict(&filled);
        assert_eq!(answer.code, Some(0), "{name}: {}\n{filled}", answer.stderr);
        assert!(answer.stdout.contains("limited by"), "{name}: {}", answer.stdout);
    }
}

/// With `FATHOM_BLESS=1` the pages are written instead.
#[test]
fn pages_of_stored_trees() {
    let names = names();
    assert!(names.len() >= 12);
    let mut faults = Vec::new();
    for name in names {
        let tree = stored(&name);
        for (suffix, args) in [("", &[][..]), ("-verbose", &["-v"][..])] {
            // Everything of one machine is enough.
            if !suffix.is_empty() && name != "desktop" {
                continue;
            }
            let page = ask(&tree, args).done().stdout;
            let expected = dir("expected").join(format!("{name}{suffix}.txt"));
            if std::env::var_os("FATHOM_BLESS").is_some() {
                fs::write(&expected, &page).unwrap();
            } else if fs::read_to_string(&expected).unwrap_or_default() != page {
                faults.push(format!("{}:\n{page}", expected.display()));
            }
        }
    }
    assert!(faults.is_empty(), "FATHOM_BLESS=1 accepts these pages:\n{}", faults.join("\n"));
}

fn report(name: &str) -> Value {
    ask(&stored(name), &["--json"]).done().json()
}

fn rules(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["rule"].as_str().unwrap()).collect()
}

#[test]
fn eight_disks_on_one_root_complex_are_a_finding_until_a_card_is_moved() {
    let (before, after) = (report("amd-before"), report("amd-after"));
    assert_eq!(rules(&before), ["crowded-root-complex"]);
    assert_eq!(rules(&after), [""; 0]);
    let below = |report: &Value, name: &str| {
        let load = &report["loads"][name];
        (load["disks"].as_u64().unwrap(), load["below_bytes_per_s"].as_f64().unwrap() / 1e9)
    };
    let (disks, rate) = below(&before, "pci0000:40");
    assert_eq!(disks, 8);
    assert!((60.0..61.0).contains(&rate), "{rate}");
    assert_eq!(below(&after, "pci0000:40").0, 4);
    assert_eq!(below(&after, "pci0000:20").0, 4);
}

#[test]
fn each_problem_is_found_where_it_is() {
    assert_eq!(rules(&report("u2-switch")), ["oversubscribed-uplink"]);
    assert_eq!(rules(&report("degraded")), ["degraded-link", "one-interrupt-cpu", "slow-port"]);
    let (vmd, none) = (report("vmd"), report("none"));
    for report in [&vmd, &none, &report("virtio"), &report("cloud"), &report("fabrics")] {
        assert_eq!(rules(report), [""; 0]);
    }
    assert_eq!(vmd["loads"]["pci0000:5d"]["disks"], 2, "disks behind VMD are on its root complex");
    assert_eq!(none["topology"]["volumes"], serde_json::json!([]));
    let unprivileged = report("unprivileged");
    let uplink = &unprivileged["topology"]["roots"][0]["children"][0]["children"][0];
    assert_eq!(uplink["kind"], "switch_upstream", "ports are distinguished without root");
    assert_eq!(rules(&unprivileged), ["oversubscribed-uplink"]);
}

#[test]
fn targets_leave_only_what_leads_to_them() {
    let tree = stored("desktop");
    let page = ask(&tree, &["/dev/md0"]).done().stdout;
    assert!(page.contains("sda") && page.contains("md0") && !page.contains("nvme0n1"), "{page}");
    let answer = ask(&tree, &["nvme7n1", "nvme0n1"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("nvme7n1 is not a block device"), "{}", answer.stderr);
    assert!(answer.stdout.contains("nvme0n1p2"), "{}", answer.stdout);
}

#[test]
fn pictures_are_well_formed_and_show_every_disk() {
    for name in ["amd-before", "desktop", "fabrics"] {
        let tree = stored(name);
        let page = ask(&tree, &["--format=html"]).done().stdout;
        let start =
            page.find("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"topo wide\"").unwrap();
        let end = page.rfind("</svg>").unwrap() + "</svg>".len();
        let picture = &page[start..end];
        let mut open: Vec<&str> = Vec::new();
        for tag in picture.split('<').skip(1).map(|tag| tag.split('>').next().unwrap()) {
            match tag.strip_prefix('/') {
                Some(end) => assert_eq!(open.pop(), Some(end), "{picture}"),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split(' ').next().unwrap()),
            }
        }
        assert_eq!(open, [""; 0]);
        let report = ask(&tree, &["--json"]).done().json();
        for volume in report["topology"]["volumes"].as_array().unwrap() {
            assert!(picture.contains(volume["name"].as_str().unwrap()), "{name}: {volume}");
        }
        assert!(picture.contains("prefers-color-scheme:dark"));
    }
}

#[test]
fn a_directory_without_sysfs_is_refused() {
    let place = Place::new();
    let answer = place.ask(&["topo", "--root", "."]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("is not a sysfs"), "{}", answer.stderr);
}

#[test]
fn the_running_machine() {
    let report = Place::new().ask(&["topo", "--json"]).done().json();
    let volumes = report["topology"]["volumes"].as_array().unwrap();
    let listed = |name: &str| volumes.iter().any(|volume| volume["name"] == name.replace('!', "/"));
    for entry in fs::read_dir("/sys/block").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let read = |file: &str| fs::read_to_string(format!("/sys/block/{name}/{file}"));
        // Other tests make and remove devices.
        let lasting = !["loop", "zram", "dm-", "md", "nullb"].iter().any(|of| name.starts_with(of));
        if lasting && read("size").is_ok_and(|size| size != "0\n") {
            assert!(listed(&name) || read("hidden").is_ok_and(|hidden| hidden == "1\n"), "{name}");
        }
    }
}

/// `fathom doctor` on a stored tree: with its /sys in place of the machine's, in a mount namespace of its own.
fn doctor(tree: &Tree, args: &[&str]) -> common::Answer {
    let script = "mount --bind \"$0/sys\" /sys && shift && exec \"$@\"";
    let root = tree.path().to_str().unwrap();
    let own = ["-m", "sh", "-c", script, root, "", common::FATHOM, "doctor"];
    common::Running::start(&mut Place::new().command("unshare", &[&own[..], args].concat())).wait()
}

#[test]
fn doctor_shows_what_topo_finds_once_and_in_the_same_words() {
    let Some(_guard) = common::as_root("doctor on stored trees") else { return };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in ["u2-switch", "degraded", "amd-before"] {
        let tree = stored(name);
        let topo = ask(&tree, &["--json"]).done().json();
        let diagnosis = doctor(&tree, &["--json"]).done().json();
        // Interrupts are in /proc, which is the machine's.
        let found = |report: &Value, list: &str| -> Vec<Value> {
            let all = report[list].as_array().unwrap().iter();
            all.filter(|finding| finding["rule"] != "one-interrupt-cpu").cloned().collect()
        };
        let (theirs, ours) = (found(&topo, "findings"), found(&diagnosis, "topology"));
        assert!(!theirs.is_empty(), "{name}");
        assert_eq!(theirs, ours, "{name}");
        let page = words(&doctor(&tree, &[]).done().stdout);
        for finding in &theirs {
            let summary = words(finding["summary"].as_str().unwrap());
            assert_eq!(page.matches(&summary).count(), 1, "{name}: {summary}: {page}");
        }
    }
}
