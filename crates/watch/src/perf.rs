//! Perf events: what counters, stacks and tracepoints have in common
//! (perf_event_open(2), include/uapi/linux/perf_event.h).

#[allow(dead_code)] // until stacks and blocks use all of it
mod event;

pub(crate) use event::{Event, Of, Reading};
pub(crate) use perf_event_open_sys::bindings;
