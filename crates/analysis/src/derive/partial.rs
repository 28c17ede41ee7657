//! The results of a run whose final record is missing, from its samples or windows.

use crate::experiment::{Rounds, report};
use crate::limit::replay;
use fathom_model::Dir;
use fathom_model::experiment::{ExperimentRecord, RoundWindow};
use fathom_model::limit::LimitRecord;
use fathom_model::outcome::Outcome;
use fathom_model::progress::{JobSample, Phase};
use fathom_model::record::{JobRecord, RunRecord};
use fathom_model::units;
use fathom_model::window::Window;

/// Adds up the samples of a run that was killed, or is still running.
#[derive(Debug, Clone, Default)]
pub struct PartialRun {
    elapsed_ns: u64,
    jobs: Vec<JobRecord>,
}

impl PartialRun {
    /// Adds the jobs of the next sample, which was taken `elapsed_ns` after the start.
    pub fn add(&mut self, elapsed_ns: u64, jobs: &[JobSample]) {
        self.jobs.resize(self.jobs.len().max(jobs.len()), JobRecord::default());
        for (job, seen) in self.jobs.iter_mut().zip(jobs) {
            add(job, seen, self.elapsed_ns, elapsed_ns);
        }
        self.elapsed_ns = self.elapsed_ns.max(elapsed_ns);
    }

    /// Puts the results so far into a record that has none, and says in its outcome what they are; `is_active` if the
    /// run is still being recorded. Other records stay as they are.
    pub fn complete(self, record: &mut RunRecord, is_active: bool) {
        if record.header.outcome != Outcome::unfinished() {
            return;
        }
        record.header.outcome = cut_short(self.elapsed_ns as f64, is_active);
        for (job, partial) in record.jobs.iter_mut().zip(self.jobs) {
            if job.runtime_ns == 0 {
                *job = partial;
            }
        }
    }
}

fn cut_short(elapsed_ns: f64, is_active: bool) -> Outcome {
    let after = units::time(elapsed_ns);
    let because = match is_active {
        true => format!("still running, {after} so far"),
        false => format!("killed after {after}, or its record could not be written"),
    };
    Outcome::Failed { because }
}

/// The outcome of a search or an experiment whose windows took so many `seconds`, or why they do not show what was found.
fn of_windows(seconds: Result<f64, String>, is_active: bool) -> Outcome {
    match seconds {
        Ok(seconds) => cut_short(seconds * 1e9, is_active),
        Err(why) => Outcome::Failed {
            because: format!("it did not end, and its windows cannot be evaluated: {why}"),
        },
    }
}

/// Puts what these windows show into the record of a search that has no results.
pub fn complete_limit(record: &mut LimitRecord, windows: &[Window], is_active: bool) {
    let found = replay(record.config.clone(), windows);
    let found = found.map(|report| record.report = report);
    record.header.outcome = of_windows(found.map(|()| record.report.seconds_used), is_active);
}

/// The same for an experiment.
pub fn complete_experiment(
    record: &mut ExperimentRecord,
    windows: &[RoundWindow],
    is_active: bool,
) {
    let found = Rounds::replayed(&record.request, windows).or_else(|why| match &record.ranks[..] {
        [] => Err(why),
        // Those of one of several ranks, in the order that rank 0 chose by its own.
        _ => Ok(Rounds::of_rank(&record.request, windows)),
    });
    let found = found.map(|design| record.report = report(&design, &record.request, &[]));
    record.header.outcome = of_windows(found.map(|()| record.report.seconds_used), is_active);
}

/// The counters of a sample are those since the job's measured time began, up to an interval after `before_ns`.
fn add(job: &mut JobRecord, seen: &JobSample, before_ns: u64, now_ns: u64) {
    if matches!(seen.phase, Phase::Waiting | Phase::Ramp) {
        return;
    }
    if job.runtime_ns == 0 {
        job.started_ns = before_ns;
    }
    let moved = Dir::ALL.into_iter().any(|dir| seen.dirs[dir] != job.dirs[dir].counts);
    if moved || seen.phase == Phase::Running {
        job.runtime_ns = now_ns.saturating_sub(job.started_ns);
    }
    for dir in Dir::ALL {
        job.dirs[dir].counts = seen.dirs[dir];
        job.dirs[dir].clat.merge(&seen.clat[dir]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::experiment::{Condition, Experiment, ExperimentRank, Request, WindowResult};
    use fathom_model::progress::Counts;

    fn job(phase: Phase, ios: u64) -> [JobSample; 1] {
        let mut job = JobSample { phase, ..JobSample::default() };
        job.dirs.read = Counts { ios, bytes: ios * 4096, ..Counts::default() };
        job.clat.read.record(1000);
        [job]
    }

    #[test]
    fn a_killed_rank_has_the_windows_that_another_chose() {
        let condition = Condition { name: "a".into(), ..Condition::default() };
        let experiment = Experiment { conditions: vec![condition], ..Experiment::default() };
        let request = Request { experiment, ..Request::default() };
        let report = report(&Rounds::of_rank(&request, &[]), &request, &[]);
        let (header, conditions, ranks) = Default::default();
        let mut record = ExperimentRecord { header, request, conditions, report, ranks };
        let outcome = Ok(WindowResult { ios: 9, elapsed_ns: 9, ..WindowResult::default() });
        // Never in this round.
        let window = RoundWindow { condition: 0, round: 7, outcome, rejects: false };
        complete_experiment(&mut record, std::slice::from_ref(&window), false);
        assert!(matches!(record.header.outcome, Outcome::Failed { .. }));
        record.ranks = vec![ExperimentRank::default(); 2];
        complete_experiment(&mut record, &[window], false);
        assert_eq!(record.report.conditions[0].windows, 1, "{:?}", record.header.outcome);
    }

    #[test]
    fn a_record_without_results_gets_those_of_the_samples() {
        let mut partial = PartialRun::default();
        partial.add(1_000_000_000, &job(Phase::Ramp, 0));
        partial.add(2_000_000_000, &job(Phase::Running, 10));
        partial.add(3_000_000_000, &job(Phase::Running, 30));
        partial.add(9_000_000_000, &job(Phase::Done, 30));
        let mut record = RunRecord { jobs: vec![JobRecord::default()], ..RunRecord::default() };
        partial.clone().complete(&mut record, false);
        assert_eq!(record.jobs[0].runtime_ns, 0, "a finished record is complete");
        record.header.outcome = Outcome::unfinished();
        partial.complete(&mut record, true);
        let job = &record.jobs[0];
        assert_eq!((job.started_ns, job.runtime_ns), (1_000_000_000, 2_000_000_000));
        assert_eq!((job.dirs.read.counts.ios, job.dirs.read.clat.count()), (30, 3));
        assert!(record.header.outcome.to_string().contains("still running, 9 s so far"));
    }
}
