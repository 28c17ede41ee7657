//! The summary of a run.
