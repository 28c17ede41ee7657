//! Reporting. These keys change what is printed; everything is always recorded.

use super::{Key, accept_flag};
use crate::value::floats;
use fathom_model::plan::Unified;

pub(super) const KEYS: &[Key] = &[
    Key::flag("stats", "Report the job, and count it in its group", |job, v| {
        job.plan.show.stats = v.flag()?;
        Ok(())
    })
    .differs("Affects the report only; still recorded, and the job's problems are printed. fio's JSON has empty entries without a name instead."),
    Key::value("significant_figures", "COUNT", "Figures of rates and sizes in fio's normal output", |_, v| {
        v.count(1, 10).map(|_| ())
    }),
    Key::value("percentile_list", "N:N…", "Percentiles to report", |job, v| {
        job.plan.show.percentiles = floats(v.text)?;
        Ok(())
    }),
    Key::flag("clat_percentiles", "Report percentiles of completion latency", |job, v| {
        job.plan.show.clat_percentiles = v.flag()?;
        Ok(())
    }),
    Key::flag("lat_percentiles", "Report percentiles of total latency", |job, v| {
        job.plan.show.lat_percentiles = v.flag()?;
        Ok(())
    }),
    Key::flag("slat_percentiles", "Report percentiles of submission latency", |job, v| {
        job.plan.show.slat_percentiles = v.flag()?;
        Ok(())
    }),
    Key::flag("disable_lat", "Do not report total latency", |job, v| {
        job.plan.show.lat = !v.flag()?;
        Ok(())
    })
    .differs("Affects the report only; still measured and recorded."),
    Key::flag("disable_clat", "Do not report completion latency", |job, v| {
        job.plan.show.clat = !v.flag()?;
        Ok(())
    })
    .differs("Affects the report only; still measured and recorded."),
    Key::flag("disable_slat", "Do not report submission latency", |job, v| {
        job.plan.show.slat = !v.flag()?;
        Ok(())
    })
    .differs("Affects the report only; still measured and recorded."),
    Key::flag("disable_bw_measurement", "No effect: bandwidth samples are always reported", |_, v| {
        v.flag()?;
        Ok(())
    })
    .aliases(&["disable_bw"])
    .differs("fio reports them, too, contrary to its manual."),
    Key::flag("gtod_reduce", "Set disable_lat, disable_clat and disable_slat", |job, v| {
        if v.flag()? {
            let show = &mut job.plan.show;
            (show.lat, show.clat, show.slat) = (false, false, false);
            show.lat_percentiles = false;
            show.clat_percentiles = false;
            show.slat_percentiles = false;
        }
        Ok(())
    })
    .differs("Affects the report only; still measured and recorded."),
    Key::value(
        "unified_rw_reporting",
        "KIND",
        "Report directions separately (none), combined (mixed), or both",
        |job, v| {
            job.plan.show.unified = v.choice(&[
                ("none", Unified::Separate),
                ("mixed", Unified::Mixed),
                ("both", Unified::Both),
                ("0", Unified::Separate),
                ("1", Unified::Mixed),
                ("2", Unified::Both),
            ])?;
            Ok(())
        },
    ),
    Key::value(
        "kb_base",
        "1000|1024",
        "Value of the k prefix, in values and in text output",
        |job, v| {
            job.plan.show.kb_base = v.choice(&[("1000", 1000), ("1024", 1024)])?;
            Ok(())
        },
    )
    .differs(
        "As in fio, 4kib is 4000 bytes with 1024 (the default) and 4096 with 1000; fathom prints a note.",
    ),
    Key::value(
        "unit_base",
        "0|1|8",
        "Report bandwidth in bytes (1) or bits (8) per second",
        |job, v| {
            job.plan.show.unit_base = v.choice(&[("0", 0), ("1", 1), ("8", 8)])?;
            Ok(())
        },
    ),
    Key::value("clocksource", "NAME", "Time source: gettimeofday, clock_gettime or cpu", |_, v| {
        v.choice(&[("gettimeofday", ()), ("clock_gettime", ()), ("cpu", ())])
    })
    .differs("No effect, and fathom prints a note: it always uses clock_gettime (CLOCK_MONOTONIC)."),
    Key::flag("error_dump", "Print each I/O error", accept_flag)
        .differs("No effect: errors are counted by errno."),
    Key::flag("disk_util", "Report disk utilization", accept_flag)
        .differs("No effect: disk utilization is always recorded."),
];
