//! Which CPUs take a device's interrupts and which submit to it.

use super::interrupts::growth;
use fathom_model::watch::{DeviceWiring, InterruptSample, MachineSample, SubmitSample};
use serde::Serialize;

/// Where a device keeps CPUs busy, between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SubmitPlacement {
    /// Kernel name; empty for all devices together.
    pub device: String,
    /// Its interrupts by CPU, most first.
    pub interrupts: Vec<CpuCount>,
    /// I/Os submitted to it by CPU, most first.
    pub submitted: Vec<CpuCount>,
    /// Share that both have in common: the lesser of the two shares of each CPU, added up. 1 where
    /// they are spread alike, 0 where no CPU does both; absent where one of them did not occur.
    pub common: Option<f64>,
}

/// Activity of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuCount {
    /// Number of the CPU.
    pub cpu: u32,
    /// How often.
    pub count: u64,
    /// Of all CPUs.
    pub share: f64,
}

/// Placement of each device that interrupted or was submitted to. Where submissions were counted of
/// all devices together, an entry without a name has them and the interrupts of all of `wiring`.
pub fn placement(
    wiring: &[DeviceWiring],
    earlier: &MachineSample,
    later: &MachineSample,
) -> Vec<SubmitPlacement> {
    let all: Vec<&str> =
        wiring.iter().flat_map(|device| &device.irqs).map(String::as_str).collect();
    let together = later.submits.iter().filter(|submits| submits.device.is_empty());
    let together = together.map(|submits| (submits.device.as_str(), all.clone()));
    let each = wiring
        .iter()
        .map(|device| (device.name.as_str(), device.irqs.iter().map(String::as_str).collect()));
    let of = |(device, irqs): (&str, Vec<&str>)| {
        let submits = |sample: &MachineSample| counts_of(&sample.submits, device);
        let submitted = grown(&submits(earlier), &submits(later));
        let interrupts = interrupts(&irqs, earlier, later);
        let common = common(&interrupts, &submitted);
        SubmitPlacement { device: device.to_string(), interrupts, submitted, common }
    };
    let seen = |at: &SubmitPlacement| !at.interrupts.is_empty() || !at.submitted.is_empty();
    together.chain(each).map(of).filter(seen).collect()
}

fn counts_of(submits: &[SubmitSample], device: &str) -> Vec<(u32, u64)> {
    let of = submits.iter().find(|submits| submits.device == device);
    of.map(|submits| submits.by_cpu.clone()).unwrap_or_default()
}

/// Activity of each CPU from `then` to `now`; a CPU that is not in `then` counts from 0.
fn grown(then: &[(u32, u64)], now: &[(u32, u64)]) -> Vec<CpuCount> {
    let before = |cpu: u32| then.iter().find(|then| then.0 == cpu).map_or(0, |then| then.1);
    shares(now.iter().map(|(cpu, count)| (*cpu, count.saturating_sub(before(*cpu)))))
}

fn interrupts(irqs: &[&str], earlier: &MachineSample, later: &MachineSample) -> Vec<CpuCount> {
    let sources = |sample: &MachineSample| -> Vec<InterruptSample> {
        sample.system.iter().flat_map(|system| system.interrupts_by.clone()).collect()
    };
    let (earlier, later) = (sources(earlier), sources(later));
    let mut by_cpu: Vec<(u32, u64)> = Vec::new();
    for now in later.iter().filter(|now| irqs.contains(&now.irq.as_str())) {
        let then = earlier.iter().find(|then| then.irq == now.irq && then.source == now.source);
        let counts = then.map_or(&[][..], |then| &then.counts);
        for (cpu, count) in &now.counts {
            let before = counts.iter().find(|then| then.0 == *cpu).map_or(0, |then| then.1);
            match by_cpu.iter_mut().find(|sum| sum.0 == *cpu) {
                Some(sum) => sum.1 += growth(before, *count),
                None => by_cpu.push((*cpu, growth(before, *count))),
            }
        }
    }
    shares(by_cpu.into_iter())
}

fn shares(counts: impl Iterator<Item = (u32, u64)>) -> Vec<CpuCount> {
    let counts: Vec<(u32, u64)> = counts.filter(|(_, count)| *count > 0).collect();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let of = |(cpu, count)| CpuCount { cpu, count, share: count as f64 / all as f64 };
    let mut shares: Vec<CpuCount> = counts.into_iter().map(of).collect();
    shares.sort_by_key(|at| (std::cmp::Reverse(at.count), at.cpu));
    shares
}

fn common(one: &[CpuCount], other: &[CpuCount]) -> Option<f64> {
    let share = |cpu: u32| other.iter().find(|at| at.cpu == cpu).map_or(0.0, |at| at.share);
    let both = !one.is_empty() && !other.is_empty();
    both.then(|| one.iter().map(|at| at.share.min(share(at.cpu))).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::SystemSample;

    type Counts<'a> = &'a [(u32, u32)];

    fn sample(sources: &[(&str, Counts<'_>)], submits: &[(&str, &[(u32, u64)])]) -> MachineSample {
        let source = |(irq, counts): &(&str, Counts<'_>)| InterruptSample {
            irq: (*irq).into(),
            source: format!("nvme0q{irq}"),
            counts: counts.to_vec(),
        };
        let interrupts_by = sources.iter().map(source).collect();
        MachineSample {
            system: Some(SystemSample { interrupts_by, ..SystemSample::default() }),
            submits: submits
                .iter()
                .map(|(device, by_cpu)| SubmitSample {
                    device: (*device).into(),
                    by_cpu: by_cpu.to_vec(),
                })
                .collect(),
            ..MachineSample::default()
        }
    }

    fn wired(name: &str, irqs: &[&str]) -> DeviceWiring {
        let irqs = irqs.iter().map(|irq| (*irq).to_string()).collect();
        DeviceWiring { name: name.into(), irqs, queues: Vec::new() }
    }

    fn counts(of: &[CpuCount]) -> Vec<(u32, u64)> {
        of.iter().map(|at| (at.cpu, at.count)).collect()
    }

    #[test]
    fn interrupts_and_submissions_of_each_device() {
        let wiring =
            [wired("nvme0n1", &["40", "41"]), wired("nvme1n1", &["50"]), wired("idle", &[])];
        let then = sample(
            &[("40", &[(0, u32::MAX)]), ("41", &[(1, 7)])],
            &[("nvme0n1", &[(0, 10)]), ("nvme1n1", &[])],
        );
        let now = sample(
            &[("40", &[(0, 99)]), ("41", &[(0, 100), (1, 107)]), ("50", &[(3, 5)])],
            &[("nvme0n1", &[(0, 110), (2, 300)]), ("nvme1n1", &[])],
        );
        let found = placement(&wiring, &then, &now);
        let devices: Vec<&str> = found.iter().map(|at| at.device.as_str()).collect();
        assert_eq!(devices, ["nvme0n1", "nvme1n1"]);
        // A count that ran over 2^32 grew.
        assert_eq!(counts(&found[0].interrupts), [(0, 200), (1, 100)]);
        assert_eq!(counts(&found[0].submitted), [(2, 300), (0, 100)]);
        assert_eq!(found[0].common, Some(0.25));
        assert_eq!((counts(&found[1].interrupts), found[1].common), (vec![(3, 5)], None));
    }

    #[test]
    fn all_devices_together() {
        let wiring = [wired("a", &["40"]), wired("b", &["50"])];
        let now = sample(&[("40", &[(0, 3)]), ("50", &[(1, 1)])], &[("", &[(0, 6), (1, 2)])]);
        let found = placement(&wiring, &MachineSample::default(), &now);
        assert_eq!(found[0].device, "");
        assert_eq!((found[0].interrupts[0].share, found[0].common), (0.75, Some(1.0)));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn nothing_seen_is_nothing_told() {
        let none = MachineSample::default();
        assert_eq!(placement(&[wired("a", &["40"])], &none, &none), []);
    }
}
