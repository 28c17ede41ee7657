//! Sources of the intervals that `top` shows.

use fathom_analysis::machine::{self, MachineRates};
use fathom_model::watch::{MachineSample, SamplingRecord, Stack, Unavailable};
use fathom_report::top::{Go, TopSource, TopView};
use std::rc::Rc;

/// A source of intervals, with a current position in time.
pub trait Feed {
    /// Polls for new intervals; whether there are any.
    fn poll(&mut self) -> Result<bool, String>;

    fn at_end(&self) -> bool;

    /// The interval at the current position, once there is one.
    fn view(&mut self) -> Result<Option<TopView<'_>>, String>;

    fn go(&mut self, go: &Go) -> Result<(), String>;

    fn missing(&self) -> &[Unavailable];

    /// A problem to report to the user; returned once.
    fn take_error(&mut self) -> Option<String> {
        None
    }

    /// Completes the record, if any.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

#[derive(Debug, Default)]
pub struct ViewSample {
    /// In nanoseconds since 1970.
    pub unix_ns: u64,
    /// On the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// CPU time of this process until then, in nanoseconds.
    pub own_ns: Option<u64>,
    pub machine: MachineSample,
}

/// Two samples and the rates between them.
#[derive(Debug)]
pub struct ViewedInterval {
    pub before: Rc<ViewSample>,
    pub now: Rc<ViewSample>,
    pub elapsed_ns: u64,
    pub rates: MachineRates,
}

impl ViewedInterval {
    pub fn new(before: Rc<ViewSample>, now: Rc<ViewSample>) -> Self {
        let elapsed_ns = now.at_ns.saturating_sub(before.at_ns);
        let rates = machine::rates(&before.machine, &now.machine, elapsed_ns);
        Self { before, now, elapsed_ns, rates }
    }

    pub fn view<'a>(
        &'a self,
        source: TopSource,
        stacks: &'a [Stack],
        watched: &'a SamplingRecord,
    ) -> TopView<'a> {
        TopView {
            before: &self.before.machine,
            now: &self.now.machine,
            rates: &self.rates,
            elapsed_ns: self.elapsed_ns,
            unix_ns: self.now.unix_ns,
            zone: crate::page::zone(),
            source,
            stacks,
            wiring: &watched.wiring,
            missing: &watched.missing,
            own_ns: self.own_ns(),
        }
    }

    /// CPU time of this process in the interval, in nanoseconds.
    fn own_ns(&self) -> Option<u64> {
        self.now.own_ns?.checked_sub(self.before.own_ns?)
    }
}
