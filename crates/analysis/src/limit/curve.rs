//! The windows of one target and kind of I/O, by setting.

use super::thresholds::AS_GOOD;
use crate::experiment::{Cell, LoadMeasure, Measurement, Rw, Setting};
use std::collections::BTreeMap;

/// All measured settings.
#[derive(Debug)]
pub(super) struct Curve {
    rw: Rw,
    cells: BTreeMap<Setting, Cell>,
}

impl Curve {
    pub fn new(rw: Rw) -> Self {
        Self { rw, cells: BTreeMap::new() }
    }

    pub fn add(&mut self, setting: Setting, window: &Measurement, load: &LoadMeasure) {
        self.cells.entry(setting).or_insert_with(|| Cell::new(self.rw)).add(window, load);
    }

    pub fn get(&self, setting: Setting) -> Option<&Cell> {
        self.cells.get(&setting)
    }

    /// Mean I/Os per second at `setting`; 0 if it was not measured.
    pub fn mean(&self, setting: Setting) -> f64 {
        self.get(setting).map_or(0.0, Cell::mean)
    }

    /// The highest mean I/Os per second.
    pub fn best_mean(&self) -> f64 {
        self.cells.values().map(Cell::mean).fold(0.0, f64::max)
    }

    pub fn windows(&self, setting: Setting) -> usize {
        self.get(setting).map_or(0, Cell::windows)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Setting, &Cell)> {
        self.cells.iter().map(|(s, c)| (*s, c))
    }

    /// Of the settings that `is_eligible` accepts and that completed I/Os: the fewest in flight that are as good as
    /// the best, and of those the fewest workers.
    pub fn cheapest_best(&self, is_eligible: impl Fn(Setting, &Cell) -> bool) -> Option<Setting> {
        let eligible = || self.iter().filter(|(s, c)| c.mean() > 0.0 && is_eligible(*s, c));
        let best = eligible().map(|(_, c)| c.mean()).fold(0.0, f64::max);
        eligible()
            .filter(|(_, c)| c.mean() >= AS_GOOD * best)
            .map(|(s, _)| s)
            .min_by_key(|s| (s.in_flight(), s.workers))
    }

    /// The best setting with a single worker.
    pub fn best_of_one_worker(&self) -> Option<Setting> {
        self.cheapest_best(|s, _| s.workers == 1)
    }
}
