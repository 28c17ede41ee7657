//! What counting costs, by a short trial: two threads on one processor hand a byte to and fro, so that
//! nearly all of their time is system calls and context switches, where counters are switched over.

use crate::perf::Of;
use crate::watcher::thread_time;
use rustix::thread::{CpuSet, gettid, sched_getcpu, sched_setaffinity};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc;
use std::thread;

/// Pairs of stretches, one with and one without counting, in turn, so that whatever else the machine does
/// falls on both.
const PAIRS: usize = 21;
/// Bytes that are handed over and back in a stretch.
const ROUNDS: usize = 150;
/// What a trial found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    /// Processor time of a context switch with the system calls around it, in nanoseconds, without
    /// counting.
    pub without_ns: f64,
    /// What counting adds to it.
    pub added_ns: f64,
}

impl Trial {
    /// Medians of pairs of stretches, each without and with counting, in nanoseconds of `switches` context
    /// switches; `None` without any.
    fn of(stretches: &[(u64, u64)], switches: usize) -> Option<Self> {
        let median = |of: fn(&(u64, u64)) -> f64| {
            let mut all: Vec<f64> = stretches.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).map(|ns| ns / switches.max(1) as f64)
        };
        Some(Self {
            without_ns: median(|(without, _)| *without as f64)?,
            added_ns: median(|(without, with)| *with as f64 - *without as f64)?,
        })
    }
}

impl std::fmt::Display for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (added, without) = (self.added_ns / 1e3, self.without_ns / 1e3);
        write!(f, "counting adds {added:.1} µs to a context switch of {without:.1} µs")
    }
}

/// Tries it with what `attach` opens: of a processor, or of the threads themselves.
///
/// # Errors
/// Where the threads cannot be made or bound to one processor, or nothing can be attached.
pub(super) fn run<T>(
    by_cpu: bool,
    attach: impl Fn(Of) -> io::Result<T> + Sync,
) -> io::Result<Trial> {
    let body = || {
        let place = sched_getcpu();
        bind(place)?;
        let ((here, mut far), (mut near, there)) = (io::pipe()?, io::pipe()?);
        let (tell, told) = mpsc::channel();
        let partner = move || {
            // The other one has gone away where nobody listens.
            let _ = tell.send(bind(place).map(|()| gettid().as_raw_nonzero().get()));
            echo(here, there);
        };
        let partner = thread::Builder::new().name("fathom-trial".into()).spawn(partner)?;
        let tid = told.recv().map_err(io::Error::other)??;
        let cpu = u32::try_from(place).map_err(io::Error::other)?;
        let of = if by_cpu { vec![Of::Cpu(cpu)] } else { vec![Of::Thread(0), Of::Thread(tid)] };
        let tried = alternate(&|| of.iter().map(|of| attach(*of)).collect(), &mut far, &mut near);
        // The partner ends when nothing can come any more.
        drop(far);
        let _ = partner.join();
        tried
    };
    thread::scope(|scope| {
        // In a thread of its own, as a thread stays where it is bound.
        let tried = thread::Builder::new().name("fathom-trial".into()).spawn_scoped(scope, body)?;
        tried.join().map_err(|_| io::Error::other("the thread that tried it panicked"))?
    })
}

fn bind(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        let text = format!("processor {cpu} is beyond the {} known", CpuSet::MAX_CPU);
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
) -> io::Result<Trial> {
    let mut stretch = || {
        let began = thread_time();
        for _ in 0..ROUNDS {
            to.write_all(&[1])?;
            from.read_exact(&mut [0])?;
        }
        io::Result::Ok(thread_time() - began)
    };
    // The first is slow, whatever it does.
    stretch()?;
    let mut pairs = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let without = stretch()?;
        let attached = attach()?;
        let with = stretch()?;
        drop(attached);
        pairs.push((without, with));
    }
    // A thread's time holds one switch of each round: that to it.
    Trial::of(&pairs, ROUNDS).ok_or_else(|| io::Error::other("nothing was tried"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_decide() {
        let trial = Trial::of(&[(1000, 1200), (1000, 9000), (1100, 1350)], 1).unwrap();
        assert_eq!((trial.without_ns, trial.added_ns), (1000.0, 250.0));
        let slow = Trial::of(&[(200_000, 900_000); 3], 100).unwrap();
        assert_eq!(slow.to_string(), "counting adds 7.0 µs to a context switch of 2.0 µs");
        // Noise can make it faster.
        assert_eq!(Trial::of(&[(1000, 900)], 1).unwrap().added_ns, -100.0);
        assert_eq!(Trial::of(&[], 1), None);
    }
}
