//! Memory, paging, stalls and limits.

use super::per_second;
use fathom_model::watch::{CgroupSample, MemorySample, PagingSample, Pressure, PressureSample};
use serde::Serialize;

/// What memory is used for, in bytes: used, free, buffers and cache sum to the total, as in `free`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    pub total: u64,
    pub used: u64,
    pub free: u64,
    pub buffers: u64,
    pub cache: u64,
    pub available: u64,
    pub dirty: u64,
    pub writeback: u64,
    pub swap_used: u64,
}

impl MemoryUse {
    pub fn of(sample: &MemorySample) -> Self {
        let cache = sample.cached.saturating_add(sample.slab_reclaimable);
        let rest = sample.free.saturating_add(sample.buffers).saturating_add(cache);
        Self {
            total: sample.total,
            used: sample.total.saturating_sub(rest),
            free: sample.free,
            buffers: sample.buffers,
            cache,
            available: sample.available,
            dirty: sample.dirty,
            writeback: sample.writeback,
            swap_used: sample.swap_total.saturating_sub(sample.swap_free),
        }
    }
}

/// [`PagingRates`] with the counters that it has in common with [`PagingSample`].
macro_rules! paging_rates {
    ($($field:ident)*) => {
        /// Paging and reclaim per second, in pages unless stated otherwise; [`PagingSample`] says of what.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
        pub struct PagingRates {
            /// Bytes read from block devices by anyone.
            pub in_bytes: f64,
            /// Bytes written to block devices by anyone.
            pub out_bytes: f64,
            $(pub $field: f64,)*
        }

        impl PagingRates {
            pub(super) fn between(then: &PagingSample, now: &PagingSample, elapsed_ns: u64) -> Self {
                let rate = |then, now| per_second(then, now, elapsed_ns);
                Self {
                    in_bytes: rate(then.in_kib, now.in_kib) * 1024.0,
                    out_bytes: rate(then.out_kib, now.out_kib) * 1024.0,
                    $($field: rate(then.$field, now.$field),)*
                }
            }
        }
    };
}

paging_rates! {
    swap_in swap_out faults major_faults scan_kswapd scan_direct steal_kswapd steal_direct scan_file steal_file
    refault_file direct_stalls dirtied written oom_kills
}

/// Shares of the time in which tasks were stalled for want of a resource (PSI).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PressureRates {
    pub cpu: StallShares,
    pub memory: StallShares,
    pub io: StallShares,
    pub irq: Option<StallShares>,
}

/// Shares of the time, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StallShares {
    /// At least one task was stalled.
    pub some: f64,
    /// All tasks that were not idle were stalled.
    pub full: f64,
}

impl PressureRates {
    pub(super) fn between(then: &PressureSample, now: &PressureSample, elapsed_ns: u64) -> Self {
        let share = |then: Pressure, now: Pressure| StallShares {
            some: share(then.some_us, now.some_us, elapsed_ns),
            full: share(then.full_us, now.full_us, elapsed_ns),
        };
        Self {
            cpu: share(then.cpu, now.cpu),
            memory: share(then.memory, now.memory),
            io: share(then.io, now.io),
            irq: then.irq.zip(now.irq).map(|(then, now)| share(then, now)),
        }
    }
}

/// How the limits of a control group were felt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CgroupRates {
    pub throttled_periods: Option<f64>,
    /// Time throttled, added up over all CPUs, in percent of one CPU.
    pub throttled: Option<f64>,
    pub memory_hits: Option<f64>,
    pub memory_refaults: Option<f64>,
    /// Time stalled for memory, in percent.
    pub memory_stalled: Option<f64>,
    pub memory_used: Option<f64>,
}

impl CgroupRates {
    pub(crate) fn between(then: &CgroupSample, now: &CgroupSample, elapsed_ns: u64) -> Self {
        let both = |of: fn(&CgroupSample) -> Option<u64>| of(then).zip(of(now));
        let rate = |of| both(of).map(|(then, now)| per_second(then, now, elapsed_ns));
        let throttled = both(|c| c.throttled_us);
        let memory = now.memory_used.zip(now.memory_limit);
        Self {
            throttled_periods: rate(|c| c.throttled_periods),
            throttled: throttled.map(|(then, now)| share(then, now, elapsed_ns)),
            memory_hits: rate(|c| c.memory_hits),
            memory_refaults: rate(|c| c.memory_refaults),
            memory_stalled: both(|c| c.memory_stalled_us)
                .map(|(then, now)| share(then, now, elapsed_ns)),
            memory_used: memory.map(|(used, limit)| used as f64 * 100.0 / limit.max(1) as f64),
        }
    }
}

/// Growth of a counter of microseconds, in percent of the elapsed time.
fn share(then_us: u64, now_us: u64, elapsed_ns: u64) -> f64 {
    per_second(then_us, now_us, elapsed_ns) / 1e4
}
