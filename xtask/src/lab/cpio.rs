//! Writes the archive that the kernel unpacks into its first root file system ("newc", as in
//! Documentation/driver-api/early-userspace/buffer-format.rst of the kernel).

use crate::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the making. Several of them one after the other are an archive, too.
#[derive(Default)]
pub struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, &[]);
    }

    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content);
    }

    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, content);
    }

    pub fn link(&mut self, name: &str, target: &str) {
        self.entry(name, LINK, target.as_bytes());
    }

    /// Everything below a directory for which `wanted` holds, under the name that it has there.
    pub fn tree(&mut self, root: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
        self.branch(root, "", wanted)
    }

    fn branch(&mut self, root: &Path, below: &str, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
        let mut entries: Vec<_> =
            fs::read_dir(root.join(below))?.collect::<std::io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = Path::new(below).join(entry.file_name()).to_string_lossy().into_owned();
            let meta = entry.metadata()?;
            if !wanted(&name) {
                continue;
            }
            if meta.is_dir() {
                self.directory(&name);
                self.branch(root, &name, wanted)?;
            } else if meta.is_symlink() {
                self.link(&name, &fs::read_link(entry.path())?.to_string_lossy());
            } else if meta.mode() & 0o111 != 0 {
                self.program(&name, &fs::read(entry.path())?);
            } else if meta.is_file() {
                self.file(&name, &fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let (inode, size, name_size) = (self.entries, content.len(), name.len() + 1);
        let head = format!(
            "070701{inode:08x}{mode:08x}{0:08x}{0:08x}{links:08x}{0:08x}{size:08x}\
             {0:08x}{0:08x}{0:08x}{0:08x}{name_size:08x}{0:08x}",
            0
        );
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_size_and_starts_at_a_multiple_of_four() {
        let mut cpio = Cpio::default();
        cpio.file("a", b"12345");
        cpio.link("bc", "a");
        let bytes = cpio.finish();
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|at| at % 4 == 0));
        assert_eq!(&text[54..62], "00000005");
        assert_eq!(&text[110..112], "a\0");
        assert_eq!(&text[112..117], "12345");
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"));
    }
}
