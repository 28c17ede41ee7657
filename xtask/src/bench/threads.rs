//! Threads to sample: permanently asleep, or woken between any two samples.

use crate::Result;
use crate::run::Background;
use std::io::{PipeReader, Read, pipe};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct Load {
    pub threads: u32,
    pub kind: Kind,
    /// Threads that never sleep, in addition.
    pub busy: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// They sleep on in read, futex and nanosleep.
    Asleep,
    /// They sleep in the same calls for less than a sampling interval at a time, in poll instead of read.
    Moving,
}

/// Sleep time of a moving thread: fathom samples every 50 ms.
const NAP: Duration = Duration::from_millis(40);
const STACK_BYTES: usize = 64 << 10;

impl Load {
    /// Starts this program again as the load, and waits until all of its threads are there.
    pub fn start(self) -> Result<Background> {
        let kind = if self.kind == Kind::Asleep { "asleep" } else { "moving" };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["threads-load", &self.threads.to_string(), kind, &self.busy.to_string()]);
        let mut load = Background::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        match load.stdout.as_mut().map(|out| out.read(&mut [0])) {
            Some(Ok(1)) => Ok(load),
            _ => Err(format!("{} threads could not be started; see above", self.threads).into()),
        }
    }

    /// The load itself: reports that its threads exist and runs until its standard input ends.
    pub fn run(self) -> Result<()> {
        // Never written to, and open as long as the process.
        let (reader, _writer) = pipe()?;
        let reader: &'static _ = Box::leak(Box::new(reader));
        for number in 0..self.threads {
            // Their naps are spread evenly.
            let late = NAP * number / self.threads;
            start(move || match self.kind {
                Kind::Asleep => sleep_on(number, reader),
                Kind::Moving => nap(number, late, reader),
            })?;
        }
        for _ in 0..self.busy {
            start(|| {
                loop {
                    std::hint::spin_loop();
                }
            })?;
        }
        println!();
        std::io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    }
}

fn start(body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(body)?;
    Ok(())
}

fn sleep_on(number: u32, reader: &PipeReader) {
    match number % 3 {
        0 => drop({ reader }.read(&mut [0])),
        1 => thread::park(),
        _ => thread::sleep(Duration::MAX),
    }
}

fn nap(number: u32, late: Duration, reader: &PipeReader) {
    let (mutex, condition) = (Mutex::new(()), Condvar::new());
    thread::sleep(late);
    loop {
        match number % 3 {
            0 => {
                let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
                let mut poll = [rustix::event::PollFd::new(reader, rustix::event::PollFlags::IN)];
                let _ = rustix::event::poll(&mut poll, Some(&nap));
            }
            1 => drop(mutex.lock().map(|guard| condition.wait_timeout(guard, NAP).is_ok())),
            _ => thread::sleep(NAP),
        }
    }
}
