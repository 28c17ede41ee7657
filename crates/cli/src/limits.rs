//! Resource limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limits of open files and locked memory to their maximum.
pub fn raise() {
    for resource in [Resource::Nofile, Resource::Memlock] {
        let limit = getrlimit(resource);
        // If that is refused, whatever needs more reports it.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
