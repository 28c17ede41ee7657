//! Buffer contents, flushes, and tolerated errors.

use crate::job::Job;
use crate::value::{KeyValue, errno, pattern};
use fathom_model::PerDir;
use fathom_model::plan::{Fill, RangeSync, SyncIo};

keys! { Data;
    any "zero_buffers": "Fill buffers with zeroes"
        => |job, v| job.buffers.fill = if v.flag()? { Fill::Zero } else { Fill::Random };
    any "refill_buffers": "Refill the buffer with random data for every write" -> buffers.refill;
    flag "scramble_buffers": "Slightly change the buffer for every write"
        => |job, v| job.buffers.repeat = !v.flag()?;
    value("BYTES") "buffer_pattern": "Fill buffers with this repeating pattern",
        "A pattern, with the files in it, has at most 1 MiB."
        => |job, v| job.buffers.fill = Fill::Pattern(pattern(v.text)?);
    value("PERCENT") "buffer_compress_percentage": "Percentage by which buffer contents can be compressed"
        = |job, v| {
            match v.percent()? {
                100 => (job.buffers.fill, job.buffers.compress_percent) = (Fill::Zero, 0),
                0 => job.buffers.compress_percent = 0,
                percent => {
                    job.buffers.compress_percent = percent;
                    job.buffers.refill = true;
                }
            }
            Ok(())
        };
    value("SIZE") "buffer_compress_chunk": "Length of which that percentage can be compressed",
        "By default a page, not the block size." => buffers.compress_chunk = count32(0, 1 << 30);
    value("PERCENT") "dedupe_percentage": "Percentage of identical buffers among the writes" => |job, v| {
            job.duplicates.percent = v.percent()?;
            job.buffers.refill |= job.duplicates.percent > 0;
        };
    value("repeat|working_set") "dedupe_mode": "Identical to which: the previous unique buffer, or any of a working set"
        => duplicates.working_set = choice(&[("repeat", None), ("working_set", Some(1))]);
    value("PERCENT") "dedupe_working_set_percentage": "Size of the working set, in percent of the job's size"
        => dedupe_working_set_percentage = percent();
    flag "dedupe_global": "Use one working set for all jobs" -> duplicates.global;
    value("N") "fsync": "Call fsync after every N writes"
        @(e if e.moves_data()) => sync.fsync_every = count32(0, u32::MAX);
    value("N") "fdatasync": "Call fdatasync after every N writes"
        @(e if e.moves_data()) => sync.fdatasync_every = count32(0, u32::MAX);
    value("KIND[,KIND]:N") "sync_file_range": "Call sync_file_range after every N writes: wait_before, write or wait_after, or \
         several"
        @(e if e.moves_data()) = sync_file_range;
    flag "end_fsync": "Call fsync at the end of the job"
        @(e if e.moves_data()) -> sync.at_end;
    flag "fsync_on_close": "Call fsync when closing a file"
        @(e if e.moves_data()) -> sync.on_close;
    value("KIND") "sync": "Synchronous writes: none, sync (O_SYNC) or dsync (O_DSYNC)"
        @(e if e.moves_data()) => sync_io = choice(&[
            ("none", SyncIo::None), ("sync", SyncIo::Sync), ("dsync", SyncIo::Dsync), ("0", SyncIo::None),
            ("1", SyncIo::Sync)
        ]);
    value("KIND") "continue_on_error": "Continue after errors: none, read, write, io, verify or all",
        "The setting for writes also applies to trims." => |job, v| {
            let (read, write, verify) = v.choice(&[
                ("none", (false, false, false)), ("read", (true, false, false)), ("write", (false, true, false)),
                ("io", (true, true, false)), ("verify", (false, false, true)), ("all", (true, true, true)),
                ("0", (false, false, false)), ("1", (true, true, true))
            ])?;
            job.verification.keep_going = verify;
            job.on_error.keep_going = PerDir { read, write, trim: write };
        };
    value("LIST[,LIST]") "ignore_error": "Errors of reads,writes to ignore, such as EIO:28",
        "The list for writes also applies to trims; of the third, for verification, only EILSEQ has an effect." = ignore;
}

fn sync_file_range(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (kinds, every) = v.text.split_once(':').unwrap_or((v.text, "1"));
    // SYNC_FILE_RANGE_* of linux/fs.h.
    let flag = |kind| v.with(kind).choice(&[("wait_before", 1), ("write", 2), ("wait_after", 4)]);
    let flags = kinds
        .split(',')
        .map(str::trim)
        .map(flag)
        .try_fold(0, |all, flag| Ok::<_, String>(all | flag?));
    job.sync.range = match v.text {
        "0" => None,
        _ => Some(RangeSync { flags: flags?, every: v.with(every).count32(1, u32::MAX)? }),
    };
    Ok(())
}

/// What wrong data counts as.
const EILSEQ: i32 = 84;

fn ignore(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let mut lists = v
        .text
        .split(',')
        .map(|list| list.split(':').map(str::trim).filter(|e| !e.is_empty()).map(errno).collect());
    let mut next = || lists.next().unwrap_or(Ok(Vec::new()));
    let (read, write): (Vec<i32>, Vec<i32>) = (next()?, next()?);
    job.verification.keep_going |= next()?.contains(&EILSEQ);
    job.on_error.ignore = PerDir { read, trim: write.clone(), write };
    Ok(())
}
