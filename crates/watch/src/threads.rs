//! What threads do: state, system call, wait channel and more, many times a second.

mod all;
mod files;
mod helpers;
mod members;
mod names;
mod parse;
mod running;
mod syscalls;
mod task;
#[cfg(test)]
mod tests;
mod trial;

pub use helpers::{HelperTime, helper_time};

use crate::{Sampler, Scope, priority};
use all::AllThreads;
use fathom_model::watch::{MachineSample, Missing, ThreadCount, ThreadsSample};
use files::Proc;
use members::{About, Members, Process};
use names::{NONE, Name, Names};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use syscalls::Syscalls;
use task::{Eye, Seen};

/// Looks per second unless asked otherwise.
pub const HZ: u32 = 20;
/// The most looks per second.
pub const HZ_MAX: u32 = 100;

/// A thread costs so many times more by its files than with all others.
const ALL_COSTS: usize = 8;
/// Fewer threads than these are not worth a program in the kernel.
const ALL_FROM: usize = 32;

/// What a [`ThreadSampler`] looks at.
#[derive(Debug, Clone)]
pub struct ThreadOptions {
    /// Where the proc file system is mounted.
    pub proc_root: PathBuf,
    /// The file that names users: `/etc/passwd`.
    pub passwd: PathBuf,
    /// Whose threads.
    pub scope: Scope,
    /// Looks per second, from 1 to [`HZ_MAX`].
    pub hz: u32,
    /// Threads in all states, not only those that run, wait to run, wait for I/O or are in an
    /// uninterruptible sleep.
    pub all_states: bool,
    /// What is looked up beyond state, system call and wait channel.
    pub parts: Parts,
    /// Read files of each thread also where the kernel can tell of all threads at once.
    pub one_by_one: bool,
    /// Look before all ordinary threads run, at any price: each look is an interrupt of its own. Else a
    /// look may come some milliseconds late, with one that comes anyway.
    pub urgent: bool,
}

impl Default for ThreadOptions {
    fn default() -> Self {
        Self {
            proc_root: "/proc".into(),
            passwd: "/etc/passwd".into(),
            scope: Scope::default(),
            hz: HZ,
            all_states: false,
            parts: Parts::default(),
            one_by_one: false,
            urgent: true,
        }
    }
}

/// What is looked up on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// The kernel stack of a thread that sleeps.
    pub kstack: bool,
    /// The file of its system call.
    pub filename: bool,
    /// The arguments of its process.
    pub cmdline: bool,
    /// The user of its process.
    pub user: bool,
    /// The processor on which it ran last.
    pub cpu: bool,
}

/// Looks at threads.
#[derive(Debug)]
pub struct ThreadSampler {
    period: Duration,
    urgent: bool,
    opened: Instant,
    proc_root: PathBuf,
    all: All,
    eye: Eye,
    members: Members,
    users: BTreeMap<u32, String>,
    missing: Vec<Missing>,
    /// What was seen in this interval, how often, and where it stands among `counts`.
    counts: Vec<(Doing, u32)>,
    places: HashMap<Doing, usize>,
    looks: u32,
    seen: u64,
    /// The thread that looks, which is always running then.
    own: Option<i32>,
    /// Numbers found, kept for the next time.
    found: Vec<i32>,
}

/// Whether the kernel tells of all threads at once.
#[derive(Debug)]
enum All {
    Untried,
    Possible(AllThreads),
    Impossible,
}

/// What a thread was doing, as [`ThreadCount`] but by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Doing {
    pid: i32,
    tid: i32,
    comm: Name,
    state: u8,
    syscall: Name,
    wchan: Name,
    kstack: Name,
    filename: Name,
    cmdline: Name,
    user: Name,
    cpu: Option<u32>,
    works_for: Option<i32>,
    torn: bool,
}

impl ThreadSampler {
    /// Opens the files of all threads that are there, and looks at them once without counting.
    ///
    /// # Errors
    /// Where /proc cannot be read, or the looks per second are out of range.
    pub fn open(options: ThreadOptions) -> io::Result<Self> {
        let ThreadOptions { proc_root, passwd, scope, hz, all_states, parts, one_by_one, urgent } =
            options;
        if !(1..=HZ_MAX).contains(&hz) {
            let why = format!("{hz} looks per second: from 1 to {HZ_MAX} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let proc = Proc::open(&proc_root)?;
        let trial = trial::Trial::of(&proc, &proc_root, parts);
        let eye = Eye {
            proc,
            names: Names::default(),
            calls: Syscalls::new(),
            parts,
            all_states,
            has_schedstat: trial.has_schedstat,
            now_ns: 0,
            turn: 0,
            buffer: vec![0; 16 << 10].into(),
            folded: Vec::new(),
            places: HashMap::new(),
        };
        let users = if parts.user { users(&passwd) } else { BTreeMap::new() };
        let mut sampler = Self {
            period: Duration::from_secs(1) / hz,
            urgent,
            opened: Instant::now(),
            proc_root,
            all: if one_by_one { All::Impossible } else { All::Untried },
            eye,
            members: Members::new(scope),
            users,
            missing: trial.missing,
            counts: Vec::new(),
            places: HashMap::new(),
            looks: 0,
            seen: 0,
            own: None,
            found: Vec::new(),
        };
        sampler.look();
        let Self { members, eye, proc_root, .. } = &sampler;
        let refused = trial::refused(members, &eye.proc, proc_root);
        sampler.missing.extend(refused);
        sampler.missing.extend(urgent.then(priority::refused).flatten());
        sampler.forget_counts();
        (sampler.looks, sampler.seen, sampler.own) = (0, 0, None);
        Ok(sampler)
    }

    /// What cannot be seen.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Whether the kernel tells of all threads at once; otherwise files of each are read.
    #[must_use]
    pub fn is_at_once(&self) -> bool {
        matches!(self.all, All::Possible(_)) && self.wants_all()
    }

    /// Looks so many times per second from now on, from 1 to [`HZ_MAX`].
    pub fn set_hz(&mut self, hz: u32) {
        self.period = Duration::from_secs(1) / hz.clamp(1, HZ_MAX);
    }

    /// Processes that are looked at now.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.members.processes.len()
    }

    /// Threads that are looked at now.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.members.processes.iter().map(|process| process.tasks.len()).sum()
    }

    /// Looks by reading files of each thread.
    fn look_one_by_one(&mut self) {
        self.members.refresh(&mut self.eye.proc, &mut self.eye.buffer);
        let mut processes = std::mem::take(&mut self.members.processes);
        processes.iter_mut().for_each(|process| self.look_at(process));
        processes.retain(|process| !process.tasks.is_empty());
        self.members.processes = processes;
    }

    fn look_at(&mut self, process: &mut Process) {
        // Once more for those that were new.
        for _ in 0..2 {
            if self.look_at_known(process) {
                return;
            }
            process.list(&mut self.eye.proc, &mut self.found);
        }
        self.look_at_known(process);
    }

    /// Looks at the threads that are known and were not looked at this time; whether these are all.
    fn look_at_known(&mut self, process: &mut Process) -> bool {
        let known = process.tasks.len();
        let mut are_all = known != 0;
        let mut ended = false;
        for place in 0..known {
            let task = &mut process.tasks[place];
            let is_due = task.turn != self.eye.turn && Some(task.tid) != self.own;
            if !is_due {
                continue;
            }
            task.turn = self.eye.turn;
            match task.look(process.pid, &mut self.eye) {
                Ok(seen) => {
                    are_all &= seen.threads as usize == known;
                    self.seen += 1;
                    self.count(process, place, seen);
                }
                Err(_) => {
                    task.ended = true;
                    ended = true;
                }
            }
        }
        if ended {
            process.drop_ended(&mut self.eye.proc);
        }
        are_all && !ended
    }

    /// What the kernel tells of all threads now, where that is wanted and possible.
    fn all_threads(&mut self) -> Option<AllThreads> {
        if !self.wants_all() {
            return None;
        }
        let mut all = match std::mem::replace(&mut self.all, All::Impossible) {
            All::Possible(all) => all,
            All::Untried => AllThreads::open(&self.proc_root, self.eye.parts.kstack).ok()?,
            All::Impossible => return None,
        };
        all.look().ok()?;
        Some(all)
    }

    /// Whether it costs less to look at all threads than at those wanted.
    fn wants_all(&self) -> bool {
        let wanted = self.threads();
        self.members.is_of_all() || wanted >= ALL_FROM && wanted * ALL_COSTS >= self.members.tasks
    }

    /// Looks at threads as they were told of together.
    fn look_at_all(&mut self, all: &AllThreads) {
        self.members.refresh_by(all.numbers(), &mut self.eye.proc, &mut self.eye.buffer);
        let mut processes = std::mem::take(&mut self.members.processes);
        for process in &mut processes {
            self.found.clear();
            self.found.extend(all.of(process.pid).map(|record| record.tid()));
            process.take_found(&mut self.eye.proc, &self.found);
            for (place, record) in all.of(process.pid).enumerate() {
                let task = process.tasks.get_mut(place);
                let Some(task) = task.filter(|task| Some(task.tid) != self.own) else { continue };
                // One that has ended meanwhile is not among them next time.
                if let Ok(seen) = task.look_by(process.pid, record, &mut self.eye) {
                    self.seen += 1;
                    self.count(process, place, seen);
                }
            }
        }
        self.members.processes = processes;
    }

    fn count(&mut self, process: &mut Process, place: usize, seen: Seen) {
        if seen.renamed && !seen.in_kernel_only {
            process.about = None;
        }
        if seen.state == 0 {
            return;
        }
        let about = self.about(process);
        let owner = process.owner(place);
        let Some(task) = process.tasks.get_mut(place) else { return };
        let doing = Doing {
            pid: process.pid,
            tid: task.tid,
            comm: task.comm,
            state: seen.state,
            syscall: seen.sleep.syscall,
            wchan: seen.sleep.wchan,
            kstack: seen.sleep.kstack,
            filename: seen.sleep.filename,
            cmdline: about.cmdline,
            user: about.user,
            cpu: seen.cpu,
            works_for: owner,
            torn: seen.sleep.torn,
        };
        // Most do the same as before.
        if self.counts.get(task.counted_at).is_none_or(|(counted, _)| *counted != doing) {
            task.counted_at = *self.places.entry(doing).or_insert_with(|| {
                self.counts.push((doing, 0));
                self.counts.len() - 1
            });
        }
        self.counts[task.counted_at].1 += 1;
    }

    fn forget_counts(&mut self) {
        self.counts.clear();
        self.places.clear();
    }

    fn about(&mut self, process: &mut Process) -> About {
        let Parts { cmdline, user, .. } = self.eye.parts;
        if !cmdline && !user {
            return About::NOTHING;
        }
        if let Some(about) = process.about {
            return about;
        }
        let Eye { proc, names, buffer, .. } = &mut self.eye;
        let mut about = About::NOTHING;
        if cmdline {
            about.cmdline = names.name(members::arguments(process.pid, proc, buffer));
        }
        if user && let Some(uid) = members::user(process.pid, proc, buffer) {
            let known = self.users.get(&uid).cloned();
            about.user = names.name(known.unwrap_or_else(|| uid.to_string()).as_bytes());
        }
        *process.about.insert(about)
    }

    fn text(&self, doing: &Doing, count: u32) -> ThreadCount {
        let text =
            |name: Name| if name == NONE { String::new() } else { self.eye.names.text(name) };
        ThreadCount {
            pid: doing.pid,
            tid: doing.tid,
            comm: text(doing.comm),
            state: char::from(doing.state),
            syscall: text(doing.syscall),
            wchan: text(doing.wchan),
            kstack: text(doing.kstack),
            filename: text(doing.filename),
            cmdline: text(doing.cmdline),
            user: text(doing.user),
            cpu: doing.cpu,
            works_for: doing.works_for,
            torn: doing.torn,
            count,
        }
    }

    fn forget_names(&mut self) {
        self.eye.names = Names::default();
        self.eye.places.clear();
        for process in &mut self.members.processes {
            process.about = None;
            process.tasks.iter_mut().for_each(task::Task::forget_names);
        }
    }
}

impl Sampler for ThreadSampler {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn period(&self) -> Option<Duration> {
        Some(self.period)
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }

    fn look(&mut self) {
        self.eye.turn += 1;
        self.eye.now_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.own.is_none() {
            self.own = Some(own_thread(&self.eye.proc, &mut self.eye.buffer).unwrap_or(0));
        }
        if let Some(all) = self.all_threads() {
            self.look_at_all(&all);
            self.all = All::Possible(all);
        } else {
            self.look_one_by_one();
        }
        self.looks += 1;
    }

    fn take(&mut self, sample: &mut MachineSample) {
        let mut active: Vec<ThreadCount> =
            self.counts.iter().map(|(doing, count)| self.text(doing, *count)).collect();
        self.forget_counts();
        active.sort_unstable();
        sample.threads = Some(ThreadsSample {
            looks: std::mem::take(&mut self.looks),
            seen: std::mem::take(&mut self.seen),
            at_once: self.is_at_once(),
            active,
        });
        if self.eye.names.is_full() {
            self.forget_names();
        }
    }
}

/// The calling thread's number in the pid namespace that /proc shows.
fn own_thread(proc: &Proc, buffer: &mut [u8]) -> Option<i32> {
    let target = proc.link(format_args!("thread-self"), buffer)?;
    parse::number(target.rsplit(|&b| b == b'/').next()?)
}

/// Names of users by number; where the file cannot be read, numbers are shown.
fn users(passwd: &Path) -> BTreeMap<u32, String> {
    let text = std::fs::read(passwd).unwrap_or_default();
    let user = |line: &str| {
        // name:password:number:...
        let mut fields = line.split(':');
        let name = fields.next()?.to_string();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    // The first of several names for a number is its name.
    String::from_utf8_lossy(&text).lines().rev().filter_map(user).collect()
}
