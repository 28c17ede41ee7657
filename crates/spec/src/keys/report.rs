//! What of the results is shown. All is always recorded.

use super::{Key, accept_flag};
use crate::value::floats;
use fathom_model::plan::Unified;

pub(super) const KEYS: &[Key] = &[
    Key::value("percentile_list", "N:N…", "Percentiles that are listed", |job, v| {
        job.show.percentiles = floats(v.text)?;
        Ok(())
    }),
    Key::flag("clat_percentiles", "Percentiles of completion latency", |job, v| {
        job.show.clat_percentiles = v.flag()?;
        Ok(())
    }),
    Key::flag("lat_percentiles", "Percentiles of total latency", |job, v| {
        job.show.lat_percentiles = v.flag()?;
        Ok(())
    }),
    Key::flag("slat_percentiles", "Percentiles of submission latency", |job, v| {
        job.show.slat_percentiles = v.flag()?;
        Ok(())
    }),
    Key::flag("disable_lat", "Leave total latency out", |job, v| {
        job.show.lat = !v.flag()?;
        Ok(())
    })
    .differs("Only not shown: it is recorded."),
    Key::flag("disable_clat", "Leave completion latency out", |job, v| {
        job.show.clat = !v.flag()?;
        Ok(())
    })
    .differs("Only not shown: it is recorded."),
    Key::flag("disable_slat", "Leave submission latency out", |job, v| {
        job.show.slat = !v.flag()?;
        Ok(())
    })
    .differs("Only not shown: it is recorded."),
    Key::flag("disable_bw_measurement", "Leave bandwidth samples out", |job, v| {
        job.show.bw = !v.flag()?;
        Ok(())
    })
    .aliases(&["disable_bw"])
    .differs("Only not shown: it is recorded."),
    Key::flag("gtod_reduce", "All four of them", |job, v| {
        if v.flag()? {
            let show = &mut job.show;
            (show.lat, show.clat, show.slat, show.bw) = (false, false, false, false);
            show.lat_percentiles = false;
            show.clat_percentiles = false;
            show.slat_percentiles = false;
        }
        Ok(())
    })
    .differs("Only not shown: it is recorded."),
    Key::value(
        "unified_rw_reporting",
        "KIND",
        "Directions as one: none, mixed or both",
        |job, v| {
            job.show.unified = v.choice(&[
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
        "What k stands for, in values and in text output",
        |job, v| {
            job.show.kb_base = v.choice(&[("1000", 1000), ("1024", 1024)])?;
            Ok(())
        },
    )
    .differs(
        "As in fio, 4kib is 4000 bytes with 1024, the default, and 4096 with 1000; fathom says so.",
    ),
    Key::value(
        "unit_base",
        "0|1|8",
        "Text output in bytes (1) or bits (8) per second",
        |job, v| {
            job.show.unit_base = v.choice(&[("0", 0), ("1", 1), ("8", 8)])?;
            Ok(())
        },
    ),
    Key::value("clocksource", "NAME", "gettimeofday, clock_gettime or cpu", |_, v| {
        v.choice(&[("gettimeofday", ()), ("clock_gettime", ()), ("cpu", ())])
    })
    .differs("No effect, with a note: times always come from clock_gettime (CLOCK_MONOTONIC)."),
    Key::flag("error_dump", "Print every error", accept_flag)
        .differs("Changes nothing: errors are counted by their number."),
    Key::flag("disk_util", "Show the disks' utilisation", accept_flag)
        .differs("Changes nothing: it is always recorded."),
    Key::flag("log_unix_epoch", "Logs with wall-clock times", accept_flag)
        .aliases(&["log_alternate_epoch"])
        .differs("Changes nothing: `samples.ndjson` has both times."),
];
