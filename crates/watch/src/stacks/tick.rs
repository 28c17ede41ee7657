//! Timer interrupts: sampling at the scheduler tick, which busy CPUs have anyway, so that samples cost no additional
//! interrupt; and the overhead of those that are additional, which on some virtual machines is most of that of sampling.

use super::kallsyms::Kallsyms;
use crate::perf::{EventTarget, PerfEvent, Tracefs, bindings as perf};
use crate::watcher::thread_time;
use rustix::time::{ClockId, clock_getres};
use std::ffi::CString;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::thread;

/// The tick timer's function, since Linux 6.8 and before (kernel/time/tick-sched.c).
const FUNCTIONS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    pub tracepoint: u64,
    function: u64,
    pub ns: u64,
}

impl Tick {
    /// This kernel's tick; `None` if it is unknown or not accessible to this user.
    pub fn find(proc_root: &Path) -> Option<Self> {
        // On other architectures the interrupt's part of a call chain cannot be identified.
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return None;
        }
        let tracefs = Tracefs::find(proc_root, "ticks").ok()?;
        let tracepoint = tracefs.tracepoint("timer", "hrtimer_expire_entry").ok()?;
        tracepoint.field("function")?;
        let function = Kallsyms::address(proc_root, &FUNCTIONS)?;
        // The coarse clocks advance at each tick (clock_getres(2)).
        let ns = clock_getres(ClockId::MonotonicCoarse);
        let ns = ns.tv_sec as u64 * 1_000_000_000 + ns.tv_nsec as u64;
        Some(Self { tracepoint: tracepoint.attr().config, function, ns })
    }

    pub fn filter(self) -> CString {
        CString::new(format!("function == {:#x}", self.function)).unwrap_or_default()
    }
}

/// Pairs of alternating measurements without and with samples, so that background noise affects both.
const PAIRS: usize = 9;
/// CPU time of a measurement without samples, in nanoseconds.
const STRETCH_NS: u64 = 4_000_000;
/// Between two samples, in nanoseconds of CPU time.
const PERIOD_NS: u64 = 250_000;

/// CPU time that one timer interrupt with a sample of a call chain adds to a busy thread, in nanoseconds. Takes some
/// 100 ms.
pub fn timer_interrupt_ns() -> io::Result<f64> {
    let measuring = thread::Builder::new().name("fathom-overhead".into()).spawn(measure)?;
    measuring.join().map_err(|_| io::Error::other("the measuring thread panicked"))?
}

fn measure() -> io::Result<f64> {
    let mut attr = perf::perf_event_attr {
        type_: perf::PERF_TYPE_SOFTWARE,
        config: perf::PERF_COUNT_SW_CPU_CLOCK.into(),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = PERIOD_NS;
    attr.sample_type =
        u64::from(perf::PERF_SAMPLE_TID | perf::PERF_SAMPLE_TIME | perf::PERF_SAMPLE_CALLCHAIN);
    attr.set_disabled(1);
    attr.set_exclude_callchain_user(1);
    let event = PerfEvent::open(attr, EventTarget::Thread(0), None)?;
    // As many rounds as take the time of a measurement.
    let (mut rounds, mut took) = (1 << 14, 0);
    while took < STRETCH_NS / 2 {
        rounds *= 2;
        took = spin(rounds);
    }
    let rounds = rounds * STRETCH_NS / took.max(1);
    let mut costs = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let without = spin(rounds);
        event.enable()?;
        let with = spin(rounds);
        event.disable()?;
        let interrupts = (with / PERIOD_NS).max(1) as f64;
        costs.push((with as f64 - without as f64) / interrupts);
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs[PAIRS / 2].max(0.0))
}

fn spin(rounds: u64) -> u64 {
    let began = thread_time();
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(round));
    }
    black_box(sum);
    thread_time() - began
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_takes_less_than_its_period() {
        match timer_interrupt_ns() {
            Ok(ns) => {
                eprintln!("{ns:.0} ns per timer interrupt");
                assert!((0.0..PERIOD_NS as f64).contains(&ns), "{ns}");
            }
            Err(error) => eprintln!("not tested: {error}"),
        }
    }
}
