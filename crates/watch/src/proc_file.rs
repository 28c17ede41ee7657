//! Files of procfs and sysfs that are read repeatedly.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirEntryExt, FileExt};
use std::path::{Path, PathBuf};

/// An open procfs or sysfs file. Reading it from offset 0 makes the kernel generate its contents
/// again.
#[derive(Debug)]
pub(crate) struct PinnedProcFile {
    path: PathBuf,
    file: File,
}

const CHUNK: usize = 32 << 10;

impl PinnedProcFile {
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(with_path(&path, &error)),
        }
    }

    /// Reads the current contents into `buffer`, which may be shared by several files; errors name
    /// the file.
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
                Err(error) => return Err(with_path(&self.path, &error)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

pub(crate) fn unexpected_line(path: &Path, expected: &str, line: &str) -> io::Error {
    let message = format!("expected {expected}: {line:?}");
    with_path(path, &io::Error::new(io::ErrorKind::InvalidData, message))
}

/// The numbers among the names in a directory, which are those of processes, tasks or descriptors; errors name it.
pub(crate) fn numbers(dir: &Path) -> io::Result<Vec<i32>> {
    Ok(numbered(dir)?.into_iter().map(|(number, _)| number).collect())
}

/// The same, with the inode of each.
pub(crate) fn numbered(dir: &Path) -> io::Result<Vec<(i32, u64)>> {
    let mut numbered = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| with_path(dir, &error))? {
        let entry = entry.map_err(|error| with_path(dir, &error))?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        numbered.extend(number.map(|number| (number, entry.ino())));
    }
    Ok(numbered)
}

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(|error| with_path(path, &error))
}

pub(crate) fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_completely() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("stat");
        std::fs::write(&path, "first\n").unwrap();
        let file = PinnedProcFile::open(&path).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(file.read(&mut buffer).unwrap(), "first\n");
        let long = "second\n".repeat(CHUNK);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), long);
        std::fs::write(&path, "").unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), "");
    }

    #[test]
    fn contents_are_regenerated() {
        let file = PinnedProcFile::open("/proc/stat").unwrap();
        let mut buffer = Vec::new();
        let first = file.read(&mut buffer).unwrap().into_owned();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_ne!(file.read(&mut buffer).unwrap(), first);
    }

    #[test]
    fn errors_name_the_file() {
        let error = PinnedProcFile::open("/nonexistent/stat").unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/stat: "), "{error}");
        let file = PinnedProcFile::open("/proc/self").unwrap();
        let error = file.read(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("/proc/self: "), "{error}");
    }
}
