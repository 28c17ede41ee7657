//! What a search shows of one setting: its curve, and confirmation tests that change one thing at a time. The first rule
//! that holds is the verdict, so what holds I/Os back above the device comes first in the list of rules: there, no test
//! can tell a limit from a device that does no more.

use crate::limit::thresholds::{CORES_SUSPECT, GAIN_MIN, NO_GAIN_MAX, helps};
use crate::limit::{percent, times};
use crate::rules::{Claim, Input, RULES, Rule};
use crate::stats;
use fathom_model::finding::{Confidence, Evidence, Finding, Part, Subject, Unit};
use fathom_model::limit::{
    BlockSpec, Cause, Config, Confirmation, Experiment, ExperimentKind, LimitReport, QueueFacts,
};
use fathom_model::window::{Point, Ratio, Setting};

/// Half of the CPUs must surely yield less than this ratio to show that the CPUs are the limit.
pub(super) const FEWER_CORES_MAX: f64 = 0.95;
/// With half the CPUs, what is left of the IOPS where the others add next to nothing; the second thread of a core adds more.
const CONTENDED_MIN: f64 = 0.85;
/// A worker with this CPU usage is CPU-bound; the rest is context switches and noise.
pub(in crate::rules) const WORKER_FULL: f64 = 0.90;
/// Steal time worth reporting.
const FOREIGN: f64 = 0.10;

pub(in crate::rules) struct SettingView<'a> {
    pub base: &'a Point,
    pub tests: &'a Confirmation,
    pub spec: BlockSpec,
    pub cores: u32,
    pub queue: Option<&'a QueueFacts>,
    /// All settings of this kind of I/O.
    pub points: &'a [Point],
    /// Planned time of the search, in seconds.
    seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::rules) enum Effect {
    Gain,
    NoGain,
    Unclear,
    Unknown,
}

/// What limits each kind of I/O of each target at its peak, and with a single worker.
pub(crate) fn verdicts(config: &Config, report: &LimitReport) -> Vec<Finding> {
    let mut found = Vec::new();
    for (target, limits) in report.targets.iter().enumerate() {
        for (block, limit) in limits.blocks.iter().enumerate() {
            let parts = [
                (1, Part::Peak { target, block }, &limit.confirmation),
                (2, Part::OneWorker { target, block }, &limit.one_worker),
            ];
            for (rank, part, tests) in parts {
                let Some(tests) = tests else { continue };
                let view = tests.base.as_ref().zip(config.blocks.get(block));
                let view = view.map(|(base, spec)| SettingView {
                    base,
                    tests,
                    spec: *spec,
                    cores: report.cores,
                    queue: config.queues.get(target),
                    points: &limit.points,
                    seconds: config.seconds,
                });
                let finding = view.map_or_else(|| stored(tests), |view| verdict(&view));
                found.extend(finding.map(|finding| Finding {
                    rank: Some(rank),
                    part: Some(part),
                    ..finding
                }));
            }
        }
    }
    found
}

fn verdict(view: &SettingView) -> Option<Finding> {
    RULES.iter().find_map(|rule| rule.check(&Input::Setting(view)))
}

/// The verdict that a record before version 3 holds.
fn stored(tests: &Confirmation) -> Option<Finding> {
    let id = match tests.cause? {
        Cause::SubmittingCore => "own-cpu-time",
        Cause::AllCores => "busy-cpus",
        Cause::Device => "device",
        Cause::CgroupIoLimit => "cgroup-io-limit",
        Cause::CpuQuota => "cgroup-cpu-quota",
        Cause::QueueRequests => "queue-requests",
        Cause::IoScheduler => "io-scheduler",
        Cause::Depth => "queue-depth",
        Cause::Undecided => "inconclusive",
    };
    let rule = RULES.iter().find(|rule| rule.id == id)?;
    let claim = Claim::new(format!("{}.", tests.reason.as_deref().unwrap_or("")), Vec::new());
    Some(rule.finding(Claim { limited_by: rule.limits_setting(), ..claim }))
}

impl SettingView<'_> {
    pub fn experiment(&self, kind: ExperimentKind) -> Option<&Experiment> {
        self.tests.experiments.iter().find(|e| e.kind == kind)
    }

    pub fn gain(&self, kind: ExperimentKind) -> Option<Ratio> {
        self.experiment(kind)?.gain
    }

    pub fn effect(&self, kind: ExperimentKind) -> Effect {
        match self.gain(kind) {
            None => Effect::Unknown,
            Some(gain) if helps(&gain) => Effect::Gain,
            Some(gain) if gain.high < NO_GAIN_MAX => Effect::NoGain,
            Some(_) => Effect::Unclear,
        }
    }

    /// The effects of a deeper queue and of more workers, if I/Os completed and no setting is known to be higher.
    pub fn effects(&self) -> Option<(Effect, Effect)> {
        let is_tested = self.base.iops.mean > 0.0 && self.tests.higher.is_none();
        let effects = [ExperimentKind::Deeper, ExperimentKind::MoreWorkers];
        let [deeper, workers] = effects.map(|kind| self.effect(kind));
        is_tested.then_some((deeper, workers))
    }

    /// Whether I/Os may be held back above the device: a deeper queue does not help.
    pub fn may_be_held(&self) -> bool {
        self.base.iops.mean > 0.0 && self.effect(ExperimentKind::Deeper) != Effect::Gain
    }

    /// CPU usage with steal time; 0 if it was not measured.
    pub fn taken(&self) -> f64 {
        self.base.cpu.map_or(0.0, |cpu| cpu.taken())
    }

    /// Half of the CPUs surely yield less.
    pub fn needs_cores(&self) -> bool {
        let fewer = self.gain(ExperimentKind::FewerCores);
        self.taken() >= CORES_SUSPECT && fewer.is_some_and(|gain| gain.high < FEWER_CORES_MAX)
    }

    pub fn suspects_cores(&self) -> bool {
        let is_full = self.taken() * 100.0 >= super::view::CPUS_BUSY_MIN;
        (self.needs_cores() || is_full) && self.effect(ExperimentKind::MoreWorkers) != Effect::Gain
    }

    /// Neither change yields a gain, or one is noisy but both together show none.
    pub fn no_more_load_helps(&self) -> bool {
        let kinds = [ExperimentKind::Deeper, ExperimentKind::MoreWorkers];
        if kinds.map(|kind| self.effect(kind)) == [Effect::NoGain; 2] {
            return true;
        }
        let [Some(deeper), Some(more)] = kinds.map(|kind| self.gain(kind)) else { return false };
        let is_gain = |gain: &Ratio| gain.low > 1.0 && gain.value >= GAIN_MIN;
        ![deeper, more].iter().any(is_gain)
            && stats::pooled(&[deeper, more]).is_some_and(|all| all.high < NO_GAIN_MAX)
    }

    pub fn latency_of_deeper(&self) -> Option<f64> {
        self.experiment(ExperimentKind::Deeper)?.latency_ratio
    }

    pub fn more_workers(&self) -> String {
        let base = self.base.workers;
        let tested = self.experiment(ExperimentKind::MoreWorkers).map(|e| e.setting.workers);
        match (base, tested.filter(|more| *more > base)) {
            (1, Some(2)) => "a second worker".to_string(),
            (2, Some(3)) => "a third worker".to_string(),
            (_, Some(more)) => format!("raising the worker count from {base} to {more}"),
            (_, None) => "more workers".to_string(),
        }
    }

    pub fn point(&self, setting: Setting) -> Option<&Point> {
        self.points.iter().find(|point| point.setting() == setting)
    }

    /// A sentence without its full stop, with `own` evidence and that of the tests, about the target's device.
    pub fn claim(&self, text: String, own: impl IntoIterator<Item = Evidence>) -> Claim {
        let tests = self.tests.experiments.iter().filter_map(|e| {
            let (gain, name) = (
                e.gain?,
                match e.kind {
                    ExperimentKind::Deeper => "IOPS at twice the queue depth",
                    ExperimentKind::MoreWorkers => "IOPS with more workers",
                    ExperimentKind::FewerCores => "IOPS on half of the CPUs",
                },
            );
            let ratio = Evidence::number(name, gain.value, Unit::Ratio);
            Some(ratio.with_interval(gain.low, gain.high).with_source("confirmation test"))
        });
        let latency = self.latency_of_deeper().map(|latency| {
            Evidence::number("latency at twice the queue depth", latency, Unit::Ratio)
                .with_source("confirmation test")
        });
        let cpu = self.base.cpu.map(|cpu| {
            Evidence::number("CPU usage", cpu.taken(), Unit::Share).with_source("/proc/stat")
        });
        let iops = self.base.iops;
        let rate = Evidence::number("IOPS", iops.mean, Unit::Iops);
        let rate = match iops.low.zip(iops.high) {
            Some((low, high)) => rate.with_interval(low.max(0.0), high),
            None => rate,
        };
        let all = own.into_iter().chain([rate]).chain(tests).chain(latency).chain(cpu);
        let device = self.queue.filter(|queue| !queue.device.is_empty());
        let claim = Claim::new(format!("{text}."), all.collect()).confidence(Confidence::High);
        Claim { subject: device.map(|queue| Subject::device(&queue.device)), ..claim }
    }

    /// Twice the time of this search, as `--duration` takes it.
    pub fn longer(&self) -> String {
        let seconds = (2.0 * self.seconds).ceil() as u64;
        match seconds.is_multiple_of(60) {
            true => format!("{}m", seconds / 60),
            false => format!("{seconds}s"),
        }
    }

    /// Why none of the causes is shown.
    fn doubt(&self) -> String {
        let base = self.base;
        if base.iops.mean <= 0.0 {
            return "No I/O completed".into();
        }
        if let Some(higher) = self.tests.higher {
            return format!(
                "{} delivers {} of {}. Not enough time to test this point; rerun with --duration {}",
                capitalized(&higher.setting.in_words()),
                iops(&higher.gain),
                higher.over.in_words(),
                self.longer()
            );
        }
        let kinds = [ExperimentKind::Deeper, ExperimentKind::MoreWorkers];
        match kinds.map(|kind| self.effect(kind)) {
            [Effect::Gain, _] => format!(
                "{}: QD{} is close to saturation but below it",
                self.yields(ExperimentKind::Deeper, "Doubling the queue depth still yields"),
                base.depth
            ),
            [Effect::NoGain, Effect::Gain] => format!(
                "{}. Yet no worker uses more than {} of its CPU: the limit may be per queue (tags, nr_requests) or per thread",
                self.only_workers_help(),
                percent(base.worker_share)
            ),
            _ if self.suspects_cores() => self.doubt_of_cores(),
            _ if self.no_more_load_helps() => self.doubt_of_device(),
            [Effect::Unknown, Effect::Unknown] => self.why_missing(&kinds),
            [Effect::Unknown, _] => self.why_missing(&kinds[..1]),
            [_, Effect::Unknown] => self.why_missing(&kinds[1..]),
            [Effect::Unclear, _] => self.unclear(kinds[0]),
            _ => self.unclear(kinds[1]),
        }
    }

    fn doubt_of_cores(&self) -> String {
        let usage = self.cpu_usage();
        let Some(gain) = self.gain(ExperimentKind::FewerCores) else {
            return format!("{usage}. {}", self.why_missing(&[ExperimentKind::FewerCores]));
        };
        let yields = times(&gain);
        match gain.low > CONTENDED_MIN {
            true => format!(
                "{usage}. Yet with half the CPUs, IOPS are {yields}: more CPUs mostly wait for each other, for locks and cache lines \
                 of what they share, such as one file"
            ),
            false => format!(
                "{usage}. With half the CPUs, IOPS are {yields}: too noisy to tell whether the CPUs are the limit"
            ),
        }
    }

    fn doubt_of_device(&self) -> String {
        let text = super::device::no_gain(self);
        match self.base.cpu {
            None => format!("{text}. CPU usage was not measured"),
            Some(cpu) if cpu.taken() >= CORES_SUSPECT => format!(
                "{text}. CPU usage is {}, too close to full to exclude the CPUs",
                percent(cpu.taken())
            ),
            Some(cpu) => format!(
                "{text}. CPU usage is only {}. Which device holds the target is not visible here, so that no device can be \
                 named",
                percent(cpu.busy)
            ),
        }
    }

    pub fn cpu_usage(&self) -> String {
        let cpu = self.base.cpu.unwrap_or_default();
        format!("CPU usage is {}{}", percent(cpu.busy), self.foreign())
    }

    /// More workers yield more, a deeper queue does not.
    pub fn only_workers_help(&self) -> String {
        let yields = format!("{} yields", capitalized(&self.more_workers()));
        let yields = self.yields(ExperimentKind::MoreWorkers, &yields);
        format!("{yields}; doubling the queue depth adds no throughput")
    }

    /// What a change yields, after words such as `A second worker yields`.
    pub fn yields(&self, kind: ExperimentKind, words: &str) -> String {
        self.gain(kind).map_or_else(String::new, |gain| format!("{words} {}", iops(&gain)))
    }

    /// What was not tested, and why.
    fn why_missing(&self, kinds: &[ExperimentKind]) -> String {
        let refused = kinds.iter().find_map(|kind| {
            let why = self.experiment(*kind)?.refused.as_ref()?;
            Some(format!("{} was not possible: {why}", capitalized(&self.change(*kind))))
        });
        let changes: Vec<String> = kinds.iter().map(|kind| self.change(*kind)).collect();
        refused.unwrap_or_else(|| {
            format!(
                "Not tested: {}, as that takes two windows each and the time was up; rerun with --duration {}",
                changes.join(" and "),
                self.longer()
            )
        })
    }

    fn unclear(&self, kind: ExperimentKind) -> String {
        let yields = format!("{} yields", capitalized(&self.change(kind)));
        format!("{}: too noisy for a conclusion{}", self.yields(kind, &yields), self.foreign())
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
        let cpu = self.base.cpu.filter(|cpu| cpu.steal >= FOREIGN);
        cpu.map_or_else(String::new, |cpu| format!(". Steal time is {}", percent(cpu.steal)))
    }
}

/// None of the causes is shown.
pub(super) fn inconclusive(view: &SettingView) -> Option<Claim> {
    let is_other = |rule: &&&Rule| rule.id != super::INCONCLUSIVE.id;
    let mut others = RULES.iter().filter(is_other);
    if others.any(|rule| rule.claim(&Input::Setting(view)).is_some()) {
        return None;
    }
    let claim =
        view.claim(view.doubt(), []).remedy("Rerun on an idle machine or with a longer --duration");
    Some(Claim { confidence: None, ..claim })
}

pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A ratio of I/Os per second with its interval.
fn iops(ratio: &Ratio) -> String {
    format!("{:.2}× the IOPS ({})", ratio.value, ratio.interval())
}
