//! readv(2) and writev(2), one call for adjacent I/Os of a batch (fio's `vsync`).

use crate::buffers::Slab;
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Push, Queue, Request};
use crate::sync_queue::{last_error, outcome, without_data};
use crate::token::Token;
use fathom_model::Dir;
use std::io;

/// UIO_MAXIOV of linux/uio.h: the buffers of one call.
const BUFFERS_MAX: usize = 1024;

pub(crate) struct Vsync {
    files: Vec<(i32, FileKind)>,
    base: u64,
    slot_bytes: u64,
    pushed: Vec<(Token, Request)>,
    done: Vec<(Token, i32)>,
    buffers: Vec<libc::iovec>,
    calls: u64,
}

impl Vsync {
    pub fn new(files: &[OpenFile], slab: &Slab) -> Self {
        let depth = slab.slots() as usize;
        Self {
            files: files.iter().map(|file| (file.raw(), file.kind)).collect(),
            base: slab.address(0),
            slot_bytes: slab.slot_bytes() as u64,
            pushed: Vec::with_capacity(depth),
            done: Vec::with_capacity(depth),
            buffers: Vec::with_capacity(depth.min(BUFFERS_MAX)),
            calls: 0,
        }
    }

    /// Performs the pushed request `first`, with those adjacent to it; returns how many are done.
    fn perform(&mut self, first: usize) -> usize {
        let (token, request) = self.pushed[first];
        let (fd, kind) = self.files[request.file as usize];
        self.calls += 1;
        let Op::Io(dir @ (Dir::Read | Dir::Write)) = request.op else {
            self.done.push((token, outcome(without_data(fd, kind, &request))));
            return 1;
        };
        let count = adjacent(&self.pushed[first..]);
        let group = &self.pushed[first..first + count];
        self.buffers.clear();
        self.buffers.extend(group.iter().map(|(token, request)| {
            let slot = self.base + u64::from(token.slot()) * self.slot_bytes;
            let start = slot + u64::from(request.buffer_offset);
            libc::iovec { iov_base: start as *mut libc::c_void, iov_len: request.len as usize }
        }));
        self.calls += 1;
        match transfer(fd, dir, request.offset, &self.buffers) {
            moved if moved >= 0 => divide(group, moved as usize, &mut self.done),
            _ => {
                let error = last_error();
                self.done.extend(group.iter().map(|(token, _)| (*token, error)));
                count
            }
        }
    }
}

/// How many of the first requests are one contiguous transfer.
fn adjacent(pushed: &[(Token, Request)]) -> usize {
    let follows = |pair: &&[(Token, Request)]| {
        let (before, after) = (pair[0].1, pair[1].1);
        before.op == after.op
            && before.file == after.file
            && before.offset + u64::from(before.len) == after.offset
    };
    let more = pushed.windows(2).take(BUFFERS_MAX - 1).take_while(follows).count();
    more + 1
}

/// Divides a transfer of `moved` bytes among the requests of `group`; returns how many got a result. Those after a short
/// one need another call.
fn divide(group: &[(Token, Request)], moved: usize, done: &mut Vec<(Token, i32)>) -> usize {
    let mut left = moved;
    for (index, (token, request)) in group.iter().enumerate() {
        let part = left.min(request.len as usize);
        done.push((*token, part as i32));
        left -= part;
        if part < request.len as usize {
            return index + 1;
        }
    }
    group.len()
}

fn transfer(fd: i32, dir: Dir, offset: u64, buffers: &[libc::iovec]) -> isize {
    let count = buffers.len() as libc::c_int;
    // SAFETY: each buffer names memory of its own slot.
    unsafe {
        match dir {
            _ if libc::lseek(fd, offset as i64, libc::SEEK_SET) < 0 => -1,
            Dir::Read => libc::readv(fd, buffers.as_ptr(), count),
            _ => libc::writev(fd, buffers.as_ptr(), count),
        }
    }
}

impl Push for Vsync {
    fn push(&mut self, token: Token, request: &Request) {
        self.pushed.push((token, *request));
    }
}

impl Queue for Vsync {
    type Batch<'a> = &'a mut Self;

    fn sq_space_left(&self) -> u32 {
        (self.pushed.capacity() - self.pushed.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, _wait_for: u32, _deadline_ns: Option<u64>) -> io::Result<()> {
        let mut next = 0;
        while next < self.pushed.len() {
            next += self.perform(next);
        }
        self.pushed.clear();
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}

// SAFETY: the pointers in `buffers` are used only during a call, and name the worker's own slab.
unsafe impl Send for Vsync {}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(offsets: &[u64]) -> Vec<(Token, Request)> {
        let request = |offset| {
            let op = Op::Io(Dir::Read);
            Request { op, file: 0, offset, len: 4096, buffer_offset: 0 }
        };
        offsets.iter().map(|offset| (Token(*offset), request(*offset))).collect()
    }

    #[test]
    fn only_contiguous_requests_are_joined() {
        assert_eq!(adjacent(&reads(&[0, 4096, 8192, 16384])), 3);
        assert_eq!(adjacent(&reads(&[4096, 0])), 1);
        let mut mixed = reads(&[0, 4096]);
        mixed[1].1.op = Op::Io(Dir::Write);
        assert_eq!(adjacent(&mixed), 1);
        let mut files = reads(&[0, 4096]);
        files[1].1.file = 1;
        assert_eq!(adjacent(&files), 1);
        let many: Vec<u64> = (0..2000).map(|n| n * 4096).collect();
        assert_eq!(adjacent(&reads(&many)), BUFFERS_MAX);
    }

    #[test]
    fn a_short_transfer_leaves_the_later_requests_to_another_call() {
        let group = reads(&[0, 4096, 8192]);
        let divided = |moved| {
            let mut done = Vec::new();
            let count = divide(&group, moved, &mut done);
            (count, done.into_iter().map(|(_, part)| part).collect::<Vec<_>>())
        };
        assert_eq!(divided(12288), (3, vec![4096, 4096, 4096]));
        assert_eq!(divided(8192), (3, vec![4096, 4096, 0]));
        assert_eq!(divided(5000), (2, vec![4096, 904]));
        assert_eq!(divided(0), (1, vec![0]));
    }
}
