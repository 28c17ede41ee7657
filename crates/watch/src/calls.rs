//! Latencies of reads, writes and flushes, from the tracepoints `raw_syscalls:sys_enter` and `sys_exit`.
//!
//! Enabled tracepoints delay every system call of the machine, by about half a microsecond. They therefore stay enabled
//! only while the machine makes few system calls; otherwise they are enabled for one window of 50 ms in 16
//! ([`CallBudget`]): at most 1% of the CPU time in the first case, and a sixteenth of the delay in the second. Flushes have
//! ring buffers of their own, so that many reads do not displace them.

mod budget;
mod files;
mod pairs;
mod trace;

use crate::{Sampler, Scope};
use fathom_model::watch::{MachineSample, Missing};
use std::path::Path;
use std::time::Duration;
use trace::CallTrace;

/// Samples the calls of the processes of a scope.
#[derive(Debug)]
pub struct CallSampler {
    trace: CallTrace,
}

impl CallSampler {
    /// Opens the tracepoints; the first [`Sampler::take`] starts recording. `proc_root` and `sys_root` are the mount points of procfs and sysfs:
    /// `/proc` and `/sys`.
    ///
    /// # Errors
    /// Why calls cannot be recorded, and what would allow it.
    pub fn open(proc_root: &Path, sys_root: &Path, scope: &Scope) -> Result<Self, Missing> {
        Ok(Self { trace: CallTrace::open(proc_root, sys_root, scope)? })
    }
}

impl Sampler for CallSampler {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn period(&self) -> Option<Duration> {
        Some(budget::PERIOD)
    }

    fn sample(&mut self) {
        self.trace.drain();
        self.trace.advance();
    }

    fn take(&mut self, sample: &mut MachineSample) {
        self.trace.drain();
        self.trace.start();
        sample.calls = Some(self.trace.sample());
    }
}

#[cfg(test)]
#[path = "calls/tests.rs"]
mod tests;
