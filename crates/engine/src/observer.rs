//! What is recorded of single I/Os, in jobs that ask for it: entries of logs, and latencies by priority.

use crate::clock;
use crate::entries::EntrySender;
use fathom_model::io_entry::{IoEntry, IoEvent};
use fathom_model::plan::JobPlan;
use fathom_model::record::PriorityRecord;
use fathom_model::{Dir, PerDir};

#[derive(Clone, Copy)]
pub(crate) struct ObservedIo {
    pub dir: Dir,
    pub file: u32,
    pub offset: u64,
    pub len: u32,
    /// Its own priority, or 0 for that of the thread.
    pub priority: u16,
}

pub(crate) trait Observe {
    fn begin(&mut self, _now_ns: u64) {}
    /// `io` was submitted at `now_ns`, `slat_ns` after it was prepared.
    fn submitted(&mut self, _now_ns: u64, _io: ObservedIo, _slat_ns: u64) {}
    /// `io` was reaped at `now_ns`, with its completion and total latency.
    fn completed(&mut self, _now_ns: u64, _io: ObservedIo, _clat_ns: u64, _lat_ns: u64) {}
    fn flushing(&mut self, _now_ns: u64, _file: u32, _data_only: bool) {}
    fn turned(&mut self, _now_ns: u64) {}
    fn pauses(&mut self) {}
    fn priorities(&mut self) -> PerDir<Vec<PriorityRecord>> {
        PerDir::default()
    }
    fn log_wait_ns(&self) -> u64 {
        0
    }
}

pub(crate) struct IoObserver {
    log: Option<EntrySender>,
    /// Whether times in logs are since 1970.
    unix_epoch: bool,
    logs_submissions: bool,
    /// Time 0 of the log, once measuring has begun.
    epoch_ns: Option<u64>,
    has_priorities: bool,
    own: u16,
    priorities: PerDir<Vec<PriorityRecord>>,
}

impl IoObserver {
    /// That of `job`; `log` takes the entries of its logs.
    pub fn new(job: &JobPlan, log: Option<EntrySender>) -> Self {
        let plan = job.logs.as_ref();
        Self {
            log,
            unix_epoch: plan.is_some_and(|plan| plan.unix_epoch),
            logs_submissions: plan.is_some_and(|plan| plan.lat.is_some() || plan.trace.is_some()),
            epoch_ns: None,
            has_priorities: !job.priorities.is_empty(),
            own: job
                .placement
                .io_priority
                .map_or(0, |(class, level)| u16::from(class) << 13 | u16::from(level)),
            priorities: PerDir::default(),
        }
    }

    fn log(&mut self, now_ns: u64, io: ObservedIo, event: IoEvent) {
        let (Some(log), Some(epoch_ns)) = (&mut self.log, self.epoch_ns) else { return };
        let time_ns = now_ns.wrapping_sub(epoch_ns);
        let ObservedIo { dir, file, offset, len, priority } = io;
        log.push(IoEntry { time_ns, event, file, offset, len, priority, dir });
    }

    /// With the priority of the thread where the I/O has none of its own.
    fn resolved(&self, io: ObservedIo) -> ObservedIo {
        let priority = if io.priority == 0 { self.own } else { io.priority };
        ObservedIo { priority, ..io }
    }
}

impl Observe for IoObserver {
    fn begin(&mut self, now_ns: u64) {
        let since_1970_ns = if self.unix_epoch { clock::unix_ns() } else { 0 };
        self.epoch_ns = Some(now_ns.wrapping_sub(since_1970_ns));
        self.priorities = PerDir::default();
    }

    fn submitted(&mut self, now_ns: u64, io: ObservedIo, slat_ns: u64) {
        if self.logs_submissions {
            let io = self.resolved(io);
            self.log(now_ns, io, IoEvent::Submitted { slat_ns });
        }
    }

    fn completed(&mut self, now_ns: u64, io: ObservedIo, clat_ns: u64, lat_ns: u64) {
        let io = self.resolved(io);
        if self.has_priorities {
            let known = &mut self.priorities[io.dir];
            let at = known.iter().position(|known| known.priority == io.priority);
            let at = at.unwrap_or_else(|| {
                known.push(PriorityRecord { priority: io.priority, ..PriorityRecord::default() });
                known.len() - 1
            });
            known[at].clat.record(clat_ns);
            known[at].lat.record(lat_ns);
        }
        self.log(now_ns, io, IoEvent::Completed { clat_ns, lat_ns });
    }

    fn flushing(&mut self, now_ns: u64, file: u32, data_only: bool) {
        let io = ObservedIo { dir: Dir::Write, file, offset: 0, len: 0, priority: 0 };
        self.log(now_ns, io, IoEvent::Flush { data_only });
    }

    fn turned(&mut self, now_ns: u64) {
        self.log.iter_mut().for_each(|log| log.hand_over_old(now_ns));
    }

    fn pauses(&mut self) {
        self.log.iter_mut().for_each(EntrySender::hand_over);
    }

    fn priorities(&mut self) -> PerDir<Vec<PriorityRecord>> {
        let mut priorities = std::mem::take(&mut self.priorities);
        Dir::ALL.into_iter().for_each(|dir| priorities[dir].sort_by_key(|one| one.priority));
        priorities
    }

    fn log_wait_ns(&self) -> u64 {
        self.log.as_ref().map_or(0, EntrySender::waited_ns)
    }
}
