//! What CPUs or processes executed between two samples.

use super::per_second;
use crate::derive::Ipc;
use fathom_model::watch::{CacheEvent, Counted, CountersSample, Executed};
use serde::Serialize;

/// What was counted between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CounterRates {
    pub all: CpuWork,
    /// Each CPU, or each process with all that it started.
    pub of: Vec<WorkOf>,
}

/// The work of one CPU or process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkOf {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(flatten)]
    pub work: CpuWork,
}

/// Work as the CPU counts it. Instructions and cycles are of both modes, or of user mode alone where
/// `ipc.all` is absent and `ipc.user` is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuWork {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    pub ipc: Ipc,
    /// Cycles per nanosecond of busy time: the clock at which it ran, in GHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ghz: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_event: Option<CacheEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_references: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_misses: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_mpki: Option<f64>,
    /// Part of the time in which instructions were counted, in percent; rates per second are an
    /// estimate where it is less than 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<f64>,
    /// Per I/O completed by whole disks in the interval; only for the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_io: Option<PerIo>,
}

/// What an I/O of a disk took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PerIo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
}

/// What is known of the interval otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CountedIos {
    pub elapsed_ns: u64,
    /// I/Os of whole disks.
    pub disk_ios: f64,
}

/// Work between two samples. `busy` returns the busy time of a CPU in nanoseconds, or of all of them
/// for `None`.
pub(super) fn rates(
    earlier: &CountersSample,
    later: &CountersSample,
    meanwhile: CountedIos,
    busy: impl Fn(Option<u32>) -> Option<f64>,
) -> CounterRates {
    // Nobody knows which of the I/Os belong to a process, or to work that a CPU did.
    let alone = CountedIos { disk_ios: 0.0, ..meanwhile };
    let is_machine = later.of.iter().all(|of| of.pid.is_none());
    let meanwhile = if is_machine { meanwhile } else { alone };
    let mut all: Option<Counted> = None;
    let mut of = Vec::with_capacity(later.of.len());
    for now in &later.of {
        let same = |then: &&Counted| (then.cpu, then.pid) == (now.cpu, now.pid);
        let Some(then) = earlier.of.iter().find(same) else { continue };
        let counted = now.combine(then, u64::saturating_sub);
        all = Some(all.map_or(counted, |all| all.combine(&counted, u64::saturating_add)));
        let busy_ns = counted.task_clock_ns.map_or_else(|| busy(now.cpu), |ns| Some(ns as f64));
        of.push(WorkOf { cpu: now.cpu, pid: now.pid, work: work(&counted, alone, busy_ns) });
    }
    let all = all.unwrap_or_default();
    let busy_ns = all.task_clock_ns.map_or_else(|| busy(None), |ns| Some(ns as f64));
    CounterRates { all: work(&all, meanwhile, busy_ns), of }
}

fn work(counted: &Counted, meanwhile: CountedIos, busy_ns: Option<f64>) -> CpuWork {
    let rate = |count: Option<u64>| Some(per_second(0, count?, meanwhile.elapsed_ns));
    let seconds = meanwhile.elapsed_ns as f64 / 1e9;
    let each_second =
        |total: Option<f64>| total.map(|total| if seconds > 0.0 { total / seconds } else { 0.0 });
    let (user, kernel) = (scaled(counted.user), scaled(counted.kernel));
    let sum = |index: usize| Some(user?[index] + kernel.map_or(0.0, |kernel| kernel[index]));
    let (instructions, cycles) = (sum(0), sum(1));
    let cache = counted.cache.and_then(|cache| {
        let scale = cache.scale()?;
        Some((cache.references as f64 * scale, cache.misses as f64 * scale))
    });
    let misses = cache.map(|(_, misses)| misses);
    CpuWork {
        cpus: rate(counted.task_clock_ns).map(|ns| ns / 1e9),
        context_switches: rate(counted.context_switches),
        page_faults: rate(counted.page_faults),
        instructions: each_second(instructions),
        cycles: each_second(cycles),
        ipc: Ipc::of(user, kernel),
        ghz: ratio(cycles, busy_ns),
        cache_event: cache.and(counted.cache).map(|cache| cache.event),
        cache_references: each_second(cache.map(|(references, _)| references)),
        cache_misses: each_second(misses),
        cache_mpki: ratio(misses, instructions).map(|ratio| ratio * 1000.0),
        counted: counted.user.and_then(|user| part(&user)),
        per_io: (meanwhile.disk_ios > 0.0).then(|| {
            let each = |total: Option<f64>| total.map(|total| total / meanwhile.disk_ios);
            PerIo { instructions: each(instructions), cycles: each(cycles) }
        }),
    }
}

/// Instructions and cycles for the whole time.
fn scaled(executed: Option<Executed>) -> Option<[f64; 2]> {
    let executed = executed?;
    let scale = executed.scale()?;
    Some([executed.instructions, executed.cycles].map(|value| value as f64 * scale))
}

fn part(executed: &Executed) -> Option<f64> {
    let share = executed.running_ns as f64 * 100.0 / executed.enabled_ns as f64;
    (executed.enabled_ns > 0).then(|| share.min(100.0))
}

fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    of.zip(to).filter(|(_, to)| *to > 0.0).map(|(of, to)| of / to)
}
