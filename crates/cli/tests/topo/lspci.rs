//! The same trees as lspci reads them.

use super::{ask, names, stored};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Fields of a function in `lspci -vv`, by name.
type Fields = BTreeMap<&'static str, String>;

/// All functions of a stored tree, by address; `None` where lspci is not installed.
fn lspci(tree: &std::path::Path) -> Option<BTreeMap<String, Fields>> {
    let path = format!("sysfs.path={}", tree.join("sys/bus/pci").display());
    let output =
        Command::new("lspci").args(["-A", "linux-sysfs", "-O", &path, "-D", "-vv"]).output();
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    let mut functions = BTreeMap::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let address = block.trim_start().split(' ').next().unwrap().to_string();
        functions.insert(address, fields(block));
    }
    Some(functions)
}

fn fields(block: &str) -> Fields {
    let after = |start: &str| block.split_once(start).map(|(_, rest)| rest);
    let word = |start: &str| {
        let rest = after(start)?.trim_start();
        Some(rest.split([',', ' ', '\n', '\t', '(']).next()?.to_string())
    };
    let mode = |line: &str| {
        let line = after(line)?.lines().next()?;
        let speed = line.split_once("Speed ")?.1.split([',', ' ']).next()?;
        let width = line.split_once("Width ")?.1.split([',', ' ']).next()?;
        Some(format!("{speed} {width}"))
    };
    let kind = ["Root Port", "Upstream Port", "Downstream Port", "Endpoint"];
    let express = after("Express (v2) ").unwrap_or_default().lines().next().unwrap_or_default();
    let kind = kind.iter().find(|kind| express.starts_with(**kind)).map(ToString::to_string);
    let fields = [
        ("current", mode("LnkSta:")),
        ("best", mode("LnkCap:")),
        ("payload", word("MaxPayload ").and_then(|_| devctl_payload(block))),
        ("node", word("NUMA node:")),
        ("kind", kind),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// `MaxPayload 256 bytes` in DevCtl; the one in DevCap is what is supported.
fn devctl_payload(block: &str) -> Option<String> {
    let control = block.split_once("DevCtl:")?.1;
    Some(control.split_once("MaxPayload ")?.1.split(' ').next()?.to_string())
}

/// The same fields in fathom's words.
fn ours(hop: &Value) -> Fields {
    let mode = |which: &str| {
        let mode = &hop["link"].get(which)?;
        let speed = mode["speed_mts"].as_f64()? / 1000.0;
        Some(format!("{speed}GT/s x{}", mode["lanes"]))
    };
    let kind = match hop["kind"].as_str().unwrap() {
        "root_port" => "Root Port",
        "switch_upstream" => "Upstream Port",
        "switch_downstream" => "Downstream Port",
        _ => "Endpoint",
    };
    let number = |name: &str| hop.get(name).map(ToString::to_string);
    let fields = [
        ("current", mode("current")),
        ("best", mode("best")),
        ("payload", number("payload_max_bytes")),
        ("node", number("numa_node")),
        ("kind", Some(kind.to_string()).filter(|_| hop.get("link").is_some())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn functions(hop: &Value, found: &mut BTreeMap<String, Fields>) {
    let name = hop["name"].as_str().unwrap();
    if hop.get("class").is_some() {
        found.insert(name.to_string(), ours(hop));
    }
    let children = hop.get("children").and_then(Value::as_array).into_iter().flatten();
    children.for_each(|child| functions(child, found));
}

/// Why fathom may report more or less than lspci.
fn explained(tree: &str, field: &str, lspci: Option<&String>) -> bool {
    match field {
        // lspci reads links and ports from configuration space only, which needs root; fathom falls back to sysfs.
        "current" | "best" | "kind" => tree == "unprivileged" && lspci.is_none(),
        // Both need configuration space.
        _ => false,
    }
}

#[test]
fn links_payloads_and_nodes_agree_with_lspci() {
    let mut compared = 0;
    for name in names() {
        let tree = stored(&name);
        let Some(theirs) = lspci(tree.path()) else {
            return println!("skipped: needs lspci (Debian's pciutils)");
        };
        let mut own = BTreeMap::new();
        let report = ask(&tree, &["--json"]).done().json();
        report["topology"]["roots"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(|root| functions(root, &mut own));
        for (address, fields) in &own {
            let theirs =
                theirs.get(address).unwrap_or_else(|| panic!("{name}: no {address} in lspci"));
            for field in ["current", "best", "payload", "node", "kind"] {
                let (ours, theirs) = (fields.get(field), theirs.get(field));
                compared += usize::from(ours.is_some() && ours == theirs);
                assert!(
                    ours == theirs || explained(&name, field, theirs),
                    "{name} {address} {field}: {ours:?}, lspci {theirs:?}"
                );
            }
        }
        // lspci also lists functions that are unrelated to storage: without a link, and neither storage nor network.
        let more: Vec<&String> =
            theirs.keys().filter(|address| !own.contains_key(*address)).collect();
        assert_eq!(more, Vec::<&String>::new(), "{name}");
    }
    assert!(compared > 200, "{compared}");
}
