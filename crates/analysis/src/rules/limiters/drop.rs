//! Throughput that falls while the load stays the same.

use super::View;
use super::cpu::program;
#[cfg(test)]
use super::testing::Scene;
use crate::derive;
use crate::events::FELL_AFTER;
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Check, Claim, Rule};
use crate::timeline::{IoSum, MachineSum, TimeSpan};
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
use fathom_model::limit::is_large;
use fathom_model::{Dir, PerDir, units};

/// Spans before and after the drop, at least, and how long they are together, in nanoseconds.
const SPANS_MIN: usize = 3;
const SIDE_MIN_NS: u64 = 2_000_000_000;
/// Throughput after the drop that is left of that before, at most.
const LEFT_MAX: f64 = 0.7;
/// The part of the spans before and after that may be on the other side of the middle.
const STRAY_MAX: f64 = 0.1;
/// The part of the I/Os in flight before that must be in flight after: who asks for less gets less.
const ASKED_MIN: f64 = 0.5;
/// How much of the I/Os may change direction, and by how much their size may change.
const MIX_MAX: f64 = 0.2;
const SIZE_MAX: f64 = 2.0;
/// Pages of files scanned per second that are reclaim, and how many times as many as before the drop.
const SCANNED_MIN: f64 = 1000.0;
const TIMES_MIN: f64 = 3.0;
/// The part of the throughput that reached the disk before, at most, and after, at least, where the page cache was full.
const CACHED_BEFORE: f64 = 0.7;
const CACHED_AFTER: f64 = 0.8;
/// What other programs use more than before: the part of the throughput, and CPUs. The same number of CPUs withheld.
const OTHERS_MIN: f64 = 0.3;
const OTHER_CPUS_MIN: f64 = 0.5;
const WITHHELD_MIN: f64 = 0.1;

pub(in crate::rules) static THROUGHPUT_DROP: Rule = Rule {
    id: "throughput-drop",
    limits: "what began during the run",
    meaning: "Throughput fell in the middle of the run and stayed low, although the load was the same. The finding says when, and \
              what began at that time: a full page cache, a limit of the cgroup, other programs, less CPU time; if nothing that was \
              sampled did, writes may have exhausted the drive's write cache.",
    threshold: || {
        format!(
            "The median of the intervals after some moment is at most {:.0}% of that before, with {SPANS_MIN} intervals and \
             {} on either side, of which at most {:.0}% are beyond the middle of both. run: jobs without rate and think \
             time, while all ran. watch: the disk of the program had {:.0}% of the I/Os in flight or more after it, of the same \
             directions and sizes; or what the program requested fell when the page cache was full.",
            LEFT_MAX * 100.0,
            units::time(SIDE_MIN_NS as f64),
            STRAY_MAX * 100.0,
            ASKED_MIN * 100.0
        )
    },
    remedy: "Measure both parts by themselves: a longer ramp_time measures what lasts, a shorter runtime what comes first",
    // Means over a run that fell describe neither part of it.
    supersedes: &[&super::device::DEVICE, &super::threads::ONE_AT_A_TIME, &super::cgroup::IO_LIMIT],
    checks: &[Check::View(throughput_drop)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| {
                s.run_over_time(|second| if second <= 4 { 1000 } else { 250 }, false, |_| ())
            },
            // Too little to matter.
            near_miss: |s| {
                s.run_over_time(|second| if second <= 4 { 1000 } else { 800 }, false, |_| ());
            },
            summary: "After 4 s, throughput fell from 1000 MiB/s to 250 MiB/s and stayed there. Nothing else that was sampled \
                      changed: the write cache of vda may be exhausted.",
        },
        // It recovers.
        Case::NearMiss(|s| {
            s.run_over_time(
                |second| if (4..7).contains(&second) { 250 } else { 1000 },
                false,
                |_| (),
            );
        }),
        // It goes up and down.
        Case::NearMiss(|s| {
            s.run_over_time(|second| if second % 2 == 0 { 250 } else { 1000 }, false, |_| ());
        }),
        Case::View {
            holds: |s| filled(s, 250),
            // The disk wrote as much from the start.
            near_miss: |s| {
                filled(s, 250);
                s.run_over_time(|second| if second <= 5 { 300 } else { 250 }, true, |_| ());
            },
            summary: "After 5 s, throughput fell from 1000 MiB/s to 250 MiB/s and stayed there. Until then, the page cache took \
                      what the disk could not; then it was full (dirty or being written: 2 GiB).",
        },
        Case::View {
            holds: |s| reclaims(s, 500),
            near_miss: |s| reclaims(s, 900),
            summary: "After 5 s, throughput fell from 1000 MiB/s to 500 MiB/s and stayed there. From then on, memory was full: \
                      20k pages/s of the page cache were scanned to make room, and 100 MiB were free.",
        },
        Case::View {
            holds: |s| {
                s.run_over_time(|second| if second <= 4 { 1000 } else { 250 }, false, |_| ());
                s.io_limit_from(5, "/db vda wbps=262144000");
            },
            // The limit held from the start.
            near_miss: |s| {
                s.run_over_time(|_| 250, false, |_| ());
                s.io_limit_from(1, "/db vda wbps=262144000");
            },
            summary: "After 4 s, throughput fell from 1000 MiB/s to 250 MiB/s and stayed there. The cgroup /db allows 250 MiB/s \
                      of writes on vda (io.max), which it reached from then on.",
        },
        Case::View {
            holds: |s| {
                s.run_over_time(|second| if second <= 4 { 1000 } else { 400 }, false, |_| ());
                s.other("dd", 0.1, 600 << 20);
                s.others_begin_at(5);
            },
            // Jobs with a rate get less when they ask for less.
            near_miss: |s| {
                s.run_over_time(|second| if second <= 4 { 1000 } else { 400 }, false, |_| ());
                s.record.plan.jobs[0].rate.write = Some(fathom_model::plan::Rate::Iops(1));
            },
            summary: "After 4 s, throughput fell from 1000 MiB/s to 400 MiB/s and stayed there. At that time, dd (pid 812) began to \
                      use the disks: other programs moved 600 MiB/s.",
        },
        Case::View {
            holds: |s| s.disk_over_time(|second| if second <= 6 { (800, 16) } else { (100, 16) }),
            // It asks for less.
            near_miss: |s| {
                s.disk_over_time(|second| if second <= 6 { (800, 16) } else { (100, 2) })
            },
            summary: "After 6 s, throughput fell from 800 MiB/s to 100 MiB/s and stayed there. Nothing else that was sampled \
                      changed at that time.",
        },
    ],
    ..Rule::LIMITER
};

/// Buffered writes of 1000 MiB/s until the page cache is full, to a disk that takes 250 MiB/s.
#[cfg(test)]
fn filled(scene: &mut Scene, disk_mib: u64) {
    scene.run_over_time(|second| if second <= 5 { 1000 } else { 250 }, true, |_| ());
    scene.writes_over_time(disk_mib);
}

/// Buffered reads that fill memory.
#[cfg(test)]
fn reclaims(scene: &mut Scene, after: u64) {
    let rate: fn(u64) -> u64 = match after {
        500 => |second| if second <= 5 { 1000 } else { 500 },
        _ => |second| if second <= 5 { 1000 } else { 900 },
    };
    scene.run_over_time(rate, true, |at| {
        let system = at.machine.system.as_mut().unwrap();
        system.memory.free = if at.second <= 5 { 8 << 30 } else { 100 << 20 };
        system.paging.scan_file = at.second.saturating_sub(5) * 20_000;
    });
}

/// I/O of a span, in all directions.
struct Moved {
    from_ns: u64,
    to_ns: u64,
    sum: PerDir<IoSum>,
}

impl Moved {
    fn all(&self, of: impl Fn(&IoSum) -> f64) -> f64 {
        self.sum.iter().map(|(_, sum)| of(sum)).sum()
    }

    fn rate(&self) -> f64 {
        self.all(|sum| sum.bytes) * 1e9 / (self.to_ns - self.from_ns) as f64
    }
}

/// Rates before and after a moment, in bytes per second.
struct Step {
    at_ns: u64,
    before: f64,
    after: f64,
    /// The index of the first span after it.
    index: usize,
    /// The part of the time that was lost.
    lost: f64,
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The drop that divides the spans best, if there is one.
fn step(spans: &[Moved]) -> Option<Step> {
    let rates: Vec<f64> = spans.iter().map(Moved::rate).collect();
    let deviation = |rates: &[f64]| {
        let middle = median(rates);
        rates.iter().map(|rate| (rate - middle).abs()).sum::<f64>()
    };
    let places = SPANS_MIN..=spans.len().checked_sub(SPANS_MIN)?;
    let best = places.map(|place| {
        let (before, after) = rates.split_at(place);
        (place, deviation(before) + deviation(after))
    });
    let (index, _) = best.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (before_all, after_all) = rates.split_at(index);
    let (before, after) = (median(before_all), median(after_all));
    let middle = f64::midpoint(before, after);
    let stray = |rates: &[f64], is_wrong: &dyn Fn(f64) -> bool| {
        rates.iter().filter(|rate| is_wrong(**rate)).count() as f64 > rates.len() as f64 * STRAY_MAX
    };
    let (first, at_ns) = (spans.first()?.from_ns, spans[index].from_ns);
    let (left, last) = (spans.last()?.to_ns - at_ns, spans.last()?.to_ns);
    let is_short = at_ns - first < SIDE_MIN_NS || left < SIDE_MIN_NS;
    let is_unclear =
        stray(before_all, &|rate| rate <= middle) || stray(after_all, &|rate| rate > middle);
    if is_short || is_unclear || after > before * LEFT_MAX {
        return None;
    }
    let lost = left as f64 / (last - first) as f64 * (1.0 - after / before);
    Some(Step { at_ns, before, after, index, lost })
}

fn throughput_drop(view: &View) -> Option<Claim> {
    let (spans, step, found) = if view.is_run() {
        let spans = of_jobs(view)?;
        let step = step(&spans)?;
        let found = coincidence(view, &step).unwrap_or_else(|| nothing(view, &spans));
        (spans, step, found)
    } else {
        of_program(view)?
    };
    let mean = |of: fn(&IoSum) -> f64| spans.iter().map(|span| span.all(of)).sum::<f64>();
    let size = mean(|sum| sum.bytes) / mean(|sum| sum.ios).max(1.0);
    let shown = |rate: f64| match is_large(size) || size == 0.0 {
        true => units::bandwidth(rate),
        false => format!("{} IOPS", units::count(rate / size)),
    };
    let (from, to) = (shown(step.before), shown(step.after));
    let after = units::time((step.at_ns as f64 / 1e8).round() * 1e8);
    let summary = format!(
        "After {after}, throughput fell from {from} to {to} and stayed there. {}",
        found.text
    );
    let evidence = [
        Evidence::number("before", step.before, Unit::BytesPerSecond),
        Evidence::number("after", step.after, Unit::BytesPerSecond),
        Evidence::number(FELL_AFTER, step.at_ns as f64, Unit::Nanoseconds),
    ];
    let claim = Claim::new(summary, evidence.into_iter().chain(found.evidence).collect());
    let claim = claim.about(found.subject.unwrap_or_else(|| view.workload()));
    let claim = claim.weight(step.lost).confidence(found.confidence);
    Some(match found.remedy {
        Some(remedy) => claim.remedy(remedy),
        None => claim,
    })
}

/// The spans in which all jobs of a run did their I/O as fast as they could.
fn of_jobs(view: &View) -> Option<Vec<Moved>> {
    let mut from_ns = 0;
    let mut to_ns = u64::MAX;
    let jobs: Vec<_> = derive::jobs(view.record).collect();
    for (plan, job) in &jobs {
        if plan.is_held_back() || plan.think.is_some() || job.runtime_ns == 0 {
            return None;
        }
        from_ns = from_ns.max(job.started_ns);
        to_ns = to_ns.min(job.started_ns + job.runtime_ns);
    }
    let spans = view.seen.jobs_over_time.spans().into_iter();
    let spans = spans.filter(|span| span.from_ns >= from_ns && span.to_ns <= to_ns).map(moved);
    (!jobs.is_empty()).then(|| spans.collect())
}

fn moved(span: TimeSpan<PerDir<IoSum>>) -> Moved {
    Moved { from_ns: span.from_ns, to_ns: span.to_ns, sum: span.sum }
}

/// What a program moved on its disk, as long as it asks for as much, or what it requested of a page cache.
fn of_program(view: &View) -> Option<(Vec<Moved>, Step, Coincidence)> {
    if !view.is_own {
        return None;
    }
    let disk = view.disk().filter(|_| view.seen.processes.watched.disk_bytes() > 0);
    let of_disk = disk.and_then(|disk| {
        let spans = view.seen.disks_over_time.spans().into_iter();
        let spans = spans.map(|span| Moved {
            from_ns: span.from_ns,
            to_ns: span.to_ns,
            sum: span.sum.get(&disk.name).cloned().unwrap_or_default(),
        });
        let spans: Vec<Moved> = spans.collect();
        let step = step(&spans).filter(|step| asks_for_as_much(&spans, step))?;
        let found = coincidence(view, &step).unwrap_or_else(|| nothing(view, &spans));
        Some((spans, step, found))
    });
    of_disk.or_else(|| {
        let spans = view.seen.machine_over_time.spans().into_iter();
        let spans: Vec<Moved> = spans
            .map(|span| {
                let sum = PerDir { read: IoSum::of_bytes(span.sum.requested), ..PerDir::default() };
                Moved { from_ns: span.from_ns, to_ns: span.to_ns, sum }
            })
            .collect();
        let step = step(&spans)?;
        let (before, after) = around(view, step.at_ns)?;
        let found = full_cache(view, &step, (&before, &after))?;
        Some((spans, step, found))
    })
}

/// Whether I/Os in flight, directions and sizes are about the same on both sides.
fn asks_for_as_much(spans: &[Moved], step: &Step) -> bool {
    let (before, after) = spans.split_at(step.index);
    let sum = |side: &[Moved], of: &dyn Fn(&Moved) -> f64| side.iter().map(of).sum::<f64>();
    let in_flight = |side: &[Moved]| {
        let time = sum(side, &|span| (span.to_ns - span.from_ns) as f64);
        sum(side, &|span| span.all(|sum| sum.latency_ns.unwrap_or(0.0))) / time.max(1.0)
    };
    let reads = |side: &[Moved]| {
        sum(side, &|span| span.sum[Dir::Read].bytes)
            / sum(side, &|span| span.all(|sum| sum.bytes)).max(1.0)
    };
    let size = |side: &[Moved]| {
        sum(side, &|span| span.all(|sum| sum.bytes))
            / sum(side, &|span| span.all(|sum| sum.ios)).max(1.0)
    };
    let sizes = size(before) / size(after).max(1.0);
    in_flight(after) >= in_flight(before) * ASKED_MIN
        && (reads(before) - reads(after)).abs() <= MIX_MAX
        && (1.0 / SIZE_MAX..=SIZE_MAX).contains(&sizes)
}

/// What began when throughput fell.
struct Coincidence {
    text: String,
    evidence: Option<Evidence>,
    subject: Option<Subject>,
    remedy: Option<&'static str>,
    confidence: Confidence,
}

/// The machine on one side of the drop: means, per second.
struct Side {
    machine: MachineSum,
    /// Bytes per second on the disk with most.
    disk: f64,
}

/// The longest interval of the machine: those of a run's jobs and of the machine do not begin together.
fn margin(view: &View) -> Option<u64> {
    let spans = view.seen.machine_over_time.spans();
    spans.iter().map(|span| span.observed_ns).max()
}

/// Both sides, without the intervals at the drop.
fn around(view: &View, at_ns: u64) -> Option<(Side, Side)> {
    let machine = view.seen.machine_over_time.spans();
    let disks = view.seen.disks_over_time.spans();
    let margin = margin(view)?;
    let side = |from_ns: u64, to_ns: u64| {
        let mut side = Side { machine: MachineSum::default(), disk: 0.0 };
        let mut seconds = 0.0;
        let mut moved = std::collections::BTreeMap::<&str, f64>::new();
        for (span, disks) in machine.iter().zip(&disks) {
            if span.from_ns < from_ns || span.to_ns > to_ns {
                continue;
            }
            seconds += span.observed_ns as f64 / 1e9;
            crate::timeline::Additive::add(&mut side.machine, span.sum);
            for (name, sums) in &disks.sum {
                let bytes: f64 = sums.iter().map(|(_, sum)| sum.bytes).sum();
                *moved.entry(name.as_str()).or_default() += bytes;
            }
        }
        side.machine = side.machine.per(seconds);
        side.disk = moved.values().copied().fold(0.0, f64::max) / seconds;
        (seconds > 0.0).then_some(side)
    };
    side(0, at_ns.saturating_sub(margin)).zip(side(at_ns + margin, u64::MAX))
}

fn coincidence(view: &View, step: &Step) -> Option<Coincidence> {
    if let Some(found) = limited(view, step) {
        return Some(found);
    }
    let (before, after) = around(view, step.at_ns)?;
    let buffered = view.record.jobs.iter().any(|job| !job.granted.direct);
    let cache = (buffered || !view.is_run()).then(|| full_cache(view, step, (&before, &after)));
    cache.flatten().or_else(|| others(view, step, (&before, &after)))
}

/// An I/O limit of the cgroup was set, or began to matter.
fn limited(view: &View, step: &Step) -> Option<Coincidence> {
    let margin = 2 * margin(view)?;
    let around = step.at_ns.saturating_sub(margin)..=step.at_ns + margin;
    let (limit, allowed) = super::cgroup::io_limit_from(view, around)?;
    let reached = Evidence::number("intervals at the limit", limit.reached_share(), Unit::Share);
    Some(Coincidence {
        text: format!("{allowed}, which it reached from then on."),
        evidence: Some(reached),
        subject: Some(Subject::Cgroup { path: limit.cgroup.clone() }),
        remedy: Some("Raise the limit, or run it in another cgroup"),
        confidence: Confidence::High,
    })
}

/// The page cache was full: with dirty pages, or with all that memory holds.
fn full_cache(view: &View, step: &Step, (before, after): (&Side, &Side)) -> Option<Coincidence> {
    let was_cached = before.disk <= step.before * CACHED_BEFORE;
    let is_passed_on = after.disk >= step.after * CACHED_AFTER;
    let memory = after.machine;
    let found = |text, evidence: Evidence, remedy| Coincidence {
        text,
        evidence: Some(evidence.with_source("/proc/vmstat and /proc/meminfo")),
        subject: Some(Subject::Machine),
        remedy: Some(remedy),
        confidence: Confidence::High,
    };
    let writes = match view.is_run() {
        true => view.record.jobs.iter().any(|job| job.dirs[Dir::Write].counts.ios > 0),
        false => {
            view.seen.processes.watched.requested_write > view.seen.processes.watched.requested_read
        }
    };
    if writes && was_cached && is_passed_on && memory.dirty >= before.machine.dirty {
        let held = units::bytes(memory.dirty as u64);
        let text = format!(
            "Until then, the page cache took what the disk could not; then it was full (dirty or being written: {held})."
        );
        let dirty = Evidence::number("dirty or being written", memory.dirty, Unit::Bytes);
        let remedy = "The second rate is that of the disk: set direct=1, or end_fsync=1 and a size of several times that";
        return Some(found(text, dirty, remedy));
    }
    let reclaims =
        memory.scanned >= SCANNED_MIN && memory.scanned >= before.machine.scanned * TIMES_MIN;
    reclaims.then(|| {
        let text = format!(
            "From then on, memory was full: {} pages/s of the page cache were scanned to make room, and {} were free.",
            units::count(memory.scanned),
            units::bytes(memory.free as u64)
        );
        let scanned = Evidence::number("pages scanned per second", memory.scanned, Unit::Count);
        found(text, scanned, "Set direct=1, or read no more than fits into memory")
    })
}

/// Other programs, the hypervisor or a quota took more than before.
fn others(view: &View, step: &Step, (before, after): (&Side, &Side)) -> Option<Coincidence> {
    let processes = &view.seen.processes;
    let began = |then: f64, now: f64, least: f64| now - then >= least && now >= then * TIMES_MIN;
    let (then, now) = (before.machine, after.machine);
    if began(then.other_bytes, now.other_bytes, step.before * OTHERS_MIN) {
        let most = processes.by_disk_bytes().into_iter().find(|uses| !uses.peer)?;
        let rate = units::bandwidth(now.other_bytes);
        return Some(Coincidence {
            text: format!(
                "At that time, {} began to use the disks: other programs moved {rate}.",
                most.named()
            ),
            evidence: Some(Evidence::number(
                "other programs",
                now.other_bytes,
                Unit::BytesPerSecond,
            )),
            subject: Some(program(most)),
            remedy: Some("Stop the other program, or measure while it is not running"),
            confidence: Confidence::High,
        });
    }
    if began(then.other_cpu, now.other_cpu, OTHER_CPUS_MIN) {
        let most = processes.by_cpu().into_iter().find(|uses| !uses.peer)?;
        let cpus = now.other_cpu;
        return Some(Coincidence {
            text: format!(
                "At that time, {} began to use CPUs: other programs used {cpus:.2}.",
                most.named()
            ),
            evidence: Some(Evidence::number("CPUs used by other programs", cpus, Unit::Count)),
            subject: Some(program(most)),
            remedy: Some("Stop the other program, or separate the two with taskset or a cpuset"),
            confidence: Confidence::Medium,
        });
    }
    began(then.withheld, now.withheld, WITHHELD_MIN).then(|| Coincidence {
        text: format!(
            "From then on, the hypervisor or the CPU quota of the cgroup withheld {:.2} CPUs.",
            now.withheld
        ),
        evidence: Some(Evidence::number("CPUs withheld", now.withheld, Unit::Count)),
        subject: None,
        remedy: Some("Use a machine with CPUs of its own, or raise the quota"),
        confidence: Confidence::Medium,
    })
}

/// Nothing that was sampled explains it: for writes, what drives are known for.
fn nothing(view: &View, spans: &[Moved]) -> Coincidence {
    let bytes = |dir: Dir| spans.iter().map(|span| span.sum[dir].bytes).sum::<f64>();
    let writes = bytes(Dir::Write) > bytes(Dir::Read);
    let disk = view.disk().filter(|_| writes);
    Coincidence {
        text: match disk {
            Some(disk) => format!(
                "Nothing else that was sampled changed: the write cache of {} may be exhausted.",
                disk.name
            ),
            None => "Nothing else that was sampled changed at that time.".to_string(),
        },
        evidence: None,
        subject: disk.map(|disk| Subject::device(&disk.name)),
        remedy: disk.map(|_| {
            "Compare the bytes written until then with the drive's cache, and its temperature (nvme smart-log) with its limit; \
             give it a pause and repeat the run"
        }),
        confidence: Confidence::Low,
    }
}
