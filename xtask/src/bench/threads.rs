//! Threads to sample: permanently asleep, or woken between any two samples.

use crate::Result;
use std::io::{Read, pipe};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// What the load's threads do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// They sleep on in read, futex and nanosleep.
    Asleep,
    /// They sleep in the same calls for less than a sampling interval at a time, in poll instead of read.
    Moving,
}

/// Threads of another process, until dropped.
pub struct Load {
    child: Child,
}

#[derive(clap::Args)]
pub struct Options {
    threads: u32,
    kind: Kind,
    /// Threads that never sleep, beside the others.
    busy: u32,
}

/// Sleep time of a moving thread: fathom samples every 50 ms.
const NAP: Duration = Duration::from_millis(40);
const STACK_BYTES: usize = 64 << 10;

impl Load {
    /// Starts this program again as the load, and waits until all of its threads are there.
    pub fn start(threads: u32, kind: Kind, busy: u32) -> Result<Self> {
        let kind = if kind == Kind::Asleep { "asleep" } else { "moving" };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["threads-load", &threads.to_string(), kind, &busy.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ready = child.stdout.as_mut().map(|out| out.read(&mut [0]));
        let load = Self { child };
        match ready {
            Some(Ok(1)) => Ok(load),
            _ => Err(format!("{threads} threads could not be started; see above").into()),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It has nothing to put away.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The load itself: reports that its threads exist and runs until its standard input ends.
pub fn run(options: &Options) -> Result<()> {
    // Never written to, and open as long as the process.
    let (reader, _writer) = pipe()?;
    let reader: &'static _ = Box::leak(Box::new(reader));
    for number in 0..options.threads {
        let kind = options.kind;
        // Their naps are spread evenly.
        let late = NAP * number / options.threads;
        start(move || match kind {
            Kind::Asleep => sleep_on(number, reader),
            Kind::Moving => nap(number, late, reader),
        })?;
    }
    for _ in 0..options.busy {
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

fn start(body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(body)?;
    Ok(())
}

fn sleep_on(number: u32, reader: &std::io::PipeReader) {
    match number % 3 {
        0 => drop({ reader }.read(&mut [0])),
        1 => thread::park(),
        _ => thread::sleep(Duration::MAX),
    }
}

fn nap(number: u32, late: Duration, reader: &std::io::PipeReader) {
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
