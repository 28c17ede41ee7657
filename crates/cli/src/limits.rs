//! Resource limits of this process.

use fathom_runner::experiment::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limits of open files and locked memory to their maximum, and returns the previous ones.
pub fn raise() -> Limits {
    let raise = |resource: Resource| {
        let limit = getrlimit(resource);
        // If that is refused, whatever needs more reports it.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
        (resource, limit)
    };
    [Resource::Nofile, Resource::Memlock].map(raise).to_vec()
}
