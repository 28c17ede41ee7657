//! Buffer contents, flushes, and tolerated errors.

use super::Key;
use crate::job::JobSpec;
use crate::value::{KeyValue, errno, pattern};
use fathom_model::PerDir;
use fathom_model::plan::{Fill, SyncIo};

pub(super) const KEYS: &[Key] = &[
    Key::flag("zero_buffers", "Fill buffers with zeroes", |job, v| {
        job.plan.buffers.fill = if v.flag()? { Fill::Zero } else { Fill::Random };
        Ok(())
    }),
    Key::flag("refill_buffers", "Refill the buffer with random data for every write", |job, v| {
        job.plan.buffers.refill = v.flag()?;
        Ok(())
    }),
    Key::flag("scramble_buffers", "Slightly change the buffer for every write", |job, v| {
        job.plan.buffers.repeat = !v.flag()?;
        Ok(())
    }),
    Key::value("buffer_pattern", "BYTES", "Fill buffers with this repeating pattern", |job, v| {
        job.plan.buffers.fill = Fill::Pattern(pattern(v.text)?);
        Ok(())
    })
    .differs("Reading the pattern from a file is not supported."),
    Key::value(
        "buffer_compress_percentage",
        "PERCENT",
        "Percentage by which buffer contents can be compressed",
        |job, v| {
            match v.percent()? {
                100 => (job.plan.buffers.fill, job.plan.buffers.compress_percent) = (Fill::Zero, 0),
                0 => job.plan.buffers.compress_percent = 0,
                percent => {
                    job.plan.buffers.compress_percent = percent;
                    job.plan.buffers.refill = true;
                }
            }
            Ok(())
        },
    ),
    Key::value(
        "buffer_compress_chunk",
        "SIZE",
        "Length of which that percentage can be compressed",
        |job, v| {
            job.plan.buffers.compress_chunk = v.count32(0, 1 << 30)?;
            Ok(())
        },
    )
    .differs("By default a page, not the block size."),
    Key::value(
        "dedupe_percentage",
        "PERCENT",
        "Percentage of identical buffers among the writes",
        |job, v| {
            job.dedupe.percent = v.percent()?;
            job.plan.buffers.refill |= job.dedupe.percent > 0;
            Ok(())
        },
    ),
    Key::value(
        "dedupe_mode",
        "repeat|working_set",
        "Identical to which: the previous unique buffer, or any of a working set",
        |job, v| {
            job.dedupe.from_set = v.choice(&[("repeat", false), ("working_set", true)])?;
            Ok(())
        },
    ),
    Key::value(
        "dedupe_working_set_percentage",
        "PERCENT",
        "Size of the working set, in percent of the job's size",
        |job, v| {
            job.dedupe.set_percent = v.percent()?;
            Ok(())
        },
    ),
    Key::flag("dedupe_global", "Use one working set for all jobs", |job, v| {
        job.dedupe.global = v.flag()?;
        Ok(())
    }),
    Key::value("fsync", "N", "Call fsync after every N writes", |job, v| {
        job.plan.sync.fsync_every = v.count32(0, u32::MAX)?;
        Ok(())
    }),
    Key::value("fdatasync", "N", "Call fdatasync after every N writes", |job, v| {
        job.plan.sync.fdatasync_every = v.count32(0, u32::MAX)?;
        Ok(())
    }),
    Key::flag("end_fsync", "Call fsync at the end of the job", |job, v| {
        job.plan.sync.at_end = v.flag()?;
        Ok(())
    }),
    Key::flag("fsync_on_close", "Call fsync when closing a file", |job, v| {
        job.plan.sync.on_close = v.flag()?;
        Ok(())
    }),
    Key::value(
        "sync",
        "KIND",
        "Synchronous writes: none, sync (O_SYNC) or dsync (O_DSYNC)",
        |job, v| {
            job.plan.sync_io = v.choice(&[
                ("none", SyncIo::None),
                ("sync", SyncIo::Sync),
                ("dsync", SyncIo::Dsync),
                ("0", SyncIo::None),
                ("1", SyncIo::Sync),
            ])?;
            Ok(())
        },
    ),
    Key::value(
        "continue_on_error",
        "KIND",
        "Continue after I/O errors: none, read, write, io or all",
        |job, v| {
            let (read, write) = v.choice(&[
                ("none", (false, false)),
                ("read", (true, false)),
                ("write", (false, true)),
                ("io", (true, true)),
                ("all", (true, true)),
                ("0", (false, false)),
                ("1", (true, true)),
            ])?;
            job.plan.on_error.keep_going = PerDir { read, write, trim: write };
            Ok(())
        },
    )
    .differs("The setting for writes also applies to trims."),
    Key::value(
        "ignore_error",
        "LIST[,LIST]",
        "Errors of reads,writes to ignore, such as EIO:28",
        ignore,
    )
    .differs("The list for writes also applies to trims; a list for verification is refused."),
];

fn ignore(job: &mut JobSpec, v: KeyValue<'_>) -> Result<(), String> {
    let mut lists = v
        .text
        .split(',')
        .map(|list| list.split(':').map(str::trim).filter(|e| !e.is_empty()).map(errno).collect());
    let mut next = || lists.next().unwrap_or(Ok(Vec::new()));
    let (read, write): (Vec<i32>, Vec<i32>) = (next()?, next()?);
    if !next()?.is_empty() {
        return Err(
            "verification is not supported yet, so its errors cannot be ignored; remove the third list".into()
        );
    }
    job.plan.on_error.ignore = PerDir { read, trim: write.clone(), write };
    Ok(())
}
