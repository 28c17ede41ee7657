//! What of the machine disturbed the measurement.

use super::{finding, jobs_where, named};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::RunRecord;

/// A load above this share of the processors may disturb; one above all of them does.
const LOAD_SHARE: f64 = 0.5;
/// Counting that leaves less than this share of the speed changed what it counted.
const COUNTING_SHARE: f64 = 0.9;

/// Other work on the machine when the run began.
pub(super) fn busy_machine(record: &RunRecord) -> Option<Finding> {
    let host = &record.facts.host;
    if host.cpus_online == 0 || host.load_1min < f64::from(host.cpus_online) * LOAD_SHARE {
        return None;
    }
    // The load average is over a minute: what it shows may have been an earlier run.
    let all_busy = host.load_1min >= f64::from(host.cpus_online);
    let severity = if all_busy { Severity::Warning } else { Severity::Info };
    let summary =
        "The machine was not idle in the minute before the run: others may share it.".to_string();
    let evidence = vec![format!("load {:.1} on {} processors", host.load_1min, host.cpus_online)];
    let next = "wait until it is quiet, or see who it is with top";
    finding("busy-machine", severity, summary, evidence, next)
}

/// A clock that needs a system call for every look.
pub(super) fn slow_clock(record: &RunRecord) -> Option<Finding> {
    let host = &record.facts.host;
    let source = host.clocksource.as_str();
    // Those that the vDSO reads without entering the kernel.
    let fast = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "riscv_clocksource",
        "timebase",
        "tod",
    ];
    if source.is_empty() || fast.contains(&source) {
        return None;
    }
    let summary = format!(
        "The kernel's clock source is {source}: each look at the clock is a system call and adds to every latency."
    );
    let evidence = vec![format!("clocksource {source}")];
    let next = "see dmesg for why tsc was given up; tsc=reliable helps where it is wrong";
    finding("slow-clock", Severity::Warning, summary, evidence, next)
}

/// Counting instructions that slowed the work down while it was done.
pub(super) fn counting_slows(record: &RunRecord) -> Option<Finding> {
    let jobs = jobs_where(record, |job| {
        job.done
            .cost
            .is_some_and(|cost| cost.speed_ratio > 0.0 && cost.speed_ratio < COUNTING_SHARE)
    });
    let ratio = jobs.iter().filter_map(|job| job.done.cost).map(|cost| cost.speed_ratio);
    let least = ratio.fold(f64::INFINITY, f64::min);
    if jobs.is_empty() {
        return None;
    }
    let summary = format!(
        "Counting instructions slowed {} down, so it was done apart: cycles per I/O may be too high.",
        named(&jobs)
    );
    let evidence = vec![format!("{:.0}% of the speed while counting", least * 100.0)];
    finding("counting-slows", Severity::Info, summary, evidence, "")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, silent};
    use super::*;
    use fathom_model::record::Cost;

    #[test]
    fn load_is_judged_by_processors() {
        let f = fires(busy_machine, |r| r.facts.host.load_1min = 5.0);
        assert_eq!(
            (f.severity, f.evidence[0].as_str()),
            (Severity::Info, "load 5.0 on 8 processors")
        );
        let f = fires(busy_machine, |r| r.facts.host.load_1min = 9.0);
        assert_eq!(f.severity, Severity::Warning);
        silent(busy_machine, |r| r.facts.host.load_1min = 3.0);
        silent(busy_machine, |r| r.facts.host.cpus_online = 0);
    }

    #[test]
    fn clocks_that_need_the_kernel() {
        fires(slow_clock, |r| r.facts.host.clocksource = "hpet".into());
        silent(slow_clock, |r| r.facts.host.clocksource = "kvm-clock".into());
        silent(slow_clock, |r| r.facts.host.clocksource = String::new());
    }

    #[test]
    fn counting_that_costs() {
        let cost = |ratio: f64| {
            move |r: &mut RunRecord| {
                r.jobs[0].cost = Some(Cost { speed_ratio: ratio, ..Cost::default() });
            }
        };
        let f = fires(counting_slows, cost(0.25));
        assert_eq!(f.evidence, ["25% of the speed while counting"]);
        silent(counting_slows, cost(0.98));
    }
}
