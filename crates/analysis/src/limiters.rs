//! What limited a workload, from what was sampled while it ran: the block "Limited by" of `run` and `watch`.
//!
//! Each cause is a pure function of a `View`: it has evidence of its own, and none is found by elimination.
//! docs/limiters.md describes all of them with their thresholds.

mod cgroup;
mod cpu;
mod device;
mod memory;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
#[cfg(test)]
mod tests;
mod threads;

use crate::layers::LayerTimes;
use crate::machine::{DiskRates, MachineRates};
use crate::threads::ThreadGroup;
use crate::watch::ObservedTotals;
use fathom_model::RunRecord;
use fathom_model::facts::DeviceFacts;
use fathom_model::finding::{Class, Confidence, Evidence, Finding, Severity};
use fathom_model::outcome::RecordKind;
use fathom_model::watch::{DiskKind, Level, Stack, ThreadState};

/// So many causes are named at most.
const CAUSES_MAX: usize = 3;
/// A cause that explains a smaller part than this of what the largest does is left out.
const PART_OF_LARGEST: f64 = 0.25;
/// Fewer samples of the machine than this show nothing.
const SAMPLES_MIN: u64 = 2;

/// What limited a workload.
#[derive(Debug, Clone, PartialEq)]
pub enum Limiters {
    /// These, the largest first.
    Found(Vec<Finding>),
    /// Nothing that was sampled; what would settle it.
    Inconclusive(String),
}

/// One cause.
struct Cause {
    id: &'static str,
    /// The part of the time, or of the work, that it explains: 0 to 1.
    weight: f64,
    confidence: Confidence,
    summary: String,
    evidence: Vec<Evidence>,
    next_step: String,
}

/// What causes are found in.
struct View<'a> {
    record: &'a RunRecord,
    seen: &'a ObservedTotals,
    rates: MachineRates,
    /// Groups of active threads, and all threads by state; empty where threads of other programs are among them.
    groups: Vec<ThreadGroup>,
    states: Vec<(ThreadState, f64)>,
    layers: LayerTimes,
    /// Whether particular processes are watched, and not the whole machine.
    is_own: bool,
    /// What the watched processes are called.
    who: String,
}

/// All checks; where several hold with the same weight, the earlier one is named first.
const CHECKS: [fn(&View) -> Option<Cause>; 15] = [
    cgroup::io_limit,
    cgroup::cpu_quota,
    cgroup::memory_limit,
    memory::swapping,
    cpu::other_programs,
    device::other_programs,
    threads::syncs,
    device::tags,
    device::scheduler,
    threads::lock,
    threads::io_workers,
    memory::not_on_disk,
    threads::one_read_at_a_time,
    cpu::own_time,
    device::device,
];

/// What limited the workload of `record` while `seen` was sampled, whose samples refer to `stacks`.
#[must_use]
pub fn limiters(record: &RunRecord, seen: &ObservedTotals, stacks: &[Stack]) -> Limiters {
    let view = View::new(record, seen, stacks);
    let mut causes: Vec<Cause> = match seen.samples {
        SAMPLES_MIN.. => CHECKS.iter().filter_map(|check| check(&view)).collect(),
        _ => Vec::new(),
    };
    // That CPU time or a device is in use says less than what uses it up, or holds I/Os back from it.
    let is_weak = |cause: &Cause| WEAK.contains(&cause.id);
    causes.sort_by(|a, b| is_weak(a).cmp(&is_weak(b)).then(b.weight.total_cmp(&a.weight)));
    let least = causes.first().map_or(0.0, |first| first.weight * PART_OF_LARGEST);
    let has_holder = causes.iter().any(|cause| !is_weak(cause));
    causes.retain(|cause| cause.weight >= least && !(has_holder && cause.id == device::ID));
    causes.truncate(CAUSES_MAX);
    match causes.is_empty() {
        true => Limiters::Inconclusive(view.what_would_settle_it()),
        false => Limiters::Found(causes.into_iter().map(Cause::into_finding).collect()),
    }
}

/// Causes that are named last.
const WEAK: [&str; 2] = [device::ID, cpu::OWN_ID];

impl Cause {
    fn into_finding(self) -> Finding {
        let Self { id, confidence, summary, evidence, next_step, .. } = self;
        // The names of programs stay as they are.
        let summary = match summary.strip_prefix(THE_MACHINE) {
            Some(rest) => format!("This machine{rest}"),
            None => summary,
        };
        Finding {
            rule: id.to_string(),
            class: Class::Limiter,
            severity: Severity::Info,
            confidence: Some(confidence),
            summary,
            evidence,
            next_step: (!next_step.is_empty()).then_some(next_step),
        }
    }
}

impl<'a> View<'a> {
    fn new(record: &'a RunRecord, seen: &'a ObservedTotals, stacks: &[Stack]) -> Self {
        let watch = record.watch.as_ref();
        let is_run = record.kind == RecordKind::Run;
        let whole_machine = watch.is_none_or(|watch| watch.pids.is_empty());
        let (groups, states) = match whole_machine && is_run {
            true => (Vec::new(), Vec::new()),
            false => (seen.threads.largest_first(), seen.threads.states()),
        };
        let samples = seen.stacks();
        let layers = LayerTimes::of(samples.iter(), stacks, |_| true);
        let is_own = is_run || !whole_machine;
        Self {
            record,
            seen,
            rates: seen.rates(),
            groups,
            states,
            layers,
            is_own,
            who: who(record, seen),
        }
    }

    /// Mean number of watched threads in `state`.
    fn state(&self, state: ThreadState) -> f64 {
        self.states.iter().find(|(known, _)| *known == state).map_or(0.0, |(_, mean)| *mean)
    }

    /// Mean number of watched threads that ran, wanted to, or waited for something that limits them: not those without
    /// work.
    fn busy_threads(&self) -> f64 {
        use ThreadState as S;
        let busy =
            [S::OnCpu, S::Runnable, S::Disk, S::KernelLock, S::IoUring, S::Aio, S::FutexBrief];
        busy.into_iter().map(|state| self.state(state)).sum()
    }

    /// Mean number of watched active threads whose group `wanted` selects by name, system call and wait channel.
    fn threads(&self, wanted: impl Fn(&str, &str, &str) -> bool) -> f64 {
        let wanted = |group: &&ThreadGroup| match group.values.as_slice() {
            [comm, _, syscall, wchan] => wanted(comm, syscall, wchan),
            _ => false,
        };
        self.groups.iter().filter(wanted).map(|group| group.average).sum()
    }

    /// Whole devices that did I/O, the one with most I/Os in flight first; one whose I/Os reach another is left out.
    fn disks(&self) -> Vec<&DiskRates> {
        let is_whole = |disk: &&DiskRates| disk.kind != DiskKind::Partition && disk.queue > 0.0;
        let mut disks: Vec<&DiskRates> = self.rates.disks.iter().filter(is_whole).collect();
        disks.sort_by(|a, b| b.queue.total_cmp(&a.queue));
        disks
    }

    /// The settings of a device's queue.
    fn device(&self, name: &str) -> Option<&DeviceFacts> {
        self.record.watch.as_ref()?.devices.iter().find(|device| device.name == name)
    }

    /// CPUs online.
    fn cpus(&self) -> f64 {
        f64::from(self.record.facts.host.cpus_online.max(1))
    }

    fn is_run(&self) -> bool {
        self.record.kind == RecordKind::Run
    }

    fn what_would_settle_it(&self) -> String {
        let level = self.record.watch.as_ref().map(|watch| watch.level);
        match level {
            _ if self.seen.samples < SAMPLES_MIN => {
                "fewer than two samples of the machine were taken. Let it run for several seconds".into()
            }
            None | Some(Level::Off) => "nothing was sampled. Use --sampling=default or full".into(),
            _ if !self.is_own => {
                "nothing on this machine was saturated. Watch one program: fathom watch -p PID".into()
            }
            Some(Level::Default) => {
                "nothing that was sampled was saturated. --sampling=full also samples the block layer; or change \
                 one setting, such as iodepth or numjobs, and compare"
                    .into()
            }
            Some(Level::Full) => {
                "nothing that was sampled was saturated. Change one setting, such as the queue depth or the number \
                 of threads, and compare"
                    .into()
            }
        }
    }
}

/// Who is watched where no program is.
const THE_MACHINE: &str = "this machine";

/// The name of the watched process that used most; a shell's may be that of what it started.
fn who(record: &RunRecord, seen: &ObservedTotals) -> String {
    let command = record.watch.as_ref().and_then(|watch| watch.command.as_ref());
    let program = command.and_then(|command| command.argv.first()?.rsplit('/').next());
    match (program, seen.processes.watched.comm.as_str()) {
        _ if record.kind == RecordKind::Run => "fathom".into(),
        (Some(program), "") => program.into(),
        (None, "") => THE_MACHINE.into(),
        // The kernel cuts names off.
        (Some(program), comm) if program.starts_with(comm) => program.into(),
        (_, comm) => comm.into(),
    }
}
