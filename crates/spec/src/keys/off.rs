//! Values of refused keys that request nothing, and keys that have no effect without another.

/// The values of a refused key that are fio's default, or turn its feature off.
pub(super) fn off(name: &str) -> &'static [&'static str] {
    OFF.iter().find(|(_, names)| names.contains(&name)).map_or(&[], |(values, _)| values)
}

/// The key without which `name` has no effect in fio.
pub(super) fn needs(name: &str) -> Option<&'static str> {
    NEEDS.iter().find(|(_, names)| names.contains(&name)).map(|(key, _)| *key)
}

const OFF: &[(&[&str], &[&str])] = &[
    (&["0", "none", "null"], &["verify"]),
    (&["none", "0"], &["zonemode", "lockfile", "write_barrier"]),
    (
        &["0"],
        &[
            "allow_mounted_write",
            "block_error_percentiles",
            "bs_is_seq_rand",
            "bs_unaligned",
            "blocksize_unaligned",
            "cgroup_nodelete",
            "cuda_io",
            "dataplacement",
            "do_verify",
            "end_syncfs",
            "experimental_verify",
            "fdp",
            "fill_device",
            "fill_fs",
            "ignore_zone_limits",
            "job_max_open_zones",
            "latency_target",
            "libaio_vectored",
            "log_alternate_epoch_clock_id",
            "log_issue_time",
            "log_store_compressed",
            "max_open_zones",
            "md_per_io_size",
            "priohint",
            "ramp_size",
            "rate_ignore_thinktime",
            "read_beyond_wp",
            "recover_zbd_write_error",
            "thp",
            "sync_file_range",
            "thinkcycles",
            "thinktime_iotime",
            "trim_backlog",
            "trim_backlog_batch",
            "trim_percentage",
            "trim_verify_zero",
            "verify_only",
            "verify_state_load",
            "verify_write_sequence",
            "write_zone_remainder",
            "zone_reset_frequency",
            "zone_reset_threshold",
            "zonecapacity",
            "zonerange",
            "zonesize",
            "zoneskip",
        ],
    ),
    (&["500"], &["bwavgtime", "iopsavgtime"]),
    (&["read"], &["read_mode", "verify_mode"]),
];

const NEEDS: &[(&str, &[&str])] = &[
    (
        "verify",
        &[
            "do_verify",
            "verify_async",
            "verify_async_cpus",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_dump",
            "verify_fatal",
            "verify_header_seed",
            "verify_interval",
            "verify_offset",
            "verify_pattern_interval",
            "verify_policy",
            "verify_state_save",
            "verify_write_sequence",
            "verifysort",
            "verifysort_nr",
        ],
    ),
    (
        "steadystate",
        &[
            "ss_dur",
            "ss_interval",
            "ss_ramp",
            "steadystate_check_interval",
            "steadystate_duration",
            "steadystate_ramp_time",
        ],
    ),
    ("latency_target", &["latency_percentile", "latency_run", "latency_window"]),
    (
        "read_iolog",
        &[
            "read_iolog_chunked",
            "replay_align",
            "replay_no_stall",
            "replay_redirect",
            "replay_scale",
            "replay_skip",
            "replay_time_scale",
        ],
    ),
    ("zonemode", &["ignore_zone_limits", "max_open_zones", "read_beyond_wp"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{self, Action};

    #[test]
    fn each_name_is_a_refused_key() {
        let off = OFF.iter().flat_map(|(_, names)| names.iter());
        for name in off.chain(NEEDS.iter().flat_map(|(_, names)| names.iter())) {
            let key = keys::find(name).unwrap();
            assert!(matches!(key.action, Action::Refuse(_)), "{name}");
        }
        assert!(NEEDS.iter().all(|(key, _)| keys::find(key).is_some()));
    }
}
