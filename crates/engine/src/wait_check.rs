//! Whether a worker's interrupted wait had found its completions: requested by the supervisor, answered once by the worker.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// One question and its answer.
#[derive(Default)]
pub(crate) struct WaitCheck(AtomicU8);

impl WaitCheck {
    const REQUESTED: u8 = 1;
    const DEVICE_SLOW: u8 = 2;
    const COMPLETIONS_READY: u8 = 3;

    pub fn request(&self) {
        self.0.store(Self::REQUESTED, Relaxed);
    }

    /// Whether the worker has yet to answer.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.0.load(Relaxed) == Self::REQUESTED
    }

    /// Answers for a wait for `wait_for` completions that returned `reaped`. Fewer than requested are a slow
    /// device, not a lost wake-up.
    #[cold]
    pub fn answer(&self, wait_for: u32, reaped: u32) {
        let ready = wait_for > 0 && reaped >= wait_for;
        self.0.store(if ready { Self::COMPLETIONS_READY } else { Self::DEVICE_SLOW }, Relaxed);
    }

    /// Whether enough completions were available while the worker slept.
    pub fn was_ready(&self) -> bool {
        self.0.load(Relaxed) == Self::COMPLETIONS_READY
    }
}
