//! Job files, the environment and machine facts, for the parser.

use fathom_spec::{MachineNumbers, Sources};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;

/// This machine, for [`fathom_spec::parse`].
#[derive(Default)]
pub struct System {
    files: RefCell<Vec<String>>,
}

impl System {
    /// Paths of the job files that were read, included ones among them.
    pub fn into_files(self) -> Vec<String> {
        self.files.into_inner()
    }
}

/// Time in seconds that a named pipe may take to be written to.
const PIPE_WAIT_S: i64 = 30;

/// Opens a file for reading. A named pipe must be written to soon: nobody may ever do so.
fn open(path: &str) -> io::Result<File> {
    if !std::fs::metadata(path)?.file_type().is_fifo() {
        return File::open(path);
    }
    let file = File::from(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let wait = Timespec { tv_sec: PIPE_WAIT_S, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&wait))? == 0 {
        let why = format!(
            "nothing was written to this pipe for {PIPE_WAIT_S} s; start the program that does first"
        );
        return Err(io::Error::other(why));
    }
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

impl Sources for System {
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String> {
        self.files.borrow_mut().push(path.to_string());
        let mut bytes = Vec::new();
        let limit = limit_bytes as u64 + 1;
        let result = if path == "-" {
            io::stdin().lock().take(limit).read_to_end(&mut bytes)
        } else {
            open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
        };
        result.map(|_| bytes).map_err(|error| error.to_string())
    }

    fn files_below(
        &self,
        directory: &str,
        most: usize,
        with_empty: bool,
    ) -> Result<Vec<String>, String> {
        let mut files = Vec::new();
        let mut open = vec![directory.to_string()];
        while let Some(dir) = open.pop() {
            let fail = |error: io::Error| format!("cannot read {dir}: {error}");
            for entry in std::fs::read_dir(&dir).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let kind = entry.file_type().map_err(fail)?;
                let path = entry.path().into_os_string().into_string();
                let path =
                    path.map_err(|path| format!("the name {path:?} is not UTF-8; rename it"))?;
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file()
                    && (with_empty || entry.metadata().map_err(fail)?.len() > 0)
                {
                    files.push(path);
                }
            }
            if files.len() + open.len() > most {
                return Err(format!("{directory} holds more than {most} files; name one below it"));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn is_regular(&self, path: &str) -> bool {
        std::fs::metadata(path).is_ok_and(|about| about.is_file())
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn machine(&self) -> MachineNumbers {
        let info = rustix::system::sysinfo();
        MachineNumbers {
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            page_bytes: rustix::param::page_size() as u64,
            memory_mib: (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) >> 20,
        }
    }

    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        // The standard library seeds every hasher from the system's randomness.
        std::hash::RandomState::new().build_hasher().finish()
    }
}
