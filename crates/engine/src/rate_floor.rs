//! Detects jobs that fall below the rate they need (`rate_min`, `rate_iops_min`), or exceed a latency (`max_latency`).

use crate::stats::Shared;
use fathom_model::plan::RateFloor;
use fathom_model::progress::Phase;
use fathom_model::record::{JobError, JobRecord};
use fathom_model::{Dir, PerDir};

/// As in fio, a job has this long to settle.
const SETTLE_NS: u64 = 2_000_000_000;

/// Whether an I/O has taken longer than the job allows.
pub(crate) fn is_too_late(floor: &RateFloor, shared: &Shared) -> bool {
    let slowest = |dir: Dir| shared.stats.dirs[dir].lat.max_ns();
    Dir::ALL.into_iter().any(|dir| floor.latency_ns[dir].is_some_and(|most| slowest(dir) > most))
}

/// The error of a job with an I/O that took longer than it allows.
pub(crate) fn latency_error(floor: &RateFloor, done: &JobRecord) -> Option<JobError> {
    Dir::ALL.into_iter().find_map(|dir| {
        let (most, got) = (floor.latency_ns[dir]?, done.dirs[dir].lat.max_ns());
        let us = |ns: u64| ns / 1000;
        (got > most).then(|| JobError {
            errno: libc::ETIMEDOUT,
            message: format!("max_latency={}us exceeded: a {dir} took {} µs", us(most), us(got)),
        })
    })
}

/// The progress of one job at the end of the last cycle.
#[derive(Debug, Default)]
pub(crate) struct FloorCheck {
    /// Measured time in nanoseconds, and I/Os and bytes at that time.
    last: Option<(u64, PerDir<(u64, u64)>)>,
}

impl FloorCheck {
    /// The error of a job that fell below `floor` since the last cycle.
    pub fn check(&mut self, floor: &RateFloor, shared: &Shared) -> Option<JobError> {
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
    ) -> Option<JobError> {
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
            let (key, needed, got, unit) = match (floor.bytes[dir], floor.iops[dir]) {
                // As in fio, a job that has not begun with a direction is not judged by it.
                _ if counts[dir].0 == 0 => return None,
                (Some(needed), _) => ("rate_min", needed, bytes, "bytes/s"),
                (None, Some(needed)) => ("rate_iops_min", needed, ios, "IOPS"),
                (None, None) => return None,
            };
            (got < needed).then(|| JobError {
                errno: libc::EIO,
                message: format!("{key}={needed} not met: {dir}s reached {got} {unit}"),
            })
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
            error.map(|error| error.message)
        };
        assert_eq!(error(2_000_000), None);
        let late = "max_latency=2000us exceeded: a read took 3000 µs";
        assert_eq!(error(3_000_000).as_deref(), Some(late));
    }

    #[test]
    fn only_a_slow_cycle_after_settling_fails() {
        let mut floor = RateFloor { cycle_ns: 1_000_000_000, ..RateFloor::default() };
        floor.iops.read = Some(100);
        let at = |check: &mut FloorCheck, tenths: u64, ios: u64| {
            let counts = PerDir { read: (ios, ios * 512), ..PerDir::default() };
            check.check_at(&floor, tenths * 100_000_000, counts).map(|error| error.message)
        };
        let mut check = FloorCheck::default();
        assert_eq!(at(&mut check, 10, 1), None);
        assert_eq!(at(&mut check, 20, 2), None);
        assert_eq!(at(&mut check, 25, 2), None, "within a cycle");
        assert_eq!(at(&mut check, 30, 102), None);
        let slow = at(&mut check, 40, 201);
        assert_eq!(slow.as_deref(), Some("rate_iops_min=100 not met: reads reached 99 IOPS"));
    }
}
