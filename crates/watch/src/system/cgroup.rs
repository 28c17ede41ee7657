//! cgroup limits that apply to a process (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of
//! the kernel).

#[cfg(test)]
mod tests;

use crate::proc_file::PinnedProcFile;
use fathom_model::watch::{CgroupIo, CgroupSample};
use fathom_sys::Roots;
use fathom_sys::cgroup::{self, Hierarchy};
use fathom_sys::device::{Node, parse_number};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// A bit of the flags in /proc/PID/stat (include/linux/sched.h).
const PF_EXITING: u64 = 0x4;

#[derive(Debug)]
pub(super) struct Cgroups {
    roots: Roots,
    membership: PinnedProcFile,
    groups: String,
    path: String,
    /// The cgroups and their ancestors, innermost first within a hierarchy.
    levels: Vec<CgroupDir>,
}

impl Cgroups {
    pub fn open(proc: &Path, sys: &Path, pid: Option<i32>) -> io::Result<Self> {
        let pid = pid.map_or_else(|| "self".to_string(), |pid| pid.to_string());
        Ok(Self {
            membership: PinnedProcFile::open(proc.join(pid).join("cgroup"))?,
            roots: Roots { proc: proc.into(), sys: sys.into() },
            groups: String::new(),
            path: String::new(),
            levels: Vec::new(),
        })
    }

    /// The current limits; `None` if no cgroup of the process is mounted.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Option<CgroupSample> {
        // cgroup v1 shows the root for an exiting process; earlier values remain true.
        let groups = self.membership.read(buffer).map(Cow::into_owned);
        if let Ok(groups) = groups
            && groups != self.groups
            && (self.groups.is_empty() || !self.is_exiting())
        {
            self.groups = groups;
            self.resolve();
        }
        let mut sample = CgroupSample { path: self.path.clone(), ..CgroupSample::default() };
        for level in &self.levels {
            level.add_to(&mut sample, buffer);
        }
        (!self.levels.is_empty()).then_some(sample)
    }

    /// Whether the process has begun to exit: it is a zombie only once its memory has been freed.
    fn is_exiting(&self) -> bool {
        let stat = std::fs::read(self.membership.path().with_file_name("stat")).unwrap_or_default();
        let name_end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
        let text = String::from_utf8_lossy(stat.get(name_end..).unwrap_or_default());
        let flags =
            text.split_ascii_whitespace().nth(7).and_then(|flags| flags.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & PF_EXITING != 0)
    }

    fn resolve(&mut self) {
        let all = cgroup::hierarchies(&self.roots, &self.groups);
        let level = |hierarchy, dir| CgroupDir::open(hierarchy, dir, &self.roots);
        let levels = all.iter().flat_map(|one| one.groups().map(move |dir| level(one, dir)));
        self.levels = levels.filter(CgroupDir::has_files).collect();
        let limits_cpu = |one: &&Hierarchy| !one.is_v2 && one.has("cpu");
        let path = all.iter().find(limits_cpu).or(all.last());
        self.path = path.map_or_else(String::new, |hierarchy| hierarchy.path.clone());
    }
}

#[derive(Debug)]
struct CgroupDir {
    name: String,
    roots: Roots,
    files: Vec<(PinnedProcFile, Put)>,
}

#[derive(Debug, Default)]
struct LevelLimits {
    quota_us: Option<f64>,
    period_us: Option<f64>,
    throttled_periods: Option<u64>,
    throttled_us: Option<u64>,
    memory_limit: Option<u64>,
    memory_used: Option<u64>,
    memory_hits: Option<u64>,
    memory_refaults: Option<u64>,
    memory_stalled_us: Option<u64>,
    io: Vec<(String, String)>,
    io_v1: bool,
    io_done: Vec<CgroupIo>,
    /// Device or `default`, and settings.
    io_control: Vec<(String, String)>,
}

/// Its counters are costly to read: after the limits, and only where there is one.
const MEMORY_STAT: &str = "memory.stat";

type Put = fn(&mut LevelLimits, &str);

const VERSION_2: &[(&str, Put)] = &[
    ("cpu.max", |limits, text| {
        let mut words = text.split_ascii_whitespace();
        limits.quota_us = words.next().and_then(|word| word.parse().ok());
        limits.period_us = words.next().and_then(|word| word.parse().ok());
    }),
    ("cpu.stat", |limits, text| {
        limits.throttled_periods = value(text, "nr_throttled");
        limits.throttled_us = value(text, "throttled_usec");
    }),
    ("memory.max", |limits, text| limits.limit_memory(text)),
    ("memory.high", |limits, text| limits.limit_memory(text)),
    ("memory.current", |limits, text| limits.memory_used = text.trim_ascii().parse().ok()),
    ("memory.events.local", |limits, text| {
        let hits = [value(text, "max"), value(text, "high")];
        limits.memory_hits = hits.into_iter().flatten().reduce(u64::saturating_add);
    }),
    (MEMORY_STAT, |limits, text| limits.count_refaults(text, "")),
    ("memory.pressure", |limits, text| {
        let some = text.lines().find_map(|line| line.strip_prefix("some ")?.split("total=").nth(1));
        limits.memory_stalled_us = some.and_then(|total| total.trim().parse().ok());
    }),
    ("io.max", |limits, text| {
        for (device, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            let set = rest.split_ascii_whitespace().filter(|limit| !limit.ends_with("=max"));
            set.for_each(|limit| limits.limit_io(device, limit));
        }
    }),
    ("io.stat", |limits, text| {
        for (device, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            for (key, count) in rest.split(' ').filter_map(|word| word.split_once('=')) {
                limits.count_io(device, key, count);
            }
        }
    }),
    ("io.latency", |limits, text| limits.control_io(text, None)),
    ("io.weight", |limits, text| limits.control_io(text, Some("weight"))),
    ("io.bfq.weight", |limits, text| limits.control_io(text, Some("bfq_weight"))),
    // In the root only; lists devices for which it is configured.
    ("io.cost.qos", |limits, text| limits.control_io(text, None)),
];

/// Files of cgroup v1, with their controllers.
const VERSION_1: &[(&str, &str, Put)] = &[
    ("cpu", "cpu.cfs_quota_us", |limits, text| {
        // -1 means unlimited.
        let quota: Option<f64> = text.trim_ascii().parse().ok();
        limits.quota_us = quota.filter(|quota| *quota >= 0.0);
    }),
    ("cpu", "cpu.cfs_period_us", |limits, text| limits.period_us = text.trim_ascii().parse().ok()),
    ("cpu", "cpu.stat", |limits, text| {
        limits.throttled_periods = value(text, "nr_throttled");
        limits.throttled_us = value(text, "throttled_time").map(|ns| ns / 1000);
    }),
    ("memory", "memory.limit_in_bytes", |limits, text| limits.limit_memory(text)),
    ("memory", "memory.usage_in_bytes", |limits, text| {
        limits.memory_used = text.trim_ascii().parse().ok();
    }),
    ("memory", "memory.failcnt", |limits, text| {
        limits.memory_hits = text.trim_ascii().parse().ok()
    }),
    ("memory", MEMORY_STAT, |limits, text| limits.count_refaults(text, "total_")),
    ("blkio", "blkio.throttle.read_bps_device", |limits, text| limits.throttle(text, "rbps")),
    ("blkio", "blkio.throttle.write_bps_device", |limits, text| limits.throttle(text, "wbps")),
    ("blkio", "blkio.throttle.read_iops_device", |limits, text| limits.throttle(text, "riops")),
    ("blkio", "blkio.throttle.write_iops_device", |limits, text| limits.throttle(text, "wiops")),
    ("blkio", "blkio.throttle.io_serviced_recursive", |limits, text| {
        limits.count_io_v1(text, "rios", "wios");
    }),
    ("blkio", "blkio.throttle.io_service_bytes_recursive", |limits, text| {
        limits.count_io_v1(text, "rbytes", "wbytes");
    }),
    ("blkio", "blkio.bfq.weight", |limits, text| {
        limits.control_io(&format!("default {text}"), Some("bfq_weight"));
    }),
];

impl CgroupDir {
    pub fn open(hierarchy: &Hierarchy, dir: &Path, roots: &Roots) -> Self {
        let open = |file: &str, put: Put| Some((PinnedProcFile::open(dir.join(file)).ok()?, put));
        let files = if hierarchy.is_v2 {
            VERSION_2.iter().filter_map(|(file, put)| open(file, *put)).collect()
        } else {
            let mine = VERSION_1.iter().filter(|(controller, ..)| hierarchy.has(controller));
            mine.filter_map(|(_, file, put)| open(file, *put)).collect()
        };
        Self { name: hierarchy.name(dir), roots: roots.clone(), files }
    }

    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Combines the current values with those of the descendants in `sample`; no effect if the
    /// cgroup has been removed.
    pub fn add_to(&self, sample: &mut CgroupSample, buffer: &mut Vec<u8>) {
        let mut limits = LevelLimits::default();
        for (file, put) in &self.files {
            if file.path().ends_with(MEMORY_STAT) && limits.memory_limit.is_none() {
                continue;
            }
            if let Ok(text) = file.read(buffer) {
                put(&mut limits, &text);
            }
        }
        let device = |number: &str| device_name(&self.roots, number);
        let words = |(number, limits): &(String, String)| {
            format!("{} {} {limits}", self.name, device(number))
        };
        sample.io_limits.extend(limits.io.iter().map(words));
        sample.io_limits_v1 |= limits.io_v1;
        let done =
            limits.io_done.iter().filter(|done| limits.io.iter().any(|io| io.0 == done.device));
        sample.io_done.extend(done.map(|done| CgroupIo {
            cgroup: self.name.clone(),
            device: device(&done.device),
            ..done.clone()
        }));
        sample.io_control.extend(limits.io_control.iter().map(words));
        limits.add_to(sample);
    }
}

impl LevelLimits {
    fn add_to(&self, sample: &mut CgroupSample) {
        let period = self.period_us.filter(|period| *period > 0.0);
        let cpu = self.quota_us.zip(period).map(|(quota, period)| quota / period);
        sample.cpu_limit = lowest(sample.cpu_limit, cpu);
        sum(&mut sample.throttled_periods, self.throttled_periods);
        sum(&mut sample.throttled_us, self.throttled_us);
        sum(&mut sample.memory_hits, self.memory_hits);
        let limit = lowest(sample.memory_limit, self.memory_limit);
        if limit != sample.memory_limit || sample.memory_used.is_none() {
            sample.memory_used = self.memory_used;
            sample.memory_refaults = self.memory_refaults;
            sample.memory_stalled_us = self.memory_stalled_us;
        }
        sample.memory_limit = limit;
    }

    /// Unlimited is `max` in v2, about 2^63 in v1.
    fn limit_memory(&mut self, text: &str) {
        let limit = text.trim_ascii().parse().ok().filter(|bytes: &u64| *bytes < 1 << 60);
        self.memory_limit = lowest(self.memory_limit, limit);
    }

    fn count_refaults(&mut self, text: &str, prefix: &str) {
        let of = |kind| value(text, &format!("{prefix}workingset_refault_{kind}"));
        self.memory_refaults = of("anon").into_iter().chain(of("file")).reduce(u64::saturating_add);
    }

    /// Lines such as `254:0 1048576`.
    fn throttle(&mut self, text: &str, what: &str) {
        for (device, limit) in text.lines().filter_map(|line| line.split_once(' ')) {
            self.limit_io(device, &format!("{what}={limit}"));
            self.io_v1 = true;
        }
    }

    /// Lines such as `254:0 target=100`; where they hold only a number, it is that of `key`.
    fn control_io(&mut self, text: &str, key: Option<&str>) {
        for (device, set) in text.lines().filter_map(|line| line.split_once(' ')) {
            let set = key.map_or_else(|| set.to_string(), |key| format!("{key}={}", set.trim()));
            self.io_control.push((device.to_string(), set));
        }
    }

    /// Lines such as `254:0 Read 12`.
    fn count_io_v1(&mut self, text: &str, reads: &str, writes: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                [device, "Read", count] => self.count_io(device, reads, count),
                [device, "Write", count] => self.count_io(device, writes, count),
                _ => {}
            }
        }
    }

    fn count_io(&mut self, device: &str, key: &str, count: &str) {
        let index = self.io_done.iter().position(|known| known.device == device);
        let index = index.unwrap_or_else(|| {
            self.io_done.push(CgroupIo { device: device.into(), ..CgroupIo::default() });
            self.io_done.len() - 1
        });
        let done = &mut self.io_done[index];
        let field = match key {
            "rios" => &mut done.reads,
            "wios" => &mut done.writes,
            "rbytes" => &mut done.read_bytes,
            "wbytes" => &mut done.write_bytes,
            _ => return,
        };
        *field = count.parse().unwrap_or(0);
    }

    fn limit_io(&mut self, device: &str, limit: &str) {
        match self.io.iter_mut().find(|(known, _)| known == device) {
            Some((_, limits)) => {
                limits.push(' ');
                limits.push_str(limit);
            }
            None => self.io.push((device.to_string(), limit.to_string())),
        }
    }
}

fn lowest<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn sum(total: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *total = Some(total.unwrap_or(0).saturating_add(more));
    }
}

fn value(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim_ascii().parse().ok()
}

fn device_name(roots: &Roots, number: &str) -> String {
    let node = parse_number(number).and_then(|number| Node::by_number(roots, number));
    node.map_or_else(|| number.to_string(), |node| node.name())
}
