//! The full-screen terminal, restored however the view ends.

use super::{Feed, TICK, is_all};
use crate::signals::Signals;
use fathom_report::top::{self, Paint, ScreenAction, Ui};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::prelude::{CrosstermBackend, Terminal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shows `feed` until the user or a signal ends it, or for `count` intervals. Returns `false` if a signal ended it before
/// that.
pub fn show(feed: &mut dyn Feed, count: Option<u64>, signals: &Signals) -> Result<bool, String> {
    let mut screen = Screen::take().map_err(|e| format!("cannot use the terminal: {e}"))?;
    let shown = screen.run(feed, count, signals);
    // The screen is restored before messages are printed.
    drop(screen);
    match shown {
        // Nobody is left to read about it.
        Err(_) if has_hung_up(Duration::ZERO) => Ok(is_all(signals, count, 0)),
        shown => shown.map(|shown| is_all(signals, count, shown)),
    }
}

/// Waits for input; whether the terminal hung up, which crossterm would not notice.
fn has_hung_up(patience: Duration) -> bool {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let tick = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as i64 };
    // A signal interrupts the wait; the next one detects a hangup.
    let _ = poll(&mut fds, Some(&tick));
    fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

struct Screen {
    /// Never dropped: that would print, and panic, where the terminal is gone. [`leave`] shows the cursor.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    paint: Paint,
    stop: Arc<AtomicBool>,
    woken: Arc<AtomicBool>,
}

impl Screen {
    fn take() -> io::Result<Self> {
        let (stop, woken) = (Arc::default(), Arc::default());
        signal_hook::flag::register(SIGTSTP, Arc::clone(&stop))?;
        signal_hook::flag::register(SIGCONT, Arc::clone(&woken))?;
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            usual(panic);
        }));
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        let terminal = ManuallyDrop::new(terminal.inspect_err(|_| leave())?);
        // https://no-color.org: any value but an empty one.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Ok(Self { terminal, paint: Paint { color: !no_color && !dumb }, stop, woken })
    }

    fn run(
        &mut self,
        feed: &mut dyn Feed,
        count: Option<u64>,
        signals: &Signals,
    ) -> Result<u64, String> {
        let mut ui = Ui::default();
        let mut seen = 0;
        let mut changed = true;
        while signals.caught().is_none() {
            if feed.poll()? {
                changed = true;
                seen += 1;
            }
            if let Some(error) = feed.take_error() {
                ui.message = Some(error);
                changed = true;
            }
            if count.is_some_and(|count| seen > count) {
                break;
            }
            if self.stop.swap(false, Ordering::Relaxed) {
                self.suspend().map_err(broken)?;
                changed = true;
            } else if self.woken.swap(false, Ordering::Relaxed) {
                // Stopped by SIGSTOP: the shell has used the terminal.
                self.again().map_err(broken)?;
                changed = true;
            }
            if changed {
                self.draw(feed, &ui)?;
                changed = false;
            }
            if has_hung_up(TICK) {
                break;
            }
            if event::poll(Duration::ZERO).map_err(broken)? {
                changed = true;
                match event::read().map_err(broken)? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        let view = feed.view()?;
                        match top::press(&mut ui, key, view.as_ref()) {
                            ScreenAction::None => {}
                            ScreenAction::Quit => break,
                            ScreenAction::Suspend => self.suspend().map_err(broken)?,
                            ScreenAction::Redraw => self.anew().map_err(broken)?,
                            ScreenAction::Go(go) => ui.message = feed.go(&go).err(),
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(seen)
    }

    fn draw(&mut self, feed: &mut dyn Feed, ui: &Ui) -> Result<(), String> {
        let view = feed.view()?;
        let paint = self.paint;
        let drawn = self.terminal.draw(|frame| {
            let area = frame.area();
            match &view {
                Some(view) => top::draw(view, ui, paint, area, frame.buffer_mut()),
                None => top::draw_waiting(paint, area, frame.buffer_mut()),
            }
        });
        drawn.map(|_| ()).map_err(broken)
    }

    /// Stops this process as Ctrl-Z does, with the terminal restored.
    fn suspend(&mut self) -> io::Result<()> {
        leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.woken.store(false, Ordering::Relaxed);
        self.again()
    }

    fn again(&mut self) -> io::Result<()> {
        enter()?;
        self.anew()
    }

    /// Redraws the whole screen. `Terminal::clear` would query the cursor position, and fail on terminals that do not
    /// answer.
    fn anew(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?);
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn broken(error: io::Error) -> String {
    format!("lost the terminal: {error}")
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).inspect_err(|_| leave())
}

fn leave() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    use std::fs::File;
    use std::io::Read;
    use std::process::Command;

    #[test]
    #[ignore = "on a terminal of its own only, by the test below"]
    fn panics() {
        let _screen = Screen::take().unwrap();
        panic!("on purpose");
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let mut ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map(File::from).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "top::screen::tests::panics", "--ignored", "--nocapture"]);
        command.stdin(theirs.try_clone().unwrap());
        command.stdout(theirs.try_clone().unwrap()).stderr(theirs.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        drop(command);
        assert!(!child.wait().unwrap().success());
        let after = tcgetattr(&theirs).unwrap().local_modes;
        assert!(after.contains(LocalModes::ICANON | LocalModes::ECHO), "{after:?}");
        drop(theirs);
        let mut seen = Vec::new();
        // The end of a terminal is an error.
        let _ = ours.read_to_end(&mut seen);
        let seen = String::from_utf8_lossy(&seen);
        let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("no {text:?} in {seen:?}"));
        assert!(at("\x1b[?1049h") < at("\x1b[?1049l"), "{seen:?}");
        // The message is on the normal screen.
        assert!(at("\x1b[?1049l") < at("on purpose"), "{seen:?}");
    }
}
