//! Findings about one run.
