//! Files and devices.

use super::{Key, accept_flag};
use crate::job::JobSpec;
use crate::value::{KeyValue, path_list};
use fathom_model::plan::{Advice, Fallocate, FileService, WriteLife};

pub(super) const KEYS: &[Key] = &[
    Key::value("filename", "PATH[:PATH…]", "Files or devices to use", |job, v| {
        job.files.filename = path_list(v.text)?;
        if job.files.filename.iter().any(|path| path == "-") {
            return Err("'-' (standard input or output) is not supported as a target; name a file or device".into());
        }
        Ok(())
    })
    .differs(
        "Must not leave `directory`, if set. Writing to an existing target needs `--overwrite=` or `--erase=`.",
    ),
    Key::value("directory", "PATH[:PATH…]", "Directories for files, assigned to clones round-robin", |job, v| {
        job.files.directory = path_list(v.text)?;
        Ok(())
    }),
    Key::value("filename_format", "TEXT", "Format of file names, with $jobname, $jobnum, $filenum", format)
        .differs("`$clientuid` is refused, since fathom has no clients."),
    Key::flag("unique_filename", "No effect: there are no clients", accept_flag)
        .differs("No effect: fathom has no clients."),
    Key::value("nrfiles", "COUNT", "Number of files per clone", |job, v| {
        job.files.count = v.count32(1, 65_536)?;
        Ok(())
    })
    .aliases(&["nr_files"]),
    Key::value("openfiles", "COUNT", "Number of files to keep open at once", |job, v| {
        job.plan.open_files = Some(v.count32(1, 65_536)?);
        Ok(())
    })
    .differs("Limits the files in use at once, but all of them stay open."),
    Key::value("size", "SIZE|N%", "Total size of all files of a clone", |job, v| {
        job.files.size = Some(v.size_or_any_percent()?);
        Ok(())
    })
    .differs("An error if it exceeds the end of a device."),
    Key::value("filesize", "SIZE[-SIZE]|100%", "Size of each file; 100% is all of an existing target", file_size),
    Key::value("offset", "SIZE|N%", "Offset in each file at which I/O starts", |job, v| {
        job.files.offset = v.size_or_percent()?;
        Ok(())
    })
    .aliases(&["fileoffset"]),
    Key::value("offset_increment", "SIZE|N%", "Offset added for each clone", |job, v| {
        job.files.offset_increment = v.size_or_percent()?;
        Ok(())
    }),
    Key::value("offset_align", "SIZE", "Alignment to which a percentage offset is rounded up", |job, v| {
        job.files.offset_align = Some(v.size()?);
        Ok(())
    }),
    Key::flag("file_append", "Start at the end of each existing file; devices are not affected", |job, v| {
        job.files.append = v.flag()?;
        Ok(())
    })
    .differs("The file is extended before the job starts, which needs `--overwrite=`, and keeps its data even if the job reads."),
    Key::value("fallocate", "KIND", "How to preallocate new files: none, native, posix, keep or truncate", |job, v| {
        job.files.fallocate = v.choice(&[
            ("none", Fallocate::None),
            ("native", Fallocate::Native),
            ("posix", Fallocate::Posix),
            ("keep", Fallocate::Keep),
            ("truncate", Fallocate::Truncate),
            ("0", Fallocate::None),
            ("1", Fallocate::Posix),
        ])?;
        Ok(())
    }),
    Key::value("file_service_type", "KIND[:N]", "How to select the next file, and after how many I/Os: roundrobin, random or sequential", service)
        .differs("zipf, pareto and normal are refused."),
    Key::flag("create_on_open", "Create files when the job opens them", |job, v| {
        job.files.create_on_open = v.flag()?;
        Ok(())
    }),
    Key::flag("create_only", "Lay out files, then stop", |job, v| {
        job.files.create_only = v.flag()?;
        Ok(())
    }),
    Key::flag("create_serialize", "No effect: files are laid out one at a time", accept_flag)
        .differs("No effect: files are always laid out one at a time."),
    Key::flag("create_fsync", "Call fsync on files after laying them out", accept_flag)
        .differs("No effect: files are always flushed after layout."),
    Key::flag("allow_file_create", "Create missing files", |job, v| {
        job.files.allow_create = v.flag()?;
        Ok(())
    }),
    Key::flag("overwrite", "Lay out files before writing to them", |job, v| {
        job.files.overwrite = v.flag().map_err(|why| {
            format!("{why}; to permit writing to an existing file, use --overwrite=PATH on the command line")
        })?;
        Ok(())
    })
    .differs("On the command line, any value but 0 and 1 is the path of an existing file that may be written."),
    Key::flag("unlink", "Remove files after the job ends", |job, v| {
        job.files.unlink = v.flag()?;
        Ok(())
    })
    .differs("Removes only files that this run created."),
    Key::flag("unlink_each_loop", "Remove files between the passes of `loops`; has no effect on those of `time_based`", |job, v| {
        job.files.unlink_each_loop = v.flag()?;
        Ok(())
    })
    .differs("Frees the blocks that the job uses in files that this run created; the files remain, and other files keep their data. An error for jobs that read."),
    Key::flag("invalidate", "Invalidate the page cache of the files before the job starts", |job, v| {
        job.files.invalidate = v.flag()?;
        Ok(())
    }),
    Key::flag("pre_read", "Read the files into the page cache before the job starts; implies invalidate=0", |job, v| {
        job.plan.pre_read = v.flag()?;
        Ok(())
    })
    .differs("Only jobs that read do so; an error with direct I/O, which bypasses the page cache."),
    Key::value("fadvise_hint", "KIND", "Access hint for the kernel (fadvise): 0 (none), 1 (from the I/O pattern), random, sequential or noreuse", |job, v| {
        job.files.advice = v.choice(&[
            ("0", Some(Advice::None)),
            ("1", None),
            ("random", Some(Advice::Random)),
            ("sequential", Some(Advice::Sequential)),
            ("noreuse", Some(Advice::NoReuse)),
        ])?;
        Ok(())
    }),
    Key::value("write_hint", "LIFE", "Expected lifetime of the data in the file or device: none, short, medium, long or extreme", |job, v| {
        job.plan.write_life = Some(v.choice(&[
            ("none", WriteLife::None),
            ("short", WriteLife::Short),
            ("medium", WriteLife::Medium),
            ("long", WriteLife::Long),
            ("extreme", WriteLife::Extreme),
        ])?);
        Ok(())
    }),
];

fn format(job: &mut JobSpec, v: KeyValue<'_>) -> Result<(), String> {
    if v.text.to_ascii_lowercase().contains("$clientuid") {
        return Err("$clientuid is not supported, since fathom has no clients; remove it".into());
    }
    job.files.format = v.text.to_string();
    Ok(())
}

fn file_size(job: &mut JobSpec, v: KeyValue<'_>) -> Result<(), String> {
    if let Some(percent) = v.text.strip_suffix('%') {
        // Any size is in this range, so that no target changes.
        job.files.file_size = Some((0, u64::MAX));
        return match percent.trim_end() {
            "100" => Ok(()),
            _ => Err(format!("'{}' is not supported; use 100%, or size={}", v.text, v.text)),
        };
    }
    let (low, high) = v.text.split_once(['-', ',']).unwrap_or((v.text, v.text));
    let (low, high) = (v.with(low.trim()).size()?, v.with(high.trim()).size()?);
    if low > high {
        return Err(format!(
            "invalid range '{}': the lower bound exceeds the upper; swap them",
            v.text
        ));
    }
    job.files.file_size = Some((low, high));
    Ok(())
}

fn service(job: &mut JobSpec, v: KeyValue<'_>) -> Result<(), String> {
    let (kind, count) = v.text.split_once(':').unwrap_or((v.text, "1"));
    if ["zipf", "pareto", "normal", "gauss"].contains(&kind) {
        return Err(format!("'{kind}' is not supported; use random, roundrobin or sequential"));
    }
    job.plan.file_service = v.with(kind).choice(&[
        ("roundrobin", FileService::RoundRobin),
        ("random", FileService::Random),
        ("sequential", FileService::Sequential),
    ])?;
    // Sequential stays with a file to its end.
    job.plan.file_service_ios = v.with(count).count32(1, u32::MAX)?;
    Ok(())
}
