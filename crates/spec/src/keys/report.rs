//! Reporting. These keys change what is printed; everything is always recorded.

use super::accept_flag;
use crate::value::floats;
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
}
