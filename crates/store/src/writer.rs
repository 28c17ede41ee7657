//! Writes samples from a separate thread, so that a stalled disk delays neither the run nor its display.

use crate::run_dir::{EncodedSample, RunDir};
use fathom_model::advice::thread_not_created;
use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of samples that may be queued: an hour on a small machine, some seconds on the largest.
const WAITING_MAX: u64 = 16 << 20;
/// Time after which [`Writer::finish`] reports a slow disk.
const PATIENCE: Duration = Duration::from_secs(1);
const PANICKED: &str = "samples are no longer written: the writing thread panicked; this is a bug in fathom, please report it";

pub struct Writer {
    path: PathBuf,
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
    /// Whether [`Writer::take_error`] has reported the error.
    said: bool,
}

struct WriterShared {
    run_dir: Mutex<RunDir>,
    queue: Mutex<SampleQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct SampleQueue {
    waiting: VecDeque<EncodedSample>,
    bytes: u64,
    written_ns: u64,
    ended: bool,
    error: Option<String>,
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, SampleQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_dir(&self) -> MutexGuard<'_, RunDir> {
        self.run_dir.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) {
        loop {
            let wait = |q: &mut SampleQueue| q.waiting.is_empty() && !q.ended;
            let queue = self.changed.wait_while(self.lock(), wait);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            let Some(sample) = queue.waiting.pop_front() else { return };
            drop(queue);
            let written = self.run_dir().write(&sample);
            let mut queue = self.lock();
            queue.bytes = queue.bytes.saturating_sub(sample.size_bytes());
            match written {
                Ok(()) => queue.written_ns = queue.written_ns.max(sample.elapsed_ns),
                Err(error) => queue.fail(format!("cannot write {error}")),
            }
            self.changed.notify_all();
        }
    }
}

impl SampleQueue {
    /// Drops everything queued: later samples may refer to stacks lost with this one.
    fn fail(&mut self, error: String) {
        self.waiting.clear();
        self.bytes = 0;
        self.error.get_or_insert(error);
    }
}

#[derive(Debug, Default)]
pub struct Written {
    /// Time of the last sample, in nanoseconds since the start of the run.
    pub elapsed_ns: u64,
    pub error: Option<String>,
}

impl Writer {
    /// Starts the thread. If it cannot be created, no sample is written and [`Writer::failed`] returns the reason.
    pub fn start(run_dir: RunDir) -> Self {
        let path = run_dir.path().to_path_buf();
        let run_dir = Mutex::new(run_dir);
        let shared = Arc::new(WriterShared {
            run_dir,
            queue: Mutex::default(),
            changed: Condvar::default(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("fathom-keep".into()).spawn(move || own.write());
        let thread = thread.map_err(|error| shared.lock().fail(thread_not_created(&error))).ok();
        Self { path, shared, thread, said: false }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the disk keeps up. If not, callers should take no further samples.
    pub fn has_room(&self) -> bool {
        self.shared.lock().bytes < WAITING_MAX
    }

    /// Queues a sample, unless writing has failed. Never blocks.
    pub fn write(&self, sample: io::Result<EncodedSample>) {
        let mut queue = self.shared.lock();
        match sample {
            _ if queue.error.is_some() => {}
            Ok(sample) => {
                queue.bytes += sample.size_bytes();
                queue.waiting.push_back(sample);
                self.shared.changed.notify_all();
            }
            Err(error) => queue.fail(format!("cannot write a sample: {error}")),
        }
    }

    /// Why writing has failed; returned once.
    pub fn take_error(&mut self) -> Option<String> {
        let error = self.failed().filter(|_| !self.said);
        self.said |= error.is_some();
        error
    }

    pub fn failed(&self) -> Option<String> {
        let mut queue = self.shared.lock();
        if !queue.ended && self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            queue.fail(PANICKED.into());
        }
        queue.error.clone()
    }

    /// Waits until all samples are written, and calls `slow` if that takes longer than a second.
    pub fn finish(&mut self, slow: impl FnOnce(&Path)) -> Written {
        let queue = self.shared.lock();
        let waits = |q: &mut SampleQueue| q.bytes > 0;
        let waited = self.shared.changed.wait_timeout_while(queue, PATIENCE, waits);
        let late = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        if late && self.failed().is_none() {
            slow(&self.path);
        }
        self.join();
        let queue = self.shared.lock();
        Written { elapsed_ns: queue.written_ns, error: queue.error.clone() }
    }

    /// The run directory itself. Blocks while a sample is being written.
    pub fn run_dir(&self) -> impl Deref<Target = RunDir> {
        self.shared.run_dir()
    }

    fn join(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            self.shared.lock().fail(PANICKED.into());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::progress::Sample;

    fn run_dir(dir: &Path) -> RunDir {
        let run_dir = RunDir::create(dir.join("r").to_str(), 0).unwrap();
        run_dir.begin(&"record").unwrap()
    }

    fn sample(second: u64) -> io::Result<EncodedSample> {
        EncodedSample::of(&Sample { elapsed_ns: second * 1_000_000_000, ..Sample::default() })
    }

    #[test]
    fn what_waits_is_written_in_its_order_and_nobody_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::start(run_dir(dir.path()));
        // As if the disk stalled: whoever holds the directory blocks what is written.
        let stalled = writer.shared.run_dir();
        let size = sample(1).unwrap().size_bytes();
        let count = WAITING_MAX / size + 1;
        (1..=count).for_each(|second| writer.write(sample(second)));
        assert!(!writer.has_room(), "{count} samples of {size} bytes");
        drop(stalled);
        let written = writer.finish(|_| ());
        assert_eq!((written.elapsed_ns, written.error), (count * 1_000_000_000, None));
        assert!(writer.has_room());
        let text = std::fs::read_to_string(dir.path().join("r/samples.ndjson")).unwrap();
        assert_eq!(text.lines().count() as u64, count);
        assert!(text.lines().last().unwrap().contains(&format!("{}000000000", count)));
    }

    #[test]
    fn after_a_sample_that_cannot_be_written_none_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::start(run_dir(dir.path()));
        writer.write(sample(1));
        writer.write(Err(io::Error::other("no number")));
        assert_eq!(writer.failed().as_deref(), Some("cannot write a sample: no number"));
        writer.write(sample(3));
        let written = writer.finish(|_| ());
        assert_eq!(written.error.as_deref(), Some("cannot write a sample: no number"));
        // The first may have been on its way.
        assert!(written.elapsed_ns <= 1_000_000_000, "{}", written.elapsed_ns);
    }

    #[test]
    fn a_thread_that_panics_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::start(run_dir(dir.path()));
        writer.join();
        writer.thread = Some(thread::spawn(|| panic!("as a test wants it")));
        writer.shared.lock().ended = false;
        while writer.failed().is_none() {
            thread::yield_now();
        }
        assert_eq!(writer.take_error().as_deref(), Some(PANICKED));
        assert_eq!(writer.take_error(), None, "reported once");
        writer.write(sample(1));
        assert_eq!(writer.finish(|_| ()).error.as_deref(), Some(PANICKED));
    }
}
