//! CPU time: that of other programs, and the workload's own.

use super::setting::{Effect, FEWER_CORES_MAX, WORKER_FULL};
#[cfg(test)]
use super::testing::Scene;
use super::view::{
    AGAINST_MIN, CPU_SAMPLES_MIN, CPUS_BUSY_MIN, NAMED_MIN, PEER_CPUS_MIN, number_text, share_text,
};
use super::{SettingView, View};
use crate::account::{Account, AccountGroup};
use crate::limit::thresholds::CORES_SUSPECT;
use crate::limit::{percent, times};
#[cfg(test)]
use crate::rules::testing::{Case, add_test, base, cpu, gains};
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
use fathom_model::limit::ExperimentKind;
#[cfg(test)]
use fathom_model::limit::LimitRecord;
use fathom_model::watch::{ProcessUse, ThreadState};

/// Share of their time that threads must have waited for a CPU.
const WAIT_MIN: f64 = 0.1;
/// Mean number of threads that must have waited for a CPU.
const WAITING_MIN: f64 = 0.2;
/// Mean number of busy threads below which a program mostly waits for something else.
const BUSY_MIN: f64 = 0.5;
/// CPUs that other programs must have used.
const OTHERS_MIN: f64 = 0.25;
/// Share of their time that threads must have been on a CPU to be limited by it.
const ON_CPU_MIN: f64 = 0.7;
/// Mean number of threads on a CPU below which CPU time limits nothing.
const THREADS_MIN: f64 = 0.7;
/// Share of their time that threads must have wanted a CPU, or have waited for another program.
const NEEDED_MIN: f64 = 0.3;

pub(in crate::rules) static OTHER_PROGRAMS: Rule = Rule {
    id: "other-programs-cpu",
    limits: "other programs on the CPUs",
    meaning: "Other programs used the CPUs that the workload's threads waited for.",
    threshold: || {
        format!(
            "The CPUs on which the program may run were neither idle nor waiting for I/O {CPUS_BUSY_MIN:.0}% of the time or \
             more. Other programs used {OTHERS_MIN} of them or more; processes at the other end of its pipes and sockets do not count. On average {BUSY_MIN} threads or \
             more were busy, and {WAITING_MIN} or more, and {:.0}% of the busy ones, waited for a CPU that they would have \
             had without the other programs. Not where more threads waited for each other (brief futex waits).",
            WAIT_MIN * 100.0
        )
    },
    remedy: "Stop the other program, or separate the two with taskset or a cpuset",
    supersedes: &[&OWN_TIME],
    confirmation: Some(Confirmation::gain(Change::AllCpus)),
    checks: &[Check::View(other_programs)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.hog(1.63, 0.4, 0.3),
            near_miss: |s| s.hog(1.63, 0.4, 0.15),
            summary: "stress-ng (pid 812) used 1.63 of 2 CPUs, fio itself 0.10; the threads of fio were runnable but \
                      off-CPU 43% of their runnable time.",
        },
        // The threads wait for the disk; the moments before they run again are not a cause.
        Case::NearMiss(|s| s.hog(1.63, 0.05, 0.05)),
        // There were idle CPUs.
        Case::NearMiss(|s| {
            s.hog(1.63, 0.4, 0.3);
            s.busy(80);
        }),
        // It sleeps for 20 ms, and each time waits for a CPU.
        Case::NearMiss(|s| {
            s.no_threads();
            s.hog(1.63, 0.02, 0.25);
            s.state(ThreadState::Timer, 0.73);
        }),
        // Its threads share a mutex, whose holder competes for a CPU.
        Case::NearMiss(|s| {
            s.hog(1.63, 0.4, 0.3);
            s.state(ThreadState::FutexBrief, 1.2);
        }),
        // A server that works for it.
        Case::NearMiss(|s| {
            s.hog(1.63, 0.4, 0.3);
            s.others()[0].peer = true;
        }),
        Case::View {
            // The other CPU is idle.
            holds: |s| s.bound_to_a_cpu(100),
            // The other program runs there.
            near_miss: |s| s.bound_to_a_cpu(60),
            summary: "stress-ng (pid 812) used 1.00 CPUs, fio itself 0.10 of the 1 CPU that it may use (1); the threads of fio were \
                      runnable but off-CPU 57% of their runnable time.",
        },
        Case::View {
            holds: |s| s.hog(0.6, 1.4, 0.6),
            // Its own threads compete for the CPUs.
            near_miss: |s| s.hog(0.1, 1.9, 2.1),
            summary: "stress-ng (pid 812) used 0.60 of 2 CPUs, fio itself 0.10; the threads of fio were runnable but \
                      off-CPU 30% of their runnable time.",
        },
        // The same, with a server that works for it.
        Case::NearMiss(|s| {
            s.hog(0.6, 1.4, 0.6);
            s.other("postgres", 0.5, 0);
            s.others()[1].peer = true;
        }),
    ],
    ..Rule::LIMITER
};

/// CPUs that other programs used, without peers, and the mean number of threads that waited for a CPU because of that.
fn others(view: &View) -> (f64, f64) {
    let processes = &view.seen.processes;
    let by_cpu = processes.by_cpu();
    let used = |is_peer: bool| -> f64 {
        by_cpu.iter().filter(|uses| uses.peer == is_peer).map(|uses| processes.cpus(uses)).sum()
    };
    // An account includes what peers did.
    let peers = if view.account.is_some() { 0.0 } else { used(true) };
    let (ran, waited) = (view.state(ThreadState::OnCpu), view.state(ThreadState::Runnable));
    // More threads than CPUs would wait without other programs, too.
    let without = (ran + waited + peers - view.cpus()).max(0.0);
    // Not those that ran on CPUs where the program may not, nor threads of its own that do no I/O.
    let own = ran.max(processes.cpus(&processes.watched));
    let beside = view.only_cpus().zip(view.cpus_busy());
    let beside = beside.map(|(only, busy)| (busy / 100.0 * only.len() as f64 - own).max(0.0));
    let others = used(false).min(beside.unwrap_or(f64::INFINITY));
    (others, (waited - without).min(others).max(0.0))
}

fn other_programs(view: &View) -> Option<Claim> {
    let processes = &view.seen.processes;
    let by_cpu = processes.by_cpu();
    let (others, caused) = others(view);
    let (ran, waited) = (view.state(ThreadState::OnCpu), view.state(ThreadState::Runnable));
    let share = view.share(caused);
    let busy = view.cpus_busy().filter(|busy| *busy >= CPUS_BUSY_MIN)?;
    let is_busy = view.is_own && processes.elapsed_ns > 0 && view.busy_threads() >= BUSY_MIN;
    let waits = caused >= WAITING_MIN && share >= WAIT_MIN && others >= OTHERS_MIN;
    if !is_busy || !waits || view.state(ThreadState::FutexBrief) > caused {
        return None;
    }
    let (most, who) = (by_cpu.iter().find(|uses| !uses.peer)?, &view.who);
    let (all, own) = (processes.cpus(most), processes.cpus(&processes.watched));
    let used = match view.only_cpus() {
        Some(_) => format!(
            "{} used {all:.2} CPUs, {who} itself {own:.2} of the {}",
            most.named(),
            view.cpus_named()
        ),
        None => format!(
            "{} used {all:.2} of {}, {who} itself {own:.2}",
            most.named(),
            view.cpus_named()
        ),
    };
    let summary = format!(
        "{used}; the threads of {} were runnable but off-CPU {:.0}% of their runnable time.",
        view.who_in(ThreadState::Runnable),
        waited / (ran + waited).max(1e-9) * 100.0
    );
    let others = Evidence::number("CPUs used by other programs", others, Unit::Count);
    let evidence = vec![
        others.with_source("/proc/PID/stat"),
        Evidence::number("all CPUs busy", busy / 100.0, Unit::Share).with_source("/proc/stat"),
    ];
    let claim = Claim::new(summary, evidence).about(program(most));
    Some(claim.weight(share).confidence(Confidence::High))
}

/// A program, by its process where it has only one.
pub(super) fn program(uses: &ProcessUse) -> Subject {
    let pid = (uses.processes == 1).then_some(uses.pid);
    Subject::Process { comm: uses.comm.clone(), pid }
}

pub(in crate::rules) static BUSY_CPUS: Rule = Rule {
    id: "busy-cpus",
    limits: "the CPUs",
    meaning: "All CPUs were in use.",
    threshold: || {
        format!(
            "CPUs were neither idle nor waiting for I/O {CPUS_BUSY_MIN:.0}% of the time or more, and on average {WAITING_MIN} \
             threads or more were runnable. For a program: {BUSY_MIN} threads or more were busy, it spent {} of its time or more running, runnable or waiting \
             for a process that used {PEER_CPUS_MIN} CPUs or more at the other end of its pipes and sockets, and neither \
             `other-programs-cpu` nor `own-cpu-time` holds. Not where more threads waited for each other. In a search, neither \
             a deeper queue nor more workers yield a gain, CPU usage is {:.0}% or more, and half of the CPUs yield less than \
             {FEWER_CORES_MAX} times the IOPS with 95% confidence; or the only CPU is {CPUS_BUSY_MIN:.0}% busy, and its worker uses \
             {:.0}% of it.",
            share_text(NEEDED_MIN),
            CORES_SUSPECT * 100.0,
            WORKER_FULL * 100.0
        )
    },
    remedy: "Use more CPUs, or reduce CPU time; `fathom top` shows what uses it",
    confirmation: Some(Confirmation::gain(Change::AllCpus)),
    checks: &[Check::View(busy_cpus), Check::Setting("the CPUs", cpus_at_setting)],
    #[cfg(test)]
    cases: &[
        Case::Setting {
            holds: |r| {
                gains(r, [0.98, 1.02], [0.98, 1.02]);
                on_half_of_the_cpus(r, [0.45, 0.55]);
            },
            near_miss: |r| {
                gains(r, [0.98, 1.02], [0.98, 1.02]);
                on_half_of_the_cpus(r, [0.9, 1.0]);
            },
            summary: "CPU usage is 97%. With half the CPUs, IOPS are 0.50× (95% CI 0.45–0.55).",
        },
        Case::View {
            holds: client,
            // It sleeps for 20 ms, and each time waits for a CPU.
            near_miss: |s| {
                s.no_threads();
                s.hog(1.5, 0.02, 0.3);
                s.state(ThreadState::Timer, 0.68);
            },
            summary: "The 2 CPUs were 95% busy; stress-ng (pid 812) used 1.50 of them, fio itself 0.10.",
        },
        Case::View {
            holds: |s| {
                s.whole_machine();
                s.hog(1.9, 1.9, 0.3);
                s.busy(98);
            },
            near_miss: |s| {
                s.whole_machine();
                s.hog(1.5, 1.5, 0.1);
                s.busy(80);
            },
            summary: "The 2 CPUs were 98% busy; stress-ng (pid 812) used 1.90 of them.",
        },
        Case::View {
            // Threads of other programs wait for each other.
            holds: |s| {
                s.whole_machine();
                s.hog(1.9, 1.9, 0.3);
                s.busy(98);
                s.state(ThreadState::FutexBrief, 4.5);
            },
            near_miss: |s| {
                s.whole_machine();
                s.hog(1.9, 1.9, 0.0);
                s.busy(98);
                s.state(ThreadState::FutexBrief, 4.5);
            },
            summary: "The 2 CPUs were 98% busy; stress-ng (pid 812) used 1.90 of them.",
        },
        Case::View {
            // A client of a program that does the work.
            holds: client,
            // Nobody waits for a CPU.
            near_miss: |s| {
                client(s);
                s.state(ThreadState::Runnable, 0.1);
            },
            summary: "The 2 CPUs were 95% busy; stress-ng (pid 812) used 1.50 of them, fio itself 0.10.",
        },
        // It waits for something else, such as another machine.
        Case::NearMiss(|s| {
            client(s);
            s.others()[0].peer = false;
        }),
    ],
    ..Rule::LIMITER
};

/// A client of a program that does the work.
#[cfg(test)]
fn client(scene: &mut Scene) {
    scene.no_threads();
    scene.hog(1.5, 0.4, 0.3);
    scene.others()[0].peer = true;
    scene.state(ThreadState::Poll, 3.0);
}

fn busy_cpus(view: &View) -> Option<Claim> {
    use ThreadState as S;
    let busy = view.cpus_busy().filter(|busy| *busy >= CPUS_BUSY_MIN)?;
    let others = view.states(&[S::Socket, S::Poll, S::Pipe]);
    let worked_for = if view.peer().is_some() { others } else { 0.0 };
    let wanted = view.states(&[S::OnCpu, S::Runnable]) + worked_for;
    let runnable = view.state(S::Runnable);
    let needed = if view.is_own { wanted / (view.busy_threads() + others).max(1e-9) } else { 1.0 };
    // Of all the threads of a machine, many wait for each other in other programs than those that wait for a CPU.
    let brief = if view.is_own { view.state(S::FutexBrief) } else { 0.0 };
    let is_short = runnable >= WAITING_MIN.max(brief);
    let is_idle = view.is_own && view.busy_threads() + worked_for < BUSY_MIN;
    if !is_short
        || is_idle
        || needed < view.share_min(NEEDED_MIN)
        || other_programs(view).is_some()
        || own_time(view).is_some()
    {
        return None;
    }
    let processes = &view.seen.processes;
    let most = processes.by_cpu().into_iter().next();
    let most = most.filter(|most| processes.cpus(most) >= OTHERS_MIN);
    let most = most.map(|most| {
        let own = format!(", {} itself {:.2}", view.who, processes.cpus(&processes.watched));
        let own = if view.is_own { own.as_str() } else { "" };
        // It may have used others as well.
        let of = if view.only_cpus().is_some() { "CPUs" } else { "of them" };
        format!("; {} used {:.2} {of}{own}", most.named(), processes.cpus(most))
    });
    let cpus = match (view.only_cpus(), view.cpus() > 1.0) {
        (_, true) => format!("{} were", view.cpus_named()),
        (Some(_), false) => format!("{} was", view.cpus_named()),
        (None, false) => "CPU was".into(),
    };
    let summary = format!("The {cpus} {busy:.0}% busy{}.", most.unwrap_or_default());
    let shares = view.rates.system.as_ref().map(|system| system.cpu).unwrap_or_default();
    let share = |name: &str, percent: f64| {
        Evidence::number(name, percent / 100.0, Unit::Share).with_source("/proc/stat")
    };
    let steal = (shares.steal >= 1.0).then(|| share("stolen by the hypervisor", shares.steal));
    let evidence = [share("user", shares.user + shares.nice), share("kernel", shares.system)];
    let claim = Claim::new(summary, evidence.into_iter().chain(steal).collect());
    let cpus = view.record.header.facts.host.cpus_allowed.clone();
    let claim = claim.about(Subject::Cpus { cpus }).command("fathom top");
    Some(claim.weight(needed * busy / 100.0).confidence(Confidence::High))
}

fn cpus_at_setting(view: &SettingView) -> Option<Claim> {
    let (deeper, _) = view.effects()?;
    if deeper == Effect::Gain || !view.suspects_cores() {
        return None;
    }
    let is_only = view.cores == 1 && view.base.worker_share >= WORKER_FULL;
    let text = match view.gain(ExperimentKind::FewerCores).filter(|_| view.needs_cores()) {
        _ if is_only => "There is only one CPU".to_string(),
        Some(gain) => format!("With half the CPUs, IOPS are {}", times(&gain)),
        None => return None,
    };
    let claim = view.claim(format!("{}. {text}", view.cpu_usage()), []);
    let remedy = "Measure with more CPUs, or make each I/O cheaper (larger blocks, polled completions, a raw device instead of \
                  a file): the device may reach more";
    Some(claim.about(Subject::Machine).remedy(remedy).command("fathom top"))
}

#[cfg(test)]
pub(super) fn on_half_of_the_cpus(record: &mut LimitRecord, interval: [f64; 2]) {
    cpu(record).busy = 0.97;
    add_test(record, ExperimentKind::FewerCores, interval);
}

pub(in crate::rules) static OWN_TIME: Rule = Rule {
    id: "own-cpu-time",
    limits: "its own CPU time",
    meaning: "The workload is CPU-bound.",
    threshold: || {
        format!(
            "Its busy threads were on a CPU, or runnable without being kept from it by other programs, {} of the time or more, \
             and {} of them ran on average. In a search, a worker uses {:.0}% of its CPU or more, more workers yield a gain, and a deeper queue \
             does not.",
            share_text(ON_CPU_MIN),
            number_text(THREADS_MIN),
            WORKER_FULL * 100.0
        )
    },
    remedy: "Use more threads or jobs, or lower the CPU time per I/O",
    confirmation: Some(Confirmation::gain(Change::Jobs)),
    checks: &[
        Check::View(own_time),
        Check::Setting("the CPU core that submits the I/O", full_worker),
    ],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.computes(0.95),
            near_miss: |s| s.computes(0.6),
            summary: "fio spent its time on the CPU: 0.9 of its 1.0 busy threads ran on average, on 2 CPUs.",
        },
        Case::View {
            holds: |s| s.waits_for("compaction", ThreadState::Futex, 0.95),
            near_miss: |s| s.waits_for("compaction", ThreadState::Futex, 0.05),
            summary: "fio was on a CPU 95% of the time: 0.9 threads ran on average, on 2 CPUs. One of them, compaction, ran 95% of \
                      the time.",
        },
        Case::View {
            // The server of a client.
            holds: |s| s.is_served(1, ThreadState::Timer, "hrtimer_nanosleep", 0.1),
            near_miss: |s| s.is_served(1, ThreadState::Timer, "hrtimer_nanosleep", 0.95),
            summary: "server, for which fio waited 100% of its time, was on a CPU 90% of the time: 0.9 threads ran on average, on \
                      2 CPUs.",
        },
        Case::Setting {
            holds: |r| {
                gains(r, [0.98, 1.02], [1.9, 2.0]);
                base(r).worker_share = 0.97;
            },
            near_miss: |r| {
                gains(r, [0.98, 1.02], [1.9, 2.0]);
                base(r).worker_share = 0.8;
            },
            summary: "The worker uses 97% of its CPU. A second worker yields 1.95× the IOPS (95% CI 1.90–2.00); doubling the \
                      queue depth adds no throughput.",
        },
    ],
    ..Rule::LIMITER
};

#[cfg(test)]
#[test]
fn who_is_alone_on_a_cpu_is_to_share_its_work_where_a_cpu_is_idle() {
    let step = |change: fn(&mut Scene)| {
        let mut scene = Scene::idle();
        scene.waits_for("compaction", ThreadState::Futex, 0.95);
        change(&mut scene);
        let causes = scene.causes();
        let cause = causes.iter().find(|cause| cause.rule == OWN_TIME.id).unwrap();
        cause.next_step.clone().unwrap()
    };
    assert!(step(|_| {}).contains("what compaction does"), "{}", step(|_| {}));
    let step = step(|scene| scene.bound_to_a_cpu(95));
    assert!(step.contains("all CPUs are in use"), "{step}");
}

fn full_worker(view: &SettingView) -> Option<Claim> {
    let share = view.base.worker_share;
    if view.effects()? != (Effect::NoGain, Effect::Gain) || share < WORKER_FULL {
        return None;
    }
    let whose = if view.base.workers == 1 { "The worker" } else { "The busiest worker" };
    let text = format!("{whose} uses {} of its CPU. {}", percent(share), view.only_workers_help());
    let share = Evidence::number("CPU usage of the busiest worker", share, Unit::Share);
    let claim =
        view.claim(text, [share]).about(Subject::Process { comm: "fathom".into(), pid: None });
    Some(claim.remedy("Use more workers, or make each I/O cheaper"))
}

/// Who was on a CPU, with the verb: where the program and a peer both were for long, both.
fn who_ran(view: &View) -> String {
    let groups = || view.account.iter().flat_map(Account::that_matter);
    let of = |is_peer: bool| -> f64 {
        let mine = groups().filter(|group| group.peer == is_peer);
        view.share(mine.map(|group| group.state(ThreadState::OnCpu)).sum())
    };
    let peers = groups().filter(|group| group.peer);
    let on_cpu = |group: &&AccountGroup| group.state(ThreadState::OnCpu);
    let peer = peers.max_by(|a, b| on_cpu(a).total_cmp(&on_cpu(b)));
    match peer.filter(|_| of(true).min(of(false)) >= NAMED_MIN) {
        Some(peer) => {
            let waited = view.account.as_ref().map_or(0.0, Account::share_within) * 100.0;
            let (who, peer) = (&view.who, &peer.process);
            format!("{who} and {peer}, for which it waited {waited:.0}% of its time, were")
        }
        None => format!("{} was", view.who_in(ThreadState::OnCpu)),
    }
}

/// Mean number of threads that were runnable behind others of the workload.
pub(super) fn own_wait(view: &View) -> f64 {
    let of_others = if other_programs(view).is_some() { others(view).1 } else { 0.0 };
    (view.state(ThreadState::Runnable) - of_others).max(0.0)
}

fn own_time(view: &View) -> Option<Claim> {
    let (ran, waited) = (view.state(ThreadState::OnCpu), view.state(ThreadState::Runnable));
    // Where all of its time is known: on a CPU, or runnable because its own threads or its peers were.
    let own_wait = own_wait(view);
    let (share, least) = match &view.account {
        Some(_) => (view.share(ran + own_wait), view.share_min(ON_CPU_MIN)),
        None => (view.share(ran + waited), THREADS_MIN),
    };
    if !view.is_own || share < view.share_min(ON_CPU_MIN) || ran < least {
        return None;
    }
    let waits = view.share(own_wait);
    let behind = if ran + waited > view.cpus() { " behind its own threads" } else { "" };
    let waits = match waits >= AGAINST_MIN {
        true => format!(", and runnable but off-CPU{behind} {:.0}%", waits * 100.0),
        false => String::new(),
    };
    let summary = match &view.account {
        Some(_) => format!(
            "{} on a CPU {:.0}% of the time{waits}: {ran:.1} threads ran on average, on {}.",
            who_ran(view),
            view.share(ran) * 100.0,
            view.cpus_named()
        ),
        None => format!(
            "{} spent its time on the CPU: {ran:.1} of its {:.1} busy threads ran on average, on {}.",
            view.subject(),
            view.busy_threads(),
            view.cpus_named()
        ),
    };
    // The other threads may wait for it.
    let worker = view.worker().filter(|_| view.peer_in(ThreadState::OnCpu).is_none());
    let summary = match worker {
        Some((comm, on_cpu)) => {
            format!("{summary} One of them, {comm}, ran {:.0}% of the time.", on_cpu * 100.0)
        }
        None => summary,
    };
    let on_cpu = Evidence::number("time on a CPU", view.share(ran), Unit::Share);
    let on_cpu = on_cpu.with_source("/proc/PID/task/TID/schedstat");
    let rows = view.layers.layers.iter().filter(|_| view.layers.samples >= CPU_SAMPLES_MIN);
    let layer = rows.max_by_key(|row| row.time).map(|row| {
        Evidence::number(row.layer.name(), view.layers.share(row.layer), Unit::Share)
            .with_source("CPU samples")
    });
    let evidence = [on_cpu].into_iter().chain(layer).collect();
    let waits = view.io_wait().filter(|share| *share >= AGAINST_MIN);
    let waits = waits.map(|share| Evidence::number("time waiting for I/O", share, Unit::Share));
    let who = view.program_in(ThreadState::OnCpu);
    let claim = Claim::new(summary, evidence).about(who).despite(waits);
    let claim = claim.weight(share).confidence(Confidence::High);
    let all_in_use = ran + 0.5 >= view.cpus();
    Some(match worker {
        _ if all_in_use => claim.remedy("Lower the CPU time per I/O: all CPUs are in use"),
        Some((comm, _)) => {
            claim.remedy(format!("Let several threads do what {comm} does, or lower its CPU time"))
        }
        None => claim,
    })
}
