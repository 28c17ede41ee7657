//! What threads were doing, grouped by what they have in common.

use fathom_model::watch::{ThreadCount, ThreadState, ThreadTime, ThreadsSample};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

fathom_model::named! {
    /// What threads can be grouped by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Column {
        /// Process.
        Pid = "pid",
        /// Thread.
        Tid = "tid",
        /// Its name with `*` for each run of digits, so that workers of one kind are one group.
        Comm = "comm",
        /// Its name as it is.
        Comm2 = "comm2",
        /// Its state.
        State = "state",
        /// System call in which it sleeps.
        Syscall = "syscall",
        /// Kernel function in which it sleeps.
        Wchan = "wchan",
        /// Kernel stack of a thread that sleeps.
        Kstack = "kstack",
        /// File of its system call.
        Filename = "filename",
        /// Arguments of its process.
        Cmdline = "cmdline",
        /// User of its process.
        User = "user",
        /// CPU on which it ran last.
        Cpu = "cpu",
        /// For io_uring's kernel threads, the thread whose ring they serve.
        Owner = "owner",
    }
}

pub const DEFAULT: [Column; 4] = [Column::Comm, Column::State, Column::Syscall, Column::Wchan];

/// Maximum number of distinct threads counted per group.
const TIDS_MAX: usize = 10_000;

/// Share of the active threads below which a group is small.
pub const SMALL: f64 = 0.01;

/// Shown for a field of a thread that ran while it was being sampled.
pub const TORN: &str = "(torn)";

impl Column {
    /// Parses names separated by commas; pSnapper's `task` is `tid`, its `uid` is `user`.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let column = |name: &str| {
            let wanted = match name {
                "task" => "tid",
                "uid" => "user",
                "processor" => "cpu",
                name => name,
            };
            Self::ALL.into_iter().find(|column| column.name() == wanted).ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|column| column.name()).collect();
                format!("unknown column `{name}`; valid columns are {}", names.join(", "))
            })
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(column).collect()
    }

    pub fn of(self, thread: &ThreadCount) -> Cow<'_, str> {
        let later = |text| if thread.torn { Cow::Borrowed(TORN) } else { Cow::Borrowed(text) };
        let number = |number: Option<String>| Cow::Owned(number.unwrap_or_default());
        match self {
            Self::Pid => Cow::Owned(thread.pid.to_string()),
            Self::Tid => Cow::Owned(thread.tid.to_string()),
            Self::Comm => fold_digits(&thread.comm),
            Self::Comm2 => Cow::Borrowed(&thread.comm),
            Self::State => Cow::Owned(thread.state.to_string()),
            Self::Syscall => later(&thread.syscall),
            Self::Wchan => later(&thread.wchan),
            Self::Kstack => later(&thread.kstack),
            Self::Filename => later(&thread.filename),
            Self::Cmdline => Cow::Borrowed(&thread.cmdline),
            Self::User => Cow::Borrowed(&thread.user),
            Self::Cpu => number(thread.cpu.map(|cpu| cpu.to_string())),
            Self::Owner => number(thread.works_for.map(|tid| tid.to_string())),
        }
    }
}

/// The state of an active thread.
fn state(thread: &ThreadCount) -> ThreadState {
    match (thread.state, thread.syscall.as_str()) {
        ('R', _) => ThreadState::OnCpu,
        ('Q', _) => ThreadState::Runnable,
        ('D', _) => ThreadState::uninterruptible(&thread.wchan),
        (_, "io_uring_enter") => ThreadState::IoUring,
        (_, "io_getevents" | "io_pgetevents") => ThreadState::Aio,
        _ => ThreadState::Other,
    }
}

/// Whether this names one of fathom's control threads (not a worker).
pub(crate) fn is_helper(comm: &str) -> bool {
    let of_fathom = comm.strip_prefix("fathom-");
    // Earlier versions called the supervisor "conductor".
    matches!(comm, "fathom" | "supervisor" | "conductor")
        || of_fathom.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `text` with `*` for each run of digits.
pub fn fold_digits(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '*' } else { c };
        if c != '*' || !folded.ends_with('*') {
            folded.push(c);
        }
    }
    Cow::Owned(folded)
}

/// Samples added up, in groups.
#[derive(Debug, Clone)]
pub struct ThreadGroups {
    pub samples: u64,
    /// Threads sampled, asleep or not, over all samples.
    pub seen: u64,
    /// Samples of threads that ran while they were being sampled.
    pub torn: u64,
    /// Time covered, and of that of active threads: in nanoseconds, or in samples where a record holds no times.
    elapsed: u64,
    active: u64,
    times: BTreeMap<ThreadState, u64>,
    columns: Vec<Column>,
    groups: BTreeMap<Vec<String>, Members>,
}

#[derive(Debug, Clone, Default)]
struct Members {
    count: u64,
    time: u64,
    tids: BTreeSet<i32>,
    /// Name of their process, or of one of them.
    process: String,
}

impl Members {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.time += other.time;
        self.tids.extend(other.tids.iter().take(TIDS_MAX.saturating_sub(self.tids.len())));
        self.process.clone_from(&other.process);
    }
}

/// Threads that have all columns in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadGroup {
    /// What they have in common, in the order of the columns.
    pub values: Vec<String>,
    /// Number of times that one of them was sampled so.
    pub count: u64,
    /// Mean number of them.
    pub average: f64,
    /// Their share of all active threads, from 0 to 1.
    pub share: f64,
    /// Number of distinct threads.
    pub threads: usize,
}

impl Default for ThreadGroups {
    fn default() -> Self {
        Self::new(&DEFAULT)
    }
}

impl ThreadGroups {
    pub fn new(columns: &[Column]) -> Self {
        Self {
            samples: 0,
            seen: 0,
            torn: 0,
            elapsed: 0,
            active: 0,
            times: BTreeMap::new(),
            columns: columns.to_vec(),
            groups: BTreeMap::new(),
        }
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn add(&mut self, sample: &ThreadsSample) {
        self.samples += u64::from(sample.samples);
        self.seen += sample.seen;
        self.torn += sample.torn;
        let has_times = sample.elapsed_ns > 0;
        self.elapsed += if has_times { sample.elapsed_ns } else { u64::from(sample.samples) };
        for time in &sample.times {
            *self.times.entry(time.state).or_default() += time.ns;
        }
        for thread in &sample.active {
            let count = u64::from(thread.count);
            let time = if has_times { thread.ns } else { count };
            self.active += time;
            self.torn += if thread.torn { count } else { 0 };
            let key = self.columns.iter().map(|column| column.of(thread).into_owned()).collect();
            let members = self.groups.entry(key).or_default();
            members.count += count;
            members.time += time;
            if members.process.is_empty() {
                members.process = thread.process_name().to_string();
            }
            if members.tids.len() < TIDS_MAX {
                members.tids.insert(thread.tid);
            }
        }
    }

    /// Adds what the threads that did the I/O of `pid`, a process of fathom, did in an interval: those that were
    /// active, by state.
    pub fn add_workers(&mut self, sample: &ThreadsSample, pid: i32) {
        let is_worker = |thread: &&ThreadCount| thread.pid == pid && !is_helper(&thread.comm);
        let active: Vec<ThreadCount> = sample.active.iter().filter(is_worker).cloned().collect();
        let times = active.iter().map(|thread| ThreadTime { state: state(thread), ns: thread.ns });
        let times = times.collect();
        let (samples, elapsed_ns) = (sample.samples, sample.elapsed_ns);
        self.add(&ThreadsSample { samples, elapsed_ns, times, active, ..ThreadsSample::default() });
    }

    pub fn largest_first(&self) -> Vec<ThreadGroup> {
        self.sorted(&self.groups)
    }

    /// The same to be read: small groups of threads whose names are not their process's are one for each process, as in
    /// `rustc/*`.
    pub fn shown(&self) -> Vec<ThreadGroup> {
        let Some(comm) = self.columns.iter().position(|column| *column == Column::Comm) else {
            return self.largest_first();
        };
        let mut groups: BTreeMap<Vec<String>, Members> = BTreeMap::new();
        for (values, members) in &self.groups {
            let (mut values, process) = (values.clone(), fold_digits(&members.process));
            if self.share(members) < SMALL && process != values[comm] {
                values[comm] = format!("{process}/*");
            }
            groups.entry(values).or_default().merge(members);
        }
        self.sorted(&groups)
    }

    fn sorted(&self, groups: &BTreeMap<Vec<String>, Members>) -> Vec<ThreadGroup> {
        let group = |(values, members): (&Vec<String>, &Members)| ThreadGroup {
            values: values.clone(),
            count: members.count,
            average: self.mean(members.time),
            share: self.share(members),
            threads: members.tids.len(),
        };
        let mut groups: Vec<ThreadGroup> = groups.iter().map(group).collect();
        groups.sort_by(|a, b| b.average.total_cmp(&a.average));
        groups
    }

    fn share(&self, members: &Members) -> f64 {
        members.time as f64 / self.active.max(1) as f64
    }

    /// Mean number of threads.
    pub fn threads(&self) -> f64 {
        match self.times.values().sum() {
            0 => self.seen as f64 / self.samples.max(1) as f64,
            time => self.mean(time),
        }
    }

    /// Mean number of active threads.
    pub fn active(&self) -> f64 {
        self.mean(self.active)
    }

    /// Mean number of threads by state, the largest first; the sum is [`Self::threads`]. Empty where a record holds
    /// no times.
    pub fn states(&self) -> Vec<(ThreadState, f64)> {
        let mut states: Vec<(ThreadState, f64)> =
            self.times.iter().map(|(state, time)| (*state, self.mean(*time))).collect();
        states.sort_by(|a, b| b.1.total_cmp(&a.1));
        states
    }

    fn mean(&self, time: u64) -> f64 {
        time as f64 / self.elapsed.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: i32, comm: &str, state: char, count: u32) -> ThreadCount {
        let comm = comm.into();
        let wchan = "folio_wait".into();
        ThreadCount { pid: 10, tid, comm, state, wchan, count, ..ThreadCount::default() }
    }

    #[test]
    fn digits_are_folded() {
        assert_eq!(fold_digits("kworker/12:1H-kblockd"), "kworker/*:*H-kblockd");
        assert_eq!(fold_digits("iou-wrk-4711"), "iou-wrk-*");
        assert_eq!(fold_digits("fio"), "fio");
        assert_eq!(fold_digits(""), "");
    }

    #[test]
    fn helpers_do_no_io() {
        assert!(["fathom", "fathom-names", "supervisor", "conductor"].into_iter().all(is_helper));
        assert!(!["worker-0", "iou-wrk-7", "fathom-0"].into_iter().any(is_helper));
    }

    #[test]
    fn lists_of_columns() {
        let columns = Column::parse_list("pid,task, comm2").unwrap();
        assert_eq!(columns, [Column::Pid, Column::Tid, Column::Comm2]);
        let error = Column::parse_list("comm,foo").unwrap_err();
        assert!(error.contains("`foo`") && error.contains("wchan"), "{error}");
        for column in Column::ALL {
            assert_eq!(Column::parse_list(column.name()).unwrap(), [column]);
        }
    }

    #[test]
    fn names_that_cannot_be_folded_are_grouped_by_process() {
        let mut groups = ThreadGroups::new(&[Column::Comm, Column::State]);
        let one =
            |tid, comm: &str| ThreadCount { process: "rustc".into(), ..thread(tid, comm, 'R', 1) };
        let letters = 'a'..='j';
        let mut active: Vec<_> =
            letters.enumerate().map(|(i, c)| one(i as i32, &format!("lto {c}"))).collect();
        active.extend([one(20, "coordinator"), thread(21, "db", 'R', 2000)]);
        active[10].count = 300;
        groups.add(&ThreadsSample { samples: 100, active, ..ThreadsSample::default() });
        assert_eq!(groups.largest_first().len(), 12);
        let shown = groups.shown();
        let names: Vec<_> =
            shown.iter().map(|g| (g.values[0].as_str(), g.count, g.threads)).collect();
        assert_eq!(names, [("db", 2000, 1), ("coordinator", 300, 1), ("rustc/*", 10, 10)]);
    }

    #[test]
    fn averages_and_shares() {
        let mut groups = ThreadGroups::new(&[Column::Comm, Column::State]);
        let one = [thread(1, "w1", 'D', 6), thread(2, "w2", 'D', 4), thread(1, "w1", 'R', 5)];
        groups.add(&ThreadsSample {
            samples: 10,
            seen: 100,
            active: one.into(),
            ..ThreadsSample::default()
        });
        let two = [thread(2, "w2", 'R', 5)];
        groups.add(&ThreadsSample {
            samples: 10,
            seen: 90,
            active: two.into(),
            ..ThreadsSample::default()
        });
        assert_eq!((groups.samples, groups.seen, groups.torn), (20, 190, 0));
        assert_eq!((groups.threads(), groups.active()), (9.5, 1.0));
        let largest = groups.largest_first();
        assert_eq!(largest.len(), 2);
        let common = |state: &str| vec!["w*".to_string(), state.to_string()];
        let (count, average, share, threads) = (10, 0.5, 0.5, 2);
        let d = ThreadGroup { values: common("D"), count, average, share, threads };
        assert_eq!(largest, [d.clone(), ThreadGroup { values: common("R"), ..d }]);
    }

    #[test]
    fn times_count_where_there_are_any() {
        let time = |state, ns| ThreadTime { state, ns };
        let mut groups = ThreadGroups::new(&[Column::State]);
        let runs = ThreadCount { ns: 400, ..thread(1, "w", 'R', 9) };
        let reads = ThreadCount { ns: 1600, ..thread(1, "w", 'D', 1) };
        groups.add(&ThreadsSample {
            samples: 10,
            seen: 30,
            elapsed_ns: 2000,
            times: vec![time(ThreadState::OnCpu, 400), time(ThreadState::Disk, 5600)],
            active: vec![runs, reads],
            ..ThreadsSample::default()
        });
        let averages: Vec<(String, f64)> =
            groups.largest_first().into_iter().map(|g| (g.values[0].clone(), g.average)).collect();
        assert_eq!(averages, [("D".to_string(), 0.8), ("R".to_string(), 0.2)]);
        assert_eq!(groups.states(), [(ThreadState::Disk, 2.8), (ThreadState::OnCpu, 0.2)]);
        assert_eq!((groups.threads(), groups.active()), (3.0, 1.0));
    }

    #[test]
    fn what_was_torn_is_not_shown_as_truth() {
        let torn = ThreadCount { torn: true, ..thread(1, "w", 'D', 3) };
        let mut groups = ThreadGroups::new(&[Column::State, Column::Wchan]);
        groups.add(&ThreadsSample {
            samples: 5,
            seen: 5,
            active: vec![torn, thread(1, "w", 'D', 2)],
            ..ThreadsSample::default()
        });
        assert_eq!(groups.torn, 3);
        let values: Vec<Vec<String>> =
            groups.largest_first().into_iter().map(|group| group.values).collect();
        assert_eq!(values, [["D", TORN], ["D", "folio_wait"]]);
    }

    #[test]
    fn nothing_is_no_division() {
        let groups = ThreadGroups::new(&DEFAULT);
        assert_eq!((groups.threads(), groups.active()), (0.0, 0.0));
        assert!(groups.largest_first().is_empty());
    }
}
