//! System calls of programs: rates and latencies.

use crate::derive::per_second;
use fathom_model::Histogram;
use fathom_model::watch::CallsSample;

#[derive(Debug, Clone, PartialEq)]
pub struct CallRates<'a> {
    pub call: &'a str,
    /// Calls per second that returned.
    pub rate: f64,
    /// Mean number of threads in the call.
    pub threads: f64,
    /// Share of the calls that failed, 0 to 1.
    pub failed: f64,
    /// From entry to return.
    pub latency: &'a Histogram,
}

/// The calls of a sampler from its start to `sample`, those in which threads spent most time first.
pub fn call_rates(sample: &CallsSample) -> Vec<CallRates<'_>> {
    let of = sample.calls.iter().filter(|of| !of.latency.is_empty()).map(|of| CallRates {
        call: &of.call,
        rate: per_second(of.latency.count(), sample.seen_ns),
        threads: of.latency.sum_ns() as f64 / sample.seen_ns.max(1) as f64,
        failed: of.failed as f64 / of.latency.count() as f64,
        latency: &of.latency,
    });
    let mut all: Vec<CallRates> = of.collect();
    all.sort_by(|a, b| b.threads.total_cmp(&a.threads));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::CallTimes;

    #[test]
    fn rates_are_of_the_time_recorded() {
        let call = |call: &str, ns, n| {
            let mut of = CallTimes { call: call.into(), failed: n / 4, ..CallTimes::default() };
            of.latency.record_n(ns, n);
            of
        };
        let calls =
            vec![call("read", 1_000, 1000), call("fsync", 5_000_000, 80), call("write", 1, 0)];
        let sample = CallsSample { seen_ns: 500_000_000, calls, ..CallsSample::default() };
        let rates = call_rates(&sample);
        let names: Vec<&str> = rates.iter().map(|of| of.call).collect();
        assert_eq!(names, ["fsync", "read"]);
        assert_eq!((rates[0].rate, rates[0].threads, rates[0].failed), (160.0, 0.8, 0.25));
    }
}
