//! Which descriptors are files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Maximum number of descriptors looked up between two calls of [`FileTable::forget`]; others count as files.
const LOOKUPS_MAX: usize = 1024;

/// Descriptors of processes, looked up once until [`FileTable::forget`]: their numbers are reused.
#[derive(Debug)]
pub(super) struct FileTable {
    proc_root: PathBuf,
    sys_root: PathBuf,
    known: HashMap<(i32, u32), bool>,
}

impl FileTable {
    pub fn new(proc_root: &Path, sys_root: &Path) -> Self {
        let (proc_root, sys_root) = (proc_root.to_path_buf(), sys_root.to_path_buf());
        Self { proc_root, sys_root, known: HashMap::new() }
    }

    /// Whether a descriptor is a regular file or a block device, according to its path: a file system may hang, so it
    /// is not accessed. A closed descriptor counts as a file.
    pub fn is_file(&mut self, pid: i32, fd: u32) -> bool {
        if let Some(known) = self.known.get(&(pid, fd)) {
            return *known;
        }
        if self.known.len() >= LOOKUPS_MAX {
            return true;
        }
        let link = std::fs::read_link(self.proc_root.join(format!("{pid}/fd/{fd}")));
        let is_file = link.is_ok_and(|path| self.is_path_of_file(&path)) || !self.is_open(pid, fd);
        self.known.insert((pid, fd), is_file);
        is_file
    }

    fn is_open(&self, pid: i32, fd: u32) -> bool {
        self.proc_root.join(format!("{pid}/fd/{fd}")).symlink_metadata().is_ok()
    }

    /// `socket:[1]`, `pipe:[1]` and `anon_inode:[eventpoll]` are not paths.
    fn is_path_of_file(&self, path: &Path) -> bool {
        let is_pseudo = path.starts_with("/proc") || path.starts_with("/sys");
        let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
        let is_block = || {
            let name = path.file_name().unwrap_or_default();
            let is_mapped = path.starts_with("/dev/mapper");
            is_mapped || self.sys_root.join("class/block").join(name).exists()
        };
        path.is_absolute() && !is_pseudo && (!is_device || is_block())
    }

    pub fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn sockets_pipes_and_terminals_are_no_files() {
        let (proc, sys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = proc.path().join("7/fd");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::create_dir_all(sys.path().join("class/block/vda")).unwrap();
        let targets = [
            ("/var/lib/db", true),
            ("/var/lib/db (deleted)", true),
            ("/dev/vda", true),
            ("/dev/shm/x", true),
            ("/dev/mapper/root", true),
            ("/dev/null", false),
            ("/dev/pts/0", false),
            ("/proc/self/stat", false),
            ("socket:[12]", false),
            ("pipe:[12]", false),
            ("anon_inode:[eventfd]", false),
        ];
        let mut files = FileTable::new(proc.path(), sys.path());
        for (fd, (target, wanted)) in targets.iter().enumerate() {
            symlink(target, dir.join(fd.to_string())).unwrap();
            assert_eq!(files.is_file(7, fd as u32), *wanted, "{target}");
        }
        assert!(files.is_file(7, 99), "closed by now");
        std::fs::remove_file(dir.join("8")).unwrap();
        assert!(!files.is_file(7, 8), "looked up once");
        files.forget();
        assert!(files.is_file(7, 8));
    }
}
