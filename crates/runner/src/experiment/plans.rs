//! The conditions of an experiment as plans, all of them on the same open targets.

use super::{ExperimentOptions, Limits};
use crate::sources::System;
use fathom_machine::settings::{Settings, SettingsError};
use fathom_machine::{Lookup, Roots};
use fathom_model::experiment::{Condition, Experiment, Load, Metric};
use fathom_model::facts::{Facts, TargetFacts};
use fathom_model::plan::{Engine, JobPlan, Mix, Plan, Psync, Rate, RateProcess, Target};
use fathom_model::setting::SettingChange;
use fathom_model::watch::Level;
use fathom_model::window::Conditions;
use fathom_model::{Dir, units};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) enum Work {
    Jobs(Box<Plan>),
    Command(String),
    /// Other programs that run anyway, by the IDs of their processes.
    Processes(Vec<i32>),
}

#[derive(Debug, Default)]
pub(super) struct Plans {
    /// By condition. The regions of their jobs refer to `targets`.
    pub works: Vec<Work>,
    pub settings: Vec<Vec<SettingChange>>,
    pub targets: Vec<Target>,
    /// The targets of the experiment, the scratch file included.
    pub paths: Vec<String>,
    /// Facts of these targets, of those named too.
    pub facts: Facts,
    pub notes: Vec<String>,
    /// Limits of this process under which commands start.
    pub command_limits: Limits,
}

/// A longer busy loop may go on while its worker waits for a CPU: time slices last milliseconds.
const SPIN_MAX_NS: u64 = 1_000_000;

/// Whether any condition needs targets and none is named.
pub(super) fn needs_scratch(options: &ExperimentOptions) -> bool {
    let idle = ["ioengine=null", "ioengine=nop", "filename=", "directory="];
    let needs = |condition: &Condition| match &condition.load {
        Load::Job(keys) => !keys.iter().any(|key| idle.iter().any(|name| key.starts_with(name))),
        Load::Command(command) => command.contains("TARGET"),
    };
    let request = &options.request;
    request.targets.is_empty() && request.experiment.conditions.iter().any(needs)
}

/// Resolves every condition on `targets`; `known` are facts of targets that cannot be looked up by name.
pub(super) fn resolve(
    options: &ExperimentOptions,
    targets: &[String],
    known: &[TargetFacts],
) -> Result<Plans, String> {
    let roots = Roots::default();
    let lookup = Lookup::new(&roots);
    let experiment = &options.request.experiment;
    let host = fathom_machine::host(&roots);
    let mut facts: BTreeMap<String, TargetFacts> =
        known.iter().map(|facts| (facts.path.clone(), facts.clone())).collect();
    let mut look = |path: &str| -> Result<(), String> {
        if !facts.contains_key(path) {
            let found = lookup.target(path).map_err(|e| format!("cannot read {path}: {e}"))?;
            facts.insert(path.to_string(), found);
        }
        Ok(())
    };
    targets.iter().try_for_each(|target| look(target))?;
    let mut plans = Plans {
        paths: targets.to_vec(),
        command_limits: options.command_limits.clone(),
        ..Plans::default()
    };
    let mut specs = Vec::new();
    for condition in &experiment.conditions {
        let named = |why: String| format!("{}: {why}", condition.label(&experiment.axes));
        plans.settings.push(settings(condition, targets).map_err(named)?);
        let Load::Job(_) = &condition.load else {
            specs.push(None);
            continue;
        };
        let args = arguments(condition, targets, experiment.metric);
        let spec =
            fathom_spec::parse(&args, &System::default()).map_err(|e| named(e.to_string()))?;
        let queries = spec.target_paths().map_err(|e| named(e.to_string()))?;
        queries.iter().try_for_each(|query| look(&query.path))?;
        specs.push(Some(spec));
    }
    let targets = facts.into_values().collect();
    plans.facts = Facts { host, targets, ..Facts::default() };
    for (condition, spec) in experiment.conditions.iter().zip(specs) {
        let named = |why: String| format!("{}: {why}", condition.label(&experiment.axes));
        let work = match (spec, &condition.load) {
            (Some(spec), _) => {
                let plan =
                    fathom_spec::plan(&spec, &plans.facts).map_err(|e| named(e.to_string()))?;
                plans.add(plan).map_err(named)?
            }
            (None, Load::Command(command)) => Work::Command(command.clone()),
            (None, Load::Job(_)) => continue,
        };
        plans.works.push(work);
    }
    plans.notes.sort();
    plans.notes.dedup();
    check_size(&plans)?;
    check_settings(experiment, &plans)?;
    Ok(plans)
}

/// Refuses an experiment in which no comparison is left without the settings that this user may not change.
fn check_settings(experiment: &Experiment, plans: &Plans) -> Result<(), String> {
    let (settings, conditions) = (Settings::system(), &experiment.conditions);
    let refused: Vec<Option<SettingsError>> =
        plans.settings.iter().map(|changes| settings.check(changes).err()).collect();
    let is_permitted = |index: &usize| refused[*index].is_none();
    let compares = conditions.iter().any(|condition| !condition.against.is_empty());
    let remains = |(index, condition): (usize, &Condition)| {
        let is_result = condition.against.is_empty() != compares;
        is_result && condition.against.iter().chain([&index]).all(is_permitted)
    };
    if conditions.iter().enumerate().any(remains) {
        return Ok(());
    }
    let mut named = conditions.iter().zip(refused);
    let first = named.find_map(|(condition, refused)| Some((condition, refused?)));
    first.map_or(Ok(()), |(condition, error)| {
        Err(format!("{}: {error}", condition.label(&experiment.axes)))
    })
}

/// The command line of a condition's workers. Windows end by time, unless the time is what is measured.
fn arguments(condition: &Condition, targets: &[String], metric: Metric) -> Vec<String> {
    let mut args = match metric {
        Metric::Time => Vec::new(),
        _ => vec!["--runtime=1s".to_string(), "--time_based=1".to_string()],
    };
    args.extend(fathom_spec::experiment::condition_args(condition, targets));
    args
}

fn settings(condition: &Condition, targets: &[String]) -> Result<Vec<SettingChange>, String> {
    let mut changes: Vec<SettingChange> = Vec::new();
    for text in &condition.settings {
        let first = targets.first().map_or("", String::as_str);
        let mut all = vec![SettingChange::parse(text, first)?];
        for target in targets.iter().skip(1) {
            all.push(SettingChange::parse(text, target)?);
        }
        all.dedup();
        changes.extend(all);
    }
    Ok(changes)
}

/// No target is so small that nothing of it can be read.
fn check_size(plans: &Plans) -> Result<(), String> {
    let jobs = plans.works.iter().filter_map(|work| match work {
        Work::Jobs(plan) => Some(&plan.jobs),
        Work::Command(_) | Work::Processes(_) => None,
    });
    for job in jobs.flatten() {
        if let Engine::Names(_) = job.engine {
            return Err(format!(
                "ioengine={} is not supported here, since windows repeat their I/Os; use 'fathom run'",
                job.engine.name()
            ));
        }
        if let Some(region) = job.regions.iter().find(|region| region.len < job.block_max()) {
            let path = plans.targets.get(region.target).map_or("", |target| target.path.as_str());
            let block = units::bytes(job.block_max());
            return Err(format!(
                "{path} is smaller than one block of {block}; name a larger target"
            ));
        }
    }
    Ok(())
}

impl Plans {
    /// Adds the targets of `plan` to those of the others, and makes its jobs refer to them.
    fn add(&mut self, mut plan: Plan) -> Result<Work, String> {
        let places =
            plan.targets.iter().map(|target| self.place(target)).collect::<Result<Vec<_>, _>>()?;
        for region in plan.jobs.iter_mut().flat_map(|job| &mut job.regions) {
            region.target = places.get(region.target).copied().unwrap_or(region.target);
        }
        self.notes.append(&mut plan.notes);
        plan.targets.clear();
        Ok(Work::Jobs(Box::new(plan)))
    }

    /// Whether workers wait for CPUs only because of other programs, in all conditions alike, and do nothing meanwhile: a
    /// CPU for each, no settings and no sampling, equal priorities, and one I/O at a time that the kernel does not buffer.
    pub fn waits_for_others(&self, experiment: &Experiment) -> bool {
        let cpus = self.facts.host.cpus_allowed.len();
        let has_settings = self.settings.iter().any(|changes| !changes.is_empty());
        let is_sampled = experiment.conditions.iter().any(|c| c.sampling != Level::Off);
        let mut nice: Vec<i32> = Vec::new();
        let is_alone = |work: &Work| match work {
            Work::Jobs(plan) => {
                nice.extend(plan.jobs.iter().map(|job| job.placement.nice));
                plan.jobs.len() <= cpus && plan.jobs.iter().all(is_serial)
            }
            Work::Command(_) | Work::Processes(_) => false,
        };
        !has_settings
            && !is_sampled
            && self.works.iter().all(is_alone)
            && nice.windows(2).all(|pair| pair[0] == pair[1])
    }

    fn place(&mut self, wanted: &Target) -> Result<usize, String> {
        let Some(at) = self.targets.iter().position(|known| known.path == wanted.path) else {
            self.targets.push(wanted.clone());
            return Ok(self.targets.len() - 1);
        };
        let known = &mut self.targets[at];
        if known.within != wanted.within {
            return Err(format!("{} is not in the same directory in all jobs", wanted.path));
        }
        known.join(wanted);
        Ok(at)
    }

    /// How each target is accessed: with O_DIRECT unless a condition does not.
    pub fn conditions(&self, is_scratch: bool) -> Vec<Conditions> {
        let jobs = || {
            self.works.iter().flat_map(|work| match work {
                Work::Jobs(plan) => plan.jobs.as_slice(),
                Work::Command(_) | Work::Processes(_) => &[],
            })
        };
        let direct = |target: usize| {
            let mut uses = jobs().filter(|job| job.regions.iter().any(|r| r.target == target));
            uses.all(|job| job.direct)
        };
        (0..self.targets.len())
            .map(|at| Conditions { direct: direct(at), scratch: is_scratch })
            .collect()
    }
}

/// Whether a worker that waits for a CPU has no I/O in flight, no time running for it, and any CPU to choose.
fn is_serial(job: &JobPlan) -> bool {
    matches!(job.engine, Engine::Psync(Psync::Plain | Psync::Seek | Psync::Vectored))
        && job.direct
        && !job.is_held_back()
        && job.placement.cpus.is_empty()
        && job.think.is_none_or(|think| think.spin_ns.min(think.time_ns) <= SPIN_MAX_NS)
}

/// Gives the jobs of `plan` `iops` to do, which arrive as a Poisson process, whether or not earlier ones have completed.
pub(super) fn pace(plan: &mut Plan, iops: f64) {
    let workers = plan.jobs.len().max(1) as f64;
    for job in &mut plan.jobs {
        let share = |dir: Dir| match job.access.mix {
            Mix::ReadWrite { read_percent } => match dir {
                Dir::Read => f64::from(read_percent) / 100.0,
                _ => 1.0 - f64::from(read_percent) / 100.0,
            },
            _ => 1.0,
        };
        let dirs: Vec<Dir> = job.used_dirs().collect();
        for dir in dirs {
            job.rate[dir] = Some(Rate::Iops(((iops * share(dir) / workers) as u64).max(1)));
        }
        job.rate_process = RateProcess::Poisson;
    }
}
