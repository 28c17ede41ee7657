//! Threads that verify beside the worker (`verify_async`): they share the I/Os that completed together.

use super::{Checked, Verifier};
use crate::error::{EngineError, Operation};
use crate::queue::Request;
use crate::thread;
use fathom_model::plan::Verify;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::mpsc;
use std::thread::{JoinHandle, Thread};

/// What a seat holds once its thread has begun a round.
static BUSY: u8 = 0;
/// The same once the thread is to end, or has panicked.
static END: u8 = 1;

fn marker(of: &'static u8) -> *mut Round {
    (&raw const *of).cast_mut().cast()
}

/// An I/O that completed.
pub(crate) struct Io {
    pub data: *mut [u8],
    pub request: Request,
    pub checked: Option<Checked>,
    right: Vec<u8>,
}

impl Io {
    pub fn new(data: *mut [u8], request: Request) -> Self {
        Self { data, request, checked: None, right: Vec::new() }
    }

    fn verify(&mut self, verifier: &Verifier, paths: &[String]) {
        // SAFETY: the buffer of a slot that is free and not used before the round has ended; those of slots do not overlap.
        let data = unsafe { &mut *self.data };
        let path = paths.get(self.request.file as usize).map_or("", String::as_str);
        self.checked = Some(verifier.examine(data, &self.request, path, &mut self.right));
    }
}

/// The I/Os of a batch; each is taken by one thread.
struct Round {
    verifier: *const Verifier,
    paths: *const [String],
    ios: *mut Io,
    count: usize,
    next: AtomicUsize,
}

impl Round {
    /// Verifies I/Os until all are taken.
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Relaxed);
            if index >= self.count {
                return;
            }
            // SAFETY: `Helpers::check` keeps all of these alive and touches none of them until each thread has left the
            // round, and no other thread gets this index.
            let (verifier, paths, io) =
                unsafe { (&*self.verifier, &*self.paths, &mut *self.ios.add(index)) };
            io.verify(verifier, paths);
        }
    }
}

/// Of one helper.
struct Seat {
    /// The round that it may join, or a marker; null for none.
    round: AtomicPtr<Round>,
    worker: Thread,
    cpu_ns: AtomicU64,
}

/// Empties a seat, also when the thread unwinds.
struct Leave<'a>(&'a Seat);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0
            .round
            .store(if std::thread::panicking() { marker(&END) } else { null_mut() }, Release);
        self.0.worker.unpark();
    }
}

impl Seat {
    fn serve(&self) {
        loop {
            let round = self.round.load(Acquire);
            if round.is_null() {
                std::thread::park();
                continue;
            }
            if round == marker(&END) {
                return;
            }
            if self.round.compare_exchange(round, marker(&BUSY), AcqRel, Relaxed).is_err() {
                continue;
            }
            let leave = Leave(self);
            // SAFETY: the worker waits for threads that have begun.
            unsafe { (*round).work() };
            self.cpu_ns.store(thread::cpu_ns(), Relaxed);
            drop(leave);
        }
    }
}

/// Waits until no thread uses a round, also when the worker unwinds.
struct EndOfRound<'a> {
    seats: &'a [(Arc<Seat>, JoinHandle<()>)],
    at: *mut Round,
}

impl Drop for EndOfRound<'_> {
    fn drop(&mut self) {
        for (seat, _) in self.seats {
            // A thread that has not begun is too late.
            let _ = seat.round.compare_exchange(self.at, null_mut(), AcqRel, Relaxed);
            while seat.round.load(Acquire) == marker(&BUSY) {
                std::thread::park();
            }
        }
    }
}

pub(crate) struct Helpers {
    seats: Vec<(Arc<Seat>, JoinHandle<()>)>,
    /// Those to verify together, with room for all that may be in flight.
    pub ios: Vec<Io>,
}

impl Helpers {
    /// To be called by the worker, whose CPUs they run on unless the plan names others.
    pub fn new(plan: &Verify, depth: u32) -> Result<Option<Box<Self>>, EngineError> {
        // The worker verifies, too; more would have nothing to do.
        let count = plan.threads.min(u64::from(depth).saturating_sub(1));
        if count == 0 {
            return Ok(None);
        }
        let mut this = Self { seats: Vec::new(), ios: Vec::with_capacity(depth as usize) };
        for _ in 0..count {
            this.seats.push(seat(plan.thread_cpus.clone())?);
        }
        Ok(Some(Box::new(this)))
    }

    /// Verifies `ios`, beside the threads; each has a result then.
    pub fn check(&mut self, verifier: &Verifier, paths: &[String]) {
        let (ios, count) = (self.ios.as_mut_ptr(), self.ios.len());
        let mut round = Round { verifier, paths, ios, count, next: AtomicUsize::new(0) };
        let at = &raw mut round;
        for (seat, thread) in self.seats.iter().take(count.saturating_sub(1)) {
            // Fails once the thread has panicked.
            if seat.round.compare_exchange(null_mut(), at, AcqRel, Relaxed).is_ok() {
                thread.thread().unpark();
            }
        }
        let end = EndOfRound { seats: &self.seats, at };
        // SAFETY: it is alive, and shared only.
        unsafe { (*at).work() };
        drop(end);
        // Those that a thread left when it panicked: the worker meets what it met.
        let unchecked = self.ios.iter_mut().filter(|io| io.checked.is_none());
        unchecked.for_each(|io| io.verify(verifier, paths));
    }

    /// CPU time of the threads so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.seats.iter().map(|(seat, _)| seat.cpu_ns.load(Relaxed)).sum()
    }
}

fn seat(cpus: Vec<u32>) -> Result<(Arc<Seat>, JoinHandle<()>), EngineError> {
    let worker = std::thread::current();
    let seat =
        Arc::new(Seat { round: AtomicPtr::new(null_mut()), worker, cpu_ns: AtomicU64::new(0) });
    let (ready, result) = mpsc::channel();
    let own = Arc::clone(&seat);
    let serve = move || {
        let pinned = if cpus.is_empty() { Ok(()) } else { thread::pin(&cpus) };
        let is_pinned = pinned.is_ok();
        if ready.send(pinned).is_ok() && is_pinned {
            own.serve();
        }
    };
    let spawned = std::thread::Builder::new().name("verifier".into()).spawn(serve);
    let thread = spawned.map_err(|error| EngineError::by_kernel(Operation::SpawnWorker, &error))?;
    result.recv().unwrap_or_else(|_| Err(EngineError::new(Operation::SpawnWorker)))?;
    Ok((seat, thread))
}

impl Drop for Helpers {
    fn drop(&mut self) {
        for (seat, thread) in self.seats.drain(..) {
            seat.round.store(marker(&END), Release);
            thread.thread().unpark();
            // It has panicked, of which the worker knows, or ends.
            let _ = thread.join();
        }
    }
}
