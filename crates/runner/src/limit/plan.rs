//! A window as a plan for the engine: one job for each worker.

use fathom_model::PerDir;
use fathom_model::facts::Facts;
use fathom_model::plan::{
    BlockSizes, Distribution, Engine, JobPlan, Order, Plan, Rate, RateProcess, Region, Uring,
};
use fathom_model::window::{Conditions, Load, Probe};

/// The plan of `probe`, with jobs in the order of its loads. `number` differs between windows, so that none reads
/// blocks that another has just read.
pub fn plan(
    probe: &Probe,
    facts: &Facts,
    conditions: &[Conditions],
    number: u64,
) -> Result<Plan, String> {
    let cpus = &facts.host.cpus_allowed;
    let cpus = probe.cores.map_or(&[][..], |n| &cpus[..cpus.len().min(n as usize)]);
    let mut jobs = Vec::new();
    for load in &probe.loads {
        // NOPs read nothing, but use offsets like those of a target.
        let region = region(load.target.unwrap_or(0), probe.block_bytes, facts)?;
        let direct = load.target.and_then(|t| conditions.get(t)).is_some_and(|c| c.direct);
        for worker in 0..load.setting.workers {
            let mut job = job(probe, load, part(region, probe, worker, load.setting.workers));
            job.access.seed = seed(number, jobs.len() as u64);
            job.direct = direct;
            job.placement.cpus = cpus.to_vec();
            jobs.push(job);
        }
    }
    let plan = Plan { jobs, ..Plan::default() };
    fathom_spec::check_memory(&plan, facts).map_err(|error| error.to_string())?;
    Ok(plan)
}

fn region(target: usize, block: u64, facts: &Facts) -> Result<Region, String> {
    let (path, size) =
        facts.targets.get(target).map_or(("", 0), |t| (t.path.as_str(), t.size_bytes));
    let len = size / block * block;
    if len == 0 {
        return Err(format!("{path} has {size} bytes, less than one block of {block}"));
    }
    Ok(Region { target, start: 0, len })
}

/// Sequential workers each have a part of the target, because shared blocks would come from a cache.
fn part(all: Region, probe: &Probe, worker: u32, workers: u32) -> Region {
    let len = all.len / u64::from(workers.max(1)) / probe.block_bytes * probe.block_bytes;
    match probe.rw.is_random() || len == 0 {
        true => all,
        false => Region { start: all.start + len * u64::from(worker), len, ..all },
    }
}

fn job(probe: &Probe, load: &Load, region: Region) -> JobPlan {
    let workers = u64::from(load.setting.workers.max(1));
    let ring = Uring::default();
    let engine = if load.target.is_some() { Engine::IoUring(ring) } else { Engine::Nop(ring) };
    let order = match probe.rw.is_random() || load.target.is_none() {
        true => Order::Random { distribution: Distribution::EachOnce, run: 1 },
        false => Order::Sequential { skip: 0 },
    };
    let mut job = JobPlan::new("limit", engine, probe.rw.mix(), order);
    job.depth = load.setting.depth;
    job.regions = vec![region];
    job.access.block_sizes = PerDir::splat(BlockSizes::Fixed(probe.block_bytes));
    job.access.align = PerDir::splat(probe.block_bytes);
    job.until.runtime_ns = Some(probe.window_ns);
    job.until.ramp_ns = probe.ramp_ns;
    job.rate_process = RateProcess::Poisson;
    for (dir, percent) in probe.rw.dirs() {
        let share = |iops: u64| (iops * u64::from(*percent) / 100 / workers).max(1);
        job.rate[*dir] = load.iops.map(|iops| Rate::Iops(share(iops)));
    }
    job
}

/// A seed for each worker of each window (SplitMix64's increment, Steele et al. 2014).
fn seed(number: u64, worker: u64) -> u64 {
    (number << 20 | worker).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::facts::{Host, TargetFacts};
    use fathom_model::limit::Phase;
    use fathom_model::window::{Rw, Setting};
    use std::collections::BTreeSet;

    fn facts() -> Facts {
        Facts {
            host: Host { cpus_allowed: vec![2, 4, 6], ..Host::default() },
            targets: vec![TargetFacts { size_bytes: (3 << 20) + 5, ..TargetFacts::default() }],
            ..Facts::default()
        }
    }

    fn probe(target: Option<usize>, block_bytes: u64) -> Probe {
        Probe {
            phase: Phase::Climb,
            loads: vec![Load { target, setting: Setting { workers: 3, depth: 7 }, iops: None }],
            block_bytes,
            rw: Rw::Randread,
            cores: Some(2),
            ramp_ns: 5,
            window_ns: 50,
        }
    }

    #[test]
    fn each_worker_is_a_job_with_a_seed_of_its_own() {
        let conditions = [Conditions { direct: true, scratch: false }];
        let plan = plan(&probe(Some(0), 1 << 20), &facts(), &conditions, 9).unwrap();
        assert_eq!(plan.jobs.len(), 3);
        let job = &plan.jobs[0];
        assert_eq!(job.regions, [Region { target: 0, start: 0, len: 3 << 20 }]);
        assert_eq!((job.depth, job.direct, job.block_max()), (7, true, 1 << 20));
        assert_eq!(job.placement.cpus, [2, 4]);
        assert_eq!((job.until.runtime_ns, job.until.ramp_ns), (Some(50), 5));
        let seeds: BTreeSet<u64> = plan.jobs.iter().map(|j| j.access.seed).collect();
        assert_eq!(seeds.len(), 3);
    }

    #[test]
    fn nothing_is_read_without_a_target() {
        let plan = plan(&probe(None, 4096), &facts(), &[], 0).unwrap();
        assert!(plan.jobs.iter().all(|j| j.engine.name() == "nop" && !j.direct));
    }

    #[test]
    fn a_target_smaller_than_a_block_is_refused() {
        let error = plan(&probe(Some(0), 1 << 30), &facts(), &[], 0).unwrap_err();
        assert!(error.contains("less than one block"), "{error}");
    }
}
