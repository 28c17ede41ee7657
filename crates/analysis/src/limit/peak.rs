//! The peak of one target and kind of I/O, and the confirmation tests made there. Every rule by
//! which the peak moves is here.

use super::curve::Curve;
use super::knee::KneeFound;
use super::thresholds::{GAIN_MIN, KNEE_SHARE};
use fathom_model::limit::Experiment;
use fathom_model::window::{Point, Ratio, Setting};

/// The results of the confirmation tests at one setting.
#[derive(Debug)]
pub(super) struct CounterResults {
    pub base: Point,
    pub experiments: Vec<Experiment>,
    /// The previous peak, and the gain over it.
    pub moved: Option<(Setting, Ratio)>,
}

impl CounterResults {
    /// Whether any confirmation test was made or rejected.
    pub fn is_examined(&self) -> bool {
        self.experiments.iter().any(|e| e.gain.is_some() || e.refused.is_some())
    }
}

/// The peak.
#[derive(Debug, Default)]
pub(super) struct Peak {
    setting: Option<Setting>,
    results: Option<CounterResults>,
    one_worker: Option<CounterResults>,
}

impl Peak {
    pub fn setting(&self) -> Option<Setting> {
        self.setting
    }

    /// The confirmation tests at the peak.
    pub fn results(&self) -> Option<&CounterResults> {
        self.results.as_ref()
    }

    /// The confirmation tests at the best setting with one worker.
    pub fn one_worker(&self) -> Option<&CounterResults> {
        self.one_worker.as_ref()
    }

    /// The climb's best setting becomes the peak if there is none that is about as good.
    pub fn offer_best(&mut self, best: Setting, curve: &Curve, cores: u32) {
        if curve.mean(best) > GAIN_MIN * self.setting.map_or(0.0, |peak| curve.mean(peak)) {
            self.move_to(best, curve, cores);
        }
    }

    /// A knee with more I/Os per second becomes the peak. Where both are one plateau, and the knee is higher by
    /// chance, the peak stays where its confirmation tests were made.
    pub fn offer_knee(&mut self, knee: Option<KneeFound>, curve: &Curve, cores: u32) {
        let Some(KneeFound { setting: knee, of_peak, .. }) = knee else { return };
        let is_examined = self.results().is_some_and(CounterResults::is_examined);
        let margin = if is_examined { KNEE_SHARE } else { 1.0 };
        if of_peak.is_some_and(|ratio| ratio.value > 1.0 / margin) {
            self.move_to(knee, curve, cores);
        }
        if knee.workers == 1 {
            // One worker that reaches the knee is not the limit.
            self.one_worker = None;
        }
    }

    /// The setting of a confirmation test with a gain becomes the peak.
    pub fn advance(&mut self, results: CounterResults) {
        self.setting = Some(results.base.setting());
        self.results = Some(results);
    }

    /// Takes the results of confirmation tests, at the peak or with one worker.
    pub fn examine(&mut self, results: CounterResults, is_one_worker: bool) {
        let of = if is_one_worker { &mut self.one_worker } else { &mut self.results };
        *of = Some(results);
    }

    /// Results at another setting do not apply at `to`.
    fn move_to(&mut self, to: Setting, curve: &Curve, cores: u32) {
        self.setting = Some(to);
        if self.one_worker.as_ref().is_some_and(|results| results.base.setting() == to) {
            self.results = self.one_worker.take();
        } else if let (Some(results), Some(cell)) = (&mut self.results, curve.get(to)) {
            *results = CounterResults {
                base: cell.point(to, cores),
                experiments: Vec::new(),
                moved: None,
            };
        }
    }
}
