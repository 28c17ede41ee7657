//! Rates and pauses.

use super::Key;
use crate::value::triple;
use fathom_model::plan::RateProcess;

const MICROSECOND_NS: u64 = 1_000;

pub(super) const KEYS: &[Key] = &[
    Key::value("rate", "BYTES[,BYTES[,BYTES]]", "Bytes per second at most; read,write,trim", |job, v| {
        triple(v, &mut job.rate.bytes, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)))
    })
    .differs("An open loop: a stall moves no I/O's instant, and latency from that instant is kept as well."),
    Key::value("rate_iops", "COUNT[,COUNT[,COUNT]]", "I/Os per second at most", |job, v| {
        triple(v, &mut job.rate.iops, |v| Ok(Some(v.bytes()?).filter(|n| *n > 0)))
    })
    .differs("As `rate`."),
    Key::value("rate_process", "linear|poisson", "How arrivals are spread", |job, v| {
        job.rate.process =
            v.choice(&[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)])?;
        Ok(())
    }),
    Key::value("thinktime", "TIME", "Pause between I/Os; bare: µs", |job, v| {
        job.rate.think_ns = v.time_ns(MICROSECOND_NS)?;
        Ok(())
    }),
    Key::value("thinktime_spin", "TIME", "The part of it spent in a busy loop; bare: µs", |job, v| {
        job.rate.think_spin_ns = v.time_ns(MICROSECOND_NS)?;
        Ok(())
    }),
    Key::value("thinktime_blocks", "COUNT", "I/Os between pauses", |job, v| {
        job.rate.think_blocks = v.count32(1, u32::MAX)?;
        Ok(())
    }),
    Key::value("thinktime_blocks_type", "complete", "What thinktime_blocks counts", |_, v| {
        match v.text {
            "complete" => Ok(()),
            _ => Err("only complete is there".into()),
        }
    })
    .differs("`issue` is refused."),
];
