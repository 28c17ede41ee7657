//! Moments at which something changed during a record.

use crate::derive;
use crate::timeline::{MachineSum, TimeSpan};
use crate::watch::Observed;
use fathom_model::Finding;
use fathom_model::finding::Value;
use fathom_model::record::RunRecord;

/// CPUs withheld from which on a span counts, and the part of all spans that may: more is no event but the condition.
const WITHHELD_MIN: f64 = 0.25;
const WITHHELD_SPANS_MAX: f64 = 0.5;
/// Stretches with less than this part of all spans between them are one.
const GAP: f64 = 0.1;
/// Events of one kind at most; the first ones.
const EACH_MAX: usize = 3;
/// The rule whose evidence says when throughput fell, and the name of that evidence.
const DROP: &str = "throughput-drop";
pub(crate) const FELL_AFTER: &str = "fell after";

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// In nanoseconds since the start of the time that the charts show.
    pub at_ns: u64,
    pub what: String,
}

/// Phases, errors, CPU time that was withheld, and what a finding dates, in the order of time.
pub fn of_run(record: &RunRecord, seen: &Observed) -> Vec<Event> {
    let mut all = phases(record);
    let spans = seen.jobs_over_time.spans();
    let failed = spans.iter().find(|span| span.sum.iter().any(|(_, sum)| sum.errors > 0.0));
    all.extend(failed.map(|span| Event { at_ns: span.from_ns, what: "first I/O error".into() }));
    let began_ns = seen.began_ns();
    let withheld = withheld(&seen.machine_over_time.spans());
    all.extend(withheld.into_iter().map(|one| Event { at_ns: one.at_ns + began_ns, ..one }));
    sorted(all, &record.header.findings)
}

/// The same of a record without jobs, whose time begins with the first sample.
pub fn of_watch(findings: &[Finding], seen: &Observed) -> Vec<Event> {
    sorted(withheld(&seen.machine_over_time.spans()), findings)
}

fn sorted(mut all: Vec<Event>, findings: &[Finding]) -> Vec<Event> {
    let drops = findings.iter().filter(|finding| finding.rule == DROP);
    let named = drops.flat_map(|drop| &drop.evidence).filter(|one| one.name == FELL_AFTER);
    all.extend(named.filter_map(|evidence| match evidence.value {
        Value::Number { number, .. } => {
            Some(Event { at_ns: number as u64, what: "throughput fell".into() })
        }
        Value::Text(_) => None,
    }));
    all.sort_by_key(|event| event.at_ns);
    all
}

/// Where the jobs after a `stonewall` began.
fn phases(record: &RunRecord) -> Vec<Event> {
    let mut all: Vec<(u32, Event)> = Vec::new();
    let started = derive::jobs(record).filter(|(plan, job)| plan.wave > 0 && job.runtime_ns > 0);
    for (plan, job) in started {
        match all.iter_mut().find(|(wave, _)| *wave == plan.wave) {
            Some((_, event)) => {
                event.at_ns = event.at_ns.min(job.started_ns);
                if !event.what.split(" + ").any(|name| name == plan.name) {
                    event.what = format!("{} + {}", event.what, plan.name);
                }
            }
            None => {
                all.push((plan.wave, Event { at_ns: job.started_ns, what: plan.name.clone() }));
            }
        }
    }
    all.truncate(EACH_MAX);
    let begins =
        |(_, event): (u32, Event)| Event { what: format!("{} begins", event.what), ..event };
    all.into_iter().map(begins).collect()
}

/// Where CPU time began to be withheld.
fn withheld(spans: &[TimeSpan<MachineSum>]) -> Vec<Event> {
    let cpus = |span: &TimeSpan<MachineSum>| span.sum.withheld * 1e9 / span.observed_ns as f64;
    let withheld = spans.iter().enumerate().filter(|(_, span)| cpus(span) >= WITHHELD_MIN);
    let withheld: Vec<usize> = withheld.map(|(at, _)| at).collect();
    if withheld.len() as f64 > spans.len() as f64 * WITHHELD_SPANS_MAX {
        return Vec::new();
    }
    let gap = (spans.len() as f64 * GAP) as usize + 1;
    let stretches = withheld.chunk_by(|at, next| next - at <= gap);
    let event = |stretch: &[usize]| Event {
        at_ns: spans[stretch[0]].from_ns,
        what: format!(
            "{:.1} CPUs withheld",
            stretch.iter().map(|at| cpus(&spans[*at])).fold(0.0, f64::max)
        ),
    };
    stretches.take(EACH_MAX).map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::finding::{Evidence, Unit};
    use fathom_model::plan::{Distribution, Engine, JobPlan, Mix, Order, Plan};
    use fathom_model::record::JobRecord;

    const SECOND: u64 = 1_000_000_000;

    fn said(events: &[Event]) -> Vec<(u64, &str)> {
        events.iter().map(|event| (event.at_ns / SECOND, event.what.as_str())).collect()
    }

    #[test]
    fn later_phases_and_drops_are_events() {
        let order = || Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let plan = |name: &str, wave| JobPlan {
            wave,
            ..JobPlan::new(name, Engine::Null, Mix::Only(Dir::Read), order())
        };
        let job =
            |at| JobRecord { started_ns: at * SECOND, runtime_ns: SECOND, ..JobRecord::default() };
        let jobs = vec![plan("a", 0), plan("b", 1), plan("b", 1), plan("c", 1)];
        let mut record = RunRecord {
            plan: Plan { jobs, ..Plan::default() },
            jobs: vec![job(0), job(6), job(5), job(7)],
            ..RunRecord::default()
        };
        record.header.findings = vec![Finding {
            rule: DROP.into(),
            evidence: vec![Evidence::number(FELL_AFTER, 4.0 * SECOND as f64, Unit::Nanoseconds)],
            ..Finding::default()
        }];
        let found = of_run(&record, &Observed::default());
        assert_eq!(said(&found), [(4, "throughput fell"), (5, "b + c begins")]);
    }

    #[test]
    fn withheld_time_is_an_event_where_it_begins_unless_it_is_the_rule() {
        let spans = |withheld: &[f64]| -> Vec<TimeSpan<MachineSum>> {
            let span = |(at, withheld): (usize, &f64)| TimeSpan {
                from_ns: at as u64 * SECOND,
                to_ns: (at as u64 + 1) * SECOND,
                observed_ns: SECOND,
                sum: MachineSum { withheld: *withheld, ..MachineSum::default() },
            };
            withheld.iter().enumerate().map(span).collect()
        };
        let found = withheld(&spans(&[0.0, 0.1, 0.5, 0.6, 0.0, 0.0, 0.0]));
        assert_eq!(said(&found), [(2, "0.6 CPUs withheld")]);
        assert_eq!(withheld(&spans(&[0.5, 0.6, 0.5, 0.0])), []);
    }
}
