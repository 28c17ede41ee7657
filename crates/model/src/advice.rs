//! Messages that more than one crate needs.

/// Explains why a thread could not be created, and what to change.
pub fn thread_not_created(error: &std::io::Error) -> String {
    format!(
        "cannot create a thread: {error}; raise the limit of processes and threads (RLIMIT_NPROC, `ulimit -u`, or \
         pids.max of the cgroup)"
    )
}

/// Says that intervals have no sample of their own.
pub fn intervals_merged(number: u64) -> String {
    format!("{number} intervals merged with the next: sampling or writing the record was too slow")
}
