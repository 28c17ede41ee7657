//! What processes used over a whole record.

use fathom_model::cpus;
use fathom_model::limit::Competitor;
use fathom_model::watch::{ProcessFile, ProcessUse, ProcessesSample, RemotePeer};
use std::collections::BTreeMap;

/// Maximum number of addresses kept.
const REMOTES_MAX: usize = 1000;

/// Sums of all samples that hold processes.
#[derive(Debug, Clone, Default)]
pub struct ProcessTotals {
    /// Time covered, in nanoseconds; 0 if processes were not sampled.
    pub elapsed_ns: u64,
    pub watched: ProcessUse,
    /// Regular files that these had open, by path.
    pub files: BTreeMap<String, ProcessFile>,
    /// By name, and whether they are peers of the watched ones.
    others: BTreeMap<(String, bool), ProcessUse>,
    remotes: BTreeMap<String, RemotePeer>,
    /// CPUs on which the watched processes may run, as in the last sample that knew; none if unknown.
    pub cpus_allowed: Vec<u32>,
    /// The most of their memory that was swapped out at the end of an interval, in bytes.
    pub swapped: Option<u64>,
}

impl ProcessTotals {
    pub fn add(&mut self, sample: &ProcessesSample) {
        self.elapsed_ns += sample.elapsed_ns;
        add(&mut self.watched, &sample.watched);
        for other in &sample.others {
            self.add_other(other);
        }
        for file in &sample.files {
            self.files.insert(file.path.clone(), file.clone());
        }
        if let Ok(cpus) = cpus::parse(&sample.cpus_allowed) {
            self.cpus_allowed = cpus;
        }
        self.swapped = self.swapped.max(sample.swapped);
        for remote in &sample.remotes {
            let is_known = self.remotes.contains_key(&remote.address);
            if !is_known && self.remotes.len() >= REMOTES_MAX {
                continue;
            }
            let sum = self.remotes.entry(remote.address.clone()).or_default();
            sum.address.clone_from(&remote.address);
            sum.connections = sum.connections.max(remote.connections);
            sum.segments += remote.segments;
            sum.rtt_us = remote.rtt_us;
            if remote.pid != 0 {
                (sum.pid, sum.comm) = (remote.pid, remote.comm.clone());
            }
        }
    }

    /// A process that was a peer once is one in all intervals.
    fn add_other(&mut self, other: &ProcessUse) {
        let key = |peer| (other.comm.clone(), peer);
        let is_same = |known: &ProcessUse| known.pid == other.pid && known.processes <= 1;
        let is_known = |peer| self.others.get(&key(peer)).is_some_and(is_same);
        let is_peer = other.peer || is_known(true);
        let was_none = is_peer && is_known(false);
        let before = if was_none { self.others.remove(&key(false)) } else { None };
        let sum = self.others.entry(key(is_peer)).or_default();
        before.iter().for_each(|before| add(sum, before));
        add(sum, other);
        sum.peer = is_peer;
    }

    pub fn cpus(&self, uses: &ProcessUse) -> f64 {
        uses.cpu_ns as f64 / self.elapsed_ns.max(1) as f64
    }

    pub fn per_second(&self, bytes: u64) -> f64 {
        crate::derive::per_second(bytes, self.elapsed_ns)
    }

    /// The bytes that this many per second were in the time covered.
    pub fn bytes_in(&self, per_second: f64) -> u64 {
        (per_second * self.elapsed_ns as f64 / 1e9) as u64
    }

    /// Other programs, by CPU time, most first.
    pub fn by_cpu(&self) -> Vec<&ProcessUse> {
        let mut all: Vec<_> = self.others.values().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.cpu_ns));
        all
    }

    /// The other ends of the watched processes' TCP connections, those with most segments first.
    pub fn remotes(&self) -> Vec<&RemotePeer> {
        let mut all: Vec<_> = self.remotes.values().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.segments));
        all
    }

    /// Other programs, by bytes read from and written to block devices, most first.
    pub fn by_disk_bytes(&self) -> Vec<&ProcessUse> {
        let mut all: Vec<_> = self.others.values().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.disk_bytes()));
        all
    }
}

/// Adds an interval's use; the number of processes is the highest of any interval.
fn add(sum: &mut ProcessUse, one: &ProcessUse) {
    let processes = sum.processes.max(one.processes);
    sum.add(one);
    sum.processes = processes;
}

/// Competitors named at most.
const COMPETITORS_MAX: usize = 3;
/// Programs that kept fewer CPUs busy and moved fewer bytes per second are left out.
const CPUS_MIN: f64 = 0.05;
const BYTES_MIN: f64 = 1e6;

/// The programs in `processes` that may have disturbed a search.
pub fn competitors(processes: &ProcessTotals) -> Vec<Competitor> {
    let competitor = |uses: &ProcessUse| Competitor {
        cpus: processes.cpus(uses),
        disk_bytes_per_second: processes.per_second(uses.disk_bytes()),
        uses: uses.clone(),
    };
    let disturbs =
        |one: &Competitor| one.cpus >= CPUS_MIN || one.disk_bytes_per_second >= BYTES_MIN;
    let all = processes.by_cpu().into_iter().map(competitor);
    all.filter(disturbs).take(COMPETITORS_MAX).collect()
}
