//! A search that several ranks measure together: rank 0 searches, and each window is measured by all.

use super::executor::{EngineExecutor, Place};
use crate::cancel::CancelToken;
use crate::ranks::{Lost, Ranks, SILENCE};
use crate::window::add_rank;
use fathom_model::experiment::WindowResult;
use fathom_model::facts::Host;
use fathom_model::histogram::Histogram;
use fathom_model::limit::{Config, LimitRank, LimitRecord, QueueFacts, RankPeak};
use fathom_model::window::{CpuTime, Load, Measurement, Probe, Setting, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What of a rank decides how far a search may go.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    rank: LimitRank,
    buffers_bytes_max: u64,
    cpu_limit: Option<f64>,
}

/// What a rank did at a setting, in all windows.
#[derive(Debug, Clone, Default)]
struct Sum {
    ios: u64,
    elapsed_ns: u64,
    /// Buckets of completion latencies that are not empty: there are many ranks and settings.
    latencies: BTreeMap<u64, u64>,
    cpu: CpuTime,
}

/// Target, bytes of each I/O, kind of access, and setting.
type Key = (usize, u64, &'static str, Setting);

/// Tells rank 0 what this one has; there, extends `config` to all, and returns them.
pub fn introduce(
    ranks: &mut Ranks,
    host: &Host,
    config: &mut Config,
) -> Result<Vec<LimitRank>, Lost> {
    let (hostname, kernel) = (host.hostname.clone(), host.kernel.clone());
    let own = About {
        rank: LimitRank { hostname, kernel, cores: config.cores, at_peaks: Vec::new() },
        buffers_bytes_max: config.buffers_bytes_max,
        cpu_limit: config.cpu_limit,
    };
    let all: Vec<About> = ranks.gather(&own, SILENCE)?;
    if ranks.rank > 0 {
        return Ok(Vec::new());
    }
    config.cores = all.iter().fold(0, |sum, one| one.rank.cores.saturating_add(sum));
    // A worker needs as much memory on any of them.
    let least = all.iter().map(|one| one.buffers_bytes_max).min().unwrap_or(0);
    config.buffers_bytes_max = least.saturating_mul(all.len() as u64);
    // Where one has no limit, nor have all together.
    config.cpu_limit = all.iter().map(|one| one.cpu_limit).sum();
    // I/Os of all hosts are not held back by the queue, or the cgroup, of one.
    for queue in &mut config.queues {
        let QueueFacts { device, hidden, .. } = std::mem::take(queue);
        *queue = QueueFacts { device, hidden, ..QueueFacts::default() };
    }
    Ok(all.into_iter().map(|one| one.rank).collect())
}

/// Measures the windows of rank 0's search, and passes them to `take`, until that has ended.
///
/// # Errors
/// Another rank is gone.
pub fn serve(
    ranks: &mut Ranks,
    own: &mut EngineExecutor<'_>,
    cancel: &CancelToken,
    mut take: impl FnMut(&Window),
) -> Result<(), Lost> {
    while let Some(probe) = ranks.broadcast(&None::<Probe>, SILENCE)? {
        let outcome = own.window(&probe);
        ranks.measured(&outcome, cancel, time(&probe))?;
        take(&Window { probe, outcome });
    }
    Ok(())
}

/// In which a window has ended everywhere.
fn time(probe: &Probe) -> Duration {
    SILENCE + Duration::from_nanos(probe.ramp_ns + probe.window_ns)
}

/// Rank 0's: its windows are measured by all.
pub struct RanksExecutor<'a> {
    pub own: EngineExecutor<'a>,
    pub ranks: &'a mut Ranks,
    pub cancel: CancelToken,
    pub about: Vec<LimitRank>,
    /// What each rank did, where one load had all CPUs.
    sums: BTreeMap<Key, Vec<Sum>>,
    lost: Option<Lost>,
}

impl<'a> RanksExecutor<'a> {
    pub fn new(
        own: EngineExecutor<'a>,
        ranks: &'a mut Ranks,
        cancel: &CancelToken,
        about: Vec<LimitRank>,
    ) -> Self {
        Self { own, ranks, cancel: cancel.clone(), about, sums: BTreeMap::new(), lost: None }
    }

    /// The window of all ranks.
    pub fn window(&mut self, probe: &Probe) -> Result<Measurement, String> {
        let all = self.all(probe).map_err(|lost| {
            self.cancel.cancel_for_lost_rank(lost.who());
            let why = lost.to_string();
            self.lost = Some(lost);
            why
        })?;
        let of_rank = |(one, about): (Result<Measurement, String>, &LimitRank)| {
            one.map_err(|why| format!("{}: {why}", about.hostname))
        };
        let all = all.into_iter().zip(&self.about).map(of_rank);
        let all = all.collect::<Result<Vec<Measurement>, String>>()?;
        self.add(probe, &all);
        Ok(merged(probe, all))
    }
    fn all(&mut self, probe: &Probe) -> Result<Vec<Result<Measurement, String>>, Lost> {
        self.ranks.broadcast(&Some(probe.clone()), SILENCE)?;
        let own = self.own.window(probe);
        self.ranks.measured(&own, &self.cancel, time(probe))
    }

    fn add(&mut self, probe: &Probe, all: &[Measurement]) {
        let ([Load { target: Some(target), setting, iops: None }], None) =
            (probe.loads.as_slice(), probe.cores)
        else {
            return;
        };
        let key = (*target, probe.block_bytes, probe.rw.name(), *setting);
        let sums = self.sums.entry(key).or_insert_with(|| vec![Sum::default(); all.len()]);
        for (sum, measured) in sums.iter_mut().zip(all) {
            if let Some(load) = measured.loads.first() {
                sum.ios += load.ios;
                sum.elapsed_ns += measured.elapsed_ns;
                for (ns, count) in load.clat.buckets() {
                    *sum.latencies.entry(ns).or_default() += count;
                }
                sum.cpu = sum.cpu.plus(measured.cpu.unwrap_or_default());
            }
        }
    }

    /// Tells all that the search has ended, and enters into `record` what each did at the peaks.
    ///
    /// # Errors
    /// A rank is gone, now or earlier.
    pub fn end(self, record: &mut LimitRecord) -> Result<(), Lost> {
        record.ranks = self.about;
        let (count, config) = (record.ranks.len() as u32, &record.config);
        for (target, limit) in record.report.targets.iter().enumerate() {
            for (block, spec) in limit.blocks.iter().zip(&config.blocks) {
                let Some(setting) = block.peak.as_ref().map(|peak| peak.setting()) else {
                    continue;
                };
                let key = (target, spec.block_bytes, spec.rw.name(), setting);
                let Some(sums) = self.sums.get(&key) else { continue };
                for (number, (rank, sum)) in record.ranks.iter_mut().zip(sums).enumerate() {
                    let place = Place { rank: number as u32, ranks: count };
                    let workers = place.own(setting.workers).count() as u32;
                    let mut latencies = Histogram::default();
                    sum.latencies.iter().for_each(|(ns, n)| latencies.record_n(*ns, *n));
                    rank.at_peaks.push(RankPeak {
                        target,
                        block_bytes: spec.block_bytes,
                        rw: spec.rw,
                        workers,
                        iops: (workers > 0)
                            .then(|| sum.ios as f64 * 1e9 / sum.elapsed_ns.max(1) as f64),
                        clat_p99_ns: latencies.percentile(99.0),
                        cpu: sum.cpu.shares(),
                    });
                }
            }
        }
        match self.lost {
            Some(lost) => Err(lost),
            None => release(self.ranks),
        }
    }
}

/// Tells the others that there are no more windows.
pub fn release(ranks: &mut Ranks) -> Result<(), Lost> {
    ranks.broadcast(&None::<Probe>, SILENCE).map(|_| ())
}

/// The window of all ranks as one.
fn merged(probe: &Probe, all: Vec<Measurement>) -> Measurement {
    let mut sum = Measurement {
        loads: vec![WindowResult::default(); probe.loads.len()],
        ..Measurement::default()
    };
    let is_idle = |one: &Measurement| one.loads.iter().all(|load| load.workers.is_empty());
    let all_idle = all.iter().all(is_idle);
    for one in all {
        sum.took_ns = sum.took_ns.max(one.took_ns);
        // Ranks without workers only waited.
        if all_idle || !is_idle(&one) {
            sum.elapsed_ns = sum.elapsed_ns.max(one.elapsed_ns);
        }
        sum.cpu = sum.cpu.into_iter().chain(one.cpu).reduce(CpuTime::plus);
        for (sum, load) in sum.loads.iter_mut().zip(one.loads) {
            add_rank(sum, load);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::limit::Phase;
    use fathom_model::window::{Rw, WorkerCpu};

    fn measured(workers: usize, ios: u64, elapsed_ns: u64) -> Measurement {
        let load = WindowResult {
            ios,
            workers: vec![WorkerCpu::default(); workers],
            first_error: (ios == 7).then(|| "EIO".into()),
            driver_queue: Some(1.5),
            ..WindowResult::default()
        };
        let cpu = CpuTime { busy_ns: ios, idle_ns: 10, ..CpuTime::default() };
        Measurement { elapsed_ns, took_ns: 2 * elapsed_ns, loads: vec![load], cpu: Some(cpu) }
    }

    #[test]
    fn a_window_of_all_ranks_is_one() {
        let probe = Probe {
            phase: Phase::Climb,
            loads: vec![Load::at(0, Setting { workers: 2, depth: 8 })],
            block_bytes: 4096,
            rw: Rw::Randread,
            cores: None,
            ramp_ns: 0,
            window_ns: 100,
        };
        // The third had no worker, and waited for longer.
        let all = vec![measured(1, 5, 100), measured(1, 7, 110), measured(0, 0, 500)];
        let sum = merged(&probe, all);
        assert_eq!((sum.elapsed_ns, sum.took_ns), (110, 1_000));
        let load = &sum.loads[0];
        assert_eq!((load.ios, load.workers.len(), load.driver_queue), (12, 2, Some(4.5)));
        assert_eq!(load.first_error.as_deref(), Some("EIO"));
        assert_eq!(sum.cpu, Some(CpuTime { busy_ns: 12, idle_ns: 30, ..CpuTime::default() }));
        let idle = Probe { loads: Vec::new(), ..probe };
        let none = Measurement { loads: Vec::new(), ..measured(0, 0, 90) };
        assert_eq!(merged(&idle, vec![none.clone(), none]).elapsed_ns, 90);
    }
}
