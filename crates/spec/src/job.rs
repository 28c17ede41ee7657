//! A job: what its keys say, and the plan that is completed from it.

use crate::error::Place;
use crate::trace::{Replaying, Trace};
use fathom_model::plan::{
    Advice, BlockSizes, CommandPriority, CpuLoad, DataPlacement, Dedupe, Directive, Distribution,
    Donor, Engine, Flow, IoFlags, JobPlan, LatencyTarget, Logs, Mix, Order, Psync, Rate,
    ScsiCommands, SqPoll, StatCall, SteadyState, Target, Think, UntilSteady, Uring, Verify,
    VerifyMethod, VerifyTrims, ZoneRules,
};
use fathom_model::{Dir, PerDir};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub key: &'static str,
    pub value: String,
    /// Whether it is from a `[global]` section.
    pub global: bool,
    /// The line of the job file that it is from.
    pub place: Option<Place>,
    /// Whether the end of its value was ignored, as fio ignores it.
    pub cut: bool,
}

/// Of `latency_target`, unless the job sets one.
const LATENCY_WINDOW_NS: u64 = 100_000_000;

/// Queue depth of a trace that is replayed at its times, unless the job sets one.
const TRACED_DEPTH: u32 = 128;
/// Its buffers have no more memory than that.
const TRACED_BYTES_MAX: u64 = 256 << 20;

/// A length or offset, absolute or relative to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Bytes(u64),
    /// In percent, from 0 to 100; of a whole device also more, which is all of it.
    Percent(u32),
    /// In zones (`4z`).
    Zones(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneMode {
    None,
    Strided,
    /// `zbd`.
    Device,
}

impl Default for Size {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// One section of a job file, or one `--name`: `numjobs` identical workers.
///
/// Keys write into the plan, except for those that only mean something together with another key, a clone or the
/// machine; these have the other fields, named like the key where there is one. `Job::complete` does what other keys
/// decide, `plan::jobs::resolve` what the machine does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    pub plan: JobPlan,
    /// The line of the job file that begins the section.
    pub place: Option<Place>,
    /// Keys in the order given, those of `[global]` first.
    pub given: Vec<Given>,
    pub numjobs: u32,

    pub filename: Vec<String>,
    /// Directories of whose files all are used.
    pub opendir: Vec<String>,
    pub directory: Vec<String>,
    /// Empty for fio's default.
    pub filename_format: String,
    pub nrfiles: u32,
    /// The total of all files.
    pub size: Option<Size>,
    /// Minimum and maximum size of each file, in bytes.
    pub filesize: Option<(u64, u64)>,
    pub offset: Size,
    pub offset_increment: Size,
    /// In bytes.
    pub offset_align: Option<u64>,
    pub file_append: bool,
    pub create_only: bool,
    pub allow_file_create: bool,
    pub unlink_each_loop: bool,
    /// `None` follows the I/O pattern.
    pub fadvise_hint: Option<Advice>,
    /// What the keys say of each target; `fill` is `overwrite`.
    pub target: Target,

    /// In percent.
    pub rwmixread: u32,
    pub norandommap: bool,
    /// `random_generator=lfsr`.
    pub each_once: bool,
    /// Other than `random`.
    pub random_distribution: Option<Distribution>,
    pub random_sequence_stride: bool,
    pub sprandom: bool,
    pub steady_state: SteadyState,
    /// As given.
    pub zone_mode: Option<ZoneMode>,
    /// In bytes, as the following; 0 if not given.
    pub zone_size: u64,
    pub zone_range: u64,
    pub zone_capacity: u64,
    pub zone_skip: Size,
    pub ignore_zone_limits: bool,
    /// What other keys say of zones.
    pub zone_rules: ZoneRules,
    /// `bs_unaligned`.
    pub any_size: bool,
    pub randrepeat: bool,
    pub randseed: Option<u64>,

    /// io_uring settings; what passthrough engines and pvsync2 have in common with it is here, too.
    pub ring: Uring,
    pub sqthread_poll: bool,
    pub poller: SqPoll,
    pub nowait: bool,
    pub stat_type: StatCall,
    /// What `cpuio` does.
    pub cpu_load: CpuLoad,
    /// `donorname` as given, and `inplace`.
    pub donor: Donor,
    /// `fdp`, and `dataplacement` if it is not none.
    pub fdp: bool,
    pub directive: Option<Directive>,
    /// What the other keys say of it.
    pub placing: DataPlacement,
    pub dp_scheme: Option<String>,
    /// `sg_write_mode` and `stream_id`.
    pub scsi: ScsiCommands,
    /// `cmd_type=bsg`.
    pub bsg: bool,

    /// Wait for all preceding jobs.
    pub stonewall: bool,
    pub new_group: bool,
    pub wait_for: Option<String>,
    /// Minimum and maximum, in nanoseconds.
    pub startdelay_ns: (u64, u64),
    pub time_based: bool,
    pub loops: u32,
    pub io_size: Option<Size>,
    /// `cpus_allowed_policy=split`: one CPU per clone.
    pub cpus_split: bool,
    pub numa_cpu_nodes: Option<Nodes>,

    pub cmdprio_percentage: PerDir<u32>,
    pub cmdprio_class: PerDir<u16>,
    pub cmdprio: PerDir<u16>,
    pub cmdprio_hint: PerDir<u16>,
    pub cmdprio_bssplit: PerDir<Vec<PriorityShare>>,

    /// In bytes per second.
    pub rate_bytes: PerDir<Option<u64>>,
    pub rate_iops: PerDir<Option<u64>>,
    /// No flow if its weight is 0.
    pub flowing: Flow,
    /// None if its latency is 0.
    pub searching: LatencyTarget,
    /// None if its time is 0.
    pub thinking: Think,
    /// `steadystate` was given, which needs a duration.
    pub ends_steady: bool,
    pub steady: UntilSteady,

    /// `None` inside if switched off; not given at all, a pattern has one of its own.
    pub verify_method: Option<Option<VerifyMethod>>,
    /// What is verified, if a method says how.
    pub verification: Verify,
    pub verify_sequence: Option<bool>,
    pub verify_seed: Option<bool>,
    /// As given; by default, only a program that was started as `fio` saves it.
    pub verify_state_save: Option<bool>,
    /// None if its percentage or its backlog is 0; a batch of 0 is the backlog.
    pub verify_trims: VerifyTrims,

    pub read_iolog: Vec<String>,
    pub replaying: Replaying,
    /// What was read from `read_iolog`; clone N replays number N, and after the last the first again.
    pub traces: Vec<Arc<Trace>>,

    /// None if its percentage is 0; a working set has its size only once the regions are known.
    pub duplicates: Dedupe,
    pub dedupe_working_set_percentage: u32,
    /// Prefixes of file names are empty for the job's name.
    pub logging: Logs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityShare {
    pub block: u64,
    pub percent: u32,
    /// Class, level and hint; `None` for those of the job.
    pub own: Option<[u16; 3]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    All,
    Only(Vec<u32>),
    Without(Vec<u32>),
}

impl Deref for Job {
    type Target = JobPlan;
    fn deref(&self) -> &JobPlan {
        &self.plan
    }
}

impl DerefMut for Job {
    fn deref_mut(&mut self) -> &mut JobPlan {
        &mut self.plan
    }
}

impl Job {
    pub fn new() -> Self {
        let engine = Engine::IoUring(Uring::default());
        let mut plan =
            JobPlan::new("", engine, Mix::Only(Dir::Read), Order::Sequential { skip: 0 });
        plan.invalidate = true;
        plan.rate_floor.cycle_ns = 1_000_000_000;
        // The smallest block size.
        plan.access.align = PerDir::splat(0);
        Self {
            plan,
            numjobs: 1,
            nrfiles: 1,
            allow_file_create: true,
            rwmixread: 50,
            randrepeat: true,
            loops: 1,
            cmdprio_class: PerDir::splat(1),
            searching: LatencyTarget { percentile: 100.0, ..LatencyTarget::default() },
            cpu_load: CpuLoad { chunk_ns: 50_000_000, ..CpuLoad::default() },
            thinking: Think { blocks: 1, ..Think::default() },
            steady: UntilSteady { interval_ns: 1_000_000_000, ..UntilSteady::default() },
            dedupe_working_set_percentage: 5,
            replaying: Replaying { time_scale: 100, scale: 1, ..Replaying::default() },
            verification: Verify { read_back: true, ..Verify::default() },
            verify_trims: VerifyTrims { zero: true, ..VerifyTrims::default() },
            logging: Logs { average: true, per_job: true, ..Logs::default() },
            ..Self::default()
        }
    }

    pub(crate) fn trace(&self, clone: u32) -> Option<&Arc<Trace>> {
        self.traces.get(clone as usize % self.traces.len().max(1))
    }

    /// Takes directions, lengths and queue depth from the traces.
    fn complete_traced(&mut self) {
        let lengths = PerDir::from_fn(|dir| {
            let all = self.traces.iter().filter_map(|trace| trace.lengths(dir));
            all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        });
        self.access.mix = Mix::Traced(lengths.map(|_, lengths| lengths.is_some()));
        self.access.order = Order::Sequential { skip: 0 };
        for dir in Dir::ALL {
            self.access.block_sizes[dir] = match lengths[dir] {
                Some((min, max)) if min < max => BlockSizes::Range { min, max },
                Some((_, max)) => BlockSizes::Fixed(max),
                None => continue,
            };
        }
        // As in fio, as many as the trace had in flight; where it does not say, I/Os must not wait for each other.
        let probed = self.traces.iter().filter_map(|trace| trace.depth).max();
        let timed = self.traces.iter().any(|trace| trace.is_timed());
        let longest = self.block_max().max(1);
        let fitting = (TRACED_BYTES_MAX / longest).clamp(1, u64::from(TRACED_DEPTH)) as u32;
        let depth = probed.or(timed.then_some(fitting));
        if let Some(depth) = depth.filter(|_| !self.has("iodepth") && !self.engine.is_synchronous())
        {
            self.plan.depth = depth;
        }
    }

    /// Completes what depends on several keys, whatever their order.
    pub(crate) fn complete(&mut self) {
        if !self.traces.is_empty() {
            self.complete_traced();
        }
        if let Mix::ReadWrite { read_percent } = &mut self.plan.access.mix {
            *read_percent = self.rwmixread;
        }
        if self.access.mix == Mix::TrimThenWrite {
            // It writes what it trims.
            self.access.block_sizes.write = self.access.block_sizes.trim.clone();
        }
        if let Order::Random { distribution, .. } = &mut self.plan.access.order {
            let repeats = self.norandommap && !self.each_once;
            let default = match (self.sprandom, repeats) {
                (true, _) => Distribution::SteadyState(self.steady_state),
                (false, true) => Distribution::Uniform,
                (false, false) => Distribution::EachOnce,
            };
            *distribution = self.random_distribution.clone().unwrap_or(default);
            if let Distribution::Sequence { stride, .. } = distribution {
                *stride = self.random_sequence_stride;
            }
        }
        let pattern = match self.is_random() {
            _ if !self.traces.is_empty() => Advice::None,
            true => Advice::Random,
            false => Advice::Sequential,
        };
        self.advice = self.fadvise_hint.unwrap_or(pattern);
        // As in fio, not dropped if it will be filled.
        self.invalidate &= !self.pre_read;
        // As in fio, `time_based` makes one pass.
        let fresh = self.unlink_each_loop && !self.time_based;
        self.fresh_passes = if fresh { self.loops } else { 1 };
        // As in fio, `atomic` implies direct I/O, and is about writes; `uncached` is about buffered I/O.
        self.direct |= self.flags.atomic;
        self.flags = IoFlags {
            atomic: self.flags.atomic && self.access.mix.has(Dir::Write),
            uncached: self.flags.uncached && !self.direct,
        };
        self.rate = PerDir::from_fn(|dir| {
            let iops = self.rate_iops[dir].map(Rate::Iops);
            iops.or_else(|| self.rate_bytes[dir].map(Rate::BytesPerSecond))
        });
        self.flow = Some(self.flowing).filter(|flow| flow.weight > 0);
        self.latency_target = Some(self.searching).filter(|target| target.target_ns > 0);
        for target in self.latency_target.iter_mut().filter(|target| target.window_ns == 0) {
            target.window_ns = LATENCY_WINDOW_NS;
        }
        if self.any_size {
            for dir in Dir::ALL {
                let sizes = &mut self.plan.access.block_sizes[dir];
                if let BlockSizes::Range { min, max } = *sizes {
                    *sizes = BlockSizes::Any { min, max };
                }
            }
        }
        self.complete_load();
        self.thinking.spin_ns = self.thinking.spin_ns.min(self.thinking.time_ns);
        self.think = Some(self.thinking).filter(|think| think.time_ns > 0);
        self.priorities = self.command_priorities();
        let directive = self.directive.or(self.fdp.then_some(Directive::Placement));
        let placement =
            DataPlacement { directive: directive.unwrap_or_default(), ..self.placing.clone() };
        self.ring.nvme.placement = directive.map(|_| placement);
        self.ring.sqpoll = self.sqthread_poll.then_some(self.poller);
        self.verify = self.verified();
        self.until_steady = self.steady_end();
    }

    /// Of `cpuio`, think time between its loops makes up the load; of others, an I/O time replaces the default of one I/O.
    fn complete_load(&mut self) {
        if let Engine::Cpu(_) = self.engine {
            let load = self.cpu_load;
            let idle = u64::from(100 - load.percent.min(100));
            let time_ns = load.chunk_ns.saturating_mul(idle) / u64::from(load.percent.max(1));
            self.engine = Engine::Cpu(load);
            self.thinking = Think { time_ns, blocks: 1, ..Think::default() };
        } else if self.thinking.io_ns > 0 && !self.has("thinktime_blocks") {
            self.thinking.blocks = 0;
        }
    }

    fn steady_end(&self) -> Option<UntilSteady> {
        // As in fio, a duration alone asks for its default criterion.
        let default = UntilSteady { slope: true, limit: 0.01, percent: true, ..self.steady };
        let steady = if self.ends_steady { self.steady } else { default };
        (self.steady.duration_ns > 0).then_some(steady)
    }

    fn verified(&self) -> Option<Verify> {
        // As in fio.
        let by_pattern =
            (!self.verification.pattern.is_empty()).then_some(VerifyMethod::PatternHeader);
        let method = self.verify_method.unwrap_or(by_pattern)?;
        let moves = match &self.engine {
            Engine::Null | Engine::Nop(_) | Engine::Names(_) | Engine::Cpu(_) => false,
            Engine::MoveExtents(_) => false,
            Engine::Psync(call) => !matches!(call, Psync::Allocate | Psync::Truncate),
            _ => true,
        };
        if !moves || !self.access.mix.moves_data() {
            return None;
        }
        let (write, read) = (&self.access.block_sizes.write, &self.access.block_sizes.read);
        let mut interval = self.verification.interval as u64;
        if interval == 0 && write.min() != write.max() || interval > write.min() {
            interval = write.min();
        } else if self.access.mix.has(Dir::Read) && interval > read.min() {
            interval = read.min();
        }
        if interval == 0 || !write.unit().is_multiple_of(interval) {
            interval = write.unit();
        }
        let writes = self.access.mix.has(Dir::Write);
        let only = self.verification.only && writes;
        let mut trims = self.verify_trims;
        if trims.batch == 0 {
            trims.batch = trims.backlog;
        }
        let trims_any = writes && !only && trims.percent > 0 && trims.backlog > 0;
        Some(Verify {
            method,
            interval: u32::try_from(interval).unwrap_or(u32::MAX),
            read_back: (self.verification.read_back || only) && writes,
            only,
            backlog: if writes && !only { self.verification.backlog } else { 0 },
            sequence: self.verify_sequence.unwrap_or(!only),
            seed: self.verify_seed.unwrap_or(!only),
            trims: Some(trims).filter(|_| trims_any),
            save_state: self.verify_state_save.unwrap_or_default() && writes && !only,
            ..self.verification.clone()
        })
    }

    fn command_priorities(&self) -> PerDir<Vec<CommandPriority>> {
        PerDir::from_fn(|dir| {
            // As in ioprio_set(2).
            let value = |[class, level, hint]: [u16; 3]| class << 13 | hint << 3 | level;
            let default = [self.cmdprio_class[dir], self.cmdprio[dir], self.cmdprio_hint[dir]];
            let split = self.cmdprio_bssplit[dir].iter();
            let split = split.map(|part| (Some(part.block), part.percent, part.own));
            let all = split.chain([(None, self.cmdprio_percentage[dir], None)]);
            let some = all.filter(|(_, percent, _)| *percent > 0 && dir != Dir::Trim);
            let rule = |(block, percent, own): (_, _, Option<_>)| CommandPriority {
                block,
                percent,
                value: value(own.unwrap_or(default)),
            };
            some.map(rule).collect()
        })
    }

    /// The way it uses zones. `zonesize` alone means `strided`.
    pub fn zone_mode(&self) -> ZoneMode {
        let default = if self.zone_size > 0 { ZoneMode::Strided } else { ZoneMode::None };
        self.zone_mode.unwrap_or(default)
    }

    /// Where `key` (a canonical name) was given last.
    pub(crate) fn last(&self, key: &str) -> Option<&Given> {
        self.given.iter().rfind(|given| given.key == key)
    }

    /// Whether the job or `[global]` has `key` (a canonical name).
    pub fn has(&self, key: &str) -> bool {
        self.last(key).is_some()
    }

    /// Whether the job's own section has `key` (a canonical name).
    pub fn has_own(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key == key && !given.global)
    }

    /// Where `key` (a canonical name) was given last, or else where the job begins.
    pub(crate) fn place_of(&self, key: &str) -> Option<&Place> {
        self.last(key).and_then(|given| given.place.as_ref()).or(self.place.as_ref())
    }

    pub fn is_random(&self) -> bool {
        matches!(self.access.order, Order::Random { .. })
    }

    pub fn modifies(&self) -> bool {
        let only_reads = self.verify.as_ref().is_some_and(|verify| verify.only);
        self.used_dirs().any(Dir::modifies) && !only_reads
    }

    pub fn uses_files(&self) -> bool {
        self.engine.uses_files()
    }
}
