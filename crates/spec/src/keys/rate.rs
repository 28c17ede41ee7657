//! Rate limits and think time.

use super::Key;
use crate::value::triple;
use fathom_model::plan::RateProcess;

const MICROSECOND_NS: u64 = 1_000;

pub(super) const KEYS: &[Key] = &[
    Key::value("rate", "BYTES[,BYTES[,BYTES]]", "Bandwidth limit in bytes per second, for reads,writes,trims", |job, v| {
        triple(v, &mut job.rate.bytes, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)))
    })
    .differs("Open loop: a stall does not delay later arrivals; latency from the scheduled arrival is recorded, too."),
    Key::value("rate_iops", "COUNT[,COUNT[,COUNT]]", "IOPS limit, for reads,writes,trims", |job, v| {
        triple(v, &mut job.rate.iops, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)))
    })
    .differs("Open loop, as with `rate`."),
    Key::value("rate_min", "BYTES[,BYTES[,BYTES]]", "Bandwidth in bytes per second below which the job fails, for reads,writes,trims", |job, v| {
        triple(v, &mut job.plan.rate_floor.bytes, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)))
    })
    .aliases(&["ratemin"]),
    Key::value("rate_iops_min", "COUNT[,COUNT[,COUNT]]", "IOPS below which the job fails, for reads,writes,trims", |job, v| {
        triple(v, &mut job.plan.rate_floor.iops, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)))
    }),
    Key::value("rate_cycle", "MILLISECONDS", "Time over which rate_min and rate_iops_min are averaged", |job, v| {
        job.plan.rate_floor.cycle_ns = v.count(1, 86_400_000)? * 1_000_000;
        Ok(())
    })
    .aliases(&["ratecycle"]),
    Key::value("max_latency", "TIME[,TIME[,TIME]]", "Latency of an I/O above which the job fails, for reads,writes,trims; default unit: µs", |job, v| {
        triple(v, &mut job.plan.rate_floor.latency_ns, |v| {
            Ok(Some(v.time_ns(MICROSECOND_NS)?).filter(|ns| *ns > 0))
        })
    })
    .differs("Checked twice a second and at the end, so that the job may end up to half a second later."),
    Key::value("flow", "WEIGHT", "Weight of this job among those with the same flow_id; each gets I/Os in proportion", |job, v| {
        job.rate.flow = v.count32(0, 1000)?;
        Ok(())
    }),
    Key::value("flow_id", "NUMBER", "Group of jobs that share a flow", |job, v| {
        job.rate.flow_id = v.count32(0, u32::MAX)?;
        Ok(())
    }),
    Key::value("flow_sleep", "TIME", "Time to wait when a job is ahead of its flow; default unit: µs", |job, v| {
        job.rate.flow_sleep_ns = v.time_ns(MICROSECOND_NS)?;
        Ok(())
    }),
    Key::value("flow_watermark", "NUMBER", "No effect, as in fio since 3.21", |_, v| v.bytes().map(|_| ()))
        .differs("No effect in either."),
    Key::value("rate_process", "linear|poisson", "Distribution of arrival times under a rate limit", |job, v| {
        job.plan.rate_process =
            v.choice(&[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)])?;
        Ok(())
    }),
    Key::value("thinktime", "TIME", "Time to wait between I/Os; default unit: µs", |job, v| {
        job.rate.think_ns = v.time_ns(MICROSECOND_NS)?;
        Ok(())
    }),
    Key::value("thinktime_spin", "TIME", "Part of thinktime to spend busy-looping; default unit: µs", |job, v| {
        job.rate.think_spin_ns = v.time_ns(MICROSECOND_NS)?;
        Ok(())
    }),
    Key::value("thinktime_blocks", "COUNT", "Number of I/Os between waits", |job, v| {
        // As in fio, 0 waits after every I/O, like 1.
        job.rate.think_blocks = v.count32(0, u32::MAX)?.max(1);
        Ok(())
    }),
    Key::value("thinktime_blocks_type", "complete", "I/Os that thinktime_blocks counts; only complete is supported", |_, v| {
        match v.text {
            "complete" => Ok(()),
            _ => Err("only complete is supported; use complete, or remove the key".into()),
        }
    })
    .differs("`issue` is refused."),
];
