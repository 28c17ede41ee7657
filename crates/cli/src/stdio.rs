//! Standard output and standard error. Apart from the full screen of `top`, only this module writes to them.
//!
//! Text from outside (names, paths, errors) is escaped, so that it cannot control the terminal.

use fathom_model::watch::Unavailable;
use fathom_model::{escape, list};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const MISSING_NAMED: usize = 6;

/// Whether only results and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses everything but results and errors, for `--quiet`.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Lines,
    ColoredLines,
    Json,
}

impl Kind {
    /// `text`, escaped for a terminal.
    pub fn safe(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Lines => escape::lines(text),
            Self::ColoredLines => Cow::Owned(escape::colored_lines(text)),
            Self::Json => escape::json(text),
        }
    }
}

/// Writes to standard output.
/// Fails with `EBADF` if it was closed when the program started.
pub fn print(text: &str, kind: Kind) -> io::Result<()> {
    if fathom_engine::closed::at_start(1) {
        return Err(Errno::BADF.into());
    }
    write(rustix::stdio::stdout(), kind.safe(text).as_bytes())
}

/// Writes a result to standard error.
pub fn print_to_stderr(text: &str, kind: Kind) -> io::Result<()> {
    if fathom_engine::closed::at_start(2) {
        return Err(Errno::BADF.into());
    }
    write(rustix::stdio::stderr(), kind.safe(text).as_bytes())
}

pub fn print_line(text: &str) {
    // A failure here cannot be reported anywhere.
    let _ = write(rustix::stdio::stderr(), format!("{}\n", escape::text(text)).as_bytes());
}

/// Like [`print_line`], for text that is neither a result nor an error: suppressed by `--quiet`.
pub fn info(text: &str) {
    if !is_quiet() {
        print_line(text);
    }
}

/// Prints a message on standard error, after the program's name. Unlike `eprintln!`, it ignores errors.
macro_rules! error {
    ($($arg:tt)*) => {
        $crate::stdio::print_line(&format!("fathom: {}", format_args!($($arg)*)))
    };
}
pub(crate) use error;

/// Exit status if a requirement (`--fail-if`, `--target`) is missed.
pub const MISSED: u8 = 3;
/// Exit status if that is inconclusive.
pub const INCONCLUSIVE: u8 = 4;

/// Reports a wrong command line that only the command itself recognizes; its exit status.
pub fn usage_error(error: &str) -> ExitCode {
    error!("{error}");
    ExitCode::from(2)
}

/// Reports sources that are not available: their names on one line or, if `verbose`, each with its reason.
pub fn report_missing(missing: &[Unavailable], verbose: bool) {
    if verbose {
        missing.iter().for_each(|missing| info(&format!("fathom: not measured: {missing}")));
    } else if !missing.is_empty() {
        let mut names: Vec<&str> = missing.iter().map(|missing| missing.source.as_str()).collect();
        names.dedup();
        info(&format!("fathom: not measured: {}; see --verbose", list::few(&names, MISSING_NAMED)));
    }
}

/// Prints a progress line on standard error, which on a `terminal` replaces the previous one.
pub fn status(text: &str, terminal: bool) {
    if is_quiet() {
        return;
    }
    let text = escape::text(text);
    let text = if terminal { format!("\r{text}\x1b[K") } else { format!("{text}\n") };
    // An error must not end the run.
    let _ = write(rustix::stdio::stderr(), text.as_bytes());
}

pub fn clear_status() {
    if is_quiet() {
        return;
    }
    let _ = write(rustix::stdio::stderr(), b"\r\x1b[K");
}

fn write(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Another program set O_NONBLOCK on the shared pipe.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
