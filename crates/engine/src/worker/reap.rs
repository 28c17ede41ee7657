//! Counts completions. Hot: runs once per I/O.

use super::batches::Batches;
use super::{Core, Worker};
use crate::queue::Queue;
use crate::source::Source;
use crate::stats::Stats;
use crate::token::{Tag, Token};

/// Successive successes with the same batch and direction, counted together.
struct TagRun {
    tag: Tag,
    /// Position of their first slot among the free slots.
    from: *mut u32,
    /// Their bytes, unless the job has a fixed I/O size.
    bytes: u64,
}

impl<Q: Queue, S: Source> Worker<'_, Q, S> {
    /// Reaps available completions; returns how many I/Os they ended.
    #[inline]
    pub(super) fn reap(&mut self) -> u32 {
        let Self { core, queue, source } = self;
        let (now_ns, stats, before) = (core.now_ns, core.stats, core.idle_len);
        let Core { slots, idle, exceptions, batches, .. } = core;
        // Slots are written behind the free ones as their I/Os complete, and counted when the tag changes:
        //
        //     idle: [ free before | counted | run.tag | not free ]
        //                         ^ start   ^ run.from ^ next
        //
        // Pointers: indices cost one more instruction per I/O.
        let start = idle[before..].as_mut_ptr();
        let mut next = start;
        let mut woken = 0;
        let len_fixed = source.len();
        let mut run = TagRun { tag: Tag::NONE, from: next, bytes: 0 };
        let mut flush_run = |run: &TagRun, to: *mut u32| {
            let ios = distance(run.from, to) as u64;
            if ios > 0 {
                let bytes = if S::FIXED { u64::from(len_fixed) * ios } else { run.bytes };
                count(stats, batches, now_ns, run.tag, ios, bytes);
            }
        };
        queue.reap(core.complete_max, |token, result| {
            let tag = token.tag();
            if tag != run.tag {
                if token == Token::WAKE {
                    woken += 1;
                    return;
                }
                if tag.is_slow_path() {
                    return exceptions.push((token, result));
                }
                flush_run(&run, next);
                run = TagRun { tag, from: next, bytes: 0 };
            }
            // SAFETY: queues return only slots that were pushed.
            let slot = || unsafe { slots.get_unchecked(token.slot() as usize) };
            let expect = if S::FIXED { len_fixed } else { slot().expect };
            if result as u32 != expect {
                return exceptions.push((token, result));
            }
            if !S::FIXED {
                run.bytes += u64::from(slot().len);
            }
            if S::FULL && slot().due_ns > 0 {
                let response = now_ns.saturating_sub(slot().due_ns);
                stats.dirs[tag.dir()].response.record_n(response, 1);
            }
            // SAFETY: `idle` has room for each slot, and this one was not free.
            next = unsafe {
                next.write(token.slot());
                next.add(1)
            };
        });
        flush_run(&run, next);
        let freed = distance(start, next);
        core.idle_len = before + freed;
        if S::FULL {
            core.observe_completed(before, queue);
            if core.writes.verifier.is_some() {
                core.verify_completed(before);
            }
            if core.zones.is_some() {
                core.leave_zones(before);
            }
        }
        let reaped = (freed + core.exceptions.len()) as u32;
        core.in_flight -= reaped;
        if reaped > 0 {
            core.depth.completed(reaped);
        }
        if woken > 0 {
            queue.woken(woken);
        }
        if !core.exceptions.is_empty() {
            core.handle_exceptions(queue);
        }
        reaped
    }
}

/// Elements from `from` to `to`, which must not precede it.
#[inline]
fn distance(from: *const u32, to: *const u32) -> usize {
    (to as usize - from as usize) / size_of::<u32>()
}

/// Counts `ios` I/Os of one batch and direction. Not inlined, to leave the registers to the loop over
/// completions.
#[inline(never)]
fn count(stats: &Stats, batches: &mut Batches, now_ns: u64, tag: Tag, ios: u64, bytes: u64) {
    let batch = batches.done(tag.batch(), ios as u32);
    let dir = &stats.dirs[tag.dir()];
    dir.ios.add(ios);
    dir.bytes.add(bytes);
    dir.clat.record_n(now_ns.saturating_sub(batch.submitted_ns), ios);
    dir.lat.record_n(now_ns.saturating_sub(batch.prepared_ns), ios);
}
