//! Perf events: the common part of counters, stacks and tracepoints (perf_event_open(2),
//! include/uapi/linux/perf_event.h).

mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod per_cpu;
mod ring;
mod tasks;
mod tracepoint;
mod windows;

pub(crate) use event::{EventTarget, PerfEvent, Reading};
pub(crate) use per_cpu::{PerCpuEvents, online_cpus};
pub(crate) use perf_event_open_sys::bindings;
pub(crate) use ring::{PerfRecord, PerfRing};
pub(crate) use tasks::{TaskEvent, monotonic_ns, record_raw, task_events};
pub(crate) use tracepoint::{EventField, Tracefs, Tracepoint, refused};
pub use windows::TraceCoverage;
pub(crate) use windows::{GroupLeaders, TraceBudget, WindowSchedule};
