//! The block device itself, and other programs' I/O on it.

use super::cpu::program;
use super::queue::{HOLDING, times_in_scheduler};
use super::setting::WORKER_FULL;
#[cfg(test)]
use super::testing::Scene;
use super::view::{AGAINST_MIN, UTIL_MIN, WAIT_MIN, share_text};
use super::{SettingView, View};
use crate::account::Account;
use crate::limit::percent;
use crate::limit::thresholds::CORES_SUSPECT;
use crate::machine::{DiskRates, IoRates};
#[cfg(test)]
use crate::rules::testing::{Case, cpu};
use crate::rules::{Change, Check, Claim, Confirmation, Rule};
#[cfg(test)]
use fathom_model::facts::HeldBy;
use fathom_model::facts::TargetFacts;
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
use fathom_model::limit::ExperimentKind;
use fathom_model::watch::{ProcessUse, ThreadState};
use fathom_model::{shell, units};

/// Share that other programs must have of the I/Os in flight at the disk; for a weight, of all bytes read and written.
pub(super) const OTHERS_SHARE_MIN: f64 = 0.3;
/// Latency that rises by this ratio with twice the queue depth is queueing (Little's law: 2).
const QUEUEING_MIN: f64 = 1.6;
/// Bytes per second below which other programs' I/O does not matter.
const OTHERS_BYTES_MIN: f64 = 1e6;

pub(in crate::rules) static OTHER_PROGRAMS: Rule = Rule {
    id: "other-programs-io",
    limits: "other programs on the device",
    meaning: "Other programs issued much of the I/O on the disks while the workload waited for its own.",
    threshold: || {
        format!(
            "A disk was busy {UTIL_MIN:.0}% of the time or more, and the workload's busy threads waited for I/O {} of the \
             time or more. On average {:.0}% or more of the I/Os in flight at that disk were not the workload's, and other \
             programs moved {} or more there, also if all traffic on other disks was theirs; processes at the other end of its \
             pipes and sockets do not count. The workload's are those that its threads waited for, and its share, by bytes, of the writes and, \
             unless it has its files open with O_DIRECT, of the reads, which the kernel may do for it. The program that moved most is named, \
             if not all of that can have been on other disks. Not for programs that wait in io_uring or aio, whose I/Os in flight are not known.",
            share_text(WAIT_MIN),
            OTHERS_SHARE_MIN * 100.0,
            units::bandwidth(OTHERS_BYTES_MIN)
        )
    },
    remedy: "Stop the other program, or measure while it is not running",
    supersedes: &[&DEVICE],
    checks: &[Check::View(other_programs)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| beside(s, 10 * 40_960_000),
            // Most of what is in flight is written back by the kernel, for the program itself.
            near_miss: |s| {
                beside(s, 2_000_000);
                s.writes("vda", 110_000, 16.0, 99.0);
                s.own().disk_write = 10 * 40_960_000;
            },
            summary: "On average 14.5 of the 16.0 I/Os in flight on vda were not fio's; of other programs, dd (pid 812) moved most \
                      bytes: 391 MiB/s.",
        },
        Case::View {
            // They are many, of a few bytes each.
            holds: |s| {
                beside(s, 40_960_000 / 10);
                s.file(1 << 30, 1 << 30, false);
                s.last.processes.as_mut().unwrap().files[0].direct = true;
            },
            // Most are readahead for its own thread.
            near_miss: |s| {
                beside(s, 40_960_000 / 10);
                s.file(1 << 30, 1 << 30, false);
            },
            summary: "On average 15.1 of the 16.0 I/Os in flight on vda were not fio's; of other programs, dd (pid 812) moved most \
                      bytes: 3.91 MiB/s.",
        },
        Case::View {
            // Any of several may be the one.
            holds: |s| {
                beside(s, 5 * 40_960_000);
                s.other("tar", 0.1, 4 * 40_960_000);
                s.disk("vdb", 60_000, 0.1, 10.0);
            },
            near_miss: |s| {
                beside(s, 5 * 40_960_000);
                s.others()[0].peer = true;
                s.disk("vdb", 60_000, 0.1, 10.0);
            },
            summary: "On average 14.4 of the 16.0 I/Os in flight on vda were not fio's.",
        },
        // It does not wait for the disk.
        Case::NearMiss(|s| {
            s.computes(0.95);
            s.other("dd", 0.1, 10 * 40_960_000);
        }),
        // Most of the time at the disk is its own: the other's I/Os are few and large.
        Case::NearMiss(|s| {
            beside(s, 10 * 40_960_000);
            s.disk("vda", 10_000, 1.1, 99.0);
        }),
        // The other may have used another disk.
        Case::NearMiss(|s| {
            beside(s, 10 * 40_960_000);
            s.disk("vdb", 100_000, 0.1, 10.0);
        }),
        // The server of a client.
        Case::NearMiss(|s| {
            beside(s, 10 * 40_960_000);
            s.others()[0].peer = true;
        }),
    ],
    ..Rule::LIMITER
};

/// A thread reads one block at a time, beside another program that reads so many bytes a second.
#[cfg(test)]
fn beside(scene: &mut Scene, bytes: u64) {
    scene.no_threads();
    scene.state(ThreadState::OnCpu, 0.1);
    scene.threads("fio", ThreadState::Disk, "pread64", "folio_wait_bit_common", 0.9);
    scene.disk("vda", 110_000, 16.0, 99.0);
    scene.other("dd", 0.1, bytes);
}

fn other_programs(view: &View) -> Option<Claim> {
    let processes = &view.seen.processes;
    let disk = view.busy_disk().filter(|_| view.is_own)?;
    // What flushes wait for is their own data, and the disk's cache.
    let flushes = view.share(view.state(ThreadState::Flush));
    let waits = view.held_by_io()? - flushes;
    if waits < view.share_min(0.0) {
        return None;
    }
    let [own, others] = view.disk_traffic();
    // Programs' bytes are known for all disks together: at least those that fit on no other disk are here.
    let moved = |disk: &DiskRates| disk.read.bytes + disk.write.bytes;
    let is_elsewhere =
        |other: &&DiskRates| other.name != disk.name && !other.below.contains(&disk.name);
    let elsewhere: f64 = view.all_disks().into_iter().filter(is_elsewhere).map(moved).sum();
    let others_here = processes.per_second(others.disk_bytes()) - elsewhere;
    let in_flight = 1.0 - own_in_flight(view, disk, [&own, &others])? / disk.queue;
    if own.disk_bytes() == 0 || in_flight < OTHERS_SHARE_MIN || others_here < OTHERS_BYTES_MIN {
        return None;
    }
    let rate = |uses: &ProcessUse| processes.per_second(uses.disk_bytes());
    let most = processes.by_disk_bytes().into_iter().find(|uses| !uses.peer);
    let most = most.filter(|most| rate(most) > elsewhere);
    let (who, queue) = (view.subject(), disk.queue);
    let whose = match view.account.as_ref().is_some_and(Account::has_peers) {
        true => format!("neither {who}'s nor those of its peers"),
        false => format!("not {who}'s"),
    };
    let named = most.map_or_else(String::new, |most| {
        let bytes = units::bandwidth(rate(most));
        format!("; of other programs, {} moved most bytes: {bytes}", most.named())
    });
    let summary = format!(
        "On average {:.1} of the {queue:.1} I/Os in flight on {} were {whose}{named}.",
        in_flight * queue,
        disk.name
    );
    let rate = Evidence::number("other programs", rate(&others), Unit::BytesPerSecond);
    let util = Evidence::number(format!("{} util", disk.name), disk.util / 100.0, Unit::Share);
    let evidence = vec![rate.with_source("/proc/PID/io"), util.with_source("/proc/diskstats")];
    let own = Evidence::number("own I/Os in flight", (1.0 - in_flight) * queue, Unit::Count);
    let about = most.map_or_else(|| Subject::device(&disk.name), program);
    let claim = Claim::new(summary, evidence).about(about).despite([own]);
    Some(claim.weight(in_flight * waits).confidence(Confidence::Medium))
}

/// Mean number of I/Os in flight at `disk` of the workload: those that its threads waited for, and what the kernel reads ahead
/// and writes back for it, by its share of the bytes.
fn own_in_flight(view: &View, disk: &DiskRates, [own, others]: [&ProcessUse; 2]) -> Option<f64> {
    let waiting = view.own_in_flight()?;
    let of = |io: &IoRates, own: u64, others: u64| {
        io.in_flight() * own as f64 / (own + others).max(1) as f64
    };
    let files = &view.seen.processes.files;
    let is_direct = !files.is_empty() && files.values().all(|file| file.direct);
    let reads = if is_direct { 0.0 } else { of(&disk.read, own.disk_read, others.disk_read) };
    Some(waiting.max(reads + of(&disk.write, own.disk_write, others.disk_write)))
}

pub(in crate::rules) static DEVICE: Rule = Rule {
    id: "device",
    limits: "the device",
    meaning: "The workload waited for a busy device.",
    threshold: || {
        format!(
            "Its busy threads waited for I/O {} of the time or more, and a device was busy {UTIL_MIN:.0}% of the time \
             or more. Not if something that holds I/Os back explains half of that. In a search, neither a deeper queue nor \
             more workers yield a gain, and CPU usage is below {:.0}%.",
            share_text(WAIT_MIN),
            CORES_SUSPECT * 100.0
        )
    },
    remedy: "Compare with twice the queue depth: if IOPS stay the same and latency doubles, the device is saturated",
    confirmation: Some(Confirmation::no_gain(Change::InFlight)),
    checks: &[Check::View(device), Check::Setting("the device", saturated)],
    #[cfg(test)]
    cases: &[
        Case::Setting {
            holds: |_| (),
            near_miss: |r| cpu(r).busy = 0.86,
            summary: "Doubling the queue depth doubles latency (2.00×) without adding throughput (1.00×, 95% CI 0.98–1.02); a \
                      second worker adds nothing either (1.00×, 95% CI 0.98–1.02). CPU usage is only 20%.",
        },
        Case::View {
            holds: |_| (),
            near_miss: |s| s.disk("vda", 10_000, 0.4, 40.0),
            summary: "fio waited for vda 90% of the time: on average 16.0 I/Os were in flight on it, 10k reads/s, 1.6 ms \
                      each.",
        },
        Case::View {
            holds: |s| s.whole_machine(),
            // Another program keeps the disk busy.
            near_miss: |s| {
                (s.own().disk_read, s.own().requested_read) = (0, 1 << 20);
            },
            summary: "Tasks spent 90% of their busy time waiting for vda: on average 16.0 I/Os were in flight on it, 10k \
                      reads/s, 1.6 ms each.",
        },
        Case::View {
            holds: |s| s.job_on(HeldBy::AnyDisk),
            // Its file is another machine's: others use this machine's disk.
            near_miss: |s| s.job_on(HeldBy::Hidden),
            summary: "fathom waited for vda 100% of the time: on average 16.0 I/Os were in flight on it, 10k reads/s, 1.6 ms \
                      each.",
        },
        Case::View {
            // Its own waits are shorter than those of others.
            holds: |s| s.disk_waits("folio_wait_bit_common", 0.7),
            near_miss: |s| s.disk_waits("folio_wait_bit_common", 0.05),
            summary: "fio waited for vda 70% of the time (100 waits/s of 7 ms): on average 16.0 I/Os of all programs were in flight \
                      on it, 10k reads/s, 1.6 ms each.",
        },
    ],
    ..Rule::LIMITER
};

fn device(view: &View) -> Option<Claim> {
    let disk = view.busy_disk()?;
    let share = view.io_wait().filter(|share| *share >= view.share_min(WAIT_MIN))?;
    let state = view.waits_for_io();
    // Of another user's processes nothing is known.
    let own = &view.seen.processes.watched;
    let reads_elsewhere = own.disk_bytes() == 0 && own.requested_read + own.requested_write > 0;
    if view.is_own && reads_elsewhere && view.peer_in(state).is_none() {
        return None;
    }
    let kinds = [("reads", &disk.read), ("writes", &disk.write)];
    let (what, most) = kinds.into_iter().max_by(|a, b| a.1.ios.total_cmp(&b.1.ios))?;
    let wait = most.wait_ms.map_or(String::new(), |ms| format!(", {} each", units::time(ms * 1e6)));
    let share_shown = share * 100.0;
    let waits = view.waits_in(state).filter(|_| view.is_own && !view.is_run());
    let waited = match view.is_own {
        true => {
            let each = waits.map_or_else(String::new, |(rate, ns)| {
                format!(" ({} waits/s of {})", units::count(rate), units::time(ns))
            });
            let who = view.who_in(state);
            format!("{who} waited for {} {share_shown:.0}% of the time{each}", disk.name)
        }
        false => {
            format!("Tasks spent {share_shown:.0}% of their busy time waiting for {}", disk.name)
        }
    };
    let of_all = if waits.is_some() { " of all programs" } else { "" };
    let summary = format!(
        "{waited}: on average {:.1} I/Os{of_all} were in flight on it, {} {what}/s{wait}.",
        disk.queue,
        units::count(most.ios)
    );
    let util = Evidence::number("util", disk.util / 100.0, Unit::Share);
    let against =
        [("device idle", 1.0 - disk.util / 100.0), ("time not waiting for I/O", 1.0 - share)];
    let against = against.into_iter().filter(|(_, share)| *share >= AGAINST_MIN);
    let claim = Claim::new(summary, vec![util.with_source("/proc/diskstats")])
        .about(Subject::device(&disk.name))
        .despite(against.map(|(name, share)| Evidence::number(name, share, Unit::Share)))
        .weight(share)
        .confidence(Confidence::Medium);
    if let Some(name) = unseen_scheduler(view, disk) {
        return Some(claim.confidence(Confidence::Low).remedy(format!(
            "The I/O scheduler {name} may hold I/Os back, which --sampling=full shows; or compare with none: echo none \
             >/sys/block/{}/queue/scheduler",
            disk.name
        )));
    }
    let is_on = |target: &&TargetFacts| target.device_names().any(|name| name == disk.name);
    Some(match view.record.header.facts.targets.iter().find(is_on) {
        Some(target) => claim.command(format!("fathom limit {}", shell::quoted(&target.path))),
        None => claim,
    })
}

/// The scheduler of `disk`, if it holds I/Os back by itself and it is not known how long I/Os were in it.
fn unseen_scheduler<'a>(view: &'a View, disk: &DiskRates) -> Option<&'a str> {
    let name = view.device(&disk.name)?.scheduler.as_deref()?;
    (HOLDING.contains(&name) && times_in_scheduler(view, disk).is_none()).then_some(name)
}

#[cfg(test)]
#[test]
fn a_device_whose_scheduler_was_not_seen_is_named_with_doubt() {
    let found = |change: fn(&mut Scene)| {
        let mut scene = Scene::reads();
        change(&mut scene);
        let device = scene.causes().into_iter().find(|cause| cause.rule == DEVICE.id).unwrap();
        (device.confidence, device.next_step.unwrap())
    };
    let (confidence, step) = found(|s| s.device().scheduler = Some("bfq".into()));
    assert_eq!(confidence, Some(Confidence::Low));
    assert!(step.contains("bfq may hold I/Os back"), "{step}");
    // It was seen to pass them on, or is one that does.
    assert_eq!(found(|s| s.scheduler("bfq", 100)).0, Some(Confidence::Medium));
    assert_eq!(found(|s| s.scheduler("mq-deadline", 0)).0, Some(Confidence::Medium));
}

/// Neither more workers nor a deeper queue yield more.
fn saturated(view: &SettingView) -> Option<Claim> {
    view.effects()?;
    let (base, cpu) = (view.base, view.base.cpu?);
    let is_hidden = view.queue.is_some_and(|queue| queue.hidden);
    let is_free = cpu.taken() < CORES_SUSPECT && !view.suspects_cores();
    if !view.no_more_load_helps() || !is_free || is_hidden {
        return None;
    }
    let mut text = format!("{}. CPU usage is only {}", no_gain(view), percent(cpu.busy));
    if view.latency_of_deeper().is_some_and(|l| l < QUEUEING_MIN) {
        text += ". Latency does not rise in proportion: some requests queue above the device";
    }
    let is_bound = base.worker_share >= WORKER_FULL && base.workers == 1;
    if is_bound {
        text += ". The worker is CPU-bound too, but a second one does not help";
    }
    let against = is_bound
        .then(|| Evidence::number("CPU usage of the worker", base.worker_share, Unit::Share));
    let claim = view.claim(text, []).despite(against).command("fathom topo");
    Some(claim.remedy(
        "Compare with the device's data sheet and link speed; more workers or queue depth gain nothing",
    ))
}

/// The tests without a gain.
pub(super) fn no_gain(view: &SettingView) -> String {
    let gain = |kind| match view.gain(kind) {
        Some(g) => format!(" ({:.2}×, {})", g.value, g.interval()),
        None => String::new(),
    };
    let deeper = match view.latency_of_deeper() {
        Some(l) if (1.9..2.1).contains(&l) => {
            format!("doubles latency ({l:.2}×) without adding")
        }
        Some(l) if l >= QUEUEING_MIN => format!("raises latency {l:.2}× without adding"),
        Some(l) => format!("(latency {l:.2}×) does not add"),
        None => "does not add".to_string(),
    };
    format!(
        "Doubling the queue depth {deeper} throughput{}; {} adds nothing either{}",
        gain(ExperimentKind::Deeper),
        view.more_workers(),
        gain(ExperimentKind::MoreWorkers)
    )
}
