//! The search for a target's peak and knee, and the verdict on what stopped it.
