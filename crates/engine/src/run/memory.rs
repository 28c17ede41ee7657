//! Whether the address space that a run needs is there. Where it is limited (RLIMIT_AS), running out of
//! it within a thread or an allocation ends the whole process, so that it has to be asked before.

use crate::buffers::Slab;
use crate::job;
use crate::stats::Stats;
use fathom_model::plan::{JobPlan, Plan};
use std::collections::BTreeMap;

/// A worker's stack.
pub(super) const STACK_BYTES: usize = 512 << 10;
/// What a worker's thread takes beside its stack: guard pages, signal stack, its ring's fixed part.
const THREAD_BYTES: u64 = 256 << 10;
/// Entries of the ring and the state of an I/O.
const SLOT_BYTES: u64 = 1 << 10;
/// The C library reserves so much for each thread that allocates, for so many threads per processor.
const ARENA_BYTES: u64 = 64 << 20;
const ARENAS_PER_PROCESSOR: u64 = 8;
/// What the rest of the process takes while a run goes on: samplers, views, the report.
const REST_BYTES: u64 = 64 << 20;

/// What is missing.
#[derive(Debug, thiserror::Error)]
#[error(
    "{workers} workers need about {} MiB of address space (buffers, stacks, counters), but this process's \
     limit of {} MiB (RLIMIT_AS) leaves {} MiB: raise it (`ulimit -v unlimited`), or lower numjobs, iodepth \
     or bs",
    needed >> 20,
    limit >> 20,
    left >> 20
)]
pub struct TooLittle {
    workers: usize,
    needed: u64,
    limit: u64,
    left: u64,
}

/// Compares what `plan` needs with what this process may still map.
pub(super) fn check(plan: &Plan) -> Result<(), TooLittle> {
    let Some(limit) = limit() else { return Ok(()) };
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let needed = needed(&plan.jobs, processors);
    let left = limit.saturating_sub(mapped());
    if needed <= left {
        return Ok(());
    }
    Err(TooLittle { workers: plan.jobs.len(), needed, limit, left })
}

/// The wave that takes most, and the counters of all.
fn needed(jobs: &[JobPlan], processors: u64) -> u64 {
    let mut waves: BTreeMap<u32, u64> = BTreeMap::new();
    for job in jobs {
        let bytes = waves.entry(job.wave).or_default();
        *bytes = bytes.saturating_add(of_worker(job));
    }
    let workers = jobs.len() as u64;
    let arenas = workers.min(ARENAS_PER_PROCESSOR * processors) * ARENA_BYTES;
    // The live counters and their copy in the record.
    let counters = workers * 2 * Stats::HEAP_BYTES;
    let waves = waves.into_values().max().unwrap_or(0);
    waves.saturating_add(arenas + counters + REST_BYTES)
}

fn of_worker(job: &JobPlan) -> u64 {
    let (slots, bytes) = job::buffers(job);
    Slab::size(slots, bytes, job.buffers.memory)
        .map_or(u64::MAX, |n| n as u64)
        .saturating_add(STACK_BYTES as u64 + THREAD_BYTES + u64::from(slots) * SLOT_BYTES)
}

/// The limit of this process's address space, if there is one.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to the struct it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Address space that this process takes now; 0 where it is not known.
fn mapped() -> u64 {
    // SAFETY: takes a number and gives one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(4096))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::plan::{Distribution, Engine, Mix, Order, Psync, Uring};

    fn job(engine: Engine, wave: u32) -> JobPlan {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("j", engine, Mix::Only(Dir::Read), order);
        (job.depth, job.wave) = (64, wave);
        job
    }

    #[test]
    fn what_runs_one_after_the_other_does_not_add_up() {
        let ring = || Engine::IoUring(Uring::default());
        let one = needed(&[job(ring(), 0)], 1);
        let counters = 2 * Stats::HEAP_BYTES + ARENA_BYTES;
        assert_eq!(needed(&[job(ring(), 0), job(ring(), 1)], 8), one + counters);
        assert!(needed(&[job(ring(), 0), job(ring(), 0)], 8) > one + counters + STACK_BYTES as u64);
    }

    #[test]
    fn a_synchronous_worker_has_one_buffer() {
        let ring = of_worker(&job(Engine::IoUring(Uring::default()), 0));
        let call = of_worker(&job(Engine::Psync(Psync::Plain), 0));
        assert_eq!(ring - call, 63 * (4096 + SLOT_BYTES));
    }
}
