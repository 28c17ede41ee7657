//! What the load generator and the way in which it submits I/O cost.

use super::View;
use super::cpu::{BUSY_CPUS, OWN_TIME};
use super::view::{CPU_SAMPLES_MIN, CPUS_BUSY_MIN, share_text};
use crate::derive;
use crate::layers::Layer;
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
use fathom_model::watch::ThreadState;

/// Programs that make load, by the names of their processes.
const GENERATORS: [&str; 10] = [
    "fio",
    "fathom",
    "iozone",
    "bonnie++",
    "sysbench",
    "elbencho",
    "filebench",
    "vdbench",
    "dbench",
    "dd",
];
/// Share of its CPU time that a generator must spend in user mode, and of all of its time on a CPU.
const USER_MIN: f64 = 0.4;
const ON_CPU_MIN: f64 = 0.5;
/// I/Os in flight for each thread that submits them, at least, and I/Os per batch, at most.
const IN_FLIGHT_MIN: f64 = 8.0;
const BATCH_MAX: f64 = 2.0;
/// Share of CPU time that larger batches must save.
const SAVED_MIN: f64 = 0.15;
/// The part of each layer's CPU time per I/O that went when 16 I/Os were submitted and reaped at once instead of one:
/// io_uring and libaio on zram, loop devices and sparse files, whose sums this meets within 5 points (docs/accuracy.md).
const SAVED: [(Layer, f64); 5] = [
    (Layer::Syscall, 0.9),
    (Layer::Uring, 0.4),
    (Layer::Aio, 0.4),
    (Layer::Block, 0.3),
    (Layer::Driver, 0.2),
];
/// The same of the load generator's own code, where that is fathom's.
const SAVED_OF_OWN_CODE: f64 = 0.9;
/// CPUs that SQPOLL threads must use, and the part of that time with work, at most.
const POLLING_MIN: f64 = 0.25;
const WORK_MAX: f64 = 0.5;
/// Share of its time for which the workload must wait for a CPU meanwhile.
const WAIT_MIN: f64 = 0.1;

pub(in crate::rules) static LOAD_GENERATOR: Rule = Rule {
    id: "load-generator",
    limits: "the load generator",
    meaning: "The load generator itself, in user mode, used the CPU time that limits it: its figures are its own ceiling.",
    threshold: || {
        format!(
            "run, or a watched program with the name of a generator ({}): its threads were on a CPU {} of the time or more, and \
             {:.0}% or more of {CPU_SAMPLES_MIN} CPU samples or more were in user mode.",
            GENERATORS.join(", "),
            share_text(ON_CPU_MIN),
            USER_MIN * 100.0
        )
    },
    remedy: "Leave out what it does beside I/O (verify, logs, maps of random blocks: norandommap), use more jobs, or compare with \
             fathom run and the same job file",
    supersedes: &[&OWN_TIME],
    confirmation: Some(Confirmation::gain(Change::Jobs)),
    checks: &[Check::View(load_generator)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| {
                s.computes(0.95);
                s.cpu_samples(&[], 200);
            },
            // It is in the kernel.
            near_miss: |s| {
                s.computes(0.95);
                s.cpu_samples(&["do_syscall_64", "blk_mq_submit_bio"], 200);
            },
            summary: "fio itself limited its load: its threads were on a CPU 95% of the time, 100% of that in user mode, in its own \
                      code.",
        },
        // Hardly any time is on a CPU.
        Case::NearMiss(|s| {
            s.computes(0.3);
            s.cpu_samples(&[], 200);
        }),
        // Another program may compute.
        Case::NearMiss(|s| {
            s.computes(0.95);
            s.cpu_samples(&[], 200);
            s.own().comm = "postgres".into();
        }),
    ],
    ..Rule::LIMITER
};

fn load_generator(view: &View) -> Option<Claim> {
    let on_cpu = view.share(view.state(ThreadState::OnCpu));
    let user = view.layers.share(Layer::Program);
    let is_generator = view.is_own && GENERATORS.contains(&view.who.as_str());
    let enough = view.layers.samples >= CPU_SAMPLES_MIN;
    if !is_generator || !enough || user < USER_MIN || on_cpu < view.share_min(ON_CPU_MIN) {
        return None;
    }
    let summary = format!(
        "{} itself limited its load: its threads were on a CPU {:.0}% of the time, {:.0}% of that in user mode, in its own code.",
        view.who,
        on_cpu * 100.0,
        user * 100.0
    );
    let evidence = vec![
        Evidence::number("time on a CPU", on_cpu, Unit::Share)
            .with_source("/proc/PID/task/TID/schedstat"),
        Evidence::number("user mode", user, Unit::Share).with_source("CPU samples"),
    ];
    let claim = Claim::new(summary, evidence)
        .about(view.workload())
        .command(view.stacks_command(ThreadState::OnCpu));
    Some(claim.weight(on_cpu * user).confidence(Confidence::High))
}

pub(in crate::rules) static SMALL_BATCHES: Rule = Rule {
    id: "small-batches",
    limits: "small batches of submitted I/Os",
    meaning: "I/Os reached the driver one by one although many were in flight, and the workload is CPU-bound: each batch (plug) costs \
              a system call, and notifies the device.",
    threshold: || {
        let saved =
            SAVED.map(|(layer, part)| format!("{:.0}% of that in {}", part * 100.0, layer.name()));
        format!(
            "{IN_FLIGHT_MIN:.0} I/Os or more were in flight for each submitting thread, batches had {BATCH_MAX} of them or fewer on \
             average (run: submissions; watch: plugs flushed by the program's tasks), threads were on a CPU {} of the time or more, \
             and larger batches would save {:.0}% or more of the CPU time: as {CPU_SAMPLES_MIN} CPU samples or more show, {}, and in \
             `run` {:.0}% of that in user mode.",
            share_text(ON_CPU_MIN),
            SAVED_MIN * 100.0,
            saved.join(", "),
            SAVED_OF_OWN_CODE * 100.0
        )
    },
    remedy: "Submit more at once: a higher iodepth_batch_submit and iodepth_batch_complete_min with io_uring or libaio",
    confirmation: Some(Confirmation::gain(Change::LargerBatches)),
    checks: &[Check::View(small_batches)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.plugs(&[(1, 1000), (2, 10)], 16.0, 0.95),
            near_miss: |s| s.plugs(&[(1, 10), (8, 1000)], 16.0, 0.95),
            summary: "fio submitted 1.0 I/Os at a time on average, with 16.0 in flight, and was on a CPU 95% of the time, 30% of \
                      which larger batches save.",
        },
        // There are no more I/Os to submit at once.
        Case::NearMiss(|s| s.plugs(&[(1, 1000), (2, 10)], 2.0, 0.95)),
        // It waits for the device.
        Case::NearMiss(|s| s.plugs(&[(1, 1000), (2, 10)], 16.0, 0.3)),
    ],
    ..Rule::LIMITER
};

/// Mean number of I/Os that were submitted at a time, and in flight for each thread that submits.
fn batches(view: &View) -> Option<(f64, f64)> {
    let mean = |counts: &[(u32, u64)]| {
        let calls: u64 = counts.iter().map(|(_, calls)| calls).sum();
        let ios: f64 = counts.iter().map(|(size, calls)| f64::from(*size) * *calls as f64).sum();
        (calls > 0).then(|| ios / calls as f64)
    };
    if !view.is_run() {
        let tasks = &view.seen.last().blocks.as_ref()?.tasks;
        let own = tasks.iter().find(|task| task.comm == view.seen.processes.watched.comm)?;
        let threads = view.states(&[
            ThreadState::OnCpu,
            ThreadState::Runnable,
            ThreadState::IoUring,
            ThreadState::Aio,
        ]);
        return Some((mean(&own.unplugs)?, view.disk()?.queue / threads.max(1.0)));
    }
    let polls = |job: &fathom_model::record::JobRecord| {
        job.granted.setup_flags.iter().any(|flag| flag == "SQPOLL")
    };
    let jobs: Vec<_> = derive::jobs(view.record).collect();
    let one_by_one = jobs.iter().any(|(plan, job)| plan.engine.is_synchronous() || polls(job));
    let in_flight = jobs.iter().filter_map(|(_, job)| derive::in_flight(job, job.runtime_ns));
    let in_flight = in_flight.fold(f64::INFINITY, f64::min);
    let submits: Vec<(u32, u64)> =
        jobs.iter().flat_map(|(_, job)| job.depth.submit.iter().copied()).collect();
    if one_by_one {
        return None;
    }
    Some((mean(&submits)?, in_flight))
}

fn small_batches(view: &View) -> Option<Claim> {
    let (batch, in_flight) = batches(view).filter(|_| view.is_own)?;
    let on_cpu = view.share(view.state(ThreadState::OnCpu));
    let in_kernel: f64 = SAVED.iter().map(|(layer, part)| part * view.layers.share(*layer)).sum();
    // More than that is no cost of submitting (load-generator).
    let own_code = Some(view.layers.share(Layer::Program));
    let own_code = own_code.filter(|share| view.is_run() && *share < USER_MIN).unwrap_or(0.0);
    let saved = in_kernel + SAVED_OF_OWN_CODE * own_code;
    if batch > BATCH_MAX
        || in_flight < IN_FLIGHT_MIN
        || on_cpu < view.share_min(ON_CPU_MIN)
        || view.layers.samples < CPU_SAMPLES_MIN
        || saved < SAVED_MIN
    {
        return None;
    }
    let summary = format!(
        "{} submitted {batch:.1} I/Os at a time on average, with {in_flight:.1} in flight, and was on a CPU {:.0}% of the time, \
         {:.0}% of which larger batches save.",
        view.subject(),
        on_cpu * 100.0,
        saved * 100.0
    );
    let source = if view.is_run() { "" } else { "block_unplug" };
    let evidence = vec![
        Evidence::number("I/Os per submission", batch, Unit::Count).with_source(source),
        Evidence::number("CPU time that larger batches save", saved, Unit::Share)
            .with_source("CPU samples"),
    ];
    let claim = Claim::new(summary, evidence).about(view.workload());
    Some(claim.weight(on_cpu * saved).confidence(Confidence::Low))
}

pub(in crate::rules) static SQPOLL_STARVED: Rule = Rule {
    id: "sqpoll-starved",
    limits: "the polling of io_uring's SQPOLL thread",
    meaning: "io_uring's SQPOLL thread used a CPU that the program waited for, and mostly found no new I/Os: it got too few at a time.",
    threshold: || {
        format!(
            "SQPOLL threads used {POLLING_MIN} CPUs or more, with work to do for at most {:.0}% of that time, while the CPUs were \
             neither idle nor waiting for I/O {CPUS_BUSY_MIN:.0}% of the time or more, and the program's threads were \
             runnable but off-CPU {:.0}% of the time or more. Only where the kernel counts that (Linux 6.9).",
            WORK_MAX * 100.0,
            WAIT_MIN * 100.0
        )
    },
    remedy: "Leave out SQPOLL (sqthread_poll), give its thread a CPU of its own (sqthread_poll_cpu), or submit more I/Os at a time",
    supersedes: &[&OWN_TIME, &BUSY_CPUS],
    confirmation: Some(Confirmation::gain(Change::NoSqPoll)),
    checks: &[Check::View(sqpoll_starved)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.sq_poll(0.9, 0.15, 0.5),
            // It works.
            near_miss: |s| s.sq_poll(0.9, 0.8, 0.5),
            summary: "The SQPOLL thread of fio used 0.90 CPUs, but had work for only 15% of that time; fio was runnable but \
                      off-CPU 50% of the time.",
        },
        // Nobody waits for the CPU.
        Case::NearMiss(|s| s.sq_poll(0.9, 0.15, 0.05)),
        // It sleeps.
        Case::NearMiss(|s| s.sq_poll(0.1, 0.15, 0.5)),
        // There are idle CPUs.
        Case::NearMiss(|s| {
            s.sq_poll(0.9, 0.15, 0.5);
            s.busy(60);
        }),
        Case::View {
            // Not where its job may run.
            holds: |s| s.sq_poll_on_a_cpu(&[1]),
            near_miss: |s| s.sq_poll_on_a_cpu(&[0, 1]),
            summary: "The SQPOLL thread of fathom used 0.50 CPUs, but had work for only 10% of that time; fathom was runnable \
                      but off-CPU 50% of the time.",
        },
    ],
    ..Rule::LIMITER
};

fn sqpoll_starved(view: &View) -> Option<Claim> {
    let (total_us, work_us) = view.seen.sq_poll_us;
    let cpus = derive::per_second(total_us, view.seen.elapsed_ns) / 1e6;
    let work = work_us as f64 / total_us.max(1) as f64;
    let waits = view.share(view.state(ThreadState::Runnable));
    let is_busy = view.cpus_busy().is_some_and(|busy| busy >= CPUS_BUSY_MIN);
    if !view.is_own || cpus < POLLING_MIN || work > WORK_MAX || !is_busy || waits < WAIT_MIN {
        return None;
    }
    let summary = format!(
        "The SQPOLL thread of {who} used {cpus:.2} CPUs, but had work for only {:.0}% of that time; {who} was runnable but \
         off-CPU {:.0}% of the time.",
        work * 100.0,
        waits * 100.0,
        who = view.who
    );
    let evidence = vec![
        Evidence::number("CPUs used by SQPOLL threads", cpus, Unit::Count),
        Evidence::number("time with work", work, Unit::Share),
    ];
    let evidence = evidence
        .into_iter()
        .map(|one| one.with_source("/proc/PID/fdinfo, SqTotalTime, SqWorkTime"));
    let comm = format!("iou-sqp-{}", view.seen.processes.watched.pid);
    let claim = Claim::new(summary, evidence.collect());
    let claim = claim.about(Subject::ThreadGroup { comm, wchan: String::new() });
    Some(claim.weight(waits.min(cpus * (1.0 - work))).confidence(Confidence::Medium))
}
