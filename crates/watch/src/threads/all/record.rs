//! A thread's record from the BPF program.

use crate::threads::parse::{Call, Sched};

/// Offsets of the fields of a record, in 8-byte words.
pub(super) mod at {
    pub const TID: usize = 0;
    pub const PID: usize = 1;
    pub const STATE: usize = 2;
    pub const EXIT_STATE: usize = 3;
    pub const FLAGS: usize = 4;
    pub const CPU: usize = 5;
    pub const ON_CPU: usize = 6;
    pub const RUN_NS: usize = 7;
    pub const WAIT_NS: usize = 8;
    pub const TIMESLICES: usize = 9;
    /// Two words.
    pub const COMM: usize = 10;
    /// State, on_cpu and pcount again, read last.
    pub const STATE_AFTER: usize = 12;
    pub const ON_CPU_AFTER: usize = 13;
    pub const TIMESLICES_AFTER: usize = 14;
    pub const CALL: usize = 15;
    /// Six words.
    pub const ARGS: usize = 16;
    pub const STACK_POINTER: usize = 22;
    /// Length of the stack in bytes, or a negative errno.
    pub const STACK_LEN: usize = 23;
    pub const STACK: usize = 24;
}

#[derive(Debug, Clone, Copy)]
pub(in crate::threads) struct TaskRecord<'a>(pub(super) &'a [u8]);

impl<'a> TaskRecord<'a> {
    fn word(self, at: usize) -> u64 {
        self.0.get(8 * at..8 * at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    pub fn tid(self) -> i32 {
        self.word(at::TID) as i32
    }

    pub fn pid(self) -> i32 {
        self.word(at::PID) as i32
    }

    /// `PF_…` flags of include/linux/sched.h.
    pub fn flags(self) -> u32 {
        self.word(at::FLAGS) as u32
    }

    pub fn cpu(self) -> u32 {
        self.word(at::CPU) as u32
    }

    /// Its state letter as in /proc (fs/proc/array.c, `task_state_index`).
    pub fn state(self) -> u8 {
        const LETTERS: [u8; 9] = *b"RSDTtXZPI";
        const IDLE: u64 = 0x402;
        // Waits on PREEMPT_RT, and frozen.
        const SHOWN_AS_D: u64 = 0x1000 | 0x8000;
        let state = self.word(at::STATE);
        let shown = match state {
            _ if state & IDLE == IDLE => 0x80,
            _ if state & SHOWN_AS_D != 0 => 2,
            _ => (state | self.word(at::EXIT_STATE)) & 0x7f,
        };
        LETTERS[(u64::BITS - shown.leading_zeros()) as usize]
    }

    pub fn comm(self) -> &'a [u8] {
        let comm = &self.0[8 * at::COMM..8 * at::COMM + 16];
        &comm[..comm.iter().position(|&b| b == 0).unwrap_or(comm.len())]
    }

    pub fn sched(self) -> Sched {
        let (run_ns, wait_ns) = (self.word(at::RUN_NS), self.word(at::WAIT_NS));
        Sched { run_ns, wait_ns, timeslices: self.word(at::TIMESLICES) }
    }

    /// Whether it was on-CPU or ran while the record was written.
    pub fn is_torn(self) -> bool {
        self.word(at::ON_CPU) | self.word(at::ON_CPU_AFTER) != 0
            || self.word(at::STATE) != self.word(at::STATE_AFTER)
            || self.word(at::TIMESLICES) != self.word(at::TIMESLICES_AFTER)
    }

    pub fn call(self) -> Call {
        match self.word(at::CALL) as i32 {
            ..0 => Call::None,
            number => Call::In {
                number: number as u32,
                args: std::array::from_fn(|index| self.word(at::ARGS + index)),
                compat: self.word(at::STACK_POINTER) <= u64::from(u32::MAX),
            },
        }
    }

    /// Return addresses of its kernel stack, innermost first, as bytes.
    pub fn stack(self) -> &'a [u8] {
        let room = &self.0[8 * at::STACK..];
        let len = usize::try_from(self.word(at::STACK_LEN) as i64).unwrap_or(0);
        &room[..len.min(room.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with these words; all others are 0.
    fn bytes(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 8 * (at::STACK + 2)];
        for (at, word) in words {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn state_letters_match_procfs() {
        let states = [
            (0, 0, b'R'),
            (1, 0, b'S'),
            (2, 0, b'D'),
            (4, 0, b'T'),
            (8, 0, b't'),
            (0x80, 0x10, b'X'),
            (0x80, 0x20, b'Z'),
            (0x40, 0, b'P'),
            (0x402, 0, b'I'),
            // Killable, freezable, frozen, and a state of PREEMPT_RT.
            (0x102, 0, b'D'),
            (0x2001, 0, b'S'),
            (0x8000, 0, b'D'),
            (0x1000, 0, b'D'),
            (u64::from(u32::MAX), 0, b'I'),
        ];
        for (state, exit, letter) in states {
            let bytes = bytes(&[(at::STATE, state), (at::EXIT_STATE, exit)]);
            assert_eq!(char::from(TaskRecord(&bytes).state()), char::from(letter), "{state:#x}");
        }
    }

    #[test]
    fn a_record() {
        let comm = u64::from_ne_bytes(*b"t-pipe\0\xff");
        let mut words = vec![(at::TID, 7), (at::PID, 5), (at::COMM, comm), (at::CALL, 17)];
        words.extend([(at::ARGS, 3), (at::ARGS + 5, 8), (at::STACK_POINTER, 0x7ffd_0000_0000)]);
        words.extend([
            (at::TIMESLICES, 9),
            (at::TIMESLICES_AFTER, 9),
            (at::STATE, 1),
            (at::STATE_AFTER, 1),
        ]);
        words.extend([(at::STACK_LEN, 8), (at::STACK, 0xffff), (at::STACK + 1, 0xdead)]);
        let whole = bytes(&words);
        let record = TaskRecord(&whole);
        assert_eq!((record.pid(), record.tid(), record.comm()), (5, 7, b"t-pipe".as_slice()));
        let args = [3, 0, 0, 0, 0, 8];
        assert_eq!(record.call(), Call::In { number: 17, args, compat: false });
        assert_eq!(record.stack(), 0xffff_u64.to_ne_bytes());
        assert_eq!((record.sched().timeslices, record.is_torn()), (9, false));
        let with = |word: (usize, u64)| bytes(&[words.clone(), vec![word]].concat());
        for other in [(at::TIMESLICES_AFTER, 10), (at::STATE_AFTER, 0), (at::ON_CPU, 1)] {
            assert!(TaskRecord(&with(other)).is_torn(), "{other:?}");
        }
        assert_eq!(TaskRecord(&with((at::CALL, u64::MAX))).call(), Call::None);
        // No stack, an error, and a length that exceeds the record.
        for (len, bytes) in [(0, 0), (-14_i64 as u64, 0), (800, 16)] {
            assert_eq!(TaskRecord(&with((at::STACK_LEN, len))).stack().len(), bytes);
        }
    }
}
