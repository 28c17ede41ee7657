//! Changes of a machine or workload that would yield more.

use super::estimate;
use fathom_model::prediction::{Machine, NextStep, Prediction, Range, Workload};

/// Up to this many are named.
const STEPS_MAX: usize = 3;
/// Up to this many moves are tried: a machine may have hundreds of parts.
const MOVES_MAX: usize = 100;
/// What is gained at least.
const GAIN_MIN: f64 = 1.02;

/// A change in words, the machine and the workload with it.
type Change = (String, Machine, Workload);

/// The changes that yield most, the best first.
pub(super) fn steps(machine: &Machine, now: &Prediction) -> Vec<NextStep> {
    let mut steps: Vec<NextStep> = Vec::new();
    for (change, machine, workload) in changes(machine, now) {
        let then = estimate(&machine, &workload);
        // Of parts of the same kind, one is enough.
        let verb = |change: &str| change.split(' ').next().map(str::to_string);
        let is_alike =
            |step: &NextStep| step.iops == then.iops && verb(&step.change) == verb(&change);
        if middle(then.iops) >= middle(now.iops) * GAIN_MIN && !steps.iter().any(is_alike) {
            steps.push(NextStep { change, iops: then.iops, limited_by: then.limited_by });
        }
    }
    steps.sort_by(|a, b| middle(b.iops).total_cmp(&middle(a.iops)));
    steps.truncate(STEPS_MAX);
    steps
}

/// The geometric mean of the bounds; the lower one where there is no other.
fn middle(range: Range) -> f64 {
    if range.high.is_finite() { (range.low * range.high).sqrt() } else { range.low }
}

/// What could be changed about each limit.
fn changes(machine: &Machine, now: &Prediction) -> Vec<Change> {
    let workload = &now.workload;
    let is_limit = |name: &str| now.limited_by.iter().any(|limit| limit == name);
    let mut all = moves(machine, workload, &is_limit);
    let mut add = |text: String, change: &dyn Fn(&mut Machine, &mut Workload)| {
        let (mut machine, mut workload) = (machine.clone(), workload.clone());
        change(&mut machine, &mut workload);
        all.push((text, machine, workload));
    };
    for (at, part) in machine.parts.iter().enumerate().filter(|(_, part)| is_limit(&part.name)) {
        if part.pcie.is_some_and(|link| link.0.lanes < 16) {
            add(format!("give {} twice the lanes", part.name), &|machine, _| {
                machine.parts[at].pcie.iter_mut().for_each(|link| link.0.lanes *= 2);
            });
        }
    }
    if is_limit(super::DISKS) {
        add("twice as many disks".into(), &|machine, _| {
            let all = machine.disks.iter_mut();
            all.for_each(|disks| disks.count = disks.count.saturating_mul(2));
        });
    }
    for (at, disks) in machine.disks.iter().enumerate() {
        let name = &disks.name;
        if is_limit(name) || is_limit(&super::links_of(name)) {
            let twice = disks.count.saturating_mul(2);
            add(format!("{twice} × {name} instead of {}", disks.count), &|machine, _| {
                machine.disks[at].count = twice;
            });
        }
    }
    if now.limited_by.iter().any(|limit| limit.contains("CPU")) {
        match (workload.workers, machine.cpu.cores) {
            (Some(workers), Some(cores)) if workers < cores => {
                let more = cores.min(workers.saturating_mul(2));
                add(format!("{more} workers"), &|_, workload| workload.workers = Some(more));
            }
            _ => add("twice the cores".into(), &|machine, workload| {
                machine.cpu.cores.iter_mut().for_each(|cores| *cores = cores.saturating_mul(2));
                workload.workers = workload.workers.max(machine.cpu.cores);
            }),
        }
        let less = "half the cycles per I/O (polling, registered buffers, larger batches)";
        add(less.into(), &|machine, workload| {
            for cycles in [&mut machine.cpu.cycles_per_io, &mut workload.cycles_per_io] {
                *cycles = cycles.map(|cycles| cycles.map(|cycles| cycles / 2.0));
            }
        });
    }
    if is_limit(super::QUEUE_DEPTH) {
        let twice = workload.iodepth.unwrap_or(1).saturating_mul(2);
        add(format!("iodepth={twice}"), &|_, workload| workload.iodepth = Some(twice));
    }
    if is_limit(super::SCHEDULER) {
        add("scheduler none".into(), &|_, workload| workload.scheduler_cycles = None);
    }
    if is_limit(super::MEMORY) {
        add("twice the memory bandwidth".into(), &|machine, _| {
            let memory = machine.memory.iter_mut();
            memory.for_each(|memory| memory.bandwidth = memory.bandwidth.map(|all| all * 2.0));
        });
    }
    all
}

/// What is attached to a part that is a limit, on another root complex.
fn moves(machine: &Machine, workload: &Workload, is_limit: &dyn Fn(&str) -> bool) -> Vec<Change> {
    let mut all = Vec::new();
    for from in machine.parts.iter().filter(|part| is_limit(&part.name)) {
        let own = machine.root_of(from);
        let roots = machine.parts.iter().filter(|part| part.on.is_none() && part.name != own);
        for to in roots {
            if all.len() >= MOVES_MAX {
                return all;
            }
            let here = |on: &Option<String>| on.as_ref() == Some(&from.name);
            let mut moved = |name: &str, change: &dyn Fn(&mut Machine)| {
                let mut machine = machine.clone();
                change(&mut machine);
                all.push((format!("move {name} to {}", to.name), machine, workload.clone()));
            };
            for (at, part) in machine.parts.iter().enumerate().filter(|(_, part)| here(&part.on)) {
                moved(&part.name, &|machine| machine.parts[at].on = Some(to.name.clone()));
            }
            for (at, disks) in machine.disks.iter().enumerate().filter(|(_, disks)| here(&disks.on))
            {
                moved(&disks.name, &|machine| machine.disks[at].on = Some(to.name.clone()));
            }
        }
    }
    all
}
