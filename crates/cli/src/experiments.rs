//! The shipped experiments.

/// Name and file of each, in the order in which they are listed.
pub const ALL: [(&str, &str); 14] = [
    ("one-disk", include_str!("../../../experiments/one-disk.toml")),
    ("all-disks", include_str!("../../../experiments/all-disks.toml")),
    ("direct-buffered", include_str!("../../../experiments/direct-buffered.toml")),
    ("readahead", include_str!("../../../experiments/readahead.toml")),
    ("scheduler", include_str!("../../../experiments/scheduler.toml")),
    ("polled", include_str!("../../../experiments/polled.toml")),
    ("clock", include_str!("../../../experiments/clock.toml")),
    ("async-buffered", include_str!("../../../experiments/async-buffered.toml")),
    ("sqpoll", include_str!("../../../experiments/sqpoll.toml")),
    ("one-core-peak", include_str!("../../../experiments/one-core-peak.toml")),
    ("block-size", include_str!("../../../experiments/block-size.toml")),
    ("kernels", include_str!("../../../experiments/kernels.toml")),
    ("filesystems", include_str!("../../../experiments/filesystems.toml")),
    ("sampling", include_str!("../../../experiments/sampling.toml")),
];

/// The file of the experiment `name`.
pub fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
