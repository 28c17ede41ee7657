//! Results to standard output or to a file.

use crate::folder;
use crate::session::beside::Told;
use crate::stdio::{self, Kind};
use fathom_model::RunRecord;
use fathom_report::summary::Style;
use fathom_report::{fio_json, summary, terse};
use fathom_spec::{Format, Output};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Renders `record` in every form asked for, for people with what was seen of the machine, and writes it
/// where asked.
///
/// # Errors
/// When it cannot be written; names the place.
pub fn write(record: &RunRecord, told: Option<&Told>, output: &Output) -> Result<(), String> {
    let to_file = output.file.is_some();
    let color = !to_file && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let style = Style { color, ..Style::default() };
    let formats: &[Format] =
        if output.formats.is_empty() { &[Format::Normal] } else { &output.formats };
    let version =
        terse::Version::from_number(output.terse_version.unwrap_or(3)).unwrap_or_default();
    let lines = if color { Kind::ColoredLines } else { Kind::Lines };
    let text: String = formats
        .iter()
        .map(|format| match format {
            Format::Normal => lines
                .safe(&(summary::render(record, style) + &machine(record, told, style)))
                .into_owned(),
            Format::Json => Kind::Json.safe(&fio_json::render(record, false)).into_owned(),
            Format::JsonPlus => Kind::Json.safe(&fio_json::render(record, true)).into_owned(),
            Format::Terse => Kind::Lines.safe(&terse::render(record, version)).into_owned(),
        })
        .collect();
    emit(&text, lines, output.file.as_deref())
}

fn machine(record: &RunRecord, told: Option<&Told>, style: Style) -> String {
    told.map_or(String::new(), |told| {
        fathom_report::watch::beside(&told.seen, record, &told.stacks, style)
    })
}

/// Whether results can be written to the file `path` in the end, and are not to take the place of
/// one of the files or devices `used` by the run.
///
/// # Errors
/// What is wrong with it.
pub fn check<'a>(path: &str, used: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let refuse = |why: String| Err(format!("--output={path}: {why}; name another file"));
    let file = Path::new(path);
    if let Some(other) = used.into_iter().find(|other| is_same(file, Path::new(other))) {
        return refuse(format!("this leads to {other}, which the run uses"));
    }
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => return refuse("this is a directory".into()),
        Ok(found) if found.file_type().is_block_device() => {
            return refuse("this is a block device".into());
        }
        Ok(found) if is_stream(file, &found) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return refuse(error.to_string()),
        _ => {}
    }
    let Some(place) = place(file) else { return refuse("its directory does not exist".into()) };
    let dir = place.parent().unwrap_or(Path::new("/"));
    if dir.starts_with("/dev") {
        return refuse("nothing is ever made under /dev".into());
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::accessat(rustix::fs::CWD, dir, access, rustix::fs::AtFlags::EACCESS)
        .or_else(|error| refuse(format!("its directory cannot be written to ({error})")))
}

/// Whether both lead to one file, or would.
fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => place(a).is_some_and(|place_a| Some(place_a) == place(b)),
    }
}

/// The path with all symbolic links followed, where its directory exists.
fn place(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().or_else(|| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        Some(fs::canonicalize(dir.unwrap_or(Path::new("."))).ok()?.join(path.file_name()?))
    })
}

/// What is written to as it is, and never replaced: pipes, terminals, /dev/stdout whatever it is.
fn is_stream(path: &Path, found: &Metadata) -> bool {
    let of_process = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    !found.is_file() || of_process.iter().any(|prefix| path.starts_with(prefix))
}

/// Writes `text`, a result, to the file `path`, or to standard output.
///
/// # Errors
/// When it cannot be written; names the place.
pub fn emit(text: &str, kind: Kind, path: Option<&str>) -> Result<(), String> {
    let Some(path) = path.filter(|path| *path != "/dev/stdout") else {
        return stdio::print(text, kind).map_err(|error| not_printed(&error));
    };
    // It may have become something else since it was checked.
    check(path, [])?;
    let (file, text) = (Path::new(path), kind.safe(text));
    if fs::metadata(file).is_ok_and(|found| is_stream(file, &found)) {
        let stream = File::options().append(true).open(file);
        return stream
            .and_then(|mut stream| stream.write_all(text.as_bytes()))
            .map_err(|error| format!("cannot write to {path}: {error}"));
    }
    // Where the path is a symbolic link, what it leads to is replaced, not the link.
    folder::replace(&place(file).unwrap_or_else(|| file.into()), text.as_bytes())
}

/// Writes a result to standard error, where standard output is a command's.
///
/// # Errors
/// When it cannot be written.
pub fn emit_beside(text: &str, kind: Kind) -> Result<(), String> {
    stdio::print_beside(text, kind)
        .map_err(|error| format!("cannot write to standard error: {error}"))
}

/// Prints what a reader may have seen enough of, as `head` does: help, and lines without an end. Whether the reader
/// is still there.
///
/// # Errors
/// When standard output cannot be written to.
pub fn stream(text: &str, kind: Kind) -> Result<bool, String> {
    match stdio::print(text, kind) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        printed => printed.map(|()| true).map_err(|error| not_printed(&error)),
    }
}

fn not_printed(error: &io::Error) -> String {
    let closed = "it is closed, or not open for writing";
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::BADF) => format!("cannot write to standard output: {closed}"),
        _ => format!("cannot write to standard output: {error}"),
    }
}
