//! The progress lines of runs, searches and experiments.

use fathom_model::histogram::Histogram;
use fathom_model::limit::Phase as SearchPhase;
use fathom_model::plan::{JobPlan, Plan};
use fathom_model::progress::{Counts, JobProgress, Phase, Progress};
use fathom_model::window::Probe;
use fathom_model::{Dir, units};

const BAR: usize = 16;
const BUDGET_BAR: usize = 24;

/// The progress at `now`, with rates since `before`, in at most `width` columns.
///
/// What matters least is left out first where the width is too small; without a width nothing is.
pub fn line(now: &Progress, before: &Progress, plan: &Plan, width: Option<u16>) -> String {
    let done = share_done(now);
    let mut parts = vec![
        // The least number is the last to be left out.
        (6, format!("[{}]", bar(done))),
        (0, format!("{:3.0}%", (done * 100.0).floor())),
    ];
    parts.extend(time_left(now, plan).map(|ns| (3, format!("{} left", seconds(ns)))));
    let errors = failed(now);
    if errors > 0 {
        parts.push((1, format!("{} ERRORS", units::count(errors as f64))));
    }
    parts.extend(activity(now, before));
    fit(parts, width.map(usize::from))
}

/// Joins the parts that fit, giving up first those with the greatest number.
fn fit(mut parts: Vec<(u8, String)>, width: Option<usize>) -> String {
    let joined = |parts: &[(u8, String)]| {
        parts.iter().map(|part| part.1.as_str()).collect::<Vec<_>>().join("  ")
    };
    let Some(width) = width else { return joined(&parts) };
    while joined(&parts).chars().count() > width && parts.len() > 1 {
        let least = parts.iter().enumerate().max_by_key(|(_, part)| part.0);
        let index = least.map_or(0, |(index, _)| index);
        parts.remove(index);
    }
    joined(&parts).chars().take(width).collect()
}

/// The line of `limit` while `probe` is measured, with a share of `done` (0 to 1) of `seconds` used.
pub fn search_line(probe: &Probe, targets: &[String], done: f64, seconds: f64) -> String {
    let (bar, left) = budget(done, seconds);
    format!("[{bar}] {left:>3.0} s left · {}{}", phase(probe.phase), probed(probe, targets))
}

/// The same of `try` and `sweep` while the condition `label` is measured, after `rounds` rounds.
pub fn experiment_line(label: &str, rounds: u32, done: f64, seconds: f64) -> String {
    let (bar, left) = budget(done, seconds);
    format!("[{bar}] at most {left:.0} s left · round {} · {label}", rounds + 1)
}

fn budget(done: f64, seconds: f64) -> (String, f64) {
    let done = done.clamp(0.0, 1.0);
    let full = (done * BUDGET_BAR as f64) as usize;
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(BUDGET_BAR - full));
    (bar, (seconds * (1.0 - done)).ceil())
}

pub fn phase(phase: SearchPhase) -> &'static str {
    match phase {
        SearchPhase::Idle => "measuring the idle machine",
        SearchPhase::Own => "load-generator overhead",
        SearchPhase::Latency => "latency at QD1",
        SearchPhase::Climb => "searching for the peak",
        SearchPhase::Counter => "what limits the peak",
        SearchPhase::CounterOne => "what limits one worker",
        SearchPhase::Knee => "searching for the knee",
        SearchPhase::Confirm => "confirming the peak",
        SearchPhase::Rated => "searching for the highest load within the target",
        SearchPhase::Suite => "measuring the suite",
        SearchPhase::Combined => "targets alone and combined",
    }
}

fn probed(probe: &Probe, targets: &[String]) -> String {
    match probe.loads.as_slice() {
        [] => String::new(),
        [load] => {
            let target = load.target.and_then(|t| targets.get(t));
            let of = target.map_or_else(String::new, |name| {
                format!(" of {name}, {}", units::bytes(probe.block_bytes))
            });
            format!("{of}, {}", load.setting)
        }
        loads => {
            format!(", {} targets concurrently, {}", loads.len(), units::bytes(probe.block_bytes))
        }
    }
}

fn share_done(now: &Progress) -> f64 {
    if now.jobs.is_empty() {
        return 0.0;
    }
    let of = |job: &JobProgress| match job.phase {
        Phase::Done => 1.0,
        _ if job.done.is_finite() => job.done.clamp(0.0, 1.0),
        _ => 0.0,
    };
    now.jobs.iter().map(of).sum::<f64>() / now.jobs.len() as f64
}

fn bar(done: f64) -> String {
    let full = ((done * BAR as f64) as usize).min(BAR);
    format!("{}{}", "=".repeat(full), " ".repeat(BAR - full))
}

/// Time to the end of the last wave, in nanoseconds; `None` where the end of a job is unknown.
fn time_left(now: &Progress, plan: &Plan) -> Option<u64> {
    let mut waves: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    for (job, progress) in plan.jobs.iter().zip(&now.jobs) {
        let left = job_left(job, progress, now.elapsed_ns)?;
        let longest = waves.entry(job.wave).or_default();
        *longest = (*longest).max(left);
    }
    Some(waves.values().fold(0, |sum: u64, left| sum.saturating_add(*left)))
}

fn job_left(job: &JobPlan, progress: &JobProgress, elapsed_ns: u64) -> Option<u64> {
    let left = 1.0 - progress.done.clamp(0.0, 1.0);
    match (progress.phase, job.until.runtime_ns) {
        (Phase::Done | Phase::Finishing, _) => Some(0),
        (Phase::Waiting, Some(runtime)) => {
            Some(job.start_delay_ns.saturating_add(job.until.ramp_ns).saturating_add(runtime))
        }
        (Phase::Ramp, Some(runtime)) => Some(job.until.ramp_ns.saturating_add(runtime)),
        (Phase::Running, Some(runtime)) => Some((runtime as f64 * left) as u64),
        // As fast as until now.
        (Phase::Running, None) if progress.done > 0.01 => {
            Some((elapsed_ns as f64 * left / progress.done) as u64)
        }
        _ => None,
    }
}

/// A time of at least a second as `1h02m`, `2m05s`, `9s`.
fn seconds(ns: u64) -> String {
    let s = ns.div_ceil(1_000_000_000);
    match s {
        3600.. => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        60.. => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{s}s"),
    }
}

fn failed(now: &Progress) -> u64 {
    let dirs = now.jobs.iter().flat_map(|job| job.dirs.iter());
    dirs.map(|(_, counts)| counts.errors + counts.short_ios).sum()
}

/// Rates and latency since `before`, and the depth now; or what all wait for.
fn activity(now: &Progress, before: &Progress) -> Vec<(u8, String)> {
    let is = |phase: Phase| now.jobs.iter().any(|job| job.phase == phase);
    if !is(Phase::Running) {
        let word = match () {
            () if is(Phase::Ramp) => "ramping up",
            () if is(Phase::Verifying) => "verifying",
            () if is(Phase::Finishing) => "finishing",
            () if is(Phase::Waiting) => "waiting",
            () => "done",
        };
        return vec![(2, word.to_string())];
    }
    let elapsed_ns = now.elapsed_ns.saturating_sub(before.elapsed_ns);
    let mut parts = Vec::new();
    for dir in Dir::ALL {
        let (ios, bytes) = moved(now, before, dir);
        if ios == 0 && now.jobs.iter().all(|job| job.dirs[dir] == Counts::default()) {
            continue;
        }
        let per_second = |n: u64| match elapsed_ns {
            0 => 0.0,
            ns => n as f64 * 1e9 / ns as f64,
        };
        parts.push((2, format!("{dir} {} IOPS", units::count(per_second(ios)))));
        parts.push((4, units::bandwidth(per_second(bytes))));
    }
    if let Some(p99) = recent(now, before).percentile(99.0) {
        parts.push((3, format!("p99 {}", units::time(p99 as f64))));
    }
    let in_flight: u64 = now.jobs.iter().map(|job| u64::from(job.in_flight)).sum();
    parts.push((5, format!("{in_flight} in flight")));
    parts
}

fn moved(now: &Progress, before: &Progress, dir: Dir) -> (u64, u64) {
    let total = |progress: &Progress| {
        let counts = progress.jobs.iter().map(|job| job.dirs[dir]);
        counts.fold((0u64, 0u64), |sum, c| (sum.0 + c.ios, sum.1 + c.bytes))
    };
    let (now, before) = (total(now), total(before));
    (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
}

fn recent(now: &Progress, before: &Progress) -> Histogram {
    let mut all = Histogram::default();
    let none = JobProgress::default();
    for (index, job) in now.jobs.iter().enumerate() {
        let earlier = before.jobs.get(index).unwrap_or(&none);
        for dir in Dir::ALL {
            all.merge(&job.clat[dir].since(&earlier.clat[dir]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Distribution, Engine, Mix, Order, Until};

    const SECOND: u64 = 1_000_000_000;

    fn plan() -> Plan {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("a", Engine::Null, Mix::Only(Dir::Read), order);
        job.until = Until { runtime_ns: Some(10 * SECOND), ..Until::default() };
        let next = JobPlan { wave: 1, ..job.clone() };
        Plan { jobs: vec![job, next], ..Plan::default() }
    }

    fn at(ios: u64, second: u64) -> Progress {
        let mut running = JobProgress { phase: Phase::Running, ..JobProgress::default() };
        running.done = second as f64 / 10.0;
        running.in_flight = 32;
        running.dirs.read = Counts { ios, bytes: ios * 4096, ..Counts::default() };
        running.clat.read.record_n(80_000, ios);
        let jobs = vec![running, JobProgress::default()];
        Progress { elapsed_ns: second * SECOND, jobs }
    }

    #[test]
    fn full_line() {
        let text = line(&at(300_000, 5), &at(100_000, 4), &plan(), None);
        assert_eq!(
            text,
            "[====            ]   25%  15s left  read 200k IOPS  781 MiB/s  p99 80 µs  32 in flight"
        );
    }

    #[test]
    fn the_least_important_parts_are_dropped_first() {
        let (mut now, before) = (at(300_000, 5), at(100_000, 4));
        now.jobs[0].dirs.read.errors = 7;
        let of = |width: u16| line(&now, &before, &plan(), Some(width));
        assert_eq!(of(60), " 25%  15s left  7 ERRORS  read 200k IOPS  p99 80 µs");
        assert_eq!(of(20), " 25%  7 ERRORS");
        assert_eq!(of(3), " 25");
        assert_eq!(of(0), "");
        for width in 0..200 {
            assert!(of(width).chars().count() <= usize::from(width));
        }
    }

    #[test]
    fn phases_are_named() {
        let mut now = at(0, 0);
        now.jobs[0].phase = Phase::Ramp;
        assert!(line(&now, &Progress::default(), &plan(), None).ends_with("20s left  ramping up"));
        now.jobs.iter_mut().for_each(|job| job.phase = Phase::Done);
        assert!(line(&now, &now, &plan(), None).ends_with("100%  0s left  done"));
        assert!(
            line(&Progress::default(), &Progress::default(), &Plan::default(), None).contains("0%")
        );
    }

    #[test]
    fn an_unknown_end_is_not_printed() {
        let mut plan = plan();
        plan.jobs[1].until.runtime_ns = None;
        assert!(!line(&at(10, 1), &at(0, 0), &plan, None).contains("left"));
        plan.jobs.pop();
        plan.jobs[0].until.runtime_ns = None;
        let mut now = at(10, 5);
        now.jobs.pop();
        assert!(line(&now, &at(0, 0), &plan, None).contains("5s left"));
        assert_eq!(
            (seconds(65 * SECOND), seconds(3720 * SECOND)),
            ("1m05s".into(), "1h02m".into())
        );
    }
}
