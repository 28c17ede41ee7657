//! The rule engine: what a record means, and every known way in which its figures can mislead.
//!
//! A rule is one unit: id, class, documentation with its thresholds, check and test cases. [`RULES`] lists
//! all of them; `run`, `watch` and `limit` evaluate the rules that apply to their records, and docs/rules.md is
//! generated from the same list. A rule reports once for all jobs, or block sizes, that it concerns.

mod cache;
mod comparison;
mod confirmation;
mod depth;
mod doctor;
mod effects;
mod failures;
mod host;
mod jobs;
mod limiters;
mod rates;
mod requested;
mod same_blocks;
#[cfg(test)]
mod table_tests;
mod targets;
#[cfg(test)]
mod testing;
pub(crate) mod topology;

pub(crate) use cache::from_disk;
use confirmation::{Change, Confirmation};
pub use confirmation::{ConfirmationTest, Workload, confirmation_test, repeatable};
pub use doctor::{Diagnosed, Diagnosis, NotChecked, Passed, diagnose, relevant_checks};
pub use requested::unpolled;

use crate::compare::{Comparison, judge_figures};
use crate::topology::TopologyReport;
use crate::watch::Observed;
use effects::Variant;
use fathom_model::experiment::ExperimentRecord;
use fathom_model::facts::TargetFacts;
use fathom_model::finding::{
    Class, Confidence, Evidence, ExpectedGain, Finding, Part, Severity, Subject,
};
use fathom_model::limit::{BlockLimit, LimitRecord, TargetLimit};
use fathom_model::outcome::RecordKind;
use fathom_model::record::{Record, RunRecord};
use fathom_model::window::{Conditions, Point};
pub(crate) use limiters::setting_verdicts;
use limiters::{SettingView, View};

pub struct Rule {
    /// Stable id, such as `sparse-target`.
    pub id: &'static str,
    /// What limits a workload, in a few words that follow "limited by"; empty for rules of other classes.
    limits: &'static str,
    pub class: Class,
    /// The severity of its findings; a check lowers or raises it if `threshold` states it.
    pub severity: Severity,
    pub meaning: &'static str,
    /// When the rule holds, and why the threshold is where it is.
    pub threshold: fn() -> String,
    /// What to do about it; empty where nothing can be done. Checks may be more specific.
    pub remedy: &'static str,
    /// Rules whose findings this one supersedes; they are dropped.
    pub supersedes: &'static [&'static Rule],
    /// For limiters of runs, how to test whether it limits, where that is possible.
    confirmation: Option<Confirmation>,
    checks: &'static [Check],
    /// For each check, a record for which it holds and a near miss.
    #[cfg(test)]
    cases: &'static [testing::Case],
}

impl Rule {
    /// Most rules warn that figures may mislead, and leave the findings of others alone.
    const DEFAULT: Self = Self {
        id: "",
        limits: "",
        class: Class::Validity,
        severity: Severity::Warning,
        meaning: "",
        threshold: String::new,
        remedy: "",
        supersedes: &[],
        confirmation: None,
        checks: &[],
        #[cfg(test)]
        cases: &[],
    };
    const LIMITER: Self = Self { class: Class::Limiter, severity: Severity::Info, ..Self::DEFAULT };
}

/// A pure function of the input that it requires.
#[derive(Clone, Copy)]
enum Check {
    Run(fn(&RunRecord) -> Option<Claim>),
    Target(fn(&Target) -> Option<Claim>),
    Limit(fn(&LimitRecord) -> Option<Claim>),
    /// Needs an inspection of the machine; see [`diagnose`].
    Inspection(doctor::Inspected),
    /// Needs the samples of a record: whether this limited the workload.
    View(fn(&View) -> Option<Claim>),
    /// Needs a setting of a limit search with its confirmation tests: whether it limits that, and what it is called then.
    Setting(&'static str, fn(&SettingView) -> Option<Claim>),
    Experiment(fn(&ExperimentRecord) -> Option<Claim>),
    Variant(fn(&Variant) -> Option<Claim>),
    Topology(fn(&TopologyReport) -> Option<Claim>),
    /// Needs two sets of results with their differences.
    Comparison(fn(&Comparison) -> Option<Claim>),
}

struct Target<'a> {
    facts: &'a TargetFacts,
    conditions: &'a Conditions,
    limit: &'a TargetLimit,
}

impl Target<'_> {
    fn peaks(&self) -> impl Iterator<Item = (&BlockLimit, &Point)> {
        self.limit.blocks.iter().filter_map(|block| Some((block, block.peak.as_ref()?)))
    }
}

/// What rules judge.
enum Input<'a> {
    Run(&'a RunRecord),
    Target(Target<'a>),
    Limit(&'a LimitRecord),
    View(&'a View<'a>),
    Setting(&'a SettingView<'a>),
    Experiment(&'a ExperimentRecord),
    Variant(&'a Variant<'a>),
    Topology(&'a TopologyReport),
    Comparison(&'a Comparison),
}

/// What a check found; the rule adds the rest.
#[derive(Debug, Default, PartialEq)]
struct Claim {
    severity: Option<Severity>,
    confidence: Option<Confidence>,
    subject: Option<Subject>,
    summary: String,
    evidence: Vec<Evidence>,
    counter_evidence: Vec<Evidence>,
    remedy: Option<String>,
    command: Option<String>,
    gain: Option<ExpectedGain>,
    limited_by: Option<&'static str>,
    /// For limiters, the part of the workload's time that this explains: 0 to 1.
    weight: f64,
}

impl Claim {
    fn new(summary: String, evidence: Vec<Evidence>) -> Self {
        Self { summary, evidence, ..Self::default() }
    }

    /// States which part of the workload's time it explains.
    fn weight(self, weight: f64) -> Self {
        Self { weight: weight.clamp(0.0, 1.0), ..self }
    }

    /// Overrides the rule's severity.
    fn severity(self, severity: Severity) -> Self {
        Self { severity: Some(severity), ..self }
    }

    fn confidence(self, confidence: Confidence) -> Self {
        Self { confidence: Some(confidence), ..self }
    }

    /// Overrides the rule's remedy; empty for none.
    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    fn despite(self, counter_evidence: impl IntoIterator<Item = Evidence>) -> Self {
        Self { counter_evidence: counter_evidence.into_iter().collect(), ..self }
    }

    /// Adds the remedy as a command line.
    fn command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    /// States that the workload would do nothing else in the part `lost` of its time, if the remedy was applied.
    fn gain_of(self, lost: f64) -> Self {
        let gain = ExpectedGain { throughput_ratio_max: 1.0 / (1.0 - lost) };
        Self { gain: (lost < 1.0).then_some(gain), ..self }
    }
}

/// All rules; findings of equal severity are in this order.
pub static RULES: &[&Rule] = &[
    &failures::JOB_FAILED,
    &failures::INTERRUPTED,
    &failures::NOTHING_DONE,
    &failures::IO_ERRORS,
    &failures::SHORT_IOS,
    &failures::LOST_WAKEUPS,
    &failures::LOG_TOO_SLOW,
    &targets::TARGET_CHANGED,
    &rates::COULD_NOT_KEEP_UP,
    &targets::SPARSE_TARGET,
    &same_blocks::SAME_BLOCKS,
    &cache::CACHED_READS,
    &cache::DIRECT_READS_MISSING,
    &targets::IN_MEMORY,
    &requested::DIRECT_REFUSED,
    &cache::UNFLUSHED_WRITES,
    &cache::BUFFERED,
    &cache::SMALLER_THAN_MEMORY,
    &targets::SMALL_TARGET,
    &targets::VIRTUAL_DISK,
    &targets::SHARED_DISK,
    &depth::SYNCHRONOUS_ENGINE,
    &depth::DEPTH_NOT_REACHED,
    &depth::DEVICE_DEPTH,
    &requested::NOT_POLLED,
    &requested::MEMORY_LOCK,
    &requested::FALLBACKS,
    &rates::NOISY,
    &host::BUSY_MACHINE,
    &host::COMPETITORS,
    &host::STEAL,
    &host::OWN_CEILING,
    &host::SLOW_CLOCK,
    &requested::REFUSED_FLAGS,
    &host::COUNTING_SLOWS,
    &limiters::cgroup::IO_LIMIT,
    &limiters::cgroup::IO_COST,
    &limiters::cgroup::IO_LATENCY,
    &limiters::cgroup::IO_WEIGHT,
    &limiters::cgroup::CPU_QUOTA,
    &limiters::cgroup::MEMORY_LIMIT,
    &limiters::memory::SWAPPING,
    &limiters::waits::NOT_RUNNING,
    &limiters::waits::TIMER,
    &limiters::waits::PEER,
    &limiters::waits::IDLE,
    &limiters::waits::PAGE_FAULTS,
    &limiters::waits::BLOCKING_SUBMIT,
    &limiters::waits::READAHEAD,
    &limiters::waits::DISCARDS,
    &limiters::cpu::OTHER_PROGRAMS,
    &limiters::device::OTHER_PROGRAMS,
    &limiters::threads::FSYNC,
    &limiters::drop::THROUGHPUT_DROP,
    &limiters::queue::SCHEDULER,
    &limiters::queue::REQUESTS,
    &limiters::queue::DEPTH,
    &limiters::queue::WRITEBACK_THROTTLING,
    &limiters::queue::SPLITS,
    &limiters::stacked::STACKED_DEVICE,
    &limiters::stacked::UNEVEN_MEMBERS,
    &limiters::links::FULL_LINK,
    &limiters::links::MEMORY_BANDWIDTH,
    &limiters::links::INTERRUPT_CPU,
    &limiters::threads::LOCK,
    &limiters::threads::KERNEL_LOCK,
    &limiters::threads::IO_WORKERS,
    &limiters::memory::NOT_ON_DISK,
    &limiters::threads::ONE_AT_A_TIME,
    &limiters::generator::SQPOLL_STARVED,
    &limiters::generator::SMALL_BATCHES,
    &limiters::generator::LOAD_GENERATOR,
    &limiters::cpu::BUSY_CPUS,
    &limiters::cpu::OWN_TIME,
    &limiters::device::DEVICE,
    &limiters::INCONCLUSIVE,
    &effects::EFFECT,
    &effects::CURVE,
    &comparison::INCOMPLETE,
    &comparison::OTHER_LOAD,
    &comparison::THROTTLED,
    &comparison::CACHE_STATE,
    &comparison::CONDITIONS_UNKNOWN,
    &comparison::DIFFERENCE,
    &topology::DEGRADED_LINK,
    &topology::UPLINK,
    &topology::CROWDED_COMPLEX,
    &topology::ONE_INTERRUPT_CPU,
    &topology::SLOW_PORT,
    &topology::REMOTE_DISK,
];

/// The findings of a run or an observation during which `observed` was sampled, worst first, and then the verdict:
/// what limited the workload. It is made once, when the record ends, and stored there.
pub fn judge(record: &RunRecord, observed: &Observed) -> Vec<Finding> {
    if !record.ranks.is_empty() {
        // The samples of the other machines are there.
        return record.header.findings.clone();
    }
    let mut findings = match record.header.kind {
        RecordKind::Run => evaluate(&Input::Run(record)),
        _ => Vec::new(),
    };
    findings.extend(limiters::noted(record, &findings, observed));
    let mut findings = worst_first(findings);
    findings.extend(limiters::verdict(record, &findings, observed));
    findings
}

/// The verdict on a record that holds none: of an earlier version, or of a run that was killed.
pub fn missing_verdict(record: &Record, observed: &Observed) -> Vec<Finding> {
    if record.header().findings.iter().any(Finding::is_verdict) {
        return Vec::new();
    }
    match record {
        Record::Run(record) => limiters::verdict(record, &record.header.findings, observed),
        Record::Limit(record) => setting_verdicts(&record.config, &record.report),
        Record::Experiment(record) => variant_verdicts(record),
    }
}

/// The findings of a limit search, worst first, and then the verdict on each kind of I/O.
pub fn judge_limit(record: &LimitRecord) -> Vec<Finding> {
    let targets =
        record.header.facts.targets.iter().zip(&record.conditions).zip(&record.report.targets);
    let targets = targets.map(|((facts, conditions), limit)| Target { facts, conditions, limit });
    let about_targets = targets.flat_map(|target| evaluate(&Input::Target(target)));
    let mut findings = worst_first(about_targets.chain(evaluate(&Input::Limit(record))).collect());
    findings.extend(setting_verdicts(&record.config, &record.report));
    findings
}

/// The findings of an experiment, worst first, and then the verdict on each variant.
pub fn judge_experiment(record: &ExperimentRecord) -> Vec<Finding> {
    let mut findings = worst_first(evaluate(&Input::Experiment(record)));
    findings.extend(variant_verdicts(record));
    findings
}

fn variant_verdicts(record: &ExperimentRecord) -> Vec<Finding> {
    let verdict = |(index, variant): (usize, Variant)| {
        let found = evaluate(&Input::Variant(&variant)).into_iter().next()?;
        Some(Finding { rank: Some(1), part: Some(Part::Condition { index }), ..found })
    };
    Variant::all(record).enumerate().filter_map(verdict).collect()
}

/// Enters the findings about a comparison, worst first, what can be said about each figure, and last the answer. A warning
/// means that the runs are not comparable.
pub(crate) fn judge_comparison(comparison: &mut Comparison) {
    comparison.findings = worst_first(evaluate(&Input::Comparison(comparison)));
    let is_comparable =
        !comparison.findings.iter().any(|found| found.severity >= Severity::Warning);
    judge_figures(comparison, is_comparable);
    let answer = comparison::DIFFERENCE.check(&Input::Comparison(comparison));
    comparison.findings.retain(|finding| finding.rule != comparison::DIFFERENCE.id);
    comparison.findings.extend(answer.map(|found| Finding { rank: Some(1), ..found }));
}

pub fn topology_findings(report: &TopologyReport) -> Vec<Finding> {
    worst_first(evaluate(&Input::Topology(report)))
}

fn worst_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Findings about one input, without superseded ones.
fn evaluate(input: &Input) -> Vec<Finding> {
    let held: Vec<(&Rule, Finding)> =
        RULES.iter().filter_map(|rule| Some((*rule, rule.check(input)?))).collect();
    let superseded = |id: &str| {
        held.iter().any(|(rule, _)| rule.supersedes.iter().any(|weaker| weaker.id == id))
    };
    held.iter().filter(|(rule, _)| !superseded(rule.id)).map(|(_, found)| found.clone()).collect()
}

impl Rule {
    fn check(&self, input: &Input) -> Option<Finding> {
        self.claim(input).map(|claim| self.finding(claim))
    }

    fn claim(&self, input: &Input) -> Option<Claim> {
        self.checks.iter().find_map(|check| match (check, input) {
            (Check::Run(check), Input::Run(record)) => check(record),
            (Check::Target(check), Input::Target(target)) => check(target),
            (Check::Limit(check), Input::Limit(record)) => check(record),
            (Check::View(check), Input::View(view)) => {
                check(view).map(|claim| Claim { limited_by: Some(self.limits), ..claim })
            }
            (Check::Setting(limit, check), Input::Setting(view)) => {
                check(view).map(|claim| Claim { limited_by: Some(limit), ..claim })
            }
            (Check::Experiment(check), Input::Experiment(record)) => check(record),
            (Check::Variant(check), Input::Variant(variant)) => check(variant),
            (Check::Topology(check), Input::Topology(report)) => check(report),
            (Check::Comparison(check), Input::Comparison(comparison)) => check(comparison),
            _ => None,
        })
    }

    /// What it is called where it limits a setting of a search.
    fn limits_setting(&self) -> Option<&'static str> {
        self.checks.iter().find_map(|check| match check {
            Check::Setting(limit, _) => Some(*limit),
            _ => None,
        })
    }

    fn finding(&self, claim: Claim) -> Finding {
        let remedy = claim.remedy.unwrap_or_else(|| self.remedy.to_string());
        Finding {
            rule: self.id.to_string(),
            class: self.class,
            severity: claim.severity.unwrap_or(self.severity),
            confidence: claim.confidence,
            rank: None,
            share_explained: None,
            part: None,
            limited_by: claim.limited_by.filter(|name| !name.is_empty()).map(str::to_string),
            subject: claim.subject,
            summary: claim.summary,
            evidence: claim.evidence,
            counter_evidence: claim.counter_evidence,
            next_step: (!remedy.is_empty()).then_some(remedy),
            next_command: claim.command,
            expected_gain: claim.gain,
            confirmed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{Case, limit, rule_names, run, topology};
    use super::*;
    use crate::topology::analyze;
    use fathom_model::record::JobError;

    #[test]
    fn good_records_have_no_findings() {
        assert_eq!(judge(&run(), &Observed::default()), []);
        assert_eq!(judge(&RunRecord::default(), &Observed::default()), []);
        assert_eq!(judge_limit(&limit()), []);
        assert_eq!(topology_findings(&analyze(topology())), []);
        assert!(limit().is_complete());
    }

    #[test]
    fn the_worst_comes_first_and_repetition_goes() {
        let mut record = run();
        record.header.facts.host.load_1min = 64.0;
        record.jobs[0].granted.refused_flags = vec!["NO_SQARRAY".into()];
        record.jobs[0].error = Some(JobError { errno: 5, message: "read failed".into() });
        record.header.facts.targets[0].allocated_bytes = 0;
        record.disks[0].sectors.read = 0;
        assert_eq!(
            rule_names(&record),
            ["job-failed", "sparse-target", "busy-machine", "refused-flags"]
        );
    }

    #[test]
    fn supersession_is_per_target() {
        let mut record = limit();
        let mut second = record.clone();
        record.header.facts.targets[0].allocated_bytes = 4096;
        record.header.facts.targets.append(&mut second.header.facts.targets);
        record.header.facts.targets[1].device.as_mut().unwrap().name = "nvme1n1".into();
        record.conditions.append(&mut second.conditions);
        record.report.targets.append(&mut second.report.targets);
        for block in record.report.targets.iter_mut().flat_map(|target| &mut target.blocks) {
            block.peak.as_mut().unwrap().from_disk = Some(0.01);
        }
        let ids: Vec<String> = judge_limit(&record).into_iter().map(|f| f.rule).collect();
        assert_eq!(ids, ["sparse-target", "direct-reads-missing"]);
    }

    #[test]
    fn each_rule_is_listed_once_and_documented() {
        let all: Vec<&Rule> = RULES.iter().copied().chain(doctor::all()).collect();
        for (index, rule) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.id != rule.id), "{} twice", rule.id);
            assert!(!rule.meaning.is_empty() && !(rule.threshold)().is_empty(), "{}", rule.id);
            assert!(rule.checks.len() <= rule.cases.len(), "{}: cases for each check", rule.id);
            for weaker in rule.supersedes {
                assert!(RULES.iter().any(|other| other.id == weaker.id), "{}", weaker.id);
            }
        }
    }

    #[test]
    fn each_check_holds_for_its_case_and_not_for_the_near_miss() {
        for rule in RULES.iter().copied().chain(doctor::all()) {
            for case in rule.cases {
                let [plain, holds, near_miss] = case.findings(rule);
                assert_eq!(plain, [], "{} holds without a reason", rule.id);
                assert_eq!(near_miss, [], "{} holds for the near miss", rule.id);
                let is_near_miss = matches!(case, Case::NearMiss(_));
                assert_eq!(holds.is_empty(), is_near_miss, "{} does not hold", rule.id);
                for finding in holds {
                    assert!(finding.summary.ends_with('.'), "{finding:?}");
                    assert!(!finding.evidence.is_empty(), "{finding:?}");
                    assert!(!finding.next_step.is_some_and(|n| n.ends_with('.')), "{}", rule.id);
                }
            }
            let is_run = |case: &Case| matches!(case, Case::Run { .. });
            let wants_run = |check: &Check| matches!(check, Check::Run(_));
            assert_eq!(rule.checks.iter().any(wants_run), rule.cases.iter().any(is_run));
            let is_view = |case: &Case| matches!(case, Case::View { .. });
            let wants_view = |check: &Check| matches!(check, Check::View(_));
            assert_eq!(rule.checks.iter().any(wants_view), rule.cases.iter().any(is_view));
            let is_experiment = |case: &Case| matches!(case, Case::Experiment { .. });
            let wants = |check: &Check| matches!(check, Check::Experiment(_) | Check::Variant(_));
            assert_eq!(rule.checks.iter().any(wants), rule.cases.iter().any(is_experiment));
            let is_setting = |case: &Case| matches!(case, Case::Setting { .. });
            let wants_setting = |check: &Check| matches!(check, Check::Setting(..));
            assert_eq!(rule.checks.iter().any(wants_setting), rule.cases.iter().any(is_setting));
        }
    }
}
