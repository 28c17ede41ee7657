//! Perf events: what counters, stacks and tracepoints have in common
//! (perf_event_open(2), include/uapi/linux/perf_event.h).

mod event;
mod gate;
mod ring;
mod tracepoint;

pub(crate) use event::{Event, Of, Reading};
pub use gate::EachIo;
pub(crate) use gate::{Gate, Turns};
pub(crate) use perf_event_open_sys::bindings;
pub(crate) use ring::{Record, Ring};
pub(crate) use tracepoint::{Field, OnCpus, Tracefs, Tracepoint, online_cpus, refused};
