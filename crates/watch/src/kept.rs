//! Files of the kernel that are read again and again.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file of the kernel that stays open: reading it from its start makes its text anew.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    file: File,
}

/// The most that is asked for at once.
const CHUNK: usize = 32 << 10;

impl Kept {
    /// Opens the file; an error names it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(named(&path, &error)),
        }
    }

    /// Its text as it stands now, in a buffer that several files may share; an error names the file.
    pub fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<Cow<'a, str>> {
        let mut length = 0;
        loop {
            if buffer.len() < length + CHUNK {
                buffer.resize(length + CHUNK, 0);
            }
            let got = self.file.read_at(&mut buffer[length..], length as u64);
            match got {
                Ok(0) => return Ok(String::from_utf8_lossy(&buffer[..length])),
                Ok(n) => length += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(named(&self.path, &error)),
            }
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// An error that a file has a line that is not as the kernel writes it.
pub(crate) fn unlike(path: &Path, expected: &str, line: &str) -> io::Error {
    let message = format!("expected {expected}: {line:?}");
    named(path, &io::Error::new(io::ErrorKind::InvalidData, message))
}

/// An error with the name of the file.
pub(crate) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_and_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("stat");
        std::fs::write(&path, "first\n").unwrap();
        let kept = Kept::open(&path).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(kept.read(&mut buffer).unwrap(), "first\n");
        let long = "second\n".repeat(CHUNK);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(kept.read(&mut buffer).unwrap(), long);
        std::fs::write(&path, "").unwrap();
        assert_eq!(kept.read(&mut buffer).unwrap(), "");
    }

    #[test]
    fn the_kernels_own_change_between_two_readings() {
        let kept = Kept::open("/proc/stat").unwrap();
        let mut buffer = Vec::new();
        let first = kept.read(&mut buffer).unwrap().into_owned();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_ne!(kept.read(&mut buffer).unwrap(), first);
    }

    #[test]
    fn errors_name_the_file() {
        let error = Kept::open("/nonexistent/stat").unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/stat: "), "{error}");
        let kept = Kept::open("/proc/self").unwrap();
        let error = kept.read(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("/proc/self: "), "{error}");
    }
}
