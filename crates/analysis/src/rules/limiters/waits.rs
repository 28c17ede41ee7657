//! What a program waits for other than CPUs, disks and locks: peers, its own timers, pages, and whoever stopped it.

use super::View;
use super::device::DEVICE;
#[cfg(test)]
use super::testing::Scene;
use super::threads::ONE_AT_A_TIME;
use super::view::NAMED_MIN;
use crate::account::Account;
use crate::rules::rates::COULD_NOT_KEEP_UP;
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
use crate::threads::ThreadGroup;
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
use fathom_model::plan::JobPlan;
use fathom_model::units;
use fathom_model::watch::{RemotePeer, ThreadState};
use std::net::SocketAddr;

/// Share of their time for which threads must have waited for each other or for an event to be idle.
const IDLE_MIN: f64 = 0.5;
/// Bytes read from disks for each byte that the program read, from which readahead is in vain.
const READ_FOR_NOTHING_MIN: f64 = 2.0;
/// Bytes per second that the program must have read.
const READ_MIN: f64 = 1e6;
/// Mean number of threads that must have blocked in the submission of asynchronous I/O.
const BLOCKED_MIN: f64 = 0.1;

const ADDRESSES_MAX: usize = 2;

/// The share of its time that the watched program's threads were in these states, if that is enough to be named and the
/// time of single threads is known.
fn share_of(view: &View, states: &[ThreadState]) -> Option<f64> {
    view.account.as_ref()?;
    let share = view.share(view.states(states));
    (view.is_own && share >= NAMED_MIN).then_some(share)
}

/// ` (200 waits/s of 3 ms)`, of the state in which most threads waited.
fn rate_and_time(view: &View, states: &[ThreadState]) -> String {
    let most = states.iter().max_by(|a, b| view.state(**a).total_cmp(&view.state(**b)));
    let waits = most.and_then(|state| view.waits_in(*state));
    waits.map_or_else(String::new, |(rate, ns)| {
        format!(" ({} waits/s of {})", units::count(rate), units::time(ns))
    })
}

/// A cause that is a wait alone, with its share as evidence.
fn wait(share: f64, summary: String, name: &str) -> Claim {
    let share_shown =
        Evidence::number(name, share, Unit::Share).with_source("context switches, samples");
    Claim::new(summary, vec![share_shown]).weight(share).confidence(Confidence::High)
}

pub(in crate::rules) static PEER: Rule = Rule {
    id: "peer",
    limits: "another program that it waits for",
    meaning: "The program waited for input or room in a socket or pipe: for another machine, or for a program that is not watched.",
    threshold: || {
        format!(
            "{:.0}% or more of its threads' time was spent in poll(2) and the like, or on sockets and pipes, and the wait was not ended \
             by a process of the program or by one that it is connected to on this machine, nor by a timeout.",
            NAMED_MIN * 100.0
        )
    },
    remedy: "Check the other end: `ss -tpn` lists its connections; what it does not send limits this program",
    checks: &[Check::View(peer)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.spends(&[(ThreadState::Poll, 0.8), (ThreadState::OnCpu, 0.2)]),
            near_miss: |s| s.spends(&[(ThreadState::Poll, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio waited for input 80% of the time, in poll(2), on sockets or pipes: for another machine, or a program \
                      that is not watched.",
        },
        Case::View {
            holds: |s| {
                s.spends(&[(ThreadState::Poll, 0.8), (ThreadState::OnCpu, 0.2)]);
                s.other("postgres", 0.5, 0);
                s.others()[0].peer = true;
            },
            near_miss: |s| s.spends(&[(ThreadState::Poll, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio waited for postgres (pid 812) 80% of the time.",
        },
        Case::View {
            holds: |s| {
                s.spends(&[(ThreadState::Poll, 0.8), (ThreadState::OnCpu, 0.2)]);
                s.remote("10.0.0.2:5432", 90_000);
                s.remote("10.0.0.3:6379", 100);
            },
            near_miss: |s| s.spends(&[(ThreadState::Poll, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio waited for 10.0.0.2:5432 80% of the time.",
        },
        Case::View {
            holds: |s| {
                s.spends(&[(ThreadState::Poll, 0.8), (ThreadState::OnCpu, 0.2)]);
                s.remote("127.0.0.1:8080", 2).pid = 900;
            },
            near_miss: |s| s.spends(&[(ThreadState::Poll, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio waited for server (pid 900) at 127.0.0.1:8080 80% of the time.",
        },
    ],
    ..Rule::LIMITER
};

#[cfg(test)]
#[test]
fn addresses_that_the_program_did_not_wait_for_are_not_named() {
    let summary = |change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::reads();
        change(&mut scene);
        let causes = scene.causes();
        causes
            .iter()
            .find(|cause| cause.rule == PEER.id)
            .map(|cause| cause.summary.clone())
            .unwrap()
    };
    let socket = [(ThreadState::Socket, 0.8), (ThreadState::OnCpu, 0.2)];
    // Nothing came from the only one it waits for; while it polls, the wait may be for anything else.
    let silent = summary(&|s| {
        s.spends(&socket);
        s.remote("10.0.0.2:5432", 0);
    });
    assert_eq!(silent, "fio waited for 10.0.0.2:5432 80% of the time.");
    let polls = summary(&|s| {
        s.spends(&[(ThreadState::Poll, 0.8), (ThreadState::OnCpu, 0.2)]);
        s.remote("10.0.0.2:5432", 0);
    });
    assert!(polls.contains("a program that is not watched"), "{polls}");
    // It reads from a pipe.
    let pipe = summary(&|s| {
        s.spends(&[(ThreadState::Pipe, 0.8), (ThreadState::OnCpu, 0.2)]);
        s.remote("10.0.0.2:5432", 90_000);
    });
    assert!(pipe.contains("a program that is not watched"), "{pipe}");
    // None stands out.
    let many = summary(&|s| {
        s.spends(&socket);
        (2..8).for_each(|host| {
            s.remote(&format!("10.0.0.{host}:5432"), 1000 - host);
        });
    });
    assert_eq!(
        many,
        "fio waited for 10.0.0.2:5432, 10.0.0.3:5432 and 4 other addresses 80% of the time."
    );
}

/// Those of these addresses that the program waited for.
fn waited_for(view: &View, states: &[ThreadState]) -> Vec<RemotePeer> {
    let all = view.seen.processes.remotes();
    let most = states.iter().max_by(|a, b| view.state(**a).total_cmp(&view.state(**b)));
    let segments: u64 = all.iter().map(|remote| remote.segments).sum();
    let active = all.iter().copied().filter(|remote| remote.segments > 0);
    let chosen: Vec<&RemotePeer> = match (most, all.as_slice()) {
        (None | Some(ThreadState::Pipe), _) => Vec::new(),
        // One that does not answer.
        (Some(ThreadState::Socket), [only]) => vec![*only],
        (_, [first, ..]) if 2 * first.segments > segments => vec![*first],
        _ => active.collect(),
    };
    chosen.into_iter().cloned().collect()
}

/// `10.0.0.2:5432, 10.0.0.3:5432 and 4 other addresses`.
fn addresses(remotes: &[RemotePeer]) -> String {
    let (shown, others) = remotes.split_at(remotes.len().min(ADDRESSES_MAX));
    let name = |remote: &RemotePeer| match remote.pid {
        0 => remote.address.clone(),
        pid => format!("{} (pid {pid}) at {}", remote.comm, remote.address),
    };
    let shown: Vec<String> = shown.iter().map(name).collect();
    match (others.len(), shown.split_last()) {
        (0, Some((last, [first @ .., before]))) => {
            [first, &[format!("{before} and {last}")]].concat().join(", ")
        }
        (0, _) => shown.concat(),
        (1, _) => format!("{} and another address", shown.join(", ")),
        (n, _) => format!("{} and {n} other addresses", shown.join(", ")),
    }
}

fn peer(view: &View) -> Option<Claim> {
    let states = [ThreadState::Poll, ThreadState::Socket, ThreadState::Pipe];
    let share = share_of(view, &states)?;
    let (who, waits) = (view.subject(), rate_and_time(view, &states));
    let shown = share * 100.0;
    // What a peer that was followed did is in the account.
    let is_followed = view.account.as_ref().is_some_and(Account::has_peers);
    let known = view.seen.processes.by_cpu().into_iter().find(|uses| uses.peer && !is_followed);
    let remotes = if known.is_some() { Vec::new() } else { waited_for(view, &states) };
    let whom = match (known, remotes.as_slice()) {
        (Some(peer), _) => Some(peer.named()),
        (None, []) => None,
        (None, remotes) => Some(addresses(remotes)),
    };
    let summary = match whom {
        Some(whom) => format!("{who} waited for {whom} {shown:.0}% of the time{waits}."),
        None => format!(
            "{who} waited for input {shown:.0}% of the time{waits}, in poll(2), on sockets or pipes: for another machine, \
             or a program that is not watched."
        ),
    };
    let claim = wait(share, summary, "time waiting for peers");
    Some(match (known, remotes.first()) {
        (Some(peer), _) => {
            let claim = claim.about(super::cpu::program(peer));
            claim.remedy("Watch that program").command(format!("fathom watch -p {}", peer.pid))
        }
        (None, Some(here)) if here.pid != 0 => {
            let step = claim.remedy("Watch that program").about(view.workload());
            step.command(format!("fathom watch -p {}", here.pid))
        }
        (None, Some(remote)) => on_another_machine(view, claim, remote).about(view.workload()),
        (None, None) => claim.about(view.workload()),
    })
}

/// What the connections with `remote` show of the wait.
fn on_another_machine(view: &View, mut claim: Claim, remote: &RemotePeer) -> Claim {
    let address = &remote.address;
    let segments = view.seen.processes.per_second(remote.segments);
    let name = format!("segments with data exchanged with {address} per second");
    let rtt =
        Evidence::number("round-trip time", f64::from(remote.rtt_us) * 1e3, Unit::Nanoseconds);
    claim.evidence.extend([
        Evidence::number(name, segments, Unit::Count).with_source("sock_diag"),
        rtt.with_source("tcpi_rtt"),
    ]);
    let host =
        address.parse::<SocketAddr>().map_or_else(|_| address.clone(), |one| one.ip().to_string());
    claim
        .remedy("Check the other end; waits that are not much longer than a round trip are the network's")
        .command(format!("ss -tpni dst {host}"))
}

pub(in crate::rules) static TIMER: Rule = Rule {
    id: "timer",
    limits: "its own timer",
    meaning: "The program slept for a time that it chose: nothing limits it meanwhile.",
    threshold: || {
        format!(
            "{:.0}% or more of its threads' time was spent in nanosleep(2) and the like, or in waits that a timeout of less than 0.4 s ended.",
            NAMED_MIN * 100.0
        )
    },
    remedy: "Find the rate limit, think time or polling interval of the program; nothing outside of it is the limit meanwhile",
    checks: &[Check::View(timer)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.spends(&[(ThreadState::Timer, 0.97), (ThreadState::OnCpu, 0.03)]),
            near_miss: |s| s.spends(&[(ThreadState::Timer, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio slept 97% of the time, on timers of its own: nothing else limits it meanwhile.",
        },
        Case::View {
            holds: |s| {
                s.spends(&[(ThreadState::Timer, 0.97), (ThreadState::OnCpu, 0.03)]);
                s.has_a_rate();
            },
            near_miss: |s| {
                s.spends(&[(ThreadState::Timer, 0.05), (ThreadState::OnCpu, 0.95)]);
                s.has_a_rate();
            },
            summary: "fathom slept 97% of the time, to keep to the rate of its jobs, which they reached: nothing else limits it \
                      meanwhile.",
        },
    ],
    ..Rule::LIMITER
};

fn timer(view: &View) -> Option<Claim> {
    let share = share_of(view, &[ThreadState::Timer])?;
    let has = |pace: fn(&JobPlan) -> bool| view.is_run() && view.record.plan.jobs.iter().any(pace);
    let is_late = view.findings.iter().any(|finding| finding.rule == COULD_NOT_KEEP_UP.id);
    let (why, step) = if has(|job| job.replay.is_some()) {
        (
            "until the next I/O of its trace was due".into(),
            "Set replay_no_stall to see what limits the device",
        )
    } else if has(JobPlan::is_paced) {
        let rate = "to keep to the rate of its jobs";
        let reached = if is_late { "" } else { ", which they reached" };
        (format!("{rate}{reached}"), "Leave out the rate to see what limits the device")
    } else if has(|job| job.think.is_some()) {
        (
            "in the think time of its jobs".into(),
            "Leave out thinktime to see what limits the device",
        )
    } else {
        ("on timers of its own".into(), "")
    };
    let summary = format!(
        "{} slept {:.0}% of the time{}, {why}: nothing else limits it meanwhile.",
        view.who_in(ThreadState::Timer),
        share * 100.0,
        rate_and_time(view, &[ThreadState::Timer])
    );
    let who = view.program_in(ThreadState::Timer);
    let claim = wait(share, summary, "time asleep").about(who);
    Some(if step.is_empty() { claim } else { claim.remedy(step) })
}

pub(in crate::rules) static NOT_RUNNING: Rule = Rule {
    id: "not-running",
    limits: "a signal, a debugger or a terminal",
    meaning: "The program was stopped by a signal or a debugger, or waited for a terminal.",
    threshold: || format!("{:.0}% or more of its threads' time.", NAMED_MIN * 100.0),
    remedy: "Resume it (kill -CONT, or fg in its shell), or give it its input",
    checks: &[Check::View(not_running)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.spends(&[(ThreadState::Stopped, 0.5), (ThreadState::OnCpu, 0.5)]),
            near_miss: |s| s.spends(&[(ThreadState::Stopped, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio was stopped 50% of the time, by a signal or a debugger.",
        },
        Case::View {
            holds: |s| s.spends(&[(ThreadState::Terminal, 0.9), (ThreadState::OnCpu, 0.1)]),
            near_miss: |s| s.spends(&[(ThreadState::Terminal, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "fio waited for a terminal 90% of the time.",
        },
    ],
    ..Rule::LIMITER
};

fn not_running(view: &View) -> Option<Claim> {
    let who = view.subject();
    let claim = match share_of(view, &[ThreadState::Stopped]) {
        Some(share) => {
            let summary = format!(
                "{who} was stopped {:.0}% of the time, by a signal or a debugger.",
                share * 100.0
            );
            wait(share, summary, "time stopped")
        }
        None => {
            let share = share_of(view, &[ThreadState::Terminal])?;
            let summary = format!("{who} waited for a terminal {:.0}% of the time.", share * 100.0);
            wait(share, summary, "time waiting for a terminal")
        }
    };
    Some(claim.about(view.workload()))
}

pub(in crate::rules) static IDLE: Rule = Rule {
    id: "idle",
    limits: "a lack of work",
    meaning: "The program had nothing to do: all of its threads waited for a signal, for each other, for a child or for an event.",
    threshold: || {
        format!(
            "Its threads spent {:.0}% of their time so, and fewer than {NAMED_MIN} of them were busy on average.",
            IDLE_MIN * 100.0
        )
    },
    checks: &[Check::View(idle)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| s.spends(&[(ThreadState::Signal, 1.0)]),
        near_miss: |s| s.spends(&[(ThreadState::Signal, 0.6), (ThreadState::OnCpu, 0.4)]),
        summary: "fio had nothing to do 100% of the time: it waited for a signal.",
    }],
    ..Rule::LIMITER
};

fn idle(view: &View) -> Option<Claim> {
    let waits = [
        (ThreadState::Signal, "a signal"),
        (ThreadState::Futex, "another of its threads"),
        (ThreadState::Child, "a child process"),
        (ThreadState::Other, "an event"),
    ];
    let (most, what) =
        waits.into_iter().max_by(|a, b| view.state(a.0).total_cmp(&view.state(b.0)))?;
    let share =
        share_of(view, &waits.map(|(state, _)| state)).filter(|share| *share >= IDLE_MIN)?;
    if view.busy_threads() >= NAMED_MIN {
        return None;
    }
    let summary = format!(
        "{} had nothing to do {:.0}% of the time: it waited for {what}.",
        view.who_in(most),
        share * 100.0
    );
    Some(wait(share, summary, "time without work").about(view.program_in(most)))
}

pub(in crate::rules) static PAGE_FAULTS: Rule = Rule {
    id: "page-faults",
    limits: "page faults",
    meaning: "Memory accesses waited for pages of files (mmap): each thread waits for one page at a time.",
    threshold: || {
        format!(
            "{:.0}% or more of the threads' time was spent in page faults that waited for I/O.",
            NAMED_MIN * 100.0
        )
    },
    remedy: "mmap cannot queue I/Os: read with io_uring or more threads, ask for pages ahead with madvise(MADV_WILLNEED), or keep the \
             file in memory",
    supersedes: &[&DEVICE, &ONE_AT_A_TIME],
    checks: &[Check::View(page_faults)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| {
                s.spends(&[(ThreadState::PageFault, 0.8), (ThreadState::OnCpu, 0.2)]);
                s.own().major_faults = 190_000;
            },
            near_miss: |s| s.spends(&[(ThreadState::PageFault, 0.05), (ThreadState::OnCpu, 0.95)]),
            summary: "Memory accesses of fio waited for pages from a disk 80% of the time: 19k major page faults/s, 0.8 at a \
                      time.",
        },
        Case::View {
            holds: |s| s.is_served(1, ThreadState::PageFault, "folio_wait_bit_common", 0.8),
            near_miss: |s| s.is_served(1, ThreadState::PageFault, "folio_wait_bit_common", 0.05),
            summary: "Memory accesses of server, for which fio waited 100% of its time, waited for pages from a disk 80% of the \
                      time: 100 major page faults/s, 0.8 at a time, 8 ms each.",
        },
    ],
    ..Rule::LIMITER
};

fn page_faults(view: &View) -> Option<Claim> {
    let waiting = view.state(ThreadState::PageFault);
    let share = share_of(view, &[ThreadState::PageFault])?;
    let processes = &view.seen.processes;
    let waits = view.waits_in(ThreadState::PageFault);
    let each = waits.map_or_else(String::new, |(_, ns)| format!(", {} each", units::time(ns)));
    let (faults, source) = match (view.peer_in(ThreadState::PageFault), waits) {
        (Some(_), Some((rate, _))) => (rate, "context switches"),
        _ => (processes.per_second(processes.watched.major_faults), "/proc/PID/stat"),
    };
    let summary = format!(
        "Memory accesses of {} waited for pages from a disk {:.0}% of the time: {} major page faults/s, {waiting:.1} at a \
         time{each}.",
        view.who_in(ThreadState::PageFault),
        share * 100.0,
        units::count(faults)
    );
    let faults = Evidence::number("major page faults per second", faults, Unit::Count);
    let claim = Claim::new(summary, vec![faults.with_source(source)]);
    let claim = claim.about(view.program_in(ThreadState::PageFault)).weight(share);
    Some(claim.confidence(Confidence::High))
}

pub(in crate::rules) static READAHEAD: Rule = Rule {
    id: "readahead",
    limits: "unused readahead",
    meaning: "Much more was read from disks than the program read: readahead for random reads.",
    threshold: || {
        format!(
            "The program read {} or more, disks {READ_FOR_NOTHING_MIN} times that or more for it, and it waited for I/O \
             {:.0}% of the time or more.",
            units::bandwidth(READ_MIN),
            NAMED_MIN * 100.0
        )
    },
    remedy: "Say that reads are random (posix_fadvise with POSIX_FADV_RANDOM), use O_DIRECT, or lower read_ahead_kb of the device",
    confirmation: Some(Confirmation::gain(Change::NoReadAhead)),
    checks: &[Check::View(readahead)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| reads_ahead(s, 4),
        near_miss: |s| reads_ahead(s, 1),
        summary: "160 MiB/s were read from disks for fio, which read 40 MiB/s.",
    }],
    ..Rule::LIMITER
};

#[cfg(test)]
fn reads_ahead(scene: &mut Scene, times: u64) {
    scene.spends(&[(ThreadState::Disk, 0.8), (ThreadState::OnCpu, 0.2)]);
    let own = scene.own();
    own.requested_read = 400 << 20;
    own.disk_read = times * own.requested_read;
}

fn readahead(view: &View) -> Option<Claim> {
    let share = share_of(view, &[ThreadState::Disk])?;
    let processes = &view.seen.processes;
    let used = view.uses_in(ThreadState::Disk)?;
    let (read, from_disk) =
        (processes.per_second(used.requested_read), processes.per_second(used.disk_read));
    if view.is_run() || read < READ_MIN || from_disk < READ_FOR_NOTHING_MIN * read {
        return None;
    }
    let summary = format!(
        "{} were read from disks for {}, which read {}.",
        units::bandwidth(from_disk),
        view.peer_in(ThreadState::Disk).map_or(&view.who, |peer| &peer.process),
        units::bandwidth(read)
    );
    let ratio =
        Evidence::number("read from disks for each byte used", from_disk / read, Unit::Ratio);
    let claim = Claim::new(summary, vec![ratio.with_source("rchar, read_bytes of /proc/PID/io")]);
    // The part of the reads that nobody wanted.
    let weight = share * (1.0 - read / from_disk);
    let device = view.disk().map(|disk| Subject::device(&disk.name));
    Some(
        claim
            .about(device.unwrap_or_else(|| view.workload()))
            .weight(weight)
            .confidence(Confidence::Medium),
    )
}

pub(in crate::rules) static DISCARDS: Rule = Rule {
    id: "discards",
    limits: "discards (TRIM)",
    meaning: "The workload waited while the file system discarded the blocks of what it deleted or truncated.",
    threshold: || {
        format!(
            "{:.0}% or more of the threads' time was spent in kernel functions that wait for discards (blkdev_issue_discard).",
            NAMED_MIN * 100.0
        )
    },
    remedy: "Mount without the option discard, and trim from time to time instead: systemctl enable fstrim.timer",
    supersedes: &[&DEVICE, &ONE_AT_A_TIME],
    checks: &[Check::View(discards)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| s.disk_waits("blkdev_issue_discard", 0.7),
        near_miss: |s| s.disk_waits("folio_wait_bit_common", 0.7),
        summary: "fio waited for discards of what it deleted 70% of the time.",
    }],
    ..Rule::LIMITER
};

fn discards(view: &View) -> Option<Claim> {
    let part = view.part_in(ThreadState::Disk, "issue_discard")?;
    let share = view.share(view.states(&[ThreadState::Disk])) * part;
    if !view.is_own || share < NAMED_MIN {
        return None;
    }
    let summary = format!(
        "{} waited for discards of what it deleted {:.0}% of the time.",
        view.who_in(ThreadState::Disk),
        share * 100.0
    );
    let spent = Evidence::number("time in discards", share, Unit::Share);
    let disk = view.disk().filter(|disk| disk.discard.ios > 0.0);
    let rate = disk.map(|disk| {
        let name = format!("discards/s on {}", disk.name);
        Evidence::number(name, disk.discard.ios, Unit::Count).with_source("/proc/diskstats")
    });
    let evidence = [spent.with_source("context switches")].into_iter().chain(rate);
    let who = view.program_in(ThreadState::Disk);
    let claim = Claim::new(summary, evidence.collect()).about(who).weight(share);
    Some(claim.confidence(Confidence::High))
}

pub(in crate::rules) static BLOCKING_SUBMIT: Rule = Rule {
    id: "blocking-submit",
    limits: "blocking submission of I/O",
    meaning: "Asynchronous I/O was synchronous: its submission waited for the disk.",
    threshold: || {
        format!(
            "{BLOCKED_MIN} threads or more, and {:.0}% of the time, were on average in uninterruptible sleep in io_submit(2), or in \
             io_uring_enter(2) other than waiting for completions.",
            NAMED_MIN * 100.0
        )
    },
    remedy: "Use O_DIRECT on a file that is fully written: buffered I/O and block allocation are not asynchronous with libaio, and \
             may block in io_uring",
    supersedes: &[&ONE_AT_A_TIME, &DEVICE],
    confirmation: Some(Confirmation::gain(Change::Direct)),
    checks: &[Check::View(blocking_submit)],
    #[cfg(test)]
    cases: &[Case::View {
        holds: |s| s.sleeps(ThreadState::Disk, "io_submit", "folio_wait_bit_common", 0.8),
        near_miss: |s| s.sleeps(ThreadState::Disk, "io_uring_enter", "io_cqring_wait", 0.8),
        summary: "0.8 threads of fio on average were blocked in io_submit(2), 80% of the time: its asynchronous I/O is \
                  synchronous.",
    }],
    ..Rule::LIMITER
};

fn blocking_submit(view: &View) -> Option<Claim> {
    view.account.as_ref()?;
    let submits = |_: &str, call: &str, wchan: &str| {
        call == "io_submit" || call == "io_uring_enter" && !wchan.starts_with("io_cqring")
    };
    let asleep = |group: &&ThreadGroup| group.values[1] == "D";
    let blocked: Vec<_> = view.groups(submits).filter(asleep).collect();
    let sampled: f64 = blocked.iter().map(|group| group.average).sum();
    let all: f64 = view.groups(|_, _, _| true).filter(asleep).map(|group| group.average).sum();
    // Samples say in which call; how much time that is, context switches know better.
    let groups = view.account.iter().flat_map(Account::that_matter).filter(|group| !group.peer);
    let in_disk: f64 = groups.map(|group| group.state(ThreadState::Disk)).sum();
    let waiting = (in_disk * sampled / all.max(1e-9)).max(sampled);
    let share = view.share(waiting);
    // A full queue blocks every submission.
    let is_full = blocked.iter().all(|group| group.values[3].contains("get_tag"));
    if !view.is_own || waiting < BLOCKED_MIN || share < NAMED_MIN || is_full {
        return None;
    }
    let call = &blocked.first()?.values[2];
    let summary = format!(
        "{waiting:.1} threads of {} on average were blocked in {call}(2), {:.0}% of the time: its asynchronous I/O is \
         synchronous.",
        view.who,
        share * 100.0
    );
    let threads = Evidence::number("threads blocked in submission", waiting, Unit::Count);
    let claim =
        Claim::new(summary, vec![threads.with_source("state, syscall and wchan of the threads")]);
    let subject =
        Subject::ThreadGroup { comm: view.who.clone(), wchan: blocked[0].values[3].clone() };
    Some(claim.about(subject).weight(share).confidence(Confidence::High))
}
