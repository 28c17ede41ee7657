//! Measures the overhead of counting: two threads on one CPU pass a byte back and forth, so nearly
//! all their time goes to system calls and context switches, where counters are saved and restored.

use crate::perf::EventTarget;
use crate::watcher::thread_time;
use fathom_model::watch::CountingCost;
use rustix::thread::{CpuSet, gettid, sched_getcpu, sched_setaffinity};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc;
use std::thread;

/// Pairs of alternating measurements without and with counting, so that background noise affects
/// both.
const PAIRS: usize = 21;
const ROUNDS: usize = 150;

/// Medians over pairs of measurements (without, with counting), in nanoseconds for `switches` context
/// switches each; `None` if there are no pairs.
fn cost(stretches: &[(u64, u64)], switches: usize) -> Option<CountingCost> {
    let median = |of: fn(&(u64, u64)) -> f64| {
        let mut all: Vec<f64> = stretches.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).map(|ns| ns / switches.max(1) as f64)
    };
    Some(CountingCost {
        without_ns: median(|(without, _)| *without as f64)?,
        added_ns: median(|(without, with)| *with as f64 - *without as f64)?,
    })
}

/// Measures the overhead of the events that `attach` opens, for a CPU or for the threads
/// themselves.
pub(super) fn measure<T>(
    by_cpu: bool,
    attach: impl Fn(EventTarget) -> io::Result<T> + Sync,
) -> io::Result<CountingCost> {
    let body = || {
        let cpu_index = sched_getcpu();
        bind(cpu_index)?;
        let ((here, mut far), (mut near, there)) = (io::pipe()?, io::pipe()?);
        let (tid_sender, tid_receiver) = mpsc::channel();
        let partner = move || {
            // Sending fails if the other thread has failed already.
            let _ = tid_sender.send(bind(cpu_index).map(|()| gettid().as_raw_nonzero().get()));
            echo(here, there);
        };
        let partner = thread::Builder::new().name("fathom-overhead".into()).spawn(partner)?;
        let tid = tid_receiver.recv().map_err(io::Error::other)??;
        let cpu = u32::try_from(cpu_index).map_err(io::Error::other)?;
        let of = if by_cpu {
            vec![EventTarget::Cpu(cpu)]
        } else {
            vec![EventTarget::Thread(0), EventTarget::Thread(tid)]
        };
        let measured =
            alternate(&|| of.iter().map(|of| attach(*of)).collect(), &mut far, &mut near);
        // Closing the pipe ends the partner.
        drop(far);
        let _ = partner.join();
        measured
    };
    thread::scope(|scope| {
        // In a thread of its own, because pinning is permanent.
        let measured =
            thread::Builder::new().name("fathom-overhead".into()).spawn_scoped(scope, body)?;
        measured.join().map_err(|_| io::Error::other("the measuring thread panicked"))?
    })
}

fn bind(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        let text = format!("CPU {cpu} exceeds the supported maximum of {}", CpuSet::MAX_CPU);
        return Err(io::Error::other(text));
    }
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

fn echo(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() && to.write_all(&byte).is_ok() {}
}

fn alternate<T>(
    attach: &dyn Fn() -> io::Result<Vec<T>>,
    to: &mut PipeWriter,
    from: &mut PipeReader,
) -> io::Result<CountingCost> {
    let mut stretch = || {
        let began = thread_time();
        for _ in 0..ROUNDS {
            to.write_all(&[1])?;
            from.read_exact(&mut [0])?;
        }
        io::Result::Ok(thread_time() - began)
    };
    // Warm-up.
    stretch()?;
    let mut pairs = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let without = stretch()?;
        let attached = attach()?;
        let with = stretch()?;
        drop(attached);
        pairs.push((without, with));
    }
    // A thread's CPU time includes one switch per round trip: the one to it.
    cost(&pairs, ROUNDS).ok_or_else(|| io::Error::other("nothing was measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_used() {
        let overhead = cost(&[(1000, 1200), (1000, 9000), (1100, 1350)], 1).unwrap();
        assert_eq!((overhead.without_ns, overhead.added_ns), (1000.0, 250.0));
        let slow = cost(&[(200_000, 900_000); 3], 100).unwrap();
        assert_eq!(slow.to_string(), "counting adds 7.0 µs to a context switch of 2.0 µs");
        // Noise can make the overhead negative.
        assert_eq!(cost(&[(1000, 900)], 1).unwrap().added_ns, -100.0);
        assert_eq!(cost(&[], 1), None);
    }
}
