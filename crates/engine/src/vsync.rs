//! readv(2) and writev(2), one call for adjacent I/Os of a batch (fio's `vsync`).

use crate::buffers::{Slab, SlotAddresses};
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use crate::sync_queue::{SyncEngine, last_error, outcome, without_data};
use crate::token::Token;
use fathom_model::Dir;

/// UIO_MAXIOV of linux/uio.h: the buffers of one call.
const BUFFERS_MAX: usize = 1024;

pub(crate) struct Vsync {
    files: Vec<(i32, FileKind)>,
    buffers: Vec<libc::iovec>,
    calls: u64,
}

impl Vsync {
    pub fn new(files: &[OpenFile], slab: &Slab) -> Self {
        Self {
            files: files.iter().map(|file| (file.raw(), file.kind)).collect(),
            buffers: Vec::with_capacity((slab.slots() as usize).min(BUFFERS_MAX)),
            calls: 0,
        }
    }
}

impl SyncEngine for Vsync {
    fn execute(&mut self, _buffer: *mut libc::c_void, request: &Request) -> i32 {
        let (fd, kind) = self.files[request.file as usize];
        self.calls += 1;
        outcome(without_data(fd, kind, request))
    }

    /// With those adjacent to it, if it moves data.
    fn execute_first(
        &mut self,
        requests: &[(Token, Request)],
        slots_at: SlotAddresses,
        done: &mut Vec<(Token, i32)>,
    ) -> usize {
        let (token, request) = requests[0];
        let Op::Io(dir @ (Dir::Read | Dir::Write)) = request.op else {
            done.push((token, self.execute(std::ptr::null_mut(), &request)));
            return 1;
        };
        let group = &requests[..adjacent(requests)];
        self.buffers.clear();
        self.buffers.extend(group.iter().map(|(token, request)| {
            let start = slots_at.address(token.slot(), request) as *mut libc::c_void;
            libc::iovec { iov_base: start, iov_len: request.len as usize }
        }));
        // Of lseek and of the transfer.
        self.calls += 2;
        match transfer(self.files[request.file as usize].0, dir, request.offset, &self.buffers) {
            moved if moved >= 0 => divide(group, moved as usize, done),
            _ => {
                let error = last_error();
                done.extend(group.iter().map(|(token, _)| (*token, error)));
                group.len()
            }
        }
    }

    fn system_calls(&self) -> u64 {
        self.calls
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
