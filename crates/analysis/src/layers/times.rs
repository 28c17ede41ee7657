//! Samples added up by layer.

use super::{Layer, classify};
use fathom_model::watch::{Stack, StackCount, StacksSample};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Functions that a layer shows at most.
const TOP: usize = 8;

/// What [`LayerTime::time`] is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Nanoseconds of CPU time (`cpu-clock`).
    #[default]
    Nanoseconds,
    /// CPU cycles.
    Cycles,
}

/// CPU time by layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LayerTimes {
    /// What times are in.
    pub unit: TimeUnit,
    /// Layers with samples, in the order of [`Layer::ALL`]; idle time is not among them.
    pub layers: Vec<LayerTime>,
    /// Samples of all layers.
    pub samples: u64,
    /// Samples in the kernel: those of all layers but the program.
    pub kernel_samples: u64,
}

/// CPU time of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LayerTime {
    /// The layer.
    pub layer: Layer,
    /// Samples.
    pub samples: u64,
    /// The CPU time they represent, in [`LayerTimes::unit`].
    pub time: u64,
    /// The part of `time` that went to the layer's locks.
    pub lock_time: u64,
    /// Its innermost functions with their samples, most first, at most 8; none for the program.
    pub top: Vec<(String, u64)>,
}

impl LayerTimes {
    /// Adds up the counts of `samples` that are wanted. `stacks` are those of the record, in their
    /// order; a count without its stack is part of [`Layer::Other`].
    pub fn of<'a>(
        samples: impl IntoIterator<Item = &'a StacksSample>,
        stacks: &[Stack],
        wanted: impl Fn(&StackCount) -> bool,
    ) -> Self {
        let mut sums = Sums::default();
        let mut unit = TimeUnit::default();
        for sample in samples {
            if sample.event == "cycles" {
                unit = TimeUnit::Cycles;
            }
            for count in sample.counts.iter().filter(|count| wanted(count)) {
                sums.add(count, stacks.get(count.stack as usize));
            }
        }
        let layers: Vec<LayerTime> =
            Layer::ALL.iter().filter_map(|layer| sums.take(*layer)).collect();
        let count = |wanted: fn(Layer) -> bool| {
            layers.iter().filter(|row| wanted(row.layer)).map(|row| row.samples).sum()
        };
        let samples = count(|_| true);
        let kernel_samples = count(|layer| layer != Layer::Program);
        Self { unit, layers, samples, kernel_samples }
    }

    /// CPU time of all layers, in [`LayerTimes::unit`].
    pub fn time(&self) -> u64 {
        self.layers.iter().map(|row| row.time).sum()
    }

    /// CPU time of the samples per I/O, in nanoseconds, if they cover `elapsed_ns` with `iops` I/Os per second; `None`
    /// if times are in cycles or there was no I/O.
    pub fn per_io_ns(&self, elapsed_ns: u64, iops: f64) -> Option<f64> {
        let per_second = self.time() as f64 * 1e9 / elapsed_ns.max(1) as f64;
        (self.unit == TimeUnit::Nanoseconds && iops > 0.0).then(|| per_second / iops)
    }

    pub fn layer(&self, layer: Layer) -> Option<&LayerTime> {
        self.layers.iter().find(|row| row.layer == layer)
    }

    /// A layer's share of all busy time, 0 to 1.
    pub fn share(&self, layer: Layer) -> f64 {
        let time = self.layer(layer).map_or(0, |row| row.time);
        if time == 0 { 0.0 } else { time as f64 / self.time() as f64 }
    }

    /// The share of CPU time in the kernel whose layer is known, 0 to 1; `None` without such time.
    pub fn classified(&self) -> Option<f64> {
        let of = |layer| self.layer(layer).map_or(0, |row| row.time);
        let kernel = self.time() - of(Layer::Program);
        (kernel > 0).then(|| (kernel - of(Layer::Other)) as f64 / kernel as f64)
    }
}

#[derive(Default)]
struct Sums<'a> {
    layers: HashMap<Layer, Sum<'a>>,
}

#[derive(Default)]
struct Sum<'a> {
    samples: u64,
    time: u64,
    lock_time: u64,
    functions: HashMap<&'a str, u64>,
}

impl<'a> Sums<'a> {
    fn add(&mut self, count: &StackCount, stack: Option<&'a Stack>) {
        let place = stack.map(|stack| classify(&stack.kernel));
        let layer = place.map_or(Layer::Other, |place| place.layer);
        if layer == Layer::Idle {
            return;
        }
        let sum = self.layers.entry(layer).or_default();
        let samples = u64::from(count.count);
        sum.samples += samples;
        sum.time += count.period;
        if place.is_some_and(|place| place.lock) {
            sum.lock_time += count.period;
        }
        if let Some(function) = stack.and_then(|stack| stack.kernel.last()) {
            *sum.functions.entry(function).or_default() += samples;
        }
    }

    fn take(&mut self, layer: Layer) -> Option<LayerTime> {
        let Sum { samples, time, lock_time, functions } = self.layers.remove(&layer)?;
        let mut top: Vec<(String, u64)> =
            functions.into_iter().map(|(name, n)| (name.to_string(), n)).collect();
        top.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        top.truncate(TOP);
        Some(LayerTime { layer, samples, time, lock_time, top })
    }
}
