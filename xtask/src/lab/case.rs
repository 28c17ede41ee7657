//! A case: a shell script whose head, comments in a fixed form, states what machine it needs.

use crate::Result;

fathom_model::named! {
    /// The kernels of the lab, each the newest that Debian has of its line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
    pub enum Kernel {
        #[value(name = "6.1")]
        V6_1 = "6.1",
        #[value(name = "6.12")]
        V6_12 = "6.12",
        #[value(name = "7")]
        V7 = "7",
    }
}

impl Kernel {
    fn parse(name: &str) -> Result<Kernel> {
        let found = Kernel::ALL.into_iter().find(|kernel| kernel.name() == name);
        Ok(found.ok_or_else(|| format!("no kernel {name}: it is 6.1, 6.12 or 7"))?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    pub lba_bytes: Vec<u32>,
    /// Additional PCIe root complexes; disks are assigned to them round-robin.
    pub roots: usize,
    /// NUMA nodes, each with one CPU; root complexes are assigned to them round-robin.
    pub nodes: usize,
    pub disk_mib: Vec<u64>,
    pub memory_mib: u64,
    /// Whether the disks are virtio's in place of NVMe.
    pub is_virtio: bool,
    /// Whether the NVMe disks have zones of 4 MiB.
    pub is_zoned: bool,
    /// Whether they store 8 bytes of protection information (type 1) beside each block.
    pub is_protected: bool,
    /// Whether the disks are below one PCIe switch, and how many bytes per second they move together.
    pub uplink_bytes_per_s: Option<u64>,
    /// One CPU, and clocks that advance by a nanosecond per instruction.
    pub counts_instructions: bool,
}

impl Machine {
    /// `nvme=4 lba=512,512,512,4096 disk=64,64,512,64 roots=2 nodes=1 memory=1024`, each with a default; the last
    /// value of a list applies to all further disks. XFS takes no disk below 300 MiB. With
    /// `clock=instructions` times are counts.
    pub fn parse(text: &str) -> Result<Machine> {
        let mut disks = 4;
        let mut machine = Machine {
            lba_bytes: vec![512, 512, 512, 4096],
            roots: 2,
            nodes: 1,
            disk_mib: vec![64, 64, 512, 64],
            memory_mib: 1024,
            is_virtio: false,
            is_zoned: false,
            is_protected: false,
            uplink_bytes_per_s: None,
            counts_instructions: false,
        };
        for word in text.split_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("{word}: no KEY=VALUE"))?;
            match key {
                "nvme" => disks = number(word, value, 0, 16)? as usize,
                "lba" => {
                    let lba = list(value, |size| Ok(number(word, size, 512, 4096)? as u32))?;
                    if lba.iter().any(|size| ![512, 4096].contains(size)) {
                        return Err(format!("{word}: a logical block is 512 or 4096 bytes").into());
                    }
                    machine.lba_bytes = lba;
                }
                "roots" => machine.roots = number(word, value, 1, 4)? as usize,
                "nodes" => machine.nodes = number(word, value, 1, 2)? as usize,
                "uplink" => {
                    machine.uplink_bytes_per_s = Some(number(word, value, 1, 10_000)? * 1_000_000)
                }
                "disk" => machine.disk_mib = list(value, |size| number(word, size, 16, 65536))?,
                "memory" => machine.memory_mib = number(word, value, 512, 4096)?,
                "disks" if value == "virtio" => machine.is_virtio = true,
                "disks" if value == "zoned" => machine.is_zoned = true,
                "disks" if value == "protected" => machine.is_protected = true,
                "clock" if value == "instructions" => machine.counts_instructions = true,
                _ => {
                    let keys = "nvme, lba, roots, nodes, uplink, disk, memory, disks=virtio|zoned|protected, clock=instructions";
                    return Err(format!("{word}: a machine has {keys}").into());
                }
            }
        }
        machine.lba_bytes = stretched(&machine.lba_bytes, disks);
        machine.disk_mib = stretched(&machine.disk_mib, disks);
        Ok(machine)
    }
}

fn list<T>(value: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    value.split(',').map(parse).collect()
}

/// One value per disk; the last one applies to all further disks.
fn stretched<T: Copy>(values: &[T], disks: usize) -> Vec<T> {
    let last = values.last().copied();
    values.iter().copied().chain(std::iter::from_fn(|| last)).take(disks).collect()
}

fn number(word: &str, value: &str, min: u64, max: u64) -> Result<u64> {
    let parsed = value.parse().ok().filter(|value| (min..=max).contains(value));
    Ok(parsed.ok_or_else(|| format!("{word}: expected {min} to {max}"))?)
}

#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub title: String,
    pub machine: Machine,
    pub cmdline: String,
    /// Loaded before the script starts.
    pub modules: Vec<String>,
    /// The kernels that it is for, the most important one first; none if any will do.
    pub kernels: Vec<Kernel>,
    /// The kernels of further guests on the same network.
    pub peers: Vec<Kernel>,
    /// Whether the case changes the machine, so that no other case may share its boot.
    pub own_boot: bool,
    /// Whether it needs its share of the host's time, and therefore runs only with `--all` or by its name.
    pub only_with_all: bool,
    pub limit_s: u64,
}

impl Case {
    /// The head ends at the first line that is not a comment.
    pub fn parse(name: &str, text: &str) -> Result<Case> {
        let mut case = Case {
            name: name.to_string(),
            title: String::new(),
            machine: Machine::parse("")?,
            cmdline: String::new(),
            modules: Vec::new(),
            kernels: Vec::new(),
            peers: Vec::new(),
            own_boot: false,
            only_with_all: false,
            limit_s: 300,
        };
        let mut head = text.lines().map_while(|line| line.strip_prefix('#'));
        let title = head.next().unwrap_or_default().trim();
        if title.is_empty() || title.starts_with('!') || key_of(title).is_some() {
            return Err("the first line says in a comment what holds".into());
        }
        case.title = title.to_string();
        let mut seen = Vec::new();
        for line in head {
            let Some((key, value)) = key_of(line) else { continue };
            if seen.contains(&key) {
                return Err(format!("{key}: stands there twice").into());
            }
            seen.push(key);
            case.set(key, value)?;
        }
        Ok(case)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "machine" => self.machine = Machine::parse(value)?,
            "cmdline" => self.cmdline = value.to_string(),
            "modules" => self.modules = value.split_whitespace().map(String::from).collect(),
            "kernels" => {
                self.kernels =
                    value.split_whitespace().map(Kernel::parse).collect::<Result<_>>()?;
            }
            "peers" => {
                self.peers = value.split_whitespace().map(Kernel::parse).collect::<Result<_>>()?;
                self.own_boot = true;
            }
            "boot" => {
                self.own_boot = match value {
                    "own" => true,
                    "shared" => false,
                    _ => return Err(format!("boot: {value}: it is own or shared").into()),
                }
            }
            "when" => {
                self.only_with_all = match value {
                    "all" => true,
                    "always" => false,
                    _ => return Err(format!("when: {value}: it is all or always").into()),
                }
            }
            "limit" => self.limit_s = number("limit", value.trim_end_matches('s'), 1, 600)?,
            _ => {
                let known = "machine, cmdline, modules, kernels, peers, boot, when, limit";
                return Err(format!("unknown key {key}: there are {known}").into());
            }
        }
        Ok(())
    }
}

/// `key: value`, where the key is one lower-case word; other lines of the head are prose.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim().split_once(':')?;
    let is_word =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_word.then_some((key, value.trim()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_head_is_read() {
        let text = "# Reads are polled.\n# More about it, for: people.\n# machine: nvme=2 lba=512,4096 roots=1\n\
                    # cmdline: nvme.poll_queues=1\n# modules: nvme null_blk\n# kernels: 6.1 7\n\
                    # boot: own\n# when: all\n# limit: 90\nset -eu\n# kernels: 7\n";
        let case = Case::parse("polled", text).unwrap();
        assert_eq!(case.machine, Machine::parse("nvme=2 lba=512,4096 roots=1").unwrap());
        assert_eq!(case.machine.lba_bytes, [512, 4096]);
        assert_eq!(case.modules, ["nvme", "null_blk"]);
        assert_eq!(case.kernels, [Kernel::V6_1, Kernel::V7]);
        assert_eq!((case.own_boot, case.only_with_all, case.limit_s), (true, true, 90));
        assert_eq!(case.cmdline, "nvme.poll_queues=1");
    }

    #[test]
    fn peers_have_kernels_and_a_boot_of_their_own() {
        let case = Case::parse("ranks", "# They agree.\n# peers: 7 6.1\ntrue\n").unwrap();
        assert_eq!((case.peers, case.own_boot), (vec![Kernel::V7, Kernel::V6_1], true));
    }

    #[test]
    fn without_keys_there_are_defaults() {
        let case = Case::parse("plain", "# Something holds.\ntrue\n").unwrap();
        assert_eq!(case.machine.lba_bytes, [512, 512, 512, 4096]);
        assert!(case.kernels.is_empty());
        assert!(!case.own_boot && !case.only_with_all);
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_names_it() {
        for (text, named) in [
            ("true\n", "first line"),
            ("#!/bin/sh\n", "first line"),
            ("# kernels: 7\n", "first line"),
            ("# It holds.\n# kernel: 6.1\n", "unknown key kernel"),
            ("# It holds.\n# kernels: 6.1 5.10\n", "5.10"),
            ("# It holds.\n# boot: once\n", "once"),
            ("# It holds.\n# boot: own\n# boot: own\n", "twice"),
            ("# It holds.\n# machine: disks=2\n", "disks=2"),
            ("# It holds.\n# machine: lba=520\n", "lba=520"),
            ("# It holds.\n# machine: disk=1G\n", "disk=1G"),
            ("# It holds.\n# limit: forever\n", "limit"),
        ] {
            let error = Case::parse("bad", text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn the_last_of_a_list_counts_for_further_disks() {
        let machine = Machine::parse("nvme=3 lba=4096 disk=32,64").unwrap();
        assert_eq!(machine.lba_bytes, [4096; 3]);
        assert_eq!(machine.disk_mib, [32, 64, 64]);
    }
}
