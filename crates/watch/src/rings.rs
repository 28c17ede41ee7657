//! io_uring instances: what is in their queues, how busy their SQPOLL threads are, how many workers
//! their processes have.
//!
//! A ring is seen where a process has it open: a program that closed its descriptor after having
//! registered it (io_uring_register_ring_fd(3), io_uring_close_ring_fd(3)) hides it.

mod events;
mod fdinfo;
mod find;
mod punted;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use crate::perf::Turns;
use crate::watcher::thread_time;
use crate::{EachIo, Sampler, Scope, own_pid};
use events::Events;
use fathom_model::watch::{MachineSample, Missing, RingSample, RingsSample, SqPoll};
use fdinfo::FdInfo;
use find::Workers;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// More text than this is not read of one ring: 2^16 completions are listed in less.
const TEXT_MAX: u64 = 16 << 20;
/// Share of the time that goes into looking for new rings, among all processes and among the few that are most
/// likely to have some, and into asking a busy ring again, at most: one part in these.
const SEARCH_PART: u32 = 200;
const NEAR_PART: u32 = 100;
const RETRY_PART: u32 = 1000;
/// The first look has no time before it.
const FIRST_RETRY: Duration = Duration::from_millis(1);

/// Looks at the rings of processes.
#[derive(Debug)]
pub struct RingSampler {
    proc_root: PathBuf,
    scope: Scope,
    rings: Vec<Ring>,
    /// Processes that have any.
    processes: Vec<i32>,
    workers: Workers,
    missing: Vec<Missing>,
    events: Option<Events>,
    /// Flags of the rings that were made meanwhile, by process and descriptor.
    setup_flags: HashMap<(i32, i32), u32>,
    /// Processor time of the last search among all processes, and when it was.
    search: Option<(Duration, Instant)>,
    /// The same of the last one among the processes that are most likely to have rings.
    near_search: Option<(Duration, Instant)>,
    last_take: Option<Instant>,
    text: Vec<u8>,
}

/// A ring that was found.
#[derive(Debug)]
struct Ring {
    at: find::Found,
    /// The process's name.
    comm: String,
    fdinfo: File,
    /// What was seen of it last; of its SQPOLL thread also what was known before.
    seen: FdInfo,
    /// Whether the kernel has told the times of its SQPOLL thread.
    is_timed: bool,
}

impl RingSampler {
    /// A sampler of the rings of `scope`. `proc_root` is where the proc file system is mounted: `/proc`.
    ///
    /// # Errors
    /// Where `proc_root` cannot be listed; the error names it.
    pub fn open(proc_root: &Path, scope: Scope) -> io::Result<Self> {
        let mut sampler = Self {
            proc_root: proc_root.to_path_buf(),
            scope,
            rings: Vec::new(),
            processes: Vec::new(),
            workers: Workers::default(),
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

    /// Has it count io_uring's events too, of all processes: those that are rare where all is well, and
    /// as far as `each_io` says each run of task work, at some 0.2 µs a run. `sys_root` is where sysfs is
    /// mounted: `/sys`.
    #[must_use]
    pub fn with_events(mut self, sys_root: &Path, each_io: EachIo) -> Self {
        self.events = Events::open(&self.proc_root, sys_root, each_io, &mut self.missing);
        self
    }

    /// What it could not see when it was opened.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Looks for rings that came and drops those that went; gives what it could not see.
    fn search(&mut self) -> io::Result<Vec<Missing>> {
        let began = thread_time();
        let missing = self.search_in(&self.scope.processes(&self.proc_root)?);
        self.search = Some((Duration::from_nanos(thread_time() - began), Instant::now()));
        Ok(missing)
    }

    /// The same among the processes that have rings, those that the scope names, and those of `told`.
    fn search_near(&mut self, told: &[i32]) {
        let began = thread_time();
        let mut near = [&self.processes, self.scope.named(), told].concat();
        // A program that watches the machine beside its own work may have rings itself.
        near.extend((self.scope == Scope::Machine).then(own_pid));
        near.sort_unstable();
        near.dedup();
        self.search_in(&near);
        self.near_search = Some((Duration::from_nanos(thread_time() - began), Instant::now()));
    }

    fn search_in(&mut self, pids: &[i32]) -> Vec<Missing> {
        let found = find::rings(&self.proc_root, pids);
        self.processes = found.processes;
        let mut before = std::mem::take(&mut self.rings);
        for at in found.rings {
            let known = before.iter().position(|ring| ring.at.is_same(&at));
            let kept = known.map(|place| before.swap_remove(place));
            self.rings.extend(match kept {
                Some(ring) => Some(Ring { at, ..ring }),
                None => Ring::open(&self.proc_root, at),
            });
        }
        let is_there =
            |at: &(i32, i32)| self.rings.iter().any(|ring| (ring.at.pid, ring.at.fd) == *at);
        self.setup_flags.retain(|at, _| is_there(at));
        found.missing
    }

    /// Processes of the scope that made rings since the last look, as far as events tell.
    fn told(&mut self) -> Vec<i32> {
        let made = self.events.as_mut().map_or_else(HashMap::new, Events::created);
        let pids: BTreeSet<i32> = made.keys().map(|(pid, _)| *pid).collect();
        self.setup_flags.extend(made);
        let is_wanted = |pid: &i32| self.scope.holds(&self.proc_root, *pid);
        pids.into_iter().filter(is_wanted).collect()
    }

    /// Reads all rings, and those that were locked again and again for a while: a program that always
    /// has work holds its ring's lock most of the time.
    fn read(&mut self, patience: Duration) {
        let text = &mut self.text;
        self.rings.retain_mut(|ring| ring.read(text));
        let until = Instant::now() + patience;
        while Instant::now() < until && !self.rings.iter().all(Ring::is_complete) {
            let left = self.rings.iter_mut().filter(|ring| !ring.is_complete());
            left.for_each(|ring| {
                // One that went is dropped with the next look.
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
        self.events.as_ref().map(|_| Turns::PERIOD)
    }

    fn look(&mut self) {
        if let Some(events) = &mut self.events {
            events.turn();
        }
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let now = Instant::now();
        let told = self.told();
        let due = |search: Option<(Duration, Instant)>, part: u32| {
            search.is_none_or(|(cost, at)| now - at >= cost * part)
        };
        if due(self.search, SEARCH_PART) {
            // Without /proc there is nothing to be seen of any ring.
            let _ = self.search();
        } else if !told.is_empty() || due(self.near_search, NEAR_PART) {
            self.search_near(&told);
        }
        let patience = self.last_take.map_or(FIRST_RETRY, |last| (now - last) / RETRY_PART);
        self.read(patience);
        self.last_take = Some(now);
        sample.rings = Some(RingsSample {
            rings: self.rings.iter().map(|ring| ring.sample(&self.setup_flags)).collect(),
            workers: self.workers.count(&self.proc_root, &self.processes),
            events: self.events.as_mut().map(Events::read),
        });
    }
}

impl Ring {
    /// `None` where it is gone.
    fn open(proc_root: &Path, at: find::Found) -> Option<Self> {
        let process = proc_root.join(at.pid.to_string());
        let path = process.join(format!("fdinfo/{}", at.fd));
        let comm = std::fs::read(process.join("comm")).ok()?;
        let comm = fathom_model::escape::bytes(comm.strip_suffix(b"\n").unwrap_or(&comm));
        Some(Self {
            at,
            comm,
            fdinfo: File::open(path).ok()?,
            seen: FdInfo::default(),
            is_timed: false,
        })
    }

    /// Reads it into `text`; false where it is no more.
    fn read(&mut self, text: &mut Vec<u8>) -> bool {
        text.clear();
        let read = self.fdinfo.seek(SeekFrom::Start(0));
        if read.and_then(|_| (&self.fdinfo).take(TEXT_MAX).read_to_end(text)).is_err() {
            return false;
        }
        let now = fdinfo::parse(text);
        let before = self.seen.sq_poll.filter(|_| now.sq_poll.is_none());
        // Older kernels show a locked ring as one without a thread.
        let no_times = |known: SqPoll| SqPoll { total_us: None, work_us: None, ..known };
        self.seen = FdInfo { sq_poll: now.sq_poll.or(before.map(no_times)), ..now };
        self.is_timed |= self.has_times();
        // The descriptor may be another file's by now; a ring that is locked shows its inode only.
        now.queues.is_some() || now.inode.is_some() && now.inode == self.at.inode
    }

    /// Whether there is nothing that could be seen at another attempt.
    fn is_complete(&self) -> bool {
        self.seen.queues.is_some() && (!self.is_timed || self.has_times())
    }

    fn has_times(&self) -> bool {
        self.seen.sq_poll.is_some_and(|thread| thread.total_us.is_some())
    }

    fn sample(&self, setup_flags: &HashMap<(i32, i32), u32>) -> RingSample {
        RingSample {
            pid: self.at.pid,
            comm: self.comm.clone(),
            fd: self.at.fd,
            inode: self.at.unique_inode(),
            processes: self.at.processes,
            queues: self.seen.queues,
            sq_poll: self.seen.sq_poll,
            setup_flags: setup_flags.get(&(self.at.pid, self.at.fd)).copied(),
        }
    }
}
