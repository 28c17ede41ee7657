//! The I/Os of a trace, one after the other.

use super::{IoGenerator, Upcoming};
use crate::queue::{Op, Request};
use fathom_model::Dir;
use fathom_model::plan::{Replay, TraceEvent, TraceOp};
use std::sync::Arc;

pub(super) struct Replayer {
    events: Arc<Vec<TraceEvent>>,
    at: usize,
    pass: u64,
    passes: Option<u64>,
    length_ns: u64,
    timed: bool,
    len_max: u32,
}

impl Replayer {
    pub fn new(plan: &Replay) -> Self {
        let len_max = plan.events.iter().map(|event| event.len).max();
        Self {
            events: Arc::clone(&plan.events),
            at: 0,
            pass: 0,
            passes: plan.passes.map(u64::from),
            length_ns: plan.length_ns,
            timed: plan.timed,
            len_max: len_max.unwrap_or(0).max(1),
        }
    }

    pub fn len(&self) -> u32 {
        self.len_max
    }

    fn next(&self) -> Option<&TraceEvent> {
        let ended = self.passes.is_some_and(|passes| self.pass >= passes);
        self.events.get(self.at).filter(|_| !ended)
    }

    fn advance(&mut self) {
        self.at += 1;
        if self.at == self.events.len() {
            (self.at, self.pass) = (0, self.pass + 1);
        }
    }
}

impl IoGenerator for Replayer {
    fn next_direction(&mut self) -> Dir {
        match self.next().map(|event| event.op) {
            Some(TraceOp::Io(dir)) => dir,
            _ => Dir::Read,
        }
    }

    fn next_io(&mut self, dir: Dir, _max: u64) -> Request {
        let (file, offset, len) =
            self.next().map_or((0, 0, 0), |event| (event.file, event.offset, event.len));
        self.advance();
        Request { op: Op::Io(dir), file, offset, len, buffer_offset: 0 }
    }

    fn due_ns(&self) -> Option<u64> {
        let event = self.next().filter(|_| self.timed)?;
        Some(self.pass.saturating_mul(self.length_ns).saturating_add(event.at_ns))
    }

    fn upcoming(&mut self, elapsed_ns: u64) -> Upcoming {
        let Some(event) = self.next() else { return Upcoming::End };
        let op = match event.op {
            TraceOp::Io(_) => return Upcoming::Io,
            _ if self.due_ns().is_some_and(|due_ns| due_ns > elapsed_ns) => return Upcoming::Io,
            TraceOp::Fsync => Op::Fsync,
            TraceOp::Fdatasync => Op::Fdatasync,
        };
        let file = event.file;
        self.advance();
        Upcoming::Flush(op, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ns: u64, op: TraceOp) -> TraceEvent {
        TraceEvent { at_ns, op, file: 3, offset: 8 * at_ns, len: 8 }
    }

    #[test]
    fn events_are_due_at_their_times_in_each_pass() {
        let read = TraceOp::Io(Dir::Read);
        let events = vec![event(0, read), event(5, TraceOp::Fdatasync), event(9, read)];
        let plan = Replay {
            events: Arc::new(events),
            length_ns: 9,
            timed: true,
            passes: Some(2),
            ..Replay::default()
        };
        let mut replay = Replayer::new(&plan);
        for pass in [0, 9] {
            assert_eq!((replay.upcoming(pass), replay.due_ns()), (Upcoming::Io, Some(pass)));
            assert_eq!(replay.next_io(Dir::Read, 1).offset, 0);
            assert_eq!(
                (replay.upcoming(pass + 4), replay.due_ns()),
                (Upcoming::Io, Some(pass + 5))
            );
            assert_eq!(replay.upcoming(pass + 5), Upcoming::Flush(Op::Fdatasync, 3));
            let io = replay.next_io(Dir::Read, 1);
            assert_eq!((io.file, io.offset, io.len), (3, 72, 8));
        }
        assert_eq!((replay.upcoming(1 << 40), replay.due_ns()), (Upcoming::End, None));
    }
}
