//! Several machines that were inspected at the same time: in what they differ, and what was found on how many.

use crate::rules::topology::mode;
use fathom_model::Finding;
use fathom_model::facts::{DeviceFacts, Host};
use fathom_model::finding::Severity;
use fathom_model::topology::{Hop, Topology};
use fathom_model::units;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Checks of what changes from moment to moment, or with use: a machine does not differ by these, but has findings.
const STATES: &[&str] = &[
    "available-memory",
    "disk-in-use",
    "file-system-full",
    "interrupt-spread",
    "load",
    "md-sync",
    "nvme-media-errors",
    "nvme-power-state",
    "nvme-spare",
    "nvme-temperature",
    "nvme-throttling",
    "nvme-unwritten",
    "nvme-wear",
    "runtime-power",
];

/// A property of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The disk or device; empty for the machine.
    pub subject: String,
    /// Its name, such as `I/O scheduler`.
    pub title: String,
    pub value: String,
}

/// A machine, as the others are compared with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InspectedHost {
    /// The command that inspected it.
    pub by: &'static str,
    /// Host name.
    pub hostname: String,
    /// Its properties, each once.
    pub properties: Vec<Property>,
    /// Disk or device and name of what could not be read: it does not differ.
    pub unread: Vec<(String, String)>,
    /// What was found on it.
    pub findings: Vec<Finding>,
}

/// Several machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct HostsReport {
    /// Host names, by rank.
    pub hosts: Vec<String>,
    /// In how many properties each of them differs from most.
    pub differs: Vec<usize>,
    /// Hosts that could not be inspected, by the reason.
    pub failed: Vec<HostsFailed>,
    /// Properties that differ.
    pub differences: Vec<HostDifference>,
    /// What was found, each once: worst first, then what most hosts have.
    pub findings: Vec<HostsFinding>,
}

/// Machines that could not be inspected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostsFailed {
    /// Host names.
    pub hosts: Vec<String>,
    /// Why.
    pub reason: String,
}

/// A property that machines differ in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostDifference {
    /// The property, such as `I/O scheduler`.
    pub title: String,
    /// The disk or device; empty for the machine.
    pub subject: String,
    /// What most have; absent for something that most lack.
    pub most: Option<String>,
    /// Number of hosts that have it.
    pub hosts: usize,
    /// What others have.
    pub others: Vec<OtherValue>,
}

/// What few machines have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherValue {
    /// The value; absent where there is none.
    pub value: Option<String>,
    /// Host names.
    pub hosts: Vec<String>,
}

/// What was found on some machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct HostsFinding {
    /// As on the first of them.
    pub finding: Finding,
    /// Host names.
    pub hosts: Vec<String>,
}

impl InspectedHost {
    /// What `doctor` or `topo` printed as JSON, of a machine called `name`; `None` if it is of neither.
    pub fn of_json(name: &str, json: &Value) -> Option<Self> {
        let mut this = match json.get("good") {
            Some(_) => Self::of_doctor(json),
            None => Self::of_topology(json)?,
        };
        this.hostname = name.into();
        Some(this)
    }

    /// What `doctor` found: a [`Diagnosis`](crate::rules::Diagnosis) as JSON.
    fn of_doctor(json: &Value) -> Self {
        let mut this = Self { by: "doctor", ..Self::default() };
        if let Some(host) = part::<Host>(json, "host") {
            this.add_host(&host);
        }
        for disk in part::<Vec<DeviceFacts>>(json, "disks").unwrap_or_default() {
            this.add(&disk.name, "model", disk.model);
            this.add(&disk.name, "driver", disk.driver);
            this.add(&disk.name, "size", Some(units::bytes(disk.size_bytes)));
        }
        let list = |name: &str| json[name].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let found = list("findings").map(|one| (&one["finding"]["rule"], one));
        for (check, one) in found.chain(list("good").map(|one| (&one["check"], one))) {
            if !STATES.contains(&check.as_str().unwrap_or_default()) {
                this.add(&text(&one["subject"]), &text(&one["title"]), Some(text(&one["found"])));
            }
        }
        let unread = list("not_checked").map(|one| (text(&one["subject"]), text(&one["title"])));
        this.unread = unread.collect();
        let findings = list("findings").map(|one| &one["finding"]).chain(list("topology"));
        this.findings = findings.filter_map(|one| Finding::deserialize(one).ok()).collect();
        this
    }

    /// Where a machine's storage is attached: a [`TopologyReport`](crate::topology::TopologyReport) as JSON.
    fn of_topology(json: &Value) -> Option<Self> {
        let topology: Topology = part(json, "topology")?;
        let mut this = Self { by: "topo", ..Self::default() };
        for package in &topology.packages {
            let name = format!("CPU package {}", package.id);
            this.add(&name, "model", Some(package.model.clone()));
            this.add(&name, "CPUs", Some(package.cpus.len().to_string()));
        }
        topology.roots.iter().for_each(|root| this.add_hop(root));
        for volume in topology.volumes {
            this.add(&volume.name, "model", Some(volume.label));
            this.add(&volume.name, "size", Some(units::bytes(volume.size_bytes)));
            this.add(&volume.name, "on", Some(volume.members.join(", ")));
            this.add(&volume.name, "mounted at", Some(volume.mounts.join(", ")));
        }
        this.findings = part(json, "findings").unwrap_or_default();
        Some(this)
    }

    fn add_host(&mut self, host: &Host) {
        self.add("", "kernel", Some(host.kernel.clone()));
        self.add("", "CPU model", Some(host.cpu_model.clone()));
        self.add("", "CPUs", Some(host.cpus_online.to_string()));
        // Of the same modules, kernels reserve different amounts.
        let gib = (host.memory_bytes as f64 / (1_u64 << 30) as f64).round();
        self.add("", "memory", Some(format!("{gib} GiB")));
        self.add("", "virtualization", host.virtualization.clone());
    }

    fn add(&mut self, subject: &str, title: &str, value: Option<String>) {
        if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
            self.properties.push(Property { subject: subject.into(), title: title.into(), value });
        }
    }

    fn add_hop(&mut self, hop: &Hop) {
        self.add(&hop.name, "device", Some(hop.label.clone()));
        self.add(&hop.name, "link", hop.link.map(|link| mode(link.current)));
        self.add(&hop.name, "best link", hop.link.map(|link| mode(link.best)));
        self.add(&hop.name, "NUMA node", hop.numa_node.map(|node| node.to_string()));
        self.add(&hop.name, "max payload", hop.payload_max_bytes.map(|bytes| bytes.to_string()));
        hop.children.iter().for_each(|child| self.add_hop(child));
    }
}

fn part<T: DeserializeOwned>(json: &Value, name: &str) -> Option<T> {
    T::deserialize(json.get(name)?).ok()
}

impl HostsReport {
    /// Compares machines, by rank.
    pub fn of(all: &[InspectedHost]) -> Self {
        let mut by_name: BTreeMap<(&str, &str), BTreeMap<usize, &str>> = BTreeMap::new();
        for (number, host) in all.iter().enumerate() {
            for one in &host.properties {
                let of_hosts = by_name.entry((&one.subject, &one.title)).or_default();
                of_hosts.insert(number, &one.value);
            }
        }
        let mut differs = vec![0; all.len()];
        let difference = |(name, values)| difference(all, name, &values, &mut differs);
        let differences = by_name.into_iter().filter_map(difference).collect();
        Self {
            hosts: all.iter().map(|host| host.hostname.clone()).collect(),
            differs,
            failed: Vec::new(),
            differences,
            findings: findings(all),
        }
    }

    /// The same, with hosts that could not be inspected for a reason.
    pub fn with_failed(mut self, all: &[(String, String)]) -> Self {
        for (host, reason) in all {
            match self.failed.iter_mut().find(|known| known.reason == *reason) {
                Some(known) => known.hosts.push(host.clone()),
                None => self
                    .failed
                    .push(HostsFailed { hosts: vec![host.clone()], reason: reason.clone() }),
            }
        }
        self
    }

    /// Whether there are warnings or errors on any.
    pub fn has_problems(&self) -> bool {
        self.findings.iter().any(|one| one.finding.severity >= Severity::Warning)
    }
}

/// Where a property differs; counts each host that differs from most.
fn difference(
    all: &[InspectedHost],
    (subject, title): (&str, &str),
    of_hosts: &BTreeMap<usize, &str>,
    differs: &mut [usize],
) -> Option<HostDifference> {
    let mut values: Vec<(Option<String>, Vec<usize>)> = Vec::new();
    for (number, host) in all.iter().enumerate() {
        if host.unread.iter().any(|(of, name)| of == subject && name == title) {
            continue;
        }
        let value = of_hosts.get(&number).map(|value| (*value).to_string());
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, hosts)) => hosts.push(number),
            None => values.push((value, vec![number])),
        }
    }
    // Of two that are as frequent, the first host's is what the others differ from.
    values.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    let mut values = values.into_iter();
    let (most, hosts) = values.next()?;
    let mut other = |(value, hosts): (Option<String>, Vec<usize>)| {
        hosts.iter().for_each(|number| differs[*number] += 1);
        let hosts = hosts.iter().map(|number| all[*number].hostname.clone()).collect();
        OtherValue { value, hosts }
    };
    let others: Vec<OtherValue> = values.map(&mut other).collect();
    (!others.is_empty()).then(|| HostDifference {
        title: title.into(),
        subject: subject.into(),
        most,
        hosts: hosts.len(),
        others,
    })
}

fn findings(all: &[InspectedHost]) -> Vec<HostsFinding> {
    let mut found: Vec<HostsFinding> = Vec::new();
    for host in all {
        let mut named = Vec::new();
        for finding in &host.findings {
            // One host may have several of a kind.
            let kind = (&finding.rule, &finding.subject);
            if named.contains(&kind) {
                continue;
            }
            named.push(kind);
            let is_same = |other: &&mut HostsFinding| {
                (&other.finding.rule, &other.finding.subject) == (&finding.rule, &finding.subject)
            };
            match found.iter_mut().find(is_same) {
                Some(known) => known.hosts.push(host.hostname.clone()),
                None => found.push(HostsFinding {
                    finding: finding.clone(),
                    hosts: vec![host.hostname.clone()],
                }),
            }
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse((one.finding.severity, one.hosts.len())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, values: &[(&str, &str, &str)], rules: &[&str]) -> InspectedHost {
        let value = |(subject, title, value): &(&str, &str, &str)| Property {
            subject: (*subject).into(),
            title: (*title).into(),
            value: (*value).into(),
        };
        let finding = |rule: &&str| Finding { rule: (*rule).into(), ..Finding::default() };
        InspectedHost {
            by: "doctor",
            hostname: name.into(),
            properties: values.iter().map(value).collect(),
            unread: Vec::new(),
            findings: rules.iter().map(finding).collect(),
        }
    }

    #[test]
    fn what_few_have_is_named_with_their_hosts() {
        let usual = [("", "kernel", "6.1"), ("vda", "I/O scheduler", "none")];
        let odd =
            [("", "kernel", "6.12"), ("vda", "I/O scheduler", "bfq"), ("vdb", "size", "1 GiB")];
        let all = [
            host("node0", &usual, &["load"]),
            host("node1", &odd, &["scheduler", "load"]),
            host("node2", &usual, &[]),
        ];
        let report = HostsReport::of(&all);
        assert_eq!(report.differs, [0, 3, 0]);
        let said: Vec<_> = report
            .differences
            .iter()
            .map(|one| (one.title.as_str(), one.most.as_deref(), one.hosts))
            .collect();
        let expected =
            [("kernel", Some("6.1"), 2), ("I/O scheduler", Some("none"), 2), ("size", None, 2)];
        assert_eq!(said, expected);
        assert_eq!(report.differences[1].others[0].value.as_deref(), Some("bfq"));
        assert_eq!(report.findings[0].hosts, ["node0", "node1"]);
        assert_eq!(report.findings.len(), 2);
        // What was not read on one does not differ.
        let mut unread = host("node1", &usual[..1], &["load", "load"]);
        unread.unread = vec![("vda".into(), "I/O scheduler".into())];
        let report = HostsReport::of(&[host("node0", &usual, &[]), unread]);
        assert_eq!((report.differences.len(), report.findings[0].hosts.len()), (0, 1));
        let failed = |host: &str| (host.to_string(), "no such disk".to_string());
        let report = report.with_failed(&[failed("node2"), failed("node3")]);
        assert_eq!(report.failed[0].hosts, ["node2", "node3"]);
        let same = [host("node0", &usual, &[]), host("node1", &usual, &[])];
        assert_eq!(HostsReport::of(&same).differences, []);
    }
}
