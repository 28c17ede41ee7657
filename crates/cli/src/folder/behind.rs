//! A folder that a thread of its own writes: a disk that stalls holds up neither a run nor a view.

use super::{Encoded, Folder};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Bytes of samples that may wait to be written: minutes of the largest machines.
const WAITING_MAX: u64 = 16 << 20;

/// The folder, and what waits for it.
pub struct Behind {
    path: PathBuf,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<Folder>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Encoded>,
    /// Of all that waits and of what is being written.
    bytes: u64,
    ended: bool,
    error: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        while_true: impl FnMut(&mut Queue) -> bool,
    ) -> MutexGuard<'a, Queue> {
        self.changed.wait_while(queue, while_true).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes until the end, or the first error: samples after it may name stacks that were
    /// lost with it.
    fn write(&self, folder: &mut Folder) {
        loop {
            let mut queue = self.wait(self.lock(), |q| q.waiting.is_empty() && !q.ended);
            let Some(sample) = queue.waiting.pop_front() else { return };
            drop(queue);
            let written = folder.write(&sample);
            let mut queue = self.lock();
            queue.bytes -= sample.len();
            if let Err(error) = written {
                queue.waiting.clear();
                queue.error = Some(format!("cannot write {error}"));
                queue.ended = true;
            }
            self.changed.notify_all();
        }
    }
}

impl Behind {
    /// Begins to write into `folder`.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(mut folder: Folder) -> io::Result<Self> {
        let (path, shared) = (folder.path().to_path_buf(), Arc::<Shared>::default());
        let own = Arc::clone(&shared);
        let write = move || {
            own.write(&mut folder);
            folder
        };
        let writer = thread::Builder::new().name("fathom-keep".into()).spawn(write)?;
        Ok(Self { path, shared, writer: Some(writer) })
    }

    /// Where the folder is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has a sample written. Waits only where the disk is far behind.
    ///
    /// # Errors
    /// Why one before it could not be written, after which none is.
    pub fn write(&self, sample: Encoded) -> Result<(), String> {
        let is_full = |queue: &mut Queue| queue.bytes > WAITING_MAX && queue.error.is_none();
        let mut queue = self.shared.wait(self.shared.lock(), is_full);
        if let Some(error) = &queue.error {
            return Err(error.clone());
        }
        queue.bytes += sample.len();
        queue.waiting.push_back(sample);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Why no more is written.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        self.shared.lock().error.clone()
    }

    /// Waits until all is written, and gives the folder back.
    ///
    /// # Errors
    /// Why not all of it was written; the folder is given back too.
    pub fn end(mut self) -> (Option<Folder>, Result<(), String>) {
        let folder = self.join();
        let panicked = || "its writer has panicked, which is a fault of fathom: please report it";
        let error = self.failed().or_else(|| folder.is_none().then(|| panicked().into()));
        (folder, error.map_or(Ok(()), Err))
    }

    fn join(&mut self) -> Option<Folder> {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        self.writer.take().and_then(|writer| writer.join().ok())
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.join();
    }
}
