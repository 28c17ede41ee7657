//! Traces: recorded, and replayed.

use crate::job::Job;
use crate::value::{KeyValue, path_list};
use fathom_model::{Dir, PerDir};

keys! { Replay;
    value("FILE") "write_iolog": "Record the job's I/Os in FILE, as a trace for read_iolog",
        "Begins after the ramp." => logging.trace = some_text();
    value("FILE[:FILE…]") "read_iolog": "Issue the I/Os of a trace: of write_iolog, or of blktrace",
        "At their times, as an open loop: iodepth is 128 by default. Waits of version 2 are in microseconds, after the one \
         before. Also reads version 1."
        => |job, v| job.read_iolog = path_list(v.text)?;
    any "read_iolog_chunked": "Read the trace while it is replayed", "No effect: it is read before."
        = super::accept_flag;
    any "replay_no_stall": "Issue I/Os as fast as the queue allows, not at their times" -> replaying.no_stall;
    value("PERCENT") "replay_time_scale": "Replay at this percentage of the recorded speed: 200 is twice as fast"
        => replaying.time_scale = count(1, 1_000_000);
    value("PATH") "replay_redirect": "Replay all I/Os on this file or device" => replaying.redirect = some_text();
    value("SIZE") "replay_align": "Round offsets down to a multiple of SIZE, a power of two",
        "Lengths are rounded up." = align;
    value("N") "replay_scale": "Divide offsets by N" => replaying.scale = count(1, u64::MAX);
    value("LIST") "replay_skip": "Leave out: read, write, trim, sync" = skip;
    value("FILE") "merge_blktrace_file": "Merge traces of blktrace into FILE, in the order of time, and replay that",
        "An existing FILE is replaced if the command line names it, or if fathom wrote it." => replaying.merge = some_text();
    value("PERCENT[:PERCENT…]") "merge_blktrace_scalars": "Percentage of the time of each trace to merge"
        => |job, v| job.replaying.merge_scalars = numbers(v)?;
    value("N[:N…]") "merge_blktrace_iters": "Repetitions of each trace to merge"
        => |job, v| job.replaying.merge_iterations = numbers(v)?;
}

fn align(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let bytes = v.bytes()?;
    if bytes > 0 && !bytes.is_power_of_two() {
        return Err(format!("{bytes} is no power of two; use 4096, for example"));
    }
    job.replaying.align = bytes;
    Ok(())
}

fn skip(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (mut skip, mut flushes) = (PerDir::default(), false);
    for word in v.text.split(',') {
        let dirs =
            [("read", Some(Dir::Read)), ("write", Some(Dir::Write)), ("trim", Some(Dir::Trim))];
        match v.with(word.trim()).choice(&[&dirs[..], &[("sync", None)]].concat())? {
            Some(dir) => skip[dir] = true,
            None => flushes = true,
        }
    }
    (job.replaying.skip, job.replaying.skip_flushes) = (skip, flushes);
    Ok(())
}

/// Whole numbers, also written as fio writes them (`50.0`), separated by `:`.
fn numbers(v: KeyValue<'_>) -> Result<Vec<u64>, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|n| (1.0..1e6).contains(n));
        number.map(|n| n as u64).ok_or_else(|| format!("invalid number '{text}'; use 1 or more"))
    };
    v.text.split(':').map(number).collect()
}
