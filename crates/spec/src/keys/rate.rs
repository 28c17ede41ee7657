//! Rate limits and think time.

use crate::value::triple;
use fathom_model::plan::RateProcess;

const MICROSECOND_NS: u64 = 1_000;

keys! {
    value("BYTES[,BYTES[,BYTES]]") "rate": "Bandwidth limit in bytes per second, for reads,writes,trims",
        "Open loop: a stall does not delay later arrivals; latency from the scheduled arrival is recorded, too."
        = |job, v| triple(v, &mut job.rate.bytes, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)));
    value("COUNT[,COUNT[,COUNT]]") "rate_iops": "IOPS limit, for reads,writes,trims", "Open loop, as with `rate`."
        = |job, v| triple(v, &mut job.rate.iops, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)));
    value("BYTES[,BYTES[,BYTES]]") "rate_min" | "ratemin": "Bandwidth in bytes per second below which the job fails, \
         for reads,writes,trims"
        = |job, v| triple(v, &mut job.plan.rate_floor.bytes, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)));
    value("COUNT[,COUNT[,COUNT]]") "rate_iops_min": "IOPS below which the job fails, for reads,writes,trims"
        = |job, v| triple(v, &mut job.plan.rate_floor.iops, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)));
    value("MILLISECONDS") "rate_cycle" | "ratecycle": "Time over which rate_min and rate_iops_min are averaged"
        => |job, v| job.plan.rate_floor.cycle_ns = v.count(1, 86_400_000)? * 1_000_000;
    value("TIME[,TIME[,TIME]]") "max_latency": "Latency of an I/O above which the job fails, for reads,writes,trims; \
         default unit: µs",
        "Checked twice a second and at the end, so that the job may end up to half a second later." = |job, v| {
            triple(v, &mut job.plan.rate_floor.latency_ns, |v| {
                Ok(Some(v.time_ns(MICROSECOND_NS)?).filter(|ns| *ns > 0))
            })
        };
    value("WEIGHT") "flow": "Weight of this job among those with the same flow_id; each gets I/Os in proportion"
        => |job, v| {
            if v.text.starts_with('-') {
                return Err(format!(
                    "'{}' is negative, as in fio before 3.23; use the job's share of the I/Os, as in flow=1 and flow=8",
                    v.text
                ));
            }
            job.rate.flow = v.count32(0, 1000)?;
        };
    value("NUMBER") "flow_id": "Group of jobs that share a flow"
        => |job, v| job.rate.flow_id = v.count32(0, u32::MAX)?;
    value("TIME") "flow_sleep": "Time to wait when a job is ahead of its flow; default unit: µs"
        => |job, v| job.rate.flow_sleep_ns = v.time_ns(MICROSECOND_NS)?;
    value("NUMBER") "flow_watermark": "No effect, as in fio since 3.23", "No effect in either."
        = |_, v| v.bytes().map(|_| ());
    value("linear|poisson") "rate_process": "Distribution of arrival times under a rate limit"
        => |job, v| job.plan.rate_process =
        v.choice(&[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)])?;
    value("TIME") "thinktime": "Time to wait between I/Os; default unit: µs"
        => |job, v| job.rate.think_ns = v.time_ns(MICROSECOND_NS)?;
    value("TIME") "thinktime_spin": "Part of thinktime to spend busy-looping; default unit: µs"
        => |job, v| job.rate.think_spin_ns = v.time_ns(MICROSECOND_NS)?;
    value("COUNT") "thinktime_blocks": "Number of I/Os between waits" => |job, v| {
            // As in fio, 0 waits after every I/O, like 1.
            job.rate.think_blocks = v.count32(0, u32::MAX)?.max(1);
        };
    value("complete") "thinktime_blocks_type": "I/Os that thinktime_blocks counts; only complete is supported",
        "`issue` is refused." = |_, v| {
            match v.text {
                "complete" => Ok(()),
                _ => Err("only complete is supported; use complete, or remove the key".into()),
            }
        };
}
