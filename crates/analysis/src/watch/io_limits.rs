//! How often the I/O limits of the cgroup were reached.

use crate::derive::per_second;
use crate::machine::DiskRates;
use fathom_model::progress::Sample;
use fathom_model::watch::{CgroupIo, CgroupSample};
use std::collections::BTreeMap;

/// A rate between these parts of its limit has reached it: merged I/Os and bursts make it differ.
pub(crate) const REACHED: std::ops::RangeInclusive<f64> = 0.88..=1.15;
/// An interval with less than this part of the limit is one without I/O: the program starts, ends or computes.
const ACTIVE_MIN: f64 = 0.1;

/// A limit, and the I/O under it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoLimit {
    pub cgroup: String,
    pub device: String,
    /// As in io.max: `rbps`, `wbps`, `riops` or `wiops`.
    pub key: String,
    /// Bytes or I/Os per second.
    pub limit: f64,
    /// Intervals with I/O, and how many of them reached the limit.
    pub active: u32,
    /// Intervals that reached the limit.
    pub reached: u32,
    /// Begin of the first of these, in nanoseconds since the start.
    pub since_ns: u64,
    /// Whether the rates are those of the cgroup and not those of the device, which other programs use too.
    pub is_of_cgroup: bool,
    /// Sum of the rates of these.
    rates: f64,
}

impl IoLimit {
    /// The part of the intervals with I/O that reached the limit, from 0 to 1.
    pub fn reached_share(&self) -> f64 {
        f64::from(self.reached) / f64::from(self.active.max(1))
    }

    /// Mean rate in the intervals that reached it.
    pub fn mean(&self) -> f64 {
        self.rates / f64::from(self.reached.max(1))
    }

    /// The limits in an entry of [`fathom_model::watch::CgroupSample::io_limits`]: cgroup, device, `KEY=LIMIT`...
    pub fn parse(entry: &str) -> Vec<Self> {
        let words: Vec<&str> = entry.split(' ').collect();
        let first = words.iter().position(|word| word.contains('=')).unwrap_or(words.len());
        let [names @ .., device] = &words[..first] else { return Vec::new() };
        let limit = |word: &&str| {
            let (key, limit) = word.split_once('=')?;
            Some(Self {
                cgroup: names.join(" "),
                device: (*device).to_string(),
                key: key.into(),
                limit: limit.parse().ok()?,
                ..Self::default()
            })
        };
        words[first..].iter().filter_map(limit).filter(|limit| limit.limit > 0.0).collect()
    }

    /// The cgroup's rate, where its I/O is counted.
    fn own_rate(&self, then: &CgroupSample, now: &CgroupSample, elapsed_ns: u64) -> Option<f64> {
        let is_of = |io: &&CgroupIo| io.cgroup == self.cgroup && io.device == self.device;
        let of = |sample: &CgroupSample| {
            let io = sample.io_done.iter().find(is_of)?;
            Some(match self.key.as_str() {
                "riops" => io.reads,
                "wiops" => io.writes,
                "rbps" => io.read_bytes,
                _ => io.write_bytes,
            })
        };
        Some(per_second(of(now)?.saturating_sub(of(then)?), elapsed_ns))
    }

    fn rate(&self, disk: &DiskRates) -> Option<f64> {
        match self.key.as_str() {
            "riops" => Some(disk.read.ios + disk.read.merges),
            "wiops" => Some(disk.write.ios + disk.write.merges),
            "rbps" => Some(disk.read.bytes),
            "wbps" => Some(disk.write.bytes),
            _ => None,
        }
    }
}

/// Adds the rates of `disk` between two samples.
pub(super) fn add(
    totals: &mut BTreeMap<String, IoLimit>,
    (then, now): (&Sample, &Sample),
    disk: &DiskRates,
) {
    let cgroup = |sample: &Sample| sample.machine.system.as_ref()?.cgroup.clone();
    let Some(after) = cgroup(now).filter(|cgroup| !cgroup.io_limits.is_empty()) else { return };
    let before = cgroup(then).unwrap_or_default();
    let elapsed_ns = now.elapsed_ns.saturating_sub(then.elapsed_ns);
    for limit in after.io_limits.iter().flat_map(|entry| IoLimit::parse(entry)) {
        if limit.device != disk.name {
            continue;
        }
        let own = limit.own_rate(&before, &after, elapsed_ns);
        let Some(rate) = own.or_else(|| limit.rate(disk)) else { continue };
        let part = rate / limit.limit;
        let name = format!("{} {} {}={}", limit.cgroup, limit.device, limit.key, limit.limit);
        let known = totals.entry(name).or_insert(limit);
        known.is_of_cgroup |= own.is_some();
        known.active += u32::from(part >= ACTIVE_MIN);
        if REACHED.contains(&part) {
            if known.reached == 0 {
                known.since_ns = then.elapsed_ns;
            }
            known.reached += 1;
            known.rates += rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{MachineSample, SystemSample};

    fn sample(second: u64, cgroup: CgroupSample) -> Sample {
        let system = SystemSample { cgroup: Some(cgroup), ..SystemSample::default() };
        let machine = MachineSample { system: Some(system), ..MachineSample::default() };
        Sample { elapsed_ns: second * 1_000_000_000, machine, ..Sample::default() }
    }

    #[test]
    fn the_cgroups_own_rate_counts_where_it_is_known() {
        let at = |second: u64| {
            let io = CgroupIo {
                cgroup: "/a".into(),
                device: "vda".into(),
                reads: 1000 * second,
                ..CgroupIo::default()
            };
            let io_limits = vec!["/a vda riops=1000".into()];
            sample(second, CgroupSample { io_limits, io_done: vec![io], ..CgroupSample::default() })
        };
        let mut disk = DiskRates { name: "vda".into(), ..DiskRates::default() };
        // Other programs read as well.
        disk.read.ios = 5000.0;
        let mut totals = BTreeMap::new();
        add(&mut totals, (&at(1), &at(3)), &disk);
        let limit = &totals["/a vda riops=1000"];
        assert_eq!((limit.reached, limit.mean(), limit.is_of_cgroup), (1, 1000.0, true));
        assert_eq!(limit.since_ns, 1_000_000_000);
    }

    #[test]
    fn limits_are_parsed_and_counted() {
        let io_limits = vec!["/a b vda riops=1000 wbps=2000000".to_string(), "/ vdb rbps=0".into()];
        let sample = sample(1, CgroupSample { io_limits, ..CgroupSample::default() });
        let mut totals = BTreeMap::new();
        for reads in [10.0, 990.0, 1010.0, 500.0] {
            let mut disk = DiskRates { name: "vda".into(), ..DiskRates::default() };
            disk.read.ios = reads;
            add(&mut totals, (&Sample::default(), &sample), &disk);
        }
        let all: Vec<_> = totals
            .values()
            .map(|l| (l.cgroup.as_str(), l.key.as_str(), l.active, l.reached))
            .collect();
        assert_eq!(all, [("/a b", "riops", 3, 2), ("/a b", "wbps", 0, 0)]);
        assert_eq!(totals["/a b vda riops=1000"].mean(), 1000.0);
        assert_eq!(totals["/a b vda wbps=2000000"].reached_share(), 0.0);
    }
}
