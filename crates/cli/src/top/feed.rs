//! Where the view's intervals come from.

use fathom_analysis::machine::{self, MachineRates};
use fathom_model::watch::{MachineSample, Missing, Stack, WatchRecord};
use fathom_report::top::{Go, Source, View};
use std::rc::Rc;

/// A source of intervals that has a place in time.
pub trait Feed {
    /// Looks for what is new; whether there is anything.
    ///
    /// # Errors
    /// Why there can be nothing new any more.
    fn poll(&mut self) -> Result<bool, String>;

    /// Whether nothing will come any more.
    fn at_end(&self) -> bool;

    /// The interval at the place in time, once there is one.
    ///
    /// # Errors
    /// What cannot be read.
    fn view(&mut self) -> Result<Option<View<'_>>, String>;

    /// Goes to another place in time.
    ///
    /// # Errors
    /// Why it cannot go there, for the user; it stays where it was.
    fn go(&mut self, go: &Go) -> Result<(), String>;

    /// What cannot be seen.
    fn missing(&self) -> &[Missing];

    /// What the user is to be told, once.
    fn complaint(&mut self) -> Option<String> {
        None
    }

    /// Ends what was begun.
    ///
    /// # Errors
    /// What could not be kept.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// A sample and when it was made.
#[derive(Debug, Default)]
pub struct Take {
    /// In nanoseconds since 1970.
    pub unix_ns: u64,
    /// In nanoseconds, on a clock that is never set.
    pub at_ns: u64,
    /// Processor time of this process until then, in nanoseconds.
    pub own_ns: Option<u64>,
    /// What was seen.
    pub machine: MachineSample,
}

/// Two samples and what happened in between.
#[derive(Debug)]
pub struct Interval {
    pub before: Rc<Take>,
    pub now: Rc<Take>,
    pub elapsed_ns: u64,
    pub rates: MachineRates,
}

impl Interval {
    /// From one sample to another.
    pub fn new(before: Rc<Take>, now: Rc<Take>) -> Self {
        let elapsed_ns = now.at_ns.saturating_sub(before.at_ns);
        let rates = machine::rates(&before.machine, &now.machine, elapsed_ns);
        Self { before, now, elapsed_ns, rates }
    }

    /// As it is shown.
    pub fn view<'a>(
        &'a self,
        source: Source,
        stacks: &'a [Stack],
        watched: &'a WatchRecord,
    ) -> View<'a> {
        View {
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

    /// Processor time of this process, in nanoseconds.
    fn own_ns(&self) -> Option<u64> {
        self.now.own_ns?.checked_sub(self.before.own_ns?)
    }
}
