//! Memory bandwidth, by a short copy.

use fathom_model::facts::Host;
use fathom_model::watch::MachineProbes;
use fathom_store::{load_probes, save_probes};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Each thread copies so many bytes at a time: more than caches hold.
const BLOCK: u64 = 64 << 20;
/// Blocks of less than this would be copied within caches.
const BLOCK_MIN: u64 = 16 << 20;
/// More threads than fill the memory controllers of one socket gain nothing.
const THREADS_MAX: u64 = 32;
/// CPU time of each thread, and the most that it may take.
const TIME: Duration = Duration::from_millis(100);
const TIME_MAX: Duration = Duration::from_secs(1);

/// What all CPUs together copied on `host`, in bytes per second, if that was measured since the last boot.
pub fn copy_rate(host: &Host) -> Option<f64> {
    load_probes(&host.boot_id).memory_copy
}

/// The same; measured if it was not, which takes a tenth of a second and at most `bytes_max` of memory, and stored.
pub fn measured_copy_rate(host: &Host, bytes_max: u64) -> Option<f64> {
    copy_rate(host).or_else(|| {
        let threads = (host.cpus_allowed.len() as u64).clamp(1, THREADS_MAX);
        let block = BLOCK.min(bytes_max / threads / 2);
        let rate = (block >= BLOCK_MIN).then(|| measure(threads, block as usize))?;
        // Unstored, it is measured again.
        let _ =
            save_probes(&MachineProbes { memory_copy: Some(rate), ..load_probes(&host.boot_id) });
        Some(rate)
    })
}

/// Threads that cannot be started copy nothing.
fn measure(threads: u64, block: usize) -> f64 {
    let copy = || {
        let (from, mut to) = (vec![1_u8; block], vec![0_u8; block]);
        // The first copy also maps the memory.
        to.copy_from_slice(black_box(&from));
        // What other programs and quotas keep from the threads is not the memory's.
        let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let (began, began_used, mut copied) = (Instant::now(), used(), 0);
        while used() - began_used < TIME && began.elapsed() < TIME_MAX {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
            copied += block;
        }
        copied as f64 / (used() - began_used).as_secs_f64().max(1e-9)
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().name("copy".into()).spawn_scoped(scope, copy).ok();
        let running: Vec<_> = (0..threads).filter_map(start).collect();
        running.into_iter().filter_map(|one| one.join().ok()).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_copy_and_little_memory_measures_nothing() {
        assert!(measure(2, 1 << 20) > 0.0);
        let host = Host { cpus_allowed: (0..64).collect(), ..Host::default() };
        assert_eq!(measured_copy_rate(&host, 512 << 20), None);
    }
}
