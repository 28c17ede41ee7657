//! What `fathom limit` prints.
