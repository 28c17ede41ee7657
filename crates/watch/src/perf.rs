//! Perf events: what counters, stacks and tracepoints have in common
//! (perf_event_open(2), include/uapi/linux/perf_event.h).

#[allow(dead_code)] // until stacks and blocks use all of it
mod event;
#[allow(dead_code)] // until stacks and blocks use all of it
mod ring;

pub(crate) use event::{Event, Of, Reading};
pub(crate) use perf_event_open_sys::bindings;
#[allow(unused_imports)] // until stacks and blocks use it
pub(crate) use ring::{Record, Ring};
