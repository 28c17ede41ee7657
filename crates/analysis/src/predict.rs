//! What a described machine would deliver: what every part could sustain of a workload, as a flow from the disks to the
//! CPUs. All figures are bounds, because what is known of a machine that nobody has yet are bounds.

mod next;
#[cfg(test)]
mod tests;

use crate::topology::data_rate;
use fathom_model::limit::is_large;
use fathom_model::prediction::{Disks, Machine, Part, PartLoad, Prediction, Range, Workload};
use fathom_model::topology::{LinkMode, LinkStandard};
use fathom_model::{Dir, list, units};

/// PCIe max payload size that most platforms use, in bytes.
const PAYLOAD_BYTES: u32 = 256;

/// Cycles per I/O that are measured with small I/Os hold up to this size: beyond it, they grow with the pages of an I/O.
const SMALL_BYTES_MAX: u64 = 16 << 10;

const DISKS: &str = "the disks";
const MEMORY: &str = "memory";
const QUEUE_DEPTH: &str = "the queue depth";
const SCHEDULER: &str = "the I/O scheduler";

/// The name of the links of disks.
fn links_of(disks: &str) -> String {
    format!("the PCIe links of {disks}")
}

/// Predicts what `machine`, whose parts form trees, delivers of `workload`.
pub fn predict(machine: &Machine, workload: &Workload) -> Prediction {
    let mut prediction = estimate(machine, workload);
    prediction.next_steps = next::steps(machine, &prediction);
    prediction
}

/// The same without next steps.
fn estimate(machine: &Machine, workload: &Workload) -> Prediction {
    let mut flow = Flow { machine, workload, loads: Vec::new(), unknown: Vec::new() };
    let mut disks = Carried::none();
    for part in machine.parts.iter().filter(|part| part.on.is_none()) {
        disks.add(flow.part(part));
    }
    for own in machine.disks.iter().filter(|disks| disks.on.is_none()) {
        disks.add(flow.disks(own));
    }
    let parts = std::mem::take(&mut flow.loads);
    let mut shared = vec![flow.cpus(), flow.memory(), flow.queue_depth()];
    shared.retain(|load| load.most_iops.is_some());
    let mut limits = disks.clone();
    for load in &shared {
        limits.cap(&load.name, load.most_iops.unwrap_or_default());
    }
    let (iops, limited_by) = match limits.iops.low.is_finite() {
        true => (
            Range { low: flow.least(limits.iops.low), ..limits.iops },
            together(machine, limits.names()),
        ),
        false => (Range { low: 0.0, high: f64::INFINITY }, Vec::new()),
    };
    let passes = iops.with(disks.iops, share);
    let known = |iops: Range| Some(iops).filter(|iops| iops.high.is_finite());
    let scale = |load: PartLoad| PartLoad {
        iops: load.iops.map(|own| own.with(passes, |own, share| own * share)).and_then(known),
        ..load
    };
    let all = shared.into_iter().map(|load| PartLoad { iops: Some(iops), ..load });
    Prediction {
        workload: workload.clone(),
        iops,
        bytes_per_second: iops.map(|iops| iops * workload.bs as f64),
        limited_by,
        parts: all.chain(parts.into_iter().map(scale)).collect(),
        next_steps: Vec::new(),
        unknown: flow.unknown,
    }
}

/// The part of what is offered that passes a limit. Of disks without a known limit, nobody knows.
fn share(passes: f64, offered: f64) -> f64 {
    if offered > passes && offered.is_finite() { passes / offered } else { 1.0 }
}

/// The names with those of disks as one, if all are among them.
fn together(machine: &Machine, mut names: Vec<String>) -> Vec<String> {
    let is_disk = |name: &String| machine.disks.iter().any(|disks| disks.name == *name);
    let count = names.iter().filter(|name| is_disk(name)).count();
    if count > 1 && count == machine.disks.len() {
        let first = names.iter().position(is_disk).unwrap_or_default();
        names[first] = DISKS.to_string();
        names.retain(|name| !is_disk(name));
    }
    names
}

/// I/Os per second that reach a place, and what limits them at the lower and at the upper bound.
#[derive(Debug, Clone, Default)]
struct Carried {
    iops: Range,
    limited_by: [Vec<String>; 2],
}

impl Carried {
    fn none() -> Self {
        Self { iops: Range::exactly(0.0), ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.iops = self.iops.with(other.iops, |a, b| a + b);
        for (own, other) in self.limited_by.iter_mut().zip(other.limited_by) {
            own.extend(other);
        }
    }

    /// Limits both bounds to those of a part.
    fn cap(&mut self, name: &str, most: Range) {
        let bounds = [(self.iops.low, most.low), (self.iops.high, most.high)];
        for (limits, (iops, most)) in self.limited_by.iter_mut().zip(bounds) {
            if most < iops {
                *limits = vec![name.to_string()];
            }
        }
        self.iops = self.iops.min(most);
    }

    /// What limits at either bound, at the lower one first.
    fn names(&self) -> Vec<String> {
        list::distinct(self.limited_by.iter().flatten().cloned())
    }
}

struct Flow<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    loads: Vec<PartLoad>,
    unknown: Vec<String>,
}

impl Flow<'_> {
    /// Enters a part, then what is attached to it.
    fn part(&mut self, part: &Part) -> Carried {
        let at = self.loads.len();
        let link = part.pcie.map(|link| self.link(link.0));
        let most = match (part.bandwidth, link) {
            (Some(own), link) => {
                let own = own.map(|bytes| bytes / self.direction_bytes());
                Some(link.map_or(own, |link| own.min(Range::exactly(link))))
            }
            (None, link) => link.map(Range::exactly),
        };
        if most.is_none() {
            self.unknown.push(format!("bandwidth of {}", part.name));
        }
        let because = match (part.pcie, part.bandwidth) {
            (Some(link), None) => format!("PCIe {}", link.name()),
            (Some(link), Some(_)) => format!("bandwidth, or PCIe {}", link.name()),
            (None, _) => "bandwidth".to_string(),
        };
        self.loads.push(PartLoad {
            name: part.name.clone(),
            on: part.on.clone(),
            most_iops: most,
            because,
            source: part.source.clone(),
            ..PartLoad::default()
        });
        let (machine, name) = (self.machine, Some(&part.name));
        let mut below = Carried::none();
        for child in machine.parts.iter().filter(|child| child.on.as_ref() == name) {
            below.add(self.part(child));
        }
        for disks in machine.disks.iter().filter(|disks| disks.on.as_ref() == name) {
            below.add(self.disks(disks));
        }
        let offered = below.iops;
        below.cap(&part.name, most.unwrap_or_default());
        let passes = below.iops.with(offered, share);
        for load in &mut self.loads[at + 1..] {
            load.iops = load.iops.map(|own| own.with(passes, |own, share| own * share));
        }
        self.loads[at].iops = Some(below.iops);
        below
    }

    fn disks(&mut self, disks: &Disks) -> Carried {
        let count = f64::from(disks.count);
        let mut own = Carried::default();
        let mut because = String::new();
        let link = disks.pcie.map(|link| (Range::exactly(self.link(link.0)), link));
        let scheduler = self.workload.scheduler_cycles.zip(self.machine.cpu.clock_ghz);
        let limits = [
            (disks.name.clone(), self.device(disks), "the disks themselves".to_string()),
            (
                links_of(&disks.name),
                link.map(|(most, _)| most),
                link.map_or_else(String::new, |(_, link)| format!("PCIe {}", link.name())),
            ),
            (
                SCHEDULER.to_string(),
                scheduler.map(|(cycles, clock)| clock.map(|ghz| ghz * 1e9).divided_by(cycles)),
                "the I/O scheduler's lock of each disk".to_string(),
            ),
        ];
        for (name, most, why) in limits {
            let Some(most) = most.map(|most| most.map(|iops| iops * count)) else { continue };
            if most.high < own.iops.high || because.is_empty() {
                because = why;
            }
            own.cap(&name, most);
        }
        let most_iops = own.iops.low.is_finite().then_some(own.iops);
        self.loads.push(PartLoad {
            name: disks.name.clone(),
            on: disks.on.clone(),
            most_iops,
            iops: Some(own.iops),
            because,
            source: disks.source.clone(),
        });
        own
    }

    /// I/Os per second that one disk is specified for: of data sheets, random I/Os are limited by both of their figures.
    fn device(&mut self, disks: &Disks) -> Option<Range> {
        let (rw, bs) = (self.workload.rw, self.workload.bs as f64);
        // Small random I/Os are limited by their number, others by their bytes.
        let is_counted = rw.is_random() && !is_large(bs);
        let mut time = Range::exactly(0.0);
        for (dir, percent) in rw.dirs() {
            let (iops, bandwidth, noun) = match dir {
                Dir::Read => (disks.read_iops, disks.read_bw, "read"),
                _ => (disks.write_iops, disks.write_bw, "write"),
            };
            let (needed, missing) = if is_counted { (iops, "iops") } else { (bandwidth, "bw") };
            if needed.is_none() {
                self.unknown.push(format!("{noun}_{missing} of {}", disks.name));
            }
            let count = iops.filter(|_| rw.is_random());
            let bytes = bandwidth.map(|bandwidth| bandwidth.map(|bandwidth| bandwidth / bs));
            let most = count.map_or(bytes, |count| Some(bytes.map_or(count, |b| count.min(b))));
            // What is not known takes no time: the rest is a bound all the same.
            let Some(most) = most else { continue };
            // The time of one I/O of the mix, whose bounds are the other way round.
            let share = f64::from(*percent) / 100.0;
            time.low += share / most.high;
            time.high += share / most.low;
        }
        (time.high > 0.0).then(|| Range::exactly(1.0).divided_by(time))
    }

    /// I/Os per second that a link carries.
    fn link(&self, mode: LinkMode) -> f64 {
        data_rate(LinkStandard::Pcie, mode, Some(PAYLOAD_BYTES)) / self.direction_bytes()
    }

    /// Bytes of an I/O in the busier direction, on average.
    fn direction_bytes(&self) -> f64 {
        let shares = self.workload.rw.dirs().iter().map(|(_, percent)| *percent);
        f64::from(shares.max().unwrap_or(100)) / 100.0 * self.workload.bs as f64
    }

    fn workers(&self) -> Option<u32> {
        self.workload.workers.or(self.machine.cpu.cores)
    }

    fn cpus(&mut self) -> PartLoad {
        let cpu = &self.machine.cpu;
        let used = self.workers().map(|workers| workers.min(cpu.cores.unwrap_or(workers)));
        let bs = self.workload.bs;
        let is_small = bs <= SMALL_BYTES_MAX;
        let of_cpu = cpu.cycles_per_io.filter(|_| is_small);
        let cycles = self.workload.cycles_per_io.or(of_cpu);
        let cycles_of = match is_small {
            true => "cycles_per_io of the CPUs".to_string(),
            false => format!("cycles_per_io of {} I/Os", units::bytes(bs)),
        };
        let needed = [
            (used.is_some(), "cores of the CPUs".to_string()),
            (cpu.clock_ghz.is_some(), "clock_ghz of the CPUs".to_string()),
            (cycles.is_some(), cycles_of),
        ];
        let missing = needed.into_iter().filter(|(given, _)| !given).map(|(_, name)| name);
        let most = used.zip(cpu.clock_ghz).zip(cycles);
        let most = most.map(|((cpus, clock), cycles)| {
            clock.map(|ghz| ghz * 1e9 * f64::from(cpus)).divided_by(cycles)
        });
        self.unknown.extend(missing);
        let name = match (used, cpu.cores) {
            (Some(used), Some(cores)) if used < cores => match used {
                1 => "the worker's CPU".to_string(),
                used => format!("the CPUs of {used} workers"),
            },
            _ => "the CPUs".to_string(),
        };
        let because = "clock ÷ cycles per I/O".to_string();
        PartLoad {
            name,
            most_iops: most,
            because,
            source: cpu.source.clone(),
            ..PartLoad::default()
        }
    }

    fn memory(&self) -> PartLoad {
        let bytes = self.workload.bs as f64;
        let memory = self.machine.memory.as_ref();
        PartLoad {
            name: MEMORY.to_string(),
            most_iops: memory.map(|memory| memory.bandwidth.map(|all| all / bytes)),
            because: "its bandwidth, each byte once".to_string(),
            source: memory.map_or_else(String::new, |memory| memory.source.clone()),
            ..PartLoad::default()
        }
    }

    /// I/Os in flight, and the mean latency of one alone over all disks, in seconds.
    fn in_flight(&self) -> Option<(f64, Range)> {
        let depth = f64::from(self.workload.iodepth?) * f64::from(self.workers()?);
        let (mut sum, mut count) = (Range::exactly(0.0), 0.0);
        for disks in &self.machine.disks {
            let each = f64::from(disks.count);
            sum = sum.with(disks.latency_us?, |sum, latency| sum + latency * each);
            count += each;
        }
        (count > 0.0).then(|| (depth, sum.map(|us| us / count / 1e6)))
    }

    /// Little's law: what is in flight, divided by the latency of one alone.
    fn queue_depth(&mut self) -> PartLoad {
        let found = self.in_flight();
        let disks = &self.machine.disks;
        let lacks_latency = disks.is_empty() || disks.iter().any(|own| own.latency_us.is_none());
        if lacks_latency && self.workload.iodepth.is_some() {
            self.unknown.push("latency_us of all disks".to_string());
        }
        let most = found.map(|(depth, latency)| Range::exactly(depth).divided_by(latency));
        let because = found.map(|(depth, _)| format!("{depth} in flight ÷ latency of one alone"));
        PartLoad {
            name: QUEUE_DEPTH.to_string(),
            most_iops: most,
            because: because.unwrap_or_default(),
            ..PartLoad::default()
        }
    }

    /// The least that comes of `most` I/Os per second with what is in flight: each may find all others before it in the
    /// queue of what limits it (asymptotic bounds of closed queueing networks: Lazowska et al., Quantitative System
    /// Performance, 1984, chapter 5).
    fn least(&self, most: f64) -> f64 {
        self.in_flight().map_or(most, |(depth, latency)| {
            most.min(depth / (latency.high + (depth - 1.0) / most))
        })
    }
}

/// A rate in the unit in which people give it for such I/Os: `1.2M IOPS`, `66 GiB/s`.
pub fn shown_rate(iops: f64, block_bytes: u64) -> String {
    if is_large(block_bytes as f64) {
        units::bandwidth(iops * block_bytes as f64)
    } else {
        format!("{} IOPS", units::count(iops))
    }
}
