//! The texts of /proc/PID/task/TID, taken apart without a copy.

/// What is used of a `stat` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat<'a> {
    /// The thread's name.
    pub comm: &'a [u8],
    /// Its state, a letter.
    pub state: u8,
    /// The process that made its process.
    pub parent: i32,
    /// `PF_…` of the kernel's `include/linux/sched.h`.
    pub flags: u32,
    /// Threads of its process.
    pub threads: u32,
    /// What comes after these.
    rest: Fields<'a>,
}

/// Kernel thread.
pub(super) const PF_KTHREAD: u32 = 0x0020_0000;
/// Worker of a workqueue, whose name tells what it works at.
pub(super) const PF_WQ_WORKER: u32 = 0x20;
/// io-wq's and SQPOLL's threads, which belong to a program and never are in user mode.
const PF_IO_WORKER: u32 = 0x10;
/// Since Linux 6.4 the kernel's threads of a program, io_uring's among them.
const PF_USER_WORKER: u32 = 0x4000;
/// Longer than every name: the kernel's own threads have up to 64 characters (`proc_task_name`).
const COMM_MAX: usize = 80;

impl<'a> Stat<'a> {
    /// Fields are counted as in proc(5): 3 state, 4 ppid, 9 flags, 20 num_threads.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let open = text.iter().position(|&b| b == b'(')?;
        // The name may hold blanks and brackets, what comes after it does not.
        let near = text.get(..text.len().min(open + COMM_MAX))?;
        let close = near.iter().rposition(|&b| b == b')')?;
        let mut fields = Fields(text.get(close + 1..)?);
        let state = *fields.next()?.first()?;
        let parent = number(fields.next()?)?;
        let flags = number(fields.nth(4)?)?;
        let threads = number(fields.nth(10)?)?;
        let comm = text.get(open + 1..close)?;
        Some(Self { comm, state, parent, flags, threads, rest: fields })
    }

    /// Processor on which it ran last: field 39.
    pub fn cpu(&self) -> Option<u32> {
        number(Fields(self.rest.0).nth(18)?)
    }

    /// A thread of the kernel itself, or one that it keeps within a program: what /proc says of its
    /// system call is left over in registers that no system call has set.
    pub fn in_kernel_only(&self) -> bool {
        in_kernel_only(self.flags)
    }
}

/// [`Stat::in_kernel_only`] of a thread with these flags.
pub(super) fn in_kernel_only(flags: u32) -> bool {
    flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) != 0
}

/// What the scheduler counted of a thread: `schedstat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sched {
    /// Time on processors, in nanoseconds; up to the last clock tick of a thread that runs.
    pub run_ns: u64,
    /// Time ready to run and waiting for a processor, in nanoseconds, of waits that are over.
    pub wait_ns: u64,
    /// Times that it got a processor.
    pub turns: u64,
}

impl Sched {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = Fields(text);
        let mut next = || number(fields.next()?);
        Some(Self { run_ns: next()?, wait_ns: next()?, turns: next()? })
    }
}

/// What `syscall` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// It runs or is ready to.
    Running,
    /// It sleeps outside of a system call, as in a page fault.
    None,
    /// It sleeps in this one.
    In {
        number: u32,
        /// The first of its six arguments are enough to tell its file.
        args: [u64; 6],
        /// Of a program for 32 bits, whose calls have other numbers.
        compat: bool,
    },
}

impl Call {
    /// `running`, or the number (-1 outside of a system call), six arguments, the stack pointer
    /// and the program counter.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = Fields(text);
        let first = fields.next()?;
        if first == b"running" {
            return Some(Self::Running);
        }
        if first == b"-1" {
            return Some(Self::None);
        }
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = hex(fields.next()?)?;
        }
        // A thread for 64 bits has its stack above the first 4 GiB.
        let compat = hex(fields.next()?)? <= u64::from(u32::MAX);
        Some(Self::In { number: number(first)?, args, compat })
    }
}

/// Puts the functions of a kernel stack, innermost first in the file, into `into`, outermost first with
/// `;` between them; gives the innermost. A line is `[<0>] function+0x12/0x340 [module]`.
pub(super) fn fold_stack<'a>(text: &'a [u8], into: &mut Vec<u8>) -> &'a [u8] {
    into.clear();
    let mut innermost: &[u8] = &[];
    for line in text.split(|&b| b == b'\n').rev() {
        let Some(place) = Fields(line).nth(1) else { continue };
        let end = place.iter().position(|&b| b == b'+').unwrap_or(place.len());
        innermost = place.get(..end).unwrap_or(place);
        if !into.is_empty() {
            into.push(b';');
        }
        into.extend_from_slice(innermost);
    }
    innermost
}

/// Of /proc/loadavg, whose last words are `running/all newest`: how many tasks there are, and the number
/// of the newest.
pub(super) fn tasks(loadavg: &[u8]) -> Option<(usize, u32)> {
    let mut words = Fields(loadavg).skip(3);
    let all = words.next()?.rsplit(|&b| b == b'/').next()?;
    Some((number(all)?, number(words.next()?)?))
}

/// A number in decimal digits.
pub(super) fn number<N: TryFrom<u64>>(digits: &[u8]) -> Option<N> {
    if digits.is_empty() {
        return None;
    }
    let add = |sum: u64, &digit: &u8| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 { None } else { sum.checked_mul(10)?.checked_add(u64::from(digit)) }
    };
    N::try_from(digits.iter().try_fold(0, add)?).ok()
}

fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").filter(|digits| (1..=16).contains(&digits.len()))?;
    let add = |sum: u64, &digit: &u8| Some(sum << 4 | u64::from(char::from(digit).to_digit(16)?));
    digits.iter().try_fold(0, add)
}

/// Words between blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let is_blank = |byte: &u8| *byte <= b' ';
        let from = self.0.iter().position(|byte| !is_blank(byte))?;
        let text = self.0.get(from..)?;
        let end = text.iter().position(is_blank).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line() {
        let text =
            b"4711 (a) (b c) D 12 4711 12 0 -1 4194624 1 2 3 4 5 6 7 8 20 0 9 0 100 200 300 \
            18446744073709551615 1 1 0 0 0 0 0 0 0 1 0 0 -1 3 0 0 0 0 0\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.comm, stat.state), (b"a) (b c".as_slice(), b'D'));
        assert_eq!((stat.parent, stat.flags, stat.threads), (12, 4_194_624, 9));
        assert_eq!(stat.cpu(), Some(3));
        assert!(!stat.in_kernel_only());
        for flags in [PF_KTHREAD, PF_IO_WORKER, PF_USER_WORKER] {
            assert!(Stat { flags, ..stat }.in_kernel_only());
        }
        for bad in ["", "1", "1 (x", ") 1 (", "1 (x)", "1 (x) S", "1 (x) S 1 1 1 0 -1 x", "()("] {
            assert_eq!(Stat::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn schedstat() {
        let sched = Sched::parse(b"123 45 6\n").unwrap();
        assert_eq!(sched, Sched { run_ns: 123, wait_ns: 45, turns: 6 });
        assert_eq!(Sched::parse(b"123 45\n"), None);
        assert_eq!(Sched::parse(b"0 -1 6\n"), None);
    }

    #[test]
    fn system_calls() {
        assert_eq!(Call::parse(b"running\n"), Some(Call::Running));
        assert_eq!(Call::parse(b"-1 0x7ffd00000000 0x401000\n"), Some(Call::None));
        let text = b"0 0x3 0x7f00 0x1000 0x0 0x0 0x0 0x7ffd7ad0f558 0x7fec4a3c88ba\n";
        let args = [3, 0x7f00, 0x1000, 0, 0, 0];
        assert_eq!(Call::parse(text), Some(Call::In { number: 0, args, compat: false }));
        let text = b"3 0x3 0x7f00 0x1000 0x0 0x0 0x0 0xffd0f558 0xf7fc4579\n";
        assert_eq!(Call::parse(text), Some(Call::In { number: 3, args, compat: true }));
        let long = "0 0x12345678901234567 0x0 0x0 0x0 0x0 0x0 0x0 0x0";
        for bad in ["", "x", "0", "0 0x1 0x2", "0 1 2 3 4 5 6 7 8", "0 0x 0x0 0x0 0x0", long] {
            assert_eq!(Call::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_stack_is_turned_round() {
        let text = b"[<0>] anon_pipe_read+0x1b0/0x4d0\n[<0>] vfs_read+0x2f/0x300 [ext4]\n[<0>] x\n";
        let mut folded = b"before".to_vec();
        assert_eq!(fold_stack(text, &mut folded), b"anon_pipe_read");
        assert_eq!(folded, b"x;vfs_read;anon_pipe_read");
        assert!(fold_stack(b"", &mut folded).is_empty());
        assert!(folded.is_empty());
    }

    #[test]
    fn numbers() {
        assert_eq!(number::<u32>(b"4294967295"), Some(u32::MAX));
        assert_eq!(number::<u32>(b"4294967296"), None);
        assert_eq!(number::<u64>(b"18446744073709551616"), None);
        assert_eq!(number::<i32>(b""), None);
        assert_eq!(tasks(b"0.52 0.58 0.59 2/797 4021\n"), Some((797, 4021)));
        assert_eq!(tasks(b""), None);
    }
}
