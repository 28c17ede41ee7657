//! Input of the limiter rules.

use super::SAMPLES_MIN;
use crate::account::{Account, AccountGroup, AccountShare};
use crate::derive;
use crate::layers::LayerTimes;
use crate::machine::{CpuPercent, DiskRates, MachineRates, with_those_below};
use crate::rules::Claim;
use crate::threads::ThreadGroup;
use crate::watch::Observed;
use fathom_model::facts::{DeviceFacts, TargetFacts};
use fathom_model::finding::{Finding, Subject};
use fathom_model::outcome::RecordKind;
use fathom_model::watch::{CgroupSample, DeviceBlocks, DiskKind, Level, ProcessUse, ThreadState};
use fathom_model::{RunRecord, shell};
use fathom_model::{cpus, units};
use std::collections::{BTreeMap, BTreeSet};

/// Busy time of a device, in percent, from which it can hold up anyone.
pub(super) const UTIL_MIN: f64 = 50.0;
/// Share of their time that threads must have waited for I/O to be held up by what delays it.
pub(super) const WAIT_MIN: f64 = 0.3;
/// CPU samples from which shares of layers mean something.
pub(super) const CPU_SAMPLES_MIN: u64 = 200;
/// CPU usage, in percent, from which the machine's CPUs are all in use.
pub(super) const CPUS_BUSY_MIN: f64 = 90.0;
/// CPUs that a process at the other end of a program's pipes and sockets must use for the program to wait for its work.
pub(super) const PEER_CPUS_MIN: f64 = 0.25;
/// A program that ran for less time than this is not judged.
pub(super) const LIFE_MIN_NS: u64 = 1_000_000_000;
/// Threads that must have been asleep on average, and how many times the busy ones, for a program to be asleep.
const ASLEEP_MIN: f64 = 0.5;
const ASLEEP_TIMES: f64 = 2.0;
/// A device passes I/Os on if this part of those in flight is in flight below it.
const PASSED_ON_MIN: f64 = 0.7;
/// Mean number of threads in asynchronous waits up to which a program's I/Os are those of its threads.
const ASYNC_MAX: f64 = 0.05;
/// The share of the time from which something else speaks against a cause.
pub(super) const AGAINST_MIN: f64 = 0.05;
/// A cause that explains a smaller share of the workload's time than this is not named.
pub(super) const NAMED_MIN: f64 = 0.1;
/// The share of the time of the waits for a lock that a thread must have held it to be called its holder.
const HOLDER_MIN: f64 = 0.8;
/// Share of a program's CPU time, and of a CPU, from which one thread is named for it.
const WORKER_MIN: f64 = 0.6;
/// Who is watched where no program is.
const THE_MACHINE: &str = "this machine";

/// A smallest share for docs/rules.md, and that used where the account of the time is known ([`View::share_min`]).
pub(super) fn share_text(otherwise: f64) -> String {
    format!("{:.0}% ({:.0}% with an account of its time)", otherwise * 100.0, NAMED_MIN * 100.0)
}

/// The same for a mean number of threads or I/Os.
pub(super) fn number_text(otherwise: f64) -> String {
    format!("{otherwise} ({NAMED_MIN} with an account of its time)")
}

/// The samples of a record, as causes need them.
pub(in crate::rules) struct View<'a> {
    pub record: &'a RunRecord,
    /// Those of rules about the record alone.
    pub findings: &'a [Finding],
    pub seen: &'a Observed,
    pub rates: MachineRates,
    /// Groups of the workload's active threads.
    pub groups: Vec<ThreadGroup>,
    /// Mean number of its threads by state.
    pub states: Vec<(ThreadState, f64)>,
    /// Where the time of its threads and of its peers went, where that is known thread by thread.
    pub account: Option<Account>,
    pub layers: LayerTimes,
    /// Whether particular processes are watched, and not the whole machine.
    pub is_own: bool,
    pub who: String,
    /// CPUs on which its threads may run; empty where that is not known.
    cpus_allowed: Vec<u32>,
}

impl<'a> View<'a> {
    pub fn new(record: &'a RunRecord, findings: &'a [Finding], seen: &'a Observed) -> Self {
        let is_run = record.header.kind == RecordKind::Run;
        let whole_machine =
            record.header.sampling.as_ref().is_none_or(|watch| watch.pids.is_empty());
        // A run's own threads also observe it.
        let has_own = is_run && seen.own_threads.samples > 0;
        let threads = if has_own { &seen.own_threads } else { &seen.threads };
        // With --sampling=full, a run's samples are those of all programs.
        let samples = if is_run && whole_machine { seen.own_stacks() } else { seen.stacks() };
        let is_own = is_run || !whole_machine;
        let account = seen.account.account().filter(|_| is_own);
        Self {
            record,
            findings,
            seen,
            rates: seen.rates(),
            groups: threads.largest_first(),
            states: account.as_ref().map_or_else(|| threads.states(), Account::states),
            account,
            layers: LayerTimes::of(samples.iter(), &seen.known_stacks, |_| true),
            is_own,
            who: who(record, seen),
            cpus_allowed: jobs_cpus(record).unwrap_or_else(|| seen.processes.cpus_allowed.clone()),
        }
    }

    pub fn is_run(&self) -> bool {
        self.record.header.kind == RecordKind::Run
    }

    /// Whose time it is, at the beginning of a sentence; names of programs stay as they are.
    pub fn subject(&self) -> &str {
        if self.is_own { &self.who } else { "Tasks" }
    }

    /// For how long the workload ran, in nanoseconds; 0 if that is not known.
    fn ran_ns(&self) -> u64 {
        let watch = self.record.header.sampling.as_ref();
        let ran = match self.is_run() {
            true => self.record.jobs.iter().map(|job| job.runtime_ns).max(),
            false => watch.and_then(|watch| Some(watch.command.as_ref()?.elapsed_ns)),
        };
        ran.unwrap_or(0)
    }

    /// For how long it ran while it was sampled, in nanoseconds.
    pub fn life_ns(&self) -> u64 {
        match (self.ran_ns(), self.seen.elapsed_ns) {
            // The record of a killed run does not say.
            (0, seen) => seen,
            (ran, _) if self.seen.samples == 0 => ran,
            (ran, seen) => ran.min(seen),
        }
    }

    /// Mean number of the workload's own I/Os in flight; `None` where one thread may have any number of them.
    pub fn own_in_flight(&self) -> Option<f64> {
        if self.is_run() {
            let jobs = self.record.jobs.iter();
            return Some(jobs.filter_map(|job| derive::in_flight(job, job.runtime_ns)).sum());
        }
        let is_async = self.states(&[ThreadState::IoUring, ThreadState::Aio]) > ASYNC_MAX;
        let waits = [ThreadState::Disk, ThreadState::Flush, ThreadState::PageFault];
        (!is_async && !self.states.is_empty()).then(|| self.states(&waits))
    }

    /// The process at the other end of the program's pipes and sockets that used most CPU time, if it used much.
    pub fn peer(&self) -> Option<&ProcessUse> {
        let processes = &self.seen.processes;
        let peer = processes.by_cpu().into_iter().find(|uses| uses.peer)?;
        (processes.cpus(peer) >= PEER_CPUS_MIN).then_some(peer)
    }

    /// CPUs that the workload used, without its peers.
    pub fn own_cpus(&self) -> f64 {
        let processes = &self.seen.processes;
        let used = processes.cpus(&processes.watched);
        let has_peers = self.account.as_ref().is_some_and(Account::has_peers);
        if has_peers { used } else { used.max(self.state(ThreadState::OnCpu)) }
    }

    /// Mean number of its threads in `state`.
    pub fn state(&self, state: ThreadState) -> f64 {
        self.states.iter().find(|(known, _)| *known == state).map_or(0.0, |(_, mean)| *mean)
    }

    pub fn states(&self, states: &[ThreadState]) -> f64 {
        states.iter().map(|state| self.state(*state)).sum()
    }

    /// Mean number of its threads that ran, wanted to, or waited for I/O or a lock of the kernel: not those without work,
    /// nor those in a futex, who wait for another thread.
    pub fn busy_threads(&self) -> f64 {
        use ThreadState as S;
        self.states(&[S::OnCpu, S::Runnable, S::Throttled, S::KernelLock]) + self.io_waiters()
    }

    /// Mean number of its threads that waited for I/O.
    fn io_waiters(&self) -> f64 {
        use ThreadState as S;
        self.states(&[S::Disk, S::Flush, S::PageFault, S::IoUring, S::Aio])
    }

    /// The share of the workload's wall-clock time that `threads` are, from 0 to 1: of that of all its threads that
    /// matter, or where the times of single threads are not known, of the busy ones.
    pub fn share(&self, threads: f64) -> f64 {
        let wall = self.account.as_ref().map_or_else(|| self.busy_threads(), Account::wall);
        (threads / wall.max(1e-9)).min(1.0)
    }

    /// The smallest share of the workload's time that is named; `otherwise` where it is not known how all of it was
    /// spent.
    pub fn share_min(&self, otherwise: f64) -> f64 {
        if self.account.is_some() { NAMED_MIN } else { otherwise }
    }

    /// The threads that most of those in `state` are, if these are a peer's.
    pub fn peer_in(&self, state: ThreadState) -> Option<&AccountGroup> {
        self.account.as_ref()?.most_in(state).filter(|group| group.peer)
    }

    /// What the program used that most threads in `state` belong to: the watched one or a peer; `None` if that is not known.
    pub fn uses_in(&self, state: ThreadState) -> Option<&ProcessUse> {
        let processes = &self.seen.processes;
        let Some(peer) = self.peer_in(state) else { return Some(&processes.watched) };
        let all = processes.by_cpu().into_iter();
        all.filter(|uses| uses.peer).find(|uses| uses.comm == peer.process)
    }

    /// The process that most threads in `state` belong to.
    pub fn program_in(&self, state: ThreadState) -> Subject {
        let of = |group: &AccountGroup| Subject::Process {
            comm: group.process.clone(),
            pid: (group.processes == 1).then_some(group.pid),
        };
        self.peer_in(state).map_or_else(|| self.workload(), of)
    }

    /// The state in which most of its threads wait for reads and writes.
    pub fn waits_for_io(&self) -> ThreadState {
        use ThreadState as S;
        let states = [S::Disk, S::IoUring, S::Aio];
        let most = states.into_iter().max_by(|a, b| self.state(*a).total_cmp(&self.state(*b)));
        most.filter(|state| self.state(*state) > 0.0).unwrap_or(S::Disk)
    }

    /// Whose threads most of those in `state` are: the workload, a process of it, or a peer, and how much it waited for that.
    pub fn who_in(&self, state: ThreadState) -> String {
        let account = self.account.as_ref();
        let Some((account, most)) = account.and_then(|all| Some((all, all.most_in(state)?))) else {
            return self.subject().to_string();
        };
        let process = most.process.as_str();
        match (most.peer, self.is_run() || process == self.who || self.who.starts_with(process)) {
            (false, true) => self.subject().to_string(),
            (false, false) => format!("{process} (of {})", self.who),
            (true, _) => format!(
                "{process}, for which {} waited {:.0}% of its time,",
                self.who,
                account.share_within() * 100.0
            ),
        }
    }

    /// Waits per second in `state` and their mean time in nanoseconds, of the group with most threads in it, where context
    /// switches were recorded.
    pub fn waits_in(&self, state: ThreadState) -> Option<(f64, f64)> {
        let group = self.account.as_ref()?.most_in(state)?;
        let part = group.parts.iter().find(|part| part.state == state)?;
        part.waits_per_s.zip(part.mean_wait_ns)
    }

    /// The part of the recorded waits in `state` that were in functions with this in their name; `None` where none was recorded.
    pub fn part_in(&self, state: ThreadState, function: &str) -> Option<f64> {
        let groups = self.account.as_ref()?.that_matter();
        let waits = groups.flat_map(|group| &group.functions).filter(|one| one.state == state);
        let (mut all, mut part) = (0.0, 0.0);
        for one in waits {
            all += one.mean_threads;
            part += if one.function.contains(function) { one.mean_threads } else { 0.0 };
        }
        (all > 0.0).then(|| part / all)
    }

    /// Who held the lock that threads in `state` waited for, and what they did meanwhile, as a sentence after a space; and the
    /// share of that time that they were on a CPU. Where context switches were recorded.
    pub fn holders(&self, state: ThreadState) -> Option<(String, f64)> {
        let group = self.account.as_ref()?.most_in(state)?;
        let part = group.parts.iter().find(|part| part.state == state)?;
        let (first, _) = part.holders.first().zip(part.meanwhile.first())?;
        let who = match first.share >= HOLDER_MIN {
            true => format!(" Its holder, {} (thread {}), was", first.comm, first.tid),
            false => " Its holders, one after the other, were".to_string(),
        };
        Some(meanwhile(&who, &part.meanwhile))
    }

    /// The thread that ran while the others of its process hardly did, by name, and how much of the time it was on a CPU.
    pub fn worker(&self) -> Option<(&str, f64)> {
        let account = self.account.as_ref().filter(|_| !self.is_run())?;
        let on_cpu = |group: &AccountGroup| group.state(ThreadState::OnCpu);
        let all: f64 = account.groups.iter().filter(|group| !group.peer).map(on_cpu).sum();
        let own = || account.groups.iter().filter(|group| !group.peer);
        let alone = own().filter(|group| group.threads == 1);
        let most = alone.max_by(|a, b| on_cpu(a).total_cmp(&on_cpu(b)))?;
        let is_one = own().map(|group| group.threads).sum::<usize>() == 1;
        let works = !is_one && on_cpu(most) >= WORKER_MIN * all.max(1.0);
        works.then(|| (most.comm.as_str(), on_cpu(most)))
    }

    /// The share of their time that its busy threads waited for I/O; `None` where threads were not sampled.
    pub fn io_wait(&self) -> Option<f64> {
        (!self.states.is_empty()).then(|| self.share(self.io_waiters()))
    }

    /// The same where that is enough for what delays I/O to matter; all of the time where it is unknown.
    pub fn held_by_io(&self) -> Option<f64> {
        Some(self.io_wait().unwrap_or(1.0)).filter(|share| *share >= self.share_min(WAIT_MIN))
    }

    /// Its groups of active threads that `wanted` selects by name, system call and wait channel.
    pub fn groups(
        &self,
        wanted: impl Fn(&str, &str, &str) -> bool,
    ) -> impl Iterator<Item = &ThreadGroup> {
        self.groups.iter().filter(move |group| match group.values.as_slice() {
            [comm, _, syscall, wchan] => wanted(comm, syscall, wchan),
            _ => false,
        })
    }

    /// Mean number of threads in these groups.
    pub fn threads(&self, wanted: impl Fn(&str, &str, &str) -> bool) -> f64 {
        self.groups(wanted).map(|group| group.average).sum()
    }

    /// Whole devices that did I/O, the one with most I/Os in flight first; for a run, none if its targets are on no disk of
    /// this machine, and no stacked devices of others.
    pub fn disks(&self) -> Vec<&DiskRates> {
        let targets = &self.record.header.facts.targets;
        if !self.is_run() || targets.is_empty() {
            return self.all_disks();
        }
        if !targets.iter().any(TargetFacts::may_be_on_disks) {
            return Vec::new();
        }
        let all = &self.rates.disks;
        let is_target = |name: &&str| targets.iter().any(|target| target.may_be_on(name));
        let own = all.iter().map(|disk| disk.name.as_str()).filter(is_target).collect();
        let own = with_those_below(all, own);
        // A partition has the name of its device before its number.
        let is_own = |disk: &DiskRates| own.iter().any(|name| name.starts_with(&disk.name));
        let mut disks = self.all_disks();
        disks.retain(|disk| disk.kind != DiskKind::Stacked || is_own(disk));
        disks
    }

    /// The same of all programs.
    pub fn all_disks(&self) -> Vec<&DiskRates> {
        let is_whole = |disk: &&DiskRates| disk.kind != DiskKind::Partition && disk.queue > 0.0;
        let mut disks: Vec<&DiskRates> = self.rates.disks.iter().filter(is_whole).collect();
        disks.sort_by(|a, b| b.queue.total_cmp(&a.queue));
        disks
    }

    /// The one of these with most I/Os in flight that are not in flight below it as well.
    pub fn disk(&self) -> Option<&DiskRates> {
        let passes_on = |disk: &DiskRates| self.queue_below(disk) >= disk.queue * PASSED_ON_MIN;
        self.disks().into_iter().find(|disk| !passes_on(disk))
    }

    /// The same if it is busy enough to hold up anyone.
    pub fn busy_disk(&self) -> Option<&DiskRates> {
        self.disk().filter(|disk| disk.util >= UTIL_MIN)
    }

    /// Mean number of I/Os in flight at the devices right below one, those of other programs included. I/Os that are
    /// merged below count one by one, as they do above.
    pub fn queue_below(&self, disk: &DiskRates) -> f64 {
        let below = self.rates.disks.iter().filter(|other| disk.below.contains(&other.name));
        below.map(|other| other.queue * ios_per_request(other)).sum()
    }

    pub fn device(&self, name: &str) -> Option<&DeviceFacts> {
        self.record.header.sampling.as_ref()?.devices.iter().find(|device| device.name == name)
    }

    /// CPUs with the interrupts of a device per second that arrived there; disks of one controller share them.
    pub fn interrupts_of(&self, name: &str) -> Vec<(u32, f64)> {
        let header = &self.record.header;
        let wiring = header.sampling.iter().flat_map(|sampling| &sampling.wiring);
        let mut irqs: Vec<String> =
            wiring.filter(|device| device.name == name).flat_map(|d| d.irqs.clone()).collect();
        if let Some(topology) = header.facts.topology.as_ref().filter(|_| irqs.is_empty()) {
            topology.each(&mut |hop| {
                let is_above = !hop.irqs.is_empty() && hop.disks_below().contains(&name);
                irqs.extend(hop.irqs.iter().filter(|_| is_above).map(|irq| irq.number.to_string()));
            });
        }
        let sources = self.rates.system.iter().flat_map(|system| &system.interrupts_by);
        let mut by_cpu = BTreeMap::<u32, f64>::new();
        for (cpu, rate) in sources.filter(|s| irqs.contains(&s.irq)).flat_map(|s| &s.cpus) {
            *by_cpu.entry(*cpu).or_default() += rate;
        }
        by_cpu.into_iter().collect()
    }

    pub fn blocks(&self, name: &str) -> Option<&DeviceBlocks> {
        self.seen.last().blocks.as_ref()?.devices.iter().find(|device| device.name == name)
    }

    /// The cgroup as it was last.
    pub fn cgroup(&self) -> Option<&CgroupSample> {
        self.seen.last().system.as_ref()?.cgroup.as_ref()
    }

    /// What the workload, with its peers, and other programs read from and wrote to disks.
    pub fn disk_traffic(&self) -> [ProcessUse; 2] {
        let processes = &self.seen.processes;
        let mut sums = [processes.watched.clone(), ProcessUse::default()];
        for uses in processes.by_disk_bytes() {
            let sum = &mut sums[usize::from(!uses.peer)];
            sum.disk_read += uses.disk_read;
            sum.disk_write += uses.disk_write;
        }
        sums
    }

    /// The share of these bytes that is other programs'; `None` if that is not known.
    pub fn others_share(&self) -> Option<f64> {
        let [own, others] = self.disk_traffic().map(|uses| uses.disk_bytes());
        let is_known = self.seen.processes.elapsed_ns > 0 && own + others > 0;
        is_known.then(|| others as f64 / (own + others) as f64)
    }

    /// The CPUs on which the program may run, if these are not all; not where its peers count, who may have others.
    pub fn only_cpus(&self) -> Option<&[u32]> {
        let allowed = self.cpus_allowed.as_slice();
        let has_peers = self.account.as_ref().is_some_and(Account::has_peers);
        let is_some = !allowed.is_empty() && (allowed.len() as f64) < self.cpus_online();
        (self.is_own && is_some && !has_peers).then_some(allowed)
    }

    fn cpus_online(&self) -> f64 {
        f64::from(self.record.header.facts.host.cpus_online.max(1))
    }

    /// CPUs that the workload can use.
    pub fn cpus(&self) -> f64 {
        self.only_cpus().map_or_else(|| self.cpus_online(), |only| only.len() as f64)
    }

    /// `2 CPUs`, or `1 CPU that it may use (3)`.
    pub fn cpus_named(&self) -> String {
        let count = self.cpus();
        let plural = if count == 1.0 { "CPU" } else { "CPUs" };
        match self.only_cpus() {
            Some(only) => format!("{count} {plural} that it may use ({})", cpus::list(only)),
            None => format!("{count} {plural}"),
        }
    }

    /// CPU time of these CPUs in use, in percent, stolen time included; `None` if that is not known.
    pub fn cpus_busy(&self) -> Option<f64> {
        let system = self.rates.system.as_ref()?;
        let busy = |cpu: &CpuPercent| 100.0 - cpu.idle - cpu.iowait;
        let Some(only) = self.only_cpus() else {
            return (system.cpu != CpuPercent::default()).then(|| busy(&system.cpu));
        };
        let of: Vec<f64> = system
            .cpus
            .iter()
            .filter(|cpu| only.contains(&cpu.cpu))
            .map(|cpu| busy(&cpu.shares))
            .collect();
        (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
    }

    /// The state in which the program spent its time, and the mean number of threads in it, if it was asleep and neither
    /// a CPU nor I/O would have woken it.
    fn asleep(&self) -> Option<(ThreadState, f64)> {
        use ThreadState as S;
        let states = [S::Timer, S::Pipe, S::Poll, S::Socket, S::Stopped];
        let states = states.into_iter().map(|state| (state, self.state(state)));
        let (state, mean) = states.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let enough = ASLEEP_MIN.max(self.busy_threads() * ASLEEP_TIMES);
        (self.is_own && mean >= enough).then_some((state, mean))
    }

    pub fn workload(&self) -> Subject {
        let pid = Some(self.seen.processes.watched.pid).filter(|pid| *pid > 0);
        match self.is_own {
            true => Subject::Process { comm: self.who.clone(), pid },
            false => Subject::Machine,
        }
    }

    pub fn threads_in(&self, comm: &str, wchan: &str) -> Subject {
        Subject::ThreadGroup { comm: comm.to_string(), wchan: wchan.to_string() }
    }

    /// A command line that shows where the workload's threads are, or those of the peer to which most in `state` belong.
    pub fn stacks_command(&self, state: ThreadState) -> String {
        let own = self.seen.processes.watched.pid;
        match self.peer_in(state).map_or(own, |peer| peer.pid) {
            pid @ 1.. if self.is_own && !self.is_run() => format!("fathom stacks -p {pid}"),
            _ => "fathom stacks".to_string(),
        }
    }

    pub fn own_cgroup(&self) -> Subject {
        let path = self.cgroup().map_or_else(String::new, |cgroup| cgroup.path.clone());
        Subject::Cgroup { path }
    }

    /// Why no cause is found, and what would settle it.
    pub fn inconclusive(&self) -> Claim {
        let level = self.record.header.sampling.as_ref().map(|watch| watch.level);
        let busy = self.cpus_busy().filter(|busy| *busy >= CPUS_BUSY_MIN);
        let who = &self.who;
        let saturated = "nothing that was sampled was saturated".to_string();
        let longer = "Run for at least several seconds";
        let (why, step) = match (level, busy, self.asleep()) {
            _ if (1..LIFE_MIN_NS).contains(&self.life_ns()) => {
                // Sampling begins a moment after a run.
                let ran = units::time(self.ran_ns().max(self.life_ns()) as f64);
                let short = format!("too short to tell: {} ran for only {ran}.", self.subject());
                return Claim::new(short, Vec::new()).about(self.workload()).remedy(longer);
            }
            _ if self.seen.samples < SAMPLES_MIN => {
                ("fewer than two samples of the machine were taken".into(), longer)
            }
            (None | Some(Level::Off), ..) => {
                ("nothing was sampled".into(), "Use --sampling=default or full")
            }
            (_, _, Some((state, mean))) => return self.why_asleep(state, mean),
            _ if self.unnamed(NAMED_MIN).is_some() => {
                return self.unnamed(NAMED_MIN).unwrap_or_else(|| self.because(saturated));
            }
            _ if self.is_own && self.share(self.state(ThreadState::FutexBrief)) >= NAMED_MIN => {
                return self.why_in_futex();
            }
            (_, Some(busy), None) => {
                let why = format!(
                    "the CPUs were {busy:.0}% busy, but {who} did not spend its time waiting for one"
                );
                (why, "Rerun when other programs are idle")
            }
            _ if !self.is_own => (
                "no machine-wide bottleneck was found".into(),
                "Watch one program: fathom watch -p PID",
            ),
            (Some(Level::Default), ..) => (
                saturated,
                "--sampling=full also samples the block layer; or change one setting, such as iodepth or numjobs, and \
                 compare",
            ),
            (Some(Level::Full), ..) => (
                saturated,
                "Change one setting, such as the queue depth or the number of threads, and compare",
            ),
        };
        self.because(why).remedy(step)
    }

    /// That the largest part of the time is one of which no cause is known, if it is at least this share.
    pub fn unnamed(&self, least: f64) -> Option<Claim> {
        let (state, share) = [ThreadState::Unknown, ThreadState::Other]
            .map(|state| (state, self.share(self.state(state))))
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        if !self.is_own || share < least {
            return None;
        }
        let (who, shown) = (self.who_in(state), share * 100.0);
        if state == ThreadState::Unknown {
            let why = format!("what {who} did in {shown:.0}% of its time is not known");
            return Some(
                self.because(why).remedy("Run for at least several seconds").weight(share),
            );
        }
        let most = self.account.as_ref().and_then(|account| account.most_in(state));
        let functions = most.into_iter().flat_map(|group| &group.functions);
        let function = functions.into_iter().find(|one| one.state == state);
        let place =
            function.map_or_else(String::new, |one| format!(", most of it in {}", one.function));
        let why = format!("{who} waited {shown:.0}% of the time for something else{place}");
        let claim = self.because(why).remedy("Find the system calls in which it waits");
        Some(claim.command("fathom threads -g comm,state,syscall,wchan,kstack").weight(share))
    }

    /// Its threads wait for each other, but not so that it is known to be for a lock.
    fn why_in_futex(&self) -> Claim {
        let state = ThreadState::FutexBrief;
        let (who, share) = (self.who_in(state), self.share(self.state(state)) * 100.0);
        let enders = self.holders(state).map_or_else(String::new, |(sentence, _)| sentence);
        let text = format!(
            "inconclusive: {who} waited {share:.0}% of the time for other threads, in futex(2): for a lock or for work.{enders}"
        );
        let claim = Claim::new(text, Vec::new()).about(self.workload());
        claim.remedy("Find who holds what they wait for").command(self.stacks_command(state))
    }

    fn because(&self, why: String) -> Claim {
        Claim::new(format!("inconclusive: {why}."), Vec::new()).about(self.workload())
    }

    fn why_asleep(&self, state: ThreadState, mean: f64) -> Claim {
        let (who, name) = (&self.who, state.name());
        match (state, self.peer()) {
            (ThreadState::Timer, _) => self.because(format!(
                "{who} slept in a timer ({mean:.2} threads), not waiting for a CPU or a disk"
            )),
            (ThreadState::Stopped, _) => self.because(format!(
                "{who} was stopped ({mean:.2} threads), by a signal or a debugger"
            )),
            (_, Some(peer)) => {
                let why = format!("{who} waited for {} ({mean:.2} threads: {name})", peer.named());
                self.because(why)
                    .remedy(format!("Watch that instead: fathom watch -p {}", peer.comm))
                    .command(format!("fathom watch -p {}", shell::quoted(&peer.comm)))
            }
            (_, None) => self.because(format!(
                "{who} waited for input or another program ({mean:.2} threads: {name}), not for a CPU or a disk"
            )),
        }
    }
}

/// What these threads did meanwhile, as a sentence, and the share of that time that they were on a CPU.
pub(super) fn meanwhile(who: &str, did: &[AccountShare]) -> (String, f64) {
    let named = did.iter().filter(|did| did.share >= NAMED_MIN);
    let named: Vec<String> =
        named.map(|did| format!("{} {:.0}%", did.state.name(), did.share * 100.0)).collect();
    let on_cpu = did.iter().filter(|did| did.state == ThreadState::OnCpu);
    (format!("{who} meanwhile: {}.", named.join(", ")), on_cpu.map(|did| did.share).sum())
}

/// The CPUs to which a run binds its jobs, if it binds all of them.
fn jobs_cpus(record: &RunRecord) -> Option<Vec<u32>> {
    let jobs = &record.plan.jobs;
    let is_bound = !jobs.is_empty() && jobs.iter().all(|job| !job.placement.cpus.is_empty());
    let all: BTreeSet<u32> = jobs.iter().flat_map(|job| job.placement.cpus.clone()).collect();
    is_bound.then(|| all.into_iter().collect())
}

/// I/Os that a device received per request that it completed: above 1 where some were merged.
fn ios_per_request(disk: &DiskRates) -> f64 {
    let kinds = [&disk.read, &disk.write, &disk.discard];
    let requests: f64 = kinds.iter().map(|kind| kind.ios).sum();
    let merges: f64 = kinds.iter().map(|kind| kind.merges).sum();
    if requests > 0.0 { 1.0 + merges / requests } else { 1.0 }
}

/// The name of the watched process that used most; a shell's may be that of what it started.
fn who(record: &RunRecord, seen: &Observed) -> String {
    let command = record.header.sampling.as_ref().and_then(|watch| watch.command.as_ref());
    let program = command.and_then(|command| command.argv.first()?.rsplit('/').next());
    match (program, seen.processes.watched.comm.as_str()) {
        _ if record.header.kind == RecordKind::Run => "fathom".into(),
        (Some(program), "") => program.into(),
        (None, "") => THE_MACHINE.into(),
        // The kernel cuts names off.
        (Some(program), comm) if program.starts_with(comm) => program.into(),
        (_, comm) => comm.into(),
    }
}
