//! Remedies for errors that can occur in more than one crate.

/// Explains why a thread could not be created, and what to change.
#[must_use]
pub fn thread_not_created(error: &std::io::Error) -> String {
    format!(
        "cannot create a thread: {error}; raise the limit of processes and threads (RLIMIT_NPROC, `ulimit -u`, or \
         pids.max of the control group)"
    )
}
