//! Reporting, and fio's logs. These keys change what is printed and logged; everything is always recorded.

use super::accept_flag;
use crate::value::{KeyValue, floats};
use fathom_model::plan::Unified;

keys! { Report;
    flag "stats": "Report the job, and count it in its group",
        "Affects the report only; still recorded, and the job's problems are printed. fio's JSON has empty entries \
         without a name instead." -> show.stats;
    value("COUNT") "significant_figures": "Figures of rates and sizes in fio's normal output"
        = |_, v| v.count(1, 10).map(|_| ());
    value("N:N…") "percentile_list": "Percentiles to report" => |job, v| job.show.percentiles = floats(v.text)?;
    flag "clat_percentiles": "Report percentiles of completion latency" -> show.clat_percentiles;
    flag "lat_percentiles": "Report percentiles of total latency" -> show.lat_percentiles;
    flag "slat_percentiles": "Report percentiles of submission latency" -> show.slat_percentiles;
    flag "disable_lat": "Do not report total latency", "Affects the report only; still measured and recorded."
        => |job, v| job.show.lat = !v.flag()?;
    flag "disable_clat": "Do not report completion latency", "Affects the report only; still measured and recorded."
        => |job, v| job.show.clat = !v.flag()?;
    flag "disable_slat": "Do not report submission latency", "Affects the report only; still measured and recorded."
        => |job, v| job.show.slat = !v.flag()?;
    flag "disable_bw_measurement" | "disable_bw": "No effect: bandwidth samples are always reported",
        "fio reports them, too, contrary to its manual." => |_, v| v.flag()?;
    flag "gtod_reduce": "Set disable_lat, disable_clat and disable_slat",
        "Affects the report only; still measured and recorded." = |job, v| {
            if v.flag()? {
                let show = &mut job.show;
                (show.lat, show.clat, show.slat) = (false, false, false);
                show.lat_percentiles = false;
                show.clat_percentiles = false;
                show.slat_percentiles = false;
            }
            Ok(())
        };
    value("KIND") "unified_rw_reporting": "Report directions separately (none), combined (mixed), or both"
        => show.unified = choice(&[
            ("none", Unified::Separate), ("mixed", Unified::Mixed), ("both", Unified::Both), ("0", Unified::Separate),
            ("1", Unified::Mixed), ("2", Unified::Both)
        ]);
    value("1000|1024") "kb_base": "Value of the k prefix, in values and in text output",
        "As in fio, 4kib is 4000 bytes with 1024 (the default) and 4096 with 1000; fathom prints a note."
        => show.kb_base = choice(&[("1000", 1000), ("1024", 1024)]);
    value("0|1|8") "unit_base": "Report bandwidth in bits (1) or bytes (8) per second"
        => show.unit_base = choice(&[("0", 0), ("1", 1), ("8", 8)]);
    value("NAME") "clocksource": "Time source: gettimeofday, clock_gettime or cpu",
        "No effect, and fathom prints a note: it always uses clock_gettime (CLOCK_MONOTONIC)."
        = |_, v| v.choice(&[("gettimeofday", ()), ("clock_gettime", ()), ("cpu", ())]);
    flag "error_dump": "Print each I/O error", "No effect: errors are counted by errno." = accept_flag;
    flag "disk_util": "Report disk utilization", "No effect: disk utilization is always recorded." = accept_flag;
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
