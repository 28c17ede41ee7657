//! Which of the standard descriptors were closed when the program began.
//!
//! Rust's runtime opens these on /dev/null before `main`, so results would be lost without an error. An
//! `.init_array` function, which the C runtime calls earlier still, records them.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

static CLOSED: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: the C runtime calls each function in this section once, before `main` and on the first thread.
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = note;

extern "C" fn note() {
    for fd in 0..3 {
        // SAFETY: takes no pointers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Relaxed);
        }
    }
}

/// Whether standard input (0), output (1) or error (2) was closed when the program began.
pub fn at_start(descriptor: u8) -> bool {
    CLOSED.load(Relaxed) & 1u8.checked_shl(descriptor.into()).unwrap_or(0) != 0
}
