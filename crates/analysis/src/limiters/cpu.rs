//! CPU time: that of other programs, and the workload's own.

use super::{Cause, View};
use fathom_model::finding::{Confidence, Evidence, Unit};
use fathom_model::watch::{ProcessUse, ThreadState};

/// Id of [`own_time`].
pub(super) const OWN_ID: &str = "own-cpu-time";

/// Share of the time they want a CPU that threads must have waited for one.
const WAIT_MIN: f64 = 0.1;
/// CPUs that other programs must have used.
const OTHERS_MIN: f64 = 0.25;
/// Share of their time that threads must have been on a CPU to be limited by it.
const ON_CPU_MIN: f64 = 0.7;
/// Mean number of threads on a CPU below which CPU time limits nothing.
const THREADS_MIN: f64 = 0.7;

pub(super) fn other_programs(view: &View) -> Option<Cause> {
    let processes = &view.seen.processes;
    if !view.is_own || processes.elapsed_ns == 0 || super::cgroup::cpu_quota(view).is_some() {
        return None;
    }
    let (ran, waited) = (view.state(ThreadState::OnCpu), view.state(ThreadState::Runnable));
    let share = waited / (ran + waited).max(1e-9);
    let others: Vec<&ProcessUse> = processes.by_cpu();
    let all: f64 = others.iter().map(|uses| processes.cpus(uses)).sum();
    if share < WAIT_MIN || waited < 0.05 || all < OTHERS_MIN {
        return None;
    }
    let most = others.first()?;
    let own = processes.cpus(&processes.watched);
    let busy = view.rates.system.as_ref().map_or(0.0, |system| system.cpu.busy() / 100.0);
    Some(Cause {
        id: "other-programs-cpu",
        weight: share,
        confidence: Confidence::High,
        summary: format!(
            "{} used {:.2} of {} CPUs, {} itself {own:.2}; its threads waited for a CPU {:.0}% of the time that they \
             wanted one.",
            most.named(),
            processes.cpus(most),
            view.cpus(),
            view.who,
            share * 100.0
        ),
        evidence: vec![
            Evidence::number("CPUs used by other programs", all, Unit::Count)
                .with_source("/proc/PID/stat"),
            Evidence::number("all CPUs busy", busy, Unit::Share).with_source("/proc/stat"),
        ],
        next_step: "Stop the other program, or keep both apart with taskset or a cpuset".into(),
    })
}

pub(super) fn own_time(view: &View) -> Option<Cause> {
    let (ran, waited) = (view.state(ThreadState::OnCpu), view.state(ThreadState::Runnable));
    let busy = view.busy_threads();
    let share = (ran + waited) / busy.max(1e-9);
    let is_held = super::cgroup::cpu_quota(view).is_some() || other_programs(view).is_some();
    if !view.is_own || is_held || ran < THREADS_MIN || share < ON_CPU_MIN {
        return None;
    }
    let rows = view.layers.layers.iter().filter(|_| view.layers.samples >= 200);
    let largest = rows.max_by_key(|row| row.time);
    let layer = largest.map(|row| {
        Evidence::number(row.layer.name(), view.layers.share(row.layer), Unit::Share)
            .with_source("CPU samples")
    });
    Some(Cause {
        id: OWN_ID,
        weight: share * 0.9,
        confidence: Confidence::High,
        summary: format!(
            "{} spends its time on the CPU: {ran:.1} of its {busy:.1} busy threads ran on average, on {} CPUs.",
            view.who,
            view.cpus()
        ),
        evidence: layer.into_iter().collect(),
        next_step: match ran + 0.5 >= view.cpus() {
            true => "All CPUs are in use: lower the CPU time per I/O".into(),
            false => "Use more threads or jobs, or lower the CPU time per I/O".into(),
        },
    })
}
