//! Completes every request immediately: measures the engine without the kernel.

use crate::queue::{Op, Push, Queue, Request};
use crate::token::Token;
use fathom_model::Dir;
use fathom_model::record::Granted;
use std::io;

/// A queue that performs no I/O.
pub(crate) struct Null {
    done: Vec<(Token, i32)>,
}

impl Null {
    pub fn new(depth: u32) -> Self {
        Self { done: Vec::with_capacity(depth as usize) }
    }
}

impl Push for Null {
    fn push(&mut self, token: Token, request: &Request) {
        let bytes =
            if matches!(request.op, Op::Io(Dir::Read | Dir::Write)) { request.len } else { 0 };
        self.done.push((token, bytes as i32));
    }
}

impl Queue for Null {
    type Batch<'a> = &'a mut Self;

    fn sq_space_left(&self) -> u32 {
        (self.done.capacity() - self.done.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn push_one(&mut self, token: Token, request: &Request) {
        self.batch().push(token, request);
    }

    fn submit_and_wait(&mut self, _wait_for: u32, _deadline_ns: Option<u64>) -> io::Result<()> {
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        0
    }

    fn granted(&self) -> Granted {
        Granted::default()
    }
}
