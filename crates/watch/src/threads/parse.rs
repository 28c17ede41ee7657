//! Zero-copy parsers for the files of /proc/PID/task/TID.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskStat<'a> {
    pub comm: &'a [u8],
    pub state: u8,
    pub parent: i32,
    /// `PF_…` flags of include/linux/sched.h.
    pub flags: u32,
    pub threads: u32,
    rest: Fields<'a>,
}

/// A kernel thread.
pub(super) const PF_KTHREAD: u32 = 0x0020_0000;
/// A workqueue worker, whose name includes its work item.
pub(super) const PF_WQ_WORKER: u32 = 0x20;
/// io-wq and SQPOLL threads, which belong to a program but never enter user mode.
const PF_IO_WORKER: u32 = 0x10;
/// Since Linux 6.4: kernel threads of a program, including those of io_uring.
const PF_USER_WORKER: u32 = 0x4000;
/// Exceeds the longest name: 64 characters for kernel threads (`proc_task_name`).
const COMM_MAX: usize = 80;

impl<'a> TaskStat<'a> {
    /// Field numbers as in proc(5): 3 state, 4 ppid, 9 flags, 20 num_threads.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let open = text.iter().position(|&b| b == b'(')?;
        // The name may contain spaces and parentheses, the following fields do not.
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

    /// CPU on which it last ran: field 39.
    pub fn cpu(&self) -> Option<u32> {
        number(Fields(self.rest.0).nth(18)?)
    }

    /// Whether the thread never enters user mode, so that /proc reports stale registers as its
    /// system call.
    pub fn in_kernel_only(&self) -> bool {
        in_kernel_only(self.flags)
    }
}

/// [`TaskStat::in_kernel_only`] of a thread with these flags.
pub(super) fn in_kernel_only(flags: u32) -> bool {
    flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) != 0
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sched {
    /// Time on-CPU, in nanoseconds; of a running thread, up to the last tick.
    pub run_ns: u64,
    /// Time runnable, in nanoseconds, of completed waits.
    pub wait_ns: u64,
    pub timeslices: u64,
}

impl Sched {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = Fields(text);
        let mut next = || number(fields.next()?);
        Some(Self { run_ns: next()?, wait_ns: next()?, timeslices: next()? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Running,
    /// Sleeping outside a system call, such as in a page fault.
    None,
    In {
        number: u32,
        /// All six arguments, the first of which identify its file.
        args: [u64; 6],
        /// Of a 32-bit program, whose system calls have other numbers.
        compat: bool,
    },
}

impl Call {
    /// `running`, or the number (-1 outside a system call), six arguments, the stack pointer and
    /// the program counter.
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
        // The stack of a 64-bit thread is above the first 4 GiB.
        let compat = hex(fields.next()?)? <= u64::from(u32::MAX);
        Some(Self::In { number: number(first)?, args, compat })
    }
}

/// Stores the functions of a kernel stack in `into`, outermost first, separated by `;`, and returns
/// the innermost one. The file has the innermost first; a line is `[<0>] function+0x12/0x340
/// [module]`.
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

/// Number of tasks and newest task ID, from /proc/loadavg, whose last words are `running/all
/// newest`.
pub(super) fn tasks(loadavg: &[u8]) -> Option<(usize, u32)> {
    let mut words = Fields(loadavg).skip(3);
    let all = words.next()?.rsplit(|&b| b == b'/').next()?;
    Some((number(all)?, number(words.next()?)?))
}

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
        let stat = TaskStat::parse(text).unwrap();
        assert_eq!((stat.comm, stat.state), (b"a) (b c".as_slice(), b'D'));
        assert_eq!((stat.parent, stat.flags, stat.threads), (12, 4_194_624, 9));
        assert_eq!(stat.cpu(), Some(3));
        assert!(!stat.in_kernel_only());
        for flags in [PF_KTHREAD, PF_IO_WORKER, PF_USER_WORKER] {
            assert!(TaskStat { flags, ..stat }.in_kernel_only());
        }
        for bad in ["", "1", "1 (x", ") 1 (", "1 (x)", "1 (x) S", "1 (x) S 1 1 1 0 -1 x", "()("] {
            assert_eq!(TaskStat::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_schedstat_line() {
        let sched = Sched::parse(b"123 45 6\n").unwrap();
        assert_eq!(sched, Sched { run_ns: 123, wait_ns: 45, timeslices: 6 });
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
    fn stacks_are_reversed() {
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
