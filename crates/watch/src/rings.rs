//! io_uring instances: queue fill, SQPOLL load, and io-wq workers.
//!
//! A ring is visible as long as a process has its descriptor open: it disappears if the program
//! registers the descriptor and closes it (io_uring_register_ring_fd(3),
//! io_uring_close_ring_fd(3)).

mod events;
pub(crate) mod fdinfo;
mod find;
mod punted;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use crate::perf::WindowSchedule;
use crate::watcher::thread_time;
use crate::{Sampler, Scope, TraceCoverage, own_pid};
use events::EventCounters;
use fathom_model::watch::{MachineSample, RingSample, RingsSample, SqPollThread, Unavailable};
use fdinfo::FdInfo;
use find::WorkerCounter;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum text read per ring, in bytes; 2^16 completions take less.
const TEXT_MAX: u64 = 16 << 20;
/// Upper bounds, as 1/n of the time, for searching all processes for new rings, searching the
/// processes most likely to have some, and retrying a locked ring.
const SEARCH_PART: u32 = 200;
const NEAR_PART: u32 = 100;
const RETRY_PART: u32 = 1000;
/// How much rarer both searches are where events report new rings.
const REPORTED_FACTOR: u32 = 5;
/// Retry time of the first sample, which has no interval before it.
const FIRST_RETRY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct RingSampler {
    proc_root: PathBuf,
    scope: Scope,
    rings: Vec<MonitoredRing>,
    processes: Vec<i32>,
    workers: WorkerCounter,
    missing: Vec<Unavailable>,
    events: Option<EventCounters>,
    /// Setup flags of rings created since the start, by process and descriptor.
    setup_flags: HashMap<(i32, i32), u32>,
    /// CPU time of the last search of all processes, and when it took place.
    search: Option<(Duration, Instant)>,
    near_search: Option<(Duration, Instant)>,
    last_take: Option<Instant>,
    text: Vec<u8>,
}

#[derive(Debug)]
struct MonitoredRing {
    at: find::RingLocation,
    comm: String,
    fdinfo: File,
    /// Last reading; while the ring is locked, with the previous SQPOLL thread.
    last: FdInfo,
    /// Whether this kernel reports the SQPOLL thread's times.
    is_timed: bool,
}

impl RingSampler {
    pub fn open(proc_root: &Path, scope: Scope) -> io::Result<Self> {
        let mut sampler = Self {
            proc_root: proc_root.to_path_buf(),
            scope,
            rings: Vec::new(),
            processes: Vec::new(),
            workers: WorkerCounter::default(),
            missing: Vec::new(),
            events: None,
            setup_flags: HashMap::new(),
            search: None,
            near_search: None,
            last_take: None,
            text: Vec::new(),
        };
        sampler.missing = sampler.search()?;
        Ok(sampler)
    }

    /// Also counts io_uring events of all processes: rare ones always, and task work runs, at some 0.2 µs each,
    /// according to `each_io`.
    pub fn with_events(mut self, sys_root: &Path, each_io: TraceCoverage) -> Self {
        self.events = EventCounters::open(&self.proc_root, sys_root, each_io, &mut self.missing);
        self
    }

    pub fn missing(&self) -> &[Unavailable] {
        &self.missing
    }

    /// Finds new rings and drops closed ones; returns what is not available.
    fn search(&mut self) -> io::Result<Vec<Unavailable>> {
        let began = thread_time();
        let missing = self.search_in(&self.scope.processes(&self.proc_root)?);
        self.search = Some((Duration::from_nanos(thread_time() - began), Instant::now()));
        Ok(missing)
    }

    /// The same for processes that have rings, those in the scope, and `new_processes`.
    fn search_near(&mut self, new_processes: &[i32]) {
        let began = thread_time();
        let mut near = [&self.processes, self.scope.named(), new_processes].concat();
        // This process may have rings itself.
        near.extend((self.scope == Scope::Machine).then(own_pid));
        near.sort_unstable();
        near.dedup();
        self.search_in(&near);
        self.near_search = Some((Duration::from_nanos(thread_time() - began), Instant::now()));
    }

    fn search_in(&mut self, pids: &[i32]) -> Vec<Unavailable> {
        let found = find::rings(&self.proc_root, pids);
        self.processes = found.processes;
        let mut before = std::mem::take(&mut self.rings);
        for at in found.rings {
            let known = before.iter().position(|ring| ring.at.is_same(&at));
            let known_ring = known.map(|index| before.swap_remove(index));
            self.rings.extend(match known_ring {
                Some(ring) => Some(MonitoredRing { at, ..ring }),
                None => MonitoredRing::open(&self.proc_root, at),
            });
        }
        let is_there =
            |at: &(i32, i32)| self.rings.iter().any(|ring| (ring.at.pid, ring.at.fd) == *at);
        self.setup_flags.retain(|at, _| is_there(at));
        found.missing
    }

    /// Processes of the scope that have created rings since the last sample, according to events.
    fn new_processes(&mut self) -> Vec<i32> {
        let made = self.events.as_mut().map_or_else(HashMap::new, EventCounters::created);
        let pids: BTreeSet<i32> = made.keys().map(|(pid, _)| *pid).collect();
        self.setup_flags.extend(made);
        let is_wanted = |pid: &i32| self.scope.holds(&self.proc_root, *pid);
        pids.into_iter().filter(is_wanted).collect()
    }

    /// Reads all rings, and retries locked ones for a while: a busy program holds its ring's lock
    /// most of the time.
    fn read(&mut self, retry_time: Duration) {
        let text = &mut self.text;
        self.rings.retain_mut(|ring| ring.read(text));
        let until = Instant::now() + retry_time;
        while Instant::now() < until && !self.rings.iter().all(MonitoredRing::is_complete) {
            let left = self.rings.iter_mut().filter(|ring| !ring.is_complete());
            left.for_each(|ring| {
                // A closed ring is dropped at the next sample.
                ring.read(text);
            });
        }
    }
}

impl Sampler for RingSampler {
    fn name(&self) -> &'static str {
        "rings"
    }

    fn period(&self) -> Option<Duration> {
        self.events.as_ref().map(|_| WindowSchedule::PERIOD)
    }

    fn sample(&mut self) {
        if let Some(events) = &mut self.events {
            events.advance();
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let now = Instant::now();
        let new_processes = self.new_processes();
        let are_reported = self.events.as_ref().is_some_and(EventCounters::reports_new);
        let factor = if are_reported { REPORTED_FACTOR } else { 1 };
        let due = |search: Option<(Duration, Instant)>, part: u32| {
            search.is_none_or(|(cost, at)| now - at >= cost * part * factor)
        };
        if due(self.search, SEARCH_PART) {
            // Without /proc no ring is visible.
            let _ = self.search();
        } else if !new_processes.is_empty() || due(self.near_search, NEAR_PART) {
            self.search_near(&new_processes);
        }
        let retry_time = self.last_take.map_or(FIRST_RETRY, |last| (now - last) / RETRY_PART);
        self.read(retry_time);
        self.last_take = Some(now);
        sample.rings = Some(RingsSample {
            rings: self.rings.iter().map(|ring| ring.sample(&self.setup_flags)).collect(),
            workers: self.workers.count(&self.proc_root, &self.processes),
            events: self.events.as_mut().map(EventCounters::read),
        });
    }
}

impl MonitoredRing {
    /// `None` if it has been closed.
    fn open(proc_root: &Path, at: find::RingLocation) -> Option<Self> {
        let process = proc_root.join(at.pid.to_string());
        let path = process.join(format!("fdinfo/{}", at.fd));
        let comm = std::fs::read(process.join("comm")).ok()?;
        let comm = fathom_model::escape::bytes(comm.strip_suffix(b"\n").unwrap_or(&comm));
        Some(Self {
            at,
            comm,
            fdinfo: File::open(path).ok()?,
            last: FdInfo::default(),
            is_timed: false,
        })
    }

    fn read(&mut self, text: &mut Vec<u8>) -> bool {
        text.clear();
        let read = self.fdinfo.seek(SeekFrom::Start(0));
        if read.and_then(|_| (&self.fdinfo).take(TEXT_MAX).read_to_end(text)).is_err() {
            return false;
        }
        let now = fdinfo::parse(text);
        let before = self.last.sq_poll.filter(|_| now.sq_poll.is_none());
        // Older kernels report a locked ring as one without a thread.
        let no_times =
            |known: SqPollThread| SqPollThread { total_us: None, work_us: None, ..known };
        self.last = FdInfo { sq_poll: now.sq_poll.or(before.map(no_times)), ..now };
        self.is_timed |= self.has_times();
        // The descriptor may have been reused; a locked ring reports its inode only.
        now.queues.is_some() || now.inode.is_some() && now.inode == self.at.inode
    }

    fn is_complete(&self) -> bool {
        self.last.queues.is_some() && (!self.is_timed || self.has_times())
    }

    fn has_times(&self) -> bool {
        self.last.sq_poll.is_some_and(|thread| thread.total_us.is_some())
    }

    fn sample(&self, setup_flags: &HashMap<(i32, i32), u32>) -> RingSample {
        RingSample {
            pid: self.at.pid,
            comm: self.comm.clone(),
            fd: self.at.fd,
            inode: self.at.unique_inode(),
            processes: self.at.processes,
            queues: self.last.queues,
            sq_poll: self.last.sq_poll,
            setup_flags: setup_flags.get(&(self.at.pid, self.at.fd)).copied(),
        }
    }
}
