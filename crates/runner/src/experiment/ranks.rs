//! Windows of an experiment that several ranks measure together: rank 0 asks for them, and each measures its part.

use super::executor::{self, ConditionExecutor, Failure};
use crate::ranks::{Lost, Ranks, SILENCE};
use crate::run::Hooks;
use crate::window::add_rank;
use fathom_model::experiment::{ExperimentRank, Load, Metric, RoundWindow, WindowResult};
use fathom_model::facts::Host;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Work without a given time may take so long.
const OPEN_ENDED: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Asked {
    pub condition: usize,
    /// Of which round it is, if of one.
    pub round: Option<u32>,
    pub length_ns: u64,
    /// I/Os per second of all that take part, where a rate is given.
    pub iops: Option<f64>,
}

/// This rank among those that measure an experiment.
pub(super) struct Peers {
    ranks: Ranks,
    /// All, without what they did.
    about: Vec<ExperimentRank>,
    /// On rank 0, what each did in the windows of each condition: amounts, and what they are per.
    sums: Vec<Vec<(f64, f64)>>,
    /// Once a rank is lost, nothing more is waited for.
    lost: Option<Lost>,
    restorer: Option<Restorer>,
}

/// A process that restores the settings of this host should this one be killed, as launchers do when another rank ends.
struct Restorer(Child);

impl Restorer {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        // Not in the process group that the launcher kills.
        command.args(["restore", "--once-killed"]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Peers {
    pub fn meet(ranks: Ranks, host: &Host) -> Self {
        let (hostname, kernel) = (host.hostname.clone(), host.kernel.clone());
        let own = ExperimentRank { hostname, kernel, ..ExperimentRank::default() };
        let (about, sums) = (Vec::new(), Vec::new());
        let mut this = Self { ranks, about, sums, lost: None, restorer: None };
        let all = this.gather(&own, SILENCE).and_then(|all| this.broadcast(&all, SILENCE));
        this.about = all.unwrap_or_default();
        this.sums = vec![Vec::new(); this.about.len()];
        this
    }

    pub fn into_ranks(self) -> Ranks {
        self.ranks
    }

    pub fn place(&self) -> (u32, u32) {
        (self.ranks.rank, self.ranks.size)
    }

    /// Whether this rank changes the settings of its host for all that are there.
    pub fn is_first_of_host(&self) -> bool {
        let rank = self.ranks.rank as usize;
        let own = self.about.get(rank).map(|own| &own.hostname);
        self.about.iter().position(|one| Some(&one.hostname) == own) == Some(rank)
    }

    /// Has settings restored even if this process is killed.
    pub fn secure_settings(&mut self) -> Result<(), Failure> {
        if self.restorer.is_none() {
            let started = Restorer::start();
            let started = started
                .map_err(|error| Failure::once(format!("cannot start fathom restore: {error}")))?;
            self.restorer = Some(started);
        }
        Ok(())
    }

    /// Waits for all ranks, within the time of the window.
    pub fn wait(&mut self, executor: &ConditionExecutor<'_>, asked: &Asked) -> Result<(), Failure> {
        let time = time(executor, asked);
        self.broadcast(&(), time).map_err(|lost| executor.lost(&lost))
    }

    /// What rank 0 says; the others' `own` is ignored.
    pub fn broadcast<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
        time: Duration,
    ) -> Result<T, Lost> {
        self.try_to(|ranks| ranks.broadcast(own, time))
    }

    /// What all ranks say, on rank 0.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
        time: Duration,
    ) -> Result<Vec<T>, Lost> {
        self.try_to(|ranks| ranks.gather(own, time))
    }

    fn try_to<T>(&mut self, act: impl FnOnce(&mut Ranks) -> Result<T, Lost>) -> Result<T, Lost> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let done = act(&mut self.ranks);
        self.lost = done.as_ref().err().cloned();
        done
    }

    /// The window of all ranks, as rank 0.
    pub fn ask(
        &mut self,
        executor: &mut ConditionExecutor<'_>,
        asked: &Asked,
        hooks: &mut dyn Hooks,
    ) -> Result<WindowResult, Failure> {
        let begun = self.broadcast(&Some(asked.clone()), SILENCE);
        begun.map_err(|lost| executor.lost(&lost))?;
        let own = executor.own(asked, Some(self), hooks);
        let all = self.answer(executor, asked, &own);
        let mut all = all.map_err(|lost| executor.lost(&lost))?;
        all.truncate(executor.members(asked).unwrap_or(self.ranks.size) as usize);
        if let Some(failure) = self.failure(&all) {
            return Err(failure);
        }
        let all: Vec<WindowResult> = all.into_iter().flatten().collect();
        if asked.round.is_some() {
            self.add(executor, asked, &all);
        }
        Ok(merged(all, is_open_ended(executor, asked)))
    }

    /// Measures the windows of rank 0's experiment until that has ended, and passes those of its rounds to `take`.
    pub fn serve(
        &mut self,
        executor: &mut ConditionExecutor<'_>,
        take: &mut dyn FnMut(RoundWindow),
    ) -> Result<(), Lost> {
        while let Some(asked) = self.broadcast(&None::<Asked>, SILENCE)? {
            let own = executor.own(&asked, Some(self), &mut ());
            self.answer(executor, &asked, &own)?;
            if let Some(round) = asked.round.filter(|_| executor.takes_part(&asked)) {
                take(executor::round_window(asked.condition, round, own));
            }
        }
        Ok(())
    }

    /// Tells the others that there are no more windows.
    pub fn release(&mut self) -> Result<(), Lost> {
        self.broadcast(&None::<Asked>, SILENCE).map(drop)
    }

    fn answer(
        &mut self,
        executor: &mut ConditionExecutor<'_>,
        asked: &Asked,
        own: &Result<WindowResult, Failure>,
    ) -> Result<Vec<Result<WindowResult, Failure>>, Lost> {
        self.try_to(|ranks| ranks.measured(own, executor.cancel, time(executor, asked)))
    }

    /// What some ranks say, with the names of their hosts.
    pub fn named<T>(
        &self,
        all: impl IntoIterator<Item = Option<T>>,
    ) -> impl Iterator<Item = (&str, T)> {
        let hosts = self.about.iter().map(|about| about.hostname.as_str());
        hosts.zip(all).filter_map(|(host, one)| Some((host, one?)))
    }

    /// The gravest failure, with the name of its host.
    fn failure(&self, all: &[Result<WindowResult, Failure>]) -> Option<Failure> {
        let failed = self.named(all.iter().map(|one| one.as_ref().err()));
        let (host, failure) = failed.max_by_key(|(_, one)| (one.is_fatal, one.rejects))?;
        Some(Failure { why: format!("{host}: {}", failure.why), ..failure.clone() })
    }

    fn add(&mut self, executor: &ConditionExecutor<'_>, asked: &Asked, all: &[WindowResult]) {
        let experiment = &executor.request.experiment;
        for (sums, one) in self.sums.iter_mut().zip(all) {
            sums.resize(experiment.conditions.len(), (0.0, 0.0));
            let (amount, per) = one.rate(experiment.metric);
            if let Some(sum) = sums.get_mut(asked.condition) {
                *sum = (sum.0 + amount, sum.1 + per);
            }
        }
    }

    pub fn record(&self) -> Vec<ExperimentRank> {
        let rank = |(about, sums): (&ExperimentRank, &Vec<(f64, f64)>)| ExperimentRank {
            metrics: sums.iter().map(|(sum, per)| (*per > 0.0).then(|| sum / per)).collect(),
            ..about.clone()
        };
        self.about.iter().zip(&self.sums).map(rank).collect()
    }
}

fn is_open_ended(executor: &ConditionExecutor<'_>, asked: &Asked) -> bool {
    let experiment = &executor.request.experiment;
    let load = experiment.conditions.get(asked.condition).map(|condition| &condition.load);
    experiment.metric == Metric::Time || matches!(load, Some(Load::Command(_)))
}

/// In which the window has ended everywhere.
fn time(executor: &ConditionExecutor<'_>, asked: &Asked) -> Duration {
    match is_open_ended(executor, asked) {
        true => OPEN_ENDED + SILENCE,
        false => {
            let ramp_ns = executor.request.protocol.ramp_ns;
            SILENCE + Duration::from_nanos(ramp_ns + asked.length_ns)
        }
    }
}

/// The windows of all ranks as one. Work without a given time is done when the last has done it.
fn merged(all: Vec<WindowResult>, is_open_ended: bool) -> WindowResult {
    let count = all.len().max(1) as u64;
    let mean = |sum: u64| sum / count;
    let elapsed_ns = match is_open_ended {
        true => all.iter().map(|one| one.elapsed_ns).max().unwrap_or(0),
        false => mean(all.iter().map(|one| one.elapsed_ns).sum()),
    };
    let undelayed = all.iter().map(|one| Some(one.ios as f64 / one.undelayed_ns? as f64));
    let undelayed = undelayed.sum::<Option<f64>>().filter(|rate| rate.is_normal());
    let run_delay_ns = all.iter().map(|one| one.run_delay_ns).sum::<Option<u64>>().map(mean);
    let mut sum = WindowResult::default();
    all.into_iter().for_each(|one| add_rank(&mut sum, one));
    let undelayed_ns = undelayed.map(|rate| (sum.ios as f64 / rate) as u64);
    WindowResult { elapsed_ns, run_delay_ns, undelayed_ns, ..sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_all_ranks_is_one() {
        let one = |ios: u64, elapsed_ns: u64| {
            let mut one = WindowResult {
                ios,
                elapsed_ns,
                took_ns: elapsed_ns + 5,
                user_ns: 10,
                switches: 3,
                run_delay_ns: Some(elapsed_ns / 10),
                undelayed_ns: Some(elapsed_ns / 2),
                ..WindowResult::default()
            };
            one.clat.record_n(100 * ios, ios);
            one
        };
        let sum = merged(vec![one(10, 1000), one(30, 1200)], false);
        assert_eq!((sum.ios, sum.elapsed_ns, sum.took_ns), (40, 1100, 1205));
        assert_eq!((sum.user_ns, sum.switches, sum.run_delay_ns), (20, 6, Some(110)));
        // 10 in 500 ns and 30 in 600 ns are 40 in 571 ns.
        assert_eq!((sum.undelayed_ns, sum.clat.count()), (Some(571), 40));
        // The percentile is that of all I/Os, of which three quarters took 3000 ns.
        assert!(sum.clat.percentile(50.0).is_some_and(|ns| ns.abs_diff(3000) < 30));
        let last = merged(vec![one(10, 1000), one(30, 1200)], true);
        assert_eq!(last.elapsed_ns, 1200);
    }
}
