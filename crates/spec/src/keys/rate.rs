//! Rate limits and think time.

use crate::value::{KeyValue, floats, triple};
use fathom_model::plan::RateProcess;

const MICROSECOND_NS: u64 = 1_000;

keys! { Rate;
    value("BYTES[,BYTES[,BYTES]]") "rate": "Bandwidth limit in bytes per second, for reads,writes,trims",
        "Open loop: a stall does not delay later arrivals; latency from the scheduled arrival is recorded, too."
        @(e if e.moves_data()) = |job, v| triple(v, &mut job.rate_bytes, KeyValue::nonzero);
    value("COUNT[,COUNT[,COUNT]]") "rate_iops": "IOPS limit, for reads,writes,trims", "Open loop, as with `rate`."
        = |job, v| triple(v, &mut job.rate_iops, KeyValue::nonzero);
    value("BYTES[,BYTES[,BYTES]]") "rate_min" | "ratemin": "Bandwidth in bytes per second below which the job fails, \
         for reads,writes,trims"
        @(e if e.moves_data()) = |job, v| triple(v, &mut job.rate_floor.bytes, KeyValue::nonzero);
    value("COUNT[,COUNT[,COUNT]]") "rate_iops_min": "IOPS below which the job fails, for reads,writes,trims"
        = |job, v| triple(v, &mut job.rate_floor.iops, KeyValue::nonzero);
    value("MILLISECONDS") "rate_cycle" | "ratecycle": "Time over which rate_min and rate_iops_min are averaged"
        => |job, v| job.rate_floor.cycle_ns = v.count(1, 86_400_000)? * 1_000_000;
    value("TIME[,TIME[,TIME]]") "max_latency": "Latency of an I/O above which the job fails, for reads,writes,trims; \
         default unit: µs",
        "Checked twice a second and at the end, so that the job may end up to half a second later." = |job, v| {
            triple(v, &mut job.rate_floor.latency_ns, |v| {
                Ok(Some(v.time_ns(MICROSECOND_NS)?).filter(|ns| *ns > 0))
            })
        };
    value("TIME") "latency_target": "Find the highest queue depth, up to iodepth, at which I/Os take at most so long; default \
         unit: µs",
        "Judged at the end of each latency_window." => searching.target_ns = time_ns(MICROSECOND_NS);
    value("TIME") "latency_window": "Time for which each queue depth is measured (latency_target); default unit: µs",
        "By default 100 ms." => searching.window_ns = time_ns(MICROSECOND_NS);
    value("PERCENT") "latency_percentile": "Percentage of I/Os that must meet latency_target; by default 100"
        => |job, v| job.searching.percentile = one_percentage(v)?;
    any "latency_run": "Go on at the queue depth that meets latency_target, and adjust it, until the job ends"
        -> searching.run;
    value("WEIGHT") "flow": "Weight of this job among those with the same flow_id; each gets I/Os in proportion"
        => |job, v| {
            if v.text.starts_with('-') {
                return Err(format!(
                    "'{}' is negative, as in fio before 3.23; use the job's share of the I/Os, as in flow=1 and flow=8",
                    v.text
                ));
            }
            job.flowing.weight = v.count32(0, 1000)?;
        };
    value("NUMBER") "flow_id": "Group of jobs that share a flow"
        => flowing.id = count32(0, u32::MAX);
    value("TIME") "flow_sleep": "Time to wait when a job is ahead of its flow; default unit: µs"
        => flowing.sleep_ns = time_ns(MICROSECOND_NS);
    value("NUMBER") "flow_watermark": "No effect, as in fio since 3.23", "No effect in either."
        = |_, v| v.bytes().map(|_| ());
    value("linear|poisson") "rate_process": "Distribution of arrival times under a rate limit"
        => rate_process = choice(&[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)]);
    value("TIME") "thinktime": "Time to wait between I/Os; default unit: µs"
        => thinking.time_ns = time_ns(MICROSECOND_NS);
    value("TIME") "thinktime_spin": "Part of thinktime to spend busy-looping; default unit: µs"
        => thinking.spin_ns = time_ns(MICROSECOND_NS);
    value("TIME") "thinktime_iotime": "Time of I/O between waits, in place of one I/O; default unit: s"
        => thinking.io_ns = time_ns(1_000_000_000);
    value("COUNT") "thinktime_blocks": "Number of I/Os between waits" => |job, v| {
            // As in fio, 0 waits after every I/O, like 1.
            job.thinking.blocks = v.count32(0, u32::MAX)?.max(1);
        };
    value("complete") "thinktime_blocks_type": "I/Os that thinktime_blocks counts; only complete is supported",
        "`issue` is refused." = |_, v| {
            match v.text {
                "complete" => Ok(()),
                _ => Err("only complete is supported; use complete, or remove the key".into()),
            }
        };
}

fn one_percentage(v: KeyValue<'_>) -> Result<f64, String> {
    match floats(v.text)?.as_slice() {
        [one] => Ok(*one),
        _ => Err(format!("'{}' is more than one percentage; use one", v.text)),
    }
}
