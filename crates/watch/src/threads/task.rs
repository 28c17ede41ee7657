//! A sampled thread: its open files, and what it last slept in.

use super::activity::SleepPlace;
use super::activity::{NONE, TextId, TextTable};
use super::all::TaskRecord;
use super::files::{Proc, ReadError, TaskFile};
use super::off_cpu::OffCpu;
use super::parse::{self, Call, Sched, TaskStat, fold_stack};
use super::running::{SchedBaseline, StateTimes};
use super::syscalls::{self, Syscalls};
use fathom_model::watch::ThreadState;
use std::collections::HashMap;

/// Number of samples after which the files of a thread that sleeps, but not for I/O, are closed.
const IDLE_SAMPLES: u32 = 100;
/// Threads sleep in this function for data of sockets as well as of terminals.
const WAITS_FOR_FILE: &[u8] = b"wait_woken";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleParts {
    pub kstack: bool,
    pub filename: bool,
    pub cmdline: bool,
    pub user: bool,
    pub cpu: bool,
}

#[derive(Debug, Default)]
pub(super) struct SampledThread {
    pub tid: i32,
    pub comm: TextId,
    /// For an io_uring thread: the task in its name.
    pub works_for: Option<i32>,
    pub sample_number: u64,
    pub ended: bool,
    files: TaskFiles,
    before: SchedBaseline,
    sleep: SleepPlace,
    /// Whether `sleep` is valid until its next timeslice.
    sleeps_on: bool,
    /// The last sleep that was read without it running meanwhile.
    pub slept: Option<SleepPlace>,
    pub off_cpu: OffCpu,
    /// Time off-CPU of known cause before it was known where it sleeps, in nanoseconds.
    unplaced: Option<(ThreadState, u64)>,
    /// Indices of its last activities among the counts: on-CPU, runnable, asleep.
    pub counted_at: [usize; 3],
    idle_samples: u32,
}

#[derive(Debug, Default)]
struct TaskFiles {
    stat: TaskFile,
    schedstat: TaskFile,
    syscall: TaskFile,
    wchan: TaskFile,
    stack: TaskFile,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadReading {
    pub state: u8,
    pub spent: StateTimes,
    pub torn: bool,
    pub cause: Option<ThreadState>,
    pub cpu: Option<u32>,
    pub threads: u32,
    pub renamed: bool,
    pub in_kernel_only: bool,
}

impl ThreadReading {
    fn at_rest(&self) -> bool {
        match self.state {
            b'S' => self.in_kernel_only,
            state => matches!(state, b'I' | b'P' | b'X' | b'Z'),
        }
    }
}

#[derive(Debug)]
pub(super) struct ReadContext {
    pub proc: Proc,
    pub names: TextTable,
    pub calls: Syscalls,
    pub parts: SampleParts,
    pub all_states: bool,
    pub has_schedstat: bool,
    /// This process may read where kernel threads sleep.
    pub is_root: bool,
    pub now_ns: u64,
    pub period_ns: u64,
    pub sample_number: u64,
    pub buffer: Box<[u8]>,
    pub folded: Vec<u8>,
    /// Wait channel and kernel stack by return addresses.
    pub resolved: HashMap<Box<[u8]>, (TextId, TextId)>,
}

impl SampledThread {
    pub fn new(tid: i32) -> Self {
        Self { tid, ..Self::default() }
    }

    /// Whether this process may not read its system call.
    pub fn is_refused(&self) -> bool {
        matches!(self.files.syscall, TaskFile::Denied)
    }

    /// Where it slept for `ns` nanoseconds for this cause, and for how long in all, as soon as a sample has shown
    /// where.
    pub fn place(&mut self, cause: ThreadState, ns: u64) -> Option<(SleepPlace, u64)> {
        let before = self.unplaced.filter(|(before, _)| *before == cause).map_or(0, |(_, ns)| ns);
        self.unplaced = Some((cause, before + ns));
        let slept = self.slept.filter(|slept| slept.cause() == cause)?;
        self.unplaced = None;
        Some((slept, before + ns))
    }

    pub fn close(&mut self, proc: &mut Proc) {
        proc.close(&mut self.files.stat);
        proc.close(&mut self.files.schedstat);
        self.close_detail(proc);
    }

    fn close_detail(&mut self, proc: &mut Proc) {
        for file in [&mut self.files.syscall, &mut self.files.wchan, &mut self.files.stack] {
            proc.close(file);
        }
    }

    pub fn forget_names(&mut self) {
        self.comm = NONE;
        self.sleep = SleepPlace::default();
        self.sleeps_on = false;
        self.slept = None;
    }

    /// Takes a sample through /proc files.
    pub fn sample(
        &mut self,
        pid: i32,
        context: &mut ReadContext,
    ) -> Result<ThreadReading, ReadError> {
        // The number of timeslices is read first, so later reads can be checked against it.
        let sched = self.sched(pid, context)?;
        let reading = self.stat(pid, context)?;
        self.classify(pid, reading, sched, None, context)
    }

    /// Takes a sample from a BPF record.
    pub fn sample_record(
        &mut self,
        pid: i32,
        record: TaskRecord<'_>,
        context: &mut ReadContext,
    ) -> Result<ThreadReading, ReadError> {
        let mut reading = ThreadReading {
            state: record.state(),
            spent: StateTimes::default(),
            torn: false,
            cause: None,
            cpu: context.parts.cpu.then(|| record.cpu()),
            threads: 0,
            renamed: false,
            in_kernel_only: parse::in_kernel_only(record.flags()),
        };
        let sched = context.has_schedstat.then(|| record.sched());
        if reading.at_rest() && !context.all_states {
            return self.classify(pid, reading, sched, None, context);
        }
        // Full names of kernel threads are only available in /proc.
        if record.flags() & parse::PF_KTHREAD == 0 {
            reading.renamed = self.rename(record.comm(), &mut context.names);
        } else if self.comm == NONE || record.flags() & parse::PF_WQ_WORKER != 0 {
            reading.renamed = self.stat(pid, context)?.renamed;
        }
        self.classify(pid, reading, sched, Some(record), context)
    }

    /// Determines state, activity and times from the data read.
    fn classify(
        &mut self,
        pid: i32,
        mut reading: ThreadReading,
        sched: Option<Sched>,
        record: Option<TaskRecord<'_>>,
        context: &mut ReadContext,
    ) -> Result<ThreadReading, ReadError> {
        let ready = reading.state == b'R';
        let ReadContext { now_ns, period_ns, .. } = *context;
        reading.spent = self.before.advance(sched, now_ns, ready, period_ns);
        if reading.at_rest() && !context.all_states {
            let sleep = SleepPlace::at_rest(reading.state);
            (self.slept, reading.cause) = (Some(sleep), sleep.cause);
            return Ok(reading);
        }
        if !ready {
            let sleep = match reading.state {
                b'D' | b'S' => self.sleep(pid, reading, sched, record, context)?,
                state => SleepPlace::at_rest(state),
            };
            (reading.torn, reading.cause) = (sleep.torn, sleep.found());
            if !sleep.torn {
                self.slept = Some(sleep);
            }
        }
        let is_active = ready || self.slept.is_some_and(SleepPlace::is_active);
        self.rest(!is_active, &mut context.proc);
        Ok(reading)
    }

    fn stat(&mut self, pid: i32, context: &mut ReadContext) -> Result<ThreadReading, ReadError> {
        let path = format_args!("{pid}/task/{}/stat", self.tid);
        let text = context.proc.read(&mut self.files.stat, path, &mut context.buffer)?;
        let stat = TaskStat::parse(text).ok_or(ReadError::Gone)?;
        let renamed = self.rename(stat.comm, &mut context.names);
        Ok(ThreadReading {
            state: stat.state,
            spent: StateTimes::default(),
            torn: false,
            cause: None,
            cpu: if context.parts.cpu { stat.cpu() } else { None },
            threads: stat.threads,
            renamed,
            in_kernel_only: stat.in_kernel_only(),
        })
    }

    fn rename(&mut self, comm: &[u8], names: &mut TextTable) -> bool {
        let is_other = names.bytes(self.comm) != comm;
        if is_other {
            self.comm = names.intern(comm);
            self.works_for = super::helpers::owner_in_name(comm);
        }
        is_other
    }

    fn rest(&mut self, idle: bool, proc: &mut Proc) {
        self.idle_samples = if idle { self.idle_samples.saturating_add(1) } else { 0 };
        if self.idle_samples == IDLE_SAMPLES {
            self.close_detail(proc);
        }
    }

    fn sched(&mut self, pid: i32, context: &mut ReadContext) -> Result<Option<Sched>, ReadError> {
        if !context.has_schedstat {
            return Ok(None);
        }
        let path = format_args!("{pid}/task/{}/schedstat", self.tid);
        let text = part(context.proc.read(&mut self.files.schedstat, path, &mut context.buffer))?;
        Ok(text.and_then(Sched::parse))
    }

    /// Where it sleeps. Cached data is valid if no timeslice has begun since it was read.
    fn sleep(
        &mut self,
        pid: i32,
        reading: ThreadReading,
        sched: Option<Sched>,
        record: Option<TaskRecord<'_>>,
        context: &mut ReadContext,
    ) -> Result<SleepPlace, ReadError> {
        if let Some(now) = sched
            && self.sleeps_on
            && (self.sleep.timeslices, self.sleep.state) == (now.timeslices, reading.state)
        {
            return Ok(self.sleep);
        }
        let mut sleep = self.inspect(pid, reading, record, context)?;
        sleep.torn |= match record {
            Some(record) => record.is_torn(),
            None if sleep.is_active() || context.all_states => {
                self.ran_since(pid, reading.state, sched, context)?
            }
            None => false,
        };
        self.sleeps_on = !sleep.torn;
        // It slept for the same cause again meanwhile.
        sleep.torn &= !sleep.all_of_disk;
        sleep.timeslices = sched.map_or(0, |sched| sched.timeslices);
        self.sleep = sleep;
        Ok(sleep)
    }

    /// System call, wait channel, and requested fields.
    fn inspect(
        &mut self,
        pid: i32,
        reading: ThreadReading,
        record: Option<TaskRecord<'_>>,
        context: &mut ReadContext,
    ) -> Result<SleepPlace, ReadError> {
        let mut sleep = SleepPlace { state: reading.state, ..SleepPlace::default() };
        let mut in_fault = false;
        if reading.in_kernel_only {
            sleep.cause = Some(ThreadState::KernelThread);
        } else {
            let call = match record {
                Some(record) => Some(record.call()),
                None => self.read_call(pid, context)?,
            };
            match call {
                Some(Call::Running) => sleep.torn = true,
                Some(Call::In { number, args, compat }) => {
                    sleep.syscall = self.sleep.syscall;
                    context.call(pid, number, &args, compat, &mut sleep);
                }
                Some(Call::None) => in_fault = true,
                None => {}
            }
        }
        if sleep.cause.is_some() && !sleep.is_active() && !context.all_states {
            return Ok(sleep);
        }
        match record {
            Some(record) => self.place_from_record(pid, record, &mut sleep, context)?,
            None => self.read_place(pid, &mut sleep, context)?,
        }
        let wchan = context.names.bytes(sleep.wchan);
        if reading.state == b'D' {
            // A thread that has been woken up, but has not run yet, is in state D without a place.
            let known = if reading.in_kernel_only { context.is_root } else { !self.is_refused() };
            sleep.torn |= wchan.is_empty() && known;
            // Calls such as futex(2) have a cause of their own.
            let is_file_call = sleep.syscall != NONE && sleep.cause.is_none();
            let mut cause = ThreadState::uninterruptible(&String::from_utf8_lossy(wchan));
            sleep.all_of_disk = is_file_call && !wchan.is_empty() && cause == ThreadState::Disk;
            if cause == ThreadState::Disk && (sleep.flushes || is_journal(wchan)) {
                cause = ThreadState::Flush;
            } else if cause == ThreadState::Disk && in_fault {
                cause = ThreadState::PageFault;
            }
            sleep.cause = Some(cause);
        } else if sleep.cause.is_none() {
            sleep.cause = Some(match sleep.descriptor.filter(|_| wchan == WAITS_FOR_FILE) {
                Some(fd) => context.file_cause(pid, fd),
                None => syscalls::place(wchan),
            });
        }
        Ok(sleep)
    }

    fn read_call(
        &mut self,
        pid: i32,
        context: &mut ReadContext,
    ) -> Result<Option<Call>, ReadError> {
        let path = format_args!("{pid}/task/{}/syscall", self.tid);
        let text = part(context.proc.read(&mut self.files.syscall, path, &mut context.buffer))?;
        Ok(text.and_then(Call::parse))
    }

    fn read_place(
        &mut self,
        pid: i32,
        sleep: &mut SleepPlace,
        context: &mut ReadContext,
    ) -> Result<(), ReadError> {
        if context.parts.kstack && self.stack(pid, sleep, context)? {
            return Ok(());
        }
        let path = format_args!("{pid}/task/{}/wchan", self.tid);
        let text = part(context.proc.read(&mut self.files.wchan, path, &mut context.buffer))?;
        if let Some(text) = text.filter(|text| *text != b"0") {
            sleep.wchan = context.names.intern_like(text.trim_ascii_end(), self.sleep.wchan);
        }
        Ok(())
    }

    /// Where in the kernel it sleeps, by return addresses. New addresses are resolved through
    /// /proc, provided the thread has not run in between.
    fn place_from_record(
        &mut self,
        pid: i32,
        record: TaskRecord<'_>,
        sleep: &mut SleepPlace,
        context: &mut ReadContext,
    ) -> Result<(), ReadError> {
        let addresses = record.stack();
        if addresses.is_empty() {
            return Ok(());
        }
        if let Some((wchan, kstack)) = context.resolved.get(addresses) {
            (sleep.wchan, sleep.kstack) = (*wchan, *kstack);
            return Ok(());
        }
        self.read_place(pid, sleep, context)?;
        let now = self.sched(pid, context)?;
        self.close(&mut context.proc);
        if now.is_some_and(|now| now.timeslices == record.sched().timeslices) {
            context.resolved.insert(addresses.into(), (sleep.wchan, sleep.kstack));
        } else {
            sleep.torn = true;
        }
        Ok(())
    }

    /// Reads the kernel stack; returns whether this gave the wait channel, too, which is the
    /// innermost function: the kernel omits scheduler functions from both.
    fn stack(
        &mut self,
        pid: i32,
        sleep: &mut SleepPlace,
        context: &mut ReadContext,
    ) -> Result<bool, ReadError> {
        let path = format_args!("{pid}/task/{}/stack", self.tid);
        let text = part(context.proc.read(&mut self.files.stack, path, &mut context.buffer))?;
        let Some(text) = text else { return Ok(false) };
        let innermost = fold_stack(text, &mut context.folded);
        sleep.wchan = context.names.intern_like(innermost, self.sleep.wchan);
        sleep.kstack = context.names.intern_like(&context.folded, self.sleep.kstack);
        Ok(!innermost.is_empty())
    }

    /// Whether a timeslice has begun since `sched` was read.
    fn ran_since(
        &mut self,
        pid: i32,
        state: u8,
        sched: Option<Sched>,
        context: &mut ReadContext,
    ) -> Result<bool, ReadError> {
        if let Some(before) = sched
            && self.sched(pid, context)?.is_none_or(|now| now.timeslices != before.timeslices)
        {
            return Ok(true);
        }
        // A thread enters its state before it stops running, and may leave it without having slept.
        let path = format_args!("{pid}/task/{}/stat", self.tid);
        let text = context.proc.read(&mut self.files.stat, path, &mut context.buffer)?;
        Ok(TaskStat::parse(text).is_none_or(|stat| stat.state != state))
    }
}

impl ReadContext {
    /// Stores the system call in `sleep`, which likely has the same one already.
    fn call(
        &mut self,
        pid: i32,
        number: u32,
        args: &[u64; 6],
        compat: bool,
        sleep: &mut SleepPlace,
    ) {
        let known = self.calls.get(number).filter(|_| !compat).copied();
        let Some(call) = known else {
            let text = if compat { format!("32-bit {number}") } else { number.to_string() };
            sleep.syscall = self.names.intern(text.as_bytes());
            return;
        };
        (sleep.waits_for_io, sleep.cause) = (call.waits_for_io, call.waits_for(args));
        sleep.flushes = call.flushes;
        sleep.syscall = self.names.intern_like(call.name.as_bytes(), sleep.syscall);
        sleep.descriptor = call.descriptor(args);
        if self.parts.filename
            && let Some(fd) = sleep.descriptor
            && let Some(path) = self.proc.link(format_args!("{pid}/fd/{fd}"), &mut self.buffer)
        {
            sleep.filename = self.names.intern(path);
        }
    }

    /// What a thread waits for that reads or writes this file.
    fn file_cause(&mut self, pid: i32, fd: u32) -> ThreadState {
        let path = self.proc.link(format_args!("{pid}/fd/{fd}"), &mut self.buffer);
        match path.unwrap_or_default() {
            path if path.starts_with(b"socket:") => ThreadState::Socket,
            path if path.starts_with(b"/dev/pts/") || path.starts_with(b"/dev/tty") => {
                ThreadState::Terminal
            }
            _ => ThreadState::Other,
        }
    }
}

/// Whether threads wait in this function for the journal of a file system: ext4's (jbd2), XFS's or btrfs's.
pub(crate) fn is_journal(function: &[u8]) -> bool {
    let parts: [&[u8]; 4] = [b"jbd2", b"wait_transaction", b"xlog", b"btrfs_sync_log"];
    parts.iter().any(|part| function.windows(part.len()).any(|at| at == *part))
}

/// Permission may be denied, or the thread may have exited.
fn part(read: Result<&[u8], ReadError>) -> Result<Option<&[u8]>, ReadError> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(ReadError::Denied) => Ok(None),
        Err(ReadError::Gone) => Err(ReadError::Gone),
    }
}
