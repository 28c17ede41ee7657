//! What is written, when it is flushed, and which errors are borne.

use super::Key;
use crate::job::JobSpec;
use crate::value::{Value, errno, pattern};
use fathom_model::PerDir;
use fathom_model::plan::{Fill, SyncIo};

pub(super) const KEYS: &[Key] = &[
    Key::flag("zero_buffers", "Write zeroes", |job, v| {
        job.buffers.fill = if v.flag()? { Fill::Zero } else { Fill::Random };
        Ok(())
    }),
    Key::flag("refill_buffers", "Make the contents anew for every write", |job, v| {
        job.buffers.refill = v.flag()?;
        Ok(())
    }),
    Key::flag("scramble_buffers", "Change a little of the contents for every write", |job, v| {
        job.buffers.repeat = !v.flag()?;
        Ok(())
    }),
    Key::value("buffer_pattern", "BYTES", "Write these bytes over and over", |job, v| {
        job.buffers.fill = Fill::Pattern(pattern(v.text)?);
        Ok(())
    })
    .differs("A pattern from a file is refused."),
    Key::value("buffer_compress_percentage", "PERCENT", "Share that compresses away", |job, v| {
        match v.count32(0, 100)? {
            100 => (job.buffers.fill, job.buffers.compress_percent) = (Fill::Zero, 0),
            0 => job.buffers.compress_percent = 0,
            percent => {
                job.buffers.compress_percent = percent;
                job.buffers.refill = true;
            }
        }
        Ok(())
    }),
    Key::value("dedupe_percentage", "0", "Share of identical buffers", |_, v| match v.text {
        "0" => Ok(()),
        _ => {
            Err("only 0 is there; refill_buffers=1 writes no two alike, without it all are".into())
        }
    })
    .differs("Only 0."),
    Key::value("fsync", "N", "fsync after this many writes", |job, v| {
        job.sync.fsync_every = v.count32(0, u32::MAX)?;
        Ok(())
    }),
    Key::value("fdatasync", "N", "fdatasync after this many writes", |job, v| {
        job.sync.fdatasync_every = v.count32(0, u32::MAX)?;
        Ok(())
    }),
    Key::flag("end_fsync", "fsync at the end of the job", |job, v| {
        job.sync.at_end = v.flag()?;
        Ok(())
    }),
    Key::flag("fsync_on_close", "fsync when a file is closed", |job, v| {
        job.sync.on_close = v.flag()?;
        Ok(())
    }),
    Key::value("sync", "KIND", "none, sync (O_SYNC) or dsync (O_DSYNC)", |job, v| {
        job.sync_io = v.choice(&[
            ("none", SyncIo::None),
            ("sync", SyncIo::Sync),
            ("dsync", SyncIo::Dsync),
            ("0", SyncIo::None),
            ("1", SyncIo::Sync),
        ])?;
        Ok(())
    }),
    Key::value(
        "continue_on_error",
        "KIND",
        "Go on after errors: none, read, write, io or all",
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
            job.on_error.keep_going = PerDir { read, write, trim: write };
            Ok(())
        },
    )
    .differs("Trims go with writes."),
    Key::value(
        "ignore_error",
        "LIST[,LIST]",
        "Errors of reads,writes that are no failure: EIO:28",
        ignore,
    )
    .differs("Trims go with writes; a list for verification is refused."),
];

fn ignore(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    let mut lists = v
        .text
        .split(',')
        .map(|list| list.split(':').map(str::trim).filter(|e| !e.is_empty()).map(errno).collect());
    let mut next = || lists.next().unwrap_or(Ok(Vec::new()));
    let (read, write): (Vec<i32>, Vec<i32>) = (next()?, next()?);
    if !next()?.is_empty() {
        return Err(
            "errors of verification cannot be ignored: verification is not supported yet".into()
        );
    }
    job.on_error.ignore = PerDir { read, trim: write.clone(), write };
    Ok(())
}
