//! Whether rates were sustained, and stable.

use super::effects::Variant;
use super::jobs::{Job, jobs_where, named, sentence};
#[cfg(test)]
use super::testing::{Case, known, peak};
use super::{Check, Claim, Rule, Target};
use crate::derive::{self, Spread, percent};
use fathom_model::experiment::ExperimentRecord;
use fathom_model::finding::{Evidence, Severity, Unit};
use fathom_model::plan::Rate;
use fathom_model::record::RunRecord;
use fathom_model::{Dir, Histogram, units};

/// Late or missing I/Os above this share mean that the rate was not sustained.
const LATE_SHARE: f64 = 0.01;
/// Late I/Os up to this number are occasional late wake-ups.
const LATE_FEW: f64 = 10.0;
/// Coefficient of variation of IOPS between intervals above which a run is not stable.
const VARIATION_MAX: f64 = 0.15;
/// Fewer intervals than this do not show variation.
const INTERVALS_MIN: u64 = 5;
/// Relative half-width of the confidence interval above which a peak is not stable.
const PEAK_HALF_WIDTH_MAX: f64 = 0.05;

pub(super) static COULD_NOT_KEEP_UP: Rule = Rule {
    id: "could-not-keep-up",
    meaning: "A job could not sustain its requested rate: I/Os started late or not at all.",
    threshold: || {
        let percent = LATE_SHARE * 100.0;
        format!(
            "The I/Os that started over 1 ms late or never exceed {percent:.0}% of those due, or two per job if that \
             is fewer; info unless those never started exceed both, or those late or never started exceed \
             {percent:.0}% and {LATE_FEW:.0}. try, sweep: a variant never started more than {percent:.0}% of those due; info in a \
             sweep, which looks for that load."
        )
    },
    remedy: "Use the response latency: it counts from the scheduled start, as a client would see it",
    checks: &[Check::Run(could_not_keep_up), Check::Experiment(variants_behind)],
    #[cfg(test)]
    cases: &[
        Case::Run { holds: |r| paced(r, 150_000, 200_000), near_miss: |r| paced(r, 1, 1) },
        Case::Experiment {
            holds: |r| r.report.conditions[1].started_share = Some(0.98),
            near_miss: |r| r.report.conditions[1].started_share = Some(0.995),
        },
    ],
    ..Rule::DEFAULT
};

fn variants_behind(record: &ExperimentRecord) -> Option<Claim> {
    let behind = Variant::all(record).filter_map(|variant| {
        let share = variant.found.started_share.filter(|share| *share < 1.0 - LATE_SHARE)?;
        Some((variant.label(), share))
    });
    let behind: Vec<(String, f64)> = behind.collect();
    let (worst, share) = behind.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let summary = format!(
        "{} of {} variants could not sustain their rate; {worst} started only {} of the I/Os due.",
        behind.len(),
        record.report.conditions.len(),
        percent(*share, 1.0)
    );
    let started = |(label, share): &(String, f64)| {
        Evidence::number(format!("{label}, started"), *share, Unit::Share)
    };
    let claim = Claim::new(summary, behind.iter().take(4).map(started).collect());
    Some(if record.request.is_sweep { claim.severity(Severity::Info) } else { claim })
}

fn could_not_keep_up(record: &RunRecord) -> Option<Claim> {
    let paced = jobs_where(record, |job| job.plan.is_paced());
    let dirs = || paced.iter().flat_map(|job| job.done.dirs.iter().map(|(_, dir)| dir));
    let late: u64 = dirs().map(|dir| dir.late_ios).sum();
    let unstarted: u64 = dirs().map(|dir| dir.unstarted_ios).sum();
    let done: u64 = dirs().map(|dir| dir.counts.ios).sum();
    let due = (done + unstarted) as f64;
    let (behind_ios, share) = ((late + unstarted) as f64, due * LATE_SHARE);
    // One last I/O may be due just when the time is up.
    let last = 2.0 * paced.len() as f64;
    if behind_ios <= share.min(last) {
        return None;
    }
    let behind = jobs_where(record, |job| {
        job.plan.is_paced() && job.done.dirs.iter().any(|(_, d)| d.late_ios + d.unstarted_ios > 0)
    });
    let much = unstarted as f64 > share.max(last) || behind_ios > share.max(LATE_FEW);
    let severity = if much { Severity::Warning } else { Severity::Info };
    let traced = behind.iter().all(|job| job.plan.replay.is_some());
    let verb = match (much, traced, behind.len()) {
        (true, true, 1) => "could not keep to the times of its trace",
        (true, true, _) => "could not keep to the times of their traces",
        (true, false, 1) => "could not sustain its rate",
        (true, false, _) => "could not sustain their rates",
        (false, _, 1) => "was late occasionally",
        (false, ..) => "were late occasionally",
    };
    let summary = format!(
        "{} {verb}: of {} I/Os due, {} started late and {} never started.",
        sentence(&named(&behind)),
        units::count(due),
        units::count(late as f64),
        units::count(unstarted as f64),
    );
    let evidence = behind.iter().flat_map(pace_evidence).take(12).collect();
    Some(Claim::new(summary, evidence).severity(severity))
}

/// Requested and achieved rates, service and response latencies of a job.
fn pace_evidence(job: &Job) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    for dir in job.plan.used_dirs() {
        let (done, ns) = (&job.done.dirs[dir], job.done.runtime_ns);
        let (requested, achieved, unit) = match job.plan.rate[dir] {
            Some(Rate::Iops(n)) => (n, derive::per_second(done.counts.ios, ns), Unit::Iops),
            Some(Rate::BytesPerSecond(n)) => {
                (n, derive::per_second(done.counts.bytes, ns), Unit::BytesPerSecond)
            }
            None => continue,
        };
        let name = |what: &str| named_figure(job, dir, what);
        let rate = if unit == Unit::Iops { "IOPS" } else { "bandwidth" };
        evidence.push(Evidence::number(name(&format!("requested {rate}")), requested as f64, unit));
        evidence.push(Evidence::number(name(&format!("achieved {rate}")), achieved, unit));
        evidence.push(p99(name("p99 total latency"), &done.lat));
        evidence.push(p99(name("p99 response latency"), &done.response));
    }
    evidence
}

fn named_figure(job: &Job, dir: Dir, what: &str) -> String {
    format!("{} {dir} {what}", job.plan.name)
}

fn p99(name: String, latencies: &Histogram) -> Evidence {
    let ns = latencies.percentile(99.0).map_or(f64::NAN, |ns| ns as f64);
    Evidence::number(name, ns, Unit::Nanoseconds)
}

pub(super) static NOISY: Rule = Rule {
    id: "noisy",
    meaning: "IOPS vary too much for small differences between measurements to be meaningful.",
    threshold: || {
        format!(
            "run: IOPS of {INTERVALS_MIN} or more intervals have a standard deviation above {:.0}% of their mean, \
             unless the job is rate-limited or has think time. limit: the 95% confidence interval of a peak is \
             wider than ±{:.0}%.",
            VARIATION_MAX * 100.0,
            PEAK_HALF_WIDTH_MAX * 100.0
        )
    },
    remedy: "Rerun on an idle machine or for longer; ramp_time excludes the start",
    checks: &[Check::Run(noisy), Check::Target(noisy_peak)],
    #[cfg(test)]
    cases: &[
        Case::Run { holds: |r| alternating(r, 10), near_miss: |r| alternating(r, 4) },
        Case::Limit {
            holds: |r| peak(r).iops = known(1e5, 0.06),
            near_miss: |r| peak(r).iops = known(1e5, 0.04),
        },
    ],
    ..Rule::DEFAULT
};

fn noisy(record: &RunRecord) -> Option<Claim> {
    let mut worst: Option<(Job, Spread)> = None;
    for job in jobs_where(record, |job| !job.plan.is_held_back() && job.plan.think.is_none()) {
        let parts: Vec<_> = job.done.dirs.iter().map(|(_, dir)| (0, dir)).collect();
        let rates = derive::interval_rates(&derive::merge_dirs(&parts));
        let spread = Spread::of(&rates.iter().map(|rate| rate.iops).collect::<Vec<_>>());
        let noisier = worst.is_none_or(|(_, known)| spread.variation() > known.variation());
        if spread.samples >= INTERVALS_MIN && spread.variation() > VARIATION_MAX && noisier {
            worst = Some((job, spread));
        }
    }
    let (job, spread) = worst?;
    let summary = format!(
        "IOPS of {} are not stable: their standard deviation between intervals is {} of the mean.",
        named(&[job]),
        percent(spread.stddev, spread.mean),
    );
    let name = format!("mean IOPS and range over {} intervals", spread.samples);
    let range =
        Evidence::number(name, spread.mean, Unit::Iops).with_interval(spread.min, spread.max);
    Some(Claim::new(summary, vec![range]))
}

fn noisy_peak(target: &Target) -> Option<Claim> {
    let wide = |relative: f64| relative > PEAK_HALF_WIDTH_MAX;
    let peaks: Vec<_> = target
        .peaks()
        .filter_map(|(block, peak)| Some((block, peak, peak.iops.relative().filter(|r| wide(*r))?)))
        .collect();
    let (block, _, widest) = *peaks.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let evidence = peaks.iter().map(|(block, peak, _)| {
        let name = format!("{} peak IOPS (95% CI)", block.name());
        let (low, high) = (peak.iops.low.unwrap_or(f64::NAN), peak.iops.high.unwrap_or(f64::NAN));
        Evidence::number(name, peak.iops.mean, Unit::Iops).with_interval(low.max(0.0), high)
    });
    let known = match widest {
        widest if widest < 1.0 => format!("known only to within ±{}", percent(widest, 1.0)),
        _ => "unknown: its interval is wider than the figure".into(),
    };
    let summary = format!("The {} peak of {} is {known}.", block.name(), target.limit.name);
    let remedy = "Rerun on an idle machine or with a longer --duration";
    Some(Claim::new(summary, evidence.collect()).remedy(remedy))
}

#[cfg(test)]
fn paced(record: &mut RunRecord, late: u64, unstarted: u64) {
    // As a plain rate_iops is understood: for each direction, used or not.
    record.plan.jobs[0].rate = fathom_model::PerDir::splat(Some(Rate::Iops(120_000)));
    let read = &mut record.jobs[0].dirs.read;
    (read.late_ios, read.unstarted_ios) = (late, unstarted);
    read.lat.record(1_000_000);
    read.response.record(2_000_000_000);
}

/// `n` intervals of a second with alternately 100 and 50 IOPS.
#[cfg(test)]
fn alternating(record: &mut RunRecord, n: u64) {
    let rate = |i: u64| if i.is_multiple_of(2) { 100 } else { 50 };
    let total = |i: u64| (1..=i).map(rate).sum::<u64>();
    record.jobs[0].dirs.read.intervals =
        (1..=n).map(|i| (i * 1_000_000_000, total(i), total(i) * 4096)).collect();
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, phrases, silent};
    use super::*;

    #[test]
    fn rates_that_were_not_sustained() {
        let f = fires(&COULD_NOT_KEEP_UP, |r| paced(r, 150_000, 200_000));
        assert_eq!(f.severity, Severity::Warning);
        assert!(
            f.summary.contains("of 1.2M I/Os due, 150k started late and 200k never"),
            "{}",
            f.summary
        );
        assert_eq!(
            phrases(&f),
            [
                "a read requested IOPS: 120k",
                "a read achieved IOPS: 100k",
                "a read p99 total latency: 1 ms",
                "a read p99 response latency: 2 s"
            ]
        );
        assert_eq!(fires(&COULD_NOT_KEEP_UP, |r| paced(r, 500, 0)).severity, Severity::Info);
        let few = |late, unstarted| {
            fires(&COULD_NOT_KEEP_UP, move |r| {
                paced(r, late, unstarted);
                r.jobs[0].dirs.read.counts.ios = 100 - unstarted;
            })
        };
        assert_eq!(few(2, 0).severity, Severity::Info, "the full rate was reached");
        assert!(few(2, 0).summary.contains("was late occasionally"));
        assert_eq!(few(0, 5).severity, Severity::Warning, "5 of 100 never started");
        assert_eq!(few(11, 0).severity, Severity::Warning);
        silent(&COULD_NOT_KEEP_UP, |r| r.jobs[0].dirs.read.late_ios = 10);
    }

    #[test]
    fn noise_is_of_jobs_that_run_freely() {
        let f = fires(&NOISY, |r| alternating(r, 10));
        assert_eq!(phrases(&f), ["mean IOPS and range over 10 intervals: 75 (50–100)"]);
        assert!(f.summary.contains("is 35.1% of the mean"), "{}", f.summary);
        silent(&NOISY, |r| {
            alternating(r, 10);
            r.plan.jobs[0].rate.read = Some(Rate::Iops(100));
        });
    }
}
