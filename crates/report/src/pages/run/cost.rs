//! What an I/O cost, how deep the queues were, and which settings were in effect.

use super::{listed, plans};
use crate::doc::{Document, Text, count, named, number, of, plural, text, time, whole};
use crate::pages::watch::device_figures;
use crate::pages::{counters, parts};
use fathom_analysis::derive::{self, JobGroup};
use fathom_analysis::machine::DiskRates;
use fathom_analysis::rules;
use fathom_model::facts::TargetFacts;
use fathom_model::list;
use fathom_model::plan::{Engine, JobPlan};
use fathom_model::record::{Cost, DiskRecord, InEffect, JobRecord, RunRecord};

/// The kernel divides CPU time into user and kernel time by timer ticks (1 to 10 ms): below this there are too
/// few of them.
const SPLIT_MIN_NS: u64 = 1_000_000_000;
/// Up to this many disks have a line each.
const DISKS_SHOWN: usize = 8;

pub(super) fn cost(body: &mut Document, record: &RunRecord, group: &JobGroup) {
    let done = &group.record;
    body.entry("queue depth", depth(record, group));
    body.entry("CPU per I/O", cpu(done, group.plan));
    body.entry("counters", done.cost.as_ref().map(counters::per_io_of_worker));
    body.entry("workers", workers(record, group));
    if group.plan.engine.uring().is_some() {
        let (on, off) = in_effect(record, group);
        body.entry("io_uring flags", parts(on.into_iter().map(Text::from)));
        body.entry("not in effect", parts(off.into_iter().map(Text::from)));
    }
}

fn depth(record: &RunRecord, group: &JobGroup) -> Option<Text> {
    let plans = plans(record, group);
    if plans.iter().all(|plan| plan.engine.is_synchronous() && plan.depth == 1) {
        return None;
    }
    let mean = derive::in_flight(&group.record, group.worker_ns)?;
    let depths = listed(plans.iter().map(|plan| plan.depth), u32::to_string);
    let most = named("max", whole(group.record.depth.in_flight_max));
    let each = if group.jobs.len() > 1 { ", per job" } else { "" };
    let in_flight = text!(of(number(mean), "in flight"), " (", most, ")", each);
    Some(text!(depths, " requested, ", in_flight))
}

fn cpu(done: &JobRecord, plan: &JobPlan) -> Option<Text> {
    let per_io = time(derive::cpu_per_io_ns(done)?.round());
    let ios = derive::ios(done) as f64;
    let usage = &done.usage;
    let has_sqpoll = plan.engine.uring().is_some_and(|ring| ring.sqpoll.is_some());
    let helpers = match plan.engine {
        Engine::Posixaio => "C library's threads",
        _ if has_sqpoll => "SQPOLL and io-wq",
        _ => "io-wq",
    };
    let mut spent = vec![(helpers, usage.helper_ns)];
    if usage.user_ns + usage.system_ns >= SPLIT_MIN_NS {
        spent.splice(0..0, [("user", usage.user_ns), ("kernel", usage.system_ns)]);
    }
    spent.retain(|(_, ns)| *ns > 0);
    let parts = spent.into_iter().map(|(name, ns)| of(time((ns as f64 / ios).round()), name));
    let parts = Text::join(parts, " + ");
    let parts = if parts.is_empty() { parts } else { text!(" (", parts, ")") };
    let most = count(derive::one_core_iops(done).unwrap_or(0.0));
    Some(text!(per_io, parts, "; max ", most, " IOPS per core"))
}

fn workers(record: &RunRecord, group: &JobGroup) -> Option<Text> {
    let jobs = group.jobs.iter().filter_map(|index| record.jobs.get(*index)?.cost);
    let costs: Vec<Cost> = jobs.collect();
    let range = |of: &dyn Fn(&Cost) -> Option<f64>| {
        let values: Option<Vec<f64>> = costs.iter().map(of).collect();
        let values = values.filter(|values| values.len() > 1)?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some((least, values.into_iter().fold(0.0, f64::max)))
    };
    let instructions = |cost: &Cost| Some(cost.user_instructions + cost.kernel_instructions?);
    let (least, most) = range(&instructions)?;
    let (low, high) = range(&|cost| derive::ipc(cost).all)?;
    Some(text!(
        text!(count(least), "–", count(most)),
        " instructions per I/O, ",
        named("IPC", text!(number(low), "–", number(high)))
    ))
}

fn in_effect(record: &RunRecord, group: &JobGroup) -> (Vec<String>, Vec<String>) {
    let granted = &group.record.granted;
    let ring = group.plan.engine.uring().cloned().unwrap_or_default();
    let takes_target = !matches!(group.plan.engine, Engine::Nop(_));
    let mut on: Vec<String> = granted.setup_flags.clone();
    let registered = registered_parts(granted).into_iter().filter(|(on, _)| *on);
    let registered: Vec<&str> = registered.map(|(_, name)| name).collect();
    if !registered.is_empty() {
        on.push(format!("registered\u{a0}{}", registered.join(", ")));
    }
    if granted.huge_pages {
        on.push("huge pages".to_string());
    }
    let polls = granted.polled && rules::unpolled(record, group.plan).is_empty();
    if polls {
        on.push("polled completions".to_string());
    }
    let lacks = [
        (ring.iopoll && !polls, "polled completions"),
        (ring.fixed_buffers && !granted.fixed_buffers, "registered buffers"),
        (ring.registered_files && !granted.registered_files, "registered files"),
    ];
    let lacks = lacks.into_iter().filter(|(lacks, _)| takes_target && *lacks);
    let off = lacks.map(|(_, name)| name.to_string()).chain(granted.refused_flags.iter().cloned());
    (on, off.collect())
}

fn registered_parts(granted: &InEffect) -> [(bool, &'static str); 3] {
    [
        (granted.fixed_buffers, "buffers"),
        (granted.registered_files, "files"),
        (granted.registered_ring, "ring"),
    ]
}

/// The disks below the targets, as iostat shows them; of many, their total and the busiest. Where it is not known which
/// disks hold a target, those that did any I/O.
pub(super) fn disks(body: &mut Document, record: &RunRecord) {
    let known: Vec<&str> =
        record.header.facts.targets.iter().flat_map(TargetFacts::device_names).collect();
    let is_shown = |disk: &&DiskRecord| disk.busy_ms > 0 || known.contains(&disk.name.as_str());
    let mut disks: Vec<&DiskRecord> = record.disks.iter().filter(is_shown).collect();
    if disks.len() > DISKS_SHOWN {
        let all = disks.iter().map(|disk| (*disk).clone()).reduce(|all, disk| all.with(&disk));
        let count = plural(disks.len() as u64, "disk");
        body.entry("all disks", all.map(|all| text!(count, ": ", disk(&all))));
        disks.sort_by(|a, b| b.util().total_cmp(&a.util()).then(list::natural(&a.name, &b.name)));
        disks.truncate(DISKS_SHOWN / 2);
    }
    for one in disks {
        body.entry(&one.name, disk(one));
    }
}

fn disk(disk: &DiskRecord) -> Text {
    let elapsed_ns = disk.elapsed_ms.saturating_mul(1_000_000);
    text!(device_figures(&DiskRates::from(disk), elapsed_ns, None), " (all programs)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{self, Style};

    #[test]
    fn of_many_disks_the_total_and_the_busiest() {
        let disk = |n: u64| DiskRecord {
            name: format!("loop{n}"),
            busy_ms: n,
            elapsed_ms: 100,
            ..DiskRecord::default()
        };
        let lines = |count: u64| {
            let disks = (1..=count).map(disk).collect();
            let mut page = Document::default();
            super::disks(&mut page, &RunRecord { disks, ..RunRecord::default() });
            render::text(&page, Style::default())
        };
        assert_eq!(lines(8).lines().count(), 8);
        let many = lines(40);
        assert_eq!(many.lines().count(), 1 + DISKS_SHOWN / 2, "{many}");
        assert!(many.contains("40 disks: ") && many.contains("loop40 "), "{many}");
    }
}
