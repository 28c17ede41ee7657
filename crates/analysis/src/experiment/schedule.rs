//! The time of an experiment, and its division over stages.

use std::collections::VecDeque;

/// The time that an experiment may take and has taken. Times are in nanoseconds.
#[derive(Debug)]
pub struct Budget {
    planned_ns: f64,
    used_ns: f64,
    /// Recent time of a window beyond what was requested.
    overhead_ns: f64,
    overhead_max_ns: f64,
    windows: u32,
}

impl Budget {
    /// `planned_ns` for everything. A window is expected to exceed its requested time by at most `overhead_max_ns`, so
    /// that one that hung does not prevent all later ones.
    pub fn new(planned_ns: f64, overhead_max_ns: f64) -> Self {
        Self { planned_ns, used_ns: 0.0, overhead_ns: 0.0, overhead_max_ns, windows: 0 }
    }

    pub fn planned_ns(&self) -> f64 {
        self.planned_ns
    }

    pub fn used_ns(&self) -> f64 {
        self.used_ns
    }

    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// The used share, from 0 to 1.
    pub fn done(&self) -> f64 {
        if self.planned_ns > 0.0 { (self.used_ns / self.planned_ns).min(1.0) } else { 1.0 }
    }

    /// Whether a window of `requested_ns` ends before `until_ns` and within the budget.
    pub fn fits(&self, requested_ns: f64, until_ns: f64) -> bool {
        self.used_ns + requested_ns + self.overhead_ns <= until_ns.min(self.planned_ns)
    }

    pub fn charge_window(&mut self, requested_ns: f64, took_ns: f64) {
        let took_ns = took_ns.max(requested_ns);
        self.used_ns += took_ns;
        let overhead_ns = (self.overhead_ns + (took_ns - requested_ns)) / 2.0;
        self.overhead_ns = overhead_ns.min(self.overhead_max_ns);
        self.windows += 1;
    }

    /// Accounts for time without a window.
    pub fn charge(&mut self, ns: f64) {
        self.used_ns += ns;
    }

    /// Leaves no time for further windows.
    pub fn close(&mut self) {
        self.planned_ns = 0.0;
    }
}

#[derive(Debug)]
pub struct Planned<S> {
    pub stage: S,
    /// Its share of the time, relative to the others: the windows that it needs.
    pub weight: f64,
    /// Time reserved for each of these windows, in nanoseconds.
    pub reserved_ns: Option<f64>,
    /// Whether it may have open questions again after it had none.
    pub may_reopen: bool,
    /// Whether it is expected to request more windows; time is reserved for it.
    pub open: bool,
}

/// Stages in order, then in further rounds as long as time is left and any of them uses it.
#[derive(Debug)]
pub struct Schedule<S> {
    /// The rest of this round.
    current: VecDeque<Planned<S>>,
    next: VecDeque<Planned<S>>,
    /// Stages that start in the second round.
    deferred: VecDeque<Planned<S>>,
    round_began_ns: f64,
}

impl<S> Schedule<S> {
    /// Stages of the first round, and those that start after it.
    pub fn new(first: Vec<Planned<S>>, deferred: Vec<Planned<S>>) -> Self {
        Self {
            current: first.into(),
            next: VecDeque::new(),
            deferred: deferred.into(),
            round_began_ns: 0.0,
        }
    }

    /// The next stage and when its share of the remaining time ends; `None` if no stage can use any.
    pub fn begin(&mut self, budget: &Budget) -> Option<(Planned<S>, f64)> {
        if self.current.is_empty() {
            if budget.used_ns <= self.round_began_ns {
                return None;
            }
            self.round_began_ns = budget.used_ns;
            self.current.append(&mut self.next);
            self.current.append(&mut self.deferred);
        }
        let planned = self.current.pop_front()?;
        let others = self.current.iter().chain(&self.deferred).filter(|other| other.open);
        let weights = planned.weight + others.map(|other| other.weight).sum::<f64>();
        let left_ns = (budget.planned_ns - budget.used_ns).max(0.0);
        let share_ns = left_ns * planned.weight / weights;
        let reserved = planned.reserved_ns.map(|ns| planned.weight * (ns + budget.overhead_ns));
        let until_ns = budget.used_ns + share_ns.max(reserved.unwrap_or(0.0));
        Some((planned, until_ns))
    }

    /// Takes back a stage that has ended, `open` or without further questions.
    pub fn end(&mut self, planned: Planned<S>, open: bool) {
        if open || planned.may_reopen {
            self.next.push_back(Planned { open, ..planned });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(stage: char, weight: f64) -> Planned<char> {
        Planned { stage, weight, reserved_ns: None, may_reopen: false, open: true }
    }

    #[test]
    fn time_is_divided_by_weight_and_unused_time_goes_to_the_next_stages() {
        let mut budget = Budget::new(100.0, 10.0);
        let mut schedule =
            Schedule::new(vec![planned('a', 1.0), planned('b', 1.0)], vec![planned('c', 2.0)]);
        let (a, until_ns) = schedule.begin(&budget).unwrap();
        assert_eq!((a.stage, until_ns), ('a', 25.0));
        budget.charge_window(10.0, 10.0);
        schedule.end(a, false);
        let (b, until_ns) = schedule.begin(&budget).unwrap();
        assert_eq!((b.stage, until_ns), ('b', 40.0));
        budget.charge_window(30.0, 30.0);
        schedule.end(b, true);
        // The second round, with the stage that is open and the deferred one.
        let order: Vec<char> = std::iter::from_fn(|| schedule.begin(&budget))
            .map(|(planned, _)| planned.stage)
            .collect();
        assert_eq!(order, ['b', 'c']);
    }

    #[test]
    fn a_round_that_uses_no_time_is_the_last() {
        let budget = Budget::new(100.0, 10.0);
        let mut schedule = Schedule::new(vec![planned('a', 1.0)], Vec::new());
        let (a, _) = schedule.begin(&budget).unwrap();
        schedule.end(a, true);
        assert!(schedule.begin(&budget).is_none());
    }

    #[test]
    fn reserved_time_does_not_depend_on_the_others() {
        let mut schedule = Schedule::new(
            vec![Planned { reserved_ns: Some(5.0), ..planned('a', 3.0) }, planned('b', 97.0)],
            Vec::new(),
        );
        assert_eq!(schedule.begin(&Budget::new(100.0, 10.0)).unwrap().1, 15.0);
    }

    #[test]
    fn the_overhead_of_windows_counts_towards_what_fits_but_is_bounded() {
        let mut budget = Budget::new(100.0, 10.0);
        budget.charge_window(10.0, 14.0);
        assert!(budget.fits(34.0, 50.0) && !budget.fits(34.5, 50.0));
        budget.charge_window(10.0, 60.0);
        assert!(budget.fits(16.0, 1000.0) && !budget.fits(16.5, 1000.0));
        assert_eq!((budget.used_ns(), budget.windows(), budget.done()), (74.0, 2, 0.74));
    }
}
