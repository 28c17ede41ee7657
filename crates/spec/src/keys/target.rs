//! Files and devices.

use super::accept_flag;
use crate::job::Job;
use crate::value::{KeyValue, path_list};
use fathom_model::plan::{Advice, Engine, Fallocate, FileService, WriteLife};

keys! { Target;
    value("PATH[:PATH…]") "filename": "Files or devices to use",
        "Must not leave `directory`, if set. Writing to an existing target needs `--overwrite=` or `--erase=`."
        = |job, v| {
            job.filename = path_list(v.text)?;
            if job.filename.iter().any(|path| path == "-") {
                return Err("'-' (standard input or output) is not supported as a target; name a file or device".into());
            }
            Ok(())
        };
    value("PATH[:PATH…]") "directory": "Directories for files, assigned to clones round-robin"
        => |job, v| job.directory = path_list(v.text)?;
    value("DIR") "opendir": "Directory of whose files, and of those below, all are used",
        "At most a million. Symbolic links and special files are left out, and without `size` empty files."
        => |job, v| job.opendir.push(v.text.to_string());
    value("TEXT") "filename_format": "Format of file names, with $jobname, $jobnum, $filenum",
        "`$clientuid` is refused, since fathom has no clients." = format;
    flag "unique_filename": "No effect: there are no clients", "No effect: fathom has no clients." = accept_flag;
    value("COUNT") "nrfiles" | "nr_files": "Number of files per clone"
        => nrfiles = count32(1, 65_536);
    value("COUNT") "openfiles": "Number of files to keep open at once",
        "Limits the files in use at once, but all of them stay open."
        => |job, v| job.open_files = Some(v.count32(0, 65_536)?).filter(|most| *most > 0);
    value("SIZE|N%") "size": "Total size of all files of a clone", "An error if it exceeds the end of a device."
        => |job, v| job.size = Some(v.size_or_any_percent()?);
    value("SIZE[-SIZE]|100%") "filesize": "Size of each file; 100% is all of an existing target" = file_size;
    value("SIZE|N%") "offset" | "fileoffset": "Offset in each file at which I/O starts"
        => offset = size_or_percent();
    value("SIZE|N%") "offset_increment": "Offset added for each clone"
        => offset_increment = size_or_percent();
    value("SIZE") "offset_align": "Alignment to which a percentage offset is rounded up"
        => |job, v| job.offset_align = if v.text == "0" { None } else { Some(v.size()?) };
    flag "file_append": "Start at the end of each existing file; devices are not affected",
        "The file is extended before the job starts, which needs `--overwrite=`, and keeps its data even if the job \
         reads."
        @(e if *e != Engine::Mmap) -> file_append;
    value("KIND") "fallocate": "How to preallocate new files: none, native, posix, keep or truncate"
        => target.fallocate = choice(&[
            ("none", Fallocate::None), ("native", Fallocate::Native), ("posix", Fallocate::Posix),
            ("keep", Fallocate::Keep), ("truncate", Fallocate::Truncate), ("0", Fallocate::None),
            ("1", Fallocate::Posix)
        ]);
    value("KIND[:N]") "file_service_type": "How to select the next file, and after how many I/Os: roundrobin, random \
         or sequential",
        "zipf, pareto and normal are refused." = service;
    flag "create_on_open": "Create files when the job opens them" -> target.create_on_open;
    flag "create_only": "Lay out files, then stop" -> create_only;
    flag "create_serialize": "No effect: files are laid out one at a time",
        "No effect: files are always laid out one at a time." = accept_flag;
    flag "create_fsync": "Call fsync on files after laying them out",
        "No effect: files are always flushed after layout." = accept_flag;
    flag "allow_file_create": "Create missing files" -> allow_file_create;
    flag "overwrite": "Lay out files before writing to them",
        "On the command line, any value but 0 and 1 is the path of an existing file that may be written."
        => |job, v| job.target.fill = v.flag().map_err(|why| {
            format!("{why}; to permit writing to an existing file, use --overwrite=PATH on the command line")
        })?;
    flag "unlink": "Remove files after the job ends", "Removes only files that this run created." -> target.unlink;
    flag "unlink_each_loop": "Remove files between the passes of `loops`; has no effect on those of `time_based`",
        "Frees the blocks that the job uses in files that this run created; the files remain, and other files keep \
         their data. An error for jobs that read."
        @(e if e.moves_data()) -> unlink_each_loop;
    flag "invalidate": "Invalidate the page cache of the files before the job starts" -> invalidate;
    flag "pre_read": "Read the files into the page cache before the job starts; implies invalidate=0",
        "Only jobs that read do so; an error with direct I/O, which bypasses the page cache."
        @(e if !e.is_passthrough()) -> pre_read;
    value("KIND") "fadvise_hint": "Access hint for the kernel (fadvise): 0 (none), 1 (from the I/O pattern), random, \
         sequential or noreuse"
        => fadvise_hint = choice(&[
            ("0", Some(Advice::None)), ("1", None), ("random", Some(Advice::Random)),
            ("sequential", Some(Advice::Sequential)), ("noreuse", Some(Advice::NoReuse))
        ]);
    value("LIFE") "write_hint": "Expected lifetime of the data in the file or device: none, short, medium, long or \
         extreme"
        => |job, v| job.write_life = Some(v.choice(&[
            ("none", WriteLife::None), ("short", WriteLife::Short), ("medium", WriteLife::Medium),
            ("long", WriteLife::Long), ("extreme", WriteLife::Extreme)
            ])?);
}

fn format(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    if v.text.to_ascii_lowercase().contains("$clientuid") {
        return Err("$clientuid is not supported, since fathom has no clients; remove it".into());
    }
    job.filename_format = v.text.to_string();
    Ok(())
}

fn file_size(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    if let Some(percent) = v.text.strip_suffix('%') {
        // Any size is in this range, so that no target changes.
        job.filesize = Some((0, u64::MAX));
        return match percent.trim_end() {
            "100" => Ok(()),
            _ => Err(format!("'{}' is not supported; use 100%, or size={}", v.text, v.text)),
        };
    }
    job.filesize = Some(v.range(&['-', ','], KeyValue::size)?);
    Ok(())
}

fn service(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (kind, count) = v.text.split_once(':').unwrap_or((v.text, "1"));
    if ["zipf", "pareto", "normal", "gauss"].contains(&kind) {
        return Err(format!("'{kind}' is not supported; use random, roundrobin or sequential"));
    }
    job.file_service = v.with(kind).choice(&[
        ("roundrobin", FileService::RoundRobin),
        ("random", FileService::Random),
        ("sequential", FileService::Sequential),
    ])?;
    // Sequential stays with a file to its end.
    job.file_service_ios = v.with(count).count32(1, u32::MAX)?;
    Ok(())
}
