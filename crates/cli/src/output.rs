//! Writes results to standard output, another stream or a file.

use crate::page;
use crate::stdio::{self, Kind};
use fathom_analysis::watch::Observed;
use fathom_model::RunRecord;
use fathom_report::doc::Document;
use fathom_report::{fio_json, fio_text, pages, render, terse};
use fathom_spec::{Format, Output};
use fathom_store::{HeldDir, Readers};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::cell::LazyCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Renders `record` in every requested format, with the samples of the machine and `more` in those for users, and writes it
/// to `to`, or to standard output, after the interim results `before` of a file.
pub fn write(
    record: &RunRecord,
    observed: &Observed,
    output: &Output,
    to: Option<&Destination>,
    (before, more): (&str, Document),
) -> Result<(), String> {
    let page = LazyCell::new(|| {
        let mut page = pages::run(record, Some(observed), output.verbose);
        page.blocks.extend(more.blocks);
        page.in_zone(page::zone())
    });
    let mut text = before.to_string();
    let is_mixed = output.as_fio && formats(output).len() > 1;
    if is_mixed && formats(output).contains(&Format::Normal) {
        let pid = std::process::id();
        text.push_str(&fio_text::heading(&record.plan.jobs));
        // fio's order, whatever order they were requested in.
        for wanted in [Format::Terse, Format::Json, Format::JsonPlus] {
            if formats(output).contains(&wanted) {
                text.push_str(&for_programs(record, Some(observed), output, wanted));
            }
        }
        let results = fio_text::results(record, pid) + &fio_text::idleness(record, Some(observed));
        text.push_str(&Kind::Lines.safe(&results));
        return emit(&text, kind(output), to);
    }
    for format in formats(output) {
        text.push_str(&match is_for_programs(output, *format) {
            true => for_programs(record, Some(observed), output, *format),
            false => for_users(&page, output, *format),
        });
    }
    emit(&text, kind(output), to)
}

/// Writes the page of several runs in the formats for users, after what a file holds already.
pub fn write_page(
    page: &Document,
    output: &Output,
    to: Option<&Destination>,
    before: &str,
) -> Result<(), String> {
    let formats = formats(output).iter().filter(|format| !is_for_programs(output, **format));
    let pages: String = formats.map(|format| for_users(page, output, *format)).collect();
    if pages.is_empty() { Ok(()) } else { emit(&format!("{before}{pages}"), kind(output), to) }
}

/// Writes one of several runs in the formats for programs; a file holds them all.
pub fn write_for_programs(
    record: &RunRecord,
    observed: &Observed,
    output: &Output,
    to: Option<&Destination>,
    before: &mut String,
) -> Result<(), String> {
    let text = all_for_programs(record, Some(observed), output);
    if text.is_empty() {
        return Ok(());
    }
    if !to.is_some_and(Destination::is_replaced) {
        return emit(&text, Kind::Lines, to);
    }
    before.push_str(&text);
    emit(before, Kind::Lines, to)
}

fn kind(output: &Output) -> Kind {
    if page::style(output.file.is_some()).color { Kind::ColoredLines } else { Kind::Lines }
}

fn for_users(page: &Document, output: &Output, format: Format) -> String {
    match format {
        Format::Markdown => Kind::Lines.safe(&render::markdown(page)).into_owned(),
        Format::Html => Kind::Lines.safe(&render::html(page)).into_owned(),
        _ => {
            let text = render::text(page, page::style(output.file.is_some()));
            kind(output).safe(&text).into_owned()
        }
    }
}

fn all_for_programs(record: &RunRecord, observed: Option<&Observed>, output: &Output) -> String {
    let formats = formats(output).iter().filter(|format| is_for_programs(output, **format));
    formats.map(|format| for_programs(record, observed, output, *format)).collect()
}

fn formats(output: &Output) -> &[Format] {
    match output.formats.as_slice() {
        [] => &[Format::Normal],
        formats => formats,
    }
}

fn is_for_programs(output: &Output, format: Format) -> bool {
    match format {
        Format::Json | Format::JsonPlus | Format::Terse => true,
        Format::Normal => output.as_fio,
        Format::Markdown | Format::Html => false,
    }
}

/// `--status-interval` in formats that programs read: the results so far, as part of the output.
pub struct Interim<'a> {
    output: &'a Output,
    to: Option<&'a Destination>,
    interval: Duration,
    next: Instant,
    /// What a file holds so far.
    kept: String,
}

impl<'a> Interim<'a> {
    /// For `output` to `to`, of which a file holds `printed` already, if it has interim results.
    pub fn new(output: &'a Output, to: Option<&'a Destination>, printed: &str) -> Option<Self> {
        let interval = Duration::from_nanos(output.status_interval_ns?);
        let next = Instant::now() + interval;
        let interim = Self { output, to, interval, next, kept: printed.to_string() };
        let mut formats = formats(output).iter();
        formats.any(|format| is_for_programs(output, *format)).then_some(interim)
    }

    /// Prints the record that `make` makes, if it is time.
    pub fn show(&mut self, make: &dyn Fn() -> RunRecord) -> Result<(), String> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        // A pause is not made up for.
        self.next = (self.next + self.interval).max(now);
        let text = all_for_programs(&make(), None, self.output);
        if !self.to.is_some_and(Destination::is_replaced) {
            return emit(&text, Kind::Lines, self.to);
        }
        self.kept.push_str(&text);
        emit(&self.kept, Kind::Lines, self.to)
    }

    /// What the output's file holds, which the final results must not replace.
    pub fn kept(&self) -> &str {
        &self.kept
    }
}

fn for_programs(
    record: &RunRecord,
    observed: Option<&Observed>,
    output: &Output,
    format: Format,
) -> String {
    let version =
        terse::TerseVersion::from_number(output.terse_version.unwrap_or(3)).unwrap_or_default();
    let json = |plus| fio_json::render(record, observed, plus);
    let text = match format {
        Format::Json => return Kind::Json.safe(&json(false)).into_owned(),
        Format::JsonPlus => return Kind::Json.safe(&json(true)).into_owned(),
        Format::Terse => terse::render(record, version),
        Format::Normal | Format::Markdown | Format::Html => {
            fio_text::render(record, std::process::id()) + &fio_text::idleness(record, observed)
        }
    };
    Kind::Lines.safe(&text).into_owned()
}

/// The destination of a result. It is open, or proven writable, before the run starts.
pub enum Destination {
    /// Standard output, named as `/dev/stdout` or the like.
    Stdout,
    Stderr,
    Nowhere,
    /// An inherited descriptor, named as `/dev/fd/3` or the like.
    Stream(String, File),
    File(HeldDir, OsString),
}

impl Destination {
    /// Opens `path`, which must not be one of the files or devices `used` by the run. A file is not changed yet.
    pub fn open<'a>(path: &str, used: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let file = Path::new(path);
        let opened = match used.into_iter().find(|other| is_same(file, Path::new(other))) {
            Some(other) => Err(another(format!("this leads to {other}, which the run uses"))),
            None => match Self::stream(path) {
                Ok(Some(stream)) => Ok(stream),
                Ok(None) => Self::file(file),
                Err(error) => Err(another(error)),
            },
        };
        opened.map_err(|why| format!("--output={path}: {why}"))
    }

    fn file(path: &Path) -> Result<Self, String> {
        let (dir, name) = match (path.parent(), path.file_name()) {
            _ if path.is_dir() => return Err(another("this is a directory")),
            (Some(dir), Some(name)) if !path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                (dir, name)
            }
            _ => return Err(another("this names no file")),
        };
        let dir = HeldDir::open(dir).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => another("its directory does not exist"),
            _ => another(error),
        })?;
        if let (Err(_), Ok(real)) = (dir.regular(name), fs::canonicalize(path))
            && real.is_file()
        {
            let real = real.display();
            return Err(format!("this is a symbolic link to {real}; name that file itself"));
        }
        dir.regular(name).map_err(|error| another(bare(path, &error)))?;
        let dir = dir.to_write().map_err(|error| match error.to_string().split_once(": ") {
            Some((_, why)) => another(why),
            None => another(error),
        })?;
        dir.try_replace(Path::new(name))
            .map_err(|error| another(format!("it cannot be written: {}", bare(path, &error))))?;
        Ok(Self::File(dir, name.to_os_string()))
    }

    /// The stream that `path` names, if any; for example, `/dev/stdout`.
    fn stream(path: &str) -> io::Result<Option<Self>> {
        let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|dir| path.strip_prefix(dir));
        Ok(Some(match (path, number.map(str::parse::<u32>)) {
            ("/dev/stdout", _) | (_, Some(Ok(1))) => Self::Stdout,
            ("/dev/stderr", _) | (_, Some(Ok(2))) => Self::Stderr,
            ("/dev/null", _) => Self::Nowhere,
            (_, Some(Ok(number))) => Self::Stream(path.into(), open_stream(number)?),
            _ => return Ok(None),
        }))
    }

    /// Replaces what it holds, without waiting for a disk: figures that are soon replaced again.
    pub fn publish(&self, text: &str) -> Result<(), String> {
        match self {
            Self::File(dir, name) => dir
                .publish(name, Kind::Lines.safe(text).as_bytes(), Readers::Umask)
                .map_err(|e| format!("cannot write {e}")),
            other => other.write(text, Kind::Lines),
        }
    }

    pub fn file_name(&self) -> io::Result<(&HeldDir, &OsStr)> {
        match self {
            Self::File(dir, name) => Ok((dir, name)),
            _ => Err(io::Error::other("this is not a file; name one")),
        }
    }

    /// Whether a write replaces earlier contents.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::File(..))
    }

    fn write(&self, text: &str, kind: Kind) -> Result<(), String> {
        match self {
            Self::Stdout => stdio::print(text, kind).map_err(|error| not_printed(&error)),
            Self::Stderr => emit_to_stderr(text, kind),
            Self::Nowhere => Ok(()),
            Self::Stream(name, file) => {
                let mut file: &File = file;
                file.write_all(kind.safe(text).as_bytes())
                    .map_err(|e| format!("cannot write to {name}: {e}"))
            }
            Self::File(dir, name) => dir
                .replace(name, kind.safe(text).as_bytes(), Readers::Umask)
                .map_err(|e| format!("cannot write {e}")),
        }
    }
}

/// A result that is printed in parts; a file gets all of them at the end.
pub struct PartialOutput {
    to: Option<Destination>,
    /// Whether standard output belongs to a command.
    is_command: bool,
    written: String,
}

impl PartialOutput {
    pub fn new(to: Option<Destination>, is_command: bool) -> Self {
        Self { to, is_command, written: String::new() }
    }

    pub fn is_file(&self) -> bool {
        self.to.is_some()
    }

    pub fn emit(&mut self, text: &str, kind: Kind) -> Result<(), String> {
        match (&self.to, self.is_command) {
            (Some(_), _) => self.written += text,
            (None, true) => emit_to_stderr(text, kind)?,
            (None, false) => emit(text, kind, None)?,
        }
        Ok(())
    }

    pub fn close(&self, kind: Kind) -> Result<(), String> {
        self.to.as_ref().map_or(Ok(()), |to| emit(&self.written, kind, Some(to)))
    }
}

/// Why a destination is refused, and what to do.
fn another(why: impl std::fmt::Display) -> String {
    format!("{why}; name another file")
}

/// An error without the path that it begins with, where the message has it already.
fn bare(path: &Path, error: &io::Error) -> String {
    error.to_string().replacen(&format!("{}: ", path.display()), "", 1)
}

/// Reopens a descriptor of this process for appending.
fn open_stream(number: u32) -> io::Result<File> {
    if !is_writable(number)? {
        return Err(io::Error::other("this descriptor is not open for writing"));
    }
    // A pipe without a reader is an error now; later, a write waits for readers.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(format!("/proc/self/fd/{number}"), flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    if kind == FileType::BlockDevice {
        return Err(io::Error::other("this is a block device"));
    }
    rustix::fs::fcntl_setfl(&fd, OFlags::APPEND)?;
    Ok(File::from(fd))
}

/// Whether a descriptor of this process is open for writing; reopening it must not give more than that.
fn is_writable(number: u32) -> io::Result<bool> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    let mode = flags.map(OFlags::from_bits_retain).unwrap_or(OFlags::PATH);
    Ok(!mode.contains(OFlags::PATH) && mode.intersects(OFlags::WRONLY | OFlags::RDWR))
}

/// Whether both paths lead to the same file, existing or not.
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

/// Writes the result `text` to `to`, or to standard output.
pub fn emit(text: &str, kind: Kind, to: Option<&Destination>) -> Result<(), String> {
    to.unwrap_or(&Destination::Stdout).write(text, kind)
}

/// Writes a result to standard error, where standard output is a command's.
pub fn emit_to_stderr(text: &str, kind: Kind) -> Result<(), String> {
    stdio::print_to_stderr(text, kind)
        .map_err(|error| format!("cannot write to standard error: {error}"))
}

/// Prints text that a reader such as `head` may stop reading early: help, and endless lines. Whether the reader still
/// reads.
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
