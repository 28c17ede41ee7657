//! Runs as one file, a compressed tar archive (`.tar.zst`), and back. An archive may come from anybody: nothing of it is
//! believed, and nothing of it remains unless all of it can be read as runs.

use crate::dir::{HeldDir, Readers, with_path};
use crate::read::Reader;
use crate::run_dir::{RunDir, TAGS, WINDOWS_MAX, state_dir};
use crate::runs::{DEFAULT_BYTES_MAX, TAG_FILE_MAX, is_active, started};
use crate::share::share;
use crate::stored::{RECORD_MAX, read_record};
use crate::time::stamp;
use fathom_model::units;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tar::{Archive, Builder, Header};

/// Unpacked size of an archive in bytes: what all runs of a user take by default.
/// A longer log would not fit into the memory of some machines.
const INFLATED_MAX: u64 = 256 << 20;
const BYTES_MAX: u64 = DEFAULT_BYTES_MAX;
/// Runs in an archive.
const RUNS_MAX: usize = 1000;
/// What the headers of an archive take at most, in bytes.
const HEADERS_MAX: u64 = 16 << 20;
/// zstd's default.
const LEVEL: i32 = 3;
/// Memory of the decoder as a power of two, in bytes; level 3 takes 2 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// A run directory with the name of its run.
pub(crate) type NamedRun = (String, HeldDir);

/// A run of an archive that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub name: String,
    /// In nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Whether it was not there already.
    pub is_new: bool,
}

/// The name of a file for the runs in `dirs`, such as `20261121-193600-4711.tar.zst`.
/// Fails if the first is not the directory of a run.
pub fn archive_name(dirs: &[PathBuf], shared: bool) -> Result<String, String> {
    let first = dirs.first().map_or_else(|| Ok("runs".into()), |dir| run_name(dir))?;
    let others = match dirs.len() {
        0 | 1 => String::new(),
        n => format!("-and-{}-more", n - 1),
    };
    Ok(format!("{first}{others}{}.tar.zst", if shared { "-shared" } else { "" }))
}

/// Writes the runs in the directories `dirs` to the archive `file` in `to`, and returns its size in bytes. An existing file is
/// replaced. With `is_shared`, what identifies the machine is replaced, and tags are left out.
/// Fails if one is not a run that has ended, they take more than 4 GiB, or the file cannot be written; then there is no new file.
pub fn export(
    dirs: &[PathBuf],
    is_shared: bool,
    to: &HeldDir,
    file: &OsStr,
) -> Result<u64, String> {
    let mut runs = named(dirs)?;
    let path = to.path().join(file);
    let failed = |error: io::Error| format!("cannot export to {}: {error}", path.display());
    let beside = is_shared.then(|| temporary(to.path())).transpose().map_err(failed)?;
    if let Some(beside) = &beside {
        let beside = HeldDir::open(beside.path()).map_err(failed)?;
        runs = share(&runs, &beside).map_err(failed)?;
        for (name, dir) in &runs {
            check(dir.path()).map_err(|why| format!("cannot share {name}: {why}"))?;
        }
    }
    let readers = if is_shared { Readers::Umask } else { Readers::Owner };
    let mut bytes = 0;
    let written = to.replace_with(file, readers, |file| {
        pack(&runs, file)?;
        bytes = file.metadata()?.len();
        Ok(())
    });
    written.map(|()| bytes).map_err(|e| format!("cannot export to {e}"))
}

/// The directories with the names of their runs, all of which may be exported.
fn named(dirs: &[PathBuf]) -> Result<Vec<NamedRun>, String> {
    let (mut runs, mut bytes) = (Vec::<NamedRun>::new(), 0);
    for path in dirs {
        let name = run_name(path)?;
        let failed = |error: io::Error| format!("cannot export {error}");
        let dir = HeldDir::open(path).map_err(failed)?;
        if is_active(path) {
            return Err(format!("{name} is still being recorded; export it when it has ended"));
        }
        if dir.dir("watch").is_ok() {
            let path = path.display();
            return Err(format!("{path} is of fathom 0.1, with samples in `watch`; copy it whole"));
        }
        if runs.iter().any(|(other, _)| *other == name) {
            return Err(format!("{name} is named twice; name each run once"));
        }
        for file in RunDir::FILES {
            let found = dir.regular(file).map_err(failed)?;
            bytes += found.map_or(0, |found| u64::try_from(found.st_size).unwrap_or(0));
        }
        runs.push((name, dir));
    }
    if bytes > BYTES_MAX || runs.len() > RUNS_MAX {
        let gib = BYTES_MAX >> 30;
        return Err(format!("a file holds up to {RUNS_MAX} runs and {gib} GiB; export fewer"));
    }
    Ok(runs)
}

/// The name of the run in the directory `path`: its own if it has the form, otherwise one made from the record.
fn run_name(path: &Path) -> Result<String, String> {
    let record = read_record(path)?;
    let own = path.file_name().and_then(OsStr::to_str).filter(|name| started(name).is_some());
    let header = record.header();
    // Of a random UUID.
    let number = header.run_id.get(..8).and_then(|part| u32::from_str_radix(part, 16).ok());
    let made = || format!("{}-{}", stamp(header.started_unix_ns), number.unwrap_or(0));
    Ok(own.map_or_else(made, str::to_string))
}

fn pack(runs: &[NamedRun], file: &mut File) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(file, LEVEL)?;
    encoder.include_checksum(true)?;
    let mut archive = Builder::new(encoder);
    for (run, dir) in runs {
        for name in RunDir::FILES {
            if dir.regular(name)?.is_none() {
                continue;
            }
            let file = dir.open_file(name)?;
            let meta = file.metadata()?;
            let modified = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let mut header = Header::new_gnu();
            header.set_size(meta.len());
            header.set_mode(0o600);
            header.set_mtime(modified.as_secs());
            let mut contents = file.take(meta.len());
            archive.append_data(&mut header, format!("{run}/{name}"), &mut contents)?;
            if contents.limit() > 0 {
                let path = dir.path().join(name);
                return Err(with_path(&path, io::Error::other("it became shorter meanwhile")));
            }
        }
    }
    archive.into_inner()?.finish().map(drop)
}

/// Adds the runs in the archive `file` to those of the user, all or none.
/// Fails if it is not an archive of runs, exceeds a limit, or has a run that differs from one of that name.
pub fn import(file: &Path) -> Result<Vec<Imported>, String> {
    import_into(file, &state_dir("runs")?)
}

/// The same into the directory `path`, which is created if necessary.
fn import_into(file: &Path, path: &Path) -> Result<Vec<Imported>, String> {
    let shown = file.display();
    let archive = File::open(file).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let failed = |error: io::Error| format!("cannot import to {error}");
    let (runs, mut made) = HeldDir::make_all(path).map_err(failed)?;
    let beside = temporary(path).map_err(|e| failed(with_path(path, e)))?;
    let unpacked = HeldDir::open(beside.path()).map_err(failed)?;
    let names = unpack(archive, &unpacked).map_err(|why| format!("{shown}: {why}"))?;
    let mut imported = Vec::new();
    for name in names {
        let place = format!("{}/", beside.path().display());
        check(&beside.path().join(&name))
            .map_err(|why| format!("{shown}: {}", why.replace(&place, "")))?;
        let is_new = is_new(&name, &unpacked, &runs).map_err(failed)?.ok_or_else(|| {
            format!(
                "{name} in {shown} differs from {}; to import it, remove or rename that one (fathom runs remove {name})",
                path.join(&name).display()
            )
        })?;
        imported.push(Imported { started_unix_ns: started(&name).unwrap_or(0), name, is_new });
    }
    for run in imported.iter().filter(|run| run.is_new) {
        unpacked.move_dir(&run.name, &runs).map_err(failed)?;
        made.keep();
    }
    Ok(imported)
}

/// A directory for files that are not complete, which is removed with all of its contents when dropped.
fn temporary(within: &Path) -> io::Result<tempfile::TempDir> {
    let within = if within.as_os_str().is_empty() { Path::new(".") } else { within };
    tempfile::Builder::new().prefix(".fathom-").tempdir_in(within)
}

/// Checks that a run directory can be read.
fn check(run: &Path) -> Result<(), String> {
    read_record(run)?;
    Reader::open(run)?.span().map(drop)
}

/// Whether `runs` has no run `name`; `None` if it has one that differs from the one in `unpacked`.
fn is_new(name: &str, unpacked: &HeldDir, runs: &HeldDir) -> io::Result<Option<bool>> {
    match runs.dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(true)),
        existing => Ok(is_same(&existing?, &unpacked.dir(name)?)?.then_some(false)),
    }
}

/// Whether two runs have the same files, except for tags.
fn is_same(one: &HeldDir, other: &HeldDir) -> io::Result<bool> {
    for name in RunDir::FILES.into_iter().filter(|name| *name != TAGS) {
        match (one.regular(name)?, other.regular(name)?) {
            (None, None) => continue,
            (Some(one), Some(other)) if one.st_size == other.st_size => {}
            _ => return Ok(false),
        }
        let open = |dir: &HeldDir| dir.open_file(name).map(BufReader::new);
        let (mut one, mut other) = (open(one)?, open(other)?);
        loop {
            let (left, right) = (one.fill_buf()?, other.fill_buf()?);
            let len = left.len().min(right.len());
            if len == 0 && left.is_empty() && right.is_empty() {
                break;
            }
            if len == 0 || left[..len] != right[..len] {
                return Ok(false);
            }
            one.consume(len);
            other.consume(len);
        }
    }
    Ok(true)
}

/// Unpacks an archive into `to`, and returns the names of its runs.
fn unpack(file: File, to: &HeldDir) -> Result<Vec<String>, String> {
    // Those of the system are about files, others about contents.
    let damaged = |error: io::Error| match error.raw_os_error() {
        Some(_) => format!("cannot unpack it: {error}"),
        None => format!(
            "this is not a complete archive of runs ({error}); copy it again, or export the runs again"
        ),
    };
    let mut decoder = zstd::Decoder::new(file).map_err(damaged)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(damaged)?;
    let mut archive = Archive::new(decoder.take(BYTES_MAX + HEADERS_MAX));
    let (mut runs, mut bytes) = (Vec::<String>::new(), 0_u64);
    // Raw: without extensions, which this format does not need and which take memory.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        let (run, name) = parts(&path, kind.is_file())?;
        let len = entry.size();
        bytes = bytes.saturating_add(len);
        if len > file_max(name) || bytes > BYTES_MAX {
            let max = file_max(name);
            return Err(format!(
                "{path} is too large ({len} bytes; up to {max}, in all {BYTES_MAX})"
            ));
        }
        let dir = match runs.iter().any(|known| known == run) {
            true => to.dir(run),
            false if runs.len() == RUNS_MAX => {
                return Err(format!("it contains more than {RUNS_MAX} runs"));
            }
            false => {
                runs.push(run.to_string());
                to.make_dir(run)
            }
        };
        let dir = dir.map_err(|e| format!("cannot import to {e}"))?;
        let mut file = dir.create(name).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!("it contains {path} twice"),
            _ => format!("cannot import to {error}"),
        })?;
        let copied = io::copy(&mut entry, &mut file).and_then(|copied| {
            file.sync_all()?;
            Ok(copied)
        });
        if copied.map_err(damaged)? != len {
            return Err(damaged(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    // The checksum is at the end.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
    if rest.limit() == 0 {
        return Err(format!("it unpacks to more than {BYTES_MAX} bytes"));
    }
    if runs.is_empty() { Err("it contains no runs".into()) } else { Ok(runs) }
}

/// The run and the name of a file in an archive, `RUN/record.json`; refuses everything else.
fn parts(path: &str, is_file: bool) -> Result<(&str, &str), String> {
    let found = path
        .split_once('/')
        .filter(|(run, name)| is_file && started(run).is_some() && RunDir::FILES.contains(name));
    found.ok_or_else(|| {
        format!(
            "{path:?} is not a file of a run; expected a file that `fathom runs export` made, with nothing but regular \
             files RUN/{}",
            RunDir::FILES.join(", ")
        )
    })
}

/// Maximum size of a file of a run, in bytes.
fn file_max(name: &str) -> u64 {
    match name {
        "record.json" => RECORD_MAX,
        "windows.ndjson" => WINDOWS_MAX,
        TAGS => TAG_FILE_MAX,
        _ => BYTES_MAX,
    }
}

/// `text`, compressed; what is written to a file one after the other is a whole to readers.
pub fn compressed(text: &str) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(text.as_bytes(), LEVEL)
}

/// The text of a file of which all parts are compressed.
pub fn inflate(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let decoder = zstd::Decoder::new(File::open(path)?)?;
    decoder.take(INFLATED_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > INFLATED_MAX {
        let why = format!("it holds more than {}; use zstdcat", units::bytes(INFLATED_MAX));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests;
