//! Standard output and standard error: the only place that writes to them, but for the full screen of `top`.
//!
//! Whatever comes from outside (names, paths, errors) reaches neither with what a terminal takes for commands.

use fathom_model::escape;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether only results and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// What `--quiet` asks for.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// What a text is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines for people, or figures in columns.
    Lines,
    /// The same with colors.
    ColoredLines,
    /// JSON documents.
    Json,
}

impl Kind {
    /// `text` as it may reach a terminal.
    pub fn safe(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Lines => escape::lines(text),
            Self::ColoredLines => Cow::Owned(escape::colored_lines(text)),
            Self::Json => escape::json(text),
        }
    }
}

/// Writes to standard output.
///
/// # Errors
/// Those of the kernel, and `EBADF` where it was closed when the program began.
pub fn print(text: &str, kind: Kind) -> io::Result<()> {
    if fathom_engine::closed::at_start(1) {
        return Err(Errno::BADF.into());
    }
    write(rustix::stdio::stdout(), kind.safe(text).as_bytes())
}

/// Writes to standard error what is a result and not about one.
///
/// # Errors
/// As [`print()`].
pub fn print_beside(text: &str, kind: Kind) -> io::Result<()> {
    if fathom_engine::closed::at_start(2) {
        return Err(Errno::BADF.into());
    }
    write(rustix::stdio::stderr(), kind.safe(text).as_bytes())
}

/// Says something on standard error, on a line of its own. See [`note!`].
pub fn say(text: &str) {
    // Nobody is left to be told that it cannot be said.
    let _ = write(rustix::stdio::stderr(), format!("{}\n", escape::text(text)).as_bytes());
}

/// As [`say`], what is neither a result nor an error: nothing with `--quiet`.
pub fn remark(text: &str) {
    if !is_quiet() {
        say(text);
    }
}

/// Says on standard error what is wrong or worth knowing, led by the program's name: as `eprintln!`, which would end
/// the program where standard error cannot be written.
macro_rules! note {
    ($($arg:tt)*) => {
        $crate::stdio::say(&format!("fathom: {}", format_args!($($arg)*)))
    };
}
pub(crate) use note;

/// Shows how the work stands on standard error: in place of the last such line on a `terminal`, elsewhere below it.
pub fn status(text: &str, terminal: bool) {
    if is_quiet() {
        return;
    }
    let text = escape::text(text);
    let text = if terminal { format!("\r{text}\x1b[K") } else { format!("{text}\n") };
    // A view that cannot be shown must not end the work that it shows.
    let _ = write(rustix::stdio::stderr(), text.as_bytes());
}

/// Leaves a terminal's line free for what comes next.
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
            // Another program that has the same pipe made it so.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
