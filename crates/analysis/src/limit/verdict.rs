//! What limits a setting: rules over its confirmation tests. A cause is named only if an
//! experiment shows it; everything else is inconclusive, with the reason.

use super::curve::Curve;
use super::held;
use super::peak::CounterResults;
use super::thresholds::{
    CORES_FULL, CORES_SUSPECT, DEPTH_GAIN_MIN, FEWER_CORES_MAX, FOREIGN, GAIN_MIN, NO_GAIN_MAX,
    QUEUEING_MIN, WORKER_FULL, helps,
};
use crate::stats;
use fathom_model::limit::{BlockSpec, Cause, Experiment, ExperimentKind, QueueFacts, Verdict};
use fathom_model::window::{Ratio, Setting};

/// What a verdict rests on.
pub(super) struct Evidence<'a> {
    pub results: &'a CounterResults,
    pub cores: u32,
    pub spec: BlockSpec,
    pub queue: Option<&'a QueueFacts>,
    pub curve: &'a Curve,
    /// The peak, where that is in question.
    pub peak: Option<Setting>,
    /// Planned time of the search, in seconds.
    pub seconds: f64,
}

/// The effect of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Gain,
    NoGain,
    Unclear,
    Unknown,
}

/// The verdict.
pub(super) fn decide(evidence: &Evidence) -> Verdict {
    let (cause, reason) = evidence.cause();
    Verdict {
        at: evidence.results.base.setting(),
        cause,
        reason,
        experiments: evidence.results.experiments.clone(),
    }
}

impl Evidence<'_> {
    fn experiment(&self, kind: ExperimentKind) -> Option<&Experiment> {
        self.results.experiments.iter().find(|e| e.kind == kind)
    }

    fn gain(&self, kind: ExperimentKind) -> Option<Ratio> {
        self.experiment(kind)?.gain
    }

    fn effect(&self, kind: ExperimentKind) -> Effect {
        match self.gain(kind) {
            None => Effect::Unknown,
            Some(gain) if helps(&gain) => Effect::Gain,
            Some(gain) if gain.high < NO_GAIN_MAX => Effect::NoGain,
            Some(_) => Effect::Unclear,
        }
    }

    fn cause(&self) -> (Cause, String) {
        if self.results.base.iops.mean <= 0.0 {
            return (Cause::Inconclusive, "No I/O completed".into());
        }
        let base = &self.results.base;
        let taken = base.cpu.map_or(0.0, |c| c.taken());
        let fewer = self.gain(ExperimentKind::FewerCores);
        let needs_cores = taken >= CORES_SUSPECT && fewer.is_some_and(|g| g.high < FEWER_CORES_MAX);
        let deeper = self.effect(ExperimentKind::Deeper);
        let workers = self.effect(ExperimentKind::MoreWorkers);
        if deeper != Effect::Gain
            && let Some(found) = held::cause(base, self.spec.rw, self.queue, self.curve, self.cores)
        {
            return found;
        }
        if let Some(text) = self.untested() {
            return (Cause::Inconclusive, text);
        }
        match (deeper, workers) {
            (Effect::Gain, _) => self.depth(),
            (Effect::NoGain, Effect::Gain) => self.one_queue(),
            _ if (needs_cores || taken >= CORES_FULL) && workers != Effect::Gain => {
                self.full_cores()
            }
            (Effect::NoGain, Effect::NoGain) => self.device(),
            _ if self.no_more_load_helps() => self.device(),
            (Effect::Unknown, _) => self.unknown(ExperimentKind::Deeper),
            (_, Effect::Unknown) => self.unknown(ExperimentKind::MoreWorkers),
            (Effect::Unclear, _) => self.unclear(ExperimentKind::Deeper),
            (_, Effect::Unclear) => self.unclear(ExperimentKind::MoreWorkers),
        }
    }

    /// Neither change yields a gain, or one is noisy but both together show none.
    fn no_more_load_helps(&self) -> bool {
        let kinds = [ExperimentKind::Deeper, ExperimentKind::MoreWorkers];
        let [Some(deeper), Some(more)] = kinds.map(|kind| self.gain(kind)) else { return false };
        let is_gain = |gain: &Ratio| gain.low > 1.0 && gain.value >= GAIN_MIN;
        ![deeper, more].iter().any(is_gain)
            && stats::pooled(&[deeper, more]).is_some_and(|all| all.high < NO_GAIN_MAX)
    }

    /// The peak is a setting without confirmation tests, and surely higher than what was tested.
    fn untested(&self) -> Option<String> {
        let base = self.results.base.setting();
        let moved = self.results.moved.filter(|_| !self.results.is_examined());
        let moved = moved.map(|(from, gain)| (base, from, gain));
        let (peak, from, gain) = moved.or_else(|| {
            let is_other = |peak: &Setting| {
                *peak != base && !self.results.experiments.iter().any(|e| e.setting == *peak)
            };
            let peak = self.peak.filter(is_other)?;
            let (best, tested) = (self.curve.get(peak)?, self.curve.get(base)?);
            let gain = stats::welch(&best.iops(), &tested.iops()).filter(helps)?;
            Some((peak, base, gain))
        })?;
        Some(format!(
            "{} delivers {} of {}. Not enough time to test this point; rerun with --duration {}",
            capitalized(&peak.in_words()),
            iops(&gain),
            from.in_words(),
            self.longer()
        ))
    }

    /// Twice the time of this search, as `--duration` takes it.
    fn longer(&self) -> String {
        let seconds = (2.0 * self.seconds).ceil() as u64;
        if seconds.is_multiple_of(60) {
            format!("{}m", seconds / 60)
        } else {
            format!("{seconds}s")
        }
    }

    fn depth(&self) -> (Cause, String) {
        let Some(gain) = self.gain(ExperimentKind::Deeper) else {
            return self.unknown(ExperimentKind::Deeper);
        };
        let depth = self.results.base.depth;
        if gain.low < DEPTH_GAIN_MIN {
            let text = format!(
                "Doubling the queue depth still yields {}: QD{depth} is close to saturation but below it",
                iops(&gain)
            );
            return (Cause::Inconclusive, text);
        }
        let end = if depth >= self.spec.depth_max {
            format!("The search does not exceed QD{} per worker", self.spec.depth_max)
        } else {
            format!("To search deeper, rerun with --duration {}", self.longer())
        };
        let latency = self
            .latency_of_deeper()
            .map_or_else(String::new, |l| format!(" at {l:.2}× the latency"));
        (Cause::Depth, format!("Doubling the queue depth yields {}{latency}. {end}", iops(&gain)))
    }

    /// More workers yield more, a deeper queue does not.
    fn one_queue(&self) -> (Cause, String) {
        let base = &self.results.base;
        let Some(gain) = self.gain(ExperimentKind::MoreWorkers) else {
            return self.unknown(ExperimentKind::MoreWorkers);
        };
        let (share, more) = (percent(base.worker_share), self.more_workers());
        let yields = format!(
            "{} yields {}; doubling the queue depth adds no throughput",
            capitalized(&more),
            iops(&gain)
        );
        if base.worker_share >= WORKER_FULL {
            let whose = if base.workers == 1 { "The worker" } else { "The busiest worker" };
            return (Cause::SubmittingCore, format!("{whose} uses {share} of its CPU. {yields}"));
        }
        let text = format!(
            "{yields}. Yet no worker uses more than {share} of its CPU: the limit may be per queue (tags, \
             nr_requests) or per thread"
        );
        (Cause::Inconclusive, text)
    }

    /// All CPUs are fully used: do fewer of them yield less?
    fn full_cores(&self) -> (Cause, String) {
        let cpu = self.results.base.cpu.unwrap_or_default();
        let usage = format!("CPU usage is {}{}", percent(cpu.busy), self.foreign());
        if self.cores == 1 && self.results.base.worker_share >= WORKER_FULL {
            return (Cause::AllCores, format!("{usage}. There is only one CPU"));
        }
        let Some(gain) = self.gain(ExperimentKind::FewerCores) else {
            let why = self.why_missing(ExperimentKind::FewerCores);
            return (Cause::Inconclusive, format!("{usage}. {why}"));
        };
        let yields = times(&gain);
        if gain.high < FEWER_CORES_MAX {
            (Cause::AllCores, format!("{usage}. With half the CPUs, IOPS are {yields}"))
        } else if gain.low > FEWER_CORES_MAX {
            (Cause::Inconclusive, format!("{usage}. Yet with half the CPUs, IOPS are {yields}"))
        } else {
            let text = "too noisy to tell whether the CPUs are the limit";
            (Cause::Inconclusive, format!("{usage}. With half the CPUs, IOPS are {yields}: {text}"))
        }
    }

    /// Neither more workers nor a deeper queue yield more.
    fn device(&self) -> (Cause, String) {
        let base = &self.results.base;
        let mut text = self.no_gain();
        let Some(cpu) = base.cpu else {
            return (Cause::Inconclusive, format!("{text}. CPU usage was not measured"));
        };
        if cpu.taken() >= CORES_SUSPECT {
            let usage = percent(cpu.taken());
            text += &format!(". CPU usage is {usage}, too close to full to exclude the CPUs");
            return (Cause::Inconclusive, text);
        }
        text += &format!(". CPU usage is only {}", percent(cpu.busy));
        if self.latency_of_deeper().is_some_and(|l| l < QUEUEING_MIN) {
            text += ". Latency does not rise in proportion: some requests queue above the device";
        }
        if base.worker_share >= WORKER_FULL && base.workers == 1 {
            text += ". The worker is CPU-bound too, but a second one does not help";
        }
        if self.queue.is_some_and(|queue| queue.hidden) {
            text += ". Which device holds the target is not visible here, so that no device can be named";
            return (Cause::Inconclusive, text);
        }
        (Cause::Device, text)
    }

    /// The experiments without a gain.
    fn no_gain(&self) -> String {
        let gain = |kind| match self.gain(kind) {
            Some(g) => format!(" ({:.2}×, 95% CI {:.2}–{:.2})", g.value, g.low, g.high),
            None => String::new(),
        };
        let deeper = match self.latency_of_deeper() {
            Some(l) if (1.9..2.1).contains(&l) => {
                format!("doubles latency ({l:.2}×) without adding")
            }
            Some(l) if l >= QUEUEING_MIN => format!("raises latency {l:.2}× without adding"),
            Some(l) => format!("(latency {l:.2}×) does not add"),
            None => "does not add".to_string(),
        };
        format!(
            "Doubling the queue depth {deeper} throughput{}; {} adds nothing either{}",
            gain(ExperimentKind::Deeper),
            self.more_workers(),
            gain(ExperimentKind::MoreWorkers)
        )
    }

    fn more_workers(&self) -> String {
        let base = self.results.base.workers;
        let more = self.experiment(ExperimentKind::MoreWorkers).map_or(base, |e| e.setting.workers);
        match (base, more) {
            (1, 2) => "a second worker".to_string(),
            (2, 3) => "a third worker".to_string(),
            _ => format!("raising the worker count from {base} to {more}"),
        }
    }

    fn latency_of_deeper(&self) -> Option<f64> {
        self.experiment(ExperimentKind::Deeper)?.latency_ratio
    }

    fn unknown(&self, kind: ExperimentKind) -> (Cause, String) {
        (Cause::Inconclusive, self.why_missing(kind))
    }

    fn why_missing(&self, kind: ExperimentKind) -> String {
        let change = self.change(kind);
        match self.experiment(kind).and_then(|e| e.refused.as_ref()) {
            Some(why) => format!("{} was not possible: {why}", capitalized(&change)),
            None => format!(
                "Not enough time to measure {change} twice; rerun with --duration {}",
                self.longer()
            ),
        }
    }

    fn unclear(&self, kind: ExperimentKind) -> (Cause, String) {
        let Some(gain) = self.gain(kind) else { return self.unknown(kind) };
        let text = format!(
            "{} yields {}: too noisy for a conclusion{}",
            capitalized(&self.change(kind)),
            iops(&gain),
            self.foreign()
        );
        (Cause::Inconclusive, text)
    }

    fn change(&self, kind: ExperimentKind) -> String {
        match kind {
            ExperimentKind::Deeper => "doubling the queue depth".to_string(),
            ExperimentKind::MoreWorkers => self.more_workers(),
            ExperimentKind::FewerCores => "using half of the CPUs".to_string(),
        }
    }

    /// CPU time that the hypervisor withheld, in a sentence led by a full stop; a finding names other programs.
    fn foreign(&self) -> String {
        let cpu = self.results.base.cpu.filter(|cpu| cpu.steal >= FOREIGN);
        cpu.map_or_else(String::new, |cpu| format!(". Steal time is {}", percent(cpu.steal)))
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A ratio with its interval.
pub fn times(ratio: &Ratio) -> String {
    format!("{:.2}× (95% CI {:.2}–{:.2})", ratio.value, ratio.low, ratio.high)
}

/// A ratio of I/Os per second with its interval.
fn iops(ratio: &Ratio) -> String {
    format!("{:.2}× the IOPS (95% CI {:.2}–{:.2})", ratio.value, ratio.low, ratio.high)
}
