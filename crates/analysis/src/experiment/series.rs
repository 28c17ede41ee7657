//! Conditions measured alternately, round after round, so that drift affects all of them alike.

use super::totals::Totals;
use crate::stats;
use fathom_model::experiment::Metric;
use fathom_model::window::{Estimate, Measurement, Ratio};

/// With fewer pairs the robust interval is too wide.
const ROBUST_MIN: usize = 10;

/// I/Os and the seconds that they took.
pub type Rate = (f64, f64);

pub fn per_second((ios, seconds): Rate) -> f64 {
    if seconds > 0.0 { ios / seconds } else { 0.0 }
}

/// Interleaved conditions. The first is the baseline; each round measures it first.
#[derive(Debug)]
pub struct Series<C> {
    conditions: Vec<Condition<C>>,
    /// I/Os and seconds of each load, by round and condition; empty where no window counts.
    rounds: Vec<Vec<Vec<Rate>>>,
    turn: usize,
}

#[derive(Debug)]
pub struct Condition<C> {
    pub value: C,
    /// Its windows, for the first of its loads.
    pub totals: Totals,
    pub rejected: Option<String>,
}

impl<C> Series<C> {
    pub fn new(conditions: impl IntoIterator<Item = C>) -> Self {
        let mut series = Self { conditions: Vec::new(), rounds: Vec::new(), turn: 0 };
        conditions.into_iter().for_each(|value| series.push(value, None));
        series
    }

    /// Adds a condition; one that is `rejected` is not measured.
    pub fn push(&mut self, value: C, rejected: Option<String>) {
        self.conditions.push(Condition { value, totals: Totals::default(), rejected });
    }

    pub fn baseline(&self) -> Option<&Condition<C>> {
        self.conditions.first()
    }

    pub fn conditions(&self) -> &[Condition<C>] {
        &self.conditions
    }

    pub fn is_between_rounds(&self) -> bool {
        self.turn == 0
    }

    /// Index of the condition to measure next; `None` once at the end of each round.
    pub fn next_in_round(&mut self) -> Option<usize> {
        while self.conditions.get(self.turn).is_some_and(|c| c.rejected.is_some()) {
            self.turn += 1;
        }
        if self.turn < self.conditions.len() {
            return Some(self.turn);
        }
        self.turn = 0;
        None
    }

    /// Takes the window of the condition that [`Self::next_in_round`] returned. One that failed, for this reason, is not
    /// measured again, unless it is the baseline.
    pub fn observe(&mut self, outcome: Result<&Measurement, &str>) {
        if let (Err(why), 1.., Some(condition)) =
            (outcome, self.turn, self.conditions.get_mut(self.turn))
        {
            condition.rejected = Some(why.to_string());
        }
        self.add(outcome.ok());
    }

    /// A window counts only if the baseline of its round does.
    fn add(&mut self, window: Option<&Measurement>) {
        if self.turn == 0 {
            self.rounds.push(Vec::new());
        }
        let (Some(round), Some(condition)) =
            (self.rounds.last_mut(), self.conditions.get_mut(self.turn))
        else {
            return;
        };
        let has_baseline = self.turn == 0 || round.first().is_some_and(|rates| !rates.is_empty());
        let mut rates = Vec::new();
        if let Some(window) = window.filter(|_| has_baseline) {
            window.results().take(1).for_each(|load| condition.totals.add(&load));
            rates.extend(window.results().map(|load| load.rate(Metric::Iops)));
        }
        round.resize(self.turn, Vec::new());
        round.push(rates);
        self.turn += 1;
    }

    pub fn restart_round(&mut self) {
        self.turn = 0;
    }

    /// Rounds in which every condition counts: I/Os and seconds by condition and load.
    pub fn complete_rounds(&self) -> impl Iterator<Item = &[Vec<Rate>]> {
        let is_complete = |round: &&Vec<Vec<Rate>>| {
            round.len() == self.conditions.len() && round.iter().all(|rates| !rates.is_empty())
        };
        self.rounds.iter().filter(is_complete).map(Vec::as_slice)
    }

    /// I/Os per second of condition `index` and of the baseline, for each round that has both.
    pub fn pairs(&self, index: usize) -> Vec<(f64, f64)> {
        let sum = |rates: &[Rate]| rates.iter().map(|rate| per_second(*rate)).sum::<f64>();
        self.rounds_of(index).map(|(changed, base)| (sum(changed), sum(base))).collect()
    }

    /// I/Os per second of the baseline, in each round that has it and condition `index`.
    pub fn base_estimate(&self, index: usize) -> Estimate {
        let rates: Vec<Rate> =
            self.rounds_of(index).filter_map(|(_, base)| base.first().copied()).collect();
        stats::rate(&rates)
    }

    /// The loads of condition `index` and of the baseline, for each round that has both.
    fn rounds_of(&self, index: usize) -> impl Iterator<Item = (&[Rate], &[Rate])> {
        let of = |round: &'_ [Vec<Rate>], at: usize| {
            round.get(at).is_some_and(|rates| !rates.is_empty())
        };
        let both = move |round: &&Vec<Vec<Rate>>| of(round, index) && of(round, 0);
        self.rounds.iter().filter(both).map(move |round| (&round[index][..], &round[0][..]))
    }

    /// Condition `index` over the baseline; absent with fewer than two pairs. With enough of them, one that is far off,
    /// as by a stall, moves it little.
    pub fn ratio(&self, index: usize) -> Option<Ratio> {
        let pairs = self.pairs(index);
        match pairs.len() {
            ..ROBUST_MIN => stats::paired(&pairs),
            _ => stats::paired_robust(&pairs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::experiment::WindowResult;

    fn window(ios: &[u64]) -> Measurement {
        let load = |ios: &u64| WindowResult { ios: *ios, ..WindowResult::default() };
        let loads = ios.iter().map(load).collect();
        Measurement { elapsed_ns: 1_000_000_000, loads, ..Measurement::default() }
    }

    /// Measures a round; `None` is a window that does not count.
    fn round(series: &mut Series<char>, windows: &[Option<u64>]) -> String {
        let mut order = String::new();
        let mut windows = windows.iter();
        while let Some(index) = series.next_in_round() {
            order.push(series.conditions()[index].value);
            series.add(windows.next().unwrap().map(|ios| window(&[ios])).as_ref());
        }
        order
    }

    #[test]
    fn conditions_take_turns_and_are_paired_with_the_baseline_of_their_round() {
        let mut series = Series::new(['a', 'b', 'c']);
        assert_eq!(round(&mut series, &[Some(100), Some(50), Some(200)]), "abc");
        assert_eq!(round(&mut series, &[Some(10), Some(5), Some(20)]), "abc");
        assert_eq!(series.pairs(2), [(200.0, 100.0), (20.0, 10.0)]);
        assert!((series.ratio(1).unwrap().value - 0.5).abs() < 1e-9);
        assert_eq!(series.conditions()[2].totals.iops(), [200.0, 20.0]);
    }

    #[test]
    fn a_window_counts_only_if_the_baseline_of_its_round_does() {
        let mut series = Series::new(['a', 'b']);
        round(&mut series, &[None, Some(50)]);
        round(&mut series, &[Some(100), None]);
        round(&mut series, &[Some(100), Some(70)]);
        assert_eq!(series.pairs(1), [(70.0, 100.0)]);
        assert_eq!(series.conditions()[1].totals.windows(), 1);
        assert_eq!(series.baseline().unwrap().totals.windows(), 2);
        assert_eq!(series.complete_rounds().count(), 1);
    }

    #[test]
    fn a_rejected_condition_is_not_measured_again_but_the_baseline_is() {
        let mut series = Series::new(['a', 'b', 'c']);
        assert_eq!(series.next_in_round(), Some(0));
        series.observe(Err("busy"));
        assert_eq!(series.next_in_round(), Some(1));
        series.observe(Err("no memory"));
        assert_eq!(round(&mut series, &[Some(1)]), "c");
        assert_eq!(round(&mut series, &[Some(1), Some(1)]), "ac");
        assert_eq!(series.conditions()[1].rejected.as_deref(), Some("no memory"));
    }

    #[test]
    fn an_abandoned_round_starts_over() {
        let mut series = Series::new(['a', 'b']);
        assert_eq!(series.next_in_round(), Some(0));
        series.observe(Ok(&window(&[1, 2])));
        series.restart_round();
        assert!(series.is_between_rounds());
        assert_eq!(round(&mut series, &[Some(3), Some(4)]), "ab");
        assert_eq!(series.pairs(1), [(4.0, 3.0)]);
    }
}
