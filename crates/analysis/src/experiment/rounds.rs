//! Conditions compared: measured in rounds of random order until the effects are known well enough, or time is up.
//!
//! Each round measures every condition that is still open once. The order depends on the seed and the number of the
//! round only, so that windows that were stored can be replayed and the experiment continues where it ended. The first rounds
//! warm up and do not count. A group (a baseline, its repetition and what is compared with them) is closed when all its
//! intervals are narrow enough.

use super::totals::{Totals, quotient};
use super::verdict::{self};
use super::{Budget, Design};
use crate::stats;
use fathom_model::experiment::{
    Condition, Effect, Experiment, Metric, Protocol, Request, RoundWindow, WindowResult,
};
use fathom_model::split_mix;
use fathom_model::window::Estimate;

/// A window may take this much longer than requested before the plan for the rest allows for it.
const OVERHEAD_MAX_NS: f64 = 5e9;
/// A group whose interval is narrower than this part of the effect itself is known well enough.
const EFFECT_PART: f64 = 0.25;
/// Claims rest on the 99% interval, which is wider than the 95% interval by this factor.
const CLAIM_PART: f64 = 1.314;
/// After so many rounds, intervals are compared with the precision once in as many rounds as this.
const FREQUENT_ROUNDS: u32 = 20;
const LATER_EVERY: u32 = 4;
/// Rates are corrected for waiting for a CPU from this share of the time on. With less, it does not decide how precise
/// they are: windows deviate by some percent for other reasons as well.
pub const RUN_DELAY_MIN: f64 = 0.05;
/// A condition that failed this often is not measured again.
const FAILURES_MAX: u32 = 2;

/// An experiment, as far as its windows show.
#[derive(Debug)]
pub struct Rounds {
    experiment: Experiment,
    protocol: Protocol,
    conditions: Vec<State>,
    /// Conditions by group, in the order of their baselines.
    groups: Vec<Group>,
    round: u32,
    /// Conditions of this round that are still to be measured, the next one last.
    rest: Vec<usize>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct State {
    totals: Totals,
    /// By round; `None` where the window failed.
    by_round: Vec<Option<Figure>>,
    failures: u32,
    rejected: Option<String>,
}

/// The metric in a window, as an amount and what it is per.
#[derive(Debug, Clone, Copy)]
struct Figure {
    measured: (f64, f64),
    /// Corrected for waiting for a CPU, where that is valid.
    corrected: Option<(f64, f64)>,
}

#[derive(Debug)]
struct Group {
    members: Vec<usize>,
    is_open: bool,
}

/// The window to measure next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Index into [`Experiment::conditions`].
    pub condition: usize,
    pub round: u32,
}

impl From<&RoundWindow> for Turn {
    fn from(window: &RoundWindow) -> Self {
        Self { condition: window.condition, round: window.round }
    }
}

impl Design for Rounds {
    type Asked = Turn;
    type Window = RoundWindow;

    fn next(&mut self) -> Option<Turn> {
        loop {
            while let Some(condition) = self.rest.last().copied() {
                if self.is_measured(condition) {
                    let requested = (self.protocol.ramp_ns + self.protocol.window_ns) as f64;
                    let fits = self.budget.fits(requested, f64::INFINITY);
                    return fits.then_some(Turn { condition, round: self.round });
                }
                self.rest.pop();
            }
            self.end_round();
            self.rest = self.order();
            if self.rest.is_empty() {
                return None;
            }
        }
    }

    fn take(&mut self, window: &RoundWindow) {
        let outcome = window.outcome.as_ref().map_err(String::as_str);
        self.observe(window.into(), outcome, window.rejects);
    }

    fn done(&self) -> f64 {
        self.budget.done()
    }
}

impl Rounds {
    pub fn new(experiment: Experiment, protocol: Protocol) -> Self {
        let conditions = experiment.conditions.iter().map(|_| State::default()).collect();
        let groups = groups(&experiment.conditions);
        let budget = Budget::new(protocol.seconds * 1e9, OVERHEAD_MAX_NS);
        let mut design =
            Self { experiment, protocol, conditions, groups, round: 0, rest: Vec::new(), budget };
        design.rest = design.order();
        design
    }

    /// The experiment of `request` after these windows, taken as if measured now.
    pub fn replayed(request: &Request, windows: &[RoundWindow]) -> Result<Self, String> {
        let mut design = Self::new(request.experiment.clone(), request.protocol.clone());
        super::replay(&mut design, windows).map_err(|_| match design.done() >= 1.0 {
            true => format!(
                "the interrupted experiment already took {:.1} s; give a longer --duration",
                design.seconds_used()
            ),
            false => "the stored windows belong to another experiment".to_string(),
        })?;
        Ok(design)
    }

    /// That of one of several ranks: of its own windows, which ones rank 0 chose.
    pub fn of_rank(request: &Request, windows: &[RoundWindow]) -> Self {
        let mut design = Self::new(request.experiment.clone(), request.protocol.clone());
        for window in windows {
            design.take(window);
        }
        design
    }

    /// The planned time.
    pub fn seconds(&self) -> f64 {
        self.protocol.seconds
    }

    /// What condition `index` is called.
    pub fn label(&self, index: usize) -> String {
        self.experiment.conditions[index].label(&self.experiment.axes)
    }

    pub fn seconds_used(&self) -> f64 {
        self.budget.used_ns() / 1e9
    }

    pub fn windows(&self) -> u32 {
        self.budget.windows()
    }

    pub fn rounds(&self) -> u32 {
        self.round.saturating_sub(self.protocol.rounds_warm)
    }

    /// `rejects`: a failure means that the condition
    /// cannot be measured on this machine.
    fn observe(&mut self, turn: Turn, outcome: Result<&WindowResult, &str>, rejects: bool) {
        self.rest.retain(|condition| *condition != turn.condition);
        let requested = (self.protocol.ramp_ns + self.protocol.window_ns) as f64;
        let took = outcome.map_or(0.0, |sample| sample.took_ns as f64);
        self.budget.charge_window(requested.min(took), took);
        let Some(state) = self.conditions.get_mut(turn.condition) else { return };
        if let Err(why) = outcome {
            state.failures += 1;
            if rejects || state.failures >= FAILURES_MAX {
                state.rejected = Some(why.to_string());
                self.close_if_baseline(turn.condition);
            }
        }
        let Some(state) = self.conditions.get_mut(turn.condition) else { return };
        if turn.round < self.protocol.rounds_warm {
            return;
        }
        let round = (turn.round - self.protocol.rounds_warm) as usize;
        state.by_round.resize(round, None);
        let metric = self.experiment.metric;
        let figure = |sample: &WindowResult| Figure {
            measured: sample.rate(metric),
            corrected: sample.corrected(metric),
        };
        state.by_round.push(outcome.ok().map(figure));
        if let Ok(sample) = outcome {
            state.totals.add(sample);
        }
    }

    pub fn totals(&self, index: usize) -> Option<&Totals> {
        self.conditions.get(index).map(|state| &state.totals)
    }

    pub fn rejected(&self, index: usize) -> Option<&str> {
        self.conditions.get(index)?.rejected.as_deref()
    }

    pub fn has_rate(&self, index: usize) -> bool {
        self.experiment.conditions.get(index).is_some_and(|c| c.rate_share.is_some())
    }

    pub fn estimate(&self, index: usize) -> Estimate {
        stats::rate(&self.figures(index).map(|figure| figure.measured).collect::<Vec<_>>())
    }

    /// The metric of condition `index`, corrected for waiting for a CPU; `None` where its effects do not rest on that.
    pub fn corrected(&self, index: usize) -> Option<Estimate> {
        let values = || self.figures(index).filter_map(|figure| figure.corrected);
        self.is_corrected(index).then(|| stats::rate(&values().collect::<Vec<_>>()))
    }

    fn figures(&self, index: usize) -> impl Iterator<Item = &Figure> {
        self.conditions.get(index).into_iter().flat_map(|state| state.by_round.iter().flatten())
    }

    /// Whether comparisons of condition `index` are corrected for waiting for a CPU: valid in every window of all
    /// conditions that are compared with each other, and they waited for much of the time.
    fn is_corrected(&self, index: usize) -> bool {
        let group = self.groups.iter().find(|group| group.members.contains(&index));
        let members = group.map_or(&[][..], |group| &group.members);
        let totals = || members.iter().filter_map(|member| self.totals(*member));
        let delay_ns: u64 = totals().filter_map(|t| t.sum.run_delay_ns).sum();
        let elapsed_ns: u64 = totals().map(|t| t.sum.elapsed_ns).sum();
        let mut figures = members.iter().flat_map(|member| self.figures(*member));
        members.len() > 1
            && delay_ns as f64 > RUN_DELAY_MIN * elapsed_ns as f64
            && figures.all(|figure| figure.corrected.is_some())
    }

    /// The effect of condition `index` relative to what it is compared with; `None` for a baseline.
    pub fn effect(&self, index: usize) -> Option<Effect> {
        let condition = self.experiment.conditions.get(index)?;
        if condition.repeats.is_some() || condition.against.is_empty() {
            return None;
        }
        let control = condition.against.iter().filter_map(|base| self.twin(*base)).next();
        let control = control.map(|(base, twin)| self.pairs(twin, &[base], false));
        let pairs = self.pairs(index, &condition.against, true);
        let needs = self.needs(condition.against.iter().copied().chain([index]));
        Some(verdict::effect(&pairs, control.as_deref(), needs))
    }

    fn needs(&self, conditions: impl Iterator<Item = usize>) -> verdict::Needs {
        let measured_ns =
            conditions.filter_map(|index| self.totals(index)).map(|t| t.sum.elapsed_ns);
        verdict::Needs {
            rounds: self.protocol.rounds_min,
            precision: self.protocol.precision,
            measured_ns: measured_ns.min().unwrap_or(0),
        }
    }

    /// The repetition of condition `index` relative to itself (A/A); `None` for other conditions.
    pub fn control(&self, index: usize) -> Option<Effect> {
        let base = self.experiment.conditions.get(index)?.repeats?;
        let pairs = self.pairs(index, &[base], false);
        Some(verdict::effect(&pairs, None, self.needs([base, index].into_iter())))
    }

    /// Condition `index` and condition `other` in each round that has both.
    pub fn pairs_of(&self, index: usize, other: usize) -> Vec<(f64, f64)> {
        self.pairs(index, &[other], false)
    }

    /// The metric of `index` and the sum over `against`, in each round that has all; with `mean`, that of a baseline is
    /// its mean with its repetition. Corrected for waiting for a CPU where [`Rounds::is_corrected`].
    fn pairs(&self, index: usize, against: &[usize], mean: bool) -> Vec<(f64, f64)> {
        let is_corrected = self.is_corrected(index);
        let at = |index: usize, round: usize| {
            let figure = (*self.conditions.get(index)?.by_round.get(round)?)?;
            quotient(if is_corrected { figure.corrected? } else { figure.measured })
        };
        let reference = |base: usize, round: usize| {
            let value = at(base, round)?;
            let twin = self.twin(base).filter(|_| mean).and_then(|(_, twin)| at(twin, round));
            Some(twin.map_or(value, |twin: f64| (twin * value).sqrt()))
        };
        let rounds = self.conditions.get(index).map_or(0, |state| state.by_round.len());
        let pair = |round: usize| {
            let sum = against.iter().map(|base| reference(*base, round)).sum::<Option<f64>>()?;
            Some((at(index, round)?, sum))
        };
        (0..rounds).filter_map(pair).collect()
    }

    /// The repetition of condition `base`, after it.
    fn twin(&self, base: usize) -> Option<(usize, usize)> {
        let twin = self.experiment.conditions.iter().position(|c| c.repeats == Some(base))?;
        Some((base, twin))
    }

    fn is_measured(&self, index: usize) -> bool {
        let state = self.conditions.get(index);
        let group = self.groups.iter().find(|group| group.members.contains(&index));
        state.is_some_and(|state| state.rejected.is_none())
            && group.is_some_and(|group| group.is_open)
    }

    /// Nothing can be compared with a baseline that is rejected.
    fn close_if_baseline(&mut self, index: usize) {
        if self.is_baseline(index) {
            let own = self.groups.iter_mut().filter(|group| group.members.contains(&index));
            own.for_each(|group| group.is_open = false);
        }
    }

    fn end_round(&mut self) {
        self.round += 1;
        let rounds = self.rounds();
        let is_due = rounds <= FREQUENT_ROUNDS || rounds.is_multiple_of(LATER_EVERY);
        if rounds < self.protocol.rounds_min || !is_due {
            return;
        }
        for at in 0..self.groups.len() {
            let known = self.groups[at].members.iter().all(|index| self.is_known(*index));
            self.groups[at].is_open &= !known;
        }
    }

    fn is_known(&self, index: usize) -> bool {
        if self.rejected(index).is_some() {
            return true;
        }
        // No claim is made with less, however narrow the interval.
        if self.totals(index).is_none_or(|t| t.sum.elapsed_ns < verdict::MEASURED_MIN_NS) {
            return false;
        }
        let wide = |spread: f64, effect: f64| {
            CLAIM_PART * spread > self.protocol.precision.max(EFFECT_PART * effect.abs())
        };
        let condition = &self.experiment.conditions[index];
        if condition.repeats.is_none() && !condition.against.is_empty() {
            let ratio = stats::paired_robust(&self.pairs(index, &condition.against, true));
            return ratio.is_some_and(|ratio| !wide(ratio.spread(), ratio.value.ln()));
        }
        // A baseline and its repetition are known when the comparisons are; a condition on its own by its mean.
        condition.repeats.is_some()
            || self.is_baseline(index)
            || self.estimate(index).relative().is_some_and(|spread| !wide(spread, 0.0))
    }

    fn is_baseline(&self, index: usize) -> bool {
        self.experiment.conditions.iter().any(|c| c.against.contains(&index))
    }

    /// The open conditions in the order of this round, the first one last (Fisher–Yates).
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.conditions.len()).filter(|index| self.is_measured(*index)).collect();
        let seed = self.protocol.seed ^ u64::from(self.round).wrapping_mul(split_mix::STEP);
        for (n, last) in (0..).zip((1..order.len()).rev()) {
            order.swap(last, (split_mix::nth(seed, n) % (last as u64 + 1)) as usize);
        }
        order
    }
}

/// Conditions that are compared with each other, directly or through a third.
fn groups(conditions: &[Condition]) -> Vec<Group> {
    let mut group_of: Vec<usize> = (0..conditions.len()).collect();
    for (index, condition) in conditions.iter().enumerate() {
        let others = condition.against.iter().chain(&condition.repeats);
        for other in others.filter(|other| **other < conditions.len()) {
            let (from, to) = (group_of[index], group_of[*other]);
            group_of.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
        }
    }
    let members = |root: usize| {
        let of = |index: &usize| group_of[*index] == root;
        (0..conditions.len()).filter(of).collect::<Vec<usize>>()
    };
    let groups = (0..conditions.len()).map(members).filter(|members| !members.is_empty());
    groups.map(|members| Group { members, is_open: true }).collect()
}

pub fn higher_is_better(metric: Metric) -> bool {
    matches!(metric, Metric::Iops | Metric::Bandwidth)
}

#[cfg(test)]
mod tests;
