//! Perf events: what counters, stacks and tracepoints have in common
//! (perf_event_open(2), include/uapi/linux/perf_event.h).

#[allow(dead_code)] // until stacks and blocks use all of it
mod event;
#[allow(dead_code)] // until stacks and blocks use all of it
mod ring;
#[allow(dead_code)] // until blocks and rings use all of it
mod tracepoint;

pub(crate) use event::{Event, Of, Reading};
pub(crate) use perf_event_open_sys::bindings;
#[allow(unused_imports)] // until stacks and blocks use it
pub(crate) use ring::{Record, Ring};
#[allow(unused_imports)] // until blocks and rings use them
pub(crate) use tracepoint::{Field, OnCpus, Tracefs, Tracepoint, online_cpus, refused};
