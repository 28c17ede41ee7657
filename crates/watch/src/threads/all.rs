//! All threads of the machine at once, through a BPF iterator (`iter/task`): a tenth of the cost of
//! /proc files.
//!
//! Requires root (CAP_BPF and CAP_PERFMON), Linux 5.15 with BTF, and the initial PID namespace,
//! whose IDs it reports.

mod record;

pub(super) use record::TaskRecord;

use crate::bpf::{Array, Btf, BtfField, Code, Iterator, Program, Reg};
use record::at;
use rustix::io::{Errno, read};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Maximum depth of a kernel stack, as in /proc (`MAX_STACK_TRACE_DEPTH`).
const STACK_MAX: usize = 64;
/// Inode of the initial PID namespace (`PROC_PID_INIT_INO`).
pub(crate) const OUTERMOST: &str = "pid:[4026531836]";
/// The kernel's BTF.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Maximum size of the kernel's reads from an iterator, in bytes.
const READ: usize = 32 << 10;

/// Helper IDs (include/uapi/linux/bpf.h).
const SEQ_WRITE: i32 = 127;
const GET_TASK_STACK: i32 = 141;
const TASK_PT_REGS: i32 = 175;

/// Registers of the system call number, its arguments and the stack pointer.
#[cfg(target_arch = "x86_64")]
const CALL_REGISTERS: Option<[&str; 8]> =
    Some(["orig_ax", "di", "si", "dx", "r10", "r8", "r9", "sp"]);
/// Not implemented: /proc files are read.
#[cfg(not(target_arch = "x86_64"))]
const CALL_REGISTERS: Option<[&str; 8]> = None;

#[derive(Debug)]
pub(super) struct AllThreads {
    iterator: Iterator,
    /// Size of a record, in 8-byte words.
    words: usize,
    bytes: Vec<u8>,
    len: usize,
    /// Process, thread and record index, ascending.
    order: Vec<(i32, i32, u32)>,
}

impl AllThreads {
    /// Loads the program. `proc_root` is the mount point of procfs.
    pub fn open(proc_root: &Path, kstack: bool) -> io::Result<Self> {
        if std::fs::read_link(proc_root.join("self/ns/pid"))?.as_os_str() != OUTERMOST {
            return Err(Errno::XDEV.into());
        }
        let btf = Btf::read(Path::new(TYPES))?;
        let words = at::STACK + if kstack { STACK_MAX } else { 1 };
        let record = Array::new((8 * words) as u32)?;
        let code = code(&btf, words, &record).ok_or(Errno::NOTSUP)?;
        let iterator = btf.function("bpf_iter_task").ok_or(Errno::NOTSUP)?;
        let program = Program::load(&code, "fathom_threads", iterator)?;
        // The link keeps the program, and the program keeps the array.
        let iterator = Iterator::new(&program)?;
        Ok(Self { iterator, words, bytes: Vec::new(), len: 0, order: Vec::new() })
    }

    pub fn sample(&mut self) -> io::Result<()> {
        let file = self.iterator.begin()?;
        self.len = 0;
        loop {
            if self.bytes.len() < self.len + READ {
                self.bytes.resize(self.len + READ, 0);
            }
            match read_some(&file, &mut self.bytes[self.len..])? {
                0 => break,
                more => self.len += more,
            }
        }
        let Self { bytes, order, .. } = self;
        order.clear();
        for (index, record) in bytes[..self.len].chunks_exact(8 * self.words).enumerate() {
            let record = TaskRecord(record);
            order.push((record.pid(), record.tid(), index as u32));
        }
        order.sort_unstable();
        Ok(())
    }

    fn record(&self, index: usize) -> TaskRecord<'_> {
        let size = 8 * self.words;
        TaskRecord(&self.bytes[index * size..(index + 1) * size])
    }

    /// Process and thread IDs of the last snapshot, ascending.
    pub fn numbers(&self) -> impl std::iter::Iterator<Item = (i32, i32)> {
        self.order.iter().map(|(pid, tid, _)| (*pid, *tid))
    }

    /// Threads of process `pid` in the last snapshot, ascending.
    pub fn of(&self, pid: i32) -> impl std::iter::Iterator<Item = TaskRecord<'_>> {
        let from = self.order.partition_point(|(other, ..)| *other < pid);
        let own = self.order[from..].iter().take_while(move |(other, ..)| *other == pid);
        own.map(|(.., index)| self.record(*index as usize))
    }
}

fn read_some(file: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match read(&file, &mut *into) {
            // No output yet, as many objects were skipped.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// The program; `None` if the kernel lacks a field.
fn code(btf: &Btf, words: usize, record: &Array) -> Option<Code> {
    let registers = CALL_REGISTERS?;
    let (task, regs) = (btf.structure("task_struct")?, btf.structure("pt_regs")?);
    let task = |path: &str| btf.field(task, path);
    let (state, on_cpu, timeslices) =
        (task("__state")?, task("on_cpu")?, task("sched_info.pcount")?);
    let before = [
        (at::STATE, state),
        (at::ON_CPU, on_cpu),
        (at::TIMESLICES, timeslices),
        (at::TID, task("pid")?),
        (at::PID, task("tgid")?),
        (at::EXIT_STATE, task("exit_state")?),
        (at::FLAGS, task("flags")?),
        (at::CPU, task("thread_info.cpu").or_else(|| task("cpu"))?),
        (at::RUN_NS, task("se.sum_exec_runtime")?),
        (at::WAIT_NS, task("sched_info.run_delay")?),
    ];
    let after =
        [(at::STATE_AFTER, state), (at::ON_CPU_AFTER, on_cpu), (at::TIMESLICES_AFTER, timeslices)];
    let comm = task("comm").filter(|comm| comm.size == 16)?;

    let mut code = Code::default();
    let place = |word: usize| (8 * word) as i16;
    // The context has a pointer to the iterator's metadata, and one to the task, which is NULL at
    // the end.
    code.copy(Reg::R6, Reg::R1);
    code.load(Reg::R7, Reg::R6, 8, 8);
    let no_task = code.jump_if_zero(Reg::R7);
    code.address_of(Reg::R8, record.number());
    for (word, field) in before {
        code.load_field(Reg::R1, Reg::R7, field)?;
        code.store(Reg::R8, place(word), Reg::R1);
    }
    for half in 0..2 {
        let field = BtfField { offset: comm.offset + 8 * half as u32, size: 8 };
        code.load_field(Reg::R1, Reg::R7, field)?;
        code.store(Reg::R8, place(at::COMM + half), Reg::R1);
    }
    // System call and stack of a sleeping thread.
    code.load(Reg::R1, Reg::R8, place(at::STATE), 8);
    let runs = code.jump_if_zero(Reg::R1);
    code.copy(Reg::R1, Reg::R7);
    code.call(TASK_PT_REGS);
    for (index, name) in registers.into_iter().enumerate() {
        code.load_field(Reg::R1, Reg::R0, btf.field(regs, name)?)?;
        code.store(Reg::R8, place(at::CALL + index), Reg::R1);
    }
    code.copy(Reg::R1, Reg::R7);
    code.copy(Reg::R2, Reg::R8);
    code.increase(Reg::R2, 8 * at::STACK as i32);
    code.set(Reg::R3, 8 * (words - at::STACK) as i32);
    code.set(Reg::R4, 0);
    code.call(GET_TASK_STACK);
    code.store(Reg::R8, place(at::STACK_LEN), Reg::R0);
    code.land(runs);
    for (word, field) in after {
        code.load_field(Reg::R1, Reg::R7, field)?;
        code.store(Reg::R8, place(word), Reg::R1);
    }
    code.load(Reg::R1, Reg::R6, 0, 8);
    code.load(Reg::R1, Reg::R1, 0, 8);
    code.copy(Reg::R2, Reg::R8);
    code.set(Reg::R3, 8 * words as i32);
    code.call(SEQ_WRITE);
    code.land(no_task);
    code.end();
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_procfs_trees_are_rejected() {
        let root = tempfile::tempdir().unwrap();
        assert!(AllThreads::open(root.path(), false).is_err());
        std::fs::create_dir_all(root.path().join("self/ns")).unwrap();
        std::os::unix::fs::symlink("pid:[4026532199]", root.path().join("self/ns/pid")).unwrap();
        let error = AllThreads::open(root.path(), false).unwrap_err();
        assert_eq!(error.kind(), io::Error::from(Errno::XDEV).kind());
    }
}
