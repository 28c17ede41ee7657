//! The mechanism that all experiments share: conditions measured window by window, in turn, within
//! a time budget. It does no I/O and does not depend on the purpose of an experiment.
//!
//! A [`Probe`] is a window to measure and a [`Measurement`] its result; a [`Cell`] accumulates the windows of
//! one condition. A [`Series`] interleaves conditions, so that drift affects all of them
//! alike and ratios are paired. A [`Schedule`] divides a [`Budget`] of time over the stages of an experiment.
//! The first client is [`crate::limit`].

mod cell;
mod probe;
mod rw;
mod schedule;
mod series;

pub use cell::{Cell, Point};
pub use probe::{
    CpuShares, CpuTime, Load, LoadMeasure, Measurement, Probe, Setting, Window, WorkerCpu,
};
pub use rw::Rw;
pub use schedule::{Budget, Planned, Schedule};
pub use series::{Condition, Repetitions, Series};
