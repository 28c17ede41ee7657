//! Job files, the environment and machine facts, for the parser.

use fathom_spec::{MachineNumbers, Sources};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};

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

impl Sources for System {
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String> {
        self.files.borrow_mut().push(path.to_string());
        let mut bytes = Vec::new();
        let limit = limit_bytes as u64 + 1;
        let result = if path == "-" {
            io::stdin().lock().take(limit).read_to_end(&mut bytes)
        } else {
            File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
        };
        result.map(|_| bytes).map_err(|error| error.to_string())
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
