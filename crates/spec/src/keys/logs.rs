//! fio's logs.

use super::{Key, Takes};
use crate::value::KeyValue;

pub(super) const KEYS: &[Key] = &[
    Key::new(
        "write_bw_log",
        Takes::Optional("PREFIX"),
        "Log bandwidth to PREFIX_bw.N.log; PREFIX is by default the job's name",
        |job, v| {
            job.logs.bw = Some(v.text.to_string());
            Ok(())
        },
    ),
    Key::new(
        "write_iops_log",
        Takes::Optional("PREFIX"),
        "Log IOPS to PREFIX_iops.N.log",
        |job, v| {
            job.logs.iops = Some(v.text.to_string());
            Ok(())
        },
    ),
    Key::new(
        "write_lat_log",
        Takes::Optional("PREFIX"),
        "Log latencies to PREFIX_slat.N.log, PREFIX_clat.N.log and PREFIX_lat.N.log",
        |job, v| {
            job.logs.lat = Some(v.text.to_string());
            Ok(())
        },
    ),
    Key::new(
        "write_hist_log",
        Takes::Optional("PREFIX"),
        "Log histograms of completion latency to PREFIX_clat_hist.N.log",
        |job, v| {
            job.logs.hist = Some(v.text.to_string());
            Ok(())
        },
    )
    .differs("As in fio, empty without log_hist_msec."),
    Key::value(
        "log_avg_msec",
        "MILLISECONDS",
        "Time over which log entries are averaged; by default each I/O has one",
        |job, v| {
            job.logs.average_ns = milliseconds(v)?;
            Ok(())
        },
    ),
    Key::value("log_hist_msec", "MILLISECONDS", "Time between logged histograms", |job, v| {
        job.logs.hist_ns = milliseconds(v)?;
        Ok(())
    }),
    Key::value("log_hist_coarseness", "0-6", "Combine 2^N bins of logged histograms", |job, v| {
        job.logs.coarseness = v.count32(0, 6)?;
        Ok(())
    }),
    Key::value(
        "log_window_value",
        "avg|max|both",
        "What latency logs record for each interval: average, maximum or both",
        |job, v| {
            (job.logs.average, job.logs.maximum) = v.choice(&[
                ("avg", (true, false)),
                ("max", (false, true)),
                ("both", (true, true)),
                ("0", (true, false)),
                ("1", (false, true)),
            ])?;
            Ok(())
        },
    )
    .aliases(&["log_max_value"]),
    Key::flag("per_job_logs", "Write separate logs for each clone", |job, v| {
        job.logs.per_job = v.flag()?;
        Ok(())
    }),
    Key::flag(
        "log_unix_epoch",
        "Log times since 1970, not since the start of the job",
        |job, v| {
            job.logs.unix_epoch = v.flag()?;
            Ok(())
        },
    )
    .aliases(&["log_alternate_epoch"]),
    Key::flag("log_offset", "Log the offset of each I/O", |job, v| {
        job.logs.offset = v.flag()?;
        Ok(())
    }),
    Key::flag(
        "log_prio",
        "Log the priority of each I/O, not just whether it is real-time",
        |job, v| {
            job.logs.priority = v.flag()?;
            Ok(())
        },
    ),
    Key::value("log_entries", "COUNT", "No effect: entries are written as they arise", |_, v| {
        v.bytes().map(|_| ())
    })
    .differs("No effect."),
    Key::value(
        "log_compression",
        "SIZE",
        "No effect: entries are written as they arise",
        |_, v| v.bytes().map(|_| ()),
    )
    .differs("No effect."),
    Key::value("log_compression_cpus", "LIST", "No effect: logs are not compressed", |_, _| Ok(()))
        .differs("No effect."),
];

fn milliseconds(v: KeyValue<'_>) -> Result<u64, String> {
    Ok(v.count(0, 86_400_000)? * 1_000_000)
}
