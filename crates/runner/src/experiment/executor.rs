//! Windows of a condition, and one with everything sampled.

use super::plans::{Plans, Work, pace};
use super::ranks::{Asked, Peers};
use super::{command, processes};
use crate::cancel::CancelToken;
use crate::ranks::Lost;
use crate::run::Hooks;
use crate::sampling::{Sampling, SamplingOptions, during_run};
use crate::targets::OpenTargets;
use crate::window::{self, MachineSnapshots};
use fathom_analysis::layers::{LayerTime, LayerTimes};
use fathom_analysis::watch::Observed;
use fathom_machine::settings::{Restored, RestoredHow, Settings, SettingsError};
use fathom_model::experiment::{
    Detail, LayerShare, Load, Metric, Request, RoundWindow, WindowResult,
};
use fathom_model::plan::Plan;
use fathom_model::progress::Sample;
use fathom_model::record::JobRecord;
use fathom_model::watch::Level;
use fathom_watch::Scope;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Between two checks whether work of a fixed amount is done.
const TICK: Duration = Duration::from_millis(20);
/// Of the window with everything sampled: at 250 samples per second and busy CPU, up to 500 samples per worker.
const DETAIL_WINDOW: Duration = Duration::from_millis(2000);
const DETAIL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Failure {
    pub why: String,
    /// The condition cannot be measured on this machine.
    pub rejects: bool,
    /// The machine is not as it was before, so that no further window would be valid.
    pub is_fatal: bool,
}

impl Failure {
    fn rejected(why: impl Into<String>) -> Self {
        Self { why: why.into(), rejects: true, is_fatal: false }
    }

    /// One that need not recur.
    pub fn once(why: String) -> Self {
        Self { why, rejects: false, is_fatal: false }
    }

    pub fn fatal(why: String) -> Self {
        Self { why, rejects: false, is_fatal: true }
    }
}

pub(super) struct ConditionExecutor<'a> {
    targets: &'a OpenTargets,
    plans: &'a Plans,
    pub request: &'a Request,
    machine: MachineSnapshots,
    pub cancel: &'a CancelToken,
    /// Different for every window, so that none reads the blocks that another has just read.
    pub number: u64,
    /// Whether conditions have no given rate, as where that is a share of what they reach without.
    pub is_unlimited: bool,
    /// Of the windows that are measured now, if they are those of rounds.
    pub round: Option<u32>,
    /// The others, if several ranks measure together.
    pub peers: Option<Peers>,
    /// This rank, and the number of ranks.
    place: (u32, u32),
}

impl<'a> ConditionExecutor<'a> {
    pub fn new(
        targets: &'a OpenTargets,
        plans: &'a Plans,
        request: &'a Request,
        cancel: &'a CancelToken,
    ) -> Self {
        let machine = MachineSnapshots::new(targets);
        let place = (0, 1);
        let (number, is_unlimited, round, peers) = (0, false, None, None);
        Self { targets, plans, request, machine, cancel, number, is_unlimited, round, peers, place }
    }

    /// The same as rank 0 of several, if there are any.
    pub fn among(self, peers: Option<Peers>) -> Self {
        let place = peers.as_ref().map_or(self.place, Peers::place);
        Self { peers, ..self.at(place) }
    }

    /// The same as one of several ranks: its number, and theirs.
    pub fn at(self, place: (u32, u32)) -> Self {
        Self { place, ..self }
    }

    /// Measures a window of condition `index`, of `window` after the ramp, with its settings in effect.
    pub fn window(
        &mut self,
        index: usize,
        window: Duration,
        hooks: &mut dyn Hooks,
    ) -> Result<WindowResult, Failure> {
        let condition = &self.request.experiment.conditions[index];
        let share = condition.rate_share.filter(|_| !self.is_unlimited);
        let peak = self.request.peaks.get(&super::peak_key(condition)).copied();
        let iops = match (share, peak) {
            (Some(share), Some(peak)) => Some(peak * share),
            (Some(_), None) => return Err(Failure::rejected("its peak could not be measured")),
            (None, _) => None,
        };
        let (round, length_ns) = (self.round, window.as_nanos() as u64);
        let asked = Asked { condition: index, round, length_ns, iops };
        let Some(mut peers) = self.peers.take() else { return self.own(&asked, None, hooks) };
        let measured = peers.ask(self, &asked, hooks);
        self.peers = Some(peers);
        measured
    }

    /// How many ranks take part; `None` for all.
    pub fn members(&self, asked: &Asked) -> Option<u32> {
        self.request.experiment.conditions.get(asked.condition)?.ranks
    }

    pub fn takes_part(&self, asked: &Asked) -> bool {
        self.members(asked).is_none_or(|some| self.place.0 < some)
    }

    /// Ends the experiment, because a rank is gone.
    pub fn lost(&self, lost: &Lost) -> Failure {
        self.cancel.cancel_for_lost_rank(lost.who());
        Failure::once(lost.to_string())
    }

    /// This machine's part of a window. Of several ranks, none begins before the settings of all are in effect, and none restores
    /// its own before all have measured.
    pub fn own(
        &mut self,
        asked: &Asked,
        mut peers: Option<&mut Peers>,
        hooks: &mut dyn Hooks,
    ) -> Result<WindowResult, Failure> {
        let plans = self.plans;
        let changes = plans.settings.get(asked.condition).map_or(&[][..], Vec::as_slice);
        let takes_part = self.takes_part(asked);
        let measure = |this: &mut Self| match takes_part {
            true => this.measure(asked),
            false => Ok(WindowResult::default()),
        };
        if changes.is_empty() {
            return measure(self);
        }
        let applies = takes_part && peers.as_ref().is_none_or(|peers| peers.is_first_of_host());
        let secured = match peers.as_mut().filter(|_| applies) {
            Some(peers) => peers.secure_settings(),
            None => Ok(()),
        };
        let apply = || match Settings::system().apply(changes) {
            Ok(guard) => Ok(Some(guard)),
            Err(error @ SettingsError::NotRestored { .. }) => {
                Err(Failure::fatal(error.to_string()))
            }
            Err(error) => Err(Failure::rejected(error.to_string())),
        };
        let applied = secured.and_then(|()| if applies { apply() } else { Ok(None) });
        peers.as_mut().map_or(Ok(()), |peers| peers.wait(self, asked))?;
        let measured = applied.as_ref().map_or_else(|why| Err(why.clone()), |_| measure(self));
        peers.as_mut().map_or(Ok(()), |peers| peers.wait(self, asked))?;
        if let Some(guard) = applied? {
            all_restored(&guard.restore(), hooks)?;
        }
        measured
    }

    fn measure(&mut self, asked: &Asked) -> Result<WindowResult, Failure> {
        let (index, window) = (asked.condition, Duration::from_nanos(asked.length_ns));
        let condition = &self.request.experiment.conditions[index];
        // Open before the load begins: the window measures sampling, not its start.
        let sampling = match condition.sampling {
            Level::Off => None,
            level => {
                let jobs = match self.plans.works.get(index) {
                    Some(Work::Jobs(plan)) => &plan.jobs[..],
                    _ => &[],
                };
                let sampling = Sampling::start(&during_run(level, jobs, self.targets.devices()));
                Some(sampling.map_err(Failure::once)?)
            }
        };
        let sample = match self.plans.works.get(index) {
            Some(Work::Command(text)) => {
                let Plans { paths, command_limits, .. } = self.plans;
                let sample =
                    command::measure(text, paths, command_limits, &self.machine, self.cancel);
                sample.map_err(Failure::once)
            }
            Some(Work::Processes(pids)) => {
                let lengths = (Duration::from_nanos(self.request.protocol.ramp_ns), window);
                processes::measure(pids, lengths, &self.machine, self.cancel).map_err(Failure::once)
            }
            Some(Work::Jobs(plan)) => self.jobs(plan.clone(), asked, window),
            None => Err(Failure::rejected("this condition has no work")),
        };
        drop(sampling.map(Sampling::stop));
        let sample = sample?;
        if sample.metric(self.request.experiment.metric).is_none() {
            let why = sample.first_error.unwrap_or_else(|| "no I/O completed".into());
            return Err(match self.plans.works.get(index) {
                // A program may pause; a job does not.
                Some(Work::Processes(_)) => Failure::once(why),
                _ => Failure::rejected(why),
            });
        }
        Ok(sample)
    }

    fn jobs(
        &mut self,
        mut plan: Box<Plan>,
        asked: &Asked,
        window: Duration,
    ) -> Result<WindowResult, Failure> {
        self.number += 1;
        let (rank, ranks) = (u64::from(self.place.0), u64::from(self.place.1));
        for (worker, job) in plan.jobs.iter_mut().enumerate() {
            job.access.seed ^= window::seed(self.number, worker as u64 * ranks + rank);
        }
        if let Some(iops) = asked.iops {
            let members = self.members(asked).unwrap_or(self.place.1);
            pace(&mut plan, iops / f64::from(members.max(1)));
        }
        if plan.jobs.iter().any(|job| !job.direct) {
            self.targets.drop_caches().map_err(Failure::rejected)?;
        }
        let corrects = self.plans.waits_for_others(&self.request.experiment);
        let measured = match self.request.experiment.metric {
            Metric::Time => self.to_its_end(&plan),
            _ => {
                let ramp_ns = self.request.protocol.ramp_ns;
                for job in &mut plan.jobs {
                    job.until.runtime_ns = Some(window.as_nanos() as u64);
                    job.until.ramp_ns = ramp_ns;
                }
                let lengths = (Duration::from_nanos(ramp_ns), window);
                window::measure(self.targets, &plan, lengths, &self.machine, None)
            }
        };
        let measured = measured.map_err(Failure::rejected)?;
        if let Some(why) = not_in_effect(&plan, &measured.jobs) {
            return Err(Failure::rejected(why));
        }
        let undelayed_ns = undelayed_ns(&measured.jobs).filter(|_| corrects);
        Ok(WindowResult { undelayed_ns, ..sample(&measured, asked.iops.is_some()) })
    }

    fn to_its_end(&self, plan: &Plan) -> Result<window::MeasuredWindow, String> {
        let began = Instant::now();
        let from = self.machine.take();
        let running = self.targets.start(plan)?;
        while !running.wait(TICK) {
            if self.cancel.reason().is_some() {
                running.stop();
            }
        }
        let to = self.machine.take();
        Ok(window::MeasuredWindow {
            jobs: self.targets.join(running),
            from,
            to,
            took: began.elapsed(),
        })
    }
}

/// What is recorded of a window.
pub(super) fn round_window(
    condition: usize,
    round: u32,
    measured: Result<WindowResult, Failure>,
) -> RoundWindow {
    let rejects = measured.as_ref().err().is_some_and(|failure| failure.rejects);
    RoundWindow { condition, round, outcome: measured.map_err(|failure| failure.why), rejects }
}

/// Reports settings that others changed or that no longer exist; fails if one is still to be restored.
pub(super) fn all_restored(restored: &[Restored], hooks: &mut dyn Hooks) -> Result<(), Failure> {
    for one in restored {
        if matches!(one.how, RestoredHow::ChangedByOthers { .. } | RestoredHow::Gone) {
            hooks.notice(&one.to_string());
        }
    }
    match restored.iter().find(|one| one.is_failure()) {
        Some(failed) => Err(Failure::fatal(format!("{failed}; `fathom restore` tries again"))),
        None => Ok(()),
    }
}

/// Why a variant would be mislabeled: a requested setting did not take effect.
fn not_in_effect(plan: &Plan, jobs: &[JobRecord]) -> Option<String> {
    let requested = |job: &JobRecord, at: usize| {
        let asked = plan.jobs.get(at)?;
        (asked.engine.is_polled() && !job.granted.polled)
            .then(|| "polling for completions is not in effect".to_string())
    };
    let error = |job: &JobRecord| {
        let nothing = job.dirs.iter().all(|(_, dir)| dir.counts.ios == 0);
        job.error.as_ref().filter(|_| nothing).map(|error| error.message.clone())
    };
    jobs.iter().enumerate().find_map(|(at, job)| error(job).or_else(|| requested(job, at)))
}

/// A window as its workers, the machine and the disks show it.
fn sample(window: &window::MeasuredWindow, is_paced: bool) -> WindowResult {
    let jobs = &window.jobs;
    let sum = window::workers(jobs, is_paced);
    // Threads of io-wq and SQPOLL belong to the process; those of fathom that wait meanwhile use next to nothing.
    let process_ns = window.to.process_ns.saturating_sub(window.from.process_ns);
    WindowResult {
        elapsed_ns: window::elapsed_ns(jobs),
        took_ns: window.took.as_nanos() as u64,
        helper_ns: process_ns.saturating_sub(sum.user_ns + sum.system_ns),
        cpu: window.to.cpu_since(&window.from),
        disk: window.to.disk_since(&window.from, |_| true),
        ..sum
    }
}

/// The time in which the workers would have done as much if none had waited for a CPU.
fn undelayed_ns(jobs: &[JobRecord]) -> Option<u64> {
    let ios = |job: &JobRecord| job.dirs.iter().map(|(_, dir)| dir.counts.ios).sum::<u64>() as f64;
    let rate = |job: &JobRecord| {
        let ns = job.runtime_ns.checked_sub(job.usage.run_delay_ns?).filter(|ns| *ns > 0)?;
        Some(ios(job) / ns as f64)
    };
    let rates = jobs.iter().map(rate).sum::<Option<f64>>().filter(|sum| *sum > 0.0)?;
    Some((jobs.iter().map(ios).sum::<f64>() / rates) as u64)
}

/// Measures a window of condition `index` with everything sampled.
pub(super) fn detail(
    executor: &mut ConditionExecutor<'_>,
    index: usize,
    hooks: &mut dyn Hooks,
) -> Result<Detail, Failure> {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let is_own = matches!(executor.request.experiment.conditions[index].load, Load::Job(_));
    let options = SamplingOptions {
        level: Level::Full,
        scope: if is_own { Scope::Only(vec![own]) } else { Scope::Machine },
        devices: executor.targets.devices(),
        interval: DETAIL_INTERVAL,
        during_run: is_own,
        each_io: false,
        ..SamplingOptions::default()
    };
    let sampling = Sampling::start(&options).map_err(Failure::once)?;
    let measured = executor.window(index, DETAIL_WINDOW, hooks);
    let (samples, _) = sampling.stop();
    measured.map(|_| shown(&samples))
}

fn shown(samples: &[Sample]) -> Detail {
    let mut totals = Observed::default();
    let mut io_wq_workers = 0;
    for sample in samples {
        totals.add(sample);
        let workers = sample.machine.rings.iter().flat_map(|rings| &rings.workers);
        io_wq_workers = io_wq_workers.max(workers.map(|of| of.threads).sum());
    }
    let counted = totals.stacks();
    let times = LayerTimes::of(counted.as_ref(), &totals.known_stacks, |_| true);
    let all = times.time().max(1) as f64;
    let layer = |row: &LayerTime| LayerShare {
        layer: row.layer.name().to_string(),
        share: row.time as f64 / all,
    };
    Detail {
        samples: times.samples,
        layers: times.layers.iter().map(layer).collect(),
        unplugs: totals
            .last()
            .blocks
            .as_ref()
            .map_or_else(Vec::new, |blocks| blocks.unplugs.clone()),
        io_wq_workers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up_without_the_time_that_each_waited_for_a_cpu() {
        let worker = |ios: u64, run_delay_ns: Option<u64>| {
            let mut job = JobRecord { runtime_ns: 1_000_000_000, ..JobRecord::default() };
            job.dirs.read.counts.ios = ios;
            job.usage.run_delay_ns = run_delay_ns;
            job
        };
        // 1000 I/Os per second each.
        let jobs = [worker(500, Some(500_000_000)), worker(1000, Some(0))];
        assert_eq!(undelayed_ns(&jobs), Some(750_000_000));
        assert_eq!(undelayed_ns(&[worker(500, Some(500_000_000)), worker(1000, None)]), None);
        assert_eq!(undelayed_ns(&[worker(0, Some(1_000_000_000))]), None);
    }

    #[test]
    fn a_setting_that_is_not_restored_ends_the_experiment() {
        struct Notices(Vec<String>);
        impl Hooks for Notices {
            fn notice(&mut self, text: &str) {
                self.0.push(text.to_string());
            }
        }
        let mut hooks = Notices(Vec::new());
        let one = |how| Restored { what: "nomerges of sda".into(), how };
        let fine = [one(RestoredHow::Unchanged), one(RestoredHow::Gone)];
        assert!(all_restored(&fine, &mut hooks).is_ok());
        assert_eq!(hooks.0, ["nomerges of sda not restored: it no longer exists"]);
        let failed = [one(RestoredHow::Failed("EIO".into()))];
        let failure = all_restored(&failed, &mut hooks).err().unwrap();
        assert!(failure.is_fatal && failure.why.contains("EIO"), "{}", failure.why);
    }
}
