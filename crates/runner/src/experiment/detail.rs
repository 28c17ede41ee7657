//! What a window with full sampling shows: CPU time by layer, batches of the block layer, io-wq workers.

use super::bench::{Bench, Failure};
use crate::run::Hooks;
use crate::sampling::{Sampling, SamplingOptions};
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::watch::Observed;
use fathom_model::experiment::{Detail, LayerShare, Load};
use fathom_model::progress::Sample;
use fathom_model::watch::Level;
use fathom_watch::Scope;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(500);
/// Length of the window: at 250 samples per second and busy CPU, up to 500 samples per worker.
const WINDOW: Duration = Duration::from_millis(2000);

/// Measures a window of condition `index` with everything sampled.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    index: usize,
    hooks: &mut dyn Hooks,
) -> Result<Detail, Failure> {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let is_own = matches!(bench.request.experiment.conditions[index].load, Load::Job(_));
    let options = SamplingOptions {
        level: Level::Full,
        scope: if is_own { Scope::Only(vec![own]) } else { Scope::Machine },
        devices: bench.targets.devices(),
        interval: INTERVAL,
        during_run: is_own,
        each_io: false,
        ..SamplingOptions::default()
    };
    let ramp = Duration::from_nanos(bench.request.protocol.ramp_ns);
    let sampling = Sampling::start(&options).map_err(Failure::once)?;
    let measured = bench.window(index, ramp, WINDOW, hooks);
    let (samples, _) = sampling.stop();
    measured.map(|_| detail(&samples))
}

fn detail(samples: &[Sample]) -> Detail {
    let mut totals = Observed::default();
    let mut io_wq_workers = 0;
    for sample in samples {
        totals.add(sample);
        let workers = sample.machine.rings.iter().flat_map(|rings| &rings.workers);
        io_wq_workers = io_wq_workers.max(workers.map(|of| of.threads).sum());
    }
    let counted = totals.stacks();
    let times = LayerTimes::of(counted.as_ref(), &totals.known_stacks, |_| true);
    let all = times.time().max(1) as f64;
    let layer = |row: &fathom_analysis::layers::LayerTime| LayerShare {
        layer: row.layer.name().to_string(),
        share: row.time as f64 / all,
    };
    Detail {
        samples: times.samples,
        layers: times.layers.iter().map(layer).collect(),
        unplugs: totals
            .last()
            .blocks
            .as_ref()
            .map_or_else(Vec::new, |blocks| blocks.unplugs.clone()),
        io_wq_workers,
    }
}
