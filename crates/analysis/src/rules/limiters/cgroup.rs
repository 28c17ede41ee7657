//! Limits, costs and weights of the cgroup that the workload runs in.

use super::device::{DEVICE, OTHERS_SHARE_MIN};
use super::queue::held_in_scheduler;
#[cfg(test)]
use super::testing::{Scene, held};
use super::threads::READ_CALLS;
use super::view::{WAIT_MIN, share_text};
use super::{SettingView, View};
use crate::limit::percent;
use crate::machine::DiskRates;
#[cfg(test)]
use crate::rules::testing::{Case, cpu, known, queue, tested};
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
use crate::watch::{IoLimit, REACHED};
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
#[cfg(test)]
use fathom_model::limit::LimitRecord;
use fathom_model::watch::ThreadState;
use fathom_model::window::Point;
use fathom_model::{Dir, units};

/// Share of the time of a CPU for which the quota must have refused it.
const THROTTLED_MIN: f64 = 0.05;
/// The part of its quota that a program uses if nothing else limits its CPU time.
const USED_UP_MIN: f64 = 0.9;
/// Times per second that the memory limit must have been hit.
const HITS_MIN: f64 = 1.0;
/// Pages per second that must have been read again soon after they were reclaimed.
const REFAULTS_MIN: f64 = 10.0;
/// The part of the whole machine's refaults that counts: others may have caused them, so the disk remains a cause.
const OF_MACHINE: f64 = 0.4;
/// The share of the time for which tasks must have been stalled for memory, where they read none again.
const STALLED_MIN: f64 = 0.05;
/// Share of the intervals with I/O in which a limit must have been reached.
const REACHED_MIN: f64 = 0.5;
/// Share of the busy threads that must have waited in a function that holds I/O back.
pub(super) const HELD_THREADS_MIN: f64 = 0.2;

/// How much longer I/Os must take than all at the disk.
const DELAYED_MIN: f64 = 2.0;

/// Where threads wait for their cgroup's share of a device.
const COST_WAITS: [&str; 2] = ["ioc_rqos_throttle", "blkcg_maybe_throttle_current"];

pub(in crate::rules) static IO_LIMIT: Rule = Rule {
    id: "cgroup-io-limit",
    limits: "an I/O limit of its cgroup",
    meaning: "The cgroup's limit on IOPS or bandwidth was reached.",
    threshold: || {
        format!(
            "In {:.0}% or more of the intervals with I/O, the cgroup's rate was {:.0}–{:.0}% of a limit, and threads waited \
             for I/O {} of the time or more. Where only the device's rate is known, other programs must not have issued most of it. In a search, \
             the rate of a setting, or of the deepest queue measured, is, and a deeper queue yields no gain.",
            REACHED_MIN * 100.0,
            REACHED.start() * 100.0,
            REACHED.end() * 100.0,
            share_text(WAIT_MIN)
        )
    },
    remedy: "Raise the limit, or run it in another cgroup",
    confirmation: Some(Confirmation::gain(Change::NoIoLimit)),
    // What it holds back is not held by the queue, whatever is there when it lets some through.
    supersedes: &[
        &DEVICE,
        &super::threads::ONE_AT_A_TIME,
        &super::queue::SCHEDULER,
        &super::queue::REQUESTS,
    ],
    checks: &[
        Check::View(io_limit),
        Check::Setting("an I/O limit of its cgroup", setting_at_limit),
    ],
    #[cfg(test)]
    cases: &[
        Case::Setting {
            holds: |r| queue(r).io_limits = vec!["/db vda riops=100000 wiops=100".into()],
            near_miss: |r| queue(r).io_limits = vec!["/db vda riops=150000 wiops=100000".into()],
            summary: "The cgroup /db allows 100k reads/s on vda (riops); the peak is 100k.",
        },
        Case::Setting {
            holds: |r| burst_at_peak(r, 66_000.0),
            near_miss: |r| burst_at_peak(r, 90_000.0),
            summary: "The cgroup /db allows 65k reads/s on vda (riops); 1 worker at QD128 reaches 66k.",
        },
        Case::View {
            holds: |s| s.io_limit(10_010),
            near_miss: |s| s.io_limit(12_000),
            summary: "The cgroup /db allows 10,010 reads/s on vda (io.max); it reached 10,000.",
        },
        Case::View {
            holds: |s| {
                s.io_limit(10_010);
                s.cgroup().io_limits_v1 = true;
            },
            // Another program did the I/O.
            near_miss: |s| {
                s.io_limit(10_010);
                s.other("dd", 0.1, 10 * 40_960_000);
            },
            summary: "The cgroup /db allows 10,010 reads/s on vda (blkio.throttle.read_iops_device); it reached \
                      10,000.",
        },
    ],
    ..Rule::LIMITER
};

/// A peak of 100k IOPS, and a deeper queue that yields fewer.
#[cfg(test)]
fn burst_at_peak(record: &mut LimitRecord, deepest: f64) {
    queue(record).io_limits = vec!["/db vda riops=65000".into()];
    let deep = Point { workers: 1, depth: 128, iops: known(deepest, 0.01), ..Point::default() };
    tested(record).points.push(deep);
}

fn io_limit(view: &View) -> Option<Claim> {
    let waits = view.held_by_io().filter(|_| view.is_own)?;
    // The rate of a device is not the cgroup's where others do most of it.
    let by_others = view.others_share().is_some_and(|share| share > 0.5);
    let is_reached = |limit: &&IoLimit| {
        limit.reached_share() >= REACHED_MIN && (limit.is_of_cgroup || !by_others)
    };
    let limit = view.seen.io_limits.values().filter(is_reached).max_by_key(|l| l.reached)?;
    let (allowed, setting) = allowed(view, limit);
    let reached = Evidence::number("intervals at the limit", limit.reached_share(), Unit::Share);
    let summary = format!("{allowed}; it reached {}.", rate(limit, limit.mean()));
    let is_v1 = view.cgroup().is_some_and(|cgroup| cgroup.io_limits_v1);
    let source = match (limit.is_of_cgroup, is_v1) {
        (true, true) => format!("{setting}, blkio.throttle.io_serviced_recursive"),
        (true, false) => format!("{setting}, io.stat"),
        (false, _) => format!("{setting}, /proc/diskstats"),
    };
    let claim = Claim::new(summary, vec![reached.with_source(&source)]);
    let subject = Subject::Cgroup { path: limit.cgroup.clone() };
    let claim = claim.about(subject).weight(limit.reached_share() * waits);
    Some(claim.confidence(Confidence::High))
}

/// A rate in the unit of a limit.
fn rate(limit: &IoLimit, rate: f64) -> String {
    if limit.key.ends_with("iops") { units::grouped(rate) } else { units::bandwidth(rate) }
}

/// What a limit allows, and the name of the setting.
fn allowed(view: &View, limit: &IoLimit) -> (String, &'static str) {
    let IoLimit { cgroup, device, key, .. } = limit;
    let (what, v1_file) = match key.as_str() {
        "riops" => (" reads/s", "blkio.throttle.read_iops_device"),
        "wiops" => (" writes/s", "blkio.throttle.write_iops_device"),
        "rbps" => (" of reads", "blkio.throttle.read_bps_device"),
        _ => (" of writes", "blkio.throttle.write_bps_device"),
    };
    let is_v1 = view.cgroup().is_some_and(|cgroup| cgroup.io_limits_v1);
    let setting = if is_v1 { v1_file } else { "io.max" };
    let most = rate(limit, limit.limit);
    (format!("The cgroup {cgroup} allows {most}{what} on {device} ({setting})"), setting)
}

/// The limit that was reached from about this time on, and not before, and what it allows.
pub(super) fn io_limit_from<'a>(
    view: &'a View,
    from: std::ops::RangeInclusive<u64>,
) -> Option<(&'a IoLimit, String)> {
    let is_reached =
        |limit: &&IoLimit| limit.reached_share() >= REACHED_MIN && from.contains(&limit.since_ns);
    let limit = view.seen.io_limits.values().filter(is_reached).max_by_key(|l| l.reached)?;
    Some((limit, allowed(view, limit).0))
}

/// By the setting in question, or the one with most I/Os in flight: the kernel lets an idle cgroup exceed its rate for a tenth
/// of a second, so that a shallow queue in a short window may seem faster.
fn setting_at_limit(view: &SettingView) -> Option<Claim> {
    let queue = view.queue.filter(|_| view.may_be_held())?;
    let limits: Vec<IoLimit> =
        queue.io_limits.iter().flat_map(|entry| IoLimit::parse(entry)).collect();
    let in_flight = |point: &&Point| point.setting().in_flight();
    let deepest = view.points.iter().max_by_key(in_flight);
    let deepest = deepest.filter(|point| in_flight(point) > in_flight(&view.base));
    let reached = |point: &Point, limit: &IoLimit| {
        let (dir, word) = match limit.key.as_str() {
            "riops" | "rbps" => (Dir::Read, "read"),
            _ => (Dir::Write, "write"),
        };
        let (_, percent) = view.spec.rw.dirs().iter().find(|(of, _)| *of == dir)?;
        let is_bytes = limit.key.ends_with("bps");
        let rate = if is_bytes { point.bytes_per_second } else { point.iops.mean };
        let rate = rate * f64::from(*percent) / 100.0;
        let show = |rate| if is_bytes { units::bandwidth(rate) } else { units::count(rate) };
        let what = if is_bytes { format!("of {word}s") } else { format!("{word}s/s") };
        let at = match point.setting() == view.base.setting() {
            true => "the peak is".to_string(),
            false => format!("{} reaches", point.setting().in_words()),
        };
        REACHED.contains(&(rate / limit.limit)).then(|| {
            let text = format!(
                "The cgroup {} allows {} {what} on {} ({}); {at} {}",
                limit.cgroup,
                show(limit.limit),
                limit.device,
                limit.key,
                show(rate)
            );
            let reached = Evidence::number("rate over the limit", rate / limit.limit, Unit::Ratio);
            let subject = Subject::Cgroup { path: limit.cgroup.clone() };
            view.claim(text, [reached.with_source(&limit.key)]).about(subject)
        })
    };
    let mut points = [Some(view.base), deepest].into_iter().flatten();
    points.find_map(|point| limits.iter().find_map(|limit| reached(point, limit)))
}

/// What a cgroup's I/O settings say, such as `weight=50`, where `keys` has it; the innermost cgroup first.
fn settings(view: &View, keys: &[&str]) -> Vec<String> {
    let entries = view.cgroup().into_iter().flat_map(|cgroup| &cgroup.io_control);
    let has = |entry: &&String| {
        entry
            .split(' ')
            .any(|word| word.split_once('=').is_some_and(|(key, _)| keys.contains(&key)))
    };
    entries.filter(has).cloned().collect()
}

pub(in crate::rules) static IO_COST: Rule = Rule {
    id: "cgroup-io-cost",
    limits: "its cgroup's share of the device (io.cost)",
    meaning: "The cgroup used up its share of a device (io.cost, io.weight), so the kernel throttled its I/Os.",
    threshold: || {
        format!(
            "{:.0}% or more of the busy threads waited in {}.",
            HELD_THREADS_MIN * 100.0,
            COST_WAITS.join(" or ")
        )
    },
    remedy: "Raise the cgroup's io.weight, or check the model in the root's io.cost.model and io.cost.qos",
    supersedes: &[&DEVICE],
    checks: &[Check::View(io_cost)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| held(s, "ioc_rqos_throttle", 0.7),
        near_miss: |s| held(s, "ioc_rqos_throttle", 0.1),
        summary: "fio waited for its cgroup's share of vda (io.cost) 70% of the time.",
    }],
    ..Rule::LIMITER
};

fn io_cost(view: &View) -> Option<Claim> {
    let disk = view.disks().into_iter().next()?;
    let waiting = view.threads(|_, _, wchan| COST_WAITS.iter().any(|at| wchan.contains(at)));
    let share = view.share(waiting);
    let targets = settings(view, &["target"]);
    let is_cost = view.threads(|_, _, wchan| wchan.contains(COST_WAITS[0])) > 0.0;
    if share < HELD_THREADS_MIN || !is_cost && !targets.is_empty() {
        return None;
    }
    let summary = format!(
        "{} waited for its cgroup's share of {} (io.cost) {:.0}% of the time.",
        view.subject(),
        disk.name,
        share * 100.0
    );
    let waiting = Evidence::number("threads throttled", waiting, Unit::Count);
    let evidence = [waiting.with_source("wchan ioc_rqos_throttle")].into_iter();
    let set = settings(view, &["weight", "enable"]).into_iter();
    let set = set.map(|entry| Evidence::text("set", entry).with_source("io.weight, io.cost.qos"));
    let claim = Claim::new(summary, evidence.chain(set.take(2)).collect());
    Some(claim.about(view.own_cgroup()).weight(share).confidence(Confidence::High))
}

/// The device for which threads in `rq_qos_wait` wait, if it is for writeback throttling: the uppermost one that throttles,
/// and writes. Reads are not throttled.
pub(super) fn throttles_writeback<'v>(view: &'v View) -> Option<&'v DiskRates> {
    let throttles = |disk: &&DiskRates| {
        let is_on = view.device(&disk.name).is_some_and(|device| device.wbt_lat_usec > Some(0));
        is_on && disk.write.ios + disk.discard.ios > 0.0
    };
    let disks: Vec<&DiskRates> = view.disks().into_iter().filter(throttles).collect();
    let is_below = |disk: &DiskRates| disks.iter().any(|above| above.below.contains(&disk.name));
    disks.iter().find(|disk| !is_below(disk)).copied()
}

/// Threads that wait so that another cgroup meets its latency target. No test makes a kernel do that: Debian's are built
/// without `CONFIG_BLK_CGROUP_IOLATENCY`.
pub(in crate::rules) static IO_LATENCY: Rule = Rule {
    id: "cgroup-io-latency",
    limits: "another cgroup's latency target (io.latency)",
    meaning: "The kernel throttled I/Os so that another cgroup meets its latency target (io.latency).",
    threshold: || {
        format!(
            "{:.0}% or more of the busy threads waited in rq_qos_wait, or a target is set and they waited in \
             blkcg_maybe_throttle_current. Not where writeback throttling explains it.",
            HELD_THREADS_MIN * 100.0
        )
    },
    remedy: "Set an io.latency target for this cgroup too, or raise the other cgroup's target",
    supersedes: &[&DEVICE],
    checks: &[Check::View(io_latency)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| held(s, "rq_qos_wait", 0.6),
        // Writeback throttling waits in the same function, for writes.
        near_miss: |s| {
            s.device().wbt_lat_usec = Some(2000);
            s.writes("vda", 1000, 8.0, 99.0);
            held(s, "rq_qos_wait", 0.6);
        },
        summary: "fio was throttled on vda for another cgroup's latency target (io.latency) 60% of the time.",
    }],
    ..Rule::LIMITER
};

fn io_latency(view: &View) -> Option<Claim> {
    let disk = view.disks().into_iter().next()?;
    let targets = settings(view, &["target"]);
    let throttles = throttles_writeback(view).is_some();
    let waits = |_: &str, call: &str, wchan: &str| {
        wchan.contains("rq_qos_wait") && (!throttles || READ_CALLS.contains(&call))
            || !targets.is_empty() && wchan.contains(COST_WAITS[1])
    };
    let waiting = view.threads(waits);
    let share = view.share(waiting);
    if share < HELD_THREADS_MIN {
        return None;
    }
    let summary = format!(
        "{} was throttled on {} for another cgroup's latency target (io.latency) {:.0}% of the time.",
        view.subject(),
        disk.name,
        share * 100.0
    );
    let waiting = Evidence::number("threads throttled", waiting, Unit::Count);
    let evidence = [waiting.with_source("wchan rq_qos_wait")].into_iter();
    let set = targets.iter().map(|entry| Evidence::text("set", entry.as_str()));
    let claim = Claim::new(summary, evidence.chain(set.take(2)).collect());
    Some(claim.about(view.own_cgroup()).weight(share).confidence(Confidence::Medium))
}

pub(in crate::rules) static IO_WEIGHT: Rule = Rule {
    id: "cgroup-io-weight",
    limits: "its cgroup's I/O weight",
    meaning: "The I/O scheduler BFQ served other cgroups first, by their weights.",
    threshold: || {
        format!(
            "A busy device has the scheduler bfq, the cgroup's weight is not the default of 100, and other programs moved \
             {:.0}% or more of the bytes. The workload's I/Os took {DELAYED_MIN} times as long as all at the device or more \
             (its share of the I/Os in flight is larger than of the bytes); where that is not known, `io-scheduler` applies.",
            OTHERS_SHARE_MIN * 100.0
        )
    },
    remedy: "Raise the weight, or stop the other programs",
    confirmation: Some(Confirmation::gain(Change::IoWeight)),
    supersedes: &[&DEVICE, &super::queue::SCHEDULER],
    checks: &[Check::View(io_weight)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| weighted(s, 10),
        near_miss: |s| weighted(s, 100),
        summary: "BFQ gives the cgroup /db a weight of 10 on vda (100 is the default); other programs moved 91% of \
                  the bytes.",
    }],
    ..Rule::LIMITER
};

fn io_weight(view: &View) -> Option<Claim> {
    let waits = view.held_by_io().filter(|_| view.is_own)?;
    let disk = view.busy_disk()?;
    let is_bfq = view.device(&disk.name)?.scheduler.as_deref() == Some("bfq");
    let others =
        view.others_share().filter(|_| is_bfq).filter(|share| *share >= OTHERS_SHARE_MIN)?;
    let (held, evidence) = match delay(view, disk, others) {
        Some(ratio) if ratio < DELAYED_MIN => return None,
        Some(ratio) => {
            let of = Evidence::number("time of its I/Os, of that of all", ratio, Unit::Ratio);
            (1.0 - 1.0 / ratio, of.with_source("shares of I/Os in flight and of bytes"))
        }
        None => {
            let held = held_in_scheduler(view, disk)?;
            let of = Evidence::number("time between queue and driver", held, Unit::Share);
            (held, of.with_source("block_rq_insert to block_rq_issue"))
        }
    };
    let set = settings(view, &["bfq_weight"]);
    let words: Vec<&str> = set.first()?.split(' ').collect();
    let weight = words.iter().find_map(|word| word.strip_prefix("bfq_weight="))?;
    if weight == "100" {
        return None;
    }
    let summary = format!(
        "BFQ gives the cgroup {} a weight of {weight} on {} (100 is the default); other programs moved {:.0}% of the bytes.",
        words.first()?,
        disk.name,
        others * 100.0
    );
    let claim = Claim::new(summary, vec![evidence]).about(view.own_cgroup());
    Some(claim.weight(held * waits).confidence(Confidence::Medium))
}

/// How much longer the workload's I/Os take than all I/Os at `disk` on average, by Little's law from its share of those in
/// flight and of the bytes, of which `others` moved the rest.
fn delay(view: &View, disk: &DiskRates, others: f64) -> Option<f64> {
    let in_flight = view.own_in_flight()? / disk.queue;
    Some(in_flight / (1.0 - others)).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
fn weighted(scene: &mut Scene, weight: u32) {
    scene.scheduler("bfq", 600);
    scene.cgroup().io_control = vec![format!("/db default bfq_weight={weight}")];
    scene.other("dd", 0.1, 10 * 40_960_000);
}

pub(in crate::rules) static CPU_QUOTA: Rule = Rule {
    id: "cgroup-cpu-quota",
    limits: "the CPU quota of its cgroup",
    meaning: "The cgroup used up its CPU quota, and its threads waited for the next period.",
    threshold: || {
        format!(
            "It was throttled for {:.0}% of the time or more, on average over the CPUs that its threads would use: the kernel \
             adds up the time on each. Where the program itself used {:.0}% of the quota or more, all of its time runnable counts: \
             it would not run more without other programs. In a search, for that part of one CPU's time, and a deeper queue yields no gain.",
            THROTTLED_MIN * 100.0,
            USED_UP_MIN * 100.0
        )
    },
    remedy: "Raise cpu.max (cgroup v1: cpu.cfs_quota_us)",
    supersedes: &[&super::cpu::OWN_TIME, &super::cpu::OTHER_PROGRAMS, &super::cpu::BUSY_CPUS],
    confirmation: Some(Confirmation::gain(Change::NoCpuQuota)),
    checks: &[
        Check::View(cpu_quota),
        Check::Setting("the CPU quota of its cgroup", quota_at_setting),
    ],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.throttled(7_800_000),
            near_miss: |s| s.throttled(400_000),
            summary: "The cgroup /db is limited to 0.20 CPUs; it was throttled for 78% of the time. fio used all of that quota.",
        },
        // Other programs use the CPUs as well, which keeps it from nothing.
        Case::View {
            holds: |s| {
                s.throttled(3_500_000);
                s.busy(98);
                s.other("rustc", 1.6, 0);
            },
            near_miss: |s| {
                s.throttled(400_000);
                s.busy(98);
                s.other("rustc", 1.6, 0);
            },
            summary: "The cgroup /db is limited to 0.20 CPUs; it was throttled for 35% of the time. fio used all of that quota.",
        },
        Case::Setting {
            // Of 8 CPUs.
            holds: |r| cpu(r).throttled = 0.30 / 8.0,
            near_miss: |r| cpu(r).throttled = 0.04 / 8.0,
            summary: "The CPU quota of the cgroup kept fathom's threads from running: throttled time is 30% of one CPU's time.",
        },
    ],
    ..Rule::LIMITER
};

fn cpu_quota(view: &View) -> Option<Claim> {
    let rates = view.rates.system.as_ref()?.cgroup.as_ref()?;
    // The time is that of all CPUs, added up, and no more are throttled than there are threads for.
    let runnable = view.states(&[ThreadState::Runnable, ThreadState::Throttled]);
    let is_sampled = !view.states.is_empty();
    let ready = if is_sampled { view.state(ThreadState::OnCpu) + runnable } else { f64::INFINITY };
    let throttled = rates.throttled? / ready.clamp(1.0, view.cpus().max(1.0));
    if throttled < THROTTLED_MIN * 100.0 {
        return None;
    }
    let throttled = throttled.min(100.0);
    let cgroup = view.cgroup()?;
    let limit = cgroup.cpu_limit?;
    let is_used_up = view.own_cpus() >= USED_UP_MIN * limit;
    let used = match is_used_up {
        true => format!(" {} used all of that quota.", view.who),
        false => String::new(),
    };
    let summary = format!(
        "The cgroup {} is limited to {limit:.2} CPUs; it was throttled for {throttled:.0}% of the time.{used}",
        cgroup.path
    );
    let weight = match (is_sampled, is_used_up) {
        // Without other programs, it would be throttled instead of runnable.
        (true, true) => view.share(runnable),
        (true, false) => view.share(runnable).min(throttled / 100.0),
        (false, _) => throttled / 100.0,
    };
    let periods = rates.throttled_periods.unwrap_or(0.0);
    let periods = Evidence::number("periods throttled per second", periods, Unit::Count);
    let claim = Claim::new(summary, vec![periods.with_source("cpu.stat")]);
    let claim = claim.about(view.own_cgroup()).gain_of(weight);
    Some(claim.weight(weight).confidence(Confidence::High))
}

fn quota_at_setting(view: &SettingView) -> Option<Claim> {
    // A single worker is throttled on one of the CPUs only, however many there are.
    let throttled = view.base.cpu?.throttled * f64::from(view.cores);
    (throttled >= THROTTLED_MIN && view.may_be_held()).then(|| {
        let text = format!(
            "The CPU quota of the cgroup kept fathom's threads from running: throttled time is {} of one CPU's time",
            percent(throttled)
        );
        let share = Evidence::number("throttled time of one CPU", throttled, Unit::Share);
        let claim = view.claim(text, [share.with_source("cpu.stat")]);
        if view.base.workers == 1 { claim.gain_of(throttled) } else { claim }
    })
}

pub(in crate::rules) static MEMORY_LIMIT: Rule = Rule {
    id: "cgroup-memory-limit",
    limits: "the memory limit of its cgroup",
    meaning: "The cgroup's memory limit made the kernel reclaim pages that were needed again soon.",
    threshold: || {
        format!(
            "The limit was hit at least once per second, and {REFAULTS_MIN:.0} pages/s were read again soon after \
             being reclaimed, or its tasks were stalled for memory {:.0}% of the time. Reclaim alone is not a \
             slowdown: it keeps the page cache within the limit.",
            STALLED_MIN * 100.0
        )
    },
    remedy: "Raise memory.max (cgroup v1: memory.limit_in_bytes), or use less page cache",
    // Where pages stay in memory, nobody waits for the disk. The kernel forgets pages that would take much more memory.
    supersedes: &[&DEVICE, &super::threads::ONE_AT_A_TIME, &super::waits::READAHEAD],
    checks: &[Check::View(memory_limit)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.memory_limit(50, 10_000),
            near_miss: |s| s.memory_limit(0, 10_000),
            summary: "The cgroup is limited to 64 MiB of memory and hit that limit 50 times/s; 39.1 MiB/s were read \
                      again soon after being reclaimed.",
        },
        Case::View {
            holds: |s| {
                s.memory_limit(50, 0);
                s.stalled_for_memory(0.3);
            },
            // A file is read once, from its beginning to its end.
            near_miss: |s| s.memory_limit(50, 0),
            summary: "The cgroup is limited to 64 MiB of memory and hit that limit 50 times/s; tasks were stalled for memory 30% \
                      of the time.",
        },
        Case::View {
            holds: |s| {
                s.memory_limit(50, 0);
                s.cgroup().memory_refaults = Some(100_000);
            },
            // The refaults are those of other programs.
            near_miss: |s| {
                s.memory_limit(50, 10_000);
                s.stalled_for_memory(0.3);
                s.cgroup().memory_refaults = Some(0);
            },
            summary: "The cgroup is limited to 64 MiB of memory and hit that limit 50 times/s; 39.1 MiB/s were read \
                      again soon after being reclaimed.",
        },
    ],
    ..Rule::LIMITER
};

fn memory_limit(view: &View) -> Option<Claim> {
    let system = view.rates.system.as_ref()?;
    let hits = system.cgroup.as_ref()?.memory_hits.filter(|hits| *hits >= HITS_MIN)?;
    let limit = view.cgroup()?.memory_limit?;
    let (paging, cgroup) = (&system.paging, system.cgroup.as_ref()?);
    // Earlier versions recorded those of the whole machine only.
    let (again, source) = match cgroup.memory_refaults {
        Some(pages) => (pages, "workingset_refault of its memory.stat"),
        None => (
            paging.refault_file + paging.swap_in,
            "workingset_refault_file, pswpin, the whole machine",
        ),
    };
    let of_machine = system.pressure.as_ref().map(|pressure| pressure.memory.some);
    // Of the machine's stalls, as many as of the refaults are the cgroup's.
    let of_all = (paging.refault_file + paging.swap_in).max(1.0);
    let part = cgroup.memory_refaults.map_or(1.0, |pages| (pages / of_all).min(1.0));
    let of_machine = of_machine.map(|stalled| stalled * part);
    let stalled = cgroup.memory_stalled.or(of_machine).unwrap_or(0.0) / 100.0;
    let bytes = again * 4096.0;
    let effect = match (again >= REFAULTS_MIN, stalled >= STALLED_MIN) {
        (true, _) => {
            format!("{} were read again soon after being reclaimed", units::bandwidth(bytes))
        }
        (_, true) => {
            format!("tasks were stalled for memory {:.0}% of the time", stalled * 100.0)
        }
        _ => return None,
    };
    let summary = format!(
        "The cgroup is limited to {} of memory and hit that limit {} times/s; {effect}.",
        units::bytes(limit),
        units::count(hits)
    );
    let again = Evidence::number("read again", bytes, Unit::BytesPerSecond).with_source(source);
    let stall = (stalled > 0.0)
        .then(|| Evidence::number("time stalled for memory", stalled, Unit::Share))
        .map(|share| share.with_source("memory pressure, some"));
    let evidence = [again].into_iter().chain(stall).collect();
    let [own, _] = view.disk_traffic();
    let own = view.seen.processes.per_second(own.disk_read);
    let read = if view.is_own && own > 0.0 { own } else { paging.in_bytes };
    // The part of the read time spent on pages read again.
    let known = if cgroup.memory_refaults.is_some() { 1.0 } else { OF_MACHINE };
    let reads = (bytes / read.max(1.0)).min(1.0) * view.io_wait().unwrap_or(1.0) * known;
    let claim = Claim::new(summary, evidence).about(view.own_cgroup());
    Some(claim.weight(stalled.max(reads)).confidence(Confidence::Medium))
}
