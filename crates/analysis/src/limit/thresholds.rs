//! The margins by which windows are judged; those of single causes are beside their rules.

use fathom_model::window::Ratio;

/// The knee is where this share of the peak is reached.
pub const KNEE_SHARE: f64 = 0.95;
/// A change that yields less than this ratio does not count as a gain.
pub(crate) const GAIN_MIN: f64 = 1.05;
/// A change whose interval ends below this ratio has no gain worth having.
pub(crate) const NO_GAIN_MAX: f64 = 1.10;
/// Of settings within this share of the best, the one with the fewest I/Os in flight is preferred.
pub(super) const AS_GOOD: f64 = 0.97;

/// With so many windows, a setting's figures are as sure as most.
pub(super) const WINDOWS_SURE: usize = 3;
/// A setting whose interval is this wide, as a part of its mean to either side, is noisy.
pub(super) const WIDE: f64 = 0.5;
/// So is one that has this part of the IOPS of a lower load, or less, until enough windows agree.
pub(super) const DROPPED: f64 = 0.5;
/// It is measured again until it has so many windows.
pub(super) const WINDOWS_NOISY_MAX: usize = 6;

/// Below this CPU usage the CPUs are not the limit.
pub(crate) const CORES_SUSPECT: f64 = 0.85;

/// Combined targets below this share of their individual rates slow each other down.
pub(super) const SLOWER: f64 = 0.95;
/// An interval above this share rules out a relevant slowdown; a single target whose interval ends below it is
/// slowed down. Lower than [`SLOWER`], as one of many targets may be low by chance.
pub(super) const NOT_SLOWER: f64 = 0.90;
/// With this share, an interval above [`NOT_SLOWER`] suffices to rule out a slowdown.
pub(super) const SAME: f64 = 0.97;

/// Whether a change surely yields a gain.
pub(crate) fn helps(gain: &Ratio) -> bool {
    gain.low > 1.0 && gain.value >= GAIN_MIN
}

/// Whether it does even if tested repeatedly.
pub(super) fn surely_helps(gain: &Ratio) -> bool {
    gain.low >= GAIN_MIN
}
