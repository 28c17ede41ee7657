//! The windows of one target and kind of I/O, by setting.

use super::thresholds::{AS_GOOD, DROPPED, WIDE, WINDOWS_NOISY_MAX, WINDOWS_SURE};
use crate::experiment::Cell;
use fathom_model::window::{LoadMeasure, Measurement, Rw, Setting};
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

    /// The peak: the highest IOPS of all settings that `is_in_range` accepts and that are not noisy; of those as good as
    /// it, the fewest in flight.
    pub fn peak(&self, is_in_range: impl Fn(Setting) -> bool) -> Option<Setting> {
        let is_clear = |setting, cell: &Cell| is_in_range(setting) && !self.is_noisy(setting, cell);
        self.cheapest_best(is_clear).or_else(|| self.cheapest_best(|s, _| is_in_range(s)))
    }

    /// Whether the windows of `cell` disagree, or it is far below a lower load and has few windows, as after a stall.
    pub fn is_noisy(&self, setting: Setting, cell: &Cell) -> bool {
        let is_lower =
            |s: Setting| s != setting && s.workers <= setting.workers && s.depth <= setting.depth;
        let lower = self.iter().filter(|(s, _)| is_lower(*s)).map(|(_, cell)| cell.mean());
        let has_dropped = cell.mean() < DROPPED * lower.fold(0.0, f64::max);
        let is_wide = cell.estimate().relative().is_some_and(|part| part > WIDE);
        is_wide || (has_dropped && cell.windows() < WINDOWS_SURE)
    }

    /// The first noisy setting that more windows may make clear.
    pub fn to_repeat(&self) -> Option<Setting> {
        let open =
            |s: Setting, cell: &Cell| self.is_noisy(s, cell) && cell.windows() < WINDOWS_NOISY_MAX;
        self.iter().find(|(s, cell)| open(*s, cell)).map(|(s, _)| s)
    }

    /// The best setting with a single worker.
    pub fn best_of_one_worker(&self) -> Option<Setting> {
        self.cheapest_best(|s, _| s.workers == 1)
    }
}
