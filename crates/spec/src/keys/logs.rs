//! fio's logs.

use crate::value::KeyValue;

keys! { Report;
    optional("PREFIX") "write_bw_log": "Log bandwidth to PREFIX_bw.N.log; PREFIX is by default the job's name"
        => logging.bw = some_text();
    optional("PREFIX") "write_iops_log": "Log IOPS to PREFIX_iops.N.log"
        => logging.iops = some_text();
    optional("PREFIX") "write_lat_log": "Log latencies to PREFIX_slat.N.log, PREFIX_clat.N.log and PREFIX_lat.N.log"
        => logging.lat = some_text();
    optional("PREFIX") "write_hist_log": "Log histograms of completion latency to PREFIX_clat_hist.N.log",
        "As in fio, empty without log_hist_msec." => logging.hist = some_text();
    value("MILLISECONDS") "log_avg_msec": "Time over which log entries are averaged; by default each I/O has one"
        => |job, v| job.logging.average_ns = milliseconds(v)?;
    value("MILLISECONDS") "log_hist_msec": "Time between logged histograms"
        => |job, v| job.logging.hist_ns = milliseconds(v)?;
    value("0-6") "log_hist_coarseness": "Combine 2^N bins of logged histograms"
        => logging.coarseness = count32(0, 6);
    value("avg|max|both") "log_window_value" | "log_max_value": "What latency logs record for each interval: average, \
         maximum or both"
        => |job, v| (job.logging.average, job.logging.maximum) = v.choice(&[
            ("avg", (true, false)), ("max", (false, true)), ("both", (true, true)), ("0", (true, false)),
            ("1", (false, true))
        ])?;
    flag "per_job_logs": "Write separate logs for each clone" -> logging.per_job;
    flag "log_unix_epoch" | "log_alternate_epoch": "Log times since 1970, not since the start of the job"
        -> logging.unix_epoch;
    flag "log_offset": "Log the offset of each I/O" -> logging.offset;
    flag "log_issue_time": "Log when each I/O was issued, in nanoseconds, and 0 for averages; needs write_lat_log and \
         log_offset" -> logging.issue_time;
    flag "log_prio": "Log the priority of each I/O, not just whether it is real-time" -> logging.priority;
    value("COUNT") "log_entries": "No effect: entries are written as they arise", "No effect."
        = |_, v| v.bytes().map(|_| ());
    flag "log_store_compressed": "Compress logs, which are then PREFIX….log.fz",
        "By zstd, as text: `zstdcat` and `--inflate-log` read them." -> logging.compressed;
    value("SIZE") "log_compression": "No effect: entries are written as they arise",
        "No effect: log_store_compressed alone compresses logs." = |_, v| v.bytes().map(|_| ());
    value("LIST") "log_compression_cpus": "No effect: logs are not compressed", "No effect." = |_, _| Ok(());
}

fn milliseconds(v: KeyValue<'_>) -> Result<u64, String> {
    Ok(v.count(0, 86_400_000)? * 1_000_000)
}
