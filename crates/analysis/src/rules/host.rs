//! What of the machine, or of fathom itself, disturbed the measurement.

use super::jobs::{jobs_where, named};
#[cfg(test)]
use super::testing::{Case, peak};
use super::{Check, Claim, Rule, Target};
use fathom_model::facts::Host;
use fathom_model::finding::{Class, Evidence, Severity, Unit};
use fathom_model::limit::{Competitor, LimitRecord};
use fathom_model::record::RunRecord;
use fathom_model::units;

/// A load average above this share of the CPUs may disturb; one above all of them does.
const LOAD_SHARE: f64 = 0.5;
/// CPU usage of other programs before a search that disturbs it.
const FOREIGN_SHARE: f64 = 0.10;
/// CPUs that another program must have kept busy during a search.
const COMPETITOR_CPUS: f64 = 0.2;
/// Bytes per second that another program must have moved.
const COMPETITOR_BYTES: f64 = 1e7;
/// Steal time at a peak, as a share of CPU time, that disturbs it.
const STEAL_SHARE: f64 = 0.05;
/// A peak above this share of what fathom can drive on the machine is partly fathom's own limit.
const OWN_SHARE: f64 = 0.5;
/// Counting that leaves less than this share of the IOPS changes what it counts.
const COUNTING_SHARE: f64 = 0.9;
/// Clock sources that the vDSO reads without a system call.
pub(super) const FAST_CLOCKS: [&str; 7] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];

pub(super) static BUSY_MACHINE: Rule = Rule {
    id: "busy-machine",
    meaning: "The machine was busy before the measurement; other programs may be sharing it.",
    threshold: || {
        format!(
            "run, try, sweep: the 1-minute load average is {LOAD_SHARE} per CPU or more; info below 1 per CPU, as it may come from \
             an earlier run. limit: CPU usage in the idle window before the test is {:.0}% or more.",
            FOREIGN_SHARE * 100.0
        )
    },
    remedy: "Rerun when the machine is idle; `fathom top` shows what is running",
    checks: &[
        Check::Run(|record| busy_machine(&record.header.facts.host)),
        Check::Limit(busy_before_search),
        Check::Experiment(|record| busy_machine(&record.header.facts.host)),
    ],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| r.header.facts.host.load_1min = 4.0,
            near_miss: |r| r.header.facts.host.load_1min = 3.9,
        },
        Case::Experiment {
            holds: |r| r.header.facts.host.load_1min = 4.0,
            near_miss: |r| r.header.facts.host.load_1min = 3.9,
        },
        Case::Limit { holds: |r| busy_before(r, 0.10), near_miss: |r| busy_before(r, 0.09) },
    ],
    ..Rule::DEFAULT
};

fn busy_machine(host: &Host) -> Option<Claim> {
    let per_cpu = host.load_1min / f64::from(host.cpus_online);
    if host.cpus_online == 0 || per_cpu < LOAD_SHARE {
        return None;
    }
    let summary = format!(
        "The machine was busy in the minute before the run (load average {:.1} on {} CPUs); other programs may be sharing it.",
        host.load_1min, host.cpus_online
    );
    let evidence = Evidence::number("load average", host.load_1min, Unit::Count);
    let severity = if per_cpu >= 1.0 { Severity::Warning } else { Severity::Info };
    Some(Claim::new(summary, vec![evidence.with_source("/proc/loadavg")]).severity(severity))
}

fn busy_before_search(record: &LimitRecord) -> Option<Claim> {
    let busy = record.report.idle.map(|idle| idle.busy).filter(|busy| *busy >= FOREIGN_SHARE)?;
    let evidence = Evidence::number("CPU usage before the test", busy, Unit::Share);
    let summary = "The machine was busy before the test started; other programs may be sharing it."
        .to_string();
    Some(Claim::new(summary, vec![evidence.with_source("/proc/stat")]))
}

pub(super) static COMPETITORS: Rule = Rule {
    id: "competing-programs",
    meaning: "Other programs used CPUs or disks during the search. Their I/O is part of the device's figures.",
    threshold: || {
        format!(
            "Another program kept {COMPETITOR_CPUS} CPUs busy or moved {:.0} MB/s on average.",
            COMPETITOR_BYTES / 1e6
        )
    },
    remedy: "Stop them, or measure while they are not running",
    checks: &[Check::Limit(competitors)],
    #[cfg(test)]
    cases: &[Case::Limit {
        holds: |r| compete(r, 0.2, 9.9e6),
        near_miss: |r| compete(r, 0.19, 9.9e6),
    }],
    ..Rule::DEFAULT
};

fn competitors(record: &LimitRecord) -> Option<Claim> {
    let disturbs = |one: &&Competitor| {
        one.cpus >= COMPETITOR_CPUS || one.disk_bytes_per_second >= COMPETITOR_BYTES
    };
    let all: Vec<&Competitor> = record.competitors.iter().filter(disturbs).collect();
    let describe = |one: &&Competitor| {
        let bytes = (one.disk_bytes_per_second >= COMPETITOR_BYTES)
            .then(|| format!(" and {} of I/O", units::bandwidth(one.disk_bytes_per_second)));
        format!("{} used {:.1} CPUs{}", one.uses.named(), one.cpus, bytes.unwrap_or_default())
    };
    let summary = format!(
        "During the search {}. The device's figures include their I/O.",
        all.iter().map(describe).collect::<Vec<_>>().join(", ")
    );
    let cpus: f64 = all.iter().map(|one| one.cpus).sum();
    let bytes: f64 = all.iter().map(|one| one.disk_bytes_per_second).sum();
    let evidence = vec![
        Evidence::number("CPUs", cpus, Unit::Count).with_source("/proc/PID/stat"),
        Evidence::number("disk I/O", bytes, Unit::BytesPerSecond).with_source("/proc/PID/io"),
    ];
    (!all.is_empty()).then(|| Claim::new(summary, evidence))
}

#[cfg(test)]
fn compete(record: &mut LimitRecord, cpus: f64, disk_bytes_per_second: f64) {
    let uses = fathom_model::watch::ProcessUse::default();
    record.competitors = vec![Competitor { uses, cpus, disk_bytes_per_second }];
}

/// The hypervisor withheld CPU time. No test makes one do that: it takes a second machine on the same CPUs.
pub(super) static STEAL: Rule = Rule {
    id: "steal",
    meaning: "The hypervisor withheld CPU time at a peak, which may have lowered it.",
    threshold: || {
        format!("Steal time is {:.0}% or more of CPU time at a peak.", STEAL_SHARE * 100.0)
    },
    remedy: "Rerun when the host is less loaded, or with dedicated CPUs",
    checks: &[Check::Target(steal)],
    #[cfg(test)]
    cases: &[Case::Limit {
        holds: |r| peak(r).cpu.get_or_insert_default().steal = 0.05,
        near_miss: |r| peak(r).cpu.get_or_insert_default().steal = 0.04,
    }],
    ..Rule::DEFAULT
};

fn steal(target: &Target) -> Option<Claim> {
    let evidence: Vec<Evidence> = target
        .peaks()
        .filter_map(|(block, peak)| {
            let steal = peak.cpu?.steal;
            let name = format!("steal at the {} peak", block.name());
            (steal >= STEAL_SHARE)
                .then(|| Evidence::number(name, steal, Unit::Share).with_source("/proc/stat"))
        })
        .collect();
    let name = &target.limit.name;
    let summary = format!("The hypervisor withheld CPU time while {name} was at its peak.");
    (!evidence.is_empty()).then(|| Claim::new(summary, evidence))
}

/// The peak is near what fathom itself can drive. No test makes that: null_blk reaches a sixth of it.
pub(super) static OWN_CEILING: Rule = Rule {
    id: "own-ceiling",
    class: Class::Limiter,
    meaning: "The peak is close to what the load generator does without a device: it is part of the limit.",
    threshold: || {
        format!(
            "The highest peak is {:.0}% or more of the IOPS of NOP rings on all CPUs.",
            OWN_SHARE * 100.0
        )
    },
    checks: &[Check::Limit(own_ceiling)],
    #[cfg(test)]
    cases: &[Case::Limit {
        holds: |r| peak(r).iops.mean = 5e6,
        near_miss: |r| peak(r).iops.mean = 4.9e6,
    }],
    ..Rule::DEFAULT
};

fn own_ceiling(record: &LimitRecord) -> Option<Claim> {
    let report = &record.report;
    let peaks = report.targets.iter().flat_map(|t| &t.blocks).filter_map(|b| b.peak.as_ref());
    let best = peaks.map(|p| p.iops.mean).fold(0.0, f64::max);
    let own = report.own.all_cores.filter(|own| own.mean > 0.0 && best >= OWN_SHARE * own.mean)?;
    let summary =
        "The peak is close to what the load generator does without a device: it is part of the limit."
            .to_string();
    let evidence = vec![
        Evidence::number("peak IOPS", best, Unit::Iops),
        Evidence::number("IOPS of NOP rings on all CPUs", own.mean, Unit::Iops),
    ];
    Some(Claim::new(summary, evidence))
}

pub(super) static SLOW_CLOCK: Rule = Rule {
    id: "slow-clock",
    meaning: "Every clock read is a system call, which adds to every latency.",
    threshold: || {
        format!(
            "The kernel's clock source is none of those that the vDSO can read: {}.",
            FAST_CLOCKS.join(", ")
        )
    },
    remedy: "Check `dmesg` for why tsc was rejected; if the TSC is stable after all, boot with tsc=reliable",
    checks: &[Check::Run(slow_clock)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.header.facts.host.clocksource = "hpet".into(),
        near_miss: |r| r.header.facts.host.clocksource = "kvm-clock".into(),
    }],
    ..Rule::DEFAULT
};

fn slow_clock(record: &RunRecord) -> Option<Claim> {
    let source = record.header.facts.host.clocksource.as_str();
    if source.is_empty() || FAST_CLOCKS.contains(&source) {
        return None;
    }
    let summary = "Every clock read is a system call, which adds to every latency.".to_string();
    let evidence = Evidence::text("clock source", source)
        .with_source("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    Some(Claim::new(summary, vec![evidence]))
}

/// Counting instructions slowed the job down while it was counted. No test makes that happen: whether it does, the
/// hypervisor decides, and most have no counters.
pub(super) static COUNTING_SLOWS: Rule = Rule {
    id: "counting-slows",
    severity: Severity::Info,
    meaning: "Counting instructions slowed the job down. It is done in a separate window, so IOPS and latencies are not \
              affected, but cycles per I/O may be too high.",
    threshold: || {
        format!("IOPS while counting are below {:.0}% of those without.", COUNTING_SHARE * 100.0)
    },
    checks: &[Check::Run(counting_slows)],
    #[cfg(test)]
    cases: &[Case::Run { holds: |r| counted(r, 0.25), near_miss: |r| counted(r, 0.9) }],
    ..Rule::DEFAULT
};

fn counting_slows(record: &RunRecord) -> Option<Claim> {
    let jobs = jobs_where(record, |job| {
        job.done
            .cost
            .is_some_and(|cost| cost.speed_ratio > 0.0 && cost.speed_ratio < COUNTING_SHARE)
    });
    let ratios = jobs.iter().filter_map(|job| job.done.cost).map(|cost| cost.speed_ratio);
    let least = ratios.reduce(f64::min)?;
    let summary = format!(
        "Counting instructions slowed {} down, so it was done in a separate window; cycles per I/O may be too high.",
        named(&jobs)
    );
    let evidence = Evidence::number("IOPS while counting, of those without", least, Unit::Share);
    Some(Claim::new(summary, vec![evidence]))
}

#[cfg(test)]
fn busy_before(record: &mut LimitRecord, busy: f64) {
    record.report.idle = Some(fathom_model::window::CpuShares { busy, steal: 0.0, throttled: 0.0 });
}

#[cfg(test)]
fn counted(record: &mut RunRecord, speed_ratio: f64) {
    record.jobs[0].cost = Some(fathom_model::record::Cost { speed_ratio, ..Default::default() });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, phrases, silent};
    use super::*;

    #[test]
    fn load_is_judged_by_cpus() {
        let f = fires(&BUSY_MACHINE, |r| r.header.facts.host.load_1min = 5.0);
        assert_eq!((f.severity, phrases(&f)), (Severity::Info, vec!["load average: 5".into()]));
        assert_eq!(
            f.summary,
            "The machine was busy in the minute before the run (load average 5.0 on 8 CPUs); other programs may be sharing it."
        );
        let f = fires(&BUSY_MACHINE, |r| r.header.facts.host.load_1min = 9.0);
        assert_eq!(f.severity, Severity::Warning);
        silent(&BUSY_MACHINE, |r| r.header.facts.host.cpus_online = 0);
    }

    #[test]
    fn an_unknown_clock_is_not_slow() {
        silent(&SLOW_CLOCK, |r| r.header.facts.host.clocksource = String::new());
    }

    #[test]
    fn counting_that_slows() {
        let f = fires(&COUNTING_SLOWS, |r| counted(r, 0.25));
        assert_eq!(phrases(&f), ["IOPS while counting, of those without: 25%"]);
    }
}
