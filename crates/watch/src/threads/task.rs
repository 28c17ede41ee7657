//! One thread: its open files, and what it slept in when it was looked at last.

use super::Parts;
use super::all::Record;
use super::files::{File, Proc, Unread};
use super::names::{NONE, Name, Names};
use super::parse::{self, Call, Sched, Stat, fold_stack};
use super::running::Before;
use super::syscalls::Syscalls;
use std::collections::HashMap;

/// Looks after which the files of a thread that sleeps on for no I/O are given back.
const IDLE_LOOKS: u32 = 100;

/// A thread that is looked at.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub tid: i32,
    pub comm: Name,
    /// For a kernel thread of io_uring: the task that its name tells.
    pub works_for: Option<i32>,
    /// The look at which it was looked at last.
    pub turn: u64,
    pub ended: bool,
    files: Files,
    /// It was at rest at the last look.
    at_rest: bool,
    before: Before,
    /// What it sleeps in, or slept in last.
    sleep: Sleep,
    /// That is true until its next turn on a processor.
    sleeps_on: bool,
    /// Where what it did last is counted.
    pub counted_at: usize,
    idle_looks: u32,
}

#[derive(Debug, Default)]
struct Files {
    stat: File,
    schedstat: File,
    syscall: File,
    wchan: File,
    stack: File,
}

/// What a thread sleeps in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Sleep {
    state: u8,
    turns: u64,
    waits_for_io: bool,
    pub syscall: Name,
    pub wchan: Name,
    pub kstack: Name,
    pub filename: Name,
    /// It went on meanwhile.
    pub torn: bool,
}

/// What was seen of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Its state, with `R` split; 0 where it does nothing that was asked for.
    pub state: u8,
    pub sleep: Sleep,
    /// Processor on which it ran last, where that is asked for.
    pub cpu: Option<u32>,
    /// Threads of its process.
    pub threads: u32,
    /// It has another name than before.
    pub renamed: bool,
    pub in_kernel_only: bool,
}

impl Seen {
    /// It does nothing, and its state alone says so.
    fn at_rest(&self) -> bool {
        match self.state {
            b'S' => self.in_kernel_only,
            state => matches!(state, b'I' | b'P' | b'X' | b'Z'),
        }
    }
}

/// What is needed to look.
#[derive(Debug)]
pub(super) struct Eye {
    pub proc: Proc,
    pub names: Names,
    pub calls: Syscalls,
    pub parts: Parts,
    pub all_states: bool,
    /// The kernel has `schedstat`.
    pub has_schedstat: bool,
    pub now_ns: u64,
    /// Looks so far, this one included.
    pub turn: u64,
    pub buffer: Box<[u8]>,
    pub folded: Vec<u8>,
    /// Wait channel and kernel stack by the addresses of the kernel's functions.
    pub places: HashMap<Box<[u8]>, (Name, Name)>,
}

impl Task {
    pub fn new(tid: i32) -> Self {
        Self { tid, ..Self::default() }
    }

    /// This process may not read its system call.
    pub fn is_refused(&self) -> bool {
        matches!(self.files.syscall, File::Denied)
    }

    /// Gives its descriptors back.
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

    /// Names are given anew: those known mean nothing any more.
    pub fn forget_names(&mut self) {
        self.comm = NONE;
        self.sleep = Sleep::default();
        self.sleeps_on = false;
    }

    /// Looks once.
    ///
    /// # Errors
    /// [`Unread::Gone`] where the thread has ended.
    pub fn look(&mut self, pid: i32, eye: &mut Eye) -> Result<Seen, Unread> {
        // The count of turns is read before all else, so that what is read after it can be held against it.
        let mut sched = if self.at_rest { None } else { self.sched(pid, eye)? };
        let mut seen = self.stat(pid, eye)?;
        let skip = seen.at_rest() && !eye.all_states;
        if self.at_rest && !skip {
            sched = self.sched(pid, eye)?;
            let renamed = seen.renamed;
            seen = self.stat(pid, eye)?;
            seen.renamed |= renamed;
        }
        self.at_rest = seen.at_rest() && !eye.all_states;
        if self.at_rest {
            self.before.ready = false;
            seen.state = 0;
            return Ok(seen);
        }
        self.judge(pid, seen, sched, None, eye)
    }

    /// Looks at what the kernel told of it, together with all threads.
    ///
    /// # Errors
    /// [`Unread::Gone`] where the thread has ended.
    pub fn look_by(&mut self, pid: i32, record: Record<'_>, eye: &mut Eye) -> Result<Seen, Unread> {
        let mut seen = Seen {
            state: record.state(),
            sleep: Sleep::default(),
            cpu: eye.parts.cpu.then(|| record.cpu()),
            threads: 0,
            renamed: false,
            in_kernel_only: parse::in_kernel_only(record.flags()),
        };
        self.at_rest = seen.at_rest() && !eye.all_states;
        if self.at_rest {
            self.before.ready = false;
            seen.state = 0;
            return Ok(seen);
        }
        // The whole names of the kernel's own threads are in /proc only.
        if record.flags() & parse::PF_KTHREAD == 0 {
            seen.renamed = self.rename(record.comm(), &mut eye.names);
        } else if self.comm == NONE || record.flags() & parse::PF_WQ_WORKER != 0 {
            seen.renamed = self.stat(pid, eye)?.renamed;
        }
        let sched = eye.has_schedstat.then(|| record.sched());
        self.judge(pid, seen, sched, Some(record), eye)
    }

    /// What it does, by its state and what else was seen of it.
    fn judge(
        &mut self,
        pid: i32,
        mut seen: Seen,
        sched: Option<Sched>,
        record: Option<Record<'_>>,
        eye: &mut Eye,
    ) -> Result<Seen, Unread> {
        match seen.state {
            b'R' => seen.state = sched.map_or(b'R', |now| self.before.split(now, eye.now_ns)),
            b'D' | b'S' => seen.sleep = self.sleep(pid, seen, sched, record, eye)?,
            _ => {}
        }
        if seen.state == b'S' && !seen.sleep.waits_for_io && !eye.all_states {
            seen.state = 0;
        }
        self.rest(seen.state == 0, &mut eye.proc);
        let ready = matches!(seen.state, b'R' | b'Q');
        let sched = sched.unwrap_or_default();
        self.before = Before { sched, at_ns: eye.now_ns, ready, owed: self.before.owed };
        Ok(seen)
    }

    fn stat(&mut self, pid: i32, eye: &mut Eye) -> Result<Seen, Unread> {
        let path = format_args!("{pid}/task/{}/stat", self.tid);
        let text = eye.proc.read(&mut self.files.stat, path, &mut eye.buffer)?;
        let stat = Stat::parse(text).ok_or(Unread::Gone)?;
        let renamed = self.rename(stat.comm, &mut eye.names);
        Ok(Seen {
            state: stat.state,
            sleep: Sleep::default(),
            cpu: if eye.parts.cpu { stat.cpu() } else { None },
            threads: stat.threads,
            renamed,
            in_kernel_only: stat.in_kernel_only(),
        })
    }

    /// Takes its name; whether that is another than before.
    fn rename(&mut self, comm: &[u8], names: &mut Names) -> bool {
        let is_other = names.bytes(self.comm) != comm;
        if is_other {
            self.comm = names.name(comm);
            self.works_for = super::helpers::owner_in_name(comm);
        }
        is_other
    }

    fn rest(&mut self, idle: bool, proc: &mut Proc) {
        self.idle_looks = if idle { self.idle_looks.saturating_add(1) } else { 0 };
        if self.idle_looks == IDLE_LOOKS {
            self.close_detail(proc);
        }
    }

    fn sched(&mut self, pid: i32, eye: &mut Eye) -> Result<Option<Sched>, Unread> {
        if !eye.has_schedstat {
            return Ok(None);
        }
        let path = format_args!("{pid}/task/{}/schedstat", self.tid);
        let text = part(eye.proc.read(&mut self.files.schedstat, path, &mut eye.buffer))?;
        Ok(text.and_then(Sched::parse))
    }

    /// What it sleeps in. It has not gone on if it had no turn on a processor since that was read.
    fn sleep(
        &mut self,
        pid: i32,
        seen: Seen,
        sched: Option<Sched>,
        record: Option<Record<'_>>,
        eye: &mut Eye,
    ) -> Result<Sleep, Unread> {
        if let Some(now) = sched
            && self.sleeps_on
            && (self.sleep.turns, self.sleep.state) == (now.turns, seen.state)
        {
            return Ok(self.sleep);
        }
        let mut sleep = self.inspect(pid, seen, record, eye)?;
        if sleep.waits_for_io || seen.state == b'D' || eye.all_states {
            sleep.torn |= match record {
                Some(record) => record.is_torn(),
                None => self.went_on(pid, seen.state, sched, eye)?,
            };
        }
        sleep.turns = sched.map_or(0, |sched| sched.turns);
        self.sleep = sleep;
        self.sleeps_on = !sleep.torn;
        Ok(sleep)
    }

    /// System call, wait channel, and what else is asked for.
    fn inspect(
        &mut self,
        pid: i32,
        seen: Seen,
        record: Option<Record<'_>>,
        eye: &mut Eye,
    ) -> Result<Sleep, Unread> {
        let mut sleep = Sleep { state: seen.state, ..Sleep::default() };
        if !seen.in_kernel_only {
            let call = match record {
                Some(record) => Some(record.call()),
                None => self.read_call(pid, eye)?,
            };
            match call {
                Some(Call::Running) => sleep.torn = true,
                Some(Call::In { number, args, compat }) => {
                    sleep.syscall = self.sleep.syscall;
                    eye.call(pid, number, &args, compat, &mut sleep);
                }
                Some(Call::None) | None => {}
            }
        }
        if seen.state == b'S' && !sleep.waits_for_io && !eye.all_states {
            return Ok(sleep);
        }
        match record {
            Some(record) => self.place_by(pid, record, &mut sleep, eye)?,
            None => self.read_place(pid, &mut sleep, eye)?,
        }
        Ok(sleep)
    }

    fn read_call(&mut self, pid: i32, eye: &mut Eye) -> Result<Option<Call>, Unread> {
        let path = format_args!("{pid}/task/{}/syscall", self.tid);
        let text = part(eye.proc.read(&mut self.files.syscall, path, &mut eye.buffer))?;
        Ok(text.and_then(Call::parse))
    }

    /// Reads where in the kernel it sleeps.
    fn read_place(&mut self, pid: i32, sleep: &mut Sleep, eye: &mut Eye) -> Result<(), Unread> {
        if eye.parts.kstack && self.stack(pid, sleep, eye)? {
            return Ok(());
        }
        let path = format_args!("{pid}/task/{}/wchan", self.tid);
        let text = part(eye.proc.read(&mut self.files.wchan, path, &mut eye.buffer))?;
        if let Some(text) = text.filter(|text| *text != b"0") {
            sleep.wchan = eye.names.name_like(text.trim_ascii_end(), self.sleep.wchan);
        }
        Ok(())
    }

    /// Where in the kernel it sleeps, by addresses. What is there is asked of /proc once, where the thread
    /// has not gone on meanwhile.
    fn place_by(
        &mut self,
        pid: i32,
        record: Record<'_>,
        sleep: &mut Sleep,
        eye: &mut Eye,
    ) -> Result<(), Unread> {
        let addresses = record.stack();
        if addresses.is_empty() {
            return Ok(());
        }
        if let Some((wchan, kstack)) = eye.places.get(addresses) {
            (sleep.wchan, sleep.kstack) = (*wchan, *kstack);
            return Ok(());
        }
        self.read_place(pid, sleep, eye)?;
        let now = self.sched(pid, eye)?;
        self.close(&mut eye.proc);
        if now.is_some_and(|now| now.turns == record.sched().turns) {
            eye.places.insert(addresses.into(), (sleep.wchan, sleep.kstack));
        } else {
            sleep.torn = true;
        }
        Ok(())
    }

    /// Reads the kernel stack; whether it told the wait channel, too, which is its innermost function:
    /// the kernel leaves the scheduler's own out of both.
    fn stack(&mut self, pid: i32, sleep: &mut Sleep, eye: &mut Eye) -> Result<bool, Unread> {
        let path = format_args!("{pid}/task/{}/stack", self.tid);
        let text = part(eye.proc.read(&mut self.files.stack, path, &mut eye.buffer))?;
        let Some(text) = text else { return Ok(false) };
        let innermost = fold_stack(text, &mut eye.folded);
        sleep.wchan = eye.names.name_like(innermost, self.sleep.wchan);
        sleep.kstack = eye.names.name_like(&eye.folded, self.sleep.kstack);
        Ok(!innermost.is_empty())
    }

    /// Whether it had a turn on a processor since `sched` was read.
    fn went_on(
        &mut self,
        pid: i32,
        state: u8,
        sched: Option<Sched>,
        eye: &mut Eye,
    ) -> Result<bool, Unread> {
        if let Some(before) = sched {
            return Ok(self.sched(pid, eye)?.is_none_or(|now| now.turns != before.turns));
        }
        let path = format_args!("{pid}/task/{}/stat", self.tid);
        let text = eye.proc.read(&mut self.files.stat, path, &mut eye.buffer)?;
        Ok(Stat::parse(text).is_none_or(|stat| stat.state != state))
    }
}

impl Eye {
    /// Tells the call, which is likely to be the one that `sleep` holds.
    fn call(&mut self, pid: i32, number: u32, args: &[u64; 6], compat: bool, sleep: &mut Sleep) {
        let known = self.calls.get(number).filter(|_| !compat).copied();
        let Some(call) = known else {
            let text = if compat { format!("32-bit {number}") } else { number.to_string() };
            sleep.syscall = self.names.name(text.as_bytes());
            return;
        };
        sleep.waits_for_io = call.waits_for_io;
        sleep.syscall = self.names.name_like(call.name.as_bytes(), sleep.syscall);
        if self.parts.filename
            && let Some(fd) = call.descriptor(args)
            && let Some(path) = self.proc.link(format_args!("{pid}/fd/{fd}"), &mut self.buffer)
        {
            sleep.filename = self.names.name(path);
        }
    }
}

/// A part that may be denied; the thread may have ended.
fn part(read: Result<&[u8], Unread>) -> Result<Option<&[u8]>, Unread> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(Unread::Denied) => Ok(None),
        Err(Unread::Gone) => Err(Unread::Gone),
    }
}
