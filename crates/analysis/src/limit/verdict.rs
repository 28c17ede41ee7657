//! What stopped it: rules over counter-experiments. A cause is named only where an experiment
//! shows it; everything else is undecided, with the reason.

use super::counter::{CORES_SUSPECT, Counted, helps};
use super::outcome::{Cause, Experiment, ExperimentKind, Verdict};
use super::probe::CpuShares;
use crate::stats::Ratio;

/// A worker that uses this share of its processor has filled it: the rest is switching and noise.
const WORKER_FULL: f64 = 0.90;
/// All processors together are full at this share.
pub(super) const CORES_FULL: f64 = 0.95;
/// A change whose interval ends below this brings nothing worth having.
const NO_GAIN_MAX: f64 = 1.10;
/// Twice the depth that does so much more was held by the depth, not nearly by something else.
const DEPTH_GAIN_MIN: f64 = 1.25;
/// Half the processors must surely do less than this, or processors were not what mattered.
const FEWER_DROP: f64 = 0.95;
/// Latency that rises at least so much with twice the depth waits in a queue (Little's law: twice).
const QUEUES: f64 = 1.6;
/// Other load, or stolen time, worth naming.
const FOREIGN: f64 = 0.10;

/// What a verdict rests on.
pub(super) struct Evidence<'a> {
    pub counted: &'a Counted,
    pub idle: Option<CpuShares>,
    pub cores: u32,
    /// The deepest queue that the search goes to.
    pub depth_max: u32,
}

/// What a change did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    More,
    NotMore,
    Unclear,
    Unknown,
}

/// The verdict.
pub(super) fn decide(evidence: &Evidence) -> Verdict {
    let (cause, reason) = evidence.cause();
    Verdict {
        at: evidence.counted.base.setting(),
        cause,
        reason,
        experiments: evidence.counted.experiments.clone(),
    }
}

impl Evidence<'_> {
    fn experiment(&self, kind: ExperimentKind) -> Option<&Experiment> {
        self.counted.experiments.iter().find(|e| e.kind == kind)
    }

    fn gain(&self, kind: ExperimentKind) -> Option<Ratio> {
        self.experiment(kind)?.gain
    }

    fn effect(&self, kind: ExperimentKind) -> Effect {
        match self.gain(kind) {
            None => Effect::Unknown,
            Some(gain) if helps(&gain) => Effect::More,
            Some(gain) if gain.high < NO_GAIN_MAX => Effect::NotMore,
            Some(_) => Effect::Unclear,
        }
    }

    fn cause(&self) -> (Cause, String) {
        if self.counted.base.iops.mean <= 0.0 {
            return (Cause::Undecided, "no I/O was completed here".into());
        }
        if let Some(text) = self.just_moved() {
            return (Cause::Undecided, text);
        }
        let full = self.counted.base.cpu.map_or(0.0, |c| c.taken()) >= CORES_FULL;
        let deeper = self.effect(ExperimentKind::Deeper);
        let workers = self.effect(ExperimentKind::MoreWorkers);
        match (deeper, workers) {
            (Effect::More, _) => self.depth(),
            (Effect::NotMore, Effect::More) => self.one_queue(),
            _ if full && workers != Effect::More => self.full_cores(),
            (Effect::NotMore, Effect::NotMore) => self.device(),
            (Effect::Unknown, _) => self.unknown(ExperimentKind::Deeper),
            (_, Effect::Unknown) => self.unknown(ExperimentKind::MoreWorkers),
            (Effect::Unclear, _) => self.unclear(ExperimentKind::Deeper),
            (_, Effect::Unclear) => self.unclear(ExperimentKind::MoreWorkers),
        }
    }

    /// The search came here from a lower peak, and nothing could be tried from here.
    fn just_moved(&self) -> Option<String> {
        let (from, gain) = self.counted.moved?;
        let is_open =
            self.counted.experiments.iter().all(|e| e.gain.is_none() && e.refused.is_none());
        is_open.then(|| {
            format!(
                "{} does {} what {from} does, and the time was up before more could be tried from there: \
                 more time (--time) lets the search go on",
                self.counted.base.setting(),
                times(&gain)
            )
        })
    }

    fn depth(&self) -> (Cause, String) {
        let Some(gain) = self.gain(ExperimentKind::Deeper) else {
            return self.unknown(ExperimentKind::Deeper);
        };
        let depth = self.counted.base.depth;
        if gain.low < DEPTH_GAIN_MIN {
            let text = format!(
                "twice the depth still does {}: nearly saturated at depth {depth}, but not there",
                times(&gain)
            );
            return (Cause::Undecided, text);
        }
        let end = if depth >= self.depth_max {
            format!("the search goes no deeper than {} per worker", self.depth_max)
        } else {
            "more time would let the search go deeper".to_string()
        };
        let latency = self
            .latency_of_deeper()
            .map_or_else(String::new, |l| format!(" at {l:.2} times the latency"));
        (Cause::Depth, format!("twice the depth does {}{latency}; {end}", times(&gain)))
    }

    /// More workers do more, more depth does not.
    fn one_queue(&self) -> (Cause, String) {
        let base = &self.counted.base;
        let Some(gain) = self.gain(ExperimentKind::MoreWorkers) else {
            return self.unknown(ExperimentKind::MoreWorkers);
        };
        let (share, gain) = (percent(base.worker_share), times(&gain));
        if base.worker_share >= WORKER_FULL {
            let text = format!(
                "the worker uses {share} of its processor; {} do {gain}, twice the depth does not do more",
                more_workers(self.experiment(ExperimentKind::MoreWorkers), base.workers)
            );
            return (Cause::SubmittingCore, text);
        }
        let text = format!(
            "more workers do {gain}, though a worker uses only {share} of its processor: perhaps a limit for \
             each queue (its tags, nr_requests) or each thread"
        );
        (Cause::Undecided, text)
    }

    /// All processors are full: do fewer of them do less?
    fn full_cores(&self) -> (Cause, String) {
        let cpu = self.counted.base.cpu.unwrap_or_default();
        let mut text = format!("the processors are {} busy", percent(cpu.busy));
        if cpu.steal >= FOREIGN {
            text += &format!(" and the hypervisor took {}", percent(cpu.steal));
        }
        if let Some(idle) = self.idle.filter(|i| i.busy >= FOREIGN) {
            text += &format!(" ({} of it before this search: other programs)", percent(idle.busy));
        }
        if self.cores == 1 && self.counted.base.worker_share >= WORKER_FULL {
            return (Cause::AllCores, format!("{text}; there is only one"));
        }
        match self.gain(ExperimentKind::FewerCores) {
            Some(gain) if gain.high < FEWER_DROP => {
                (Cause::AllCores, format!("{text}; half of them do {}", times(&gain)))
            }
            Some(gain) if gain.low > FEWER_DROP => {
                (Cause::Undecided, format!("{text}, yet half of them do {}", times(&gain)))
            }
            Some(gain) => (
                Cause::Undecided,
                format!("{text}; half of them do {}: too noisy to confirm", times(&gain)),
            ),
            None => (
                Cause::Undecided,
                format!("{text}; {}", self.why_missing(ExperimentKind::FewerCores)),
            ),
        }
    }

    /// Neither workers nor depth do more.
    fn device(&self) -> (Cause, String) {
        let base = &self.counted.base;
        let Some(cpu) = base.cpu else {
            return (
                Cause::Undecided,
                "neither more workers nor more depth do more, but how busy the processors were is not known".into(),
            );
        };
        if cpu.taken() >= CORES_SUSPECT {
            let text = format!(
                "{}, and the processors are {} busy: too full to rule them out, not full enough to blame them",
                self.no_more(),
                percent(cpu.taken())
            );
            return (Cause::Undecided, text);
        }
        let mut text =
            format!("{}, and the processors are only {} busy", self.no_more(), percent(cpu.busy));
        if self.latency_of_deeper().is_some_and(|l| l < QUEUES) {
            text += "; yet latency does not rise in proportion: some of the depth waits above the device";
        }
        if base.worker_share >= WORKER_FULL && base.workers == 1 {
            text += "; the worker's processor is full too, but a second worker does not help";
        }
        (Cause::Device, text)
    }

    /// The experiments that brought nothing, with their figures.
    fn no_more(&self) -> String {
        let gain = |kind| self.gain(kind).map_or_else(|| "no more".to_string(), |g| times(&g));
        let latency = self
            .latency_of_deeper()
            .map_or_else(String::new, |l| format!(" at {l:.2} times the latency"));
        let more = self.experiment(ExperimentKind::MoreWorkers).map_or(0, |e| e.setting.workers);
        format!(
            "twice the depth does {}{latency}, {more} workers do {}",
            gain(ExperimentKind::Deeper),
            gain(ExperimentKind::MoreWorkers)
        )
    }

    fn latency_of_deeper(&self) -> Option<f64> {
        self.experiment(ExperimentKind::Deeper)?.latency_ratio
    }

    fn unknown(&self, kind: ExperimentKind) -> (Cause, String) {
        (Cause::Undecided, self.why_missing(kind))
    }

    fn why_missing(&self, kind: ExperimentKind) -> String {
        let what = name(kind);
        match self.experiment(kind).and_then(|e| e.refused.as_ref()) {
            Some(why) => format!("{what} could not be tried: {why}"),
            None => format!("the time was up before {what} had been tried twice"),
        }
    }

    fn unclear(&self, kind: ExperimentKind) -> (Cause, String) {
        let Some(gain) = self.gain(kind) else { return self.unknown(kind) };
        let mut text = format!("{} did {}: too noisy to say", name(kind), times(&gain));
        let cpu = self.counted.base.cpu.unwrap_or_default();
        if cpu.steal >= FOREIGN {
            text += &format!("; the hypervisor took {} of the processors", percent(cpu.steal));
        }
        if let Some(idle) = self.idle.filter(|i| i.busy >= FOREIGN) {
            text += &format!(
                "; before this search {} of the processors were busy with other programs",
                percent(idle.busy)
            );
        }
        (Cause::Undecided, text)
    }
}

fn name(kind: ExperimentKind) -> &'static str {
    match kind {
        ExperimentKind::Deeper => "twice the depth",
        ExperimentKind::MoreWorkers => "more workers",
        ExperimentKind::FewerCores => "half of the processors",
    }
}

fn more_workers(experiment: Option<&Experiment>, workers: u32) -> String {
    experiment.map_or_else(
        || "more".into(),
        |e| format!("{} workers instead of {workers}", e.setting.workers),
    )
}

/// A share as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A ratio with its interval.
#[must_use]
pub fn times(ratio: &Ratio) -> String {
    format!("{:.2} times ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high)
}
