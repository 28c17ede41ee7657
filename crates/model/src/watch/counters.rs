//! Instructions, cycles and cache misses, from perf events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values since the sampler was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountersSample {
    /// Each CPU; or each process that existed when the sampler was opened, with all threads and
    /// processes that it has created since.
    pub of: Vec<Counted>,
}

/// Counters of a CPU, process or thread. Those that are not supported or not permitted are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// CPU number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Process ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// CPU time in nanoseconds (`task-clock`); absent for CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_clock_ns: Option<u64>,
    /// Context switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<u64>,
    /// Page faults, minor and major.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// In user mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Executed>,
    /// In kernel mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Executed>,
    /// Cache references and misses; of user mode only if the kernel is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheCounts>,
}

impl Counted {
    /// Combines each value with that of `other` by `with`, such as a sum or a difference. Values
    /// absent from either are absent.
    pub fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let one = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| with(a, b));
        let executed = |(a, b): (Executed, Executed)| Executed {
            instructions: with(a.instructions, b.instructions),
            cycles: with(a.cycles, b.cycles),
            enabled_ns: with(a.enabled_ns, b.enabled_ns),
            running_ns: with(a.running_ns, b.running_ns),
        };
        let cache = |(a, b): (CacheCounts, CacheCounts)| CacheCounts {
            event: a.event,
            references: with(a.references, b.references),
            misses: with(a.misses, b.misses),
            enabled_ns: with(a.enabled_ns, b.enabled_ns),
            running_ns: with(a.running_ns, b.running_ns),
        };
        Self {
            cpu: self.cpu,
            pid: self.pid,
            task_clock_ns: one(self.task_clock_ns, other.task_clock_ns),
            context_switches: one(self.context_switches, other.context_switches),
            page_faults: one(self.page_faults, other.page_faults),
            user: self.user.zip(other.user).map(executed),
            kernel: self.kernel.zip(other.kernel).map(executed),
            cache: self.cache.zip(other.cache).filter(|(a, b)| a.event == b.event).map(cache),
        }
    }
}

/// Instructions and cycles, counted simultaneously.
///
/// If `running_ns` is less than `enabled_ns`, the events were multiplexed or counted in windows:
/// totals are estimates, scaled by enabled over running time (perf_event_open(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Executed {
    /// Instructions retired.
    pub instructions: u64,
    /// Unhalted CPU cycles.
    pub cycles: u64,
    /// Time enabled, in nanoseconds; for processes and threads, while they were on-CPU.
    pub enabled_ns: u64,
    /// Time counted, in nanoseconds.
    pub running_ns: u64,
}

impl Executed {
    /// The factor that extrapolates the values to the whole time enabled; `None` if nothing was
    /// counted in it.
    pub fn scale(&self) -> Option<f64> {
        scale(self.enabled_ns, self.running_ns)
    }
}

/// Cache references and misses, counted simultaneously; see [`Executed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCounts {
    /// Event pair.
    pub event: CacheEvent,
    /// References.
    pub references: u64,
    /// Misses.
    pub misses: u64,
    /// Time enabled, in nanoseconds.
    pub enabled_ns: u64,
    /// Time counted, in nanoseconds.
    pub running_ns: u64,
}

impl CacheCounts {
    /// Like [`Executed::scale`].
    pub fn scale(&self) -> Option<f64> {
        scale(self.enabled_ns, self.running_ns)
    }
}

fn scale(enabled_ns: u64, running_ns: u64) -> Option<f64> {
    match (enabled_ns, running_ns) {
        (0, _) => Some(1.0),
        (_, 0) => None,
        // The clocks of several CPUs are read one after the other.
        (enabled, running) => Some((enabled as f64 / running as f64).max(1.0)),
    }
}

/// A pair of cache events, by perf's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheEvent {
    /// Loads that reached the last-level cache.
    #[default]
    #[serde(rename = "LLC-loads")]
    LlcLoads,
    /// The CPU's generic cache event; usually the last level.
    #[serde(rename = "cache-references")]
    CacheReferences,
}

impl CacheEvent {
    /// Its name in perf and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::LlcLoads => "LLC-loads",
            Self::CacheReferences => "cache-references",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_scale_by_enabled_over_running_time() {
        let of = |enabled_ns, running_ns| {
            (
                Executed { enabled_ns, running_ns, ..Executed::default() }.scale(),
                CacheCounts { enabled_ns, running_ns, ..CacheCounts::default() }.scale(),
            )
        };
        assert_eq!(of(50, 50), (Some(1.0), Some(1.0)));
        assert_eq!(of(100, 25), (Some(4.0), Some(4.0)));
        assert_eq!(of(0, 0), (Some(1.0), Some(1.0)));
        assert_eq!(of(100, 0), (None, None));
    }

    #[test]
    fn values_absent_from_either_are_absent() {
        let cache = |event, misses| Some(CacheCounts { event, misses, ..CacheCounts::default() });
        let executed = |cycles| Some(Executed { cycles, ..Executed::default() });
        let a = Counted {
            pid: Some(7),
            page_faults: Some(5),
            context_switches: Some(1),
            user: executed(10),
            cache: cache(CacheEvent::LlcLoads, 3),
            ..Counted::default()
        };
        let b = Counted { context_switches: None, user: executed(4), ..a };
        let sum = a.combine(&b, u64::saturating_add);
        assert_eq!((sum.pid, sum.page_faults, sum.context_switches), (Some(7), Some(10), None));
        assert_eq!((sum.user, sum.cache), (executed(14), cache(CacheEvent::LlcLoads, 6)));
        assert_eq!(b.combine(&a, u64::saturating_sub).user, executed(0));
        let other = Counted { cache: cache(CacheEvent::CacheReferences, 3), ..a };
        assert_eq!(a.combine(&other, u64::saturating_add).cache, None);
    }

    #[test]
    fn events_have_their_perf_names_in_records() {
        for event in [CacheEvent::LlcLoads, CacheEvent::CacheReferences] {
            assert_eq!(serde_json::to_value(event).unwrap(), event.name());
        }
    }
}
