//! Targets of the tools: files, loop and zram devices, and the disk of a file.

use crate::Result;
use crate::run::Background;
use fathom_watch::disks::{DiskSnapshot, NamedDisks};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::NamedTempFile;

pub enum Fixture {
    File(PathBuf),
    Loop(Loop),
    Zram(Zram),
    Threads(#[expect(dead_code, reason = "ends them when dropped")] Background),
}

impl Fixture {
    pub fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Loop(Loop { path, .. }) | Self::Zram(Zram { path, .. }) => {
                path
            }
            Self::Threads(_) => Path::new("/proc"),
        }
    }

    pub fn permission(&self) -> Option<String> {
        let path = self.path().display();
        if matches!(self, Self::File(_)) {
            return Some(format!("--overwrite={path}"));
        }
        // Loop devices and zram have no serial number; what other tools wrote is not blank.
        let size = File::open(self.path()).and_then(|mut device| device.seek(SeekFrom::End(0)));
        Some(format!("--erase={path}@{}", size.ok()?))
    }

    /// Reads the file into the page cache, before each run.
    pub fn warm(&self) -> Result<()> {
        if let Self::Loop(device) = self {
            std::io::copy(&mut device.backing.reopen()?, &mut std::io::sink())?;
        }
        Ok(())
    }
}

pub fn sparse(path: &Path, size: u64) -> Result<()> {
    File::create_new(path)?.set_len(size).map_err(|error| {
        format!("{}: a sparse file of {} GiB: {error}", path.display(), size >> 30).into()
    })
}

/// Creates a file with `size` bytes of data on disk.
pub fn filled(path: &Path, size: u64) -> Result<()> {
    fill(&File::create_new(path)?, size)
}

fn fill(mut file: &File, size: u64) -> Result<()> {
    const CHUNK: usize = 1 << 20;
    let mut chunk = vec![0; CHUNK];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut left = size;
    while left > 0 {
        for word in chunk.as_chunks_mut::<8>().0 {
            // Marsaglia's xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state.to_ne_bytes();
        }
        let take = left.min(CHUNK as u64) as usize;
        file.write_all(&chunk[..take])?;
        left -= take as u64;
    }
    Ok(file.sync_all()?)
}

/// A loop device with a backing file of its own, because detaching can take a while; removed on drop.
pub struct Loop {
    path: PathBuf,
    backing: NamedTempFile,
}

impl Loop {
    pub fn new(dir: &Path, size: u64) -> Result<Self> {
        let backing = NamedTempFile::new_in(dir)?;
        fill(backing.as_file(), size)?;
        let output = losetup(&["--find", "--show"], backing.path())?;
        Ok(Self { path: PathBuf::from(output), backing })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(error) = losetup(&["--detach"], &self.path) {
            eprintln!("xtask: {} is still in use: {error}", self.path.display());
        }
    }
}

fn losetup(options: &[&str], path: &Path) -> Result<String> {
    let output = Command::new("losetup").args(options).arg(path).output();
    let output = output.map_err(|error| format!("losetup: {error}; it is in util-linux"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// A zram device, filled with incompressible data; removed on drop.
pub struct Zram {
    number: u32,
    path: PathBuf,
}

const CONTROL: &str = "/sys/class/zram-control";

impl Zram {
    pub fn new(size: u64) -> Result<Self> {
        let number = std::fs::read_to_string(format!("{CONTROL}/hot_add"))
            .map_err(|error| format!("{CONTROL}/hot_add: {error}; needs root and `modprobe zram`"))?
            .trim()
            .parse()?;
        let zram = Self { number, path: PathBuf::from(format!("/dev/zram{number}")) };
        zram.set("disksize", &size.to_string())?;
        fill(&OpenOptions::new().write(true).open(&zram.path)?, size)?;
        Ok(zram)
    }

    fn set(&self, attribute: &str, value: &str) -> Result<()> {
        let path = format!("/sys/block/zram{}/{attribute}", self.number);
        std::fs::write(&path, value).map_err(|error| format!("{path}: {error}").into())
    }

    fn release(&self) -> Result<()> {
        self.set("reset", "1")?;
        Ok(std::fs::write(format!("{CONTROL}/hot_remove"), self.number.to_string())?)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // udev may have the device open.
        for _ in 0..20 {
            if self.release().is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("xtask: {} is still in use; release it with zramctl -r", self.path.display());
    }
}

pub struct Disk {
    sampler: NamedDisks,
}

impl Disk {
    pub fn below(path: &Path) -> Result<Self> {
        let device = std::fs::metadata(path)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = format!("/sys/dev/block/{major}:{minor}");
        let sysfs = std::fs::canonicalize(&link).map_err(|_| {
            format!(
                "{} is not on a single block device; use --dir to choose another directory",
                path.display()
            )
        })?;
        let name = sysfs.file_name().and_then(|name| name.to_str()).ok_or("a nameless device")?;
        Ok(Self { sampler: NamedDisks::new(Path::new("/proc"), &[name.to_string()]) })
    }

    pub fn snapshot(&self) -> Result<DiskSnapshot> {
        Ok(self.sampler.snapshot()?)
    }

    /// The device's own mean time for a read since `then`, in nanoseconds.
    pub fn read_time_ns(&self, then: &DiskSnapshot) -> Result<f64> {
        let now = self.snapshot()?;
        let elapsed = now.at.saturating_duration_since(then.at);
        let records = fathom_analysis::derive::disk_records(&then.disks, &now.disks, elapsed);
        let record = records.first().ok_or("the disk is not in /proc/diskstats")?;
        if record.ios.read == 0 {
            return Err("the disk did no reads; memory served them".into());
        }
        Ok(record.ticks_ms.read as f64 * 1e6 / record.ios.read as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_as_long_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let (hole, data) = (dir.path().join("hole"), dir.path().join("data"));
        sparse(&hole, 1 << 30).unwrap();
        filled(&data, (1 << 20) + 5).unwrap();
        let hole = std::fs::metadata(hole).unwrap();
        assert_eq!((hole.len(), hole.blocks()), (1 << 30, 0));
        let bytes = std::fs::read(data).unwrap();
        assert_eq!(bytes.len(), (1 << 20) + 5);
        assert_ne!(bytes[..4096], bytes[4096..8192]);
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "mine").unwrap();
        assert!(sparse(file.path(), 1).is_err() && filled(file.path(), 1).is_err());
        assert_eq!(std::fs::read(file.path()).unwrap(), b"mine");
    }
}
