//! Directories held by descriptor. All files of results and records are opened and removed through one, so that symbolic
//! links are never followed, and only regular files are opened.

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, fstat,
    fsync, mkdirat, openat, renameat, stat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Private, because records contain thread names and command lines of all users.
const PRIVATE_DIR: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
/// O_NONBLOCK, in case the file was replaced by a FIFO.
const FILE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// Why nothing is created below /dev, where names belong to devices.
const UNDER_DEV: &str = "fathom creates no files under /dev";
/// Prefix and suffix of temporary names, with 16 hexadecimal digits in between.
const TEMPORARY: (&str, &str) = (".fathom-", ".part");

/// A directory that is held open. Errors name the file, as `path/name: reason`.
pub struct HeldDir {
    fd: OwnedFd,
    path: PathBuf,
}

/// Directories that were created. Those still empty are removed when this is dropped.
#[derive(Default)]
pub struct CreatedDirs(Vec<(OwnedFd, OsString)>);

impl CreatedDirs {
    pub fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for CreatedDirs {
    fn drop(&mut self) {
        for (parent, name) in self.0.drain(..).rev() {
            // Fails if it is no longer empty, which is right.
            let _ = unlinkat(parent, &name, AtFlags::REMOVEDIR);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    Owner,
    Umask,
}

impl HeldDir {
    /// Opens the directory `path`, following links; an empty path is the working directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = openat(CWD, at, DIRECTORY, Mode::empty()).map_err(|e| with_path(path, e))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    /// This directory, to create files in it.
    pub fn to_write(self) -> io::Result<Self> {
        refuse_dev(&self.fd).map_err(|e| with_path(&self.path, e))?;
        Ok(self)
    }

    /// Checks that [`HeldDir::make_all`] may create `path`.
    pub fn check_new(path: &Path) -> io::Result<()> {
        Self::open(existing(path))?.to_write().map(drop)
    }

    /// Opens the directory `path`, creating it and its missing parents with mode 0700.
    pub fn make_all(path: &Path) -> io::Result<(Self, CreatedDirs)> {
        let mut made = CreatedDirs::default();
        let there = existing(path);
        let missing = path.strip_prefix(there).unwrap_or(path);
        if missing.as_os_str().is_empty() {
            return Ok((Self::open(path)?.to_write()?, made));
        }
        let at = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        // Parent directories need not be readable.
        let way = DIRECTORY | OFlags::PATH;
        let mut fd = openat(CWD, at, way, Mode::empty()).map_err(|e| with_path(path, e))?;
        refuse_dev(&fd).map_err(|e| with_path(path, e))?;
        for component in missing.components() {
            let name = match component {
                Component::CurDir => continue,
                component => component.as_os_str(),
            };
            let is_own = match mkdirat(&fd, name, PRIVATE_DIR) {
                Ok(()) => true,
                // Another fathom made it meanwhile.
                Err(Errno::EXIST) => false,
                Err(error) => return Err(with_path(path, error)),
            };
            let inner = openat(&fd, name, way | OFlags::NOFOLLOW, Mode::empty());
            if is_own {
                made.0.push((fd, name.to_os_string()));
            }
            fd = inner.map_err(|e| with_path(path, e))?;
        }
        let fd = openat(&fd, ".", DIRECTORY, Mode::empty()).map_err(|e| with_path(path, e))?;
        Ok((Self { fd, path: path.to_path_buf() }, made))
    }

    /// Creates the directory `name` in this one, with mode 0700.
    pub fn make_dir(&self, name: &str) -> io::Result<Self> {
        mkdirat(&self.fd, name, PRIVATE_DIR).map_err(|e| self.error(name, e))?;
        self.dir(name)
    }

    pub fn dir(&self, name: &str) -> io::Result<Self> {
        let fd = openat(&self.fd, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        Ok(Self { fd: fd.map_err(|e| self.error(name, e))?, path: self.path.join(name) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let fail = |error: Errno| with_path(&self.path, error);
        let entries = rustix::fs::Dir::read_from(&self.fd).map_err(fail)?;
        let name = move |entry: rustix::io::Result<rustix::fs::DirEntry>| {
            Ok(OsString::from_vec(entry.map_err(fail)?.file_name().to_bytes().to_vec()))
        };
        Ok(entries.map(name).filter(|name| {
            !name.as_ref().is_ok_and(|name| name == OsStr::new(".") || name == OsStr::new(".."))
        }))
    }

    /// The status of the regular file `name`; `None` if it does not exist.
    pub fn regular(&self, name: impl AsRef<Path>) -> io::Result<Option<Stat>> {
        let name = name.as_ref();
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => self.only_regular(name, found).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error(name, error)),
        }
    }

    fn only_regular(&self, name: &Path, found: Stat) -> io::Result<Stat> {
        let what = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => return Ok(found),
            FileType::Symlink => self.link(name),
            FileType::Directory => "a directory".into(),
            FileType::Fifo => "a FIFO".into(),
            FileType::Socket => "a socket".into(),
            FileType::CharacterDevice => "a character device".into(),
            FileType::BlockDevice => "a block device".into(),
            FileType::Unknown => "something unknown".into(),
        };
        let error = format!("this is {what}, not a regular file");
        Err(self.error(name, io::Error::new(io::ErrorKind::InvalidInput, error)))
    }

    fn link(&self, name: &Path) -> String {
        let path = self.path.join(name);
        let to = std::fs::canonicalize(&path).or_else(|_| std::fs::read_link(&path));
        to.map_or("a symbolic link".into(), |to| format!("a symbolic link to {}", to.display()))
    }

    pub fn open_file(&self, name: &str) -> io::Result<File> {
        // Opening some devices has side effects, so the kind is checked before, and again after in case it changed.
        self.regular(name)?.ok_or_else(|| self.error(name, Errno::NOENT))?;
        self.open_regular(name, FILE | OFlags::RDONLY)
    }

    /// Opens the regular file `name` for locking, or creates it.
    pub fn open_lock(&self, name: &str) -> io::Result<File> {
        self.regular(name)?;
        self.open_regular(name, FILE | OFlags::RDWR | OFlags::CREATE)
    }

    fn open_regular(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let fd = openat(&self.fd, name, flags, PRIVATE_FILE).map_err(|e| self.error(name, e))?;
        let found = fstat(&fd).map_err(|e| self.error(name, e))?;
        self.only_regular(Path::new(name), found)?;
        Ok(File::from(fd))
    }

    /// The contents of the regular file `name`, at most `bytes_max`.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name)?;
        let len = file.metadata().map_err(|e| self.error(name, e))?.len();
        let refuse = |len: u64| {
            let why = format!("it has {len} bytes, more than the limit of {bytes_max}");
            self.error(name, io::Error::new(io::ErrorKind::FileTooLarge, why))
        };
        if len > bytes_max {
            return Err(refuse(len));
        }
        let mut bytes = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|e| self.error(name, e))?;
        // It may grow while being read.
        if bytes.len() as u64 > bytes_max { Err(refuse(bytes.len() as u64)) } else { Ok(bytes) }
    }

    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = FILE | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let fd = openat(&self.fd, name, flags, PRIVATE_FILE).map_err(|e| self.error(name, e))?;
        Ok(File::from(fd))
    }

    /// Creates the file `name`, or opens an existing one, to append to it; whether it is new.
    pub fn create_or_append(&self, name: impl AsRef<Path>) -> io::Result<(File, bool)> {
        let name = name.as_ref();
        let flags = FILE | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        match openat(&self.fd, name, flags, Mode::from_raw_mode(0o666)) {
            Ok(fd) => Ok((File::from(fd), true)),
            Err(Errno::EXIST) => Ok((self.append(name)?, false)),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Opens the existing file `name` to append to it.
    pub fn append(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let name = name.as_ref();
        self.regular(name)?;
        let flags = FILE | OFlags::WRONLY | OFlags::APPEND;
        let fd = openat(&self.fd, name, flags, Mode::empty()).map_err(|e| self.error(name, e))?;
        Ok(File::from(fd))
    }

    /// Replaces the file `name` atomically, once the new one is on disk. The mode of an existing file is kept, and its owner
    /// if permitted.
    pub fn replace(&self, name: impl AsRef<Path>, contents: &[u8], new: Readers) -> io::Result<()> {
        self.replace_with(name, new, |file| file.write_all(contents))
    }

    /// The same without waiting for a disk, for contents that are soon replaced again.
    pub fn publish(&self, name: impl AsRef<Path>, contents: &[u8], new: Readers) -> io::Result<()> {
        self.put(name, new, false, |file| file.write_all(contents))
    }

    /// Like [`HeldDir::replace`], with the contents that `write` writes to the new file.
    pub fn replace_with(
        &self,
        name: impl AsRef<Path>,
        new: Readers,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        self.put(name, new, true, write)
    }

    fn put(
        &self,
        name: impl AsRef<Path>,
        new: Readers,
        is_durable: bool,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = name.as_ref();
        let before = self.regular(name)?;
        let readers = if before.is_some() { Readers::Owner } else { new };
        let replaced = || {
            let mut file = Temporary::new(self, readers)?;
            if let Some(before) = before {
                adopt(&file.file, &before)?;
            }
            write(&mut file.file)?;
            if is_durable {
                file.file.sync_all()?;
            }
            renameat(&self.fd, &file.name, &self.fd, name)?;
            file.name.clear();
            // Without this, the name may be lost in a crash.
            if is_durable { Ok(fsync(&self.fd)?) } else { Ok(()) }
        };
        replaced().map_err(|error: io::Error| self.error(name, error))
    }

    /// Moves the directory `name` into the directory `to` of the same file system, which must not have a file or a
    /// directory with contents of that name.
    pub fn move_dir(&self, name: &str, to: &Self) -> io::Result<()> {
        let moved = renameat(&self.fd, name, &to.fd, name).and_then(|()| fsync(&to.fd));
        moved.map_err(|e| to.error(name, e))
    }

    /// Whether [`HeldDir::replace`] can write `name`: an existing file is writable, and a file can be created.
    pub fn try_replace(&self, name: &Path) -> io::Result<()> {
        if self.regular(name)?.is_some() {
            accessat(&self.fd, name, Access::WRITE_OK, AtFlags::EACCESS)
                .map_err(|e| self.error(name, e))?;
        }
        Temporary::new(self, Readers::Owner).map(drop).map_err(|e| self.error(name, e))
    }

    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        unlinkat(&self.fd, name, AtFlags::empty()).map_err(|e| self.error(name, e))
    }

    pub fn remove_dir(&self, name: &str) -> io::Result<()> {
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR).map_err(|e| self.error(name, e))
    }

    fn error(&self, name: impl AsRef<Path>, error: impl Into<io::Error>) -> io::Error {
        with_path(&self.path.join(name), error)
    }
}

/// The longest part of `path` that exists.
fn existing(path: &Path) -> &Path {
    let there = path.ancestors().find(|dir| dir.as_os_str().is_empty() || dir.exists());
    there.unwrap_or(Path::new(""))
}

/// Refuses a directory that is /dev or below it, which includes /dev/shm: decided by the directories above the one that
/// is open, not by names.
fn refuse_dev(dir: &OwnedFd) -> io::Result<()> {
    let id = |stat: Stat| (stat.st_dev, stat.st_ino);
    let dev = match stat("/dev") {
        Ok(found) => id(found),
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let way = DIRECTORY | OFlags::PATH;
    let mut at = openat(dir, ".", way, Mode::empty())?;
    loop {
        let here = id(fstat(&at)?);
        if here == dev {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, UNDER_DEV));
        }
        at = match openat(&at, "..", way, Mode::empty()) {
            // Everybody may search /dev, so it is not below a directory that this user may not.
            Err(Errno::ACCESS) => return Ok(()),
            above => above?,
        };
        if id(fstat(&at)?) == here {
            return Ok(());
        }
    }
}

/// Whether a file of this name was left by a killed [`HeldDir::replace`].
pub fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(TEMPORARY.0).and_then(|rest| rest.strip_suffix(TEMPORARY.1));
    middle.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

pub fn with_path(path: &Path, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A new file with an unpredictable name. Deleted on drop unless renamed.
struct Temporary<'a> {
    dir: &'a HeldDir,
    name: String,
    file: File,
}

impl<'a> Temporary<'a> {
    fn new(dir: &'a HeldDir, readers: Readers) -> io::Result<Self> {
        let mode = match readers {
            Readers::Owner => PRIVATE_FILE,
            Readers::Umask => Mode::from_raw_mode(0o666),
        };
        // The standard library seeds every hasher from the system's randomness.
        let random = RandomState::new().build_hasher().finish();
        let name = format!("{}{random:016x}{}", TEMPORARY.0, TEMPORARY.1);
        let flags = FILE | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = File::from(openat(&dir.fd, &name, flags, mode)?);
        Ok(Self { dir, name, file })
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = unlinkat(&self.dir.fd, &self.name, AtFlags::empty());
        }
    }
}

/// Gives a file the mode of the one that it replaces, and its owner if permitted.
fn adopt(file: &File, before: &Stat) -> io::Result<()> {
    let own = fstat(file)?;
    if own.st_gid != before.st_gid {
        let _ = fchown(file, None, Some(Gid::from_raw(before.st_gid)));
    }
    if own.st_uid != before.st_uid {
        let _ = fchown(file, Some(Uid::from_raw(before.st_uid)), None);
    }
    // Results must not become set-user-ID programs.
    Ok(fchmod(file, Mode::from_raw_mode(before.st_mode & 0o777))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn directories_that_were_made_go_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/./b/c");
        let (dir, made) = HeldDir::make_all(&path).unwrap();
        dir.create("x").unwrap();
        drop(made);
        assert!(path.join("x").exists(), "what is in use stays");
        dir.remove_file("x").unwrap();
        fs::remove_dir_all(place.path().join("a")).unwrap();
        drop(HeldDir::make_all(&path).unwrap());
        assert!(!place.path().join("a").exists());
        fs::write(place.path().join("file"), "").unwrap();
        assert!(HeldDir::make_all(&place.path().join("new/../file/x")).is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_left_of_a_file_that_could_not_be_written() {
        let place = tempfile::tempdir().unwrap();
        let dir = HeldDir::open(place.path()).unwrap();
        fs::create_dir(place.path().join("name")).unwrap();
        let error = dir.replace("name", b"x", Readers::Owner).unwrap_err().to_string();
        assert!(error.contains("name: this is a directory"), "{error}");
        dir.try_replace(Path::new("new")).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        dir.replace("new", b"x", Readers::Owner).unwrap();
        assert_eq!(dir.read("new", 1).unwrap(), b"x");
        let error = dir.read("new", 0).unwrap_err().to_string();
        assert!(error.contains("new: it has 1 bytes, more than the limit of 0"), "{error}");
    }

    #[test]
    fn temporary_names_are_told_from_others() {
        let place = tempfile::tempdir().unwrap();
        let dir = HeldDir::open(place.path()).unwrap();
        let first = Temporary::new(&dir, Readers::Owner).unwrap();
        let second = Temporary::new(&dir, Readers::Owner).unwrap();
        assert!(is_temporary(&first.name) && first.name != second.name, "{}", first.name);
        for other in [".fathom-.part", ".fathom-0123456789abcdefg.part", "record.json.1.part"] {
            assert!(!is_temporary(other), "{other}");
        }
    }
}
