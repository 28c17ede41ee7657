//! Tests of a verdict: a run's jobs, or the programs that were watched, with one thing changed, compared with the same
//! unchanged.

use super::executor::{ConditionExecutor, Failure, all_restored};
use super::plans::{Plans, Work};
use super::ranks::Peers;
use super::rounds;
use crate::cancel::CancelToken;
use crate::ranks::{Lost, Ranks, SILENCE};
use crate::run::Hooks;
use crate::sources::System;
use crate::targets::OpenTargets;
use crate::wording::Vocabulary;
use fathom_analysis::experiment::Rounds;
use fathom_analysis::rules::{ConfirmationTest, Workload, confirmation_test, repeatable};
use fathom_machine::guard::Permissions;
use fathom_machine::settings::{Settings, SettingsError};
use fathom_machine::{Lookup, Roots};
use fathom_model::experiment::{Condition, Experiment, Protocol, Request};
use fathom_model::facts::{Facts, TargetFacts, TargetKind};
use fathom_model::finding::{Confirmed, ConfirmedVerdict, Finding};
use fathom_model::plan::{Plan, Target};
use fathom_model::record::RunRecord;
use fathom_spec::Sources;
use std::time::{Duration, Instant};

/// Limiters that are tested at most, one after the other while each is refuted.
const LIMITERS_MAX: usize = 3;
/// Indices of the conditions: the jobs as they are, the same again (A/A), and with the change.
const BASE: usize = 0;
const CHANGED: usize = 2;

/// All tests together, unless the user gives another time.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Part of it for the windows of one test: on a busy machine, what is between these takes longer than they do.
const WINDOWS_SHARE: f64 = 2.0 / 3.0;

/// Windows of other programs: these are not restarted for each, but may do their I/O in bursts.
const PROCESSES_RAMP_NS: u64 = 60_000_000;
const PROCESSES_WINDOW_NS: u64 = 300_000_000;

/// Time and precision of one test, of at most `time` with all others: with 8 rounds or more of three windows, some 8 to 20
/// seconds.
fn protocol(workload: Workload, time: Duration) -> Protocol {
    let (ramp_ns, window_ns) = match workload {
        Workload::Jobs(_) => (40_000_000, 200_000_000),
        Workload::Processes(_) => (PROCESSES_RAMP_NS, PROCESSES_WINDOW_NS),
    };
    Protocol {
        seconds: time.as_secs_f64() * WINDOWS_SHARE,
        window_ns,
        ramp_ns,
        // "No gain" is a claim about less than the gain that counts.
        precision: 0.03,
        rounds_min: 8,
        rounds_warm: 1,
        seed: System::default().random(),
    }
}

/// Tests the first limiter in the verdict of `record`, whose jobs ran on `targets`, and while it is refuted the next one,
/// and enters in the findings what was found. Settings are changed for single windows, and restored. With `ranks`, of which this
/// one is rank 0, `record` is that of all, and the record is this one's own.
///
/// # Errors
/// For users, why nothing can be tested, what interrupted it, or a setting that could not be restored.
pub fn confirm(
    targets: &OpenTargets,
    record: &mut RunRecord,
    ranks: Option<(&mut Option<Ranks>, &RunRecord)>,
    cancel: &CancelToken,
    hooks: &mut dyn Hooks,
) -> Result<(), String> {
    let Some((ranks, own)) = ranks else {
        let base = repeatable(&record.plan)?;
        let test = (targets, Workload::Jobs(&base), TIME_MAX);
        return test_causes(test, record, &mut Among::Alone, cancel, hooks);
    };
    let Some(taken) = ranks.take() else { return Err("another rank is gone".into()) };
    let mut among = Among::Ranks(Box::new(Peers::meet(taken, &targets.facts.host)), own);
    let is_finished = record.header.outcome.is_finished();
    let tested = repeatable(&own.plan).and_then(|base| match is_finished {
        true => {
            let test = (targets, Workload::Jobs(&base), TIME_MAX);
            test_causes(test, record, &mut among, cancel, hooks)
        }
        false => Ok(()),
    });
    let Among::Ranks(mut peers, _) = among else { return tested };
    let ended = peers.broadcast(&None::<Finding>, SILENCE).map_err(|lost| lost.to_string());
    *ranks = Some(peers.into_ranks());
    tested.and(ended.map(drop))
}

/// Measures, as another rank than 0, the windows of that one's tests; `own` is the record of this one.
///
/// # Errors
/// Another rank is gone.
pub fn confirm_as_rank(
    targets: &OpenTargets,
    own: &RunRecord,
    ranks: Ranks,
    cancel: &CancelToken,
) -> (Ranks, Result<(), Lost>) {
    let mut peers = Peers::meet(ranks, &targets.facts.host);
    let served = serve(targets, own, &mut peers, cancel);
    (peers.into_ranks(), served)
}

fn serve(
    targets: &OpenTargets,
    own: &RunRecord,
    peers: &mut Peers,
    cancel: &CancelToken,
) -> Result<(), Lost> {
    let base = repeatable(&own.plan);
    while let Some(finding) = peers.broadcast(&None::<Finding>, SILENCE)? {
        let base = base.as_ref().map_err(|why| Failure::once(why.clone()));
        let test = base.clone().and_then(|base| {
            let finding = of_own(own, &finding);
            prepared(own, Workload::Jobs(base), finding, peers.is_first_of_host(), &mut ())
        });
        peers.gather(&test.as_ref().err().cloned(), SILENCE)?;
        let goes_on = peers.broadcast(&false, SILENCE)?;
        let (Ok(base), Ok(test), true) = (base, &test, goes_on) else { continue };
        let workload = Workload::Jobs(base);
        let protocol = protocol(workload, TIME_MAX);
        let (request, plans) = windows(targets, workload, test, &protocol);
        let executor = ConditionExecutor::new(targets, &plans, &request, cancel);
        peers.serve(&mut executor.at(peers.place()), &mut drop)?;
    }
    Ok(())
}

/// Who measures the windows of a test.
enum Among<'a> {
    Alone,
    /// This rank 0, with its own record, and the others.
    Ranks(Box<Peers>, &'a RunRecord),
}

/// The same for an observation of `processes`, which are still running: only settings outside of them are changed.
///
/// # Errors
/// As [`confirm`].
pub fn confirm_watched(
    processes: &[i32],
    record: &mut RunRecord,
    cancel: &CancelToken,
    hooks: &mut dyn Hooks,
) -> Result<(), String> {
    let host = record.header.facts.host.clone();
    let targets = OpenTargets::with(host, Vec::new(), Vocabulary::Keys);
    let test = (&targets, Workload::Processes(processes), TIME_MAX);
    test_causes(test, record, &mut Among::Alone, cancel, hooks)
}

fn test_causes(
    (targets, workload, time): (&OpenTargets, Workload, Duration),
    record: &mut RunRecord,
    among: &mut Among<'_>,
    cancel: &CancelToken,
    hooks: &mut dyn Hooks,
) -> Result<(), String> {
    record.header.findings.iter_mut().for_each(|finding| finding.confirmed = None);
    let findings = record.header.findings.iter().enumerate();
    let causes = findings.filter(|(_, finding)| finding.is_cause()).map(|(index, _)| index);
    let causes: Vec<usize> = causes.take(LIMITERS_MAX).collect();
    if causes.is_empty() {
        return Err("no limiter was found".into());
    }
    let end = Instant::now().checked_add(time);
    for index in causes {
        let finding = &record.header.findings[index];
        let test = match among {
            Among::Alone => prepared(record, workload, finding, true, hooks),
            Among::Ranks(peers, own) => agreed(peers, own, workload, finding, hooks)?,
        };
        let confirmed = match test {
            Ok(test) => {
                let protocol = protocol(workload, time);
                measure((targets, workload, &test), (&protocol, end, cancel), among, hooks)?
            }
            Err(Failure { is_fatal: true, why, .. }) => return Err(why),
            Err(Failure { why, .. }) => Confirmed::not_tested(why),
        };
        let is_open =
            matches!(confirmed.verdict, ConfirmedVerdict::Refuted | ConfirmedVerdict::NotTested);
        record.header.findings[index].confirmed = Some(confirmed);
        if !is_open {
            break;
        }
    }
    Ok(())
}

/// The same for a run that was recorded before, whose targets are opened anew, for at most `time`.
///
/// # Errors
/// As [`confirm`], and if the targets are not those of the run, or may not be written.
pub fn confirm_recorded(
    record: &mut RunRecord,
    permissions: &Permissions,
    time: Option<Duration>,
    cancel: &CancelToken,
    hooks: &mut dyn Hooks,
) -> Result<(), String> {
    // Before anything is opened.
    let base = repeatable(&record.plan)?;
    let facts = facts_of_run(record)?;
    // All of them exist, and stay.
    let existing = |target: &Target| Target {
        create_size: None,
        fill: false,
        create_on_open: false,
        unlink: false,
        ..target.clone()
    };
    let targets = record.plan.targets.iter().map(existing).collect();
    let plan = Plan { targets, ..record.plan.clone() };
    let mut targets = OpenTargets::open(&plan, facts, permissions, cancel)?;
    let time = time.unwrap_or(TIME_MAX);
    let test = (&targets, Workload::Jobs(&base), time);
    let confirmed = test_causes(test, record, &mut Among::Alone, cancel, hooks);
    let closed = targets.close();
    confirmed.and(closed)
}

/// The machine and the targets now, if these are those of the run.
fn facts_of_run(record: &RunRecord) -> Result<Facts, String> {
    let roots = Roots::default();
    let (host, then) = (fathom_machine::host(&roots), &record.header.facts);
    if (&host.host_id, &host.hostname) != (&then.host.host_id, &then.host.hostname) {
        return Err(format!("it was recorded on another machine ({})", then.host.hostname));
    }
    let lookup = Lookup::new(&roots);
    let known = |index: usize, target: &Target| {
        let path = &target.path;
        let now = lookup.target(path).map_err(|e| format!("cannot read {path}: {e}"))?;
        let regions = record.plan.jobs.iter().flat_map(|job| &job.regions);
        let ends = regions.filter(|region| region.target == index).map(|r| r.start + r.len);
        let is_same =
            then.targets.iter().filter(|then| then.path == *path).all(|then| is_same(then, &now));
        match is_same && now.size_bytes >= ends.max().unwrap_or(0) {
            true => Ok(now),
            false => Err(format!(
                "{path} is not what it was in the run; change to the directory of the run, or repeat it with \
                 `fathom run --confirm`"
            )),
        }
    };
    let targets = record.plan.targets.iter().enumerate();
    let targets =
        targets.map(|(index, target)| known(index, target)).collect::<Result<_, String>>()?;
    Ok(Facts { host, targets, ..Facts::default() })
}

/// Whether the names of devices may have changed, but not the devices, and files have the same place.
fn is_same(then: &TargetFacts, now: &TargetFacts) -> bool {
    let serial =
        |target: &TargetFacts| target.device.as_ref().and_then(|device| device.serial.clone());
    match now.kind {
        TargetKind::Missing => false,
        TargetKind::File => then.kind == now.kind && then.resolved == now.resolved,
        kind => {
            then.kind == kind && then.size_bytes == now.size_bytes && serial(then) == serial(now)
        }
    }
}

/// The test of `finding`, if the settings that it changes can be changed, which is known before windows are spent on it.
fn prepared(
    record: &RunRecord,
    workload: Workload,
    finding: &Finding,
    changes_settings: bool,
    hooks: &mut dyn Hooks,
) -> Result<ConfirmationTest, Failure> {
    let test = confirmation_test(record, workload, finding).map_err(Failure::once)?;
    if !changes_settings {
        return Ok(test);
    }
    match Settings::system().apply(&test.settings) {
        Ok(guard) => {
            let is_same = guard.applied().iter().all(|one| one.old == one.change.value);
            let changes_nothing = !guard.applied().is_empty() && is_same;
            all_restored(&guard.restore(), hooks)?;
            if changes_nothing {
                let why = format!("{} changes nothing: it is so already", test.experiment);
                return Err(Failure::once(why));
            }
        }
        Err(error @ SettingsError::NotRestored { .. }) => {
            return Err(Failure::fatal(error.to_string()));
        }
        Err(refused) => return Err(Failure::once(refused.to_string())),
    }
    Ok(test)
}

/// The finding of the same limiter in the record `own`, which names the devices of this machine.
fn of_own<'a>(own: &'a RunRecord, finding: &'a Finding) -> &'a Finding {
    let is_same = |other: &&Finding| other.rule == finding.rule && other.is_cause();
    own.header.findings.iter().find(is_same).unwrap_or(finding)
}

/// The same, if all ranks can test it.
fn agreed(
    peers: &mut Peers,
    own: &RunRecord,
    workload: Workload,
    finding: &Finding,
    hooks: &mut dyn Hooks,
) -> Result<Result<ConfirmationTest, Failure>, String> {
    let lost = |lost: Lost| lost.to_string();
    peers.broadcast(&Some(finding.clone()), SILENCE).map_err(lost)?;
    let test = prepared(own, workload, of_own(own, finding), peers.is_first_of_host(), hooks);
    let all = peers.gather(&test.as_ref().err().cloned(), SILENCE).map_err(lost)?;
    let refused = peers.named(all).max_by_key(|(_, refusal)| refusal.is_fatal);
    let refused = refused.map(|(host, refusal)| (host.to_string(), refusal));
    peers.broadcast(&refused.is_none(), SILENCE).map_err(lost)?;
    Ok(match refused {
        Some((host, failure)) => {
            Err(Failure { why: format!("{host}: {}", failure.why), ..failure })
        }
        None => test,
    })
}

/// The windows of `test`, and of the unchanged `workload`.
fn windows(
    targets: &OpenTargets,
    workload: Workload,
    test: &ConfirmationTest,
    protocol: &Protocol,
) -> (Request, Plans) {
    let condition = |name: &str| Condition { name: name.into(), ..Condition::default() };
    let conditions = vec![
        condition("the unchanged workload"),
        Condition { repeats: Some(BASE), ..condition("again (A/A)") },
        Condition { against: vec![BASE], ..condition(&test.experiment) },
    ];
    let experiment = Experiment {
        name: "confirm".into(),
        metric: test.metric,
        conditions,
        ..Experiment::default()
    };
    let request = Request { experiment, protocol: protocol.clone(), ..Request::default() };
    let jobs = |plan: &Plan| Work::Jobs(Box::new(plan.clone()));
    let plans = Plans {
        works: match workload {
            Workload::Jobs(base) => [base, base, &test.plan].map(jobs).into(),
            Workload::Processes(processes) => vec![Work::Processes(processes.to_vec()); 3],
        },
        settings: vec![Vec::new(), Vec::new(), test.settings.clone()],
        facts: targets.facts.clone(),
        ..Plans::default()
    };
    (request, plans)
}

/// Measures `test` against the unchanged `workload`.
fn measure(
    (targets, workload, test): (&OpenTargets, Workload, &ConfirmationTest),
    (protocol, end, cancel): (&Protocol, Option<Instant>, &CancelToken),
    among: &mut Among<'_>,
    hooks: &mut dyn Hooks,
) -> Result<Confirmed, String> {
    let (request, plans) = windows(targets, workload, test, protocol);
    let mut design = Rounds::new(request.experiment.clone(), protocol.clone());
    let executor = ConditionExecutor::new(targets, &plans, &request, cancel);
    let peers = match std::mem::replace(among, Among::Alone) {
        Among::Ranks(peers, own) => Some((peers, own)),
        Among::Alone => None,
    };
    let (peers, own) = peers.map_or((None, None), |(peers, own)| (Some(*peers), Some(own)));
    let mut executor = executor.among(peers);
    let is_in_time = || end.is_none_or(|end| Instant::now() < end);
    let ended = rounds(&mut design, &mut executor, hooks, |_, _| is_in_time());
    if let Some((mut peers, own)) = executor.peers.take().zip(own) {
        // One that is gone is noticed at the next step.
        let _ = peers.release();
        *among = Among::Ranks(Box::new(peers), own);
    }
    if let Some(reason) = ended? {
        return Err(format!("interrupted by {reason}"));
    }
    let failure = |index: usize| {
        let error = design.totals(index).and_then(|totals| totals.sum.first_error.as_deref());
        let name = &request.experiment.conditions[index].name;
        design.rejected(index).or(error).map(|why| format!("{name}: {why}"))
    };
    Ok(match (failure(BASE), failure(CHANGED), design.effect(CHANGED)) {
        (None, None, Some(effect)) => test.judge(&effect),
        (_, Some(why), _) => Confirmed::not_tested(why),
        (why, None, _) => {
            let verdict = ConfirmedVerdict::Inconclusive;
            let reason = Some(why.unwrap_or_else(|| "nothing was measured".into()));
            Confirmed {
                verdict,
                experiment: test.experiment.clone(),
                reason,
                ..Confirmed::default()
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::facts::Host;
    use fathom_model::finding::Subject;
    use fathom_model::plan::{Engine, JobPlan, Mix, Order, Think};

    fn idle_targets() -> OpenTargets {
        OpenTargets::with(Host::default(), Vec::new(), crate::wording::Vocabulary::Keys)
    }

    /// A run of the null engine, which does no I/O, with causes of these rules.
    fn record(rules: &[&str]) -> RunRecord {
        let mut record = RunRecord::default();
        let read = Mix::Only(Dir::Read);
        record.plan.jobs =
            vec![JobPlan::new("a", Engine::Null, read, Order::Sequential { skip: 0 })];
        let cause = |(rank, rule): (u32, &&str)| Finding {
            rule: rule.to_string(),
            rank: Some(rank),
            share_explained: Some(0.5),
            subject: Some(Subject::device("no-such-device")),
            ..Finding::default()
        };
        record.header.findings = (1..).zip(rules).map(cause).collect();
        record
    }

    #[test]
    fn a_gain_of_a_factor_of_a_thousand_confirms() {
        let record = record(&["one-at-a-time"]);
        let mut base = record.plan.clone();
        base.jobs[0].think = Some(Think { time_ns: 1_000_000, blocks: 1, ..Think::default() });
        let workload = Workload::Jobs(&record.plan);
        let changed = confirmation_test(&record, workload, &record.header.findings[0]).unwrap();
        let protocol = Protocol {
            window_ns: 130_000_000,
            ramp_ns: 2_000_000,
            seconds: 30.0,
            ..protocol(workload, TIME_MAX)
        };
        let cancel = CancelToken::default();
        let found = measure(
            (&idle_targets(), Workload::Jobs(&base), &changed),
            (&protocol, Instant::now().checked_add(TIME_MAX), &cancel),
            &mut Among::Alone,
            &mut (),
        )
        .unwrap();
        // A busy machine does not get to as many rounds as a claim needs.
        let is_short = found.reason.as_ref().is_some_and(|why| why.contains("rounds needed"));
        assert!(found.verdict == ConfirmedVerdict::Confirmed || is_short, "{found:?}");
        assert_eq!(found.experiment, "doubling the queue depth");
        assert!(found.ratio.unwrap().value > 10.0, "{found:?}");
    }

    #[test]
    fn what_cannot_be_tested_says_why() {
        let cancel = CancelToken::default();
        let confirm =
            |record: &mut RunRecord| confirm(&idle_targets(), record, None, &cancel, &mut ());
        let mut untestable = record(&["swapping", "device"]);
        let base = untestable.plan.clone();
        let test = (&idle_targets(), Workload::Jobs(&base), Duration::from_secs(1));
        test_causes(test, &mut untestable, &mut Among::Alone, &cancel, &mut ()).unwrap();
        let [first, second] = untestable.header.findings.as_slice() else { panic!() };
        let found = first.confirmed.clone().unwrap();
        assert_eq!(found, Confirmed::not_tested("there is no confirmation test for this cause"));
        assert!(second.confirmed.is_some(), "what follows is tested instead");
        assert!(confirm(&mut record(&[])).unwrap_err().contains("no limiter"));
        let mut paced = record(&["device"]);
        paced.plan.jobs[0].think = Some(Think { time_ns: 1, blocks: 1, ..Think::default() });
        assert!(confirm(&mut paced).unwrap_err().contains("think time"));
        cancel.cancel();
        assert!(confirm(&mut record(&["device"])).unwrap_err().contains("interrupted"));
    }

    #[test]
    fn a_setting_of_a_device_that_is_gone_shows_nothing() {
        let record = record(&["io-scheduler"]);
        let workload = Workload::Jobs(&record.plan);
        let test = confirmation_test(&record, workload, &record.header.findings[0]).unwrap();
        assert!(!test.settings.is_empty());
        let finding = &record.header.findings[0];
        let refusal = prepared(&record, workload, finding, true, &mut ()).err().unwrap();
        assert!(!refusal.is_fatal && refusal.why.contains("no-such-device"), "{refusal:?}");
    }
}
