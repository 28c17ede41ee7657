//! Trims for a queue that has none: system calls of the submitting thread, one at a time, as in fio.

use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Push, Queue, Request};
use crate::sync_queue::{outcome, without_data};
use crate::token::Token;
use fathom_model::Dir;
use fathom_model::record::Granted;
use std::io;

/// A queue that executes trims itself, in [`Queue::submit_and_wait`], and passes on all other requests.
pub(crate) struct InlineTrims<Q> {
    queue: Q,
    files: Vec<(i32, FileKind)>,
    /// Whether the last request of each slot is a trim.
    trims: Box<[bool]>,
    pushed: Vec<(Token, Request)>,
    done: Vec<(Token, i32)>,
    calls: u64,
}

impl<Q> InlineTrims<Q> {
    /// Trims beside the requests of `queue`, of at most `depth` slots.
    pub fn new(queue: Q, files: &[OpenFile], depth: u32) -> Self {
        Self {
            queue,
            files: files.iter().map(|file| (file.raw(), file.kind)).collect(),
            trims: vec![false; depth as usize].into(),
            pushed: Vec::with_capacity(depth as usize),
            done: Vec::with_capacity(depth as usize),
            calls: 0,
        }
    }
}

impl<Q: Push> Push for InlineTrims<Q> {
    fn push(&mut self, token: Token, request: &Request) {
        let is_trim = request.op == Op::Io(Dir::Trim);
        self.trims[token.slot() as usize] = is_trim;
        match is_trim {
            true => self.pushed.push((token, *request)),
            false => self.queue.push(token, request),
        }
    }
}

impl<Q: Queue + Push> Queue for InlineTrims<Q> {
    type Batch<'a>
        = &'a mut Self
    where
        Self: 'a;

    fn sq_space_left(&self) -> u32 {
        self.queue.sq_space_left() - self.pushed.len() as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn push_one(&mut self, token: Token, request: &Request) {
        self.batch().push(token, request);
    }

    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()> {
        if self.pushed.is_empty() && self.done.is_empty() {
            return self.queue.submit_and_wait(wait_for, deadline_ns);
        }
        // The device works on the other requests during the trims.
        self.queue.submit_and_wait(0, deadline_ns)?;
        for (token, request) in self.pushed.drain(..) {
            let (fd, kind) = self.files[request.file as usize];
            self.calls += 1;
            self.done.push((token, outcome(without_data(fd, kind, &request))));
        }
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
        self.queue.reap(max - count as u32, each);
    }

    fn system_calls(&self) -> u64 {
        self.queue.system_calls() + self.calls
    }

    fn priority(&self, slot: u32) -> u16 {
        if self.trims[slot as usize] { 0 } else { self.queue.priority(slot) }
    }

    fn granted(&self) -> Granted {
        self.queue.granted()
    }
}
