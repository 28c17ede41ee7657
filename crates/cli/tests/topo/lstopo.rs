//! The same trees as hwloc's lstopo reads them.

use super::{ask, names, stored};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A machine in words that both have.
#[derive(Debug, Default)]
struct Machine {
    /// CPUs of each package.
    packages: BTreeSet<Vec<u32>>,
    /// Memory and CPUs of each NUMA node.
    nodes: BTreeMap<u32, (u64, Vec<u32>)>,
    /// PCI functions by address.
    functions: BTreeMap<String, Function>,
}

#[derive(Debug, Default, PartialEq)]
struct Function {
    /// Base class and subclass, in hexadecimal.
    class: String,
    /// The bridges above it, the nearest one last.
    bridges: Vec<String>,
    /// The NUMA node that it is attached to.
    node: Option<u32>,
}

/// `None` where lstopo is not installed.
fn theirs(tree: &Path) -> Option<Machine> {
    let output = Command::new("lstopo-no-graphics")
        .args(["--if", "fsroot", "--whole-io", "--no-caches", "--of", "xml", "-i"])
        .arg(tree)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut machine = Machine::default();
    // The attributes of the elements that are open.
    let mut open: Vec<BTreeMap<&str, &str>> = Vec::new();
    for tag in text.split('<').skip(1).map(|tag| tag.split('>').next().unwrap()) {
        if tag == "/object" {
            open.pop();
        } else if tag.starts_with("object ") {
            open.push(attributes(tag));
            machine.add(&open);
            if tag.ends_with('/') {
                open.pop();
            }
        }
    }
    Some(machine)
}

/// `name="value"`.
fn attributes(tag: &str) -> BTreeMap<&str, &str> {
    let parts: Vec<&str> = tag.split('"').collect();
    let pairs = parts.chunks_exact(2);
    pairs.map(|pair| (pair[0].rsplit(' ').next().unwrap().trim_end_matches('='), pair[1])).collect()
}

impl Machine {
    /// Adds the last one of the objects that are open.
    fn add(&mut self, open: &[BTreeMap<&str, &str>]) {
        let (own, above) = open.split_last().unwrap();
        match own["type"] {
            "Package" => drop(self.packages.insert(bits(own["cpuset"]))),
            "NUMANode" => {
                let memory = own.get("local_memory").map_or(0, |bytes| bytes.parse().unwrap());
                self.nodes.insert(own["os_index"].parse().unwrap(), (memory, bits(own["cpuset"])));
            }
            "Bridge" | "PCIDev" if own.contains_key("pci_busid") => {
                let bridges = above.iter().filter_map(|object| object.get("pci_busid"));
                let package = above.iter().find(|object| object["type"] == "Package");
                let function = Function {
                    class: own["pci_type"][..4].into(),
                    bridges: bridges.map(ToString::to_string).collect(),
                    // Below a package, where it has a node of its own.
                    node: package.map(|package| bits(package["nodeset"])[0]),
                };
                self.functions.insert(own["pci_busid"].into(), function);
            }
            _ => {}
        }
    }

    fn ours(report: &Value) -> Self {
        let topology = &report["topology"];
        let numbers = |list: &Value| -> Vec<u32> { serde_json::from_value(list.clone()).unwrap() };
        let each = |name: &str| topology[name].as_array().unwrap().iter();
        let mut machine = Self::default();
        machine.packages.extend(each("packages").map(|package| numbers(&package["cpus"])));
        for node in each("numa_nodes") {
            let found = (node["memory_bytes"].as_u64().unwrap(), numbers(&node["cpus"]));
            machine.nodes.insert(node["id"].as_u64().unwrap() as u32, found);
        }
        each("roots").for_each(|root| machine.below(root, &[]));
        machine
    }

    fn below(&mut self, hop: &Value, above: &[String]) {
        let mut bridges = above.to_vec();
        if let Some(class) = hop["class"].as_u64() {
            let name = hop["name"].as_str().unwrap().to_string();
            let node = hop["numa_node"].as_u64().map(|node| node as u32);
            let function =
                Function { class: format!("{:04x}", class >> 8), bridges: above.to_vec(), node };
            self.functions.insert(name.clone(), function);
            bridges.push(name);
        }
        let children = hop["children"].as_array().into_iter().flatten();
        children.for_each(|child| self.below(child, &bridges));
    }
}

/// The bits of `0x0000ffff,0xff000000`.
fn bits(set: &str) -> Vec<u32> {
    let words = set.rsplit(',').enumerate();
    let of = |(at, word): (usize, &str)| {
        let word = u32::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as u32 * 32 + bit)
    };
    words.flat_map(of).collect()
}

#[test]
fn packages_nodes_functions_and_bridges_agree_with_lstopo() {
    let (mut functions, mut with_node) = (0, 0);
    for name in names() {
        let tree = stored(&name);
        let Some(theirs) = theirs(tree.path()) else {
            return println!("skipped: needs lstopo-no-graphics (Debian's hwloc-nox)");
        };
        let ours = Machine::ours(&ask(&tree, &["--json"]).done().json());
        assert_eq!(ours.packages, theirs.packages, "{name}");
        let mut nodes = theirs.nodes;
        if ours.nodes.is_empty() {
            // Where the kernel has no nodes, hwloc makes one of the whole machine.
            assert_eq!(nodes.remove(&0).map(|(memory, _)| memory), Some(0), "{name}");
        }
        assert_eq!(ours.nodes, nodes, "{name}");
        for (address, own) in &ours.functions {
            let Some(their) = theirs.functions.get(address) else {
                // hwloc is built for PCI domains of 16 bits; the one that the driver of VMD makes has more.
                assert!(address.starts_with("10000:"), "{name}: no {address} in lstopo");
                continue;
            };
            assert_eq!(
                (&own.class, &own.bridges),
                (&their.class, &their.bridges),
                "{name} {address}"
            );
            // hwloc attaches a bus to the CPUs next to it, which distinguish packages only where there are several.
            if ours.packages.len() > 1 {
                assert_eq!(own.node, their.node, "{name} {address}");
                with_node += usize::from(own.node.is_some());
            }
            functions += 1;
        }
        let more = theirs.functions.keys().filter(|address| !ours.functions.contains_key(*address));
        assert_eq!(more.collect::<Vec<_>>(), Vec::<&String>::new(), "{name}");
    }
    assert!(functions > 80 && with_node > 6, "{functions} {with_node}");
}
