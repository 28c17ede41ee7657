//! Instructions, cycles and cache misses per I/O, from a worker's counters.

use fathom_model::record::{CacheCost, Cost};
use fathom_model::watch::Counted;

#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Ipc {
    /// In both modes; `None` where the kernel's are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<f64>,
}

impl Ipc {
    /// From instructions and cycles in user mode and in the kernel.
    pub(crate) fn of(user: Option<[f64; 2]>, kernel: Option<[f64; 2]>) -> Self {
        let ratio =
            |[instructions, cycles]: [f64; 2]| (cycles > 0.0).then(|| instructions / cycles);
        let both =
            user.zip(kernel).map(|(user, kernel)| [user[0] + kernel[0], user[1] + kernel[1]]);
        Self {
            all: both.and_then(ratio),
            user: user.and_then(ratio),
            kernel: kernel.and_then(ratio),
        }
    }
}

pub fn ipc(cost: &Cost) -> Ipc {
    let kernel = cost.kernel_instructions.zip(cost.kernel_cycles);
    Ipc::of(
        Some([cost.user_instructions, cost.user_cycles]),
        kernel.map(|(instructions, cycles)| [instructions, cycles]),
    )
}

/// The part of the time in which all was counted, where it is less than all of it: the figures are
/// estimates then.
pub fn estimated(cost: &Cost) -> Option<f64> {
    (cost.running_ns < cost.enabled_ns).then(|| cost.running_ns as f64 / cost.enabled_ns as f64)
}

/// The cost per I/O of a worker that completed `ios` I/Os in a window of `window_ns` nanoseconds, from the counters in
/// `counted`; `None` without any I/O, or where the CPU's counters were never free.
pub fn cost(counted: &Counted, ios: u64, window_ns: u64) -> Option<Cost> {
    let user = counted.user?;
    let each = |value: u64, scale: f64| value as f64 * scale / ios as f64;
    let times = [
        Some((user.enabled_ns, user.running_ns)),
        counted.kernel.map(|kernel| (kernel.enabled_ns, kernel.running_ns)),
        counted.cache.map(|cache| (cache.enabled_ns, cache.running_ns)),
    ];
    let user_scale = user.scale()?;
    // A mode that never ran is treated like one that is not counted.
    let kernel = counted.kernel.and_then(|kernel| Some((kernel, kernel.scale()?)));
    let cache = counted.cache.and_then(|cache| Some((cache, cache.scale()?)));
    let counted_times = || times.iter().flatten().filter(|(_, running_ns)| *running_ns > 0);
    (ios > 0).then(|| Cost {
        ios,
        window_ns,
        user_instructions: each(user.instructions, user_scale),
        kernel_instructions: kernel.map(|(kernel, scale)| each(kernel.instructions, scale)),
        user_cycles: each(user.cycles, user_scale),
        kernel_cycles: kernel.map(|(kernel, scale)| each(kernel.cycles, scale)),
        cache: cache.map(|(cache, scale)| CacheCost {
            event: cache.event,
            references: each(cache.references, scale),
            misses: each(cache.misses, scale),
        }),
        enabled_ns: counted_times().map(|(enabled_ns, _)| *enabled_ns).max().unwrap_or(0),
        running_ns: counted_times().map(|(_, running_ns)| *running_ns).min().unwrap_or(0),
        speed_ratio: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{CacheCounts, CacheEvent, Executed};

    fn executed(instructions: u64, cycles: u64, running_ns: u64) -> Option<Executed> {
        Some(Executed { instructions, cycles, enabled_ns: 100, running_ns })
    }

    #[test]
    fn what_was_counted_is_shared_among_the_ios() {
        let cache = CacheCounts {
            event: CacheEvent::CacheReferences,
            references: 40,
            misses: 10,
            enabled_ns: 100,
            running_ns: 50,
        };
        let counted = Counted {
            user: executed(600, 200, 100),
            kernel: executed(2000, 4000, 100),
            cache: Some(cache),
            ..Counted::default()
        };
        let cost = cost(&counted, 10, 7).unwrap();
        assert_eq!((cost.ios, cost.window_ns), (10, 7));
        assert_eq!((cost.user_instructions, cost.user_cycles), (60.0, 20.0));
        assert_eq!((cost.kernel_instructions, cost.kernel_cycles), (Some(200.0), Some(400.0)));
        // Counted for half of the time only, so twice as many.
        let cache = CacheCost { event: CacheEvent::CacheReferences, references: 8.0, misses: 2.0 };
        assert_eq!((cost.cache, estimated(&cost)), (Some(cache), Some(0.5)));
        let ipc = ipc(&cost);
        assert_eq!((ipc.user, ipc.kernel), (Some(3.0), Some(0.5)));
        assert!((ipc.all.unwrap() - 260.0 / 420.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_counted_is_absent() {
        let counted = Counted { user: executed(600, 200, 100), ..Counted::default() };
        let alone = cost(&counted, 10, 7).unwrap();
        assert_eq!((alone.kernel_instructions, alone.cache, estimated(&alone)), (None, None, None));
        assert_eq!(ipc(&alone), Ipc { all: None, user: Some(3.0), kernel: None });
        assert_eq!(cost(&counted, 0, 7), None);
        // The CPU's counters were not free for the kernel's part, and then for none.
        let busy = Counted { kernel: executed(0, 0, 0), ..counted };
        let alone = cost(&busy, 10, 7).unwrap();
        assert_eq!((alone.kernel_cycles, estimated(&alone)), (None, None));
        assert_eq!(cost(&Counted { user: executed(0, 0, 0), ..busy }, 10, 7), None);
        // A worker without I/O and without cycles.
        assert_eq!(ipc(&Cost::default()), Ipc::default());
    }
}
