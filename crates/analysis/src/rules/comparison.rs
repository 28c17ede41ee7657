//! What a comparison of stored results shows, and what makes them incomparable. A warning blocks every claim.

use super::effects::change;
#[cfg(test)]
use super::testing::Case;
use super::{Check, Claim, Rule};
use crate::compare::{
    ComparedFigure, ComparedKind, ComparedRun, ComparedSide, Comparison, FigureVerdict,
    RunConditions, SET_MIN,
};
use fathom_model::finding::{Class, Confidence, Evidence, Severity, Unit};
use fathom_model::{list, units};

/// Other programs that kept so many CPUs busy, and this share of all, disturb a run.
const OTHER_CPUS: f64 = 0.5;
const OTHER_CPUS_SHARE: f64 = 0.05;
/// Sides of which other programs used so many CPUs more, and this share of all, are not comparable.
const CPUS_DIFFER: f64 = 0.25;
const CPUS_DIFFER_SHARE: f64 = 0.01;
/// Other programs that moved this part of the disks' bytes disturb a run.
const OTHER_BYTES: f64 = 0.10;
/// Sides of which they moved a part that is larger by so much are not comparable.
const BYTES_DIFFER: f64 = 0.05;
/// CPU time withheld by the hypervisor that disturbs a run, as a share.
const STEAL: f64 = 0.05;
/// Sides that were throttled for so many CPUs' time more, or had so much more CPU time withheld, are not comparable.
const THROTTLED_DIFFER: f64 = 0.05;
const STEAL_DIFFER: f64 = 0.02;
/// Sides of which the disks served a part of the bytes read that is larger by so much are not comparable.
const CACHED_DIFFER: f64 = 0.10;
/// Figures that say how fast something is, and those of them that latency can be traded for.
const SPEED: [&str; 10] = [
    "runtime_ms",
    "iops",
    "bandwidth_bytes_per_s",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "disk_bytes_per_s",
    "reads_per_s",
    "writes_per_s",
];
const RATES: [&str; 2] = ["iops", "bandwidth_bytes_per_s"];
/// Change of a rate, also if it is not shown, beyond which a change of latency the other way says nothing.
const TRADED: f64 = 0.03;
/// Runs of one side in a row, in time, of sides that alternate.
const STREAK_MAX: usize = 2;
/// Figures named in the answer.
const NAMED: usize = 3;
const STAT: &str = "/proc/PID/stat";
const REPEAT: &str = "Repeat each at least three times, better five: `fathom run --repeat 5 --tag NAME`, then `fathom compare \
                      NAME NAME`";

fn runs(comparison: &Comparison) -> impl Iterator<Item = &ComparedRun> {
    comparison.before.runs.iter().chain(&comparison.after.runs)
}

/// The mean over the runs of a side that know it.
fn mean(side: &ComparedSide, of: fn(&RunConditions) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = side.runs.iter().filter_map(|run| of(&run.conditions)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The means of both sides, if they differ by more than `least`.
fn differ(
    comparison: &Comparison,
    of: fn(&RunConditions) -> Option<f64>,
    least: f64,
) -> Option<[f64; 2]> {
    let means = [mean(&comparison.before, of)?, mean(&comparison.after, of)?];
    ((means[0] - means[1]).abs() > least).then_some(means)
}

/// The run with the highest value of at least `least`.
fn highest(
    comparison: &Comparison,
    of: fn(&RunConditions) -> Option<f64>,
    least: f64,
) -> Option<(&ComparedRun, f64)> {
    let known = runs(comparison).filter_map(|run| Some((run, of(&run.conditions)?)));
    known.filter(|(_, value)| *value >= least).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Evidence of a value that differs.
fn both(name: &str, [before, after]: [f64; 2], unit: Unit, source: &str) -> [Evidence; 2] {
    let of = |side: &str, value| {
        Evidence::number(format!("{name} {side}"), value, unit).with_source(source)
    };
    [of("before", before), of("after", after)]
}

/// A threshold.
fn whole_percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn percent(share: f64) -> String {
    units::percent(share * 100.0)
}

pub(super) static INCOMPLETE: Rule = Rule {
    id: "incomplete-run",
    meaning: "A compared run was interrupted, failed in part, or is still running: its figures are not those of the whole plan.",
    threshold: || "Any compared run did not finish, or has errors.".into(),
    remedy: "Repeat it",
    checks: &[Check::Comparison(incomplete)],
    #[cfg(test)]
    cases: &[Case::Comparison {
        holds: |c| c.after.runs[0].incomplete = Some("interrupted by SIGINT".into()),
        near_miss: |c| c.after.runs[0].name = "incomplete".into(),
    }],
    ..Rule::DEFAULT
};

fn incomplete(comparison: &Comparison) -> Option<Claim> {
    let reason = |run: &ComparedRun| Some((run.name.clone(), run.incomplete.clone()?));
    let all: Vec<(String, String)> = runs(comparison).filter_map(reason).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let verb = if all.len() == 1 { "is" } else { "are" };
    let summary = format!("{} {verb} incomplete.", list::few(&names, NAMED));
    let evidence = all.iter().map(|(name, why)| Evidence::text(name.clone(), why.clone()));
    (!all.is_empty()).then(|| Claim::new(summary, evidence.take(NAMED).collect()))
}

pub(super) static OTHER_LOAD: Rule = Rule {
    id: "other-load",
    meaning: "Other programs used CPUs or disks during a compared run, or more of them on one side than on the other.",
    threshold: || {
        format!(
            "Other programs kept {OTHER_CPUS} CPUs and {} of all busy, or moved {} of the disks' bytes; or the sides differ by \
             {CPUS_DIFFER} CPUs and {} of all, or by {} of the bytes.",
            whole_percent(OTHER_CPUS_SHARE),
            whole_percent(OTHER_BYTES),
            whole_percent(CPUS_DIFFER_SHARE),
            whole_percent(BYTES_DIFFER)
        )
    },
    remedy: "Repeat the runs while the machine is idle",
    checks: &[Check::Comparison(other_load)],
    #[cfg(test)]
    cases: &[
        Case::Comparison {
            holds: |c| both_sides(c, |of| of.other_cpus = Some(0.5)),
            near_miss: |c| both_sides(c, |of| of.other_cpus = Some(0.49)),
        },
        Case::Comparison {
            holds: |c| c.after.runs[0].conditions.other_cpus = Some(0.28),
            near_miss: |c| c.after.runs[0].conditions.other_cpus = Some(0.26),
        },
        Case::Comparison {
            holds: |c| c.before.runs[0].conditions.other_disk_share = Some(0.06),
            near_miss: |c| both_sides(c, |of| of.other_disk_share = Some(0.09)),
        },
    ],
    ..Rule::DEFAULT
};

#[cfg(test)]
fn both_sides(comparison: &mut Comparison, change: fn(&mut RunConditions)) {
    for side in [&mut comparison.before, &mut comparison.after] {
        side.runs.iter_mut().for_each(|run| change(&mut run.conditions));
    }
}

fn other_load(comparison: &Comparison) -> Option<Claim> {
    let cpus = f64::from(runs(comparison).map(|run| run.conditions.cpus).max().unwrap_or(0));
    let (mut texts, mut evidence) = (Vec::new(), Vec::new());
    let least = OTHER_CPUS.max(OTHER_CPUS_SHARE * cpus);
    let differs = CPUS_DIFFER.max(CPUS_DIFFER_SHARE * cpus);
    if let Some((run, used)) = highest(comparison, |of| of.other_cpus, least) {
        let who = run.conditions.other_program.as_ref();
        let who = who.map_or_else(String::new, |who| format!(", {who} most of them"));
        texts.push(format!("other programs used {used:.2} CPUs during {}{who}", run.name));
        let name = format!("CPUs of other programs, {}", run.name);
        evidence.push(Evidence::number(name, used, Unit::Count).with_source(STAT));
    } else if let Some(used) = differ(comparison, |of| of.other_cpus, differs) {
        texts.push(format!("other programs used {:.2} CPUs before, {:.2} after", used[0], used[1]));
        evidence.extend(both("CPUs of other programs", used, Unit::Count, STAT));
    } else if let Some(used) = differ(comparison, |of| of.unaccounted_cpus, differs) {
        texts.push(format!(
            "{:.2} CPUs were busy besides the load before, {:.2} after",
            used[0], used[1]
        ));
        evidence.extend(both("CPUs busy besides the load", used, Unit::Count, "/proc/stat"));
    }
    let source = "/proc/PID/io, /proc/diskstats";
    if let Some((run, part)) = highest(comparison, |of| of.other_disk_share, OTHER_BYTES) {
        texts.push(format!(
            "other programs moved {} of the disks' bytes during {}",
            percent(part),
            run.name
        ));
        let name = format!("part of the disks' bytes, {}", run.name);
        evidence.push(Evidence::number(name, part, Unit::Share).with_source(source));
    } else if let Some(parts) = differ(comparison, |of| of.other_disk_share, BYTES_DIFFER) {
        let [before, after] = parts.map(percent);
        texts.push(format!(
            "other programs moved {before} of the disks' bytes before, {after} after"
        ));
        evidence.extend(both("part of the disks' bytes", parts, Unit::Share, source));
    }
    statement(&texts, evidence)
}

fn statement(texts: &[String], evidence: Vec<Evidence>) -> Option<Claim> {
    let text = texts.join("; ");
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    Some(Claim::new(format!("{}{rest}.", first.to_uppercase()), evidence))
}

pub(super) static THROTTLED: Rule = Rule {
    id: "throttled-run",
    meaning: "CPUs or a drive were slowed down from outside during a compared run, or on one side more than on the other.",
    threshold: || {
        format!(
            "The hypervisor withheld {} of the CPU time, or the sides differ by {}; the CPU quota of the cgroup withheld \
             {THROTTLED_DIFFER} CPUs more on one side; or a drive was at its warning temperature when a run began.",
            whole_percent(STEAL),
            whole_percent(STEAL_DIFFER)
        )
    },
    remedy: "Remove the limit or wait until the drive has cooled down, and repeat the runs",
    checks: &[Check::Comparison(throttled)],
    #[cfg(test)]
    cases: &[
        Case::Comparison {
            holds: |c| both_sides(c, |of| of.steal = Some(0.05)),
            near_miss: |c| both_sides(c, |of| of.steal = Some(0.04)),
        },
        Case::Comparison {
            holds: |c| c.after.runs[0].conditions.throttled_cpus = Some(0.06),
            near_miss: |c| both_sides(c, |of| of.throttled_cpus = Some(0.06)),
        },
        Case::Comparison {
            holds: |c| c.after.runs[0].conditions.hot_drives = vec![("nvme0n1".into(), 82)],
            near_miss: |c| c.after.runs[0].conditions.steal = Some(0.019),
        },
    ],
    ..Rule::DEFAULT
};

fn throttled(comparison: &Comparison) -> Option<Claim> {
    let (mut texts, mut evidence) = (Vec::new(), Vec::new());
    if let Some((run, steal)) = highest(comparison, |of| of.steal, STEAL) {
        texts.push(format!(
            "the hypervisor withheld {} of the CPU time during {}",
            percent(steal),
            run.name
        ));
        let name = format!("steal, {}", run.name);
        evidence.push(Evidence::number(name, steal, Unit::Share).with_source("/proc/stat"));
    } else if let Some(steal) = differ(comparison, |of| of.steal, STEAL_DIFFER) {
        let [before, after] = steal.map(percent);
        texts.push(format!(
            "the hypervisor withheld {before} of the CPU time before, {after} after"
        ));
        evidence.extend(both("steal", steal, Unit::Share, "/proc/stat"));
    }
    if let Some(cpus) = differ(comparison, |of| of.throttled_cpus, THROTTLED_DIFFER) {
        texts.push(format!(
            "the CPU quota of the cgroup withheld {:.2} CPUs before, {:.2} after",
            cpus[0], cpus[1]
        ));
        evidence.extend(both("CPUs withheld by the quota", cpus, Unit::Count, "cpu.stat"));
    }
    let hot = runs(comparison).flat_map(|run| {
        run.conditions
            .hot_drives
            .iter()
            .map(|(drive, celsius)| (run.name.as_str(), drive, *celsius))
    });
    for (run, drive, celsius) in hot.take(NAMED) {
        texts.push(format!(
            "{drive} was at {celsius} °C when {run} began, its warning temperature or more"
        ));
        evidence.push(Evidence::text(
            format!("temperature of {drive}, {run}"),
            format!("{celsius} °C"),
        ));
    }
    statement(&texts, evidence)
}

pub(super) static CACHE_STATE: Rule = Rule {
    id: "cache-state",
    meaning: "A cache served more of the reads on one side than on the other: one was warm, the other cold.",
    threshold: || {
        format!(
            "The parts of the bytes read that came from disks differ by {}.",
            whole_percent(CACHED_DIFFER)
        )
    },
    remedy: "Use direct=1, or begin each run with the same state of the cache (invalidate=1, or drop_caches)",
    checks: &[Check::Comparison(cache_state)],
    #[cfg(test)]
    cases: &[Case::Comparison {
        holds: |c| c.after.runs[0].conditions.read_from_disk = Some(0.89),
        near_miss: |c| c.after.runs[0].conditions.read_from_disk = Some(0.91),
    }],
    ..Rule::DEFAULT
};

fn cache_state(comparison: &Comparison) -> Option<Claim> {
    let parts = differ(comparison, |of| of.read_from_disk, CACHED_DIFFER)?;
    let [before, after] = parts.map(percent);
    let text = format!("of the bytes read, {before} came from disks before, {after} after");
    let evidence = both("from disks", parts, Unit::Share, "/proc/diskstats");
    statement(&[text], evidence.into())
}

pub(super) static CONDITIONS_UNKNOWN: Rule = Rule {
    id: "conditions-unknown",
    meaning: "Nothing is known of other programs during a compared run: it was not sampled, or is fio's JSON.",
    threshold: || {
        format!(
            "A compared run has no samples of processes, and is not an experiment. Only a note, which blocks no claim, if the \
             runs of both sides alternate: {SET_MIN} or more on each, and no more than {STREAK_MAX} of one side in a row."
        )
    },
    remedy: "Record the runs with `fathom run`, with sampling; or alternate the runs of both sides, before, after, before, after, \
             at least three of each",
    checks: &[Check::Comparison(conditions_unknown)],
    #[cfg(test)]
    cases: &[Case::Comparison {
        holds: |c| c.after.runs[0].conditions.other_cpus = None,
        near_miss: |c| {
            let conditions = &mut c.after.runs[0].conditions;
            (conditions.other_cpus, conditions.unaccounted_cpus) = (None, Some(0.02));
        },
    }],
    ..Rule::DEFAULT
};

fn conditions_unknown(comparison: &Comparison) -> Option<Claim> {
    let is_unknown = |run: &&ComparedRun| {
        let of = &run.conditions;
        of.other_cpus.or(of.unaccounted_cpus).is_none() && !of.whole_machine
    };
    let names: Vec<&str> =
        runs(comparison).filter(is_unknown).map(|run| run.name.as_str()).collect();
    let remedy = match comparison.kind {
        ComparedKind::Watch => "Record the programs with sampling",
        _ => CONDITIONS_UNKNOWN.remedy,
    };
    let alternate = alternate(comparison);
    let (severity, remedy) =
        if alternate { (Severity::Info, "") } else { (Severity::Warning, remedy) };
    let summary = format!(
        "Whether other programs ran during {} is not known; differences include their effect.",
        list::few(&names, NAMED)
    );
    let evidence =
        Evidence::number("runs without samples of processes", names.len() as f64, Unit::Count);
    let claim = || Claim::new(summary, vec![evidence]).severity(severity).remedy(remedy);
    (!names.is_empty()).then(claim)
}

/// Whether what else the machine did affected both sides alike, as their runs alternate: the variation between runs has its
/// effect.
fn alternate(comparison: &Comparison) -> bool {
    let sides = [&comparison.before, &comparison.after];
    let mut all: Vec<(u64, usize)> = Vec::new();
    for (side, of) in sides.into_iter().enumerate() {
        all.extend(of.runs.iter().map(|run| (run.started_unix_ns, side)));
    }
    all.sort_unstable();
    let is_known = all.iter().all(|(started, _)| *started > 0);
    let is_one = |streak: &[(u64, usize)]| streak.iter().all(|(_, side)| *side == streak[0].1);
    is_known
        && sides.iter().all(|side| side.runs.len() >= SET_MIN)
        && !all.windows(STREAK_MAX + 1).any(is_one)
}

pub(super) static DIFFERENCE: Rule = Rule {
    id: "difference",
    class: Class::Advice,
    severity: Severity::Info,
    meaning: "How results differ from others: the answer of a comparison.",
    threshold: || {
        format!(
            "A change is claimed if its interval excludes \"no difference\" and no warning makes the runs incomparable. Intervals \
             need {SET_MIN} runs on each side, or {SET_MIN} runs of the same plan on the same machine, earlier or on one side; \
             all of a comparison hold at once with 95% confidence."
        )
    },
    checks: &[Check::Comparison(difference)],
    #[cfg(test)]
    cases: &[Case::Comparison {
        holds: |c| c.parts = vec![slower(FigureVerdict::Changed)],
        near_miss: |c| c.parts = vec![crate::compare::ComparedPart::default()],
    }],
    ..Rule::DEFAULT
};

#[cfg(test)]
fn slower(verdict: FigureVerdict) -> crate::compare::ComparedPart {
    let figure = ComparedFigure {
        id: "iops".into(),
        title: "IOPS".into(),
        ratio: Some(0.9),
        interval: Some((0.88, 0.92)),
        verdict,
        ..ComparedFigure::default()
    };
    crate::compare::ComparedPart { name: "a".into(), figures: vec![figure] }
}

fn difference(comparison: &Comparison) -> Option<Claim> {
    let all: Vec<(String, &ComparedFigure)> =
        comparison.figures().filter(|(_, figure)| figure.ratio.is_some()).collect();
    let (_, first) = all.first()?;
    let changed: Vec<&(String, &ComparedFigure)> =
        all.iter().filter(|(_, figure)| figure.verdict == FigureVerdict::Changed).collect();
    let evidence = |shown: &[&(String, &ComparedFigure)]| -> Vec<Evidence> {
        let of = |(name, figure): &&(String, &ComparedFigure)| {
            let ratio = figure.ratio.unwrap_or(1.0);
            let evidence = Evidence::number(format!("{name}, ratio"), ratio, Unit::Ratio);
            match figure.interval {
                Some((low, high)) => evidence.with_interval(low, high),
                None => evidence,
            }
        };
        shown.iter().take(NAMED).map(of).collect()
    };
    if !changed.is_empty() {
        let better = |wanted| changed.iter().any(|(_, figure)| figure.is_better() == Some(wanted));
        // Less CPU time per I/O, or fewer I/Os in flight, make nothing faster.
        let is_speed = changed.iter().any(|(_, figure)| SPEED.contains(&figure.id.as_str()));
        // Nor does latency that a lower rate may have bought.
        let is_traded = all.iter().any(|(_, figure)| {
            let rate = figure.ratio.filter(|_| RATES.contains(&figure.id.as_str()));
            let rate = rate.unwrap_or(1.0);
            better(true) && rate < 1.0 - TRADED || better(false) && rate > 1.0 + TRADED
        });
        let word = match (better(true), better(false), is_speed) {
            (true, true, _) => "Different",
            (.., true) if is_traded => "Different",
            (true, false, true) => "Faster",
            (false, true, true) => "Slower",
            (true, false, false) => "Better",
            (false, true, false) => "Worse",
            _ => "Different",
        };
        let shown: Vec<String> = changed.iter().take(NAMED).map(|one| phrase(one)).collect();
        let more = match changed.len() - shown.len() {
            0 => String::new(),
            more => format!(", and {more} more figures"),
        };
        let claim = Claim::new(format!("{word}: {}{more}.", shown.join(", ")), evidence(&changed));
        return Some(claim.confidence(Confidence::High));
    }
    let main = phrase(&all[0]);
    let warning = comparison.findings.iter().find(|found| found.severity >= Severity::Warning);
    let why = warning.map(|warning| warning.summary.trim_end_matches('.'));
    let text = match (why, first.interval) {
        (Some(why), Some(_)) => {
            format!("No difference is claimed ({main}), as the runs are not comparable: {why}.")
        }
        (Some(why), None) => format!(
            "No difference is claimed ({main}): how much runs differ by themselves is not known, and the runs are not comparable: \
             {why}."
        ),
        (None, None) => format!(
            "No difference is claimed ({main}): how much runs differ by themselves is not known."
        ),
        (None, Some(_)) => format!("No difference is shown: {main}."),
    };
    let remedy = if first.interval.is_none() { REPEAT } else { "" };
    Some(Claim::new(text, evidence(&[&all[0]])).remedy(remedy))
}

/// `IOPS −5.1% (95% CI −6.3 to −3.9)`
fn phrase((name, figure): &(String, &ComparedFigure)) -> String {
    match (figure.interval(), figure.ratio) {
        (Some(ratio), _) => format!("{name} {}", change(&ratio, 95)),
        (None, Some(ratio)) => format!("{name} {}", units::change((ratio - 1.0) * 100.0)),
        (None, None) => format!("{name} {}", figure.zero()).trim_end().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(comparison: &Comparison) -> String {
        difference(comparison).expect("there are figures").summary
    }

    #[test]
    fn the_answer_is_a_sentence() {
        let with = |verdict| Comparison { parts: vec![slower(verdict)], ..Comparison::default() };
        assert_eq!(
            answer(&with(FigureVerdict::Changed)),
            "Slower: IOPS −10.0% (95% CI −12.0 to −8.0)."
        );
        let shown = "No difference is shown: IOPS −10.0% (95% CI −12.0 to −8.0).";
        assert_eq!(answer(&with(FigureVerdict::NotShown)), shown);
        let figure = |id: &'static str, ratio: f64, verdict| ComparedFigure {
            id: id.into(),
            title: id.into(),
            ratio: Some(ratio),
            verdict,
            ..ComparedFigure::default()
        };
        let of = |figures: Vec<ComparedFigure>| {
            let part = crate::compare::ComparedPart { name: "a".into(), figures };
            answer(&Comparison { parts: vec![part], ..Comparison::default() })
        };
        let (changed, open) = (FigureVerdict::Changed, FigureVerdict::NotShown);
        for (figures, word) in [
            (vec![figure("iops", 0.9, open), figure("cpu_ms_per_io", 1.6, changed)], "Worse: "),
            (vec![figure("iops", 1.0, open), figure("ios_in_flight", 0.9, changed)], "Different: "),
            (vec![figure("iops", 1.0, open), figure("p99_ms", 0.5, changed)], "Faster: "),
            // Fewer I/Os in flight: the latency is that of a lower rate.
            (vec![figure("iops", 0.8, open), figure("p99_ms", 0.5, changed)], "Different: "),
            (vec![figure("iops", 1.1, changed), figure("p99_ms", 1.5, changed)], "Different: "),
        ] {
            assert!(of(figures.clone()).starts_with(word), "{word}: {}", of(figures));
        }
        let mut unknown = with(FigureVerdict::Unknown);
        unknown.parts[0].figures[0].interval = None;
        let text = "No difference is claimed (IOPS −10.0%): how much runs differ by themselves is not known.";
        assert_eq!(answer(&unknown), text);
        let mut busy = with(FigureVerdict::NotComparable);
        busy.after.runs = vec![ComparedRun {
            name: "b".into(),
            incomplete: Some("interrupted by SIGINT".into()),
            ..ComparedRun::default()
        }];
        busy.findings.extend(INCOMPLETE.check(&crate::rules::Input::Comparison(&busy)));
        assert!(answer(&busy).ends_with("as the runs are not comparable: b is incomplete."));
    }
}
