//! One thread: its open files, and what it slept in when it was looked at last.

use super::Parts;
use super::files::{File, Proc, Unread};
use super::names::{NONE, Name, Names};
use super::parse::{Call, Sched, Stat, fold_stack};
use super::running::Before;
use super::syscalls::Syscalls;

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
    /// What it sleeps in, true until its next turn on a processor.
    sleep: Option<Sleep>,
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
    pub cpu: u32,
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
        self.sleep = None;
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
        match seen.state {
            b'R' => seen.state = sched.map_or(b'R', |now| self.before.split(now, eye.now_ns)),
            b'D' | b'S' => seen.sleep = self.sleep(pid, seen, sched, eye)?,
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
        let renamed = eye.names.bytes(self.comm) != stat.comm;
        if renamed {
            self.comm = eye.names.name(stat.comm);
            self.works_for = super::helpers::owner_in_name(stat.comm);
        }
        Ok(Seen {
            state: stat.state,
            sleep: Sleep::default(),
            cpu: stat.cpu,
            threads: stat.threads,
            renamed,
            in_kernel_only: stat.in_kernel_only(),
        })
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
        eye: &mut Eye,
    ) -> Result<Sleep, Unread> {
        if let (Some(known), Some(now)) = (self.sleep, sched)
            && known.turns == now.turns
            && known.state == seen.state
        {
            return Ok(known);
        }
        let mut sleep = self.inspect(pid, seen, eye)?;
        if sleep.waits_for_io || seen.state == b'D' || eye.all_states {
            sleep.torn |= self.went_on(pid, seen.state, sched, eye)?;
        }
        sleep.turns = sched.map_or(0, |sched| sched.turns);
        self.sleep = (!sleep.torn).then_some(sleep);
        Ok(sleep)
    }

    /// Reads system call, wait channel, and what else is asked for.
    fn inspect(&mut self, pid: i32, seen: Seen, eye: &mut Eye) -> Result<Sleep, Unread> {
        let tid = self.tid;
        let mut sleep = Sleep { state: seen.state, ..Sleep::default() };
        if !seen.in_kernel_only {
            let path = format_args!("{pid}/task/{tid}/syscall");
            let text = part(eye.proc.read(&mut self.files.syscall, path, &mut eye.buffer))?;
            match text.and_then(Call::parse) {
                Some(Call::Running) => sleep.torn = true,
                Some(Call::In { number, args, compat }) => {
                    eye.call(pid, number, &args, compat, &mut sleep);
                }
                Some(Call::None) | None => {}
            }
        }
        if seen.state == b'S' && !sleep.waits_for_io && !eye.all_states {
            return Ok(sleep);
        }
        let path = format_args!("{pid}/task/{tid}/wchan");
        let text = part(eye.proc.read(&mut self.files.wchan, path, &mut eye.buffer))?;
        if let Some(text) = text.filter(|text| *text != b"0") {
            sleep.wchan = eye.names.name(text.trim_ascii_end());
        }
        if eye.parts.kstack {
            let path = format_args!("{pid}/task/{tid}/stack");
            let text = part(eye.proc.read(&mut self.files.stack, path, &mut eye.buffer))?;
            if let Some(text) = text {
                fold_stack(text, &mut eye.folded);
                sleep.kstack = eye.names.name(&eye.folded);
            }
        }
        Ok(sleep)
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
    fn call(&mut self, pid: i32, number: u32, args: &[u64; 6], compat: bool, sleep: &mut Sleep) {
        let known = self.calls.get(number).filter(|_| !compat).copied();
        let Some(call) = known else {
            let text = if compat { format!("32-bit {number}") } else { number.to_string() };
            sleep.syscall = self.names.name(text.as_bytes());
            return;
        };
        sleep.waits_for_io = call.waits_for_io;
        sleep.syscall = self.names.name(call.name.as_bytes());
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
