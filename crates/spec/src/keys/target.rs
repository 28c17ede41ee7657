//! What is worked on.

use super::{Key, accept_flag};
use crate::job::JobSpec;
use crate::value::{Value, path_list};
use fathom_model::plan::{Fallocate, FileService};

pub(super) const KEYS: &[Key] = &[
    Key::value("filename", "PATH[:PATH…]", "Files or devices to work on", |job, v| {
        job.files.filename = path_list(v.text)?;
        if job.files.filename.iter().any(|path| path == "-") {
            return Err("'-' (standard input or output) is no target here; name a file".into());
        }
        Ok(())
    })
    .differs(
        "Stays within `directory` where that is given. Writing to it needs `--overwrite=` or `--erase=`.",
    ),
    Key::value("directory", "PATH[:PATH…]", "Where files are made; clones take turns", |job, v| {
        job.files.directory = path_list(v.text)?;
        Ok(())
    }),
    Key::value("filename_format", "TEXT", "Names of files, with $jobname, $jobnum, $filenum", format)
        .differs("`$clientuid` is refused: there are no clients."),
    Key::flag("unique_filename", "Names differ between clients", accept_flag)
        .differs("Changes nothing: there are no clients."),
    Key::value("nrfiles", "COUNT", "Files of each clone", |job, v| {
        job.files.count = v.count32(1, 65_536)?;
        Ok(())
    })
    .aliases(&["nr_files"]),
    Key::value("openfiles", "COUNT", "Files open at once", |job, v| {
        job.files.open_max = Some(v.count32(1, 65_536)?);
        Ok(())
    })
    .differs("All files of a job stay open; a smaller number is refused."),
    Key::value("size", "SIZE|N%", "Bytes of all files of a clone together", |job, v| {
        job.files.size = Some(v.size_or_percent()?);
        Ok(())
    })
    .differs("Beyond the end of a device it is an error."),
    Key::value("filesize", "SIZE[-SIZE]", "Size of each file", file_size),
    Key::value("offset", "SIZE|N%", "Where in each file the job begins", |job, v| {
        job.files.offset = v.size_or_percent()?;
        Ok(())
    })
    .aliases(&["fileoffset"]),
    Key::value("offset_increment", "SIZE|N%", "Added to the offset for each clone", |job, v| {
        job.files.offset_increment = v.size_or_percent()?;
        Ok(())
    }),
    Key::value("offset_align", "SIZE", "Round a percentage offset up to a multiple", |job, v| {
        job.files.offset_align = Some(v.size()?);
        Ok(())
    }),
    Key::value("fallocate", "KIND", "How space for new files is reserved", |job, v| {
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
    Key::value("file_service_type", "KIND", "How the next of several files is picked", service)
        .differs("A number of I/Os per file (`:N`), zipf, pareto and normal are refused."),
    Key::flag("create_on_open", "Make files when the job opens them", |job, v| {
        job.files.create_on_open = v.flag()?;
        Ok(())
    }),
    Key::flag("create_only", "Lay files out and stop", |job, v| {
        job.files.create_only = v.flag()?;
        Ok(())
    }),
    Key::flag("create_serialize", "Lay files out one job at a time", accept_flag)
        .differs("Changes nothing: files are always laid out one after the other."),
    Key::flag("create_fsync", "Flush files that were laid out", accept_flag)
        .differs("Changes nothing: what was laid out is always flushed."),
    Key::flag("allow_file_create", "Make files that are missing", |job, v| {
        job.files.allow_create = v.flag()?;
        Ok(())
    }),
    Key::flag("overwrite", "Lay out files before they are written", |job, v| {
        job.files.overwrite = v.flag().map_err(|why| {
            format!("{why}; permission to write to a file is given on the command line only")
        })?;
        Ok(())
    })
    .differs("On the command line any value but 0 and 1 is a path: the permission to write to it."),
    Key::flag("unlink", "Remove files at the end", |job, v| {
        job.files.unlink = v.flag()?;
        Ok(())
    })
    .differs("Removes only files that this run made."),
    Key::flag("invalidate", "Drop the files' pages from the page cache first", |job, v| {
        job.files.invalidate = v.flag()?;
        Ok(())
    }),
];

fn format(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    if v.text.to_ascii_lowercase().contains("$clientuid") {
        return Err("$clientuid has no meaning: there are no clients".into());
    }
    job.files.format = v.text.to_string();
    Ok(())
}

fn file_size(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    let (low, high) = v.text.split_once(['-', ',']).unwrap_or((v.text, v.text));
    let (low, high) = (v.with(low.trim()).size()?, v.with(high.trim()).size()?);
    if low > high {
        return Err(format!("'{}' goes backwards", v.text));
    }
    job.files.file_size = Some((low, high));
    Ok(())
}

fn service(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    let (kind, count) = v.text.split_once(':').unwrap_or((v.text, "1"));
    if ["zipf", "pareto", "normal", "gauss"].contains(&kind) {
        return Err(format!("'{kind}' is not there; use random, roundrobin or sequential"));
    }
    job.files.service = v.with(kind).choice(&[
        ("roundrobin", FileService::RoundRobin),
        ("random", FileService::Random),
        ("sequential", FileService::Sequential),
    ])?;
    if count != "1" && job.files.service != FileService::Sequential {
        return Err(format!("'{}': the file changes after every I/O; leave out :{count}", v.text));
    }
    Ok(())
}
