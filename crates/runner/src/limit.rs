//! The search for the limits of targets: a client of measured windows.

mod executor;
mod ranks;
mod targets;

use crate::cancel::CancelToken;
use crate::design;
use crate::ranks::{Ranks, SILENCE};
use crate::run::Hooks;
use crate::session::{Measuring, RecordTo, Session, new_header};
use crate::targets::OpenTargets;
use crate::{cost, memory};
use executor::{EngineExecutor, Place};
use fathom_analysis::derive;
use fathom_analysis::limit::Search;
use fathom_analysis::processes::competitors;
use fathom_analysis::rules::judge_limit;
use fathom_analysis::watch::IoLimit;
use fathom_machine::guard::Permissions;
use fathom_machine::scratch::ScratchSize;
use fathom_model::facts::TargetFacts;
use fathom_model::limit::{
    BlockSpec, Config, DeviceSpec, LatencyTarget, LimitRecord, PeakCost, Phase, QueueFacts,
    SuiteTest,
};
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::record::{Cost, JobRecord};
use fathom_model::watch::Level;
use fathom_model::window::{Conditions, Load, Measurement, Point, Probe, Window};
use fathom_watch::disks::driver_tags;
use fathom_watch::system::CgroupSampler;
use ranks::RanksExecutor;
use std::path::Path;
use std::time::{Duration, Instant};

/// Upper bounds of the memory of I/Os in flight: as a part of the available memory, and in bytes.
const MEMORY_PART: u64 = 8;
const MEMORY_MAX: u64 = 1 << 30;

const COSTS_OF_RANKS: &str = "not supported with several ranks yet";

#[derive(Debug, Clone, Default)]
pub struct LimitOptions {
    /// Files and block devices; a scratch file if there is none.
    pub targets: Vec<String>,
    pub permissions: Permissions,
    pub scratch_dir: String,
    pub scratch_size: ScratchSize,
    pub blocks: Vec<BlockSpec>,
    /// Settings to measure, one for each of `blocks`, instead of searching.
    pub suite: Vec<SuiteTest>,
    /// Also find the highest load within this latency.
    pub target: Option<LatencyTarget>,
    pub spec: Option<DeviceSpec>,
    /// How long to measure; by default, depends on the number of targets and kinds of I/O.
    pub duration: Option<Duration>,
    /// Take a quarter of the default time.
    pub quick: bool,
    pub sampling: Level,
    pub record: RecordTo,
    pub cancel: CancelToken,
}

#[derive(Debug)]
pub enum OpenError {
    /// The options do not suit the targets.
    Options(String),
    Other(String),
}

impl OpenError {
    pub fn into_text(self) -> String {
        match self {
            Self::Options(why) | Self::Other(why) => why,
        }
    }
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

pub type Limit = Measuring<LimitSearch>;

pub struct LimitSearch {
    conditions: Vec<Conditions>,
    options: LimitOptions,
}

impl Limit {
    /// Creates the run directory, then opens the targets, or creates and fills a scratch file.
    pub fn open(options: LimitOptions, hooks: &mut dyn Hooks) -> Result<Self, OpenError> {
        let session = Session::open(&options.record, &mut |text: &str| hooks.notice(text))?;
        let (targets, conditions) = targets::open(&options, hooks)?;
        Ok(Self { targets, session, how: LimitSearch { conditions, options } })
    }

    /// Measures until everything is known, time is up or the search is cancelled, and returns the record with findings. With
    /// `ranks`, of which this one is rank 0, all of them measure; if one is gone, that ends the search.
    pub fn run(
        &mut self,
        hooks: &mut dyn Hooks,
        mut ranks: Option<&mut Ranks>,
    ) -> Result<LimitRecord, String> {
        let mut config = self.config();
        let own_buffers_max = config.buffers_bytes_max;
        let host = &self.targets.facts.host;
        let about = ranks.as_deref_mut().map(|all| ranks::introduce(all, host, &mut config));
        let about = about.transpose().map_err(|lost| lost.to_string())?.unwrap_or_default();
        let mut record = self.new_record(config);
        // Before the samplers begin, which would count it as load.
        let host = &mut record.header.facts.host;
        host.memory_copy_bytes_per_second = memory::measured_copy_rate(host, own_buffers_max);
        let unfinished = LimitRecord { header: record.header.unfinished(), ..record.clone() };
        let session = &mut self.session;
        let begun = session.begin(&unfinished, &mut |text: &str| hooks.notice(text));
        if let (Err(_), Some(ranks)) = (&begun, ranks.as_deref_mut()) {
            // What failed here is said; the others need only end.
            let _ = ranks::release(ranks);
        }
        begun?;
        let began = Instant::now();
        let place = ranks.as_deref().map_or(Place::ALONE, place);
        let mut executor = EngineExecutor::new(&self.targets, self.how.conditions.clone(), place);
        // Even without a record, because the samples name competing programs.
        session.sample_load(self.how.options.sampling, &[], self.targets.devices());
        let cancel = &self.how.options.cancel;
        let stop = || cancel.reason();
        let mut is_whole = Ok(());
        if let Some(ranks) = ranks.as_deref_mut() {
            let mut executor = RanksExecutor::new(executor, ranks, cancel, about);
            search(&mut record, |probe| executor.window(probe), session, hooks, stop);
            is_whole = executor.end(&mut record);
            record.costs_missing = Some(COSTS_OF_RANKS.into());
        } else {
            search(&mut record, |probe| executor.window(probe), session, hooks, stop);
        }
        record.header.elapsed_ns = began.elapsed().as_nanos() as u64;
        record.header.heat = self.targets.heat();
        record.header.sampling = session.stop_sampling(|sample, _| sample).1;
        record.competitors = competitors(&session.observed().processes);
        if record.ranks.is_empty() {
            measure_costs(&self.targets, cancel, &mut record);
        }
        record.header.findings = judge_limit(&record);
        // Each host keeps the result of all.
        let told = is_whole.and_then(|()| {
            ranks.map_or(Ok(()), |ranks| ranks.broadcast(&record, SILENCE).map(drop))
        });
        told.err().iter().for_each(|lost| hooks.notice(&lost.to_string()));
        Ok(record)
    }

    /// Measures, as another rank than 0, the windows of that one's search, and returns its result as the record of this host. If
    /// another rank is gone, the record says so.
    pub fn serve(&mut self, ranks: &mut Ranks) -> Result<LimitRecord, String> {
        let mut config = self.config();
        let met = ranks::introduce(ranks, &self.targets.facts.host, &mut config);
        met.map_err(|lost| lost.to_string())?;
        let mut record = self.new_record(config);
        let unfinished = LimitRecord { header: record.header.unfinished(), ..record.clone() };
        let session = &mut self.session;
        // A host without a record of its own measures nevertheless.
        let _ = session.begin(&unfinished, &mut |_| ());
        let began = Instant::now();
        let conditions = self.how.conditions.clone();
        let mut executor = EngineExecutor::new(&self.targets, conditions, place(ranks));
        session.sample_load(self.how.options.sampling, &[], self.targets.devices());
        let cancel = &self.how.options.cancel;
        let served = ranks::serve(ranks, &mut executor, cancel, |window| {
            while session.next(Duration::ZERO).is_some() {}
            session.window(window);
        });
        let told = served.and_then(|()| ranks.broadcast(&record, SILENCE));
        let header = &mut record.header;
        header.elapsed_ns = began.elapsed().as_nanos() as u64;
        header.sampling = session.stop_sampling(|sample, _| sample).1;
        match told {
            Ok(all) => {
                let mut header = record.header;
                (header.outcome, header.findings) = (all.header.outcome, all.header.findings);
                Ok(LimitRecord { header, ..all })
            }
            Err(lost) => {
                cancel.cancel_for_lost_rank(lost.who());
                let reason = cancel.reason().unwrap_or_default();
                record.header.outcome = Outcome::interrupted(reason);
                Ok(record)
            }
        }
    }

    fn config(&self) -> Config {
        let (options, host) = (&self.how.options, &self.targets.facts.host);
        let available =
            host.memory_available_bytes.min(host.cgroup_memory_max_bytes.unwrap_or(u64::MAX));
        let name = |(target, c): (&TargetFacts, &Conditions)| match c.scratch {
            true => "scratch file".to_string(),
            false => target.path.clone(),
        };
        let targets: Vec<String> =
            self.targets.facts.targets.iter().zip(&self.how.conditions).map(name).collect();
        let cgroup = CgroupSampler::open(Path::new("/proc"), Path::new("/sys")).ok();
        let cgroup = cgroup.and_then(|mut cgroup| cgroup.snapshot()).unwrap_or_default();
        let searches = if options.suite.is_empty() { options.blocks.len() } else { 0 }
            + usize::from(options.target.is_some());
        Config {
            seconds: options.duration.map_or_else(
                || Config::default_seconds(targets.len(), searches, options.quick),
                |time| time.as_secs_f64(),
            ),
            targets,
            cores: host.cpus_allowed.len().max(1) as u32,
            buffers_bytes_max: (available / MEMORY_PART).min(MEMORY_MAX),
            blocks: options.blocks.clone(),
            target: options.target,
            suite: options.suite.clone(),
            queues: queues(&self.targets, &cgroup.io_limits),
            cpu_limit: cgroup.cpu_limit,
            spec: options.spec,
        }
    }

    fn new_record(&self, config: Config) -> LimitRecord {
        LimitRecord {
            header: new_header(RecordKind::Limit, self.targets.facts.clone()),
            report: Search::new(config.clone()).finish(),
            config,
            conditions: self.how.conditions.clone(),
            competitors: Vec::new(),
            costs: Vec::new(),
            costs_missing: None,
            ranks: Vec::new(),
        }
    }
}

fn place(ranks: &Ranks) -> Place {
    Place { rank: ranks.rank, ranks: ranks.size }
}

/// Limits above the device of each target that may hold I/Os back, with those of the cgroup.
fn queues(targets: &OpenTargets, limits: &[String]) -> Vec<QueueFacts> {
    let of = |target: &TargetFacts| {
        let Some(device) = &target.device else {
            let hidden = target.hidden_disk().is_some();
            return QueueFacts { hidden, ..QueueFacts::default() };
        };
        let is_of = |entry: &&String| IoLimit::parse(entry).iter().any(|l| l.device == device.name);
        QueueFacts {
            device: device.name.clone(),
            hidden: false,
            nr_requests: device.nr_requests,
            scheduler: device.scheduler.clone(),
            driver_tags: driver_tags(Path::new("/sys"), &device.name),
            rotational: device.rotational,
            hardware_queues: device.hardware_queues,
            io_limits: limits.iter().filter(is_of).cloned().collect(),
        }
    };
    targets.facts.targets.iter().map(of).collect()
}

/// Measures windows until the search is complete, its time is up, or `stop` returns a reason; the results are in
/// `record`.
fn search(
    record: &mut LimitRecord,
    mut measure: impl FnMut(&Probe) -> Result<Measurement, String>,
    session: &mut Session,
    hooks: &mut dyn Hooks,
    stop: impl FnMut() -> Option<&'static str>,
) {
    let mut search = Search::new(record.config.clone());
    let window = |probe: Probe, _: &mut dyn Hooks| Ok(Window { outcome: measure(&probe), probe });
    let measured = design::measure(&mut search, hooks, stop, window, |window, hooks| {
        while session.next(Duration::ZERO).is_some() {}
        session.window(window);
        session.report(&mut |text: &str| hooks.notice(text));
        true
    });
    // No failure of a window ends a search.
    let interrupted = measured.unwrap_or_default();
    record.header.outcome = interrupted.map_or(Outcome::Finished, Outcome::interrupted);
    record.report = search.finish();
}

/// Stores the cost per I/O at the peaks of `record`, or why it is unknown.
fn measure_costs(targets: &OpenTargets, cancel: &CancelToken, record: &mut LimitRecord) {
    let mut costs = Vec::new();
    // The suite has no peaks.
    if !record.config.suite.is_empty() {
        return;
    }
    for (target, limit) in record.report.targets.iter().enumerate() {
        for (block, spec) in limit.blocks.iter().zip(&record.config.blocks) {
            let Some(peak) = &block.peak else { continue };
            if !record.header.outcome.is_finished() || cancel.reason().is_some() {
                break;
            }
            let load = Load::at(target, peak.setting());
            // A number that no window of the search has used.
            let number = u64::from(record.report.windows) + 1 + costs.len() as u64;
            let probe = cost_probe(load, spec);
            match count_costs(targets, cancel, &record.conditions, &probe, number) {
                Ok(jobs) => costs.extend(at_peak(&jobs, &probe, peak)),
                Err(why) => record.costs_missing = Some(why),
            }
        }
    }
    record.costs = costs;
}

fn cost_probe(load: Load, spec: &BlockSpec) -> Probe {
    let BlockSpec { block_bytes, rw, .. } = *spec;
    let (phase, loads) = (Phase::Climb, vec![load]);
    Probe { phase, loads, block_bytes, rw, cores: None, ramp_ns: 0, window_ns: 0 }
}

fn count_costs(
    targets: &OpenTargets,
    cancel: &CancelToken,
    conditions: &[Conditions],
    probe: &Probe,
    number: u64,
) -> Result<Vec<JobRecord>, String> {
    let plan = executor::plan(probe, &targets.facts, conditions, number, Place::ALONE)?;
    let mut jobs = vec![JobRecord::default(); plan.jobs.len()];
    cost::measure(targets, &plan, cancel, &mut jobs);
    match jobs.iter().find_map(|job| job.cost_missing.clone()) {
        Some(why) => Err(why),
        None => Ok(jobs),
    }
}

fn at_peak(jobs: &[JobRecord], probe: &Probe, peak: &Point) -> Option<PeakCost> {
    let costs: Vec<Cost> = jobs.iter().filter_map(|job| job.cost).collect();
    let cost = derive::merge_costs(&costs)?;
    let counted = cost.ios as f64 * 1e9 / cost.window_ns.max(1) as f64;
    let speed_ratio = if peak.iops.mean > 0.0 { counted / peak.iops.mean } else { 0.0 };
    let lacks = jobs.first().map(|job| job.cost_lacks.clone()).unwrap_or_default();
    let target = probe.loads.first()?.target?;
    Some(PeakCost {
        target,
        block_bytes: probe.block_bytes,
        rw: probe.rw,
        cost: Cost { speed_ratio, ..cost },
        lacks,
    })
}

#[cfg(test)]
mod tests;
