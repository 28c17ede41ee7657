//! Experiments: conditions compared window by window, on targets that are opened once.

mod command;
mod confirm;
mod executor;
mod plans;
mod processes;
mod ranks;

pub use command::Limits;
pub use confirm::{confirm, confirm_as_rank, confirm_recorded, confirm_watched};

use crate::cancel::CancelToken;
use crate::design;
use crate::ranks::{Ranks, SILENCE};
use crate::run::Hooks;
use crate::session::{Measuring, RecordTo, Session, new_header};
use crate::targets::{OpenTargets, scratch_file};
use crate::wording::Vocabulary;
use executor::{ConditionExecutor, Failure};
use fathom_analysis::experiment::{Design, Rounds, Turn, report};
use fathom_analysis::rules::judge_experiment;
use fathom_machine::guard::Permissions;
use fathom_machine::scratch::ScratchSize;
use fathom_model::experiment::{Condition, Detail, ExperimentRecord, Load, Request, RoundWindow};
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::plan::Plan;
use fathom_model::window::Conditions;
use plans::Plans;
use ranks::Peers;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Windows from which the peak of a cell is taken.
const PEAK_WINDOWS: usize = 3;

#[derive(Debug, Clone, Default)]
pub struct ExperimentOptions {
    pub request: Request,
    /// Whether a scratch file that takes more than a tenth of the free space is refused instead of made smaller.
    pub is_scratch_exact: bool,
    pub permissions: Permissions,
    pub record: RecordTo,
    /// The run directory of an interrupted experiment, which is continued there.
    pub resume: Option<PathBuf>,
    pub cancel: CancelToken,
    /// Limits of this process under which commands start; none: the current ones.
    pub command_limits: Limits,
}

/// The window that begins, for a progress line.
#[derive(Debug, Clone)]
pub struct RoundProgress {
    pub label: String,
    pub rounds: u32,
    /// The share of the time that is used, from 0 to 1.
    pub done: f64,
    pub seconds: f64,
}

pub type ExperimentRunner = Measuring<Resolved>;

pub struct Resolved {
    plans: Plans,
    conditions: Vec<Conditions>,
    options: ExperimentOptions,
    earlier: Vec<RoundWindow>,
}

impl ExperimentRunner {
    /// Creates the run directory, or opens that of the experiment to resume, resolves all conditions, then opens the
    /// targets, or makes and fills a scratch file.
    pub fn open(options: ExperimentOptions, hooks: &mut dyn Hooks) -> Result<Self, String> {
        let notice = &mut |text: &str| hooks.notice(text);
        let (session, earlier) = match &options.resume {
            Some(dir) => Session::resume(dir)?,
            None => (Session::open(&options.record, notice)?, Vec::new()),
        };
        // Before anything is written.
        Rounds::replayed(&options.request, &earlier)?;
        let needs_scratch = plans::needs_scratch(&options);
        let (targets, plans) = match needs_scratch {
            true => on_scratch(&options, hooks)?,
            false => on_named(&options)?,
        };
        plans.notes.iter().for_each(|note| hooks.remark(&format!("note: {note}")));
        let conditions = plans.conditions(needs_scratch);
        let how = Resolved { plans, conditions, options, earlier };
        Ok(Self { targets, session, how })
    }

    /// Lays out the targets, so that they can be measured.
    pub fn lay_out(&mut self, hooks: &mut dyn Hooks) -> Result<(), String> {
        let cancel = self.how.options.cancel.clone();
        let is_scratch = self.how.conditions.iter().any(|conditions| conditions.scratch);
        let laid_out = self.targets.lay_out(&cancel, |path, done, total| {
            let path = if is_scratch { "the scratch file" } else { path };
            hooks.laying_out(path, done, total);
        });
        laid_out.or_else(|error| cancel.reason().map(|_| ()).ok_or(error))?;
        self.targets.keep();
        Ok(())
    }

    /// Measures until all effects are known, the time is up or the experiment is cancelled. With `ranks`, of which this one is
    /// rank 0, all of them measure each window; if one is gone, that ends the experiment.
    pub fn run(
        &mut self,
        hooks: &mut dyn Hooks,
        ranks: &mut Option<Ranks>,
    ) -> Result<ExperimentRecord, String> {
        let host = &self.targets.facts.host;
        let mut peers = ranks.take().map(|ranks| Peers::meet(ranks, host));
        let measured = self.measure(hooks, &mut peers);
        if let Some(mut peers) = peers {
            // Each host keeps the result of all.
            let own = measured.as_ref().ok();
            if let Err(lost) =
                peers.release().and_then(|()| peers.broadcast(&own.cloned(), SILENCE))
            {
                hooks.notice(&lost.to_string());
            }
            *ranks = Some(peers.into_ranks());
        }
        measured
    }

    /// Measures, as another rank than 0, the windows of that one's experiment, and returns its result as the record of this
    /// host. If another rank is gone, that is of its own windows, and says so.
    pub fn serve(&mut self, ranks: Ranks) -> Result<(Ranks, ExperimentRecord), String> {
        let mut peers = Peers::meet(ranks, &self.targets.facts.host);
        let mut design = Rounds::replayed(&self.how.options.request, &[])?;
        let mut record = ExperimentRecord { ranks: peers.record(), ..self.new_record(&design) };
        let unfinished = ExperimentRecord { header: record.header.unfinished(), ..record.clone() };
        let Self { targets, session, how: Resolved { plans, options, .. } } = self;
        // A host without a record of its own measures nevertheless.
        let _ = session.begin(&unfinished, &mut |_| ());
        let began = Instant::now();
        let executor = ConditionExecutor::new(targets, plans, &options.request, &options.cancel);
        let served = peers.serve(&mut executor.at(peers.place()), &mut |window| {
            design.take(&window);
            session.window(&window);
        });
        let told = served.and_then(|()| peers.broadcast(&None::<ExperimentRecord>, SILENCE));
        record.header.elapsed_ns = began.elapsed().as_nanos() as u64;
        record.report = report(&design, &options.request, &[]);
        match told {
            Ok(Some(all)) => {
                let mut header = record.header;
                (header.outcome, header.findings) = (all.header.outcome, all.header.findings);
                record = ExperimentRecord { header, conditions: record.conditions, ..all };
            }
            Ok(None) => {
                let because = "rank 0 could not measure; it says why".into();
                record.header.outcome = Outcome::Failed { because };
            }
            Err(lost) => {
                options.cancel.cancel_for_lost_rank(lost.who());
                let reason = options.cancel.reason().unwrap_or_default();
                record.header.outcome = Outcome::interrupted(reason);
            }
        }
        Ok((peers.into_ranks(), record))
    }

    fn measure(
        &mut self,
        hooks: &mut dyn Hooks,
        peers: &mut Option<Peers>,
    ) -> Result<ExperimentRecord, String> {
        let cancel = self.how.options.cancel.clone();
        self.peaks(hooks, peers)?;
        let request = self.how.options.request.clone();
        let mut design = Rounds::replayed(&request, &self.how.earlier)?;
        let mut record = self.new_record(&design);
        let of_ranks =
            |peers: &Option<Peers>| peers.as_ref().map(Peers::record).unwrap_or_default();
        record.ranks = of_ranks(peers);
        let unfinished = ExperimentRecord { header: record.header.unfinished(), ..record.clone() };
        let session = &mut self.session;
        session.begin(&unfinished, &mut |text: &str| hooks.notice(text))?;
        let began = Instant::now();
        let executor = ConditionExecutor::new(&self.targets, &self.how.plans, &request, &cancel);
        let mut executor = executor.among(peers.take());
        executor.number = u64::from(design.windows());
        let measured = rounds(&mut design, &mut executor, hooks, |window, hooks| {
            session.window(window);
            session.report(&mut |text: &str| hooks.notice(text));
            true
        });
        let details = measured
            .and_then(|interrupted| Ok((interrupted, details(&mut executor, &design, hooks)?)));
        *peers = executor.peers.take();
        let (interrupted, details) = details?;
        record.header.elapsed_ns = began.elapsed().as_nanos() as u64;
        record.header.outcome = interrupted.map_or(Outcome::Finished, Outcome::interrupted);
        record.report = report(&design, &request, &details);
        record.ranks = of_ranks(peers);
        record.header.findings = judge_experiment(&record);
        Ok(record)
    }

    /// Measures what each cell reaches without a limit, where its load is a share of that.
    fn peaks(&mut self, hooks: &mut dyn Hooks, peers: &mut Option<Peers>) -> Result<(), String> {
        let request = self.how.options.request.clone();
        let mut peaks: BTreeMap<String, f64> = request.peaks.clone();
        let length = Duration::from_nanos(request.protocol.window_ns);
        let Resolved { plans, options, .. } = &self.how;
        let executor = ConditionExecutor::new(&self.targets, plans, &request, &options.cancel);
        let mut executor = executor.among(peers.take());
        executor.is_unlimited = true;
        let mut fatal = Ok(());
        'conditions: for (index, condition) in request.experiment.conditions.iter().enumerate() {
            let key = peak_key(condition);
            if condition.rate_share.is_none() || peaks.contains_key(&key) {
                continue;
            }
            let label = format!("peak of {key}");
            let (done, seconds) = (0.0, request.protocol.seconds);
            hooks.trying(&RoundProgress { label, rounds: 0, done, seconds });
            let mut rates: Vec<f64> = Vec::new();
            for _ in 0..PEAK_WINDOWS {
                match executor.window(index, length, hooks) {
                    Ok(w) => rates.push(w.ios as f64 * 1e9 / w.elapsed_ns.max(1) as f64),
                    Err(failure) if failure.is_fatal => {
                        fatal = Err(failure.why);
                        break 'conditions;
                    }
                    Err(_) => {}
                }
            }
            rates.sort_by(f64::total_cmp);
            // A stalled window is not a peak.
            if let Some(rate) = rates.get(rates.len() / 2) {
                peaks.insert(key, *rate);
            }
        }
        *peers = executor.peers.take();
        self.how.options.request.peaks = peaks;
        fatal
    }

    fn new_record(&self, design: &Rounds) -> ExperimentRecord {
        let mut facts = self.targets.facts.clone();
        if facts.targets.is_empty() {
            // Those of commands are not opened.
            facts.targets.clone_from(&self.how.plans.facts.targets);
        }
        ExperimentRecord {
            header: new_header(RecordKind::Experiment, facts),
            request: self.how.options.request.clone(),
            conditions: self.how.conditions.clone(),
            report: report(design, &self.how.options.request, &[]),
            ranks: Vec::new(),
        }
    }
}

/// Measures the windows of `design` and passes them to `take`, until it ends or that returns `false`; returns what interrupted it,
/// if so.
fn rounds(
    design: &mut Rounds,
    executor: &mut ConditionExecutor<'_>,
    hooks: &mut dyn Hooks,
    take: impl FnMut(&RoundWindow, &mut dyn Hooks) -> bool,
) -> Result<Option<&'static str>, String> {
    let length = Duration::from_nanos(executor.request.protocol.window_ns);
    let cancel = executor.cancel;
    let window = |turn: Turn, hooks: &mut dyn Hooks| {
        executor.round = Some(turn.round);
        match executor.window(turn.condition, length, hooks) {
            Err(Failure { why, is_fatal: true, .. }) => Err(why),
            measured => Ok(executor::round_window(turn.condition, turn.round, measured)),
        }
    };
    design::measure(design, hooks, || cancel.reason(), window, take)
}

/// What distinguishes the peaks of a grid: the keys without the rate, and how many ranks take part.
fn peak_key(condition: &Condition) -> String {
    let load = match &condition.load {
        Load::Job(keys) => keys.join(" "),
        Load::Command(command) => command.clone(),
    };
    condition.ranks.map_or(load.clone(), |ranks| format!("{load} ranks={ranks}"))
}

type Opened = (OpenTargets, Plans);

fn on_named(options: &ExperimentOptions) -> Result<Opened, String> {
    let plans = plans::resolve(options, &options.request.targets, &[])?;
    let plan = Plan { targets: plans.targets.clone(), ..Plan::default() };
    let mut targets =
        OpenTargets::open(&plan, plans.facts.clone(), &options.permissions, &options.cancel)?;
    if targets.facts.targets.is_empty() {
        // Their disks are observed while a command uses them.
        targets.facts.targets.clone_from(&plans.facts.targets);
    }
    Ok((targets, plans))
}

fn on_scratch(options: &ExperimentOptions, hooks: &mut dyn Hooks) -> Result<Opened, String> {
    let request = &options.request;
    let size = match options.is_scratch_exact {
        true => ScratchSize::Exactly(request.scratch_bytes),
        false => ScratchSize::AtMost(request.scratch_bytes),
    };
    let scratch = scratch_file(&request.scratch_dir, size, &options.cancel, hooks)?;
    let path = scratch.facts.path.clone();
    let plans =
        plans::resolve(options, std::slice::from_ref(&path), std::slice::from_ref(&scratch.facts))?;
    if let Some(other) = plans.targets.iter().find(|target| target.path != path) {
        return Err(format!(
            "{} would be used with a scratch file; name the targets of all jobs",
            other.path
        ));
    }
    let host = plans.facts.host.clone();
    Ok((OpenTargets::with(host, vec![scratch], Vocabulary::Keys), plans))
}

/// The window of condition `index`, for a progress line.
pub(crate) fn progress(design: &Rounds, index: usize) -> RoundProgress {
    RoundProgress {
        label: design.label(index),
        rounds: design.rounds(),
        done: design.done(),
        seconds: design.seconds(),
    }
}

/// A window with full sampling of every condition that was measured.
fn details(
    executor: &mut ConditionExecutor<'_>,
    design: &Rounds,
    hooks: &mut dyn Hooks,
) -> Result<Vec<Option<Detail>>, String> {
    let request = executor.request;
    let mut all = Vec::new();
    executor.round = None;
    for (index, condition) in request.experiment.conditions.iter().enumerate() {
        let was_measured = design.totals(index).is_some_and(|totals| totals.windows() > 0);
        let wanted = request.details
            && was_measured
            && condition.repeats.is_none()
            && design.rejected(index).is_none()
            && executor.cancel.reason().is_none();
        if wanted {
            hooks.trying(&progress(design, index));
        }
        // What is not known then is left out of the report.
        let detail = match wanted.then(|| executor::detail(executor, index, hooks)) {
            Some(Err(failure)) if failure.is_fatal => return Err(failure.why),
            detail => detail.and_then(Result::ok),
        };
        all.push(detail.filter(|_| executor.cancel.reason().is_none()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
