//! Detects jobs that fall below the rate they need (`rate_min`, `rate_iops_min`), or exceed a latency (`max_latency`).

use crate::error::{EngineError, Operation};
use crate::stats::Shared;
use fathom_model::plan::RateFloor;
use fathom_model::progress::Phase;
use fathom_model::record::JobRecord;
use fathom_model::{Dir, PerDir};

/// As in fio, a job has this long to settle.
const SETTLE_NS: u64 = 2_000_000_000;

/// Whether an I/O has taken longer than the job allows.
pub(crate) fn is_too_late(floor: &RateFloor, shared: &Shared) -> bool {
    let slowest = |dir: Dir| shared.stats.dirs[dir].lat.max_ns();
    Dir::ALL.into_iter().any(|dir| floor.latency_ns[dir].is_some_and(|most| slowest(dir) > most))
}

/// The error of a job with an I/O that took longer than it allows.
pub(crate) fn latency_error(floor: &RateFloor, done: &JobRecord) -> Option<EngineError> {
    Dir::ALL.into_iter().find_map(|dir| {
        let (most, got) = (floor.latency_ns[dir]?, done.dirs[dir].lat.max_ns());
        let error = EngineError::new(Operation::MeetLatency { dir, max_ns: most, took_ns: got });
        (got > most).then(|| error.errno(libc::ETIMEDOUT))
    })
}

#[derive(Debug, Default)]
pub(crate) struct FloorCheck {
    /// Measured time in nanoseconds, and I/Os and bytes at that time.
    last: Option<(u64, PerDir<(u64, u64)>)>,
}

impl FloorCheck {
    pub fn check(&mut self, floor: &RateFloor, shared: &Shared) -> Option<EngineError> {
        if shared.phase() == Phase::Verifying {
            // A new cycle begins when it writes again.
            self.last = None;
        }
        if !floor.is_set() || shared.phase() != Phase::Running {
            return None;
        }
        let counts = shared.stats.dirs.map(|_, dir| (dir.ios.get(), dir.bytes.get()));
        self.check_at(floor, shared.measured_ns(), counts)
    }

    fn check_at(
        &mut self,
        floor: &RateFloor,
        now_ns: u64,
        counts: PerDir<(u64, u64)>,
    ) -> Option<EngineError> {
        if now_ns < SETTLE_NS {
            return None;
        }
        let Some((then_ns, before)) = self.last else {
            self.last = Some((now_ns, counts));
            return None;
        };
        let spent_ns = now_ns - then_ns;
        if spent_ns < floor.cycle_ns {
            return None;
        }
        self.last = Some((now_ns, counts));
        Dir::ALL.into_iter().find_map(|dir| {
            let per_second =
                |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(spent_ns.max(1))) as u64;
            let ios = per_second(counts[dir].0 - before[dir].0);
            let bytes = per_second(counts[dir].1 - before[dir].1);
            let (in_bytes, needed, reached) = match (floor.bytes[dir], floor.iops[dir]) {
                // As in fio, a job that has not begun with a direction is not judged by it.
                _ if counts[dir].0 == 0 => return None,
                (Some(needed), _) => (true, needed, bytes),
                (None, Some(needed)) => (false, needed, ios),
                (None, None) => return None,
            };
            let op = Operation::MeetRate { dir, in_bytes, needed, reached };
            (reached < needed).then(|| EngineError::new(op).errno(libc::EIO))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_late_io_fails() {
        let mut floor = RateFloor::default();
        floor.latency_ns.read = Some(2_000_000);
        let error = |late_ns: u64| {
            let shared = Shared::default();
            shared.stats.dirs.read.lat.record_n(1000, 100);
            shared.stats.dirs.read.lat.record_n(late_ns, 1);
            shared.stats.dirs.write.lat.record_n(9_000_000, 1);
            let mut done = JobRecord::default();
            done.dirs.read.lat = shared.stats.dirs.read.lat.snapshot();
            let error = latency_error(&floor, &done);
            assert_eq!(is_too_late(&floor, &shared), error.is_some());
            error.map(|error| error.op)
        };
        assert_eq!(error(2_000_000), None);
        let (dir, max_ns, took_ns) = (Dir::Read, 2_000_000, 3_000_000);
        assert_eq!(error(3_000_000), Some(Operation::MeetLatency { dir, max_ns, took_ns }));
    }

    #[test]
    fn only_a_slow_cycle_after_settling_fails() {
        let mut floor = RateFloor { cycle_ns: 1_000_000_000, ..RateFloor::default() };
        floor.iops.read = Some(100);
        let at = |check: &mut FloorCheck, tenths: u64, ios: u64| {
            let counts = PerDir { read: (ios, ios * 512), ..PerDir::default() };
            check.check_at(&floor, tenths * 100_000_000, counts).map(|error| error.op)
        };
        let mut check = FloorCheck::default();
        assert_eq!(at(&mut check, 10, 1), None);
        assert_eq!(at(&mut check, 20, 2), None);
        assert_eq!(at(&mut check, 25, 2), None, "within a cycle");
        assert_eq!(at(&mut check, 30, 102), None);
        let slow = at(&mut check, 40, 201);
        let (dir, in_bytes, needed, reached) = (Dir::Read, false, 100, 99);
        assert_eq!(slow, Some(Operation::MeetRate { dir, in_bytes, needed, reached }));
    }
}
